/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The survivor's block commands. One is begun once, for the model, and sent as often as it takes:
 * again when it was answered that nothing was done, and again behind the fence when its connection
 * was lost. What may have been done by an attempt that was lost is never said not to have been.
 */
#include "tests/sim/survivor.h"

#include <string.h>
#include "proto/wire/wire_names.h"
#include "tests/sim/crc32c.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* Until what was answered BUSY or the like is sent again. */
#define AGAIN_NS (20 * SIM_MS)

static __attribute__((noreturn)) void errand_fail(const struct sim_errand *errand, const char *what)
{
	sim_fail("%s: #%u: %s", errand->survivor->actor.name, errand->number, what);
}

/* -- the end ------------------------------------------------------------------------------- */

static void errand_end(struct sim_errand *errand, enum sim_outcome outcome)
{
	struct sim_survivor *survivor = errand->survivor;

	survivor->completed += outcome == SIM_OUTCOME_DONE;
	if (errand->command)
		sim_survivor_learn(errand, outcome == SIM_OUTCOME_DONE);
	if (!errand->zombie)
		sim_model_end(errand->command, outcome, errand->memory);
	if (errand->memory)
		sim_guard_return(&survivor->guard, errand->memory);
	errand->memory = NULL;
	errand->state = SIM_ERRAND_FREE;
	survivor->under_way--;
}

static void errand_again(struct sim_errand *errand)
{
	errand->state = SIM_ERRAND_READY;
	errand->not_before_ns = sim_now_ns() + sim_between(SIM_US, AGAIN_NS);
}

/* Answered that nothing was done; perhaps that is enough of it. */
static void errand_nothing(struct sim_errand *errand)
{
	/* A reservation may have come when a part of it was done. */
	if (!errand->lost_once && !errand->survivor->calm && sim_chance(100000))
		errand_end(errand,
			   errand->survivor->reserver.often ? SIM_OUTCOME_FAILED : SIM_OUTCOME_NOTHING);
	else
		errand_again(errand);
}

static void errand_check_digest(const struct sim_errand *errand)
{
	const struct rblk_wire_completion *answer = &errand->order.answer;

	if (!(errand->order.command.flags & RBLK_CMD_DIGEST))
		return;
	if (errand->kind != SIM_COMMAND_READ) {
		if (errand->wrong_digest)
			errand_fail(errand, "stored, and its digest does not match");
		return;
	}
	if (!(answer->flags & RBLK_CPL_DIGEST))
		errand_fail(errand, "a digest was asked for, and there is none");
	if (rblk_le32(answer->digest) !=
	    sim_crc32c(0, errand->memory, (size_t)errand->sectors * SIM_SECTOR))
		errand_fail(errand, "the digest is not that of the data");
}

static void errand_answered(struct sim_errand *errand)
{
	struct sim_survivor *survivor = errand->survivor;
	uint16_t status = rblk_le16(errand->order.answer.status);

	sim_reserve_judge(errand, status);
	switch (status) {
	case RBLK_OK:
		errand_check_digest(errand);
		errand_end(errand, SIM_OUTCOME_DONE);
		return;
	case RBLK_E_COMPARE:
		if (errand->kind != SIM_COMMAND_COMPARE)
			errand_fail(errand, "it compares nothing");
		errand_check_digest(errand);
		sim_model_differs(errand->command, rblk_le64(errand->order.answer.result));
		errand_end(errand, SIM_OUTCOME_NOTHING);
		return;
	case RBLK_E_IO:
	case RBLK_E_MEDIUM:
	case RBLK_E_NO_RESOURCES:
		errand_end(errand, SIM_OUTCOME_FAILED);
		return;
	case RBLK_E_DIGEST:
		if (!errand->wrong_digest)
			errand_fail(errand, "a digest that matches is refused");
		errand_end(errand, SIM_OUTCOME_NOTHING);
		return;
	case RBLK_E_NO_VOLUME:
		/* Closed meanwhile: it is opened again. */
		if (errand->handle == survivor->handle && errand->epoch == survivor->epoch)
			errand_fail(errand, "an open handle is not known");
		errand_nothing(errand);
		return;
	case RBLK_E_GONE:
		/* To be opened again, as it is now. */
		if (errand->handle == survivor->handle)
			survivor->handle = 0;
		errand_nothing(errand);
		return;
	case RBLK_E_RESERVED:
		/* An answer that is kept: to be done, it wants another number (F8). */
		errand->lost_once &= !errand->operation;
		errand->operation = 0;
		errand_nothing(errand);
		return;
	case RBLK_E_BUSY:
	case RBLK_E_ABORTED:
	case RBLK_E_DRAINING:
		errand_nothing(errand);
		return;
	}
	sim_fail("%s: #%u: a command that nothing is wrong with: %s", survivor->actor.name,
		 errand->number, rblk_status_text(status));
}

