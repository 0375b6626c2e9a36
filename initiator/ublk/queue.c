/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a hardware queue: see queue.h. A tag is in one place at a time: with the kernel, which answers its command when there
 * is a request; with librblk, until the callback; or waiting for a credit. A tag that the kernel answers with an
 * error is ended, and the queue is when all its tags are.
 */
#include "initiator/ublk/queue.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "initiator/ublk/kept.h"
#include "initiator/ublk/kernel.h"
#include "initiator/ublk/parameters.h"
#include "initiator/ublk/record.h"

/* All memory is locked, stacks too: so much is enough for librblk with TLS. */
#define QUEUE_STACK_BYTES (512u * 1024)
#define QUEUE_GO_POLL_MS 10        /* at the start only */
#define QUEUE_VIEW_MS 1000         /* so old may the view's counts be */
#define QUEUE_WATCH UINT64_MAX     /* user_data of the poll of librblk's descriptor; others are tags, and: */
#define QUEUE_LEAVE (UINT64_MAX - 1) /* of the poll of leave_fd */
#define QUEUE_LEAVE_POLL_MS 10
#define QUEUE_NONE UINT32_MAX      /* no tag */

struct ublk_slot {
	struct ublk_queue *queue;
	struct ublk_request request; /* while the tag is not the kernel's */
	uint32_t next;               /* of those that wait */
};

/*
 * Created and freed by the disk's thread. shared, index and thread are fixed in between; `lock` guards `view`; all else
 * is its thread's.
 */
struct ublk_queue {
	struct ublk_shared *shared;
	unsigned int index;
	pthread_t thread;
	pthread_mutex_t lock;
	struct ublk_queue_view view;

	struct rblk_session *session;
	struct rblk_volume *volume;
	bool lost;     /* the session has FAILED, and has called everything back */
	bool watching; /* the ring polls librblk's descriptor */
	bool changed;  /* the target has told so; asked again as soon as that can be */
	bool worked;   /* since the view's counts were taken, at viewed_ms */
	uint64_t viewed_ms;
	unsigned int acknowledged; /* of the shared count */
	bool leaving;  /* it takes nothing more */
	uint32_t begun; /* requests that librblk has */
	struct io_uring ring;
	bool ring_made;
	const struct ublksrv_io_desc *descriptors; /* the kernel's, one for each tag */
	size_t descriptors_bytes;
	char *buffers; /* io_bytes for each tag, registered */
	struct ublk_slot *slots;
	uint32_t waiting_first, waiting_last; /* for a credit, or to be sent again; in their order */
	uint32_t ended;                       /* tags that the kernel has taken back */
};

/* -- the view ---------------------------------------------------------------------------------- */

static void queue_tell(struct ublk_queue *q)
{
	uint64_t one = 1;

	/* It can only fail when the counter is full, and then it is readable. */
	if (write(q->shared->wake_fd, &one, sizeof(one)) < 0)
		return;
}

/* The session's part of the view. The lock is held. */
static void queue_view(struct ublk_queue *q)
{
	int count = rblk_session_paths(q->session, q->view.paths, sizeof(q->view.paths[0]), RBLK_PATHS_MAX);

	q->viewed_ms = ublk_record_now_ms();
	q->worked = false;
	q->view.path_count = count > 0 ? (unsigned int)count : 0;
	for (unsigned int i = 0; i < q->view.path_count; i++)
		if (q->view.paths[i].connections)
			q->view.paths[i].connected_ms = q->viewed_ms - q->view.paths[i].connected_ms;
	rblk_session_stats(q->session, &q->view.stats, sizeof(q->view.stats));
}

static void queue_set_phase(struct ublk_queue *q, enum ublk_queue_phase phase, const char *words)
{
	pthread_mutex_lock(&q->lock);
	q->view.phase = phase;
	if (words)
		snprintf(q->view.words, sizeof(q->view.words), "%s", words);
	pthread_mutex_unlock(&q->lock);
	queue_tell(q);
}

