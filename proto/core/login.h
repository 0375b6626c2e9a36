/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides about the login of a queue from what the target knows of its session: pure logic, no
 * state of its own. The target acts on the verdict and asks again when the obstacle has ended, so
 * that what has to end first (F5) is one rule in one place. Specification section 3.
 */
#ifndef RBLK_CORE_LOGIN_H
#define RBLK_CORE_LOGIN_H

#include "proto/wire/wire.h"

/* The target's state of the session that a login names. */
struct core_login_session {
	bool exists;
	u64 epoch;
	u16 queue_count;
	u32 incarnation; /* of this queue: the highest accepted or fenced, 0 if none was */
	bool queue_here; /* an older incarnation has a connection that is not drained yet, or no room to linger */
	bool lingers;	 /* older incarnations of the queue have storage I/O, and nothing else */
	bool ending;	 /* the session: no login joins it */
	bool may_follow; /* ending, with storage I/O at most, and few such: a higher epoch may begin beside it */
};

/* The terms that the target allows. */
struct core_login_limits {
	bool draining;
	u16 queues_max;
	u32 features; /* that it would agree */
};

enum core_login_action {
	CORE_LOGIN_ACCEPT, /* the session exists, the queue's place is free */
	CORE_LOGIN_CREATE, /* accept, in a new session */
	CORE_LOGIN_FENCE,  /* F5: end the queue's older incarnations, then judge again */
	CORE_LOGIN_FORGET, /* end every queue of the older epoch and the session, then judge again */
	CORE_LOGIN_REJECT,
	CORE_LOGIN_WAIT, /* core_login_supersede() only */
};

struct core_login_verdict {
	enum core_login_action action;
	u16 reason;   /* REJECT: enum rblk_reject_reason */
	u32 detail;   /* likewise */
	u32 features; /* ACCEPT, CREATE: agreed */
};

/* `login` has passed rblk_check_login(). */
struct core_login_verdict core_login_judge(const struct rblk_wire_login *login,
					   const struct core_login_session *session,
					   const struct core_login_limits *limits);

/*
 * Decides about `older`, which waits, when `newer` comes, a login of the same queue: it is rejected
 * as if `newer` had been accepted already. Or it goes on waiting, because its own epoch or
 * incarnation is the higher one. Both have passed rblk_check_login(). REJECT or WAIT.
 */
struct core_login_verdict core_login_supersede(const struct rblk_wire_login *newer,
					       const struct rblk_wire_login *older);

/* The receive buffers that can be granted. A queue takes RBLK_RESERVED_TAGS besides its credits. */
struct core_login_room {
	u32 total;  /* the most there can be */
	u32 free;   /* of them, not promised to a queue */
	u32 held;   /* promised to the session that logs in */
	u32 places; /* connections that can still come, this one included */
	u32 kept;   /* not for this login */
	u32 most;   /* credits of one queue */
};

/*
 * Credits to grant: what is wanted, at most `most`, and only so many that the least that a queue
 * needs (RBLK_CREDITS_MIN) is left for each connection that can still come, as far as four
 * fifths of the buffers go; and that the session then holds no more than what is left beyond that. So grants
 * shrink as initiators come, and the last one gets in. Never fewer than RBLK_CREDITS_MIN while they
 * are there. 0: there are none.
 */
u16 core_login_credits(u16 wanted, const struct core_login_room *room);

#endif