static void on_done(struct sim_order *order, bool answered)
{
	struct sim_errand *errand = (struct sim_errand *)order;
	struct sim_survivor *survivor = errand->survivor;

	sim_trace(survivor->actor.name, "#%u %s", errand->number,
		  answered ? rblk_status_text(rblk_le16(order->answer.status)) : "is lost");
	if (errand->mr)
		fab_mr_deregister(errand->mr);
	errand->mr = NULL;
	if (errand->zombie) {
		if (answered)
			errand_fail(errand, "answered on a connection that is fenced (F5)");
		errand_end(errand, SIM_OUTCOME_NOTHING);
		return;
	}
	sim_survivor_check_abort(errand,
				 answered && rblk_le16(order->answer.status) == RBLK_E_ABORTED);
	if (answered) {
		sim_model_waited(survivor->actor.name, rblk_le32(order->answer.queued_us));
		errand_answered(errand);
		return;
	}
	errand->lost_once = true;
	errand->state = SIM_ERRAND_LOST;
}

void sim_survivor_abandon(struct sim_survivor *survivor)
{
	for (unsigned int i = 0; i < SIM_SURVIVOR_ERRANDS; i++) {
		struct sim_errand *errand = &survivor->errands[i];

		if (errand->state != SIM_ERRAND_FREE)
			errand_end(errand,
				   errand->lost_once ? SIM_OUTCOME_LOST : SIM_OUTCOME_NOTHING);
	}
}

/* -- sending ------------------------------------------------------------------------------- */

static uint8_t errand_flags(const struct sim_errand *errand, const struct sim_life *life)
{
	uint8_t flags = errand->lost_once ? RBLK_CMD_RETRY : 0;

	if (errand->fua)
		flags |= RBLK_CMD_FUA;
	if (errand->capsule)
		flags |= RBLK_CMD_CAPSULE;
	if (errand->digest && life->features & RBLK_FEATURE_DIGEST)
		flags |= RBLK_CMD_DIGEST;
	if (errand->invalidate && life->features & RBLK_FEATURE_INVALIDATE)
		flags |= RBLK_CMD_INVALIDATE;
	if (errand->immediate && life->features & RBLK_FEATURE_IMMEDIATE &&
	    !(flags & (RBLK_CMD_DIGEST | RBLK_CMD_INVALIDATE)))
		flags |= RBLK_CMD_IMMEDIATE;
	return flags;
}

/* What its memory holds: for COMPARE_AND_WRITE what is expected, and what is new. */
static uint32_t errand_bytes(const struct sim_errand *errand)
{
	return (uint32_t)errand->sectors * SIM_SECTOR *
	       (errand->kind == SIM_COMMAND_COMPARE ? 2 : 1);
}

static uint32_t errand_rkey(struct sim_errand *errand, const struct sim_life *life, uint8_t flags)
{
	struct fab_mr *mr = errand->survivor->guard_mr;

	if (flags & RBLK_CMD_INVALIDATE) {
		fab_mr_register(life->fab, errand->memory, errand_bytes(errand),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_REMOTE_WRITE,
				&errand->mr);
		mr = errand->mr;
	}
	return fab_mr_rkey(mr, fab_conn_device(life->conn));
}

