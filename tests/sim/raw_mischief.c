/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the raw initiator does that a well-behaved initiator would not do at this time, or would never do.
 * Called by raw_initiator.c, now and then.
 */
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"
#include "tests/sim/raw_initiator.h"
#include "tests/sim/trace.h"

static void mischief_fence(struct sim_raw_initiator *raw, struct sim_wire_connection *connection)
{
	uint16_t queue = (uint16_t)sim_below(raw->queue_count + 1u);
	uint32_t incarnation = 1;

	/* The present one, one on its way, or those to come. */
	if (queue < raw->queue_count && sim_chance(300000))
		incarnation = raw->slots[queue].accepted;
	else if (queue < raw->queue_count)
		incarnation = raw->slots[queue].incarnation + (uint32_t)sim_below(3);
	sim_raw_fence(raw, connection, queue, incarnation);
	/* Behind one of a later incarnation, that of the connection which this has to end. */
	if (queue < raw->queue_count && incarnation > raw->slots[queue].accepted && sim_chance(500000))
		sim_raw_fence(raw, connection, queue, raw->slots[queue].accepted);
}

/* Of two ABORTs of one command only one can be the one that did it. */
static bool has_abort(const struct sim_raw_initiator *raw, const struct sim_raw_request *request)
{
	for (unsigned int i = 0; i < SIM_RAW_CONTROLS; i++)
		if (raw->controls[i].under_way && raw->controls[i].victim == request)
			return true;
	return request->abort_told;
}

/* The target has to fetch its data: there is a time in which it is too late for ABORT. */
static bool is_fetched(const struct sim_raw_request *request)
{
	return request->kind == SIM_COMMAND_WRITE && !request->capsule;
}

static void mischief_abort(struct sim_raw_initiator *raw, struct sim_wire_connection *connection)
{
	struct sim_raw_request *victim = NULL;
	struct sim_control *control;

	/* Of those that have just been sent, too: their data may be on its way. */
	if (sim_chance(500000)) {
		sim_raw_work(raw);
		sim_fiber_sleep(sim_below(2 * sim_net.latency_max_ns));
	}
	control = sim_control_new(raw, connection, RBLK_OP_ABORT, SIM_ANSWERS_WELL);

	for (unsigned int i = 0; i < SIM_RAW_REQUESTS; i++) {
		struct sim_raw_request *request = &raw->requests[i];

		if (request->state == SIM_RAW_REQUEST_SENT && request->order.connection == connection &&
		    !request->order.answered && !has_abort(raw, request) &&
		    (!victim || sim_chance(is_fetched(request) ? 900000 : 300000)))
			victim = request;
	}
	if (!control || !victim)
		return;
	control->victim = victim;
	control->order.command.lba = rblk_to_le64(victim->order.sequence);
	sim_control_send(control, connection);
}

/* Of the open handle, or of one whose OPEN is under way, which is dropped then. */
static void handle_close(struct sim_raw_initiator *raw)
{
	uint32_t handle = raw->handle ? raw->handle : raw->opening ? raw->wanted : 0;
	struct sim_wire_connection *connection = handle ? sim_raw_live(raw, true) : NULL;
	struct sim_control *control;

	control = connection ? sim_control_new(raw, connection, RBLK_OP_CLOSE, SIM_ANSWERS_WELL) : NULL;
	if (!control)
		return;
	control->handle = handle;
	/* Whatever the number says besides the slot. */
	if (sim_chance(300000))
		handle = RBLK_HANDLE_SLOT(handle);
	control->order.command.volume = rblk_to_le32(handle);
	for (unsigned int i = 0; i < SIM_RAW_CONTROLS; i++)
		if (raw->controls[i].under_way && raw->controls[i].order.command.opcode == RBLK_OP_OPEN) {
			raw->controls[i].expected |= 1u << RBLK_E_ABORTED;
			sim_reached("raw", "CLOSE behind OPEN", NULL);
		}
	raw->handle = 0;
	raw->wanted = 0;
	sim_control_send(control, connection);
}

