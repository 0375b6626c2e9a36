/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The cluster of rados.h: its monitors, its OSDs' maps, and the way to them.
 */
#include "tests/sim/rados_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/fiber.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* A machine's link: so long an answer may be under way. */
#define MESSAGE_MIN_NS (20 * SIM_US)
#define MESSAGE_MAX_NS (500 * SIM_US)
#define COMMIT_MIN_NS (50 * SIM_MS)
#define COMMIT_MAX_NS (1200 * SIM_MS)

struct rados_cluster rados_cluster;
struct sim_rados_counts sim_rados_counts;

/* -- maps -------------------------------------------------------------------------------------- */

bool rados_is_blocked(uint32_t nonce, uint64_t map)
{
	for (unsigned int i = 0; i < rados_cluster.entry_count; i++) {
		const struct rados_entry *entry = &rados_cluster.entries[i];

		if (entry->nonce == nonce && map >= entry->from && (!entry->until || map < entry->until))
			return true;
	}
	return false;
}

void rados_osd_gets(struct rados_osd *osd, uint64_t map)
{
	if (map <= osd->map)
		return;
	osd->map = map;
	sim_trace(osd->name, "has map %llu", (unsigned long long)map);
	if (osd != &rados_cluster.osds[0])
		return;
	for (unsigned int i = 0; i < RADOS_WATCHES_MAX; i++)
		if (rados_cluster.watches[i].client && rados_is_blocked(rados_cluster.watches[i].client->nonce, map))
			rados_watch_end(&rados_cluster.watches[i], -ESHUTDOWN);
}

static void on_map(void *arg)
{
	struct rados_osd *osd = arg;

	if (sim_now_ns() < osd->stalled_ns)
		sim_event_at(&osd->gets_map, osd->stalled_ns);
	else
		rados_osd_gets(osd, rados_cluster.newest);
}

static void commit(void)
{
	rados_cluster.newest++;
	sim_trace("monitor", "commits map %llu", (unsigned long long)rados_cluster.newest);
	for (unsigned int i = 0; i < RADOS_OSDS; i++) {
		struct rados_osd *osd = &rados_cluster.osds[i];

		sim_event_by(&osd->gets_map, sim_now_ns() + sim_below(rados_cluster.map_ns));
	}
}

static void on_entry_ends(void *arg)
{
	struct rados_entry *entry = arg;

	commit();
	entry->until = rados_cluster.newest;
	sim_reached("cluster", "an entry of the blocklist ends", NULL);
	sim_trace("monitor", "client %u is blocked no more", entry->nonce);
}

int rados_do_map(struct rados_op *op)
{
	op->id = rados_cluster.newest;
	return 0;
}

/* One that is there is not made longer (seen with 16.2). */
static void block(uint32_t nonce, uint64_t seconds)
{
	struct rados_entry *entry = &rados_cluster.entries[rados_cluster.entry_count];

	if (rados_cluster.entry_count == RADOS_ENTRIES_MAX)
		sim_fail("the blocklist has no room");
	commit();
	if (rados_is_blocked(nonce, rados_cluster.newest))
		return;
	rados_cluster.entry_count++;
	*entry = (struct rados_entry){.nonce = nonce, .from = rados_cluster.newest};
	entry->ends = (struct sim_event){.run = on_entry_ends, .arg = entry};
	/* No history lasts for days. */
	if (seconds < 600)
		sim_event_in(&entry->ends, seconds * SIM_S);
	sim_trace("monitor", "client %u is blocked", nonce);
}

static void on_blocklist(void *arg)
{
	struct rados_op *op = arg;

	block(op->number, op->bytes);
	sim_reached("cluster", "a client is blocked", NULL);
	op->id = rados_cluster.lazy ? 0 : rados_cluster.newest;
	rados_op_answer(op, 0);
}

/* Commits come one after the other; one may be for all that have waited for it. */
int rados_do_blocklist(struct rados_op *op)
{
	uint64_t at_ns = rados_cluster.committed_ns > sim_now_ns() ? rados_cluster.committed_ns : sim_now_ns();

	if (!rados_cluster.together || at_ns == sim_now_ns())
		rados_cluster.committed_ns = at_ns + sim_between(COMMIT_MIN_NS, COMMIT_MAX_NS);
	op->event.run = on_blocklist;
	sim_event_at(&op->event, rados_cluster.committed_ns);
	return RADOS_LATER;
}

/* -- the way there and back ----------------------------------------------------------------------- */

