/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Looks through the memory of a process for the first secret of a file, its hexadecimal digits, and the TLS key that is
 * derived from it for a name: once in what a core would have, and once in what is marked as not to be dumped.
 *   core_look PID FILE NAME      prints "dumped N, kept out N"; tests/e2e/cmd_key.sh runs it
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/secret/secret.h"

#define NEEDLES 4

static struct needle {
	const char *what;
	unsigned char bytes[2 * RBLK_SECRET_BYTES + 1];
	size_t length;
} needles[NEEDLES] = {{.what = "the secret"}, {.what = "its digits"}, {.what = "the TLS key"}, {.what = "its digits"}};

static void needle_fill(unsigned int i, const unsigned char secret[RBLK_SECRET_BYTES])
{
	memcpy(needles[i].bytes, secret, RBLK_SECRET_BYTES);
	needles[i].length = RBLK_SECRET_BYTES;
	for (unsigned int j = 0; j < RBLK_SECRET_BYTES; j++)
		snprintf((char *)needles[i + 1].bytes + 2 * j, 3, "%02x", secret[j]);
	needles[i + 1].length = 2 * RBLK_SECRET_BYTES;
}

/* How many there are; names those that a core would have. */
static unsigned int look(int fd, uint64_t from, uint64_t to, const char *region, bool dumped)
{
	size_t bytes = (size_t)(to - from), got = 0;
	unsigned char *memory = malloc(bytes);
	unsigned int found = 0;

	/* What cannot be read (the kernel's own pages) cannot be dumped. */
	while (memory && got < bytes) {
		ssize_t more = pread(fd, memory + got, bytes - got, (off_t)(from + got));

		if (more <= 0)
			break;
		got += (size_t)more;
	}
	for (unsigned int i = 0; i < NEEDLES; i++) {
		const unsigned char *at = memory;

		while ((at = memmem(at, got - (size_t)(at - memory), needles[i].bytes, needles[i].length))) {
			if (dumped)
				fprintf(stderr, "%s (%u) is in %s\n", needles[i].what, i, region);
			found++;
			at++;
		}
	}
	free(memory);
	return found;
}

int main(int argc, char **argv)
{
	char error[RBLK_SECRET_ERROR_BYTES], path[64], line[512], name[RBLK_NAME_BYTES] = "", rights[8];
	char region[256] = "";
	uint64_t begin, end, from = 0, to = 0;
	unsigned int dumped = 0, kept = 0;
	unsigned char key[RBLK_SECRET_BYTES];
	struct rblk_secrets *secrets;
	FILE *maps;
	int fd;

	if (argc != 4)
		return 2;
	secrets = rblk_secrets_read(argv[2], error);
	if (!secrets) {
		fprintf(stderr, "%s: %s\n", argv[2], error);
		return 2;
	}
	snprintf(name, sizeof(name), "%s", argv[3]);
	needle_fill(0, rblk_secrets_bytes(secrets, 0));
	rblk_derive(secrets, 0, "rblk tls key 1", name, key);
	needle_fill(2, key);
	snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%s/smaps", argv[1]);
	maps = fopen(path, "re");
	if (fd < 0 || !maps) {
		perror(path);
		return 2;
	}
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %255[^\n]", &begin, &end, rights, region) >= 3) {
			from = begin;
			to = end;
		} else if (strncmp(line, "VmFlags:", 8) == 0) {
			bool out = strstr(line, " dd ") != NULL;
			/* A sanitizer's shadow memory is kept out, and has no end. */
			unsigned int found = out && to - from > 1u << 30 ? 0 : look(fd, from, to, region, !out);

			*(out ? &kept : &dumped) += found;
			region[0] = '\0';
		}
	}
	rblk_secrets_put(secrets);
	printf("dumped %u, kept out %u\n", dumped, kept);
	return 0;
}
