/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is behind kernel.h: waiting, works on as many simulated processors as there is work, pages; locks.c has the rest.
 * One machine in a world has it.
 */
#include "tests/sim/kernel/kernel.h"

#include "kmod/module.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fiber.h"
#include "tests/sim/kernel/module_kernel.h"
#include "tests/sim/random.h"

#define WORKERS_MAX 64u
#define WAITERS_MAX 96u
#define PAGES_MAX 4096u

struct workqueue_struct *rblk_workqueue;

static struct {
	struct sim_actor *actor;
	struct sim_fiber workers[WORKERS_MAX];
	unsigned int worker_count, idle;
	struct list_head due; /* struct work_struct */
	bool stops;
	struct {
		struct sim_fiber *fiber; /* NULL: free */
		const void *place;
		bool woken; /* since it last slept */
		bool looks; /* at what it waits for: it does not wait for anything else */
	} waiters[WAITERS_MAX];
	uint32_t preempt;
	uint64_t preempt_ns;
	const struct sim_fiber *hungry; /* of its allocations some fail */
	const struct sim_fiber *mortal; /* a user's program, in a call of the kernel, which ends at dies_ns */
	uint64_t dies_ns;
	unsigned int allocations, refused;
	bool pages[PAGES_MAX]; /* in use */
	unsigned int next_page;
} kernel;

static uint8_t page_memory[PAGES_MAX][PAGE_SIZE] __attribute__((aligned(4096)));

/* -- waiting ----------------------------------------------------------------------------------- */

const void *sim_context(void)
{
	static const char softirqs = 0;
	const void *fiber = sim_fiber_self();

	return fiber ? fiber : &softirqs;
}

void sim_kernel_kill(uint64_t dies_ns)
{
	/* One at a time: whoever waits keeps the time when it dies. */
	if (kernel.mortal)
		return;
	kernel.mortal = sim_fiber_self();
	kernel.dies_ns = dies_ns;
}

bool sim_kernel_spare(void)
{
	bool mortal = kernel.mortal == sim_fiber_self(), killed = sim_killed();

	if (mortal)
		kernel.mortal = NULL;
	return killed;
}

bool sim_killed(void)
{
	return kernel.mortal && kernel.mortal == sim_fiber_self() && sim_now_ns() >= kernel.dies_ns;
}

uint64_t sim_killed_by(uint64_t until_ns)
{
	return kernel.mortal && kernel.mortal == sim_fiber_self() && kernel.dies_ns < until_ns ? kernel.dies_ns
											     : until_ns;
}

void sim_might_sleep(const char *what)
{
	const struct sim_fiber *self = sim_fiber_self();

	if (!self)
		sim_fail("the kernel: %s in a softirq", what);
	if (sim_fiber_pinned())
		sim_fail("the kernel: %s under a spinlock", what);
	for (unsigned int i = 0; i < WAITERS_MAX; i++)
		if (kernel.waiters[i].fiber == self && kernel.waiters[i].looks)
			sim_fail("the kernel: %s in the condition of a wait_event()", what);
}

unsigned int sim_wait_begin(const void *place)
{
	unsigned int i = 0;

	while (i < WAITERS_MAX && kernel.waiters[i].fiber)
		i++;
	if (i == WAITERS_MAX)
		sim_fail("the kernel: too many wait");
	kernel.waiters[i].fiber = sim_fiber_self();
	kernel.waiters[i].place = place;
	kernel.waiters[i].woken = false;
	kernel.waiters[i].looks = true;
	return i;
}

void sim_wait_sleep(unsigned int waiter, uint64_t until_ns)
{
	if (kernel.waiters[waiter].woken)
		sim_reached("module", "is woken while it looks at what it waits for", NULL);
	else
		sim_fiber_wait(until_ns == UINT64_MAX ? UINT64_MAX
			       : until_ns > sim_now_ns() ? until_ns - sim_now_ns() : 0);
	kernel.waiters[waiter].woken = false;
}

