/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Worlds. What kind of world a seed gives is decided at the start: how good its network and disks
 * are, which faults there are at all, how much of everything its targets have.
 */
#include "tests/sim/world.h"

#include <string.h>
#include "target/io/lane.h"
#include "tests/sim/app.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/host.h"
#include "tests/sim/random.h"
#include "tests/sim/survivor.h"
#include "tests/sim/thread.h"
#include "tests/sim/trace.h"

#define HOSTS_MAX 2u
#define APPS_MAX 3u
#define SURVIVORS_MAX 2u
#define MACHINES_MAX (HOSTS_MAX + APPS_MAX + SURVIVORS_MAX)
/* A world that takes longer than this is stuck: several times what every time-out there is adds up
 * to when nothing more goes wrong. */
#define PROGRESS_NS (180 * SIM_S)
#define STEPS_MAX 4000000u

struct sim_totals sim_totals;

enum fault {
	FAULT_BREAK,
	FAULT_CUT,
	FAULT_KILL,
	FAULT_POWER,
	FAULT_DRAIN,
	FAULT_RELOAD,
	FAULT_UNPLUG,
	FAULT_PORTAL,
	FAULTS
};

/* Of these a world has one theme; the others are any mixture. */
enum world_kind {
	WORLD_CROWDED,	/* few receive buffers, many writers */
	WORLD_STARVED,	/* a pool of one block */
	WORLD_BENIGN,	/* nothing goes wrong */
	WORLD_FENCING,	/* sessions that are fenced while their writes are with slow disks */
	WORLD_MEMORY,	/* volumes in memory that end, and connections that drain slowly */
	WORLD_POWER,	/* writes that are not flushed, and power that fails */
	WORLD_RESERVED, /* initiators that keep each other from a volume */
	WORLD_KINDS = 12
};

static struct {
	struct sim_host hosts[HOSTS_MAX];
	struct sim_app apps[APPS_MAX];
	struct sim_survivor survivors[SURVIVORS_MAX];
	unsigned int host_count, app_count, survivor_count;
	struct sim_event fault, calm, heal[MACHINES_MAX], portal_heal[HOSTS_MAX][SIM_PORTALS_MAX];
	unsigned int ops_max;
	unsigned int faults; /* bit per enum fault: those that happen here */
	uint64_t fault_ns;   /* mean time between them */
} world;

/* -- faults -------------------------------------------------------------------------------- */

/* arg: the machine's heal event; its place tells which. */
static void on_heal(void *arg)
{
	unsigned int machine = (unsigned int)((struct sim_event *)arg - world.heal);

	sim_trace("network", "machine %u is reached again", machine);
	sim_link_cut(machine, 0);
}

static void machine_cut(void)
{
	static const char *const names[] = {"", "no way out", "no way in", "cut off"};
	unsigned int ways = (unsigned int)sim_between(1, 3);
	unsigned int machine =
		(unsigned int)sim_below(world.host_count + world.app_count + world.survivor_count);

	sim_trace("network", "machine %u: %s", machine, names[ways]);
	sim_reached("machine", names[ways], NULL);
	sim_link_cut(machine, ways);
	sim_event_in(&world.heal[machine],
		     sim_chance(700000) ? sim_below(20 * SIM_MS) : sim_below(5 * SIM_S));
	sim_totals.cuts++;
}

/* arg: the portal's heal event; its place tells which. */
static void on_portal_heal(void *arg)
{
	size_t place = (size_t)((struct sim_event *)arg - world.portal_heal[0]);
	unsigned int host = (unsigned int)(place / SIM_PORTALS_MAX);
	unsigned int portal = (unsigned int)(place % SIM_PORTALS_MAX);

	sim_trace("network", "target %u: portal %u is reached again", host, portal);
	sim_portal_cut(host, portal, 0);
}

/* One way or both, of one of the target's addresses; what goes by the others goes on. */
static void portal_cut(const struct sim_host *host)
{
	static const char *const names[] = {"", "no way out", "no way in", "cut off"};
	unsigned int portal = (unsigned int)sim_below(host->portal_count);
	unsigned int ways = (unsigned int)sim_between(1, 3);

	if (host->portal_count < 2)
		return;
	sim_trace("network", "%s: portal %u: %s", host->name, portal, names[ways]);
	sim_reached("portal", names[ways], NULL);
	sim_portal_cut(host->machine, portal, ways);
	sim_event_in(&world.portal_heal[host->machine][portal],
		     sim_chance(500000) ? sim_below(50 * SIM_MS) : sim_below(10 * SIM_S));
	sim_totals.cuts++;
}

