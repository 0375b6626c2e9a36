/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue: one RC connection of a session. Its I/O queue (io/io_queue.h) moves I/O; this half has the login,
 * the incarnation and the end. Allocated whole at login; ends in phases: closed (QP to ERR,
 * what has not begun is dropped); drained; then, when no store owns a request, destroyed. While one
 * does, it lingers beside its successor. The reactor's thread only.
 */
#ifndef RBLK_TARGET_QUEUE_H
#define RBLK_TARGET_QUEUE_H

#include "target/io/io_queue.h"
#include "target/serve/session.h"

/* AUTHENTICATE under way: what step 1 brought. */
struct tgt_exchange {
	bool begun;
	uint8_t initiator_nonce[RBLK_NONCE_BYTES], target_nonce[RBLK_NONCE_BYTES];
	char name[RBLK_NAME_BYTES];
};

/*
 * A login that is not answered yet. tgt_reactor_login() makes it, login.c frees it with its lease when it is answered.
 * Uses a host; the request is consumed by the answer. A struct tgt_remote_queue embeds a copy for the other reactor,
 * without lease. It stands here because queue.c and remote_queue.c make theirs of it, and login.h is above them.
 */
struct tgt_login {
	struct tgt_message message;  /* first: tgt_reactor_login() sends it */
	TAILQ_ENTRY(tgt_login) link; /* reactor->logins, while it waits */
	struct fab_request *request;
	struct tgt_lease *lease;
	struct tgt_host *host; /* NULL until it has begun */
	struct rblk_wire_login wire;
	size_t bytes; /* of it that have come */
	struct tgt_origin origin; /* at the session's home */
	uint64_t begun_ns;
	char peer[80];
	/* Where it has come in, from when it is tried; and what its verdict grants. */
	struct tgt_fabric *fabric;
	struct tgt_device *device;
	uint32_t features;
};

struct tgt_queue {
	struct tgt_io_queue io_queue; /* first, so that an I/O queue leads back here */
	/* Fixed after creation. */
	struct tgt_session *session;
	struct tgt_fabric *fabric;
	struct tgt_device *device;
	struct tgt_remote_queue *remote_queue; /* of a remote session: to be given back at the end; else NULL */
	uint32_t incarnation;
	uint64_t begun_ns;
	struct rblk_wire_login login;	/* as it came, and its answer: what a proof is bound to */
	struct rblk_wire_accept accept;
	struct tgt_exchange exchange;
	bool proven; /* its session's name, by AUTHENTICATE; or its session had proven none */

	bool drained;	  /* no completion or event of the fabric comes any more */
	bool is_ended;	  /* in reactor->ended */
	bool lingers;	  /* it has left its slot: only storage I/O is left of it */
	uint32_t promised; /* receive buffers that are promised to it, or held by its commands */
	struct tgt_lingering lingering;
	bool established; /* both ends are connected: may be probed before its first message */
	TAILQ_ENTRY(tgt_queue) ended_link;
};

static inline struct tgt_queue *tgt_queue_of(struct tgt_io_queue *io_queue)
{
	return (struct tgt_queue *)io_queue;
}

static inline struct tgt_session *tgt_session_of(const struct tgt_request *request)
{
	return tgt_queue_of(request->io_queue)->session;
}

/*
 * Accept the login's request with so many credits: slots, accounts, connection, receives. Does not answer yet
 * (fab_conn_establish). Negative errno with *queue NULL: the request is still the caller's; with
 * *queue set: the connection is there, to be refused and closed.
 */
int tgt_queue_create(struct tgt_session *session, const struct tgt_login *login, uint16_t credits,
		     struct tgt_queue **queue);

/* Begin to close it, with one log line unless reason is NULL. Idempotent. */
void tgt_queue_close(struct tgt_queue *queue, const char *reason);
/* The same, where it is not this end that wants it. */
static inline void tgt_queue_lost(struct tgt_queue *queue, enum tgt_end end, const char *reason)
{
	if (queue->io_queue.open)
		queue->io_queue.end = (uint8_t)end;
	tgt_queue_close(queue, reason);
}
/* FAB_EVENT_DRAINED. */
void tgt_queue_drained(struct tgt_queue *queue);
/* Puts it on reactor->ended if it is drained: to be destroyed, or, with storage I/O, to linger if it may. Idempotent. */
void tgt_queue_check_end(struct tgt_queue *queue);
/* It leaves its slot, for a login of a newer incarnation; reactor->ended has it later once more. */
void tgt_queue_linger(struct tgt_queue *queue);
/* Commands of a slot that are with the storage and whose connections have ended, on this reactor. */
unsigned int tgt_queue_lingering_active(const struct tgt_session *session, unsigned int index);
/* The last phase; from the reactor's turn only, when nothing is on the stack that uses it. */
void tgt_queue_destroy(struct tgt_queue *queue);

/* -- for tables of struct tgt_io_queue_ops ----------------------------------------------------- */

void tgt_queue_io_close(struct tgt_io_queue *io_queue, const char *reason);
void tgt_queue_io_over(struct tgt_io_queue *io_queue);

#endif
