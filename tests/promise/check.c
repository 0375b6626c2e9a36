/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the comparison of journals with the disk: what each block holds, and whether it may. */
#include "tests/promise/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/promise/block.h"
#include "tests/promise/history.h"

#define TOLD_MAX 20u /* lines about broken promises of a journal */

struct checker {
	const char *journal;
	struct promise_range range;
	struct promise_history *history;
	struct promise_disk *disk;
	bool strict;
	uint64_t empty, held, broken;
};

__attribute__((format(printf, 2, 3))) static void tell(struct checker *checker, const char *format,
						       ...)
{
	va_list arguments;

	if (++checker->broken > TOLD_MAX)
		return;
	printf("%s: BROKEN: ", checker->journal);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
}

static void check_block(struct checker *checker, uint64_t block, const void *data)
{
	const struct promise_range *range = &checker->range;
	struct promise_value value;
	enum promise_block_state state = promise_block_read(data, range->unit, &value);
	uint64_t by = 0;

	if (state == PROMISE_BLOCK_TORN) {
		tell(checker, "block %" PRIu64 " is torn; its first sector is of write %" PRIu64,
		     block, value.op);
		return;
	}
	if (state == PROMISE_BLOCK_WHOLE &&
	    (value.writer != range->writer || value.run != range->run || value.block != block)) {
		tell(checker,
		     "block %" PRIu64 " holds block %" PRIu64 " of writer %" PRIu32
		     ", run %" PRIu64,
		     block, value.block, value.writer, value.run);
		return;
	}
	switch (promise_history_judge(checker->history, block, value.op, checker->strict, &by)) {
	case PROMISE_KEPT:
		checker->empty += !value.op;
		checker->held += value.op != 0;
		break;
	case PROMISE_NOT_WRITTEN:
		tell(checker, "block %" PRIu64 " holds write %" PRIu64 ", which did not write it",
		     block, value.op);
		break;
	case PROMISE_STALE:
		tell(checker,
		     "block %" PRIu64 " holds write %" PRIu64 "; write %" PRIu64
		     " is later and was %s",
		     block, value.op, by, checker->strict ? "acknowledged" : "made durable");
		break;
	}
}

/* 0 or negative errno. */
static int check_blocks(struct checker *checker)
{
	uint32_t unit = checker->range.unit, io = checker->disk->io_bytes / unit;
	uint64_t block = checker->range.first, end = block + checker->range.blocks;
	unsigned char *data = aligned_alloc(PROMISE_UNIT_MAX, checker->disk->io_bytes);
	int err = data ? 0 : -ENOMEM;

	while (!err && block < end) {
		uint32_t count = io - (uint32_t)(block % io);

		if (count > end - block)
			count = (uint32_t)(end - block);
		err = checker->disk->ops->read(checker->disk, data, count * unit, block * unit);
		for (uint32_t i = 0; !err && i < count; i++)
			check_block(checker, block + i, data + (size_t)i * unit);
		block += count;
	}
	free(data);
	return err;
}

static void summary(const struct checker *checker, bool cut)
{
	struct promise_counts counts = promise_history_counts(checker->history);

	printf("%s: %s: %" PRIu64 " blocks broken, %" PRIu64 " hold a write, %" PRIu64
	       " are empty; %" PRIu64 " lives, %" PRIu64 " writes, %" PRIu64
	       " acknowledged, %" PRIu64 " failed, %" PRIu64 " durable, %" PRIu64
	       " flushes, %" PRIu64 " failed%s\n",
	       checker->journal, checker->broken ? "BROKEN" : "kept", checker->broken,
	       checker->held, checker->empty, counts.lives, counts.writes, counts.acknowledged,
	       counts.failed, counts.durable, counts.flushes, counts.flushes_failed,
	       cut ? "; the last line was unfinished" : "");
}

static enum promise_exit check_journal(const struct promise_check *check, struct checker *checker)
{
	struct promise_disk_options options = {
		.depth = 1, .queues = 1, .file_bytes = check->file_bytes, .read_only = true};
	char why[PROMISE_WHY_BYTES];
	int64_t keep;
	bool cut;
	int err;

	checker->history =
		promise_history_read(checker->journal, &checker->range, &keep, &cut, why);
	if (!checker->history) {
		fprintf(stderr, "promise: %s: %s\n", checker->journal, why);
		return PROMISE_EXIT_CANNOT;
	}
	options.writer = checker->range.writer;
	checker->disk = promise_disk_open(check->disk, &options, why);
	if (!checker->disk) {
		fprintf(stderr, "promise: %s: %s\n", check->disk, why);
		return PROMISE_EXIT_CANNOT;
	}
	err = check_blocks(checker);
	if (err) {
		fprintf(stderr, "promise: %s: cannot be read: %s\n", check->disk, strerror(-err));
		return PROMISE_EXIT_CANNOT;
	}
	summary(checker, cut);
	return checker->broken ? PROMISE_EXIT_BROKEN : PROMISE_EXIT_OK;
}

enum promise_exit promise_check(const struct promise_check *check, uint64_t *broken)
{
	enum promise_exit worst = PROMISE_EXIT_OK;

	*broken = 0;
	for (unsigned int i = 0; i < check->journal_count; i++) {
		struct checker checker = {.journal = check->journals[i], .strict = check->strict};
		enum promise_exit status = check_journal(check, &checker);

		*broken += checker.broken;
		if (status > worst)
			worst = status;
		if (checker.disk)
			checker.disk->ops->close(checker.disk);
		promise_history_destroy(checker.history);
	}
	return worst;
}
