/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the configuration that is served to the one that shall be: which volumes come, go or change,
 * without touching the others. Waits for locks, and so runs on the reloader's thread (reloader.h);
 * the simulator calls it from its control thread, and never waits.
 */
#ifndef RBLK_TARGET_RELOAD_H
#define RBLK_TARGET_RELOAD_H

#include "target/base/settings.h"
#include "target/serve/reactor.h"

/* Where a reload has its effect, and how it waits. Fixed. */
struct tgt_reload {
	struct tgt_registry *registry;
	struct tgt_reactor **reactors;
	unsigned int reactor_count;
	/*
	 * Sleeps for a moment, for what has to end first, above all the last I/O of a volume's
	 * former life. False: there is no more time for it. NULL: nobody waits.
	 */
	bool (*wait)(void *context);
	void *context;
};

/*
 * Applies `wanted` over `current` and leaves in *current what is now in force; *wanted is used up.
 * What is new is opened before anything else is changed, and can be found by nobody until all of it
 * is there: if one cannot be, nothing has happened, and `error` (TGT_ERROR_BYTES) says why. A
 * volume whose path was another's until now, or its own with other settings, has to be let go of
 * first: such a one is served as soon as that has ended, whatever becomes of the others, and may be left unserved,
 * for tgt_reload_mend(). Settings that only a restart can
 * change are kept as they are, and logged.
 */
int tgt_reload_apply(const struct tgt_reload *reload, struct tgt_config *current,
		     struct tgt_config *wanted, char *error);

/* Tries again to serve what `current` has and nobody serves. Returns how many volumes still are
 * not. */
unsigned int tgt_reload_mend(const struct tgt_reload *reload, const struct tgt_config *current);

#endif
