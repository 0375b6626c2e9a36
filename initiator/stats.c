/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns what a session tells of itself: the sums of what it counted and of what its connections
 * posted, what was granted and agreed.
 */
#include "initiator/session.h"

#include <stdio.h>
#include "proto/wire/wire_names.h"

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

void rblk_session_info(const struct rblk_session *session, struct rblk_session_info *info)
{
	const struct ini_queue *queue = &session->queues[0];
	size_t length = 0;

	memset(info, 0, sizeof(*info));
	info->peer = ini_session_peer(session);
	info->device = queue->device ? fab_device_name(queue->device) : "";
	for (u32 bit = 1; bit & RBLK_FEATURES_ALL; bit <<= 1)
		if (queue->features & bit)
			length += (size_t)snprintf(info->features + length,
						   sizeof(info->features) - length, "%s%s",
						   length ? " " : "", rblk_feature_name(bit));
}
