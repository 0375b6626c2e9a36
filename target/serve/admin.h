/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which session command does what. The calls that a queue gives its I/O queue; and one that has to prove its session's name
 * first: until then it is DENIED everything but AUTHENTICATE, KEEPALIVE and PING. The reactor's thread only.
 */
#ifndef RBLK_TARGET_ADMIN_H
#define RBLK_TARGET_ADMIN_H

#include "target/io/io_queue.h"

extern const struct tgt_io_queue_ops tgt_admin_io_ops;

#endif
