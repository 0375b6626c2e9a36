/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes the end of the process that serves a file look like a loss of power. A file beside it,
 * NAME.power, keeps the data that each write since the last FLUSH has overwritten (record.h).
 * When the next process finds that the last one did not close the store, it reverts a random part
 * of the writes, page by page, and the volume has another cache epoch (F7). Called by the fault
 * store when it is opened and closed.
 */
#ifndef RBLK_TARGET_FAULT_POWER_H
#define RBLK_TARGET_FAULT_POWER_H

#include <stdint.h>

struct tgt_fault_record;

/*
 * path: of the regular file that is served, which nobody uses yet. Puts back what the loss of power
 * took. *out: for tgt_fault_undo_record().
 */
int tgt_fault_power_open(const char *path, double probability, uint64_t seed,
			 struct tgt_fault_record **out, uint8_t epoch[16], char *error);
/* Closes it cleanly, as a machine that is shut down: nothing is lost. NULL: no effect. */
void tgt_fault_power_close(struct tgt_fault_record *record);

#endif
