/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One connection of an initiator at the level of the wire: an incarnation of a queue. Sends what it
 * is given, gives back what is answered, and says at its end what was not. No policy: which
 * incarnations there are and what is sent again is raw_initiator.c's. Everything that the target says is checked
 * as the specification has it; whatever breaks a rule ends the seed.
 */
#ifndef RBLK_TESTS_SIM_WIRE_CONNECTION_H
#define RBLK_TESTS_SIM_WIRE_CONNECTION_H

#include "proto/fabric/fabric.h"
#include "proto/wire/wire.h"

#define SIM_WIRE_CREDITS 12u /* wanted at most */
#define SIM_WIRE_TAGS (SIM_WIRE_CREDITS + RBLK_RESERVED_TAGS)
#define SIM_WIRE_RECEIVES (SIM_WIRE_TAGS + RBLK_EVENT_RECEIVES)
#define SIM_WIRE_REPLY_BYTES 256u
#define SIM_WIRE_MESSAGES 24u
#define SIM_WIRE_BATCH 6u

struct sim_wire_connection;
struct sim_order;

/* What has become of an order: `answer` is valid if it was answered. */
typedef void (*sim_order_fn)(struct sim_order *order, bool answered);

/*
 * A command on its way. Its owner's, who fills in the first part; from sim_wire_connection_add() until `done`
 * is called, everything it refers to must stay.
 */
struct sim_order {
	struct rblk_wire_command command; /* tag, index, sequence and a capsule's place are ours */
	const void *capsule;
	uint32_t capsule_bytes, capsule_lkey;
	bool reserved_tag;
	sim_order_fn done;

	struct sim_wire_connection *connection; /* NULL: not on its way */
	struct sim_wire_connection *last;	/* by which it went */
	uint16_t tag;
	uint32_t sequence, message;
	bool answered, invalidated;
	struct rblk_wire_completion answer;
};

enum sim_wire_state {
	SIM_WIRE_FREE,
	SIM_WIRE_CONNECTING,
	SIM_WIRE_LIVE,
	SIM_WIRE_ENDING, /* closed, not drained: its orders keep their memory (F4) */
};

struct sim_wire_message {
	struct rblk_wire_command commands[SIM_WIRE_BATCH];
	bool in_flight; /* its SEND has not completed */
	uint32_t number;
};

/* Registered with the device as a whole. */
struct sim_wire_memory {
	uint8_t receives[SIM_WIRE_RECEIVES][SIM_WIRE_REPLY_BYTES];
	struct sim_wire_message messages[SIM_WIRE_MESSAGES];
};

struct sim_wire_ops {
	void (*accepted)(struct sim_wire_connection *connection);
	/* reason: RBLK_REJECT_NONE where nobody has said one. It is ENDING. */
	void (*refused)(struct sim_wire_connection *connection, uint16_t reason, uint32_t detail);
	/* LIVE, and the connection is lost: to be closed. */
	void (*lost)(struct sim_wire_connection *connection);
};

struct sim_wire_connection {
	/* The owner's. */
	const char *name; /* in traces: the actor's */
	const struct sim_wire_ops *ops;
	void *owner;
	struct fab *fab;
	struct fab_mr *mr; /* of `memory` */
	struct sim_wire_memory *memory;
	unsigned int index; /* among the owner's: in work request ids */
	bool probe;	    /* a login that must be refused */

	enum sim_wire_state state;
	struct fab_conn *conn;
	struct rblk_wire_login login;
	struct rblk_wire_accept accept;
	uint16_t queue, credits;
	uint32_t incarnation, features, sequence;
	uint64_t epoch, heard_ns, begun_ns;
	struct sim_order *orders[SIM_WIRE_TAGS];  /* by tag; NULL: free */
	struct sim_order *unsent[SIM_WIRE_BATCH]; /* of the message under construction */
	struct sim_order
		*held[SIM_WIRE_MESSAGES * SIM_WIRE_BATCH]; /* answered, SEND not complete */
	unsigned int unsent_count, held_count, order_count;
	uint32_t message_number; /* of the last */
	uint32_t event_seen,
		event_told; /* numbers: of the last event, and of the last KEEPALIVE's */
	bool fenced;	    /* the target has said so: nothing new may come of it */
};

/* Connect with connection->login. */
void sim_wire_connection_connect(struct sim_wire_connection *connection, const struct sockaddr *addr,
				 uint32_t timeout_ms);
/* Hang up, or vanish without a word. Unanswered commands come back when it has drained. */
void sim_wire_connection_close(struct sim_wire_connection *connection, bool silently);
/* Room for one more order, in the message under construction or a new one? */
bool sim_wire_connection_room(const struct sim_wire_connection *connection, const struct sim_order *order);
/* Into the message under construction. There is room. */
void sim_wire_connection_add(struct sim_wire_connection *connection, struct sim_order *order);
/* Send what was added. */
void sim_wire_connection_send(struct sim_wire_connection *connection);

/* What the owner has polled; by wr_id, and by event->conn's user, it is this connection's. */
static inline unsigned int sim_wire_connection_of(const struct ibv_wc *wc)
{
	return (unsigned int)(wc->wr_id >> 32);
}
void sim_wire_connection_completion(struct sim_wire_connection *connection, const struct ibv_wc *wc);
void sim_wire_connection_event(struct sim_wire_connection *connection, const struct fab_event *event);

#endif
