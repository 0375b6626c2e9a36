/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reactor's stand-in below NVMe hosts that are fuzzed, over TCP and over RDMA: it checks each message as rblkd does,
 * and answers it at once, with data where there is some. One thread.
 */
#ifndef RBLK_FUZZ_NVME_REACTOR_H
#define RBLK_FUZZ_NVME_REACTOR_H

#include "proto/fabric/fabric.h"
#include "proto/wire/wire_check.h"
#include "tests/fuzz/fuzz.h"

#define REACTOR_CREDITS_MAX 8u
#define REACTOR_BUFFERS 64u
#define REACTOR_BUFFER_BYTES 20480u
#define REACTOR_DATA_BYTES 65536u

/* Its side of a connection. */
struct reactor {
	struct fab_conn *conn;
	uint32_t sequence, credits, features;
	bool tags[REACTOR_CREDITS_MAX + RBLK_RESERVED_TAGS];
};

/* Registers memory, and posts all receives to this device. */
void reactor_begin(struct fab *fab, struct fab_device *device);
/* A completion of the fab's; reactor: whose connection it is; NULL: it has gone. */
void reactor_completed(struct reactor *reactor, const struct ibv_wc *wc);

#endif
