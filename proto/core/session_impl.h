/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between the files of the initiator's session: session_event.c handles events, session_state.c has the
 * changes of states that they share and what follows from them, session_next.c says what to do next, and
 * when. Included by nothing else.
 */
#ifndef RBLK_CORE_SESSION_IMPL_H
#define RBLK_CORE_SESSION_IMPL_H

#include "proto/core/session.h"

#define MS_NS 1000000ull

enum queue_todo {
	QUEUE_CONNECT = 1 << 0,
	QUEUE_CLOSE = 1 << 1,
	QUEUE_LEAVE = 1 << 2,
	QUEUE_FENCE = 1 << 3,
	QUEUE_RELEASE = 1 << 4,
	QUEUE_PROBE = 1 << 5,
	QUEUE_RELEASE_HARMLESS = 1 << 6,
};

enum session_todo {
	SESSION_STATE = 1 << 0,
	SESSION_NAME = 1 << 1,
	SESSION_FAIL_FAST = 1 << 2,
	SESSION_FAIL_ALL = 1 << 3,
};

/* -- session_state.c --------------------------------------------------------------------------- */

void core_session_set_state(struct core_session *session, enum core_session_state state);
/* The caller is to end its connection. No effect on a queue that has none, or whose connection ends already. */
void core_queue_close(struct core_queue *queue);
void core_session_close_all(struct core_session *session);
/* For good. No effect on a session that is over. */
void core_session_fail(struct core_session *session, enum core_failure why);
/* The commands that wait are to fail now; the session goes on. */
void core_session_fail_fast(struct core_session *session);
/* The home of queue `index`: the portals of the session's target in turn, from queue 0's on. */
u16 core_session_home(const struct core_session *session, u16 index);
/* Sets the queue's home: its next attempt is there. */
void core_queue_go_home(struct core_queue *queue, u16 portal);
/*
 * Gives each queue but queue 0 a home at the session's target, and each portal of that target some queue, as far as
 * there are queues. Called after each change of queue 0's home, of `foreign` or of `group`. Queue 0 may be at another
 * target, which it tries.
 */
void core_session_rehome(struct core_session *session);
/* Do the two lead to different targets, as far as is known? */
bool core_session_differ(const struct core_session *session, u16 a, u16 b);
/* `tried` and the portals of queue 0's target; only its present portal if all seem to lead to that target. */
u32 core_session_tried(const struct core_session *session);
/* The end of each event: what follows from the states that it has left. */
void core_session_settle(struct core_session *session, u64 now_ns);

/* -- session_next.c ---------------------------------------------------------------------------- */

/* Queue 0 begins an epoch; of a target that ends, when no queue has commands there any more. */
bool core_session_may_connect(const struct core_session *session, u16 index);

/*
 * The queue that can carry a FENCE; -1: none can now. One at a time, because it holds a reserved tag for as
 * long as the storage takes, and the last queue first, because queue 0's tags are those of OPEN and CLOSE.
 */
int core_session_fence_via(const struct core_session *session);

/* When the next attempt is made. */
enum core_retry {
	CORE_RETRY_NOW,
	CORE_RETRY_DELAY, /* which grows */
	CORE_RETRY_LATE,  /* the longest delay: only a change at the target can help */
};

/* The queue is connected again, and not before. */
void core_queue_plan_retry(struct core_session *session, u16 index, enum core_retry when,
			   u64 now_ns);
/*
 * How soon to connect again. A connection that was LIVE for a while is made again at once. One that
 * was LIVE for less, but on which the target answered a command, after the shortest delay. After
 * any other, delays grow.
 */
enum core_retry core_queue_after_loss(struct core_session *session, u16 index, u64 now_ns);
/* For some time from now on the target is expected back at any moment. */
void core_session_expect(struct core_session *session, u64 now_ns);

/* When each of these is due; UINT64_MAX: it is not. */
u64 core_queue_keepalive_ns(const struct core_queue *queue);
u64 core_session_deadline_ns(const struct core_session *session); /* NEW */
u64 core_session_fail_fast_ns(const struct core_session *session);
u64 core_session_give_up_ns(const struct core_session *session);

#endif
