/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keep-alive.
 */
#include "target/serve/keepalive.h"

#include "target/io/transfer.h"
#include "target/serve/queue.h"

uint64_t tgt_keepalive_check(struct tgt_reactor *reactor)
{
	uint64_t now = reactor->turn.now_ns, limit = reactor->keepalive_ns;
	uint64_t next_ns = UINT64_MAX;
	struct tgt_lane *lane, *following;

	if (!limit && now < reactor->pressed_until_ns)
		limit = TGT_PRESSED_NS;
	if (!limit)
		return next_ns;
	/* In the order in which they were last heard: the first that is not silent ends the walk.
	 */
	for (lane = TAILQ_FIRST(&reactor->turn.alive); lane; lane = following) {
		uint64_t due_ns = lane->heard_ns + limit;

		following = TAILQ_NEXT(lane, alive_link);
		if (now >= due_ns && !lane->suspect_ns) {
			lane->suspect_ns = now;
			/*
			 * Not before both ends are connected, but without a command: an initiator
			 * with a queue for each processor has unused ones.
			 */
			if (tgt_queue_of(lane)->established || lane->messages_in)
				tgt_transfer_probe(lane);
		}
		/* Counted from the probe, even a late one: this end may have been late. */
		if (lane->suspect_ns)
			due_ns = lane->suspect_ns + limit;
		if (now >= due_ns) {
			tgt_queue_lost(tgt_queue_of(lane), TGT_END_SILENT, "keep-alive timeout");
			continue;
		}
		if (due_ns < next_ns)
			next_ns = due_ns;
		if (!lane->suspect_ns)
			break;
	}
	return next_ns;
}

void tgt_keepalive_press(struct tgt_reactor *reactor)
{
	struct tgt_lane *lane;

	if (reactor->keepalive_ns)
		return;
	/* Probes from before the last such time ended were not waited for. */
	if (reactor->turn.now_ns >= reactor->pressed_until_ns)
		TAILQ_FOREACH(lane, &reactor->turn.alive, alive_link)
			lane->suspect_ns = 0;
	/* Until every silent queue has been probed and has had its time to answer. */
	reactor->pressed_until_ns = reactor->turn.now_ns + 3 * TGT_PRESSED_NS;
	tgt_turn_timer(&reactor->turn, reactor->turn.now_ns);
}
