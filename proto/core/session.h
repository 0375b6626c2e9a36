/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The initiator's session: which queues are connected, where, and in which incarnation; which
 * commands were lost with a connection, and when they may be sent again. Specification sections 10
 * and 11, rules F4 and F5.
 *
 * Pure: events and clock readings in, actions out. No I/O, no allocation, no lock; one caller at a
 * time. librblk and rblk.ko drive the same code, and so does the simulator. The caller tells what
 * happened, then takes actions with core_session_action() until there are none. The caller owns
 * words, memory, queue pairs and commands.
 *
 * A session has 1 to RBLK_QUEUES_MAX queues and 1 to CORE_PORTALS_MAX portals: addresses at which
 * its target is reached. Queue i begins at portal i modulo their number. Only queue 0 carries the
 * session's commands. When its portal fails it takes the next one, and the queue that was there
 * takes queue 0's. So each portal is tried by some queue, and used again when it is back.
 *
 * Portals may lead to several targets that serve the same volumes. The portals of one target are a group; the caller
 * gives the groups, and answers correct them. All queues are at portals of queue 0's target. The session leaves that
 * for another group when none of its portals answers, when it refuses, and when it is about to end; not because another
 * target is back.
 */
#ifndef RBLK_CORE_SESSION_H
#define RBLK_CORE_SESSION_H

#include "proto/core/backoff.h"
#include "proto/core/lost.h"
#include "proto/wire/wire.h"

#define CORE_PORTALS_MAX 8

enum core_session_state {
	CORE_SESSION_NEW,	 /* nothing was named yet; no I/O */
	CORE_SESSION_LIVE,	 /* queue 0 is up; I/O on every queue that is up */
	CORE_SESSION_RECOVERING, /* queue 0 is not; I/O on the others, if any */
	CORE_SESSION_RENEWING,	 /* epoch raised, handles void; no I/O until the volumes are open
				    again */
	CORE_SESSION_FAILED,	 /* given up: every command fails */
	CORE_SESSION_ENDED,	 /* stopped on purpose */
	CORE_SESSION_STATES
};

enum core_queue_state {
	CORE_QUEUE_ENDED,      /* no connection; its keys are dead */
	CORE_QUEUE_CONNECTING, /* a login is on its way */
	CORE_QUEUE_LIVE,       /* accepted; commands flow */
	CORE_QUEUE_ENDING,     /* queue pair in ERR, being drained (F4) */
	CORE_QUEUE_STATES
};

/* Why a session FAILED. */
enum core_failure {
	CORE_FAILURE_NONE,
	CORE_FAILURE_UNREACHED, /* NEW: no portal accepted a connection */
	CORE_FAILURE_REFUSED,	/* for good: reject_reason and reject_detail say why */
	CORE_FAILURE_TIMEOUT,	/* NEW: not within connect_timeout_ms */
	CORE_FAILURE_NAMING,	/* NEW: IDENTIFY or OPEN failed; the caller knows why */
	CORE_FAILURE_ABANDONED, /* by core_session_abandon() */
	CORE_FAILURE_GIVE_UP,	/* no live queue for give_up_ms */
	CORE_FAILURES
};

enum core_action_kind {
	CORE_ACTION_NONE,
	/* Connect `queue` to `portal` with a login of `epoch`, `incarnation` and `fence`. */
	CORE_ACTION_CONNECT,
	/* Move the queue pair to ERR and drain it; when no key of it is valid:
	   core_session_drained(). */
	CORE_ACTION_CLOSE,
	/* Send no more commands on `queue`; when all have been answered: core_session_lost(). */
	CORE_ACTION_LEAVE,
	/* Send FENCE of `queue` up to `incarnation` on `via`, which may be that queue's next incarnation; its
	   answer: core_session_fenced(). */
	CORE_ACTION_FENCE,
	/* A new epoch, and no connection of the old one is left: IDENTIFY and open the volumes on queue
	 * 0; then core_session_named(). */
	CORE_ACTION_NAME,
	/* Commands lost with `queue` may be sent again (F5). `renewed`: in a new epoch (F7, F8). */
	CORE_ACTION_RELEASE,
	/*
	 * Those of them that need no fence may (core_lost_needs_fence()), without RBLK_CMD_RETRY. The others may volume by
	 * volume, where the target answers FENCE of `queue` up to `incarnation` for that volume, as long as
	 * core_session_owes_fence() says so of them.
	 */
	CORE_ACTION_RELEASE_HARMLESS,
	/* Send KEEPALIVE on `queue`. */
	CORE_ACTION_PROBE,
	/* fail_fast_ms have passed: fail waiting commands, except those that are not drained yet
	 * (F4). The target may still carry out a command that fails here, so none is sent before
	 * its fence is acknowledged (F5). */
	CORE_ACTION_FAIL_FAST,
	/* FAILED or ENDED, and all queues are drained: fail every command. */
	CORE_ACTION_FAIL_ALL,
	/* core_session.state has changed: tell the users. */
	CORE_ACTION_STATE,
	CORE_ACTIONS
};

