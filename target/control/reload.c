/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The order of a reload: decide what happens to each volume; open what can be opened next to what
 * is served; only when all of that is open, remove the volumes that are not wanted and put the new
 * ones in place; then open the volumes that had to wait until a path was released (F6), each as
 * soon as possible. reload_settings.c has the settings of the target.
 */
#include "target/control/reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/daemon_event.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/text.h"
#include "target/base/unserved.h"
#include "target/control/config.h"
#include "target/control/initiators.h"
#include "target/control/reload_settings.h"
#include "target/serve/calls.h"
#include "target/serve/handle.h"
#include "target/serve/rules.h"
#include "target/store/path.h"
#include "target/store/store.h"

enum step_kind {
	STEP_KEEP,  /* as it is; perhaps with another size */
	STEP_EARLY, /* new, or replaces another: opened before that one is removed */
	STEP_LATE,  /* its file is served now, and that volume has to end first */
};

/* One wanted volume. */
struct step {
	enum step_kind kind;
	struct tgt_volume_config *config;    /* of the wanted configuration */
	const struct tgt_volume_config *old; /* of the present one; NULL: the name is new */
	bool moved;			     /* only the path is another file now */
	bool missing;			     /* it was not served before, and is wanted as it was */
	struct tgt_volume *opened;	     /* STEP_EARLY: not published yet */
	/* STEP_LATE, while it is tried: */
	bool settled;  /* nothing more is to be tried in this reload */
	bool reverted; /* to the old settings */
	bool waited;
	char error[TGT_ERROR_BYTES]; /* of the last attempt */
};

struct plan {
	const struct tgt_reload *reload;
	const struct tgt_config *current, *wanted;
	struct step *steps;
	unsigned int count;
	unsigned int added, removed, changed;
	unsigned int dropped; /* taken out of the list, to be opened late */
	unsigned int left;    /* not served, or as before */
	unsigned int reverted; /* of these, as before */
	char left_error[TGT_ERROR_BYTES];
	unsigned int told; /* of these, changes of the list that the reactors know of */
};

/* -- deciding ---------------------------------------------------------------------------------- */

static const struct tgt_volume_config *volume_find(const struct tgt_config *config,
						   const char *name)
{
	unsigned int i;

	for (i = 0; i < config->volume_count; i++)
		if (strcmp(config->volumes[i].name, name) == 0)
			return &config->volumes[i];
	return NULL;
}

/* Settings that only control a reload change nothing that is served. */
static bool volume_same(const struct tgt_volume_config *a, const struct tgt_volume_config *b)
{
	return strcmp(a->store, b->store) == 0 && strcmp(a->path, b->path) == 0 &&
	       a->bytes == b->bytes && a->block_bytes == b->block_bytes &&
	       a->read_only == b->read_only && a->cache == b->cache && a->gateways == b->gateways &&
	       memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 && strcmp(a->fault, b->fault) == 0;
}

/* It is served now and will not be, or only with other settings, after the reload. */
static bool volume_goes(const struct plan *plan, const struct tgt_volume_config *old)
{
	const struct tgt_volume_config *wanted = volume_find(plan->wanted, old->name);

	return !wanted || !volume_same(old, wanted);
}

/* Likewise, of a store that is elsewhere: by its name. */
static bool name_is_let_go(const struct plan *plan, const struct tgt_volume_config *config)
{
	for (unsigned int i = 0; config->path[0] && i < plan->current->volume_count; i++) {
		const struct tgt_volume_config *old = &plan->current->volumes[i];

		if (!strcmp(old->store, config->store) && !strcmp(old->path, config->path) && volume_goes(plan, old))
			return true;
	}
	return false;
}

/*
 * The file at its path is served now, under any name, and will be released. (One that stays served
 * under another name is refused when it is opened.)
 */
static bool path_is_let_go(const struct plan *plan, const struct tgt_volume_config *config)
{
	const char *path = tgt_store_file(config);
	struct tgt_store_id id;
	bool found = false;
	unsigned int i;

	if (!path)
		return name_is_let_go(plan, config);
	if (tgt_path_identify(path, &id) < 0)
		return false;
	for (i = 0; i < plan->current->volume_count && !found; i++) {
		const struct tgt_volume_config *old = &plan->current->volumes[i];
		struct tgt_volume *volume = tgt_volume_get(plan->reload->registry, old->name);

		if (!volume)
			continue;
		found = tgt_store_id_shared(&volume->store->info.id, &id) && volume_goes(plan, old);
		tgt_volume_put(volume);
	}
	return found;
}

/* The path is another file or device now than the one that is served. */
static bool path_moved(const struct tgt_volume *volume)
{
	struct tgt_store_id id;

	return tgt_store_file(&volume->config) && tgt_path_identify(volume->config.path, &id) == 0 &&
	       !tgt_store_id_same(&volume->store->info.id, &id);
}

