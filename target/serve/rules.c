/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rulebook and what follows from it. A volume that some rule names is for those whom the rules
 * name; one that no rule names is for this machine, or for everyone if the target is open.
 */
#include "target/serve/rules.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "proto/secret/secret.h"
#include "target/base/network.h"
#include "target/io/limit.h"

struct tgt_rules {
	_Atomic unsigned int refs;
	bool open;
	enum tgt_tls tls;
	struct initiator_rule *initiators;
	unsigned int count;
	struct volume_rule *volumes; /* of the configuration, by name */
	unsigned int volume_count;
};

struct initiator_rule {
	struct tgt_initiator_config config; /* with copies of its own */
	struct tgt_limit *limit;	    /* NULL: none */
};

struct volume_rule {
	char name[RBLK_NAME_BYTES];
	bool named; /* by some section */
	bool paced; /* limit = auto */
	bool priority;
	struct tgt_limit *limit; /* NULL: none */
};

struct tgt_rulebook {
	pthread_mutex_t lock;
	struct tgt_rules *rules; /* under the lock */
};

/* -- origins ----------------------------------------------------------------------------------- */

static bool is_loopback(const struct tgt_host_key *key)
{
	static const uint8_t in[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
	static const uint8_t in6[16] = {[15] = 1};

	return !memcmp(key->address, in, sizeof(in)) || !memcmp(key->address, in6, sizeof(in6));
}

/* One of the addresses that this machine has now. */
static bool is_own(const struct tgt_host_key *key)
{
	struct ifaddrs *list;
	bool own = false;

	if (getifaddrs(&list))
		return false;
	for (const struct ifaddrs *one = list; one && !own; one = one->ifa_next) {
		struct tgt_host_key mine;

		if (!one->ifa_addr || (one->ifa_addr->sa_family != AF_INET &&
				       one->ifa_addr->sa_family != AF_INET6))
			continue;
		tgt_host_key_of(one->ifa_addr, &mine);
		own = !memcmp(&mine, key, sizeof(mine));
	}
	freeifaddrs(list);
	return own;
}

void tgt_origin_of(const struct sockaddr *address, struct tgt_origin *origin)
{
	memset(origin, 0, sizeof(*origin)); /* padding, too: origins are compared as bytes */
	tgt_host_key_of(address, &origin->key);
	origin->local =
		!origin->key.family && (is_loopback(&origin->key) || is_own(&origin->key));
}

/* -- sections ---------------------------------------------------------------------------------- */

bool tgt_rules_match(const char *pattern, const char *name)
{
	size_t length = strlen(pattern);

	if (length && pattern[length - 1] == '*')
		return strncmp(pattern, name, length - 1) == 0;
	return strcmp(pattern, name) == 0;
}

/* The most that its grants give, and whether it has one for the volume. */
static bool grants_of(const struct tgt_initiator_config *initiator, const char *volume,
		      enum tgt_right *right)
{
	bool named = false;

	*right = TGT_RIGHT_NONE;
	for (unsigned int i = 0; i < initiator->grant_count; i++) {
		if (!tgt_rules_match(initiator->grants[i].volume, volume))
			continue;
		named = true;
		if (initiator->grants[i].right > *right)
			*right = initiator->grants[i].right;
	}
	return named;
}

/* Slow: for all volumes of the configuration it is done once. */
static bool is_named(const struct tgt_rules *rules, const char *volume)
{
	enum tgt_right right;

	for (unsigned int i = 0; i < rules->count; i++)
		if (grants_of(&rules->initiators[i].config, volume, &right))
			return true;
	return false;
}

/* -- the rulebook ------------------------------------------------------------------------------ */

static void *copy_of(const void *array, unsigned int count, size_t bytes)
{
	/* One more, so that an empty array is not NULL. */
	void *copy = calloc(count + 1u, bytes);

	if (copy && count)
		memcpy(copy, array, count * bytes);
	return copy;
}

static bool initiator_copy(struct tgt_initiator_config *to, const struct tgt_initiator_config *from)
{
	*to = *from;
	to->source = NULL;
	to->networks = copy_of(from->networks, from->network_count, sizeof(*from->networks));
	to->grants = copy_of(from->grants, from->grant_count, sizeof(*from->grants));
	to->secrets = rblk_secrets_ref(from->secrets);
	return to->networks && to->grants;
}

static int volume_compare(const void *a, const void *b)
{
	return strcmp(((const struct volume_rule *)a)->name, ((const struct volume_rule *)b)->name);
}

/* NULL: the configuration has no such volume. */
static struct volume_rule *volume_find(const struct tgt_rules *rules, const char *name)
{
	struct volume_rule key = {.named = false};

	if (!rules || strlen(name) >= sizeof(key.name))
		return NULL;
	strcpy(key.name, name);
	return bsearch(&key, rules->volumes, rules->volume_count, sizeof(key), volume_compare);
}

/* False: no memory. */
static bool volumes_create(struct tgt_rules *rules, const struct tgt_config *config)
{
	rules->volumes = calloc(config->volume_count + 1u, sizeof(*rules->volumes));
	if (!rules->volumes)
		return false;
	rules->volume_count = config->volume_count;
	for (unsigned int i = 0; i < config->volume_count; i++) {
		memcpy(rules->volumes[i].name, config->volumes[i].name, sizeof(rules->volumes[i].name));
		rules->volumes[i].named = is_named(rules, config->volumes[i].name);
		rules->volumes[i].paced = config->volumes[i].depth == TGT_DEPTH_AUTO;
		rules->volumes[i].priority = config->volumes[i].priority;
	}
	qsort(rules->volumes, rules->volume_count, sizeof(*rules->volumes), volume_compare);
	return true;
}

/* It begins with its whole burst. False: no memory. */
static bool limit_create(struct tgt_limit **limit, const struct tgt_limit_config *config)
{
	if (!*limit && tgt_limit_is_set(config))
		*limit = tgt_limit_create(config);
	return *limit || !tgt_limit_is_set(config);
}

/* False: no memory. */
static bool limits_create(struct tgt_rules *rules, const struct tgt_config *config)
{
	bool created = true;

	for (unsigned int i = 0; i < config->initiator_count; i++)
		created &= limit_create(&rules->initiators[i].limit, &config->initiators[i].limit);
	for (unsigned int i = 0; i < config->volume_count; i++)
		created &= limit_create(&volume_find(rules, config->volumes[i].name)->limit, &config->volumes[i].limit);
	return created;
}

static void limit_keep(struct tgt_limit **limit, struct tgt_limit *before)
{
	if (!tgt_limit_same(*limit, before))
		return;
	tgt_limit_put(*limit);
	*limit = tgt_limit_ref(before);
}

/*
 * Limits that do not change go on: otherwise whatever else changes would give all of them their bursts again, and
 * forgive what was used in advance.
 */
static void limits_keep(struct tgt_rules *rules, const struct tgt_rules *before)
{
	for (unsigned int i = 0; i < rules->volume_count; i++)
		limit_keep(&rules->volumes[i].limit, tgt_rules_volume_limit(before, rules->volumes[i].name));
	for (unsigned int i = 0; i < rules->count; i++)
		for (unsigned int j = 0; rules->initiators[i].limit && j < before->count; j++)
			if (strcmp(rules->initiators[i].config.name, before->initiators[j].config.name) == 0)
				limit_keep(&rules->initiators[i].limit, before->initiators[j].limit);
}

static void rules_free(struct tgt_rules *rules)
{
	for (unsigned int i = 0; i < rules->volume_count; i++)
		tgt_limit_put(rules->volumes[i].limit);
	for (unsigned int i = 0; i < rules->count; i++) {
		tgt_limit_put(rules->initiators[i].limit);
		free(rules->initiators[i].config.networks);
		free(rules->initiators[i].config.grants);
		rblk_secrets_put(rules->initiators[i].config.secrets);
	}
	free(rules->volumes);
	free(rules->initiators);
	free(rules);
}

struct tgt_rules *tgt_rules_create(const struct tgt_config *config)
{
	struct tgt_rules *rules = calloc(1, sizeof(*rules));
	bool copied = true;

	if (!rules)
		return NULL;
	atomic_init(&rules->refs, 1);
	rules->open = config->open;
	rules->tls = config->tls;
	rules->initiators = calloc(config->initiator_count + 1u, sizeof(*rules->initiators));
	while (rules->initiators && copied && rules->count < config->initiator_count) {
		copied = initiator_copy(&rules->initiators[rules->count].config, &config->initiators[rules->count]);
		rules->count++;
	}
	if (!rules->initiators || !copied || !volumes_create(rules, config) || !limits_create(rules, config)) {
		rules_free(rules);
		return NULL;
	}
	return rules;
}

void tgt_rules_put(struct tgt_rules *rules)
{
	if (rules && atomic_fetch_sub(&rules->refs, 1) == 1)
		rules_free(rules);
}

struct tgt_rulebook *tgt_rulebook_create(struct tgt_rules *rules)
{
	struct tgt_rulebook *book = calloc(1, sizeof(*book));

	if (!book || !rules || pthread_mutex_init(&book->lock, NULL)) {
		tgt_rules_put(rules);
		free(book);
		return NULL;
	}
	book->rules = rules;
	return book;
}

void tgt_rulebook_destroy(struct tgt_rulebook *book)
{
	if (!book)
		return;
	tgt_rules_put(book->rules);
	pthread_mutex_destroy(&book->lock);
	free(book);
}

void tgt_rulebook_replace(struct tgt_rulebook *book, struct tgt_rules *rules)
{
	struct tgt_rules *before = tgt_rulebook_get(book);

	limits_keep(rules, before);
	tgt_rules_put(before);
	pthread_mutex_lock(&book->lock);
	before = book->rules;
	book->rules = rules;
	pthread_mutex_unlock(&book->lock);
	tgt_rules_put(before);
}

struct tgt_rules *tgt_rulebook_get(struct tgt_rulebook *book)
{
	struct tgt_rules *rules;

	pthread_mutex_lock(&book->lock);
	rules = book->rules;
	atomic_fetch_add(&rules->refs, 1);
	pthread_mutex_unlock(&book->lock);
	return rules;
}

/* -- deciding ---------------------------------------------------------------------------------- */

static bool is_from(const struct tgt_initiator_config *initiator, const struct tgt_origin *origin)
{
	/* A secret is enough. */
	if (!initiator->network_count)
		return initiator->secrets;
	for (unsigned int i = 0; i < initiator->network_count; i++)
		if (!origin->key.family &&
		    tgt_network_has(&initiator->networks[i], origin->key.address, origin->local))
			return true;
	return false;
}

static bool is_from_known(const struct tgt_rules *rules, const struct tgt_origin *origin)
{
	if (rules->open || origin->local)
		return true;
	for (unsigned int i = 0; i < rules->count; i++)
		if (is_from(&rules->initiators[i].config, origin))
			return true;
	return false;
}

bool tgt_rules_let_in(const struct tgt_rules *rules, const struct tgt_origin *origin, uint32_t *why)
{
	if (!rules)
		return true;
	if (!is_from_known(rules, origin))
		*why = rules->count ? RBLK_DENIED_ADDRESS : RBLK_DENIED_LOCAL;
	else if (origin->plain && rules->tls == TGT_TLS_ALWAYS)
		*why = RBLK_DENIED_TLS;
	else
		return true;
	return false;
}

bool tgt_rules_let_prove(const struct tgt_rules *rules, const struct tgt_origin *origin, uint32_t *why)
{
	if (!rules || !origin->plain || origin->local || rules->tls == TGT_TLS_NEVER ||
	    (origin->nvme && rules->tls == TGT_TLS_AUTO))
		return true;
	*why = RBLK_DENIED_TLS;
	return false;
}

/* Without a name it is one of those that any name stands for. */
static bool is_of(const struct tgt_initiator_config *initiator, const struct tgt_who *who)
{
	return tgt_rules_match(initiator->name, who->name ? who->name : "") &&
	       (!initiator->secrets || who->proven);
}

struct rblk_secrets *tgt_rules_secrets(const struct tgt_rules *rules, const char *name)
{
	for (unsigned int i = 0; rules && i < rules->count; i++)
		if (strcmp(rules->initiators[i].config.name, name) == 0)
			return rules->initiators[i].config.secrets;
	return NULL;
}

struct rblk_secrets *tgt_rulebook_secrets(void *book, const char *name)
{
	struct tgt_rules *rules = tgt_rulebook_get(book);
	struct rblk_secrets *secrets = rblk_secrets_ref(tgt_rules_secrets(rules, name));

	tgt_rules_put(rules);
	return secrets;
}

struct tgt_limit *tgt_rules_volume_limit(const struct tgt_rules *rules, const char *volume)
{
	const struct volume_rule *one = volume_find(rules, volume);

	return one ? one->limit : NULL;
}

bool tgt_rules_volume_paced(const struct tgt_rules *rules, const char *volume)
{
	const struct volume_rule *one = volume_find(rules, volume);

	return one && one->paced;
}

bool tgt_rules_volume_priority(const struct tgt_rules *rules, const char *volume)
{
	const struct volume_rule *one = volume_find(rules, volume);

	return one && one->priority;
}

struct tgt_limit *tgt_rules_initiator_limit(const struct tgt_rules *rules, const struct tgt_who *who)
{
	for (unsigned int i = 0; rules && i < rules->count; i++)
		if (rules->initiators[i].limit && is_of(&rules->initiators[i].config, who))
			return rules->initiators[i].limit;
	return NULL;
}

unsigned int tgt_rules_weight(const struct tgt_rules *rules, const struct tgt_who *who)
{
	unsigned int weight = 1;

	for (unsigned int i = 0; rules && i < rules->count; i++)
		if (rules->initiators[i].config.weight > weight && is_of(&rules->initiators[i].config, who))
			weight = rules->initiators[i].config.weight;
	return weight;
}

bool tgt_rules_initiator_priority(const struct tgt_rules *rules, const struct tgt_who *who)
{
	for (unsigned int i = 0; rules && i < rules->count; i++)
		if (rules->initiators[i].config.priority && is_of(&rules->initiators[i].config, who))
			return true;
	return false;
}

void tgt_rules_judge(const struct tgt_rules *rules, const struct tgt_origin *origin, const struct tgt_who *who,
		     struct tgt_ruling *ruling)
{
	memset(ruling, 0, sizeof(*ruling));
	ruling->rules = rules;
	if (!rules)
		return;
	ruling->trusted = rules->open || origin->local;
	for (unsigned int i = 0; i < rules->count; i++)
		if (is_of(&rules->initiators[i].config, who) && is_from(&rules->initiators[i].config, origin))
			ruling->sections[i / 64] |= 1ull << i % 64;
}

enum tgt_right tgt_ruling_right(const struct tgt_ruling *ruling, const char *volume, uint32_t *why)
{
	const struct tgt_rules *rules = ruling->rules;
	enum tgt_right most = TGT_RIGHT_NONE, right;
	const struct volume_rule *one;
	bool named;

	if (!rules)
		return TGT_RIGHT_WRITE;
	for (unsigned int word = 0; word < TGT_INITIATORS_MAX / 64; word++)
		for (uint64_t left = ruling->sections[word]; left; left &= left - 1) {
			unsigned int i = word * 64 + (unsigned int)__builtin_ctzll(left);

			grants_of(&rules->initiators[i].config, volume, &right);
			if (right > most)
				most = right;
		}
	one = volume_find(rules, volume);
	/* A volume of another configuration, shortly before or after a reload. */
	named = one ? one->named : is_named(rules, volume);
	if (!named && ruling->trusted)
		return TGT_RIGHT_WRITE;
	*why = named ? RBLK_DENIED_RULES : RBLK_DENIED_LOCAL;
	return most;
}
