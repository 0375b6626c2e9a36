/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opens the volumes at the daemon's start, and notes those that it cannot serve yet; reload_late.c adds these later.
 * Declared in reload.h.
 */
#include "target/control/reload.h"

#include <errno.h>
#include <stdlib.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/base/unserved.h"
#include "target/control/config.h"
#include "target/store/volume.h"

/* The last attempt at a volume. */
struct begun {
	int status;
	char reason[TGT_ERROR_BYTES]; /* empty: it is served */
};

/*
 * Adds a volume. The first attempt waits only for a moment if the cluster does not answer. The time that earlier
 * volumes have waited for their locks counts as this one's wait, too.
 */
static void begin_add(const struct tgt_reload *reload, struct tgt_volume_config config, uint64_t begun_ns, bool first,
		      struct begun *begun)
{
	uint64_t waited_ms = (env_now_ns() - begun_ns) / 1000000u;

	config.lock_wait_ms -= (uint32_t)(waited_ms < config.lock_wait_ms ? waited_ms : config.lock_wait_ms);
	config.others_wait = first;
	begun->status = tgt_volume_add(reload->registry, &config, begun->reason);
	if (!begun->status)
		begun->reason[0] = '\0'; /* a first attempt may have left one */
}

/* Adds all, until more than `lacking` have failed. Returns how many; *failed: the first, or the one interrupted. */
static unsigned int begin_all(const struct tgt_reload *reload, const struct tgt_config *current, unsigned int lacking,
			      struct begun *begun, const struct begun **failed)
{
	uint64_t begun_ns = env_now_ns();
	unsigned int left = 0, late = 0, count = current->volume_count;

	/* Two rounds: volumes that are late are tried again when all others have been. */
	for (unsigned int n = 0; n < 2 * count && left <= lacking; n++) {
		struct begun *now = &begun[n % count];
		bool first = n < count;

		if (!first && now->status != -ETIMEDOUT)
			continue;
		begin_add(reload, current->volumes[n % count], begun_ns, first, now);
		if (first && now->status == -ETIMEDOUT) {
			if (!late++)
				tgt_reload_open_ahead(reload, current, n + 1);
			continue;
		}
		if (now->status && !left++)
			*failed = now;
		if (now->status == -EINTR) {
			*failed = now;
			left = lacking + 1;
		}
	}
	return left;
}

int tgt_reload_begin(const struct tgt_reload *reload, const struct tgt_config *current, unsigned int lacking,
		     char *error)
{
	struct begun *begun = calloc(current->volume_count + 1, sizeof(*begun));
	const struct begun *failed = NULL;
	int err = 0;

	if (!begun)
		return tgt_error(error, -ENOMEM, "out of memory");
	if (begin_all(reload, current, lacking, begun, &failed) > lacking)
		err = tgt_error(error, failed->status, "%s", failed->reason);
	for (unsigned int i = 0; i < current->volume_count && !err; i++)
		if (begun[i].reason[0])
			tgt_unserved_add(reload->unserved, TGT_UNSERVED_VOLUME, current->volumes[i].name,
					 begun[i].reason);
	free(begun);
	return err;
}
