/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a world's theme changes in what world_build.c has made: who does what, and which faults there are.
 */
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/hung.h"
#include "tests/sim/random.h"
#include "tests/sim/world_impl.h"

bool sim_world_reserves(enum world_kind kind)
{
	return kind == WORLD_RESERVED || kind == WORLD_PREEMPTED || kind == WORLD_SHARED;
}

uint32_t sim_world_rate(uint32_t seldom, uint32_t often)
{
	uint64_t kind = sim_below(3);

	return kind == 0 ? 0 : kind == 1 ? seldom : often;
}

/* Many writers and few receive buffers: what credits promise has to be there. */
static void make_crowded(void)
{
	for (unsigned int i = 0; i < sim_world.app_count; i++) {
		struct sim_app *app = &sim_world.apps[i];

		app->host = &sim_world.hosts[0];
		app->portals = 1;
		app->silent_portal = false;
		app->mounts[0].volume = 0;
		app->mount_count = 1;
		app->options.queues = 3;
		app->options.credits = 32;
		app->load.depth = SIM_SLOTS;
		app->single = true;
		app->load.read = 0;
		app->load.large = 0;
		app->think_ns = SIM_US;
		app->load.ops_left = 100;
	}
	/* And those who leave without a word keep what they have: a machine that begins anew does. */
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++) {
		sim_world.raw_initiators[i].host = &sim_world.hosts[0];
		sim_world.raw_initiators[i].volume = 0;
		sim_world.raw_initiators[i].queue_count = SIM_RAW_QUEUES;
		sim_world.raw_initiators[i].credits = SIM_WIRE_CREDITS;
		sim_world.raw_initiators[i].mischief = 100000;
		sim_world.raw_initiators[i].mischiefs =
			sim_chance(500000)
				? UINT32_MAX
				: 1u << SIM_MISCHIEF_RESTART;
	}
}

static void make_fencing(void)
{
	static const uint32_t fencing = 1u << SIM_MISCHIEF_FENCE | 1u << SIM_MISCHIEF_RENEW |
					1u << SIM_MISCHIEF_SUPERSEDE | 1u << SIM_MISCHIEF_PROBE |
					1u << SIM_MISCHIEF_ABORT | 1u << SIM_MISCHIEF_HANG_UP;

	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++) {
		struct sim_raw_initiator *raw = &sim_world.raw_initiators[i];

		raw->queue_count = (uint16_t)sim_between(2, SIM_RAW_QUEUES);
		raw->depth = SIM_RAW_REQUESTS;
		raw->read = 200000;
		raw->mischief = 50000;
		raw->mischiefs = fencing & (uint32_t)sim_random();
		raw->command_timeout_ns = sim_between(5, 50) * SIM_MS;
	}
}

static void make_memory(void)
{
	static const uint32_t ending = 1u << SIM_MISCHIEF_REOPEN | 1u << SIM_MISCHIEF_CLOSE |
				       1u << SIM_MISCHIEF_HANG_UP | 1u << SIM_MISCHIEF_RESTART;

	sim_world.faults |= 1u << FAULT_RELOAD | 1u << FAULT_BREAK;
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++) {
		struct sim_raw_initiator *raw = &sim_world.raw_initiators[i];

		/* Each is the last to have its volume open. */
		raw->volume = i % raw->host->volume_count;
		raw->queue_count = (uint16_t)sim_between(2, SIM_RAW_QUEUES);
		raw->depth = SIM_RAW_REQUESTS;
		raw->mischief = 50000;
		raw->mischiefs = ending & (uint32_t)sim_random();
	}
}

/* A pool of one block, a disk that takes it for long, and time to be told BUSY. */
static void make_starved(void)
{
	for (unsigned int i = 0; i < sim_world.app_count; i++) {
		sim_world.apps[i].options.command_timeout_ms = 30000;
		sim_world.apps[i].load.large = 500000;
		sim_world.apps[i].load.depth = 8;
	}
}

