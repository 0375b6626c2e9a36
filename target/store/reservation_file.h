/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registrations and reservations that outlive the daemon: one file for each volume that has any,
 * "reservations-UUID", in a folder (folder.h) that outlives the machine's boot. A file is replaced as a whole:
 * after a crash there is the old one or the new one. Calls block; the volume's lock on its store
 * (F6) keeps other processes away from its file.
 */
#ifndef RBLK_TARGET_STORE_RESERVATION_FILE_H
#define RBLK_TARGET_STORE_RESERVATION_FILE_H

#include <limits.h>
#include "target/store/reservation.h"

/*
 * *reservation: as it was saved, or nobody if there is no file; from then on a crash does not bring
 * back what was there before it. A file that is damaged, or of
 * another volume, is an error and stays as it is: without it the target would admit initiators that
 * it should keep out. 0 or negative errno; error: TGT_ERROR_BYTES.
 */
int tgt_reservation_load(const char *folder, const uint8_t uuid[16],
			 struct tgt_reservation *reservation, char *error);
/* There is a file for this volume, whatever it says; *path: it. */
bool tgt_reservation_exists(const char *folder, const uint8_t uuid[16], char path[PATH_MAX]);
/*
 * 0: it is on disk. A reservation that is not to persist, or has no registrants, has no file.
 * Otherwise negative errno. *replaced: tgt_reservation_load() finds the new one; after an error a crash of
 * the machine may bring back the old one. Not *replaced: nothing has changed.
 */
int tgt_reservation_save(const char *folder, const uint8_t uuid[16],
			 const struct tgt_reservation *reservation, bool *replaced, char *error);

#endif
