/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes that a fault store has to put back when a FLUSH is to lose what it should have made
 * durable: the bytes that were there before each write since the last FLUSH that succeeded. One for
 * a store, for all of its channels; a lock inside.
 */
#ifndef RBLK_TARGET_FAULT_UNDO_H
#define RBLK_TARGET_FAULT_UNDO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct tgt_fault_record;
struct tgt_fault_undo;

struct tgt_fault_entry {
	TAILQ_ENTRY(tgt_fault_entry) link;
	uint64_t order, offset, bytes;
	bool untorn; /* it is put back as a whole or not at all */
	unsigned char *data; /* page aligned */
};

struct tgt_fault_undo *tgt_fault_undo_create(void); /* NULL: no memory */
void tgt_fault_undo_destroy(struct tgt_fault_undo *undo);
/* From now on what is pushed, made durable and forgotten is recorded there, too. */
void tgt_fault_undo_record(struct tgt_fault_undo *undo, struct tgt_fault_record *record);

/* Room for a range's bytes, the caller's until it is pushed or freed. NULL: no memory, or more is
 * kept already than a test should need. */
struct tgt_fault_entry *tgt_fault_entry_alloc(struct tgt_fault_undo *undo, uint64_t offset,
					      uint64_t bytes);
void tgt_fault_entry_free(struct tgt_fault_undo *undo, struct tgt_fault_entry *entry);

/* The range has been written over; `entry` has what was there. */
void tgt_fault_undo_push(struct tgt_fault_undo *undo, struct tgt_fault_entry *entry);
/* The range holds `data` (NULL: zeroes) durably: nothing older is put back there. */
void tgt_fault_undo_durable(struct tgt_fault_undo *undo, uint64_t offset, uint64_t bytes,
			    const void *data);
/* A FLUSH begins; when it has succeeded, what was pushed before is durable. */
uint64_t tgt_fault_undo_mark(struct tgt_fault_undo *undo);
void tgt_fault_undo_forget(struct tgt_fault_undo *undo, uint64_t mark);
/* The newest, for the caller to put back and free; NULL: there is none. */
struct tgt_fault_entry *tgt_fault_undo_pop(struct tgt_fault_undo *undo);

#endif
