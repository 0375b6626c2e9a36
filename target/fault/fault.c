/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A store in front of another one that delays, fails, tears and loses as its plan says, for tests
 * and for trying how initiators handle it. Only the seed, the rule and n decide what it does to the
 * n-th operation of a channel.
 *
 * It hides the base's direct memory, because it could not affect RDMA.
 */
#include "target/fault/fault.h"

#include <errno.h>
#include <liburing.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include "target/base/settings.h"
#include "target/base/error.h"
#include "target/fault/plan.h"
#include "target/fault/power.h"
#include "target/fault/undo.h"

#define FAULT_CHANGES_MAX 10000u /* they are kept: a bound on a test's memory */

/* A later plan. It stays until the store is closed, because channels may still read it. */
struct fault_change {
	struct fault_change *before;
	struct tgt_fault_plan plan;
};

/* Opened by the configuring thread, closed as volume.c says; fixed in between, except for
 * changes of the plan. */
struct fault_store {
	struct tgt_store store; /* first: the struct tgt_store that others hold */
	struct tgt_store *base;
	struct tgt_fault_plan plan;
	struct fault_change *_Atomic change; /* the control thread's last; NULL: `plan` is valid */
	unsigned int changes; /* the control thread's */
	struct tgt_fault_undo *undo; /* NULL: the plan loses nothing */
	struct tgt_fault_record *power; /* NULL: the plan does not lose power */
};

/* Its reactor's. */
struct fault_channel {
	struct tgt_channel channel; /* first: the struct tgt_channel that others hold */
	struct tgt_channel *base;
	const struct tgt_fault_plan *plan;  /* of the counts */
	uint64_t seen[TGT_FAULT_RULES_MAX]; /* operations that a rule applies to */
	uint64_t hit[TGT_FAULT_RULES_MAX];
	uint64_t random[TGT_FAULT_RULES_MAX];
};

/*
 * One operation on its way, from submit to its completion. `io` is what the base gets. The timer,
 * `io` and `side` are never in flight together. Only this store allocates per operation: it need
 * not be fast.
 */
struct fault_io {
	struct tgt_io io;	       /* first: the struct tgt_io that the base hands back */
	struct tgt_io side;	       /* reads what a write will overwrite, or puts it back */
	struct tgt_fault_entry *entry; /* `side` reads it or writes it; or NULL */
	uint64_t mark;		       /* FLUSH, where there is an undo: what was written before */
	struct tgt_ring_op timer;
	struct __kernel_timespec delay;
	struct tgt_io *origin;
	struct fault_channel *channel;
	int error; /* 0: none wanted */
	bool tear, lose, untorn;
};

static const struct tgt_store_ops fault_ops;

static struct fault_store *to_fault(struct tgt_store *store)
{
	return (struct fault_store *)store;
}

/* NULL: it has none. */
static const struct tgt_fault_rule *plan_find(const struct tgt_fault_plan *plan,
					      enum tgt_fault_action action)
{
	unsigned int i;

	for (i = 0; i < plan->rule_count; i++)
		if (plan->rules[i].action == action)
			return &plan->rules[i];
	return NULL;
}

/* Probability and counts are for operations: a store is closed once. */
static void delay_close(const struct tgt_fault_plan *plan)
{
	struct timespec delay;
	uint64_t us = 0;
	unsigned int i;

	for (i = 0; i < plan->rule_count; i++)
		if (plan->rules[i].kinds & TGT_FAULT_CLOSE)
			us += plan->rules[i].delay_us;
	delay.tv_sec = (time_t)(us / 1000000);
	delay.tv_nsec = (long)(us % 1000000 * 1000);
	if (us)
		nanosleep(&delay, NULL);
}

static const struct tgt_fault_plan *plan_now(struct fault_store *fault)
{
	const struct fault_change *change = atomic_load_explicit(&fault->change, memory_order_acquire);

	return change ? &change->plan : &fault->plan;
}

