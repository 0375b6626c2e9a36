/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the raw initiator sends besides block commands: OPEN and KEEPALIVE because it has to, FENCE where
 * a connection is lost or is to be. Lost with its connection, none is sent again by itself. Others
 * are raw_mischief.c's, which sends them through here.
 */
#include "tests/sim/raw_initiator.h"

#include <string.h>
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

void sim_control_fail(const struct sim_control *control, const char *what)
{
	sim_fail("%s: %s by queue %u: %s", control->raw->actor.name,
		 rblk_opcode_name(control->order.command.opcode), control->queue, what);
}

/* -- answers ------------------------------------------------------------------------------- */

/* Its handle is, and has not been opened again. */
static void check_closed(const struct sim_control *control)
{
	uint32_t handles[SIM_WHITEBOX_HANDLES];
	unsigned int count;

	if (control->epoch != control->raw->epoch)
		return;
	count = sim_whitebox_handles(control->raw->host, control->raw->session_id, control->epoch, handles);
	for (unsigned int i = 0; i < count && i < SIM_WHITEBOX_HANDLES; i++)
		if (handles[i] == control->handle)
			sim_control_fail(control, "a handle is open that was closed");
}

static void open_done(struct sim_control *control, uint16_t status)
{
	struct sim_raw_initiator *raw = control->raw;
	const struct rblk_wire_volume *volume =
		(const void *)raw->memory->reports[control - raw->controls];

	if (control->epoch != raw->epoch)
		return;
	raw->opening = false;
	raw->open_at_ns = sim_now_ns() + sim_between(SIM_MS, 20 * SIM_MS);
	if (status)
		return;
	if (rblk_check_volume(volume, sizeof(*volume), RBLK_FEATURES_ALL) ||
	    volume->handle != control->order.command.volume)
		sim_control_fail(control, "a report that makes no sense");
	if (control->closed)
		check_closed(control);
	if (rblk_le32(volume->handle) != raw->wanted)
		return;
	raw->handle = raw->wanted;
	raw->blocks = rblk_le64(volume->blocks);
	raw->block_bytes = rblk_le32(volume->block_bytes);
	raw->volume_flags = rblk_le32(volume->flags);
	raw->life = sim_model_opened(&control->opening, volume->cache_epoch);
	sim_whitebox_opened(raw->host, raw->volume, &control->opening);
}

static void fence_done(struct sim_control *control, uint16_t status)
{
	struct sim_raw_initiator *raw = control->raw;
	const struct rblk_wire_command *command = &control->order.command;
	uint16_t queue = (uint16_t)rblk_le64(command->lba);
	uint32_t incarnation = (uint32_t)rblk_le64(command->argument);
	bool own = queue == control->queue && incarnation >= control->incarnation;

	if (status == RBLK_OK && own)
		sim_control_fail(control, "it has fenced the incarnation that it came by");
	if (status == RBLK_E_INVALID && !own)
		sim_control_fail(control, "refused, and nothing is wrong with it");
	if (!status && control->epoch == raw->epoch && queue < raw->queue_count)
		sim_raw_fenced(raw, queue, incarnation);
}

static void abort_done(struct sim_control *control, uint16_t status)
{
	bool will = rblk_le64(control->order.answer.result) == RBLK_ABORT_DROPPED;
	struct sim_raw_request *victim = control->victim;

	if (status)
		return;
	if (control->victim_answered && will != control->victim_aborted)
		sim_control_fail(control, "it did not say what became of its victim");
	if (!control->victim_answered && victim) {
		victim->abort_told = true;
		victim->abort_result = will;
	}
}

void sim_raw_check_abort(struct sim_raw_request *request, bool aborted)
{
	struct sim_raw_initiator *raw = request->raw;

	/* PREEMPT with ABORT may have come in between. */
	if (request->abort_told && request->order.answered && request->abort_result != aborted &&
	    !(raw->reserver.often && aborted))
		sim_fail("%s: #%u: ABORT has said that it would %sbe", raw->actor.name,
			 request->number, request->abort_result ? "" : "not ");
	for (unsigned int i = 0; i < SIM_RAW_CONTROLS; i++) {
		struct sim_control *control = &raw->controls[i];

		if (!control->under_way || control->victim != request)
			continue;
		control->victim = NULL;
		control->victim_answered = request->order.answered;
		control->victim_aborted = aborted;
	}
}

