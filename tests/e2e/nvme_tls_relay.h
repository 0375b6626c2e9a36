/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TLS below an NVMe host that knows nothing of it, as a kernel does it: an address of this machine, from which each
 * connection goes on to the target's by TLS with one key. Threads of its own.
 */
#ifndef RBLK_TESTS_E2E_NVME_TLS_RELAY_H
#define RBLK_TESTS_E2E_NVME_TLS_RELAY_H

#include <stdbool.h>
#include "tests/unit/nvme_tls_client.h"

struct nvme_tls_relay {
	struct nvme_tls_key key; /* of connections from then on; the caller's to change between them */
	char target[64];	 /* fixed */
	char address[64];	 /* where it listens */
	int fd;
};

/* Until the end of the process. target: "127.0.0.1:4420". */
void nvme_tls_relay_start(struct nvme_tls_relay *relay, const char *target);
/* A handshake alone: does it succeed, and does the target keep the connection open behind it? */
bool nvme_tls_try(const char *target, const struct nvme_tls_key *key, int version);

#endif
