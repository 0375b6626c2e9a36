/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What kind of world a seed gives: how good its network and disks are, which faults there are at
 * all, how much of everything its targets have, what its initiators are up to.
 */
#include <string.h>
#include "target/io/io_queue.h"
#include "tests/sim/world_impl.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"

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
		.lose = sim_world_rate(1000, 30000),
		.lose_ack = sim_world_rate(1000, 100000),
		.lose_response = sim_world_rate(2000, 100000),
		.resend_ns = sim_chance(500000) ? 200 * SIM_US : 20 * SIM_MS,
		.resends = 7,
		.stray_ns = sim_world_rate(50 * SIM_US, 5 * SIM_MS),
		.refuse = sim_world_rate(1000, 10000),
		.twice = sim_world_rate(20000, 200000),
		.again = sim_chance(300000),
		.linger_ns = sim_chance(kind == WORLD_MEMORY  ? 800000
					: kind == WORLD_POWER ? 500000
							      : 100000)
				     ? 20 * SIM_MS
				     : 0,
	};
	if (kind == WORLD_DRAINED)
		sim_net.linger_ns = 300 * SIM_MS;
	if (kind == WORLD_PREEMPTED)
		sim_net.latency_max_ns = 2 * SIM_MS;
	/* Capsules of whole commands must fit a message. */
	if (sim_net.limits.max_msg_bytes < 65536)
		sim_net.limits.max_msg_bytes = sim_chance(500000) ? TGT_COMMAND_BYTES : 65536;
	/* Pieces of a transfer that go one by one, or a few at a time. */
	if (sim_net.limits.max_msg_bytes < 65536)
		sim_net.limits.max_read_in = (uint32_t)sim_between(1, sim_chance(500000) ? 1 : 4);
	else if (sim_chance(sim_world_reserves(kind) ? 700000 : 200000))
		sim_net.limits.max_read_in = 1;
}

void sim_world_plain_net(bool loses)
{
	sim_net = (struct sim_net){
		.limits = {SIM_WORLD_PLAIN_LIMITS, .immediate = sim_chance(700000), .invalidate = sim_chance(700000)},
		.latency_min_ns = SIM_US,
		.latency_max_ns = sim_chance(700000) ? 10 * SIM_US : 2 * SIM_MS,
		.lose = loses ? sim_world_rate(10000, 100000) : 0,
		.lose_ack = sim_world_rate(1000, 100000),
		.lose_response = loses ? sim_world_rate(2000, 100000) : 0,
		.resend_ns = sim_chance(500000) ? 200 * SIM_US : 20 * SIM_MS,
		.resends = 7,
		.again = loses && sim_chance(300000),
	};
}

void sim_world_plain_config(struct tgt_config *config)
{
	config->reactors = (unsigned int)sim_between(1, SIM_HOST_REACTORS);
	config->queues_max = 4;
	config->credits = 16;
	config->receive_buffers = 128;
	config->max_io_bytes = 65536;
	config->pool_bytes = 1u << 20;
	config->sessions_max = 16;
	config->queues_total_max = 32;
	config->keepalive_ms = (uint32_t)sim_between(50, 500);
	config->session_ms = 2 * config->keepalive_ms;
	config->polling = TGT_POLL_NEVER;
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
	disk->fault_rates = (struct sim_disk_fault_rates){
		.fail = sim_world_rate(2000, 50000),
		.shorten = sim_world_rate(20000, 300000),
		.again = sim_world_rate(10000, 200000),
		.stall = sim_world_rate(1000, 30000),
		.early = 300000,
		.saved = (uint32_t)sim_below(1000000),
		.delay_min_ns = 5 * SIM_US,
		.delay_max_ns = sim_chance(700000) ? 100 * SIM_US : 5 * SIM_MS,
		.stall_ns = sim_chance(500000) ? 50 * SIM_MS : 8 * SIM_S,
	};
	if (kind == WORLD_STARVED) {
		disk->fault_rates.stall = 50000;
		disk->fault_rates.stall_ns = 10 * SIM_S;
	}
	if (kind == WORLD_DRAINED)
		disk->fault_rates.delay_max_ns = 20 * SIM_MS;
	if (kind == WORLD_CROWDED || kind == WORLD_FENCING || kind == WORLD_REPLACED ||
	    sim_world_reserves(kind))
		disk->fault_rates.delay_max_ns = 5 * SIM_MS;
	if (kind == WORLD_FENCING || kind == WORLD_REPLACED || sim_world_reserves(kind)) {
		disk->fault_rates.stall = kind == WORLD_PREEMPTED ? 500000 : 50000;
		disk->fault_rates.stall_ns = 50 * SIM_MS;
	}
}

