/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NVMe/TCP and NVMe over RDMA as kinds of fabric: what the rest of the daemon sees of this room.
 */
#ifndef RBLK_TARGET_NVME_FABRIC_H
#define RBLK_TARGET_NVME_FABRIC_H

#include <stdint.h>

/* From now on fab_open() knows FAB_NVME and FAB_NVME_RDMA. queues: the most that a session may have. Before any thread
 * opens one. */
void tgt_nvme_init(uint16_t queues);
/* The daemon drains: what a host's connection would take before its login is refused is not begun any more. */
void tgt_nvme_drain(void);
/* The end of that, when no fab is open any more. */
void tgt_nvme_end(void);
/* Hosts whose names have secrets prove them: who finds those, with a reference (NULL: there is none), on any
 * thread. Before any host can connect. */
struct rblk_secrets;
struct rblk_tls_dialect;
void tgt_nvme_secrets(struct rblk_secrets *(*find)(void *arg, const char *name), void *arg);
/* How hosts come by TLS. Any thread. */
const struct rblk_tls_dialect *tgt_nvme_tls(void);

#endif
