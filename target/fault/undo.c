/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The notes of undo.h: a list in the order in which the writes ended. */
#include "target/fault/undo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "target/fault/record.h"

#define PAGE_BYTES 4096u
#define KEPT_BYTES_MAX (256u << 20)

TAILQ_HEAD(entry_list, tgt_fault_entry);

struct tgt_fault_undo {
	pthread_mutex_t lock; /* of everything here */
	struct entry_list entries;
	uint64_t order; /* of the last one pushed */
	uint64_t kept_bytes;
	struct tgt_fault_record *record; /* records all of it; NULL: nobody does */
};

struct tgt_fault_undo *tgt_fault_undo_create(void)
{
	struct tgt_fault_undo *undo = calloc(1, sizeof(*undo));

	if (!undo)
		return NULL;
	pthread_mutex_init(&undo->lock, NULL);
	TAILQ_INIT(&undo->entries);
	return undo;
}

void tgt_fault_undo_record(struct tgt_fault_undo *undo, struct tgt_fault_record *record)
{
	undo->record = record;
}

void tgt_fault_undo_destroy(struct tgt_fault_undo *undo)
{
	if (!undo)
		return;
	undo->record = NULL;
	tgt_fault_undo_forget(undo, UINT64_MAX);
	pthread_mutex_destroy(&undo->lock);
	free(undo);
}

struct tgt_fault_entry *tgt_fault_entry_alloc(struct tgt_fault_undo *undo, uint64_t offset,
					      uint64_t bytes)
{
	struct tgt_fault_entry *entry;

	if (bytes > KEPT_BYTES_MAX)
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->offset = offset;
	entry->bytes = bytes;
	entry->data =
		aligned_alloc(PAGE_BYTES, (bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1));
	pthread_mutex_lock(&undo->lock);
	if (entry->data && undo->kept_bytes + bytes > KEPT_BYTES_MAX) {
		free(entry->data);
		entry->data = NULL;
	}
	if (entry->data)
		undo->kept_bytes += bytes;
	pthread_mutex_unlock(&undo->lock);
	if (!entry->data) {
		free(entry);
		return NULL;
	}
	return entry;
}

/* lock held */
static void entry_free(struct tgt_fault_undo *undo, struct tgt_fault_entry *entry)
{
	undo->kept_bytes -= entry->bytes;
	free(entry->data);
	free(entry);
}

void tgt_fault_entry_free(struct tgt_fault_undo *undo, struct tgt_fault_entry *entry)
{
	pthread_mutex_lock(&undo->lock);
	entry_free(undo, entry);
	pthread_mutex_unlock(&undo->lock);
}

/* lock held */
static void record_push(struct tgt_fault_undo *undo, const struct tgt_fault_entry *entry)
{
	tgt_fault_record_put(undo->record, entry->untorn ? TGT_FAULT_RECORD_UNTORN : TGT_FAULT_RECORD_PUSH,
			     entry->offset, entry->bytes, entry->data);
}

void tgt_fault_undo_push(struct tgt_fault_undo *undo, struct tgt_fault_entry *entry)
{
	pthread_mutex_lock(&undo->lock);
	entry->order = ++undo->order;
	TAILQ_INSERT_TAIL(&undo->entries, entry, link);
	if (undo->record)
		record_push(undo, entry);
	pthread_mutex_unlock(&undo->lock);
}

void tgt_fault_undo_durable(struct tgt_fault_undo *undo, uint64_t offset, uint64_t bytes,
			    const void *data)
{
	struct tgt_fault_entry *entry;

	pthread_mutex_lock(&undo->lock);
	TAILQ_FOREACH(entry, &undo->entries, link) {
		uint64_t first = entry->offset > offset ? entry->offset : offset;
		uint64_t entry_end = entry->offset + entry->bytes, end = offset + bytes;

		if (end > entry_end)
			end = entry_end;
		if (first >= end)
			continue;
		if (data)
			memcpy(entry->data + (first - entry->offset),
			       (const unsigned char *)data + (first - offset), end - first);
		else
			memset(entry->data + (first - entry->offset), 0, end - first);
	}
	if (undo->record)
		tgt_fault_record_put(undo->record, data ? TGT_FAULT_RECORD_DURABLE : TGT_FAULT_RECORD_ZEROES,
				     offset, bytes, data);
	pthread_mutex_unlock(&undo->lock);
}

uint64_t tgt_fault_undo_mark(struct tgt_fault_undo *undo)
{
	uint64_t mark;

	pthread_mutex_lock(&undo->lock);
	mark = undo->order;
	pthread_mutex_unlock(&undo->lock);
	return mark;
}

/* lock held; so many have just been forgotten */
static void record_forget(struct tgt_fault_undo *undo, uint64_t count)
{
	struct tgt_fault_entry *entry;

	if (!undo->record || !count)
		return;
	if (!tgt_fault_record_full(undo->record, undo->kept_bytes)) {
		tgt_fault_record_put(undo->record, TGT_FAULT_RECORD_FORGET, 0, count, NULL);
		return;
	}
	tgt_fault_record_empty(undo->record);
	TAILQ_FOREACH(entry, &undo->entries, link)
		record_push(undo, entry);
}

void tgt_fault_undo_forget(struct tgt_fault_undo *undo, uint64_t mark)
{
	struct tgt_fault_entry *entry;
	uint64_t count = 0;

	pthread_mutex_lock(&undo->lock);
	while ((entry = TAILQ_FIRST(&undo->entries)) && entry->order <= mark) {
		TAILQ_REMOVE(&undo->entries, entry, link);
		entry_free(undo, entry);
		count++;
	}
	record_forget(undo, count);
	pthread_mutex_unlock(&undo->lock);
}

struct tgt_fault_entry *tgt_fault_undo_pop(struct tgt_fault_undo *undo)
{
	struct tgt_fault_entry *entry;

	pthread_mutex_lock(&undo->lock);
	entry = TAILQ_LAST(&undo->entries, entry_list);
	if (entry)
		TAILQ_REMOVE(&undo->entries, entry, link);
	pthread_mutex_unlock(&undo->lock);
	return entry;
}
