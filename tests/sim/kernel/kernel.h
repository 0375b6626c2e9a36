/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Linux kernel's interfaces as kmod/ uses them, over the simulator: what the module's own files are compiled
 * with (CMakeLists.txt makes each <linux/...> that they include an empty file). Locks assert, whoever
 * sleeps is a fiber, time is virtual. block.h has the block layer, rdma.h RDMA; kernel.c and locks.c what is behind it.
 */
#ifndef RBLK_TESTS_SIM_KERNEL_H
#define RBLK_TESTS_SIM_KERNEL_H

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "proto/wire/types.h"
#include "tests/sim/clock.h"
#include "tests/sim/kernel/list.h"
#include "tests/sim/trace.h"

/* librblk has functions of these names, too. */
#define rblk_session_close kmod_session_close
#define rblk_volume_open kmod_volume_open

/* -- words ------------------------------------------------------------------------------------- */

typedef unsigned int gfp_t;
#define __printf(text, first) __attribute__((format(printf, text, first)))
#define unlikely(x) (x)
#define likely(x) (x)
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define U8_MAX UINT8_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define PAGE_SIZE 4096u
#define SZ_4K 4096u
#define SECTOR_SHIFT 9
#define min(a, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b) ({ __auto_type m_ = (a); __auto_type n_ = (b); m_ > n_ ? m_ : n_; })
#define min_t(type, a, b) min((type)(a), (type)(b))
#define swap(a, b) do { __auto_type s_ = (a); (a) = (b); (b) = s_; } while (0)
#define min3(a, b, c) min(min(a, b), c)
#define clamp(value, low, high) min(max(value, low), high)
#define ALIGN(x, to) (((x) + (to) - 1) / (to) * (to))
#define DIV_ROUND_UP(a, b) (((a) + (b) - 1) / (b))
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) ((void)(*(volatile __typeof__(x) *)&(x) = (value)))
#define smp_load_acquire(p) READ_ONCE(*(p))
#define smp_store_release(p, value) WRITE_ONCE(*(p), value)
#define smp_mb() ((void)0)
#define ERR_PTR(error) ((void *)(intptr_t)(error))
#define PTR_ERR(pointer) ((int)(intptr_t)(pointer))
#define IS_ERR(pointer) ((uintptr_t)(pointer) > (uintptr_t)-4096)
#define PTR_ERR_OR_ZERO(pointer) (IS_ERR(pointer) ? PTR_ERR(pointer) : 0)
#define ERR_CAST(pointer) ((void *)(pointer))
#define be32_to_cpu(x) be32toh(x)
#define ilog2(x) (31 - __builtin_clz(x))
#define is_power_of_2(x) ((x) && !((x) & ((x) - 1)))
#define IS_ENABLED(option) false

#define fatal_signal_pending(task) ((void)(task), sim_killed())

struct net;
extern struct sim_task {
	struct sim_nsproxy { struct net *net_ns; } *nsproxy;
	unsigned int flags;
} sim_task;
static struct sim_task *const current __attribute__((unused)) = &sim_task;
struct net *get_net(struct net *net);
void put_net(struct net *net);

#define num_online_cpus() 4u
#define nr_cpu_ids 8u
#define is_kdump_kernel() false

/* -- memory, text, chance ------------------------------------------------------------------------ */

#define GFP_KERNEL 0u
#define __GFP_ZERO 0u
#define __GFP_COMP 0u
/* What is allocated is counted: nothing may be left at the end. */
void *sim_kernel_alloc(size_t count, size_t bytes);
void sim_kernel_free(void *memory);
/* From here on some of the caller's own allocations fail, until it asks how many have. */
/* This fiber is a user's, and is killed at that time, unless it is spared before. True: it was. One at a time. */
void sim_kernel_kill(uint64_t dies_ns);
bool sim_kernel_spare(void);
void sim_kernel_starve(void);
unsigned int sim_kernel_starved(void);
#define kzalloc(bytes, gfp) sim_kernel_alloc(1, bytes)
#define kcalloc(count, bytes, gfp) sim_kernel_alloc(count, bytes)
#define kvcalloc kcalloc
#define kvzalloc_node(bytes, gfp, node) sim_kernel_alloc(1, bytes)
#define array_size(count, bytes) ((size_t)(count) * (bytes))
#define kfree(memory) sim_kernel_free(memory)
#define kvfree(memory) sim_kernel_free(memory)
/* There is one processor. */
#define memalloc_noio_save() 0u
#define memalloc_noio_restore(flags) ((void)(flags))
/* A page is its memory. Pages that are asked for one after the other mostly lie so, too. */
struct page;
struct page *alloc_pages_node(int node, gfp_t gfp, unsigned int order);
void __free_pages(struct page *page, unsigned int order);
#define page_address(page) ((void *)(page))
#define get_order(bytes) ((bytes) <= PAGE_SIZE ? 0u : (unsigned int)ilog2(((bytes) - 1) / PAGE_SIZE) + 1)

