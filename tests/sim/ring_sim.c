/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * target/store/ring.h on simulated disks: the stores fill in the same submission entries as on a real
 * io_uring, and what the kernel would do with them is done by disk.c. Linked instead of
 * target/store/ring.c.
 */
#include "target/store/ring.h"

#include <errno.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include "target/store/store.h"
#include "tests/sim/actor.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/fiber.h"
#include "tests/sim/random.h"
#include "tests/sim/thread.h"
#include "tests/sim/rules.h"
#include "tests/sim/trace.h"

#define ENTRIES 128u
#define FILES 64u
#define WATCHES 8u
/* A turn of a thread takes so long at least. */
#define TURN_NS (1 * SIM_US)

/* A completion that has not been reaped. */
struct ring_slot {
	TAILQ_ENTRY(ring_slot) link;
	struct tgt_ring_op *op;
	int result;
	struct sim_disk *lost_by; /* NULL, or the disk whose failed SYNC this reports */
};

struct tgt_ring {
	struct sim_actor *actor;
	bool dead;
	struct io_uring_sqe sqes[ENTRIES];
	struct tgt_ring_op *ops[ENTRIES];
	unsigned int prepared;
	unsigned int inflight;
	TAILQ_HEAD(, ring_slot) done;
	const struct tgt_ring_op *failed; /* while its failure is being told */
	const struct tgt_ring_op *reaped; /* while its completion is */
	const struct tgt_ring_op *owed;	  /* that found no room to go on: to be tried again */
	struct sim_file *files[FILES];
	int watches[WATCHES];
	unsigned int watch_count;
	struct tgt_messages messages;
};

static unsigned int rings;

unsigned int sim_ring_count(void)
{
	return rings;
}

int tgt_ring_create(unsigned int depth, unsigned int max_files, struct tgt_ring **out)
{
	struct tgt_ring *ring = calloc(1, sizeof(*ring));

	(void)depth;
	(void)max_files;
	if (!ring)
		return -ENOMEM;
	ring->actor = sim_actor_self();
	TAILQ_INIT(&ring->done);
	if (tgt_messages_init(&ring->messages))
		sim_fail("%s: no messages", ring->actor->name);
	tgt_ring_watch(ring, ring->messages.fd);
	rings++;
	*out = ring;
	return 0;
}

void tgt_ring_destroy(struct tgt_ring *ring)
{
	if (!ring)
		return;
	if ((ring->inflight || ring->messages.own_expected) && !ring->dead)
		sim_fail("%s: its ring is destroyed with I/O in flight", ring->actor->name);
	rings--;
	tgt_messages_fini(&ring->messages);
	free(ring);
}

static void ring_push(struct tgt_ring *ring);

static bool ring_refuses(const struct tgt_ring *ring)
{
	return !ring->dead && !sim_net.calm && sim_chance(sim_net.refuse);
}

struct io_uring_sqe *tgt_ring_get(struct tgt_ring *ring, struct tgt_ring_op *op)
{
	struct io_uring_sqe *sqe;

	if (ring->failed && ring->failed == op)
		sim_fail("%s: I/O that has failed is submitted again", ring->actor->name);
	if (ring->prepared == ENTRIES)
		ring_push(ring);
	if (ring_refuses(ring)) {
		const struct tgt_io *io = (const struct tgt_io *)op;

		/* What has completed in part, and wants to go on. */
		ring->owed = ring->reaped == op && (io->progress || io->retries) ? op : NULL;
		sim_reached("ring", "is full", ring->owed ? "for what was begun" : NULL);
		return NULL;
	}
	sqe = &ring->sqes[ring->prepared];
	memset(sqe, 0, sizeof(*sqe));
	ring->ops[ring->prepared++] = op;
	ring->inflight++;
	return sqe;
}

/* -- what the kernel does ------------------------------------------------------------------ */

static void ring_complete(struct tgt_ring *ring, struct tgt_ring_op *op, int result,
			  struct sim_disk *lost_by)
{
	struct ring_slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		sim_fail("out of memory");
	slot->op = op;
	slot->result = result;
	slot->lost_by = lost_by;
	TAILQ_INSERT_TAIL(&ring->done, slot, link);
	if (!ring->dead)
		sim_actor_wake(ring->actor);
}

void sim_ring_done(struct tgt_ring *ring, struct sim_io *io)
{
	ring_complete(ring, io->op, io->result, io->lost ? io->file->disk : NULL);
}

void tgt_ring_retry(struct tgt_ring *ring, struct tgt_ring_op *op)
{
	ring->owed = NULL;
	ring->inflight++;
	ring_complete(ring, op, TGT_RING_NO_ROOM, NULL);
}

