/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The raw initiator's connections: which incarnation of which queue is where, and what the target's
 * answers to its logins have said about the older ones.
 */
#include "tests/sim/raw_initiator.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

#define POLL_BATCH 16
#define TURN_NS (10 * SIM_MS)

static __attribute__((noreturn)) void login_fail(const struct sim_wire_connection *connection, const char *what)
{
	sim_fail("%s: queue %u epoch %llu incarnation %u: %s", connection->name, connection->queue,
		 (unsigned long long)connection->epoch, connection->incarnation, what);
}

static bool connection_is_here(const struct sim_wire_connection *connection)
{
	return connection->state == SIM_WIRE_CONNECTING || connection->state == SIM_WIRE_LIVE;
}

/* -- what is fenced ------------------------------------------------------------------------ */

/* Nothing new may come of it: sometimes that is put to the test before it is closed. */
static void connection_bury(struct sim_raw_initiator *raw, struct sim_wire_connection *connection)
{
	connection->fenced = true;
	if (connection->state != SIM_WIRE_LIVE)
		return;
	if (sim_chance(500000))
		sim_raw_haunt(raw, connection);
	else
		sim_wire_connection_close(connection, sim_chance(300000));
}

/* The target takes nothing more from these incarnations of the present epoch. */
static void incarnations_ended(struct sim_raw_initiator *raw, uint16_t queue, uint32_t incarnation)
{
	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++) {
		struct sim_wire_connection *connection = &raw->connections[i];

		if (connection_is_here(connection) && !connection->fenced && connection->epoch == raw->epoch &&
		    connection->queue == queue && connection->incarnation <= incarnation)
			connection_bury(raw, connection);
	}
}

void sim_raw_fenced(struct sim_raw_initiator *raw, uint16_t queue, uint32_t incarnation)
{
	struct sim_raw_slot *slot = &raw->slots[queue];

	if (slot->fenced < incarnation)
		slot->fenced = incarnation;
	sim_raw_check_fence(raw, queue, slot->fenced);
	incarnations_ended(raw, queue, slot->fenced);
}

/* Queue 0 of the present epoch is accepted: nothing more is taken from those before. */
static void epochs_ended(struct sim_raw_initiator *raw)
{
	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++) {
		struct sim_wire_connection *connection = &raw->connections[i];

		if (connection_is_here(connection) && !connection->fenced && connection->epoch < raw->epoch)
			connection_bury(raw, connection);
	}
}

/* -- answers to logins --------------------------------------------------------------------- */

static void on_accepted(struct sim_wire_connection *connection)
{
	struct sim_raw_initiator *raw = connection->owner;
	struct sim_raw_slot *slot = &raw->slots[connection->queue];
	bool other = memcmp(raw->target, connection->accept.target_instance, 16);

	if (connection->probe)
		login_fail(connection, "accepted, and must be refused (F5)");
	if (raw->begun && other && connection->login.fence_incarnation)
		login_fail(connection, "accepted by a target that cannot know its session");
	if (connection->queue == 0) {
		memcpy(raw->target, connection->accept.target_instance, 16);
		raw->begun = true;
		epochs_ended(raw);
	}
	slot->accepted = connection->incarnation;
	/* F5: with this feature FENCE acknowledges what the storage still had, and the acceptance only the end of the rest. */
	if (connection->features & RBLK_FEATURE_VOLUME_FENCE) {
		incarnations_ended(raw, connection->queue, connection->incarnation - 1);
		slot->owed = connection->incarnation - 1;
	} else {
		sim_raw_fenced(raw, connection->queue, connection->incarnation - 1);
	}
	/* FENCE was faster than the acceptance. */
	if (connection->incarnation <= slot->fenced)
		connection_bury(raw, connection);
}

