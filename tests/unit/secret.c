/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: proofs are those of the specification's test vector, and every field that they are bound to
 * counts; files with secrets are read strictly, and messages never quote them. Method: the vector is
 * read from the specification's text; one change at a time.
 */
#include "tests/unit/unit.h"
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "proto/core/proof.h"
#include "proto/secret/secret.h"

#define FILE_NAME "unit-secret.key"
#define VECTOR "rblk1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER "rblk1:ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static struct rblk_secrets *read_text(const char *text, mode_t mode, char *error)
{
	struct rblk_secrets *secrets;

	unit_file_write(FILE_NAME, "%s", text);
	assert_int_equal(chmod(FILE_NAME, mode), 0);
	secrets = rblk_secrets_read(FILE_NAME, error);
	unlink(FILE_NAME);
	return secrets;
}

static struct rblk_secrets *must_read(const char *text)
{
	char error[RBLK_SECRET_ERROR_BYTES] = "";
	struct rblk_secrets *secrets = read_text(text, 0600, error);

	if (!secrets)
		fail_msg("%s", error);
	return secrets;
}

/* The test vector's. */
static void vector_fill(struct rblk_wire_proof *proof)
{
	struct rblk_wire_accept accept;
	struct rblk_wire_login login;

	for (u8 i = 0; i < sizeof(login); i++)
		((u8 *)&login)[i] = i;
	for (u8 i = 0; i < sizeof(accept); i++)
		((u8 *)&accept)[i] = (u8)(100 + i);
	core_proof_begin(proof, &login, &accept, NULL);
	for (u8 i = 0; i < RBLK_NONCE_BYTES; i++) {
		proof->initiator_nonce[i] = (u8)(160 + i);
		proof->target_nonce[i] = (u8)(192 + i);
	}
	strcpy(proof->name, "db1");
}

/* "| I | 2c3f... |" of the specification. */
static void specified(char role, u8 bytes[RBLK_PROOF_BYTES])
{
	FILE *file = fopen(RBLK_SPECIFICATION, "r");
	char line[2048], start[8];

	assert_non_null(file);
	snprintf(start, sizeof(start), "| %c | ", role);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, start, 6) && strspn(line + 6, "0123456789abcdef") == 64)
			break;
	assert_false(feof(file));
	fclose(file);
	for (unsigned int i = 0; i < RBLK_PROOF_BYTES; i++) {
		const char digits[3] = {line[6 + 2 * i], line[7 + 2 * i], 0};

		bytes[i] = (u8)strtoul(digits, NULL, 16);
	}
}

static void proofs_are_the_specifications(void **state)
{
	struct rblk_secrets *secrets = must_read(VECTOR "\n");
	u8 right[RBLK_PROOF_BYTES], proof[RBLK_PROOF_BYTES];
	struct rblk_wire_proof about;

	(void)state;
	vector_fill(&about);
	for (const char *role = "IT"; *role; role++) {
		specified(*role, right);
		rblk_prove(secrets, 0, &about, (u8)*role, proof);
		assert_memory_equal(proof, right, sizeof(right));
		assert_int_equal(rblk_proof_find(secrets, &about, (u8)*role, right), 0);
	}
	rblk_secrets_put(secrets);
}

/* A proof is right for exactly what it was made for: every bit of it, the role and the secret count. */
static void everything_counts(void **state)
{
	struct rblk_secrets *secrets = must_read(VECTOR "\n"), *other = must_read(OTHER "\n");
	struct rblk_wire_proof about, changed;
	u8 proof[RBLK_PROOF_BYTES], none[RBLK_PROOF_BYTES] = {0};

	(void)state;
	vector_fill(&about);
	rblk_prove(secrets, 0, &about, 'I', proof);
	for (size_t i = 0; i < 8 * sizeof(about); i++) {
		if (i / 8 == offsetof(struct rblk_wire_proof, role))
			continue; /* the call sets it */
		changed = about;
		((u8 *)&changed)[i / 8] ^= (u8)(1u << i % 8);
		assert_int_equal(rblk_proof_find(secrets, &changed, 'I', proof), -1);
	}
	assert_int_equal(rblk_proof_find(secrets, &about, 'T', proof), -1);
	assert_int_equal(rblk_proof_find(other, &about, 'I', proof), -1);
	assert_int_equal(rblk_proof_find(NULL, &about, 'I', proof), -1);
	assert_int_equal(rblk_proof_find(secrets, &about, 'I', none), -1);
	for (size_t i = 0; i < 8 * sizeof(proof); i++) {
		proof[i / 8] ^= (u8)(1u << i % 8);
		assert_int_equal(rblk_proof_find(secrets, &about, 'I', proof), -1);
		proof[i / 8] ^= (u8)(1u << i % 8);
	}
	assert_int_equal(rblk_proof_find(secrets, &about, 'I', proof), 0);
	rblk_secrets_put(secrets);
	rblk_secrets_put(other);
}

