/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The requests of a machine with the module: chosen, begun, ended. The model is told what they may
 * have done, and what the module says of losses (F7) is checked.
 */
#include "tests/sim/module.h"

#include <errno.h>
#include <string.h>
#include "proto/wire/payload.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/hung.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* -- F7 -------------------------------------------------------------------------------------- */

static bool flush_is_under_way(const struct sim_module_disk *disk, const struct sim_module *module)
{
	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		if (module->ops[i].command && module->ops[i].disk == disk &&
		    module->ops[i].command->kind == SIM_COMMAND_FLUSH)
			return true;
	return false;
}

/* What is under way may have been done when its volume had none. */
static void note_cache(struct sim_module *module, const struct sim_module_disk *disk, const struct sim_disk_view *view)
{
	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		if (module->ops[i].disk == disk && !(view->flags & RBLK_VOLUME_VOLATILE_CACHE))
			module->ops[i].cached = false;
}

/* FLUSH must fail exactly if the cache epoch has changed and writes were not flushed. */
static void disk_reopened(struct sim_module *module, struct sim_module_disk *disk,
			  const struct sim_disk_view *view)
{
	bool changed = memcmp(disk->cache_epoch, view->cache_epoch, sizeof(disk->cache_epoch)) != 0;
	unsigned int life = disk->life;

	/* A FLUSH that is under way may have been answered by then. */
	if (changed && disk->wrote > disk->covered && !view->lost &&
	    !flush_is_under_way(disk, module))
		sim_fail("%s: acknowledged writes may be lost, and FLUSH would succeed (F7)",
			 module->actor.name);
	/* Attached without a cache, it has written through whatever its volume has got since; what has no FLUSH is memory. */
	if (view->lost && view->flags & RBLK_VOLUME_FLUSH && !view->write_cache)
		sim_fail("%s: what needs no FLUSH may be lost (F7)", module->actor.name);
	if (view->flags & RBLK_VOLUME_VOLATILE_CACHE && view->flags & RBLK_VOLUME_FLUSH && !view->write_cache)
		sim_reached("module", "has a disk whose volume has got a volatile cache", NULL);
	if (!changed && view->lost && !disk->lost)
		sim_fail("%s: FLUSH would fail, and nothing can be lost (F7)", module->actor.name);
	memcpy(disk->cache_epoch, view->cache_epoch, sizeof(disk->cache_epoch));
	disk->epoch = view->epoch;
	disk->handle = view->handle;
	disk->life = disk->opening.life;
	/* A failed flush lost something, and nobody could tell the session (F9). */
	if (!changed && disk->life != life)
		disk->own_life = disk->life;
	disk->lost = view->lost;
	disk->covered = disk->wrote;
	note_cache(module, disk, view);
	sim_reached("module", "has a volume opened anew by the module",
		    view->lost ? "after a loss" : NULL);
}

void sim_module_refresh(struct sim_module *module)
{
	for (unsigned int i = 0; i < module->disk_count; i++) {
		struct sim_module_disk *disk = &module->disks[i];
		struct sim_disk_view view;

		if (!disk->disk)
			continue;
		sim_disk_look(disk->disk, &view);
		if (view.epoch != disk->epoch || (view.ready && view.handle != disk->handle) ||
		    memcmp(view.cache_epoch, disk->cache_epoch, sizeof(view.cache_epoch)))
			disk_reopened(module, disk, &view);
	}
}

/* A FLUSH fails because acknowledged writes may be lost: its user knows now, or goes on as before. */
static void loss_is_told(struct sim_module *module, struct sim_module_disk *disk)
{
	sim_reached("module", "is told that acknowledged writes may be lost", NULL);
	if (!disk->disk || sim_chance(400000))
		return;
	sim_disk_acknowledge(disk->disk);
	module->known++;
	disk->own_life = disk->life;
	disk->lost = false;
}

/* What is durable, as far as its user can know. */
static void account(struct sim_module_op *op)
{
	struct sim_module *module = op->module;
	struct sim_module_disk *disk = op->disk;
	const struct sim_command *command = op->command;

	if (command->kind == SIM_COMMAND_WRITE || command->kind == SIM_COMMAND_ZEROES)
		disk->wrote += op->cached && !command->fua && !op->covered;
	if (command->kind != SIM_COMMAND_FLUSH)
		return;
	/* A FLUSH speaks for all disks of its volume. */
	for (unsigned int i = 0; i < module->disk_count; i++)
		if (module->disks[i].volume == disk->volume)
			module->disks[i].covered = module->disks[i].wrote;
	/* It may cover what was answered before it was sent, and has not ended yet. */
	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		if (module->ops[i].command && module->ops[i].disk->volume == disk->volume)
			module->ops[i].covered = true;
}