/* Of a target, or now and then of an application. */
static void device_unplug(struct sim_host *host)
{
	if (sim_chance(300000))
		sim_fabric_unplug(&world.apps[sim_below(world.app_count)].actor);
	else if (host->running)
		sim_fabric_unplug(&host->reactors[sim_below(host->config.reactors)].thread.actor);
}

static void on_fault(void *arg)
{
	struct sim_host *host = &world.hosts[sim_below(world.host_count)];
	enum fault fault = (enum fault)sim_below(FAULTS);

	(void)arg;
	sim_event_in(&world.fault, sim_below(2 * world.fault_ns));
	if (!(world.faults & 1u << fault))
		return;
	switch (fault) {
	case FAULT_BREAK:
		sim_totals.breaks += sim_fabric_break(sim_random());
		break;
	case FAULT_CUT:
		machine_cut();
		break;
	case FAULT_KILL:
		sim_totals.kills += host->running;
		sim_host_kill(host, false, sim_below(10 * SIM_MS));
		break;
	case FAULT_POWER:
		sim_totals.power_losses += host->running;
		sim_host_kill(host, true, sim_below(100 * SIM_MS));
		break;
	case FAULT_DRAIN:
		sim_totals.drains += host->running;
		sim_host_drain(host);
		break;
	case FAULT_RELOAD:
		sim_totals.reloads += host->running;
		sim_host_reload(host, false);
		break;
	case FAULT_UNPLUG:
		device_unplug(host);
		break;
	case FAULT_PORTAL:
		portal_cut(host);
		break;
	case FAULTS:
		break;
	}
}

/* No faults from here on: everything must come to its end. */
static void on_calm(void *arg)
{
	(void)arg;
	sim_trace("world", "faults have stopped");
	sim_event_cancel(&world.fault);
	sim_net.calm = true;
	for (unsigned int i = 0; i < MACHINES_MAX; i++) {
		sim_event_cancel(&world.heal[i]);
		sim_link_cut(i, 0);
	}
	for (unsigned int i = 0; i < world.host_count; i++) {
		for (unsigned int p = 0; p < SIM_PORTALS_MAX; p++) {
			sim_event_cancel(&world.portal_heal[i][p]);
			sim_portal_cut(i, p, 0);
		}
		world.hosts[i].calm = true;
		sim_host_reload(&world.hosts[i], true);
		for (unsigned int j = 0; j < world.hosts[i].volume_count; j++)
			if (world.hosts[i].disks[j])
				world.hosts[i].disks[j]->calm = true;
	}
	for (unsigned int i = 0; i < world.app_count; i++)
		world.apps[i].calm = true;
	for (unsigned int i = 0; i < world.survivor_count; i++)
		world.survivors[i].calm = true;
}

/* -- building ------------------------------------------------------------------------------ */

/* One of three: never, seldom, often. */
static uint32_t rate(uint32_t seldom, uint32_t often)
{
	uint64_t kind = sim_below(3);

	return kind == 0 ? 0 : kind == 1 ? seldom : often;
}

