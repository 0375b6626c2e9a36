/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sessions of a reactor: from an accepted login of queue 0 until all queues and handles have
 * ended and the time without connections is over. The reactor's thread only.
 */
#ifndef RBLK_TARGET_SESSIONS_H
#define RBLK_TARGET_SESSIONS_H

#include "target/serve/session.h"

struct tgt_remote_queue;

/* NULL: no memory. */
struct tgt_session *tgt_session_create(struct tgt_reactor *reactor,
				       const struct rblk_wire_login *login,
				       struct tgt_lease *lease, struct tgt_host *host);
/* The one of the highest epoch; older ones are ending. */
struct tgt_session *tgt_session_find(struct tgt_reactor *reactor, const uint8_t id[16]);
/* It is ending, and has nothing left but storage I/O: a session of the same id and a higher epoch may be created beside it. */
bool tgt_session_may_follow(const struct tgt_session *session);

/*
 * It has proven its name: what it has and takes counts as that name's from now on (C6). 0, or -ENOMEM; -EBUSY:
 * the name has its share of the sessions already.
 */
int tgt_session_prove(struct tgt_session *session, const char name[RBLK_NAME_BYTES]);
/* The remote session here of the remote queue's session: the existing one, or a new one, which
 * counts for the login's host, or for the name that its session has proven. NULL: no memory. */
struct tgt_session *tgt_session_remote(struct tgt_reactor *reactor, const struct tgt_remote_queue *remote_queue,
				       struct tgt_host *host);
/* A remote queue has ended here, or never began: sends it home, and ends the remote session if it has no
 * other queue. remote: NULL if there was no memory for it. */
void tgt_session_remote_ended(struct tgt_session *remote, struct tgt_remote_queue *remote_queue);
/* The message of a remote queue that came back. */
void tgt_session_queue_back(struct tgt_reactor *reactor, struct tgt_message *message);

/* Close every queue; when the last has ended the session is freed. At once if there is none. */
void tgt_session_end(struct tgt_session *session, const char *reason);
/* A volume that it has open is lost (volume.h): it ends, or, if it is at home elsewhere, its queues here do. */
void tgt_session_volume_lost(struct tgt_session *session);
/* As tgt_session_end(), but other reactors close their queues themselves when they have drained. */
void tgt_session_drain(struct tgt_session *session, const char *reason);
/* End of a turn: destroy the queues that have ended, or let them linger. May free their sessions. Returns how many. */
unsigned int tgt_session_bury(struct tgt_reactor *reactor);
/* How long its initiator may still come back, if it has no connection, for *gone_ns; else both are 0. */
uint64_t tgt_session_awaits_ns(const struct tgt_session *session, uint64_t *gone_ns);
/* Timer: end sessions whose time without connections is over. If `need` (else NULL) has no place for one more
 * nevertheless: the oldest that has no queue now, of that host, or of any if that host has few. */
void tgt_session_expire(struct tgt_reactor *reactor, const struct tgt_host *need);

#endif
