/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The writer and the checker of a promise journal; main.c has their options. */
#ifndef RBLK_TESTS_PROMISE_RUN_H
#define RBLK_TESTS_PROMISE_RUN_H

#include <stdbool.h>
#include "tests/promise/disk.h"
#include "tests/promise/journal.h"

enum promise_exit {
	PROMISE_EXIT_OK = 0,
	PROMISE_EXIT_BROKEN = 1, /* check: a promise was broken; run: an error ended the load */
	PROMISE_EXIT_CANNOT = 2, /* a journal or disk cannot be used */
};

struct promise_run {
	const char *journal, *disk;
	struct promise_range range; /* run: 0, to be chosen */
	struct promise_disk_options options;
	uint64_t seed;
	uint64_t writes;     /* so many, then end; 0: until a signal */
	uint32_t blocks_max; /* of one write */
	uint32_t flush_per_1000, fua_per_1000;
	bool last_flush; /* end with one */
};
enum promise_exit promise_run(const struct promise_run *run);

/* Of each journal; strict: history.h. Each broken promise is a line on stdout, and counted in
 * *broken. */
struct promise_check {
	const char *const *journals;
	unsigned int journal_count;
	const char *disk;
	uint64_t file_bytes;
	bool strict;
};
enum promise_exit promise_check(const struct promise_check *check, uint64_t *broken);

#endif
