/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an ack is no frame of its own where the owner's answer follows in its next turn; and it is
 * sent all the same when the owner has no answer: it polls on, goes to sleep, or closes. Method: a
 * peer of bare bytes looks at the first frame that it gets; the fab is polled by hand.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"

#define HANG_MS 60000

/* The peer's one SEND; then the owner has taken its completion. */
static void ask(struct fx *fx, struct peer *peer)
{
	struct {
		struct fab_tcp_frame frame;
		char payload[8];
	} request = {.frame = {.opcode = FAB_TCP_SEND,
			       .flags = FAB_TCP_ACK_WANTED,
			       .length = rblk_to_le32(8),
			       .sequence = rblk_to_le32(1)}};
	uint64_t deadline = fx_deadline_ns();
	struct ibv_wc wc;

	memset(peer, 0, sizeof(*peer));
	fx_open_connected(fx);
	peer_attach(fx, peer, NULL);
	peer_send(peer, &request, sizeof(request.frame) + sizeof(request.payload));
	while (fab_poll(fx->b.fab, &wc, 1) == 0)
		CHECK(!fx_past(deadline));
	CHECK_EQ(wc.wr_id, PEER_RECV_ID);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
}

/* Without a turn of the fixture. */
static void expect_ack(struct peer *peer, uint8_t opcode)
{
	struct pollfd fd = {.fd = peer->fd, .events = POLLIN};
	struct fab_tcp_frame frame;

	CHECK_EQ(poll(&fd, 1, HANG_MS), 1);
	CHECK_EQ(recv(peer->fd, &frame, sizeof(frame), MSG_WAITALL), sizeof(frame));
	CHECK_EQ(frame.opcode, opcode);
	CHECK_EQ(rblk_le32(frame.ack), 1);
}

static void finish(struct fx *fx, struct peer *peer)
{
	peer_detach(fx, peer);
	fx->b.wc_count = 0;
	fx_close(fx);
}

static void the_answer_carries_it(void)
{
	struct fx fx = {0};
	struct fab_conn *own;
	struct peer peer;
	struct ibv_wc wc;

	ask(&fx, &peer);
	/* In this turn the owner's storage completes. */
	CHECK_EQ(fab_poll(fx.b.fab, &wc, 1), 0);
	own = fx.b.conn;
	fx.b.conn = peer.victim;
	fx_post_send(&fx.b, 1, 0, 64, 0);
	fx.b.conn = own;
	CHECK_EQ(fab_poll(fx.b.fab, &wc, 1), 0);
	expect_ack(&peer, FAB_TCP_SEND);
	finish(&fx, &peer);
}

static void an_owner_that_only_polls_acks(void)
{
	struct fx fx = {0};
	struct peer peer;
	struct ibv_wc wc;

	ask(&fx, &peer);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(fab_poll(fx.b.fab, &wc, 1), 0);
	expect_ack(&peer, FAB_TCP_ACK);
	finish(&fx, &peer);
}

static void an_owner_that_sleeps_acks(void)
{
	struct fx fx = {0};
	struct peer peer;

	ask(&fx, &peer);
	CHECK_EQ(fab_arm(fx.b.fab), 0);
	expect_ack(&peer, FAB_TCP_ACK);
	finish(&fx, &peer);
}

static void an_owner_that_closes_acks(void)
{
	struct fx fx = {0};
	struct peer peer;

	ask(&fx, &peer);
	fab_conn_close(peer.victim);
	expect_ack(&peer, FAB_TCP_ACK);
	finish(&fx, &peer);
}

const struct fx_case fx_cases_tcp_acks[] = {
	{"the_answer_carries_it", the_answer_carries_it, 0},
	{"an_owner_that_only_polls_acks", an_owner_that_only_polls_acks, 0},
	{"an_owner_that_sleeps_acks", an_owner_that_sleeps_acks, 0},
	{"an_owner_that_closes_acks", an_owner_that_closes_acks, 0},
	{0},
};