static void build_net(enum world_kind kind)
{
	static const uint64_t message_bytes[] = {4096, 16384, 65536, 1u << 20};

	sim_net = (struct sim_net){
		.limits =
			{
				.max_sge = (uint32_t)sim_between(2, SIM_SGE_MAX),
				.max_read_sge = 1,
				.max_send_wr = 4096,
				.max_recv_wr = 4096,
				.max_srq_wr = 4096,
				.max_read_in = (uint32_t)sim_between(1, 16),
				.max_read_out = (uint32_t)sim_between(1, 16),
				.invalidate_inline = true,
				.acknowledged = true,
				.late_flush = true,
				.max_msg_bytes = message_bytes[sim_below(4)],
				.immediate = sim_chance(700000),
				.invalidate = sim_chance(700000),
			},
		.inline_bytes = (uint32_t)sim_below(3) * 64,
		.latency_min_ns = SIM_US,
		.latency_max_ns = sim_chance(700000) ? 10 * SIM_US : 2 * SIM_MS,
		.lose = rate(1000, 30000),
		.lose_ack = rate(1000, 100000),
		.lose_response = rate(2000, 100000),
		.resend_ns = sim_chance(500000) ? 200 * SIM_US : 20 * SIM_MS,
		.resends = 7,
		.stray_ns = rate(50 * SIM_US, 5 * SIM_MS),
		.refuse = rate(1000, 10000),
		.twice = rate(20000, 200000),
		.again = sim_chance(300000),
		.lingers = sim_chance(kind == WORLD_MEMORY  ? 800000
				      : kind == WORLD_POWER ? 500000
							    : 100000),
	};
	/* Capsules of whole commands must fit a message. */
	if (sim_net.limits.max_msg_bytes < 65536)
		sim_net.limits.max_msg_bytes = sim_chance(500000) ? TGT_COMMAND_BYTES : 65536;
	/* Pieces of a transfer that go one by one, or a few at a time. */
	if (sim_net.limits.max_msg_bytes < 65536)
		sim_net.limits.max_read_in = (uint32_t)sim_between(1, sim_chance(500000) ? 1 : 4);
	else if (sim_chance(kind == WORLD_RESERVED ? 700000 : 200000))
		sim_net.limits.max_read_in = 1;
}

static void build_disk(struct sim_disk *disk, enum world_kind kind)
{
	disk->can_discard = sim_chance(500000);
	disk->can_extents = sim_chance(700000);
	if (sim_chance(300000))
		disk->alignment = 4096;
	/* It will have grown when the target is told to look again. */
	if (sim_chance(300000))
		disk->bytes = disk->full_bytes / 8192 * 4096;
	disk->temper = (struct sim_disk_temper){
		.fail = rate(2000, 50000),
		.shorten = rate(20000, 300000),
		.again = rate(10000, 200000),
		.stall = rate(1000, 30000),
		.early = 300000,
		.saved = (uint32_t)sim_below(1000000),
		.delay_min_ns = 5 * SIM_US,
		.delay_max_ns = sim_chance(700000) ? 100 * SIM_US : 5 * SIM_MS,
		.stall_ns = sim_chance(500000) ? 50 * SIM_MS : 8 * SIM_S,
	};
	if (kind == WORLD_STARVED) {
		disk->temper.stall = 50000;
		disk->temper.stall_ns = 10 * SIM_S;
	}
	if (kind == WORLD_CROWDED || kind == WORLD_FENCING || kind == WORLD_RESERVED)
		disk->temper.delay_max_ns = 5 * SIM_MS;
	if (kind == WORLD_FENCING || kind == WORLD_RESERVED) {
		disk->temper.stall = 50000;
		disk->temper.stall_ns = 50 * SIM_MS;
	}
}

static void build_host(unsigned int i, enum world_kind kind)
{
	uint32_t memory = kind == WORLD_MEMORY				 ? 900000
			  : kind == WORLD_RESERVED			 ? 400000
			  : kind == WORLD_FENCING || kind == WORLD_POWER ? 50000
									 : 300000;
	struct sim_host *host = &world.hosts[i];
	struct tgt_config *config = &host->config;

	sim_host_init(host, i);
	sim_host_portals(host, sim_chance(500000) ? 1 : (unsigned int)sim_between(2, SIM_PORTALS_MAX));
	config->reactors = (unsigned int)sim_between(1, SIM_HOST_REACTORS);
	config->queues_max = 4;
	config->credits = (uint32_t)sim_between(4, 64);
	config->receive_buffers = 32u << sim_below(4);
	config->max_io_bytes = sim_chance(700000) ? 65536 : 131072;
	config->pool_bytes = sim_chance(300000) ? config->max_io_bytes : 1u << 20;
	config->sessions_max = (uint32_t)sim_between(4, 16);
	config->queues_total_max = sim_chance(150000) ? (uint32_t)sim_between(8, 14) : 32;
	config->keepalive_ms = sim_chance(150000) ? 0 : (uint32_t)sim_between(50, 2000);
	config->session_ms = config->keepalive_ms ? 2 * config->keepalive_ms : 30000;
	config->drain_ms = (uint32_t)sim_between(1, 1000);
	host->remembers = sim_chance(700000);
	host->keeps = sim_chance(700000);
	host->pause = rate(100, 5000);
	host->preempt = rate(5000, 100000);
	config->polling = sim_chance(800000) ? TGT_POLL_NEVER : TGT_POLL_ADAPTIVE;
	host->pause_ns = 200 * SIM_MS;
	/* One is for those who reserve it. */
	for (unsigned int v =
		     (unsigned int)sim_between(kind == WORLD_RESERVED ? 2 : 1, SIM_HOST_VOLUMES);
	     v; v--) {
		uint32_t block = sim_chance(700000) ? 512 : 4096;

		sim_host_add_volume(host,
				    (uint64_t)sim_between(8, sim_chance(800000) ? 32 : 64) * 4096, block,
				    sim_chance(memory));
		if (host->disks[host->volume_count - 1])
			build_disk(host->disks[host->volume_count - 1], kind);
	}
	if (kind == WORLD_CROWDED) {
		config->reactors = 1;
		config->receive_buffers = 32;
		if (sim_chance(800000)) {
			config->keepalive_ms = 0;
			config->session_ms = 30000;
		}
	}
	if (kind == WORLD_STARVED)
		config->pool_bytes = config->max_io_bytes;
	if (kind == WORLD_RESERVED)
		host->keeps = sim_chance(900000);
}

