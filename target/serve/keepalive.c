/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keep-alive.
 */
#include "target/serve/keepalive.h"

#include "target/io/transfer.h"
#include "target/serve/queue.h"

void tgt_keepalive_check(struct tgt_reactor *reactor)
{
	uint64_t now = reactor->loop.now_ns, limit = reactor->keepalive_ns;
	struct tgt_io_queue *io_queue, *following;

	if (!limit && now < reactor->pressed_until_ns)
		limit = TGT_PRESSED_NS;
	if (!limit)
		return;
	/* In the order in which they were last heard: the first that is not silent ends the walk.
	 */
	TAILQ_FOREACH_SAFE(io_queue, &reactor->loop.alive, alive_link, following) {
		uint64_t due_ns = io_queue->heard_ns + limit;

		if (now >= due_ns && !io_queue->suspect_ns) {
			io_queue->suspect_ns = now;
			/*
			 * Not before both ends are connected, but without a command: an initiator
			 * with a queue for each processor has unused ones.
			 */
			if (tgt_queue_of(io_queue)->established || io_queue->totals.messages_in)
				tgt_transfer_probe(io_queue);
		}
		/* Counted from the probe, even a late one: this end may have been late. */
		if (io_queue->suspect_ns)
			due_ns = io_queue->suspect_ns + limit;
		if (now >= due_ns) {
			tgt_queue_lost(tgt_queue_of(io_queue), TGT_END_SILENT, "keep-alive timeout");
			continue;
		}
		tgt_loop_timer(&reactor->loop, due_ns);
		if (!io_queue->suspect_ns)
			break;
	}
}

void tgt_keepalive_press(struct tgt_reactor *reactor)
{
	struct tgt_io_queue *io_queue;

	if (reactor->keepalive_ns)
		return;
	/* Probes from before the last such time ended were not waited for. */
	if (reactor->loop.now_ns >= reactor->pressed_until_ns)
		TAILQ_FOREACH(io_queue, &reactor->loop.alive, alive_link)
			io_queue->suspect_ns = 0;
	/* Until every silent queue has been probed and has had its time to answer. */
	reactor->pressed_until_ns = reactor->loop.now_ns + 3 * TGT_PRESSED_NS;
	tgt_loop_timer(&reactor->loop, reactor->loop.now_ns);
}