/* From rblk_poll(): events are rare. */
static void queue_event(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	struct ublk_queue *q = arg;
	struct rblk_session_info info;
	bool connected;

	pthread_mutex_lock(&q->lock);
	q->view.session = rblk_session_state(session);
	connected = q->view.session == RBLK_SESSION_READY;
	snprintf(q->view.words, sizeof(q->view.words), "%s", connected ? "" : rblk_session_error(session));
	if (event->type == RBLK_SESSION_EVENT_WRITES_LOST)
		q->view.writes_lost = true;
	if (event->type == RBLK_SESSION_EVENT_RECOVERING)
		q->view.losses++;
	queue_view(q);
	if (connected && !rblk_session_info(session, &info, sizeof(info)))
		snprintf(q->view.peer, sizeof(q->view.peer), "%s", info.peer);
	if (event->type == RBLK_SESSION_EVENT_RECOVERED && q->volume)
		q->view.info = *rblk_volume_info(q->volume);
	pthread_mutex_unlock(&q->lock);
	q->changed |= event->type == RBLK_SESSION_EVENT_VOLUME_CHANGED;
	queue_tell(q);
}

/* From rblk_poll(). What a REFRESH has not learned, the next event tells, or a reconnection. */
static void queue_refreshed(void *arg, struct rblk_volume *volume, int error)
{
	struct ublk_queue *q = arg;

	if (error)
		return;
	pthread_mutex_lock(&q->lock);
	q->view.info = *rblk_volume_info(volume);
	pthread_mutex_unlock(&q->lock);
	queue_tell(q);
}

static void queue_refresh(struct ublk_queue *q)
{
	int err = q->changed && !q->lost ? rblk_volume_refresh_start(q->volume, queue_refreshed, q) : 0;

	q->changed = err == -EAGAIN || err == -EBUSY;
}

void ublk_queue_look(struct ublk_queue *q, struct ublk_queue_view *view)
{
	pthread_mutex_lock(&q->lock);
	*view = q->view;
	pthread_mutex_unlock(&q->lock);
}

/* -- the kernel's side ------------------------------------------------------------------------- */

/* The ring has room for a command of each tag and the polls: an entry is always free. */
static struct io_uring_sqe *queue_entry(struct ublk_queue *q, uint64_t user_data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);

	if (!sqe)
		abort();
	memset(sqe, 0, 2 * sizeof(*sqe)); /* 128 bytes */
	sqe->user_data = user_data;
	return sqe;
}

/* The tag is the kernel's: result is of the request that it had, if it had one. */
static void queue_give(struct ublk_queue *q, uint32_t tag, unsigned int op, int result)
{
	struct io_uring_sqe *sqe = queue_entry(q, tag);
	const struct ublksrv_io_cmd command = {
		.q_id = (uint16_t)q->index,
		.tag = (uint16_t)tag,
		.result = result,
		.addr = (uint64_t)(uintptr_t)(q->buffers + (size_t)tag * q->shared->io_bytes),
	};

	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = q->shared->device_fd;
	sqe->cmd_op = op;
	memcpy(sqe->cmd, &command, sizeof(command));
}

static void queue_answer(struct ublk_queue *q, uint32_t tag, int error, uint16_t status)
{
	queue_give(q, tag, UBLK_U_IO_COMMIT_AND_FETCH_REQ, ublk_request_answer(&q->slots[tag].request, error, status));
}

/* -- librblk's side ---------------------------------------------------------------------------- */

static void queue_wait_for_credit(struct ublk_queue *q, uint32_t tag)
{
	q->slots[tag].next = QUEUE_NONE;
	if (q->waiting_first == QUEUE_NONE)
		q->waiting_first = tag;
	else
		q->slots[q->waiting_last].next = tag;
	q->waiting_last = tag;
}

/* From rblk_poll(). The status of a command that was dropped because it was late says no more than the error. */
static void queue_done(void *arg, const struct rblk_result *result)
{
	struct ublk_slot *slot = arg;
	struct ublk_queue *q = slot->queue;
	uint32_t tag = (uint32_t)(slot - q->slots);

	q->begun--;
	if (result->error != -ETIMEDOUT)
		queue_answer(q, tag, result->error, result->status);
	else if (ublk_request_again(&slot->request, ublk_record_now_ms(), q->shared->options->give_up_ms))
		queue_wait_for_credit(q, tag);
	else
		queue_answer(q, tag, result->error, 0);
}

