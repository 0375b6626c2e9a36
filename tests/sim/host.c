/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Target processes. When one is killed, its fabric and its ring are cut off first, so that nothing that
 * it does has an effect. Then its own code frees everything, so that a simulation can kill thousands of
 * processes and lose no memory.
 */
#include "tests/sim/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/secret/secret.h"
#include "target/control/address.h"
#include "target/control/config.h"
#include "target/control/initiators.h"
#include "target/serve/calls.h"
#include "target/serve/device.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/rules.h"
#include "target/serve/session.h"
#include "target/store/pool.h"
#include "target/store/volume.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/history.h"
#include "tests/sim/host_impl.h"
#include "tests/sim/random.h"
#include "tests/sim/secret.h"
#include "tests/sim/trace.h"

/* -- threads ------------------------------------------------------------------------------- */

static void thread_wake(struct sim_actor *actor)
{
	struct sim_host_thread *thread = (struct sim_host_thread *)actor;
	uint64_t delay_ns = SIM_US + sim_below(5 * SIM_US);

	if (!thread->host->calm && sim_chance(thread->host->pause))
		delay_ns += sim_below(thread->host->pause_ns);
	sim_fiber_wake(&thread->thread.fiber, delay_ns);
}

static void reactor_sleeps(struct sim_thread *thread)
{
	if (sim_ring_has_messages(((struct sim_host_thread *)thread)->reactor->ring))
		sim_fail("%s: it sleeps, and has messages", thread->actor.name);
}

static void reactor_ended(struct sim_thread *thread)
{
	struct sim_host *host = ((struct sim_host_thread *)thread)->host;

	if (!host->stopping && !thread->fiber.hurried)
		sim_fail("%s: its thread has ended", thread->actor.name);
	if (!thread->fiber.hurried)
		sim_event_in(&host->end, SIM_US);
}

/* A session by chance, of those that do not end yet. */
static void kick_now(struct sim_host *host)
{
	struct tgt_reactor *reactor = host->reactors[sim_below(host->config.reactors)].reactor;
	struct tgt_session *session, *chosen = NULL;
	unsigned int count = 0;

	TAILQ_FOREACH(session, &reactor->sessions, link)
		if (!session->home && !session->ending && !sim_below(++count))
			chosen = session;
	if (!chosen)
		return;
	sim_trace(host->name, "session %u is kicked", chosen->number);
	sim_reached("session", "is kicked", chosen->lingering ? "while a store has something of it" : NULL);
	tgt_reactor_kick(reactor, chosen->number);
}

/* As main.c's. */
static void *control_run(void *argument)
{
	struct sim_host *host = argument;
	int fds[TGT_LISTEN_FDS];

	while (!host->quit) {
		enum sim_reload reload = host->reload;

		host->reload = SIM_RELOAD_NONE;
		if (reload && !host->stopping)
			sim_host_reload_now(host, reload == SIM_RELOAD_ALL);
		if (host->kick && !host->stopping)
			kick_now(host);
		host->kick = false;
		for (unsigned int i = 0; host->drain && i < host->config.reactors; i++)
			tgt_reactor_call(host->reactors[i].reactor, tgt_reactor_drain, NULL);
		host->drain = false;
		tgt_listener_step(host->listener);
		tgt_listener_fds(host->listener, fds);
		if (host->control.thread.fiber.hurried)
			sim_fiber_wait(0);
		else if (!host->reload && !host->drain && !host->kick)
			sim_fiber_wait_fd(fds[0], UINT64_MAX);
	}
	return NULL;
}

static void thread_init(struct sim_host_thread *thread, struct sim_host *host, unsigned int machine)
{
	thread->host = host;
	thread->thread.actor.machine = machine;
	thread->thread.actor.wake = thread_wake;
}