int scnprintf(char *text, size_t bytes, const char *format, ...) __printf(3, 4);
#define vscnprintf vsnprintf
void strscpy(char *to, const char *from, size_t bytes);
void get_random_bytes(void *to, size_t bytes);
u32 get_random_u32(void);
#define sim_print(...) sim_trace("kernel", __VA_ARGS__)
#define pr_info sim_print
#define pr_warn sim_print
#define pr_warn_ratelimited sim_print
#define pr_info_ratelimited sim_print
#define pr_err_ratelimited sim_print
#define pr_err sim_print
#define module_param_cb(name, ops, arg, perm) unsigned int *sim_param_##name(void); \
	unsigned int *sim_param_##name(void) { (void)(ops); return arg; } struct sim_unused
#define module_param(name, type, perm) struct sim_unused
#define MODULE_PARM_DESC(name, text) struct sim_unused
struct kernel_param { void *arg; };
struct kernel_param_ops {
	int (*set)(const char *value, const struct kernel_param *kp);
	int (*get)(char *buffer, const struct kernel_param *kp);
};
int param_get_uint(char *buffer, const struct kernel_param *kp);
#define param_set_uint_minmax(value, kp, least, most) 0
int kstrtouint(const char *text, unsigned int base, unsigned int *value);

#define TRACE_EVENT(name, proto, ...) static inline void trace_##name(proto) {} struct sim_unused
#define TP_PROTO(...) __VA_ARGS__

/* -- counters, bits ------------------------------------------------------------------------------ */

typedef struct { int value; } atomic_t;
#define atomic_read(a) ((a)->value)
#define atomic_inc(a) ((void)(a)->value++)
#define atomic_dec(a) ((void)(a)->value--)
typedef struct { int64_t value; } atomic64_t;
#define atomic64_inc(a) ((void)(a)->value++)
typedef struct { unsigned int value; } refcount_t;
#define refcount_set(r, n) ((void)((r)->value = (n)))
#define refcount_read(r) ((r)->value)
bool refcount_dec_and_test(refcount_t *r);
struct kref { refcount_t count; };
#define kref_init(k) refcount_set(&(k)->count, 1)
#define kref_get(k) ((void)(k)->count.value++)
#define kref_put(k, release) ((void)(refcount_dec_and_test(&(k)->count) ? (release)(k) : (void)0))
struct ida { bool used[256]; };
#define DEFINE_IDA(name) struct ida name
int ida_alloc_max(struct ida *ida, unsigned int most, gfp_t gfp);
#define ida_free(ida, id) ((void)((ida)->used[id] = false))

/* By number. One that was taken, and has no entry (any more), is not given again before it is erased. */
struct xarray { void *entry[256]; bool used[256]; };
#define DEFINE_XARRAY_ALLOC(name) struct xarray name
#define XA_LIMIT(least, most) (most)
#define XA_PRESENT 0
int xa_alloc(struct xarray *xa, u32 *index, void *entry, u32 most, gfp_t gfp);
void *xa_find(struct xarray *xa, unsigned long *index, unsigned long most, int filter);
#define xa_store(xa, index, to, gfp) ((void)((xa)->entry[index] = (to)))
#define xa_erase(xa, index) ((void)((xa)->used[index] = false))
#define xa_for_each(xa, index, to) \
	for ((index) = 0; ((to) = xa_find(xa, &(index), ULONG_MAX, XA_PRESENT)); (index)++)

