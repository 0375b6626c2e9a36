/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Posting on the simulated fabric: what a device's driver checks, queues that have an end, inline
 * data copied at once.
 */
#include "tests/sim/fabric_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/fiber.h"
#include "tests/sim/history.h"
#include "tests/sim/random.h"
#include "tests/sim/rules.h"
#include "tests/sim/trace.h"

static void wqe_post(struct sim_conn *conn, const struct ibv_send_wr *wr)
{
	const struct fab_limits *limits = &conn->fab->device.limits;
	struct sim_wqe *wqe;
	uint32_t bytes = 0;
	uint8_t *to;

	if (++conn->sq_used > conn->options.send_depth)
		sim_fail("%s: qp %u: send queue overrun", conn->fab->actor->name,
			 conn->head.qp_num);
	if (wr->num_sge > SIM_SGE_MAX || (uint32_t)wr->num_sge > limits->max_sge)
		sim_fail("%s: qp %u: %d segments", conn->fab->actor->name, conn->head.qp_num,
			 wr->num_sge);
	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	if (bytes > limits->max_msg_bytes)
		sim_fail("%s: qp %u: a message of %u bytes", conn->fab->actor->name,
			 conn->head.qp_num, bytes);
	wqe = malloc(sizeof(*wqe) + bytes);
	if (!wqe)
		sim_fail("out of memory");
	*wqe = (struct sim_wqe){.wr = *wr, .bytes = bytes};
	wqe->wr.next = NULL;
	if (wr->num_sge)
		memcpy(wqe->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(wqe->sge[0]));
	wqe->wr.sg_list = wqe->sge;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (wqe->bytes > conn->head.inline_bytes || sim_wqe_is_read(wqe))
			sim_fail("%s: qp %u: %u bytes inline", conn->fab->actor->name,
				 conn->head.qp_num, wqe->bytes);
		to = wqe->data;
		for (int i = 0; i < wr->num_sge; i++) {
			memcpy(to, (void *)(uintptr_t)wqe->sge[i].addr, wqe->sge[i].length);
			to += wqe->sge[i].length;
		}
	}
	TAILQ_INSERT_TAIL(&conn->sq, wqe, link);
	if (sim_wqe_is_read(wqe) && conn->state == SIM_CONN_UP &&
	    sim_reads_outstanding(conn, NULL) > conn->head.read_out)
		sim_fail("%s: qp %u: more READs than the %u that were agreed",
			 conn->fab->actor->name, conn->head.qp_num, conn->head.read_out);
}

int sim_post_send(struct fab_conn *head, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sim_conn *conn = sim_conn_of(head);

	sim_fiber_preempt();
	*bad = wr;
	if (conn->closed)
		return -ENOTCONN;
	if (conn->state != SIM_CONN_UP && conn->state != SIM_CONN_ERR)
		sim_fail("%s: qp %u: a work request before the connection is there",
			 conn->fab->actor->name, head->qp_num);
	for (; wr; wr = wr->next) {
		if (sim_refuses(conn->fab)) {
			sim_reached("fabric", "a post fails", NULL);
			*bad = wr;
			break;
		}
		if (conn->server)
			sim_rules_replied(conn, wr);
		else
			sim_history_posted(conn, wr);
		wqe_post(conn, wr);
	}
	if (conn->state == SIM_CONN_UP)
		sim_event_by(&conn->issue, sim_now_ns() + sim_below(SIM_ISSUE_NS_MAX));
	else if (conn->flushed)
		sim_wire_flush(conn);
	return wr ? -ENOMEM : 0;
}

/* There is room: whoever calls it has counted them. */
static void receive_post(struct sim_receives *receives, uint32_t room, const struct ibv_recv_wr *wr)
{
	if (!receives->of) {
		receives->room = room;
		receives->of = malloc(room * sizeof(*receives->of));
	}
	if (!receives->of || wr->num_sge != 1)
		sim_fail("a receive of %d segments", wr->num_sge);
	*sim_receive_at(receives, receives->count++) = (struct sim_receive){.wr_id = wr->wr_id, .sge = wr->sg_list[0]};
}

int sim_post_recv(struct fab_conn *head, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sim_conn *conn = sim_conn_of(head);

	*bad = wr;
	if (conn->closed)
		return -ENOTCONN;
	for (; wr; wr = wr->next) {
		if (++conn->rq_count > conn->options.recv_depth)
			sim_fail("%s: qp %u: receive queue overrun", conn->fab->actor->name,
				 head->qp_num);
		receive_post(&conn->rq, conn->options.recv_depth, wr);
	}
	if (conn->flushed)
		sim_wire_flush(conn);
	return 0;
}

int sim_post_srq_recv(struct fab_device *device, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sim_fab *fab = (struct sim_fab *)device->fab;

	*bad = wr;
	for (; wr; wr = wr->next) {
		if (++fab->srq_count > fab->head.options.srq_depth)
			sim_fail("%s: shared receive queue overrun", fab->actor->name);
		sim_rules_posted(fab, wr);
		receive_post(&fab->srq, fab->head.options.srq_depth, wr);
	}
	return 0;
}