static void errand_encode(struct sim_errand *errand, const struct sim_life *life)
{
	static const uint8_t opcodes[SIM_COMMAND_KINDS] = {
		RBLK_OP_READ,	 RBLK_OP_WRITE, RBLK_OP_WRITE_ZEROES,
		RBLK_OP_DISCARD, RBLK_OP_FLUSH, RBLK_OP_COMPARE_AND_WRITE};
	const struct sim_survivor *survivor = errand->survivor;
	struct rblk_wire_command *command = &errand->order.command;
	uint32_t bytes = (uint32_t)errand->sectors * SIM_SECTOR;

	memset(command, 0, sizeof(*command));
	command->opcode = opcodes[errand->kind];
	command->flags = errand_flags(errand, life);
	command->volume = rblk_to_le32(survivor->handle);
	if (errand->kind == SIM_COMMAND_FLUSH)
		return;
	command->lba = rblk_to_le64(errand->sector * SIM_SECTOR / survivor->block_bytes);
	command->blocks = rblk_to_le32(bytes / survivor->block_bytes);
	command->argument = rblk_to_le64(errand->operation);
	if (!errand->memory)
		return;
	bytes = errand_bytes(errand);
	command->segment.length = rblk_to_le32(bytes);
	if (!errand->capsule) {
		command->segment.address = rblk_to_le64((uintptr_t)errand->memory);
		command->segment.rkey = rblk_to_le32(errand_rkey(errand, life, command->flags));
	}
	if (errand->kind != SIM_COMMAND_READ && command->flags & RBLK_CMD_DIGEST)
		command->digest = rblk_to_le32(sim_crc32c(0, errand->memory, bytes) ^
					       (errand->wrong_digest ? 1 : 0));
}

/* F5: an earlier attempt, of an incarnation that is fenced, is no more with the store. */
static void errand_check_fenced(const struct sim_errand *errand)
{
	const struct sim_survivor *survivor = errand->survivor;
	const struct sim_disk *disk = survivor->host->disks[survivor->volume];

	if (disk && errand->id && sim_disk_is_writing(disk, errand->id))
		errand_fail(errand, "its incarnation is fenced, and it is being stored (F5)");
}

/* There is room. */
static void errand_send(struct sim_errand *errand, struct sim_life *life)
{
	const struct sim_survivor *survivor = errand->survivor;

	if (errand->lost_once)
		errand_check_fenced(errand);
	if (!errand->zombie) {
		errand->command->life = errand->command->own_life = survivor->life;
		sim_model_again(errand->command, errand->lost_once);
	}
	/* A lie that cannot be told is none. */
	errand->wrong_digest &= (life->features & RBLK_FEATURE_DIGEST) != 0;
	errand_encode(errand, life);
	errand->state = SIM_ERRAND_SENT;
	errand->epoch = life->epoch;
	errand->queue = life->queue;
	errand->incarnation = life->incarnation;
	errand->handle = survivor->handle;
	errand->abort_told = false;
	sim_reserve_begins(errand);
	errand->order.capsule_lkey = fab_mr_lkey(survivor->guard_mr, fab_conn_device(life->conn));
	sim_life_add(life, &errand->order);
	sim_trace(life->name, "#%u goes by queue %u incarnation %u tag %u sequence %u",
		  errand->number, life->queue, life->incarnation, errand->order.tag,
		  errand->order.sequence);
}

/* F5: behind the fence of the incarnation by which it went. */
static bool errand_is_fenced(const struct sim_errand *errand)
{
	const struct sim_survivor *survivor = errand->survivor;

	return errand->epoch < survivor->epoch ||
	       errand->incarnation <= survivor->places[errand->queue].fenced;
}

static bool errand_may_go(struct sim_errand *errand)
{
	bool ready = errand->state == SIM_ERRAND_READY && sim_now_ns() >= errand->not_before_ns;
	bool lost = errand->state == SIM_ERRAND_LOST && errand_is_fenced(errand);

	return (ready || lost) &&
	       (errand->kind != SIM_COMMAND_COMPARE || sim_compare_may_go(errand));
}

/* -- beginning ----------------------------------------------------------------------------- */

/* The longest that the target takes. */
static uint64_t bytes_max(const struct sim_survivor *survivor)
{
	uint64_t most = survivor->host->config.max_io_bytes;

	return most < SIM_SLOT_BYTES ? most : SIM_SLOT_BYTES;
}

/* Any range, often of the same few blocks. */
static void errand_choose_range(struct sim_errand *errand)
{
	const struct sim_survivor *survivor = errand->survivor;
	uint64_t block = survivor->block_bytes / SIM_SECTOR;
	uint64_t most = bytes_max(survivor) / survivor->block_bytes;
	uint64_t count = sim_between(1, sim_chance(800000) ? 4 : most);

	if (count > survivor->blocks)
		count = survivor->blocks;
	errand->sectors = count * block;
	errand->sector = sim_below(sim_chance(500000) && survivor->blocks - count > 4
					   ? 4
					   : survivor->blocks - count + 1) *
			 block;
}

