/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session that cannot begin, because the target refuses it or is not there, fails in time
 * with an errno and words that name the cause. Method: a scripted target in a thread
 * (fake_target.h), or a socket without a server. lib_violations.c tests invalid acceptances.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "initiator/rblk.h"
#include "tests/e2e/fake_target.h"

static void assert_words(const char *words, const char *expected)
{
	if (!strstr(words, expected))
		fail_msg("\"%s\" lacks \"%s\"", words, expected);
}

static void expect_refused(struct fake_script *script, int error, const char *words)
{
	struct fake_target *fake = fake_target_start(script);
	struct rblk_options options = fake_target_options();
	char text[RBLK_ERROR_BYTES] = "";
	struct rblk_session *session;

	errno = 0;
	session = rblk_session_open(fake_target_uri(fake), &options, text);
	assert_null(session);
	assert_words(text, words);
	assert_words(text, "127.0.0.1:");
	assert_int_equal(errno, error);
	fake_target_stop(fake);
}

static void refusals_give_the_targets_reason(void **state)
{
	struct fake_script script = { .reject = { .magic = rblk_to_le32(RBLK_MAGIC),
						  .version = rblk_to_le16(RBLK_PROTOCOL_VERSION) } };

	script.reject.reason = rblk_to_le16(RBLK_REJECT_DRAINING);
	expect_refused(&script, ESHUTDOWN, "login refused: the target is shutting down");
	script.reject.reason = rblk_to_le16(RBLK_REJECT_DENIED);
	expect_refused(&script, EACCES, "login refused: the target does not allow this address");
	script.reject.detail = rblk_to_le32(RBLK_DENIED_ADDRESS);
	expect_refused(&script, EACCES, "login refused: no access rule of the target is for this");
	script.reject.detail = rblk_to_le32(RBLK_DENIED_MAX); /* of a newer target */
	expect_refused(&script, EACCES, "login refused: not allowed");
	script.reject.reason = rblk_to_le16(RBLK_REJECT_QUEUE_COUNT);
	script.reject.detail = rblk_to_le32(3);
	expect_refused(&script, EOPNOTSUPP, "(1 asked for, 3 allowed)");
	script.reject.reason = rblk_to_le16(RBLK_REJECT_FEATURES);
	script.reject.detail = rblk_to_le32(RBLK_FEATURE_EVENTS | RBLK_FEATURE_EXTENTS);
	expect_refused(&script, EOPNOTSUPP, "(events, extents)");
	script.reject.reason = rblk_to_le16(RBLK_REJECT_VERSION);
	script.reject.version = rblk_to_le16(3);
	script.reject.detail = rblk_to_le32(3);
	expect_refused(&script, EOPNOTSUPP, "login refused: protocol 2, this target speaks 3");
}

static void refusals_without_a_reason(void **state)
{
	struct fake_script script = { .reject_silent = true };

	expect_refused(&script, ECONNREFUSED, "login refused without a reason");
	script.reject_silent = false;
	script.reject.reason = rblk_to_le16(1); /* no magic number */
	expect_refused(&script, ECONNREFUSED, "not rblk");
}

static enum fake_answer deny_identify(struct fake_target *fake,
				      const struct rblk_wire_command *command,
				      struct rblk_wire_completion *completion)
{
	completion->status = rblk_to_le16(RBLK_E_DENIED);
	return FAKE_REPLY;
}

static enum fake_answer close_always(struct fake_target *fake,
				     const struct rblk_wire_command *command,
				     struct rblk_wire_completion *completion)
{
	return FAKE_CLOSE;
}

static void naming_can_fail(void **state)
{
	struct fake_script script = { .command = deny_identify };

	expect_refused(&script, EACCES, "refused: not allowed");
	script.command = close_always;
	expect_refused(&script, ECONNRESET, "connection lost");
}

/* A socket that is bound and, if `listening`, listens but never accepts. */
static int dead_socket(bool listening, char *uri, size_t bytes)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	if (listening)
		assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	snprintf(uri, bytes, "rblk+tcp://127.0.0.1:%u/disk", ntohs(address.sin_port));
	return fd;
}

static void nobody_there(void **state)
{
	char uri[64], text[RBLK_ERROR_BYTES] = "";
	int fd = dead_socket(false, uri, sizeof(uri));

	errno = 0;
	assert_null(rblk_session_open(uri, NULL, text));
	assert_int_equal(errno, ECONNREFUSED);
	assert_words(text, "127.0.0.1:");
	close(fd);
	assert_null(rblk_session_open("rblk+tcp://127.0.0.1:x/", NULL, text));
	assert_int_equal(errno, EINVAL);
	assert_words(text, "the port must be");
}

static void nobody_answers(void **state)
{
	struct rblk_options options = fake_target_options();
	char uri[64], text[RBLK_ERROR_BYTES] = "";
	int fd = dead_socket(true, uri, sizeof(uri));

	options.connect_timeout_ms = 200;
	errno = 0;
	assert_null(rblk_session_open(uri, &options, text));
	assert_int_equal(errno, ETIMEDOUT);
	assert_words(text, "127.0.0.1:");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals_give_the_targets_reason),
		cmocka_unit_test(refusals_without_a_reason),
		cmocka_unit_test(naming_can_fail),
		cmocka_unit_test(nobody_there),
		cmocka_unit_test(nobody_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