static void mischief_close(struct sim_raw_initiator *raw)
{
	/* Right behind others that it has to wait for. */
	if (sim_chance(500000))
		sim_raw_work(raw);
	handle_close(raw);
}

/* A connection ends in the middle of its work; behind it the volume is closed, and opened again. */
static void mischief_reopen(struct sim_raw_initiator *raw)
{
	struct sim_wire_connection *connection = NULL;

	if (!raw->handle || raw->opening)
		return;
	sim_raw_work(raw);
	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++) {
		struct sim_wire_connection *other = &raw->connections[i];

		if (other->state == SIM_WIRE_LIVE && !other->fenced && other->queue &&
		    (!connection || other->order_count > connection->order_count))
			connection = other;
	}
	if (!connection || !connection->order_count)
		return;
	sim_fiber_sleep(sim_between(1, 3 * sim_net.latency_max_ns));
	sim_wire_connection_close(connection, false);
	/* The target may have to hear of it first, and to drain. */
	sim_fiber_sleep(
		sim_between(1, sim_chance(500000) ? 3 * sim_net.latency_max_ns : 5 * SIM_MS));
	if (sim_chance(700000))
		handle_close(raw);
	else if (sim_chance(500000))
		raw->again = raw->handle;
	raw->handle = 0;
	raw->open_at_ns = 0;
	sim_raw_manage(raw);
}

static void mischief_list(struct sim_raw_initiator *raw)
{
	struct sim_wire_connection *connection = sim_raw_live(raw, true);
	struct sim_control *control =
		connection ? sim_control_new(raw, connection, RBLK_OP_LIST, SIM_ANSWERS_WELL) : NULL;

	if (!control)
		return;
	control->order.command.lba = rblk_to_le64(sim_below(4));
	sim_control_report(control, connection,
			   (uint32_t)sim_between(1, 4) * (uint32_t)sizeof(struct rblk_wire_volume));
	sim_control_send(control, connection);
}

/* What the volume has, or will have when it has grown, which it may since it was opened. */
static uint64_t blocks_at_most(const struct sim_raw_initiator *raw)
{
	const struct sim_disk *disk = raw->host->disks[raw->volume];

	return disk ? disk->full_bytes / raw->block_bytes : raw->blocks;
}

/* Block commands that must be refused, each for its reason; and a question that must not be. */
static void mischief_refused(struct sim_raw_initiator *raw, struct sim_wire_connection *connection)
{
	static const struct {
		uint8_t opcode;
		enum rblk_status status;
	} kinds[] = {
		{RBLK_OP_READ, RBLK_E_RANGE},	  {RBLK_OP_READ, RBLK_E_INVALID},
		{RBLK_OP_READ, RBLK_E_NO_VOLUME}, {RBLK_OP_RESERVATIONS, RBLK_OK},
		{RBLK_OP_DISCARD, RBLK_E_RANGE},
	};
	unsigned int kind = (unsigned int)sim_below(sizeof(kinds) / sizeof(kinds[0]));
	uint32_t expected = SIM_ANSWERS_ALWAYS | 1u << kinds[kind].status;
	struct rblk_wire_command *command;
	struct sim_control *control;

	if (!raw->handle)
		return;
	/* Its handle may be closed by then. */
	expected |= 1u << RBLK_E_NO_VOLUME;
	if (kinds[kind].opcode == RBLK_OP_DISCARD)
		expected |= 1u << RBLK_E_UNSUPPORTED;
	control = sim_control_new(raw, connection, kinds[kind].opcode, expected);
	if (!control)
		return;
	command = &control->order.command;
	command->volume = rblk_to_le32(raw->handle);
	if (kinds[kind].opcode == RBLK_OP_READ || kinds[kind].opcode == RBLK_OP_DISCARD)
		command->blocks = rblk_to_le32(1);
	if (kinds[kind].opcode == RBLK_OP_DISCARD)
		command->blocks = rblk_to_le32(UINT32_MAX);
	else
		sim_control_report(control, connection,
				   kinds[kind].status == RBLK_E_INVALID ? raw->block_bytes * 2
									: raw->block_bytes);
	if (kinds[kind].status == RBLK_E_RANGE)
		command->lba = rblk_to_le64(blocks_at_most(raw));
	/* The slot of another, or the same by another connection. */
	if (kinds[kind].status == RBLK_E_NO_VOLUME) {
		uint32_t wrong =
			raw->handle ^ (sim_chance(500000) ? 1 : 1024u << sim_below(20));

		/* 0 is no handle at all, and breaks the protocol. */
		command->volume = rblk_to_le32(wrong ? wrong : raw->handle ^ 2);
	}
	sim_control_send(control, connection);
}

