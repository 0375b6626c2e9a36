/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Volumes that come and go after the start: removed, or added once they can be opened, by a reload or without one
 * (tgt_reload_mend()). A lost volume is taken out, and added again like one that could not be opened before.
 */
#include "target/control/reload.h"

#include <errno.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/unserved.h"
#include "target/serve/calls.h"
#include "target/serve/handle.h"

void tgt_reload_log(const struct tgt_volume *volume, const char *what, enum tgt_daemon_event_kind kind)
{
	char words[TGT_VOLUME_SIZE_BYTES];

	tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = kind, .volume = volume->config.name}, NULL,
			 TGT_LOG_INFO, "volume %s: %s: %s, %s", volume->config.name, what,
			 volume->config.path[0] ? volume->config.path : volume->config.store,
			 tgt_volume_size_words(volume, words));
}

void tgt_reload_log_late(const struct tgt_reload *reload, const char *name, const char *what,
			 enum tgt_daemon_event_kind kind)
{
	struct tgt_volume *volume = tgt_volume_get(reload->registry, name);

	tgt_unserved_remove(reload->unserved, TGT_UNSERVED_VOLUME, name);
	if (!volume)
		return;
	tgt_reload_log(volume, what, kind);
	tgt_volume_put(volume);
}

bool tgt_reload_drop(const struct tgt_reload *reload, const char *name, bool for_good)
{
	struct tgt_volume *volume = tgt_volume_remove(reload->registry, name);

	if (!volume)
		return false;
	if (for_good)
		tgt_reload_log(volume, "removed", TGT_DAEMON_EVENT_VOLUME_REMOVED);
	if (volume->store->info.direct)
		tgt_log(TGT_LOG_WARNING, "volume %s: the data in its memory is discarded", name);
	tgt_reactors_call(reload->reactors, reload->reactor_count, tgt_handle_volume_removed, volume);
	tgt_volume_put(volume);
	return true;
}

int tgt_reload_add_late(const struct tgt_reload *reload, const struct tgt_volume_config *settings, char *error)
{
	struct tgt_volume_config config = *settings;

	config.lock_wait_ms = 0;
	return tgt_volume_add(reload->registry, &config, error);
}

void tgt_reload_tell(const struct tgt_reload *reload)
{
	tgt_reactors_call(reload->reactors, reload->reactor_count, tgt_reactor_list_changed, NULL);
}

static bool is_served(const struct tgt_reload *reload, const char *name)
{
	struct tgt_volume *volume = tgt_volume_get(reload->registry, name);

	if (volume)
		tgt_volume_put(volume);
	return volume != NULL;
}

void tgt_reload_open_ahead(const struct tgt_reload *reload, const struct tgt_config *current, unsigned int from)
{
	for (unsigned int i = from; i < current->volume_count; i++) {
		const struct tgt_volume_config *config = &current->volumes[i];
		const struct tgt_store_ops *ops = tgt_store_find(config->store);

		if (ops->open_ahead && env_now_ns() >= config->away_ns && !is_served(reload, config->name))
			ops->open_ahead(config);
	}
}

/* Takes over a reference. The volume is listed as unserved before it is taken out, so that an OPEN always waits for it.
 */
static void lost_take_out(const struct tgt_reload *reload, struct tgt_volume *volume)
{
	const char *name = volume->config.name;
	char error[TGT_ERROR_BYTES];

	tgt_error(error, 0, "volume %s: %.300s: %s", name, volume->config.path, tgt_volume_why_lost(volume));
	tgt_unserved_add(reload->unserved, TGT_UNSERVED_VOLUME, name, error);
	tgt_volume_put(tgt_volume_take_out(reload->registry, name)); /* the registry's */
	tgt_reactors_call(reload->reactors, reload->reactor_count, tgt_reactor_volume_lost, volume);
	tgt_reload_tell(reload);
	tgt_volume_put(volume);
}

unsigned int tgt_reload_mend(const struct tgt_reload *reload, const struct tgt_config *current)
{
	char error[TGT_ERROR_BYTES];
	unsigned int i, left = 0, late = 0;
	int status;

	for (i = 0; i < current->volume_count; i++) {
		const struct tgt_volume_config *config = &current->volumes[i];
		struct tgt_volume *volume = tgt_volume_get(reload->registry, config->name);
		bool away = env_now_ns() < config->away_ns;
		struct tgt_volume_config behind = *config;

		if (volume && !tgt_volume_why_lost(volume)) {
			tgt_volume_put(volume);
			continue;
		}
		if (volume)
			lost_take_out(reload, volume);
		left += away;
		if (away)
			continue;
		behind.others_wait = true;
		status = tgt_reload_add_late(reload, &behind, error);
		if (status == -ETIMEDOUT && !late++)
			tgt_reload_open_ahead(reload, current, i + 1);
		if (status < 0) {
			tgt_unserved_add(reload->unserved, TGT_UNSERVED_VOLUME, config->name, error);
			/* Another target serves it: initiators that know that one's address are to go there. */
			if (status == -EBUSY && tgt_store_find(config->store)->elsewhere)
				tgt_unserved_elsewhere(reload->unserved, TGT_UNSERVED_VOLUME, config->name);
			left++;
			continue;
		}
		tgt_reload_log_late(reload, config->name, "served again", TGT_DAEMON_EVENT_VOLUME_ADDED);
		tgt_reload_tell(reload);
	}
	return left;
}
