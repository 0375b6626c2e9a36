/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the load of one writer: random writes and flushes at depth in a range that is its alone,
 * each line of the journal appended before its command is begun. No two writes to a block are under
 * way at the same time. A journal that exists is continued: a new life.
 */
#include "tests/promise/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/promise/block.h"
#include "tests/promise/history.h"

struct load;

/* A command under way, or free. */
struct slot {
	struct load *load;
	unsigned char *data; /* of io_bytes */
	uint64_t number;     /* of the write or flush */
	uint64_t block;	     /* of a write, within the range */
	uint32_t count;	     /* of a write; 0: a flush */
	bool busy;
};

struct load {
	const struct promise_run *run;
	struct promise_range range;
	struct promise_disk *disk;
	int journal;
	struct slot *slots;
	uint32_t used;	     /* of the slots */
	unsigned char *busy; /* for each block: a write is under way */
	uint64_t random, writes, flushes, begun;
	int error; /* that ends the load */
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static void append(struct load *load, struct promise_record record)
{
	promise_journal_append(load->journal, &record);
}

static void on_note(void *arg, const char *text)
{
	append(arg, (struct promise_record){.event = PROMISE_NOTE, .text = text});
}

/* -- commands ---------------------------------------------------------------------------------- */

static void slot_end(struct slot *slot)
{
	memset(slot->load->busy + slot->block, 0, slot->count);
	slot->busy = false;
	slot->load->used--;
}

static void write_done(void *arg, int error, bool over)
{
	struct slot *slot = arg;
	struct load *load = slot->load;

	append(load, (struct promise_record){.event = error ? PROMISE_FAILED : PROMISE_ACKNOWLEDGED,
					     .number = slot->number,
					     .error = -error,
					     .over = over});
	slot_end(slot);
	if (error && !over && !load->error)
		load->error = error;
}

static void flush_done(void *arg, int error, bool over)
{
	struct slot *slot = arg;
	struct load *load = slot->load;

	append(load,
	       (struct promise_record){.event = error ? PROMISE_FLUSH_FAILED : PROMISE_FLUSHED,
				       .number = slot->number,
				       .error = -error});
	slot_end(slot);
	if (error && !load->disk->ops->acknowledge(load->disk) && !load->error)
		load->error = error;
	(void)over;
}

/* A place for a write that overlaps none under way; false: there was none at the first try. */
static bool write_place(struct load *load, struct slot *slot)
{
	uint32_t most = load->disk->io_bytes / load->range.unit;
	uint64_t absolute;

	if (most > load->run->blocks_max)
		most = load->run->blocks_max;
	slot->block = promise_random(&load->random) % load->range.blocks;
	slot->count = 1 + (uint32_t)(promise_random(&load->random) % most);
	if (slot->count > load->range.blocks - slot->block)
		slot->count = (uint32_t)(load->range.blocks - slot->block);
	/* Within one file of a folder. */
	most = load->disk->io_bytes / load->range.unit;
	absolute = load->range.first + slot->block;
	if (slot->count > most - absolute % most)
		slot->count = (uint32_t)(most - absolute % most);
	return !memchr(load->busy + slot->block, 1, slot->count);
}

static int write_begin(struct load *load, struct slot *slot)
{
	bool fua = promise_random(&load->random) % 1000 < load->run->fua_per_1000 &&
		   load->disk->can_fua;
	struct promise_value value = {
		.run = load->range.run,
		.op = load->writes + 1,
		.time_ns = promise_now_ns(),
		.writer = load->range.writer,
	};
	uint32_t unit = load->range.unit;
	int err;

	for (uint32_t i = 0; i < slot->count; i++) {
		value.block = load->range.first + slot->block + i;
		promise_block_fill(slot->data + (size_t)i * unit, unit, &value);
	}
	slot->number = ++load->writes;
	memset(load->busy + slot->block, 1, slot->count);
	slot->busy = true;
	load->used++;
	append(load, (struct promise_record){.event = PROMISE_WRITE,
					     .number = slot->number,
					     .block = load->range.first + slot->block,
					     .count = slot->count,
					     .fua = fua});
	err = load->disk->ops->write(load->disk, slot->data, slot->count * unit,
				     (load->range.first + slot->block) * unit, fua, write_done,
				     slot);
	if (!err)
		return 0;
	append(load, (struct promise_record){.event = PROMISE_FAILED,
					     .number = slot->number,
					     .error = -err,
					     .over = true});
	slot_end(slot);
	return err;
}

static int flush_begin(struct load *load, struct slot *slot)
{
	int err;

	slot->count = 0;
	slot->block = 0;
	slot->number = ++load->flushes;
	slot->busy = true;
	load->used++;
	append(load, (struct promise_record){.event = PROMISE_FLUSH, .number = slot->number});
	err = load->disk->ops->flush(load->disk, flush_done, slot);
	if (!err)
		return 0;
	append(load, (struct promise_record){
			     .event = PROMISE_FLUSH_FAILED, .number = slot->number, .error = -err});
	slot_end(slot);
	/* It fails without being sent where it is known already that writes are lost. */
	return err == -EIO && load->disk->ops->acknowledge(load->disk) ? 0 : err;
}

/* -- the load ---------------------------------------------------------------------------------- */

static bool wanted(const struct load *load)
{
	return !stopped && !load->error && (!load->run->writes || load->begun < load->run->writes);
}

static void fill_slots(struct load *load)
{
	for (uint32_t i = 0; i < load->run->options.depth && wanted(load); i++) {
		struct slot *slot = &load->slots[i];
		int err;

		if (slot->busy)
			continue;
		if (promise_random(&load->random) % 1000 < load->run->flush_per_1000)
			err = flush_begin(load, slot);
		else if (!write_place(load, slot))
			continue;
		else
			err = write_begin(load, slot);
		load->begun += !err;
		if (err && err != -EAGAIN)
			load->error = err;
		if (err)
			return;
	}
}

static void load_wait(struct load *load)
{
	int err = load->disk->ops->wait(load->disk);

	if (err && !load->error)
		load->error = err;
}

/*
 * A disk has failed. Where it is a file system that has stopped, what its cache still has is lost
 * when it is unmounted, and no flush of a later life says so: a flush that failed stands for that.
 */
static void promises_end(struct load *load)
{
	struct promise_record record = {.event = PROMISE_FLUSH, .number = ++load->flushes};

	append(load, record);
	record.event = PROMISE_FLUSH_FAILED;
	record.error = -load->error;
	append(load, record);
}

static enum promise_exit load_run(struct load *load)
{
	while (wanted(load)) {
		fill_slots(load);
		load_wait(load);
	}
	while (load->used && (!load->error || load->error != load->disk->ops->wait(load->disk)))
		load_wait(load);
	if (!load->error && load->run->last_flush) {
		load->error = flush_begin(load, &load->slots[0]);
		while (load->used && !load->error)
			load_wait(load);
	}
	if (load->error)
		promises_end(load);
	append(load, (struct promise_record){.event = PROMISE_END});
	if (!load->error)
		return PROMISE_EXIT_OK;
	fprintf(stderr, "promise: %s: %s\n", load->run->disk, strerror(-load->error));
	return PROMISE_EXIT_BROKEN;
}

/* -- beginning --------------------------------------------------------------------------------- */

/* The journal's own range if it exists, and where its numbers end. */
static int journal_begin(struct load *load, const struct promise_run *run)
{
	struct promise_history *history;
	char why[PROMISE_WHY_BYTES];
	struct promise_range range;
	int64_t keep = 0;
	bool cut;

	load->range = run->range;
	if (access(run->journal, F_OK) == 0) {
		history = promise_history_read(run->journal, &range, &keep, &cut, why);
		if (!history) {
			fprintf(stderr, "promise: %s: %s\n", run->journal, why);
			return -EPROTO;
		}
		load->range = range;
		load->writes = promise_history_counts(history).writes;
		load->flushes = promise_history_counts(history).flushes_begun;
		promise_history_destroy(history);
	} else {
		load->range.run = promise_now_ns() ^ (uint64_t)getpid() << 48;
	}
	load->journal = promise_journal_open(run->journal, &load->range, keep);
	if (load->journal < 0) {
		perror(run->journal);
		return -errno;
	}
	append(load, (struct promise_record){.event = PROMISE_BEGIN});
	return 0;
}

static int load_begin(struct load *load, const struct promise_run *run)
{
	char error[PROMISE_ERROR_BYTES];
	uint64_t end = (load->range.first + load->range.blocks) * load->range.unit;
	uint32_t depth = run->options.depth;

	load->disk = promise_disk_open(run->disk, &run->options, error);
	if (!load->disk) {
		fprintf(stderr, "promise: %s: %s\n", run->disk, error);
		return -EIO;
	}
	if ((load->disk->bytes && end > load->disk->bytes) ||
	    load->range.unit % load->disk->block_bytes || load->disk->io_bytes % load->range.unit) {
		fprintf(stderr, "promise: %s: has no room for the range, or other blocks\n",
			run->disk);
		return -EINVAL;
	}
	load->busy = calloc(load->range.blocks, 1);
	load->slots = calloc(depth, sizeof(*load->slots));
	if (!load->busy || !load->slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < depth; i++) {
		load->slots[i].load = load;
		load->slots[i].data = load->disk->ops->buffer(load->disk, load->disk->io_bytes);
		if (!load->slots[i].data)
			return -ENOMEM;
	}
	load->disk->note = on_note;
	load->disk->note_arg = load;
	append(load, (struct promise_record){.event = PROMISE_OPEN});
	return 0;
}

enum promise_exit promise_run(const struct promise_run *run)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct load load = {.run = run, .random = run->seed};
	enum promise_exit status = PROMISE_EXIT_CANNOT;

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (journal_begin(&load, run) == 0) {
		/* Each life does something else. */
		load.random += load.writes;
		if (load_begin(&load, run) == 0)
			status = load_run(&load);
		close(load.journal);
	}
	if (load.disk)
		load.disk->ops->close(load.disk);
	free(load.slots);
	free(load.busy);
	return status;
}