/* -- ends ------------------------------------------------------------------------------------- */

/* What was sent again was fenced before: an answer, or the end of its time, is the end of all of it. */
static enum sim_outcome outcome_of(const struct sim_module *module,
				   const struct sim_module_disk *disk,
				   const struct sim_disk_result *result)
{
	if (result->done)
		return SIM_OUTCOME_DONE;
	if (result->error == -ENOLINK)
		return SIM_OUTCOME_LOST;
	if (result->error && result->error != -ETIMEDOUT && result->error != -EREMOTEIO)
		sim_fail("%s: a request that nothing is wrong with: error %d", module->actor.name, result->error);
	if (result->error)
		return SIM_OUTCOME_FAILED;
	switch (result->status) {
	case RBLK_E_RESERVED:
		if (!module->reserved)
			sim_fail("%s: refused by a reservation, and there are none", module->actor.name);
		/* Unless an earlier attempt was done, nothing was. */
		return result->again ? SIM_OUTCOME_FAILED : SIM_OUTCOME_NOTHING;
	case RBLK_E_READ_ONLY:
		if (!module->host->turns[disk->volume])
			sim_fail("%s: a write is refused, and its volume is writable", module->actor.name);
		return result->again ? SIM_OUTCOME_FAILED : SIM_OUTCOME_NOTHING;
	case RBLK_E_IO:
	case RBLK_E_MEDIUM:
	case RBLK_E_NO_RESOURCES:
	case RBLK_E_BUSY:
	case RBLK_E_DRAINING:
	case RBLK_E_GONE:
	case RBLK_E_ABORTED:
		return SIM_OUTCOME_FAILED;
	}
	sim_fail("%s: a request that nothing is wrong with: %s", module->actor.name,
		 rblk_status_text(result->status));
}

static bool is_stored(const struct sim_module *module, unsigned int volume, uint64_t id)
{
	const struct sim_disk *disk = module->host->disks[volume];

	return disk && id && sim_disk_is_writing(disk, id);
}

/* What is refused because its volume is gone waits until the disk has it again, or ends with the disk's patience. */
static void gone_is_told(const struct sim_module *module, const struct sim_module_op *op)
{
	struct sim_disk_view view;

	if (!op->disk->disk)
		return;
	sim_disk_look(op->disk->disk, &view);
	if (!view.failed && !op->fail_fast)
		sim_fail("%s: #%u has failed because its volume is gone, and the disk has not", module->actor.name,
			 op->number);
}

/* What the target only has no room for, or drains, waits for as long as a lost connection would be waited for. */
static void refusal_is_told(const struct sim_module *module, const struct sim_module_op *op)
{
	struct sim_disk_view view = {0};

	if (op->disk->disk)
		sim_disk_look(op->disk->disk, &view);
	if (op->disk->disk && !view.failed && !op->fail_fast &&
	    sim_now_ns() - op->begun_ns < module->attach.give_up_ms * SIM_MS)
		sim_fail("%s: #%u has failed because the target is busy, before give_up_ms", module->actor.name,
			 op->number);
}

