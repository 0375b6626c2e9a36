/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests that wait until the limits of their volume and their initiator let them begin. The reactor's thread. */
#ifndef RBLK_TARGET_THROTTLE_H
#define RBLK_TARGET_THROTTLE_H

#include "target/io/request.h"

/* A checked request of an access that is limited may begin now, a CHECKSUM its next piece. Otherwise it waits, and
 * goes on by tgt_request_unlimited(). */
bool tgt_throttle_pass(struct tgt_request *request, bool has_capsule);
/* The limits have changed: those that wait are judged again in this turn. */
void tgt_throttle_again(struct tgt_loop *loop);
/* Once a turn: those whose time has come go on. Returns how many. */
unsigned int tgt_throttle_resume(struct tgt_loop *loop);

#endif
