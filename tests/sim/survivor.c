/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The survivor's connections: which incarnation of which queue is where, and what the target's
 * answers to its logins have said about the older ones.
 */
#include "tests/sim/survivor.h"

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

static __attribute__((noreturn)) void login_fail(const struct sim_life *life, const char *what)
{
	sim_fail("%s: queue %u epoch %llu incarnation %u: %s", life->name, life->queue,
		 (unsigned long long)life->epoch, life->incarnation, what);
}

static bool life_is_here(const struct sim_life *life)
{
	return life->state == SIM_LIFE_CONNECTING || life->state == SIM_LIFE_LIVE;
}

/* -- what is fenced ------------------------------------------------------------------------ */

/* Nothing new may come of it: sometimes that is put to the test before it is closed. */
static void life_bury(struct sim_survivor *survivor, struct sim_life *life)
{
	life->fenced = true;
	if (life->state != SIM_LIFE_LIVE)
		return;
	if (sim_chance(500000))
		sim_survivor_haunt(survivor, life);
	else
		sim_life_close(life, sim_chance(300000));
}

/* The target takes nothing more from these incarnations of the present epoch. */
static void incarnations_ended(struct sim_survivor *survivor, uint16_t queue, uint32_t incarnation)
{
	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++) {
		struct sim_life *life = &survivor->lives[i];

		if (life_is_here(life) && !life->fenced && life->epoch == survivor->epoch &&
		    life->queue == queue && life->incarnation <= incarnation)
			life_bury(survivor, life);
	}
}

void sim_survivor_fenced(struct sim_survivor *survivor, uint16_t queue, uint32_t incarnation)
{
	struct sim_place *place = &survivor->places[queue];

	if (place->fenced < incarnation)
		place->fenced = incarnation;
	sim_survivor_check_fence(survivor, queue, place->fenced);
	incarnations_ended(survivor, queue, place->fenced);
}

/* Queue 0 of the present epoch is accepted: nothing more is taken from those before. */
static void epochs_ended(struct sim_survivor *survivor)
{
	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++) {
		struct sim_life *life = &survivor->lives[i];

		if (life_is_here(life) && !life->fenced && life->epoch < survivor->epoch)
			life_bury(survivor, life);
	}
}

/* -- answers to logins --------------------------------------------------------------------- */

static void on_accepted(struct sim_life *life)
{
	struct sim_survivor *survivor = life->owner;
	struct sim_place *place = &survivor->places[life->queue];
	bool other = memcmp(survivor->target, life->accept.target_instance, 16);

	if (life->probe)
		login_fail(life, "accepted, and must be refused (F5)");
	if (survivor->begun && other && life->login.fence_incarnation)
		login_fail(life, "accepted by a target that cannot know its session");
	if (life->queue == 0) {
		memcpy(survivor->target, life->accept.target_instance, 16);
		survivor->begun = true;
		epochs_ended(survivor);
	}
	place->accepted = life->incarnation;
	/* F5: with this feature FENCE acknowledges what the storage still had, and the acceptance only the end of the rest. */
	if (life->features & RBLK_FEATURE_VOLUME_FENCE) {
		incarnations_ended(survivor, life->queue, life->incarnation - 1);
		place->owed = life->incarnation - 1;
	} else {
		sim_survivor_fenced(survivor, life->queue, life->incarnation - 1);
	}
	/* FENCE was faster than the acceptance. */
	if (life->incarnation <= place->fenced)
		life_bury(survivor, life);
}

static void probe_refused(struct sim_life *life, uint16_t reason, uint32_t detail)
{
	struct sim_survivor *survivor = life->owner;

	switch (reason) {
	case RBLK_REJECT_STALE_INCARNATION:
		if (detail < life->incarnation)
			login_fail(life, "stale, by an incarnation that is not above it");
		break;
	case RBLK_REJECT_STALE_EPOCH:
		if (survivor->epoch == life->epoch)
			login_fail(life, "a stale epoch, and it is the last one");
		break;
	case RBLK_REJECT_MALFORMED:
	case RBLK_REJECT_QUEUE_COUNT:
		if (rblk_le16(life->login.queue_count) == survivor->queue_count)
			login_fail(life, "refused for a wrong reason");
		break;
	case RBLK_REJECT_NONE:
	case RBLK_REJECT_NO_SESSION:
	case RBLK_REJECT_DRAINING:
	case RBLK_REJECT_NO_RESOURCES:
		break;
	default:
		login_fail(life, "refused for a wrong reason");
	}
}