static int fault_sync(struct tgt_store *store)
{
	const struct tgt_fault_plan *plan = plan_now(to_fault(store));
	struct tgt_store *base = to_fault(store)->base;

	for (unsigned int i = 0; i < plan->rule_count; i++)
		if (plan->rules[i].action == TGT_FAULT_FAIL && plan->rules[i].kinds & TGT_FAULT_CLOSE)
			return plan->rules[i].error;
	return base->ops->sync ? base->ops->sync(base) : 0;
}

static void fault_close(struct tgt_store *store)
{
	struct fault_store *fault = to_fault(store);
	struct fault_change *change = atomic_load(&fault->change), *before;

	for (; change; change = before) {
		before = change->before;
		free(change);
	}
	tgt_fault_power_close(fault->power);
	if (fault->base) {
		delay_close(&fault->plan);
		fault->base->ops->close(fault->base);
	}
	tgt_fault_undo_destroy(fault->undo);
	free(fault);
}

/* Sets up what a plan that loses data needs, and the loss of power. */
static int fault_undo_open(struct fault_store *fault, const struct tgt_volume_config *config, char *error)
{
	const struct tgt_fault_rule *power = plan_find(&fault->plan, TGT_FAULT_POWER);
	bool loses = plan_find(&fault->plan, TGT_FAULT_LOSE);
	int status;

	fault->store.info = fault->base->info;
	if (!loses && !power)
		return 0;
	if (loses && power)
		return tgt_error(error, -EINVAL, "fault: \"lose\" and \"power\" exclude each other");
	if (!fault->base->info.can_flush)
		return tgt_error(error, -EINVAL, "fault: \"%s\" needs a store that can flush, not a %s store",
				 loses ? "lose" : "power", config->store);
	fault->undo = tgt_fault_undo_create();
	if (!fault->undo)
		return tgt_error(error, -ENOMEM, "fault store: out of memory");
	if (loses)
		return 0;
	status = tgt_fault_power_open(config->path, power->probability, fault->plan.seed, &fault->power,
				      fault->store.info.cache_epoch, error);
	if (status < 0)
		return status;
	fault->store.info.volatile_cache = true;
	tgt_fault_undo_record(fault->undo, fault->power);
	return 0;
}

static int fault_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error)
{
	const struct tgt_store_ops *base = tgt_store_find(config->store);
	struct fault_store *fault;
	char why[256];
	int status;

	if (!base)
		return tgt_error(error, -EINVAL, "no such kind of store: \"%s\"", config->store);
	fault = calloc(1, sizeof(*fault));
	if (!fault)
		return tgt_error(error, -ENOMEM, "fault store: out of memory");
	status = tgt_fault_parse(config->fault, &fault->plan, why, sizeof(why));
	if (status < 0)
		tgt_error(error, status, "fault: %s", why);
	else
		status = base->open(config, &fault->base, error);
	if (status == 0)
		status = fault_undo_open(fault, config, error);
	if (status < 0) {
		fault_close(&fault->store);
		return status;
	}
	fault->store.ops = &fault_ops;
	fault->store.inner = fault->base;
	fault->store.info.direct = NULL;
	if (fault->plan.untorn_bytes) {
		fault->store.info.untorn_min_bytes = fault->store.info.block_bytes;
		fault->store.info.untorn_max_bytes = (uint32_t)fault->plan.untorn_bytes;
	}
	*store = &fault->store;
	return 0;
}

static int fault_refresh(struct tgt_store *store)
{
	struct tgt_store *base = to_fault(store)->base;
	int status = base->ops->refresh ? base->ops->refresh(base) : 0;

	store->info.bytes = base->info.bytes;
	return status;
}

static int fault_device_bytes(struct tgt_store *store, uint64_t *bytes)
{
	struct tgt_store *base = to_fault(store)->base;

	return base->ops->device_bytes ? base->ops->device_bytes(base, bytes) : -EOPNOTSUPP;
}

static void fault_fence(struct tgt_store *store, struct tgt_store_fence *fence)
{
	to_fault(store)->base->ops->fence(to_fault(store)->base, fence);
}

static void fault_store_change(struct tgt_store *store, struct tgt_store_change *change)
{
	to_fault(store)->base->ops->change(to_fault(store)->base, change);
}