static void build_app(unsigned int i)
{
	struct sim_app *app = &world.apps[i];

	memset(app, 0, sizeof(*app));
	app->host = &world.hosts[sim_below(world.host_count)];
	app->mounts[0].volume = (unsigned int)sim_below(app->host->volume_count);
	app->mounts[1].volume = (app->mounts[0].volume + 1) % app->host->volume_count;
	app->mount_count = app->host->volume_count > 1 && sim_chance(400000) ? 2 : 1;
	app->options.connect_timeout_ms = (uint32_t)sim_between(100, 2000);
	app->options.command_timeout_ms = sim_chance(500000) ? 500 : 12000;
	app->options.credits = (uint32_t)sim_between(4, 32);
	app->options.queues = (uint32_t)sim_between(1, 3);
	app->options.no_immediate = sim_chance(300000);
	app->options.no_reconnect = sim_chance(400000);
	app->options.give_up_ms = (uint32_t)sim_between(sim_chance(300000) ? 20 : 500,
							sim_chance(300000) ? 1000 : 60000);
	if (sim_chance(300000))
		app->options.fail_fast_ms = (uint32_t)sim_between(5, sim_chance(500000) ? 100 : 3000);
	app->portals = (unsigned int)sim_between(1, app->host->portal_count);
	app->silent_portal = app->portals > 1 && sim_chance(200000);
	app->ops_left = (unsigned int)sim_between(10, world.ops_max);
	app->depth = (unsigned int)sim_between(1, 16);
	app->flush = rate(20000, 200000);
	app->fua = rate(50000, 500000);
	app->zeroes = rate(50000, 400000);
	app->discard = rate(20000, 100000);
	app->read = (uint32_t)sim_between(100000, 800000);
	app->large = rate(100000, 500000);
	app->abandon = rate(0, 5000);
	app->ask = rate(5000, 50000);
	app->callback = rate(100000, 800000);
	app->think_ns = sim_chance(500000) ? 20 * SIM_US : 20 * SIM_MS;
	sim_app_start(app, world.host_count + i);
}

/* Some are up to anything, some to a part of it, some to one thing or two. */
static uint32_t any_mischiefs(void)
{
	switch (sim_below(3)) {
	case 0:
		return UINT32_MAX;
	case 1:
		return (uint32_t)sim_random();
	default:
		return 1u << sim_below(SIM_MISCHIEFS) | 1u << sim_below(SIM_MISCHIEFS);
	}
}

