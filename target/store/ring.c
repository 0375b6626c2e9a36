/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ring of ring.h on liburing. Watches are one-shot polls that are put back before each sleep:
 * a poll looks at the level when it is armed, so that no edge can be missed.
 */
#include "target/store/ring.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/core/env.h"

#define WATCHES_MAX 8
#define REAP_BATCH 32
/* How long to sleep when the kernel has taken nothing. */
#define RETRY_MS 1

struct ring_watch {
	struct tgt_ring_op op; /* first: leads back here */
	int fd;
	bool armed;
};

/* Entries of 128 bytes, completions of 32. */
struct ring_wide {
	struct io_uring uring;
	unsigned int inflight;
	unsigned int buffers; /* of the ring's table, from the first one on, that it has as well */
	bool *file_used;
};

struct tgt_ring {
	struct io_uring uring;
	struct ring_wide *wide; /* NULL: nobody has wanted it */
	unsigned int inflight; /* watches apart */
	unsigned int buffers;  /* of the fixed table in use */
	unsigned int max_files;
	unsigned int threads; /* of io-wq, for what blocks and has an end, without any file; 0: not asked yet */
	unsigned int blocking; /* the files' */
	unsigned int watch_count;
	struct ring_watch watches[WATCHES_MAX];
	/* They have no descriptor, and are no work: a send that may complete, and one whose result was taken. */
	struct ring_watch send, sent;
	struct io_uring_sqe *sending; /* its entry, until tgt_ring_sent() */
	bool sends;		      /* ring_tells_parts() */
	struct ring_file {
		bool used;
		unsigned int blocking;
	} *files;
	struct tgt_ring_op *again, **again_end; /* those that found no entry, in their order */
	struct tgt_messages messages;
	unsigned int depth;
	struct iovec buffer[TGT_RING_BUFFERS_MAX]; /* the fixed ones, for the wide half */
};

static void watch_complete(struct tgt_ring_op *op, int result, uint32_t flags)
{
	struct ring_watch *watch = (struct ring_watch *)op;

	(void)result;
	(void)flags;
	watch->armed = false;
}

/*
 * Completions are announced by a flag that peeking looks at, not by interrupting the thread that polls anyway; kernels
 * before 5.19 do not know that.
 */
#define SETUP_FLAGS (IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CLAMP)

/*
 * An entry's sendmsg() that sends less than all says how much since Linux 6.1, which also brought this opcode. Some
 * kernels before it do not say.
 */
static bool ring_tells_parts(struct tgt_ring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(&ring->uring);
	bool tells = probe && io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC);

	io_uring_free_probe(probe);
	return tells && ring->uring.features & IORING_FEAT_CQE_SKIP;
}

int tgt_ring_create(unsigned int depth, unsigned int max_files, struct tgt_ring **out)
{
	struct io_uring_params params = {.flags = SETUP_FLAGS};
	struct tgt_ring *ring = calloc(1, sizeof(*ring));
	int err;

	if (!ring)
		return -ENOMEM;
	err = io_uring_queue_init_params(depth, &ring->uring, &params);
	if (err == -EINVAL) {
		params = (struct io_uring_params){.flags = IORING_SETUP_CLAMP};
		err = io_uring_queue_init_params(depth, &ring->uring, &params);
	}
	if (err)
		goto err_free;
	ring->files = calloc(max_files ? max_files : 1, sizeof(*ring->files));
	err = -ENOMEM;
	if (!ring->files)
		goto err_exit;
	ring->again_end = &ring->again;
	ring->send.op.complete = ring->sent.op.complete = watch_complete;
	ring->sends = ring_tells_parts(ring);
	ring->max_files = max_files;
	ring->depth = depth;
	err = max_files ? io_uring_register_files_sparse(&ring->uring, max_files) : 0;
	if (err)
		goto err_files;
	err = io_uring_register_buffers_sparse(&ring->uring, TGT_RING_BUFFERS_MAX);
	if (err)
		goto err_files;
	err = tgt_messages_init(&ring->messages);
	if (err)
		goto err_files;
	tgt_ring_watch(ring, ring->messages.fd); /* the first: there is room */
	*out = ring;
	return 0;

err_files:
	free(ring->files);
err_exit:
	io_uring_queue_exit(&ring->uring);
err_free:
	free(ring);
	return err;
}

static void wide_destroy(struct ring_wide *wide)
{
	io_uring_unregister_files(&wide->uring);
	io_uring_queue_exit(&wide->uring);
	free(wide->file_used);
	free(wide);
}

