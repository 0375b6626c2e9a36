/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no file with secrets breaks its reader; what it takes are one to eight secrets that are in the file, and
 * what it says about any other quotes nothing of it. Method: the input is the file, in memory; each secret that was
 * read is looked for in it, as text, unless the file has some of NVMe's form.
 */
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "proto/secret/secret.h"

/* So many characters of a file in a message are no accident. */
#define QUOTE_BYTES 12

static int file_of(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("secrets", MFD_CLOEXEC);
		FUZZ_ASSERT(fd >= 0 && !fchmod(fd, 0600));
	}
	FUZZ_ASSERT(!ftruncate(fd, 0));
	FUZZ_ASSERT(pwrite(fd, data, size, 0) == (ssize_t)size);
	return fd;
}

static void check_secrets(const struct rblk_secrets *secrets, const uint8_t *data, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t fingerprint[RBLK_SECRET_FINGERPRINT];
	char text[RBLK_SECRET_TEXT_BYTES] = RBLK_SECRET_PREFIX;

	FUZZ_ASSERT(rblk_secrets_count(secrets) >= 1 && rblk_secrets_count(secrets) <= RBLK_SECRETS_MAX);
	for (unsigned int i = 0; i < rblk_secrets_count(secrets); i++) {
		const u8 *bytes = rblk_secrets_bytes(secrets, i);

		for (unsigned int k = 0; k < RBLK_SECRET_BYTES; k++) {
			text[6 + 2 * k] = digits[bytes[k] >> 4];
			text[7 + 2 * k] = digits[bytes[k] & 15];
		}
		FUZZ_ASSERT(memmem(data, size, text, strlen(text)) || memmem(data, size, "DHHC-1:0", 8));
		rblk_secrets_fingerprint(secrets, i, fingerprint);
		FUZZ_ASSERT(rblk_secrets_has(secrets, fingerprint));
	}
}

/* A message has a few words of its own, which an input may have, too: digits in a row it never has. */
static void check_error(const char *error, const uint8_t *data, size_t size)
{
	size_t length = strnlen(error, RBLK_SECRET_ERROR_BYTES);

	FUZZ_ASSERT(length && length < RBLK_SECRET_ERROR_BYTES);
	for (size_t i = 0; i < length; i++)
		FUZZ_ASSERT(error[i] >= ' ' && error[i] < 0x7f);
	for (size_t i = 0; i + QUOTE_BYTES <= length; i++)
		if (strspn(error + i, "0123456789abcdef") >= QUOTE_BYTES)
			FUZZ_ASSERT(!memmem(data, size, error + i, QUOTE_BYTES));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char error[RBLK_SECRET_ERROR_BYTES] = "", path[32];
	struct rblk_secrets *secrets;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_of(data, size));
	secrets = rblk_secrets_read(path, error);
	if (secrets)
		check_secrets(secrets, data, size);
	else
		check_error(error, data, size);
	rblk_secrets_put(secrets);
	return 0;
}
