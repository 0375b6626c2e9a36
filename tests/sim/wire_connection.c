/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The connection of wire_connection.h: login and its answer, messages out, replies in, and the end.
 */
#include "tests/sim/wire_connection.h"

#include <arpa/inet.h>
#include <string.h>
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/clock.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

#define WR_SEND (1u << 16)

static uint64_t wr_id(const struct sim_wire_connection *connection, uint32_t what)
{
	return (uint64_t)connection->index << 32 | what;
}

static void connection_say(const struct sim_wire_connection *connection, const char *what)
{
	sim_trace(connection->name, "queue %u epoch %llu incarnation %u: %s", connection->queue,
		  (unsigned long long)connection->epoch, connection->incarnation, what);
}

static __attribute__((noreturn)) void connection_fail(const struct sim_wire_connection *connection, const char *what)
{
	sim_fail("%s: queue %u epoch %llu incarnation %u: %s", connection->name, connection->queue,
		 (unsigned long long)connection->epoch, connection->incarnation, what);
}

/* -- connecting ---------------------------------------------------------------------------- */

static void receive_post(struct sim_wire_connection *connection, uint32_t n)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)connection->memory->receives[n],
		.length = SIM_WIRE_REPLY_BYTES,
		.lkey = fab_mr_lkey(connection->mr, fab_conn_device(connection->conn)),
	};
	struct ibv_recv_wr wr = {.wr_id = wr_id(connection, n), .sg_list = &sge, .num_sge = 1}, *bad;

	fab_post_recv(connection->conn, &wr, &bad);
}

static int connection_prepare(struct fab_conn *conn, void *user)
{
	struct sim_wire_connection *connection = user;

	(void)conn;
	for (uint32_t i = 0; i < SIM_WIRE_RECEIVES; i++)
		receive_post(connection, i);
	return 0;
}

void sim_wire_connection_connect(struct sim_wire_connection *connection, const struct sockaddr *addr, uint32_t timeout_ms)
{
	struct fab_conn_options options = {
		.send_depth = SIM_WIRE_MESSAGES,
		.recv_depth = SIM_WIRE_RECEIVES,
		.send_sge = SIM_SGE_MAX,
		.read_in = 16,
		.read_out = 1,
		.private_data = &connection->login,
		.private_bytes = sizeof(connection->login),
		.timeout_ms = timeout_ms,
		.user = connection,
	};

	connection->queue = rblk_le16(connection->login.queue_index);
	connection->incarnation = rblk_le32(connection->login.incarnation);
	connection->epoch = rblk_le64(connection->login.session_epoch);
	connection->sequence = connection->message_number = 0;
	connection->event_seen = connection->event_told = 0;
	connection->unsent_count = connection->held_count = connection->order_count = 0;
	connection->fenced = false;
	connection->begun_ns = sim_now_ns();
	memset(connection->orders, 0, sizeof(connection->orders));
	memset(connection->memory, 0, sizeof(*connection->memory));
	connection_say(connection, connection->probe ? "a login that must be refused" : "logs in");
	if (fab_connect(connection->fab, addr, &options, connection_prepare, &connection->conn))
		connection_fail(connection, "cannot connect");
	connection->state = SIM_WIRE_CONNECTING;
}

static void connection_accepted(struct sim_wire_connection *connection, const struct fab_event *event)
{
	memcpy(&connection->accept, event->private_data,
	       event->private_bytes < sizeof(connection->accept) ? event->private_bytes
								 : sizeof(connection->accept));
	if (rblk_check_accept(&connection->accept, event->private_bytes) != RBLK_WIRE_OK ||
	    rblk_le32(connection->accept.incarnation) != connection->incarnation ||
	    rblk_le64(connection->accept.session_epoch) != connection->epoch ||
	    rblk_le16(connection->accept.credits) > rblk_le16(connection->login.credits) ||
	    rblk_le32(connection->accept.features) & ~rblk_le32(connection->login.features))
		connection_fail(connection, "an acceptance that does not fit its login (V10)");
	connection->credits = rblk_le16(connection->accept.credits);
	connection->features = rblk_le32(connection->accept.features);
	connection->state = SIM_WIRE_LIVE;
	connection->heard_ns = sim_now_ns();
	connection_say(connection, "is accepted");
	if (sim_chance(200000)) {
		sim_whitebox_leap_commands(connection->conn, &connection->sequence);
		sim_whitebox_leap_events(connection->conn, &connection->event_seen);
		connection->event_told = connection->event_seen;
	}
	connection->ops->accepted(connection);
}

