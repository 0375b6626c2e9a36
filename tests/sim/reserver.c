/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The choices and the checks of reserver.h. reservation.c knows what a volume's reservation is.
 */
#include "tests/sim/reserver.h"

#include <string.h>
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/rados.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

#define KEYS 2u
#define AGAIN_NS (20 * SIM_MS)

static struct sim_reservation *reservation_of(const struct sim_reserver *reserver)
{
	return &reserver->host->reservations[reserver->volume];
}

static void reserver_trace(const struct sim_reserver *reserver,
			   const struct rblk_wire_reservation *asked, const char *what)
{
	sim_trace(reserver->name,
		  "RESERVE %s: action %u type %u flags 0x%x key %llu new %llu other %llu", what,
		  asked->action, asked->type, asked->flags,
		  (unsigned long long)rblk_le64(asked->key),
		  (unsigned long long)rblk_le64(asked->new_key),
		  (unsigned long long)rblk_le64(asked->other_key));
}

/* -- choosing ------------------------------------------------------------------------------ */

static uint8_t any_type(void)
{
	return (uint8_t)sim_between(RBLK_RESERVATION_WRITE_EXCLUSIVE,
				    RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL);
}

static void choose_register(const struct sim_reserver *reserver,
			    struct rblk_wire_reservation *asked)
{
	asked->action = RBLK_RESERVE_REGISTER;
	asked->new_key =
		rblk_to_le64(reserver->calm || sim_chance(100000) ? 0 : sim_between(1, KEYS));
	if (reserver->preempts && asked->new_key)
		asked->new_key = rblk_to_le64(1 + reserver->machine % KEYS);
	if (reserver->calm || reserver->refused || sim_chance(300000))
		asked->flags |= RBLK_RESERVE_IGNORE_KEY;
	if (reserver->persists && sim_chance(600000))
		asked->flags |= sim_chance(700000) ? RBLK_RESERVE_PERSIST : RBLK_RESERVE_VOLATILE;
}

static void choose_preempt(const struct sim_reserver *reserver, struct rblk_wire_reservation *asked)
{
	asked->action = RBLK_RESERVE_PREEMPT;
	asked->type = any_type();
	asked->other_key = rblk_to_le64(sim_chance(150000) ? 0 : sim_between(1, KEYS));
	if (reserver->preempts) {
		asked->type = RBLK_RESERVATION_EXCLUSIVE_ACCESS;
		asked->other_key = rblk_to_le64(KEYS + 1 - reserver->key);
	}
	asked->flags = reserver->preempts || sim_chance(500000) ? RBLK_RESERVE_ABORT : 0;
}

static void choose(const struct sim_reserver *reserver, struct rblk_wire_reservation *asked)
{
	memset(asked, 0, sizeof(*asked));
	asked->key = rblk_to_le64(sim_chance(20000) ? sim_between(0, KEYS) : reserver->key);
	switch (reserver->calm || reserver->refused || !reserver->key ? 0 : sim_below(10)) {
	case 0:
		choose_register(reserver, asked);
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
		choose_preempt(reserver, asked);
		break;
	}
}

bool sim_reserver_looks(const struct sim_reserver *reserver)
{
	return !reserver->calm && sim_chance(reservation_of(reserver)->unknown ? 700000 : 100000);
}

/* Where gateways share it one may take seconds, and what is not known is to be known soon. */
static uint32_t often_now(const struct sim_reserver *reserver)
{
	const struct sim_reservation *reservation = reservation_of(reserver);

	if (reservation->under_way)
		return reserver->often / (reservation->shared ? 100 : 10);
	return reservation->shared && reservation->unknown ? 500000 : reserver->often;
}

/* Mostly when nobody else is about to: what comes of two at a time nobody can foretell. */
bool sim_reserver_wants(const struct sim_reserver *reserver)
{
	if (sim_now_ns() < reserver->not_before_ns)
		return false;
	/* What nobody heard of must not register it again. */
	if (reserver->calm) {
		sim_reservation_serial(reservation_of(reserver));
		return !reserver->released && !reservation_of(reserver)->ghost_count;
	}
	return sim_chance(often_now(reserver));
}

void sim_reserver_begin(struct sim_reserver *reserver, struct rblk_wire_reservation *asked)
{
	choose(reserver, asked);
	reserver->begun_ns = sim_now_ns();
	sim_reservation_sent(reservation_of(reserver), reserver->name, asked);
	reserver_trace(reserver, asked, "begins");
}

/* -- answers ------------------------------------------------------------------------------- */

static void reserver_learn(struct sim_reserver *reserver, const struct rblk_wire_reservation *asked,
			   uint16_t status)
{
	reserver->refused = status == RBLK_E_RESERVED;
	if (status)
		return;
	if (asked->action == RBLK_RESERVE_REGISTER)
		reserver->key = rblk_le64(asked->new_key);
	if (asked->action == RBLK_RESERVE_CLEAR)
		reserver->key = 0;
	reserver->released |=
		reserver->calm && asked->action == RBLK_RESERVE_REGISTER && !asked->new_key;
}

