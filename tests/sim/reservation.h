/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a volume's registrations and reservation must be, from what reservers have asked for and
 * been told (specification, section 6.2). Where two RESERVEs were under way together, or nobody
 * heard an answer, it is not known until a report tells. reserver.c and host.c report to
 * it, whitebox.c and reserver.c ask it.
 */
#ifndef RBLK_TESTS_SIM_RESERVATION_H
#define RBLK_TESTS_SIM_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>
#include "proto/wire/wire.h"

#define SIM_REGISTRANTS 8u
#define SIM_GHOSTS 16u

struct sim_registrant {
	char name[RBLK_NAME_BYTES];
	uint64_t key;
	bool holder;
};

struct sim_reservation_table {
	uint8_t type;
	bool persist;
	unsigned int count;
	struct sim_registrant registrants[SIM_REGISTRANTS];
};

/* Of one volume of a host; all zero: nobody. */
struct sim_reservation {
	unsigned int under_way; /* RESERVEs that may still change it */
	uint64_t serial;	/* changes with whatever may change it */
	bool unknown;		/* the table need not be the target's */
	bool unsure;		/* it is, and need not be in force everywhere */
	bool at_risk;		/* it need not be kept: a crash of the machine may undo it */
	bool awaited;		/* whom it excludes, was by changes that wait for what they stop */
	/*
	 * Gateways share it: it persists, and what a gateway has noted without telling the others is in force at none
	 * or some of them, until the next change succeeds that began after it.
	 */
	bool shared;
	bool untold;		     /* there may be such a one */
	bool clean;		     /* nothing of that was to come when those that are under way began */
	uint64_t answered_ns;	     /* the last success */
	uint32_t ghosts[SIM_GHOSTS]; /* sessions whose RESERVEs nobody hears of: they may still be done */
	uint64_t ghost_ns; /* when the last of them came */
	unsigned int ghost_count;
	struct sim_reservation_table now, before; /* ... the last change */
	struct sim_reservation_table next;	  /* if the one that is under way succeeds */
};

enum sim_right { SIM_RIGHT_READ, SIM_RIGHT_WRITE };

/* A RESERVE goes out; again, it is the same. */
void sim_reservation_sent(struct sim_reservation *reservation, const char *name,
			  const struct rblk_wire_reservation *asked);
/* It was answered; stale: by one that may not know what is in force. Returns false if the answer cannot be. */
bool sim_reservation_answered(struct sim_reservation *reservation, const char *name,
			      const struct rblk_wire_reservation *asked, bool retried, bool stale, uint16_t status);
/* Nobody will hear what became of it; session: it may be done as long as that has connections, 0: no more. */
void sim_reservation_lost(struct sim_reservation *reservation, uint32_t session);
/* The session has fenced what it has lost: nothing of that is done any more (F5). */
void sim_reservation_fenced(struct sim_reservation *reservation, uint32_t session);
/* For a report that is asked for now. */
uint64_t sim_reservation_serial(struct sim_reservation *reservation);
/* The report that was asked for at `serial` has come. Returns false if it cannot be. */
bool sim_reservation_reported(struct sim_reservation *reservation, uint64_t serial,
			      const struct rblk_wire_reservation_report *report);
/* Reports without names, which cannot make known what is unknown: false if it cannot be. */
bool sim_reservation_has_keys(const struct sim_reservation *reservation, uint64_t serial,
			      const uint64_t *keys, unsigned int count);
bool sim_reservation_is_held(const struct sim_reservation *reservation, uint64_t serial,
			     uint8_t type, uint64_t key);
/* The target's process, or its volume, has ended. */
void sim_reservation_ended(struct sim_reservation *reservation);
/* And its machine has crashed. */
void sim_reservation_crashed(struct sim_reservation *reservation);

/* Is it certain, and in force, what `name` may do? */
static inline bool sim_reservation_is_sure(const struct sim_reservation *reservation)
{
	return !reservation->under_way && !reservation->unknown && !reservation->unsure;
}
bool sim_reservation_allows(const struct sim_reservation *reservation, const char *name,
			    enum sim_right right);
/* Nothing that `name` has begun to write is stored any more, whatever becomes of a RESERVE that is under way. */
bool sim_reservation_excludes(const struct sim_reservation *reservation, const char *name);
/* Was removed by the last change. */
bool sim_reservation_removed(const struct sim_reservation *reservation, const char *name);

#endif
