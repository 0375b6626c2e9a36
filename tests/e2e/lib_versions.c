/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a program that was built with an older or a newer rblk.h than the library's works, unless
 * it asks for what the library does not have; and the library writes no byte beyond the struct that
 * the program has. Method: structs that end earlier or later than the library's, with a guard after
 * them.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

static struct e2e_daemon daemon_;

static int start(void **state)
{
	e2e_daemon_start(&daemon_, "--memory", "one=1M", "--memory", "two=2M", NULL);
	return 0;
}

static int stop(void **state)
{
	return e2e_daemon_stop(&daemon_);
}

static struct rblk_session *open_session(void)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_session *session = e2e_session_open(e2e_daemon_uri(&daemon_, "one"), &options);

	return session;
}

/* -- what a program gives ---------------------------------------------------------------------- */

struct future_options {
	struct rblk_options now;
	uint64_t more[4];
};

static struct rblk_session *open_future(struct future_options *options, char *error)
{
	error[0] = '\0';
	errno = 0;
	return rblk_session_open(e2e_daemon_uri(&daemon_, "one"), &options->now, error);
}

static void options_of_another_version(void **state)
{
	struct future_options options = { .now = { .size = sizeof(options), .credits = 7 } };
	char error[RBLK_ERROR_BYTES];
	struct rblk_session *session = open_future(&options, error);

	assert_non_null(session);
	assert_int_equal(rblk_session_credits(session), 7);
	rblk_session_close(session);

	options.more[3] = 1ull << 56; /* its very last byte */
	assert_null(open_future(&options, error));
	assert_int_equal(errno, E2BIG);
	assert_non_null(strstr(error, "does not know"));

	/* An older program does not set what lies after its size. */
	options.now.size = offsetof(struct rblk_options, initiator_name);
	options.now.initiator_name = "not/a/name";
	session = open_future(&options, error);
	assert_non_null(session);
	assert_int_equal(rblk_session_credits(session), 7);
	rblk_session_close(session);
}

/* Where a session may not publish: it does not begin; the words name the folder. */
static void statistics_that_cannot_be(void **state)
{
	static const struct {
		const char *statistics, *words;
	} rows[] = {
		{ "maybe", "options: statistics: maybe: is not yes, no, or the whole path of a folder" },
		{ "/no/such/folder", "options: statistics: /no/such/folder: No such file or directory" },
		{ "/proc/self/exe", "options: statistics: /proc/self/exe: Not a directory" },
	};
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_session *session;
	char error[RBLK_ERROR_BYTES];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		options.statistics = rows[i].statistics;
		assert_null(rblk_session_open(e2e_daemon_uri(&daemon_, "one"), &options, error));
		assert_string_equal(error, rows[i].words);
	}
	options.statistics = "no";
	session = rblk_session_open(e2e_daemon_uri(&daemon_, "one"), &options, error);
	assert_non_null(session);
	rblk_session_close(session);
}

static void options_without_a_size(void **state)
{
	static const size_t sizes[] = { 0, sizeof(size_t), 4097, SIZE_MAX };
	struct future_options options = { 0 };
	char error[RBLK_ERROR_BYTES];

	for (size_t i = 0; i < UNIT_LENGTH(sizes); i++) {
		options.now.size = sizes[i];
		assert_null(open_future(&options, error));
		assert_int_equal(errno, EINVAL);
		assert_non_null(strstr(error, "size"));
	}
}

/* -- what a program is given ------------------------------------------------------------------- */

/* Bytes [from, to) of `memory` are all `value`. */
static void assert_filled(const void *memory, size_t from, size_t to, uint8_t value)
{
	const uint8_t *bytes = memory;

	for (size_t i = from; i < to; i++)
		assert_int_equal(bytes[i], value);
}

static void stats_of_another_version(void **state)
{
	struct rblk_session *session = open_session();
	struct {
		struct rblk_stats now;
		uint8_t more[32];
	} stats;
	size_t known = sizeof(stats.now);

	memset(&stats, 0xa5, sizeof(stats));
	assert_int_equal(rblk_session_stats(session, &stats.now, known + 16), 0);
	assert_true(stats.now.sends > 0);
	assert_filled(&stats, known, known + 16, 0);
	assert_filled(&stats, known + 16, sizeof(stats), 0xa5);

	memset(&stats, 0xa5, sizeof(stats));
	assert_int_equal(rblk_session_stats(session, &stats.now,
					    offsetof(struct rblk_stats, retries) - 1),
			 -EINVAL);
	assert_filled(&stats, 0, sizeof(stats), 0xa5);
	rblk_session_close(session);
}

static void info_of_another_version(void **state)
{
	struct rblk_session *session = open_session();
	struct {
		struct rblk_session_info now;
		uint8_t more[32];
	} info;
	size_t known = sizeof(info.now);

	memset(&info, 0xa5, sizeof(info));
	assert_int_equal(rblk_session_info(session, &info.now, known + 16), 0);
	assert_string_equal(info.now.device, "tcp");
	assert_filled(&info, known, known + 16, 0);
	assert_filled(&info, known + 16, sizeof(info), 0xa5);

	memset(&info, 0xa5, sizeof(info));
	assert_int_equal(rblk_session_info(session, &info.now, known - 1), -EINVAL);
	assert_filled(&info, 0, sizeof(info), 0xa5);
	rblk_session_close(session);
}

static void list_of_another_version(void **state)
{
	struct future_info {
		struct rblk_volume_info now;
		uint64_t more[4];
	} *list;
	struct rblk_session *session = open_session();
	struct rblk_volume_info *untouched = NULL;
	size_t known = sizeof(list->now);

	assert_int_equal(rblk_list(session, (struct rblk_volume_info **)&list, sizeof(*list)), 2);
	assert_string_equal(list[0].now.name, "one");
	assert_string_equal(list[1].now.name, "two");
	assert_int_equal(list[1].now.bytes, 2 << 20);
	for (int i = 0; i < 2; i++) {
		/* The library sets the size that it knows, and leaves the rest zero. */
		assert_int_equal(list[i].now.size, known);
		assert_filled(&list[i], known, sizeof(*list), 0);
	}
	free(list);
	assert_int_equal(rblk_list(session, &untouched, sizeof(size_t)), -EINVAL);
	assert_int_equal(rblk_list(session, &untouched, SIZE_MAX), -EINVAL);
	assert_null(untouched);
	rblk_session_close(session);
}

/* A flag of a later version may be a need that would not be met. */
static void flags_of_another_version(void **state)
{
	struct rblk_session *session = open_session();

	errno = 0;
	assert_null(rblk_volume_open(session, NULL, 1u << 30));
	assert_int_equal(errno, EINVAL);
	assert_non_null(strstr(rblk_session_error(session), "OPEN: unknown flags 0x40000000"));
	rblk_session_close(session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_of_another_version),
		cmocka_unit_test(statistics_that_cannot_be),
		cmocka_unit_test(options_without_a_size),
		cmocka_unit_test(stats_of_another_version),
		cmocka_unit_test(info_of_another_version),
		cmocka_unit_test(flags_of_another_version),
		cmocka_unit_test(list_of_another_version),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
