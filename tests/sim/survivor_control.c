/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the survivor sends besides block commands: OPEN and KEEPALIVE because it has to, FENCE where
 * a connection is lost or is to be, and what tests the target's patience. Lost with its connection,
 * none is sent again by itself.
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

/* Whatever is asked for, a target may be short of something, or about to end. */
#define ALWAYS \
	(1u << RBLK_E_BUSY | 1u << RBLK_E_DRAINING | 1u << RBLK_E_NO_RESOURCES | 1u << RBLK_E_GONE)
#define WELL (ALWAYS | 1u << RBLK_OK)

static __attribute__((noreturn)) void control_fail(const struct sim_control *control,
						   const char *what)
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
	if (rblk_check_volume(volume, sizeof(*volume)) ||
	    rblk_le32(volume->handle) != (uint32_t)rblk_le64(control->order.answer.result))
		control_fail(control, "a report that makes no sense");
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
		control_fail(control, "it has fenced the incarnation that it came by");
	if (status == RBLK_E_INVALID && !own)
		control_fail(control, "refused, and nothing is wrong with it");
	if (!status && control->epoch == survivor->epoch && queue < survivor->queue_count)
		sim_survivor_fenced(survivor, queue, incarnation);
}

static void abort_done(struct sim_control *control, uint16_t status)
{
	bool will = rblk_le64(control->order.answer.result);
	struct sim_errand *victim = control->victim;

	if (status)
		return;
	if (control->victim_answered && will != control->victim_aborted)
		control_fail(control, "it did not say what became of its victim");
	if (!control->victim_answered && victim) {
		victim->abort_told = true;
		victim->abort_result = will;
	}
}

void sim_survivor_check_abort(struct sim_errand *errand, bool aborted)
{
	struct sim_survivor *survivor = errand->survivor;

	if (errand->abort_told && errand->order.answered && errand->abort_result != aborted)
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
			control_fail(control, "answered, and the handle is in use");
	}
}

static void on_done(struct sim_order *order, bool answered)
{
	struct sim_control *control = (struct sim_control *)order;
	uint16_t status = answered ? rblk_le16(order->answer.status) : (uint16_t)RBLK_E_FENCED;

	control->under_way = false;
	sim_trace(control->survivor->actor.name, "%s by queue %u: %s",
		  rblk_opcode_name(order->command.opcode), control->queue,
		  answered ? rblk_status_text(status) : "lost");
	if (answered && (status >= 32 || !(control->expected & 1u << status)))
		sim_fail("%s: %s by queue %u: %s", control->survivor->actor.name,
			 rblk_opcode_name(order->command.opcode), control->queue,
			 rblk_status_text(status));
	switch (order->command.opcode) {
	case RBLK_OP_OPEN:
		open_done(control, status);
		break;
	case RBLK_OP_CLOSE:
		if (answered && status == RBLK_OK)
			close_done(control, order->last);
		break;
	case RBLK_OP_FENCE:
		if (answered)
			fence_done(control, status);
		break;
	case RBLK_OP_ABORT:
		if (answered)
			abort_done(control, status);
		break;
	}
}

/* -- sending ------------------------------------------------------------------------------- */

/* A command by `life`, to be filled in and sent. NULL: no room. */
static struct sim_control *control_new(struct sim_survivor *survivor, struct sim_life *life,
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

static void control_send(struct sim_control *control, struct sim_life *life)
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

/* Where the report goes. */
static void control_report(struct sim_control *control, const struct sim_life *life, uint32_t bytes)
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

	control = life->sequence ? NULL : control_new(survivor, life, RBLK_OP_IDENTIFY, WELL);
	if (control) {
		identify = control_payload(control, life);
		strcpy(identify->initiator, survivor->actor.name);
		strcpy(identify->software, "simulator");
		if (!sim_life_room(life, &control->order))
			return;
		control->order.command.segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
		control_add(control, life);
	}
	control = control_new(survivor, life, RBLK_OP_OPEN, WELL | 1u << RBLK_E_NO_VOLUME);
	if (control) {
		open = control_payload(control, life);
		strcpy(open->name, survivor->host->config.volumes[survivor->volume].name);
		control_report(control, life, sizeof(struct rblk_wire_volume));
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
		control = control_new(survivor, life, RBLK_OP_KEEPALIVE, WELL);
		if (!control)
			continue;
		control->order.command.argument = rblk_to_le64(life->event_seen);
		life->event_told = life->event_seen;
		control_send(control, life);
	}
}

