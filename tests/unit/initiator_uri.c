/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: every form of URI is parsed correctly, and every mistake gets its message. Method: tables.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <stdio.h>
#include "initiator/rblk.h"
#include "initiator/uri.h"

static void good_ones(void **state)
{
	static const struct {
		const char *text;
		enum fab_kind kind;
		const char *host, *port, *volume;
	} table[] = {
		{ "rblk://10.0.0.2/disk", FAB_VERBS, "10.0.0.2", "4430", "disk" },
		{ "rblk://host", FAB_VERBS, "host", "4430", "" },
		{ "rblk://host/", FAB_VERBS, "host", "4430", "" },
		{ "rblk://host:1/a.b_c:d+e-f", FAB_VERBS, "host", "1", "a.b_c:d+e-f" },
		{ "rblk+tcp://host:65535/v", FAB_TCP, "host", "65535", "v" },
		{ "rblk+tcp://[::1]/v", FAB_TCP, "::1", "4430", "v" },
		{ "rblk+tcp://[fe80::1%eth0]:99", FAB_TCP, "fe80::1%eth0", "99", "" },
		{ "rblk+tcp://[fe80::1%25eth0]:99/v", FAB_TCP, "fe80::1%eth0", "99", "v" },
		{ "rblk+tcp://[fe80::1%25]/v", FAB_TCP, "fe80::1%25", "4430", "v" },
		{ "rblk+sim://a:7/v", FAB_SIM, "a", "7", "v" },
		{ "RBLK://host/v", FAB_VERBS, "host", "4430", "v" },
		{ "Rblk+TCP://host/V", FAB_TCP, "host", "4430", "V" },
		{ "rblk://h%6Fst%2eexample:7/a%2bb%5F", FAB_VERBS, "host.example", "7", "a+b_" },
	};
	char error[RBLK_ERROR_BYTES];
	struct ini_uri uri;

	for (size_t i = 0; i < UNIT_LENGTH(table); i++) {
		assert_int_equal(ini_uri_parse(table[i].text, &uri, error), 0);
		assert_int_equal(uri.hosts[0].kind, table[i].kind);
		assert_string_equal(uri.hosts[0].name, table[i].host);
		assert_string_equal(uri.hosts[0].port, table[i].port);
		assert_string_equal(uri.volume, table[i].volume);
	}
}

/* Behind a semicolon are hosts of another target. */
static void groups(void **state)
{
	static const struct {
		const char *text;
		u16 count;
		u16 groups[4];
		enum fab_kind kind; /* of the last */
	} table[] = {
		{"rblk://a,b/v", 2, {0, 0}, FAB_VERBS},
		{"rblk://a;b/v", 2, {0, 1}, FAB_VERBS},
		{"rblk+tcp://a1,a2:1;[::1],b2/v", 4, {0, 0, 1, 1}, FAB_TCP},
		{"rblk://a;rblk+tcp://b,c;d", 4, {0, 1, 1, 2}, FAB_TCP},
	};
	char error[RBLK_ERROR_BYTES];
	struct ini_uri uri;

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(table); i++) {
		if (ini_uri_parse(table[i].text, &uri, error))
			fail_msg("%s", error);
		assert_int_equal(uri.host_count, table[i].count);
		for (u16 n = 0; n < uri.host_count; n++)
			assert_int_equal(uri.hosts[n].group, table[i].groups[n]);
		assert_int_equal(uri.hosts[uri.host_count - 1].kind, table[i].kind);
	}
}

/* Each host has the last scheme before it. */
static void mixed_ones(void **state)
{
	static const struct {
		const char *text;
		u16 count;
		enum fab_kind kinds[3];
		const char *last; /* host */
		const char *told; /* of the last host */
		const char *volume;
	} table[] = {
		{"rblk://a,rblk+tcp://b/v", 2, {FAB_VERBS, FAB_TCP}, "b", "rblk+tcp://b:4430", "v"},
		{"rblk+tcp://a:1,rblk://b:2/v", 2, {FAB_TCP, FAB_VERBS}, "b", "rblk://b:2", "v"},
		{"rblk://a,rblk+tcp://b,c:7",
		 3,
		 {FAB_VERBS, FAB_TCP, FAB_TCP},
		 "c",
		 "rblk+tcp://c:7",
		 ""},
		{"rblk://a,rblk+tcp://b,rblk://[::1]:9/",
		 3,
		 {FAB_VERBS, FAB_TCP, FAB_VERBS},
		 "::1",
		 "rblk://[::1]:9",
		 ""},
		{"rblk+tcp://a,rblk+tcp://b/v", 2, {FAB_TCP, FAB_TCP}, "b", "b:4430", "v"},
		{"rblk://a,b,[::1]", 3, {FAB_VERBS, FAB_VERBS, FAB_VERBS}, "::1", "[::1]:4430", ""},
	};
	char error[RBLK_ERROR_BYTES], told[INI_URI_HOST_TEXT];
	struct ini_uri uri;

	for (size_t i = 0; i < UNIT_LENGTH(table); i++) {
		const struct ini_uri_host *last;
		bool mixed = false;

		if (ini_uri_parse(table[i].text, &uri, error))
			fail_msg("%s", error);
		assert_int_equal(uri.host_count, table[i].count);
		for (u16 n = 0; n < uri.host_count; n++) {
			assert_int_equal(uri.hosts[n].kind, table[i].kinds[n]);
			mixed = mixed || table[i].kinds[n] != table[i].kinds[0];
		}
		assert_int_equal(ini_uri_mixed(&uri), mixed);
		last = &uri.hosts[uri.host_count - 1];
		assert_string_equal(last->name, table[i].last);
		ini_uri_format_host(&uri, last, told, sizeof(told));
		assert_string_equal(told, table[i].told);
		assert_string_equal(uri.volume, table[i].volume);
	}
}

