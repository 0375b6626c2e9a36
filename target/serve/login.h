/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Logins: carries out what core/login decides. A login that an older incarnation or epoch blocks
 * waits, unanswered, until that has ended. The reactor's thread only.
 */
#ifndef RBLK_TARGET_LOGIN_H
#define RBLK_TARGET_LOGIN_H

#include "target/serve/lease.h"
#include "target/serve/reactor_impl.h"

struct tgt_origin;

/* Decide about a login; carried out now, or when the older incarnation or epoch has ended. Takes
 * over request and lease. */
void tgt_login_begin(struct tgt_reactor *reactor, struct fab_request *request,
		     const struct tgt_origin *origin, const struct rblk_wire_login *wire, size_t bytes,
		     struct tgt_lease *lease);
/* A queue has ended: decide again about those that wait. */
void tgt_login_retry(struct tgt_reactor *reactor);
/* Timer: refuse those that have waited too long. */
void tgt_login_expire(struct tgt_reactor *reactor);
/* Refuse all that wait (the target is shutting down). */
void tgt_login_refuse_all(struct tgt_reactor *reactor);

#endif
