/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * AUTHENTICATE: an initiator proves that it knows the secret of its name, and the target that it does,
 * on each connection. admin.c calls it, on the thread of the queue's reactor.
 */
#ifndef RBLK_TARGET_AUTHENTICATE_H
#define RBLK_TARGET_AUTHENTICATE_H

#include "target/serve/queue.h"

void tgt_authenticate_begin(struct tgt_request *request, const char *capsule, uint32_t capsule_bytes);

#endif
