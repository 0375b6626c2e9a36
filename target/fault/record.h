/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The file that survives the process for power.c: a head, then records of what happened to an
 * undo (undo.h), in order. The caller holds that undo's lock. If the file cannot be written,
 * the process is aborted, because a test that went on would give wrong results.
 */
#ifndef RBLK_TARGET_FAULT_RECORD_H
#define RBLK_TARGET_FAULT_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tgt_fault_record_head {
	char magic[8];
	uint8_t epoch[16];
	uint64_t losses; /* of power so far */
	uint64_t closed; /* 1: in good order */
};

struct tgt_fault_record {
	int fd;
	off_t end; /* where the next record begins */
	struct tgt_fault_record_head head;
};

enum tgt_fault_record_kind {
	TGT_FAULT_RECORD_PUSH = 1,
	TGT_FAULT_RECORD_UNTORN, /* likewise, of an untorn write */
	TGT_FAULT_RECORD_DURABLE, /* data: what is there */
	TGT_FAULT_RECORD_ZEROES,  /* durable, without data */
	TGT_FAULT_RECORD_FORGET,  /* bytes: how many of the oldest */
};

struct tgt_fault_change {
	uint64_t kind, offset, bytes; /* kind: enum tgt_fault_record_kind */
};

void tgt_fault_record_put(struct tgt_fault_record *record, enum tgt_fault_record_kind kind,
			  uint64_t offset, uint64_t bytes, const void *data);
/* The next change, whose data, if it has any, is read by the second. False: there is no whole one.
 */
bool tgt_fault_record_get(struct tgt_fault_record *record, struct tgt_fault_change *change);
bool tgt_fault_record_data(struct tgt_fault_record *record, void *data, uint64_t bytes);

void tgt_fault_record_rewind(struct tgt_fault_record *record);
/* The file has grown far beyond what is kept: empty it, and write again what is still needed. */
bool tgt_fault_record_full(const struct tgt_fault_record *record, uint64_t kept_bytes);
void tgt_fault_record_empty(struct tgt_fault_record *record);
void tgt_fault_record_head_put(struct tgt_fault_record *record);

#endif
