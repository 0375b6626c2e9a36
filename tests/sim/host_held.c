/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A target whose threads do not run for a while: one of them, or all.
 */
#include "tests/sim/host.h"

#include "tests/sim/coverage.h"
#include "tests/sim/rados.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

void sim_host_stop(struct sim_host *host, uint64_t ns)
{
	sim_trace(host->name, "is stopped for %llu us", (unsigned long long)ns / SIM_US);
	sim_reached("target", "is stopped, and goes on", NULL);
	sim_fiber_hold(&host->control.thread.fiber, ns);
	sim_fiber_hold(&host->opener.thread.fiber, ns);
	for (unsigned int i = 0; i < host->config.reactors; i++)
		sim_fiber_hold(&host->reactors[i].thread.fiber, ns);
	sim_rados_process_hold(host->machine, ns);
}

void sim_host_late(struct sim_host *host, uint64_t ns)
{
	struct sim_thread *thread = &host->reactors[sim_below(SIM_HOST_REACTORS)].thread;

	if (!host->running || host->config.reactors < 2)
		return;
	sim_trace(thread->actor.name, "does not run for %llu us", (unsigned long long)ns / SIM_US);
	sim_reached("thread", "of a reactor does not run for long", NULL);
	sim_fiber_hold(&thread->fiber, ns);
}
