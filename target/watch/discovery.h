/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Discovery: tells who asks a multicast group that this target is there, and where. On a thread of its
 * own, which reads and answers so many queries a second and no more: a flood of them costs bounded time
 * and memory, and nothing of what serves volumes. Control thread, all of these.
 */
#ifndef RBLK_TARGET_WATCH_DISCOVERY_H
#define RBLK_TARGET_WATCH_DISCOVERY_H

#include "target/watch/discovery_portals.h"

struct tgt_discovery;

struct tgt_discovery_options {
	const char *interfaces; /* "eth0 eth1", "all"; "none": there is no discovery, *discovery is NULL */
	const char *name;	/* "": the machine's */
	uint16_t port;
	/* The n-th address that is listened on; false: there are no more. */
	bool (*listened)(const void *context, unsigned int n, struct tgt_discovery_listen *listen);
	const void *context;
};

/* 0, or -errno and error (TGT_ERROR_BYTES). */
int tgt_discovery_create(const struct tgt_discovery_options *options,
			 struct tgt_discovery **discovery, char *error);
/* NULL: no effect. */
void tgt_discovery_destroy(struct tgt_discovery *discovery);
/* A line with what was asked and answered so far. NULL: no effect. */
void tgt_discovery_log_status(const struct tgt_discovery *discovery);

#endif
