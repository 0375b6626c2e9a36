/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parses a volume's `fault` key into a plan: which operations get which fault. Pure, so that a
 * configuration is checked without opening anything.
 */
#ifndef RBLK_TARGET_FAULT_PLAN_H
#define RBLK_TARGET_FAULT_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include "target/store/store.h"

#define TGT_FAULT_RULES_MAX 16
#define TGT_FAULT_DELAY_MS_MAX 60000u
/* In `kinds`, besides those of operations: the store is closed. Only "delay" has it. */
#define TGT_FAULT_CLOSE (1u << TGT_IO_KINDS)

enum tgt_fault_action {
	TGT_FAULT_DELAY, /* begin later */
	TGT_FAULT_FAIL,  /* do nothing, answer with an error */
	TGT_FAULT_TEAR,  /* write the first half only, then answer with an error */
	/* Put back what was there before all that was written since the last FLUSH that succeeded,
	 * then answer with an error: what Linux does to pages that it could not write back. */
	TGT_FAULT_LOSE,
	TGT_FAULT_POWER, /* the process's end is a loss of power (power.h); of no kind */
};

struct tgt_fault_rule {
	enum tgt_fault_action action;
	unsigned int kinds;  /* bit per enum tgt_io_kind; TGT_FAULT_CLOSE */
	double probability;  /* 0..1, of each operation that comes by */
	uint64_t after;      /* operations that pass unharmed first */
	uint64_t count;      /* most that are hit; UINT64_MAX: no limit */
	uint32_t delay_us;
	int error;           /* negative errno */
};

struct tgt_fault_plan {
	uint64_t seed;
	uint64_t untorn_bytes; /* the longest untorn write; 0: the store's own */
	unsigned int rule_count;
	struct tgt_fault_rule rules[TGT_FAULT_RULES_MAX];
};

/* `why` (bytes) says what is wrong with `text` where -EINVAL is returned. */
int tgt_fault_parse(const char *text, struct tgt_fault_plan *plan, char *why, size_t bytes);

#endif