void sim_reserver_pause(struct sim_reserver *reserver)
{
	reserver->not_before_ns = sim_now_ns() + sim_between(SIM_US, AGAIN_NS);
}

void sim_reserver_answered(struct sim_reserver *reserver, const struct rblk_wire_reservation *asked,
			   bool retried, uint16_t status)
{
	static const char *const actions[] = {"",	 "REGISTER", "ACQUIRE",
					      "RELEASE", "PREEMPT",  "CLEAR"};
	struct sim_reservation *reservation = reservation_of(reserver);
	bool stale = sim_reserver_is_stale(reserver->host, reserver->begun_ns);

	reserver_trace(reserver, asked, rblk_status_text(status));
	sim_reached("RESERVE", actions[asked->action], rblk_status_text(status));
	if (!sim_reservation_answered(reservation, reserver->name, asked, retried, stale, status))
		sim_fail("%s: RESERVE is answered: %s, which it cannot be", reserver->name,
			 rblk_status_text(status));
	reserver_learn(reserver, asked, status);
	sim_whitebox_kept(reserver->host, reserver->volume, status == RBLK_OK && !reservation->at_risk);
	if (status == RBLK_OK && sim_reservation_is_sure(reservation) && reservation->awaited)
		sim_whitebox_reserved(reserver->host, reserver->volume,
				      asked->flags & RBLK_RESERVE_ABORT &&
					      asked->action == RBLK_RESERVE_PREEMPT);
}

void sim_reserver_lost(struct sim_reserver *reserver, const struct rblk_wire_reservation *asked,
		       uint32_t session)
{
	reserver_trace(reserver, asked, "is lost");
	sim_reservation_lost(reservation_of(reserver), session);
}

void sim_reserver_reported(const struct sim_reserver *reserver, uint64_t serial,
			   const struct rblk_wire_reservation_report *report)
{
	if (sim_reserver_is_stale(reserver->host, reserver->begun_ns))
		return;
	if (!sim_reservation_reported(reservation_of(reserver), serial, report))
		sim_fail("%s: the report of reservations is not what was changed", reserver->name);
	sim_whitebox_kept(reserver->host, reserver->volume, false);
}

/* -- what others are told ------------------------------------------------------------------ */

bool sim_reserver_is_stale(const struct sim_host *host, uint64_t begun_ns)
{
	return host->gateway && sim_rados_was_shut_out(begun_ns);
}

uint64_t sim_reserver_moment(const struct sim_host *host, unsigned int volume)
{
	const struct sim_reservation *reservation = &host->reservations[volume];

	return sim_reservation_is_sure(reservation) ? reservation->serial + 1 : 0;
}

static void judge_reached(uint8_t type, bool reads, bool allowed)
{
	static const char *const types[] = {
		[RBLK_RESERVATION_WRITE_EXCLUSIVE] = "WRITE_EXCLUSIVE",
		[RBLK_RESERVATION_EXCLUSIVE_ACCESS] = "EXCLUSIVE_ACCESS",
		[RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS] = "WRITE_EXCLUSIVE_REGISTRANTS",
		[RBLK_RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS] = "EXCLUSIVE_ACCESS_REGISTRANTS",
		[RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL] = "WRITE_EXCLUSIVE_ALL",
		[RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL] = "EXCLUSIVE_ACCESS_ALL",
	};
	static const char *const what[2][2] = {{"refuses to write", "allows to write"},
					       {"refuses to read", "allows to read"}};

	if (type)
		sim_reached("reservation in force", types[type], what[reads][allowed]);
}

void sim_reserver_judge(const struct sim_host *host, unsigned int volume, uint64_t moment,
			const char *name, unsigned int number, enum sim_command_kind kind,
			uint16_t status)
{
	const struct sim_reservation *reservation = &host->reservations[volume];
	bool allowed = sim_reservation_allows(
		reservation, name, kind == SIM_COMMAND_READ ? SIM_RIGHT_READ : SIM_RIGHT_WRITE);

	if (moment != reservation->serial + 1)
		return;
	if (status == RBLK_E_RESERVED && allowed)
		sim_fail("%s: #%u: refused by a reservation that allows it", name, number);
	if (status == RBLK_OK && !allowed)
		sim_fail("%s: #%u: done, and a reservation does not allow it", name, number);
	if (!allowed)
		sim_reached("reservation", "is in force", host->gateway ? "at a gateway, and refuses" : "and refuses");
	if (status == RBLK_OK || status == RBLK_E_RESERVED)
		judge_reached(reservation->now.type, kind == SIM_COMMAND_READ, allowed);
}
