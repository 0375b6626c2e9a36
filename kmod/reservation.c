// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pr_ops: RESERVE and RESERVATIONS, on behalf of an ioctl. They wait out a lost connection as I/O
 * does, and are sent again with the same operation number (F8). One at a time for each volume and
 * on each queue, so that no user takes the reserved tags that the session needs. As with sd and
 * nvme, a key that comes first is the caller's own, and pr_preempt's second one that of the
 * victims; 0, a negative errno, or a PR_STS_ is returned.
 */
#include <linux/blkdev.h>
#include <linux/pr.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "kmod/disk.h"
#include "kmod/call.h"
#include "kmod/compat.h"
#include "kmod/memory.h"
#include "kmod/queue.h"
#include "kmod/waiting.h"
#include "proto/core/trace.h"
#include "proto/wire/wire_check.h"

/* The wire's types are the kernel's. */
static_assert((int)RBLK_RESERVATION_WRITE_EXCLUSIVE == PR_WRITE_EXCLUSIVE);
static_assert((int)RBLK_RESERVATION_EXCLUSIVE_ACCESS == PR_EXCLUSIVE_ACCESS);
static_assert((int)RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS == PR_WRITE_EXCLUSIVE_REG_ONLY);
static_assert((int)RBLK_RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS == PR_EXCLUSIVE_ACCESS_REG_ONLY);
static_assert((int)RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL == PR_WRITE_EXCLUSIVE_ALL_REGS);
static_assert((int)RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL == PR_EXCLUSIVE_ACCESS_ALL_REGS);

static struct rblk_disk *rblk_reservation_disk(struct block_device *bdev)
{
	return bdev->bd_disk->private_data;
}

/* -- what it takes: a queue, and a number -- */

/*
 * One at a time for each volume, also after a caller that was killed. F5: what was lost waits for
 * its fence.
 */
static bool rblk_reservation_waits(const struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;
	unsigned int i;

	lockdep_assert_held(&session->core_lock);
	for_each_set_bit(i, &session->reserving, session->queue_count)
		if (!memcmp(session->queues[i]->reserve_uuid, disk->uuid, sizeof(disk->uuid)))
			return true;
	return disk->unfenced | disk->reserve_unfenced;
}

/*
 * A queue that takes commands and carries no other of these, so that ABORT and FENCE find a tag
 * there; queue 0 last, since it carries OPEN and CLOSE, too. -1: not now.
 */
static int rblk_reservation_take_queue(struct rblk_disk *disk, struct rblk_session_command *sc)
{
	struct rblk_session *session = disk->session;
	const struct core_session *core = &session->core;
	int i = -1;

	spin_lock_irq(&session->core_lock);
	if (core->state == CORE_SESSION_LIVE && disk->ready && !rblk_reservation_waits(disk))
		for (i = core->queues - 1; i >= 0; i--)
			if (core_session_carries(core, i) && !session->queues[i]->polled &&
			    !test_bit(i, &session->reserving))
				break;
	if (i >= 0) {
		__set_bit(i, &session->reserving);
		memcpy(session->queues[i]->reserve_uuid, disk->uuid, sizeof(disk->uuid));
		sc->volume = disk->handle;
		sc->epoch = disk->epoch;
	}
	spin_unlock_irq(&session->core_lock);
	return i;
}

static void rblk_reservation_put_queue(struct rblk_session *session, int queue)
{
	unsigned long flags;

	rblk_trace_put_queue(session, queue);
	spin_lock_irqsave(&session->core_lock, flags);
	__clear_bit(queue, &session->reserving);
	spin_unlock_irqrestore(&session->core_lock, flags);
	wake_up_all(&session->wait);
}

static u64 rblk_reservation_place(u64 number)
{
	static_assert(RBLK_OPERATIONS_MAX == 64);
	return 1ull << number % RBLK_OPERATIONS_MAX;
}

/* F8: the next one, when that which had its place was answered. */
static bool rblk_reservation_take_number(struct rblk_session *session, u64 *number)
{
	bool free;

	spin_lock_irq(&session->core_lock);
	*number = session->operation + 1;
	free = !(session->operations & rblk_reservation_place(*number));
	if (free) {
		session->operations |= rblk_reservation_place(*number);
		session->operation = *number;
	}
	spin_unlock_irq(&session->core_lock);
	return free;
}

/* `lost`: it was not answered, and the target may carry it out until the fence (F5). */
static void rblk_reservation_put_number(struct rblk_session *session, u64 number, bool lost)
{
	u64 place = rblk_reservation_place(number);
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	if (lost && session->unfenced)
		session->operations_lost |= place;
	else
		session->operations &= ~place;
	spin_unlock_irqrestore(&session->core_lock, flags);
	wake_up_all(&session->wait);
}

