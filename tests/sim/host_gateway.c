/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A host that is a gateway of a cluster (rados.h): opening and closing its image may take long, so a thread does
 * it, and the process may be killed meanwhile. One that the cluster shuts out opens it again. Called by host.c.
 */
#include "tests/sim/host_impl.h"

#include <stdio.h>
#include "target/base/unserved.h"
#include "target/control/reload.h"
#include "tests/sim/coverage.h"
#include "tests/sim/rados.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* As the reloader's thread does. */
static void mend(struct sim_host *host)
{
	const struct tgt_reload reload = {
		.registry = host->registry,
		.reactors = host->reactor_array,
		.reactor_count = host->config.reactors,
		.unserved = host->unserved,
	};
	unsigned int left;

	do {
		host->lost = false;
		left = tgt_reload_mend(&reload, &host->served);
		if (left)
			sim_fiber_sleep(TGT_UNSERVED_AGAIN_MS * SIM_MS);
	} while ((left || host->lost) && !host->stopping && !sim_rados_process_is_dead(host->machine));
	if (!left)
		sim_reached("target", "opens its image again, as the cluster has shut it out", NULL);
}

static void *opener_run(void *arg)
{
	struct sim_host *host = arg;

	if (host->closing) {
		sim_host_volumes_remove(host);
		sim_rados_process_close(host->machine);
	} else if (host->mending) {
		mend(host);
	} else {
		host->opened = sim_host_volumes_add(host);
	}
	sim_event_in(&host->opener_ended, 0);
	return NULL;
}

static void opener_start(struct sim_host *host)
{
	sim_thread_start(&host->opener.thread, opener_run, host);
}

static void on_mend_lost(void *arg)
{
	struct sim_host *host = arg;

	if (!host->lost || !host->running || host->stopping || host->mending)
		return;
	sim_trace(host->name, "opens its image again");
	host->mending = true;
	opener_start(host);
}

void sim_gateway_lost(void *arg)
{
	struct sim_host *host = arg;

	host->lost = true;
	sim_event_by(&host->mend_lost, sim_now_ns());
}

bool sim_gateway_mended(struct sim_host *host, bool dead)
{
	struct sim_thread *threads[] = {&host->opener.thread};

	if (host->mending && dead) {
		sim_threads_finish(threads, 1);
		sim_event_cancel(&host->opener_ended);
		host->mending = false;
	}
	return !host->mending;
}

void sim_gateway_open(struct sim_host *host)
{
	host->opening = true;
	host->lost = false;
	if (!host->process)
		sim_rados_process_begin(host->machine);
	host->process = true;
	opener_start(host);
}

void sim_gateway_end(struct sim_host *host)
{
	sim_rados_process_end(host->machine);
	host->process = false;
}

/* Its threads go on as those of a dead process, until the opener has ended. */
void sim_gateway_kill_opener(struct sim_host *host, uint64_t back_ns)
{
	struct sim_thread *threads[] = {&host->opener.thread};
	struct sim_actor *before;

	sim_trace(host->name, "is killed as it %s its image", host->closing ? "closes" : "opens");
	sim_rados_process_kill(host->machine);
	sim_threads_finish(threads, 1);
	sim_event_cancel(&host->opener_ended);
	before = sim_actor_become(&host->opener.thread.actor);
	if (host->opened)
		sim_host_volumes_remove(host);
	sim_actor_become(before);
	host->opening = host->opened = host->closing = false;
	sim_gateway_end(host);
	sim_event_in(&host->restart, back_ns);
}

static void on_opener_ended(void *arg)
{
	struct sim_host *host = arg;
	bool opened = host->opened;

	sim_fiber_fini(&host->opener.thread.fiber);
	host->opener.thread.started = false;
	host->opening = host->opened = false;
	if (host->mending) {
		host->mending = false;
		on_mend_lost(host); /* again, meanwhile */
	} else if (host->closing) {
		host->closing = false;
		sim_gateway_end(host);
		if (host->wanted)
			sim_event_in(&host->restart, sim_below(50 * SIM_MS));
	} else if (opened) {
		sim_host_serve(host);
		on_mend_lost(host);
	} else if (host->wanted) {
		sim_event_in(&host->restart, sim_between(100 * SIM_MS, SIM_S));
	} else {
		sim_gateway_end(host);
	}
}

void sim_gateway_init(struct sim_host *host)
{
	host->opener_ended = (struct sim_event){.run = on_opener_ended, .arg = host};
	host->mend_lost = (struct sim_event){.run = on_mend_lost, .arg = host};
	snprintf(host->opener.thread.actor.name, sizeof(host->opener.thread.actor.name), "target%u.open",
		 host->machine);
}

void sim_gateway_close(struct sim_host *host)
{
	opener_start(host);
}

void sim_gateway_give_up(struct sim_host *host)
{
	if (!host->process || host->wanted || host->running || host->closing)
		return;
	if (host->opening)
		sim_gateway_kill_opener(host, 0);
	sim_event_cancel(&host->restart);
	sim_gateway_end(host);
}