/* Long histories, of writes above all. */
/* Its disks outlive losses of power; of volumes that get a volatile cache then it takes one. */
static void make_power_module(struct sim_module *module)
{
	for (unsigned int v = 0; v < module->host->volume_count; v++) {
		const struct sim_disk *disk = module->host->disks[v];

		if (disk && disk->cache_turns && !disk->volatile_cache)
			module->disks[0].volume = v;
	}
	module->disks[1].volume = (module->disks[0].volume + 1) % module->host->volume_count;
	module->load.ops_left = (unsigned int)sim_between(200, 600);
	module->load.read = 200000;
	module->attach.give_up_ms = 60000;
	module->abandon = 0;
	module->think_ns = 200 * SIM_US;
}

static void make_power(void)
{
	sim_world.faults |= 1u << FAULT_POWER;
	if (sim_world.module_count && sim_chance(700000))
		make_power_module(&sim_world.module);
	for (unsigned int i = 0; i < sim_world.app_count; i++) {
		sim_world.apps[i].load.ops_left = (unsigned int)sim_between(200, 600);
		sim_world.apps[i].load.read = 200000;
		sim_world.apps[i].load.flush = sim_world_rate(5000, 50000);
		sim_world.apps[i].load.fua = sim_world_rate(0, 50000);
		sim_world.apps[i].think_ns = 200 * SIM_US;
	}
}

/* FLUSHes on several queues, of which one drains while the others are used again. */
static void make_drained(void)
{
	sim_world.faults = 1u << FAULT_POWER;
	for (unsigned int i = 0; i < sim_world.app_count; i++) {
		struct sim_app *app = &sim_world.apps[i];

		app->load.ops_left = (unsigned int)sim_between(300, 900);
		app->options.queues = 3;
		app->options.no_reconnect = false;
		app->options.give_up_ms = 60000;
		app->options.fail_fast_ms = 0;
		app->load.depth = 16;
		app->load.read = 50000;
		app->load.flush = 200000;
		app->load.fua = 0;
		app->think_ns = 5 * SIM_MS;
	}
}

/* All raw_initiators share a volume, the first, which no application uses: what a reservation refuses is
 * for them to see. */
static void make_reserved(bool preempts)
{
	static const uint32_t troubles = 1u << SIM_MISCHIEF_HANG_UP | 1u << SIM_MISCHIEF_SUPERSEDE |
					 1u << SIM_MISCHIEF_FENCE | 1u << SIM_MISCHIEF_RESTART |
					 1u << SIM_MISCHIEF_CHECKSUM | 1u << SIM_MISCHIEF_RENEW;

	sim_reservation_fail = sim_world_rate(20000, 200000);
	sim_world.faults |= sim_chance(500000) ? 1u << FAULT_KILL | 1u << FAULT_DRAIN : 0;
	for (unsigned int i = 0; i < sim_world.app_count; i++) {
		struct sim_app *app = &sim_world.apps[i];

		app->mounts[0].volume = 1;
		app->mount_count = 1;
	}
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++) {
		struct sim_raw_initiator *raw = &sim_world.raw_initiators[i];

		raw->host = &sim_world.hosts[0];
		raw->volume = 0;
		raw->reserver.often = sim_chance(500000) ? 50000 : 300000;
		raw->depth = SIM_RAW_REQUESTS;
		raw->think_ns = 20 * SIM_US;
		raw->mischief = sim_world_rate(1000, 20000);
		raw->mischiefs = troubles & (uint32_t)sim_random();
		raw->ops_left = (unsigned int)sim_between(100, 400);
		raw->read = (uint32_t)sim_between(100000, 500000);
		raw->compare = sim_world_rate(10000, 200000);
		raw->reserver.preempts = preempts;
		if (preempts)
			raw->read = 600000;
	}
}

