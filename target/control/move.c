/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `rblkctl move`: sends the sessions of a volume to another target that serves it, or will. Sessions that know no other
 * target stay, and lose nothing. Runs on the reloader's thread.
 */
#include <errno.h>
#include <string.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/text.h"
#include "target/base/unserved.h"
#include "target/control/reload.h"
#include "target/serve/calls.h"
#include "target/store/store.h"
#include "target/store/volume.h"

#define NS_PER_MS 1000000ull
/* A session leaves when its commands in flight have ended. One that is here after this time is taken to stay. */
#define LEAVE_MS 2000u
/* How long a volume is left to other targets: each tries to open volumes it lacks every TGT_UNSERVED_AGAIN_MS. */
#define AWAY_MS (3 * TGT_UNSERVED_AGAIN_MS)

/* Tells the volume's sessions to leave, and waits. Returns how many stay; words: who they are. */
static unsigned int move_tell(const struct tgt_reload *reload, struct tgt_volume *volume, char *words)
{
	uint64_t until_ns = env_now_ns() + LEAVE_MS * NS_PER_MS;
	unsigned int stay;

	tgt_reactors_call(reload->reactors, reload->reactor_count, tgt_reactor_send_away, volume);
	do
		stay = reload->used(reload->context, volume->config.name, true, words);
	while (stay && env_now_ns() < until_ns && reload->wait(reload->context));
	return stay;
}

/* Frees the volume for other targets. Initiators that ask for it here meanwhile wait until its fate is known. */
static void move_give_away(const struct tgt_reload *reload, struct tgt_volume_config *config)
{
	char reason[TGT_ERROR_BYTES];

	config->away_ns = env_now_ns() + AWAY_MS * NS_PER_MS;
	tgt_error(reason, 0, "volume %s: given away by rblkctl move: served here again if no other target takes it",
		  config->name);
	tgt_unserved_add(reload->unserved, TGT_UNSERVED_VOLUME, config->name, reason);
	tgt_reload_drop(reload, config->name, false);
	tgt_reload_tell(reload);
}

static int move(const struct tgt_reload *reload, struct tgt_volume_config *config, struct tgt_volume *volume,
		bool force, struct tgt_change_result *result, char *error)
{
	char words[TGT_ERROR_BYTES];
	unsigned int before = reload->used(reload->context, config->name, true, words), stay;
	bool alone = !volume->store->info.shared;

	atomic_store(&volume->leaves, alone);
	stay = move_tell(reload, volume, words);
	result->sessions_left = before > stay ? before - stay : 0;
	result->sessions_stay = stay;
	if (alone && stay && !force) {
		atomic_store(&volume->leaves, false);
		return tgt_error(error, -EBUSY,
				 "volume %s: %.300s, and does not leave (its client may know no other target): it is "
				 "given away only with --force",
				 config->name, words);
	}
	tgt_log(TGT_LOG_INFO, "volume %s: %u session%s left for another target, %u stay%s", config->name,
		result->sessions_left, result->sessions_left == 1 ? " has" : "s have", stay, stay == 1 ? "s" : "");
	result->given_away = alone;
	if (alone)
		move_give_away(reload, config);
	return 0;
}

int tgt_reload_move(const struct tgt_reload *reload, struct tgt_config *current, const char *name, bool force,
		    struct tgt_change_result *result, char *error)
{
	struct tgt_volume *volume = tgt_volume_get(reload->registry, name);
	int status = tgt_error(error, -ENOENT, "volume %.80s is not served here", name);

	for (unsigned int i = 0; volume && i < current->volume_count; i++) {
		struct tgt_volume_config *config = &current->volumes[i];

		if (strcmp(config->name, name))
			continue;
		if (tgt_store_find(config->store)->forgets)
			status = tgt_error(error, -EINVAL, "volume %s: its data is in this process alone", name);
		else
			status = move(reload, config, volume, force, result, error);
	}
	if (volume)
		tgt_volume_put(volume);
	return status;
}