/*
 * Most have a volatile cache; some have none, or get one or lose it when their machine boots: more of them get one where it boots
 * often. Not by chance.
 */
static void build_cache(struct sim_host *host, unsigned int volume, enum world_kind kind)
{
	struct sim_disk *disk = host->disks[volume];
	uint64_t fate = (sim_world.seed / 3 + volume) % 5;

	if (kind == WORLD_POWER && fate == 4)
		fate = 2;
	disk->volatile_cache = fate != 1 && fate != 2;
	disk->cache_turns = fate == 2 || fate == 3;
	sim_model_keeps(host->volumes[volume], !disk->volatile_cache);
}

/* In a quarter of the seeds disks have untorn writes, and applications ask for them. Not by chance. */
static void build_untorn(struct sim_host *host, unsigned int volume)
{
	host->untorn = sim_world.seed % 4 == 1;
	if (host->untorn)
		host->disks[volume]->untorn_bytes = 4096u << sim_world.seed / 4 % 3;
}

/* So that commands wait now and then, and none for long. */
static void limit_volumes(struct sim_host *host)
{
	for (unsigned int v = 0; v < host->volume_count; v++) {
		struct tgt_limit_config *limit = &host->config.volumes[v].limit;

		limit->burst_ms = (uint32_t)sim_between(20, 100);
		if (sim_chance(700000))
			limit->iops = (unsigned int)sim_between(500, 5000);
		if (sim_chance(500000))
			limit->rate_bytes = sim_between(20, 200) << 20;
	}
	sim_host_rule(host, NULL);
}

/* In a seventh of the seeds, and not by chance: all others' histories stay what they are. */
static void pace_volumes(struct sim_host *host)
{
	for (unsigned int v = 0; v < host->volume_count; v++)
		host->config.volumes[v].depth = TGT_DEPTH_AUTO;
	sim_host_rule(host, NULL);
}

static void build_host(unsigned int i, enum world_kind kind)
{
	uint32_t memory = kind == WORLD_MEMORY ? 900000
			  : kind == WORLD_HUNG		 ? 0
			  : sim_world_reserves(kind)     ? 400000
			  : kind == WORLD_FENCING || kind == WORLD_POWER || kind == WORLD_DRAINED
				  ? 50000
				  : 300000;
	struct sim_host *host = &sim_world.hosts[i];
	struct tgt_config *config = &host->config;

	sim_host_init(host, i);
	sim_host_portals(host, sim_chance(500000) && kind != WORLD_REPLACED
				       ? 1
				       : (unsigned int)sim_between(2, SIM_PORTALS_MAX));
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
	host->mounts = sim_world_rate(100000, 500000);
	host->keeps = sim_chance(700000);
	host->pause = sim_world_rate(100, 5000);
	host->preempt = sim_world_rate(5000, 100000);
	config->polling = sim_chance(800000) ? TGT_POLL_NEVER : TGT_POLL_ADAPTIVE;
	host->pause_ns = 200 * SIM_MS;
	/* One is for those who reserve it; one stays attached while another is replaced. */
	for (unsigned int v = (unsigned int)sim_between(
		     sim_world_reserves(kind) || kind == WORLD_REPLACED || kind == WORLD_HUNG ? 2 : 1, SIM_HOST_VOLUMES);
	     v; v--) {
		uint32_t block = sim_chance(700000) ? 512 : 4096;
		bool is_memory = sim_chance(memory);

		sim_host_add_volume(host, sim_between(8, sim_chance(800000) ? 32 : 64) * 4096, block, is_memory);
		if (host->disks[host->volume_count - 1]) {
			build_disk(host->disks[host->volume_count - 1], kind);
			build_cache(host, host->volume_count - 1, kind);
			build_untorn(host, host->volume_count - 1);
		}
	}
	if (sim_world.seed % 5 == 2 && kind != WORLD_HUNG)
		limit_volumes(host);
	if (sim_world.seed / 2 % 7 == 3)
		pace_volumes(host);
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
	/* Memory and receives for all: a hung disk takes its share of them. */
	if (kind == WORLD_HUNG) {
		config->pool_bytes = 4u << 20;
		config->receive_buffers = 2048;
		config->credits = 64;
		config->sessions_max = 16;
		config->queues_total_max = 32;
	}
	if (kind == WORLD_DRAINED)
		config->keepalive_ms = (uint32_t)sim_between(50, 100);
	if (kind == WORLD_LATE || kind == WORLD_SHARED)
		config->reactors = SIM_HOST_REACTORS;
	/* What a connection has left must end, for what its initiator reserves to be known. */
	if (kind == WORLD_SHARED) {
		config->keepalive_ms = (uint32_t)sim_between(50, 500);
		config->session_ms = 2 * config->keepalive_ms;
	}
	if (sim_world_reserves(kind))
		host->keeps = sim_chance(900000);
}

