/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The log says what is strange in a configuration that is right. Control thread. */
#ifndef RBLK_TARGET_SAY_H
#define RBLK_TARGET_SAY_H

struct tgt_config;

/* At a start, and by --check: all that tgt_initiators_say() says, and what only a restart changes. */
void tgt_say(const struct tgt_config *config);

#endif
