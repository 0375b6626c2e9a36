/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Secrets: their memory, files and text. proof.c has what they prove. */
#include "proto/secret/secret_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX 4096
#define SERVICE "rblk" /* whom rblkd's service runs as (target/install/rblkd.sysusers) */

/* -- memory ------------------------------------------------------------------------------------ */

/*
 * A page for each, none of them OpenSSL's: its secure heap is one for the whole process, and a library that sets it up
 * decides for its host program how much there is.
 */
static struct rblk_secrets *secrets_alloc(void)
{
	struct rblk_secrets *secrets = mmap(NULL, RBLK_SECRETS_BYTES, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (secrets == MAP_FAILED)
		return NULL;
	/* As far as the limits and the kernel allow it. */
	(void)mlock(secrets, RBLK_SECRETS_BYTES);
	(void)madvise(secrets, RBLK_SECRETS_BYTES, MADV_DONTDUMP);
	(void)madvise(secrets, RBLK_SECRETS_BYTES, MADV_WIPEONFORK);
	atomic_init(&secrets->refs, 1);
	return secrets;
}

struct rblk_secrets *rblk_secrets_ref(struct rblk_secrets *secrets)
{
	if (secrets)
		atomic_fetch_add(&secrets->refs, 1);
	return secrets;
}

void rblk_secrets_put(struct rblk_secrets *secrets)
{
	if (!secrets || atomic_fetch_sub(&secrets->refs, 1) != 1)
		return;
	OPENSSL_cleanse(secrets, sizeof(*secrets));
	munmap(secrets, RBLK_SECRETS_BYTES);
}

unsigned int rblk_secrets_count(const struct rblk_secrets *secrets)
{
	return secrets ? secrets->count : 0;
}

const u8 *rblk_secrets_bytes(const struct rblk_secrets *secrets, unsigned int n)
{
	return secrets->list[n];
}

/* -- errors ------------------------------------------------------------------------------------ */

/* NULL, with errno, which formatting may change. */
static struct rblk_secrets *fault(char *error, int number, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static struct rblk_secrets *fault(char *error, int number, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, RBLK_SECRET_ERROR_BYTES, format, args);
	va_end(args);
	errno = number;
	return NULL;
}

static struct rblk_secrets *no_memory(char *error)
{
	return fault(error, ENOMEM, "no memory for secrets");
}

/* -- text -------------------------------------------------------------------------------------- */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One line without its end. Returns NULL, or words for what is wrong with it, which never say what it contains. */
static const char *line_parse(const char *line, size_t length, u8 secret[RBLK_SECRET_BYTES])
{
	const size_t prefix = strlen(RBLK_SECRET_PREFIX);

	if (rblk_nvme_is_text(line, length))
		return rblk_nvme_parse(line, length, secret);
	if (length < prefix || memcmp(line, RBLK_SECRET_PREFIX, prefix))
		return "is not a secret: it begins with none of " RBLK_SECRET_PREFIX " " RBLK_NVME_PREFIX
		       " " RBLK_NVME_TLS_PREFIX;
	if (length != prefix + 2 * RBLK_SECRET_BYTES)
		return "is not a whole secret: " RBLK_SECRET_PREFIX " and 64 digits";
	for (size_t i = 0; i < RBLK_SECRET_BYTES; i++) {
		int high = digit(line[prefix + 2 * i]), low = digit(line[prefix + 2 * i + 1]);

		if (high < 0 || low < 0)
			return "has other characters than 0-9 and a-f";
		secret[i] = (u8)(high << 4 | low);
	}
	return NULL;
}

static struct rblk_secrets *text_parse(const char *text, size_t length, char *error)
{
	struct rblk_secrets *secrets = secrets_alloc();
	unsigned int number = 0;

	if (!secrets)
		return no_memory(error);
	for (const char *end = text + length; text < end; number++) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t bytes = stop ? (size_t)(stop - text) : (size_t)(end - text);
		const char *line = text, *wrong = NULL;

		text += bytes + 1;
		while (bytes && (line[bytes - 1] == ' ' || line[bytes - 1] == '\r'))
			bytes--;
		if (!bytes || *line == '#')
			continue;
		if (secrets->count == RBLK_SECRETS_MAX)
			wrong = "is one too many: the maximum is 8";
		else
			wrong = line_parse(line, bytes, secrets->list[secrets->count]);
		if (wrong) {
			rblk_secrets_put(secrets);
			return fault(error, EKEYREJECTED, "line %u %s", number + 1, wrong);
		}
		secrets->count++;
	}
	if (secrets->count)
		return secrets;
	rblk_secrets_put(secrets);
	return fault(error, EKEYREJECTED, "has no secret; \"rblk key new\" makes one");
}

