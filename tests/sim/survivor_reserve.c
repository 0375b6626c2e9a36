/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The survivor's RESERVEs and RESERVATIONS, one at a time: sent again behind the fence when their
 * connection was lost, with the number that they had (F8). What they ask for is reserver.h's.
 * Called by survivor.c in each turn; in worlds that have reservations.
 */
#include "tests/sim/survivor.h"

#include <string.h>
#include "proto/wire/wire_check.h"
#include "tests/sim/trace.h"

static struct sim_reservation *reservation_of(const struct sim_survivor *survivor)
{
	return &survivor->host->reservations[survivor->volume];
}

static bool is_report(const struct sim_reserve *reserve)
{
	return reserve->order.command.opcode == RBLK_OP_RESERVATIONS;
}

/* -- answers ------------------------------------------------------------------------------- */

static void report_answered(struct sim_survivor *survivor, uint16_t status)
{
	const struct rblk_wire_reservation_report *report =
		(const void *)survivor->memory->reserve_report;

	if (status)
		return;
	if (rblk_check_reservation_report(report,
					  (size_t)rblk_le64(survivor->reserve.order.answer.result)))
		sim_fail("%s: a report of reservations that makes no sense", survivor->actor.name);
	sim_reserver_reported(&survivor->reserver, survivor->reserve.serial, report);
}

static void on_done(struct sim_order *order, bool answered)
{
	struct sim_reserve *reserve = (struct sim_reserve *)order;
	struct sim_survivor *survivor = reserve->survivor;
	uint16_t status = rblk_le16(order->answer.status);

	if (!answered && !is_report(reserve)) {
		reserve->lost_once = true;
		reserve->state = SIM_ERRAND_LOST;
		return;
	}
	reserve->state = SIM_ERRAND_FREE;
	sim_reserver_pause(&survivor->reserver);
	if (!answered)
		return;
	/* To be opened again, as it is now. */
	if (status == RBLK_E_GONE && rblk_le32(order->command.volume) == survivor->handle)
		survivor->handle = 0;
	if (status == RBLK_E_DENIED)
		sim_fail("%s: RESERVE is denied, and it has a name", survivor->actor.name);
	if (is_report(reserve))
		report_answered(survivor, status);
	else
		sim_reserver_answered(&survivor->reserver, &reserve->asked, reserve->lost_once,
				      status);
}

void sim_reserve_abandon(struct sim_survivor *survivor)
{
	struct sim_reserve *reserve = &survivor->reserve;

	if (reserve->state != SIM_ERRAND_FREE && !is_report(reserve))
		sim_reserver_lost(&survivor->reserver, &reserve->asked, 0);
	reserve->state = SIM_ERRAND_FREE;
}

/* -- beginning ----------------------------------------------------------------------------- */

static void reserve_begin(struct sim_survivor *survivor)
{
	struct sim_reserve *reserve = &survivor->reserve;
	bool report = sim_reserver_looks(&survivor->reserver);

	memset(reserve, 0, sizeof(*reserve));
	reserve->survivor = survivor;
	reserve->order.done = on_done;
	reserve->order.reserved_tag = true;
	reserve->order.command.opcode = report ? RBLK_OP_RESERVATIONS : RBLK_OP_RESERVE;
	reserve->state = SIM_ERRAND_READY;
	if (!report)
		sim_reserver_begin(&survivor->reserver, &reserve->asked);
}

/* -- sending ------------------------------------------------------------------------------- */

/* F5, F8. */
static bool reserve_may_go(struct sim_survivor *survivor)
{
	struct sim_reserve *reserve = &survivor->reserve;

	if (reserve->state == SIM_ERRAND_LOST &&
	    reserve->incarnation > survivor->places[reserve->queue].fenced)
		return false;
	if (reserve->state != SIM_ERRAND_READY && reserve->state != SIM_ERRAND_LOST)
		return false;
	if (!is_report(reserve) && (!reserve->operation || reserve->epoch != survivor->epoch))
		reserve->operation = sim_survivor_operation(survivor);
	return is_report(reserve) || reserve->operation;
}