static void several_are_valid_at_a_time(void **state)
{
	struct rblk_secrets *both = must_read("# old\n" OTHER "\n\n# new\n" VECTOR), *new, *joined;
	u8 proof[RBLK_PROOF_BYTES], fingerprint[RBLK_SECRET_FINGERPRINT];
	char error[RBLK_SECRET_ERROR_BYTES];
	struct rblk_wire_proof about;

	(void)state;
	assert_int_equal(rblk_secrets_count(both), 2);
	new = must_read(VECTOR "\n");
	vector_fill(&about);
	rblk_prove(new, 0, &about, 'I', proof);
	assert_int_equal(rblk_proof_find(both, &about, 'I', proof), 1);
	rblk_secrets_fingerprint(new, 0, fingerprint);
	assert_true(rblk_secrets_has(both, fingerprint));
	joined = rblk_secrets_join(NULL, both, error);
	rblk_secrets_put(both);
	both = rblk_secrets_join(joined, new, error);
	rblk_secrets_put(joined);
	assert_int_equal(rblk_secrets_count(both), 3);
	assert_memory_equal(rblk_secrets_bytes(both, 2), rblk_secrets_bytes(new, 0), RBLK_SECRET_BYTES);
	rblk_secrets_fingerprint(both, 0, fingerprint);
	assert_false(rblk_secrets_has(new, fingerprint));
	rblk_secrets_put(both);
	rblk_secrets_put(new);
}

static void files_are_read_strictly(void **state)
{
	static const struct {
		const char *text, *error;
	} wrong[] = {
		{"", "has no secret; \"rblk key new\" makes one"},
		{"# only a comment\n\n", "has no secret; \"rblk key new\" makes one"},
		{"0001\n", "line 1 is not a secret: it begins with none of rblk1: DHHC-1: NVMeTLSkey-1:"},
		{"\n" VECTOR "0\n", "line 2 is not a whole secret: rblk1: and 64 digits"},
		{"rblk1:0001\n", "line 1 is not a whole secret: rblk1: and 64 digits"},
		{VECTOR "\nrblk1:00010203040506070809XX0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
		 "line 2 has other characters than 0-9 and a-f"},
	};
	char error[RBLK_SECRET_ERROR_BYTES], text[9 * 72] = "";

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(wrong); i++) {
		assert_null(read_text(wrong[i].text, 0600, error));
		assert_string_equal(error, wrong[i].error);
	}
	for (unsigned int i = 0; i < 9; i++)
		strcat(text, VECTOR "\n");
	assert_null(read_text(text, 0600, error));
	assert_string_equal(error, "line 9 is one too many: the maximum is 8");
	for (mode_t right = 1; right <= 020; right *= 2) {
		assert_null(read_text(VECTOR "\n", 0600 | right, error));
		assert_non_null(strstr(error, "others than its owner could use it; chmod 600"));
	}
	assert_null(rblk_secrets_read("/dev/null", error));
	assert_string_equal(error, "is not a regular file");
	assert_null(rblk_secrets_read("unit-secret.none", error));
	assert_string_equal(error, "No such file or directory");
}

/* Of `bytes`, with a secret at its end. */
static struct rblk_secrets *read_long(size_t bytes, char *error)
{
	char *text = malloc(bytes + 1);
	struct rblk_secrets *secrets;

	assert_non_null(text);
	memset(text, '#', bytes);
	memcpy(text + bytes - strlen(VECTOR) - 1, "\n" VECTOR, strlen(VECTOR) + 2);
	secrets = read_text(text, 0600, error);
	free(text);
	return secrets;
}

