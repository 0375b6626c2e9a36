/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One end of a connection: see fabric_verbs_side.h. */
#include "tests/fabric/fabric_verbs_side.h"
#include "proto/core/env.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* -- the helper ------------------------------------------------------------------------------- */

static void *helper_thread(void *argument)
{
	struct side_helper *helper = argument;

	pthread_mutex_lock(&helper->mutex);
	for (;;) {
		struct fab_job *job;

		while (!helper->waiting_count && !helper->ends)
			pthread_cond_wait(&helper->wake, &helper->mutex);
		if (!helper->waiting_count)
			break;
		job = helper->waiting[0];
		pthread_mutex_unlock(&helper->mutex);
		job->run(job);
		pthread_mutex_lock(&helper->mutex);
		memmove(helper->waiting, helper->waiting + 1,
			sizeof(job) * (size_t)--helper->waiting_count);
		helper->done[helper->done_count++] = job;
		CHECK(eventfd_write(helper->fd, 1) == 0);
	}
	pthread_mutex_unlock(&helper->mutex);
	return NULL;
}

static bool helper_take(struct fab_job *job, void *user)
{
	struct side_helper *helper = user;
	bool takes;

	pthread_mutex_lock(&helper->mutex);
	takes = helper->waiting_count + helper->done_count < SIDE_JOBS;
	if (takes)
		helper->waiting[helper->waiting_count++] = job;
	pthread_cond_signal(&helper->wake);
	pthread_mutex_unlock(&helper->mutex);
	return takes;
}

static void helper_open(struct side *side)
{
	struct side_helper *helper = calloc(1, sizeof(*helper));

	CHECK(helper);
	helper->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(helper->fd >= 0);
	CHECK(pthread_mutex_init(&helper->mutex, NULL) == 0 && pthread_cond_init(&helper->wake, NULL) == 0);
	CHECK(pthread_create(&helper->thread, NULL, helper_thread, helper) == 0);
	side->helper = helper;
}

static void helper_close(struct side_helper *helper)
{
	pthread_mutex_lock(&helper->mutex);
	helper->ends = true;
	pthread_cond_signal(&helper->wake);
	pthread_mutex_unlock(&helper->mutex);
	pthread_join(helper->thread, NULL);
	CHECK(helper->waiting_count == 0 && helper->done_count == 0);
	close(helper->fd);
	free(helper);
}

bool side_end_jobs(struct side *side)
{
	struct side_helper *helper = side->helper;
	struct fab_job *done[SIDE_JOBS];
	eventfd_t count;
	int n;

	if (!helper || eventfd_read(helper->fd, &count) < 0)
		return false;
	pthread_mutex_lock(&helper->mutex);
	n = helper->done_count;
	memcpy(done, helper->done, sizeof(done));
	helper->done_count = 0;
	pthread_mutex_unlock(&helper->mutex);
	for (int i = 0; i < n; i++)
		done[i]->end(done[i]);
	return n > 0;
}

/* -- the side --------------------------------------------------------------------------------- */

void side_open(struct side *side, enum fab_kind kind, uint32_t srq_depth)
{
	struct fab_options options = {.cq_depth = 1024, .srq_depth = srq_depth, .recv_sge = 1};
	char error[FAB_ERROR_BYTES];
	bool sleep = side->sleep;

	memset(side, 0, sizeof(*side));
	side->sleep = sleep;
	if (srq_depth) {
		helper_open(side);
		options.helper = helper_take;
		options.helper_user = side->helper;
	}
	side->fab = fab_open(kind, &options, error);
	if (!side->fab)
		fprintf(stderr, "%s\n", error);
	CHECK(side->fab);
}

void side_close(struct side *side)
{
	fab_close(side->fab);
	side->fab = NULL;
	if (side->helper)
		helper_close(side->helper);
	side->helper = NULL;
}

static void side_keep_event(struct side *side, const struct fab_event *event)
{
	side->status = event->status;
	side->seen |= 1u << event->type;
	if (event->status)
		snprintf(side->words, sizeof(side->words), "%s", fab_error(side->fab));
	if (event->type == FAB_EVENT_REQUEST)
		side->request = event->request;
	if (event->private_bytes > 0)
		memcpy(side->private_data, event->private_data, event->private_bytes);
	if (event->private_data)
		side->private_bytes = event->private_bytes;
}