static bool fault_file_look(struct tgt_store *store, struct tgt_store_file *file)
{
	struct tgt_store *base = to_fault(store)->base;

	return base->ops->file_look && base->ops->file_look(base, file);
}

/* One random sequence per rule, so that one rule does not shift another one's. */
static void channel_begin_plan(struct fault_channel *channel, const struct tgt_fault_plan *plan)
{
	channel->plan = plan;
	for (unsigned int i = 0; i < TGT_FAULT_RULES_MAX; i++) {
		channel->seen[i] = channel->hit[i] = 0;
		channel->random[i] = plan->seed + i * 0x9e3779b97f4a7c15u;
	}
}

static int change_check(const struct fault_store *fault, const struct tgt_fault_plan *plan,
			char *error)
{
	if (fault->changes == FAULT_CHANGES_MAX)
		return tgt_error(error, -ENOSPC, "%u plans since it was opened: no more",
				 FAULT_CHANGES_MAX);
	if (plan_find(plan, TGT_FAULT_POWER))
		return tgt_error(error, -EINVAL, "\"power\" is for a volume's first plan alone");
	if (plan_find(plan, TGT_FAULT_LOSE) && !plan_find(&fault->plan, TGT_FAULT_LOSE))
		return tgt_error(error, -EINVAL,
				 "\"lose\" needs a volume whose first plan has it, too");
	return 0;
}

static int fault_change(struct tgt_store *store, const char *text, char *error)
{
	struct fault_store *fault = to_fault(store);
	struct fault_change *change;
	char why[256];
	int status;

	if (store->ops != &fault_ops)
		return tgt_error(error, -EOPNOTSUPP,
				 "it has no plan that could be changed; begin with fault = delay=close:1us");
	change = calloc(1, sizeof(*change));
	if (!change)
		return tgt_error(error, -ENOMEM, "out of memory");
	status = tgt_fault_parse(text, &change->plan, why, sizeof(why));
	if (status < 0)
		tgt_error(error, status, "%s", why);
	else
		status = change_check(fault, &change->plan, error);
	if (status < 0) {
		free(change);
		return status;
	}
	fault->changes++;
	change->before = atomic_load(&fault->change);
	atomic_store(&fault->change, change);
	return 0;
}

static int fault_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel)
{
	struct fault_store *fault = to_fault(store);
	struct fault_channel *made;
	int status;

	if (!ring && plan_find(&fault->plan, TGT_FAULT_DELAY))
		return -EINVAL; /* a delay is a timer of the ring */
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	status = fault->base->ops->attach(fault->base, ring, &made->base);
	if (status < 0) {
		free(made);
		return status;
	}
	made->channel.store = store;
	made->channel.ring = ring;
	channel_begin_plan(made, plan_now(fault));
	*channel = &made->channel;
	return 0;
}

static void fault_detach(struct tgt_channel *channel)
{
	struct fault_channel *fault = (struct fault_channel *)channel;

	to_fault(channel->store)->base->ops->detach(fault->base);
	free(fault);
}

/* -- what happens to an operation ----------------------------------------------------------- */

/* 0 .. below 1, by splitmix64. */
static double draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return (double)(z >> 11) / (double)(1ull << 53);
}

static bool rule_hits(struct fault_channel *channel, unsigned int i, const struct tgt_fault_rule *rule,
		      enum tgt_io_kind kind)
{
	bool drawn;

	if (!(rule->kinds & 1u << kind))
		return false;
	drawn = draw(&channel->random[i]) < rule->probability;
	if (channel->seen[i]++ < rule->after || channel->hit[i] >= rule->count || !drawn)
		return false;
	channel->hit[i]++;
	return true;
}

static void plan_apply(struct fault_channel *channel, struct fault_io *fault)
{
	const struct tgt_fault_plan *plan = plan_now(to_fault(channel->channel.store));
	uint64_t delay_us = 0;
	unsigned int i;

	if (plan != channel->plan)
		channel_begin_plan(channel, plan);
	for (i = 0; i < plan->rule_count; i++) {
		const struct tgt_fault_rule *rule = &plan->rules[i];

		if (!rule_hits(channel, i, rule, fault->origin->kind))
			continue;
		if (rule->action == TGT_FAULT_DELAY)
			delay_us += rule->delay_us;
		else if (!fault->error)
			fault->error = rule->error;
		fault->tear |= rule->action == TGT_FAULT_TEAR;
		fault->lose |= rule->action == TGT_FAULT_LOSE;
	}
	fault->delay.tv_sec = (long long)(delay_us / 1000000);
	fault->delay.tv_nsec = (long long)(delay_us % 1000000 * 1000);
}

