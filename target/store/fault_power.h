/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What makes the end of the process that serves a file look like a loss of power: a file beside it,
 * NAME.power, has what each write since the last FLUSH has overwritten (fault_record.h). When the
 * next process finds that the last one did not close the store, it puts a random part of that back,
 * page by page, and the volume has another cache epoch (F7). Called by the fault store when it is
 * opened and closed.
 */
#ifndef RBLK_TARGET_STORE_FAULT_POWER_H
#define RBLK_TARGET_STORE_FAULT_POWER_H

#include <stdint.h>

struct tgt_fault_record;

/*
 * path: of the regular file that is served, which nobody uses yet. Puts back what the loss of power
 * took. *out: for tgt_fault_undo_record().
 */
int tgt_fault_power_open(const char *path, double probability, uint64_t seed,
			 struct tgt_fault_record **out, uint8_t epoch[16], char *error);
/* In good order, as a machine that is shut down: nothing is lost. NULL: nothing. */
void tgt_fault_power_close(struct tgt_fault_record *record);

#endif