static void build_survivor(unsigned int i)
{
	struct sim_survivor *survivor = &world.survivors[i];

	memset(survivor, 0, sizeof(*survivor));
	survivor->host = &world.hosts[sim_below(world.host_count)];
	survivor->volume = (unsigned int)sim_below(survivor->host->volume_count);
	survivor->ops_left = (unsigned int)sim_between(10, world.ops_max);
	survivor->depth = (unsigned int)sim_between(1, SIM_SURVIVOR_ERRANDS);
	survivor->mischief = sim_chance(200000) ? 200000 : rate(5000, 50000);
	survivor->mischiefs = any_mischiefs();
	survivor->flush = rate(20000, 200000);
	survivor->fua = rate(50000, 500000);
	survivor->digest = rate(100000, 500000);
	survivor->zeroes = (uint32_t)sim_between(50000, 400000);
	survivor->read = (uint32_t)sim_between(100000, 900000);
	survivor->compare = rate(100000, 700000);
	survivor->features = (uint32_t)sim_random() & RBLK_FEATURES_ALL & ~RBLK_FEATURE_SCRATCH;
	survivor->queue_count = (uint16_t)sim_between(1, SIM_SURVIVOR_QUEUES);
	survivor->credits = (uint16_t)sim_between(RBLK_CREDITS_MIN, SIM_LIFE_CREDITS);
	survivor->connect_timeout_ms = (uint32_t)sim_between(20, 2000);
	survivor->command_timeout_ns = sim_between(5, sim_chance(500000) ? 100 : 2000) * SIM_MS;
	survivor->think_ns = sim_chance(500000) ? 20 * SIM_US : 20 * SIM_MS;
	sim_survivor_start(survivor, world.host_count + world.app_count + i);
}

/* Many writers and few receive buffers: what credits promise has to be there. */
static void make_crowded(void)
{
	for (unsigned int i = 0; i < world.app_count; i++) {
		struct sim_app *app = &world.apps[i];

		app->host = &world.hosts[0];
		app->portals = 1;
		app->silent_portal = false;
		app->mounts[0].volume = 0;
		app->mount_count = 1;
		app->options.queues = 3;
		app->options.credits = 32;
		app->depth = SIM_SLOTS;
		app->single = true;
		app->read = 0;
		app->large = 0;
		app->think_ns = SIM_US;
		app->ops_left = 100;
	}
	/* And those who leave without a word keep what they have. */
	for (unsigned int i = 0; i < world.survivor_count; i++) {
		world.survivors[i].host = &world.hosts[0];
		world.survivors[i].volume = 0;
		world.survivors[i].queue_count = SIM_SURVIVOR_QUEUES;
		world.survivors[i].mischief = 50000;
		world.survivors[i].mischiefs =
			sim_chance(500000) ? UINT32_MAX
					   : 1u << SIM_MISCHIEF_HANG_UP | 1u << SIM_MISCHIEF_RESTART;
	}
}

static void make_fencing(void)
{
	static const uint32_t fencing =
		1u << SIM_MISCHIEF_FENCE | 1u << SIM_MISCHIEF_RENEW | 1u << SIM_MISCHIEF_SUPERSEDE |
		1u << SIM_MISCHIEF_PROBE | 1u << SIM_MISCHIEF_ABORT | 1u << SIM_MISCHIEF_HANG_UP;

	for (unsigned int i = 0; i < world.survivor_count; i++) {
		struct sim_survivor *survivor = &world.survivors[i];

		survivor->queue_count = (uint16_t)sim_between(2, SIM_SURVIVOR_QUEUES);
		survivor->depth = SIM_SURVIVOR_ERRANDS;
		survivor->read = 200000;
		survivor->mischief = 50000;
		survivor->mischiefs = fencing & (uint32_t)sim_random();
		survivor->command_timeout_ns = sim_between(5, 50) * SIM_MS;
	}
}

static void make_memory(void)
{
	static const uint32_t ending = 1u << SIM_MISCHIEF_REOPEN | 1u << SIM_MISCHIEF_CLOSE |
				       1u << SIM_MISCHIEF_HANG_UP | 1u << SIM_MISCHIEF_RESTART;

	world.faults |= 1u << FAULT_RELOAD | 1u << FAULT_BREAK;
	for (unsigned int i = 0; i < world.survivor_count; i++) {
		struct sim_survivor *survivor = &world.survivors[i];

		/* Each is the last to have its volume open. */
		survivor->volume = i % survivor->host->volume_count;
		survivor->queue_count = (uint16_t)sim_between(2, SIM_SURVIVOR_QUEUES);
		survivor->depth = SIM_SURVIVOR_ERRANDS;
		survivor->mischief = 50000;
		survivor->mischiefs = ending & (uint32_t)sim_random();
	}
}

/* A pool of one block, a disk that takes it for long, and time to be told BUSY. */
static void make_starved(void)
{
	for (unsigned int i = 0; i < world.app_count; i++) {
		world.apps[i].options.command_timeout_ms = 30000;
		world.apps[i].large = 500000;
		world.apps[i].depth = 8;
	}
}

