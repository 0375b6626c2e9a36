/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the configuration that is served to the one that shall be: which volumes come, go or grow,
 * without touching the others. Control thread.
 */
#ifndef RBLK_TARGET_RELOAD_H
#define RBLK_TARGET_RELOAD_H

#include "target/base/settings.h"
#include "target/serve/reactor.h"

/*
 * Applies `wanted` over `current` and leaves in *current what is now in force; *wanted is used up.
 * Volumes that are new are opened before anything else is changed: if one cannot be, nothing
 * has happened, and `error` (TGT_ERROR_BYTES) says why. Settings that only a restart can change are
 * kept as they are, and logged.
 */
int tgt_reload_apply(struct tgt_config *current, struct tgt_config *wanted,
		     struct tgt_registry *registry, struct tgt_reactor **reactors, char *error);

#endif
