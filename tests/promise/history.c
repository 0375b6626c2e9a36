/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the writes and flushes of a journal, see history.h. Their order is that of their lines:
 * `clock` counts them. The writes of a block are a list through links, one for each block of each
 * write.
 */
#include "tests/promise/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX
#define FLUSHES_MAX 64u /* that are under way at the same time */

enum write_state {
	WRITE_SENT,
	WRITE_UNKNOWN, /* failed, or left by a life that ended; it may still be under way unless
			  `end` says when it was over */
	WRITE_ACKNOWLEDGED,
	WRITE_DURABLE,
	WRITE_VOID, /* acknowledged; a flush that failed may have lost it */
};

struct write {
	uint64_t start, end;
	uint64_t block;
	uint32_t count;
	enum write_state state;
	bool fua;
};

struct link {
	uint64_t write, next; /* indexes; next: plus one */
};

struct flush {
	uint64_t number, start; /* number 0: free */
};

struct array {
	void *items;
	uint64_t count, room;
};

struct promise_history {
	struct promise_range range;
	uint64_t clock;
	struct array writes; /* of struct write: number n is item n - 1 */
	struct array links;  /* of struct link */
	uint64_t *heads;     /* of each block: index of a link plus one */
	struct array open;   /* of uint64_t: writes that are not over */
	struct array unsafe; /* of uint64_t: writes that are ACKNOWLEDGED */
	struct flush flushes[FLUSHES_MAX];
	struct promise_counts counts;
	bool began, opened; /* of this life */
};

static void *array_add(struct array *array, size_t bytes)
{
	if (array->count == array->room) {
		array->room = array->room ? array->room * 2 : 1024;
		array->items = realloc(array->items, array->room * bytes);
		if (!array->items) {
			perror("promise");
			exit(2);
		}
	}
	return (char *)array->items + array->count++ * bytes;
}

static struct write *write_at(const struct promise_history *history, uint64_t index)
{
	return (struct write *)history->writes.items + index;
}

struct promise_history *promise_history_create(const struct promise_range *range)
{
	struct promise_history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->range = *range;
	history->heads = calloc(range->blocks, sizeof(*history->heads));
	if (!history->heads) {
		free(history);
		return NULL;
	}
	return history;
}

void promise_history_destroy(struct promise_history *history)
{
	if (!history)
		return;
	free(history->writes.items);
	free(history->links.items);
	free(history->open.items);
	free(history->unsafe.items);
	free(history->heads);
	free(history);
}

/* -- the records ------------------------------------------------------------------------------- */

static void open_remove(struct promise_history *history, uint64_t index)
{
	uint64_t *open = history->open.items;

	for (uint64_t i = 0; i < history->open.count; i++) {
		if (open[i] == index) {
			open[i] = open[--history->open.count];
			return;
		}
	}
}

/* What earlier lives left is over. */
static void take_open(struct promise_history *history)
{
	const uint64_t *open = history->open.items;

	for (uint64_t i = 0; i < history->open.count; i++) {
		struct write *write = write_at(history, open[i]);

		write->state = WRITE_UNKNOWN;
		write->end = history->clock;
	}
	history->open.count = 0;
	memset(history->flushes, 0, sizeof(history->flushes));
	history->opened = true;
}

static bool take_write(struct promise_history *history, const struct promise_record *record,
		       char *why)
{
	const struct promise_range *range = &history->range;
	uint64_t index = history->writes.count, from = record->block - range->first;
	struct write *write;

	if (record->number != index + 1 || !record->count || record->block < range->first ||
	    from >= range->blocks || record->count > range->blocks - from) {
		snprintf(why, PROMISE_WHY_BYTES, "write %" PRIu64 " is out of order or of range",
			 record->number);
		return false;
	}
	write = array_add(&history->writes, sizeof(*write));
	*write = (struct write){.start = history->clock,
				.end = NEVER,
				.block = record->block,
				.count = record->count,
				.fua = record->fua};
	*(uint64_t *)array_add(&history->open, sizeof(uint64_t)) = index;
	for (uint32_t i = 0; i < record->count; i++) {
		struct link *link = array_add(&history->links, sizeof(*link));

		*link = (struct link){.write = index, .next = history->heads[from + i]};
		history->heads[from + i] = history->links.count;
	}
	history->counts.writes++;
	return true;
}

/* Acknowledged, or failed. */
static bool take_end(struct promise_history *history, const struct promise_record *record,
		     char *why)
{
	uint64_t index = record->number - 1;
	struct write *write =
		record->number && index < history->writes.count ? write_at(history, index) : NULL;
	bool good = record->event == PROMISE_ACKNOWLEDGED;

	if (!write || write->state != WRITE_SENT) {
		snprintf(why, PROMISE_WHY_BYTES, "write %" PRIu64 " is not under way",
			 record->number);
		return false;
	}
	write->state = !good ? WRITE_UNKNOWN : write->fua ? WRITE_DURABLE : WRITE_ACKNOWLEDGED;
	history->counts.acknowledged += good;
	history->counts.failed += !good;
	if (write->state == WRITE_ACKNOWLEDGED)
		*(uint64_t *)array_add(&history->unsafe, sizeof(uint64_t)) = index;
	if (!good && !record->over)
		return true;
	write->end = history->clock;
	open_remove(history, index);
	return true;
}

