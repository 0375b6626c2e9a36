/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * FENCE.
 */
#include "target/serve/fence.h"

#include "target/io/request.h"
#include "target/serve/queue.h"

/* Its place; the validator has checked lba < RBLK_QUEUES_MAX. */
static struct tgt_place *fence_place(struct tgt_session *session, const struct tgt_request *request)
{
	return &session->places[request->lba];
}

void tgt_fence_begin(struct tgt_session *session, struct tgt_request *request)
{
	uint32_t incarnation = (uint32_t)request->argument;
	struct tgt_place *place = fence_place(session, request);
	struct tgt_queue *own = tgt_queue_of(request->lane);

	if (place->queue == own && incarnation >= own->incarnation) {
		tgt_request_complete(request, RBLK_E_INVALID);
		return;
	}
	/* F5: from now on a login of the fenced incarnation is stale, even if it was never here. */
	if (incarnation > place->incarnation)
		place->incarnation = incarnation;
	if (!place->queue || place->queue->incarnation > incarnation) {
		tgt_request_complete(request, RBLK_OK);
		return;
	}
	if (!tgt_request_hold(request))
		return;
	TAILQ_INSERT_TAIL(&place->fences, request, link);
	tgt_queue_close(place->queue, "fenced by another queue");
}

void tgt_fence_drop(struct tgt_session *session, struct tgt_request *request)
{
	TAILQ_REMOVE(&fence_place(session, request)->fences, request, link);
}

void tgt_fence_done(struct tgt_place *place)
{
	struct tgt_request *request;

	while ((request = TAILQ_FIRST(&place->fences))) {
		TAILQ_REMOVE(&place->fences, request, link);
		tgt_request_complete(request, RBLK_OK);
	}
}
