/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Worlds of two or three gateways of one image of a cluster (rados.h), and of one initiator that names them all, or of
 * several that reserve the image (section 6.2), each of which names another one first; or of NVMe hosts, beside one or
 * without.
 * Gateways are killed, stopped, drained, and cut off from the cluster or from the initiator; OSDs stop, and get
 * maps late. A write that was called back as lost, or sent again, must not land behind a later one of its session,
 * whatever becomes of the gateway that had it (F5, F10).
 */
#include "tests/sim/world_impl.h"

#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/rados.h"
#include "tests/sim/random.h"

static bool shares;	    /* several applications use it, and reserve it; between faults there is time to agree */
static uint64_t trouble_ns; /* between faults, on the average */
static struct sim_event doom[GATEWAYS_MAX];

static void build_host(unsigned int i)
{
	struct sim_host *host = &sim_world.hosts[i];

	sim_host_init(host, i);
	sim_world_plain_config(&host->config);
	host->config.drain_ms = (uint32_t)sim_between(1, 1000);
	sim_host_be_gateway(host, &sim_world.hosts[0]);
	if (sim_world_gateways_have_nvme())
		sim_host_serve_nvme(host);
}

static void build_app(struct sim_app *app)
{
	app->host = &sim_world.hosts[0];
	app->other = &sim_world.hosts[1];
	app->third = sim_world.host_count > 2 ? &sim_world.hosts[2] : NULL;
	app->mount_count = 1;
	app->portals = 1;
	app->options.connect_timeout_ms = (uint32_t)sim_between(20, 500);
	app->options.command_timeout_ms = sim_chance(500000) ? 1000 : 60000;
	app->options.credits = 16;
	app->options.queues = (uint32_t)sim_between(1, 3);
	app->options.give_up_ms = 600000;
	app->load.ops_left = (unsigned int)sim_between(100, 600);
	app->load.depth = (unsigned int)sim_between(1, 16);
	app->load.read = (uint32_t)sim_between(100000, 300000);
	app->load.flush = sim_world_rate(20000, 200000);
	app->compare = sim_world_rate(50000, 300000);
	app->think_ns = sim_chance(500000) ? 20 * SIM_MS : 200 * SIM_MS;
	app->alone = true;
	sim_app_start(app, sim_world.host_count + sim_world.app_count++);
}

/* Long enough to be taken for dead, or not. */
static uint64_t any_pause_ns(void)
{
	return sim_chance(500000) ? sim_below(2 * SIM_S) : sim_between(2 * SIM_S, 20 * SIM_S);
}

static void on_doom(void *arg)
{
	struct sim_host *host = arg;

	if (sim_net.calm)
		return;
	if (sim_chance(300000)) {
		sim_host_stop(host, any_pause_ns());
		return;
	}
	sim_totals.kills += host->running;
	sim_host_kill(host, false, sim_chance(500000) ? sim_below(SIM_S) : sim_below(20 * SIM_S));
}

/* One that serves, if there is any. */
static struct sim_host *any_gateway(void)
{
	unsigned int first = (unsigned int)sim_below(sim_world.host_count);

	for (unsigned int i = 0; i < sim_world.host_count; i++) {
		struct sim_host *host = &sim_world.hosts[(first + i) % sim_world.host_count];

		if (host->running)
			return host;
	}
	return &sim_world.hosts[first];
}

