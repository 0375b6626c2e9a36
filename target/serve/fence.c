/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * FENCE. The home is asked, by message if the command came by a queue of another reactor; there it waits, and the answer comes
 * back. One of a volume waits nowhere but for a barrier: by then the queue that it fences is closed on whichever reactor, and
 * what its store still has are orphans.
 */
#include "target/serve/session_command.h"

#include <stdlib.h>
#include "target/serve/barrier.h"
#include "target/serve/handle.h"
#include "target/serve/queue.h"
#include "target/serve/remote_queue.h"

/*
 * FENCEs of queues on other reactors that wait for one slot. Each queue of an initiator needs one.
 * They outlive the queues that they came by, so a session that connects and sends FENCE again and
 * again, while the store is stuck, could otherwise take any amount of memory.
 */
static const struct tgt_quota asks_quota = {.each = 32};

struct tgt_fence_ask {
	struct tgt_session_message head; /* first */
	TAILQ_ENTRY(tgt_fence_ask) link; /* of its slot's */
	struct tgt_request *request;	 /* at the home; NULL: on another reactor, where it is found by: */
	uint32_t asker_incarnation, sequence; /* of the queue that asks: */
	uint16_t asker, tag;
	uint16_t index; /* what to fence */
	uint32_t incarnation;
	struct tgt_volume *volume; /* a reference, or NULL: all */
	enum rblk_status status;   /* the answer */
};

/* Its slot; the validator has checked lba < RBLK_QUEUES_MAX. */
static struct tgt_queue_slot *fence_slot(struct tgt_session *session, const struct tgt_request *request)
{
	return &session->slots[request->lba];
}

static uint32_t slot_incarnation(const struct tgt_queue_slot *slot)
{
	return slot->queue ? slot->queue->incarnation : slot->away->incarnation;
}

/* At the home: no command of these incarnations comes any more. False: nothing is left of them. */
static bool fence_end(struct tgt_queue_slot *slot, uint32_t incarnation)
{
	/* F5: from now on a login of the fenced incarnation is stale, even if it was never here. */
	if (incarnation > slot->incarnation)
		slot->incarnation = incarnation;
	if (!tgt_queue_slot_empty(slot) && slot_incarnation(slot) <= incarnation)
		tgt_queue_slot_close(slot, "fenced by another queue");
	return tgt_queue_slot_has(slot, incarnation);
}

/* -- of a volume ------------------------------------------------------------------------------- */

static bool volume_fence_leave(struct tgt_request *request)
{
	tgt_pending_end(request->held);
	return true;
}

static void volume_fence_go_on(struct tgt_pending *fence)
{
	struct tgt_request *request = fence->request;
	bool busy;

	if (!tgt_barrier_is_over(fence->barrier))
		return;
	busy = tgt_orphans_left(&fence->volume->orphans, UINT64_MAX);
	tgt_pending_end(fence);
	tgt_request_complete(request, busy ? RBLK_E_BUSY : RBLK_OK);
}

/* The request is HELD, and its queue is being closed. Takes over the reference. */
static void volume_fence_begin(struct tgt_reactor *reactor, struct tgt_request *request,
			       struct tgt_volume *volume)
{
	struct tgt_pending *fence = tgt_pending_create(reactor, sizeof(*fence), request, volume, true);

	if (!fence) {
		tgt_request_complete(request, RBLK_E_NO_RESOURCES);
		return;
	}
	fence->go_on = volume_fence_go_on;
	request->leave = volume_fence_leave;
}

/* -- asking the home --------------------------------------------------------------------------- */

static void ask_free(struct tgt_fence_ask *ask)
{
	if (ask->volume)
		tgt_volume_put(ask->volume);
	free(ask);
}

/* From its slot. */
static void ask_remove(struct tgt_queue_slot *slot, struct tgt_fence_ask *ask)
{
	TAILQ_REMOVE(&slot->asks, ask, link);
	slot->asks_away -= !ask->request;
}

/* One that waits at another reactor is not found when its answer comes. */
static bool ask_leave(struct tgt_request *request)
{
	struct tgt_fence_ask *ask = request->held;

	if (ask) {
		ask_remove(fence_slot(tgt_session_of(request), request), ask);
		ask_free(ask);
	}
	return true;
}