/* One round: completions, one event, and sleep if there was neither. */
static void side_turn(struct side *side, uint64_t deadline_ns)
{
	struct fab_event event;
	bool idle = !side_end_jobs(side);

	CHECK(env_now_ns() < deadline_ns);
	if (side->count == 0) {
		side->first = 0;
		side->count = fab_poll(side->fab, side->wc, SIDE_WCS);
		idle = idle && side->count == 0;
	}
	if (fab_poll_event(side->fab, &event)) {
		side_keep_event(side, &event);
		idle = false;
	}
	if (idle && side->sleep && fab_arm(side->fab) == 0) {
		struct pollfd fds[] = {
			{.fd = fab_fd(side->fab), .events = POLLIN},
			{.fd = side->helper ? side->helper->fd : -1, .events = POLLIN},
		};
		int timeout_ms = fab_timeout_ms(side->fab);

		side->sleeps++;
		/* After a lost wakeup only the deadline wakes the thread, and that fails the
		 * test. */
		if (timeout_ms < 0)
			CHECK(poll(fds, 2, SIDE_WAIT_MS) >= 1);
		else
			poll(fds, 2, timeout_ms);
	}
}

static uint64_t side_deadline(void)
{
	return env_now_ns() + SIDE_WAIT_MS * 1000000ull;
}

void side_await(struct side *side, enum fab_event_type type)
{
	uint64_t deadline_ns = side_deadline();
	struct ibv_wc kept[SIDE_WCS];
	int count = 0;

	while (!(side->seen & (1u << type))) {
		side_turn(side, deadline_ns);
		CHECK(count + side->count <= SIDE_WCS);
		memcpy(kept + count, side->wc + side->first, sizeof(kept[0]) * (size_t)side->count);
		count += side->count;
		side->count = 0;
	}
	side->seen &= ~(1u << type);
	memcpy(side->wc, kept, sizeof(kept[0]) * (size_t)count);
	side->first = 0;
	side->count = count;
}

struct ibv_wc side_completion(struct side *side)
{
	uint64_t deadline_ns = side_deadline();

	while (side->count == 0)
		side_turn(side, deadline_ns);
	side->count--;
	return side->wc[side->first++];
}

bool side_completion_before(struct side *side, enum fab_event_type type, struct ibv_wc *wc)
{
	uint64_t deadline_ns = side_deadline();

	while (side->count == 0) {
		if (side->seen & (1u << type))
			return false;
		side_turn(side, deadline_ns);
	}
	side->count--;
	*wc = side->wc[side->first++];
	return true;
}

const struct fab_limits *side_limits(const struct side *side)
{
	return fab_device_limits(fab_conn_device(side->conn));
}

unsigned int side_drop(struct side *side)
{
	uint64_t deadline_ns = side_deadline();
	unsigned int flushed = 0;

	fab_conn_close(side->conn);
	side->seen &= ~(1u << FAB_EVENT_DRAINED);
	do {
		side_turn(side, deadline_ns);
		for (; side->count > 0; side->count--, side->first++) {
			CHECK(side->wc[side->first].wr_id != FAB_WR_ID_RESERVED);
			flushed += side->wc[side->first].status == IBV_WC_WR_FLUSH_ERR;
		}
	} while (!(side->seen & (1u << FAB_EVENT_DRAINED)));
	side->seen &= ~(1u << FAB_EVENT_DRAINED);
	fab_conn_destroy(side->conn);
	side->conn = NULL;
	return flushed;
}

static void side_segment(struct side *side, struct ibv_sge *sge, struct fab_mr *mr, void *addr,
			 uint32_t bytes)
{
	sge->addr = (uintptr_t)addr;
	sge->length = bytes;
	sge->lkey = mr ? fab_mr_lkey(mr, fab_conn_device(side->conn)) : 0;
}

int side_send(struct side *side, uint64_t wr_id, struct fab_mr *mr, void *addr, uint32_t bytes)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = mr ? 1 : 0,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	side_segment(side, &sge, mr, addr, bytes);
	return fab_post_send(side->conn, &wr, &bad);
}

int side_recv(struct side *side, uint64_t wr_id, struct fab_mr *mr, void *addr, uint32_t bytes)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = mr ? 1 : 0};
	struct ibv_recv_wr *bad;

	side_segment(side, &sge, mr, addr, bytes);
	return fab_post_recv(side->conn, &wr, &bad);
}
