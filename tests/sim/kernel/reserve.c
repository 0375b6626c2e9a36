/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ioctls of the module's pr_ops (module_kernel.h), as a kernel gives them to programs: what was sent and
 * answered is looked at on its way.
 */
#include "tests/sim/kernel/reserve.h"

#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/queue.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/kernel/block.h"
#include "tests/sim/kernel/module_kernel.h"
#include "tests/sim/random.h"
#include "tests/sim/seen.h"

#define CALLERS_MAX 4u

/* An ioctl under way, by the program that waits in it. */
static struct ioctl {
	const void *context; /* NULL: free */
	bool answered;
	u16 status;
	struct sim_disk_lost lost; /* the last attempt */
	struct sim_disk_lost now;  /* if the one that is under way is lost */
	struct sent *sent;	   /* likewise */
	u64 number;		   /* F8; 0: a reader */
	const struct rblk_disk *disk;
} ioctls[CALLERS_MAX];

/*
 * RESERVEs under way, and those whose program was killed and that were lost afterwards: no other one goes to their volume
 * before the fence (F5).
 */
#define SENT_MAX 64u
static struct sent {
	u64 number; /* F8; 0: free */
	u8 uuid[16];
	bool left; /* its program waits no more */
	struct sim_disk_lost lost; /* what it is lost with, once .lost */
} sents[SENT_MAX];

static struct sent *sent_find(const u8 session_id[16], u64 number)
{
	for (unsigned int i = 0; i < SENT_MAX; i++)
		if (sents[i].number == number && !sents[i].lost.lost &&
		    (!number || !memcmp(sents[i].lost.session_id, session_id, sizeof(sents[i].lost.session_id))))
			return &sents[i];
	return NULL;
}

void sim_reserve_reset(void)
{
	memset(sents, 0, sizeof(sents));
}

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

/* Is the fence owed of what was lost so? */
static bool is_owed(const struct rblk_disk *disk, const struct sim_disk_lost *lost)
{
	const struct core_session *core = &disk->session->core;
	const struct core_lost *owed = &core->queue[lost->queue].lost;

	return lost->lost && !memcmp(lost->session_id, disk->session->session_id, sizeof(lost->session_id)) &&
	       core->epoch == lost->epoch && owed->waits && !owed->fenced && owed->incarnation >= lost->incarnation &&
	       !sim_volume_is_fenced(disk, lost);
}

/* F8: a number that was lost keeps its place while the target may still carry it out. */
static void check_number(const struct rblk_disk *disk, u64 number, const struct sim_disk_lost *lost)
{
	const struct rblk_session *session = disk->session;

	if (number && is_owed(disk, lost) && !core_session_over(&session->core) &&
	    !(session->operations & 1ull << number % RBLK_OPERATIONS_MAX))
		sim_fail("the kernel: the number of a RESERVE that was lost is free, and a fence is owed for it (F8)");
}

/* Likewise, of those whose programs were killed. */
static void check_numbers(const struct rblk_disk *disk)
{
	for (unsigned int i = 0; i < SENT_MAX; i++)
		if (sents[i].left)
			check_number(disk, sents[i].number, &sents[i].lost);
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
	if (!answer.answered)
		check_number(ioctl->disk, ioctl->number, &ioctl->lost);
	check_numbers(ioctl->disk);
	ioctl->context = NULL;
	return answer;
}

/* -- on its way ------------------------------------------------------------------------------------- */

/* Those of other programs, by any disk of its volume: the fence is known of one that was lost. */
static void check_others(const struct ioctl *own)
{
	for (unsigned int i = 0; i < CALLERS_MAX; i++) {
		const struct ioctl *other = &ioctls[i];

		if (other == own || !other->context || !other->number || !is_owed(own->disk, &other->lost) ||
		    memcmp(other->disk->uuid, own->disk->uuid, sizeof(own->disk->uuid)))
			continue;
		sim_fail("the kernel: RESERVE is sent, and a fence is owed for another program's (F5)");
	}
}