/* request: NULL: it has ended meanwhile. */
static void ask_end(struct tgt_reactor *reactor, struct tgt_fence_ask *ask, struct tgt_request *request)
{
	if (request && ask->volume)
		volume_fence_begin(reactor, request, tgt_volume_ref(ask->volume));
	else if (request)
		tgt_request_complete(request, ask->status);
	ask_free(ask);
}

/* At the remote session. The command, or its whole queue, may have ended meanwhile. */
static void ask_answered(struct tgt_reactor *reactor, struct tgt_session *remote, struct tgt_session_message *message)
{
	struct tgt_fence_ask *ask = (struct tgt_fence_ask *)message;
	struct tgt_queue *queue = remote ? remote->slots[ask->asker].queue : NULL;
	struct tgt_request *request = NULL;

	if (queue && queue->io_queue.open && queue->incarnation == ask->asker_incarnation)
		request = &queue->io_queue.requests[ask->tag];
	if (request && (request->state != TGT_REQUEST_HELD || request->sequence != ask->sequence ||
			request->opcode != RBLK_OP_FENCE))
		request = NULL;
	ask_end(reactor, ask, request);
}

static void ask_answer(struct tgt_fence_ask *ask, enum rblk_status status)
{
	ask->status = status;
	if (ask->request)
		ask_end(ask->head.from, ask, ask->request);
	else
		tgt_session_answer(&ask->head, ask_answered);
}

/* At the home, which exists as long as it has queues. */
static void ask_arrived(struct tgt_reactor *reactor, struct tgt_session *home, struct tgt_session_message *message)
{
	struct tgt_fence_ask *ask = (struct tgt_fence_ask *)message;
	struct tgt_queue_slot *slot = &home->slots[ask->index];

	if (!fence_end(slot, ask->incarnation) || ask->volume) {
		ask_answer(ask, RBLK_OK);
		return;
	}
	if (!ask->request && !tgt_quota_allows(&asks_quota, 0, slot->asks_away)) {
		ask_answer(ask, RBLK_E_BUSY);
		return;
	}
	TAILQ_INSERT_TAIL(&slot->asks, ask, link);
	slot->asks_away += !ask->request;
	if (ask->request)
		ask->request->held = ask;
}

/* -- the command ------------------------------------------------------------------------------- */

enum rblk_status tgt_fence_begin(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	struct tgt_session *session = tgt_session_of(request);
	const struct tgt_queue *own = tgt_queue_of(request->io_queue);
	struct tgt_handle *handle = NULL;
	struct tgt_fence_ask *ask;
	enum rblk_status status;

	session->reactor->fences++;
	if (fence_slot(session, request)->queue == own && (uint32_t)request->argument >= own->incarnation)
		return RBLK_E_INVALID;
	if (arguments->volume) {
		handle = tgt_handle_use(session, arguments->volume, &status);
		if (!handle || !handle->access.channel)
			return handle ? RBLK_E_GONE : status;
	}
	ask = calloc(1, sizeof(*ask));
	if (!ask)
		return RBLK_E_NO_RESOURCES;
	if (!tgt_request_hold(request, ask_leave, NULL)) {
		free(ask);
		return TGT_UNANSWERED;
	}
	tgt_session_address(&ask->head, session, session->home ? session->home->reactor : session->reactor, ask_arrived);
	ask->volume = handle ? tgt_volume_ref(handle->access.channel->volume) : NULL;
	ask->asker = own->io_queue.index;
	ask->asker_incarnation = own->incarnation;
	ask->tag = request->tag;
	ask->sequence = request->sequence;
	ask->index = (uint16_t)request->lba;
	ask->incarnation = (uint32_t)request->argument;
	if (session->home) {
		tgt_session_send(&ask->head);
	} else {
		ask->request = request;
		ask_arrived(session->reactor, session, &ask->head);
	}
	return TGT_UNANSWERED;
}

void tgt_fence_done(struct tgt_queue_slot *slot)
{
	struct tgt_fence_ask *ask, *following;

	TAILQ_FOREACH_SAFE(ask, &slot->asks, link, following) {
		if (tgt_queue_slot_has(slot, ask->incarnation))
			continue;
		ask_remove(slot, ask);
		ask_answer(ask, RBLK_OK);
	}
}
