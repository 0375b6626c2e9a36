/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes with the module of target/rbd. Its object code is linked once, and each process has its variables to
 * itself, and those of the controllers of NVMe hosts, as an address space of its own would give it: they are one
 * section, which is exchanged when an actor of another machine runs. process.ld puts them there, and CMakeLists.txt
 * leads the module's calls of the C library here: threads, locks, time, memory.
 */
#include "tests/sim/rados_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uuid/uuid.h>
#include "proto/core/env.h"
#include "tests/sim/fiber.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* Whoever waits for a lock looks so often. */
#define LOCK_NS (20 * SIM_US)

/* The linker's, around all of that. */
extern unsigned char __start_sim_rbd_state[], __stop_sim_rbd_state[];
#define STATE_BYTES ((size_t)(__stop_sim_rbd_state - __start_sim_rbd_state))
#define STATE_BYTES_MAX 49152u

struct sim_rados_thread {
	struct sim_actor actor; /* first */
	struct sim_fiber fiber;
	TAILQ_ENTRY(sim_rados_thread) link;
	void *(*run)(void *arg);
	void *arg;
	bool detached, parked;
};

/* Memory of the module; what it gets is behind it. */
struct block {
	TAILQ_ENTRY(block) link;
	uint64_t aligned[1];
};

/* One that waits for a condition. */
struct waiter {
	TAILQ_ENTRY(waiter) link;
	const pthread_cond_t *condition; /* NULL: it has come */
	struct sim_fiber *fiber;
};

static struct process {
	bool on, dead;
	unsigned char state[STATE_BYTES_MAX];
	TAILQ_HEAD(, sim_rados_thread) threads;
	TAILQ_HEAD(, block) blocks;
	TAILQ_HEAD(, waiter) waiters;
	unsigned int thread_number;
} processes[SIM_RADOS_MACHINES];

static unsigned char fresh[STATE_BYTES_MAX]; /* as the linker has left it */
static struct process *mapped;

static unsigned int machine_now(void)
{
	const struct sim_actor *self = sim_actor_self();

	if (!self || self->machine >= SIM_RADOS_MACHINES || !processes[self->machine].on)
		sim_fail("the module is called by no process");
	return self->machine;
}

static struct process *process_now(void)
{
	return &processes[machine_now()];
}

static void state_copy(unsigned char *to, const unsigned char *from)
{
	memcpy(to, from, STATE_BYTES);
}

/* Before any world: those without gateways have its controllers, too. */
static __attribute__((constructor)) void fresh_keep(void)
{
	if (STATE_BYTES > STATE_BYTES_MAX)
		sim_fail("processes have many variables");
	state_copy(fresh, __start_sim_rbd_state);
}

static void process_map(struct process *process)
{
	if (process == mapped)
		return;
	if (mapped)
		state_copy(mapped->state, __start_sim_rbd_state);
	state_copy(__start_sim_rbd_state, process ? process->state : fresh);
	mapped = process;
}

static void on_actor(const struct sim_actor *actor)
{
	if (actor && actor->machine < SIM_RADOS_MACHINES && processes[actor->machine].on)
		process_map(&processes[actor->machine]);
}

/* -- threads ------------------------------------------------------------------------------------ */

static void thread_wake(struct sim_actor *actor)
{
	sim_fiber_wake(&((struct sim_rados_thread *)actor)->fiber, 0);
}

static void thread_main(void *arg)
{
	struct sim_rados_thread *thread = arg;

	thread->run(thread->arg);
}

static void thread_free(struct process *process, struct sim_rados_thread *thread)
{
	TAILQ_REMOVE(&process->threads, thread, link);
	sim_fiber_fini(&thread->fiber);
	free(thread);
}

static void threads_reap(struct process *process)
{
	struct sim_rados_thread *thread = TAILQ_FIRST(&process->threads), *next;

	for (; thread; thread = next) {
		next = TAILQ_NEXT(thread, link);
		if (thread->detached && thread->fiber.finished)
			thread_free(process, thread);
	}
}

struct sim_rados_thread *sim_rados_thread_start(const char *name, void *(*run)(void *arg), void *arg)
{
	struct process *process = process_now();
	struct sim_rados_thread *thread = calloc(1, sizeof(*thread));

	if (!thread)
		sim_fail("out of memory");
	threads_reap(process);
	thread->actor.machine = machine_now();
	thread->actor.wake = thread_wake;
	snprintf(thread->actor.name, sizeof(thread->actor.name), "target%u.%s", thread->actor.machine, name);
	thread->run = run;
	thread->arg = arg;
	TAILQ_INSERT_TAIL(&process->threads, thread, link);
	sim_fiber_start(&thread->fiber, &thread->actor, thread_main, thread);
	return thread;
}