/* Of the whole volume, in pieces; with an ABORT right behind it, sometimes. */
static void mischief_checksum(struct sim_raw_initiator *raw, struct sim_wire_connection *connection)
{
	uint32_t expected = SIM_ANSWERS_WELL | 1u << RBLK_E_NO_VOLUME | 1u << RBLK_E_IO |
			    1u << RBLK_E_MEDIUM | 1u << RBLK_E_ABORTED;
	struct sim_control *control, *abort;

	if (!raw->handle)
		return;
	control = sim_control_new(raw, connection, RBLK_OP_CHECKSUM, expected);
	if (!control)
		return;
	control->order.command.volume = rblk_to_le32(raw->handle);
	control->order.command.blocks = rblk_to_le32((uint32_t)raw->blocks);
	sim_control_send(control, connection);
	abort = sim_chance(500000)
			? sim_control_new(raw, connection, RBLK_OP_ABORT, SIM_ANSWERS_WELL)
			: NULL;
	if (!abort)
		return;
	abort->order.command.lba = rblk_to_le64(control->order.sequence);
	abort->other = control;
	control->other = abort;
	sim_control_send(abort, connection);
}

/* Where is data, in any range? */
static void mischief_extents(struct sim_raw_initiator *raw, struct sim_wire_connection *connection)
{
	uint32_t expected = SIM_ANSWERS_WELL | 1u << RBLK_E_NO_VOLUME | 1u << RBLK_E_IO;
	struct sim_control *control;
	uint64_t lba;

	if (!raw->handle || !(connection->features & RBLK_FEATURE_EXTENTS))
		return;
	control = sim_control_new(raw, connection, RBLK_OP_EXTENTS, expected);
	if (!control)
		return;
	lba = sim_below(raw->blocks);
	control->order.command.volume = rblk_to_le32(raw->handle);
	control->order.command.lba = rblk_to_le64(lba);
	control->order.command.blocks =
		rblk_to_le32((uint32_t)sim_between(1, raw->blocks - lba));
	sim_control_report(control, connection,
			   (uint32_t)sim_between(1, 16) *
				   (uint32_t)sizeof(struct rblk_wire_extent));
	control->command = sim_model_look(raw->host->volumes[raw->volume]);
	sim_control_send(control, connection);
}

static void mischief_simple(struct sim_raw_initiator *raw, struct sim_wire_connection *connection, uint8_t opcode)
{
	struct sim_control *control = sim_control_new(raw, connection, opcode, SIM_ANSWERS_WELL);

	if (control)
		sim_control_send(control, connection);
}