#define DECLARE_BITMAP(name, bits) unsigned long name[((bits) + 63) / 64]
#define bitmap_zero(map, bits) memset(map, 0, ((bits) + 63) / 64 * 8)
#define test_bit(bit, map) ((map)[(bit) / 64] >> (bit) % 64 & 1)
#define __set_bit(bit, map) ((void)((map)[(bit) / 64] |= 1ul << (bit) % 64))
#define __clear_bit(bit, map) ((void)((map)[(bit) / 64] &= ~(1ul << (bit) % 64)))
static inline bool __test_and_set_bit(unsigned long bit, unsigned long *map)
{
	bool was = test_bit(bit, map);

	__set_bit(bit, map);
	return was;
}
#define hweight_long(x) ((unsigned int)__builtin_popcountl(x))
unsigned long find_first_zero_bit(const unsigned long *map, unsigned long bits);
static inline unsigned long find_first_bit(const unsigned long *map, unsigned long bits)
{
	unsigned long bit;

	for (bit = 0; bit < bits && !test_bit(bit, map); bit++)
		;
	return bit;
}
#define for_each_set_bit(bit, map, bits) \
	for ((bit) = 0; (bit) < (bits); (bit)++) if (!test_bit(bit, map)) {} else

/* -- time: a jiffy is a millisecond ---------------------------------------------------------------- */

#define MAX_SCHEDULE_TIMEOUT LONG_MAX
#define jiffies ((unsigned long)(sim_now_ns() / SIM_MS))
#define get_jiffies_64() ((u64)jiffies)
#define jiffies64_to_nsecs(j) ((u64)(j) * SIM_MS)
#define nsecs_to_jiffies(ns) ((unsigned long)((ns) / SIM_MS))
#define MAX_JIFFY_OFFSET ((LONG_MAX >> 1) - 1)
#define msecs_to_jiffies(ms) ((unsigned long)(ms))
#define jiffies_to_msecs(j) ((unsigned int)(j))
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) (!time_before(a, b))
void msleep(unsigned int ms);
#define USEC_PER_MSEC 1000u
#define fsleep(us) msleep(DIV_ROUND_UP(us, USEC_PER_MSEC))

/* -- locks ---------------------------------------------------------------------------------------------- */

/* What runs: a fiber, or the softirqs, which are one. */
const void *sim_context(void);
/* A spinlock is never contended, because a fiber that holds one is not preempted. */
typedef struct { const void *owner; } spinlock_t;
struct mutex { const void *owner; };
#define DEFINE_MUTEX(name) struct mutex name
#define spin_lock_init(lock) ((void)((lock)->owner = NULL))
void spin_lock(spinlock_t *lock);
void spin_unlock(spinlock_t *lock);
bool spin_trylock(spinlock_t *lock);
/* Its holder keeps its processor until it sleeps. */
void sim_spin_drop(spinlock_t *lock);
#define spin_lock_irq(lock) spin_lock(lock)
#define spin_unlock_irq(lock) spin_unlock(lock)
#define spin_lock_irqsave(lock, flags) ((void)((flags) = 0), spin_lock(lock))
#define spin_unlock_irqrestore(lock, flags) ((void)(flags), spin_unlock(lock))
#define mutex_init(mutex) ((void)((mutex)->owner = NULL))
void mutex_lock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);
#define mutex_lock_killable(mutex) (sim_killed() ? -EINTR : (mutex_lock(mutex), 0))
#define lockdep_assert_held(lock) \
	((lock)->owner == sim_context() ? (void)0 : sim_fail("%s: %s is not held", __func__, #lock))

/* -- waiting: of a fiber, for a wake of the same place -------------------------------------------------- */

/* What may wait is not called under a spinlock or in a softirq, whether it waits or not. */
void sim_might_sleep(const char *what);
/* At most so long (UINT64_MAX: no limit), in virtual time. The caller looks again at what it waits for. */
void sim_sleep_on(const void *place, uint64_t until_ns);
void sim_wake(const void *place);

/*
 * As prepare_to_wait() does: who looks at what it waits for is a waiter before it looks, because others go on meanwhile
 * (spin_unlock()). A wake then ends its next sleep at once.
 */
unsigned int sim_wait_begin(const void *place);
void sim_wait_sleep(unsigned int waiter, uint64_t until_ns);
void sim_wait_end(unsigned int waiter);

typedef struct { char place; } wait_queue_head_t;
#define init_waitqueue_head(head) ((void)(head))
#define wake_up(head) sim_wake(head)
#define wake_up_all(head) sim_wake(head)
#define wait_event(head, condition) do { \
	sim_might_sleep("wait_event()"); \
	unsigned int waiter_ = sim_wait_begin(&(head)); \
	while (!(condition)) \
		sim_wait_sleep(waiter_, UINT64_MAX); \
	sim_wait_end(waiter_); \
} while (0)
#define wait_event_lock_irq(head, condition, lock) do { \
	lockdep_assert_held(&(lock)); \
	sim_spin_drop(&(lock)); \
	sim_might_sleep("wait_event_lock_irq()"); \
	spin_lock(&(lock)); \
	while (!(condition)) { \
		sim_spin_drop(&(lock)); \
		sim_sleep_on(&(head), UINT64_MAX); \
		spin_lock(&(lock)); \
	} \
} while (0)
uint64_t sim_deadline_ns(unsigned long timeout);
/* Has this fiber been killed (sim_kernel_kill())? When it will be, or `until_ns`, if that is earlier. */
bool sim_killed(void);
uint64_t sim_killed_by(uint64_t until_ns);
/* 0: the time is over and it does not hold; negative: the caller is killed; else at least 1. */
#define wait_event_killable_timeout(head, condition, timeout) ({ \
	uint64_t until_ = sim_killed_by(sim_deadline_ns(timeout)); \
	bool holds_; \
	sim_might_sleep("wait_event_killable_timeout()"); \
	unsigned int waiter_ = sim_wait_begin(&(head)); \
	while (!(holds_ = (condition)) && sim_now_ns() < until_) \
		sim_wait_sleep(waiter_, until_); \
	sim_wait_end(waiter_); \
	holds_ ? 1l : sim_killed() ? (long)-EINTR : 0l; })

