/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The list of unserved.h, under one mutex. */
#include "target/base/unserved.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "proto/core/env.h"
#include "target/base/daemon_event.h"

struct entry {
	TAILQ_ENTRY(entry) link;
	struct tgt_unserved_one one;
	uint64_t since_ns;
};

struct tgt_unserved {
	pthread_mutex_t lock; /* owns all below */
	TAILQ_HEAD(entry_list, entry) entries;
	unsigned int counts[TGT_UNSERVED_KINDS];
};

struct tgt_unserved *tgt_unserved_create(void)
{
	struct tgt_unserved *unserved = calloc(1, sizeof(*unserved));

	if (!unserved)
		return NULL;
	pthread_mutex_init(&unserved->lock, NULL);
	TAILQ_INIT(&unserved->entries);
	return unserved;
}

void tgt_unserved_destroy(struct tgt_unserved *unserved)
{
	struct entry *entry;

	if (!unserved)
		return;
	while ((entry = TAILQ_FIRST(&unserved->entries))) {
		TAILQ_REMOVE(&unserved->entries, entry, link);
		free(entry);
	}
	pthread_mutex_destroy(&unserved->lock);
	free(unserved);
}

/* Lock held. */
static struct entry *entry_find(struct tgt_unserved *unserved, enum tgt_unserved_kind kind, const char *name)
{
	struct entry *entry;

	TAILQ_FOREACH(entry, &unserved->entries, link)
		if (entry->one.kind == kind && !strcmp(entry->one.name, name))
			return entry;
	return NULL;
}

static void entry_tell(enum tgt_unserved_kind kind, const char *name, const char *reason)
{
	struct tgt_daemon_event_about about = {.kind = TGT_DAEMON_EVENT_ADDRESS_MISSING, .address = name};

	if (kind == TGT_UNSERVED_VOLUME)
		about = (struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_VOLUME_MISSING, .volume = name};
	tgt_daemon_event(&about, NULL, TGT_LOG_ERROR, "%s; not served yet, trying again", reason);
}

void tgt_unserved_add(struct tgt_unserved *unserved, enum tgt_unserved_kind kind, const char *name,
		      const char *reason)
{
	bool tell = false, changed = false;
	struct entry *entry;

	if (!unserved)
		return;
	pthread_mutex_lock(&unserved->lock);
	entry = entry_find(unserved, kind, name);
	if (!entry && (entry = calloc(1, sizeof(*entry)))) {
		tell = true;
		entry->one.kind = kind;
		entry->since_ns = env_now_ns();
		snprintf(entry->one.name, sizeof(entry->one.name), "%s", name);
		TAILQ_INSERT_TAIL(&unserved->entries, entry, link);
		unserved->counts[kind]++;
	}
	if (entry && strcmp(entry->one.reason, reason)) {
		changed = !tell;
		snprintf(entry->one.reason, sizeof(entry->one.reason), "%s", reason);
	}
	pthread_mutex_unlock(&unserved->lock);
	if (tell)
		entry_tell(kind, name, reason);
	else if (changed)
		tgt_log(TGT_LOG_WARNING, "%s; still not served", reason);
}

void tgt_unserved_elsewhere(struct tgt_unserved *unserved, enum tgt_unserved_kind kind, const char *name)
{
	struct entry *entry;

	if (!unserved)
		return;
	pthread_mutex_lock(&unserved->lock);
	entry = entry_find(unserved, kind, name);
	if (entry)
		entry->since_ns = 0;
	pthread_mutex_unlock(&unserved->lock);
}

bool tgt_unserved_remove(struct tgt_unserved *unserved, enum tgt_unserved_kind kind, const char *name)
{
	struct entry *entry;

	if (!unserved)
		return false;
	pthread_mutex_lock(&unserved->lock);
	entry = entry_find(unserved, kind, name);
	if (entry) {
		TAILQ_REMOVE(&unserved->entries, entry, link);
		unserved->counts[kind]--;
	}
	pthread_mutex_unlock(&unserved->lock);
	free(entry);
	return entry != NULL;
}

bool tgt_unserved_awaited(struct tgt_unserved *unserved, enum tgt_unserved_kind kind, const char *name,
			  unsigned int wait_ms)
{
	const struct entry *entry;
	bool awaited;

	if (!unserved)
		return false;
	pthread_mutex_lock(&unserved->lock);
	entry = entry_find(unserved, kind, name);
	awaited = entry && env_now_ns() - entry->since_ns < wait_ms * 1000000ull;
	pthread_mutex_unlock(&unserved->lock);
	return awaited;
}

unsigned int tgt_unserved_count(struct tgt_unserved *unserved, enum tgt_unserved_kind kind)
{
	unsigned int count;

	if (!unserved)
		return 0;
	pthread_mutex_lock(&unserved->lock);
	count = unserved->counts[kind];
	pthread_mutex_unlock(&unserved->lock);
	return count;
}

struct tgt_unserved_one *tgt_unserved_list(struct tgt_unserved *unserved, enum tgt_unserved_kind kind,
					   unsigned int *count)
{
	struct tgt_unserved_one *list = NULL;
	const struct entry *entry;

	*count = 0;
	if (!unserved)
		return NULL;
	pthread_mutex_lock(&unserved->lock);
	if (unserved->counts[kind])
		list = calloc(unserved->counts[kind], sizeof(*list));
	TAILQ_FOREACH(entry, &unserved->entries, link)
		if (list && entry->one.kind == kind)
			list[(*count)++] = entry->one;
	pthread_mutex_unlock(&unserved->lock);
	return list;
}
