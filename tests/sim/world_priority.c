/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Worlds in which commands wait at the target, and counts of who overtakes whom there: `sim --priority`. One target
 * with one volume, two applications with many commands under way, some with RBLK_CMD_PRIORITY. Nothing fails. The
 * commands of a seed wait in one of four places.
 *
 * Of two block commands of one session that the target has at once, one with priority and one without, the one that
 * is answered first is counted: did it come later than the other? Which has priority is known from the sector, not from
 * the target.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "target/io/io_queue.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"
#include "tests/sim/seen.h"
#include "tests/sim/trace.h"
#include "tests/sim/world_impl.h"

/* What commands wait for. */
enum place { PLACE_LIMIT, PLACE_MEMORY, PLACE_DATA, PLACE_STORE, PLACES };

/* Of the apps' sessions. */
#define CREDITS 32u
#define QUEUES_MAX 2u
#define APPS 2u

/* What the target has, in the order in which it came. */
static struct {
	const struct tgt_request *request;
	uint64_t owner;
	bool priority;
} under_way[APPS * QUEUES_MAX * CREDITS];
static unsigned int under_way_count;

/* [1]: pairs in which the later one has priority; [0]: in which the earlier one has. And how often the later one was
 * first. */
static struct {
	uint64_t all[2], overtaken[2];
} pairs[PLACES];

static bool counting;

static void pairs_count(unsigned int ended)
{
	unsigned int place = sim_world.seed % PLACES;

	for (unsigned int i = 0; i < under_way_count; i++) {
		unsigned int later = under_way[i > ended ? i : ended].priority;

		if (under_way[i].owner != under_way[ended].owner || under_way[i].priority == under_way[ended].priority)
			continue;
		pairs[place].all[later]++;
		pairs[place].overtaken[later] += i < ended;
	}
}

void sim_priority_seen(const struct tgt_request *request, unsigned int entered)
{
	unsigned int i = 0;

	if (!counting || request->opcode >= RBLK_OP_IDENTIFY)
		return;
	if (request->state == TGT_REQUEST_FREE) {
		if (under_way_count == sizeof(under_way) / sizeof(under_way[0]))
			sim_fail("the target has more commands than it has given credits");
		under_way[under_way_count].request = request;
		under_way[under_way_count].owner = request->io_queue->owner;
		under_way[under_way_count++].priority = sim_sector_priority(request->lba);
	}
	if (entered != TGT_REQUEST_FREE)
		return;
	while (under_way[i].request != request)
		i++;
	pairs_count(i);
	memmove(&under_way[i], &under_way[i + 1], (--under_way_count - i) * sizeof(under_way[0]));
}

static void build_app(unsigned int i, enum place place)
{
	struct sim_app *app = &sim_world.apps[i];

	app->host = &sim_world.hosts[0];
	app->mount_count = 1;
	app->portals = 1;
	app->options.connect_timeout_ms = 1000;
	app->options.command_timeout_ms = 60000;
	app->options.credits = CREDITS;
	app->options.queues = (uint32_t)sim_between(1, QUEUES_MAX);
	app->options.give_up_ms = 600000;
	app->load.ops_left = 500;
	app->load.depth = SIM_SLOTS;
	app->load.read = place == PLACE_DATA ? 0 : 500000;
	app->load.zeroes = place == PLACE_STORE ? 1000000 : 0;
	app->load.large = place == PLACE_MEMORY || place == PLACE_DATA ? 1000000 : 0;
	app->callback = 800000;
	app->think_ns = 20 * SIM_US;
	sim_app_start(app, sim_world.host_count + i);
}

static void build(void)
{
	enum place place = (enum place)(sim_world.seed % PLACES);
	struct sim_host *host = &sim_world.hosts[0];

	under_way_count = 0;
	sim_commands_prioritise(true);
	sim_net = (struct sim_net){
		.limits = {SIM_WORLD_PLAIN_LIMITS, .immediate = true, .invalidate = true},
		.latency_min_ns = SIM_US,
		.latency_max_ns = place == PLACE_DATA ? SIM_MS : 10 * SIM_US,
	};
	sim_world.host_count = 1;
	sim_world.app_count = APPS;
	sim_host_init(host, 0);
	sim_world_plain_config(&host->config);
	host->config.credits = CREDITS;
	sim_host_add_volume(host, 64 * 4096, 512, false);
	host->disks[0]->fault_rates =
		(struct sim_disk_fault_rates){.delay_min_ns = 100 * SIM_US, .delay_max_ns = 200 * SIM_US};
	switch (place) {
	case PLACE_LIMIT:
		host->config.volumes[0].limit = (struct tgt_limit_config){.iops = 2000, .burst_ms = 20};
		sim_host_rule(host, NULL);
		break;
	case PLACE_MEMORY:
		host->config.pool_bytes = host->config.max_io_bytes;
		break;
	case PLACE_DATA:
		host->config.pool_bytes = 4u << 20;
		sim_net.limits.max_read_in = sim_net.limits.max_read_out = 1;
		break;
	case PLACE_STORE: /* which takes few WRITE_ZEROES at a time */
	case PLACES:
		break;
	}
	sim_host_start(host);
	for (unsigned int i = 0; i < sim_world.app_count; i++)
		build_app(i, place);
	sim_event_in(&sim_world.calm, SIM_MS);
}

bool sim_world_run_priority(uint64_t first, uint64_t seeds)
{
	static const char *const places[PLACES] = {"a limit", "memory", "their data", "the store"};
	bool well = true;

	counting = true;
	for (uint64_t i = 0; i < seeds; i++)
		sim_world_run_as(first + i, build, NULL);
	for (unsigned int p = 0; p < PLACES; p++) {
		uint64_t *all = pairs[p].all, *overtaken = pairs[p].overtaken;

		printf("where commands wait for %s: those with priority overtake %" PRIu64 " of %" PRIu64
		       ", those without it %" PRIu64 " of %" PRIu64 "\n",
		       places[p], overtaken[1], all[1], overtaken[0], all[0]);
		/* More than twice as often. */
		if (overtaken[1] * all[0] <= 2 * overtaken[0] * all[1]) {
			printf("commands with priority do not go before others where they wait for %s\n", places[p]);
			well = false;
		}
	}
	return well;
}
