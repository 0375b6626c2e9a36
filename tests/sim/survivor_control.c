/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the survivor sends besides block commands: OPEN and KEEPALIVE because it has to, FENCE where
 * a connection is lost or is to be. Lost with its connection, none is sent again by itself. Others
 * are survivor_mischief.c's, which sends them through here.
 */
#include "tests/sim/survivor.h"

#include <string.h>
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/inside.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

void sim_control_fail(const struct sim_control *control, const char *what)
{
	sim_fail("%s: %s by queue %u: %s", control->survivor->actor.name,
		 rblk_opcode_name(control->order.command.opcode), control->queue, what);
}

/* -- answers ------------------------------------------------------------------------------- */

static void open_done(struct sim_control *control, uint16_t status)
{
	struct sim_survivor *survivor = control->survivor;
	const struct rblk_wire_volume *volume =
		(const void *)survivor->memory->reports[control - survivor->controls];

	if (control->epoch != survivor->epoch)
		return;
	survivor->opening = false;
	survivor->open_at_ns = sim_now_ns() + sim_between(SIM_MS, 20 * SIM_MS);
	if (status)
		return;
	if (rblk_check_volume(volume, sizeof(*volume), RBLK_FEATURES_ALL) ||
	    rblk_le32(volume->handle) != (uint32_t)rblk_le64(control->order.answer.result))
		sim_control_fail(control, "a report that makes no sense");
	survivor->handle = rblk_le32(volume->handle);
	survivor->blocks = rblk_le64(volume->blocks);
	survivor->block_bytes = rblk_le32(volume->block_bytes);
	survivor->volume_flags = rblk_le32(volume->flags);
	survivor->life = sim_model_opened(&control->opening, volume->cache_epoch);
	sim_inside_opened(survivor->host, survivor->volume, &control->opening);
}

static void fence_done(struct sim_control *control, uint16_t status)
{
	struct sim_survivor *survivor = control->survivor;
	const struct rblk_wire_command *command = &control->order.command;
	uint16_t queue = (uint16_t)rblk_le64(command->lba);
	uint32_t incarnation = (uint32_t)rblk_le64(command->argument);
	bool own = queue == control->queue && incarnation >= control->incarnation;

	if (status == RBLK_OK && own)
		sim_control_fail(control, "it has fenced the incarnation that it came by");
	if (status == RBLK_E_INVALID && !own)
		sim_control_fail(control, "refused, and nothing is wrong with it");
	if (!status && control->epoch == survivor->epoch && queue < survivor->queue_count)
		sim_survivor_fenced(survivor, queue, incarnation);
}

static void abort_done(struct sim_control *control, uint16_t status)
{
	bool will = rblk_le64(control->order.answer.result) == RBLK_ABORT_DROPPED;
	struct sim_errand *victim = control->victim;

	if (status)
		return;
	if (control->victim_answered && will != control->victim_aborted)
		sim_control_fail(control, "it did not say what became of its victim");
	if (!control->victim_answered && victim) {
		victim->abort_told = true;
		victim->abort_result = will;
	}
}

void sim_survivor_check_abort(struct sim_errand *errand, bool aborted)
{
	struct sim_survivor *survivor = errand->survivor;

	/* PREEMPT with ABORT may have come in between. */
	if (errand->abort_told && errand->order.answered && errand->abort_result != aborted &&
	    !(survivor->reserver.often && aborted))
		sim_fail("%s: #%u: ABORT has said that it would %sbe", survivor->actor.name,
			 errand->number, errand->abort_result ? "" : "not ");
	for (unsigned int i = 0; i < SIM_SURVIVOR_CONTROLS; i++) {
		struct sim_control *control = &survivor->controls[i];

		if (!control->under_way || control->victim != errand)
			continue;
		control->victim = NULL;
		control->victim_answered = errand->order.answered;
		control->victim_aborted = aborted;
	}
}

/* What came before it by the same connection with the handle is over by then. */
static void close_done(struct sim_control *control, const struct sim_life *life)
{
	struct sim_survivor *survivor = control->survivor;

	for (unsigned int i = 0; i < SIM_SURVIVOR_ERRANDS; i++) {
		const struct sim_errand *errand = &survivor->errands[i];

		if (errand->state == SIM_ERRAND_SENT && errand->order.life == life &&
		    !errand->order.answered &&
		    errand->order.command.volume == control->order.command.volume &&
		    (int32_t)(errand->order.sequence - control->order.sequence) < 0)
			sim_control_fail(control, "answered, and the handle is in use");
	}
}

