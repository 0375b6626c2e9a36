/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What people write and read in every program: counts, sizes and times, their refusals, figures with units, and the
 * guess at a misspelled word. Method: tables of inputs and outputs.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <string.h>
#include "proto/words/nearest.h"
#include "proto/words/units.h"

static const struct {
	enum units_kind kind;
	const char *text;
	uint64_t value;
} good[] = {
	{UNITS_COUNT, "0", 0},
	{UNITS_COUNT, "18446744073709551615", UINT64_MAX},
	{UNITS_SIZE, "0", 0},
	{UNITS_SIZE, "512", 512},
	{UNITS_SIZE, "4k", 4096},
	{UNITS_SIZE, "4K", 4096},
	{UNITS_SIZE, "4KiB", 4096},
	{UNITS_SIZE, "3m", 3u << 20},
	{UNITS_SIZE, "2tib", 2ull << 40},
	{UNITS_SIZE, "16777215t", 16777215ull << 40},
	{UNITS_TIME_MS, "0", 0},
	{UNITS_TIME_MS, "2", 2000},
	{UNITS_TIME_MS, "2s", 2000},
	{UNITS_TIME_MS, "500MS", 500},
	{UNITS_TIME_MS, "3000us", 3},
	{UNITS_TIME_MS, "3001us", 4},
	{UNITS_TIME_MS, "2m", 120000},
	{UNITS_TIME_MS, "2min", 120000},
	{UNITS_TIME_MS, "1h", 3600000},
	{UNITS_TIME_US, "2", 2000000},
	{UNITS_TIME_US, "500us", 500},
};

static const struct {
	enum units_kind kind;
	const char *text;
} bad[] = {
	{UNITS_COUNT, ""},
	{UNITS_COUNT, "-1"},
	{UNITS_COUNT, "+1"},
	{UNITS_COUNT, " 1"},
	{UNITS_COUNT, "1k"},
	{UNITS_COUNT, "18446744073709551616"},
	{UNITS_SIZE, ""},
	{UNITS_SIZE, "k"},
	{UNITS_SIZE, "1.5k"},
	{UNITS_SIZE, "4x"},
	{UNITS_SIZE, "4kk"},
	{UNITS_SIZE, "64MB"},
	{UNITS_SIZE, "16777216t"},
	{UNITS_TIME_MS, "s"},
	{UNITS_TIME_MS, "-2s"},
	{UNITS_TIME_MS, "1.5s"},
	{UNITS_TIME_MS, "2 s"},
	{UNITS_TIME_MS, "2sec"},
	{UNITS_TIME_MS, "18446744073709551615s"},
	{UNITS_TIME_US, "99999999999999999999ms"},
};

static void values_are_read(void **state)
{
	char why[UNITS_WHY_BYTES];
	uint64_t value;

	for (size_t i = 0; i < UNIT_LENGTH(good); i++) {
		assert_int_equal(units_read(good[i].kind, good[i].text, 0, UINT64_MAX, &value, why), 0);
		assert_true(value == good[i].value);
	}
	for (size_t i = 0; i < UNIT_LENGTH(bad); i++) {
		assert_int_equal(units_read(bad[i].kind, bad[i].text, 0, UINT64_MAX, &value, why), -EINVAL);
		assert_int_equal(why[0], '"');
		assert_memory_equal(why + 1, bad[i].text, strlen(bad[i].text));
	}
	assert_int_equal(units_count("12", &value), 0);
	assert_int_equal(value, 12);
	assert_int_equal(units_count("1s", &value), -EINVAL);
}