static void connection_refused(struct sim_wire_connection *connection, const struct fab_event *event)
{
	struct rblk_wire_reject reject = {.reason = RBLK_REJECT_NONE};

	if (event->type == FAB_EVENT_REJECTED &&
	    rblk_check_reject(event->private_data, event->private_bytes) == RBLK_WIRE_OK)
		memcpy(&reject, event->private_data, sizeof(reject));
	connection_say(connection, reject.reason ? rblk_reject_text(rblk_le16(reject.reason)) : "no answer");
	sim_reached("login refused", rblk_reject_text(rblk_le16(reject.reason)), NULL);
	sim_wire_connection_close(connection, false);
	connection->ops->refused(connection, rblk_le16(reject.reason), rblk_le32(reject.detail));
}

/* -- sending ------------------------------------------------------------------------------- */

static struct sim_wire_message *message_free(const struct sim_wire_connection *connection)
{
	for (unsigned int i = 0; i < SIM_WIRE_MESSAGES; i++)
		if (!connection->memory->messages[i].in_flight)
			return &connection->memory->messages[i];
	return NULL;
}

/* -1: none is free. */
static int tag_free(const struct sim_wire_connection *connection, bool reserved)
{
	unsigned int first = reserved ? connection->credits : 0;
	unsigned int end = reserved ? connection->credits + RBLK_RESERVED_TAGS : connection->credits;

	for (unsigned int tag = first; tag < end; tag++)
		if (!connection->orders[tag])
			return (int)tag;
	return -1;
}

static uint32_t unsent_capsule_bytes(const struct sim_wire_connection *connection)
{
	uint32_t bytes = 0;

	for (unsigned int i = 0; i < connection->unsent_count; i++)
		bytes += connection->unsent[i]->capsule_bytes;
	return bytes;
}

bool sim_wire_connection_room(const struct sim_wire_connection *connection, const struct sim_order *order)
{
	uint32_t segments = fab_device_limits(fab_conn_device(connection->conn))->max_sge;
	uint32_t bytes = unsent_capsule_bytes(connection) + order->capsule_bytes +
			 (connection->unsent_count + 1) * (uint32_t)sizeof(order->command);
	unsigned int batch = SIM_WIRE_BATCH;

	if (batch > rblk_le16(connection->accept.max_batch))
		batch = rblk_le16(connection->accept.max_batch);
	/* One more for the descriptors. */
	return connection->state == SIM_WIRE_LIVE && connection->unsent_count < batch &&
	       connection->unsent_count + 2 <= segments &&
	       bytes <= rblk_le32(connection->accept.command_bytes) &&
	       tag_free(connection, order->reserved_tag) >= 0 && message_free(connection);
}

void sim_wire_connection_add(struct sim_wire_connection *connection, struct sim_order *order)
{
	order->connection = order->last = connection;
	order->tag = (uint16_t)tag_free(connection, order->reserved_tag);
	if (connection->sequence == UINT32_MAX)
		sim_reached("number", "of commands begins anew", NULL);
	order->sequence = connection->sequence++;
	order->answered = order->invalidated = false;
	if (!connection->order_count)
		connection->heard_ns = sim_now_ns();
	connection->orders[order->tag] = order;
	connection->order_count++;
	connection->unsent[connection->unsent_count++] = order;
}

/* Capsules stand before the descriptors, in their order. */
static void order_place(const struct sim_order *order, struct rblk_wire_command *command,
			unsigned int index, uint32_t offset)
{
	*command = order->command;
	command->tag = rblk_to_le16(order->tag);
	command->index = (uint8_t)index;
	command->sequence = rblk_to_le32(order->sequence);
	if (!order->capsule_bytes)
		return;
	/* What is told and reports besides names its capsule by the argument. */
	if (rblk_opcode_direction(command->opcode) == RBLK_DATA_TO_INITIATOR)
		command->argument = rblk_to_le64(offset);
	else
		command->segment.address = rblk_to_le64(offset);
}