void sim_survivor_manage(struct sim_survivor *survivor)
{
	struct sim_life *life = sim_survivor_live(survivor, true);

	if (!survivor->handle && !survivor->opening && life && sim_now_ns() >= survivor->open_at_ns)
		survivor_open(survivor, life);
	events_confirm(survivor);
}

void sim_survivor_fence(struct sim_survivor *survivor, struct sim_life *by, uint16_t queue,
			uint32_t incarnation)
{
	struct sim_control *control =
		incarnation ? control_new(survivor, by, RBLK_OP_FENCE, WELL | 1u << RBLK_E_INVALID)
			    : NULL;

	if (!control)
		return;
	control->order.command.lba = rblk_to_le64(queue);
	control->order.command.argument = rblk_to_le64(incarnation);
	control_send(control, by);
}

/* -- mischief ------------------------------------------------------------------------------ */

static void mischief_fence(struct sim_survivor *survivor, struct sim_life *life)
{
	uint16_t queue = (uint16_t)sim_below(survivor->queue_count + 1u);
	uint32_t incarnation = 1;

	/* The present one, one on its way, or those to come. */
	if (queue < survivor->queue_count && sim_chance(300000))
		incarnation = survivor->places[queue].accepted;
	else if (queue < survivor->queue_count)
		incarnation = survivor->places[queue].incarnation + (uint32_t)sim_below(3);
	sim_survivor_fence(survivor, life, queue, incarnation);
}

/* Of two ABORTs of one command only one can be the one that did it. */
static bool has_abort(const struct sim_survivor *survivor, const struct sim_errand *errand)
{
	for (unsigned int i = 0; i < SIM_SURVIVOR_CONTROLS; i++)
		if (survivor->controls[i].under_way && survivor->controls[i].victim == errand)
			return true;
	return errand->abort_told;
}

/* The target has to fetch its data: there is a time in which it is too late for ABORT. */
static bool is_fetched(const struct sim_errand *errand)
{
	return errand->kind == SIM_COMMAND_WRITE && !errand->capsule;
}

static void mischief_abort(struct sim_survivor *survivor, struct sim_life *life)
{
	struct sim_control *control = control_new(survivor, life, RBLK_OP_ABORT, WELL);
	struct sim_errand *victim = NULL;

	for (unsigned int i = 0; i < SIM_SURVIVOR_ERRANDS; i++) {
		struct sim_errand *errand = &survivor->errands[i];

		if (errand->state == SIM_ERRAND_SENT && errand->order.life == life &&
		    !errand->order.answered && !has_abort(survivor, errand) &&
		    (!victim || sim_chance(is_fetched(errand) ? 900000 : 300000)))
			victim = errand;
	}
	if (!control || !victim)
		return;
	control->victim = victim;
	control->order.command.lba = rblk_to_le64(victim->order.sequence);
	control_send(control, life);
}

static void mischief_close(struct sim_survivor *survivor)
{
	struct sim_life *life = survivor->handle ? sim_survivor_live(survivor, true) : NULL;
	struct sim_control *control =
		life ? control_new(survivor, life, RBLK_OP_CLOSE, WELL | 1u << RBLK_E_NO_VOLUME)
		     : NULL;

	if (!control)
		return;
	control->order.command.volume = rblk_to_le32(survivor->handle);
	survivor->handle = 0;
	control_send(control, life);
}