/* Those whose program was killed: each has ended, and the fence is known of one that was lost. */
static void check_left(const struct rblk_disk *disk)
{
	for (unsigned int i = 0; i < SENT_MAX; i++) {
		struct sent *sent = &sents[i];

		if (!sent->number || !sent->left || memcmp(sent->uuid, disk->uuid, sizeof(sent->uuid)) ||
		    memcmp(sent->lost.session_id, disk->session->session_id, sizeof(sent->lost.session_id)))
			continue;
		if (!sent->lost.lost)
			sim_fail("the kernel: RESERVE is sent, and one of its volume is outstanding that was left");
		sim_reached("module", "RESERVE follows one that was left and lost", NULL);
		if (is_owed(disk, &sent->lost))
			sim_fail("the kernel: RESERVE is sent, and a fence is owed for one that was left (F5)");
		sent->number = 0;
	}
}

/* F5: an earlier attempt is over. Section 3: RETRY is of those that were lost, and of no others. */
static void attempt_check(const struct ioctl *ioctl, const struct rblk_queue *queue,
			  const struct rblk_session_command *sc)
{
	bool retry = sc->flags & RBLK_CMD_RETRY;

	if (retry && !ioctl->lost.lost)
		sim_fail("the kernel: RESERVE says that it was lost before, and it was not");
	if (!retry && ioctl->lost.lost)
		sim_fail("the kernel: RESERVE does not say that it was lost before");
	/* The queue may have been lost since it was chosen: then nothing is sent on it. */
	if (!core_session_carries(&queue->session->core, queue->index))
		return;
	if (is_owed(ioctl->disk, &ioctl->lost))
		sim_fail("the kernel: RESERVE is sent again, and a fence is owed for it (F5)");
	if (sc->opcode != RBLK_OP_RESERVE)
		return;
	check_others(ioctl);
	check_left(ioctl->disk);
}

/* Its program waits for it. NULL: a reader, or too many were left. */
static struct sent *sent_begin(const struct rblk_disk *disk, const struct rblk_queue *queue,
			       const struct rblk_session_command *sc)
{
	struct sent *sent = sc->opcode == RBLK_OP_RESERVE ? sent_find(NULL, 0) : NULL;

	if (!sent)
		return NULL;
	*sent = (struct sent){ .number = sc->argument, .lost.queue = queue->index };
	memcpy(sent->uuid, disk->uuid, sizeof(sent->uuid));
	memcpy(sent->lost.session_id, disk->session->session_id, sizeof(sent->lost.session_id));
	return sent;
}

static void sent_end(struct sent *sent, const struct rblk_session_command *sc, int error)
{
	if (!sent || sent->lost.lost)
		return;
	if (!sc->was_left) {
		sent->number = 0;
		return;
	}
	/* It may have ended already. */
	sent->left = sent->number;
	if (error == -EINTR)
		sim_reached("module", "a program is killed that reserves", NULL);
}

void sim_seen_left_reserve(const struct rblk_call *call)
{
	const struct rblk_queue *queue = call->command.queue;
	struct sent *sent = sent_find(queue->session->session_id, rblk_le64(call->command.wire.argument));

	sim_reached("point", "left_reserve", NULL);
	if (!sent)
		return;
	if (!call->command.error) {
		sent->number = 0;
		return;
	}
	sim_reached("module", "a RESERVE that was left is lost", NULL);
	sent->lost.lost = true;
	sent->lost.epoch = queue->epoch;
	sent->lost.incarnation = queue->incarnation;
}

/* F5: from now on the next RESERVE may be sent; the session knows that it owes the fence of one that was lost. */
static void check_owed(const struct rblk_session *session, const u8 uuid[16], unsigned int queue,
		       const struct sim_disk_lost *lost)
{
	const struct rblk_disk *disk;

	if (lost->queue != queue || core_session_over(&session->core))
		return;
	list_for_each_entry(disk, &session->disks, peer)
		if (!memcmp(disk->uuid, uuid, sizeof(disk->uuid)) && is_owed(disk, lost) &&
		    !(session->unfenced & 1ul << queue))
			sim_fail("the kernel: a lost RESERVE's queue is given back before its fence is owed (F5)");
}

