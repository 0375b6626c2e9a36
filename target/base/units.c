/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parsers of units.h. Overflow is not a number either. */
#include "target/base/units.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static int number_with_unit(const char *text, const struct unit *units, uint64_t *value)
{
	unsigned long long number;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL; /* strtoull would take blanks and signs */
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	for (; units->name; units++) {
		if (strcasecmp(end, units->name) != 0)
			continue;
		return __builtin_mul_overflow(number, units->factor, value) ? -EINVAL : 0;
	}
	return -EINVAL;
}

int tgt_units_count(const char *text, uint64_t *count)
{
	static const struct unit units[] = {{"", 1}, {NULL, 0}};

	return number_with_unit(text, units, count);
}

int tgt_units_size(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{"", 1},
		{"K", 1ull << 10},
		{"M", 1ull << 20},
		{"G", 1ull << 30},
		{"T", 1ull << 40},
		{"KiB", 1ull << 10},
		{"MiB", 1ull << 20},
		{"GiB", 1ull << 30},
		{"TiB", 1ull << 40},
		{NULL, 0},
	};

	return number_with_unit(text, units, bytes);
}

int tgt_units_time(const char *text, uint64_t *time_us)
{
	static const struct unit units[] = {
		{"us", 1},	   {"ms", 1000},	{"s", 1000000}, {"m", 60000000},
		{"min", 60000000}, {"h", 3600000000}, {NULL, 0},
	};

	/* 0 needs no unit. */
	if (strcmp(text, "0") == 0) {
		*time_us = 0;
		return 0;
	}
	return number_with_unit(text, units, time_us);
}

int tgt_units_bool(const char *text, bool *value)
{
	static const char *const words[] = {"no", "yes", "off", "on", "false", "true", "0", "1"};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) != 0)
			continue;
		*value = i % 2;
		return 0;
	}
	return -EINVAL;
}
