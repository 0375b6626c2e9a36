/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The survivor's RESERVEs and RESERVATIONS, one at a time: sent again behind the fence when their
 * connection was lost, with the number that they had (F8). What they change is reservation.h's.
 * Called by survivor.c in each turn; in worlds that have reservations.
 */
#include "tests/sim/survivor.h"

#include <string.h>
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/inside.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

#define KEYS 2u
#define AGAIN_NS (20 * SIM_MS)

static struct sim_reservation *reservation_of(const struct sim_survivor *survivor)
{
	return &survivor->host->reservations[survivor->volume];
}

static bool is_report(const struct sim_reserve *reserve)
{
	return reserve->order.command.opcode == RBLK_OP_RESERVATIONS;
}

static void reserve_trace(const struct sim_survivor *survivor, const char *what)
{
	const struct rblk_wire_reservation *asked = &survivor->reserve.asked;

	sim_trace(survivor->actor.name,
		  "RESERVE %s: action %u type %u flags 0x%x key %llu new %llu other %llu", what,
		  asked->action, asked->type, asked->flags,
		  (unsigned long long)rblk_le64(asked->key),
		  (unsigned long long)rblk_le64(asked->new_key),
		  (unsigned long long)rblk_le64(asked->other_key));
}

/* -- answers ------------------------------------------------------------------------------- */

static void reserve_learn(struct sim_survivor *survivor, uint16_t status)
{
	const struct rblk_wire_reservation *asked = &survivor->reserve.asked;

	survivor->refused = status == RBLK_E_RESERVED;
	if (status)
		return;
	if (asked->action == RBLK_RESERVE_REGISTER)
		survivor->key = rblk_le64(asked->new_key);
	if (asked->action == RBLK_RESERVE_CLEAR)
		survivor->key = 0;
	survivor->released |=
		survivor->calm && asked->action == RBLK_RESERVE_REGISTER && !asked->new_key;
}

static void reserve_answered(struct sim_survivor *survivor, uint16_t status)
{
	static const char *const actions[] = {"",	 "REGISTER", "ACQUIRE",
					      "RELEASE", "PREEMPT",  "CLEAR"};
	struct sim_reserve *reserve = &survivor->reserve;
	struct sim_reservation *reservation = reservation_of(survivor);

	reserve_trace(survivor, rblk_status_text(status));
	sim_reached("RESERVE", actions[reserve->asked.action], rblk_status_text(status));
	if (!sim_reservation_answered(reservation, survivor->actor.name, &reserve->asked,
				      reserve->lost_once, status))
		sim_fail("%s: RESERVE is answered: %s, which it cannot be", survivor->actor.name,
			 rblk_status_text(status));
	reserve_learn(survivor, status);
	if (status == RBLK_OK && sim_reservation_is_sure(reservation) && reservation->awaited)
		sim_inside_reserved(survivor->host, survivor->volume,
				    reserve->asked.flags & RBLK_RESERVE_ABORT &&
					    reserve->asked.action == RBLK_RESERVE_PREEMPT);
}

static void report_answered(struct sim_survivor *survivor, uint16_t status)
{
	const struct rblk_wire_reservation_report *report =
		(const void *)survivor->memory->reserve_report;

	if (status)
		return;
	if (rblk_check_reservation_report(report,
					  (size_t)rblk_le64(survivor->reserve.order.answer.result)))
		sim_fail("%s: a report of reservations that makes no sense", survivor->actor.name);
	if (!sim_reservation_reported(reservation_of(survivor), survivor->reserve.serial, report))
		sim_fail("%s: the report of reservations is not what was changed",
			 survivor->actor.name);
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
	reserve->not_before_ns = sim_now_ns() + sim_between(SIM_US, AGAIN_NS);
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
		reserve_answered(survivor, status);
}

void sim_reserve_abandon(struct sim_survivor *survivor)
{
	struct sim_reserve *reserve = &survivor->reserve;

	if (reserve->state != SIM_ERRAND_FREE && !is_report(reserve)) {
		reserve_trace(survivor, "is lost");
		sim_reservation_lost(reservation_of(survivor));
	}
	reserve->state = SIM_ERRAND_FREE;
}

/* -- choosing ------------------------------------------------------------------------------ */

static uint8_t any_type(void)
{
	return (uint8_t)sim_between(RBLK_RESERVATION_WRITE_EXCLUSIVE,
				    RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL);
}

static void choose_register(const struct sim_survivor *survivor,
			    struct rblk_wire_reservation *asked)
{
	asked->action = RBLK_RESERVE_REGISTER;
	asked->new_key =
		rblk_to_le64(survivor->calm || sim_chance(100000) ? 0 : sim_between(1, KEYS));
	if (survivor->preempts && asked->new_key)
		asked->new_key = rblk_to_le64(1 + survivor->actor.machine % KEYS);
	if (survivor->calm || survivor->refused || sim_chance(300000))
		asked->flags |= RBLK_RESERVE_IGNORE_KEY;
	if (survivor->volume_flags & RBLK_VOLUME_RESERVATIONS_PERSIST && sim_chance(600000))
		asked->flags |= sim_chance(700000) ? RBLK_RESERVE_PERSIST : RBLK_RESERVE_VOLATILE;
}

