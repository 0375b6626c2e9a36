/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The settings in force as a list, and beside each what the command line and the files say now,
 * which may be another value, none, or more: for rblkctl show and diff. By the table of options, so
 * that no setting is forgotten. The reloader's thread.
 */
#ifndef RBLK_TARGET_SETTINGS_SHOW_H
#define RBLK_TARGET_SETTINGS_SHOW_H

#include "target/base/change.h"
#include "target/base/settings.h"

/* 0 or -ENOMEM; the caller frees *settings with tgt_settings_free(). */
int tgt_settings_show(int argc, char **argv, const struct tgt_config *in_force,
		      struct tgt_settings **settings);

#endif
