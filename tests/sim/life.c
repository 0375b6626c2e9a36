/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The connection of life.h: login and its answer, messages out, replies in, and the end.
 */
#include "tests/sim/life.h"

#include <arpa/inet.h>
#include <string.h>
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/clock.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/inside.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

#define WR_SEND (1u << 16)

static uint64_t wr_id(const struct sim_life *life, uint32_t what)
{
	return (uint64_t)life->index << 32 | what;
}

static void life_say(const struct sim_life *life, const char *what)
{
	sim_trace(life->name, "queue %u epoch %llu incarnation %u: %s", life->queue,
		  (unsigned long long)life->epoch, life->incarnation, what);
}

static __attribute__((noreturn)) void life_fail(const struct sim_life *life, const char *what)
{
	sim_fail("%s: queue %u epoch %llu incarnation %u: %s", life->name, life->queue,
		 (unsigned long long)life->epoch, life->incarnation, what);
}

/* -- connecting ---------------------------------------------------------------------------- */

static void receive_post(struct sim_life *life, uint32_t n)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)life->memory->receives[n],
		.length = SIM_LIFE_REPLY_BYTES,
		.lkey = fab_mr_lkey(life->mr, fab_conn_device(life->conn)),
	};
	struct ibv_recv_wr wr = {.wr_id = wr_id(life, n), .sg_list = &sge, .num_sge = 1}, *bad;

	fab_post_recv(life->conn, &wr, &bad);
}

static int life_prepare(struct fab_conn *conn, void *user)
{
	struct sim_life *life = user;

	(void)conn;
	for (uint32_t i = 0; i < SIM_LIFE_RECEIVES; i++)
		receive_post(life, i);
	return 0;
}

void sim_life_connect(struct sim_life *life, const struct sockaddr *addr, uint32_t timeout_ms)
{
	struct fab_conn_options options = {
		.send_depth = SIM_LIFE_MESSAGES,
		.recv_depth = SIM_LIFE_RECEIVES,
		.send_sge = SIM_SGE_MAX,
		.read_in = 16,
		.read_out = 1,
		.private_data = &life->login,
		.private_bytes = sizeof(life->login),
		.timeout_ms = timeout_ms,
		.user = life,
	};

	life->queue = rblk_le16(life->login.queue_index);
	life->incarnation = rblk_le32(life->login.incarnation);
	life->epoch = rblk_le64(life->login.session_epoch);
	life->sequence = life->message_number = 0;
	life->event_seen = life->event_told = 0;
	life->unsent_count = life->held_count = life->order_count = 0;
	life->fenced = false;
	life->begun_ns = sim_now_ns();
	memset(life->orders, 0, sizeof(life->orders));
	memset(life->memory, 0, sizeof(*life->memory));
	life_say(life, life->probe ? "a login that must be refused" : "logs in");
	if (fab_connect(life->fab, addr, &options, life_prepare, &life->conn))
		life_fail(life, "cannot connect");
	life->state = SIM_LIFE_CONNECTING;
}

static void life_accepted(struct sim_life *life, const struct fab_event *event)
{
	memcpy(&life->accept, event->private_data,
	       event->private_bytes < sizeof(life->accept) ? event->private_bytes
							   : sizeof(life->accept));
	if (rblk_check_accept(&life->accept, event->private_bytes) != RBLK_WIRE_OK ||
	    rblk_le32(life->accept.incarnation) != life->incarnation ||
	    rblk_le64(life->accept.session_epoch) != life->epoch ||
	    rblk_le16(life->accept.credits) > rblk_le16(life->login.credits) ||
	    rblk_le32(life->accept.features) & ~rblk_le32(life->login.features))
		life_fail(life, "an acceptance that does not fit its login (V10)");
	life->credits = rblk_le16(life->accept.credits);
	life->features = rblk_le32(life->accept.features);
	life->state = SIM_LIFE_LIVE;
	life->heard_ns = sim_now_ns();
	life_say(life, "is accepted");
	if (sim_chance(200000)) {
		sim_inside_leap_commands(life->conn, &life->sequence);
		sim_inside_leap_events(life->conn, &life->event_seen);
		life->event_told = life->event_seen;
	}
	life->ops->accepted(life);
}

static void life_refused(struct sim_life *life, const struct fab_event *event)
{
	struct rblk_wire_reject reject = {.reason = RBLK_REJECT_NONE};

	if (event->type == FAB_EVENT_REJECTED &&
	    rblk_check_reject(event->private_data, event->private_bytes) == RBLK_WIRE_OK)
		memcpy(&reject, event->private_data, sizeof(reject));
	life_say(life, reject.reason ? rblk_reject_text(rblk_le16(reject.reason)) : "no answer");
	sim_reached("login refused", rblk_reject_text(rblk_le16(reject.reason)), NULL);
	sim_life_close(life, false);
	life->ops->refused(life, rblk_le16(reject.reason), rblk_le32(reject.detail));
}

/* -- sending ------------------------------------------------------------------------------- */

