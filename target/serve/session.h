/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session: one initiator's relation to this target. It has queues and volume handles, and it
 * survives the loss of all queues for a while, so that a reconnection finds its handles and an
 * older incarnation is recognised. Here are the structs; sessions.c creates and frees a session.
 * Queues other than 0 may be on other reactors (remote_queue.h), each of which then has a remote
 * session of it: a struct tgt_session, too, with its queues and handles there. Every field belongs to the
 * thread of its reactor; remote sessions read their home's handles, under its lock, and its answers.
 */
#ifndef RBLK_TARGET_SESSION_H
#define RBLK_TARGET_SESSION_H

#include "proto/secret/secret.h"
#include "proto/wire/wire.h"
#include "target/io/access.h"
#include "target/io/replay.h"
#include "target/io/share.h"
#include "target/serve/peers.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/rules.h"

struct tgt_remote_queue;
struct tgt_session_message;

/*
 * So many older incarnations of a queue linger on a reactor: their connections have ended, and their storage I/O
 * has not. Each keeps its memory, and counts as a connection of its host. Further ones stay in their slot.
 */
#define TGT_LINGERING_MAX 4u

/* One incarnation that lingers. It is listed in the home's slot of its queue, and on another reactor in the remote
 * session's, too. */
struct tgt_lingering {
	TAILQ_ENTRY(tgt_lingering) link;
	uint32_t incarnation;
	const struct tgt_reactor *reactor; /* where it is */
};

TAILQ_HEAD(tgt_lingering_list, tgt_lingering);
TAILQ_HEAD(tgt_fence_ask_list, tgt_fence_ask);

/* A queue's slot in the session: outlives the queue, and remembers what was fenced. */
struct tgt_queue_slot {
	struct tgt_queue *queue; /* here; NULL: none, or the last one has ended, or lingers */
	struct tgt_remote_queue *away; /* the queue is on another reactor; NULL: it is not */
	struct tgt_lingering_list lingering;
	uint32_t incarnation;	 /* the highest accepted or fenced */
	struct tgt_origin origin; /* of its last login; in the home */
	struct tgt_fence_ask_list asks; /* FENCEs that wait for incarnations of the queue to end (fence.c) */
	unsigned int asks_away;		/* of them, from other reactors */
};

/*
 * A volume that the session has open. It ends when it is closed and the last command or transfer
 * that uses it is over (handle.c).
 */
struct tgt_handle {
	struct tgt_access access; /* first, so that a request's access leads back here */
	struct tgt_session *session;
	uint32_t id;  /* the initiator's number: never 0 */
	bool closing; /* CLOSE waits, or the session ends: not found any more */
	bool event_changed, event_removed;
	bool restricted;   /* for reading by the rules, though it was opened for writing; under the home's lock, as read_only */
	bool unrestricted; /* the rules allow writing by now, and the initiator was told (authorize.c) */
	struct tgt_request *closer; /* the CLOSE that waits, or NULL */
	unsigned int remotes;	    /* that have not closed the handle; it waits for them */
	struct tgt_stats *stats;    /* where access.counts is; NULL: not its own */
	struct tgt_session_message *told; /* of a remote session: goes back to the home when it has ended */
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
	struct tgt_session *home; /* of a remote session: the session; else NULL */
	uint8_t id[16];
	uint64_t epoch;
	unsigned int number; /* in log lines */
	uint16_t queue_count;
	bool ending;	/* ending: no login joins it */
	bool final;	/* its initiator does not come back */
	char initiator[RBLK_NAME_BYTES]; /* zero filled */
	bool named; /* from its IDENTIFY or AUTHENTICATE */
	bool has_host_id; /* a protocol whose hosts have one brought it here: */
	uint8_t host_id[FAB_HOST_ID_BYTES];
	bool proven; /* its name, by AUTHENTICATE; each of its connections has to prove it */
	uint8_t secret_id[RBLK_SECRET_FINGERPRINT]; /* by which secret; in the home */
	uint64_t named_ns; /* the turn in which the last one came */
	uint64_t listed_ns; /* likewise, of LIST */
	char peer[80]; /* of queue 0 */
	unsigned int weight; /* by the rules (limits.c); 0 before the first volume: as 1 */
	struct tgt_lease *lease;
	struct tgt_host *host;	/* of its first login; then of the name that it has proven */
	struct tgt_share share; /* of the reactor's memory; its queues' I/O queues use it */
	struct tgt_replay answers; /* F8; its queues' I/O queues use it */
	struct tgt_queue_slot slots[RBLK_QUEUES_MAX];
	unsigned int queues_here, queues_away; /* that have connections, or may not linger any more (queue.c) */
	unsigned int lingering; /* that have none any more; those away included */
	unsigned int queues; /* here, those that linger included: as they count for the host */
	uint64_t begun_ns;
	uint64_t idle_since_ns; /* without a connection */
	enum tgt_end first_end; /* how queue 0's last connection has ended */
	const char *end_reason; /* why this end ends the session; NULL: it does not. A fixed text */

	pthread_mutex_t lock;	     /* of handles, between the session and its remote sessions */
	struct tgt_handle **handles; /* by RBLK_HANDLE_SLOT(); NULL: free */
	uint32_t handle_slots, handles_open;
	bool opened; /* it has had a handle */
	struct tgt_events events;
	/* In the home: the volume with which it was sent to another target (calls.h), or "". Refused while that is not
	 * here. */
	char sent_away[RBLK_NAME_BYTES];

	struct tgt_totals totals; /* of queues that have ended */
	unsigned int stats_count; /* handles here that count for themselves (stats.h) */
};

/* The access rules in force, with a reference; NULL: everything is allowed, and nothing limited. */
static inline struct tgt_rules *tgt_reactor_rules(const struct tgt_reactor *reactor)
{
	struct tgt_rulebook *book = reactor->peers ? reactor->peers->rules : NULL;

	return book ? tgt_rulebook_get(book) : NULL;
}

static inline bool tgt_session_is_connected(const struct tgt_session *session)
{
	return session->queues_here || session->queues_away;
}

/*
 * No command comes any more, and what is left is with a store: a handle closes when its last user has ended. A remote
 * session whose session connects again there opens what it needs anew.
 */
static inline bool tgt_session_only_lingers(const struct tgt_session *session)
{
	return (session->ending || session->home) && !tgt_session_is_connected(session);
}

/* NULL: it was removed, and no command that uses it is left. */
static inline struct tgt_volume *tgt_handle_volume(const struct tgt_handle *handle)
{
	return handle->access.channel ? handle->access.channel->volume : NULL;
}

/* The session's next handle, from *slot on, or NULL. */
static inline struct tgt_handle *tgt_session_next_handle(const struct tgt_session *session, uint32_t *slot)
{
	while (*slot < session->handle_slots)
		if (session->handles[(*slot)++])
			return session->handles[*slot - 1];
	return NULL;
}

/* The body may free the handle that it is given. */
#define tgt_session_each_handle(handle, session) \
	for (uint32_t slot_ = 0; ((handle) = tgt_session_next_handle(session, &slot_));)

/* Who the session is to the rules. Valid as long as the session has this name. */
static inline struct tgt_who tgt_session_who(const struct tgt_session *session)
{
	return (struct tgt_who){
		.name = session->named ? session->initiator : NULL,
		.proven = session->proven,
	};
}

#endif