static void build_load(struct sim_load *load)
{
	load->ops_left = (unsigned int)sim_between(10, sim_world.ops_max);
	load->depth = (unsigned int)sim_between(1, 16);
	load->flush = sim_world_rate(20000, 200000);
	load->fua = sim_world_rate(50000, 500000);
	load->zeroes = sim_world_rate(50000, 400000);
	load->discard = sim_world_rate(20000, 100000);
	load->read = (uint32_t)sim_between(100000, 800000);
	load->large = sim_world_rate(100000, 500000);
}

static bool has_keys(void)
{
	return sim_world.seed % 3 == 1;
}

/* In an eighth of the seeds, and not by chance: all others' histories stay what they are. */
static uint16_t batch_max(void)
{
	/* Where nobody proves a name: what the target has answered is part of that. */
	return sim_world.seed / 8 % 8 == 2 && !has_keys() ? (uint16_t)(2 + sim_world.seed / 64 % 8) : 0;
}

/* Likewise. */
static bool has_digests(void)
{
	return sim_world.seed / 8 % 8 == 1;
}

/* Likewise. */
static bool has_names(void)
{
	return sim_world.seed % 16 == 6;
}

static unsigned int any_give_up_ms(void)
{
	uint64_t most_ms = sim_chance(300000) ? 1000 : 60000;

	return (unsigned int)sim_between(sim_chance(300000) ? 20 : 500, most_ms);
}

static void build_app(unsigned int i)
{
	struct sim_app *app = &sim_world.apps[i];

	memset(app, 0, sizeof(*app));
	app->host = &sim_world.hosts[sim_below(sim_world.host_count)];
	app->mounts[0].volume = (unsigned int)sim_below(app->host->volume_count);
	app->mounts[1].volume = (app->mounts[0].volume + 1) % app->host->volume_count;
	app->mount_count = app->host->volume_count > 1 && sim_chance(400000) ? 2 : 1;
	app->options.connect_timeout_ms = (uint32_t)sim_between(100, 2000);
	app->options.command_timeout_ms = sim_chance(500000) ? 500 : 12000;
	app->options.credits = (uint32_t)sim_between(4, 32);
	app->options.queues = (uint32_t)sim_between(1, 3);
	app->options.no_immediate = sim_chance(300000);
	app->options.no_reconnect = sim_chance(400000);
	app->options.give_up_ms = any_give_up_ms();
	if (sim_chance(300000))
		app->options.fail_fast_ms =
			(uint32_t)sim_between(5, sim_chance(500000) ? 100 : 3000);
	app->options.digest = has_digests();
	app->portals = (unsigned int)sim_between(1, app->host->portal_count);
	app->silent_portal = app->portals > 1 && sim_chance(200000);
	app->named = has_names();
	build_load(&app->load);
	app->abandon = sim_world_rate(0, 5000);
	app->ask = sim_world_rate(5000, 50000);
	app->callback = sim_world_rate(100000, 800000);
	app->think_ns = sim_chance(500000) ? 20 * SIM_US : 20 * SIM_MS;
	sim_app_start(app, sim_world.host_count + i);
}

/*
 * In some seeds one has its volume open twice, or the first two are threads of one process and use one volume. Not by
 * chance, either.
 */
static void build_processes(void)
{
	struct sim_app *first = &sim_world.apps[0], *second = &sim_world.apps[1];

	if (sim_world.seed / 4 % 4 == 1) {
		first->mount_count = 2;
		first->mounts[1].volume = first->mounts[0].volume;
	}
	if (sim_world.app_count < 2 || first->host != second->host || sim_world.seed % 4 > 1)
		return;
	second->mounts[0].volume = first->mounts[0].volume;
	sim_app_share(second, first);
}

