/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The raw initiator's RESERVEs and RESERVATIONS, one at a time: sent again behind the fence when their
 * connection was lost, with the number that they had (F8). reserver.h has what they ask for.
 * Called by raw_initiator.c in each turn; in worlds that have reservations.
 */
#include "tests/sim/raw_initiator.h"

#include <string.h>
#include "proto/wire/wire_check.h"
#include "tests/sim/trace.h"

static struct sim_reservation *reservation_of(const struct sim_raw_initiator *raw)
{
	return &raw->host->reservations[raw->volume];
}

static bool is_report(const struct sim_reserve *reserve)
{
	return reserve->order.command.opcode == RBLK_OP_RESERVATIONS;
}

/* -- answers ------------------------------------------------------------------------------- */

static void report_answered(struct sim_raw_initiator *raw, uint16_t status)
{
	const struct rblk_wire_reservation_report *report =
		(const void *)raw->memory->reserve_report;

	if (status)
		return;
	if (rblk_check_reservation_report(report,
					  (size_t)rblk_le64(raw->reserve.order.answer.result)))
		sim_fail("%s: a report of reservations that makes no sense", raw->actor.name);
	sim_reserver_reported(&raw->reserver, raw->reserve.serial, report);
}

static void on_done(struct sim_order *order, bool answered)
{
	struct sim_reserve *reserve = (struct sim_reserve *)order;
	struct sim_raw_initiator *raw = reserve->raw;
	uint16_t status = rblk_le16(order->answer.status);

	if (!answered && !is_report(reserve)) {
		reserve->lost_once = true;
		reserve->state = SIM_RAW_REQUEST_LOST;
		return;
	}
	reserve->state = SIM_RAW_REQUEST_FREE;
	sim_reserver_pause(&raw->reserver);
	if (!answered)
		return;
	/* To be opened again, as it is now. */
	if (status == RBLK_E_GONE && rblk_le32(order->command.volume) == raw->handle)
		raw->handle = 0;
	if (status == RBLK_E_DENIED)
		sim_fail("%s: RESERVE is denied, and it has a name", raw->actor.name);
	if (is_report(reserve))
		report_answered(raw, status);
	else
		sim_reserver_answered(&raw->reserver, &reserve->asked, reserve->lost_once,
				      status);
}

void sim_reserve_abandon(struct sim_raw_initiator *raw, uint32_t session)
{
	struct sim_reserve *reserve = &raw->reserve;

	if (reserve->state != SIM_RAW_REQUEST_FREE && !is_report(reserve))
		sim_reserver_lost(&raw->reserver, &reserve->asked, session);
	reserve->state = SIM_RAW_REQUEST_FREE;
}

/* -- beginning ----------------------------------------------------------------------------- */

static void reserve_begin(struct sim_raw_initiator *raw)
{
	struct sim_reserve *reserve = &raw->reserve;
	bool report = sim_reserver_looks(&raw->reserver);

	memset(reserve, 0, sizeof(*reserve));
	reserve->raw = raw;
	reserve->order.done = on_done;
	reserve->order.reserved_tag = true;
	reserve->order.command.opcode = report ? RBLK_OP_RESERVATIONS : RBLK_OP_RESERVE;
	reserve->state = SIM_RAW_REQUEST_READY;
	if (!report)
		sim_reserver_begin(&raw->reserver, &reserve->asked);
}

/* -- sending ------------------------------------------------------------------------------- */

/* F5, F8. */
static bool reserve_may_go(struct sim_raw_initiator *raw)
{
	struct sim_reserve *reserve = &raw->reserve;

	if (reserve->state == SIM_RAW_REQUEST_LOST &&
	    reserve->incarnation > raw->slots[reserve->queue].fenced)
		return false;
	if (reserve->state != SIM_RAW_REQUEST_READY && reserve->state != SIM_RAW_REQUEST_LOST)
		return false;
	if (!is_report(reserve) && (!reserve->operation || reserve->epoch != raw->epoch))
		reserve->operation = sim_raw_operation(raw);
	return is_report(reserve) || reserve->operation;
}

