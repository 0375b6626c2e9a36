/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Discovery over RDMA: queries and answers are unreliable datagrams. A thread of its own has a queue pair in the
 * multicast group on the RDMA device of each configured network interface, and follows interfaces and devices that
 * come and go. Finding the way back to a query's sender may take it seconds; nothing else waits for that. The control
 * thread calls these.
 */
#ifndef RBLK_TARGET_WATCH_DISCOVERY_RDMA_H
#define RBLK_TARGET_WATCH_DISCOVERY_RDMA_H

#include "target/watch/discovery_responder.h"

#define TGT_DISCOVERY_GROUPS 16 /* interfaces; the rest is left out, and logged */

struct tgt_discovery_rdma;

/* 0, or -errno and error (TGT_ERROR_BYTES). *rdma is NULL where the target does not listen by RDMA. Joins. */
int tgt_discovery_rdma_create(struct tgt_discovery_responder *responder, struct tgt_discovery_rdma **rdma, char *error);
/* NULL: no effect. */
void tgt_discovery_rdma_destroy(struct tgt_discovery_rdma *rdma);

#endif
