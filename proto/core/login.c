/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The decision about a login. Every answer follows from the arguments alone; the order of the
 * questions is the order of the specification's section 3.
 */
#include "proto/core/login.h"

static struct core_login_verdict reject(enum rblk_reject_reason reason, u32 detail)
{
	struct core_login_verdict verdict = {
		.action = CORE_LOGIN_REJECT,
		.reason = (u16)reason,
		.detail = detail,
	};

	return verdict;
}

static struct core_login_verdict proceed(enum core_login_action action, u32 features)
{
	struct core_login_verdict verdict = { .action = action, .features = features };

	return verdict;
}

/* Immediate and invalidate may both be agreed: a command asks for at most one of them. */
static u32 agreed_features(const struct rblk_wire_login *login,
			   const struct core_login_limits *limits)
{
	return rblk_le32(login->features) & limits->features & RBLK_FEATURES_ALL;
}

struct core_login_verdict core_login_judge(const struct rblk_wire_login *login,
					   const struct core_login_session *session,
					   const struct core_login_limits *limits)
{
	u32 features = agreed_features(login, limits);
	/* F5: then FENCE, and OPEN in a new epoch, wait for the storage I/O, volume by volume. */
	bool early = features & RBLK_FEATURE_VOLUME_FENCE;
	u64 epoch = rblk_le64(login->session_epoch);
	u16 queue_count = rblk_le16(login->queue_count);

	if (limits->draining)
		return reject(RBLK_REJECT_DRAINING, 0);
	if (queue_count > limits->queues_max)
		return reject(RBLK_REJECT_QUEUE_COUNT, limits->queues_max);
	/* The old epoch ends even if this login is refused: it must have no effect any more. */
	if (session->exists && epoch > session->epoch && !(early && session->may_follow))
		return proceed(CORE_LOGIN_FORGET, 0);
	if (session->exists && epoch < session->epoch)
		return reject(RBLK_REJECT_STALE_EPOCH, (u32)session->epoch);
	if (!session->exists || epoch > session->epoch || session->ending) {
		/* Its handles and answers (F8) of the earlier incarnation are not here. */
		if (rblk_le16(login->queue_index) != 0 || login->fence_incarnation ||
		    (session->exists && epoch == session->epoch))
			return reject(RBLK_REJECT_NO_SESSION, 0);
		return proceed(CORE_LOGIN_CREATE, features);
	}
	if (queue_count != session->queue_count)
		return reject(RBLK_REJECT_MALFORMED, session->queue_count);
	if (rblk_le32(login->incarnation) <= session->incarnation)
		return reject(RBLK_REJECT_STALE_INCARNATION, session->incarnation);
	if (session->queue_here || (session->lingers && !early))
		return proceed(CORE_LOGIN_FENCE, 0);
	return proceed(CORE_LOGIN_ACCEPT, features);
}

struct core_login_verdict core_login_supersede(const struct rblk_wire_login *newer,
					       const struct rblk_wire_login *older)
{
	u64 newer_epoch = rblk_le64(newer->session_epoch), older_epoch = rblk_le64(older->session_epoch);

	if (newer_epoch > older_epoch)
		return reject(RBLK_REJECT_STALE_EPOCH, (u32)newer_epoch);
	if (newer_epoch == older_epoch &&
	    rblk_le32(newer->incarnation) >= rblk_le32(older->incarnation))
		return reject(RBLK_REJECT_STALE_INCARNATION, rblk_le32(newer->incarnation));
	return proceed(CORE_LOGIN_WAIT, 0);
}

u16 core_login_credits(u16 wanted, const struct core_login_room *room)
{
	const u32 least = RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS;
	u32 left = room->free > room->kept ? room->free - room->kept : 0;
	u32 reserved = room->places ? room->places - 1 : 0;
	u32 credits = wanted, share, most_reserved;

	if (left < least)
		return 0;
	most_reserved = room->total - room->total / 5;
	reserved = reserved < most_reserved / least ? reserved * least : most_reserved;
	left = left > reserved ? left - reserved : 0;
	/* held + share <= left - share */
	share = left > room->held ? (left - room->held) / 2 : 0;
	share = share > RBLK_RESERVED_TAGS ? share - RBLK_RESERVED_TAGS : 0;
	if (credits > share)
		credits = share;
	if (credits > room->most)
		credits = room->most;
	if (credits > RBLK_CREDITS_MAX)
		credits = RBLK_CREDITS_MAX;
	if (credits < RBLK_CREDITS_MIN)
		credits = RBLK_CREDITS_MIN;
	return (u16)credits;
}