static void on_refused(struct sim_life *life, uint16_t reason, uint32_t detail)
{
	struct sim_survivor *survivor = life->owner;
	struct sim_place *place = &survivor->places[life->queue];
	struct sim_life *other;

	if (life->probe) {
		probe_refused(life, reason, detail);
		return;
	}
	if (reason == RBLK_REJECT_STALE_INCARNATION && detail < life->incarnation)
		login_fail(life, "stale, by an incarnation that is not above it");
	if (life->epoch != survivor->epoch)
		return;
	other = sim_survivor_live(survivor, false);
	place->try_at_ns = sim_now_ns() + sim_between(SIM_MS, 20 * SIM_MS);
	switch (reason) {
	case RBLK_REJECT_STALE_INCARNATION:
		if (place->incarnation < detail)
			place->incarnation = detail;
		break;
	case RBLK_REJECT_NO_SESSION:
		if (!life->queue && !life->login.fence_incarnation)
			login_fail(life, "the login that begins a session finds none");
		sim_survivor_renew(survivor);
		break;
	case RBLK_REJECT_NO_CREDITS:
	case RBLK_REJECT_NO_RESOURCES:
		/* No room for a fence by login, perhaps ever: others may wait for ours. */
		if (other && other->queue != life->queue && sim_chance(300000))
			sim_survivor_fence(survivor, other, life->queue, life->incarnation);
		/* Two that hold what the other's queue 0 wants: in time one gives way. */
		else if (other && !life->queue && sim_chance(20000))
			sim_life_close(other, false);
		break;
	case RBLK_REJECT_NONE:
	case RBLK_REJECT_DRAINING:
		break;
	default:
		login_fail(life, "refused for a wrong reason");
	}
}

static void on_lost(struct sim_life *life)
{
	struct sim_survivor *survivor = life->owner;

	if (life->epoch == survivor->epoch)
		survivor->places[life->queue].try_at_ns =
			sim_now_ns() + sim_below(sim_chance(500000) ? SIM_MS : 50 * SIM_MS);
	sim_life_close(life, false);
}

static const struct sim_life_ops life_ops = {
	.accepted = on_accepted,
	.refused = on_refused,
	.lost = on_lost,
};

/* -- logging in ---------------------------------------------------------------------------- */

/* NULL: none is free. One is kept for logins that go on with the session. */
static struct sim_life *life_free(struct sim_survivor *survivor, bool probe)
{
	struct sim_life *found = NULL;
	unsigned int count = 0;

	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++)
		if (survivor->lives[i].state == SIM_LIFE_FREE) {
			found = &survivor->lives[i];
			count++;
		}
	return count > (probe ? SIM_SURVIVOR_QUEUES : 0) ? found : NULL;
}

static void life_login(struct sim_survivor *survivor, struct sim_life *life, uint16_t queue,
		       uint64_t epoch, uint32_t incarnation, uint32_t fence, uint16_t queue_count)
{
	struct rblk_wire_login *login = &life->login;

	memset(login, 0, sizeof(*login));
	login->magic = rblk_to_le32(RBLK_MAGIC);
	login->version = rblk_to_le16(RBLK_PROTOCOL_VERSION);
	login->queue_index = rblk_to_le16(queue);
	login->incarnation = rblk_to_le32(incarnation);
	login->features = rblk_to_le32(survivor->features);
	memcpy(login->session_id, survivor->session_id, sizeof(login->session_id));
	login->session_epoch = rblk_to_le64(epoch);
	login->queue_count = rblk_to_le16(queue_count);
	login->credits = rblk_to_le16(survivor->credits);
	login->reply_bytes = rblk_to_le32(SIM_LIFE_REPLY_BYTES);
	login->fence_incarnation = rblk_to_le32(fence);
	sim_life_connect(life, (const struct sockaddr *)&survivor->address,
			 survivor->connect_timeout_ms);
}

/* Something of the present epoch that takes commands, or will if it is accepted. */
static bool place_is_taken(const struct sim_survivor *survivor, uint16_t queue)
{
	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++) {
		const struct sim_life *life = &survivor->lives[i];

		if (life->probe || life->epoch != survivor->epoch || life->queue != queue)
			continue;
		if (life->state == SIM_LIFE_CONNECTING)
			return true;
		if (life->state == SIM_LIFE_LIVE && !life->fenced &&
		    !survivor->places[queue].supersede)
			return true;
	}
	return false;
}

/* Queue 0 first; the others when the session is there. */
static void survivor_connect(struct sim_survivor *survivor)
{
	for (uint16_t queue = 0; queue < survivor->queue_count; queue++) {
		struct sim_place *place = &survivor->places[queue];
		struct sim_life *life;

		if (sim_now_ns() < place->try_at_ns || place_is_taken(survivor, queue) ||
		    (queue && !survivor->begun))
			continue;
		life = life_free(survivor, false);
		if (!life)
			return;
		place->supersede = false;
		/* What FENCE has fenced in advance is stale: asked for all the same, or left out.
		 */
		if (place->incarnation < place->fenced && sim_chance(500000))
			place->incarnation = place->fenced;
		life->probe = place->incarnation < place->fenced;
		life_login(survivor, life, queue, survivor->epoch, ++place->incarnation,
			   place->accepted, survivor->queue_count);
	}
}