static void refusals_say_how(void **state)
{
	char why[UNITS_WHY_BYTES], longest[400];
	uint64_t value = 7;

	assert_int_equal(units_read(UNITS_TIME_MS, "2h", 100, 3600000, &value, why), -EINVAL);
	assert_string_equal(why, "\"2h\" is not a time from 100ms to 1h, like 20ms, 30s or 2min; without a unit it is seconds");
	assert_int_equal(units_read(UNITS_TIME_US, "x", 0, 1000000, &value, why), -EINVAL);
	assert_string_equal(why, "\"x\" is not a time from 0 to 1s, like 500us, 20ms or 30s; without a unit it is seconds");
	assert_int_equal(units_read(UNITS_SIZE, "64MB", 1 << 20, 64ull << 30, &value, why), -EINVAL);
	assert_string_equal(why, "\"64MB\" is not a size from 1M to 64G, like 512, 64K, 10G or 1GiB, all of 1024");
	assert_int_equal(units_read(UNITS_COUNT, "17", 1, 16, &value, why), -EINVAL);
	assert_string_equal(why, "\"17\" is not a number from 1 to 16");
	/* A character that would not fit is left out as a whole. */
	strcpy(longest, "999999999999999999999999999999999999999\xc3\xa9");
	assert_int_equal(units_read(UNITS_COUNT, longest, 1, 16, &value, why), -EINVAL);
	assert_string_equal(why, "\"999999999999999999999999999999999999999\" is not a number from 1 to 16");
	strcpy(longest, "99999999999999999999999999999999999999\xc3\xa9x");
	assert_int_equal(units_read(UNITS_COUNT, longest, 1, 16, &value, why), -EINVAL);
	assert_string_equal(why, "\"99999999999999999999999999999999999999\xc3\xa9\" is not a number from 1 to 16");
	memset(longest, '9', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(units_read(UNITS_TIME_MS, longest, 0, UINT64_MAX, &value, why), -EINVAL);
	assert_true(strlen(why) < UNITS_WHY_BYTES);
	assert_int_equal(value, 7);
}

/* What units_text() writes, units_read() reads. */
static void texts_are_read_again(void **state)
{
	static const struct {
		enum units_kind kind;
		uint64_t value;
		const char *text;
	} rows[] = {
		{UNITS_COUNT, 0, "0"},		{UNITS_COUNT, 3600, "3600"},	 {UNITS_SIZE, 0, "0"},
		{UNITS_SIZE, 65536, "64K"},	{UNITS_SIZE, 65537, "65537"},	 {UNITS_SIZE, 3ull << 40, "3T"},
		{UNITS_TIME_MS, 0, "0"},	{UNITS_TIME_MS, 1500, "1500ms"}, {UNITS_TIME_MS, 30000, "30s"},
		{UNITS_TIME_MS, 60000, "1min"}, {UNITS_TIME_MS, 86400000, "24h"}, {UNITS_TIME_US, 500, "500us"},
		{UNITS_TIME_US, 1000000, "1s"},
	};
	char text[UNITS_TEXT_BYTES], why[UNITS_WHY_BYTES];
	uint64_t value;

	for (size_t i = 0; i < UNIT_LENGTH(rows); i++) {
		assert_string_equal(units_text(rows[i].kind, rows[i].value, text), rows[i].text);
		assert_int_equal(units_read(rows[i].kind, text, 0, UINT64_MAX, &value, why), 0);
		assert_true(value == rows[i].value);
	}
	assert_string_equal(units_text(UNITS_TIME_MS, UINT64_MAX, text), "18446744073709551615ms");
}

static void figures_are_written(void **state)
{
	static const struct {
		uint64_t s;
		const char *text;
	} spans[] = {
		{0, "0 s"}, {119, "119 s"}, {120, "2 min"}, {3599, "59 min"}, {7199, "119 min"}, {7200, "2 h"},
		{172799, "47 h"}, {172800, "2 d"}, {86400 * 400, "400 d"},
	};
	char text[UNITS_TEXT_BYTES];

	assert_string_equal(units_format_bytes(0, text), "0 B");
	assert_string_equal(units_format_bytes(1023, text), "1023 B");
	assert_string_equal(units_format_bytes(1024, text), "1 KiB");
	assert_string_equal(units_format_bytes(1536, text), "1.5 KiB");
	assert_string_equal(units_format_bytes(5ull << 40, text), "5 TiB");
	assert_string_equal(units_format_bytes(UINT64_MAX, text), "16.0 EiB");
	assert_string_equal(units_format_us(340, text), "340us");
	assert_string_equal(units_format_us(2100, text), "2.1ms");
	assert_string_equal(units_format_us(52255405, text), "52.3s");
	assert_string_equal(units_format_count(9999, text), "9999");
	assert_string_equal(units_format_count(12300, text), "12.3k");
	assert_string_equal(units_format_count(12.3e6, text), "12.3M");
	for (size_t i = 0; i < UNIT_LENGTH(spans); i++)
		assert_string_equal(units_format_span(spans[i].s * 1000000000ull + 999999999, text), spans[i].text);
}

static const char *nearest(const char *word)
{
	static const char *const words[] = {"list", "limit_rate", "copy", "attach", "give-up", "top"};
	struct words_nearest search = words_nearest_to(word);

	for (size_t i = 0; i < UNIT_LENGTH(words); i++)
		words_nearest_offer(&search, words[i]);
	return search.nearest;
}

static void words_are_guessed(void **state)
{
	char longest[200];

	assert_string_equal(nearest("lsit"), "list");
	assert_string_equal(nearest("limit-rate"), "limit_rate");
	assert_string_equal(nearest("atach"), "attach");
	assert_string_equal(nearest("give_upp"), "give-up");
	assert_string_equal(nearest("tp"), "top");
	/* Other words, however short. */
	assert_null(nearest("foo"));
	assert_null(nearest("to-do"));
	assert_null(nearest("destroy"));
	assert_null(nearest("x"));
	memset(longest, 'l', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	assert_null(nearest(longest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_read),	 cmocka_unit_test(refusals_say_how),
		cmocka_unit_test(texts_are_read_again), cmocka_unit_test(figures_are_written),
		cmocka_unit_test(words_are_guessed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