/* What came before it by the same connection with the handle is over by then. */
static void close_done(struct sim_control *control, const struct sim_wire_connection *connection)
{
	struct sim_raw_initiator *raw = control->raw;

	for (unsigned int i = 0; i < SIM_RAW_REQUESTS; i++) {
		const struct sim_raw_request *request = &raw->requests[i];

		if (request->state == SIM_RAW_REQUEST_SENT && request->order.connection == connection &&
		    !request->order.answered &&
		    rblk_le32(request->order.command.volume) == control->handle &&
		    (int32_t)(request->order.sequence - control->order.sequence) < 0)
			sim_control_fail(control, "answered, and the handle is in use");
	}
	for (unsigned int i = 0; i < SIM_RAW_CONTROLS; i++)
		raw->controls[i].closed |= raw->controls[i].order.command.opcode == RBLK_OP_OPEN &&
					   raw->controls[i].handle == control->handle;
	check_closed(control);
}

/* What it calls zero must have been that at some time since it was asked. */
static void extents_done(const struct sim_control *control)
{
	const struct sim_raw_initiator *raw = control->raw;
	const struct rblk_wire_command *command = &control->order.command;
	const struct rblk_wire_extent *extent =
		(const void *)raw->memory->reports[control - raw->controls];
	uint64_t count = rblk_le64(control->order.answer.result), block = rblk_le64(command->lba);

	if (rblk_check_extents(extent, rblk_le32(command->segment.length), count,
			       rblk_le32(command->blocks)))
		sim_control_fail(control, "a report that makes no sense");
	for (uint64_t i = 0; i < count; block += rblk_le64(extent[i++].blocks))
		if (rblk_le32(extent[i].flags) & RBLK_EXTENT_ZERO)
			sim_model_zeroes(control->command,
					 block * raw->block_bytes / SIM_SECTOR,
					 rblk_le64(extent[i].blocks) * raw->block_bytes / SIM_SECTOR);
}

/* Of a CHECKSUM and its ABORT one is over. */
static void pair_done(struct sim_control *control, bool answered)
{
	bool aborted = control->order.command.opcode == RBLK_OP_ABORT
			       ? rblk_le64(control->order.answer.result) == RBLK_ABORT_DROPPED
			       : rblk_le16(control->order.answer.status) == RBLK_E_ABORTED;

	if (control->order.command.opcode == RBLK_OP_ABORT)
		answered &= rblk_le16(control->order.answer.status) == RBLK_OK;
	if (control->other) {
		control->other->other = NULL;
		control->other->other_answered = answered;
		control->other->other_aborted = aborted;
	} else if (answered && control->other_answered && aborted != control->other_aborted) {
		sim_control_fail(control, "ABORT did not say what became of it");
	}
}

static void on_done(struct sim_order *order, bool answered)
{
	struct sim_control *control = (struct sim_control *)order;
	uint16_t status = answered ? rblk_le16(order->answer.status) : (uint16_t)RBLK_E_FENCED;

	control->under_way = false;
	if (control->raw->reserver.often)
		control->expected |= 1u << RBLK_E_RESERVED | 1u << RBLK_E_ABORTED;
	sim_trace(control->raw->actor.name, "%s by queue %u: %s",
		  rblk_opcode_name(order->command.opcode), control->queue,
		  answered ? rblk_status_text(status) : "lost");
	if (answered && (status >= 32 || !(control->expected & 1u << status)))
		sim_fail("%s: %s by queue %u: %s", control->raw->actor.name,
			 rblk_opcode_name(order->command.opcode), control->queue,
			 rblk_status_text(status));
	switch (order->command.opcode) {
	case RBLK_OP_IDENTIFY:
		control->raw->named |=
			answered && status == RBLK_OK && control->epoch == control->raw->epoch;
		break;
	case RBLK_OP_OPEN:
		open_done(control, status);
		break;
	case RBLK_OP_EXTENTS:
		if (answered && status == RBLK_OK)
			extents_done(control);
		sim_model_end(control->command, SIM_OUTCOME_NOTHING, NULL);
		break;
	case RBLK_OP_CLOSE:
		if (answered && status == RBLK_OK)
			close_done(control, order->last);
		break;
	case RBLK_OP_FENCE:
		if (answered)
			fence_done(control, status);
		break;
	case RBLK_OP_CHECKSUM:
		pair_done(control, answered);
		break;
	case RBLK_OP_ABORT:
		pair_done(control, answered);
		if (answered)
			abort_done(control, status);
		break;
	}
}

