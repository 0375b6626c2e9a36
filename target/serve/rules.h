/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Access rules: which initiator, from where, may use which volume. A process has one rulebook, which
 * all reactors read and a reload replaces as a whole: a decision is by the old rules or by the new
 * ones. authorize.c asks for sessions. It is off the data path, but on reactors' threads, and any peer that may log in can make
 * it decide about every volume (LIST): so what does not depend on the volume is found once.
 */
#ifndef RBLK_TARGET_RULES_H
#define RBLK_TARGET_RULES_H

#include "proto/wire/wire.h"
#include "target/base/settings.h"
#include "target/serve/host.h"

struct rblk_secrets;
struct sockaddr;
struct tgt_limit;
struct tgt_rules;
struct tgt_rulebook;

/* Where a connection comes from. */
struct tgt_origin {
	struct tgt_host_key key;
	bool local; /* from this machine, by whichever of its addresses */
	bool plain; /* over TCP, without TLS */
	bool nvme;  /* of an NVMe host, which proves its name by itself: TLS is its choice, if not everyone has to */
};

void tgt_origin_of(const struct sockaddr *address, struct tgt_origin *origin);

/* -- the rulebook; any thread ------------------------------------------------------------------ */

/* Makes rules of the configuration. NULL: no memory. */
struct tgt_rules *tgt_rules_create(const struct tgt_config *config);
/* Takes over the reference to `rules`. NULL: no memory, and they are freed. */
struct tgt_rulebook *tgt_rulebook_create(struct tgt_rules *rules);
void tgt_rulebook_destroy(struct tgt_rulebook *book); /* NULL: no effect */
/* Decides by these from now on. Takes over the reference. */
void tgt_rulebook_replace(struct tgt_rulebook *book, struct tgt_rules *rules);
/* Those in force, with a reference. */
struct tgt_rules *tgt_rulebook_get(struct tgt_rulebook *book);
void tgt_rules_put(struct tgt_rules *rules);
/* The secrets of the name by the rules in force, with a reference; NULL: it has none. For tables of callbacks. */
struct rblk_secrets *tgt_rulebook_secrets(void *book, const char *name);

/* -- deciding; `rules` NULL: everything is allowed ----------------------------------------------- */

/* Is `name` meant by `pattern`, which may end in '*'? */
bool tgt_rules_match(const char *pattern, const char *name);
/* May anyone come from there? If not, why: enum rblk_denied. */
bool tgt_rules_let_in(const struct tgt_rules *rules, const struct tgt_origin *origin, uint32_t *why);
/* May an initiator that proves its name by a secret come by such a connection? If not, why. */
bool tgt_rules_let_prove(const struct tgt_rules *rules, const struct tgt_origin *origin, uint32_t *why);
/* Who asks: name NULL if it has none. */
struct tgt_who {
	const char *name;
	bool proven;
};
/* Which sections are for whoever asks from there: found once, for decisions about any number of volumes. */
struct tgt_ruling {
	const struct tgt_rules *rules; /* the caller's */
	bool trusted;		       /* volumes that no rule names are for it */
	uint64_t sections[TGT_INITIATORS_MAX / 64];
};
static_assert(TGT_INITIATORS_MAX % 64 == 0, "each section has a bit");
void tgt_rules_judge(const struct tgt_rules *rules, const struct tgt_origin *origin, const struct tgt_who *who,
		     struct tgt_ruling *ruling);
/* *why, if that is less than TGT_RIGHT_READ: enum rblk_denied. */
enum tgt_right tgt_ruling_right(const struct tgt_ruling *ruling, const char *volume, uint32_t *why);
/* The limit of the volume, or of the first section that is for the initiator; NULL: none. The rules keep it. */
struct tgt_limit *tgt_rules_volume_limit(const struct tgt_rules *rules, const char *volume);
/* Has it `limit = auto`? */
bool tgt_rules_volume_paced(const struct tgt_rules *rules, const char *volume);
struct tgt_limit *tgt_rules_initiator_limit(const struct tgt_rules *rules, const struct tgt_who *who);
/* The largest weight of the sections that are for it; 1: there is none. */
unsigned int tgt_rules_weight(const struct tgt_rules *rules, const struct tgt_who *who);
/* Has the volume, or a section that is for the initiator, `priority = yes`? */
bool tgt_rules_volume_priority(const struct tgt_rules *rules, const char *volume);
bool tgt_rules_initiator_priority(const struct tgt_rules *rules, const struct tgt_who *who);
/* The secrets of the name, which the rules keep; NULL: it has none, and needs no proof. */
struct rblk_secrets *tgt_rules_secrets(const struct tgt_rules *rules, const char *name);

#endif