static void reserve_payload(struct sim_survivor *survivor, const struct sim_life *life)
{
	struct sim_order *order = &survivor->reserve.order;
	uint8_t *payload = survivor->memory->reserve_payload;

	memset(payload, 0, RBLK_CAPSULE_ALIGN);
	memcpy(payload, &survivor->reserve.asked, sizeof(survivor->reserve.asked));
	order->capsule = payload;
	order->capsule_bytes = RBLK_CAPSULE_ALIGN;
	order->capsule_lkey = fab_mr_lkey(survivor->memory_mr, fab_conn_device(life->conn));
}

static void reserve_encode(struct sim_survivor *survivor, const struct sim_life *life)
{
	struct sim_reserve *reserve = &survivor->reserve;
	struct rblk_wire_command *command = &reserve->order.command;
	uint8_t opcode = command->opcode;

	memset(command, 0, sizeof(*command));
	command->opcode = opcode;
	command->volume = rblk_to_le32(survivor->handle);
	if (is_report(reserve)) {
		command->segment.address =
			rblk_to_le64((uintptr_t)survivor->memory->reserve_report);
		command->segment.rkey =
			rblk_to_le32(fab_mr_rkey(survivor->memory_mr, fab_conn_device(life->conn)));
		command->segment.length = rblk_to_le32(sizeof(survivor->memory->reserve_report));
		reserve->serial = sim_reservation_serial(reservation_of(survivor));
		return;
	}
	command->flags = RBLK_CMD_CAPSULE | (reserve->lost_once ? RBLK_CMD_RETRY : 0);
	command->argument = rblk_to_le64(reserve->operation);
	command->segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
}

static void reserve_send(struct sim_survivor *survivor)
{
	struct sim_life *life = sim_survivor_live(survivor, false);
	struct sim_reserve *reserve = &survivor->reserve;

	if (!life || !survivor->handle || !survivor->named || !reserve_may_go(survivor))
		return;
	if (!is_report(reserve))
		reserve_payload(survivor, life);
	if (!sim_life_room(life, &reserve->order))
		return;
	reserve_encode(survivor, life);
	reserve->state = SIM_ERRAND_SENT;
	reserve->epoch = life->epoch;
	reserve->queue = life->queue;
	reserve->incarnation = life->incarnation;
	sim_life_add(life, &reserve->order);
	sim_life_send(life);
}

void sim_survivor_reserve(struct sim_survivor *survivor)
{
	struct sim_reserve *reserve = &survivor->reserve;
	struct sim_reserver *reserver = &survivor->reserver;

	if (!reserver->often)
		return;
	reserver->name = survivor->actor.name;
	reserver->machine = survivor->actor.machine;
	reserver->host = survivor->host;
	reserver->volume = survivor->volume;
	reserver->calm = survivor->calm;
	reserver->persists = survivor->volume_flags & RBLK_VOLUME_RESERVATIONS_PERSIST;
	/* Its epoch is over: nobody can tell what became of it. */
	if ((reserve->state == SIM_ERRAND_LOST || reserve->state == SIM_ERRAND_READY) &&
	    reserve->lost_once && reserve->epoch != survivor->epoch)
		sim_reserve_abandon(survivor);
	if (reserve->state == SIM_ERRAND_FREE && survivor->named &&
	    sim_reserver_wants(reserver))
		reserve_begin(survivor);
	reserve_send(survivor);
}

/* -- what others are told ------------------------------------------------------------------ */

void sim_reserve_begins(struct sim_errand *errand)
{
	const struct sim_survivor *survivor = errand->survivor;

	errand->reservation = survivor->reserver.often && survivor->named && !errand->zombie
				      ? sim_reserver_moment(survivor->host, survivor->volume)
				      : 0;
}

void sim_reserve_judge(const struct sim_errand *errand, uint16_t status)
{
	const struct sim_survivor *survivor = errand->survivor;

	if (status == RBLK_E_RESERVED && !survivor->reserver.often)
		sim_fail("%s: #%u: refused by a reservation, and there are none",
			 survivor->actor.name, errand->number);
	/* The first attempt's answer may be of another time (F8). */
	if (!errand->lost_once || errand->kind != SIM_COMMAND_COMPARE)
		sim_reserver_judge(survivor->host, survivor->volume, errand->reservation,
				   survivor->actor.name, errand->number, errand->kind, status);
}