static void probe_refused(struct sim_wire_connection *connection, uint16_t reason, uint32_t detail)
{
	struct sim_raw_initiator *raw = connection->owner;

	switch (reason) {
	case RBLK_REJECT_STALE_INCARNATION:
		if (detail < connection->incarnation)
			login_fail(connection, "stale, by an incarnation that is not above it");
		break;
	case RBLK_REJECT_STALE_EPOCH:
		if (raw->epoch == connection->epoch)
			login_fail(connection, "a stale epoch, and it is the last one");
		break;
	case RBLK_REJECT_MALFORMED:
	case RBLK_REJECT_QUEUE_COUNT:
		if (rblk_le16(connection->login.queue_count) == raw->queue_count)
			login_fail(connection, "refused for a wrong reason");
		break;
	case RBLK_REJECT_NONE:
	case RBLK_REJECT_NO_SESSION:
	case RBLK_REJECT_DRAINING:
	case RBLK_REJECT_NO_RESOURCES:
		break;
	default:
		login_fail(connection, "refused for a wrong reason");
	}
}

static void on_refused(struct sim_wire_connection *connection, uint16_t reason, uint32_t detail)
{
	struct sim_raw_initiator *raw = connection->owner;
	struct sim_raw_slot *slot = &raw->slots[connection->queue];
	struct sim_wire_connection *other;

	if (connection->probe) {
		probe_refused(connection, reason, detail);
		return;
	}
	if (reason == RBLK_REJECT_STALE_INCARNATION && detail < connection->incarnation)
		login_fail(connection, "stale, by an incarnation that is not above it");
	if (connection->epoch != raw->epoch)
		return;
	other = sim_raw_live(raw, false);
	slot->try_at_ns = sim_now_ns() + sim_between(SIM_MS, 20 * SIM_MS);
	switch (reason) {
	case RBLK_REJECT_STALE_INCARNATION:
		if (slot->incarnation < detail)
			slot->incarnation = detail;
		break;
	case RBLK_REJECT_NO_SESSION:
		/* An earlier one of this epoch, without an answer, may have begun what was kicked since. */
		if (!connection->queue && connection->incarnation == 1)
			login_fail(connection, "the login that begins a session finds none");
		sim_raw_renew(raw);
		break;
	case RBLK_REJECT_NO_CREDITS:
	case RBLK_REJECT_NO_RESOURCES:
		/* No room for a fence by login, perhaps ever: others may wait for ours. */
		if (other && other->queue != connection->queue && sim_chance(300000))
			sim_raw_fence(raw, other, connection->queue, connection->incarnation);
		/* Two that hold what the other's queue 0 wants: in time one gives way. */
		else if (other && !connection->queue && sim_chance(20000))
			sim_wire_connection_close(other, false);
		break;
	case RBLK_REJECT_NONE:
	case RBLK_REJECT_DRAINING:
		break;
	default:
		login_fail(connection, "refused for a wrong reason");
	}
}

static void on_lost(struct sim_wire_connection *connection)
{
	struct sim_raw_initiator *raw = connection->owner;

	if (connection->epoch == raw->epoch)
		raw->slots[connection->queue].try_at_ns =
			sim_now_ns() + sim_below(sim_chance(500000) ? SIM_MS : 50 * SIM_MS);
	sim_wire_connection_close(connection, false);
}

static const struct sim_wire_ops connection_ops = {
	.accepted = on_accepted,
	.refused = on_refused,
	.lost = on_lost,
};

/* -- logging in ---------------------------------------------------------------------------- */

/* NULL: none is free. One is kept for logins that go on with the session. */
static struct sim_wire_connection *connection_free(struct sim_raw_initiator *raw, bool probe)
{
	struct sim_wire_connection *found = NULL;
	unsigned int count = 0;

	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++)
		if (raw->connections[i].state == SIM_WIRE_FREE) {
			found = &raw->connections[i];
			count++;
		}
	return count > (probe ? SIM_RAW_QUEUES : 0) ? found : NULL;
}

