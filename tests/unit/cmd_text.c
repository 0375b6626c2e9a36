/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Text as the command writes it: reasons, identities; percentiles. Method: tables of inputs and outputs.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <string.h>
#include "initiator/cmd/cmd.h"
#include "initiator/cmd/ping.h"

static void reasons_are_words(void **state)
{
	assert_string_equal(cmd_reason(-ESHUTDOWN), "the target is shutting down");
	assert_string_equal(cmd_reason(-ENODEV), "the volume was removed or changed");
	/* Not only a target returns this error, so its text is the system's. */
	assert_string_equal(cmd_reason(-ENOSPC), strerror(ENOSPC));
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
		cmocka_unit_test(reasons_are_words),
		cmocka_unit_test(uuid_is_written),
		cmocka_unit_test(percentiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
