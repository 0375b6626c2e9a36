/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Takes a census of a reactor. */
#include "target/serve/census.h"

#include <stdlib.h>
#include <string.h>
#include "target/serve/queue.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/session.h"
#include "target/store/pool.h"

/* How many of each there are, for the one allocation. */
struct census_room {
	unsigned int sessions, uses, volumes, initiators;
};

static struct census_room census_room(const struct tgt_reactor *reactor)
{
	struct census_room room = {.uses = reactor->tallies.count};
	const struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link)
		room.sessions++;
	for (unsigned int i = 0; i < RBLK_VOLUMES_MAX; i++)
		room.volumes += reactor->tallies.volumes[i] != NULL;
	for (unsigned int i = 0; i <= TGT_NAMES_MAX; i++)
		room.initiators += reactor->tallies.initiators[i] != NULL;
	return room;
}

static struct tgt_census *census_alloc(const struct census_room *room)
{
	struct tgt_census *census;
	size_t uses = room->uses * sizeof(*census->uses);
	size_t volumes = room->volumes * sizeof(*census->volumes);
	size_t initiators = room->initiators * sizeof(*census->initiators);

	/* All but the last end where a uint64_t may begin: so their structs do. */
	census = calloc(1, sizeof(*census) + uses + volumes + initiators +
				   room->sessions * sizeof(*census->sessions));
	if (!census)
		return NULL;
	census->uses = (struct tgt_census_use *)(census + 1);
	census->volumes = (struct tgt_census_volume *)((char *)census->uses + uses);
	census->initiators = (struct tgt_census_initiator *)((char *)census->volumes + volumes);
	census->sessions = (struct tgt_census_session *)((char *)census->initiators + initiators);
	return census;
}

static void census_session(struct tgt_census *census, const struct tgt_session *session)
{
	struct tgt_census_session *entry = &census->sessions[census->session_count++];
	struct fab_channel channel;

	entry->proven = session->proven;
	entry->ending = session->ending;
	entry->number = session->number;
	entry->part = session->home != NULL;
	memcpy(entry->initiator, session->initiator, sizeof(entry->initiator));
	memcpy(entry->peer, session->peer, sizeof(entry->peer));
	entry->connections = session->queues_here;
	entry->handles = session->handles_open;
	entry->credits = session->share.credits;
	entry->data_bytes = session->share.data_bytes;
	entry->commands = session->totals.commands;
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++) {
		const struct tgt_queue *queue = session->places[i].queue;

		entry->outstanding += tgt_queue_lingering_active(session, i);
		if (!queue)
			continue;
		entry->encrypted += fab_conn_channel(queue->io_queue.conn, &channel) != NULL;
		entry->rdma += fab_kind_of(queue->fabric->fab) == FAB_VERBS;
		entry->outstanding += queue->io_queue.active;
		entry->commands += queue->io_queue.commands;
	}
}

static void census_use(struct tgt_census *census, const struct tgt_tally *tally)
{
	struct tgt_census_use *use = &census->uses[census->use_count++];

	use->session = tally->handle->session->number;
	memcpy(use->volume, tally->volume, sizeof(use->volume));
	use->read_only = tally->handle->access.read_only;
	use->initiator = tally->initiator;
	use->outstanding = tally->handle->access.users;
	use->counts = tally->counts;
}

static void census_volume(struct tgt_census *census, const struct tgt_tally *tally)
{
	struct tgt_census_volume *volume = &census->volumes[census->volume_count++];

	memcpy(volume->name, tally->volume, sizeof(volume->name));
	volume->counts = tally->counts;
}

static void census_initiator(struct tgt_census *census, unsigned int number,
			     const struct tgt_initiator_tally *tally)
{
	struct tgt_census_initiator *initiator = &census->initiators[census->initiator_count++];

	initiator->number = number;
	memcpy(initiator->name, tally->name, sizeof(initiator->name));
	initiator->proven = tally->proven;
	initiator->counts = tally->counts;
}

struct tgt_census *tgt_census_take(struct tgt_reactor *reactor)
{
	struct census_room room = census_room(reactor);
	struct tgt_census *census = census_alloc(&room);
	const struct tgt_session *session;
	const struct tgt_tally *tally;

	if (!census)
		return NULL;
	census->reactor = reactor->index;
	census->sessions_here = reactor->session_count;
	census->connections = reactor->queue_count;
	census->logins_waiting = reactor->login_count;
	census->taken_ns = reactor->loop.now_ns;
	census->busy_ns = reactor->busy_ns;
	census->pool_bytes = reactor->pool_bytes;
	census->pool_used_bytes = reactor->pool_bytes - tgt_pool_free_bytes(reactor->loop.pool);
	census->logins_accepted = reactor->logins_accepted;
	census->logins_refused = reactor->logins_refused;
	census->logins_renewed = reactor->logins_renewed;
	census->fences = reactor->fences;
	memcpy(census->refused, reactor->loop.refused, sizeof(census->refused));
	memcpy(census->ends, reactor->loop.ends, sizeof(census->ends));
	TAILQ_FOREACH(session, &reactor->sessions, link)
		census_session(census, session);
	TAILQ_FOREACH(tally, &reactor->tallies.handles, link)
		census_use(census, tally);
	for (unsigned int i = 0; i < RBLK_VOLUMES_MAX; i++)
		if (reactor->tallies.volumes[i])
			census_volume(census, reactor->tallies.volumes[i]);
	for (unsigned int i = 0; i <= TGT_NAMES_MAX; i++)
		if (reactor->tallies.initiators[i])
			census_initiator(census, i, reactor->tallies.initiators[i]);
	return census;
}