static void connection_login(struct sim_raw_initiator *raw, struct sim_wire_connection *connection, uint16_t queue,
			     uint64_t epoch, uint32_t incarnation, uint32_t fence, uint16_t queue_count)
{
	struct rblk_wire_login *login = &connection->login;

	memset(login, 0, sizeof(*login));
	login->magic = rblk_to_le32(RBLK_MAGIC);
	login->version = rblk_to_le16(RBLK_PROTOCOL_VERSION);
	login->queue_index = rblk_to_le16(queue);
	login->incarnation = rblk_to_le32(incarnation);
	login->features = rblk_to_le32(raw->features);
	memcpy(login->session_id, raw->session_id, sizeof(login->session_id));
	login->session_epoch = rblk_to_le64(epoch);
	login->queue_count = rblk_to_le16(queue_count);
	login->credits = rblk_to_le16(raw->credits);
	login->reply_bytes = rblk_to_le32(SIM_WIRE_REPLY_BYTES);
	login->fence_incarnation = rblk_to_le32(fence);
	sim_wire_connection_connect(connection, (const struct sockaddr *)&raw->address,
				    raw->connect_timeout_ms);
}

/* Something of the present epoch that takes commands, or will if it is accepted. */
static bool place_is_taken(const struct sim_raw_initiator *raw, uint16_t queue)
{
	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++) {
		const struct sim_wire_connection *connection = &raw->connections[i];

		if (connection->probe || connection->epoch != raw->epoch || connection->queue != queue)
			continue;
		if (connection->state == SIM_WIRE_CONNECTING)
			return true;
		if (connection->state == SIM_WIRE_LIVE && !connection->fenced &&
		    !raw->slots[queue].supersede)
			return true;
	}
	return false;
}

/* Queue 0 first; the others when the session is there. */
static void raw_connect(struct sim_raw_initiator *raw)
{
	for (uint16_t queue = 0; queue < raw->queue_count; queue++) {
		struct sim_raw_slot *slot = &raw->slots[queue];
		struct sim_wire_connection *connection;

		if (sim_now_ns() < slot->try_at_ns || place_is_taken(raw, queue) ||
		    (queue && !raw->begun))
			continue;
		connection = connection_free(raw, false);
		if (!connection)
			return;
		slot->supersede = false;
		/* What FENCE has fenced in advance is stale: asked for all the same, or left out.
		 */
		if (slot->incarnation < slot->fenced && sim_chance(500000))
			slot->incarnation = slot->fenced;
		connection->probe = slot->incarnation < slot->fenced;
		connection_login(raw, connection, queue, raw->epoch, ++slot->incarnation,
				 slot->accepted, raw->queue_count);
	}
}

void sim_raw_probe(struct sim_raw_initiator *raw, bool old_epoch)
{
	uint16_t queue = (uint16_t)sim_below(raw->queue_count);
	const struct sim_raw_slot *slot = &raw->slots[queue];
	uint32_t incarnation = slot->accepted;
	struct sim_wire_connection *connection = connection_free(raw, true);

	/* A target that has forgotten the session refuses what expects it to be there. */
	if (!connection || !raw->begun || (old_epoch && raw->epoch == 1))
		return;
	if (old_epoch)
		incarnation += 2 + (uint32_t)sim_below(8);
	else if (!incarnation || (!queue && incarnation == 1))
		return;
	connection->probe = true;
	connection_login(raw, connection, queue, raw->epoch - old_epoch, incarnation,
			 queue ? 0 : incarnation - 1, raw->queue_count);
}

void sim_raw_probe_count(struct sim_raw_initiator *raw)
{
	const struct sim_raw_slot *slot = &raw->slots[0];
	struct sim_wire_connection *connection = connection_free(raw, true);

	if (!connection || !raw->begun || !slot->accepted)
		return;
	connection->probe = true;
	connection_login(raw, connection, 0, raw->epoch, slot->incarnation + 1, slot->accepted,
			 (uint16_t)(raw->queue_count + sim_between(1, 4)));
}

