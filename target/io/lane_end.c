/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ends a lane's requests and transfers when its connection ends. */
#include "target/io/lane_end.h"

#include "target/io/request.h"
#include "target/io/share.h"
#include "target/io/transfer.h"

void tgt_lane_close(struct tgt_lane *lane)
{
	if (!lane->open)
		return;
	TAILQ_REMOVE(&lane->turn->alive, lane, alive_link);
	lane->open = false;
	/* Unreachable: from here on nothing is accepted from the peer, nothing is posted. */
	fab_conn_close(lane->conn);
	tgt_transfer_orphan(lane, NULL);
	for (uint16_t tag = 0; tag < lane->tags; tag++) {
		struct tgt_request *request = &lane->requests[tag];

		switch ((enum tgt_request_state)request->state) {
		case TGT_REQUEST_DATA_IN:
			if (request->moved) /* the fabric may still write there */
				break;
			tgt_request_drop(request);
			break;
		case TGT_REQUEST_WAITING:
		case TGT_REQUEST_LIMITED:
		case TGT_REQUEST_HELD:
		case TGT_REQUEST_DATA_OUT:
		case TGT_REQUEST_REPLYING:
			tgt_request_drop(request);
			break;
		case TGT_REQUEST_STORING: /* F5: what has begun cannot be cancelled, only awaited */
			if (tgt_request_withdraw(request))
				tgt_request_drop(request);
			else
				tgt_request_orphan(request);
			break;
		case TGT_REQUEST_RECEIVED:
		case TGT_REQUEST_FREE:
		case TGT_REQUEST_STATES:
			break;
		}
	}
}

void tgt_lane_drained(struct tgt_lane *lane)
{
	tgt_share_leave(lane);
	tgt_transfer_abandon(lane);
	/* Also those that went on after the lane was closed: a command may close its own lane, and be answered then. */
	for (uint16_t tag = 0; tag < lane->tags; tag++)
		if (lane->requests[tag].state != TGT_REQUEST_FREE && lane->requests[tag].state != TGT_REQUEST_STORING)
			tgt_request_drop(&lane->requests[tag]);
}