void sim_survivor_probe(struct sim_survivor *survivor, bool old_epoch)
{
	uint16_t queue = (uint16_t)sim_below(survivor->queue_count);
	const struct sim_place *place = &survivor->places[queue];
	uint32_t incarnation = place->accepted;
	struct sim_life *life = life_free(survivor, true);

	/* A target that has forgotten the session refuses what expects it to be there. */
	if (!life || !survivor->begun || (old_epoch && survivor->epoch == 1))
		return;
	if (old_epoch)
		incarnation += 2 + (uint32_t)sim_below(8);
	else if (!incarnation || (!queue && incarnation == 1))
		return;
	life->probe = true;
	life_login(survivor, life, queue, survivor->epoch - old_epoch, incarnation,
		   queue ? 0 : incarnation - 1, survivor->queue_count);
}

void sim_survivor_probe_count(struct sim_survivor *survivor)
{
	const struct sim_place *place = &survivor->places[0];
	struct sim_life *life = life_free(survivor, true);

	if (!life || !survivor->begun || !place->accepted)
		return;
	life->probe = true;
	life_login(survivor, life, 0, survivor->epoch, place->incarnation + 1, place->accepted,
		   (uint16_t)(survivor->queue_count + sim_between(1, 4)));
}

void sim_survivor_renew(struct sim_survivor *survivor)
{
	survivor->epoch++;
	survivor->operation = 0;
	survivor->named = false;
	survivor->begun = false;
	survivor->handle = 0;
	survivor->opening = false;
	memset(survivor->places, 0, sizeof(survivor->places));
	survivor->places[0].try_at_ns = sim_now_ns() + sim_below(SIM_MS);
	sim_trace(survivor->actor.name, "begins anew: epoch %llu",
		  (unsigned long long)survivor->epoch);
	/* Those that are well stay, and are the target's to end. */
	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++)
		if (survivor->lives[i].state == SIM_LIFE_CONNECTING)
			sim_life_close(&survivor->lives[i], false);
}

/* -- what comes ---------------------------------------------------------------------------- */

static void survivor_poll(struct sim_survivor *survivor)
{
	struct ibv_wc wc[POLL_BATCH];
	struct fab_event event;
	int count;

	while ((count = fab_poll(survivor->fab, wc, POLL_BATCH)) > 0)
		for (int i = 0; i < count; i++)
			sim_life_completion(&survivor->lives[sim_life_of(&wc[i])], &wc[i]);
	while (fab_poll_event(survivor->fab, &event) > 0)
		if (event.conn)
			sim_life_event(fab_conn_user(event.conn), &event);
}

struct sim_life *sim_survivor_live(struct sim_survivor *survivor, bool queue_0)
{
	struct sim_life *found[SIM_SURVIVOR_LIVES];
	unsigned int count = 0;

	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++) {
		struct sim_life *life = &survivor->lives[i];

		if (life->state == SIM_LIFE_LIVE && !life->fenced &&
		    life->epoch == survivor->epoch && (!queue_0 || !life->queue))
			found[count++] = life;
	}
	return count ? found[sim_below(count)] : NULL;
}

/* No answer for long. The storage may be slow, the target dead, the way cut: who knows. */
static void life_overdue(struct sim_survivor *survivor, struct sim_life *life)
{
	struct sim_life *other = sim_survivor_live(survivor, false);

	life->heard_ns = sim_now_ns();
	if (life->epoch == survivor->epoch && !life->fenced) {
		if (sim_chance(300000)) {
			survivor->places[life->queue].supersede = true;
			return;
		}
		if (other && other->queue != life->queue && sim_chance(500000)) {
			sim_survivor_fence(survivor, other, life->queue, life->incarnation);
			return;
		}
	}
	sim_life_close(life, sim_chance(300000));
}

/* Storage may take longer than that time for every command: then there would be no end. */
#define PATIENCE_NS (500 * SIM_MS)

static void survivor_timeouts(struct sim_survivor *survivor)
{
	uint64_t limit_ns = survivor->command_timeout_ns;

	if (survivor->calm && limit_ns < PATIENCE_NS)
		limit_ns = PATIENCE_NS;
	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++) {
		struct sim_life *life = &survivor->lives[i];

		if (life->state == SIM_LIFE_LIVE && life->order_count &&
		    sim_now_ns() - life->heard_ns > limit_ns)
			life_overdue(survivor, life);
	}
}

/* -- the fiber ----------------------------------------------------------------------------- */

