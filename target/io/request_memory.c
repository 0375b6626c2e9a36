/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of a request: the block that its data or its report lies in, the wait for one, and the
 * receive buffer of an in-capsule write. share.c decides how much a session, and a volume of it, may have; request.c
 * calls this, and tgt_request_with_memory() continues a command that waited.
 */
#include "target/io/request.h"

#include <string.h>
#include "target/io/lane.h"
#include "target/io/share.h"

static bool request_take_memory(struct tgt_request *request)
{
	request->data = tgt_share_alloc(request->lane, request->access->portion, request->data_bytes);
	if (!request->data)
		return false;
	request->home = TGT_HOME_POOL;
	request->lkey = request->lane->lkey;
	return true;
}

/* A command does not overtake those that wait: a large one would never get its memory. Sessions that have their share do not
 * make others wait, and volumes that have theirs do not make their session's other volumes wait. */
static bool request_may_take(const struct tgt_request *request)
{
	return !request->lane->share->is_starving && !request->lane->turn->short_of_memory &&
	       TAILQ_EMPTY(&request->access->portion->waiting);
}

static bool waiting_leave(struct tgt_request *request)
{
	struct tgt_lane *lane = request->lane;

	TAILQ_REMOVE(&lane->waiting, request, link);
	/* Memory may have been gathered for it: check again. */
	lane->turn->memory_freed = true;
	return true;
}

static void request_wait_in_turn(struct tgt_request *request)
{
	request->leave = waiting_leave;
	TAILQ_INSERT_TAIL(&request->lane->waiting, request, link);
	tgt_share_wait(request->lane, request->data_bytes);
}

static void bounded_remove(struct tgt_request *request)
{
	struct tgt_portion *portion = request->access->portion;

	TAILQ_REMOVE(&portion->waiting, request, link);
	if (TAILQ_EMPTY(&portion->waiting))
		TAILQ_REMOVE(&portion->turn->bounded, portion, link);
}

static bool bounded_leave(struct tgt_request *request)
{
	bounded_remove(request);
	request->lane->turn->memory_freed = true;
	return true;
}

static void request_wait_bounded(struct tgt_request *request)
{
	struct tgt_portion *portion = request->access->portion;

	request->leave = bounded_leave;
	if (TAILQ_EMPTY(&portion->waiting))
		TAILQ_INSERT_TAIL(&portion->turn->bounded, portion, link);
	TAILQ_INSERT_TAIL(&portion->waiting, request, link);
}

void tgt_request_get_memory(struct tgt_request *request, uint32_t bytes)
{
	struct tgt_portion *portion = request->access->portion;
	struct tgt_turn *turn = request->lane->turn;

	request->data_bytes = bytes;
	if (request_may_take(request) && request_take_memory(request)) {
		tgt_request_with_memory(request);
		return;
	}
	if (!tgt_request_set_state(request, TGT_REQUEST_WAITING))
		return;
	request->waiting_ns = turn->now_ns;
	if (!TAILQ_EMPTY(&portion->waiting) || tgt_portion_is_full(request->lane->share, portion, bytes))
		request_wait_bounded(request);
	else
		request_wait_in_turn(request);
	tgt_turn_timer(turn, request->waiting_ns + TGT_MEMORY_WAIT_NS);
}

bool tgt_request_retry_memory(struct tgt_request *request)
{
	struct tgt_portion *portion = request->access->portion;

	/* Its lane goes on without it. */
	if (tgt_portion_is_full(request->lane->share, portion, request->data_bytes)) {
		TAILQ_REMOVE(&request->lane->waiting, request, link);
		request_wait_bounded(request);
		return true;
	}
	if (!request_take_memory(request))
		return false;
	TAILQ_REMOVE(&request->lane->waiting, request, link);
	tgt_request_with_memory(request);
	return true;
}

bool tgt_request_retry_bounded(struct tgt_request *request)
{
	const struct tgt_portion *portion = request->access->portion;
	struct tgt_lane *lane = request->lane;

	if (!tgt_portion_has_room(lane->share, portion, request->data_bytes))
		return false;
	bounded_remove(request);
	if (!lane->share->is_starving && !lane->turn->short_of_memory && request_take_memory(request)) {
		tgt_request_with_memory(request);
		return true;
	}
	/* Behind others, and no more than one at a time. */
	request_wait_in_turn(request);
	return false;
}

void tgt_request_free_data(struct tgt_request *request)
{
	if (request->home == TGT_HOME_POOL)
		tgt_portion_give(request->access->portion, request->data_bytes);
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

void tgt_request_hold_capsule(struct tgt_request *request)
{
	if (request->holds_capsule)
		return;
	request->holds_capsule = true;
	tgt_receives_hold(request->lane->receives, request->capsule_buffer);
}

bool tgt_request_move_capsule(struct tgt_request *request)
{
	if (!request->holds_capsule)
		return false;
	memcpy(request->data,
	       tgt_receives_buffer(request->lane->receives, request->capsule_buffer) + request->address,
	       request->length);
	tgt_request_release_capsule(request);
	return true;
}