struct core_action {
	enum core_action_kind kind;
	u16 queue, portal, via;
	bool renewed;
	u32 incarnation, fence;
	u64 epoch;
};

struct core_session_options {
	u16 queues, portals;
	u8 group[CORE_PORTALS_MAX]; /* of each portal: one group leads to one target, as far as the caller knows */
	u32 connect_timeout_ms;
	u32 reconnect_min_ms, reconnect_max_ms;
	u32 fail_fast_ms; /* 0: never */
	u32 give_up_ms;   /* 0: a session that does not reconnect; its first refusal is final */
	u32 random; /* so that not all initiators reconnect at the same time */
	u64 epoch;  /* the first; 0: 1 */
};

/* Owned by session_event.c and session_state.c; a caller may read state, portal, incarnation and leaving. */
struct core_queue {
	u8 state;	  /* enum core_queue_state */
	u8 todo;	  /* actions not taken yet */
	bool leaving;	  /* LIVE, but takes no new commands: it moves to another portal */
	bool probed;	  /* KEEPALIVE was sent since something was heard */
	bool renewed;	  /* RELEASE: of commands lost in an older epoch */
	u16 home;	  /* the portal that it goes to */
	u16 portal;	  /* where it is, or was last tried */
	u16 untried;	  /* portals that queue 0 has not tried since it was lost */
	u32 incarnation;  /* of the last login in this epoch */
	u32 accepted;	  /* the last that was accepted in this epoch; 0: none */
	u32 keepalive_ms; /* agreed; 0: none */
	u64 retry_ns;	  /* ENDED, ENDING: no attempt before */
	u32 attempt_ms;	  /* CONNECTING: how long the attempt may take */
	u32 patience_ms;  /* longer than the last attempt that got no answer in time; 0: there was none */
	u64 by_ns;	  /* CONNECTING: the end of the attempt */
	u64 live_ns, heard_ns, probed_ns;
	struct core_lost lost;
	struct core_backoff backoff;
};

struct core_session {
	struct core_session_options options;
	u8 state;   /* enum core_session_state */
	u8 failure; /* enum core_failure */
	u8 todo;
	bool named;	   /* NAME has succeeded in this epoch */
	bool dead;	   /* since dead_ns no queue takes commands */
	bool failing_fast; /* new commands fail at once, too */
	bool failed_all;
	bool held;	   /* one failed by FAIL_FAST is not fenced yet (F5): no command is sent, or none to its volume */
	bool leaves;	   /* the target has sent DRAINING: perhaps a restart */
	u8 group;	   /* of the portal where queue 0 was accepted last */
	bool acts; /* there may be actions to take */
	u16 reject_reason; /* of the last rejection: enum rblk_reject_reason */
	u32 reject_detail;
	u16 queues; /* of this epoch: a target may allow fewer than wanted */
	u32 foreign; /* bit mask: portals where another target has answered in this epoch */
	u32 tried; /* bit mask: portals that did not help queue 0 since the session was lost or core_session_search() */
	u64 epoch;
	u64 start_ns, dead_ns;
	u64 soon_ns; /* until then it is expected to be back at any moment */
	u8 instance[16]; /* target_instance of this epoch; valid if queue 0 was accepted in it */
	struct core_queue queue[RBLK_QUEUES_MAX];
};

/* The options are checked: 1 to RBLK_QUEUES_MAX queues, 1 to CORE_PORTALS_MAX portals. */
void core_session_init(struct core_session *session, const struct core_session_options *options);

/* -- events ------------------------------------------------------------------------------------ */

void core_session_start(struct core_session *session, u64 now_ns);
/* To FAILED, for a reason of the caller's. */
void core_session_abandon(struct core_session *session, u64 now_ns);
/* To ENDED, from any state. */
void core_session_stop(struct core_session *session, u64 now_ns);

/*
 * The answers to CONNECT. Accepted: false if the acceptance is another target's than that of the
 * other queues; then it is closed. The caller has checked its form (rblk_check_accept()) and that
 * it echoes the login. `features`: agreed; without RBLK_FEATURE_VOLUME_FENCE it acknowledges the fence of
 * the queue's older incarnations (F5).
 */
