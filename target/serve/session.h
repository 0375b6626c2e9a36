/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session: one initiator's relation to this target. Owns its queues and its volume handles, and
 * survives the loss of all queues for a while, so that a reconnection finds its handles and an
 * older life is recognised. Created by an accepted login of queue 0, freed on its reactor's thread
 * when it is forgotten; every field belongs to that thread.
 */
#ifndef RBLK_TARGET_SESSION_H
#define RBLK_TARGET_SESSION_H

#include "target/serve/reactor_impl.h"

struct tgt_handle;

/* A queue's place in the session: outlives the queue, and knows what was fenced. */
struct tgt_place {
	struct tgt_queue *queue;	/* NULL: none, or the last one has ended entirely */
	uint32_t incarnation;		/* the highest accepted or fenced */
	struct tgt_request_list fences; /* FENCE commands that wait for `queue` to end */
};

/* Events for queue 0: one is outstanding at a time, the others wait as bits. */
struct tgt_events {
	uint32_t number;  /* of the last one sent on this incarnation of queue 0 */
	bool outstanding; /* not yet seen by the initiator: */
	enum rblk_event code;
	uint32_t handle;
	bool list_changed, draining;
	unsigned int handle_events; /* handles with an event pending */
};

struct tgt_session {
	TAILQ_ENTRY(tgt_session) link; /* reactor->sessions */
	struct tgt_reactor *reactor;
	uint8_t id[16];
	uint64_t epoch;
	unsigned int number; /* in log lines */
	uint16_t queue_count;
	bool scratch; /* a measuring session; fixed: all of its queues are measuring connections */
	bool ending;  /* being forgotten: no login joins it */
	char initiator[RBLK_NAME_BYTES];
	char peer[80]; /* of queue 0 */
	struct tgt_lease *lease;
	struct tgt_place places[RBLK_QUEUES_MAX];
	unsigned int queues_here;
	uint64_t idle_since_ns; /* without a queue */

	struct tgt_handle **handles; /* by index in the handle; NULL: free */
	uint32_t handle_slots, handles_open;
	uint32_t handle_generation; /* random at first, so that handles of two lives differ */
	struct tgt_events events;

	/* Totals of queues that have ended, and of those here. */
	uint64_t commands, messages_in, bytes_read, bytes_written, queued_us, stored_us;
	struct fab_counters out;
};

/* NULL: no memory. */
struct tgt_session *tgt_session_create(struct tgt_reactor *reactor,
				       const struct rblk_wire_login *login,
				       struct tgt_lease *lease);
struct tgt_session *tgt_session_find(struct tgt_reactor *reactor, const uint8_t id[16]);

/* Close every queue; when the last has ended the session is freed. At once if there is none. */
void tgt_session_end(struct tgt_session *session, const char *reason);
/* A queue of it has ended. May free the session. */
void tgt_session_queue_ended(struct tgt_session *session, struct tgt_queue *queue);
/* Forget sessions whose time without queues is over, or, with `need`, the oldest of them now.
 * Returns when the next is due, or UINT64_MAX. */
uint64_t tgt_session_expire(struct tgt_reactor *reactor, bool need);

/* Queue 0 has the next event to say, if there is one and none is outstanding. */
bool tgt_session_event_due(const struct tgt_session *session);
void tgt_session_event_next(struct tgt_session *session, struct rblk_wire_completion *event);
/* KEEPALIVE has said that event `number` was seen. */
void tgt_session_event_seen(struct tgt_session *session, uint32_t number);
/* Another incarnation of queue 0: numbers begin anew, and what was not seen is said again. */
void tgt_session_event_restart(struct tgt_session *session);
/* Something may be due: let queue 0 look. */
void tgt_session_event_kick(struct tgt_session *session);

#endif