/* 0, or what librblk says at once. */
static int queue_start(struct ublk_queue *q, uint32_t tag)
{
	struct ublk_slot *slot = &q->slots[tag];
	const struct ublk_request *r = &slot->request;
	char *data = q->buffers + (size_t)tag * q->shared->io_bytes;
	uint32_t flags = ublk_request_flags(r, q->shared->kernel_flushes, rblk_volume_info(q->volume));

	if (atomic_load_explicit(&q->shared->failed, memory_order_relaxed))
		return -ENOTCONN;
	switch (r->operation) {
	case UBLK_READ:
		return rblk_read(q->volume, data, r->bytes, r->offset, flags, queue_done, slot);
	case UBLK_WRITE:
		return rblk_write(q->volume, data, r->bytes, r->offset, flags, queue_done, slot);
	case UBLK_FLUSH:
		return rblk_flush(q->volume, queue_done, slot);
	case UBLK_DISCARD:
		return rblk_discard(q->volume, r->bytes, r->offset, queue_done, slot);
	case UBLK_ZERO:
		return rblk_write_zeroes(q->volume, r->bytes, r->offset, flags, queue_done, slot);
	}
	return -EOPNOTSUPP;
}

static int queue_begin(struct ublk_queue *q, uint32_t tag)
{
	int err = queue_start(q, tag);

	q->begun += !err;
	return err;
}

/* The depth is what the target granted at the start; after a reconnection it may grant less. */
static void queue_begin_waiting(struct ublk_queue *q)
{
	while (q->waiting_first != QUEUE_NONE) {
		uint32_t tag = q->waiting_first;
		int err = queue_begin(q, tag);

		if (err == -EAGAIN)
			return;
		q->waiting_first = q->slots[tag].next;
		if (err)
			queue_answer(q, tag, err, 0);
	}
}

static void queue_take(struct ublk_queue *q, uint32_t tag)
{
	int err = ublk_request_read(&q->descriptors[tag], &q->slots[tag].request);

	if (!err)
		err = q->waiting_first == QUEUE_NONE ? queue_begin(q, tag) : -EAGAIN;
	if (err == -EAGAIN)
		queue_wait_for_credit(q, tag);
	else if (err)
		queue_answer(q, tag, err, 0);
}

/* -- serving ----------------------------------------------------------------------------------- */

/* Takes all that the kernel has for us. Returns how many. */
static unsigned int queue_reap(struct ublk_queue *q)
{
	struct io_uring_cqe *cqe;
	unsigned int count = 0;

	while (!q->leaving && !io_uring_peek_cqe(&q->ring, &cqe)) {
		uint64_t tag = cqe->user_data;
		int result = cqe->res;

		io_uring_cqe_seen(&q->ring, cqe);
		count++;
		if (tag == QUEUE_WATCH)
			q->watching = false;
		else if (tag == QUEUE_LEAVE)
			q->leaving = true;
		else if (result == UBLK_IO_RES_OK)
			queue_take(q, (uint32_t)tag);
		else
			q->ended++;
	}
	return count;
}

/* Returns how much librblk has done. */
static unsigned int queue_poll(struct ublk_queue *q)
{
	int count;

	if (q->lost)
		return 0;
	count = rblk_poll(q->session, 0);
	if (count >= 0)
		return (unsigned int)count;
	q->lost = true;
	atomic_store(&q->shared->failed, true);
	queue_tell(q);
	return 1;
}

/* A loss that is acknowledged by the volumes of all queues is one no more. */
static void queue_acknowledge(struct ublk_queue *q)
{
	unsigned int count = atomic_load_explicit(&q->shared->acknowledged, memory_order_relaxed);

	if (count == q->acknowledged)
		return;
	q->acknowledged = count;
	rblk_acknowledge(q->volume);
	pthread_mutex_lock(&q->lock);
	q->view.writes_lost = false;
	pthread_mutex_unlock(&q->lock);
	queue_tell(q);
}

/* How long it may sleep, -1: without a limit. What it has done lately is told first, or is going to be. */
static int queue_timeout(struct ublk_queue *q)
{
	int timeout_ms = q->lost ? -1 : rblk_timeout_ms(q->session);

	if (q->lost || !(q->worked || q->view.writes_lost))
		return timeout_ms;
	if (!q->worked || ublk_record_now_ms() - q->viewed_ms < QUEUE_VIEW_MS)
		return timeout_ms < 0 || timeout_ms > QUEUE_VIEW_MS ? QUEUE_VIEW_MS : timeout_ms;
	pthread_mutex_lock(&q->lock);
	queue_view(q);
	pthread_mutex_unlock(&q->lock);
	queue_tell(q);
	return timeout_ms;
}

