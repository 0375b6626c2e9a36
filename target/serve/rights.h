/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rights that the reservations of volumes leave to the sessions of a reactor: looked up when a
 * volume is opened, when the session names itself, and when a reservation has changed. The
 * reactor's thread only.
 */
#ifndef RBLK_TARGET_RIGHTS_H
#define RBLK_TARGET_RIGHTS_H

#include "target/serve/session.h"

/*
 * The name by which the session is a registrant: its initiator's; if its host has an identifier, that with a digest of
 * the name. False: it cannot be one: it has no name of its own, or claims one of the other kind.
 */
bool tgt_rights_registrant(const struct tgt_session *session, char registrant[RBLK_NAME_BYTES]);
/* A volume was opened. */
void tgt_rights_opened(struct tgt_handle *handle);
/* The session, here or at its home, has this name from now on. May close queues of the reactor. */
void tgt_rights_name(struct tgt_session *session, const char initiator[RBLK_NAME_BYTES]);
/* The volume's reservation has changed: puts it in force for all sessions of the reactor. */
void tgt_rights_changed(struct tgt_reactor *reactor, struct tgt_volume *volume);

#endif