/* rblk_left_fn of RESERVE: nobody sends it again, but the next RESERVE comes after its fence. */
static void rblk_reservation_left(struct rblk_session *session, const struct rblk_call *call,
				  void *arg)
{
	bool lost = call->command.error;

	rblk_trace_left_reserve(call);
	if (lost)
		rblk_waiting_owe_reserve(session, call->command.queue->index);
	rblk_reservation_put_number(session, rblk_le64(call->command.wire.argument), lost);
	rblk_reservation_put_queue(session, call->command.queue->index);
}

/* -- sending, and sending again -- */

/* There is a queue for it; or, without one, the disk is over. */
static bool rblk_reservation_may_go(struct rblk_disk *disk, struct rblk_session_command *sc,
				    int *queue)
{
	if (READ_ONCE(disk->gate) == RBLK_GATE_FAIL || core_session_over(&disk->session->core))
		return true;
	*queue = rblk_reservation_take_queue(disk, sc);
	return *queue >= 0;
}

/* Once, as soon as there is a queue for it. *lost: it may have been lost with that. */
static int rblk_reservation_send(struct rblk_disk *disk, struct rblk_session_command *sc,
				 bool *lost)
{
	struct rblk_session *session = disk->session;
	int queue = -1, error;

	sc->status = RBLK_OK;
	sc->was_left = false;
	if (wait_event_killable(session->wait, rblk_reservation_may_go(disk, sc, &queue)))
		return -EINTR;
	if (queue < 0)
		return -ENOLINK;
	rblk_trace_reserve(session->queues[queue], sc);
	error = rblk_call_run(session->queues[queue], sc);
	rblk_trace_reserved(session->queues[queue], sc, error);
	if (sc->was_left)
		return error; /* the rest is rblk_reservation_left()'s, which may have done it */
	if (error && !sc->status && error != -EBUSY) {
		rblk_waiting_owe_reserve(session, queue);
		*lost = true;
	}
	rblk_reservation_put_queue(session, queue);
	return error;
}

/*
 * Until it is answered for good, the session or the disk is over, or the caller is killed. What is
 * refused is asked for again for give_up_ms. A success takes as long as the storage I/O that it has
 * to wait for.
 */
static int rblk_reservation_run(struct rblk_disk *disk, struct rblk_session_command *sc)
{
	unsigned long end = jiffies + msecs_to_jiffies(disk->session->options.give_up_ms);
	unsigned int times = 0;
	bool lost = false, refused;
	int error;

	lockdep_assert_held(&disk->reservation_lock);
	for (;;) {
		error = rblk_reservation_send(disk, sc, &lost);
		if (!error || error == -EINTR || error == -ENOLINK)
			return error;
		refused = sc->status == RBLK_E_BUSY || sc->status == RBLK_E_DRAINING ||
			  (!sc->status && error == -EBUSY); /* no tag */
		if (refused ? time_after(jiffies, end) : sc->status)
			return error;
		/*
		 * A refused command did nothing: as a retry, a PREEMPT would succeed that another
		 * one has overtaken.
		 */
		if (lost)
			sc->flags = RBLK_CMD_RETRY;
		schedule_timeout_killable(msecs_to_jiffies(rblk_waiting_pause_ms(++times)));
		if (fatal_signal_pending(current))
			return -EINTR;
	}
}

/* -- changing -- */

static int rblk_reserve(struct rblk_disk *disk, const struct rblk_wire_reservation *reservation)
{
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_RESERVE,
		.payload = reservation,
		.payload_bytes = sizeof(*reservation),
		.left = rblk_reservation_left,
	};
	struct rblk_session *session = disk->session;
	int error;

	if (rblk_check_reservation(reservation, sizeof(*reservation)))
		return -EINVAL;
	if (mutex_lock_killable(&disk->reservation_lock))
		return -EINTR;
	error = wait_event_killable(session->wait,
				    rblk_reservation_take_number(session, &sc.argument));
	if (!error) {
		error = rblk_reservation_run(disk, &sc);
		if (!sc.was_left)
			rblk_reservation_put_number(session, sc.argument, error &&
						    (!sc.status || sc.flags & RBLK_CMD_RETRY));
	}
	mutex_unlock(&disk->reservation_lock);
	return error && sc.status == RBLK_E_RESERVED ? PR_STS_RESERVATION_CONFLICT : error;
}

/* As with sd and nvme, registrations persist (APTPL) wherever that is possible. */
static int rblk_pr_register(struct block_device *bdev, u64 old_key, u64 new_key, u32 flags)
{
	struct rblk_disk *disk = rblk_reservation_disk(bdev);
	struct rblk_wire_reservation r = {
		.new_key = rblk_to_le64(new_key),
		.action = RBLK_RESERVE_REGISTER,
	};

	if (flags & ~PR_FL_IGNORE_KEY)
		return -EOPNOTSUPP;
	if (flags & PR_FL_IGNORE_KEY)
		r.flags |= RBLK_RESERVE_IGNORE_KEY;
	else
		r.key = rblk_to_le64(old_key);
	if (new_key && READ_ONCE(disk->volume_flags) & RBLK_VOLUME_RESERVATIONS_PERSIST)
		r.flags |= RBLK_RESERVE_PERSIST;
	return rblk_reserve(disk, &r);
}

