/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The list of initiators' names. It is short, and asked only when a volume is opened. */
#include "target/serve/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "target/serve/host.h"
#include "target/serve/stats_table.h"

struct initiator {
	char name[RBLK_NAME_BYTES];
	bool proven;
	struct tgt_host_key from; /* who said it first */
};

struct tgt_names {
	pthread_mutex_t lock; /* of all below */
	unsigned int count, unproven;
	struct initiator list[TGT_NAMES_MAX];
};

struct tgt_names *tgt_names_create(void)
{
	struct tgt_names *names = calloc(1, sizeof(*names));

	if (names)
		pthread_mutex_init(&names->lock, NULL);
	return names;
}

void tgt_names_destroy(struct tgt_names *names)
{
	if (!names)
		return;
	pthread_mutex_destroy(&names->lock);
	free(names);
}

unsigned int tgt_names_number(struct tgt_names *names, const char name[RBLK_NAME_BYTES],
			      bool proven, const struct tgt_host_key *from)
{
	unsigned int i, same = 0;

	pthread_mutex_lock(&names->lock);
	for (i = 0; i < names->count; i++) {
		if (names->list[i].proven == proven && !strncmp(names->list[i].name, name, RBLK_NAME_BYTES))
			break;
		same += !names->list[i].proven && !memcmp(&names->list[i].from, from, sizeof(*from));
	}
	if (i == names->count && i < TGT_NAMES_MAX &&
	    (proven || tgt_quota_allows(&tgt_names_quota, names->unproven, same))) {
		names->list[i] = (struct initiator){.proven = proven, .from = *from};
		memcpy(names->list[i].name, name, RBLK_NAME_BYTES);
		names->unproven += !proven;
		names->count++;
	}
	if (i == names->count)
		i = TGT_NAMES_OTHER;
	pthread_mutex_unlock(&names->lock);
	return i;
}