/* -- sending ------------------------------------------------------------------------------- */

struct sim_control *sim_control_new(struct sim_raw_initiator *raw, struct sim_wire_connection *connection,
				    uint8_t opcode, uint32_t expected)
{
	struct sim_control *control = raw->controls;

	while (control < raw->controls + SIM_RAW_CONTROLS && control->under_way)
		control++;
	if (control == raw->controls + SIM_RAW_CONTROLS)
		return NULL;
	memset(control, 0, sizeof(*control));
	control->raw = raw;
	control->expected = expected;
	control->epoch = connection->epoch;
	control->queue = connection->queue;
	control->incarnation = connection->incarnation;
	control->order.command.opcode = opcode;
	control->order.reserved_tag = rblk_opcode_reserved_tag(opcode);
	control->order.done = on_done;
	return sim_wire_connection_room(connection, &control->order) ? control : NULL;
}

static void control_add(struct sim_control *control, struct sim_wire_connection *connection)
{
	control->under_way = true;
	sim_wire_connection_add(connection, &control->order);
	sim_trace(connection->name, "%s by queue %u incarnation %u: lba %llu argument %llu",
		  rblk_opcode_name(control->order.command.opcode), connection->queue, connection->incarnation,
		  (unsigned long long)rblk_le64(control->order.command.lba),
		  (unsigned long long)rblk_le64(control->order.command.argument));
}

void sim_control_send(struct sim_control *control, struct sim_wire_connection *connection)
{
	control_add(control, connection);
	sim_wire_connection_send(connection);
}

/* What is told in the capsule. */
static void *control_payload(struct sim_control *control, const struct sim_wire_connection *connection)
{
	struct sim_raw_initiator *raw = control->raw;
	uint8_t *payload = raw->memory->payloads[control - raw->controls];

	memset(payload, 0, RBLK_CAPSULE_ALIGN);
	control->order.capsule = payload;
	control->order.capsule_bytes = RBLK_CAPSULE_ALIGN;
	control->order.capsule_lkey = fab_mr_lkey(raw->memory_mr, fab_conn_device(connection->conn));
	control->order.command.flags |= RBLK_CMD_CAPSULE;
	return payload;
}

void sim_control_report(struct sim_control *control, const struct sim_wire_connection *connection, uint32_t bytes)
{
	struct sim_raw_initiator *raw = control->raw;
	struct rblk_wire_segment *segment = &control->order.command.segment;

	segment->address =
		rblk_to_le64((uintptr_t)raw->memory->reports[control - raw->controls]);
	segment->rkey = rblk_to_le32(fab_mr_rkey(raw->memory_mr, fab_conn_device(connection->conn)));
	segment->length = rblk_to_le32(bytes);
}