/* -- carrying it out ------------------------------------------------------------------------- */

/* Frees `fault`; returns the result for its origin. */
static int fault_end(struct fault_io *fault, int error)
{
	struct tgt_fault_undo *undo = to_fault(fault->channel->channel.store)->undo;
	const struct tgt_io *io = &fault->io;

	if (!error)
		error = fault->error;
	if (fault->entry && !error && io->flags & TGT_IO_FUA) {
		tgt_fault_undo_durable(undo, io->offset, io->bytes,
				       io->kind == TGT_IO_WRITE ? io->buffer : NULL);
		tgt_fault_entry_free(undo, fault->entry);
	} else if (fault->entry) {
		tgt_fault_undo_push(undo, fault->entry);
	}
	if (undo && io->kind == TGT_IO_FLUSH && !error)
		tgt_fault_undo_forget(undo, fault->mark);
	free(fault);
	return error;
}

static void fault_end_later(struct fault_io *fault, int error)
{
	struct tgt_io *origin = fault->origin;

	origin->done(origin, fault_end(fault, error));
}

/* `result` is one of a submit's. As tgt_store_ops.submit; frees `fault` unless it returns 0. */
static int fault_result(struct fault_io *fault, int result)
{
	if (result == 0)
		return 0;
	result = fault_end(fault, result > 0 ? 0 : result);
	return result ? result : 1;
}

static void base_done(struct tgt_io *io, int error)
{
	fault_end_later((struct fault_io *)io, error); /* its first member */
}

static int fault_base_submit(struct fault_io *fault, struct tgt_io *io)
{
	struct tgt_channel *base = fault->channel->base;

	return base->store->ops->submit(base, io);
}

static void fault_side(struct fault_io *fault, enum tgt_io_kind kind,
		       void (*done)(struct tgt_io *io, int error))
{
	fault->side = (struct tgt_io){
		.kind = kind,
		.offset = fault->entry->offset,
		.bytes = fault->entry->bytes,
		.buffer = fault->entry->data,
		.buffer_index = -1,
		.done = done,
	};
}

static struct fault_io *fault_of_side(struct tgt_io *side)
{
	return (struct fault_io *)((char *)side - offsetof(struct fault_io, side));
}

/* -- what a FLUSH loses: before each write, what it overwrites is read ------------------------ */

static void fault_entry_drop(struct fault_io *fault)
{
	tgt_fault_entry_free(to_fault(fault->channel->channel.store)->undo, fault->entry);
	fault->entry = NULL;
}

static void save_done(struct tgt_io *side, int error)
{
	struct fault_io *fault = fault_of_side(side);
	int result;

	if (error)
		fault_entry_drop(fault);
	result = error ? error : fault_base_submit(fault, &fault->io);
	if (result)
		fault_end_later(fault, result > 0 ? 0 : result);
}

/* Only these change what is stored. */
static bool io_changes(const struct tgt_io *io)
{
	return io->kind == TGT_IO_WRITE || io->kind == TGT_IO_DISCARD ||
	       io->kind == TGT_IO_WRITE_ZEROES;
}

static int fault_save(struct fault_io *fault)
{
	struct tgt_fault_undo *undo = to_fault(fault->channel->channel.store)->undo;
	int result;

	fault->entry = tgt_fault_entry_alloc(undo, fault->io.offset, fault->io.bytes);
	if (!fault->entry)
		return fault_result(fault, -ENOMEM);
	fault->entry->untorn = fault->untorn;
	fault_side(fault, TGT_IO_READ, save_done);
	result = fault_base_submit(fault, &fault->side);
	if (result == 1)
		result = fault_base_submit(fault, &fault->io);
	else if (result < 0)
		fault_entry_drop(fault);
	return fault_result(fault, result);
}