static int shrink_refused(const struct tgt_volume *volume, uint64_t bytes,
			  const struct tgt_volume_config *config, char *error)
{
	uint64_t served = atomic_load(&volume->blocks) * volume->block_bytes;

	if (bytes >= served || config->allow_shrink)
		return 0;
	return tgt_error(error, -EINVAL,
			 "volume %s: %s has %llu bytes, but %llu are served: initiators would lose "
			 "the rest; set allow_shrink = yes to allow it",
			 config->name, config->path[0] ? config->path : "its store",
			 (unsigned long long)bytes, (unsigned long long)served);
}

static int step_judge_old(struct plan *plan, struct step *step, struct tgt_volume *volume,
			  char *error)
{
	step->moved = volume_same(step->old, step->config) && path_moved(volume);
	if (volume_same(step->old, step->config) && !step->moved)
		step->kind = STEP_KEEP;
	else
		step->kind = path_is_let_go(plan, step->config) ? STEP_LATE : STEP_EARLY;
	/* The size of another file is known when it is open. */
	if (step->kind == STEP_EARLY)
		return 0;
	return shrink_refused(volume, tgt_volume_blocks_now(volume) * volume->block_bytes,
			      step->config, error);
}

static int step_judge(struct plan *plan, struct step *step, char *error)
{
	struct tgt_volume *volume;
	int status;

	step->old = volume_find(plan->current, step->config->name);
	volume = step->old ? tgt_volume_get(plan->reload->registry, step->config->name) : NULL;
	if (!volume) {
		/* One that could not be opened before is tried again, and fails alone. */
		step->missing = step->old && volume_same(step->old, step->config);
		step->kind = step->old || path_is_let_go(plan, step->config) ? STEP_LATE
										   : STEP_EARLY;
		return 0;
	}
	status = step_judge_old(plan, step, volume, error);
	tgt_volume_put(volume);
	return status;
}

/* -- before anything is changed ---------------------------------------------------------------- */

/* -EAGAIN: the last I/O of the path's former volume has to end first. */
static bool reload_waits(const struct tgt_reload *reload)
{
	return reload->wait && reload->wait(reload->context);
}

static int step_open_early(struct plan *plan, struct step *step, char *error)
{
	struct tgt_volume *volume;
	int status;

	do {
		status = tgt_volume_open(plan->reload->registry, step->config, &step->opened,
					 error);
	} while (status == -EAGAIN && reload_waits(plan->reload));
	if (status < 0)
		return status;
	volume = step->old ? tgt_volume_get(plan->reload->registry, step->config->name) : NULL;
	if (!volume)
		return 0;
	status = shrink_refused(volume,
				atomic_load(&step->opened->blocks) * step->opened->block_bytes,
				step->config, error);
	tgt_volume_put(volume);
	return status;
}

/* It goes, or its data does. */
static bool volume_ends(const struct plan *plan, const struct tgt_volume_config *old)
{
	return !volume_find(plan->wanted, old->name) ||
	       (tgt_store_find(old->store)->forgets && volume_goes(plan, old));
}

static int plan_check_use(const struct plan *plan, char *error)
{
	const struct tgt_reload *reload = plan->reload;
	char words[TGT_ERROR_BYTES];

	for (unsigned int i = 0; reload->used && i < plan->current->volume_count; i++) {
		const struct tgt_volume_config *old = &plan->current->volumes[i];

		if (volume_ends(plan, old) && reload->used(reload->context, old->name, false, words))
			return tgt_error(error, -EBUSY,
					 "volume %s: %.300s: it %s only with --force", old->name, words,
					 volume_find(plan->wanted, old->name) ? "loses its data"
									      : "is removed");
	}
	return 0;
}

/* Opens all that can be opened next to what is served, or nothing. */
static int plan_prepare(struct plan *plan, char *error)
{
	unsigned int i;
	int status = plan_check_use(plan, error);

	for (i = 0; i < plan->count && status == 0; i++)
		status = step_judge(plan, &plan->steps[i], error);
	for (i = 0; i < plan->count && status == 0; i++)
		if (plan->steps[i].kind == STEP_EARLY)
			status = step_open_early(plan, &plan->steps[i], error);
	for (i = 0; i < plan->count && status < 0; i++)
		if (plan->steps[i].opened)
			tgt_volume_put(plan->steps[i].opened);
	return status;
}

/* -- the change -------------------------------------------------------------------------------- */

/* It is not served, or as before; the first reason is told. */
static void plan_left(struct plan *plan, const char *error, const char *what)
{
	if (!plan->left++)
		snprintf(plan->left_error, sizeof(plan->left_error), "%.400s; %s", error, what);
}