/* Until either side has something. False: librblk has it already. */
static bool queue_sleep(struct ublk_queue *q)
{
	int timeout_ms = queue_timeout(q);
	struct __kernel_timespec limit = { .tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L };
	struct io_uring_cqe *cqe;

	/* All that was begun has been sent. */
	if (!q->lost && rblk_arm(q->session))
		return false;
	if (!q->lost && !q->watching) {
		struct io_uring_sqe *sqe = queue_entry(q, QUEUE_WATCH);

		io_uring_prep_poll_add(sqe, rblk_fd(q->session), POLLIN);
		sqe->user_data = QUEUE_WATCH;
		q->watching = true;
	}
	io_uring_submit_and_wait_timeout(&q->ring, &cqe, 1, timeout_ms < 0 ? NULL : &limit, NULL);
	return true;
}

/*
 * Answers what is begun, and leaves all other requests, also those that the kernel has handed over, to the next server:
 * the thread keeps its tags until the process ends.
 */
static void queue_leave(struct ublk_queue *q)
{
	while (q->begun) {
		if (rblk_wait(q->session, QUEUE_LEAVE_POLL_MS) < 0)
			break;
		io_uring_submit(&q->ring);
	}
	queue_set_phase(q, UBLK_QUEUE_LEFT, NULL);
	for (;;)
		pause();
}

/* 0 */
static int queue_serve(struct ublk_queue *q)
{
	struct io_uring_sqe *sqe = queue_entry(q, QUEUE_LEAVE);
	bool slept = false, look = true;

	io_uring_prep_poll_add(sqe, q->shared->leave_fd, POLLIN);
	sqe->user_data = QUEUE_LEAVE;
	for (uint32_t tag = 0; tag < q->shared->depth; tag++)
		queue_give(q, tag, UBLK_U_IO_FETCH_REQ, 0);
	io_uring_submit(&q->ring);
	queue_set_phase(q, UBLK_QUEUE_SERVING, NULL);
	for (;;) {
		unsigned int count = queue_reap(q);

		if (q->ended == q->shared->depth)
			return 0;
		/* Where the kernel has woken it, and librblk's descriptor has not, there is nothing to look for. */
		if (slept)
			look = !count || !q->watching;
		queue_acknowledge(q);
		queue_refresh(q);
		if (q->leaving)
			queue_leave(q);
		queue_begin_waiting(q);
		if (look)
			count += queue_poll(q); /* sends what was begun, too */
		if (!look || (count && q->shared->options->queues > 1))
			rblk_submit(q->session); /* what comes next takes the next path */
		q->worked |= count;
		slept = !(look && count) && queue_sleep(q);
		if (!slept)
			io_uring_submit(&q->ring);
		look = !(look && count) || q->begun;
	}
}

/* -- from beginning to end --------------------------------------------------------------------- */

/* 0, or -1 and words. */
static int queue_connect(struct ublk_queue *q, char words[RBLK_ERROR_BYTES])
{
	struct rblk_options options = *q->shared->options;
	struct rblk_session_info info;

	options.kept_session = &q->shared->kept->sessions[q->index];
	options.kept_volume = &q->shared->kept->volume;
	q->session = rblk_session_open(q->shared->uri, &options, words);
	if (!q->session)
		return -1;
	rblk_session_on_event(q->session, queue_event, q);
	q->volume = rblk_volume_open(q->session, NULL, q->shared->open_flags);
	if (!q->volume || rblk_session_info(q->session, &info, sizeof(info))) {
		snprintf(words, RBLK_ERROR_BYTES, "%s", rblk_session_error(q->session));
		return -1;
	}
	pthread_mutex_lock(&q->lock);
	q->view.info = *rblk_volume_info(q->volume);
	q->view.credits = rblk_session_credits(q->session);
	q->view.session = RBLK_SESSION_READY;
	snprintf(q->view.peer, sizeof(q->view.peer), "%s", info.peer);
	queue_view(q);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

/* The kernel's descriptors of the tags: each queue's lie where those of the longest possible queues would. */
static int queue_map(struct ublk_queue *q)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), most = UBLK_MAX_QUEUE_DEPTH * sizeof(*q->descriptors);
	void *memory;

	most = (most + page - 1) / page * page;
	q->descriptors_bytes = (q->shared->depth * sizeof(*q->descriptors) + page - 1) / page * page;
	memory = mmap(NULL, q->descriptors_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, q->shared->device_fd,
		      (off_t)(UBLKSRV_CMD_BUF_OFFSET + q->index * most));
	if (memory == MAP_FAILED)
		return -errno;
	q->descriptors = memory;
	return 0;
}

