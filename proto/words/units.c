/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See units.h. Overflow is not a number either. */
#include "proto/words/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHOWN_BYTES 40

struct unit {
	const char *name;
	uint64_t factor;
};

/* From the smallest; of units of one size, the one that units_text() writes comes last. */
static const struct unit counts[] = {{"", 1}, {NULL, 0}};
static const struct unit sizes[] = {
	{"", 1},
	{"KiB", 1ull << 10},
	{"K", 1ull << 10},
	{"MiB", 1ull << 20},
	{"M", 1ull << 20},
	{"GiB", 1ull << 30},
	{"G", 1ull << 30},
	{"TiB", 1ull << 40},
	{"T", 1ull << 40},
	{NULL, 0},
};
static const struct unit times[] = {
	{"us", 1}, {"ms", 1000}, {"", 1000000}, {"s", 1000000}, {"m", 60000000}, {"min", 60000000}, {"h", 3600000000}, {NULL, 0},
};

static const struct kind {
	const struct unit *units;
	uint64_t step; /* of the smallest unit in the value's */
	const char *noun, *like;
} kinds[] = {
	[UNITS_COUNT] = {counts, 1, "a number", ""},
	[UNITS_SIZE] = {sizes, 1, "a size", ", like 512, 64K, 10G or 1GiB, all of 1024"},
	[UNITS_TIME_MS] = {times, 1000, "a time", ", like 20ms, 30s or 2min; without a unit it is seconds"},
	[UNITS_TIME_US] = {times, 1, "a time", ", like 500us, 20ms or 30s; without a unit it is seconds"},
};

static int read_any(const struct kind *kind, const char *text, uint64_t *value)
{
	const struct unit *unit;
	uint64_t number;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL; /* strtoull would take blanks and signs */
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	for (unit = kind->units; unit->name && strcasecmp(end, unit->name) != 0; unit++)
		;
	if (!unit->name || __builtin_mul_overflow(number, unit->factor, &number))
		return -EINVAL;
	*value = number / kind->step + (number % kind->step != 0); /* no time ends early */
	return 0;
}

/* How many bytes of the text a message has: whole characters of UTF-8. */
static int shown_bytes(const char *text)
{
	size_t bytes = strnlen(text, SHOWN_BYTES);

	while (bytes && ((unsigned char)text[bytes] & 0xc0) == 0x80)
		bytes--;
	return (int)bytes;
}

int units_read(enum units_kind kind, const char *text, uint64_t least, uint64_t most, uint64_t *value,
	       char why[UNITS_WHY_BYTES])
{
	char from[UNITS_TEXT_BYTES], to[UNITS_TEXT_BYTES];
	uint64_t number;

	if (read_any(&kinds[kind], text, &number) == 0 && number >= least && number <= most) {
		*value = number;
		return 0;
	}
	snprintf(why, UNITS_WHY_BYTES, "\"%.*s\" is not %s from %s to %s%s", shown_bytes(text), text, kinds[kind].noun,
		 units_text(kind, least, from), units_text(kind, most, to), kinds[kind].like);
	return -EINVAL;
}

int units_count(const char *text, uint64_t *count)
{
	return read_any(&kinds[UNITS_COUNT], text, count);
}

int units_bool(const char *text, bool *value)
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

const char *units_text(enum units_kind kind, uint64_t value, char *text)
{
	const struct unit *unit, *best = kinds[kind].units;
	uint64_t number;

	if (!value || __builtin_mul_overflow(value, kinds[kind].step, &number)) {
		snprintf(text, UNITS_TEXT_BYTES, "%" PRIu64 "%s", value, value ? "ms" : "");
		return text;
	}
	for (unit = best; unit->name; unit++)
		if (number % unit->factor == 0)
			best = unit;
	snprintf(text, UNITS_TEXT_BYTES, "%" PRIu64 "%s", number / best->factor, best->name);
	return text;
}

const char *units_format_bytes(uint64_t bytes, char *text)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned int unit = 0;
	uint64_t whole = bytes, rest = 0;

	while (whole >= 1024 && unit + 1 < sizeof(names) / sizeof(names[0])) {
		rest |= whole & 1023;
		whole >>= 10;
		unit++;
	}
	if (!rest)
		snprintf(text, UNITS_TEXT_BYTES, "%" PRIu64 " %s", whole, names[unit]);
	else
		snprintf(text, UNITS_TEXT_BYTES, "%.1f %s", (double)bytes / (double)(1ull << (10 * unit)), names[unit]);
	return text;
}

const char *units_format_us(double us, char *text)
{
	if (us >= 1e6)
		snprintf(text, UNITS_TEXT_BYTES, "%.1fs", us / 1e6);
	else if (us >= 1e3)
		snprintf(text, UNITS_TEXT_BYTES, "%.1fms", us / 1e3);
	else
		snprintf(text, UNITS_TEXT_BYTES, "%.0fus", us);
	return text;
}

const char *units_format_span(uint64_t ns, char *text)
{
	uint64_t s = ns / 1000000000u;

	if (s < 120)
		snprintf(text, UNITS_TEXT_BYTES, "%" PRIu64 " s", s);
	else if (s < 2 * 3600)
		snprintf(text, UNITS_TEXT_BYTES, "%" PRIu64 " min", s / 60);
	else if (s < 2 * 86400)
		snprintf(text, UNITS_TEXT_BYTES, "%" PRIu64 " h", s / 3600);
	else
		snprintf(text, UNITS_TEXT_BYTES, "%" PRIu64 " d", s / 86400);
	return text;
}

const char *units_format_count(double count, char *text)
{
	if (count >= 1e7)
		snprintf(text, UNITS_TEXT_BYTES, "%.1fM", count / 1e6);
	else if (count >= 1e4)
		snprintf(text, UNITS_TEXT_BYTES, "%.1fk", count / 1e3);
	else
		snprintf(text, UNITS_TEXT_BYTES, "%.0f", count);
	return text;
}
