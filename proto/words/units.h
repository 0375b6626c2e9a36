/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts, sizes and times as people write and read them: one grammar, and one text of refusal, for every program's
 * options, parameters and configuration; and the figures that programs print. Includes no other room. Pure; any thread.
 */
#ifndef RBLK_PROTO_WORDS_UNITS_H
#define RBLK_PROTO_WORDS_UNITS_H

#include <stdbool.h>
#include <stdint.h>

enum units_kind {
	UNITS_COUNT,   /* decimal */
	UNITS_SIZE,    /* bytes: K, M, G, T or KiB, MiB, GiB, TiB, of 1024 */
	UNITS_TIME_MS, /* ms: us, ms, s, m or min, h; without a unit seconds; rounded up */
	UNITS_TIME_US, /* us likewise */
};

#define UNITS_WHY_BYTES 192

/*
 * The whole of `text` as a value from least to most, in the kind's unit; letters in either case, no fraction. 0, or -EINVAL
 * with the reason in `why`, which begins with the text in quotes.
 */
int units_read(enum units_kind kind, const char *text, uint64_t least, uint64_t most, uint64_t *value,
	       char why[UNITS_WHY_BYTES]);
/* The same without bounds and reason. */
int units_count(const char *text, uint64_t *count);
/* yes, no, on, off, true, false, 1, 0. 0 or -EINVAL. */
int units_bool(const char *text, bool *value);

#define UNITS_TEXT_BYTES 32
/* These return text, which has UNITS_TEXT_BYTES. A value exactly as units_read() takes it: "64K", "30s", "1min", "12". */
const char *units_text(enum units_kind kind, uint64_t value, char *text);
/* A measured value, rounded. */
const char *units_format_bytes(uint64_t bytes, char *text); /* "1.5 GiB"; exact multiples without a fraction */
const char *units_format_us(double us, char *text);	     /* "340us", "2.1ms", "52.3s" */
const char *units_format_count(double count, char *text);    /* "12.3k" */
/*
 * How long something has lasted, or is to last, for everything that is not a measurement of I/O: "43 s", "59 min", "3 h", "12 d",
 * cut off. The target's page has the same.
 */
const char *units_format_span(uint64_t ns, char *text);

#endif