/* Neither is any part of a file taken for the whole, nor one that another user could have written. */
static void odd_files_are_refused(void **state)
{
	char error[RBLK_SECRET_ERROR_BYTES] = "", text[sizeof(VECTOR)];
	struct rblk_secrets *secrets = read_long(4096, error);

	(void)state;
	assert_int_equal(rblk_secrets_count(secrets), 1);
	rblk_secrets_put(secrets);
	for (size_t bytes = 4097; bytes <= 1u << 20; bytes *= 16) {
		assert_null(read_long(bytes, error));
		assert_string_equal(error, "is longer than 4096 bytes");
	}
	/* Cut anywhere. */
	for (size_t length = 1; length < strlen(VECTOR); length++) {
		memcpy(text, VECTOR, length);
		text[length] = '\0';
		assert_null(read_text(text, 0600, error));
		assert_null(strstr(error, "0001"));
	}
	assert_null(read_text(VECTOR " " VECTOR "\n", 0600, error));
	assert_string_equal(error, "line 1 is not a whole secret: rblk1: and 64 digits");
	assert_null(rblk_secrets_read(".", error));
	assert_string_equal(error, "is not a regular file");
}

/* User 12345 has the name `service`; nobody has another number. */
static const char *service = "storage";

int __wrap_getpwuid_r(uid_t user, struct passwd *entry, char *buffer, size_t bytes, struct passwd **found);
int __wrap_getpwuid_r(uid_t user, struct passwd *entry, char *buffer, size_t bytes, struct passwd **found)
{
	*found = NULL;
	if (user != 12345)
		return 0;
	assert_true(bytes > strlen(service));
	strcpy(buffer, service);
	entry->pw_name = buffer;
	*found = entry;
	return 0;
}

/* As a container's platform gives them: 0440, of root and the group that the container's user is in. */
static void group_may_read_what_is_roots(void **state)
{
	char error[RBLK_SECRET_ERROR_BYTES] = "";
	struct rblk_secrets *secrets;

	(void)state;
	if (geteuid())
		skip();
	secrets = read_text(VECTOR "\n", 0440, error);
	if (!secrets)
		fail_msg("%s", error);
	rblk_secrets_put(secrets);
	assert_null(read_text(VECTOR "\n", 0460, error));
	assert_non_null(strstr(error, "chmod 600, or 640 for its group"));
	assert_null(read_text(VECTOR "\n", 0444, error));
}

static void another_users_file_is_refused(void **state)
{
	char error[RBLK_SECRET_ERROR_BYTES] = "";
	struct rblk_secrets *secrets;

	(void)state;
	if (geteuid())
		skip();
	unit_file_write(FILE_NAME, "%s", VECTOR "\n");
	assert_int_equal(chmod(FILE_NAME, 0600), 0);
	assert_int_equal(chown(FILE_NAME, 12345, 0), 0);
	assert_null(rblk_secrets_read(FILE_NAME, error));
	assert_string_equal(error, "belongs to user 12345, who could change it");
	/* But root takes those of the service's user. */
	service = "rblk";
	secrets = rblk_secrets_read(FILE_NAME, error);
	assert_non_null(secrets);
	rblk_secrets_put(secrets);
	assert_int_equal(chmod(FILE_NAME, 0640), 0);
	assert_null(rblk_secrets_read(FILE_NAME, error));
	assert_string_equal(error, "has mode 0640: others than its owner could use it; chmod 600");
	assert_int_equal(chmod(FILE_NAME, 0600), 0);
	service = "rblk2";
	assert_null(rblk_secrets_read(FILE_NAME, error));
	unlink(FILE_NAME);
}

static void new_secrets_differ(void **state)
{
	char text[2][RBLK_SECRET_TEXT_BYTES] = {"", ""};

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		FILE *file = fmemopen(text[i], sizeof(text[i]), "w");

		assert_non_null(file);
		assert_int_equal(rblk_secret_write_new(file), 0);
		fclose(file);
		rblk_secrets_put(must_read(text[i]));
	}
	assert_string_not_equal(text[0], text[1]);
}

/* Both texts are Python's: base64 and zlib, and hmac for what is derived. */
#define NVME_KEY "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR"

