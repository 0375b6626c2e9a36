/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a request ends before its work is done: by ABORT, by a reservation, or because its connection
 * was lost while it waited. A request that has begun to write runs on (F5). admin.c, lane_end.c and
 * revoke.c call this.
 */
#include "target/io/request.h"

#include "target/io/compare.h"
#include "target/io/extents.h"
#include "target/io/lane.h"
#include "target/io/limited.h"
#include "target/store/submit.h"

bool tgt_request_withdraw(struct tgt_request *request)
{
	if (request->opcode == RBLK_OP_COMPARE_AND_WRITE)
		return tgt_compare_withdraw(request);
	/* A request that is put off never reached a store: its io is still that of the slot's
	 * last request. */
	if (request->put_off || !tgt_volume_withdraw(&request->io))
		return false;
	/* The store will not report its end. */
	if (request->opcode == RBLK_OP_EXTENTS)
		tgt_extents_left(request);
	return true;
}

/* STORING, and the store has it: does it check whether it was aborted before it goes on? */
static bool request_may_abort(const struct tgt_request *request)
{
	bool (*may_abort)(const struct tgt_request *) = tgt_command_of(request)->may_abort;

	return request->put_off || (may_abort && may_abort(request));
}

bool tgt_request_end_early(struct tgt_request *request, enum rblk_status status)
{
	struct tgt_lane *lane = request->lane;

	if (request->state == TGT_REQUEST_LIMITED) {
		tgt_limited_leave(request);
		tgt_request_complete(request, status);
		return true;
	}

	if (request->state == TGT_REQUEST_WAITING) {
		tgt_request_wait_no_more(request);
	} else if (request->state == TGT_REQUEST_DATA_IN && request->moved == 0) {
		TAILQ_REMOVE(&lane->fetching, request, link);
	} else if (request->state != TGT_REQUEST_STORING || !tgt_request_withdraw(request)) {
		request->aborted |= request->state == TGT_REQUEST_STORING &&
				    request_may_abort(request);
		return request->aborted;
	}
	tgt_request_complete(request, status);
	return true;
}

bool tgt_request_cut_short(struct tgt_request *request)
{
	if (request->state != TGT_REQUEST_DATA_IN || request->home != TGT_HOME_DIRECT ||
	    !request->moved)
		return false;
	TAILQ_REMOVE(&request->lane->fetching, request, link);
	request->status = RBLK_E_ABORTED;
	tgt_request_chained(request);
	return true;
}