void tgt_ring_own(struct tgt_ring *ring, struct tgt_reactor *reactor, _Atomic unsigned int *messages)
{
	ring->messages.reactor = reactor;
	if (messages)
		ring->messages.expected = messages;
}

void tgt_ring_expect(struct tgt_ring *ring)
{
	atomic_fetch_add(ring->messages.expected, 1);
}

void tgt_ring_post(struct tgt_ring *ring, struct tgt_message *message)
{
	tgt_messages_send(&ring->messages, message);
}

bool sim_ring_has_messages(const struct tgt_ring *ring)
{
	return ring->messages.taken ||
	       (atomic_load(&ring->messages.top) && !sim_eventfd_ready(ring->messages.fd));
}

static bool sqe_decode(const struct io_uring_sqe *sqe, struct sim_io *io)
{
	io->offset = sqe->off;
	io->bytes = sqe->len;
	io->buffer = (uint8_t *)(uintptr_t)sqe->addr;
	switch (sqe->opcode) {
	case IORING_OP_READ:
	case IORING_OP_READ_FIXED:
		io->kind = SIM_IO_READ;
		return true;
	case IORING_OP_WRITE:
	case IORING_OP_WRITE_FIXED:
		io->kind = SIM_IO_WRITE;
		io->durable = sqe->rw_flags & RWF_DSYNC;
		io->untorn = sqe->rw_flags & TGT_RWF_ATOMIC;
		return true;
	case IORING_OP_FSYNC:
		io->kind = SIM_IO_SYNC;
		io->offset = io->bytes = 0;
		return true;
	case IORING_OP_FALLOCATE:
		io->kind = SIM_IO_ZERO;
		io->bytes = sqe->addr;
		return true;
	}
	return false;
}

static void ring_start(struct tgt_ring *ring, const struct io_uring_sqe *sqe,
		       struct tgt_ring_op *op)
{
	struct sim_file *file;
	struct sim_io *io;

	if (ring->dead) {
		ring_complete(ring, op, -EIO, NULL);
		return;
	}
	file = (unsigned int)sqe->fd < FILES ? ring->files[sqe->fd] : NULL;
	io = calloc(1, sizeof(*io));
	if (!io || !file || !(sqe->flags & IOSQE_FIXED_FILE) || !sqe_decode(sqe, io))
		sim_fail("%s: a submission that the kernel would refuse", ring->actor->name);
	io->file = file;
	io->ring = ring;
	io->op = op;
	io->fua = ((const struct tgt_io *)op)->flags & TGT_IO_FUA;
	sim_trace(ring->actor->name, "io %d to %s at %llu+%llu%s%s", io->kind, file->disk->path,
		  (unsigned long long)io->offset, (unsigned long long)io->bytes,
		  io->durable ? " durable" : "", io->untorn ? " untorn" : "");
	if (io->buffer)
		sim_rules_storing(ring->actor, io->buffer, io->bytes);
	sim_disk_start(io);
}

static void ring_push(struct tgt_ring *ring)
{
	unsigned int count = ring->prepared, taken = count;

	/* The kernel is short of memory: the rest is for the next time. */
	if (count > 1 && !ring->dead && !sim_net.calm && sim_chance(sim_net.refuse)) {
		taken = (unsigned int)sim_between(1, count - 1);
		sim_reached("ring", "takes a part of what is submitted", NULL);
	}
	for (unsigned int i = 0; i < taken; i++)
		ring_start(ring, &ring->sqes[i], ring->ops[i]);
	ring->prepared = count - taken;
	memmove(ring->sqes, ring->sqes + taken, ring->prepared * sizeof(ring->sqes[0]));
	memmove(ring->ops, ring->ops + taken, ring->prepared * sizeof(ring->ops[0]));
}

int tgt_ring_submit(struct tgt_ring *ring)
{
	/* It or tgt_ring_wait() is called once a turn: a loop that does not end lets time pass, and is found out. */
	if (sim_fiber_self())
		sim_fiber_sleep(TURN_NS + sim_below(TURN_NS));
	ring_push(ring);
	return 0;
}

unsigned int tgt_ring_reap(struct tgt_ring *ring, unsigned int budget)
{
	unsigned int done = 0;

	sim_fiber_preempt();
	while (done < budget && !TAILQ_EMPTY(&ring->done)) {
		struct ring_slot *slot = TAILQ_FIRST(&ring->done);
		struct tgt_ring_op *op = slot->op;
		int result = slot->result;

		if (slot->lost_by)
			slot->lost_by->told(slot->lost_by->user, !ring->dead);
		TAILQ_REMOVE(&ring->done, slot, link);
		free(slot);
		ring->inflight--;
		ring->failed = result == -EIO ? op : NULL;
		ring->reaped = op;
		op->complete(op, result, 0);
		ring->failed = ring->reaped = NULL;
		if (ring->owed)
			sim_fail("%s: I/O that was begun is given up for want of room", ring->actor->name);
		done++;
	}
	return done + tgt_messages_run(&ring->messages, TGT_RING_MESSAGES);
}

