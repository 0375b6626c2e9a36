/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The end of a command: what it holds is given back when its answer has left, or when its connection is
 * lost. What its store still has then is an orphan of the volume (F5).
 */
#include "target/io/request.h"

#include "target/io/compare.h"
#include "target/io/lane.h"
#include "target/io/limited.h"

void tgt_request_end_orphan(struct tgt_request *request)
{
	tgt_orphans_end(&request->access->port->volume->orphans, request->orphan);
	request->orphan = 0;
}

static void request_release(struct tgt_request *request)
{
	struct tgt_access *access = request->access;

	if (!tgt_request_set_state(request, TGT_REQUEST_FREE))
		return;
	tgt_compare_free(request);
	if (access)
		tgt_write_end(&access->port->claims, &request->io.write);
	/* Its connection was lost before it was answered. */
	tgt_request_end_operation(request, RBLK_E_FENCED);
	tgt_request_release_capsule(request);
	tgt_request_free_data(request);
	if (request->orphan)
		tgt_request_end_orphan(request);
	request->access = NULL;
	request->lane->active--;
	if (access)
		tgt_access_put(access);
}

void tgt_request_finish(struct tgt_request *request)
{
	request_release(request);
}

void tgt_request_orphan(struct tgt_request *request)
{
	if (tgt_command_of(request)->writes)
		tgt_request_count_orphan(request);
}

void tgt_request_count_orphan(struct tgt_request *request)
{
	if (!request->orphan)
		request->orphan = tgt_orphans_begin(&request->access->port->volume->orphans);
}

void tgt_request_drop(struct tgt_request *request)
{
	struct tgt_lane *lane = request->lane;

	switch ((enum tgt_request_state)request->state) {
	case TGT_REQUEST_WAITING:
		tgt_request_wait_no_more(request);
		break;
	case TGT_REQUEST_LIMITED:
		tgt_limited_leave(request);
		break;
	case TGT_REQUEST_DATA_IN:
		/* Posted as a whole, it is in no list any more. */
		if (request->moved < request->data_bytes)
			TAILQ_REMOVE(&lane->fetching, request, link);
		break;
	case TGT_REQUEST_DATA_OUT:
	case TGT_REQUEST_REPLYING:
		if (request->chained) {
			TAILQ_REMOVE(&lane->chained, request, link);
			break;
		}
		TAILQ_REMOVE(&lane->done, request, link);
		lane->done_count--;
		break;
	case TGT_REQUEST_HELD:
		lane->ops->drop(request);
		break;
	case TGT_REQUEST_STORING:
	case TGT_REQUEST_RECEIVED:
	case TGT_REQUEST_FREE: /* this and the next: refused by the state machine */
	case TGT_REQUEST_STATES:
		break;
	}
	request_release(request);
	if (!lane->open && !lane->active)
		lane->ops->over(lane);
}