void sim_raw_renew(struct sim_raw_initiator *raw)
{
	raw->epoch++;
	raw->operation = 0;
	raw->named = false;
	raw->begun = false;
	raw->handle = 0;
	raw->again = 0;
	raw->opening = false;
	memset(raw->slots, 0, sizeof(raw->slots));
	raw->slots[0].try_at_ns = sim_now_ns() + sim_below(SIM_MS);
	sim_trace(raw->actor.name, "begins anew: epoch %llu",
		  (unsigned long long)raw->epoch);
	/* Those that are well stay, and are the target's to end. */
	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++)
		if (raw->connections[i].state == SIM_WIRE_CONNECTING)
			sim_wire_connection_close(&raw->connections[i], false);
}

/* -- what comes ---------------------------------------------------------------------------- */

static void raw_poll(struct sim_raw_initiator *raw)
{
	struct ibv_wc wc[POLL_BATCH];
	struct fab_event event;
	int count;

	while ((count = fab_poll(raw->fab, wc, POLL_BATCH)) > 0)
		for (int i = 0; i < count; i++)
			sim_wire_connection_completion(&raw->connections[sim_wire_connection_of(&wc[i])], &wc[i]);
	while (fab_poll_event(raw->fab, &event) > 0)
		if (event.conn)
			sim_wire_connection_event(fab_conn_user(event.conn), &event);
}

struct sim_wire_connection *sim_raw_live(struct sim_raw_initiator *raw, bool queue_0)
{
	struct sim_wire_connection *found[SIM_RAW_CONNECTIONS];
	unsigned int count = 0;

	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++) {
		struct sim_wire_connection *connection = &raw->connections[i];

		if (connection->state == SIM_WIRE_LIVE && !connection->fenced &&
		    connection->epoch == raw->epoch && (!queue_0 || !connection->queue))
			found[count++] = connection;
	}
	return count ? found[sim_below(count)] : NULL;
}

/* No answer for long. The storage may be slow, the target dead, the way cut: who knows. */
static void connection_overdue(struct sim_raw_initiator *raw, struct sim_wire_connection *connection)
{
	struct sim_wire_connection *other = sim_raw_live(raw, false);

	connection->heard_ns = sim_now_ns();
	if (connection->epoch == raw->epoch && !connection->fenced) {
		if (sim_chance(300000)) {
			raw->slots[connection->queue].supersede = true;
			return;
		}
		if (other && other->queue != connection->queue && sim_chance(500000)) {
			sim_raw_fence(raw, other, connection->queue, connection->incarnation);
			return;
		}
	}
	sim_wire_connection_close(connection, sim_chance(300000));
}

/* Storage may take longer than that time for every command: then there would be no end. */
#define PATIENCE_NS (500 * SIM_MS)

static void raw_timeouts(struct sim_raw_initiator *raw)
{
	uint64_t limit_ns = raw->command_timeout_ns;

	if (raw->calm && limit_ns < PATIENCE_NS)
		limit_ns = PATIENCE_NS;
	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++) {
		struct sim_wire_connection *connection = &raw->connections[i];

		if (connection->state == SIM_WIRE_LIVE && connection->order_count &&
		    sim_now_ns() - connection->heard_ns > limit_ns)
			connection_overdue(raw, connection);
	}
}

/* -- the fiber ----------------------------------------------------------------------------- */