void tgt_ring_destroy(struct tgt_ring *ring)
{
	if (!ring)
		return;
	/*
	 * Older kernels put a file that left the table up to a second later, and tear a ring down
	 * after its process has ended. Until then nobody else could open a block device exclusively.
	 * This waits for both.
	 */
	if (ring->wide)
		wide_destroy(ring->wide);
	io_uring_unregister_files(&ring->uring);
	io_uring_queue_exit(&ring->uring);
	while (tgt_messages_settle(&ring->messages) && ring->messages.owed)
		env_yield();
	tgt_messages_fini(&ring->messages);
	free(ring->files);
	free(ring);
}

static struct io_uring_sqe *uring_sqe(struct io_uring *uring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(uring);

	if (!sqe && io_uring_submit(uring) >= 0)
		sqe = io_uring_get_sqe(uring);
	return sqe;
}

struct io_uring_sqe *tgt_ring_get(struct tgt_ring *ring, struct tgt_ring_op *op)
{
	struct io_uring_sqe *sqe = uring_sqe(&ring->uring);

	if (!sqe)
		return NULL;
	/* The prep functions of liburing 2.3 leave user_data alone, but for those that clear all.
	 */
	io_uring_sqe_set_data(sqe, op);
	ring->inflight++;
	return sqe;
}

void tgt_ring_retry(struct tgt_ring *ring, struct tgt_ring_op *op)
{
	op->next = NULL;
	*ring->again_end = op;
	ring->again_end = &op->next;
	ring->inflight++;
}

/* Those that put themselves back are the next reap's. It counts as no work: the reactor may sleep until there is room. */
static void ring_retry(struct tgt_ring *ring)
{
	struct tgt_ring_op *op = ring->again, *next;

	ring->again = NULL;
	ring->again_end = &ring->again;
	for (; op; op = next) {
		next = op->next;
		ring->inflight--;
		op->complete(op, TGT_RING_NO_ROOM, 0);
	}
}

/* All or none: at the limit of locked memory the kernel takes some, and says how many. */
static int register_buffers(struct io_uring *uring, unsigned int first, const struct iovec *iov, unsigned int count)
{
	static const struct iovec none[TGT_RING_BUFFERS_MAX];
	int done = io_uring_register_buffers_update_tag(uring, first, iov, NULL, count);

	if (done == (int)count)
		return 0;
	if (done > 0)
		io_uring_register_buffers_update_tag(uring, first, none, NULL, (unsigned int)done);
	return done < 0 ? done : -ENOMEM;
}

/* Those that it does not have yet. If the kernel refuses (memlock), their users go on without. */
static void wide_add_buffers(struct tgt_ring *ring)
{
	struct ring_wide *wide = ring->wide;
	unsigned int count = ring->buffers - wide->buffers;

	if (count && !register_buffers(&wide->uring, wide->buffers, &ring->buffer[wide->buffers], count))
		wide->buffers += count;
}

int tgt_ring_register_buffers(struct tgt_ring *ring, const struct iovec *iov, unsigned int count)
{
	unsigned int first = ring->buffers;
	int err;

	if (count > TGT_RING_BUFFERS_MAX - first)
		return -ENOSPC;
	err = register_buffers(&ring->uring, first, iov, count);
	if (err)
		return err;
	memcpy(&ring->buffer[first], iov, count * sizeof(*iov));
	ring->buffers += count;
	if (ring->wide)
		wide_add_buffers(ring);
	return (int)first;
}

unsigned int tgt_ring_threads(struct tgt_ring *ring)
{
	unsigned int threads[2] = {0, 0}; /* bounded, unbounded; 0: only tell */

	return io_uring_register_iowq_max_workers(&ring->uring, threads) < 0 ? 0 : threads[0];
}

/* If the kernel refuses, slow files delay others. */
static void ring_set_threads(struct tgt_ring *ring)
{
	unsigned int threads[2] = {ring->threads + ring->blocking, 0};

	if (ring->threads)
		io_uring_register_iowq_max_workers(&ring->uring, threads);
}

int tgt_ring_register_file(struct tgt_ring *ring, int fd, unsigned int blocking)
{
	for (unsigned int i = 0; i < ring->max_files; i++) {
		int err;

		if (ring->files[i].used)
			continue;
		err = io_uring_register_files_update(&ring->uring, i, &fd, 1);
		if (err < 0)
			return err;
		ring->files[i] = (struct ring_file){.used = true, .blocking = blocking};
		if (!ring->threads)
			ring->threads = tgt_ring_threads(ring);
		ring->blocking += blocking;
		ring_set_threads(ring);
		return (int)i;
	}
	return -ENFILE;
}

void tgt_ring_unregister_file(struct tgt_ring *ring, int index)
{
	int none = -1;

	io_uring_register_files_update(&ring->uring, (unsigned int)index, &none, 1);
	ring->blocking -= ring->files[index].blocking;
	ring->files[index] = (struct ring_file){0};
	ring_set_threads(ring);
}

