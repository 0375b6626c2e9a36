/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tables of reservation.h: the specification's section 6.2 written a second time.
 */
#include "tests/sim/reservation.h"

#include <string.h>
#include "tests/sim/clock.h"
#include "tests/sim/coverage.h"
#include "tests/sim/model.h"
#include "tests/sim/trace.h"

static struct sim_registrant *registrant_of(struct sim_reservation_table *table, const char *name)
{
	for (unsigned int i = 0; i < table->count; i++)
		if (!strncmp(table->registrants[i].name, name, RBLK_NAME_BYTES))
			return &table->registrants[i];
	return NULL;
}

static bool all_hold(const struct sim_reservation_table *table)
{
	return table->type >= RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL;
}

static bool holds(const struct sim_reservation_table *table, const struct sim_registrant *own)
{
	return table->type && (all_hold(table) || own->holder);
}

static void table_free(struct sim_reservation_table *table)
{
	table->type = RBLK_RESERVATION_NONE;
	for (unsigned int i = 0; i < table->count; i++)
		table->registrants[i].holder = false;
}

static void table_take(struct sim_reservation_table *table, struct sim_registrant *own,
		       uint8_t type)
{
	table_free(table);
	table->type = type;
	own->holder = !all_hold(table);
}

static void table_remove(struct sim_reservation_table *table, struct sim_registrant *registrant)
{
	bool held = registrant->holder;

	*registrant = table->registrants[--table->count];
	if (held || !table->count)
		table_free(table);
}

/* -- actions: each is what a target answers ------------------------------------------------ */

static uint16_t do_register(struct sim_reservation_table *table, const char *name,
			    const struct rblk_wire_reservation *asked, bool retry)
{
	struct sim_registrant *own = registrant_of(table, name);
	uint64_t key = own ? own->key : 0, wanted = rblk_le64(asked->new_key);
	bool ignore = asked->flags & RBLK_RESERVE_IGNORE_KEY;

	if (key != rblk_le64(asked->key) && !ignore && !(retry && key == wanted))
		return RBLK_E_RESERVED;
	if (!own && !wanted)
		return ignore || retry ? RBLK_OK : RBLK_E_RESERVED;
	if (!own) {
		if (table->count == SIM_REGISTRANTS)
			sim_fail("more registrants than initiators");
		own = &table->registrants[table->count++];
		memset(own, 0, sizeof(*own));
		strncpy(own->name, name, sizeof(own->name) - 1);
	}
	if (wanted)
		own->key = wanted;
	else
		table_remove(table, own);
	if (asked->flags & (RBLK_RESERVE_PERSIST | RBLK_RESERVE_VOLATILE))
		table->persist = asked->flags & RBLK_RESERVE_PERSIST;
	return RBLK_OK;
}

static uint16_t do_preempt(struct sim_reservation_table *table, const char *name,
			   const struct rblk_wire_reservation *asked, bool retry)
{
	uint64_t other = rblk_le64(asked->other_key);
	bool all = all_hold(table) && !other, take = all, changed = all;
	struct sim_registrant *own = registrant_of(table, name);

	if (!other && !all)
		return retry ? RBLK_OK : RBLK_E_INVALID;
	if (own->holder && own->key == other)
		take = changed = true;
	for (unsigned int i = 0; i < table->count;) {
		struct sim_registrant *registrant = &table->registrants[i];

		if (!strcmp(registrant->name, name) || (!all && registrant->key != other)) {
			i++;
			continue;
		}
		changed = true;
		take |= registrant->holder;
		table_remove(table, registrant);
	}
	if (!changed)
		return retry ? RBLK_OK : RBLK_E_RESERVED;
	if (take)
		table_take(table, registrant_of(table, name), asked->type);
	return RBLK_OK;
}

static uint16_t do_any(struct sim_reservation_table *table, const char *name,
		       const struct rblk_wire_reservation *asked, bool retry)
{
	struct sim_registrant *own = registrant_of(table, name);

	if (asked->action == RBLK_RESERVE_REGISTER)
		return do_register(table, name, asked, retry);
	if (!own && retry && asked->action == RBLK_RESERVE_CLEAR)
		return RBLK_OK;
	if (!own || own->key != rblk_le64(asked->key))
		return RBLK_E_RESERVED;
	switch (asked->action) {
	case RBLK_RESERVE_ACQUIRE:
		if (table->type)
			return holds(table, own) && table->type == asked->type ? RBLK_OK
									       : RBLK_E_RESERVED;
		table_take(table, own, asked->type);
		return RBLK_OK;
	case RBLK_RESERVE_RELEASE:
		if (!holds(table, own))
			return RBLK_OK;
		if (asked->type && asked->type != table->type)
			return RBLK_E_INVALID;
		table_free(table);
		return RBLK_OK;
	case RBLK_RESERVE_PREEMPT:
		return do_preempt(table, name, asked, retry);
	case RBLK_RESERVE_CLEAR:
		table_free(table);
		table->count = 0;
		return RBLK_OK;
	}
	return RBLK_E_INVALID;
}

