/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the loss of power of power.h. It replays the record into an undo, which then has the
 * changes that were not durable.
 */
#include "target/fault/power.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/fault/record.h"
#include "target/fault/undo.h"

#define PAGE_BYTES 4096u
#define ENTRY_BYTES_MAX (256u << 20)

static const char magic[8] = "rblkpwr\n";

/* -- what is lost ------------------------------------------------------------------------------ */

/* One change; false: it is the end, or the process was killed while it wrote this one. */
static bool replay_one(struct tgt_fault_record *record, struct tgt_fault_undo *undo,
		       uint64_t *forgotten)
{
	struct tgt_fault_entry *entry;
	struct tgt_fault_change change;
	bool whole;

	if (!tgt_fault_record_get(record, &change))
		return false;
	if (change.kind == TGT_FAULT_RECORD_FORGET) {
		*forgotten += change.bytes;
		tgt_fault_undo_forget(undo, *forgotten);
		return true;
	}
	if (change.bytes > ENTRY_BYTES_MAX)
		return false;
	if (change.kind == TGT_FAULT_RECORD_ZEROES) {
		tgt_fault_undo_durable(undo, change.offset, change.bytes, NULL);
		return true;
	}
	entry = tgt_fault_entry_alloc(undo, change.offset, change.bytes);
	whole = entry && tgt_fault_record_data(record, entry->data, change.bytes);
	if (whole && (change.kind == TGT_FAULT_RECORD_PUSH || change.kind == TGT_FAULT_RECORD_UNTORN)) {
		entry->untorn = change.kind == TGT_FAULT_RECORD_UNTORN;
		tgt_fault_undo_push(undo, entry);
		return true;
	}
	if (whole)
		tgt_fault_undo_durable(undo, change.offset, change.bytes, entry->data);
	if (entry)
		tgt_fault_entry_free(undo, entry);
	return whole;
}

/* 0 .. below 1, by splitmix64. */
static double draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return (double)(z >> 11) / (double)(1ull << 53);
}

/* Reverts random pages of an entry, or all of an untorn one. 0 or negative errno. */
static int put_back(int disk, const struct tgt_fault_entry *entry, double probability,
		    uint64_t *random)
{
	uint64_t at = 0;

	while (at < entry->bytes) {
		uint64_t part = entry->untorn ? entry->bytes : PAGE_BYTES - (entry->offset + at) % PAGE_BYTES;

		if (part > entry->bytes - at)
			part = entry->bytes - at;
		if (draw(random) < probability &&
		    pwrite(disk, entry->data + at, part, (off_t)(entry->offset + at)) !=
			    (ssize_t)part)
			return errno ? -errno : -EIO;
		at += part;
	}
	return 0;
}

/* The newest first, so that of several for one page the oldest reverted one counts. */
static int lose(struct tgt_fault_record *record, const char *path, double probability,
		uint64_t seed)
{
	uint64_t random = seed + record->head.losses, forgotten = 0;
	struct tgt_fault_undo *undo = tgt_fault_undo_create();
	int disk = open(path, O_WRONLY | O_CLOEXEC);
	struct tgt_fault_entry *entry;
	int err = 0;

	if (!undo || disk < 0) {
		err = undo ? -errno : -ENOMEM;
	} else {
		tgt_fault_record_rewind(record);
		while (replay_one(record, undo, &forgotten))
			;
		errno = 0;
		while ((entry = tgt_fault_undo_pop(undo))) {
			if (!err)
				err = put_back(disk, entry, probability, &random);
			tgt_fault_entry_free(undo, entry);
		}
		if (!err && fsync(disk))
			err = -errno;
	}
	if (disk >= 0)
		close(disk);
	tgt_fault_undo_destroy(undo);
	return err;
}

/* -- opening and closing ----------------------------------------------------------------------- */

static int power_begin(struct tgt_fault_record *record, const char *path, double probability,
		       uint64_t seed)
{
	struct tgt_fault_record_head *head = &record->head;
	bool known = pread(record->fd, head, sizeof(*head), 0) == sizeof(*head) &&
		     !memcmp(head->magic, magic, sizeof(magic));
	int err = 0;

	if (!known) {
		memset(head, 0, sizeof(*head));
		memcpy(head->magic, magic, sizeof(magic));
		env_random(head->epoch, sizeof(head->epoch));
	} else if (!head->closed) {
		err = lose(record, path, probability, seed);
		head->losses++;
		env_random(head->epoch, sizeof(head->epoch));
	}
	if (err)
		return err;
	head->closed = 0;
	tgt_fault_record_empty(record);
	tgt_fault_record_head_put(record);
	return 0;
}

int tgt_fault_power_open(const char *path, double probability, uint64_t seed,
			 struct tgt_fault_record **out, uint8_t epoch[16], char *error)
{
	struct tgt_fault_record *record = calloc(1, sizeof(*record));
	char name[PATH_MAX];
	struct stat st;
	int err;

	if (!record)
		return tgt_error(error, -ENOMEM, "fault: power: out of memory");
	record->fd = -1;
	if (snprintf(name, sizeof(name), "%s.power", path) >= (int)sizeof(name) ||
	    stat(path, &st) || !S_ISREG(st.st_mode)) {
		free(record);
		return tgt_error(error, -EINVAL,
				 "fault: \"power\" needs a store that is a regular file");
	}
	record->fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	err = record->fd < 0 ? -errno : power_begin(record, path, probability, seed);
	if (err) {
		if (record->fd >= 0)
			close(record->fd);
		free(record);
		return tgt_error(error, err, "fault: power: %s: %s", name, strerror(-err));
	}
	memcpy(epoch, record->head.epoch, sizeof(record->head.epoch));
	*out = record;
	return 0;
}

void tgt_fault_power_close(struct tgt_fault_record *record)
{
	if (!record)
		return;
	record->head.closed = 1;
	tgt_fault_record_empty(record);
	tgt_fault_record_head_put(record);
	close(record->fd);
	free(record);
}
