/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes and folds the tallies of a reactor's handles and volumes. */
#include "target/serve/tally.h"

#include <stdlib.h>
#include <string.h>
#include "target/serve/names.h"
#include "target/serve/session.h"

static struct tgt_tally *tally_create(const char *volume)
{
	/* Its size is a multiple of its alignment. */
	struct tgt_tally *tally = aligned_alloc(alignof(struct tgt_tally), sizeof(*tally));

	if (!tally)
		return NULL;
	memset(tally, 0, sizeof(*tally));
	memcpy(tally->volume, volume, sizeof(tally->volume));
	return tally;
}

/*
 * A volume's own. A slot's former volume has no handle left, so nothing points to its tally: the new
 * one begins at zero, unless it has the same name, and so goes on.
 */
static struct tgt_tally *tally_of_volume(struct tgt_tallies *tallies,
					 const struct tgt_volume *volume)
{
	struct tgt_tally **tally = &tallies->volumes[volume->slot];

	if (!*tally)
		*tally = tally_create(volume->config.name);
	else if (strcmp((*tally)->volume, volume->config.name)) {
		memcpy((*tally)->volume, volume->config.name, sizeof((*tally)->volume));
		memset(&(*tally)->counts, 0, sizeof((*tally)->counts));
	}
	return *tally;
}

static unsigned int initiator_number(const struct tgt_session *session)
{
	const struct tgt_peers *peers = session->reactor->peers;

	if (!peers || !peers->names)
		return TGT_NAMES_OTHER;
	return tgt_names_number(peers->names, session->initiator, session->proven,
				&session->host->key);
}

/* An initiator's own is there before it counts, so that a census has its name. */
static unsigned int tally_of_initiator(struct tgt_tallies *tallies,
				       const struct tgt_session *session)
{
	unsigned int number = initiator_number(session);
	struct tgt_initiator_tally *tally = tallies->initiators[number];

	if (tally)
		return number;
	tally = calloc(1, sizeof(*tally));
	tallies->initiators[number] = tally;
	if (tally && number != TGT_NAMES_OTHER) {
		memcpy(tally->name, session->initiator, sizeof(tally->name));
		tally->proven = session->proven;
	}
	return number;
}

void tgt_tally_open(struct tgt_handle *handle)
{
	struct tgt_tallies *tallies = &handle->session->reactor->tallies;
	const struct tgt_volume *volume = handle->access.channel->volume;
	struct tgt_tally *shared = tally_of_volume(tallies, volume);

	handle->access.counts = shared ? &shared->counts : &tallies->lost;
	if (!shared || !tgt_quota_allows(&tgt_tallies_quota, tallies->count, handle->session->tallies))
		return;
	handle->tally = tally_create(volume->config.name);
	if (!handle->tally)
		return;
	handle->tally->handle = handle;
	handle->tally->initiator = tally_of_initiator(tallies, handle->session);
	handle->access.counts = &handle->tally->counts;
	TAILQ_INSERT_TAIL(&tallies->handles, handle->tally, link);
	tallies->count++;
	handle->session->tallies++;
}

void tgt_tally_close(struct tgt_handle *handle)
{
	struct tgt_tallies *tallies = &handle->session->reactor->tallies;
	struct tgt_tally *tally = handle->tally;
	struct tgt_initiator_tally *initiator;

	handle->access.counts = &tallies->lost;
	if (!tally)
		return;
	handle->tally = NULL;
	tgt_counts_sum(&tallies->volumes[handle->access.channel->volume->slot]->counts,
		       &tally->counts);
	initiator = tallies->initiators[tally->initiator];
	if (initiator)
		tgt_counts_sum(&initiator->counts, &tally->counts);
	TAILQ_REMOVE(&tallies->handles, tally, link);
	tallies->count--;
	handle->session->tallies--;
	free(tally);
}

void tgt_tallies_init(struct tgt_tallies *tallies)
{
	TAILQ_INIT(&tallies->handles);
}

void tgt_tallies_fini(struct tgt_tallies *tallies)
{
	for (unsigned int i = 0; i < RBLK_VOLUMES_MAX; i++)
		free(tallies->volumes[i]);
	for (unsigned int i = 0; i <= TGT_NAMES_MAX; i++)
		free(tallies->initiators[i]);
}
