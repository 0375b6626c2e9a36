/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reservation as bytes: of a file (reservation_file.h), and of a note that the targets of a store keep in common and
 * send each other (store.h).
 */
#ifndef RBLK_TARGET_STORE_RESERVATION_IMAGE_H
#define RBLK_TARGET_STORE_RESERVATION_IMAGE_H

#include "target/store/reservation.h"

struct tgt_reservation_image {
	uint8_t bytes[48 + 104 * RBLK_REGISTRANTS_MAX];
};

/* Returns how many bytes it is; those behind them are zero. */
size_t tgt_reservation_encode(const struct tgt_reservation *reservation, const uint8_t uuid[16],
			      struct tgt_reservation_image *image);
/* NULL, or what is wrong with so many bytes. It persists, if there are registrants. */
const char *tgt_reservation_decode(const struct tgt_reservation_image *image, size_t bytes, const uint8_t uuid[16],
				   struct tgt_reservation *reservation);

/* A state, by whom and how it came about. All zero: there never was any. */
struct tgt_reservation_note {
	__le64 serial; /* first: no two states of a volume have the same, and later ones a higher one */
	char by[RBLK_NAME_BYTES];
	uint8_t action, aborts;
	uint8_t reserved[6];
	struct tgt_reservation_image image;
};

void tgt_reservation_note_encode(const struct tgt_reservation *reservation, const struct tgt_reservation_by *by,
				 struct tgt_reservation_note *note);
/* NULL, or what is wrong with it. */
const char *tgt_reservation_note_decode(const struct tgt_reservation_note *note, struct tgt_reservation *reservation,
					struct tgt_reservation_by *by);

#endif
