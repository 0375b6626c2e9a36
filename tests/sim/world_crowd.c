/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A world to be measured: many initiators of librblk at several gateways of one image, of which the first one is
 * killed, or stands still. Each initiator names four gateways, its own one first, and reads ten times a second.
 * Printed: the time, of the simulation, until all that had the first gateway read again, and what it cost the cluster.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/rblk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/fiber.h"
#include "tests/sim/rados.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/world_impl.h"

#define CLIENT_MACHINE GATEWAYS_MAX /* all of them are on one */
#define PORTALS 4u
#define LOOK_NS (10 * SIM_MS)

struct member {
	struct sim_actor actor; /* first */
	struct sim_fiber fiber;
	unsigned int gateway; /* that it begins with */
	bool ready;
	uint64_t back_ns, slowest_ns; /* since the fault: its first read, and the longest one */
};

static struct crowd {
	unsigned int gateways, count;
	struct member *members;
	bool stops, together, over;
	uint64_t struck_ns; /* 0: not yet */
	struct sim_rados_counts before;
} crowd;

/* -- an initiator ------------------------------------------------------------------------------- */

static void member_wake(struct sim_actor *actor)
{
	sim_fiber_wake(&((struct member *)actor)->fiber, sim_between(200, 20 * SIM_US));
}

static void member_uri(const struct member *member, char *uri, size_t bytes)
{
	size_t used = (size_t)snprintf(uri, bytes, "rblk+sim://");
	unsigned int list[GATEWAYS_MAX];

	for (unsigned int i = 0; i < crowd.gateways; i++)
		list[i] = (member->gateway + i) % crowd.gateways;
	for (unsigned int i = 1; i < PORTALS && i < crowd.gateways; i++) {
		unsigned int other = i + (unsigned int)sim_below(crowd.gateways - i), swap = list[i];

		list[i] = list[other];
		list[other] = swap;
	}
	for (unsigned int i = 0; i < PORTALS && i < crowd.gateways; i++)
		used += (size_t)snprintf(uri + used, bytes - used, "%s10.0.0.%u:4430", i ? ";" : "", list[i] + 1);
	snprintf(uri + used, bytes - used, "/%s", sim_world.hosts[0].config.volumes[0].name);
}

static void member_read(struct member *member, struct rblk_volume *volume, void *buffer)
{
	uint64_t begun_ns = sim_now_ns(), took_ns;
	int err = rblk_pread(volume, buffer, 512, 0);

	if (err)
		sim_fail("%s: a read: %s", member->actor.name, strerror(-err));
	took_ns = sim_now_ns() - begun_ns;
	member->ready = true;
	if (!crowd.struck_ns || sim_now_ns() < crowd.struck_ns)
		return;
	if (took_ns > member->slowest_ns)
		member->slowest_ns = took_ns;
	/* One that began before may have been answered by the gateway that is gone. */
	if (!member->back_ns && begun_ns >= crowd.struck_ns)
		member->back_ns = sim_now_ns() - crowd.struck_ns;
}

static void member_run(void *arg)
{
	struct member *member = arg;
	struct rblk_options options = RBLK_OPTIONS_INIT;
	char uri[160], error[RBLK_ERROR_BYTES];
	struct rblk_session *session;
	struct rblk_volume *volume;
	void *buffer;

	member_uri(member, uri, sizeof(uri));
	options.polling = RBLK_POLL_NEVER;
	options.credits = 4;
	options.queues = 1;
	options.initiator_name = member->actor.name;
	sim_fiber_sleep(sim_below(SIM_S));
	session = rblk_session_open(uri, &options, error);
	if (!session)
		sim_fail("%s: %s: %s", member->actor.name, uri, error);
	volume = rblk_volume_open(session, NULL, 0);
	buffer = volume ? rblk_buffer_alloc(session, 4096) : NULL;
	if (!buffer)
		sim_fail("%s: %s", member->actor.name, rblk_session_error(session));
	while (!crowd.over) {
		member_read(member, volume, buffer);
		rblk_wait(session, (int)sim_between(50, 150));
	}
	rblk_session_close(session);
}

/* -- the world ---------------------------------------------------------------------------------- */

static void build_host(unsigned int i)
{
	struct sim_host *host = &sim_world.hosts[i];

	sim_host_init(host, i);
	sim_world_plain_config(&host->config);
	host->config.sessions_max = crowd.count + 1;
	host->config.queues_total_max = 2 * crowd.count + 2;
	host->config.receive_buffers = SIM_SHARED_RECEIVES;
	host->config.keepalive_ms = 5000;
	host->config.session_ms = 60000;
	host->config.drain_ms = 1000;
	sim_host_be_gateway(host, &sim_world.hosts[0]);
}