static bool table_allows(const struct sim_reservation_table *given, const char *name, enum sim_right right)
{
	struct sim_reservation_table table = *given;
	const struct sim_registrant *own = registrant_of(&table, name);

	switch (table.type) {
	case RBLK_RESERVATION_NONE:
		return true;
	case RBLK_RESERVATION_WRITE_EXCLUSIVE:
		return right == SIM_RIGHT_READ || (own && own->holder);
	case RBLK_RESERVATION_EXCLUSIVE_ACCESS:
		return own && own->holder;
	case RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS:
	case RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL:
		return right == SIM_RIGHT_READ || own;
	}
	return own;
}

/* -- what is told -------------------------------------------------------------------------- */

/* Until a report tells; and it may not be kept, until a RESERVE succeeds on what is known. */
static void not_known(struct sim_reservation *reservation)
{
	reservation->unknown = reservation->at_risk = true;
}

/* Nor has anybody heard that all gateways have it. */
static void not_told(struct sim_reservation *reservation)
{
	not_known(reservation);
	reservation->untold = reservation->shared;
	reservation->clean = false;
}

void sim_reservation_sent(struct sim_reservation *reservation, const char *name,
			  const struct rblk_wire_reservation *asked)
{
	reservation->next = reservation->now;
	if (do_any(&reservation->next, name, asked, false))
		reservation->next = reservation->now;
	if (reservation->under_way++) {
		not_known(reservation);
		sim_reached("reservation", "is changed by two at a time", NULL);
	} else if (reservation->shared) {
		sim_reservation_serial(reservation);
		reservation->clean = !reservation->ghost_count;
	}
	reservation->serial++;
}

static bool says_nothing(const struct rblk_wire_reservation *asked, uint16_t status)
{
	/* Whether it can persist, an application does not know. */
	if (status == RBLK_E_UNSUPPORTED)
		return asked->flags & RBLK_RESERVE_PERSIST;
	return status == RBLK_E_BUSY || status == RBLK_E_DRAINING ||
	       status == RBLK_E_NO_RESOURCES || status == RBLK_E_GONE ||
	       status == RBLK_E_NO_VOLUME;
}

/* Is there anybody who could write before, and cannot now? A change that is not to stop writes does not wait for
 * theirs. */
static bool excludes_more(const struct sim_reservation_table *before, const struct sim_reservation_table *after)
{
	if (table_allows(before, "", SIM_RIGHT_WRITE) && !table_allows(after, "", SIM_RIGHT_WRITE))
		return true;
	for (unsigned int i = 0; i < before->count; i++)
		if (table_allows(before, before->registrants[i].name, SIM_RIGHT_WRITE) &&
		    !table_allows(after, before->registrants[i].name, SIM_RIGHT_WRITE))
			return true;
	return false;
}

bool sim_reservation_answered(struct sim_reservation *reservation, const char *name,
			      const struct rblk_wire_reservation *asked, bool retried, bool stale, uint16_t status)
{
	struct sim_reservation_table after = reservation->now;

	reservation->under_way--;
	reservation->serial++;
	/* It was done or not. */
	if (status == RBLK_E_IO) {
		not_told(reservation);
		return true;
	}
	if (says_nothing(asked, status) || (status && stale)) {
		/* About an earlier attempt, whose answer was lost, either. */
		if (retried)
			not_told(reservation);
		return true;
	}
	/* Whoever is shared by gateways changes its number with each success: what began before cannot be done any
	 * more. */
	if (!status && reservation->clean)
		reservation->untold = false;
	if (reservation->unknown)
		return status == RBLK_OK || status == RBLK_E_RESERVED || status == RBLK_E_INVALID;
	if (do_any(&after, name, asked, false) != status) {
		after = reservation->now;
		if (!retried || do_any(&after, name, asked, true) != status)
			return false;
	}
	if (status)
		return true;
	reservation->unsure = reservation->at_risk = false;
	reservation->awaited = asked->action == RBLK_RESERVE_ACQUIRE || asked->action == RBLK_RESERVE_PREEMPT ||
			       asked->action == RBLK_RESERVE_CLEAR ||
			       (reservation->awaited && !excludes_more(&reservation->now, &after));
	after.persist = after.count && (after.persist || reservation->shared);
	reservation->answered_ns = sim_now_ns();
	reservation->before = reservation->now;
	reservation->now = after;
	return true;
}

void sim_reservation_lost(struct sim_reservation *reservation, uint32_t session)
{
	reservation->under_way--;
	reservation->serial++;
	not_told(reservation);
	if (!session)
		return;
	if (reservation->ghost_count == SIM_GHOSTS)
		sim_fail("more RESERVEs that nobody hears of than the simulator counts");
	reservation->ghosts[reservation->ghost_count++] = session;
	reservation->ghost_ns = sim_now_ns();
}

static void ghost_forget(struct sim_reservation *reservation, unsigned int i)
{
	reservation->ghosts[i] = reservation->ghosts[--reservation->ghost_count];
}