void sim_rados_thread_wake(struct sim_rados_thread *thread)
{
	sim_fiber_wake(&thread->fiber, 0);
}

/* The one that runs, if it is the module's. */
static struct sim_rados_thread *thread_self(void)
{
	struct sim_rados_thread *thread;

	TAILQ_FOREACH(thread, &process_now()->threads, link)
		if (&thread->fiber == sim_fiber_self())
			return thread;
	return NULL;
}

static void thread_park(struct sim_rados_thread *thread)
{
	thread->parked = true;
	for (;;)
		sim_fiber_wait(UINT64_MAX);
}

void sim_rados_thread_wait(void)
{
	struct process *process = process_now();
	struct sim_rados_thread *self = process->dead ? thread_self() : NULL;

	if (self)
		thread_park(self);
	if (!process->dead)
		sim_fiber_wait(UINT64_MAX);
	/* Woken by its end. */
	self = process->dead ? thread_self() : NULL;
	if (self)
		thread_park(self);
}

bool sim_rados_process_hurry(unsigned int machine)
{
	struct process *process = &processes[machine];
	struct sim_rados_thread *thread;
	bool all = true;

	if (!process->on)
		return true;
	TAILQ_FOREACH(thread, &process->threads, link) {
		if (thread->parked || thread->fiber.finished)
			continue;
		thread->fiber.hurried = true;
		sim_fiber_run(&thread->fiber);
		all &= thread->parked || thread->fiber.finished;
	}
	return all;
}

void sim_rados_process_hold(unsigned int machine, uint64_t ns)
{
	struct sim_rados_thread *thread;

	if (!processes[machine].on)
		return;
	sim_rados_stopped(machine, sim_now_ns() + ns);
	TAILQ_FOREACH(thread, &processes[machine].threads, link)
		sim_fiber_hold(&thread->fiber, ns);
}

/* -- the process ------------------------------------------------------------------------------- */

void sim_rados_process_begin(unsigned int machine)
{
	struct process *process = &processes[machine];

	memset(process, 0, sizeof(*process));
	process->on = true;
	TAILQ_INIT(&process->threads);
	TAILQ_INIT(&process->blocks);
	TAILQ_INIT(&process->waiters);
	rados_module_begin(machine);
	state_copy(process->state, fresh);
	sim_actor_changes = on_actor;
	on_actor(sim_actor_self());
}

void sim_rados_process_kill(unsigned int machine)
{
	struct process *process = &processes[machine];
	struct sim_actor actor = {.machine = machine, .name = "killed"};
	struct sim_actor *before;

	if (!process->on || process->dead)
		return;
	before = sim_actor_become(&actor);
	process->dead = true;
	rados_completions_end(machine);
	rados_clients_drop(machine);
	sim_actor_become(before);
	while (!sim_rados_process_hurry(machine))
		;
	before = sim_actor_become(&actor);
	rados_module_lose(machine);
	sim_actor_become(before);
}

void sim_rados_process_end(unsigned int machine)
{
	struct process *process = &processes[machine];
	struct sim_rados_thread *thread;
	struct block *block;

	if (!process->on)
		return;
	rados_clients_drop(machine);
	while ((thread = TAILQ_FIRST(&process->threads)))
		thread_free(process, thread);
	while ((block = TAILQ_FIRST(&process->blocks))) {
		TAILQ_REMOVE(&process->blocks, block, link);
		free(block);
	}
	if (mapped == process)
		process_map(NULL);
	process->on = false;
}

bool sim_rados_process_is_dead(unsigned int machine)
{
	return machine < SIM_RADOS_MACHINES && processes[machine].on && processes[machine].dead;
}

/* -- what the module calls of the C library -------------------------------------------------------- */

void *sim_rbd_calloc(size_t count, size_t bytes)
{
	struct process *process = process_now();
	struct block *block = calloc(1, offsetof(struct block, aligned) + count * bytes);

	if (!block)
		sim_fail("out of memory");
	TAILQ_INSERT_TAIL(&process->blocks, block, link);
	return block->aligned;
}

void sim_rbd_free(void *memory)
{
	struct block *block = memory ? (struct block *)((char *)memory - offsetof(struct block, aligned)) : NULL;

	if (!block)
		return;
	TAILQ_REMOVE(&process_now()->blocks, block, link);
	free(block);
}

int sim_rbd_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int sim_rbd_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
	struct process *process = process_now();
	struct sim_rados_thread *thread;
	int state = PTHREAD_CREATE_JOINABLE;
	char name[16];

	snprintf(name, sizeof(name), "t%u", process->thread_number++ % 1000);
	thread = sim_rados_thread_start(name, run, arg);
	if (attributes)
		pthread_attr_getdetachstate(attributes, &state);
	thread->detached = state == PTHREAD_CREATE_DETACHED;
	*id = (pthread_t)thread;
	return 0;
}