void sim_wait_end(unsigned int waiter)
{
	kernel.waiters[waiter].fiber = NULL;
}

void sim_sleep_on(const void *place, uint64_t until_ns)
{
	unsigned int waiter;

	if (!sim_fiber_self())
		sim_fail("the kernel: something sleeps in a softirq");
	waiter = sim_wait_begin(place);
	kernel.waiters[waiter].looks = false;
	sim_wait_sleep(waiter, until_ns);
	sim_wait_end(waiter);
}

void sim_wake(const void *place)
{
	for (unsigned int i = 0; i < WAITERS_MAX; i++) {
		if (!kernel.waiters[i].fiber || kernel.waiters[i].place != place)
			continue;
		kernel.waiters[i].woken = true;
		sim_fiber_wake(kernel.waiters[i].fiber, sim_between(200, 20 * SIM_US));
	}
}

uint64_t sim_deadline_ns(unsigned long timeout)
{
	return timeout == MAX_SCHEDULE_TIMEOUT ? UINT64_MAX : sim_now_ns() + timeout * SIM_MS;
}

void complete(struct completion *completion)
{
	completion->done++;
	sim_wake(completion);
}

bool wait_for_completion_timeout(struct completion *completion, unsigned long timeout)
{
	uint64_t until_ns = sim_deadline_ns(timeout);

	sim_might_sleep(__func__);
	while (!completion->done && sim_now_ns() < until_ns)
		sim_sleep_on(completion, until_ns);
	if (!completion->done)
		return false;
	completion->done--;
	return true;
}

void msleep(unsigned int ms)
{
	sim_might_sleep(__func__);
	sim_fiber_sleep(ms * SIM_MS);
}

unsigned int sim_rcu_readers;

void sim_rcu_read_unlock(void)
{
	if (!--sim_rcu_readers)
		sim_wake(&sim_rcu_readers);
}

void synchronize_rcu(void)
{
	sim_might_sleep(__func__);
	while (sim_rcu_readers)
		sim_sleep_on(&sim_rcu_readers, UINT64_MAX);
	sim_fiber_sleep(sim_below(SIM_MS));
}

/* -- works ------------------------------------------------------------------------------------------ */

static void work_run(struct work_struct *work)
{
	uint64_t number = work->queued;

	list_del_init(&work->entry);
	work->pending = work->due = false;
	work->running = true;
	work->func(work);
	work->running = false;
	work->done = max(work->done, number);
	/* It came again meanwhile: one work does not run twice at a time. */
	if (work->due)
		list_add_tail(&work->entry, &kernel.due);
	sim_wake(work);
}

static void worker_run(void *arg)
{
	(void)arg;
	while (!kernel.stops) {
		if (list_empty(&kernel.due)) {
			kernel.idle++;
			sim_sleep_on(&kernel.due, UINT64_MAX);
			kernel.idle--;
		} else {
			work_run(list_first_entry(&kernel.due, struct work_struct, entry));
		}
	}
}

void sim_kernel_preempts(struct sim_fiber *fiber)
{
	fiber->preempt = kernel.preempt;
	fiber->preempt_ns = kernel.preempt_ns;
}

static void worker_add(void)
{
	struct sim_fiber *fiber = &kernel.workers[kernel.worker_count++];

	if (kernel.worker_count > WORKERS_MAX)
		sim_fail("the kernel: too many works at a time");
	sim_fiber_start(fiber, kernel.actor, worker_run, NULL);
	sim_kernel_preempts(fiber);
}

static void work_due(struct work_struct *work)
{
	unsigned int due = 0;
	struct work_struct *other;

	work->due = true;
	if (work->running)
		return;
	list_add_tail(&work->entry, &kernel.due);
	list_for_each_entry(other, &kernel.due, entry)
		due++;
	if (due > kernel.idle)
		worker_add();
	else
		sim_wake(&kernel.due);
}