/* Its programs reserve, too; a RESERVE that waits for the storage I/O of others may lose its queue, and not the others. */
static void make_shared_module(struct sim_module *module, bool preempts)
{
	module->host = &sim_world.hosts[0];
	module->attach.target = sim_world.hosts[0].machine;
	module->attach.portals = (unsigned int)sim_between(1, sim_world.hosts[0].portal_count);
	module->attach.silent_portal = false;
	module->disks[0].volume = 0;
	module->disks[1].volume = 1;
	module->reserved = true;
	module->kill = sim_world_rate(1000, 10000);
	module->reserves = sim_chance(800000) ? 100000 : 0;
	module->load.ops_left = (unsigned int)sim_between(100, 400);
	module->preempts = preempts;
	if (sim_chance(500000))
		return;
	module->attach.queues = 3;
	module->attach.give_up_ms = 60000;
	module->load.depth = 16;
	module->load.read = 100000;
	module->kill = 20000;
}

/* All use the first volume; some reserve it, and the others see what it refuses to them. */
static void make_shared(void)
{
	bool preempts = sim_chance(300000);

	make_reserved(preempts);
	for (unsigned int i = 0; i < sim_world.app_count; i++) {
		struct sim_app *app = &sim_world.apps[i];

		app->host = &sim_world.hosts[0];
		app->portals = (unsigned int)sim_between(1, app->host->portal_count);
		app->silent_portal = false;
		app->mounts[0].volume = 0;
		app->reserved = true;
		app->options.no_reconnect = sim_chance(150000);
		app->breaks = sim_world_rate(5000, 50000);
		app->reserver.often = sim_world_rate(50000, 200000);
		app->reserver.preempts = preempts;
		app->load.ops_left = (unsigned int)sim_between(100, 400);
		app->load.read = (uint32_t)sim_between(100000, 500000);
		app->think_ns = sim_chance(500000) ? 20 * SIM_US : SIM_MS;
	}
	if (sim_world.module_count)
		make_shared_module(&sim_world.module, preempts);
}

/* Two disks of one volume, which never loses anything. */
static void make_twins(struct sim_module *module)
{
	struct sim_disk *disk = module->host->disks[module->disks[0].volume];

	if (!disk)
		return;
	module->disk_count = 2;
	module->disks[1].volume = module->disks[0].volume;
	disk->fault_rates.fail = 0;
}

/* In a new epoch OPEN waits for what others have left there. */
static void make_closed_anew(struct sim_module *module)
{
	sim_world.faults = 1u << FAULT_KILL | 1u << FAULT_DRAIN;
	sim_world.kick = 500000;
	module->attach.command_ms = 2000;
	module->attach.fail_fast_ms = (unsigned int)sim_between(20, 200);
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++) {
		struct sim_raw_initiator *raw = &sim_world.raw_initiators[i];

		raw->host = module->host;
		raw->volume = module->disks[0].volume;
		raw->depth = SIM_RAW_REQUESTS;
		raw->read = 100000;
		raw->mischief = 50000;
		raw->mischiefs = 1u << SIM_MISCHIEF_HANG_UP;
	}
}

/* Another queue than the first is lost: the first one sends CLOSE, and the storage lets it wait. */
static void make_closed(void)
{
	struct sim_module *module = &sim_world.module;
	struct sim_disk *disk = module->host->disks[module->disks[0].volume];

	sim_world.faults = 0;
	module->attach.queues = 3;
	module->attach.command_ms = (unsigned int)sim_between(100, 400);
	module->attach.give_up_ms = 60000;
	module->load.depth = 16;
	module->kill = 10000;
	if (sim_chance(500000))
		make_closed_anew(module);
	if (!disk)
		return;
	if (!sim_world.faults && sim_chance(500000))
		make_twins(module);
	disk->fault_rates.stall = 200000;
	disk->fault_rates.stall_ns = sim_between(500, 4000) * SIM_MS;
}

/* An initiator that is killed has connections to both reactors, of which one is late, and opens the
 * volume again by the other. */