/* Long histories, of writes above all. */
static void make_power(void)
{
	world.faults |= 1u << FAULT_POWER;
	for (unsigned int i = 0; i < world.app_count; i++) {
		world.apps[i].ops_left = (unsigned int)sim_between(200, 600);
		world.apps[i].read = 200000;
		world.apps[i].flush = rate(5000, 50000);
		world.apps[i].fua = rate(0, 50000);
		world.apps[i].think_ns = 200 * SIM_US;
	}
}

/* All survivors share a volume, the first, which no application uses: what a reservation refuses is
 * for them to see. */
static void make_reserved(void)
{
	static const uint32_t troubles = 1u << SIM_MISCHIEF_HANG_UP | 1u << SIM_MISCHIEF_SUPERSEDE |
					 1u << SIM_MISCHIEF_FENCE | 1u << SIM_MISCHIEF_RESTART |
					 1u << SIM_MISCHIEF_CHECKSUM | 1u << SIM_MISCHIEF_RENEW;

	sim_reservation_fail = rate(20000, 200000);
	world.faults |= sim_chance(500000) ? 1u << FAULT_KILL | 1u << FAULT_DRAIN : 0;
	for (unsigned int i = 0; i < world.app_count; i++) {
		struct sim_app *app = &world.apps[i];

		app->mounts[0].volume = 1;
		app->mount_count = 1;
	}
	for (unsigned int i = 0; i < world.survivor_count; i++) {
		struct sim_survivor *survivor = &world.survivors[i];

		survivor->host = &world.hosts[0];
		survivor->volume = 0;
		survivor->reserves = sim_chance(500000) ? 50000 : 300000;
		survivor->depth = SIM_SURVIVOR_ERRANDS;
		survivor->think_ns = 20 * SIM_US;
		survivor->mischief = rate(1000, 20000);
		survivor->mischiefs = troubles & (uint32_t)sim_random();
		survivor->ops_left = (unsigned int)sim_between(100, 400);
		survivor->read = (uint32_t)sim_between(100000, 500000);
		survivor->compare = rate(10000, 200000);
	}
}

/* Whatever goes on here is no reason to lose a session. */
static void make_benign(void)
{
	world.faults = 0;
	sim_net.lose = sim_net.refuse = 0;
	for (unsigned int i = 0; i < world.host_count; i++) {
		world.hosts[i].pause = 0;
		for (unsigned int v = 0; v < world.hosts[i].volume_count; v++)
			if (world.hosts[i].disks[v])
				world.hosts[i].disks[v]->temper.stall = 0;
	}
	for (unsigned int i = 0; i < world.app_count; i++) {
		world.apps[i].options.command_timeout_ms = 12000;
		world.apps[i].benign = true;
	}
}

static void world_build(void)
{
	enum world_kind kind = (enum world_kind)sim_below(WORLD_KINDS);
	bool power = kind == WORLD_POWER;

	memset(&world, 0, sizeof(world));
	build_net(kind);
	world.ops_max = sim_chance(500000) ? 100 : sim_chance(700000) ? 250 : 600;
	world.host_count = (unsigned int)sim_between(1, HOSTS_MAX);
	world.app_count = (unsigned int)sim_between(1, kind == WORLD_MEMORY ? 1 : APPS_MAX);
	for (unsigned int i = 0; i < MACHINES_MAX && sim_chance(700000); i++)
		sim_clock_skew(i, sim_below(10000 * SIM_S), (int32_t)sim_below(100001) - 50000);
	for (unsigned int i = 0; i < world.host_count; i++)
		build_host(i, kind);
	for (unsigned int i = 0; i < world.host_count; i++)
		sim_host_start(&world.hosts[i]);
	for (unsigned int i = 0; i < world.app_count; i++)
		build_app(i);
	world.survivor_count = sim_chance(500000) ? (unsigned int)sim_between(1, SURVIVORS_MAX) : 0;
	if (kind == WORLD_CROWDED || kind == WORLD_FENCING || kind == WORLD_MEMORY ||
	    kind == WORLD_RESERVED)
		world.survivor_count = SURVIVORS_MAX;
	for (unsigned int i = 0; i < world.survivor_count; i++)
		build_survivor(i);
	for (unsigned int i = 0; i < MACHINES_MAX; i++)
		world.heal[i] = (struct sim_event){.run = on_heal, .arg = &world.heal[i]};
	for (unsigned int i = 0; i < HOSTS_MAX * SIM_PORTALS_MAX; i++)
		world.portal_heal[i / SIM_PORTALS_MAX][i % SIM_PORTALS_MAX] = (struct sim_event){.run = on_portal_heal,
							     .arg = &world.portal_heal[i / SIM_PORTALS_MAX][i % SIM_PORTALS_MAX]};
	world.faults = sim_chance(100000) ? 0 : (unsigned int)sim_random();
	world.apps[0].alone = world.app_count == 1 && !world.survivor_count;
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
	if (kind == WORLD_RESERVED)
		make_reserved();
	world.fault.run = on_fault;
	world.calm.run = on_calm;
	world.fault_ns = power			  ? 5 * SIM_MS
			 : kind == WORLD_RESERVED ? 30 * SIM_MS
			 : sim_chance(500000)	  ? 2 * SIM_MS
						  : 100 * SIM_MS;
	sim_event_in(&world.fault, sim_below(world.fault_ns));
	sim_event_in(&world.calm,
		     power || kind == WORLD_RESERVED
			     ? sim_between(100 * SIM_MS, 500 * SIM_MS)
			     : sim_between(SIM_MS, sim_chance(500000) ? 50 * SIM_MS : SIM_S));
}

