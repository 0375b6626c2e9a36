/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rights that a reservation removes, and what happens to the commands of a lane.
 */
#include "target/io/revoke.h"

#include "target/io/request.h"
#include "target/io/transfer.h"

static void revoke_request(struct tgt_request *request, bool aborts)
{
	bool refused;

	/* In other states the volume no longer has it, or it is a session command. */
	if (request->state != TGT_REQUEST_WAITING && request->state != TGT_REQUEST_DATA_IN &&
	    request->state != TGT_REQUEST_STORING && request->state != TGT_REQUEST_LIMITED)
		return;
	refused = tgt_request_refused(request);
	/* Data that is arriving now is not stored if it is refused then (request.c). */
	if ((refused || aborts) && !tgt_request_cut_short(request))
		tgt_request_end_early(request, refused ? RBLK_E_RESERVED : RBLK_E_ABORTED);
	if (request->state == TGT_REQUEST_STORING && (aborts || tgt_command_of(request)->writes))
		tgt_request_count_orphan(request);
}

bool tgt_lane_revoke(struct tgt_lane *lane, struct tgt_access *access, bool aborts)
{
	/* Those of a closed lane are orphans already. */
	if (!lane->open)
		return false;
	for (uint16_t tag = 0; tag < lane->tags; tag++) {
		struct tgt_request *request = &lane->requests[tag];

		if (request->state != TGT_REQUEST_FREE && request->access == access)
			revoke_request(request, aborts);
	}
	return tgt_transfer_orphan(lane, access);
}