static void errand_choose(struct sim_errand *errand)
{
	const struct sim_survivor *survivor = errand->survivor;
	uint32_t can = survivor->volume_flags;

	errand->kind = SIM_COMMAND_WRITE;
	if (can & RBLK_VOLUME_FLUSH && sim_chance(survivor->flush)) {
		errand->kind = SIM_COMMAND_FLUSH;
		return;
	}
	errand_choose_range(errand);
	/* It reads first what it does not know. */
	if (can & RBLK_VOLUME_COMPARE_AND_WRITE && sim_chance(survivor->compare))
		errand->kind = sim_compare_expect(errand) ? SIM_COMMAND_COMPARE : SIM_COMMAND_READ;
	else if (sim_chance(survivor->read))
		errand->kind = SIM_COMMAND_READ;
	else if (can & RBLK_VOLUME_WRITE_ZEROES && sim_chance(survivor->zeroes))
		errand->kind = SIM_COMMAND_ZEROES;
	else if (can & RBLK_VOLUME_DISCARD && sim_chance(50000))
		errand->kind = SIM_COMMAND_DISCARD;
	errand->fua = can & RBLK_VOLUME_FUA && sim_chance(survivor->fua) &&
		      (errand->kind == SIM_COMMAND_WRITE || errand->kind == SIM_COMMAND_ZEROES ||
		       errand->kind == SIM_COMMAND_COMPARE);
}

/* Memory, and how the data is to travel. False: there is none. */
static bool errand_equip(struct sim_errand *errand)
{
	struct sim_survivor *survivor = errand->survivor;
	bool compare = errand->kind == SIM_COMMAND_COMPARE, read = errand->kind == SIM_COMMAND_READ;
	const struct sim_command command = {.sector = errand->sector,
					    .sectors = errand->sectors,
					    .id = errand->id,
					    .expected = errand->expected};
	uint32_t bytes = errand_bytes(errand);

	if (!read && !compare && errand->kind != SIM_COMMAND_WRITE)
		return true;
	errand->memory = sim_guard_lend(&survivor->guard, bytes, read);
	if (!errand->memory)
		return false;
	errand->capsule = !read && bytes <= 16384 && sim_chance(500000);
	errand->invalidate = !errand->capsule && sim_chance(300000);
	errand->immediate = read && sim_chance(800000);
	errand->digest = sim_chance(survivor->digest);
	errand->wrong_digest = errand->digest && !read && !survivor->calm && sim_chance(200000);
	errand->order.capsule_bytes = errand->capsule ? bytes : 0;
	errand->order.capsule = errand->memory;
	if (compare)
		sim_compare_fill(&command, errand->memory);
	for (uint64_t i = 0; i < errand->sectors && !read && !compare; i++)
		sim_sector_fill(errand->memory + i * SIM_SECTOR, errand->id, errand->sector + i);
	return true;
}

static struct sim_errand *errand_new(struct sim_survivor *survivor)
{
	for (unsigned int i = 0; i < SIM_SURVIVOR_ERRANDS; i++) {
		struct sim_errand *errand = &survivor->errands[i];

		if (errand->state != SIM_ERRAND_FREE)
			continue;
		memset(errand, 0, sizeof(*errand));
		errand->survivor = survivor;
		errand->order.done = on_done;
		return errand;
	}
	return NULL;
}

/* Tell the model; from here on it is to be sent until it is over. */
static bool errand_begin(struct sim_errand *errand)
{
	struct sim_survivor *survivor = errand->survivor;
	struct sim_command command = {
		.kind = errand->kind,
		.volume = survivor->host->volumes[survivor->volume],
		.session = survivor->session,
		.life = survivor->life,
		.own_life = survivor->life,
		.resent = true,
		.fua = errand->fua,
		.sector = errand->sector,
		.sectors = errand->sectors,
		.expected = errand->expected,
	};

	if (errand->kind == SIM_COMMAND_WRITE || errand->kind == SIM_COMMAND_COMPARE)
		errand->id = command.id = sim_model_id();
	if (!errand_equip(errand))
		return false;
	errand->command = sim_model_begin(&command);
	if (errand->zombie)
		sim_model_end(errand->command, SIM_OUTCOME_NOTHING, NULL);
	errand->number = ++survivor->number;
	errand->state = SIM_ERRAND_READY;
	survivor->under_way++;
	sim_trace(survivor->actor.name, "#%u begins: kind %u%s %llu+%llu id %llu%s", errand->number,
		  errand->kind, errand->fua ? " FUA" : "", (unsigned long long)errand->sector,
		  (unsigned long long)errand->sectors, (unsigned long long)command.id,
		  errand->wrong_digest ? ", its digest wrong" : "");
	return true;
}