static void step_put_in_place(struct plan *plan, struct step *step)
{
	struct tgt_volume *volume = step->opened;
	char error[TGT_ERROR_BYTES];

	if (step->old)
		tgt_reload_drop(plan->reload, step->old->name, false);
	if (step->moved)
		tgt_log(TGT_LOG_WARNING,
			"volume %s: %s is now another file, which is served from now on",
			step->config->name, step->config->path);
	if (tgt_volume_publish(volume, error) < 0) {
		tgt_unserved_add(plan->reload->unserved, TGT_UNSERVED_VOLUME, step->config->name, error);
		plan_left(plan, error, "not served yet");
		tgt_volume_put(volume);
		return;
	}
	tgt_unserved_remove(plan->reload->unserved, TGT_UNSERVED_VOLUME, step->config->name);
	tgt_reload_log(volume, step->old ? "changed" : "added",
		   step->old ? TGT_DAEMON_EVENT_VOLUME_CHANGED : TGT_DAEMON_EVENT_VOLUME_ADDED);
	if (step->old)
		plan->changed++;
	else
		plan->added++;
}

/* Looks at a volume that stays: its fence domain and its size may have changed. */
static void step_refresh(const struct plan *plan, const struct step *step)
{
	struct tgt_volume *volume = tgt_volume_get(plan->reload->registry, step->config->name);
	char words[TGT_VOLUME_SIZE_BYTES];
	bool moves, grows;

	if (!volume)
		return;
	moves = tgt_volume_set_fence_domain(volume, step->config->fence_domain);
	if (moves)
		tgt_log(TGT_LOG_INFO, "volume %s: its fence domain has changed", step->config->name);
	grows = tgt_volume_refresh(volume);
	if (grows)
		tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_VOLUME_CHANGED,
								  .volume = step->config->name},
				 NULL, TGT_LOG_INFO, "volume %s: now %s", step->config->name,
				 tgt_volume_size_words(volume, words));
	/* So that sessions learn the domain before they need it (F10). */
	if (moves || grows)
		tgt_reactors_call(plan->reload->reactors, plan->reload->reactor_count, tgt_handle_volume_changed, volume);
	tgt_volume_put(volume);
}

static void plan_commit(struct plan *plan)
{
	const struct tgt_config *current = plan->current;
	unsigned int i;

	for (i = 0; i < current->volume_count; i++) {
		if (volume_find(plan->wanted, current->volumes[i].name))
			continue;
		tgt_unserved_remove(plan->reload->unserved, TGT_UNSERVED_VOLUME, current->volumes[i].name);
		tgt_reload_drop(plan->reload, current->volumes[i].name, true);
		plan->removed++;
	}
	for (i = 0; i < plan->count; i++)
		if (plan->steps[i].kind == STEP_LATE && plan->steps[i].old)
			plan->dropped += tgt_reload_drop(plan->reload, plan->steps[i].old->name, false);
	for (i = 0; i < plan->count; i++) {
		if (plan->steps[i].kind == STEP_EARLY)
			step_put_in_place(plan, &plan->steps[i]);
		else if (plan->steps[i].kind == STEP_KEEP)
			step_refresh(plan, &plan->steps[i]);
	}
}

/* -- what had to wait -------------------------------------------------------------------------- */

static void plan_tell(struct plan *plan)
{
	unsigned int changes = plan->added + plan->removed + plan->changed + plan->dropped;

	if (changes != plan->told)
		tgt_reload_tell(plan->reload);
	plan->told = changes;
}

static void step_late_served(struct plan *plan, struct step *step)
{
	step->settled = true;
	if (step->reverted) {
		tgt_unserved_remove(plan->reload->unserved, TGT_UNSERVED_VOLUME, step->config->name);
		return;
	}
	tgt_reload_log_late(plan->reload, step->config->name, step->old ? "changed" : "added",
			step->old ? TGT_DAEMON_EVENT_VOLUME_CHANGED : TGT_DAEMON_EVENT_VOLUME_ADDED);
	if (step->old)
		plan->changed++;
	else
		plan->added++;
}

/* It is not served by this reload; tgt_reload_mend() tries it again. */
static void step_left(struct plan *plan, const struct step *step)
{
	tgt_unserved_add(plan->reload->unserved, TGT_UNSERVED_VOLUME, step->config->name, step->error);
	plan_left(plan, step->error, "not served yet, trying again");
}

/* It is no part of what was asked for, which neither fails nor waits because of it. */
static void step_still_missing(struct plan *plan, struct step *step)
{
	step->settled = true;
	tgt_unserved_add(plan->reload->unserved, TGT_UNSERVED_VOLUME, step->config->name, step->error);
}

