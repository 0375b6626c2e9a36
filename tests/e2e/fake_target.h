/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A target that does what a test tells it to, right or wrong: one thread, one listener (TCP on
 * 127.0.0.1, or RDMA if the script says so), one session of at most FAKE_QUEUES queues. It answers
 * commands but moves no data.
 */
#ifndef RBLK_TESTS_FAKE_TARGET_H
#define RBLK_TESTS_FAKE_TARGET_H

#include <stdatomic.h>
#include <netinet/in.h>
#include "initiator/rblk.h"
#include "proto/fabric/fabric.h"
#include "proto/wire/wire.h"

struct fake_target;

#define FAKE_RAW_BYTES 4096 /* longer than any reply may be */

/* What to do about one command; completion is filled for success. */
enum fake_answer {
	FAKE_REPLY,
	FAKE_SILENT,
	FAKE_CLOSE,     /* drop the connection */
	FAKE_REPLY_TWICE,
	FAKE_REPLY_RAW, /* send raw, raw_bytes instead of a completion */
	FAKE_IMMEDIATE, /* an RDMA WRITE WITH IMMEDIATE of this tag into the command's segment */
	FAKE_IMMEDIATE_ELSEWHERE, /* likewise, of the tag in completion, without data */
	FAKE_REPLY_INVALIDATE,    /* the completion by a SEND WITH INVALIDATE of the command's key */
	FAKE_REPLY_WITH_IMMEDIATE, /* the completion by a SEND WITH IMMEDIATE */
};

/* Owned by the test; the target's thread reads it from start to stop. */
struct fake_script {
	struct rblk_wire_reject reject; /* reason not 0: refuse */
	u16 reject_from;                /* the first queue that is refused */
	u64 reject_epoch;               /* of the session that is refused; 0: any */
	bool reject_silent;             /* refuse without private data */
	const struct sockaddr_in *rdma; /* listen there, over RDMA */
	void (*accept)(struct rblk_wire_accept *accept); /* change the acceptance */
	void (*volume)(struct rblk_wire_volume *volume); /* change what OPEN reports */
	enum fake_answer (*command)(struct fake_target *fake, const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion);
	u8 raw[FAKE_RAW_BYTES];
	u32 raw_bytes;
	void *arg;
};

struct fake_target *fake_target_start(struct fake_script *script);
void fake_target_stop(struct fake_target *fake);
/* Options for a session with it. Time limits are long; a test that waits for one sets it lower. */
static inline struct rblk_options fake_target_options(void)
{
	return (struct rblk_options){ .size = sizeof(struct rblk_options),
				      .connect_timeout_ms = 20000,
				      .command_timeout_ms = 20000,
				      .no_reconnect = true };
}
/* "rblk+tcp://127.0.0.1:port/disk" */
const char *fake_target_uri(const struct fake_target *fake);
struct fake_script *fake_target_script(struct fake_target *fake);
/* Called by `command`: it knows the session's first epoch no more, and rejects its logins with NO_SESSION. */
void fake_target_forget(struct fake_target *fake);
/*
 * Called by `command`: sends a message of the target's own on that queue, after this answer. FAKE_HANDLE: of the
 * handle that was opened last; FAKE_HANDLE + 1: of the number behind that.
 */
void fake_target_send_event(struct fake_target *fake, u16 event, u32 number, u32 handle);
/* Called by `command`: writes into the command's segment, before its answer. */
void fake_target_report(struct fake_target *fake, const struct rblk_wire_command *command,
			const void *data, u32 bytes);
/* Called by `command`: the index of the queue that the command came by. */
unsigned int fake_target_queue(const struct fake_target *fake);
/* How many commands of this opcode came. Any thread may call it. */
unsigned int fake_target_seen(struct fake_target *fake, u8 opcode);

#define FAKE_QUEUES 2
#define FAKE_HANDLE 7
#define FAKE_VOLUME_BLOCKS 2048

#endif
