/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sim: run seeds.
 *   sim --seeds FIRST COUNT [STEP]   those, or every STEPth of them; the usual way (COUNT 0: until stopped)
 *   sim --seed N [--trace]      one; with all that happens
 *   sim --same FIRST COUNT      each twice, behind others: a seed must do the same every time
 *   sim --digest FIRST COUNT    those, and a digest of what each has done: the same whatever it is built with
 *   sim --coverage FIRST COUNT [FLOOR]   those, and what they have reached (coverage.h)
 *   sim --sends FIRST COUNT HUNDREDTHS   those, in which the module may send at most so many SENDs for a hundred commands
 *   sim --priority FIRST COUNT   worlds in which commands wait: those with priority must overtake others (world_priority.c)
 *   sim --crowd GATEWAYS INITIATORS [stop] [apart]   one gateway is killed, or stands still: when are all back? apart:
 *           each entry of the blocklist is a commit of its own
 *   sim --history MODEL N       one world of those that a model speaks of, and its history (history.h)
 * Ends with status 1 at the first seed that finds something, after its trace.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/nvme/fabric.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/host.h"
#include "tests/sim/trace.h"
#include "tests/sim/world.h"

static int usage(void)
{
	fprintf(stderr,
		"usage: sim --seeds FIRST COUNT [STEP] | --seed N [--trace] | --same FIRST COUNT |\n"
		"           --digest FIRST COUNT | --coverage FIRST COUNT [FLOOR] | --sends FIRST COUNT HUNDREDTHS |\n"
		"           --priority FIRST COUNT | --history MODEL N | --crowd GATEWAYS INITIATORS [stop] [apart]\n");
	return 2;
}

/* Up and down: behind other seeds, which must leave nothing. */
static void run_same(uint64_t first, uint64_t count)
{
	uint64_t *hashes = calloc(count, sizeof(*hashes));

	for (uint64_t i = 0; i < count; i++) {
		if (sim_world_run(first + i))
			hashes[i] = sim_trace_hash();
	}
	for (uint64_t i = count; i--;) {
		if (sim_world_run(first + i) && sim_trace_hash() != hashes[i])
			sim_fail("it did not do the same when it ran again");
	}
	free(hashes);
}

static void report(void)
{
	printf("%" PRIu64 " seeds: %" PRIu64 " commands, %" PRIu64 " connections broken, %" PRIu64
	       " machines cut off, %" PRIu64 " targets drained, %" PRIu64 " reloaded, %" PRIu64
	       " killed, %" PRIu64 " without power\n",
	       sim_totals.seeds, sim_totals.commands, sim_totals.breaks, sim_totals.cuts,
	       sim_totals.drains, sim_totals.reloads, sim_totals.kills, sim_totals.power_losses);
	fflush(stdout);
}

static bool sends_are_few(uint64_t limit)
{
	uint64_t sends = sim_totals.module_sends, commands = sim_totals.module_commands;

	printf("the module: %" PRIu64 " commands in %" PRIu64 " SENDs (limit: %" PRIu64 " for 100)\n", commands, sends,
	       limit);
	return commands && sends * 100 <= commands * limit;
}

int main(int argc, char **argv)
{
	bool one = argc >= 3 && !strcmp(argv[1], "--seed");
	bool many = argc >= 4 && argc <= 5 && !strcmp(argv[1], "--seeds");
	bool same = argc == 4 && !strcmp(argv[1], "--same");
	bool digest = argc == 4 && !strcmp(argv[1], "--digest");
	bool sends = argc == 5 && !strcmp(argv[1], "--sends");
	bool coverage = argc >= 4 && argc <= 5 && !strcmp(argv[1], "--coverage");
	enum sim_trace_mode mode = same || digest ? SIM_TRACE_TAIL : SIM_TRACE_OFF;
	uint64_t first, count, step;

	/* What one world frees the next one asks for again: it need not come from the kernel each time. */
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, -1);
	fab_sim_ops = &sim_fabric_ops;
	tgt_nvme_init(SIM_QUEUES_MAX);
	if (argc >= 4 && !strcmp(argv[1], "--crowd")) {
		sim_trace_init(SIM_TRACE_TAIL, argv[0]);
		return sim_world_run_crowd((unsigned int)atoi(argv[2]), (unsigned int)atoi(argv[3]),
					   argc > 4 && !strcmp(argv[4], "stop"), strcmp(argv[argc - 1], "apart") != 0)
			       ? 0
			       : usage();
	}
	if (argc == 4 && !strcmp(argv[1], "--priority")) {
		sim_trace_init(SIM_TRACE_TAIL, argv[0]);
		return sim_world_run_priority(strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0)) ? 0 : 1;
	}
	if (argc == 4 && !strcmp(argv[1], "--history")) {
		sim_trace_init(SIM_TRACE_TAIL, argv[0]);
		return sim_world_run_history(strtoull(argv[3], NULL, 0), argv[2]) ? 0 : usage();
	}
	if (!one && !many && !same && !digest && !coverage && !sends)
		return usage();
	if (one && argc == 4)
		mode = !strcmp(argv[3], "--trace") ? SIM_TRACE_ALL : SIM_TRACE_TAIL;
	first = strtoull(argv[2], NULL, 0);
	count = one ? 1 : strtoull(argv[3], NULL, 0);
	step = many && argc == 5 ? strtoull(argv[4], NULL, 0) : 1;
	if (!step)
		return usage();
	sim_trace_init(mode, argv[0]);
	if (same)
		run_same(first, count);
	for (uint64_t seed = first; !same && (!count || seed - first < count); seed += step) {
		bool ran = sim_world_run(seed);

		if (!ran && (one || digest))
			printf("seed %" PRIu64 ": not without rblkd-rbd\n", seed);
		if (ran && digest)
			printf("seed %" PRIu64 ": %016" PRIx64 "\n", seed, sim_trace_hash());
		if (!count && sim_totals.seeds % 10000 == 0)
			report();
	}
	report();
	if (coverage && sim_coverage_report(argc == 5 ? argv[4] : NULL))
		return 1;
	if (sends && !sends_are_few(strtoull(argv[4], NULL, 0)))
		return 1;
	return 0;
}