static void reserve_payload(struct sim_raw_initiator *raw, const struct sim_wire_connection *connection)
{
	struct sim_order *order = &raw->reserve.order;
	uint8_t *payload = raw->memory->reserve_payload;

	memset(payload, 0, RBLK_CAPSULE_ALIGN);
	memcpy(payload, &raw->reserve.asked, sizeof(raw->reserve.asked));
	order->capsule = payload;
	order->capsule_bytes = RBLK_CAPSULE_ALIGN;
	order->capsule_lkey = fab_mr_lkey(raw->memory_mr, fab_conn_device(connection->conn));
}

static void reserve_encode(struct sim_raw_initiator *raw, const struct sim_wire_connection *connection)
{
	struct sim_reserve *reserve = &raw->reserve;
	struct rblk_wire_command *command = &reserve->order.command;
	uint8_t opcode = command->opcode;

	memset(command, 0, sizeof(*command));
	command->opcode = opcode;
	command->volume = rblk_to_le32(raw->handle);
	if (is_report(reserve)) {
		command->segment.address =
			rblk_to_le64((uintptr_t)raw->memory->reserve_report);
		command->segment.rkey =
			rblk_to_le32(fab_mr_rkey(raw->memory_mr, fab_conn_device(connection->conn)));
		command->segment.length = rblk_to_le32(sizeof(raw->memory->reserve_report));
		reserve->serial = sim_reservation_serial(reservation_of(raw));
		return;
	}
	command->flags = RBLK_CMD_CAPSULE | (reserve->lost_once ? RBLK_CMD_RETRY : 0);
	command->argument = rblk_to_le64(reserve->operation);
	command->segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
}

static void reserve_send(struct sim_raw_initiator *raw)
{
	struct sim_wire_connection *connection = sim_raw_live(raw, false);
	struct sim_reserve *reserve = &raw->reserve;

	if (!connection || !raw->handle || !raw->named || !reserve_may_go(raw))
		return;
	if (!is_report(reserve))
		reserve_payload(raw, connection);
	if (!sim_wire_connection_room(connection, &reserve->order))
		return;
	reserve_encode(raw, connection);
	reserve->state = SIM_RAW_REQUEST_SENT;
	reserve->epoch = connection->epoch;
	reserve->queue = connection->queue;
	reserve->incarnation = connection->incarnation;
	sim_wire_connection_add(connection, &reserve->order);
	sim_wire_connection_send(connection);
}

void sim_raw_reserve(struct sim_raw_initiator *raw)
{
	struct sim_reserve *reserve = &raw->reserve;
	struct sim_reserver *reserver = &raw->reserver;

	if (!reserver->often)
		return;
	reserver->name = raw->actor.name;
	reserver->machine = raw->actor.machine;
	reserver->host = raw->host;
	reserver->volume = raw->volume;
	reserver->calm = raw->calm;
	reserver->persists = raw->volume_flags & RBLK_VOLUME_RESERVATIONS_PERSIST;
	/* Its epoch is over: nobody can tell what became of it, and nothing more will. */
	if ((reserve->state == SIM_RAW_REQUEST_LOST || reserve->state == SIM_RAW_REQUEST_READY) &&
	    reserve->lost_once && reserve->epoch != raw->epoch)
		sim_reserve_abandon(raw, 0);
	if (reserve->state == SIM_RAW_REQUEST_FREE && raw->named &&
	    sim_reserver_wants(reserver))
		reserve_begin(raw);
	reserve_send(raw);
}

/* -- what others are told ------------------------------------------------------------------ */

void sim_reserve_begins(struct sim_raw_request *request)
{
	const struct sim_raw_initiator *raw = request->raw;

	request->reservation = raw->reserver.often && raw->named && !request->zombie
				       ? sim_reserver_moment(raw->host, raw->volume)
				       : 0;
}

void sim_reserve_judge(const struct sim_raw_request *request, uint16_t status)
{
	const struct sim_raw_initiator *raw = request->raw;

	if (status == RBLK_E_RESERVED && !raw->reserver.often)
		sim_fail("%s: #%u: refused by a reservation, and there are none",
			 raw->actor.name, request->number);
	/* The first attempt's answer may be of another time (F8). */
	if (!request->lost_once || request->kind != SIM_COMMAND_COMPARE)
		sim_reserver_judge(raw->host, raw->volume, request->reservation,
				   raw->actor.name, request->number, request->kind, status);
}