void sim_seen_put_queue(const struct rblk_session *session, unsigned int queue)
{
	sim_reached("point", "put_queue", NULL);
	for (unsigned int i = 0; i < CALLERS_MAX; i++)
		if (ioctls[i].context && ioctls[i].number)
			check_owed(session, ioctls[i].disk->uuid, queue, &ioctls[i].lost);
	for (unsigned int i = 0; i < SENT_MAX; i++)
		if (sents[i].left)
			check_owed(session, sents[i].uuid, queue, &sents[i].lost);
}

/* One of the disk's volume, whose program was killed, is outstanding; or NULL. */
static const struct sent *sent_left(const struct rblk_disk *disk)
{
	for (unsigned int i = 0; i < SENT_MAX; i++)
		if (sents[i].number && sents[i].left && !sents[i].lost.lost &&
		    !memcmp(sents[i].uuid, disk->uuid, sizeof(sents[i].uuid)) &&
		    !memcmp(sents[i].lost.session_id, disk->session->session_id, sizeof(sents[i].lost.session_id)))
			return &sents[i];
	return NULL;
}

bool sim_reserve_left(const struct rblk_disk *disk)
{
	return sent_left(disk);
}

/* The next program comes when its connection has just been lost. */
static void lose_left(const struct rblk_disk *disk)
{
	const struct sent *sent = sent_left(disk);

	if (sent && !sim_net.calm && sim_chance(800000))
		rblk_queue_lost(disk->session->queues[sent->lost.queue], "killed by its user");
}

void sim_seen_reserve(const struct rblk_queue *queue, const struct rblk_session_command *sc)
{
	struct ioctl *ioctl = ioctl_of(sim_context());

	sim_reached("point", "reserve", NULL);
	attempt_check(ioctl, queue, sc);
	ioctl->sent = sent_begin(ioctl->disk, queue, sc);
	ioctl->number = sc->opcode == RBLK_OP_RESERVE ? sc->argument : 0;
	ioctl->now = (struct sim_disk_lost){ .lost = true, .queue = queue->index, .epoch = queue->epoch,
					     .incarnation = queue->incarnation };
	memcpy(ioctl->now.session_id, queue->session->session_id, sizeof(ioctl->now.session_id));
}

void sim_seen_reserved(const struct rblk_queue *queue, const struct rblk_session_command *sc, int error)
{
	struct ioctl *ioctl = ioctl_of(sim_context());

	sim_reached("point", "reserved", NULL);
	sent_end(ioctl->sent, sc, error);
	/* Answered when its program had been killed, and did not know it yet. */
	if (sc->was_left && ioctl->sent && !ioctl->sent->number) {
		sim_reached("module", "RESERVE is answered to a program that was killed", NULL);
		ioctl->number = 0;
	}
	ioctl->answered = !error || sc->status;
	ioctl->status = sc->status;
	if (!ioctl->answered && error != -EBUSY)
		ioctl->lost = ioctl->now;
}

/* -- the ioctls ----------------------------------------------------------------------------------------- */

bool sim_disk_open(struct rblk_disk *disk)
{
	if (disk->gendisk->fops->open(disk->gendisk))
		return false;
	sim_gendisk_get(disk->gendisk);
	return true;
}

void sim_disk_close(struct rblk_disk *disk)
{
	struct gendisk *gendisk = disk->gendisk;

	gendisk->fops->release(gendisk);
	sim_gendisk_put(gendisk);
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
	int error;

	lose_left(disk);
	sim_disk_kill_caller(100 * SIM_US);
	error = reserve_call(&bdev, asked);
	sim_kernel_spare();
	return ioctl_end(ioctl, error);
}

int sim_disk_read_keys(struct rblk_disk *disk, uint64_t *keys, unsigned int *count)
{
	struct block_device bdev = { disk->gendisk };
	struct ioctl *ioctl = ioctl_begin(disk);
	struct pr_keys read = { .num_keys = min(*count, (unsigned int)ARRAY_SIZE(read.keys)) };
	int error;

	sim_disk_kill_caller(2 * SIM_MS);
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