/* One attempt. The wanted configuration gets the old settings if only those can be served. */
static void step_open_late(struct plan *plan, struct step *step)
{
	int status;

	step->config->others_wait = step->missing;
	status = tgt_reload_add_late(plan->reload, step->config, step->error);
	step->config->others_wait = false;
	if (status < 0 && step->missing) {
		step_still_missing(plan, step);
		return;
	}
	if (status < 0 && status != -EBUSY && status != -EAGAIN && step->old && !step->reverted) {
		tgt_log(TGT_LOG_ERROR, "reload: %s; serving it as before", step->error);
		plan_left(plan, step->error, "serving it as before");
		plan->reverted++;
		*step->config = *step->old;
		step->reverted = true;
		status = tgt_reload_add_late(plan->reload, step->config, step->error);
	}
	if (status == 0) {
		step_late_served(plan, step);
		return;
	}
	/* A lock will be released; an error in the settings stays. */
	step->settled = status != -EBUSY && status != -EAGAIN;
	if (!step->settled && !step->waited)
		tgt_log(TGT_LOG_INFO, "%s; waiting", step->error);
	step->waited = true;
	if (step->settled)
		step_left(plan, step);
}

/* Each by itself: none waits for another's disk. */
static void plan_open_late(struct plan *plan)
{
	unsigned int left;

	do {
		left = 0;
		for (unsigned int i = 0; i < plan->count; i++) {
			struct step *step = &plan->steps[i];

			if (step->kind != STEP_LATE || step->settled)
				continue;
			step_open_late(plan, step);
			left += !step->settled;
		}
		plan_tell(plan);
	} while (left && reload_waits(plan->reload));
	for (unsigned int i = 0; i < plan->count; i++)
		if (plan->steps[i].kind == STEP_LATE && !plan->steps[i].settled)
			step_left(plan, &plan->steps[i]);
}

/* -- all of it --------------------------------------------------------------------------------- */

/* Before volumes come and go, so that none is served by other rules than its own. */
static void rules_replace(const struct tgt_reload *reload, struct tgt_rules *rules)
{
	if (!rules)
		return;
	tgt_rulebook_replace(reload->rules, rules);
	for (unsigned int i = 0; i < reload->reactor_count; i++)
		if (!tgt_reactor_call(reload->reactors[i], tgt_reactor_rules_changed, NULL))
			tgt_log(TGT_LOG_ERROR, "reload: out of memory: sessions of reactor %u keep what "
				"they have open, whatever the new rules say", i);
}

static void plan_report(const struct plan *plan, const char *restart)
{
	struct tgt_change_result *result = plan->reload->result;

	if (!result)
		return;
	result->added = plan->added;
	result->removed = plan->removed;
	result->changed = plan->changed;
	result->unserved = plan->left;
	result->reverted = plan->reverted;
	strcpy(result->restart, restart);
	strcpy(result->words, plan->left_error);
	tgt_initiators_unused(plan->wanted, result->warning);
}

static void plan_finish(struct plan *plan, struct tgt_config *current, struct tgt_config *wanted)
{
	char restart[TGT_RESTART_BYTES];

	plan_open_late(plan);
	tgt_reload_settings(current, wanted, restart);
	plan_report(plan, restart);
	tgt_log(TGT_LOG_INFO, "reload: %u volume%s added, %u removed, %u changed", plan->added,
		TGT_S(plan->added), plan->removed, plan->changed);
	tgt_config_fini(current);
	current->volumes = wanted->volumes;
	current->volume_count = wanted->volume_count;
	current->open = wanted->open;
	current->tls = wanted->tls;
	current->initiators = wanted->initiators;
	current->initiator_count = wanted->initiator_count;
	tgt_initiators_say(current);
}

int tgt_reload_apply(const struct tgt_reload *reload, struct tgt_config *current,
		     struct tgt_config *wanted, char *error)
{
	struct plan plan = {
		.reload = reload,
		.current = current,
		.wanted = wanted,
		.count = wanted->volume_count,
	};
	struct tgt_rules *rules = reload->rules ? tgt_rules_create(wanted) : NULL;
	unsigned int i;
	int status;

	plan.steps = calloc(plan.count + 1, sizeof(*plan.steps));
	if (!plan.steps || (reload->rules && !rules)) {
		tgt_error(error, -ENOMEM, "out of memory");
		tgt_rules_put(rules);
		free(plan.steps);
		tgt_config_fini(wanted);
		return -ENOMEM;
	}
	for (i = 0; i < plan.count; i++)
		plan.steps[i].config = &wanted->volumes[i];
	status = plan_prepare(&plan, error);
	if (status == 0) {
		rules_replace(reload, rules);
		plan_commit(&plan);
		plan_finish(&plan, current, wanted);
	} else {
		tgt_rules_put(rules);
		tgt_config_fini(wanted);
	}
	free(plan.steps);
	return status;
}
