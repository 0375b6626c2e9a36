/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Logins: carries out what core/login decides. A login that an older incarnation or epoch blocks
 * waits, unanswered, until that has ended. The reactor's thread only.
 */
#ifndef RBLK_TARGET_LOGIN_H
#define RBLK_TARGET_LOGIN_H

#include "target/serve/lease.h"
#include "target/serve/queue.h"

/* Run: decide about the login; carried out now, or when the older incarnation or epoch has ended. Takes it over. */
void tgt_login_begin(struct tgt_reactor *reactor, struct tgt_message *login);
/* A queue has ended: decide again about those that wait. */
void tgt_login_retry(struct tgt_reactor *reactor);
/* Timer: refuse those that have waited too long. */
void tgt_login_expire(struct tgt_reactor *reactor);
/* Refuse all that wait (the target is shutting down). */
void tgt_login_refuse_all(struct tgt_reactor *reactor);

/* -- login_answer.c ---------------------------------------------------------------------------- */

/* One for which there is no memory, before it has come to a reactor; on the thread of `limit`. */
void tgt_login_reject_early(struct fab_request *request, struct tgt_log_limit *limit);
/* why: for the log; NULL: the reason's own words. */
void tgt_login_reject(struct tgt_reactor *reactor, struct fab_request *request,
		      enum rblk_reject_reason reason, uint32_t detail, const char *why);
/* failed: the fabric with the error; NULL: it has been logged already. */
void tgt_login_reject_device(const struct tgt_login *login, struct tgt_reactor *reactor,
			     const struct tgt_fabric *failed);
/* Connects the queue in its session, which may begin with it. Answers the request in every case. */
void tgt_login_accept(struct tgt_login *login, struct tgt_session *session, bool begins);
/* The connection exists, but cannot be answered, or its queue pair cannot be made: refused, and closed. */
void tgt_login_failed(struct tgt_queue *queue, const char *why);
/* A login's first queue of a session that is not here. Answers the request in every case. */
void tgt_login_begin_session(struct tgt_login *login, struct tgt_reactor *reactor);

#endif
