/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of a request: the block that its data or its report lies in, the wait for one, and the
 * receive buffer of an in-capsule write. share.c decides how much a session may have; request.c
 * calls this, and tgt_request_with_memory() continues a command that waited.
 */
#include "target/io/request.h"

#include <string.h>
#include "target/io/lane.h"
#include "target/io/share.h"

static bool request_take_memory(struct tgt_request *request)
{
	request->data = tgt_share_alloc(request->lane, request->data_bytes);
	if (!request->data)
		return false;
	request->home = TGT_HOME_POOL;
	request->lkey = request->lane->lkey;
	return true;
}

void tgt_request_get_memory(struct tgt_request *request, uint32_t bytes)
{
	struct tgt_lane *lane = request->lane;
	struct tgt_turn *turn = lane->turn;

	request->data_bytes = bytes;
	/* A command does not overtake those that wait: a large one would never get its memory.
	 * Sessions that have their share do not make others wait. */
	if (!lane->share->is_starving && !turn->short_of_memory && request_take_memory(request)) {
		tgt_request_with_memory(request);
		return;
	}
	if (!tgt_request_set_state(request, TGT_REQUEST_WAITING))
		return;
	TAILQ_INSERT_TAIL(&lane->waiting, request, link);
	tgt_share_wait(lane, bytes);
	tgt_turn_timer(turn, request->received_ns + TGT_MEMORY_WAIT_NS);
}

void tgt_request_wait_no_more(struct tgt_request *request)
{
	TAILQ_REMOVE(&request->lane->waiting, request, link);
	/* Memory may have been gathered for it: check again. */
	request->lane->turn->memory_freed = true;
}

bool tgt_request_retry_memory(struct tgt_request *request)
{
	if (!request_take_memory(request))
		return false;
	TAILQ_REMOVE(&request->lane->waiting, request, link);
	tgt_request_with_memory(request);
	return true;
}

void tgt_request_free_data(struct tgt_request *request)
{
	if (request->home == TGT_HOME_POOL || request->home == TGT_HOME_REPORT)
		tgt_share_free(request->lane, request->data, request->data_bytes,
			       request->home == TGT_HOME_REPORT);
	request->home = TGT_HOME_NONE;
	request->data = NULL;
}

void *tgt_request_report_alloc(struct tgt_request *request, uint32_t bytes)
{
	struct tgt_lane *lane = request->lane;

	request->data = tgt_share_alloc_report(lane, bytes);
	if (!request->data) {
		tgt_request_complete(request, RBLK_E_BUSY);
		return NULL;
	}
	request->home = TGT_HOME_REPORT;
	request->data_bytes = bytes;
	request->lkey = lane->lkey;
	memset(request->data, 0, bytes);
	return request->data;
}

void tgt_request_release_capsule(struct tgt_request *request)
{
	if (!request->holds_capsule)
		return;
	request->holds_capsule = false;
	tgt_receives_release(request->lane->receives, request->capsule_buffer);
}
