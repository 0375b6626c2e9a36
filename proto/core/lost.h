/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands that were in flight on a connection that is lost: when may they be sent again? When the
 * queue pair is drained and its keys are dead (F4), when the target has acknowledged the fence of
 * that incarnation (F5), and, if the session had to begin a new epoch, when its volumes are open
 * again. A command that changes nothing waits for no fence. One for each queue. Pure; the caller owns the
 * struct and tells what happens.
 */
#ifndef RBLK_CORE_LOST_H
#define RBLK_CORE_LOST_H

#include "proto/wire/wire.h"

struct core_lost {
	bool waits;	 /* something was lost, and is not released */
	bool renewed;	 /* in an older epoch than today's */
	bool drained;	 /* F4 holds */
	bool fenced;	 /* F5 holds; of older epochs for a volume when that is open again */
	bool fence_sent; /* FENCE of incarnation `asked` is under way on queue `via`, or to be sent there */
	bool harmless;	 /* what needs no fence has been released */
	bool failed;	 /* some was failed and is not sent again, but may still be carried out */
	u16 via;
	u32 asked;
	u32 incarnation; /* that was lost */
	u64 retry_ns;	 /* no FENCE before */
};

/*
 * A live connection is lost. Commands lost in an older epoch keep that epoch: none was sent in the
 * new one before those were released. Those of an older incarnation wait for the fence of this one, too. A FENCE
 * that is under way has its carrier's tag until it is answered.
 */
static inline void core_lost_begin(struct core_lost *lost, u32 incarnation, u64 now_ns)
{
	if (lost->waits && lost->renewed)
		return;
	lost->failed &= lost->waits;
	lost->waits = true;
	lost->renewed = lost->drained = lost->fenced = lost->harmless = false;
	lost->incarnation = incarnation;
	lost->retry_ns = now_ns;
}

/* A new epoch begins: only its acceptance, with the OPEN of each volume, is a fence now. */
static inline void core_lost_renew(struct core_lost *lost)
{
	lost->renewed = lost->waits;
	lost->fenced = false;
	lost->fence_sent = false;
}

/* Does it want a FENCE, if there is a queue that can carry one? */
static inline bool core_lost_wants_fence(const struct core_lost *lost)
{
	return lost->waits && !lost->renewed && !lost->fenced && !lost->fence_sent;
}

/* Its queue was accepted in the same epoch, by a target that acknowledges the fence so. */
static inline void core_lost_accepted(struct core_lost *lost)
{
	if (!lost->renewed)
		lost->fenced = true;
}

/* Queue 0 was accepted: that acknowledges the fences of all older epochs, with the OPEN of each volume. */
static inline void core_lost_epoch_accepted(struct core_lost *lost)
{
	if (lost->renewed)
		lost->fenced = true;
}

/*
 * Must other commands wait? The user may write again what has failed; that must not land before it.
 */
static inline bool core_lost_holds(const struct core_lost *lost)
{
	return lost->waits && lost->failed && !lost->fenced;
}

/* F5: may a command that was lost change the volume when it is carried out late? */
static inline bool core_lost_needs_fence(u8 opcode)
{
	return opcode != RBLK_OP_READ && opcode != RBLK_OP_EXTENTS && opcode != RBLK_OP_CHECKSUM;
}

/* May what needs no fence be sent again, and was it not yet? `named`: as below. */
static inline bool core_lost_harmless_ready(const struct core_lost *lost, bool named)
{
	return lost->waits && lost->drained && !lost->harmless && (named || !lost->renewed);
}

/* May it be sent again? `named`: the volumes are open in this epoch. */
static inline bool core_lost_ready(const struct core_lost *lost, bool named)
{
	return lost->waits && lost->drained && lost->fenced && (named || !lost->renewed);
}

#endif
