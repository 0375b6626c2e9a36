/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One system call during which the kernel's Nth allocation fails, for jobs/kmod-faults.sh; needs a
 * kernel with fault injection. Nothing but that call is between the two accesses to fail-nth.
 *   fail_nth N control LINE        write LINE to the control device; its answer is printed
 *   fail_nth N write|read DEVICE   64 KiB at its beginning, O_DIRECT; a write is of bytes 0x5a
 * The first line of the output is "RESULT LEFT": 0 or the error number, and what N has come down to:
 * 0 where an allocation was made to fail. Exit status 0 whatever the result, 2 for anything else.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IO_BYTES (64u << 10)

static void fail(const char *what)
{
	fprintf(stderr, "fail_nth: %s: %s\n", what, strerror(errno));
	exit(2);
}

int main(int argc, char **argv)
{
	bool control = argc == 4 && !strcmp(argv[2], "control");
	bool out = argc == 4 && !strcmp(argv[2], "write");
	char left[16] = "", answer[512];
	void *data;
	int fd, faults;
	long done;

	if (argc != 4 || !(control || out || !strcmp(argv[2], "read"))) {
		fprintf(stderr, "usage: fail_nth N control|write|read WHAT\n");
		return 2;
	}
	faults = open("/proc/self/fail-nth", O_RDWR);
	if (faults < 0)
		fail("/proc/self/fail-nth: this kernel injects no faults");
	fd = open(control ? "/dev/rblk-control" : argv[3], O_RDWR | (control ? 0 : O_DIRECT));
	if (fd < 0)
		fail(control ? "/dev/rblk-control" : argv[3]);
	if (posix_memalign(&data, 4096, IO_BYTES))
		fail("memory");
	memset(data, 0x5a, IO_BYTES);

	if (pwrite(faults, argv[1], strlen(argv[1]), 0) < 0)
		fail("fail-nth");
	errno = 0;
	if (control)
		done = write(fd, argv[3], strlen(argv[3]));
	else
		done = out ? pwrite(fd, data, IO_BYTES, 0) : pread(fd, data, IO_BYTES, 0);
	if (done >= 0)
		errno = 0;
	done = errno;
	if (pread(faults, left, sizeof(left) - 1, 0) < 0 || pwrite(faults, "0", 1, 0) < 0)
		fail("fail-nth");

	printf("%ld %d\n", done, atoi(left));
	if (control) {
		ssize_t bytes = read(fd, answer, sizeof(answer));

		if (bytes < 0)
			fail("/dev/rblk-control");
		printf("%.*s", (int)bytes, answer);
	}
	return 0;
}
