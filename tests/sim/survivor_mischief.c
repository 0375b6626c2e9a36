/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the survivor does that a well-behaved initiator would not do at this time, or would never do.
 * Called by survivor.c, now and then.
 */
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"
#include "tests/sim/survivor.h"
#include "tests/sim/trace.h"

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
	/* Behind one of a later incarnation, that of the connection which this has to end. */
	if (queue < survivor->queue_count && incarnation > survivor->places[queue].accepted && sim_chance(500000))
		sim_survivor_fence(survivor, life, queue, survivor->places[queue].accepted);
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
	struct sim_errand *victim = NULL;
	struct sim_control *control;

	/* Of those that have just been sent, too: their data may be on its way. */
	if (sim_chance(500000)) {
		sim_survivor_work(survivor);
		sim_fiber_sleep(sim_below(2 * sim_net.latency_max_ns));
	}
	control = sim_control_new(survivor, life, RBLK_OP_ABORT, SIM_ANSWERS_WELL);

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
	sim_control_send(control, life);
}

static void handle_close(struct sim_survivor *survivor)
{
	struct sim_life *life = survivor->handle ? sim_survivor_live(survivor, true) : NULL;
	struct sim_control *control;

	control = life ? sim_control_new(survivor, life, RBLK_OP_CLOSE,
					 SIM_ANSWERS_WELL | 1u << RBLK_E_NO_VOLUME)
		       : NULL;
	if (!control)
		return;
	control->order.command.volume = rblk_to_le32(survivor->handle);
	survivor->handle = 0;
	sim_control_send(control, life);
}

static void mischief_close(struct sim_survivor *survivor)
{
	/* Right behind others that it has to wait for. */
	if (sim_chance(500000))
		sim_survivor_work(survivor);
	handle_close(survivor);
}

/* A connection ends in the middle of its work; behind it the volume is closed, and opened again. */
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
	/* The target may have to hear of it first, and to drain. */
	sim_fiber_sleep(
		sim_between(1, sim_chance(500000) ? 3 * sim_net.latency_max_ns : 5 * SIM_MS));
	if (sim_chance(700000))
		handle_close(survivor);
	survivor->handle = 0;
	survivor->open_at_ns = 0;
	sim_survivor_manage(survivor);
}

static void mischief_list(struct sim_survivor *survivor)
{
	struct sim_life *life = sim_survivor_live(survivor, true);
	struct sim_control *control =
		life ? sim_control_new(survivor, life, RBLK_OP_LIST, SIM_ANSWERS_WELL) : NULL;

	if (!control)
		return;
	control->order.command.lba = rblk_to_le64(sim_below(4));
	sim_control_report(control, life,
			   (uint32_t)sim_between(1, 4) * (uint32_t)sizeof(struct rblk_wire_volume));
	sim_control_send(control, life);
}

/* What the volume has, or will have when it has grown, which it may since it was opened. */
static uint64_t blocks_at_most(const struct sim_survivor *survivor)
{
	const struct sim_disk *disk = survivor->host->disks[survivor->volume];

	return disk ? disk->full_bytes / survivor->block_bytes : survivor->blocks;
}

/* Block commands that must be refused, each for its reason; and a question that must not be. */
static void mischief_refused(struct sim_survivor *survivor, struct sim_life *life)
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

	if (!survivor->handle)
		return;
	/* Its handle may be closed by then. */
	expected |= 1u << RBLK_E_NO_VOLUME;
	if (kinds[kind].opcode == RBLK_OP_DISCARD)
		expected |= 1u << RBLK_E_UNSUPPORTED;
	control = sim_control_new(survivor, life, kinds[kind].opcode, expected);
	if (!control)
		return;
	command = &control->order.command;
	command->volume = rblk_to_le32(survivor->handle);
	if (kinds[kind].opcode == RBLK_OP_READ || kinds[kind].opcode == RBLK_OP_DISCARD)
		command->blocks = rblk_to_le32(1);
	if (kinds[kind].opcode == RBLK_OP_DISCARD)
		command->blocks = rblk_to_le32(UINT32_MAX);
	else
		sim_control_report(control, life,
				   kinds[kind].status == RBLK_E_INVALID ? survivor->block_bytes * 2
									: survivor->block_bytes);
	if (kinds[kind].status == RBLK_E_RANGE)
		command->lba = rblk_to_le64(blocks_at_most(survivor));
	/* The place of another, or the same in another life. */
	if (kinds[kind].status == RBLK_E_NO_VOLUME) {
		uint32_t wrong =
			survivor->handle ^ (sim_chance(500000) ? 1 : 1024u << sim_below(20));

		/* 0 is no handle at all, and breaks the protocol. */
		command->volume = rblk_to_le32(wrong ? wrong : survivor->handle ^ 2);
	}
	sim_control_send(control, life);
}

