/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The line for the kernel module: it has only the options that were given, under the module's
 * names, and no value in it can become a second word. Method: URIs and options, and the whole line
 * compared; times as options accept them.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <string.h>
#include "initiator/cmd/attach.h"

static char line[ATTACH_LINE_BYTES], reason[ATTACH_REASON_BYTES];

static void compose(const char *uri, const char *address, const struct attach_options *options)
{
	struct ini_uri parsed;

	assert_int_equal(attach_uri_parse(uri, &parsed, reason), 0);
	assert_int_equal(attach_line_compose(&parsed, address, options, line, reason), 0);
}

static void nothing_is_said_that_was_not_given(void **state)
{
	struct attach_options none = ATTACH_OPTIONS_DEFAULTS;

	compose("rblk://host/disk", "10.9.0.1", &none);
	assert_string_equal(line, "attach address=10.9.0.1 port=4430 volume=disk");
	compose("rblk://[fe80::1]:99/a:b", "fe80::1%eth0", &none);
	assert_string_equal(line, "attach address=fe80::1%eth0 port=99 volume=a:b");
}

static void everything_can_be_said(void **state)
{
	struct attach_options all = {
		.queues = 4,
		.poll_queues = 2,
		.credits = 32,
		.connect_ms = 100,
		.command_ms = 2000,
		.reconnect_ms = 300,
		.fail_fast_ms = 0,
		.give_up_ms = 0,
		.initiator = "me",
		.key = "/etc/rblk/key",
		.source = "fe80::1%eth0,::2",
		.disk_name = "data",
		.uri = "rblk://h,i/v",
		.tos = 104,
		.ack_timeout = 18,
		.read_only = true,
		.accept_volatile = true,
		.own_session = true,
		.priority = true,
		.digest = true,
	};

	compose("rblk://h,i/v", "::1,::3", &all);
	assert_string_equal(line, "attach address=::1,::3 port=4430,4430 volume=v queues=4 poll_queues=2 credits=32 "
				  "initiator=me key=/etc/rblk/key connect_ms=100 command_ms=2000 reconnect_ms=300 "
				  "fail_fast_ms=0 give_up_ms=0 source=fe80::1%eth0,::2 tos=104 ack_timeout=18 "
				  "read_only volatile own_session priority digest name=data uri=rblk://h,i/v");
}

static void each_host_has_its_port(void **state)
{
	struct attach_options none = ATTACH_OPTIONS_DEFAULTS;

	compose("rblk://a,b:99,[::1]/v", "10.9.0.1,10.9.1.1,::1", &none);
	assert_string_equal(line, "attach address=10.9.0.1,10.9.1.1,::1 port=4430,99,4430 volume=v");
}

static void a_name_is_one_word(void **state)
{
	static const char too_long[] = "0123456789012345678901234567890123456789"
				       "012345678901234567890123";
	static const char *const bad[] = { "", "two words", "a\nb", "a=b", "x/y",
					   too_long };
	struct attach_options options = ATTACH_OPTIONS_DEFAULTS;
	struct ini_uri uri;

	assert_int_equal(attach_uri_parse("rblk://h/v", &uri, reason), 0);
	for (size_t i = 0; i < UNIT_LENGTH(bad); i++) {
		options.initiator = bad[i];
		assert_int_equal(attach_line_compose(&uri, "::1", &options, line, reason), -EINVAL);
		assert_non_null(strstr(reason, "1 to 63 letters"));
	}
}

static void a_uri_is_one_word(void **state)
{
	static const char *const bad[] = { "rblk://a b/v", "rblk://a\tb/v", "rblk://b\303\274cher/v" };
	struct attach_options options = ATTACH_OPTIONS_DEFAULTS;
	struct ini_uri uri;

	for (size_t i = 0; i < UNIT_LENGTH(bad); i++) {
		options.uri = bad[i];
		assert_int_equal(attach_uri_parse(bad[i], &uri, reason), 0);
		assert_int_equal(attach_line_compose(&uri, "::1", &options, line, reason), -EINVAL);
		assert_non_null(strstr(reason, "are written as %XX"));
	}
	options.uri = "rblk://a%20b/v";
	options.disk_name = "";
	compose(options.uri, "::1", &options);
	assert_string_equal(line, "attach address=::1 port=4430 volume=v uri=rblk://a%20b/v");
}

static void a_source_is_addresses(void **state)
{
	static const char *const bad[] = {"", "host", "10.0.0.1,", ",10.0.0.1", "10.0.0.1 x", "10.0.0.1/24"};
	struct attach_options options = ATTACH_OPTIONS_DEFAULTS;
	struct ini_uri uri;

	assert_int_equal(attach_uri_parse("rblk://h/v", &uri, reason), 0);
	for (size_t i = 0; i < UNIT_LENGTH(bad); i++) {
		options.source = bad[i];
		assert_int_equal(attach_line_compose(&uri, "::1", &options, line, reason), -EINVAL);
		assert_non_null(strstr(reason, "no address"));
	}
	options.source = "10.0.0.1,10.0.0.2";
	assert_int_equal(attach_line_compose(&uri, "::1", &options, line, reason), -EINVAL);
	assert_non_null(strstr(reason, "more addresses than there are hosts"));
}

static void other_uris_are_refused(void **state)
{
	struct ini_uri uri;

	assert_int_equal(attach_uri_parse("rblk+tcp://h/v", &uri, reason), -EINVAL);
	assert_non_null(strstr(reason, "RDMA"));
	assert_int_equal(attach_uri_parse("rblk://a,rblk+tcp://b,c/v", &uri, reason), -EINVAL);
	assert_string_equal(reason,
			    "rblk://a,rblk+tcp://b,c/v: the kernel module supports only RDMA "
			    "(rblk://), not host b; for a disk over TCP see "
			    "rblk-ublk(7), nbdkit-rblk-plugin(1)");
	assert_int_equal(attach_uri_parse("rblk://h", &uri, reason), -EINVAL);
	assert_non_null(strstr(reason, "the volume is missing"));
	assert_int_equal(attach_uri_parse("rblk://h/a b", &uri, reason), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_said_that_was_not_given),
		cmocka_unit_test(everything_can_be_said),
		cmocka_unit_test(each_host_has_its_port),
		cmocka_unit_test(a_name_is_one_word),
		cmocka_unit_test(a_uri_is_one_word),
		cmocka_unit_test(a_source_is_addresses),
		cmocka_unit_test(other_uris_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