int tgt_ring_watch(struct tgt_ring *ring, int fd)
{
	struct ring_watch *watch;

	if (ring->watch_count == WATCHES_MAX)
		return -ENOSPC;
	watch = &ring->watches[ring->watch_count++];
	watch->op.complete = watch_complete;
	watch->fd = fd;
	watch->armed = false;
	return 0;
}

/* -- the wide half ----------------------------------------------------------------------------- */

/* max_files: each user has two. */
static int wide_create(const struct tgt_ring *ring, struct ring_wide **out)
{
	struct io_uring_params params = {
		.flags = SETUP_FLAGS | IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
	};
	struct ring_wide *wide = calloc(1, sizeof(*wide));
	int err;

	if (!wide)
		return -ENOMEM;
	wide->file_used = calloc(2 * ring->max_files + 1, sizeof(*wide->file_used));
	err = -ENOMEM;
	if (!wide->file_used)
		goto err_free;
	err = io_uring_queue_init_params(ring->depth, &wide->uring, &params);
	if (err)
		goto err_free;
	err = io_uring_register_files_sparse(&wide->uring, 2 * ring->max_files);
	if (!err)
		err = io_uring_register_buffers_sparse(&wide->uring, TGT_RING_BUFFERS_MAX);
	if (err) {
		io_uring_queue_exit(&wide->uring);
		goto err_free;
	}
	*out = wide;
	return 0;

err_free:
	free(wide->file_used);
	free(wide);
	return err;
}

int tgt_ring_widen(struct tgt_ring *ring)
{
	int err;

	if (ring->wide)
		return 0;
	err = wide_create(ring, &ring->wide);
	if (err)
		return err;
	wide_add_buffers(ring);
	/* Its completions are seen by the poll of its descriptor when the ring's thread sleeps. */
	err = tgt_ring_watch(ring, ring->wide->uring.ring_fd);
	if (err) {
		wide_destroy(ring->wide);
		ring->wide = NULL;
	}
	return err;
}

struct io_uring_sqe *tgt_ring_get_wide(struct tgt_ring *ring, struct tgt_ring_op *op)
{
	struct io_uring_sqe *sqe = uring_sqe(&ring->wide->uring);

	if (!sqe)
		return NULL;
	memset(sqe, 0, 2 * sizeof(*sqe));
	io_uring_sqe_set_data(sqe, op);
	ring->wide->inflight++;
	return sqe;
}

int tgt_ring_register_wide_file(struct tgt_ring *ring, int fd)
{
	struct ring_wide *wide = ring->wide;

	for (unsigned int i = 0; i < 2 * ring->max_files; i++) {
		int err;

		if (wide->file_used[i])
			continue;
		err = io_uring_register_files_update(&wide->uring, i, &fd, 1);
		if (err < 0)
			return err;
		wide->file_used[i] = true;
		return (int)i;
	}
	return -ENFILE;
}

void tgt_ring_unregister_wide_file(struct tgt_ring *ring, int index)
{
	int none = -1;

	io_uring_register_files_update(&ring->wide->uring, (unsigned int)index, &none, 1);
	ring->wide->file_used[index] = false;
}

bool tgt_ring_wide_has_buffer(const struct tgt_ring *ring, int index)
{
	return index >= 0 && (unsigned int)index < ring->wide->buffers;
}

/* Nothing is watched through it. */
static unsigned int wide_reap(struct ring_wide *wide, unsigned int budget)
{
	struct io_uring_cqe *cqes[REAP_BATCH];
	unsigned int done = 0, got;

	do {
		got = io_uring_peek_batch_cqe(&wide->uring, cqes, REAP_BATCH);
		for (unsigned int i = 0; i < got; i++) {
			struct tgt_ring_op *op = io_uring_cqe_get_data(cqes[i]);
			int result = cqes[i]->res;

			io_uring_cq_advance(&wide->uring, 1);
			wide->inflight--;
			op->complete(op, result, 0);
		}
		done += got;
	} while (got == REAP_BATCH && done < budget);
	return done;
}

/* -- posted by other threads ------------------------------------------------------------------- */

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

/* -- waiting ----------------------------------------------------------------------------------- */

/* False: there is no room for some of them. */
static bool ring_arm_watches(struct tgt_ring *ring)
{
	for (unsigned int i = 0; i < ring->watch_count; i++) {
		struct ring_watch *watch = &ring->watches[i];
		struct io_uring_sqe *sqe;

		if (watch->armed)
			continue;
		sqe = uring_sqe(&ring->uring);
		if (!sqe)
			return false;
		io_uring_prep_poll_add(sqe, watch->fd, POLLIN);
		io_uring_sqe_set_data(sqe, &watch->op);
		watch->armed = true;
	}
	return true;
}