void sim_wire_connection_send(struct sim_wire_connection *connection)
{
	struct ibv_sge sge[SIM_WIRE_BATCH + 1];
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct sim_wire_message *message = message_free(connection);
	uint32_t offset = 0;

	if (!connection->unsent_count || connection->state != SIM_WIRE_LIVE)
		return;
	for (unsigned int i = 0; i < connection->unsent_count; i++) {
		struct sim_order *order = connection->unsent[i];

		order->message = connection->message_number + 1;
		order_place(order, &message->commands[i], i, offset);
		if (!order->capsule_bytes)
			continue;
		sge[wr.num_sge++] = (struct ibv_sge){.addr = (uintptr_t)order->capsule,
						     .length = order->capsule_bytes,
						     .lkey = order->capsule_lkey};
		offset += order->capsule_bytes;
	}
	sge[wr.num_sge++] = (struct ibv_sge){
		.addr = (uintptr_t)message->commands,
		.length = connection->unsent_count * (uint32_t)sizeof(message->commands[0]),
		.lkey = fab_mr_lkey(connection->mr, fab_conn_device(connection->conn)),
	};
	message->in_flight = true;
	message->number = ++connection->message_number;
	wr.wr_id = wr_id(connection, WR_SEND | (uint32_t)(message - connection->memory->messages));
	wr.sg_list = sge;
	connection->unsent_count = 0;
	fab_post_send(connection->conn, &wr, &bad);
}

/* -- answers ------------------------------------------------------------------------------- */

static bool message_in_flight(const struct sim_wire_connection *connection, uint32_t number)
{
	for (unsigned int i = 0; i < SIM_WIRE_MESSAGES; i++)
		if (connection->memory->messages[i].in_flight &&
		    connection->memory->messages[i].number == number)
			return true;
	return false;
}

static void order_done(struct sim_wire_connection *connection, struct sim_order *order, bool answered)
{
	connection->order_count--;
	order->connection = NULL;
	order->done(order, answered);
}

/* F4: what a SEND reads is in use until it has completed; else it is done. */
static void order_answered(struct sim_wire_connection *connection, struct sim_order *order)
{
	connection->orders[order->tag] = NULL;
	order->answered = true;
	if (message_in_flight(connection, order->message))
		connection->held[connection->held_count++] = order;
	else
		order_done(connection, order, true);
}

static void held_release(struct sim_wire_connection *connection, uint32_t number)
{
	unsigned int kept = 0, count = connection->held_count;
	struct sim_order *done[SIM_WIRE_BATCH];
	unsigned int done_count = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (connection->held[i]->message == number)
			done[done_count++] = connection->held[i];
		else
			connection->held[kept++] = connection->held[i];
	}
	connection->held_count = kept;
	for (unsigned int i = 0; i < done_count; i++)
		order_done(connection, done[i], true);
}

static struct sim_order *order_of(struct sim_wire_connection *connection, uint16_t tag)
{
	if (tag >= SIM_WIRE_TAGS || !connection->orders[tag])
		connection_fail(connection, "an answer to what was not asked (V6)");
	return connection->orders[tag];
}

static void take_immediate(struct sim_wire_connection *connection, uint32_t immediate)
{
	struct sim_order *order = order_of(connection, (uint16_t)(immediate >> 16));

	if (!(order->command.flags & RBLK_CMD_IMMEDIATE))
		connection_fail(connection, "an immediate for a command that did not allow it (V7)");
	memset(&order->answer, 0, sizeof(order->answer));
	order_answered(connection, order);
}

/* The next may follow when a KEEPALIVE has named this one. */
static void take_event(struct sim_wire_connection *connection, uint32_t number)
{
	/* 0 is none's. */
	uint32_t due = connection->event_seen == UINT32_MAX ? 1 : connection->event_seen + 1;

	if (connection->queue || connection->event_seen != connection->event_told || number != due)
		connection_fail(connection, "an event that is not due (V9)");
	if (connection->event_seen == UINT32_MAX)
		sim_reached("number", "of events begins anew", NULL);
	connection->event_seen = number;
}