/* A connection ends in the middle of its work, and the volume is opened behind it. */
static void mischief_reopen(struct sim_survivor *survivor)
{
	struct sim_life *life = NULL;

	if (!survivor->handle || survivor->opening)
		return;
	sim_survivor_work(survivor);
	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++) {
		struct sim_life *other = &survivor->lives[i];

		if (other->state == SIM_LIFE_LIVE && !other->fenced && other->queue &&
		    (!life || other->order_count > life->order_count))
			life = other;
	}
	if (!life || !life->order_count)
		return;
	sim_fiber_sleep(sim_between(1, 3 * sim_net.latency_max_ns));
	sim_life_close(life, false);
	sim_fiber_sleep(sim_between(1, 3 * sim_net.latency_max_ns));
	survivor->handle = 0;
	survivor->open_at_ns = 0;
	sim_survivor_manage(survivor);
}

static void mischief_list(struct sim_survivor *survivor)
{
	struct sim_life *life = sim_survivor_live(survivor, true);
	struct sim_control *control = life ? control_new(survivor, life, RBLK_OP_LIST, WELL) : NULL;

	if (!control)
		return;
	control->order.command.lba = rblk_to_le64(sim_below(4));
	control_report(control, life,
		       (uint32_t)sim_between(1, 4) * (uint32_t)sizeof(struct rblk_wire_volume));
	control_send(control, life);
}

/* What the volume has, or will have when it has grown, which it may since it was opened. */
static uint64_t blocks_at_most(const struct sim_survivor *survivor)
{
	const struct sim_disk *disk = survivor->host->disks[survivor->volume];

	return disk ? disk->full_bytes / survivor->block_bytes : survivor->blocks;
}

/* Block commands that must be refused, each for its reason. */
static void mischief_refused(struct sim_survivor *survivor, struct sim_life *life)
{
	static const struct {
		uint8_t opcode;
		enum rblk_status status;
	} kinds[] = {
		{RBLK_OP_READ, RBLK_E_RANGE},	  {RBLK_OP_READ, RBLK_E_INVALID},
		{RBLK_OP_READ, RBLK_E_NO_VOLUME}, {RBLK_OP_RESERVATIONS, RBLK_E_UNSUPPORTED},
		{RBLK_OP_DISCARD, RBLK_E_RANGE},  {RBLK_OP_SCRATCH, RBLK_E_UNSUPPORTED},
	};
	unsigned int kind = (unsigned int)sim_below(sizeof(kinds) / sizeof(kinds[0]));
	uint32_t expected = ALWAYS | 1u << kinds[kind].status;
	struct rblk_wire_command *command;
	struct sim_control *control;

	if (!survivor->handle)
		return;
	/* Its handle may be closed by then; on another queue than 0 SCRATCH is out of place. */
	expected |= 1u << RBLK_E_NO_VOLUME;
	if (kinds[kind].opcode == RBLK_OP_SCRATCH)
		expected |= 1u << RBLK_E_INVALID;
	if (kinds[kind].opcode == RBLK_OP_DISCARD)
		expected |= 1u << RBLK_E_UNSUPPORTED;
	control = control_new(survivor, life, kinds[kind].opcode, expected);
	if (!control)
		return;
	command = &control->order.command;
	command->volume = rblk_to_le32(survivor->handle);
	if (kinds[kind].opcode == RBLK_OP_READ || kinds[kind].opcode == RBLK_OP_DISCARD)
		command->blocks = rblk_to_le32(1);
	if (kinds[kind].opcode == RBLK_OP_DISCARD)
		command->blocks = rblk_to_le32(UINT32_MAX);
	else
		control_report(control, life,
			       kinds[kind].status == RBLK_E_INVALID ? survivor->block_bytes * 2
								    : survivor->block_bytes);
	if (kinds[kind].status == RBLK_E_RANGE)
		command->lba = rblk_to_le64(blocks_at_most(survivor));
	/* The place of another, or the same in another life. */
	if (kinds[kind].status == RBLK_E_NO_VOLUME)
	{
		uint32_t wrong = survivor->handle ^ (sim_chance(500000) ? 1 : 1024u << sim_below(20));

		/* 0 is no handle at all, and breaks the protocol. */
		command->volume = rblk_to_le32(wrong ? wrong : survivor->handle ^ 2);
	}
	if (kinds[kind].opcode == RBLK_OP_SCRATCH)
		command->volume = 0;
	control_send(control, life);
}

