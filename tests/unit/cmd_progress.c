/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The progress line fits into a terminal of any width, and shows as much as fits. Method: every
 * width, known and unknown totals, more done than the total.
 */
#include "tests/unit/unit.h"
#include <string.h>
#include "initiator/cmd/cmd.h"

#define SECOND 1000000000ull

static const struct progress copying = { .what = "copying", .total = 10ull << 30 };

static void wide_has_all(void **state)
{
	char text[PROGRESS_LINE_BYTES];

	progress_line(&copying, 5ull << 30, 5 * SECOND, 80, text);
	assert_string_equal(text, "copying  50%  5 GiB  1 GiB/s  ETA 5 s  "
				  "[###################...................]");
}

static void narrow_leaves_out(void **state)
{
	static const struct {
		unsigned int columns;
		const char *text;
	} rows[] = {
		{ 46, "copying  50%  5 GiB  1 GiB/s  ETA 5 s  [##..]" },
		{ 45, "copying  50%  5 GiB  1 GiB/s  ETA 5 s" },
		{ 38, "copying  50%  5 GiB  1 GiB/s  ETA 5 s" },
		{ 37, "copying  50%  5 GiB  1 GiB/s" },
		{ 28, "copying  50%  5 GiB" },
		{ 19, "copying  50%" },
		{ 12, "copying" },
		{ 7, "" },
		{ 1, "" },
	};
	char text[PROGRESS_LINE_BYTES];

	for (size_t i = 0; i < UNIT_LENGTH(rows); i++) {
		progress_line(&copying, 5ull << 30, 5 * SECOND, rows[i].columns, text);
		assert_string_equal(text, rows[i].text);
	}
}

static void what_stands_still_is_said(void **state)
{
	struct progress progress = copying;
	char text[PROGRESS_LINE_BYTES];

	progress.moved_ns = 5 * SECOND;
	progress_line(&progress, 5ull << 30, 7 * SECOND - 1, 38, text);
	assert_null(strstr(text, "nothing"));
	progress_line(&progress, 5ull << 30, 77 * SECOND, 80, text);
	assert_string_equal(text, "copying  50%  5 GiB  nothing for 72 s");
	progress_line(&progress, 5ull << 30, 77 * SECOND, 30, text);
	assert_string_equal(text, "copying  50%  5 GiB");
}

static void every_width_fits(void **state)
{
	static const uint64_t totals[] = { 0, 1, 10ull << 30, PROGRESS_UNKNOWN };
	struct progress progress = { .what = "verifying" };
	char text[PROGRESS_LINE_BYTES];

	for (size_t i = 0; i < UNIT_LENGTH(totals); i++) {
		progress.total = totals[i];
		for (unsigned int columns = 1; columns < 400; columns++) {
			progress_line(&progress, 7777777777, 3 * SECOND, columns, text);
			assert_true(strlen(text) < columns);
			assert_true(strlen(text) < sizeof(text));
		}
	}
}

/* The last chunk is shorter than the others, and counted as long. */
/* So slow that it will never end: no more than can be said. */
static void slow_is_said(void **state)
{
	struct progress progress = {.what = "copying", .total = UINT64_MAX - 1};
	char text[PROGRESS_LINE_BYTES];

	progress_line(&progress, 1, 2 * SECOND, 40, text);
	assert_string_equal(text, "copying   0%  1 B  0 B/s  ETA 213503 d");
}

static void more_than_all_is_all(void **state)
{
	struct progress progress = { .what = "verifying", .total = 3 };
	char text[PROGRESS_LINE_BYTES];

	progress_line(&progress, 4, SECOND, 60, text);
	assert_string_equal(text, "verifying 100%  3 B  4 B/s  ETA 0 s  [####################]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wide_has_all),
		cmocka_unit_test(narrow_leaves_out),
		cmocka_unit_test(what_stands_still_is_said),
		cmocka_unit_test(every_width_fits),
		cmocka_unit_test(slow_is_said),
		cmocka_unit_test(more_than_all_is_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