uint64_t rados_message_ns(unsigned int machine)
{
	uint64_t delay_ns = sim_between(MESSAGE_MIN_NS, MESSAGE_MAX_NS);
	uint64_t cut_ns = rados_cluster.cut_ns[machine];

	return cut_ns > sim_now_ns() ? cut_ns - sim_now_ns() + delay_ns : delay_ns;
}

void rados_op_free(struct rados_op *op)
{
	TAILQ_REMOVE(&op->client->ops, op, link);
	sim_event_cancel(&op->event);
	free(op->data);
	free(op->out);
	free(op);
}

static void on_back(void *arg)
{
	struct rados_op *op = arg;
	struct rados_client *client = op->client;

	op->done = true;
	if (client->dead) {
		rados_op_free(op);
		return;
	}
	if (op->ended)
		op->ended(op);
	else if (op->fiber)
		sim_fiber_wake(op->fiber, 0);
}

void rados_op_answer(struct rados_op *op, int result)
{
	op->result = result;
	op->event = (struct sim_event){.run = on_back, .arg = op};
	sim_event_in(&op->event, rados_message_ns(op->client->machine));
}

static void on_execute(void *arg)
{
	struct rados_op *op = arg;
	struct rados_osd *osd = &rados_cluster.osds[op->where];
	int result = -ESHUTDOWN;

	if (sim_now_ns() < osd->stalled_ns) {
		sim_event_at(&op->event, osd->stalled_ns);
		return;
	}
	if (op->where != RADOS_MONITOR)
		rados_osd_gets(osd, op->map);
	if (op->where == RADOS_MONITOR || !rados_is_blocked(op->client->nonce, osd->map))
		result = op->run(op);
	else
		sim_reached("cluster", "an operation is refused", op->client->dead ? "of a dead process" : NULL);
	if (result != RADOS_LATER)
		rados_op_answer(op, result);
}

/* In the order in which they come. */
static void on_arrive(void *arg)
{
	struct rados_op *op = arg;
	struct rados_osd *osd = &rados_cluster.osds[op->where];
	uint64_t at_ns = sim_now_ns() > osd->stalled_ns ? sim_now_ns() : osd->stalled_ns;

	osd->done_ns = at_ns > osd->done_ns ? at_ns : osd->done_ns + 1;
	op->event.run = on_execute;
	sim_event_at(&op->event, osd->done_ns);
}

struct rados_op *rados_op_create(struct rados_client *client, unsigned int where, int (*run)(struct rados_op *op))
{
	struct rados_op *op = calloc(1, sizeof(*op));

	if (!op)
		sim_fail("out of memory");
	op->client = client;
	op->where = where;
	op->run = run;
	TAILQ_INSERT_TAIL(&client->ops, op, link);
	return op;
}

void rados_op_send(struct rados_op *op)
{
	struct rados_client *client = op->client;
	uint64_t at_ns = sim_now_ns() + rados_message_ns(client->machine);

	if (at_ns < client->delayed_ns[op->where])
		at_ns = client->delayed_ns[op->where];
	if (at_ns <= client->sent_ns[op->where])
		at_ns = client->sent_ns[op->where] + 1;
	client->sent_ns[op->where] = at_ns;
	op->map = client->map;
	op->sent_ns = sim_now_ns();
	op->event = (struct sim_event){.run = on_arrive, .arg = op};
	sim_event_at(&op->event, at_ns);
}

/* -- clients ------------------------------------------------------------------------------------ */

struct rados_client *rados_client_create(unsigned int machine)
{
	struct rados_client *client = calloc(1, sizeof(*client));

	if (!client || machine >= SIM_RADOS_MACHINES)
		sim_fail("no client");
	client->machine = machine;
	client->nonce = ++rados_cluster.last_nonce;
	TAILQ_INIT(&client->ops);
	TAILQ_INIT(&client->calls);
	TAILQ_INSERT_TAIL(&rados_cluster.clients, client, link);
	return client;
}

void rados_client_call(struct rados_client *client, struct rados_call *call)
{
	if (client->dead) {
		free(call);
		return;
	}
	TAILQ_INSERT_TAIL(&client->calls, call, link);
	sim_rados_thread_wake(client->finisher);
}

void rados_client_drop(struct rados_client *client)
{
	struct rados_op *op, *next;
	struct rados_call *call;

	while ((call = TAILQ_FIRST(&client->calls))) {
		TAILQ_REMOVE(&client->calls, call, link);
		free(call);
	}
	if (rados_is_blocked(client->nonce, rados_cluster.newest))
		rados_cluster.shut_out_ns = sim_now_ns();
	client->dead = true;
	client->finisher = NULL;
	/* Answered, and nobody has looked. */
	for (op = TAILQ_FIRST(&client->ops); op; op = next) {
		next = TAILQ_NEXT(op, link);
		if (op->done)
			rados_op_free(op);
	}
	rados_watches_doubt(client->machine);
}