/* Of the whole volume, in pieces; with an ABORT right behind it, sometimes. */
static void mischief_checksum(struct sim_survivor *survivor, struct sim_life *life)
{
	uint32_t expected = WELL | 1u << RBLK_E_NO_VOLUME | 1u << RBLK_E_IO | 1u << RBLK_E_MEDIUM |
			    1u << RBLK_E_ABORTED;
	struct sim_control *control, *abort;

	if (!survivor->handle)
		return;
	control = control_new(survivor, life, RBLK_OP_CHECKSUM, expected);
	if (!control)
		return;
	control->order.command.volume = rblk_to_le32(survivor->handle);
	control->order.command.blocks = rblk_to_le32((uint32_t)survivor->blocks);
	control_send(control, life);
	abort = sim_chance(500000) ? control_new(survivor, life, RBLK_OP_ABORT, WELL) : NULL;
	if (!abort)
		return;
	abort->order.command.lba = rblk_to_le64(control->order.sequence);
	control_send(abort, life);
}

static void mischief_simple(struct sim_survivor *survivor, struct sim_life *life, uint8_t opcode)
{
	struct sim_control *control = control_new(survivor, life, opcode, WELL);

	if (control)
		control_send(control, life);
}

enum mischief {
	SUPERSEDE,
	FENCE,
	RENEW,
	HANG_UP,
	PROBE,
	PROBE_COUNT,
	ABORT,
	CLOSE,
	REOPEN,
	LIST,
	REFUSED,
	RESTART,
	CHECKSUM,
	SIMPLE
};

/* Each as likely as it is often here. */
static const enum mischief mischiefs[] = {
	SUPERSEDE, SUPERSEDE, FENCE,  FENCE, RENEW,	  HANG_UP,  PROBE,   ABORT, CLOSE, LIST,
	REFUSED,   RESTART,   SIMPLE, CLOSE, PROBE_COUNT, CHECKSUM, RESTART, ABORT, ABORT,
	REFUSED,   REOPEN,    REOPEN, REOPEN, CLOSE, CLOSE,    REOPEN,	    REOPEN,   RENEW,
};

void sim_survivor_mischief(struct sim_survivor *survivor)
{
	struct sim_life *life = sim_survivor_live(survivor, false);

	if (!life)
		return;
	/* In the middle of what it has just been asked for. */
	if (life->order_count && sim_chance(500000))
		sim_fiber_sleep(sim_below(4 * sim_net.latency_max_ns));
	switch (mischiefs[sim_below(sizeof(mischiefs) / sizeof(mischiefs[0]))]) {
	case SUPERSEDE:
		survivor->places[life->queue].supersede = true;
		break;
	case FENCE:
		mischief_fence(survivor, life);
		break;
	case RENEW:
		sim_survivor_renew(survivor);
		break;
	case HANG_UP:
		sim_life_close(life, sim_chance(500000));
		break;
	case PROBE:
		sim_survivor_probe(survivor, sim_chance(500000));
		break;
	case PROBE_COUNT:
		sim_survivor_probe_count(survivor);
		break;
	case ABORT:
		mischief_abort(survivor, life);
		break;
	case CLOSE:
		mischief_close(survivor);
		break;
	case REOPEN:
		mischief_reopen(survivor);
		break;
	case LIST:
		mischief_list(survivor);
		break;
	case REFUSED:
		mischief_refused(survivor, life);
		break;
	case RESTART:
		sim_survivor_restart(survivor);
		break;
	case CHECKSUM:
		mischief_checksum(survivor, life);
		break;
	case SIMPLE:
		mischief_simple(survivor, life,
				sim_chance(500000) ? RBLK_OP_PING : RBLK_OP_KEEPALIVE);
		break;
	}
}
