/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Session commands: those that are not block I/O. Naming, listing, opening, closing, fencing,
 * aborting, keeping alive. The reactor's thread only.
 */
#ifndef RBLK_TARGET_ADMIN_H
#define RBLK_TARGET_ADMIN_H

#include "target/io/io_queue.h"

/* The calls that a queue of an ordinary session gives its I/O queue. */
extern const struct tgt_io_queue_ops tgt_admin_io_ops;

/* The command, RECEIVED: it is answered or held. Parameters as in struct tgt_io_queue_ops. */
void tgt_admin_begin(struct tgt_request *request, const char *capsule, uint32_t capsule_bytes,
		     uint32_t volume);

#endif