/* Of the whole volume, in pieces; with an ABORT right behind it, sometimes. */
static void mischief_checksum(struct sim_survivor *survivor, struct sim_life *life)
{
	uint32_t expected = SIM_ANSWERS_WELL | 1u << RBLK_E_NO_VOLUME | 1u << RBLK_E_IO |
			    1u << RBLK_E_MEDIUM | 1u << RBLK_E_ABORTED;
	struct sim_control *control, *abort;

	if (!survivor->handle)
		return;
	control = sim_control_new(survivor, life, RBLK_OP_CHECKSUM, expected);
	if (!control)
		return;
	control->order.command.volume = rblk_to_le32(survivor->handle);
	control->order.command.blocks = rblk_to_le32((uint32_t)survivor->blocks);
	sim_control_send(control, life);
	abort = sim_chance(500000)
			? sim_control_new(survivor, life, RBLK_OP_ABORT, SIM_ANSWERS_WELL)
			: NULL;
	if (!abort)
		return;
	abort->order.command.lba = rblk_to_le64(control->order.sequence);
	abort->other = control;
	control->other = abort;
	sim_control_send(abort, life);
}

/* Where is data, in any range? */
static void mischief_extents(struct sim_survivor *survivor, struct sim_life *life)
{
	uint32_t expected = SIM_ANSWERS_WELL | 1u << RBLK_E_NO_VOLUME | 1u << RBLK_E_IO;
	struct sim_control *control;
	uint64_t lba;

	if (!survivor->handle || !(life->features & RBLK_FEATURE_EXTENTS))
		return;
	control = sim_control_new(survivor, life, RBLK_OP_EXTENTS, expected);
	if (!control)
		return;
	lba = sim_below(survivor->blocks);
	control->order.command.volume = rblk_to_le32(survivor->handle);
	control->order.command.lba = rblk_to_le64(lba);
	control->order.command.blocks =
		rblk_to_le32((uint32_t)sim_between(1, survivor->blocks - lba));
	sim_control_report(control, life,
			   (uint32_t)sim_between(1, 16) *
				   (uint32_t)sizeof(struct rblk_wire_extent));
	control->command = sim_model_look(survivor->host->volumes[survivor->volume]);
	sim_control_send(control, life);
}

static void mischief_simple(struct sim_survivor *survivor, struct sim_life *life, uint8_t opcode)
{
	struct sim_control *control = sim_control_new(survivor, life, opcode, SIM_ANSWERS_WELL);

	if (control)
		sim_control_send(control, life);
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

/* One of those that this survivor does. False: none was found. */
static bool mischief_choose(const struct sim_survivor *survivor, enum sim_mischief *mischief)
{
	for (unsigned int tries = 0; tries < 32; tries++) {
		*mischief = mischiefs[sim_below(sizeof(mischiefs) / sizeof(mischiefs[0]))];
		if (survivor->mischiefs & 1u << *mischief)
			return true;
	}
	return false;
}

static void mischief_probe(struct sim_survivor *survivor)
{
	bool old_epoch = sim_chance(500000);

	/* There must have been an epoch before. */
	if (old_epoch && survivor->epoch == 1)
		sim_survivor_renew(survivor);
	else
		sim_survivor_probe(survivor, old_epoch);
}

void sim_survivor_mischief(struct sim_survivor *survivor)
{
	struct sim_life *life = sim_survivor_live(survivor, false);
	enum sim_mischief mischief;

	if (!life || !mischief_choose(survivor, &mischief))
		return;
	/* In the middle of what it has just been asked for. */
	if (life->order_count && sim_chance(500000))
		sim_fiber_sleep(sim_below(4 * sim_net.latency_max_ns));
	switch (mischief) {
	case SIM_MISCHIEF_SUPERSEDE:
		survivor->places[life->queue].supersede = true;
		break;
	case SIM_MISCHIEF_FENCE:
		mischief_fence(survivor, life);
		break;
	case SIM_MISCHIEF_RENEW:
		sim_survivor_renew(survivor);
		break;
	case SIM_MISCHIEF_HANG_UP:
		sim_life_close(life, sim_chance(500000));
		break;
	case SIM_MISCHIEF_PROBE:
		mischief_probe(survivor);
		break;
	case SIM_MISCHIEF_PROBE_COUNT:
		sim_survivor_probe_count(survivor);
		break;
	case SIM_MISCHIEF_ABORT:
		mischief_abort(survivor, life);
		break;
	case SIM_MISCHIEF_CLOSE:
		mischief_close(survivor);
		break;
	case SIM_MISCHIEF_REOPEN:
		mischief_reopen(survivor);
		break;
	case SIM_MISCHIEF_LIST:
		mischief_list(survivor);
		break;
	case SIM_MISCHIEF_REFUSED:
		mischief_refused(survivor, life);
		break;
	case SIM_MISCHIEF_RESTART:
		sim_survivor_restart(survivor);
		break;
	case SIM_MISCHIEF_CHECKSUM:
		mischief_checksum(survivor, life);
		break;
	case SIM_MISCHIEF_EXTENTS:
		mischief_extents(survivor, life);
		break;
	case SIM_MISCHIEFS:
		break;
	case SIM_MISCHIEF_SIMPLE:
		mischief_simple(survivor, life,
				sim_chance(500000) ? RBLK_OP_PING : RBLK_OP_KEEPALIVE);
		break;
	}
}