/* -- work ------------------------------------------------------------------------------------ */

/* Commands go in the order of their slots, which is any: by whichever connection has room. */
static void survivor_send(struct sim_survivor *survivor)
{
	struct sim_life *life = sim_survivor_live(survivor, false);

	for (unsigned int i = 0; i < SIM_SURVIVOR_ERRANDS; i++)
		if (survivor->errands[i].state != SIM_ERRAND_FREE &&
		    sim_compare_is_unknown(&survivor->errands[i]))
			errand_end(&survivor->errands[i], SIM_OUTCOME_LOST);
	if (!life || !survivor->handle)
		return;
	for (unsigned int i = 0; i < SIM_SURVIVOR_ERRANDS; i++) {
		struct sim_errand *errand = &survivor->errands[i];

		if (!errand_may_go(errand))
			continue;
		if (!sim_life_room(life, &errand->order)) {
			sim_life_send(life);
			life = sim_survivor_live(survivor, false);
			if (!sim_life_room(life, &errand->order))
				break;
		}
		errand_send(errand, life);
	}
	sim_life_send(life);
}

void sim_survivor_work(struct sim_survivor *survivor)
{
	unsigned int burst = (unsigned int)sim_between(0, survivor->depth);

	while (survivor->handle && survivor->ops_left && survivor->under_way < survivor->depth &&
	       burst--) {
		struct sim_errand *errand = errand_new(survivor);

		if (!errand)
			break;
		errand_choose(errand);
		if (!errand_begin(errand))
			break;
		survivor->ops_left--;
	}
	survivor_send(survivor);
}

bool sim_survivor_verify(struct sim_survivor *survivor)
{
	uint64_t sectors = survivor->blocks * survivor->block_bytes / SIM_SECTOR;

	survivor->doing = "verifies";
	while (survivor->handle && survivor->verified < sectors &&
	       survivor->under_way < survivor->depth) {
		struct sim_errand *errand = errand_new(survivor);

		if (!errand)
			break;
		errand->kind = SIM_COMMAND_READ;
		errand->sector = survivor->verified;
		errand->sectors = bytes_max(survivor) / SIM_SECTOR;
		if (errand->sectors > sectors - survivor->verified)
			errand->sectors = sectors - survivor->verified;
		if (!errand_begin(errand))
			break;
		survivor->verified += errand->sectors;
	}
	return survivor->handle && survivor->verified == sectors && !survivor->under_way;
}

void sim_survivor_check_fence(struct sim_survivor *survivor, uint16_t queue, uint32_t incarnation)
{
	for (unsigned int i = 0; i < SIM_SURVIVOR_ERRANDS; i++) {
		const struct sim_errand *errand = &survivor->errands[i];

		if ((errand->state == SIM_ERRAND_SENT || errand->state == SIM_ERRAND_LOST) &&
		    errand->epoch == survivor->epoch && errand->queue == queue && errand->incarnation <= incarnation)
			errand_check_fenced(errand);
	}
}

/*
 * Behind the fence's acknowledgement nothing that is sent by the old connection exists: for the
 * model this WRITE is over, without effect, before it begins.
 */
void sim_survivor_haunt(struct sim_survivor *survivor, struct sim_life *life)
{
	struct sim_errand *errand = survivor->handle ? errand_new(survivor) : NULL;

	if (errand) {
		errand->kind = SIM_COMMAND_WRITE;
		errand->zombie = true;
		errand_choose_range(errand);
	}
	if (!errand || !errand_begin(errand) || !sim_life_room(life, &errand->order)) {
		if (errand && errand->state == SIM_ERRAND_READY)
			errand_end(errand, SIM_OUTCOME_NOTHING);
		sim_life_close(life, false);
		return;
	}
	errand_send(errand, life);
	sim_life_send(life);
}