static void choose_preempt(const struct sim_survivor *survivor, struct rblk_wire_reservation *asked)
{
	asked->action = RBLK_RESERVE_PREEMPT;
	asked->type = any_type();
	asked->other_key = rblk_to_le64(sim_chance(150000) ? 0 : sim_between(1, KEYS));
	if (survivor->preempts) {
		asked->type = RBLK_RESERVATION_EXCLUSIVE_ACCESS;
		asked->other_key = rblk_to_le64(KEYS + 1 - survivor->key);
	}
	asked->flags = survivor->preempts || sim_chance(500000) ? RBLK_RESERVE_ABORT : 0;
}

static void reserve_choose(struct sim_survivor *survivor)
{
	struct rblk_wire_reservation *asked = &survivor->reserve.asked;

	memset(asked, 0, sizeof(*asked));
	asked->key = rblk_to_le64(sim_chance(20000) ? sim_between(0, KEYS) : survivor->key);
	switch (survivor->calm || survivor->refused || !survivor->key ? 0 : sim_below(10)) {
	case 0:
		choose_register(survivor, asked);
		break;
	case 1:
	case 2:
	case 3:
		asked->action = RBLK_RESERVE_ACQUIRE;
		asked->type = any_type();
		break;
	case 4:
		asked->action = RBLK_RESERVE_RELEASE;
		asked->type = sim_chance(700000) ? RBLK_RESERVATION_NONE : any_type();
		break;
	case 5:
		asked->action = RBLK_RESERVE_CLEAR;
		break;
	default:
		choose_preempt(survivor, asked);
		break;
	}
}

static void reserve_begin(struct sim_survivor *survivor)
{
	struct sim_reserve *reserve = &survivor->reserve;
	bool report =
		!survivor->calm && sim_chance(reservation_of(survivor)->unknown ? 700000 : 100000);

	memset(reserve, 0, sizeof(*reserve));
	reserve->survivor = survivor;
	reserve->order.done = on_done;
	reserve->order.reserved_tag = true;
	reserve->order.command.opcode = report ? RBLK_OP_RESERVATIONS : RBLK_OP_RESERVE;
	reserve->state = SIM_ERRAND_READY;
	if (report)
		return;
	reserve_choose(survivor);
	sim_reservation_sent(reservation_of(survivor));
	reserve_trace(survivor, "begins");
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
		reserve->serial = reservation_of(survivor)->serial;
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

/* Mostly when nobody else is about to: what comes of two at a time nobody can foretell. */
static bool reserve_wanted(const struct sim_survivor *survivor)
{
	if (sim_now_ns() < survivor->reserve.not_before_ns || !survivor->named)
		return false;
	if (survivor->calm)
		return !survivor->released;
	return sim_chance(reservation_of(survivor)->under_way ? survivor->reserves / 10
							      : survivor->reserves);
}

void sim_survivor_reserve(struct sim_survivor *survivor)
{
	struct sim_reserve *reserve = &survivor->reserve;

	if (!survivor->reserves)
		return;
	/* Its epoch is over: nobody can tell what became of it. */
	if ((reserve->state == SIM_ERRAND_LOST || reserve->state == SIM_ERRAND_READY) &&
	    reserve->lost_once && reserve->epoch != survivor->epoch)
		sim_reserve_abandon(survivor);
	if (reserve->state == SIM_ERRAND_FREE && reserve_wanted(survivor))
		reserve_begin(survivor);
	reserve_send(survivor);
}

/* -- what others are told ------------------------------------------------------------------ */

void sim_reserve_begins(struct sim_errand *errand)
{
	const struct sim_survivor *survivor = errand->survivor;
	const struct sim_reservation *reservation = reservation_of(survivor);

	errand->reservation = survivor->reserves && survivor->named && !errand->zombie &&
					      sim_reservation_is_sure(reservation)
				      ? reservation->serial + 1
				      : 0;
}

void sim_reserve_judge(const struct sim_errand *errand, uint16_t status)
{
	const struct sim_survivor *survivor = errand->survivor;
	const struct sim_reservation *reservation = reservation_of(survivor);
	enum sim_right right = errand->kind == SIM_COMMAND_READ ? SIM_RIGHT_READ : SIM_RIGHT_WRITE;
	bool allowed = sim_reservation_allows(reservation, survivor->actor.name, right);

	if (status == RBLK_E_RESERVED && !survivor->reserves)
		sim_fail("%s: #%u: refused by a reservation, and there are none",
			 survivor->actor.name, errand->number);
	/* The first attempt's answer may be of another time (F8). */
	if (errand->reservation != reservation->serial + 1 ||
	    (errand->lost_once && errand->kind == SIM_COMMAND_COMPARE))
		return;
	if (status == RBLK_E_RESERVED && allowed)
		sim_fail("%s: #%u: refused by a reservation that allows it", survivor->actor.name,
			 errand->number);
	if (status == RBLK_OK && !allowed)
		sim_fail("%s: #%u: done, and a reservation does not allow it", survivor->actor.name,
			 errand->number);
	if (!allowed)
		sim_reached("reservation", "is in force", "and refuses");
}