static void op_done(void *arg, const struct sim_disk_result *result)
{
	struct sim_module_op *op = arg;
	struct sim_module *module = op->module;
	struct sim_command *command = op->command;
	struct sim_module_disk *disk = op->disk;
	enum sim_outcome outcome = outcome_of(module, disk, result);

	if (!command)
		sim_fail("%s: a request is ended twice", module->actor.name);
	if (!result->done && !result->error && result->status == RBLK_E_GONE)
		gone_is_told(module, op);
	if (!result->done && !result->error &&
	    (result->status == RBLK_E_BUSY || result->status == RBLK_E_NO_RESOURCES ||
	     result->status == RBLK_E_DRAINING))
		refusal_is_told(module, op);
	if (result->status == RBLK_E_RESERVED) {
		module->refused = true;
		sim_reached("module", sim_command_kind_name(command->kind), "is refused by a reservation");
	}
	if (module->reserved && !result->error)
		sim_reserver_judge(module->host, disk->volume, op->reservation, SIM_MODULE_NAME,
				   op->number, command->kind, result->status);
	sim_module_refresh(module);
	if (outcome == SIM_OUTCOME_DONE && command->kind == SIM_COMMAND_FLUSH && disk->lost)
		sim_reached("module", "a FLUSH has succeeded before the loss is known", NULL);
	command->life = disk->life;
	command->own_life = disk->own_life;
	sim_trace(module->actor.name, "#%u ends: %s, error %d, %s", op->number,
		  sim_outcome_name(outcome), -result->error, rblk_status_text(result->status));
	sim_reached("module", sim_command_kind_name(command->kind), sim_outcome_name(outcome));
	if (outcome == SIM_OUTCOME_DONE && op->hopeless == module->known)
		sim_fail("%s: a FLUSH succeeds, and nobody has acknowledged the loss (F7)", module->actor.name);
	if (outcome == SIM_OUTCOME_DONE)
		account(op);
	if (command->kind == SIM_COMMAND_FLUSH && outcome == SIM_OUTCOME_FAILED && disk->lost)
		loss_is_told(module, disk);
	if (outcome == SIM_OUTCOME_LOST && command->id)
		module->losses[module->loss_count++ % SIM_MODULE_LOSSES] =
			(struct sim_module_loss){command->id, module->op_number, command->session,
						 disk->volume, result->lost};
	if (result->lost.lost)
		sim_module_twin_told(op);
	if ((outcome == SIM_OUTCOME_FAILED || outcome == SIM_OUTCOME_NOTHING) &&
	    is_stored(module, disk->volume, command->id))
		sim_fail("%s: #%u has failed, and is being stored (F5)", module->actor.name, op->number);
	sim_hung_ended(module->actor.name, module->host->disks[disk->volume], command, op->begun_ns,
		       outcome == SIM_OUTCOME_DONE, true);
	op->command = NULL;
	if (!--module->under_way)
		module->actor.flips = 0;
	module->completed += outcome == SIM_OUTCOME_DONE;
	sim_model_end(command, outcome, op->memory);
	if (op->memory)
		sim_guard_return(&module->guard, op->memory);
	op->memory = NULL;
	sim_fiber_wake(&module->fiber, sim_between(200, 20 * SIM_US));
}

/*
 * F5: an earlier attempt is no more with the store, nor is what had failed without an answer before this one was begun.
 * One that was begun before that is concurrent with it, whichever disk of the volume it goes by: their user has no order
 * of them to rely on. Its route may have been chosen before the failure, and it may already be in a message that waits
 * for the last one's end.
 */
void sim_module_sends(const void *arg)
{
	const struct sim_module_op *op = arg;
	const struct sim_module *module = op->module;

	if (is_stored(module, op->disk->volume, op->command->id))
		sim_fail("%s: #%u is sent again, and it is being stored (F5)", module->actor.name,
			 op->number);
	for (unsigned int i = 0; i < SIM_MODULE_LOSSES; i++) {
		const struct sim_module_loss *loss = &module->losses[i];

		/* Of another disk: its user has given that one up. */
		if (loss->session != op->command->session || loss->volume != op->disk->volume ||
		    op->number <= loss->begun)
			continue;
		if (op->disk->disk && sim_disk_owes_fence(op->disk->disk, &loss->lost))
			sim_fail("%s: #%u is sent, and a fence is owed for one that has failed (F5)",
				 module->actor.name, op->number);
		if (is_stored(module, loss->volume, loss->id))
			sim_fail("%s: #%u is sent, and one that has failed is being stored (F5)",
				 module->actor.name, op->number);
	}
}

/* -- beginnings ---------------------------------------------------------------------------------- */

static struct sim_module_op *op_free(struct sim_module *module)
{
	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		if (!module->ops[i].command)
			return &module->ops[i];
	return NULL;
}

/* Memory, and what it says. False: there is none. */
static bool op_equip(struct sim_module_op *op, struct sim_command *command)
{
	uint32_t bytes = (uint32_t)command->sectors * SIM_SECTOR;
	bool read = command->kind == SIM_COMMAND_READ;

	op->memory = NULL;
	if (!read && command->kind != SIM_COMMAND_WRITE)
		return true;
	op->memory = sim_guard_lend(&op->module->guard, bytes, read);
	if (!op->memory)
		return false;
	if (read)
		return true;
	sim_command_fill(command, op->memory);
	return true;
}

/*
 * When it is acknowledged. The block layer takes FUA away where it knows of no cache, so that counts for all writes then;
 * but memory cannot be flushed at all.
 */
static bool is_durable(const struct sim_command *command, const struct sim_disk_view *view)
{
	if (view->write_cache || !(view->flags & RBLK_VOLUME_FLUSH))
		return command->fua;
	return command->kind == SIM_COMMAND_WRITE || command->kind == SIM_COMMAND_ZEROES;
}

/* Where all connections are to be lost while a disk hangs, its requests keep to the last, so that the others come back. */
static unsigned int context_for(const struct sim_module *module, const struct sim_module_disk *disk,
				const struct sim_disk_view *view)
{
	if (module->hung_breaks && module->fail_fast && sim_hung_is(module->host->disks[disk->volume]))
		return view->contexts - 1;
	return (unsigned int)sim_below(view->contexts);
}