static int rblk_reserve_by_key(struct block_device *bdev, u8 action, u64 key, u8 type,
			       u64 other_key, u8 flags)
{
	const struct rblk_wire_reservation r = {
		.key = rblk_to_le64(key),
		.other_key = rblk_to_le64(other_key),
		.action = action,
		.type = type,
		.flags = flags,
	};

	return rblk_reserve(rblk_reservation_disk(bdev), &r);
}

static int rblk_pr_reserve(struct block_device *bdev, u64 key, enum pr_type type, u32 flags)
{
	return flags ? -EOPNOTSUPP :
		       rblk_reserve_by_key(bdev, RBLK_RESERVE_ACQUIRE, key, type, 0, 0);
}

static int rblk_pr_release(struct block_device *bdev, u64 key, enum pr_type type)
{
	return rblk_reserve_by_key(bdev, RBLK_RESERVE_RELEASE, key, type, 0, 0);
}

static int rblk_pr_preempt(struct block_device *bdev, u64 own_key, u64 other_key, enum pr_type type,
			   bool abort)
{
	return rblk_reserve_by_key(bdev, RBLK_RESERVE_PREEMPT, own_key, type, other_key,
				   abort ? RBLK_RESERVE_ABORT : 0);
}

static int rblk_pr_clear(struct block_device *bdev, u64 key)
{
	return rblk_reserve_by_key(bdev, RBLK_RESERVE_CLEAR, key, 0, 0, 0);
}

/* -- reading -- */

#ifdef RBLK_COMPAT_PR_READ

/* As many as a reserved tag's slot holds: 51. */
#define RBLK_REPORT_REGISTRANTS                                                \
	((RBLK_SLOT_BYTES_MIN - sizeof(struct rblk_wire_reservation_report)) / \
	 sizeof(struct rblk_wire_registrant))

struct rblk_report {
	struct rblk_wire_reservation_report head;
	struct rblk_wire_registrant registrants[RBLK_REPORT_REGISTRANTS];
};

/* rblk_left_fn of RESERVATIONS: its report is in the slot, and nobody reads it. */
static void rblk_reservation_unread(struct rblk_session *session, const struct rblk_call *call,
				    void *arg)
{
	rblk_reservation_put_queue(session, call->command.queue->index);
}

/* To be freed with kfree(); or an error. */
static struct rblk_report *rblk_reservation_report(struct rblk_disk *disk)
{
	struct rblk_report *report = kzalloc(sizeof(*report), GFP_KERNEL);
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_RESERVATIONS,
		.report = report,
		.report_bytes = sizeof(*report),
		.left = rblk_reservation_unread,
	};
	int error = -EINTR;

	if (!report)
		return ERR_PTR(-ENOMEM);
	if (!mutex_lock_killable(&disk->reservation_lock)) {
		error = rblk_reservation_run(disk, &sc);
		mutex_unlock(&disk->reservation_lock);
	}
	if (!error && rblk_check_reservation_report(report, sizeof(*report)))
		error = -EPROTO;
	if (!error)
		return report;
	kfree(report);
	return ERR_PTR(error);
}

static int rblk_pr_read_keys(struct block_device *bdev, struct pr_keys *keys)
{
	struct rblk_report *report = rblk_reservation_report(rblk_reservation_disk(bdev));
	u32 i, count, total;

	if (IS_ERR(report))
		return PTR_ERR(report);
	count = rblk_le32(report->head.registrants);
	total = rblk_le32(report->head.total);
	if (min(keys->num_keys, total) > count) {
		kfree(report); /* there is room for more than can be read */
		return -E2BIG;
	}
	for (i = 0; i < min(keys->num_keys, count); i++)
		keys->keys[i] = rblk_le64(report->registrants[i].key);
	keys->generation = rblk_le32(report->head.generation);
	keys->num_keys = total;
	kfree(report);
	return 0;
}

static int rblk_pr_read_reservation(struct block_device *bdev, struct pr_held_reservation *held)
{
	struct rblk_report *report = rblk_reservation_report(rblk_reservation_disk(bdev));
	u32 i;

	if (IS_ERR(report))
		return PTR_ERR(report);
	held->generation = rblk_le32(report->head.generation);
	held->type = report->head.type;
	for (i = 0; i < rblk_le32(report->head.registrants); i++) {
		if (!report->registrants[i].holder)
			continue;
		held->key = rblk_le64(report->registrants[i].key);
		break;
	}
	kfree(report);
	return 0;
}

#endif

const struct pr_ops rblk_pr_ops = {
	.pr_register = rblk_pr_register,
	.pr_reserve = rblk_pr_reserve,
	.pr_release = rblk_pr_release,
	.pr_preempt = rblk_pr_preempt,
	.pr_clear = rblk_pr_clear,
#ifdef RBLK_COMPAT_PR_READ
	.pr_read_keys = rblk_pr_read_keys,
	.pr_read_reservation = rblk_pr_read_reservation,
#endif
};