static unsigned int members_are(bool back)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < crowd.count; i++)
		count += back ? crowd.members[i].back_ns != 0 : crowd.members[i].ready;
	return count;
}

static void on_look(void *arg)
{
	(void)arg;
	if (!crowd.struck_ns && members_are(false) == crowd.count) {
		crowd.struck_ns = sim_now_ns();
		crowd.before = sim_rados_counts;
		if (crowd.stops)
			sim_host_stop(&sim_world.hosts[0], 40 * SIM_S);
		else
			sim_host_kill(&sim_world.hosts[0], false, 3600 * SIM_S);
	}
	crowd.over = crowd.struck_ns && members_are(true) == crowd.count;
	if (!crowd.over)
		sim_event_in(&sim_world.manager, LOOK_NS);
}

static void build(void)
{
	sim_net = (struct sim_net){
		.limits = {SIM_WORLD_PLAIN_LIMITS, .immediate = true, .invalidate = true},
		.latency_min_ns = 5 * SIM_US,
		.latency_max_ns = 50 * SIM_US,
		.resend_ns = 20 * SIM_MS,
		.resends = 7,
	};
	sim_world.host_count = crowd.gateways;
	for (unsigned int i = 0; i < crowd.gateways; i++)
		build_host(i);
	sim_rados_begin(sim_world.hosts[0].disks[0]);
	if (crowd.together)
		sim_rados_commits_together();
	for (unsigned int i = 0; i < crowd.gateways; i++)
		sim_host_start(&sim_world.hosts[i]);
	for (unsigned int i = 0; i < crowd.count; i++) {
		struct member *member = &crowd.members[i];

		snprintf(member->actor.name, sizeof(member->actor.name), "app%u", i);
		member->actor.machine = CLIENT_MACHINE;
		member->actor.wake = member_wake;
		member->gateway = i % crowd.gateways;
		sim_fiber_start(&member->fiber, &member->actor, member_run, member);
	}
	sim_world.manager.run = on_look;
	sim_event_in(&sim_world.manager, SIM_S);
	sim_event_in(&sim_world.calm, 600 * SIM_S);
}

static bool finished(void)
{
	for (unsigned int i = 0; i < crowd.count; i++)
		if (!crowd.members[i].fiber.finished)
			return false;
	return true;
}

static int compare(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;

	return one < two ? -1 : one > two;
}

static void print(void)
{
	uint64_t *back = calloc(crowd.count, sizeof(*back)), slowest_ns = 0;
	unsigned int count = 0;

	for (unsigned int i = 0; i < crowd.count; i++) {
		if (!crowd.members[i].gateway)
			back[count++] = crowd.members[i].back_ns;
		else if (crowd.members[i].slowest_ns > slowest_ns)
			slowest_ns = crowd.members[i].slowest_ns;
	}
	qsort(back, count, sizeof(*back), compare);
	printf("%u gateways, %u initiators, one gateway %s: its %u go on after %.2f s (median) and %.2f s (the last); "
	       "longest read of the others %.3f s; ",
	       crowd.gateways, crowd.count, crowd.stops ? "stands still" : "is killed", count,
	       (double)back[count / 2] / 1e9, (double)back[count - 1] / 1e9, (double)slowest_ns / 1e9);
	printf("%" PRIu64 " notifies, %" PRIu64 " entries of the blocklist, %" PRIu64 " waits for a map\n",
	       sim_rados_counts.notifies - crowd.before.notifies, sim_rados_counts.blocked - crowd.before.blocked,
	       sim_rados_counts.maps - crowd.before.maps);
	free(back);
}

bool sim_world_run_crowd(unsigned int gateways, unsigned int initiators, bool stops, bool together)
{
	if (!sim_rados_can() || gateways < 2 || gateways > GATEWAYS_MAX || initiators < gateways)
		return false;
	crowd = (struct crowd){.gateways = gateways, .count = initiators, .stops = stops, .together = together};
	crowd.members = calloc(initiators, sizeof(*crowd.members));
	if (!crowd.members)
		return false;
	sim_world_run_as(1, build, finished);
	for (unsigned int i = 0; i < initiators; i++)
		sim_fiber_fini(&crowd.members[i].fiber);
	print();
	free(crowd.members);
	return true;
}