int sim_rbd_pthread_join(pthread_t id, void **result);
int sim_rbd_pthread_join(pthread_t id, void **result)
{
	struct sim_rados_thread *thread = (struct sim_rados_thread *)id;

	(void)result;
	while (!thread->fiber.finished)
		sim_fiber_self()->hurried ? sim_fiber_wait(0) : sim_fiber_sleep(LOCK_NS);
	thread_free(process_now(), thread);
	return 0;
}

int sim_rbd_pthread_mutex_lock(pthread_mutex_t *mutex);
int sim_rbd_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	while (pthread_mutex_trylock(mutex)) {
		if (!sim_fiber_self())
			sim_fail("a lock is waited for where nothing may wait");
		if (sim_fiber_self()->hurried)
			sim_fiber_wait(0);
		else
			sim_fiber_sleep(LOCK_NS);
	}
	return 0;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int sim_rbd_pthread_mutex_unlock(pthread_mutex_t *mutex);
int sim_rbd_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	return __real_pthread_mutex_unlock(mutex);
}

static int condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t limit_ns)
{
	struct process *process = process_now();
	struct waiter waiter = {.condition = condition, .fiber = sim_fiber_self()};
	struct sim_rados_thread *self;

	if (!waiter.fiber)
		sim_fail("a condition is waited for where nothing may wait");
	TAILQ_INSERT_TAIL(&process->waiters, &waiter, link);
	sim_rbd_pthread_mutex_unlock(mutex);
	if (!process->dead)
		sim_fiber_wait(limit_ns);
	TAILQ_REMOVE(&process->waiters, &waiter, link);
	self = process->dead ? thread_self() : NULL;
	if (self)
		thread_park(self);
	if (process->dead)
		sim_fiber_wait(0);
	sim_rbd_pthread_mutex_lock(mutex);
	return waiter.condition ? ETIMEDOUT : 0;
}

int sim_rbd_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int sim_rbd_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	condition_wait(condition, mutex, UINT64_MAX);
	return 0; /* for nothing, perhaps */
}

int sim_rbd_clock_gettime(clockid_t clock, struct timespec *now);
int sim_rbd_clock_gettime(clockid_t clock, struct timespec *now)
{
	uint64_t now_ns = env_now_ns();

	(void)clock;
	*now = (struct timespec){.tv_sec = (time_t)(now_ns / SIM_S), .tv_nsec = (long)(now_ns % SIM_S)};
	return 0;
}

int sim_rbd_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int sim_rbd_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
	uint64_t until_ns = (uint64_t)until->tv_sec * SIM_S + (uint64_t)until->tv_nsec, now_ns = env_now_ns();

	return condition_wait(condition, mutex, until_ns > now_ns ? until_ns - now_ns : 0);
}

int sim_rbd_pthread_cond_broadcast(pthread_cond_t *condition);
int sim_rbd_pthread_cond_broadcast(pthread_cond_t *condition)
{
	struct waiter *waiter;

	TAILQ_FOREACH(waiter, &process_now()->waiters, link) {
		if (waiter->condition != condition)
			continue;
		waiter->condition = NULL;
		sim_fiber_wake(waiter->fiber, 0);
	}
	return 0;
}

int sim_rbd_nanosleep(const struct timespec *pause, struct timespec *left);
int sim_rbd_nanosleep(const struct timespec *pause, struct timespec *left)
{
	struct sim_rados_thread *self = process_now()->dead ? thread_self() : NULL;

	(void)left;
	if (self)
		thread_park(self);
	if (process_now()->dead && sim_fiber_self())
		sim_fiber_wait(0);
	else
		sim_fiber_sleep((uint64_t)pause->tv_sec * SIM_S + (uint64_t)pause->tv_nsec);
	return 0;
}

int sim_rbd_gethostname(char *name, size_t bytes);
int sim_rbd_gethostname(char *name, size_t bytes)
{
	snprintf(name, bytes, "machine%u", machine_now());
	return 0;
}

char *sim_rbd_getenv(const char *name);
char *sim_rbd_getenv(const char *name)
{
	(void)name;
	return NULL;
}

int sim_rbd_on_exit(void (*run)(int, void *), void *arg);
int sim_rbd_on_exit(void (*run)(int, void *), void *arg)
{
	(void)run;
	(void)arg;
	return 0;
}

void sim_rbd_uuid_generate_random(uuid_t uuid);
void sim_rbd_uuid_generate_random(uuid_t uuid)
{
	env_random(uuid, sizeof(uuid_t));
}