static void secrets_are_nvmes_too(void **state)
{
	static const struct {
		const char *text, *error;
	} wrong[] = {
		{"DHHC-1:", "line 1 is not a whole secret: DHHC-1:01: or NVMeTLSkey-1:01:, its base64 and a colon"},
		{"DHHC-1:01", "line 1 is not a whole secret: DHHC-1:01: or NVMeTLSkey-1:01:, its base64 and a colon"},
		{"DHHC-1:01:" NVME_KEY,
		 "line 1 is not a whole secret: DHHC-1:01: or NVMeTLSkey-1:01:, its base64 and a colon"},
		{"DHHC-1:01:" NVME_KEY "::", "line 1 has not the length of a secret of 32 bytes"},
		{"DHHC-1:01::", "line 1 has not the length of a secret of 32 bytes"},
		{"DHHC-1:00:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		 "AAAAAAAAAAAAAAAAlbOI8g==:", "line 1 has not the length of a secret of 32 bytes"},
		{"DHHC-1:02:" NVME_KEY ":", "line 1 is of another hash: 00: and 01: are known"},
		{"NVMeTLSkey-1:02:" NVME_KEY ":", "line 1 is of another hash: 00: and 01: are known"},
		{"NVMeTLSkey-1:01",
		 "line 1 is not a whole secret: DHHC-1:01: or NVMeTLSkey-1:01:, its base64 and a colon"},
		{"NVMeTLSkey-1:01:" NVME_KEY "A:", "line 1 has not the length of a secret of 32 bytes"},
		{"NVMeTLSkey-2:01:" NVME_KEY ":",
		 "line 1 is not a secret: it begins with none of rblk1: DHHC-1: NVMeTLSkey-1:"},
		{"DHHC-1:11:" NVME_KEY ":", "line 1 is of another hash: 00: and 01: are known"},
		{"DHHC-1:01:BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
		 "line 1 has another checksum: it was changed or cut"},
		{"DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaS:",
		 "line 1 has another checksum: it was changed or cut"},
		{"DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-KfiaR:",
		 "line 1 is no base64 of a secret of 32 bytes"},
		{"DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+Kfia=:",
		 "line 1 is no base64 of a secret of 32 bytes"},
	};
	struct rblk_secrets *secrets = must_read("DHHC-1:00:" NVME_KEY ":\n" OTHER "\nDHHC-1:01:" NVME_KEY
						 ":\nNVMeTLSkey-1:00:" NVME_KEY ":\nNVMeTLSkey-1:01:" NVME_KEY ":\n");
	struct rblk_secrets *vector = must_read(VECTOR "\n");
	char error[RBLK_SECRET_ERROR_BYTES], text[RBLK_NVME_TEXT_BYTES];

	(void)state;
	assert_int_equal(rblk_secrets_count(secrets), 5);
	for (unsigned int i = 0; i < 5; i += i ? 1 : 2)
		assert_memory_equal(rblk_secrets_bytes(secrets, i), rblk_secrets_bytes(vector, 0), RBLK_SECRET_BYTES);
	rblk_nvme_text(vector, RBLK_NVME_TLS, text);
	assert_string_equal(text, "NVMeTLSkey-1:01:" NVME_KEY ":");
	rblk_nvme_text(vector, RBLK_NVME_HOST, text);
	assert_string_equal(text, "DHHC-1:01:" NVME_KEY ":");
	rblk_nvme_text(vector, RBLK_NVME_TARGET, text);
	assert_string_equal(text, "DHHC-1:01:t8vQW6TkIvfxDj2ChdioIPbozmaDI0QogZ3A+3dTmT0rF4WT:");
	for (size_t i = 0; i < UNIT_LENGTH(wrong); i++) {
		assert_null(read_text(wrong[i].text, 0600, error));
		assert_string_equal(error, wrong[i].error);
	}
	rblk_secrets_put(secrets);
	rblk_secrets_put(vector);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proofs_are_the_specifications),
		cmocka_unit_test(everything_counts),
		cmocka_unit_test(several_are_valid_at_a_time),
		cmocka_unit_test(files_are_read_strictly),
		cmocka_unit_test(odd_files_are_refused),
		cmocka_unit_test(group_may_read_what_is_roots),
		cmocka_unit_test(another_users_file_is_refused),
		cmocka_unit_test(new_secrets_differ),
		cmocka_unit_test(secrets_are_nvmes_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
