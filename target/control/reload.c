/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The order of reload.h's work: open what is new, and only when all of it is there, remove what is
 * gone, replace what is changed, look at the sizes of the rest. A changed volume has to let go
 * of its path before its successor can lock it (F6), so that alone can fail late; then the old
 * settings are served again.
 */
#include "target/control/reload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/control/config.h"
#include "target/control/options.h"
#include "target/serve/mail.h"

static const struct tgt_volume_config *volume_find(const struct tgt_config *config,
						   const char *name)
{
	unsigned int i;

	for (i = 0; i < config->volume_count; i++)
		if (strcmp(config->volumes[i].name, name) == 0)
			return &config->volumes[i];
	return NULL;
}

/* Where it stands in the file and how long it may wait for a lock changes nothing that is served.
 */
static bool volume_same(const struct tgt_volume_config *a, const struct tgt_volume_config *b)
{
	return strcmp(a->store, b->store) == 0 && strcmp(a->path, b->path) == 0 &&
	       a->bytes == b->bytes && a->block_bytes == b->block_bytes &&
	       a->read_only == b->read_only && a->cache == b->cache &&
	       memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 && strcmp(a->fault, b->fault) == 0;
}

/* Where a reload has its effect. */
struct scene {
	struct tgt_registry *registry;
	struct tgt_reactor **reactors;
	unsigned int count;
};

/* Hands each reactor a reference of its own. */
static void reactors_tell(const struct scene *scene, struct tgt_volume *volume,
			  void (*tell)(struct tgt_reactor *reactor, struct tgt_volume *volume))
{
	unsigned int i;

	for (i = 0; i < scene->count; i++)
		tell(scene->reactors[i], tgt_volume_ref(volume));
}

static void volume_drop(const struct scene *scene, const char *name)
{
	struct tgt_volume *volume = tgt_volume_remove(scene->registry, name);

	if (!volume)
		return;
	reactors_tell(scene, volume, tgt_reactor_volume_removed);
	tgt_volume_put(volume);
}

/* -- the steps ------------------------------------------------------------------------------- */

/*
 * A new name for a path that is served now: its present volume is going, and must be gone before
 * the new one can lock it. (That two volumes have one path, tgt_config_complete() refuses.)
 */
static bool path_served(const struct tgt_config *current, const struct tgt_volume_config *volume)
{
	unsigned int i;

	for (i = 0; i < current->volume_count && volume->path[0]; i++)
		if (strcmp(current->volumes[i].path, volume->path) == 0)
			return true;
	return false;
}

static bool added_early(const struct tgt_config *current, const struct tgt_volume_config *volume)
{
	return !volume_find(current, volume->name) && !path_served(current, volume);
}

/* All that have a new name and a path of their own, or none of them. */
static int add_new(const struct scene *scene, const struct tgt_config *current,
		   const struct tgt_config *wanted, unsigned int *added, char *error)
{
	unsigned int i;

	for (i = 0; i < wanted->volume_count; i++) {
		const struct tgt_volume_config *volume = &wanted->volumes[i];
		int status;

		if (!added_early(current, volume))
			continue;
		status = tgt_volume_add(scene->registry, volume, error);
		if (status == 0) {
			(*added)++;
			continue;
		}
		while (i-- > 0) {
			struct tgt_volume *undone;

			if (!added_early(current, &wanted->volumes[i]))
				continue;
			undone = tgt_volume_remove(scene->registry, wanted->volumes[i].name);
			if (undone)
				tgt_volume_put(undone);
		}
		return status;
	}
	return 0;
}

static unsigned int remove_gone(const struct scene *scene, const struct tgt_config *current,
				const struct tgt_config *wanted)
{
	unsigned int i, removed = 0;

	for (i = 0; i < current->volume_count; i++) {
		if (volume_find(wanted, current->volumes[i].name))
			continue;
		volume_drop(scene, current->volumes[i].name);
		removed++;
	}
	return removed;
}

static bool add_late(const struct scene *scene, const struct tgt_volume_config *volume)
{
	char error[TGT_ERROR_BYTES];

	if (tgt_volume_add(scene->registry, volume, error) == 0)
		return true;
	tgt_log(TGT_LOG_ERROR, "reload: %s; not served", error);
	return false;
}