/* -- running ------------------------------------------------------------------------------- */

static bool initiators_finished(void)
{
	for (unsigned int i = 0; i < world.app_count; i++)
		if (!world.apps[i].fiber.finished)
			return false;
	for (unsigned int i = 0; i < world.survivor_count; i++)
		if (!world.survivors[i].fiber.finished)
			return false;
	return true;
}

static bool hosts_ended(void)
{
	for (unsigned int i = 0; i < world.host_count; i++)
		if (world.hosts[i].running)
			return false;
	return true;
}

static void world_stuck(const char *why)
{
	for (unsigned int i = 0; i < world.app_count; i++)
		sim_trace(world.apps[i].actor.name, "%s, %u under way, %u to be begun",
			  world.apps[i].doing, world.apps[i].under_way, world.apps[i].ops_left);
	for (unsigned int i = 0; i < world.survivor_count; i++)
		sim_trace(world.survivors[i].actor.name, "%s, %u under way, %u to be begun",
			  world.survivors[i].doing, world.survivors[i].under_way,
			  world.survivors[i].ops_left);
	sim_fail("no progress: %s", why);
}

static void world_step(uint64_t until_ns, unsigned int *steps)
{
	if (!sim_clock_step())
		world_stuck("everybody waits, nothing is to come");
	if (sim_now_ns() > until_ns)
		world_stuck("faults have stopped long ago");
	if (++*steps > STEPS_MAX)
		world_stuck("something spins");
}

static void world_end(void)
{
	for (unsigned int i = 0; i < world.app_count; i++) {
		sim_totals.commands += world.apps[i].completed;
		sim_app_fini(&world.apps[i]);
	}
	for (unsigned int i = 0; i < world.survivor_count; i++) {
		sim_totals.commands += world.survivors[i].completed;
		sim_survivor_fini(&world.survivors[i]);
	}
	sim_event_cancel(&world.fault);
	sim_event_cancel(&world.calm);
	if (sim_fabric_count() || sim_ring_count())
		sim_fail("%u fabrics and %u rings are left", sim_fabric_count(), sim_ring_count());
	while (sim_clock_step())
		; /* I/O of processes that are no more */
	for (unsigned int i = 0; i < world.host_count; i++)
		sim_host_fini(&world.hosts[i]);
	sim_model_fini();
}

void sim_world_run(uint64_t seed)
{
	unsigned int steps = 0;
	uint64_t until_ns;

	sim_random_seed(seed);
	sim_coverage_seed();
	sim_clock_reset();
	sim_trace_seed(seed);
	sim_model_reset();
	sim_fabric_reset();
	sim_mailboxes_reset();
	sim_reservation_files_reset();
	world_build();
	until_ns = world.calm.at_ns + PROGRESS_NS;
	while (!initiators_finished())
		world_step(until_ns, &steps);
	for (unsigned int i = 0; i < world.host_count; i++) {
		world.hosts[i].wanted = false;
		sim_event_cancel(&world.hosts[i].restart);
		sim_host_drain(&world.hosts[i]);
	}
	while (!hosts_ended())
		world_step(until_ns + PROGRESS_NS, &steps);
	world_end();
	sim_totals.seeds++;
}