/* The session's times, and what is attached over it. */
static void build_attach(struct sim_module *module)
{
	module->disk_count = module->host->volume_count > 1 && sim_chance(800000) ? 2 : 1;
	module->disks[0].volume = (unsigned int)sim_below(module->host->volume_count);
	module->disks[1].volume = (module->disks[0].volume + 1) % module->host->volume_count;
	module->attach = (struct sim_attach){
		.portals = (unsigned int)sim_between(1, module->host->portal_count),
		.target = module->host->machine,
		.queues = (unsigned int)sim_between(1, 3),
		.poll_queues = sim_chance(700000) ? 0 : 1,
		.credits = (unsigned int)sim_between(4, 32),
		.slot_bytes = 4096u << sim_below(3),
		.digest = has_digests(),
		.connect_ms = (unsigned int)sim_between(100, 2000),
		.command_ms = sim_chance(500000) ? (unsigned int)sim_between(100, 1000) : 12000,
		.reconnect_ms = (unsigned int)sim_between(100, 1000),
		.give_up_ms = any_give_up_ms(),
	};
	module->attach.silent_portal = module->attach.portals > 1 && sim_chance(200000);
	if (sim_chance(500000))
		module->attach.fail_fast_ms =
			(unsigned int)sim_between(5, sim_chance(500000) ? 100 : 3000);
}

static void build_module(void)
{
	struct sim_module *module = &sim_world.module;

	module->host = &sim_world.hosts[sim_below(sim_world.host_count)];
	build_attach(module);
	build_load(&module->load);
	module->fail_fast = sim_world_rate(100000, 500000);
	module->abandon = sim_world_rate(0, 5000);
	module->kill = sim_world_rate(5000, 50000);
	module->think_ns = sim_chance(500000) ? 20 * SIM_US : 20 * SIM_MS;
	sim_disk_kill_sending = module->kill / 5;
	sim_disk_starve = sim_world_rate(0, 300000);
	sim_disk_killed = sim_world_rate(0, 300000);
	sim_disk_unmapped = sim_world_rate(0, 200000);
	sim_blk_fake_timeouts = sim_world_rate(0, 5000);
	module->attach.key = has_keys();
	for (unsigned int i = 0; i < sim_world.host_count && module->attach.key; i++)
		sim_host_rule(&sim_world.hosts[i], SIM_MODULE_NAME);
	sim_module_start(module,
			 sim_world.host_count + sim_world.app_count + sim_world.raw_initiator_count);
	sim_world.module_count = 1;
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

static void build_raw_initiator(unsigned int i)
{
	struct sim_raw_initiator *raw = &sim_world.raw_initiators[i];

	memset(raw, 0, sizeof(*raw));
	raw->host = &sim_world.hosts[sim_below(sim_world.host_count)];
	raw->volume = (unsigned int)sim_below(raw->host->volume_count);
	raw->ops_left = (unsigned int)sim_between(10, sim_world.ops_max);
	raw->depth = (unsigned int)sim_between(1, SIM_RAW_REQUESTS);
	raw->mischief = sim_chance(200000) ? 200000 : sim_world_rate(5000, 50000);
	raw->mischiefs = any_mischiefs();
	raw->flush = sim_world_rate(20000, 200000);
	raw->fua = sim_world_rate(50000, 500000);
	raw->digest = sim_world_rate(100000, 500000);
	raw->zeroes = (uint32_t)sim_between(50000, 400000);
	raw->read = (uint32_t)sim_between(100000, 900000);
	raw->compare = sim_world_rate(100000, 700000);
	raw->features = (uint32_t)sim_random() & RBLK_FEATURES_ALL;
	raw->queue_count = (uint16_t)sim_between(1, SIM_RAW_QUEUES);
	raw->credits = (uint16_t)sim_between(RBLK_CREDITS_MIN, SIM_WIRE_CREDITS);
	raw->connect_timeout_ms = (uint32_t)sim_between(20, 2000);
	raw->command_timeout_ns = sim_between(5, sim_chance(500000) ? 100 : 2000) * SIM_MS;
	raw->think_ns = sim_chance(500000) ? 20 * SIM_US : 20 * SIM_MS;
	sim_raw_start(raw, sim_world.host_count + sim_world.app_count + i);
}

static enum world_kind any_kind(void)
{
	enum world_kind kind = (enum world_kind)sim_below(WORLD_ANY);

	if (sim_world.seed % 16 == 10)
		return WORLD_HUNG;
	switch (sim_world.seed % 8) {
	case 1:
		return sim_chance(500000) ? WORLD_CROWDED : kind;
	case 3:
		return WORLD_ASKING;
	case 5:
		return sim_chance(500000) ? WORLD_LATE : WORLD_REPLACED;
	case 7:
		return WORLD_SHARED;
	default:
		return kind;
	}
}

/* Nobody else uses the volume. */
static bool is_modules_alone(const struct sim_host *host, unsigned int volume)
{
	for (unsigned int i = 0; i < sim_world.app_count; i++)
		for (unsigned int j = 0; j < sim_world.apps[i].mount_count; j++)
			if (sim_world.apps[i].host == host && sim_world.apps[i].mounts[j].volume == volume)
				return false;
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++)
		if (sim_world.raw_initiators[i].host == host && sim_world.raw_initiators[i].volume == volume)
			return false;
	return true;
}