bool core_session_accepted(struct core_session *session, u16 queue, const u8 instance[16],
			   u32 keepalive_ms, u32 features, u64 now_ns);
void core_session_rejected(struct core_session *session, u16 queue, u16 reason, u32 detail,
			   u64 now_ns);
/* There was no answer, or one that a target does not send. */
void core_session_unreached(struct core_session *session, u16 queue, u64 now_ns);

/* The connection is lost: by the transport, a violation, a command's time, or the caller's choice.
 */
void core_session_lost(struct core_session *session, u16 queue, u64 now_ns);
/* After CLOSE: no completion of the queue pair will come, and its keys are dead (F4). */
void core_session_drained(struct core_session *session, u16 queue, u64 now_ns);
/* The answer to FENCE of `queue` up to `incarnation`; a connection that is lost before it answers needs no call. */
void core_session_fenced(struct core_session *session, u16 queue, u32 incarnation, bool success, u64 now_ns);
/* The answer to NAME. False: in NEW the session fails; later queue 0 is connected again. */
void core_session_named(struct core_session *session, bool success, u64 now_ns);
/*
 * The target that is reached in this epoch may not use what the session has open (F10), or has nothing of what it wants
 * to open first. It is left for the next portal, in a new epoch; the time until give-up goes on unless the
 * session was named there. One that does not reconnect is NEW again.
 */
void core_session_misled(struct core_session *session, u64 now_ns);
/* The target has sent DRAINING: the session leaves it for another group, if there is one, else expects it back soon. */
void core_session_leaves(struct core_session *session, u64 now_ns);
/* Time has passed. */
void core_session_tick(struct core_session *session, u64 now_ns);

/* A message or a completed transfer arrived on this queue. Cheap: once for each poll will do. */
static inline void core_session_heard(struct core_session *session, u16 queue, u64 now_ns)
{
	session->queue[queue].heard_ns = now_ns;
}

/* A first OPEN is to be sent: each portal's target may have the volume. */
static inline void core_session_search(struct core_session *session)
{
	session->tried = 0;
}

/* -- what follows ------------------------------------------------------------------------------ */

/* Has anything happened since core_session_action() said that there is nothing to do? */
static inline bool core_session_acts(const struct core_session *session)
{
	return session->acts;
}
/* The next action; false: there is none. Each is given once. */
bool core_session_action(struct core_session *session, struct core_action *action);
/* When core_session_tick() wants to be called, UINT64_MAX: not before something else happens. */
u64 core_session_next_ns(const struct core_session *session);

/* No connection is made any more. */
static inline bool core_session_over(const struct core_session *session)
{
	return session->state == CORE_SESSION_FAILED || session->state == CORE_SESSION_ENDED;
}

/* Is this queue up, and does it stay? FENCE may be sent on it. */
static inline bool core_session_carries(const struct core_session *session, u16 queue)
{
	return (session->state == CORE_SESSION_LIVE || session->state == CORE_SESSION_RECOVERING) &&
	       session->queue[queue].state == CORE_QUEUE_LIVE && !session->queue[queue].leaving;
}
/* May a command be sent on this queue now? */
static inline bool core_session_open(const struct core_session *session, u16 queue)
{
	return core_session_carries(session, queue) && !session->held;
}
/* F5: do commands that were lost with this queue, in that incarnation of this epoch, wait for nothing but the fence? */
static inline bool core_session_owes_fence(const struct core_session *session, u16 queue, u64 epoch, u32 incarnation)
{
	const struct core_lost *lost = &session->queue[queue].lost;

	return session->epoch == epoch && lost->waits && lost->drained && !lost->renewed && lost->incarnation == incarnation;
}
/* The last queue that can carry the FENCE of a volume; -1: none can. */
int core_session_carrier(const struct core_session *session);
/* The next queue that takes commands, from `first` on, cyclically; -1: none does. */
int core_session_route(const struct core_session *session, u16 first);
/* Queues that are LIVE. */
u16 core_session_live(const struct core_session *session);
/* Is there a portal that was not tried, and may lead to another target? core_session_misled() goes there at once. */
bool core_session_elsewhere(const struct core_session *session);
/* Does the portal lead to another target than the session's? */
bool core_session_is_foreign(const struct core_session *session, u16 portal);
/*
 * True: a refusal to open a volume again (enum rblk_status, or 0 for another error) is not final, as another target may
 * serve the volume. Either the target `instance` had it open, not this one; or this one has given it to another target
 * that the portals lead to.
 */
bool core_session_may_be_elsewhere(const struct core_session *session, const u8 instance[16], u16 status);

const char *core_session_state_name(u8 state);
const char *core_queue_state_name(u8 state);

#endif