static struct sim_life_message *message_free(const struct sim_life *life)
{
	for (unsigned int i = 0; i < SIM_LIFE_MESSAGES; i++)
		if (!life->memory->messages[i].in_flight)
			return &life->memory->messages[i];
	return NULL;
}

/* -1: none is free. */
static int tag_free(const struct sim_life *life, bool reserved)
{
	unsigned int first = reserved ? life->credits : 0;
	unsigned int end = reserved ? life->credits + RBLK_RESERVED_TAGS : life->credits;

	for (unsigned int tag = first; tag < end; tag++)
		if (!life->orders[tag])
			return (int)tag;
	return -1;
}

static uint32_t unsent_capsule_bytes(const struct sim_life *life)
{
	uint32_t bytes = 0;

	for (unsigned int i = 0; i < life->unsent_count; i++)
		bytes += life->unsent[i]->capsule_bytes;
	return bytes;
}

bool sim_life_room(const struct sim_life *life, const struct sim_order *order)
{
	uint32_t segments = fab_device_limits(fab_conn_device(life->conn))->max_sge;
	uint32_t bytes = unsent_capsule_bytes(life) + order->capsule_bytes +
			 (life->unsent_count + 1) * (uint32_t)sizeof(order->command);
	unsigned int batch = SIM_LIFE_BATCH;

	if (batch > rblk_le16(life->accept.max_batch))
		batch = rblk_le16(life->accept.max_batch);
	/* One more for the descriptors. */
	return life->state == SIM_LIFE_LIVE && life->unsent_count < batch &&
	       life->unsent_count + 2 <= segments &&
	       bytes <= rblk_le32(life->accept.command_bytes) &&
	       tag_free(life, order->reserved_tag) >= 0 && message_free(life);
}

void sim_life_add(struct sim_life *life, struct sim_order *order)
{
	order->life = order->last = life;
	order->tag = (uint16_t)tag_free(life, order->reserved_tag);
	if (life->sequence == UINT32_MAX)
		sim_reached("number", "of commands begins anew", NULL);
	order->sequence = life->sequence++;
	order->answered = order->invalidated = false;
	if (!life->order_count)
		life->heard_ns = sim_now_ns();
	life->orders[order->tag] = order;
	life->order_count++;
	life->unsent[life->unsent_count++] = order;
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

void sim_life_send(struct sim_life *life)
{
	struct ibv_sge sge[SIM_LIFE_BATCH + 1];
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct sim_life_message *message = message_free(life);
	uint32_t offset = 0;

	if (!life->unsent_count || life->state != SIM_LIFE_LIVE)
		return;
	for (unsigned int i = 0; i < life->unsent_count; i++) {
		struct sim_order *order = life->unsent[i];

		order->message = life->message_number + 1;
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
		.length = life->unsent_count * (uint32_t)sizeof(message->commands[0]),
		.lkey = fab_mr_lkey(life->mr, fab_conn_device(life->conn)),
	};
	message->in_flight = true;
	message->number = ++life->message_number;
	wr.wr_id = wr_id(life, WR_SEND | (uint32_t)(message - life->memory->messages));
	wr.sg_list = sge;
	life->unsent_count = 0;
	fab_post_send(life->conn, &wr, &bad);
}

/* -- answers ------------------------------------------------------------------------------- */

static bool message_in_flight(const struct sim_life *life, uint32_t number)
{
	for (unsigned int i = 0; i < SIM_LIFE_MESSAGES; i++)
		if (life->memory->messages[i].in_flight &&
		    life->memory->messages[i].number == number)
			return true;
	return false;
}

static void order_done(struct sim_life *life, struct sim_order *order, bool answered)
{
	life->order_count--;
	order->life = NULL;
	order->done(order, answered);
}

/* F4: what a SEND reads is in use until it has completed; else it is done. */
static void order_answered(struct sim_life *life, struct sim_order *order)
{
	life->orders[order->tag] = NULL;
	order->answered = true;
	if (message_in_flight(life, order->message))
		life->held[life->held_count++] = order;
	else
		order_done(life, order, true);
}

static void held_release(struct sim_life *life, uint32_t number)
{
	unsigned int kept = 0, count = life->held_count;
	struct sim_order *done[SIM_LIFE_BATCH];
	unsigned int done_count = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (life->held[i]->message == number)
			done[done_count++] = life->held[i];
		else
			life->held[kept++] = life->held[i];
	}
	life->held_count = kept;
	for (unsigned int i = 0; i < done_count; i++)
		order_done(life, done[i], true);
}

static struct sim_order *order_of(struct sim_life *life, uint16_t tag)
{
	if (tag >= SIM_LIFE_TAGS || !life->orders[tag])
		life_fail(life, "an answer to what was not asked (V6)");
	return life->orders[tag];
}

static void take_immediate(struct sim_life *life, uint32_t immediate)
{
	struct sim_order *order = order_of(life, (uint16_t)(immediate >> 16));

	if (!(order->command.flags & RBLK_CMD_IMMEDIATE))
		life_fail(life, "an immediate for a command that did not allow it (V7)");
	memset(&order->answer, 0, sizeof(order->answer));
	order_answered(life, order);
}