static void thread_prepare(struct sim_host_thread *thread)
{
	thread->thread.fiber.preempt = thread->host->preempt;
	thread->thread.fiber.preempt_ns = 20 * SIM_US;
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

/* -- start --------------------------------------------------------------------------------- */

static void on_restart(void *arg)
{
	sim_host_start(arg);
}

static void on_mend(void *arg)
{
	sim_host_reload(arg, true);
}

static void host_ended(struct sim_host *host);

static void on_end(void *arg)
{
	host_ended(arg);
}

void sim_host_portals(struct sim_host *host, unsigned int count)
{
	char text[64];

	while (host->portal_count < count) {
		snprintf(text, sizeof(text), "sim://10.0.%u.%u:4430", host->portal_count++,
			 host->machine + 1);
		if (tgt_address_parse(text, &host->config.listen[host->config.listen_count++]))
			sim_fail("%s: not an address", text);
	}
}

void sim_host_init(struct sim_host *host, unsigned int machine)
{
	memset(host, 0, sizeof(*host));
	snprintf(host->name, sizeof(host->name), "target%u", machine);
	snprintf(host->address, sizeof(host->address), "10.0.0.%u:4430", machine + 1);
	env_random(host->boot_id, sizeof(host->boot_id));
	tgt_config_init(&host->config);
	host->machine = machine;
	sim_host_portals(host, 1);
	host->config.memory_lock = false;
	host->restart = (struct sim_event){.run = on_restart, .arg = host};
	host->mend = (struct sim_event){.run = on_mend, .arg = host};
	host->end = (struct sim_event){.run = on_end, .arg = host};
	thread_init(&host->control, host, machine);
	snprintf(host->control.thread.actor.name, sizeof(host->control.thread.actor.name),
		 "target%u", machine);
	for (unsigned int i = 0; i < SIM_HOST_REACTORS; i++) {
		struct sim_thread *thread = &host->reactors[i].thread;

		thread_init(&host->reactors[i], host, machine);
		thread->ended = reactor_ended;
		thread->sleeps = reactor_sleeps;
		snprintf(thread->actor.name, sizeof(thread->actor.name), "target%u.r%u", machine,
			 i);
	}
	host->wanted = true;
}

static void on_lost(void *volume)
{
	sim_model_lost(volume);
}

static void on_told(void *volume, bool alive)
{
	sim_model_told(volume, alive);
}

static void on_doubted(void *volume)
{
	sim_model_doubted(volume);
}

void sim_host_add_volume(struct sim_host *host, uint64_t bytes, uint32_t block_bytes, bool memory)
{
	unsigned int i = host->volume_count++;
	struct tgt_volume_config *config;
	char error[TGT_ERROR_BYTES];
	char name[16];

	snprintf(name, sizeof(name), "%c%u", memory ? 'm' : 'd', i);
	if (tgt_config_volume_add(&host->config, name, "simulation", &config, error))
		sim_fail("%s", error);
	config->block_bytes = block_bytes;
	snprintf(config->path, sizeof(config->path), "%s.%s", host->name, name);
	host->volumes[i] = sim_volume_create(config->path, bytes / SIM_SECTOR, !memory);
	if (memory) {
		config->path[0] = 0;
		strcpy(config->store, "memory");
		config->bytes = bytes;
		return;
	}
	host->disks[i] = sim_disk_create(config->path, bytes, block_bytes);
	host->disks[i]->boot_id = host->boot_id;
	host->disks[i]->lost = on_lost;
	host->disks[i]->told = on_told;
	host->disks[i]->doubted = on_doubted;
	host->disks[i]->remembers_failed_syncs = &host->remembers;
	host->disks[i]->user = host->volumes[i];
	host->disks[i]->reservation = &host->reservations[i];
}

void sim_host_borrow(struct sim_host *host, const struct sim_host *owner)
{
	struct tgt_volume_config *config;
	char error[TGT_ERROR_BYTES];

	if (tgt_config_volume_add(&host->config, owner->config.volumes[0].name, "simulation", &config, error))
		sim_fail("%s", error);
	config->block_bytes = owner->config.volumes[0].block_bytes;
	strcpy(config->path, owner->config.volumes[0].path);
	host->volumes[0] = owner->volumes[0];
	host->disks[0] = owner->disks[0];
	host->volume_count = 1;
	host->borrowed = true;
}

struct tgt_config sim_host_config_with(const struct tgt_config *config, const bool *wanted)
{
	struct tgt_config copy = *config;

	copy.volumes = calloc(config->volume_count, sizeof(*copy.volumes));
	if (!copy.volumes)
		sim_fail("out of memory");
	copy.volume_count = 0;
	for (unsigned int i = 0; i < config->volume_count; i++)
		if (!wanted || wanted[i])
			copy.volumes[copy.volume_count++] = config->volumes[i];
	return copy;
}

void sim_host_rule(struct sim_host *host, const char *proven)
{
	struct tgt_config config = sim_host_config_with(&host->config, NULL);
	struct tgt_rules *rules;
	char error[TGT_ERROR_BYTES];

	config.open = true;
	if (proven && tgt_initiator_add(&config, proven, "simulator", error))
		sim_fail("%s: %s", host->name, error);
	if (proven)
		config.initiators[0].secrets = rblk_secrets_ref(sim_secrets());
	rules = tgt_rules_create(&config);
	tgt_config_fini(&config);
	if (!rules)
		sim_fail("out of memory");
	if (host->rules)
		tgt_rulebook_replace(host->rules, rules);
	else
		host->rules = tgt_rulebook_create(rules);
	if (!host->rules)
		sim_fail("out of memory");
	host->peers.rules = host->rules;
}

static void volumes_remove(struct sim_host *host)
{
	for (unsigned int i = 0; i < host->volume_count; i++) {
		struct tgt_volume *volume =
			tgt_volume_remove(host->registry, host->config.volumes[i].name);

		if (volume)
			tgt_volume_put(volume);
	}
	tgt_registry_destroy(host->registry);
	host->registry = NULL;
}

/* False: a disk is locked. */
static bool volumes_add(struct sim_host *host)
{
	char error[TGT_ERROR_BYTES];

	if (tgt_registry_create(&host->registry))
		sim_fail("out of memory");
	if (host->remembers)
		tgt_registry_remember(host->registry, "failed syncs");
	if (host->keeps)
		tgt_registry_keep(host->registry, "reservations");
	for (unsigned int i = 0; i < host->volume_count; i++) {
		int err = tgt_volume_add(host->registry, &host->config.volumes[i], error);

		if (!err) {
			if (host->disks[i] && host->machine != sim_stranger)
				sim_model_served(host->volumes[i]);
			continue;
		}
		sim_trace(host->name, "does not start: %s", error);
		volumes_remove(host);
		return false;
	}
	return true;
}

static void reactor_start(struct sim_host *host, unsigned int i)
{
	struct sim_host_thread *thread = &host->reactors[i];
	char error[TGT_ERROR_BYTES];

	sim_actor_become(&thread->thread.actor);
	if (tgt_reactor_create(&host->config, i, host->registry, &host->peers, &thread->reactor,
			       error) ||
	    tgt_reactor_start(thread->reactor))
		sim_fail("%s: %s", host->name, error);
	thread_prepare(thread);
	thread->pool_bytes = tgt_pool_free_bytes(thread->reactor->loop.pool);
	thread->reserve_bytes = tgt_pool_free_bytes(thread->reactor->reserve);
	host->reactor_array[i] = thread->reactor;
}

/*
 * Its file system is mounted anew: what was not durable may be gone, and who opens the disk is told of no error. Behind an
 * end in good order everything was durable.
 */
static void disk_mount(struct sim_host *host, unsigned int i)
{
	struct sim_disk *disk = host->disks[i];
	bool clean = host->remembers && sim_failed_sync_file_is_clean(disk);

	/* Known, as a FLUSH has failed; the model does not have what becomes of it without a crash. */
	if (disk->holder[host->machine] || (clean && sim_disk_has_unsaved(disk)))
		return;
	sim_trace(disk->path, "is mounted anew");
	sim_reached("disk", "is mounted anew", clean ? "behind an end in good order" : NULL);
	sim_disk_crash(disk);
	if (!clean)
		sim_model_crash(host->volumes[i]);
	disk->forgotten = true;
}

/* Between two processes. */
static void below_happens(struct sim_host *host)
{
	for (unsigned int i = 0; i < host->volume_count; i++) {
		struct sim_disk *disk = host->disks[i];

		if (!disk || host->calm)
			continue;
		if (sim_chance(host->mounts))
			disk_mount(host, i);
		if (disk->failed_sync_file && !disk->holder[host->machine] && sim_chance(host->mounts / 4)) {
			sim_trace(disk->path, "its failed-sync file is gone");
			sim_reached("failed-sync file", "is gone with its folder", NULL);
			sim_failed_sync_file_free(disk);
		}
	}
}

void sim_host_start(struct sim_host *host)
{
	struct tgt_listener_options listening;
	char error[TGT_ERROR_BYTES];
	struct sim_actor *before;

	if (host->running)
		return;
	before = sim_actor_become(&host->control.thread.actor);
	below_happens(host);
	if (!volumes_add(host)) {
		sim_actor_become(before);
		sim_event_in(&host->restart, SIM_HOST_RETRY_NS);
		return;
	}
	host->reload = SIM_RELOAD_NONE;
	host->kick = host->drain = host->quit = host->stopping = false;
	memset(&host->peers, 0, sizeof(host->peers));
	host->peers.rules = host->rules;
	for (unsigned int i = 0; i < host->config.reactors; i++)
		reactor_start(host, i);
	sim_actor_become(&host->control.thread.actor);
	listening = (struct tgt_listener_options){.config = &host->config, .reactors = host->reactor_array};
	if (tgt_listener_create(&listening, &host->listener, error))
		sim_fail("%s: %s", host->name, error);
	sim_thread_start(&host->control.thread, control_run, host);
	thread_prepare(&host->control);
	sim_actor_become(before);
	host->running = true;
	host->served = sim_host_config_with(&host->config, NULL);
	for (unsigned int i = 0; i < host->config.reactors; i++)
		((struct sim_fab *)host->reactors[i].reactor->fabrics[0].fab)->refuses = true;
	sim_trace(host->name, "serves");
	sim_history("SERVE", host->machine, 0, 0);
}

/* -- reload -------------------------------------------------------------------------------- */

/* A signal: the control thread goes on. */
static void control_kick(struct sim_host *host)
{
	sim_fiber_wake(&host->control.thread.fiber, sim_below(10 * SIM_US));
}

void sim_host_reload(struct sim_host *host, bool all)
{
	if (!host->running || host->stopping || host->reload == SIM_RELOAD_ALL)
		return;
	host->reload = all ? SIM_RELOAD_ALL : SIM_RELOAD_SOME;
	control_kick(host);
}

void sim_host_kick(struct sim_host *host)
{
	if (!host->running || host->stopping)
		return;
	host->kick = true;
	control_kick(host);
}

/* -- the end ------------------------------------------------------------------------------- */

/* What is in memory is lost with the process, however it ends. */
static void memory_lost(struct sim_host *host)
{
	for (unsigned int i = 0; i < host->volume_count; i++) {
		sim_reservation_ended(&host->reservations[i]);
		if (!host->disks[i])
			sim_model_crash(host->volumes[i]);
	}
}

/* Of a dead process the threads run to their end, and nothing that they do has any effect. */
static void threads_finish(struct sim_host *host, bool dead)
{
	struct sim_thread *threads[1 + SIM_HOST_REACTORS] = {&host->control.thread};
	unsigned int count = 1;

	host->quit = true;
	host->drain = host->drain || dead;
	for (unsigned int i = 0; i < host->config.reactors; i++) {
		host->reactors[i].reactor->config.drain_ms = 0;
		threads[count++] = &host->reactors[i].thread;
	}
	sim_clock_hurry(dead);
	/* First the control thread's last message, then those who read it. */
	sim_threads_finish(threads, 1);
	for (unsigned int i = 0; dead && i < host->config.reactors; i++)
		tgt_reactor_call(host->reactors[i].reactor, tgt_reactor_drain, NULL);
	sim_threads_finish(threads, count);
	sim_clock_hurry(false);
}

static void process_end(struct sim_host *host, bool dead)
{
	struct sim_actor *before = sim_actor_self();

	threads_finish(host, dead);
	sim_event_cancel(&host->end);
	for (unsigned int i = 0; i < host->config.reactors; i++) {
		sim_actor_become(&host->reactors[i].thread.actor);
		tgt_reactor_destroy(host->reactors[i].reactor);
		host->reactors[i].reactor = NULL;
	}
	sim_actor_become(&host->control.thread.actor);
	tgt_listener_destroy(host->listener);
	volumes_remove(host);
	tgt_config_fini(&host->served);
	sim_event_cancel(&host->mend);
	sim_actor_become(before);
	host->running = false;
	host->stopping = false;
	memory_lost(host);
}

/* A reactor that has drained has everything back. */
static void reactor_check_home(const struct sim_host_thread *thread)
{
	const struct tgt_reactor *reactor = thread->reactor;

	if (tgt_pool_free_bytes(reactor->loop.pool) != thread->pool_bytes)
		sim_fail("%s: %zu bytes of its pool were not given back", thread->thread.actor.name,
			 thread->pool_bytes - tgt_pool_free_bytes(reactor->loop.pool));
	if (tgt_pool_free_bytes(reactor->reserve) != thread->reserve_bytes)
		sim_fail("%s: its reserve was not given back", thread->thread.actor.name);
	for (unsigned int i = 0; i < FAB_DEVICES_MAX; i++) {
		const struct tgt_device *device = reactor->fabrics[0].devices[i];
		const struct sim_fab *fab = (const struct sim_fab *)reactor->fabrics[0].fab;

		if (!device || !device->device)
			continue;
		if (device->receives.promised)
			sim_fail("%s: %u receives are promised to nobody", thread->thread.actor.name,
				 device->receives.promised);
		if (device->receives.idle_count + fab->srq_count != device->receives.count)
			sim_fail("%s: receive buffers are lost: %u idle, %u posted, of %u",
				 thread->thread.actor.name, device->receives.idle_count, fab->srq_count,
				 device->receives.count);
	}
}

static void host_ended(struct sim_host *host)
{
	for (unsigned int i = 0; i < host->config.reactors; i++)
		if (!host->reactors[i].thread.fiber.finished)
			return;
	sim_trace(host->name, "has drained and ends");
	for (unsigned int i = 0; i < host->config.reactors; i++)
		reactor_check_home(&host->reactors[i]);
	process_end(host, false);
	if (host->wanted)
		sim_event_in(&host->restart, sim_below(50 * SIM_MS));
}

void sim_host_drain(struct sim_host *host)
{
	if (!host->running || host->stopping)
		return;
	sim_trace(host->name, "is told to end");
	host->stopping = host->drain = true;
	control_kick(host);
}

void sim_host_kill(struct sim_host *host, bool power, uint64_t back_ns)
{
	if (!host->running)
		return;
	sim_trace(host->name, power ? "loses its power" : "is killed");
	sim_history("KILL", host->machine, 0, 0);
	for (unsigned int i = 0; i < host->volume_count; i++)
		sim_reached("target", power ? "loses its power" : "is killed",
			    host->disks[i] && !TAILQ_EMPTY(&host->disks[i]->inflight)
				    ? "with I/O in flight"
				    : NULL);
	for (unsigned int i = 0; i < host->volume_count; i++)
		if (host->disks[i]) {
			sim_failed_sync_file_kill(host->disks[i]);
			if (host->disks[i]->holder[host->machine])
				host->disks[i]->holder[host->machine]->dead = true;
		}
	sim_fabric_kill(&host->control.thread.actor, power);
	for (unsigned int i = 0; i < host->config.reactors; i++)
		sim_fabric_kill(&host->reactors[i].thread.actor, power);
	for (unsigned int i = 0; i < host->config.reactors; i++)
		sim_ring_kill(host->reactors[i].reactor->ring);
	process_end(host, true);
	if (power)
		sim_reservation_files_crash(host->machine);
	for (unsigned int i = 0; power && i < host->volume_count; i++) {
		sim_reservation_crashed(&host->reservations[i]);
		if (!host->disks[i])
			continue;
		sim_disk_crash(host->disks[i]);
		sim_model_crash(host->volumes[i]);
		host->disks[i]->volatile_cache ^= host->disks[i]->cache_turns;
		sim_model_keeps(host->volumes[i], !host->disks[i]->volatile_cache);
	}
	if (power)
		env_random(host->boot_id, sizeof(host->boot_id));
	sim_event_in(&host->restart, back_ns);
}

void sim_host_fini(struct sim_host *host)
{
	sim_event_cancel(&host->restart);
	for (unsigned int i = 0; i < host->volume_count; i++)
		if (host->disks[i] && !host->borrowed)
			sim_disk_destroy(host->disks[i]);
	tgt_rulebook_destroy(host->rules);
	tgt_config_fini(&host->config);
}
