/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session: one initiator's relation to this target. It has queues and volume handles, and it
 * survives the loss of all queues for a while, so that a reconnection finds its handles and an
 * older incarnation is recognised. Here are the structs; sessions.c creates and frees a session.
 * Every field belongs to its reactor's thread.
 */
#ifndef RBLK_TARGET_SESSION_H
#define RBLK_TARGET_SESSION_H

#include "proto/wire/wire.h"
#include "target/io/access.h"
#include "target/io/answers.h"
#include "target/io/share.h"
#include "target/serve/reactor_impl.h"


/* A queue's place in the session: outlives the queue, and remembers what was fenced. */
struct tgt_place {
	struct tgt_queue *queue; /* NULL: none, or the last one has ended entirely */
	uint32_t incarnation;	 /* the highest accepted or fenced */
	struct tgt_request_list fences; /* FENCE commands that wait for `queue` to end */
};

/*
 * A volume that the session has open. It ends when it is closed and the last command or transfer
 * that uses it is over (handle.c).
 */
struct tgt_handle {
	struct tgt_access access; /* first, so that a request's access leads back here */
	struct tgt_session *session;
	uint32_t id;  /* generation << 10 | index: never 0 */
	bool closing; /* CLOSE waits, or the session ends: not found any more */
	bool event_changed, event_removed;
	struct tgt_request *closer; /* the CLOSE that waits, or NULL */
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
	bool measuring; /* fixed: all of its queues are measuring connections (measure.c) */
	bool ending;	/* ending: no login joins it */
	char initiator[RBLK_NAME_BYTES]; /* zero filled */
	bool named; /* it has said so itself */
	char peer[80]; /* of queue 0 */
	struct tgt_lease *lease;
	struct tgt_host *host;	/* of its first login */
	struct tgt_share share; /* of the reactor's memory; its queues' lanes use it */
	struct tgt_answers answers; /* F8; its queues' lanes use it */
	struct tgt_place places[RBLK_QUEUES_MAX];
	unsigned int queues_here;
	uint64_t idle_since_ns; /* without a queue */

	struct tgt_handle **handles; /* by index in the handle; NULL: free */
	uint32_t handle_slots, handles_open;
	uint32_t handle_generation; /* random at first, so that handles of two sessions differ */
	struct tgt_events events;

	/* Totals of queues that have ended. */
	uint64_t commands, messages_in, bytes_read, bytes_written, queued_us, stored_us;
	struct fab_counters out;
};

#endif
