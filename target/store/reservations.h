/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reservation of a volume as all reactors share it (reservation.h has what it is). A change
 * goes in steps, one change at a time: begin, keep (on disk, if it is to persist), commit, then
 * every reactor that has the volume open notes that it has seen it, end. I/O never comes here: each
 * open volume of a session has its own copy of what it is refused (io/access.h).
 */
#ifndef RBLK_TARGET_STORE_RESERVATIONS_H
#define RBLK_TARGET_STORE_RESERVATIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include "target/store/reservation.h"

/* A reactor that has the volume open; embedded in its channel. */
struct tgt_reservations_subscriber {
	TAILQ_ENTRY(tgt_reservations_subscriber) link;
	void *owner;   /* the reactor */
	uint64_t seen; /* the last change that it has put in force */
	bool told;     /* of the change that is under way */
};

struct tgt_reservation_note;

struct tgt_reservations {
	/* Fixed after creation. */
	const char *folder; /* of files, or NULL: they cannot persist, but for: */
	bool shared;	    /* the store keeps it, for all of its targets (store.h): it persists */
	uint8_t uuid[16];
	/* Protects all that follows. Held for short accesses, never while waiting. */
	pthread_mutex_t lock;
	struct tgt_reservation now;
	bool busy;	  /* a change is under way */
	bool unsaved;	  /* what is in force may not outlive a crash of the machine */
	bool aborts;	  /* the last one was a PREEMPT with ABORT, or one before that not all have seen */
	uint64_t changes; /* commits so far */
	TAILQ_HEAD(, tgt_reservations_subscriber)
	subscribers;
};

/* Configuring thread, with the volume's store locked. `folder`: NULL, or one that has been checked.
 * Loads what is kept there. note: what the store keeps, for all of its
 * targets; NULL: it does not. 0 or negative errno; error: TGT_ERROR_BYTES. */
int tgt_reservations_init(struct tgt_reservations *reservations, const char *folder,
			  const uint8_t uuid[16], const struct tgt_reservation_note *note, char *error);
void tgt_reservations_fini(struct tgt_reservations *reservations);

/* -- any reactor ------------------------------------------------------------------------------- */

/* From now on changes wait for this reactor to see them. */
void tgt_reservations_join(struct tgt_reservations *reservations,
			   struct tgt_reservations_subscriber *subscriber, void *owner);
void tgt_reservations_leave(struct tgt_reservations *reservations,
			    struct tgt_reservations_subscriber *subscriber);
/* As tgt_reservation_refused(), of the volume. */
uint8_t tgt_reservations_refused(struct tgt_reservations *reservations, const char *initiator,
				 bool *registered);
/* The wire's report, of at most `max` registrants. Returns its bytes. */
uint32_t tgt_reservations_report(struct tgt_reservations *reservations,
				 struct rblk_wire_reservation_report *report, uint32_t max);

/* One that has registered. False: nobody has. */
bool tgt_reservations_first(struct tgt_reservations *reservations, struct tgt_registrant *registrant);

/* The number of the change in force; read it before its effects. */
uint64_t tgt_reservations_now(struct tgt_reservations *reservations, bool *aborts);
/* Has this reactor put the last one in force? */
bool tgt_reservations_seen(struct tgt_reservations *reservations,
			   const struct tgt_reservations_subscriber *subscriber);
/* This reactor has put that one in force. */
void tgt_reservations_saw(struct tgt_reservations *reservations, struct tgt_reservations_subscriber *subscriber,
			  uint64_t change);

/* -- the reactor that changes ------------------------------------------------------------------ */

/*
 * RBLK_OK: *next is the new state. If *changed, the change has begun, and no other one can begin
 * until its end; otherwise there is nothing to do. RBLK_E_BUSY: another one is under way. While the
 * last change is not saved, whatever succeeds counts as one, and so saves both.
 */
enum rblk_status tgt_reservations_begin(struct tgt_reservations *reservations,
					const struct tgt_reserve *reserve,
					struct tgt_reservation *next, bool *changed);
/* Must the file be written or removed? */
bool tgt_reservations_keeps(struct tgt_reservations *reservations,
			    const struct tgt_reservation *next);
/* The next state to be committed is on disk; unsaved: until the machine crashes, for all that is known. */
void tgt_reservations_kept(struct tgt_reservations *reservations, bool unsaved);
/*
 * Puts it in force for all look-ups from now on, and tells NVMe hosts; but for one that is older than what another
 * target has made of it meanwhile. Returns the number of the last change. Any thread, also for a change of another
 * target.
 */
uint64_t tgt_reservations_commit(struct tgt_reservations *reservations, const struct tgt_reservation *next,
				 const struct tgt_reservation_by *by);
/* The same, of a note of the store's. NULL, or what is wrong with it. *change: the number. */
const char *tgt_reservations_commit_note(struct tgt_reservations *reservations, const struct tgt_reservation_note *note,
					 uint64_t *change);
/*
 * The same, of another target, for the volume of that name. False: it is not in force, and that is logged. NULL:
 * nothing.
 */
bool tgt_reservations_hear(struct tgt_reservations *reservations, const struct tgt_reservation_note *note,
			   const char *volume);
/* Calls `tell` for each reactor that has not seen the change and was not told yet. One that
 * could not be told is told next time. True: all have seen it. */
bool tgt_reservations_tell(struct tgt_reservations *reservations, uint64_t change,
			   bool (*tell)(void *owner, void *context), void *context);
/* The change is over, committed or not. */
void tgt_reservations_end(struct tgt_reservations *reservations);

#endif
