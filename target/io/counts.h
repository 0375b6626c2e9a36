/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The counts of a session's commands to one volume, made by the reactor that did them: plain memory
 * of that reactor, which nobody else reads (serve/snapshot.c hands out copies). Counted once for each
 * command, when its answer is known (request.c); waits for limits when they begin and end
 * (throttle.c). serve/stats.c owns them.
 */
#ifndef RBLK_TARGET_COUNTS_H
#define RBLK_TARGET_COUNTS_H

#include <stddef.h>
#include <stdint.h>
#include "proto/core/buckets.h"
#include "proto/wire/message.h"

/* Block commands; session commands are counted nowhere here. */
#define TGT_COUNT_OPCODES (RBLK_OP_EXTENTS + 1)

enum tgt_count_kind { TGT_COUNT_READ, TGT_COUNT_WRITE, TGT_COUNT_OTHER, TGT_COUNT_KINDS };
enum tgt_count_stage {
	TGT_STAGE_QUEUED, /* from arrival until the store got it: waits, and a write's data came */
	TGT_STAGE_STORED, /* in the store */
	TGT_STAGE_BOTH,	  /* the sum: from arrival until the answer is known */
	TGT_STAGES
};

struct tgt_counts {
	uint64_t operations[TGT_COUNT_OPCODES]; /* by opcode, with those that failed */
	uint64_t errors[RBLK_E_MAX];		/* by status */
	uint64_t bytes_read, bytes_written;
	uint64_t us[TGT_COUNT_KINDS][TGT_STAGES]; /* sums of the latencies */
	uint64_t latency[TGT_COUNT_KINDS][TGT_STAGES][CORE_BUCKETS];
	/* throttle.c: commands that had to wait for a limit; how long in all, without waits that go on. */
	uint64_t limited_commands, limited_ns;
};

static inline enum tgt_count_kind tgt_count_kind_of(uint8_t opcode)
{
	return opcode == RBLK_OP_READ	 ? TGT_COUNT_READ
	       : opcode == RBLK_OP_WRITE ? TGT_COUNT_WRITE
					 : TGT_COUNT_OTHER;
}

/* A block command is answered. */
static inline void tgt_counts_add(struct tgt_counts *counts, uint8_t opcode, uint32_t queued_us,
				  uint32_t stored_us)
{
	enum tgt_count_kind kind = tgt_count_kind_of(opcode);
	uint64_t *us = counts->us[kind], (*latency)[CORE_BUCKETS] = counts->latency[kind];
	uint32_t both_us = queued_us + stored_us < queued_us ? UINT32_MAX : queued_us + stored_us;

	counts->operations[opcode]++;
	us[TGT_STAGE_QUEUED] += queued_us;
	us[TGT_STAGE_STORED] += stored_us;
	us[TGT_STAGE_BOTH] += both_us;
	latency[TGT_STAGE_QUEUED][core_bucket(queued_us)]++;
	latency[TGT_STAGE_STORED][core_bucket(stored_us)]++;
	latency[TGT_STAGE_BOTH][core_bucket(both_us)]++;
}

/* *total += *one, of structs of so many bytes that have nothing but 64-bit counts. */
void tgt_counts_sum(void *total, const void *one, size_t bytes);
/* Commands of a kind that were answered: all its latencies. */
uint64_t tgt_counts_of_kind(const struct tgt_counts *counts, enum tgt_count_kind kind);

#endif
