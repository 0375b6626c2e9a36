/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The list of names. It is short, and asked only when a volume is opened. */
#include "target/serve/counted.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "target/serve/host.h"
#include "target/serve/tallies.h"

struct initiator {
	char name[RBLK_NAME_BYTES];
	bool proven;
	struct tgt_host_key from; /* who said it first */
};

struct tgt_counted {
	pthread_mutex_t lock; /* of all below */
	unsigned int count, unproven;
	struct initiator list[TGT_COUNTED_MAX];
};

struct tgt_counted *tgt_counted_create(void)
{
	struct tgt_counted *counted = calloc(1, sizeof(*counted));

	if (counted)
		pthread_mutex_init(&counted->lock, NULL);
	return counted;
}

void tgt_counted_destroy(struct tgt_counted *counted)
{
	if (!counted)
		return;
	pthread_mutex_destroy(&counted->lock);
	free(counted);
}

/* Lock held. */
static bool has_room(const struct tgt_counted *counted, bool proven,
		     const struct tgt_host_key *from)
{
	unsigned int same = 0;

	if (counted->count == TGT_COUNTED_MAX)
		return false;
	if (proven)
		return true;
	for (unsigned int i = 0; i < counted->count; i++)
		same += !counted->list[i].proven &&
			!memcmp(&counted->list[i].from, from, sizeof(*from));
	return counted->unproven < TGT_COUNTED_UNPROVEN_MAX && same < TGT_COUNTED_OF_ADDRESS;
}

/* Lock held. */
static unsigned int number_of(struct tgt_counted *counted, const char name[RBLK_NAME_BYTES],
			      bool proven, const struct tgt_host_key *from)
{
	struct initiator *new;

	for (unsigned int i = 0; i < counted->count; i++)
		if (counted->list[i].proven == proven &&
		    !strncmp(counted->list[i].name, name, RBLK_NAME_BYTES))
			return i;
	if (!has_room(counted, proven, from))
		return TGT_COUNTED_OTHER;
	new = &counted->list[counted->count];
	memcpy(new->name, name, RBLK_NAME_BYTES);
	new->proven = proven;
	new->from = *from;
	counted->unproven += !proven;
	return counted->count++;
}

unsigned int tgt_counted_number(struct tgt_counted *counted, const char name[RBLK_NAME_BYTES],
				bool proven, const struct tgt_host_key *from)
{
	unsigned int number;

	pthread_mutex_lock(&counted->lock);
	number = number_of(counted, name, proven, from);
	pthread_mutex_unlock(&counted->lock);
	return number;
}