static void make_late(void)
{
	static const uint32_t ending = 1u << SIM_MISCHIEF_RESTART | 1u << SIM_MISCHIEF_RENEW |
				       1u << SIM_MISCHIEF_HANG_UP;

	sim_world.late = true;
	sim_world.faults = 1u << FAULT_LATE | (sim_world.faults & 1u << FAULT_BREAK);
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++) {
		struct sim_raw_initiator *raw = &sim_world.raw_initiators[i];

		raw->queue_count = (uint16_t)sim_between(2, SIM_RAW_QUEUES);
		raw->depth = SIM_RAW_REQUESTS;
		raw->read = 200000;
		raw->mischief = 20000;
		raw->mischiefs = 1u << SIM_MISCHIEF_RESTART | (ending & (uint32_t)sim_random());
		raw->think_ns = 20 * SIM_US;
		raw->ops_left = (unsigned int)sim_between(100, 400);
	}
}

/* The session goes on by other queues when one is lost whose writes take long: a fence is owed for them. */
static void make_replaced(void)
{
	struct sim_module *module = &sim_world.module;

	sim_world.faults &= 1u << FAULT_BREAK | 1u << FAULT_PORTAL;
	module->disk_count = 2;
	if (sim_chance(500000))
		make_twins(module);
	module->attach.portals = module->host->portal_count;
	module->attach.silent_portal = false;
	module->attach.queues = 3;
	module->attach.give_up_ms = 60000;
	if (sim_chance(500000))
		module->attach.command_ms = (unsigned int)sim_between(10, 100);
	if (sim_chance(500000))
		module->attach.fail_fast_ms = (unsigned int)sim_between(5, 50);
	module->load.ops_left = (unsigned int)sim_between(100, 400);
	module->load.depth = 16;
	module->load.read = 100000;
	module->fail_fast = sim_world_rate(100000, 500000);
	module->kill = 20000;
	module->abandon = sim_world_rate(0, 2000);
	module->think_ns = 20 * SIM_US;
}

/* Half of the time connections break all the time: what was done, and whose answer was lost, is asked for again. */
static void make_asking(void)
{
	bool breaks = sim_chance(500000);

	if (breaks) {
		sim_world.faults = 1u << FAULT_BREAK;
		sim_world.kick = sim_world_rate(0, 200000);
		sim_net.latency_max_ns = 2 * SIM_MS;
	}
	for (unsigned int i = 0; i < sim_world.app_count; i++) {
		struct sim_app *app = &sim_world.apps[i];

		app->compare = sim_world_rate(100000, 500000);
		app->abort = sim_world_rate(5000, 50000);
		if (!breaks)
			continue;
		app->options.no_reconnect = false;
		app->options.give_up_ms = 60000;
		app->load.ops_left = (unsigned int)sim_between(100, 400);
	}
}

/* Whatever goes on here is no reason to lose a session. */
static void make_benign(void)
{
	sim_world.faults = 0;
	sim_net.lose = sim_net.refuse = 0;
	for (unsigned int i = 0; i < sim_world.host_count; i++) {
		sim_world.hosts[i].pause = 0;
		for (unsigned int v = 0; v < sim_world.hosts[i].volume_count; v++)
			if (sim_world.hosts[i].disks[v])
				sim_world.hosts[i].disks[v]->fault_rates.stall = 0;
	}
	for (unsigned int i = 0; i < sim_world.app_count; i++) {
		sim_world.apps[i].options.command_timeout_ms = 12000;
		sim_world.apps[i].benign = true;
	}
}

static void make_hung_app(struct sim_app *app, uint32_t breaks)
{
	app->host = &sim_world.hosts[0];
	app->portals = app->host->portal_count;
	app->silent_portal = false;
	app->mount_count = 2;
	for (unsigned int m = 0; m < app->mount_count; m++)
		app->mounts[m].volume = m;
	app->options.queues = sim_chance(500000) ? 1 : 3;
	app->options.credits = 32;
	app->options.command_timeout_ms = (uint32_t)sim_between(100, 300);
	app->options.give_up_ms = (uint32_t)sim_between(500, 1000);
	app->options.fail_fast_ms = 0;
	app->options.no_reconnect = false;
	app->load.ops_left = (unsigned int)sim_between(400, 800);
	app->load.depth = 12;
	app->think_ns = 100 * SIM_MS;
	app->abandon = app->abort = app->ask = 0;
	app->hung_breaks = breaks;
	app->benign = true;
}