void sim_reservation_fenced(struct sim_reservation *reservation, uint32_t session)
{
	for (unsigned int i = 0; i < reservation->ghost_count;)
		if (reservation->ghosts[i] == session)
			ghost_forget(reservation, i);
		else
			i++;
}

/* Without KEEPALIVE a target may never miss a program that was killed; by then it has done what it had from it. */
#define GHOST_NS (60 * SIM_S)

uint64_t sim_reservation_serial(struct sim_reservation *reservation)
{
	if (sim_now_ns() - reservation->ghost_ns > GHOST_NS)
		reservation->ghost_count = 0;
	for (unsigned int i = 0; i < reservation->ghost_count;)
		if (sim_model_has_conns(reservation->ghosts[i]))
			i++;
		else
			ghost_forget(reservation, i);
	return reservation->serial;
}

/* What was asked for at `serial` can be compared with the table. */
static bool is_of(const struct sim_reservation *reservation, uint64_t serial)
{
	return !reservation->under_way && serial == reservation->serial && !reservation->ghost_count;
}

static bool table_matches(struct sim_reservation_table *table,
			  const struct rblk_wire_reservation_report *report)
{
	const struct rblk_wire_registrant *wire = (const void *)(report + 1);

	if (table->type != report->type || table->count != rblk_le32(report->registrants) ||
	    (table->count && table->persist != report->persists))
		return false;
	for (unsigned int i = 0; i < table->count; i++) {
		const struct sim_registrant *own = registrant_of(table, wire[i].initiator);

		if (!own || own->key != rblk_le64(wire[i].key) ||
		    holds(table, own) != wire[i].holder)
			return false;
	}
	return true;
}

bool sim_reservation_reported(struct sim_reservation *reservation, uint64_t serial,
			      const struct rblk_wire_reservation_report *report)
{
	const struct rblk_wire_registrant *wire = (const void *)(report + 1);
	struct sim_reservation_table *now = &reservation->now;

	if (!is_of(reservation, serial))
		return true;
	if (!reservation->unknown)
		return table_matches(now, report);
	if (reservation->untold)
		return true;
	sim_reached("reservation", "is known again by a report", NULL);
	reservation->unknown = reservation->awaited = false; /* a change that nobody heard of may still wait for writes */
	reservation->unsure = true;
	*now = (struct sim_reservation_table){.type = report->type, .persist = report->persists};
	for (; now->count < rblk_le32(report->registrants) && now->count < SIM_REGISTRANTS;
	     now->count++) {
		struct sim_registrant *own = &now->registrants[now->count];

		memcpy(own->name, wire[now->count].initiator, sizeof(own->name));
		own->key = rblk_le64(wire[now->count].key);
		own->holder = wire[now->count].holder && !all_hold(now);
	}
	return true;
}

bool sim_reservation_has_keys(const struct sim_reservation *reservation, uint64_t serial,
			      const uint64_t *keys, unsigned int count)
{
	const struct sim_reservation_table *now = &reservation->now;
	uint64_t left = 0;

	if (!is_of(reservation, serial) || reservation->unknown)
		return true;
	if (count != now->count)
		return false;
	/* In any order. */
	for (unsigned int i = 0; i < count; i++)
		left += now->registrants[i].key * now->registrants[i].key - keys[i] * keys[i];
	return !left;
}

bool sim_reservation_is_held(const struct sim_reservation *reservation, uint64_t serial,
			     uint8_t type, uint64_t key)
{
	const struct sim_reservation_table *now = &reservation->now;

	if (!is_of(reservation, serial) || reservation->unknown)
		return true;
	if (type != now->type || !type)
		return type == now->type && !key;
	for (unsigned int i = 0; i < now->count; i++)
		if (holds(now, &now->registrants[i]) && now->registrants[i].key == key)
			return true;
	return false;
}

void sim_reservation_ended(struct sim_reservation *reservation)
{
	reservation->serial++;
	if (reservation->under_way) {
		not_known(reservation);
		return;
	}
	if (reservation->unknown)
		return;
	if (reservation->now.persist && reservation->now.count)
		sim_reached("reservation", "outlives its target", NULL);
	else
		memset(&reservation->now, 0, sizeof(reservation->now));
}

void sim_reservation_crashed(struct sim_reservation *reservation)
{
	if (reservation->at_risk)
		reservation->unknown = true;
}

/* -- what is asked ------------------------------------------------------------------------- */

bool sim_reservation_allows(const struct sim_reservation *reservation, const char *name,
			    enum sim_right right)
{
	return table_allows(&reservation->now, name, right);
}

bool sim_reservation_excludes(const struct sim_reservation *reservation, const char *name)
{
	return !reservation->unknown && !reservation->unsure && reservation->awaited &&
	       !table_allows(&reservation->now, name, SIM_RIGHT_WRITE) &&
	       (!reservation->under_way || !table_allows(&reservation->next, name, SIM_RIGHT_WRITE));
}

bool sim_reservation_removed(const struct sim_reservation *reservation, const char *name)
{
	struct sim_reservation_table before = reservation->before, now = reservation->now;

	return registrant_of(&before, name) && !registrant_of(&now, name);
}