static struct flush *flush_find(struct promise_history *history, uint64_t number)
{
	for (unsigned int i = 0; i < FLUSHES_MAX; i++)
		if (history->flushes[i].number == number)
			return &history->flushes[i];
	return NULL;
}

/* What a flush decides about writes that were acknowledged: before it began, or, if it failed, at
 * all. */
static void settle(struct promise_history *history, uint64_t before, enum write_state state)
{
	uint64_t *unsafe = history->unsafe.items, kept = 0;

	for (uint64_t i = 0; i < history->unsafe.count; i++) {
		struct write *write = write_at(history, unsafe[i]);

		if (write->end < before)
			write->state = state;
		else
			unsafe[kept++] = unsafe[i];
	}
	history->unsafe.count = kept;
}

static bool take_flush(struct promise_history *history, const struct promise_record *record,
		       char *why)
{
	bool begins = record->event == PROMISE_FLUSH;
	struct flush *flush = flush_find(history, begins ? 0 : record->number);

	if (!record->number || !flush) {
		snprintf(why, PROMISE_WHY_BYTES, "flush %" PRIu64 " %s", record->number,
			 begins ? "is one too many" : "is not under way");
		return false;
	}
	if (begins) {
		*flush = (struct flush){.number = record->number, .start = history->clock};
		history->counts.flushes_begun++;
		return true;
	}
	if (record->event == PROMISE_FLUSHED)
		settle(history, flush->start, WRITE_DURABLE);
	else
		settle(history, NEVER, WRITE_VOID);
	history->counts.flushes += record->event == PROMISE_FLUSHED;
	history->counts.flushes_failed += record->event == PROMISE_FLUSH_FAILED;
	flush->number = 0;
	return true;
}

bool promise_history_take(struct promise_history *history, const struct promise_record *record,
			  char *why)
{
	history->clock++;
	switch (record->event) {
	case PROMISE_NOTE:
		return true;
	case PROMISE_BEGIN:
		history->counts.lives++;
		history->began = true;
		history->opened = false;
		return true;
	case PROMISE_OPEN:
		if (!history->began)
			break;
		take_open(history);
		return true;
	case PROMISE_END:
		return true;
	default:
		if (!history->opened)
			break;
		if (record->event == PROMISE_WRITE)
			return take_write(history, record, why);
		if (record->event == PROMISE_ACKNOWLEDGED || record->event == PROMISE_FAILED)
			return take_end(history, record, why);
		return take_flush(history, record, why);
	}
	snprintf(why, PROMISE_WHY_BYTES, "'%c' before the life has begun and the volume is open",
		 record->event);
	return false;
}

struct reader {
	struct promise_range range;
	struct promise_history *history;
};

static bool read_record(void *arg, const struct promise_record *record, char *why)
{
	struct reader *reader = arg;

	if (record)
		return promise_history_take(reader->history, record, why);
	reader->history = promise_history_create(&reader->range);
	if (!reader->history)
		snprintf(why, PROMISE_WHY_BYTES, "out of memory");
	return reader->history;
}

struct promise_history *promise_history_read(const char *path, struct promise_range *range,
					     int64_t *keep, bool *cut, char *why)
{
	struct reader reader = {.history = NULL};

	*keep = promise_journal_read(path, &reader.range, read_record, &reader, cut, why);
	if (*keep < 0) {
		promise_history_destroy(reader.history);
		return NULL;
	}
	*range = reader.range;
	return reader.history;
}

/* -- the verdict ------------------------------------------------------------------------------- */

static bool holds(const struct write *write, bool strict)
{
	return write->state == WRITE_DURABLE ||
	       (strict && (write->state == WRITE_ACKNOWLEDGED || write->state == WRITE_VOID));
}

enum promise_verdict promise_history_judge(const struct promise_history *history, uint64_t block,
					   uint64_t op, bool strict, uint64_t *by)
{
	uint64_t end = 0, next;
	const struct write *write;

	if (op) {
		write = op <= history->writes.count ? write_at(history, op - 1) : NULL;
		if (!write || block < write->block || block - write->block >= write->count)
			return PROMISE_NOT_WRITTEN;
		end = write->end;
	}
	for (next = history->heads[block - history->range.first]; next;) {
		const struct link *link = (const struct link *)history->links.items + (next - 1);

		write = write_at(history, link->write);
		if (write->start > end && holds(write, strict)) {
			*by = link->write + 1;
			return PROMISE_STALE;
		}
		next = link->next;
	}
	return PROMISE_KEPT;
}

struct promise_counts promise_history_counts(const struct promise_history *history)
{
	struct promise_counts counts = history->counts;

	for (uint64_t i = 0; i < history->writes.count; i++)
		counts.durable += write_at(history, i)->state == WRITE_DURABLE;
	return counts;
}
