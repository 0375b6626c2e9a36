/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns what a session reports about itself: the sums of its counters and of its connections' work
 * requests, what was granted and agreed, its state and that of its paths; and what of it is on its page.
 */
#include "initiator/session.h"

#include <stdio.h>
#include "initiator/publish.h"
#include "initiator/volume.h"
#include "proto/wire/wire_names.h"

#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
/* Version 0.1's: no version has a shorter struct. */
#define STATS_BYTES_MIN END_OF(struct rblk_stats, stored_us_total)
#define INFO_BYTES_MIN END_OF(struct rblk_session_info, initiator)
#define PATH_BYTES_MIN END_OF(struct rblk_path_info, proven)
#define PATH_BYTES_MAX 65536 /* rejects an invalid size */

/* The caller's struct may be of another version: copy the members that both have, zero the rest. */
static void copy_out(void *to, size_t to_bytes, const void *from, size_t from_bytes)
{
	memset(to, 0, to_bytes);
	memcpy(to, from, to_bytes < from_bytes ? to_bytes : from_bytes);
}

int rblk_session_stats(const struct rblk_session *session, struct rblk_stats *to, size_t bytes)
{
	struct rblk_stats stats = session->stats;

	if (bytes < STATS_BYTES_MIN)
		return -EINVAL;
	for (u16 i = 0; i < session->queue_count; i++) {
		const struct ini_queue *queue = &session->queues[i];
		struct fab_counters live = { 0 };

		if (queue->conn)
			fab_conn_counters(queue->conn, &live);
		stats.sends += queue->counters.sends + live.sends;
		stats.doorbells += queue->counters.doorbells + live.doorbells;
	}
	copy_out(to, bytes, &stats, sizeof(stats));
	return 0;
}

enum rblk_session_state rblk_session_state(const struct rblk_session *session)
{
	if (core_session_over(&session->core) || session->logout_ns)
		return RBLK_SESSION_FAILED;
	if (!session->ready)
		return RBLK_SESSION_CONNECTING;
	return core_session_route(&session->core, 0) >= 0 ? RBLK_SESSION_READY :
							    RBLK_SESSION_RECOVERING;
}

void ini_session_publish(struct rblk_session *session)
{
	ini_publish_state(session->publish, rblk_session_state(session));
	for (const struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		if (volume->counted)
			ini_publish_outstanding(volume->counted, volume->inflight);
}

unsigned int rblk_session_credits(const struct rblk_session *session)
{
	unsigned int credits = 0;

	for (u16 i = 0; i < session->queue_count; i++)
		if (session->queues[i].state == INI_QUEUE_LIVE)
			credits += session->queues[i].tags.credits;
	return credits;
}

static bool is_encrypted(const struct ini_queue *queue)
{
	struct fab_channel channel;

	return queue->conn && fab_conn_channel(queue->conn, &channel);
}

int rblk_session_info(const struct rblk_session *session, struct rblk_session_info *to, size_t bytes)
{
	const struct ini_queue *queue = &session->queues[0];
	struct rblk_session_info info = {.tls = is_encrypted(queue), .proven = queue->proven};
	size_t length = 0;

	if (bytes < INFO_BYTES_MIN)
		return -EINVAL;
	memcpy(info.initiator, session->identity.name, sizeof(info.initiator));
	snprintf(info.peer, sizeof(info.peer), "%s", ini_session_peer(session));
	snprintf(info.device, sizeof(info.device), "%s", queue->device ? fab_device_name(queue->device) : "");
	for (u32 bit = 1; bit & RBLK_FEATURES_ALL; bit <<= 1)
		if (queue->features & bit)
			length += (size_t)snprintf(info.features + length,
						   sizeof(info.features) - length, "%s%s",
						   length ? " " : "", rblk_feature_name(bit));
	copy_out(to, bytes, &info, sizeof(info));
	return 0;
}

/* -- paths ------------------------------------------------------------------------------------- */

static void path_of(const struct rblk_session *session, u16 portal, struct rblk_path_info *path)
{
	const struct ini_portal *from = &session->portals.of[portal];

	u64 now_ns = env_now_ns(), age_ns = 0;

	*path = (struct rblk_path_info){.size = sizeof(*path)};
	snprintf(path->host, sizeof(path->host), "%s", from->where);
	for (u16 i = 0; i < session->queue_count; i++) {
		const struct ini_queue *queue = &session->queues[i];
		const struct core_queue *core = &session->core.queue[i];

		if (queue->state != INI_QUEUE_LIVE || core->portal != portal)
			continue;
		if (core->state == CORE_QUEUE_LIVE && now_ns - core->live_ns > age_ns)
			age_ns = now_ns - core->live_ns;
		if (!path->connections++) {
			snprintf(path->peer, sizeof(path->peer), "%s", fab_conn_peer(queue->conn));
			snprintf(path->device, sizeof(path->device), "%s",
				 fab_device_name(queue->device));
			path->tls = path->proven = path->digest = true;
		}
		path->tls &= is_encrypted(queue);
		path->proven &= queue->proven;
		path->digest &= (queue->features & RBLK_FEATURE_DIGEST) != 0;
	}
	path->connected_ms = age_ns / 1000000;
	path->error = from->error;
	if (from->error)
		memcpy(path->words, from->words, sizeof(path->words));
}

int rblk_session_paths(const struct rblk_session *session, struct rblk_path_info *paths,
		       size_t path_bytes, unsigned int max)
{
	u16 count = (u16)(session->portals.count + session->portals.unknown_count);
	struct rblk_path_info path;

	if (path_bytes < PATH_BYTES_MIN || path_bytes > PATH_BYTES_MAX)
		return -EINVAL;
	for (u16 i = 0; i < count && i < max; i++) {
		path_of(session, i, &path);
		copy_out((u8 *)paths + i * path_bytes, path_bytes, &path, sizeof(path));
	}
	return count;
}
