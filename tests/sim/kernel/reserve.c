/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ioctls of the module's pr_ops (module_kernel.h), as a kernel gives them to programs: what was sent and
 * answered is looked at on its way.
 */
#include "tests/sim/kernel/reserve.h"

#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/queue.h"
#include "kmod/reservation.h"
#include "tests/sim/coverage.h"
#include "tests/sim/kernel/block.h"
#include "tests/sim/kernel/module_kernel.h"

#define CALLERS_MAX 4u

/* An ioctl under way, by the program that waits in it. */
static struct ioctl {
	const void *context; /* NULL: free */
	bool answered;
	u16 status;
	struct sim_disk_lost lost; /* the last attempt */
	const struct rblk_disk *disk;
} ioctls[CALLERS_MAX];

static struct ioctl *ioctl_of(const void *context)
{
	for (unsigned int i = 0; i < CALLERS_MAX; i++)
		if (ioctls[i].context == context)
			return &ioctls[i];
	sim_fail("the kernel: RESERVE of nobody, or of too many");
}

static struct ioctl *ioctl_begin(const struct rblk_disk *disk)
{
	struct ioctl *ioctl = ioctl_of(NULL);

	*ioctl = (struct ioctl){ .context = sim_context(), .disk = disk };
	return ioctl;
}

static struct sim_disk_answer ioctl_end(struct ioctl *ioctl, int error)
{
	struct sim_disk_answer answer = {
		.error = error, .answered = ioctl->answered, .status = ioctl->status, .lost = ioctl->lost.lost,
	};

	if (answer.answered && (answer.status == RBLK_OK) != !error)
		sim_fail("the kernel: an ioctl returns %d, and the answer was %u", error, answer.status);
	if (answer.answered && (answer.status == RBLK_E_RESERVED) != (error == PR_STS_RESERVATION_CONFLICT))
		sim_fail("the kernel: an ioctl returns %d, and the answer was %u", error, answer.status);
	ioctl->context = NULL;
	return answer;
}

/* -- on its way ------------------------------------------------------------------------------------- */

/* F5: an earlier attempt is over. Section 3: RETRY is of those that were lost, and of no others. */
static void attempt_check(const struct ioctl *ioctl, const struct rblk_queue *queue,
			  const struct rblk_session_command *sc)
{
	const struct core_session *core = &queue->session->core;
	const struct core_lost *owed = &core->queue[ioctl->lost.queue].lost;
	bool retry = sc->flags & RBLK_CMD_RETRY;

	if (retry && !ioctl->lost.lost)
		sim_fail("the kernel: RESERVE says that it was lost before, and it was not");
	if (!retry && ioctl->lost.lost)
		sim_fail("the kernel: RESERVE does not say that it was lost before");
	/* The queue may have been lost since it was chosen: then nothing is sent on it. */
	if (ioctl->lost.lost && core->epoch == ioctl->lost.epoch && core_session_carries(core, queue->index) &&
	    owed->waits && !owed->fenced && owed->incarnation >= ioctl->lost.incarnation &&
	    !sim_volume_is_fenced(ioctl->disk, &ioctl->lost))
		sim_fail("the kernel: RESERVE is sent again, and a fence is owed for it (F5)");
}

int __real_rblk_call_run(struct rblk_queue *queue, struct rblk_session_command *sc,
			 unsigned int timeout_ms);

int sim_reserve_run(struct rblk_queue *queue, struct rblk_session_command *sc, unsigned int timeout_ms)
{
	struct ioctl *ioctl = ioctl_of(sim_context());
	struct sim_disk_lost lost = { .lost = true, .queue = queue->index, .epoch = queue->epoch,
				      .incarnation = queue->incarnation };
	int error;

	attempt_check(ioctl, queue, sc);
	error = __real_rblk_call_run(queue, sc, timeout_ms);
	ioctl->answered = !error || sc->status;
	ioctl->status = sc->status;
	if (ioctl->answered || error == -EBUSY)
		return error;
	memcpy(lost.session_id, queue->session->session_id, sizeof(lost.session_id));
	ioctl->lost = lost;
	return error;
}

/* -- the ioctls ----------------------------------------------------------------------------------------- */

bool sim_disk_open(struct rblk_disk *disk)
{
	return !rblk_disk_open(disk);
}

void sim_disk_close(struct rblk_disk *disk)
{
	rblk_disk_release(disk);
}

static int reserve_call(struct block_device *bdev, const struct rblk_wire_reservation *asked)
{
	u64 key = rblk_le64(asked->key);
	enum pr_type type = asked->type;

	switch (asked->action) {
	case RBLK_RESERVE_REGISTER:
		return rblk_pr_ops.pr_register(bdev, key, rblk_le64(asked->new_key),
					       asked->flags & RBLK_RESERVE_IGNORE_KEY ? PR_FL_IGNORE_KEY : 0);
	case RBLK_RESERVE_ACQUIRE:
		return rblk_pr_ops.pr_reserve(bdev, key, type, 0);
	case RBLK_RESERVE_RELEASE:
		return rblk_pr_ops.pr_release(bdev, key, type);
	case RBLK_RESERVE_PREEMPT:
		return rblk_pr_ops.pr_preempt(bdev, key, rblk_le64(asked->other_key), type,
					      asked->flags & RBLK_RESERVE_ABORT);
	}
	return rblk_pr_ops.pr_clear(bdev, key);
}

struct sim_disk_answer sim_disk_reserve(struct rblk_disk *disk, const struct rblk_wire_reservation *asked)
{
	struct block_device bdev = { disk->gendisk };
	struct ioctl *ioctl = ioctl_begin(disk);

	return ioctl_end(ioctl, reserve_call(&bdev, asked));
}

int sim_disk_read_keys(struct rblk_disk *disk, uint64_t *keys, unsigned int *count)
{
	struct block_device bdev = { disk->gendisk };
	struct ioctl *ioctl = ioctl_begin(disk);
	struct pr_keys read = { .num_keys = min(*count, (unsigned int)ARRAY_SIZE(read.keys)) };
	int error;

	sim_disk_kill_caller();
	error = rblk_pr_ops.pr_read_keys(&bdev, &read);
	if (sim_kernel_spare() && error == -EINTR)
		sim_reached("module", "a reader of reservations is killed", NULL);
	ioctl->context = NULL;
	if (error)
		return error;
	memcpy(keys, read.keys, min(*count, read.num_keys) * sizeof(*keys));
	*count = read.num_keys;
	return 0;
}

int sim_disk_read_reservation(struct rblk_disk *disk, uint8_t *type, uint64_t *key)
{
	struct block_device bdev = { disk->gendisk };
	struct ioctl *ioctl = ioctl_begin(disk);
	struct pr_held_reservation held = { 0 };
	int error = rblk_pr_ops.pr_read_reservation(&bdev, &held);

	ioctl->context = NULL;
	*type = (uint8_t)held.type;
	*key = held.key;
	return error;
}