static void raw_open(struct sim_raw_initiator *raw)
{
	struct fab_options options = {.cq_depth = 8192, .recv_sge = 1};
	const char *colon = strchr(raw->host->address, ':');
	char error[FAB_ERROR_BYTES], host[32];

	raw->fab = fab_open(FAB_SIM, &options, error);
	raw->memory = calloc(1, sizeof(*raw->memory));
	if (!raw->fab || !raw->memory)
		sim_fail("out of memory");
	fab_mr_register(raw->fab, raw->guard.base, (size_t)SIM_SLOTS * SIM_SLOT_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
			&raw->guard_mr);
	fab_mr_register(raw->fab, raw->memory, sizeof(*raw->memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &raw->memory_mr);
	for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++)
		raw->connections[i] = (struct sim_wire_connection){.name = raw->actor.name,
								   .ops = &connection_ops,
								   .owner = raw,
								   .fab = raw->fab,
								   .mr = raw->memory_mr,
								   .memory = &raw->memory->connections[i],
								   .index = i};
	snprintf(host, sizeof(host), "%.*s", (int)(colon - raw->host->address),
		 raw->host->address);
	raw->address.sin_family = AF_INET;
	raw->address.sin_port = htons((uint16_t)atoi(colon + 1));
	inet_pton(AF_INET, host, &raw->address.sin_addr);
	env_random(raw->session_id, sizeof(raw->session_id));
	raw->session = sim_session_of(&raw->actor);
	raw->epoch = 1;
	raw->operation = 0;
	raw->named = false;
	sim_raw_forget(raw);
	raw->begun = false;
	raw->handle = 0;
	raw->again = 0;
	raw->opening = false;
	memset(raw->slots, 0, sizeof(raw->slots));
}

static void raw_close(struct sim_raw_initiator *raw, bool silently)
{
	bool left;

	do {
		left = false;
		for (unsigned int i = 0; i < SIM_RAW_CONNECTIONS; i++) {
			sim_wire_connection_close(&raw->connections[i], silently);
			left |= raw->connections[i].state != SIM_WIRE_FREE;
		}
		raw_poll(raw);
		if (left && !fab_arm(raw->fab))
			sim_fiber_wait_fd(fab_fd(raw->fab), TURN_NS);
	} while (left);
	sim_raw_abandon(raw);
	sim_reserve_abandon(raw, raw->session);
	fab_mr_deregister(raw->guard_mr);
	fab_mr_deregister(raw->memory_mr);
	fab_close(raw->fab);
	free(raw->memory);
}

/* Until it looks again by itself: for what is overdue, or with something new to ask. */
static uint64_t raw_pause(const struct sim_raw_initiator *raw)
{
	bool idle = raw->handle && raw->ops_left && !raw->under_way;

	return sim_between(SIM_US, idle ? raw->think_ns : TURN_NS);
}

void sim_raw_restart(struct sim_raw_initiator *raw)
{
	sim_trace(raw->actor.name, "is killed");
	raw_close(raw, sim_chance(500000));
	raw_open(raw);
}

static void raw_run(void *arg)
{
	struct sim_raw_initiator *raw = arg;

	raw_open(raw);
	while (!raw->finished) {
		raw->doing = "works";
		raw_poll(raw);
		raw_timeouts(raw);
		raw_connect(raw);
		sim_raw_manage(raw);
		sim_raw_work(raw);
		sim_raw_reserve(raw);
		if (!raw->calm && sim_chance(raw->mischief))
			sim_raw_mischief(raw);
		if (raw->calm && !raw->ops_left && !raw->under_way &&
		    (raw->reserver.released || !raw->reserver.often))
			raw->finished = sim_raw_verify(raw);
		if (!raw->finished && !fab_arm(raw->fab))
			sim_fiber_wait_fd(fab_fd(raw->fab), raw_pause(raw));
	}
	raw->doing = "closes its connections";
	raw_close(raw, false);
	raw->doing = "has finished";
}

/* -- making -------------------------------------------------------------------------------- */

static void raw_wake(struct sim_actor *actor)
{
	struct sim_raw_initiator *raw = (struct sim_raw_initiator *)actor;

	sim_fiber_wake(&raw->fiber, sim_between(200, 20 * SIM_US));
}

void sim_raw_start(struct sim_raw_initiator *raw, unsigned int machine)
{
	snprintf(raw->actor.name, sizeof(raw->actor.name), "raw%u", machine);
	raw->actor.machine = machine;
	raw->actor.wake = raw_wake;
	sim_guard_init(&raw->guard, raw->actor.name);
	sim_fiber_start(&raw->fiber, &raw->actor, raw_run, raw);
}

void sim_raw_fini(struct sim_raw_initiator *raw)
{
	sim_fiber_fini(&raw->fiber);
	sim_guard_fini(&raw->guard);
}