void *rados_called_for(unsigned int machine)
{
	struct rados_client *client;
	void *called_for;

	TAILQ_FOREACH(client, &rados_cluster.clients, link)
		if (client->machine == machine && client->calling_for) {
			called_for = client->calling_for;
			client->calling_for = NULL;
			return called_for;
		}
	return NULL;
}

void rados_clients_drop(unsigned int machine)
{
	struct rados_client *client;

	TAILQ_FOREACH(client, &rados_cluster.clients, link)
		if (client->machine == machine && !client->dead)
			rados_client_drop(client);
}

/* -- the cluster ---------------------------------------------------------------------------------- */

bool sim_rados_can(void)
{
	return true;
}

void sim_rados_begin(struct sim_disk *image)
{
	memset(&rados_cluster, 0, sizeof(rados_cluster));
	rados_api_reset();
	TAILQ_INIT(&rados_cluster.clients);
	rados_cluster.on = true;
	rados_cluster.image = image;
	rados_cluster.newest = 1;
	rados_cluster.lazy = sim_chance(800000);
	rados_cluster.map_ns = sim_chance(300000) ? 20 * SIM_MS : 60 * SIM_S;
	for (unsigned int i = 0; i <= RADOS_OSDS; i++) {
		struct rados_osd *osd = &rados_cluster.osds[i];

		osd->map = 1;
		osd->gets_map = (struct sim_event){.run = on_map, .arg = osd};
		snprintf(osd->name, sizeof(osd->name), "osd%u", i);
	}
}

void sim_rados_commits_together(void)
{
	rados_cluster.together = true;
}

void sim_rados_fini(void)
{
	struct rados_client *client;

	while (rados_cluster.on && (client = TAILQ_FIRST(&rados_cluster.clients))) {
		if (!client->dead || !TAILQ_EMPTY(&client->ops))
			sim_fail("client %u has something under way at the end", client->nonce);
		TAILQ_REMOVE(&rados_cluster.clients, client, link);
		free(client);
	}
	rados_cluster.on = false;
}

void sim_rados_cut(unsigned int machine, uint64_t ns)
{
	sim_trace("cluster", "machine %u does not reach it for %llu us", machine, (unsigned long long)ns / SIM_US);
	sim_reached("cluster", "a machine does not reach it", NULL);
	if (rados_cluster.cut_ns[machine] <= sim_now_ns())
		rados_cluster.cut_from_ns[machine] = sim_now_ns();
	rados_cluster.cut_ns[machine] = sim_now_ns() + ns;
	rados_watches_doubt(machine);
}

void sim_rados_block(unsigned int machine)
{
	struct rados_client *client;

	TAILQ_FOREACH(client, &rados_cluster.clients, link) {
		if (client->machine != machine || client->dead)
			continue;
		sim_reached("cluster", "a client is blocked by hand", NULL);
		block(client->nonce, 3600);
	}
}

bool sim_rados_was_shut_out(uint64_t since_ns)
{
	const struct rados_client *client;

	TAILQ_FOREACH(client, &rados_cluster.clients, link)
		if (!client->dead && rados_is_blocked(client->nonce, rados_cluster.newest))
			return true;
	return rados_cluster.shut_out_ns >= since_ns;
}

void sim_rados_delay(unsigned int machine, uint64_t ns)
{
	struct rados_client *client;

	sim_trace("cluster", "connections of machine %u are late by %llu us", machine, (unsigned long long)ns / SIM_US);
	TAILQ_FOREACH(client, &rados_cluster.clients, link) {
		if (client->machine != machine || client->dead)
			continue;
		sim_reached("cluster", "a client's operations arrive late", NULL);
		for (unsigned int i = 1; i < RADOS_OSDS; i++)
			client->delayed_ns[i] = sim_now_ns() + ns;
	}
}

void sim_rados_stopped(unsigned int machine, uint64_t until_ns)
{
	rados_cluster.stopped_ns[machine] = until_ns;
	rados_watches_doubt(machine);
}

void sim_rados_stall(uint64_t ns)
{
	struct rados_osd *osd = &rados_cluster.osds[sim_below(RADOS_OSDS)];

	sim_trace(osd->name, "does nothing for %llu us", (unsigned long long)ns / SIM_US);
	sim_reached("cluster", "an OSD does nothing for a while", NULL);
	if (osd->stalled_ns <= sim_now_ns())
		osd->stalled_from_ns = sim_now_ns();
	osd->stalled_ns = sim_now_ns() + ns;
}
