/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The choice of route.h. */
#include "initiator/route.h"

static u16 choose_queue(const struct rblk_session *session)
{
	u16 turn = (u16)((session->next_queue + 1) % session->queue_count), best = turn;

	if (session->options.policy != RBLK_POLICY_LEAST_IN_FLIGHT)
		return turn;
	for (u16 i = 0; i < session->queue_count; i++) {
		u16 index = (u16)((turn + i) % session->queue_count);

		if (!core_session_open(&session->core, index))
			continue;
		if (!core_session_open(&session->core, best) ||
		    session->queues[index].tags.taken_io < session->queues[best].tags.taken_io)
			best = index;
	}
	return best;
}

void ini_route_next(struct rblk_session *session)
{
	session->next_queue = choose_queue(session);
}

struct ini_slot *ini_route_take(struct rblk_session *session)
{
	for (u16 i = 0; i < session->queue_count; i++) {
		u16 index = (u16)((session->next_queue + i) % session->queue_count);
		struct ini_slot *slot = ini_slot_take(&session->queues[index], false);

		if (slot)
			return slot;
	}
	return NULL;
}
