/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sections [initiator NAME] of the configuration: who may come from where, and use which volumes.
 * serve/rules.h decides by them. `error` and `why` are TGT_ERROR_BYTES. Control thread, and the
 * reloader's.
 */
#ifndef RBLK_TARGET_INITIATORS_H
#define RBLK_TARGET_INITIATORS_H

#include "target/base/settings.h"

/* Adds one at the end of config->initiators. */
int tgt_initiator_add(struct tgt_config *config, const char *name, const char *source, char *error);
/* One or several, separated by blanks or commas. */
int tgt_initiator_set_addresses(struct tgt_initiator_config *initiator, const char *text, char *why);
int tgt_initiator_set_grants(struct tgt_initiator_config *initiator, enum tgt_right right,
			     const char *text, char *why);
/* Reads the file. */
int tgt_initiator_add_secrets(struct tgt_initiator_config *initiator, const char *path, char *why);
/* Is it one that can be served? */
int tgt_initiator_complete(const struct tgt_initiator_config *initiator, char *error);
void tgt_initiators_fini(struct tgt_config *config);
/* Logs whom the rules let in that the administrator may not expect, and rules without a volume. */
void tgt_initiators_say(const struct tgt_config *config);
/* words (TGT_ERROR_BYTES): the first rule without a volume; "": there is none. */
void tgt_initiators_unused(const struct tgt_config *config, char *words);

#endif