static void on_trouble(void *arg)
{
	struct sim_host *host = any_gateway();

	(void)arg;
	if (sim_net.calm)
		return;
	sim_event_in(&sim_world.manager, sim_below(2 * trouble_ns));
	/* Its writes do not arrive, initiators wait for them, and then it is gone. */
	if (sim_chance(500000)) {
		sim_rados_delay(host->machine, sim_between(SIM_S, 30 * SIM_S));
		/* Or it lives, and whoever reserves the image has to wait. */
		if (!shares || sim_chance(500000))
			sim_event_by(&doom[host->machine], sim_now_ns() + sim_below(SIM_S));
		return;
	}
	/* It comes back just before it would be taken for dead, and has what its initiators gave it. */
	if (sim_chance(300000)) {
		sim_host_stop(host, sim_between(300 * SIM_MS, 1900 * SIM_MS));
		return;
	}
	switch (sim_below(11)) {
	case 0:
		sim_totals.kills += host->running;
		sim_host_kill(host, false, sim_below(5 * SIM_S));
		break;
	case 1:
		sim_host_stop(host, any_pause_ns());
		break;
	case 2:
		sim_rados_cut(host->machine, any_pause_ns());
		break;
	case 9: /* until it sends its initiators away */
		sim_rados_cut(host->machine, sim_between(20 * SIM_S, 40 * SIM_S));
		break;
	case 10: /* the cluster is away */
		for (unsigned int i = 0; i < sim_world.host_count; i++)
			sim_rados_cut(sim_world.hosts[i].machine, sim_between(20 * SIM_S, 30 * SIM_S));
		break;
	case 3:
		sim_rados_stall(any_pause_ns());
		break;
	case 4:
		sim_rados_forget_watch();
		break;
	case 7:
		sim_rados_block(host->machine);
		break;
	case 6:
		sim_host_late(host, sim_below(3 * SIM_S));
		break;
	case 8:
		sim_host_send_away(host);
		break;
	case 5:
		sim_totals.drains += host->running;
		sim_host_drain(host);
		break;
	}
}

static void begin_trouble(void)
{
	sim_world.faults = (unsigned int)sim_random() & (1u << FAULT_BREAK | 1u << FAULT_CUT);
	sim_world.fault_ns = sim_chance(500000) ? shares ? 2 * SIM_S : 200 * SIM_MS : shares ? 10 * SIM_S : 2 * SIM_S;
	sim_event_in(&sim_world.fault, sim_below(sim_world.fault_ns));
	trouble_ns = sim_chance(500000) ? shares ? 5 * SIM_S : SIM_S : shares ? 10 * SIM_S : 5 * SIM_S;
	sim_world.manager.run = on_trouble;
	sim_event_in(&sim_world.manager, sim_below(2 * trouble_ns));
}

/* Applications at different gateways keep each other from the image. */
static void build_reservers(void)
{
	unsigned int count = (unsigned int)sim_between(2, APPS_MAX);
	bool preempts = sim_chance(300000);

	sim_world.hosts[0].reservations[0].shared = true;
	for (unsigned int i = 0; i < count; i++) {
		struct sim_app *app = &sim_world.apps[i];

		build_app(app);
		app->begins = i;
		app->alone = false;
		app->reserved = true;
		app->load.ops_left = (unsigned int)sim_between(1000, 4000);
		app->breaks = sim_world_rate(5000, 50000);
		app->think_ns = sim_chance(500000) ? 100 * SIM_MS : 400 * SIM_MS;
		app->reserver.often = i && sim_chance(300000) ? 0 : sim_chance(700000) ? 50000 : 300000;
		app->reserver.preempts = preempts;
	}
}

void sim_world_build_gateways(void)
{
	/* Not by chance: the histories of the others stay what they are. */
	shares = sim_world.seed / 32 % 2;
	sim_world_plain_net(false);
	sim_world.host_count = (unsigned int)sim_between(2, 3);
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		build_host(i);
	sim_rados_begin(sim_world.hosts[0].disks[0]);
	for (unsigned int i = 0; i < sim_world.host_count; i++) {
		doom[i] = (struct sim_event){.run = on_doom, .arg = &sim_world.hosts[i]};
		sim_host_start(&sim_world.hosts[i]);
	}
	if (shares)
		build_reservers();
	else if (!sim_world_gateways_have_nvme() || sim_world.seed / 128 % 2)
		build_app(&sim_world.apps[0]);
	if (sim_world_gateways_have_nvme()) {
		/* What it gives up is over for itself alone, as in sim_world_gateways_nvme(). */
		sim_world.apps[0].options.command_timeout_ms = 60000;
		sim_world.apps[0].alone = false;
		sim_world_gateways_nvme();
	}
	begin_trouble();
	sim_event_in(&sim_world.calm,
		     shares ? sim_between(20 * SIM_S, 90 * SIM_S) : sim_between(5 * SIM_S, 60 * SIM_S));
}