/* -- files ------------------------------------------------------------------------------------- */

/* Root looks after the service's files: it checks its configuration, and adds secrets. */
static bool user_is_service(uid_t user)
{
	struct passwd entry, *found = NULL;
	char buffer[1024];

	return getpwuid_r(user, &entry, buffer, sizeof(buffer), &found) == 0 && found &&
	       strcmp(found->pw_name, SERVICE) == 0;
}

static bool user_is_trusted(uid_t user)
{
	return !user || user == geteuid() || (!geteuid() && user_is_service(user));
}

/*
 * Its owner alone may use it. Where that is root, its group may read it, too: root has chosen the group, and
 * containers' platforms give secrets so (0440, and the group of the container's user).
 */
static bool mode_is_private(const struct stat *st)
{
	mode_t others = st->st_mode & 077;

	return !others || (!st->st_uid && others == S_IRGRP);
}

/* Tells what keeps the file from being secret, or false. */
static bool file_wrong(int fd, char *error)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		fault(error, errno, "%s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		fault(error, EKEYREJECTED, "is not a regular file");
	else if (!mode_is_private(&st))
		fault(error, EKEYREJECTED, "has mode %04o: others than its owner could use it; chmod 600%s",
		      (unsigned int)(st.st_mode & 07777), st.st_uid ? "" : ", or 640 for its group");
	else if (!user_is_trusted(st.st_uid))
		fault(error, EKEYREJECTED, "belongs to user %u, who could change it", (unsigned int)st.st_uid);
	else
		return false;
	return true;
}

struct rblk_secrets *rblk_secrets_read(const char *path, char *error)
{
	struct rblk_secrets *secrets = NULL;
	char text[FILE_BYTES_MAX + 1];
	ssize_t bytes;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return fault(error, errno, "%s", strerror(errno));
	if (!file_wrong(fd, error)) {
		bytes = read(fd, text, sizeof(text));
		if (bytes < 0)
			fault(error, errno, "%s", strerror(errno));
		else if (bytes > FILE_BYTES_MAX)
			fault(error, EKEYREJECTED, "is longer than %d bytes", FILE_BYTES_MAX);
		else
			secrets = text_parse(text, (size_t)bytes, error);
		OPENSSL_cleanse(text, sizeof(text));
	}
	close(fd);
	return secrets;
}

struct rblk_secrets *rblk_secrets_join(const struct rblk_secrets *before,
				       const struct rblk_secrets *after, char *error)
{
	unsigned int first = rblk_secrets_count(before), count = first + rblk_secrets_count(after);
	struct rblk_secrets *joined;

	if (count > RBLK_SECRETS_MAX)
		return fault(error, EKEYREJECTED, "more than %d secrets", RBLK_SECRETS_MAX);
	joined = secrets_alloc();
	if (!joined)
		return no_memory(error);
	if (before)
		memcpy(joined->list, before->list, first * sizeof(before->list[0]));
	if (after)
		memcpy(joined->list[first], after->list, after->count * sizeof(after->list[0]));
	joined->count = count;
	return joined;
}

int rblk_secret_write_new(FILE *out)
{
	struct rblk_secrets *secrets = secrets_alloc();
	int err = 0;

	if (!secrets)
		return -ENOMEM;
	if (RAND_priv_bytes(secrets->list[0], RBLK_SECRET_BYTES) != 1)
		err = -EIO;
	if (!err && fputs(RBLK_SECRET_PREFIX, out) < 0)
		err = -EIO;
	for (unsigned int i = 0; i < RBLK_SECRET_BYTES && !err; i++)
		if (fprintf(out, "%02x", secrets->list[0][i]) < 0)
			err = -EIO;
	if (!err && (fputc('\n', out) == EOF || fflush(out)))
		err = errno ? -errno : -EIO;
	rblk_secrets_put(secrets);
	return err;
}

void rblk_secrets_fingerprint(const struct rblk_secrets *secrets, unsigned int n,
			      u8 fingerprint[RBLK_SECRET_FINGERPRINT])
{
	u8 hash[SHA256_DIGEST_LENGTH];

	SHA256(secrets->list[n], RBLK_SECRET_BYTES, hash);
	memcpy(fingerprint, hash, RBLK_SECRET_FINGERPRINT);
}

bool rblk_secrets_has(const struct rblk_secrets *secrets,
		      const u8 fingerprint[RBLK_SECRET_FINGERPRINT])
{
	u8 one[RBLK_SECRET_FINGERPRINT];

	for (unsigned int i = 0; i < rblk_secrets_count(secrets); i++) {
		rblk_secrets_fingerprint(secrets, i, one);
		if (!memcmp(one, fingerprint, sizeof(one)))
			return true;
	}
	return false;
}