/* All memory that serving needs. 0, or -errno; queue_unprepare() undoes either. */
static int queue_prepare(struct ublk_queue *q)
{
	int err;

	q->waiting_first = q->waiting_last = QUEUE_NONE;
	q->slots = calloc(q->shared->depth, sizeof(*q->slots));
	q->buffers = rblk_buffer_alloc(q->session, (size_t)q->shared->depth * q->shared->io_bytes);
	if (!q->slots || !q->buffers)
		return -ENOMEM;
	for (uint32_t tag = 0; tag < q->shared->depth; tag++)
		q->slots[tag].queue = q;
	/* The kernel hands requests over only where this thread sleeps in the ring, submits, or peeks; not in queue_leave(). */
	err = io_uring_queue_init(q->shared->depth + 2, &q->ring,
				  IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
					  IORING_SETUP_TASKRUN_FLAG);
	q->ring_made = !err;
	if (!err)
		io_uring_register_ring_fd(&q->ring); /* cheaper calls, where it can be had */
	return err;
}

static void queue_unprepare(struct ublk_queue *q)
{
	if (q->ring_made)
		io_uring_queue_exit(&q->ring);
	if (q->descriptors)
		munmap((void *)q->descriptors, q->descriptors_bytes);
	free(q->slots);
}

/* The session lives meanwhile. False: it is the end; a lost session has words. */
static bool queue_wait_go(struct ublk_queue *q, enum ublk_go wanted, char words[RBLK_ERROR_BYTES])
{
	int go;

	while ((go = atomic_load(&q->shared->go)) < (int)wanted) {
		if (rblk_wait(q->session, QUEUE_GO_POLL_MS) >= 0)
			continue;
		snprintf(words, RBLK_ERROR_BYTES, "%s", rblk_session_error(q->session));
		return false;
	}
	return go == (int)wanted;
}

/* From the open volume on; until the kernel has taken all tags back. */
static void queue_live(struct ublk_queue *q, char words[RBLK_ERROR_BYTES])
{
	int err;

	queue_set_phase(q, UBLK_QUEUE_CONNECTED, NULL);
	if (!queue_wait_go(q, UBLK_GO_PREPARE, words))
		return;
	err = queue_prepare(q);
	if (!err) {
		queue_set_phase(q, UBLK_QUEUE_PREPARED, NULL);
		if (queue_wait_go(q, UBLK_GO_SERVE, words))
			err = queue_map(q) ?: queue_serve(q);
	}
	if (err)
		snprintf(words, RBLK_ERROR_BYTES, "queue %u: %s", q->index, strerror(-err));
	queue_unprepare(q);
}

static void *queue_run(void *arg)
{
	char words[RBLK_ERROR_BYTES] = "";
	struct ublk_queue *q = arg;

	if (!queue_connect(q, words))
		queue_live(q, words);
	/* With it go the volume and the buffers. */
	rblk_session_close(q->session);
	queue_set_phase(q, UBLK_QUEUE_ENDED, words[0] ? words : NULL);
	return NULL;
}

/* Signals blocked: they are the disk's thread's. */
static int queue_start_thread(struct ublk_queue *q)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int err;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, QUEUE_STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&q->thread, &attributes, queue_run, q);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return err;
}

struct ublk_queue *ublk_queue_create(struct ublk_shared *shared, unsigned int index)
{
	struct ublk_queue *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return NULL;
	q->shared = shared;
	q->index = index;
	pthread_mutex_init(&q->lock, NULL);
	err = queue_start_thread(q);
	if (!err)
		return q;
	pthread_mutex_destroy(&q->lock);
	free(q);
	errno = err;
	return NULL;
}

void ublk_queue_destroy(struct ublk_queue *q)
{
	if (!q)
		return;
	pthread_join(q->thread, NULL);
	pthread_mutex_destroy(&q->lock);
	free(q);
}