/* It has a completion only if less than all was sent. There is room for it, so it is there when the kernel returns. */
bool tgt_ring_sendmsg(struct tgt_ring *ring, int fd, const struct msghdr *message)
{
	struct io_uring_sqe *sqe;

	/* It does not wait for what files do in the same call. */
	if (!ring->sends || io_uring_sq_ready(&ring->uring))
		return false;
	if (ring->inflight + WATCHES_MAX >= ring->uring.cq.ring_entries || !ring_arm_watches(ring))
		return false;
	sqe = ring->sending = uring_sqe(&ring->uring);
	if (!sqe)
		return false;
	/* MSG_WAITALL: less than all is a failure, and has a completion. */
	io_uring_prep_sendmsg(sqe, fd, message, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_WAITALL);
	io_uring_sqe_set_flags(sqe, IOSQE_CQE_SKIP_SUCCESS);
	io_uring_sqe_set_data(sqe, &ring->send.op);
	return true;
}

int tgt_ring_sent(struct tgt_ring *ring, int bytes)
{
	struct io_uring_cqe *cqe;
	unsigned int head;

	/* The kernel takes entries in their order, and has not taken the last one, which is this: it becomes a NOP. */
	if (io_uring_sq_ready(&ring->uring)) {
		memset(ring->sending, 0, sizeof(*ring->sending));
		io_uring_sqe_set_data(ring->sending, &ring->sent.op);
		return -EAGAIN;
	}
	io_uring_for_each_cqe(&ring->uring, head, cqe)
	{
		if (io_uring_cqe_get_data(cqe) != &ring->send.op)
			continue;
		cqe->user_data = (uintptr_t)&ring->sent.op;
		return cqe->res;
	}
	return bytes;
}

static int uring_submit_ready(struct io_uring *uring)
{
	int err;

	if (!io_uring_sq_ready(uring))
		return 0;
	err = io_uring_submit(uring);
	/* Entries that the kernel did not take now stay prepared for the next turn. */
	return err == -EINTR || err == -EAGAIN || err == -EBUSY || err > 0 ? 0 : err;
}

int tgt_ring_submit(struct tgt_ring *ring)
{
	int err = ring->wide ? uring_submit_ready(&ring->wide->uring) : 0;

	return err ? err : uring_submit_ready(&ring->uring);
}

unsigned int tgt_ring_reap(struct tgt_ring *ring, unsigned int budget)
{
	struct io_uring_cqe *cqes[REAP_BATCH];
	unsigned int done = 0, watches = 0;

	if (ring->again)
		ring_retry(ring);
	if (ring->wide)
		done += wide_reap(ring->wide, budget);
	while (done < budget) {
		unsigned int want = budget - done < REAP_BATCH ? budget - done : REAP_BATCH;
		unsigned int got = io_uring_peek_batch_cqe(&ring->uring, cqes, want);

		for (unsigned int i = 0; i < got; i++) {
			struct tgt_ring_op *op = io_uring_cqe_get_data(cqes[i]);
			int result = cqes[i]->res;
			uint32_t flags = cqes[i]->flags;

			/* Released first: `complete` may submit, and the ring may be full. */
			io_uring_cq_advance(&ring->uring, 1);
			if (op->complete == watch_complete)
				watches++; /* no work by itself: what it announces is */
			else if (!(flags & IORING_CQE_F_MORE))
				ring->inflight--;
			op->complete(op, result, flags);
		}
		done += got;
		if (got < want)
			break;
	}
	return done - watches + tgt_messages_run(&ring->messages, TGT_RING_MESSAGES);
}

int tgt_ring_wait(struct tgt_ring *ring, int timeout_ms)
{
	struct __kernel_timespec limit;
	struct io_uring_cqe *cqe;
	int err = 0;

	if (ring->again)
		timeout_ms = RETRY_MS;
	/* A watch that is not armed wakes nobody; the next reap makes room for it. */
	if (!ring_arm_watches(ring) || !tgt_messages_settle(&ring->messages))
		timeout_ms = 0;
	limit = (struct __kernel_timespec){
		.tv_sec = timeout_ms / 1000,
		.tv_nsec = (long long)(timeout_ms % 1000) * 1000000,
	};
	if (ring->wide)
		err = uring_submit_ready(&ring->wide->uring);
	if (err)
		return err;
	err = io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1,
					       timeout_ms < 0 ? NULL : &limit, NULL);
	return err >= 0 || err == -ETIME || err == -EINTR || err == -EAGAIN || err == -EBUSY ? 0
											     : err;
}

unsigned int tgt_ring_inflight(const struct tgt_ring *ring)
{
	return ring->inflight + atomic_load(&ring->messages.own_expected) + (ring->wide ? ring->wide->inflight : 0);
}
