/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a reload handles the settings of [target]. Called by reload.c. */
#ifndef RBLK_TARGET_RELOAD_SETTINGS_H
#define RBLK_TARGET_RELOAD_SETTINGS_H

#include "target/base/change.h"
#include "target/base/settings.h"

/* The log level changes at once; others that differ stay until a restart: names, which are logged, too. */
void tgt_reload_settings(struct tgt_config *current, const struct tgt_config *wanted,
			 char names[TGT_RESTART_BYTES]);

#endif
