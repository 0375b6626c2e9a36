/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which limits are for an open volume, by the rules in force: its own, and its initiator's; the
 * weight of a session; and whether commands have priority. The reactor's thread.
 */
#ifndef RBLK_TARGET_LIMITS_H
#define RBLK_TARGET_LIMITS_H

#include "target/serve/session.h"

/* A volume was opened; or is closed, and no command uses it. */
void tgt_limits_opened(struct tgt_handle *handle);
void tgt_limits_closed(struct tgt_handle *handle);
/* The session, or a remote session, has another name now. */
void tgt_limits_named(struct tgt_session *session);
/* The rulebook has others. */
void tgt_limits_changed(struct tgt_reactor *reactor);

#endif
