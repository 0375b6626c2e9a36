/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers as the command reads and writes them: sizes with suffixes, bytes and times for people,
 * percentiles. Method: tables of inputs and outputs.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <string.h>
#include "initiator/cmd/cmd.h"
#include "initiator/cmd/ping.h"

static void sizes_are_read(void **state)
{
	static const struct {
		const char *text;
		int result;
		uint64_t bytes;
	} rows[] = {
		{ "0", 0, 0 },
		{ "512", 0, 512 },
		{ "4k", 0, 4096 },
		{ "4K", 0, 4096 },
		{ "4KiB", 0, 4096 },
		{ "3m", 0, 3u << 20 },
		{ "2t", 0, 2ull << 40 },
		{ "16777215t", 0, 16777215ull << 40 },
		{ "16777216t", -ERANGE, 0 },
		{ "99999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "1.5k", -EINVAL, 0 },
		{ "4x", -EINVAL, 0 },
		{ "4kk", -EINVAL, 0 },
	};
	uint64_t bytes;
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++) {
		assert_int_equal(cmd_size_parse(rows[i].text, &bytes), rows[i].result);
		if (!rows[i].result)
			assert_true(bytes == rows[i].bytes);
	}
}

static void times_are_read(void **state)
{
	static const struct {
		const char *text;
		int result;
		uint64_t ms;
	} rows[] = {
		{ "0", 0, 0 },
		{ "2", 0, 2000 },
		{ "2s", 0, 2000 },
		{ "500ms", 0, 500 },
		{ "3000us", 0, 3 },
		{ "2m", 0, 120000 },
		{ "2min", 0, 120000 },
		{ "1h", 0, 3600000 },
		{ "500us", 0, 1 },
		{ "", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "-2s", -EINVAL, 0 },
		{ "1.5s", -EINVAL, 0 },
		{ "2 s", -EINVAL, 0 },
		{ "2sec", -EINVAL, 0 },
		{ "18446744073709551615s", -ERANGE, 0 },
		{ "99999999999999999999ms", -ERANGE, 0 },
	};
	uint64_t ms;
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++) {
		assert_int_equal(cmd_time_parse(rows[i].text, &ms), rows[i].result);
		if (!rows[i].result)
			assert_true(ms == rows[i].ms);
	}
}

static void reasons_are_words(void **state)
{
	assert_string_equal(cmd_reason(-ESHUTDOWN), "the target is shutting down");
	assert_string_equal(cmd_reason(-ENODEV), "the volume was removed or changed");
	/* Not only a target returns this error, so its text is the system's. */
	assert_string_equal(cmd_reason(-ENOSPC), strerror(ENOSPC));
}

static void bytes_are_written(void **state)
{
	char text[CMD_TEXT_BYTES];

	assert_string_equal(cmd_format_bytes(0, text), "0 B");
	assert_string_equal(cmd_format_bytes(1023, text), "1023 B");
	assert_string_equal(cmd_format_bytes(1024, text), "1 KiB");
	assert_string_equal(cmd_format_bytes(1536, text), "1.5 KiB");
	assert_string_equal(cmd_format_bytes(5ull << 40, text), "5 TiB");
	assert_string_equal(cmd_format_bytes(UINT64_MAX, text), "16.0 EiB");
	assert_string_equal(cmd_format_seconds(65, text), "1:05");
	assert_string_equal(cmd_format_seconds(7207, text), "2:00:07");
}

static void uuid_is_written(void **state)
{
	const uint8_t uuid[16] = { 0x1b, 0x4e, 0x28, 0xba, 0x2f, 0xa1, 0x11, 0xd2,
				   0x88, 0x3f, 0,    0x16, 0xd3, 0xcc, 0xa4, 0x27 };
	char text[CMD_TEXT_BYTES];

	assert_string_equal(cmd_format_uuid(uuid, text), "1b4e28ba-2fa1-11d2-883f-0016d3cca427");
}

static void percentiles(void **state)
{
	struct latency_summary summary;
	uint64_t samples[200];
	size_t i;

	for (i = 0; i < 200; i++)
		samples[i] = 200 - i;
	latency_summarize(samples, 200, &summary);
	assert_int_equal(summary.min_ns, 1);
	assert_int_equal(summary.max_ns, 200);
	assert_int_equal(summary.p50_ns, 100);
	assert_int_equal(summary.p99_ns, 198);
	assert_true(summary.average_ns == 100.5);
	latency_summarize(samples, 1, &summary);
	assert_int_equal(summary.p50_ns, 1);
	assert_int_equal(summary.p99_ns, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(times_are_read),
		cmocka_unit_test(reasons_are_words),
		cmocka_unit_test(bytes_are_written),
		cmocka_unit_test(uuid_is_written),
		cmocka_unit_test(percentiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