void sim_work_init(struct work_struct *work, work_func_t func)
{
	memset(work, 0, sizeof(*work));
	work->func = func;
	INIT_LIST_HEAD(&work->entry);
}

static void on_delayed(void *arg)
{
	work_due(arg);
}

void sim_delayed_work_init(struct delayed_work *delayed, work_func_t func)
{
	sim_work_init(&delayed->work, func);
	delayed->timer = (struct sim_event){.run = on_delayed, .arg = &delayed->work};
}

bool sim_work_queue(struct work_struct *work)
{
	if (work->pending || work->cancelling)
		return false;
	work->pending = true;
	work->queued++;
	work_due(work);
	return true;
}

bool sim_work_queue_delayed(struct delayed_work *delayed, unsigned long delay)
{
	if (!delay || delayed->work.pending || delayed->work.cancelling)
		return sim_work_queue(&delayed->work);
	delayed->work.pending = true;
	delayed->work.queued++;
	sim_event_in(&delayed->timer, delay * SIM_MS);
	return true;
}

/* It has been asked for, and does not begin. */
static bool work_withdraw(struct work_struct *work)
{
	bool pending = work->pending;

	work->pending = work->due = false;
	list_del_init(&work->entry);
	if (!work->running)
		work->done = work->queued;
	return pending;
}

bool sim_work_modify(struct delayed_work *delayed, unsigned long delay)
{
	bool pending;

	sim_event_cancel(&delayed->timer);
	pending = work_withdraw(&delayed->work);
	sim_work_queue_delayed(delayed, delay);
	return pending;
}

void flush_work(struct work_struct *work)
{
	uint64_t number = work->queued;

	sim_might_sleep(__func__);
	while (work->done < number && (work->pending || work->running))
		sim_sleep_on(work, UINT64_MAX);
}

/* Meanwhile nobody queues it, nor does it do so itself: as in the kernel, that is refused. */
static void work_cancel(struct work_struct *work, struct sim_event *timer)
{
	sim_might_sleep(timer ? "cancel_delayed_work_sync()" : "cancel_work_sync()");
	work->cancelling++;
	if (timer)
		sim_event_cancel(timer);
	work_withdraw(work);
	sim_wake(work);
	while (work->running)
		sim_sleep_on(work, UINT64_MAX);
	work->cancelling--;
}

void cancel_work_sync(struct work_struct *work)
{
	work_cancel(work, NULL);
}

void cancel_delayed_work_sync(struct delayed_work *delayed)
{
	work_cancel(&delayed->work, &delayed->timer);
}

/* -- memory, text, chance ------------------------------------------------------------------------ */

/* Of a million, where there is little. */
#define REFUSED 100000u

void *sim_kernel_alloc(size_t count, size_t bytes)
{
	void *memory;

	if (kernel.hungry && kernel.hungry == sim_fiber_self() && sim_chance(REFUSED)) {
		kernel.refused++;
		return NULL;
	}
	memory = calloc(count, bytes);
	if (!memory)
		sim_fail("out of memory");
	kernel.allocations++;
	return memory;
}

void sim_kernel_free(void *memory)
{
	kernel.allocations -= memory != NULL;
	free(memory);
}

void sim_kernel_starve(void)
{
	kernel.hungry = sim_fiber_self();
}

unsigned int sim_kernel_starved(void)
{
	unsigned int refused = kernel.refused;

	kernel.hungry = NULL;
	kernel.refused = 0;
	return refused;
}

static bool pages_are_free(unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++)
		if (i >= PAGES_MAX || kernel.pages[i])
			return false;
	return true;
}

struct page *alloc_pages_node(int node, gfp_t gfp, unsigned int order)
{
	unsigned int count = 1u << order;