bool sim_module_begin(struct sim_module *module, struct sim_module_disk *disk,
		       struct sim_command command, bool last)
{
	struct sim_module_op *op = op_free(module);
	struct sim_disk_request request;
	struct sim_disk_view view;
	uint32_t joined_bytes = 0;
	bool request_fua;

	if (!op)
		return false;
	op->module = module;
	if (!op_equip(op, &command))
		return false;
	sim_disk_look(disk->disk, &view);
	command.volume = module->host->volumes[disk->volume];
	command.session = sim_rdma_session();
	command.life = disk->life;
	command.own_life = disk->own_life;
	command.resent = command.unseen = true;
	request_fua = command.fua && view.write_cache;
	command.fua = is_durable(&command, &view);
	/* As applications' (app_op.c). */
	command.untorn = module->host->untorn && command.kind == SIM_COMMAND_WRITE && command.id % 2 &&
			 rblk_untorn_valid(command.sector * SIM_SECTOR, command.sectors * SIM_SECTOR,
					   view.untorn_min_bytes, view.untorn_max_bytes);
	if (module->host->untorn && command.kind == SIM_COMMAND_WRITE && command.id % 2 && !command.untorn)
		joined_bytes = view.untorn_min_bytes;
	if (view.goes_on)
		sim_model_goes_on(command.session, command.volume);
	op->disk = disk;
	op->covered = false;
	op->cached = view.flags & RBLK_VOLUME_VOLATILE_CACHE;
	op->hopeless = command.kind == SIM_COMMAND_FLUSH && view.lost ? module->known : 0;
	op->reservation = sim_reserver_moment(module->host, disk->volume);
	op->begun_ns = sim_now_ns();
	op->number = ++module->op_number;
	op->context = context_for(module, disk, &view);
	op->polled = op->context >= view.contexts - view.polled;
	op->command = sim_model_begin(&command);
	sim_trace(module->actor.name, "#%u %s%s%s %llu+%llu id %llu on context %u", op->number,
		  sim_command_kind_name(command.kind), command.fua ? " FUA" : "", command.untorn ? " untorn" : "",
		  (unsigned long long)command.sector, (unsigned long long)command.sectors,
		  (unsigned long long)command.id, op->context);
	module->under_way++;
	request = (struct sim_disk_request){
		.kind = command.kind,
		.fua = request_fua,
		.untorn = command.untorn,
		.priority = sim_sector_priority(command.sector),
		.joined_bytes = joined_bytes,
		.fail_fast = sim_chance(module->fail_fast),
		.last = last || op->polled || sim_chance(500000),
		.sector = command.sector,
		.sectors = command.sectors,
		.memory = op->memory,
		.context = op->context,
		.done = op_done,
		.arg = op,
	};
	op->fail_fast = request.fail_fast;
	if (!sim_disk_submit(disk->disk, &request)) {
		/* Whoever does not ring now does so a little later. */
		if (!request.last)
			sim_disk_commit(disk->disk, request.context);
		return true;
	}
	module->under_way--;
	sim_model_end(op->command, SIM_OUTCOME_NOTHING, NULL);
	op->command = NULL;
	if (op->memory)
		sim_guard_return(&module->guard, op->memory);
	op->memory = NULL;
	return false;
}

static struct sim_command choose(const struct sim_module *module,
				 const struct sim_disk_view *view)
{
	const struct sim_scope scope = {
		.block_bytes = view->block_bytes,
		.blocks = view->blocks,
		.max_bytes = view->max_bytes,
		.flush = view->write_cache,
		.fua = view->flags & RBLK_VOLUME_FUA,
		.zeroes = view->flags & RBLK_VOLUME_WRITE_ZEROES,
		.discard = view->flags & RBLK_VOLUME_DISCARD,
	};
	struct sim_load load = module->load;

	/* The block layer lets nobody write to a disk that is read-only. */
	if (view->read_only)
		load.read = 1000000;
	return sim_load_choose(&load, &scope);
}

/* Of a disk that hangs it has only so many. */
static bool has_enough(const struct sim_module *module, const struct sim_module_disk *disk)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		count += module->ops[i].command && module->ops[i].disk == disk;
	return count >= sim_hung_depth() && sim_hung_is(module->host->disks[disk->volume]);
}

bool sim_module_begin_any(struct sim_module *module, bool last)
{
	struct sim_module_disk *disk = &module->disks[sim_below(module->disk_count)];
	struct sim_disk_view view;

	if (has_enough(module, disk))
		disk = &module->disks[disk == module->disks];

	sim_disk_look(disk->disk, &view);
	return sim_module_begin(module, disk, choose(module, &view), last);
}
