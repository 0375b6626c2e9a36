/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the sums: what the session counted, and what its connections posted.
 */
#include "initiator/session.h"

void rblk_session_stats(const struct rblk_session *session, struct rblk_stats *stats)
{
	*stats = session->stats;
	for (u16 i = 0; i < session->queue_count; i++) {
		const struct ini_queue *queue = &session->queues[i];
		struct fab_counters live = { 0 };

		if (queue->conn)
			fab_conn_counters(queue->conn, &live);
		stats->sends += queue->counters.sends + live.sends;
		stats->doorbells += queue->counters.doorbells + live.doorbells;
	}
}

unsigned int rblk_session_credits(const struct rblk_session *session)
{
	unsigned int credits = 0;

	for (u16 i = 0; i < session->queue_count; i++)
		if (session->queues[i].state == INI_QUEUE_LIVE)
			credits += session->queues[i].tags.credits;
	return credits;
}