static void take_completion(struct sim_wire_connection *connection, const struct rblk_wire_completion *completion,
			    bool *invalidation, uint32_t rkey)
{
	struct sim_order *order;

	if (completion->flags & RBLK_CPL_EVENT) {
		take_event(connection, (uint32_t)(rblk_le64(completion->result) >> 32));
		return;
	}
	order = order_of(connection, rblk_le16(completion->tag));
	if (rblk_le32(completion->sequence) != order->sequence)
		connection_fail(connection, "an answer with another sequence number (V6)");
	if (completion->flags & RBLK_CPL_INVALIDATED) {
		if (!*invalidation || rkey != rblk_le32(order->command.segment.rkey) ||
		    !(order->command.flags & RBLK_CMD_INVALIDATE))
			connection_fail(connection, "a key is said to be invalidated, and is not (V8)");
		*invalidation = false;
		order->invalidated = true;
	}
	order->answer = *completion;
	sim_reached("answer", rblk_opcode_name(order->command.opcode),
		    rblk_status_text(rblk_le16(completion->status)));
	order_answered(connection, order);
}

static void take_reply(struct sim_wire_connection *connection, const struct ibv_wc *wc)
{
	/* The receive is posted again before an order is over (C3): what it brought is copied. */
	uint8_t copy[SIM_WIRE_REPLY_BYTES] __attribute__((aligned(8)));
	const struct rblk_wire_completion *completions;
	bool invalidation = wc->wc_flags & IBV_WC_WITH_INV;
	uint32_t receive = (uint32_t)wc->wr_id;
	u16 count;

	memcpy(copy, connection->memory->receives[receive], wc->byte_len);
	if (connection->state == SIM_WIRE_LIVE)
		receive_post(connection, receive);
	if (rblk_check_reply(copy, wc->byte_len, connection->features, connection->credits + RBLK_RESERVED_TAGS,
			     &completions, &count))
		connection_fail(connection, "a malformed reply (V5)");
	for (u16 i = 0; i < count; i++)
		take_completion(connection, &completions[i], &invalidation, wc->invalidated_rkey);
	if (invalidation)
		connection_fail(connection, "an invalidation that no completion names (V8)");
}

void sim_wire_connection_completion(struct sim_wire_connection *connection, const struct ibv_wc *wc)
{
	uint32_t what = (uint32_t)wc->wr_id;

	if (what & WR_SEND) {
		struct sim_wire_message *message = &connection->memory->messages[what & ~WR_SEND];

		message->in_flight = false;
		held_release(connection, message->number);
		return;
	}
	if (wc->status != IBV_WC_SUCCESS)
		return;
	connection->heard_ns = sim_now_ns();
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		if (connection->state == SIM_WIRE_LIVE)
			receive_post(connection, what);
		take_immediate(connection, ntohl(wc->imm_data));
	} else {
		take_reply(connection, wc);
	}
}

/* -- the end ------------------------------------------------------------------------------- */

void sim_wire_connection_close(struct sim_wire_connection *connection, bool silently)
{
	if (connection->state != SIM_WIRE_CONNECTING && connection->state != SIM_WIRE_LIVE)
		return;
	connection_say(connection, silently ? "vanishes" : "closes");
	connection->state = SIM_WIRE_ENDING;
	if (silently)
		sim_conn_silence(connection->conn);
	fab_conn_close(connection->conn);
}

/* Drained: nobody touches anything of it any more. */
static void connection_drained(struct sim_wire_connection *connection)
{
	fab_conn_destroy(connection->conn);
	connection->conn = NULL;
	connection->state = SIM_WIRE_FREE;
	for (unsigned int i = 0; i < SIM_WIRE_TAGS; i++) {
		struct sim_order *order = connection->orders[i];

		connection->orders[i] = NULL;
		if (order)
			order_done(connection, order, false);
	}
	if (connection->held_count || connection->order_count)
		connection_fail(connection, "it has drained, and a SEND of it was not completed");
}

void sim_wire_connection_event(struct sim_wire_connection *connection, const struct fab_event *event)
{
	switch (event->type) {
	case FAB_EVENT_ESTABLISHED:
		connection_accepted(connection, event);
		break;
	case FAB_EVENT_REJECTED:
	case FAB_EVENT_FAILED:
		connection_refused(connection, event);
		break;
	case FAB_EVENT_DISCONNECTED:
		connection_say(connection, "is lost");
		connection->ops->lost(connection);
		break;
	case FAB_EVENT_DRAINED:
		connection_drained(connection);
		break;
	default:
		break;
	}
}