#define wait_event_timeout(head, condition, timeout) ((void)wait_event_killable_timeout(head, condition, timeout))
#define wait_event_killable(head, condition) ({ \
	long left_ = wait_event_killable_timeout(head, condition, MAX_SCHEDULE_TIMEOUT); \
	left_ < 0 ? (int)left_ : 0; })
#define schedule_timeout_killable(timeout) msleep(jiffies_to_msecs(timeout))

struct completion { unsigned int done; };
#define init_completion(c) ((void)((c)->done = 0))
#define reinit_completion(c) ((void)((c)->done = 0))
void complete(struct completion *completion);
bool wait_for_completion_timeout(struct completion *completion, unsigned long timeout);

/* Who dispatches a request is a reader; nobody else. */
extern unsigned int sim_rcu_readers;
void sim_rcu_read_unlock(void);
void synchronize_rcu(void);

/* -- works ------------------------------------------------------------------------------------------ */

struct work_struct;
typedef void (*work_func_t)(struct work_struct *work);
struct work_struct {
	work_func_t func;
	struct list_head entry;      /* of those that are due */
	bool pending;		     /* queued, or its timer runs */
	bool due, running;
	unsigned int cancelling;     /* so many wait for its end; it is not queued meanwhile */
	uint64_t queued, done;	     /* numbers of times */
};
struct delayed_work {
	struct work_struct work;
	struct sim_event timer;
};
struct workqueue_struct;
#define delayed_work_pending(w) ((w)->work.pending)
#define to_delayed_work(w) container_of(w, struct delayed_work, work)
void sim_work_init(struct work_struct *work, work_func_t func);
void sim_delayed_work_init(struct delayed_work *delayed, work_func_t func);
#define INIT_WORK(w, f) sim_work_init(w, f)
#define INIT_WORK_ONSTACK(w, f) sim_work_init(w, f)
#define destroy_work_on_stack(w) ((void)(w))
#define INIT_DELAYED_WORK(d, f) sim_delayed_work_init(d, f)
bool sim_work_queue(struct work_struct *work);
bool sim_work_queue_delayed(struct delayed_work *delayed, unsigned long delay);
bool sim_work_modify(struct delayed_work *delayed, unsigned long delay);
/* There is a processor for each work: which queue it is on does not matter. */
#define queue_work(queue, work) ((void)(queue), sim_work_queue(work))
#define queue_delayed_work(queue, delayed, delay) ((void)(queue), sim_work_queue_delayed(delayed, delay))
#define mod_delayed_work(queue, delayed, delay) ((void)(queue), sim_work_modify(delayed, delay))
void flush_work(struct work_struct *work);
void cancel_work_sync(struct work_struct *work);
void cancel_delayed_work_sync(struct delayed_work *delayed);

#endif
