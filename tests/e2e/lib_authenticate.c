/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: with a key file, the library trusts no target that does not prove that it has the secret, and
 * sends such a target nothing but AUTHENTICATE. Method: a scripted target that does not know the command,
 * answers it without a proof, or with a wrong one; the words, and what commands came.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/e2e/fake_target.h"

#define KEY "e2e-lib-authenticate.key"

static struct rblk_wire_authenticate reports[2]; /* of step 1 and 2 */
static unsigned int steps;
static enum rblk_status refusal;

static enum fake_answer answer(struct fake_target *fake, const struct rblk_wire_command *command,
			       struct rblk_wire_completion *completion)
{
	if (command->opcode != RBLK_OP_AUTHENTICATE)
		return FAKE_REPLY;
	completion->status = rblk_to_le16((u16)refusal);
	if (refusal == RBLK_E_DENIED)
		completion->result = rblk_to_le64(RBLK_DENIED_PROOF);
	if (!refusal && steps < 2)
		fake_target_report(fake, command, &reports[steps], sizeof(reports[steps]));
	steps++;
	return FAKE_REPLY;
}

static void expect_refused(const char *words)
{
	struct fake_script script = {.command = answer};
	struct fake_target *fake = fake_target_start(&script);
	struct rblk_options options = fake_target_options();
	char text[RBLK_ERROR_BYTES] = "";

	options.initiator_name = "db1";
	options.key_file = KEY;
	steps = 0;
	errno = 0;
	assert_null(rblk_session_open(fake_target_uri(fake), &options, text));
	if (!strstr(text, words))
		fail_msg("\"%s\" lacks \"%s\"", text, words);
	assert_non_null(strstr(text, "authentication as \"db1\" failed"));
	assert_int_equal(errno, EACCES);
	assert_int_equal(fake_target_seen(fake, RBLK_OP_IDENTIFY), 0);
	assert_int_equal(fake_target_seen(fake, RBLK_OP_OPEN), 0);
	fake_target_stop(fake);
}

static int begin(void **state)
{
	FILE *file = fopen(KEY, "w");

	(void)state;
	assert_non_null(file);
	fputs("rblk1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", file);
	assert_int_equal(fchmod(fileno(file), 0600), 0);
	fclose(file);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(KEY);
	return 0;
}

/* As a right target answers, but for the proof. */
static int reports_reset(void **state)
{
	(void)state;
	refusal = RBLK_OK;
	memset(reports, 0, sizeof(reports));
	for (unsigned int i = 0; i < 2; i++) {
		reports[i].step = rblk_to_le32(i + 1);
		reports[i].nonce[0] = 7;
		strcpy(reports[i].name, "db1");
	}
	return 0;
}

static void a_target_that_does_not_know_it(void **state)
{
	(void)state;
	refusal = RBLK_E_UNSUPPORTED;
	expect_refused("the target cannot prove that it has the secret");
	refusal = RBLK_E_INVALID;
	expect_refused("the target cannot prove that it has the secret");
	refusal = RBLK_E_DENIED;
	expect_refused("the target has another secret for this initiator's name, or none");
}

static void a_target_without_a_proof(void **state)
{
	(void)state;
	expect_refused("the target did not prove that it has the secret");
	assert_int_equal(steps, 2);
	memset(reports[1].proof, 0x5a, sizeof(reports[1].proof));
	expect_refused("the target did not prove that it has the secret");
}

static void answers_of_another_exchange(void **state)
{
	(void)state;
	memset(&reports[0], 0, sizeof(reports[0]));
	expect_refused("the target's answer is malformed");
	reports_reset(NULL);
	reports[0].step = rblk_to_le32(2);
	expect_refused("the target's answer is malformed");
	reports_reset(NULL);
	reports[0].name[0] = 'x';
	expect_refused("the target's answer is malformed");
	reports_reset(NULL);
	reports[1].nonce[0] = 8;
	expect_refused("the target's answer is malformed");
	reports_reset(NULL);
	reports[1].reserved1[3] = 1;
	expect_refused("the target's answer is malformed");
}

static void keys_that_cannot_be_used(void **state)
{
	struct rblk_options options = fake_target_options();
	char text[RBLK_ERROR_BYTES];

	(void)state;
	options.key_file = "e2e-no.key";
	errno = 0;
	assert_null(rblk_session_open("rblk+tcp://127.0.0.1:1/v", &options, text));
	assert_string_equal(text, "key file e2e-no.key: No such file or directory");
	assert_int_equal(errno, ENOENT);
	assert_int_equal(chmod(KEY, 0644), 0);
	options.key_file = KEY;
	assert_null(rblk_session_open("rblk+tcp://127.0.0.1:1/v", &options, text));
	assert_non_null(strstr(text, KEY ": has mode 0644: others than its owner could use it"));
	assert_int_equal(errno, EKEYREJECTED);
	assert_int_equal(chmod(KEY, 0600), 0);
}

/* As many as a program wants, and OpenSSL's secure heap stays the program's. */
static void many_sessions_have_one(void **state)
{
	struct rblk_options options = fake_target_options();
	struct rblk_session *sessions[100];
	char text[RBLK_ERROR_BYTES] = "";

	(void)state;
	options.key_file = KEY;
	for (unsigned int i = 0; i < 100; i++) {
		sessions[i] = rblk_session_start("rblk+tcp://127.0.0.1:1/v", &options, text);
		if (!sessions[i])
			fail_msg("session %u: %s", i, text);
	}
	assert_int_equal(CRYPTO_secure_malloc_initialized(), 0);
	for (unsigned int i = 0; i < 100; i++)
		rblk_session_close(sessions[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_target_that_does_not_know_it, reports_reset),
		cmocka_unit_test_setup(a_target_without_a_proof, reports_reset),
		cmocka_unit_test_setup(answers_of_another_exchange, reports_reset),
		cmocka_unit_test_setup(keys_that_cannot_be_used, reports_reset),
		cmocka_unit_test_setup(many_sessions_have_one, reports_reset),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
