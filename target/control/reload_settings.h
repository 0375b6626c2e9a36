/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a reload makes of the settings of [target]: reload.c's. */
#ifndef RBLK_TARGET_RELOAD_SETTINGS_H
#define RBLK_TARGET_RELOAD_SETTINGS_H

#include "target/base/settings.h"

/* The log level changes at once; which others differ, and stay until a restart, is logged. */
void tgt_reload_settings(struct tgt_config *current, const struct tgt_config *wanted);

#endif
