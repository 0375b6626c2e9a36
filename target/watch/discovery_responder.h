/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which queries of discovery are answered, over UDP and over RDMA: well-formed ones, to this target's name, within
 * limits that both share. Counts the queries that were answered, and those that were not.
 */
#ifndef RBLK_TARGET_WATCH_DISCOVERY_RESPONDER_H
#define RBLK_TARGET_WATCH_DISCOVERY_RESPONDER_H

#include <pthread.h>
#include <stdatomic.h>
#include "target/watch/discovery_limit.h"
#include "target/watch/discovery_portals.h"

/*
 * Part of struct tgt_discovery. The control thread calls init and fini; in between the threads of UDP and of RDMA
 * use it.
 */
struct tgt_discovery_responder {
	struct tgt_discovery_self self; /* fixed, as is the next; the caller sets it before the threads begin */
	const char *interfaces;		/* "eth0 eth1", or "all" */
	pthread_mutex_t lock;		/* of the next two */
	struct tgt_discovery_limit limit;
	uint64_t flood_ns; /* when a line about a flood was last logged */
	_Atomic uint64_t answered, limited, malformed;
};

/* The limits are new, nothing is counted. */
void tgt_discovery_responder_init(struct tgt_discovery_responder *responder, const char *interfaces);
void tgt_discovery_responder_fini(struct tgt_discovery_responder *responder);

/* A datagram as it came. */
struct tgt_discovery_question {
	const struct rblk_wire_discover *discover; /* not checked: `length` bytes are there */
	size_t length;
	uint8_t address[16]; /* of who asks; IPv4 as IPv6 maps it */
	const char *interface;
};

/*
 * Any thread. True: the limits have counted it, and `answer`, a copy of the interface's, has got the question's
 * nonce. The caller sends it, and calls tgt_discovery_responder_answered() if it was sent.
 */
bool tgt_discovery_responder_take(struct tgt_discovery_responder *responder,
				  const struct tgt_discovery_question *question, struct rblk_wire_discover *answer,
				  uint64_t now_ns);
void tgt_discovery_responder_answered(struct tgt_discovery_responder *responder);

#endif
