/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A snapshot: what one reactor is and has done, as one piece of memory that belongs to who asked for
 * it. The reactor fills it in its turn, in a bounded time (stats.h), when a message asks for it
 * (watch/ask.c), so nobody else reads what it writes, and its data path pays nothing for being observed.
 */
#ifndef RBLK_TARGET_SNAPSHOT_H
#define RBLK_TARGET_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "proto/wire/payload.h"
#include "proto/wire/login.h"
#include "target/base/settings.h"
#include "target/io/counts.h"
#include "target/io/loop.h"
#include "target/serve/stats_table.h"

struct tgt_reactor;
struct tgt_session;

/* A connection of a session. */
struct tgt_snapshot_path {
	char peer[80]; /* "": there is none, or it is another reactor's */
	bool rdma, encrypted, digest, proven;
	uint64_t age_ns;
};

/* A session, or a remote session: then `peer` is empty, and the initiator's name may be. */
struct tgt_snapshot_session {
	unsigned int number; /* the same for a session and its remote sessions */
	bool remote;
	char initiator[RBLK_NAME_BYTES];
	char peer[80];
	bool proven; /* its name, by a secret, on each of its connections */
	bool ending; /* no connection joins it; its storage I/O may go on */
	unsigned int connections, outstanding, handles;
	/* Without a connection, and not ending: for so long, and its initiator may come back for so long. Else 0. */
	uint64_t gone_ns, awaits_ns;
	unsigned int encrypted, rdma, digests; /* of its connections: under TLS; over RDMA; with a digest of the data */
	struct tgt_snapshot_path paths[RBLK_QUEUES_MAX]; /* by queue */
	uint64_t age_ns;
	uint32_t credits;    /* receive buffers promised to its queues */
	uint64_t data_bytes; /* of the pool, held */
	uint64_t commands;   /* session commands included */
};

/* The operations of a session on a volume that it has open. */
struct tgt_snapshot_use {
	unsigned int session; /* its number */
	char volume[RBLK_NAME_BYTES];
	bool read_only;
	unsigned int initiator; /* the number of who opened it */
	unsigned int outstanding;
	struct tgt_counts counts;
};

/* The counts of handles to it that are not among the uses. */
struct tgt_snapshot_volume {
	char name[RBLK_NAME_BYTES];
	struct tgt_counts counts;
};

struct tgt_snapshot {
	unsigned int reactor; /* index */
	unsigned int sessions_here, connections, logins_waiting;
	uint64_t taken_ns, busy_ns, pool_bytes, pool_used_bytes;
	uint64_t fences; /* FENCE commands */
	uint64_t refused[RBLK_E_MAX], ends[TGT_ENDS], logins[TGT_LOGIN_RESULTS]; /* as in struct tgt_loop */
	struct tgt_snapshot_session *sessions; /* all four in this piece of memory */
	struct tgt_snapshot_use *uses;
	struct tgt_snapshot_volume *volumes;
	struct tgt_initiator_stats *initiators; /* whose sessions may have ended */
	unsigned int session_count, use_count, volume_count, initiator_count;
};

/* The reactor's thread, as is the next. */
void tgt_snapshot_session(const struct tgt_session *session, struct tgt_snapshot_session *entry);
/* The caller frees it with free(). NULL: no memory. */
struct tgt_snapshot *tgt_snapshot_take(struct tgt_reactor *reactor);

#endif
