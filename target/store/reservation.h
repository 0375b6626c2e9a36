/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A volume's registrants and its reservation (specification, section 6.2): what each action does to
 * them, and what they refuse to whom. Pure logic on the caller's memory, without lock or file:
 * reservations.h has the volume's, which reactors share, and reservation_file.h keeps them.
 */
#ifndef RBLK_TARGET_STORE_RESERVATION_H
#define RBLK_TARGET_STORE_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>
#include "proto/wire/message.h"
#include "proto/wire/payload.h"
#include "target/base/registrant.h"

/* At most so many that registered from one host, so that others find places, whatever names it
 * uses. */
#define TGT_REGISTRANTS_PER_HOST 8u
/* A host's address, as the caller tells hosts apart. */
#define TGT_REGISTRANT_HOST_BYTES 24u

struct tgt_registrant {
	char initiator[RBLK_NAME_BYTES]; /* zero filled */
	uint8_t host[TGT_REGISTRANT_HOST_BYTES];
	uint64_t key;
	bool holder; /* for types with one holder: at most one has it */
};

/* All zero: nobody. */
struct tgt_reservation {
	uint32_t generation;
	uint8_t type; /* enum rblk_reservation_type */
	bool persist;
	uint64_t serial; /* of the changes of one that several targets share; else 0 */
	unsigned int count;
	struct tgt_registrant registrants[RBLK_REGISTRANTS_MAX];
};

/* A RESERVE, decoded; the validator has checked it. */
struct tgt_reserve {
	const char *initiator; /* RBLK_NAME_BYTES, zero filled */
	const uint8_t *host;   /* TGT_REGISTRANT_HOST_BYTES */
	uint64_t key, new_key, other_key;
	uint8_t action, type, flags;
	bool retry; /* it may have been done before */
};

/* Who has changed it, and by which action. */
struct tgt_reservation_by {
	char initiator[RBLK_NAME_BYTES]; /* empty: the administrator */
	uint8_t action;
	bool aborts; /* a PREEMPT with ABORT */
};

/*
 * Does it, or returns why not: then nothing has changed. *changed: with success, whether anything
 * has.
 */
enum rblk_status tgt_reservation_change(struct tgt_reservation *reservation,
					const struct tgt_reserve *reserve, bool *changed);

/* The kinds of commands that an initiator may not send; also a mask of both. */
enum tgt_refused {
	TGT_REFUSED_READ = 1u << 0,
	TGT_REFUSED_WRITE = 1u << 1,
};

/* initiator: NULL: one without a name. *registered: it has a key. Returns a mask of tgt_refused. */
uint8_t tgt_reservation_refused(const struct tgt_reservation *reservation, const char *initiator,
				bool *registered);
/* A registrant is told this of another one's action, which has made `now` of what was before. */
enum tgt_notice tgt_reservation_notice(const struct tgt_reservation *before, const struct tgt_reservation *now,
				       uint8_t action, const char *initiator);
bool tgt_reservation_holds(const struct tgt_reservation *reservation,
			   const struct tgt_registrant *registrant);

#endif