static void bad_ones(void **state)
{
	static const struct {
		const char *text, *reason;
	} table[] = {
		{"", "begins with rblk://"},
		{"http://host/v", "begins with rblk://"},
		{"rblk:/host/v", "begins with rblk://"},
		{"rblk://", "the host is missing"},
		{"rblk:///v", "the host is missing"},
		{"rblk://a;/v", "the host is missing"},
		{"rblk://;a/v", "the host is missing"},
		{"rblk://a%3bb/v", "stands for one of ,;/:[]"},
		{"rblk://:4430/v", "the host is missing"},
		{"rblk://[]/v", "the host is missing"},
		{"rblk://host:/v", "the port must be"},
		{"rblk://host:0/v", "the port must be"},
		{"rblk://host:65536/v", "the port must be"},
		{"rblk://host:123456/v", "the port must be"},
		{"rblk://host:44x/v", "the port must be"},
		{"rblk://host:-1/v", "the port must be"},
		{"rblk://::1/v", "must be in brackets"},
		{"rblk://[::1/v", "is not closed"},
		{"rblk://[::1]4430/v", "may follow the bracket"},
		{"rblk://a,http://b/v",
		 "\"http://\" is no host; one rblk:// or rblk+tcp:// may precede each"},
		{"rblk://a,tcp://b/v", "\"tcp://\" is no host"},
		{"rblk://rblk+tcp://b/v", "\"rblk+tcp://\" is no host"},
		{"rblk://a,rblk+tcp:///v", "the host is missing"},
		{"rblk://a/v,rblk+tcp://b/v", "consists of letters"},
		{"rblk://a,/v", "the host is missing"},
		{"rblk://,a/v", "the host is missing"},
		{"rblk://1,2,3,4,5,6,7,8,rblk+tcp://9/v", "more than 8 hosts"},
		{"rblk://host/a/b", "consists of letters"},
		{"rblk://host/a b", "consists of letters"},
		{"rblk://host/a%20b", "consists of letters"},
		{"rblk://host/a%2fb", "consists of letters"},
		{"rblk://host/a%", "two hexadecimal digits"},
		{"rblk://host/a%2", "two hexadecimal digits"},
		{"rblk://a%2fb/v", "a % stands for one of"},
		{"rblk://host/a%g0", "two hexadecimal digits"},
		{"rblk://host/a%0g", "two hexadecimal digits"},
		{"rblk://host/a%00b", "not 00"},
		{"rblk://ho%st/v", "two hexadecimal digits"},
		{"rblk://host/"
		 "0123456789012345678901234567890123456789012345678901234567890123",
		 "at most 63"},
	};
	char error[RBLK_ERROR_BYTES];
	struct ini_uri uri;

	for (size_t i = 0; i < UNIT_LENGTH(table); i++) {
		error[0] = '\0';
		assert_int_equal(ini_uri_parse(table[i].text, &uri, error), -EINVAL);
		if (!strstr(error, table[i].reason))
			fail_msg("\"%s\": \"%s\" lacks \"%s\"", table[i].text, error,
				 table[i].reason);
	}
	assert_int_equal(ini_uri_parse(NULL, &uri, error), -EINVAL);
}

static void long_ones(void **state)
{
	char text[2 * RBLK_URI_BYTES], error[RBLK_ERROR_BYTES];
	struct ini_uri uri;

	memset(text, 'h', sizeof(text));
	memcpy(text, "rblk://", 7);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(ini_uri_parse(text, &uri, error), -EINVAL);
	assert_non_null(strstr(error, "at most 511"));
	text[RBLK_URI_BYTES - 1] = '\0';
	assert_int_equal(ini_uri_parse(text, &uri, error), -EINVAL);
	assert_non_null(strstr(error, "host's name: is too long"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_ones),
		cmocka_unit_test(groups),
		cmocka_unit_test(mixed_ones),
		cmocka_unit_test(bad_ones),
		cmocka_unit_test(long_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