/* One after the other, the newest first. Returns 0: under way; else all is put back, or it failed. */
static int fault_lose(struct fault_io *fault);

static void lose_done(struct tgt_io *side, int error)
{
	struct fault_io *fault = fault_of_side(side);

	fault_entry_drop(fault);
	if (!error)
		error = fault_lose(fault);
	if (error)
		fault_end_later(fault, error > 0 ? 0 : error);
}

static int fault_lose(struct fault_io *fault)
{
	struct tgt_fault_undo *undo = to_fault(fault->channel->channel.store)->undo;
	int result = 1;

	while (result == 1) {
		fault->entry = tgt_fault_undo_pop(undo);
		if (!fault->entry)
			return 1;
		fault_side(fault, TGT_IO_WRITE, lose_done);
		result = fault_base_submit(fault, &fault->side);
		if (result)
			fault_entry_drop(fault);
	}
	return result;
}

/* As tgt_store_ops.submit; frees `fault` unless it returns 0. */
static int fault_begin(struct fault_io *fault)
{
	struct tgt_fault_undo *undo = to_fault(fault->channel->channel.store)->undo;

	fault->untorn = fault->io.kind == TGT_IO_WRITE && fault->io.flags & TGT_IO_UNTORN;
	if (fault->untorn && to_fault(fault->channel->channel.store)->plan.untorn_bytes)
		fault->io.flags &= ~(uint32_t)TGT_IO_UNTORN; /* the base has none */
	/* Half of it, in whole sectors; of a single sector, and of an untorn write, nothing. */
	if (fault->tear && !(fault->io.flags & TGT_IO_COMPARE))
		fault->io.bytes = fault->untorn ? 0 : fault->io.bytes / 2 & ~(uint64_t)511;
	if (fault->lose)
		return fault_result(fault, fault_lose(fault));
	if ((fault->error && !fault->tear) || (fault->tear && !fault->io.bytes))
		return fault_result(fault, fault->error);
	if (undo && fault->io.kind == TGT_IO_FLUSH)
		fault->mark = tgt_fault_undo_mark(undo);
	else if (undo && io_changes(&fault->io))
		return fault_save(fault);
	return fault_result(fault, fault_base_submit(fault, &fault->io));
}

static void delay_over(struct tgt_ring_op *op, int result, uint32_t flags)
{
	struct fault_io *fault = (struct fault_io *)((char *)op - offsetof(struct fault_io, timer));
	struct tgt_io *origin = fault->origin;
	int status = fault_begin(fault);

	if (status != 0)
		origin->done(origin, status < 0 ? status : 0);
}

static int fault_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	struct fault_io *fault = calloc(1, sizeof(*fault));
	struct io_uring_sqe *sqe;

	if (!fault)
		return -ENOMEM;
	io->channel = channel;
	fault->io = *io;
	fault->io.done = base_done;
	fault->origin = io;
	fault->channel = (struct fault_channel *)channel;
	plan_apply(fault->channel, fault);
	if (!fault->delay.tv_sec && !fault->delay.tv_nsec)
		return fault_begin(fault);
	fault->timer.complete = delay_over;
	sqe = tgt_ring_get(channel->ring, &fault->timer);
	if (!sqe) {
		free(fault);
		return -EBUSY;
	}
	io_uring_prep_timeout(sqe, &fault->delay, 0, 0);
	return 0;
}

static const struct tgt_store_ops fault_ops = {
	.kind = "fault",
	.wraps = true,
	.open = fault_open,
	.sync = fault_sync,
	.close = fault_close,
	.refresh = fault_refresh,
	.device_bytes = fault_device_bytes,
	.file_look = fault_file_look,
	.fence = fault_fence,
	.change = fault_store_change,
	.attach = fault_attach,
	.detach = fault_detach,
	.submit = fault_submit,
};

static int fault_check(const char *text, char *why, size_t bytes)
{
	struct tgt_fault_plan plan;

	return tgt_fault_parse(text, &plan, why, bytes);
}

const struct tgt_store_faults tgt_fault_store = {
	.ops = &fault_ops,
	.check = fault_check,
	.change = fault_change,
};