/* What is in memory is lost when its volume is replaced; others turn read-only and writable again. */
static void let_volumes_turn(const struct sim_module *module)
{
	struct sim_host *host = module->host;

	for (unsigned int i = 0; i < module->disk_count; i++) {
		unsigned int volume = module->disks[i].volume;

		if (!module->reserved && host->disks[volume] && is_modules_alone(host, volume))
			host->turns[volume] = sim_chance(500000);
	}
}

void sim_world_build(void)
{
	enum world_kind kind = any_kind();
	bool power = kind == WORLD_POWER, has_module;

	build_net(kind);
	sim_net.batch_max = batch_max();
	sim_world.ops_max = sim_chance(500000) ? 100 : sim_chance(700000) ? 250 : 600;
	sim_world.host_count = (unsigned int)sim_between(1, HOSTS_MAX);
	sim_world.app_count = (unsigned int)sim_between(1, kind == WORLD_MEMORY ? 1 : APPS_MAX);
	/* The module instead of all librblk but one. */
	has_module = kind != WORLD_CROWDED && !sim_world_reserves(kind) &&
		     (sim_chance(400000) || kind == WORLD_CLOSED || kind == WORLD_REPLACED);
	if (kind == WORLD_ASKING)
		has_module = false;
	if (kind == WORLD_SHARED || kind == WORLD_HUNG)
		has_module = sim_chance(500000);
	if (has_module)
		sim_world.app_count = 1;
	for (unsigned int i = 0; i < MACHINES_MAX && sim_chance(700000); i++) {
		int32_t drift_ppm = (int32_t)sim_below(100001) - 50000;

		sim_clock_skew(i, sim_below(10000 * SIM_S), drift_ppm);
	}
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		build_host(i, kind);
	if (sim_world_has_nvme() && !sim_world_reserves(kind))
		sim_world_nvme_hosts();
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		sim_host_start(&sim_world.hosts[i]);
	for (unsigned int i = 0; i < sim_world.app_count; i++)
		build_app(i);
	build_processes();
	sim_world.raw_initiator_count =
		sim_chance(500000) ? (unsigned int)sim_between(1, RAW_INITIATORS_MAX) : 0;
	if (kind == WORLD_CROWDED || kind == WORLD_FENCING || kind == WORLD_MEMORY ||
	    kind == WORLD_CLOSED || kind == WORLD_LATE || sim_world_reserves(kind))
		sim_world.raw_initiator_count = RAW_INITIATORS_MAX;
	if (kind == WORLD_HUNG)
		sim_world.raw_initiator_count = 0;
	/* The more reserve it, the less is known of what they have done. */
	if (kind == WORLD_SHARED)
		sim_world.raw_initiator_count = (unsigned int)sim_below(2);
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++)
		build_raw_initiator(i);
	if (has_module)
		build_module();
	sim_world.faults = sim_chance(100000) ? 0 : (unsigned int)sim_random();
	sim_world.apps[0].alone =
		sim_world.app_count == 1 && !sim_world.raw_initiator_count && !has_module;
	sim_world_theme(kind);
	if (has_module)
		let_volumes_turn(&sim_world.module);
	if (sim_world_has_nvme() && !sim_world_reserves(kind))
		sim_world_nvme();
	sim_world.fault_ns = power || kind == WORLD_LATE ? 5 * SIM_MS
			     : kind == WORLD_DRAINED ? 50 * SIM_MS
			     : sim_world_reserves(kind)	     ? 30 * SIM_MS
			     : sim_chance(500000)    ? 2 * SIM_MS
						     : 100 * SIM_MS;
	sim_event_in(&sim_world.fault, sim_below(sim_world.fault_ns));
	sim_event_in(&sim_world.calm,
		     kind == WORLD_DRAINED || kind == WORLD_CLOSED
			     ? sim_between(500 * SIM_MS, 2 * SIM_S)
		     : power || sim_world_reserves(kind)
			     ? sim_between(100 * SIM_MS, 500 * SIM_MS)
			     : sim_between(SIM_MS, sim_chance(500000) ? 50 * SIM_MS : SIM_S));
}
