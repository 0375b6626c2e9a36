/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The configuration: the settings at their defaults, changed by the INI file, and checked together.
 * `error` is TGT_ERROR_BYTES. Control thread only.
 */
#ifndef RBLK_TARGET_CONFIG_H
#define RBLK_TARGET_CONFIG_H

#include "target/base/settings.h"

/* Every setting at its default, no volume, no listen address. */
void tgt_config_init(struct tgt_config *config);
void tgt_config_fini(struct tgt_config *config);
/* Adds what the INI file says. error: "rblkd.conf:12: ...". */
int tgt_config_load(struct tgt_config *config, const char *path, char *error);
/*
 * The same of a text. Messages have `path` ("": "rblkctl", which has made it) and the line; or, if the text was `edited` and its
 * lines are not those of the file at `path`, the section.
 */
int tgt_config_load_text(struct tgt_config *config, const char *path, const char *text, bool edited, char *error);
/*
 * Adds a volume with all its settings at their defaults. `source` is where it stands, for messages.
 * *volume is valid until the next one is added.
 */
int tgt_config_volume_add(struct tgt_config *config, const char *name, const char *source,
			  struct tgt_volume_config **volume, char *error);
/* Fills in what depends on the machine, or on other settings: the addresses and reactors that nobody has set. */
void tgt_config_fill(struct tgt_config *config);
/* At the end: does that, and checks settings together. */
int tgt_config_complete(struct tgt_config *config, char *error);

#endif
