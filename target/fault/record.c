/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the bytes of the file of record.h. */
#include "target/fault/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLACK_BYTES (16u << 20) /* that the file may have beyond what is kept */

__attribute__((noreturn)) static void give_up(void)
{
	fprintf(stderr, "fault: power: the record cannot be written: %s\n", strerror(errno));
	abort();
}

static void put(struct tgt_fault_record *record, const void *data, uint64_t bytes)
{
	if (pwrite(record->fd, data, bytes, record->end) != (ssize_t)bytes)
		give_up();
	record->end += (off_t)bytes;
}

void tgt_fault_record_put(struct tgt_fault_record *record, enum tgt_fault_record_kind kind,
			  uint64_t offset, uint64_t bytes, const void *data)
{
	const struct tgt_fault_change change = {.kind = kind, .offset = offset, .bytes = bytes};

	put(record, &change, sizeof(change));
	if (data)
		put(record, data, bytes);
}

bool tgt_fault_record_data(struct tgt_fault_record *record, void *data, uint64_t bytes)
{
	if (pread(record->fd, data, bytes, record->end) != (ssize_t)bytes)
		return false;
	record->end += (off_t)bytes;
	return true;
}

bool tgt_fault_record_get(struct tgt_fault_record *record, struct tgt_fault_change *change)
{
	return tgt_fault_record_data(record, change, sizeof(*change)) && change->kind &&
	       change->kind <= TGT_FAULT_RECORD_FORGET;
}

void tgt_fault_record_rewind(struct tgt_fault_record *record)
{
	record->end = sizeof(record->head);
}

bool tgt_fault_record_full(const struct tgt_fault_record *record, uint64_t kept_bytes)
{
	return (uint64_t)record->end > 2 * kept_bytes + SLACK_BYTES;
}

void tgt_fault_record_empty(struct tgt_fault_record *record)
{
	tgt_fault_record_rewind(record);
	if (ftruncate(record->fd, record->end))
		give_up();
}

void tgt_fault_record_head_put(struct tgt_fault_record *record)
{
	if (pwrite(record->fd, &record->head, sizeof(record->head), 0) != sizeof(record->head))
		give_up();
}