/* The next may follow when a KEEPALIVE has named this one. */
static void take_event(struct sim_life *life, uint32_t number)
{
	/* 0 is none's. */
	uint32_t due = life->event_seen == UINT32_MAX ? 1 : life->event_seen + 1;

	if (life->queue || life->event_seen != life->event_told || number != due)
		life_fail(life, "an event that is not due (V9)");
	if (life->event_seen == UINT32_MAX)
		sim_reached("number", "of events begins anew", NULL);
	life->event_seen = number;
}

static void take_completion(struct sim_life *life, const struct rblk_wire_completion *completion,
			    bool *invalidation, uint32_t rkey)
{
	struct sim_order *order;

	if (completion->flags & RBLK_CPL_EVENT) {
		take_event(life, (uint32_t)(rblk_le64(completion->result) >> 32));
		return;
	}
	order = order_of(life, rblk_le16(completion->tag));
	if (rblk_le32(completion->sequence) != order->sequence)
		life_fail(life, "an answer with another sequence number (V6)");
	if (completion->flags & RBLK_CPL_INVALIDATED) {
		if (!*invalidation || rkey != rblk_le32(order->command.segment.rkey) ||
		    !(order->command.flags & RBLK_CMD_INVALIDATE))
			life_fail(life, "a key is said to be invalidated, and is not (V8)");
		*invalidation = false;
		order->invalidated = true;
	}
	order->answer = *completion;
	sim_reached("answer", rblk_opcode_name(order->command.opcode),
		    rblk_status_text(rblk_le16(completion->status)));
	order_answered(life, order);
}

static void take_reply(struct sim_life *life, const struct ibv_wc *wc)
{
	/* The receive is posted again before an order is over (C3): what it brought is copied. */
	uint8_t copy[SIM_LIFE_REPLY_BYTES] __attribute__((aligned(8)));
	const struct rblk_wire_completion *completions;
	bool invalidation = wc->wc_flags & IBV_WC_WITH_INV;
	uint32_t receive = (uint32_t)wc->wr_id;
	u16 count;

	memcpy(copy, life->memory->receives[receive], wc->byte_len);
	if (life->state == SIM_LIFE_LIVE)
		receive_post(life, receive);
	if (rblk_check_reply(copy, wc->byte_len, life->features, life->credits + RBLK_RESERVED_TAGS,
			     &completions, &count))
		life_fail(life, "a malformed reply (V5)");
	for (u16 i = 0; i < count; i++)
		take_completion(life, &completions[i], &invalidation, wc->invalidated_rkey);
	if (invalidation)
		life_fail(life, "an invalidation that no completion names (V8)");
}

void sim_life_completion(struct sim_life *life, const struct ibv_wc *wc)
{
	uint32_t what = (uint32_t)wc->wr_id;

	if (what & WR_SEND) {
		struct sim_life_message *message = &life->memory->messages[what & ~WR_SEND];

		message->in_flight = false;
		held_release(life, message->number);
		return;
	}
	if (wc->status != IBV_WC_SUCCESS)
		return;
	life->heard_ns = sim_now_ns();
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		if (life->state == SIM_LIFE_LIVE)
			receive_post(life, what);
		take_immediate(life, ntohl(wc->imm_data));
	} else {
		take_reply(life, wc);
	}
}

/* -- the end ------------------------------------------------------------------------------- */

void sim_life_close(struct sim_life *life, bool silently)
{
	if (life->state != SIM_LIFE_CONNECTING && life->state != SIM_LIFE_LIVE)
		return;
	life_say(life, silently ? "vanishes" : "closes");
	life->state = SIM_LIFE_ENDING;
	if (silently)
		sim_conn_silence(life->conn);
	fab_conn_close(life->conn);
}

/* Drained: nobody touches anything of it any more. */
static void life_drained(struct sim_life *life)
{
	fab_conn_destroy(life->conn);
	life->conn = NULL;
	life->state = SIM_LIFE_FREE;
	for (unsigned int i = 0; i < SIM_LIFE_TAGS; i++) {
		struct sim_order *order = life->orders[i];

		life->orders[i] = NULL;
		if (order)
			order_done(life, order, false);
	}
	if (life->held_count || life->order_count)
		life_fail(life, "it has drained, and a SEND of it was not completed");
}

void sim_life_event(struct sim_life *life, const struct fab_event *event)
{
	switch (event->type) {
	case FAB_EVENT_ESTABLISHED:
		life_accepted(life, event);
		break;
	case FAB_EVENT_REJECTED:
	case FAB_EVENT_FAILED:
		life_refused(life, event);
		break;
	case FAB_EVENT_DISCONNECTED:
		life_say(life, "is lost");
		life->ops->lost(life);
		break;
	case FAB_EVENT_DRAINED:
		life_drained(life);
		break;
	default:
		break;
	}
}
