/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the FENCEs of lost queues and of their volumes, see fence.h. Called by drive.c and timer.c. */
#include "initiator/fence.h"

#include "initiator/retry.h"
#include "initiator/session.h"
#include "initiator/volume.h"

#define MS_NS 1000000ull
/* Between two rounds: the first pause, and how often it doubles. */
#define PAUSE_NS (10 * MS_NS)
#define DOUBLINGS_MAX 4u

/* By `via`; NULL: it has no tag. The last reserved tag is kept for KEEPALIVE: FENCE may take as long as the store. */
static struct ini_slot *fence_slot(struct ini_queue *via, u16 queue, u32 incarnation)
{
	struct ini_slot *slot = via->tags.taken_reserved < RBLK_RESERVED_TAGS - 1 ? ini_slot_take(via, true) : NULL;

	if (!slot)
		return NULL;
	slot->command.opcode = RBLK_OP_FENCE;
	slot->command.lba = rblk_to_le64(queue);
	slot->command.argument = rblk_to_le64(incarnation);
	slot->arg = &via->session->queues[queue];
	return slot;
}

/* -- of all ------------------------------------------------------------------------------------ */

static void fence_done(void *arg, const struct rblk_result *result)
{
	struct ini_queue *queue = arg;
	u32 incarnation = queue->fence.whole;

	queue->fence.whole = 0;
	/* FENCE was not answered: the machine knows that its connection is lost. */
	if (result->status || !result->error)
		core_session_fenced(&queue->session->core, queue->index, incarnation, !result->error,
				    queue->session->now_ns);
}

void ini_fence_send(struct rblk_session *session, const struct core_action *action)
{
	struct ini_queue *lost = &session->queues[action->queue];
	struct ini_slot *slot = NULL;

	/* An earlier FENCE whose connection is lost, and that is not called back yet, must not count as the answer to this one. */
	if (!lost->fence.whole)
		slot = fence_slot(&session->queues[action->via], action->queue, action->incarnation);
	if (!slot) {
		core_session_fenced(&session->core, action->queue, action->incarnation, false, session->now_ns);
		return;
	}
	slot->done = fence_done;
	lost->fence.whole = action->incarnation;
	ini_slot_start(slot);
}

/* -- of one volume ----------------------------------------------------------------------------- */

static bool owes(const struct ini_queue *lost)
{
	const struct ini_fence *fence = &lost->fence;

	return fence->incarnation &&
	       core_session_owes_fence(&lost->session->core, lost->index, fence->epoch, fence->incarnation);
}

/* NULL: none can, or its target does not know how. */
static struct ini_queue *carrier_of(const struct ini_queue *lost)
{
	struct rblk_session *session = lost->session;
	int via = core_session_carrier(&session->core);

	return via >= 0 && session->queues[via].features & RBLK_FEATURE_VOLUME_FENCE ? &session->queues[via] : NULL;
}

static void round_over(struct ini_queue *lost)
{
	struct ini_fence *fence = &lost->fence;

	fence->due_ns = lost->session->now_ns + (PAUSE_NS << fence->rounds);
	if (fence->rounds < DOUBLINGS_MAX)
		fence->rounds++;
	if (!fence->left)
		fence->incarnation = 0; /* nothing waits for it any more */
	fence->left = false;
	fence->handle = 0;
}

static void ask(struct ini_queue *lost);

static void volume_done(void *arg, const struct rblk_result *result)
{
	struct ini_queue *lost = arg;
	struct ini_fence *fence = &lost->fence;

	fence->waiting = false;
	/* Another loss began meanwhile: its first round is not begun yet. */
	if (fence->asked_epoch != fence->epoch || fence->asked_incarnation != fence->incarnation)
		return;
	if (result->error)
		fence->left = true;
	else if (owes(lost))
		ini_parked_release_volume(lost->session, lost->index, fence->handle);
	ask(lost);
}

/* The next volume; one at a time, so that a queue that is lost takes one tag. */
static void ask(struct ini_queue *lost)
{
	struct ini_fence *fence = &lost->fence;
	struct ini_queue *via = carrier_of(lost);
	struct ini_slot *slot;
	u32 handle;

	if (fence->waiting || !via || !owes(lost))
		return;
	handle = ini_parked_next_volume(lost->session, lost->index, fence->handle);
	slot = handle ? fence_slot(via, lost->index, fence->incarnation) : NULL;
	fence->left |= handle && !slot;
	if (!slot) {
		round_over(lost);
		return;
	}
	slot->command.volume = rblk_to_le32(handle);
	slot->done = volume_done;
	fence->handle = handle;
	fence->asked_epoch = fence->epoch;
	fence->asked_incarnation = fence->incarnation;
	fence->waiting = true;
	ini_slot_start(slot);
}

void ini_fence_volumes(struct rblk_session *session, const struct core_action *action)
{
	struct ini_fence *fence = &session->queues[action->queue].fence;

	fence->epoch = action->epoch;
	fence->incarnation = action->incarnation;
	fence->handle = 0;
	fence->rounds = 0;
	fence->left = false;
	fence->due_ns = session->now_ns;
}

void ini_fence_run(struct rblk_session *session)
{
	for (u16 i = 0; i < session->queue_count; i++) {
		struct ini_queue *lost = &session->queues[i];

		if (!lost->fence.incarnation)
			continue;
		if (!owes(lost))
			lost->fence.incarnation = 0;
		else if (session->now_ns >= lost->fence.due_ns)
			ask(lost);
	}
}

u64 ini_fence_due_ns(const struct rblk_session *session)
{
	u64 due_ns = UINT64_MAX;

	for (u16 i = 0; i < session->queue_count; i++) {
		const struct ini_queue *lost = &session->queues[i];

		if (owes(lost) && !lost->fence.waiting && lost->fence.due_ns < due_ns && carrier_of(lost))
			due_ns = lost->fence.due_ns;
	}
	return due_ns;
}
