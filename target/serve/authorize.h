/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The consequences of access rules (rules.h) for logins and sessions: who may log in, join a
 * session, open a volume; and which sessions end when the rules change. The reactor's thread, at a
 * session's home.
 */
#ifndef RBLK_TARGET_AUTHORIZE_H
#define RBLK_TARGET_AUTHORIZE_H

#include "target/serve/session.h"

/*
 * May a login from there come in, and join the session (NULL: there is none)? A session that has volumes open
 * takes only connections that may use all of them. Otherwise *why: enum rblk_denied.
 */
bool tgt_authorize_login(const struct tgt_origin *origin, const struct tgt_reactor *reactor,
		     const struct tgt_session *session, uint32_t *why);
/*
 * Tells why something is denied: the initiator by the answer's result, people by an event and a line of the log.
 * `what`, such as "OPEN of volume", and the name in question, which is a volume's or an initiator's. Returns
 * RBLK_E_DENIED.
 */
enum rblk_status tgt_authorize_deny(struct tgt_request *request, const char *what, const char *volume,
				    const char *initiator, uint32_t why);
/*
 * The right that all connections of the session have to a volume, by the rules in force.
 * Less than TGT_RIGHT_READ: the OPEN is to be DENIED; that is logged.
 */
enum tgt_right tgt_authorize_open(const struct tgt_session *session, struct tgt_request *request,
			      const char *volume);
/* May the session have this name, or go on having another? Otherwise IDENTIFY is to be DENIED; that is logged. */
bool tgt_authorize_name(const struct tgt_session *session, struct tgt_request *request,
		    const char name[RBLK_NAME_BYTES]);
/* Lists the volumes that LIST shows to the session, as tgt_volume_list() does. */
unsigned int tgt_authorize_list(const struct tgt_session *session, unsigned int first,
			    struct tgt_volume **list, unsigned int max, unsigned int *total);
/*
 * Sets what its session may do with the open volume now. If that is to write, and the handle is for
 * reading because it was not when it was opened, the initiator is told that it may open the volume
 * again.
 */
void tgt_authorize_check(struct tgt_handle *handle, enum tgt_right right);
/* Ends the session if it has a volume open that it may not have open, by its name of now. */
void tgt_authorize_again(struct tgt_session *session);
/* The rules have changed: likewise all sessions, and those that may not even log in. Others are told of new rights. */
void tgt_authorize_changed(struct tgt_reactor *reactor);

#endif
