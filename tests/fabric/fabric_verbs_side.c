/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One end of a connection: see fabric_verbs_side.h. */
#include "tests/fabric/fabric_verbs_side.h"
#include "proto/core/env.h"

#include <poll.h>
#include <string.h>

void side_open(struct side *side, enum fab_kind kind, uint32_t srq_depth)
{
	struct fab_options options = {.cq_depth = 1024, .srq_depth = srq_depth, .recv_sge = 1};
	char error[FAB_ERROR_BYTES];
	bool sleep = side->sleep;

	memset(side, 0, sizeof(*side));
	side->sleep = sleep;
	side->fab = fab_open(kind, &options, error);
	if (!side->fab)
		fprintf(stderr, "%s\n", error);
	CHECK(side->fab);
}

void side_close(struct side *side)
{
	fab_close(side->fab);
	side->fab = NULL;
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
	bool idle = true;

	CHECK(env_now_ns() < deadline_ns);
	if (side->count == 0) {
		side->first = 0;
		side->count = fab_poll(side->fab, side->wc, SIDE_WCS);
		idle = side->count == 0;
	}
	if (fab_poll_event(side->fab, &event)) {
		side_keep_event(side, &event);
		idle = false;
	}
	if (idle && side->sleep && fab_arm(side->fab) == 0) {
		struct pollfd fd = {.fd = fab_fd(side->fab), .events = POLLIN};
		int timeout_ms = fab_timeout_ms(side->fab);

		side->sleeps++;
		/* After a lost wakeup only the deadline wakes the thread, and that fails the
		 * test. */
		if (timeout_ms < 0)
			CHECK(poll(&fd, 1, SIDE_WAIT_MS) == 1);
		else
			poll(&fd, 1, timeout_ms);
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