/* Each as likely as it is often here. */
static const enum sim_mischief mischiefs[] = {
	SIM_MISCHIEF_SUPERSEDE, SIM_MISCHIEF_SUPERSEDE, SIM_MISCHIEF_FENCE,
	SIM_MISCHIEF_FENCE,	SIM_MISCHIEF_RENEW,	SIM_MISCHIEF_RENEW,
	SIM_MISCHIEF_HANG_UP,	SIM_MISCHIEF_PROBE,	SIM_MISCHIEF_PROBE_COUNT,
	SIM_MISCHIEF_ABORT,	SIM_MISCHIEF_ABORT,	SIM_MISCHIEF_ABORT,
	SIM_MISCHIEF_CLOSE,	SIM_MISCHIEF_CLOSE,	SIM_MISCHIEF_CLOSE,
	SIM_MISCHIEF_CLOSE,	SIM_MISCHIEF_REOPEN,	SIM_MISCHIEF_REOPEN,
	SIM_MISCHIEF_REOPEN,	SIM_MISCHIEF_REOPEN,	SIM_MISCHIEF_REOPEN,
	SIM_MISCHIEF_LIST,	SIM_MISCHIEF_REFUSED,	SIM_MISCHIEF_REFUSED,
	SIM_MISCHIEF_RESTART,	SIM_MISCHIEF_RESTART,	SIM_MISCHIEF_CHECKSUM,
	SIM_MISCHIEF_EXTENTS,	SIM_MISCHIEF_SIMPLE,
};

/* One of those that this raw initiator does. False: none was found. */
static bool mischief_choose(const struct sim_raw_initiator *raw, enum sim_mischief *mischief)
{
	for (unsigned int tries = 0; tries < 32; tries++) {
		*mischief = mischiefs[sim_below(sizeof(mischiefs) / sizeof(mischiefs[0]))];
		if (raw->mischiefs & 1u << *mischief)
			return true;
	}
	return false;
}

static void mischief_probe(struct sim_raw_initiator *raw)
{
	bool old_epoch = sim_chance(500000);

	/* There must have been an epoch before. */
	if (old_epoch && raw->epoch == 1)
		sim_raw_renew(raw);
	else
		sim_raw_probe(raw, old_epoch);
}

void sim_raw_mischief(struct sim_raw_initiator *raw)
{
	struct sim_wire_connection *connection = sim_raw_live(raw, false);
	enum sim_mischief mischief;

	if (!connection || !mischief_choose(raw, &mischief))
		return;
	/* In the middle of what it has just been asked for. */
	if (connection->order_count && sim_chance(500000))
		sim_fiber_sleep(sim_below(4 * sim_net.latency_max_ns));
	switch (mischief) {
	case SIM_MISCHIEF_SUPERSEDE:
		raw->slots[connection->queue].supersede = true;
		break;
	case SIM_MISCHIEF_FENCE:
		mischief_fence(raw, connection);
		break;
	case SIM_MISCHIEF_RENEW:
		sim_raw_renew(raw);
		break;
	case SIM_MISCHIEF_HANG_UP:
		sim_wire_connection_close(connection, sim_chance(500000));
		break;
	case SIM_MISCHIEF_PROBE:
		mischief_probe(raw);
		break;
	case SIM_MISCHIEF_PROBE_COUNT:
		sim_raw_probe_count(raw);
		break;
	case SIM_MISCHIEF_ABORT:
		mischief_abort(raw, connection);
		break;
	case SIM_MISCHIEF_CLOSE:
		mischief_close(raw);
		break;
	case SIM_MISCHIEF_REOPEN:
		mischief_reopen(raw);
		break;
	case SIM_MISCHIEF_LIST:
		mischief_list(raw);
		break;
	case SIM_MISCHIEF_REFUSED:
		mischief_refused(raw, connection);
		break;
	case SIM_MISCHIEF_RESTART:
		sim_raw_restart(raw);
		break;
	case SIM_MISCHIEF_CHECKSUM:
		mischief_checksum(raw, connection);
		break;
	case SIM_MISCHIEF_EXTENTS:
		mischief_extents(raw, connection);
		break;
	case SIM_MISCHIEFS:
		break;
	case SIM_MISCHIEF_SIMPLE:
		mischief_simple(raw, connection,
				sim_chance(500000) ? RBLK_OP_PING : RBLK_OP_KEEPALIVE);
		break;
	}
}