/* What it calls zero must have been that at some time since it was asked. */
static void extents_done(const struct sim_control *control)
{
	const struct sim_survivor *survivor = control->survivor;
	const struct rblk_wire_command *command = &control->order.command;
	const struct rblk_wire_extent *extent =
		(const void *)survivor->memory->reports[control - survivor->controls];
	uint64_t count = rblk_le64(control->order.answer.result), block = rblk_le64(command->lba);

	if (rblk_check_extents(extent, rblk_le32(command->segment.length), count,
			       rblk_le32(command->blocks)))
		sim_control_fail(control, "a report that makes no sense");
	for (uint64_t i = 0; i < count; block += rblk_le64(extent[i++].blocks))
		if (rblk_le32(extent[i].flags) & RBLK_EXTENT_ZERO)
			sim_model_zeroes(control->command,
					 block * survivor->block_bytes / SIM_SECTOR,
					 rblk_le64(extent[i].blocks) * survivor->block_bytes / SIM_SECTOR);
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
	if (control->survivor->reserver.often)
		control->expected |= 1u << RBLK_E_RESERVED | 1u << RBLK_E_ABORTED;
	sim_trace(control->survivor->actor.name, "%s by queue %u: %s",
		  rblk_opcode_name(order->command.opcode), control->queue,
		  answered ? rblk_status_text(status) : "lost");
	if (answered && (status >= 32 || !(control->expected & 1u << status)))
		sim_fail("%s: %s by queue %u: %s", control->survivor->actor.name,
			 rblk_opcode_name(order->command.opcode), control->queue,
			 rblk_status_text(status));
	switch (order->command.opcode) {
	case RBLK_OP_IDENTIFY:
		control->survivor->named |=
			answered && status == RBLK_OK && control->epoch == control->survivor->epoch;
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

struct sim_control *sim_control_new(struct sim_survivor *survivor, struct sim_life *life,
				    uint8_t opcode, uint32_t expected)
{
	struct sim_control *control = survivor->controls;

	while (control < survivor->controls + SIM_SURVIVOR_CONTROLS && control->under_way)
		control++;
	if (control == survivor->controls + SIM_SURVIVOR_CONTROLS)
		return NULL;
	memset(control, 0, sizeof(*control));
	control->survivor = survivor;
	control->expected = expected;
	control->epoch = life->epoch;
	control->queue = life->queue;
	control->incarnation = life->incarnation;
	control->order.command.opcode = opcode;
	control->order.reserved_tag = rblk_opcode_reserved_tag(opcode);
	control->order.done = on_done;
	return sim_life_room(life, &control->order) ? control : NULL;
}

static void control_add(struct sim_control *control, struct sim_life *life)
{
	control->under_way = true;
	sim_life_add(life, &control->order);
	sim_trace(life->name, "%s by queue %u incarnation %u: lba %llu argument %llu",
		  rblk_opcode_name(control->order.command.opcode), life->queue, life->incarnation,
		  (unsigned long long)rblk_le64(control->order.command.lba),
		  (unsigned long long)rblk_le64(control->order.command.argument));
}

void sim_control_send(struct sim_control *control, struct sim_life *life)
{
	control_add(control, life);
	sim_life_send(life);
}

/* What is told in the capsule. */
static void *control_payload(struct sim_control *control, const struct sim_life *life)
{
	struct sim_survivor *survivor = control->survivor;
	uint8_t *payload = survivor->memory->payloads[control - survivor->controls];

	memset(payload, 0, RBLK_CAPSULE_ALIGN);
	control->order.capsule = payload;
	control->order.capsule_bytes = RBLK_CAPSULE_ALIGN;
	control->order.capsule_lkey = fab_mr_lkey(survivor->memory_mr, fab_conn_device(life->conn));
	control->order.command.flags |= RBLK_CMD_CAPSULE;
	return payload;
}

void sim_control_report(struct sim_control *control, const struct sim_life *life, uint32_t bytes)
{
	struct sim_survivor *survivor = control->survivor;
	struct rblk_wire_segment *segment = &control->order.command.segment;

	segment->address =
		rblk_to_le64((uintptr_t)survivor->memory->reports[control - survivor->controls]);
	segment->rkey = rblk_to_le32(fab_mr_rkey(survivor->memory_mr, fab_conn_device(life->conn)));
	segment->length = rblk_to_le32(bytes);
}

/* In one message, as the specification allows. */
static void survivor_open(struct sim_survivor *survivor, struct sim_life *life)
{
	struct rblk_wire_identify *identify;
	struct rblk_wire_open *open;
	struct sim_control *control;

	control = life->message_number ? NULL
				       : sim_control_new(survivor, life, RBLK_OP_IDENTIFY, SIM_ANSWERS_WELL);
	if (control) {
		identify = control_payload(control, life);
		strcpy(identify->initiator, survivor->actor.name);
		strcpy(identify->software, "simulator");
		if (!sim_life_room(life, &control->order))
			return;
		control->order.command.segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
		control_add(control, life);
	}
	control = sim_control_new(survivor, life, RBLK_OP_OPEN, SIM_ANSWERS_WELL | 1u << RBLK_E_NO_VOLUME);
	if (control) {
		open = control_payload(control, life);
		strcpy(open->name, survivor->host->config.volumes[survivor->volume].name);
		sim_control_report(control, life, sizeof(struct rblk_wire_volume));
		control->opening = sim_model_opening(survivor->host->volumes[survivor->volume]);
		if (sim_life_room(life, &control->order)) {
			survivor->opening = true;
			control_add(control, life);
		}
	}
	sim_life_send(life);
}

static void events_confirm(struct sim_survivor *survivor)
{
	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++) {
		struct sim_life *life = &survivor->lives[i];
		struct sim_control *control;

		if (life->state != SIM_LIFE_LIVE || life->event_seen == life->event_told)
			continue;
		/* No hurry: what is not confirmed is told again by the next incarnation. */
		if (!survivor->calm && sim_chance(800000))
			continue;
		control = sim_control_new(survivor, life, RBLK_OP_KEEPALIVE, SIM_ANSWERS_WELL);
		if (!control)
			continue;
		control->order.command.argument = rblk_to_le64(life->event_seen);
		life->event_told = life->event_seen;
		sim_control_send(control, life);
	}
}

static bool fence_under_way(const struct sim_survivor *survivor, uint16_t queue)
{
	for (unsigned int i = 0; i < SIM_SURVIVOR_CONTROLS; i++) {
		const struct sim_control *control = &survivor->controls[i];

		if (control->under_way && control->order.command.opcode == RBLK_OP_FENCE &&
		    control->epoch == survivor->epoch && rblk_le64(control->order.command.lba) == queue)
			return true;
	}
	return false;
}

/* By any queue, that of the next incarnation, too. */
static void fences_ask(struct sim_survivor *survivor)
{
	for (uint16_t queue = 0; queue < survivor->queue_count; queue++) {
		struct sim_place *place = &survivor->places[queue];
		struct sim_life *life = sim_survivor_live(survivor, false);

		/* IDENTIFY goes first. */
		if (!life || !survivor->handle || place->owed <= place->fenced || sim_now_ns() < place->ask_at_ns ||
		    fence_under_way(survivor, queue))
			continue;
		place->ask_at_ns = sim_now_ns() + sim_between(SIM_MS, 20 * SIM_MS);
		sim_survivor_fence(survivor, life, queue, place->owed);
	}
}

void sim_survivor_manage(struct sim_survivor *survivor)
{
	struct sim_life *life = sim_survivor_live(survivor, true);

	fences_ask(survivor);

	/* Without a name it cannot unregister. IDENTIFY was refused, or something else was sent first. */
	if (survivor->calm && survivor->reserver.often && survivor->handle && !survivor->named &&
	    !survivor->under_way) {
		sim_survivor_renew(survivor);
		return;
	}
	if (!survivor->handle && !survivor->opening && life && sim_now_ns() >= survivor->open_at_ns)
		survivor_open(survivor, life);
	events_confirm(survivor);
}

void sim_survivor_fence(struct sim_survivor *survivor, struct sim_life *by, uint16_t queue,
			uint32_t incarnation)
{
	uint32_t expected = SIM_ANSWERS_WELL | 1u << RBLK_E_INVALID;
	struct sim_control *control =
		incarnation ? sim_control_new(survivor, by, RBLK_OP_FENCE, expected) : NULL;

	if (!control)
		return;
	control->order.command.lba = rblk_to_le64(queue);
	control->order.command.argument = rblk_to_le64(incarnation);
	sim_control_send(control, by);
}