	(void)node;
	(void)gfp;
	for (unsigned int tries = 0; tries < PAGES_MAX; tries++, kernel.next_page++) {
		unsigned int first = kernel.next_page % PAGES_MAX;

		if (!pages_are_free(first, count))
			continue;
		memset(&kernel.pages[first], true, count);
		memset(page_memory[first], 0, (size_t)count * PAGE_SIZE);
		kernel.next_page += count;
		return (struct page *)page_memory[first];
	}
	return NULL;
}

void __free_pages(struct page *page, unsigned int order)
{
	size_t first = (size_t)((uint8_t *)page - page_memory[0]) / PAGE_SIZE;

	if (!kernel.pages[first])
		sim_fail("the kernel: a page is freed twice");
	memset(&kernel.pages[first], false, 1u << order);
}

void *sim_kernel_pages(size_t *bytes)
{
	*bytes = sizeof(page_memory);
	return page_memory;
}

int scnprintf(char *text, size_t bytes, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, bytes, format, args);
	va_end(args);
	return length < (int)bytes ? length : (int)bytes - 1;
}

void strscpy(char *to, const char *from, size_t bytes)
{
	snprintf(to, bytes, "%s", from);
}

void get_random_bytes(void *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = (uint8_t)sim_random();
}

u32 get_random_u32(void)
{
	return (u32)sim_random();
}

int param_get_uint(char *buffer, const struct kernel_param *kp)
{
	return sprintf(buffer, "%u", *(unsigned int *)kp->arg);
}

int kstrtouint(const char *text, unsigned int base, unsigned int *value)
{
	*value = (unsigned int)strtoul(text, NULL, (int)base);
	return 0;
}

int ida_alloc_max(struct ida *ida, unsigned int most, gfp_t gfp)
{
	(void)gfp;
	for (unsigned int id = 0; id <= most; id++)
		if (!ida->used[id]) {
			ida->used[id] = true;
			return (int)id;
		}
	return -ENOSPC;
}

int xa_alloc(struct xarray *xa, u32 *index, void *entry, u32 most, gfp_t gfp)
{
	(void)gfp;
	for (u32 i = 0; i <= most; i++)
		if (!xa->used[i]) {
			xa->used[i] = true;
			xa->entry[i] = entry;
			*index = i;
			return 0;
		}
	return -EBUSY;
}

void *xa_find(struct xarray *xa, unsigned long *index, unsigned long most, int filter)
{
	(void)filter;
	for (; *index < ARRAY_SIZE(xa->entry) && *index <= most; ++*index)
		if (xa->entry[*index])
			return xa->entry[*index];
	return NULL;
}

unsigned long find_first_zero_bit(const unsigned long *map, unsigned long bits)
{
	unsigned long bit = 0;

	while (bit < bits && test_bit(bit, map))
		bit++;
	return bit;
}

/* -- beginning and end -------------------------------------------------------------------------------- */

void sim_kernel_start(struct sim_actor *actor)
{
	memset(&kernel, 0, sizeof(kernel));
	INIT_LIST_HEAD(&kernel.due);
	kernel.actor = actor;
	kernel.preempt = sim_chance(500000) ? 0 : sim_chance(500000) ? 5000 : 100000;
	kernel.preempt_ns = sim_chance(500000) ? 5 * SIM_US : 200 * SIM_US;
	sim_rcu_readers = 0;
}

void sim_kernel_stop(void)
{
	for (unsigned int i = 0; i < PAGES_MAX; i++)
		if (kernel.pages[i])
			sim_fail("the kernel: a page was not freed");
	if (kernel.allocations)
		sim_fail("the kernel: %u allocations were not freed", kernel.allocations);
	kernel.stops = true;
	sim_wake(&kernel.due);
}

bool sim_kernel_stopped(void)
{
	for (unsigned int i = 0; i < kernel.worker_count; i++)
		if (!kernel.workers[i].finished)
			return false;
	return true;
}

void sim_kernel_fini(void)
{
	for (unsigned int i = 0; i < kernel.worker_count; i++)
		sim_fiber_fini(&kernel.workers[i]);
	kernel.worker_count = 0;
}
