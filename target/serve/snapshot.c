/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Takes a snapshot of a reactor. */
#include "target/serve/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/serve/queue.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/session.h"
#include "target/serve/sessions.h"
#include "target/store/pool.h"

/* How many of each there are, for the one allocation. */
struct snapshot_room {
	unsigned int sessions, uses, volumes, initiators;
};

static struct snapshot_room snapshot_room(const struct tgt_reactor *reactor)
{
	struct snapshot_room room = {.uses = reactor->stats_table.count};
	const struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link)
		room.sessions++;
	for (unsigned int i = 0; i < RBLK_VOLUMES_MAX; i++)
		room.volumes += reactor->stats_table.volumes[i] != NULL;
	for (unsigned int i = 0; i <= TGT_NAMES_MAX; i++)
		room.initiators += reactor->stats_table.initiators[i] != NULL;
	return room;
}

static struct tgt_snapshot *snapshot_alloc(const struct snapshot_room *room)
{
	struct tgt_snapshot *snapshot;
	size_t uses = room->uses * sizeof(*snapshot->uses);
	size_t volumes = room->volumes * sizeof(*snapshot->volumes);
	size_t initiators = room->initiators * sizeof(*snapshot->initiators);

	/* All but the last end where a uint64_t may begin: so their structs do. */
	snapshot = calloc(1, sizeof(*snapshot) + uses + volumes + initiators +
				     room->sessions * sizeof(*snapshot->sessions));
	if (!snapshot)
		return NULL;
	snapshot->uses = (struct tgt_snapshot_use *)(snapshot + 1);
	snapshot->volumes = (struct tgt_snapshot_volume *)((char *)snapshot->uses + uses);
	snapshot->initiators = (struct tgt_initiator_stats *)((char *)snapshot->volumes + volumes);
	snapshot->sessions = (struct tgt_snapshot_session *)((char *)snapshot->initiators + initiators);
	return snapshot;
}

static void snapshot_path(const struct tgt_session *session, const struct tgt_queue *queue,
			  struct tgt_snapshot_path *path)
{
	struct fab_channel channel;

	snprintf(path->peer, sizeof(path->peer), "%s", fab_conn_peer(queue->io_queue.conn));
	path->rdma = fab_kind_is_rdma(fab_kind_of(queue->fabric->fab));
	path->encrypted = fab_conn_channel(queue->io_queue.conn, &channel) != NULL;
	path->digest = (queue->io_queue.features & RBLK_FEATURE_DIGEST) != 0;
	path->proven = session->proven && queue->proven;
	path->age_ns = session->reactor->loop.now_ns - queue->begun_ns;
}

void tgt_snapshot_session(const struct tgt_session *session, struct tgt_snapshot_session *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->proven = session->proven;
	entry->ending = session->ending;
	entry->number = session->number;
	entry->remote = session->home != NULL;
	memcpy(entry->initiator, session->initiator, sizeof(entry->initiator));
	memcpy(entry->peer, session->peer, sizeof(entry->peer));
	entry->connections = session->queues_here;
	entry->awaits_ns = tgt_session_awaits_ns(session, &entry->gone_ns);
	entry->age_ns = session->reactor->loop.now_ns - session->begun_ns;
	entry->handles = session->handles_open;
	entry->credits = session->share.credits;
	entry->data_bytes = session->share.data_bytes;
	entry->commands = session->totals.commands;
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++) {
		const struct tgt_queue *queue = session->slots[i].queue;

		entry->outstanding += tgt_queue_lingering_active(session, i);
		if (!queue)
			continue;
		snapshot_path(session, queue, &entry->paths[i]);
		entry->encrypted += entry->paths[i].encrypted;
		entry->rdma += entry->paths[i].rdma;
		entry->digests += entry->paths[i].digest;
		entry->outstanding += queue->io_queue.active;
		entry->commands += queue->io_queue.totals.commands;
	}
}

static void snapshot_use(struct tgt_snapshot *snapshot, const struct tgt_stats *stats)
{
	struct tgt_snapshot_use *use = &snapshot->uses[snapshot->use_count++];

	use->session = stats->handle->session->number;
	memcpy(use->volume, stats->volume, sizeof(use->volume));
	use->read_only = stats->handle->access.read_only;
	use->initiator = stats->initiator;
	use->outstanding = stats->handle->access.users;
	use->counts = stats->counts;
}

static void snapshot_volume(struct tgt_snapshot *snapshot, const struct tgt_stats *stats)
{
	struct tgt_snapshot_volume *volume = &snapshot->volumes[snapshot->volume_count++];

	memcpy(volume->name, stats->volume, sizeof(volume->name));
	volume->counts = stats->counts;
}

struct tgt_snapshot *tgt_snapshot_take(struct tgt_reactor *reactor)
{
	struct snapshot_room room = snapshot_room(reactor);
	struct tgt_snapshot *snapshot = snapshot_alloc(&room);
	const struct tgt_session *session;
	const struct tgt_stats *stats;

	if (!snapshot)
		return NULL;
	snapshot->reactor = reactor->index;
	snapshot->sessions_here = reactor->session_count;
	snapshot->connections = reactor->queue_count;
	snapshot->logins_waiting = reactor->login_count;
	snapshot->taken_ns = reactor->loop.now_ns;
	snapshot->busy_ns = reactor->busy_ns;
	snapshot->pool_bytes = reactor->pool_bytes;
	snapshot->pool_used_bytes = reactor->pool_bytes - tgt_pool_free_bytes(reactor->loop.pool);
	snapshot->fences = reactor->fences;
	memcpy(snapshot->refused, reactor->loop.refused, sizeof(snapshot->refused));
	memcpy(snapshot->ends, reactor->loop.ends, sizeof(snapshot->ends));
	memcpy(snapshot->logins, reactor->loop.logins, sizeof(snapshot->logins));
	TAILQ_FOREACH(session, &reactor->sessions, link)
		tgt_snapshot_session(session, &snapshot->sessions[snapshot->session_count++]);
	TAILQ_FOREACH(stats, &reactor->stats_table.handles, link)
		snapshot_use(snapshot, stats);
	for (unsigned int i = 0; i < RBLK_VOLUMES_MAX; i++)
		if (reactor->stats_table.volumes[i])
			snapshot_volume(snapshot, reactor->stats_table.volumes[i]);
	for (unsigned int i = 0; i <= TGT_NAMES_MAX; i++)
		if (reactor->stats_table.initiators[i])
			snapshot->initiators[snapshot->initiator_count++] = *reactor->stats_table.initiators[i];
	return snapshot;
}