/* `volume` of the wanted configuration becomes the old one if only that can be served. */
static void replace(const struct scene *scene, const struct tgt_volume_config *old,
		    struct tgt_volume_config *volume)
{
	char error[TGT_ERROR_BYTES];

	volume_drop(scene, old->name);
	if (tgt_volume_add(scene->registry, volume, error) == 0)
		return;
	tgt_log(TGT_LOG_ERROR, "reload: %s; serving it as before", error);
	*volume = *old;
	add_late(scene, volume);
}

/* Of a volume that stays as it is; one that an earlier reload could not open is tried again. */
static void refresh(const struct scene *scene, const struct tgt_volume_config *config)
{
	struct tgt_volume *volume = tgt_volume_get(scene->registry, config->name);

	if (!volume) {
		add_late(scene, config);
		return;
	}
	if (tgt_volume_refresh(volume)) {
		tgt_log(TGT_LOG_INFO, "volume %s: now %llu blocks of %u bytes", config->name,
			(unsigned long long)atomic_load(&volume->blocks), volume->block_bytes);
		reactors_tell(scene, volume, tgt_reactor_volume_changed);
	}
	tgt_volume_put(volume);
}

/* Those that are there already, and new names of paths that were served until now. */
static void change_kept(const struct scene *scene, const struct tgt_config *current,
			struct tgt_config *wanted, unsigned int *added, unsigned int *changed)
{
	unsigned int i;

	for (i = 0; i < wanted->volume_count; i++) {
		struct tgt_volume_config *volume = &wanted->volumes[i];
		const struct tgt_volume_config *old = volume_find(current, volume->name);

		if (!old) {
			if (path_served(current, volume))
				*added += add_late(scene, volume);
			continue;
		}
		if (volume_same(old, volume)) {
			refresh(scene, volume);
			continue;
		}
		replace(scene, old, volume);
		(*changed)++;
	}
}

/* -- settings of the target -------------------------------------------------------------------- */

static bool listen_same(const struct tgt_config *a, const struct tgt_config *b)
{
	unsigned int i;

	if (a->listen_count != b->listen_count)
		return false;
	for (i = 0; i < a->listen_count; i++)
		if (a->listen[i].kind != b->listen[i].kind ||
		    a->listen[i].port != b->listen[i].port ||
		    strcmp(a->listen[i].host, b->listen[i].host) != 0)
			return false;
	return true;
}

/* Names, in one line, the settings that differ but need a restart. */
static void restart_settings_log(const struct tgt_config *current, const struct tgt_config *wanted)
{
	const struct tgt_option *options;
	char names[512] = "";
	size_t length = 0;
	unsigned int i, count;

	options = tgt_options_table(&count);
	for (i = 0; i < count; i++) {
		const struct tgt_option *option = &options[i];
		bool same;

		if (!(option->places & TGT_IN_TARGET) || strcmp(option->name, "log_level") == 0)
			continue;
		if (option->type == TGT_OPTION_LISTEN)
			same = listen_same(current, wanted);
		else
			same = memcmp((const char *)current + option->offset,
				      (const char *)wanted + option->offset,
				      option->field_bytes) == 0;
		if (!same && length < sizeof(names))
			length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
						   length ? ", " : "", option->name);
	}
	if (length)
		tgt_log(TGT_LOG_WARNING, "reload: changed, but kept until a restart: %s", names);
}

int tgt_reload_apply(struct tgt_config *current, struct tgt_config *wanted,
		     struct tgt_registry *registry, struct tgt_reactor **reactors, char *error)
{
	const struct scene scene = {registry, reactors, current->reactors};
	unsigned int added = 0, changed = 0, removed, i;
	int status;

	status = add_new(&scene, current, wanted, &added, error);
	if (status < 0) {
		tgt_config_fini(wanted);
		return status;
	}
	removed = remove_gone(&scene, current, wanted);
	change_kept(&scene, current, wanted, &added, &changed);
	if (added || removed || changed)
		for (i = 0; i < current->reactors; i++)
			tgt_reactor_list_changed(reactors[i]);
	restart_settings_log(current, wanted);
	tgt_log_set_level((enum tgt_log_level)wanted->log_level);
	current->log_level = wanted->log_level;
	tgt_log(TGT_LOG_INFO, "reload: %u volumes added, %u removed, %u changed", added, removed,
		changed);
	tgt_config_fini(current);
	current->volumes = wanted->volumes;
	current->volume_count = wanted->volume_count;
	return 0;
}
