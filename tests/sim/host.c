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
#include "target/base/unserved.h"
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
#include "tests/sim/rados.h"
#include "tests/sim/random.h"
#include "tests/sim/secret.h"
#include "tests/sim/socket_sim.h"
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

static void control_wait(const struct sim_host *host, const int *fds, unsigned int count)
{
	int timeout_ms = count > 1 ? tgt_listener_timeout_ms(host->listener) : -1;

	for (unsigned int i = 0; i < count; i++)
		if (sim_fd_ready(fds[i]))
			return;
	sim_fiber_wait(timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * SIM_MS);
}

/* As main.c's. */
static void send_away_now(struct sim_host *host)
{
	struct tgt_volume *volume = tgt_volume_get(host->registry, host->config.volumes[0].name);

	sim_trace(host->name, "sends its sessions away");
	for (unsigned int i = 0; volume && i < host->config.reactors; i++)
		tgt_reactor_call(host->reactors[i].reactor, tgt_reactor_send_away, tgt_volume_ref(volume));
	if (volume)
		tgt_volume_put(volume);
}

static void *control_run(void *argument)
{
	struct sim_host *host = argument;
	int fds[TGT_LISTEN_FDS];
	unsigned int count;

	while (!host->quit) {
		enum sim_reload reload = host->reload;

		host->reload = SIM_RELOAD_NONE;
		if (reload && !host->stopping)
			sim_host_reload_now(host, reload == SIM_RELOAD_ALL);
		if (host->kick && !host->stopping)
			kick_now(host);
		if (host->send_away && !host->stopping)
			send_away_now(host);
		host->kick = host->send_away = false;
		for (unsigned int i = 0; host->drain && i < host->config.reactors; i++)
			tgt_reactor_call(host->reactors[i].reactor, tgt_reactor_drain, NULL);
		host->drain = false;
		tgt_listener_step(host->listener);
		count = tgt_listener_fds(host->listener, fds);
		if (host->control.thread.fiber.hurried)
			sim_fiber_wait(0);
		else if (!host->reload && !host->drain && !host->kick && !host->send_away)
			control_wait(host, fds, count);
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
	thread_init(&host->opener, host, machine);
	sim_gateway_init(host);
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
	sim_model_untorn(host->volumes[i], disk);
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

/* Its volumes are open. */
void sim_host_serve(struct sim_host *host)
{
	struct tgt_listener_options listening;
	char error[TGT_ERROR_BYTES];
	struct sim_actor *before = sim_actor_become(&host->control.thread.actor);

	host->reload = SIM_RELOAD_NONE;
	host->kick = host->send_away = host->drain = host->quit = host->stopping = false;
	memset(&host->peers, 0, sizeof(host->peers));
	host->peers.rules = host->rules;
	if (host->gateway)
		host->peers.unserved = host->unserved = tgt_unserved_create();
	for (unsigned int i = 0; i < host->config.reactors; i++)
		reactor_start(host, i);
	sim_actor_become(&host->control.thread.actor);
	listening = (struct tgt_listener_options){
		.config = &host->config, .reactors = host->reactor_array, .rules = host->rules};
	if (tgt_listener_create(&listening, &host->listener, error))
		sim_fail("%s: %s", host->name, error);
	sim_thread_start(&host->control.thread, control_run, host);
	thread_prepare(&host->control);
	sim_actor_become(before);
	host->running = true;
	host->served = sim_host_config_with(&host->config, NULL);
	for (unsigned int i = 0; i < host->config.reactors; i++)
		((struct sim_fab *)sim_host_fabric(host->reactors[i].reactor, true)->fab)->refuses = true;
	sim_trace(host->name, "serves");
	sim_history("SERVE", host->machine, 0, 0);
}

void sim_host_start(struct sim_host *host)
{
	struct sim_actor *before;
	bool added;

	if (host->running || host->opening || host->closing)
		return;
	if (host->gateway) {
		sim_gateway_open(host);
		return;
	}
	before = sim_actor_become(&host->control.thread.actor);
	below_happens(host);
	added = sim_host_volumes_add(host);
	sim_actor_become(before);
	if (added)
		sim_host_serve(host);
	else
		sim_event_in(&host->restart, SIM_HOST_RETRY_NS);
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
		if (!host->gateway)
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
	tgt_config_fini(&host->served);
	sim_event_cancel(&host->mend);
	tgt_unserved_destroy(host->unserved);
	host->unserved = NULL;
	host->running = false;
	host->stopping = false;
	host->closing = host->gateway && !dead;
	if (host->closing)
		sim_gateway_close(host);
	else
		sim_host_volumes_remove(host);
	if (host->gateway && dead)
		sim_gateway_end(host);
	sim_actor_become(before);
	memory_lost(host);
}

static void host_ended(struct sim_host *host)
{
	for (unsigned int i = 0; i < host->config.reactors; i++)
		if (!host->reactors[i].thread.fiber.finished)
			return;
	if (!sim_gateway_mended(host, false)) {
		sim_event_in(&host->end, SIM_MS);
		return;
	}
	sim_trace(host->name, "has drained and ends");
	for (unsigned int i = 0; i < host->config.reactors; i++)
		sim_host_check_home(&host->reactors[i]);
	process_end(host, false);
	if (host->wanted && !host->closing)
		sim_event_in(&host->restart, sim_below(50 * SIM_MS));
}

void sim_host_send_away(struct sim_host *host)
{
	host->send_away = host->running && !host->stopping;
	if (host->send_away)
		control_kick(host);
}

void sim_host_drain(struct sim_host *host)
{
	sim_gateway_give_up(host);
	if (!host->running || host->stopping)
		return;
	sim_trace(host->name, "is told to end");
	host->stopping = host->drain = true;
	control_kick(host);
}

void sim_host_kill(struct sim_host *host, bool power, uint64_t back_ns)
{
	if (host->opening || host->closing)
		sim_gateway_kill_opener(host, back_ns);
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
	sim_sockets_kill(&host->control.thread.actor, power);
	for (unsigned int i = 0; i < host->config.reactors; i++) {
		sim_fabric_kill(&host->reactors[i].thread.actor, power);
		sim_sockets_kill(&host->reactors[i].thread.actor, power);
	}
	for (unsigned int i = 0; i < host->config.reactors; i++)
		sim_ring_kill(host->reactors[i].reactor->ring);
	if (host->gateway) {
		sim_rados_process_kill(host->machine);
		sim_gateway_mended(host, true);
	}
	process_end(host, true);
	if (power)
		sim_reservation_files_crash(host->machine);
	for (unsigned int i = 0; power && i < host->volume_count; i++) {
		sim_reservation_crashed(&host->reservations[i]);
		if (!host->disks[i])
			continue;
		sim_disk_crash(host->disks[i]);
		sim_model_untorn(host->volumes[i], host->disks[i]);
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
