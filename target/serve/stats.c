/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes and folds the stats of a reactor's handles and volumes. */
#include "target/serve/stats.h"

#include <stdlib.h>
#include <string.h>
#include "target/serve/names.h"
#include "target/serve/session.h"

static struct tgt_stats *stats_create(const char *volume)
{
	/* Its size is a multiple of its alignment. */
	struct tgt_stats *stats = aligned_alloc(alignof(struct tgt_stats), sizeof(*stats));

	if (!stats)
		return NULL;
	memset(stats, 0, sizeof(*stats));
	memcpy(stats->volume, volume, sizeof(stats->volume));
	return stats;
}

/*
 * A volume's own. A slot's former volume has no handle left, so nothing points to its stats: the new
 * one begins at zero, unless it has the same name, and so goes on.
 */
static struct tgt_stats *stats_of_volume(struct tgt_stats_table *stats_table,
					 const struct tgt_volume *volume)
{
	struct tgt_stats **stats = &stats_table->volumes[volume->slot];

	if (!*stats)
		*stats = stats_create(volume->config.name);
	else if (strcmp((*stats)->volume, volume->config.name)) {
		memcpy((*stats)->volume, volume->config.name, sizeof((*stats)->volume));
		memset(&(*stats)->counts, 0, sizeof((*stats)->counts));
	}
	return *stats;
}

static unsigned int initiator_number(const struct tgt_session *session)
{
	const struct tgt_peers *peers = session->reactor->peers;

	if (!peers || !peers->names)
		return TGT_NAMES_OTHER;
	return tgt_names_number(peers->names, session->initiator, session->proven,
				&session->host->key);
}

/* An initiator's own is there before it counts, so that a snapshot has its name. */
static unsigned int stats_of_initiator(struct tgt_stats_table *stats_table,
				       const struct tgt_session *session)
{
	unsigned int number = initiator_number(session);
	struct tgt_initiator_stats *stats = stats_table->initiators[number];

	if (stats || !(stats = calloc(1, sizeof(*stats))))
		return number;
	stats_table->initiators[number] = stats;
	stats->number = number;
	if (number != TGT_NAMES_OTHER) {
		memcpy(stats->name, session->initiator, sizeof(stats->name));
		stats->proven = session->proven;
	}
	return number;
}

void tgt_stats_open(struct tgt_handle *handle)
{
	struct tgt_stats_table *stats_table = &handle->session->reactor->stats_table;
	const struct tgt_volume *volume = handle->access.channel->volume;
	struct tgt_stats *shared = stats_of_volume(stats_table, volume);

	handle->access.counts = shared ? &shared->counts : &stats_table->lost;
	if (!shared || !tgt_quota_allows(&tgt_stats_quota, stats_table->count, handle->session->stats_count))
		return;
	handle->stats = stats_create(volume->config.name);
	if (!handle->stats)
		return;
	handle->stats->handle = handle;
	handle->stats->initiator = stats_of_initiator(stats_table, handle->session);
	handle->access.counts = &handle->stats->counts;
	TAILQ_INSERT_TAIL(&stats_table->handles, handle->stats, link);
	stats_table->count++;
	handle->session->stats_count++;
}

void tgt_stats_close(struct tgt_handle *handle)
{
	struct tgt_stats_table *stats_table = &handle->session->reactor->stats_table;
	struct tgt_stats *stats = handle->stats;
	struct tgt_initiator_stats *initiator;

	handle->access.counts = &stats_table->lost;
	if (!stats)
		return;
	handle->stats = NULL;
	tgt_counts_sum(&stats_table->volumes[handle->access.channel->volume->slot]->counts,
		       &stats->counts, sizeof(stats->counts));
	initiator = stats_table->initiators[stats->initiator];
	if (initiator)
		tgt_counts_sum(&initiator->counts, &stats->counts, sizeof(stats->counts));
	TAILQ_REMOVE(&stats_table->handles, stats, link);
	stats_table->count--;
	handle->session->stats_count--;
	free(stats);
}

void tgt_stats_table_init(struct tgt_stats_table *stats_table)
{
	TAILQ_INIT(&stats_table->handles);
}

void tgt_stats_table_fini(struct tgt_stats_table *stats_table)
{
	for (unsigned int i = 0; i < RBLK_VOLUMES_MAX; i++)
		free(stats_table->volumes[i]);
	for (unsigned int i = 0; i <= TGT_NAMES_MAX; i++)
		free(stats_table->initiators[i]);
}