/* In one message, as the specification allows. */
static void raw_open(struct sim_raw_initiator *raw, struct sim_wire_connection *connection)
{
	struct rblk_wire_identify *identify;
	struct rblk_wire_open *open;
	struct sim_control *control;

	control = connection->message_number ? NULL
					     : sim_control_new(raw, connection, RBLK_OP_IDENTIFY, SIM_ANSWERS_WELL);
	if (control) {
		identify = control_payload(control, connection);
		strcpy(identify->initiator, raw->actor.name);
		strcpy(identify->software, "simulator");
		if (!sim_wire_connection_room(connection, &control->order))
			return;
		control->order.command.segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
		control_add(control, connection);
	}
	control = sim_control_new(raw, connection, RBLK_OP_OPEN, SIM_ANSWERS_WELL | 1u << RBLK_E_NO_VOLUME);
	if (control) {
		if (raw->again)
			sim_reached("raw", "OPEN of a handle that may be open", NULL);
		raw->wanted = raw->again ? raw->again : ++raw->handles * RBLK_HANDLES_MAX + 1 + (uint32_t)sim_below(3);
		raw->again = 0;
		control->handle = raw->wanted;
		control->order.command.volume = rblk_to_le32(raw->wanted);
		open = control_payload(control, connection);
		strcpy(open->name, raw->host->config.volumes[raw->volume].name);
		sim_control_report(control, connection, sizeof(struct rblk_wire_volume));
		control->opening = sim_model_opening(raw->host->volumes[raw->volume]);
		if (sim_wire_connection_room(connection, &control->order)) {
			raw->opening = true;
			control_add(control, connection);
		}
	}
	sim_wire_connection_send(connection);
}

static void events_confirm(struct sim_raw_initiator *raw)
{
	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++) {
		struct sim_wire_connection *connection = &raw->connections[i];
		struct sim_control *control;

		if (connection->state != SIM_WIRE_LIVE || connection->event_seen == connection->event_told)
			continue;
		/* No hurry: what is not confirmed is told again by the next incarnation. */
		if (!raw->calm && sim_chance(800000))
			continue;
		control = sim_control_new(raw, connection, RBLK_OP_KEEPALIVE, SIM_ANSWERS_WELL);
		if (!control)
			continue;
		control->order.command.argument = rblk_to_le64(connection->event_seen);
		connection->event_told = connection->event_seen;
		sim_control_send(control, connection);
	}
}

static bool fence_under_way(const struct sim_raw_initiator *raw, uint16_t queue)
{
	for (unsigned int i = 0; i < SIM_RAW_CONTROLS; i++) {
		const struct sim_control *control = &raw->controls[i];

		if (control->under_way && control->order.command.opcode == RBLK_OP_FENCE &&
		    control->epoch == raw->epoch && rblk_le64(control->order.command.lba) == queue)
			return true;
	}
	return false;
}

/* By any queue, that of the next incarnation, too. */
static void fences_ask(struct sim_raw_initiator *raw)
{
	for (uint16_t queue = 0; queue < raw->queue_count; queue++) {
		struct sim_raw_slot *slot = &raw->slots[queue];
		struct sim_wire_connection *connection = sim_raw_live(raw, false);

		/* IDENTIFY goes first. */
		if (!connection || !raw->handle || slot->owed <= slot->fenced || sim_now_ns() < slot->ask_at_ns ||
		    fence_under_way(raw, queue))
			continue;
		slot->ask_at_ns = sim_now_ns() + sim_between(SIM_MS, 20 * SIM_MS);
		sim_raw_fence(raw, connection, queue, slot->owed);
	}
}

void sim_raw_manage(struct sim_raw_initiator *raw)
{
	struct sim_wire_connection *connection = sim_raw_live(raw, true);

	fences_ask(raw);

	/*
	 * Without a name it cannot unregister, and its own reservation may refuse what is under way for ever. IDENTIFY was
	 * refused, or something else was sent first.
	 */
	if (raw->calm && raw->reserver.often && raw->handle && !raw->named) {
		sim_raw_renew(raw);
		return;
	}
	if (!raw->handle && !raw->opening && connection && sim_now_ns() >= raw->open_at_ns)
		raw_open(raw, connection);
	events_confirm(raw);
}

void sim_raw_fence(struct sim_raw_initiator *raw, struct sim_wire_connection *by, uint16_t queue,
		   uint32_t incarnation)
{
	uint32_t expected = SIM_ANSWERS_WELL | 1u << RBLK_E_INVALID;
	struct sim_control *control =
		incarnation ? sim_control_new(raw, by, RBLK_OP_FENCE, expected) : NULL;

	if (!control)
		return;
	control->order.command.lba = rblk_to_le64(queue);
	control->order.command.argument = rblk_to_le64(incarnation);
	sim_control_send(control, by);
}