static void make_hung_module(struct sim_module *module, uint32_t breaks)
{
	module->host = &sim_world.hosts[0];
	module->disk_count = 2;
	for (unsigned int i = 0; i < module->disk_count; i++)
		module->disks[i].volume = i;
	module->attach.target = module->host->machine;
	module->attach.portals = module->host->portal_count;
	module->attach.silent_portal = false;
	module->attach.queues = (unsigned int)sim_between(1, 3);
	module->attach.poll_queues = 0;
	module->attach.credits = sim_chance(500000) ? 16 : 32;
	module->attach.command_ms = (unsigned int)sim_between(100, 300);
	module->attach.give_up_ms = (unsigned int)sim_between(500, 1000);
	module->attach.fail_fast_ms = sim_chance(500000) ? 0 : breaks ? 1 : 200;
	module->load.ops_left = (unsigned int)sim_between(200, 400);
	module->load.depth = 12;
	module->think_ns = 100 * SIM_MS;
	module->abandon = module->kill = 0;
	module->fail_fast = breaks && module->attach.fail_fast_ms ? 400000 : 0;
	sim_disk_kill_sending = sim_disk_starve = sim_blk_fake_timeouts = 0;
	module->hung_breaks = breaks;
	module->benign = true;
	/* Its programs reserve the volumes, or the disk that is well is attached again. */
	module->reserved = breaks && !module->fail_fast && sim_chance(500000);
	module->reserves = module->reserved ? 300000 : 0;
	/* The first carries what the disk that hangs holds up: OPEN, FENCE. */
	if (module->reserved)
		module->attach.queues = 3;
	module->hung_attaches = breaks && !module->reserved ? 20000 : 0;
}

/* It hangs much longer than its sessions would wait for a target that is lost. */
static void make_hung(void)
{
	uint32_t breaks = sim_chance(500000) ? 0 : 100000;
	uint64_t hung_ns;

	make_benign();
	for (unsigned int i = 0; i < sim_world.app_count; i++)
		make_hung_app(&sim_world.apps[i], breaks);
	if (sim_world.module_count)
		make_hung_module(&sim_world.module, breaks);
	for (unsigned int i = 0; i < sim_world.app_count; i++)
		sim_world.apps[i].reserved = sim_world.module_count && sim_world.module.reserved;
	for (unsigned int v = 0; v < sim_world.hosts[0].volume_count; v++)
		sim_world.hosts[0].disks[v]->fault_rates.fail = 0;
	hung_ns = sim_between(4, 8) * SIM_S;
	sim_hung_begin(sim_world.hosts[0].disks[0], sim_between(5, 100) * SIM_MS, hung_ns, SIM_S);
}

void sim_world_theme(enum world_kind kind)
{
	if (kind == WORLD_HUNG)
		make_hung();
	if (kind == WORLD_CROWDED)
		make_crowded();
	if (kind == WORLD_STARVED)
		make_starved();
	if (kind == WORLD_BENIGN)
		make_benign();
	if (kind == WORLD_FENCING)
		make_fencing();
	if (kind == WORLD_MEMORY)
		make_memory();
	if (kind == WORLD_POWER)
		make_power();
	if (kind == WORLD_DRAINED)
		make_drained();
	if (kind == WORLD_CLOSED)
		make_closed();
	if (kind == WORLD_LATE)
		make_late();
	if (kind == WORLD_REPLACED)
		make_replaced();
	if (kind == WORLD_ASKING)
		make_asking();
	if (kind == WORLD_SHARED)
		make_shared();
	else if (sim_world_reserves(kind))
		make_reserved(kind == WORLD_PREEMPTED);
}
