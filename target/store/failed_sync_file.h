/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The failed-sync file that a process leaves for the next one about a file or device that it has served (F9):
 * its cache epoch, whether it ended in good order, whether a sync has failed. A small file for
 * each, in a folder that lives as long as the machine's boot. It is mapped while the volume is
 * open, so that recording a failure is a store to memory: no reactor waits for it, and it is kept
 * if the process is killed right after. Opened and closed with the volume's store, under its lock
 * (F6), by epoch.c; sync.c writes.
 */
#ifndef RBLK_TARGET_STORE_FAILED_SYNC_FILE_H
#define RBLK_TARGET_STORE_FAILED_SYNC_FILE_H

#include <stdatomic.h>
#include "target/store/store.h"

enum tgt_store_condition {
	TGT_STORE_CLEAN,   /* not served since all that was acknowledged was made durable */
	TGT_STORE_SERVED,  /* it is served, or was by a process that was killed */
	TGT_STORE_DOUBTED, /* likewise, and the file system has failed to write */
};

/* As in the file, in the machine's byte order: it never leaves the machine. */
struct tgt_failed_sync_file {
	char magic[8];
	uint8_t cache_epoch[16]; /* the store's own; another one: the machine was down since */
	uint64_t born_s, born_ns; /* of a file: another one may have its number now; else 0 */
	/* As in struct tgt_volume_trouble. Epoch 0: nothing is known of an earlier process. */
	_Atomic uint64_t epoch;
	_Atomic uint64_t lost_ns;
	_Atomic uint64_t state; /* enum tgt_store_condition */
};

/*
 * Makes the folder if it is missing (only its last part). A record of another boot, or of a file
 * that does not exist any more, is begun anew; one that is not this user's own file is replaced. -EPERM: it cannot be. 0 or
 * negative errno; error: TGT_ERROR_BYTES.
 */
int tgt_failed_sync_file_open(const char *folder, const struct tgt_store_info *info, struct tgt_failed_sync_file **file,
			      char *error);
/*
 * A copy for a volume that is only read. False: there is none. Nothing is written, as several processes may serve such a
 * volume: so what is told to every session is told again when the volume is opened anew, until one that is writable has
 * settled it.
 */
bool tgt_failed_sync_file_find(const char *folder, const struct tgt_store_info *info, struct tgt_failed_sync_file *file);
/* The file stays, until the machine is started again. */
void tgt_failed_sync_file_close(struct tgt_failed_sync_file *file);

#endif