unsigned int tgt_ring_inflight(const struct tgt_ring *ring)
{
	return ring->inflight + atomic_load(&ring->messages.own_expected);
}

/* Watches are looked at by their level. */
static bool ring_ready(const struct tgt_ring *ring)
{
	bool ready = !TAILQ_EMPTY(&ring->done);

	for (unsigned int i = 0; i < ring->watch_count; i++)
		ready |= sim_fd_ready(ring->watches[i]);
	return ready;
}

int tgt_ring_wait(struct tgt_ring *ring, int timeout_ms)
{
	uint64_t until_ns =
		timeout_ms < 0 ? UINT64_MAX : sim_now_ns() + (uint64_t)timeout_ms * SIM_MS;

	do
		tgt_ring_submit(ring);
	while (ring->prepared);
	if (ring->dead) {
		sim_fiber_wait(0);
		return 0;
	}
	if (!tgt_messages_settle(&ring->messages))
		return 0;
	((struct sim_thread *)ring->actor)->sleeps((struct sim_thread *)ring->actor);
	while (!ring_ready(ring) && sim_now_ns() < until_ns && !ring->dead)
		sim_fiber_wait(until_ns == UINT64_MAX ? UINT64_MAX : until_ns - sim_now_ns());
	return 0;
}

/* Fabs send by themselves. */
bool tgt_ring_sendmsg(struct tgt_ring *ring, int fd, const struct msghdr *message)
{
	(void)ring;
	(void)fd;
	(void)message;
	return false;
}

int tgt_ring_sent(struct tgt_ring *ring, int bytes)
{
	(void)bytes;
	sim_fail("%s: its ring sends nothing", ring->actor->name);
}

/* Memory and descriptors need no registration here. */
int tgt_ring_register_buffers(struct tgt_ring *ring, const struct iovec *iov, unsigned int count)
{
	(void)ring;
	(void)iov;
	(void)count;
	return 0;
}

int tgt_ring_watch(struct tgt_ring *ring, int fd)
{
	if (ring->watch_count == WATCHES)
		sim_fail("%s: too many watches", ring->actor->name);
	ring->watches[ring->watch_count++] = fd;
	sim_eventfd_watched(fd, ring->actor);
	return 0;
}

int tgt_ring_register_file(struct tgt_ring *ring, int fd, unsigned int blocking)
{
	(void)blocking; /* each operation here has a time of its own */
	for (unsigned int i = 0; i < FILES; i++) {
		if (ring->files[i])
			continue;
		ring->files[i] = sim_file_of_fd(fd);
		return ring->files[i] ? (int)i : -EBADF;
	}
	return -ENFILE;
}

void tgt_ring_unregister_file(struct tgt_ring *ring, int index)
{
	ring->files[index] = NULL;
}

/* No disk here takes NVMe commands. */
int tgt_ring_widen(struct tgt_ring *ring)
{
	(void)ring;
	return -EINVAL;
}

struct io_uring_sqe *tgt_ring_get_wide(struct tgt_ring *ring, struct tgt_ring_op *op)
{
	(void)op;
	sim_fail("%s: its ring has no wide half", ring->actor->name);
}

int tgt_ring_register_wide_file(struct tgt_ring *ring, int fd)
{
	(void)fd;
	sim_fail("%s: its ring has no wide half", ring->actor->name);
}

void tgt_ring_unregister_wide_file(struct tgt_ring *ring, int index)
{
	(void)index;
	sim_fail("%s: its ring has no wide half", ring->actor->name);
}

bool tgt_ring_wide_has_buffer(const struct tgt_ring *ring, int index)
{
	(void)ring;
	(void)index;
	return false;
}

void sim_ring_kill(struct tgt_ring *ring)
{
	ring->dead = true;
	for (unsigned int i = 0; i < FILES; i++) {
		struct sim_io *io;

		if (!ring->files[i])
			continue;
		TAILQ_FOREACH(io, &ring->files[i]->disk->inflight, link) {
			if (io->ring != ring)
				continue;
			ring_complete(ring, io->op, -EIO, NULL);
			sim_disk_orphan(io);
		}
	}
	tgt_ring_submit(ring);
}