static void survivor_open(struct sim_survivor *survivor)
{
	struct fab_options options = {.cq_depth = 8192, .recv_sge = 1};
	const char *colon = strchr(survivor->host->address, ':');
	char error[FAB_ERROR_BYTES], host[32];

	survivor->fab = fab_open(FAB_SIM, &options, error);
	survivor->memory = calloc(1, sizeof(*survivor->memory));
	if (!survivor->fab || !survivor->memory)
		sim_fail("out of memory");
	fab_mr_register(survivor->fab, survivor->guard.base, (size_t)SIM_SLOTS * SIM_SLOT_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
			&survivor->guard_mr);
	fab_mr_register(survivor->fab, survivor->memory, sizeof(*survivor->memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &survivor->memory_mr);
	for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++)
		survivor->lives[i] = (struct sim_life){.name = survivor->actor.name,
						       .ops = &life_ops,
						       .owner = survivor,
						       .fab = survivor->fab,
						       .mr = survivor->memory_mr,
						       .memory = &survivor->memory->lives[i],
						       .index = i};
	snprintf(host, sizeof(host), "%.*s", (int)(colon - survivor->host->address),
		 survivor->host->address);
	survivor->address.sin_family = AF_INET;
	survivor->address.sin_port = htons((uint16_t)atoi(colon + 1));
	inet_pton(AF_INET, host, &survivor->address.sin_addr);
	env_random(survivor->session_id, sizeof(survivor->session_id));
	survivor->session = sim_session_of(&survivor->actor);
	survivor->epoch = 1;
	survivor->operation = 0;
	survivor->named = false;
	sim_survivor_forget(survivor);
	survivor->begun = false;
	survivor->handle = 0;
	survivor->opening = false;
	memset(survivor->places, 0, sizeof(survivor->places));
}

static void survivor_close(struct sim_survivor *survivor, bool silently)
{
	bool left;

	do {
		left = false;
		for (unsigned int i = 0; i < SIM_SURVIVOR_LIVES; i++) {
			sim_life_close(&survivor->lives[i], silently);
			left |= survivor->lives[i].state != SIM_LIFE_FREE;
		}
		survivor_poll(survivor);
		if (left && !fab_arm(survivor->fab))
			sim_fiber_wait_fd(fab_fd(survivor->fab), TURN_NS);
	} while (left);
	sim_survivor_abandon(survivor);
	sim_reserve_abandon(survivor);
	fab_mr_deregister(survivor->guard_mr);
	fab_mr_deregister(survivor->memory_mr);
	fab_close(survivor->fab);
	free(survivor->memory);
}

/* Until it looks again by itself: for what is overdue, or with something new to ask. */
static uint64_t survivor_pause(const struct sim_survivor *survivor)
{
	bool idle = survivor->handle && survivor->ops_left && !survivor->under_way;

	return sim_between(SIM_US, idle ? survivor->think_ns : TURN_NS);
}

void sim_survivor_restart(struct sim_survivor *survivor)
{
	sim_trace(survivor->actor.name, "is killed");
	survivor_close(survivor, sim_chance(500000));
	survivor_open(survivor);
}

static void survivor_run(void *arg)
{
	struct sim_survivor *survivor = arg;

	survivor_open(survivor);
	while (!survivor->finished) {
		survivor->doing = "works";
		survivor_poll(survivor);
		survivor_timeouts(survivor);
		survivor_connect(survivor);
		sim_survivor_manage(survivor);
		sim_survivor_work(survivor);
		sim_survivor_reserve(survivor);
		if (!survivor->calm && sim_chance(survivor->mischief))
			sim_survivor_mischief(survivor);
		if (survivor->calm && !survivor->ops_left && !survivor->under_way &&
		    (survivor->reserver.released || !survivor->reserver.often))
			survivor->finished = sim_survivor_verify(survivor);
		if (!survivor->finished && !fab_arm(survivor->fab))
			sim_fiber_wait_fd(fab_fd(survivor->fab), survivor_pause(survivor));
	}
	survivor->doing = "closes its connections";
	survivor_close(survivor, false);
	survivor->doing = "has finished";
}

/* -- making -------------------------------------------------------------------------------- */

static void survivor_wake(struct sim_actor *actor)
{
	struct sim_survivor *survivor = (struct sim_survivor *)actor;

	sim_fiber_wake(&survivor->fiber, sim_between(200, 20 * SIM_US));
}

void sim_survivor_start(struct sim_survivor *survivor, unsigned int machine)
{
	snprintf(survivor->actor.name, sizeof(survivor->actor.name), "survivor%u", machine);
	survivor->actor.machine = machine;
	survivor->actor.wake = survivor_wake;
	sim_guard_init(&survivor->guard, survivor->actor.name);
	sim_fiber_start(&survivor->fiber, &survivor->actor, survivor_run, survivor);
}

void sim_survivor_fini(struct sim_survivor *survivor)
{
	sim_fiber_fini(&survivor->fiber);
	sim_guard_fini(&survivor->guard);
}
