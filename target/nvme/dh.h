/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Diffie-Hellman for hosts that are not known yet, on a thread of its own: it takes milliseconds, which reactors do not
 * have. A host can make it work, but not much: each network has one computation of either kind at a time, and the
 * thread rests after each for as long as it has taken, so that all hosts together have at most half a processor.
 */
#ifndef RBLK_TARGET_NVME_DH_H
#define RBLK_TARGET_NVME_DH_H

#include "proto/fabric/fabric.h"
#include "target/nvme/chap.h"

#define NVME_DH_JOBS_MAX 64u /* key pairs that wait to be made; agreements are no more than those that were */

/*
 * A key pair and what comes of it. Its owner's, except while a computation of it waits or runs: then the owner may only
 * ask whether it is done, or free it.
 */
struct nvme_dh_job;

/* NULL: no memory. network: whose it is (fab_network_of()). */
struct nvme_dh_job *nvme_dh_job_create(uint8_t group, const uint8_t network[FAB_NETWORK_BYTES]);
/* Begins to make the key pair, and then to agree with the peer's value, as soon as it may: to be called until it
 * returns true. *well: whether it succeeded. */
bool nvme_dh_job_run(struct nvme_dh_job *job, bool *well);
const uint8_t *nvme_dh_job_public(const struct nvme_dh_job *job);
/* The peer's value, of nvme_dh_bytes(). The next computation is the agreement. */
void nvme_dh_job_peer(struct nvme_dh_job *job, const uint8_t *value);
const uint8_t *nvme_dh_job_shared(const struct nvme_dh_job *job);
void nvme_dh_job_free(struct nvme_dh_job *job); /* NULL: no effect */
/* The thread ends; nothing is computed any more. Once, before the process ends: libcrypto's memory goes then. */
void nvme_dh_stop(void);

#endif
