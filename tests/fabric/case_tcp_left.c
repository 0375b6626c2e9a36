/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what a fab leaves to its caller to send arrives once and in order, wherever the socket cut it, and what is more
 * than one system call is not left. Method: a caller that sends as much as each case says.
 */
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "proto/fabric/fabric_tcp_conn.h"

#define BYTES 600u /* not staged */
#define LEFT_BYTES ((int)sizeof(struct fab_tcp_frame) + (int)BYTES)

/* Awake, it posts a SEND, and goes to sleep. */
static int post_and_arm(struct fx *fx, uint32_t bytes, struct fab_send *send)
{
	struct ibv_wc wc;

	while (fab_arm(fx->a.fab) != 0)
		fx_step(fx);
	CHECK_EQ(fab_poll(fx->a.fab, &wc, 0), 0);
	fx_post_send(&fx->a, 2, 0, bytes, 0);
	return fab_arm_to_send(fx->a.fab, send);
}

/* The first bytes of it. */
static void send_part(const struct fab_send *send, size_t bytes)
{
	struct iovec iovs[8];
	struct msghdr message = {.msg_iov = iovs};

	for (; bytes > 0; message.msg_iovlen++) {
		struct iovec *iov = &iovs[message.msg_iovlen];

		*iov = send->message->msg_iov[message.msg_iovlen];
		iov->iov_len = iov->iov_len < bytes ? iov->iov_len : bytes;
		bytes -= iov->iov_len;
	}
	CHECK(sendmsg(send->fd, &message, MSG_DONTWAIT) > 0);
}

static void what_is_left_goes_once(void)
{
	static const int parts[] = {0, 1, sizeof(struct fab_tcp_frame), LEFT_BYTES - 1, LEFT_BYTES};
	struct fab_send send;
	struct fx fx = {0};

	fx_open_connected(&fx);
	for (unsigned int i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		fx_fill(fx.a.memory, BYTES, i);
		fx_post_recv(&fx.b, 1, 4096, BYTES);
		CHECK_EQ(post_and_arm(&fx, BYTES, &send), 0);
		CHECK(send.message);
		CHECK_EQ(send.bytes, LEFT_BYTES);
		if (parts[i])
			send_part(&send, (size_t)parts[i]);
		fab_sent(fx.a.fab, parts[i] ? parts[i] : FAB_UNSENT);
		fx_wc_ok(&fx, &fx.b, 1);
		CHECK(fx_filled(fx.b.memory + 4096, BYTES, i));
		fx_wc_ok(&fx, &fx.a, 2);
	}
	/* A turn of a connection has an end. */
	fx_post_recv(&fx.b, 1, 0, 2u << 20);
	CHECK_EQ(post_and_arm(&fx, 2u << 20, &send), 1);
	CHECK(!send.message);
	fx_wc_ok(&fx, &fx.b, 1);
	fx_wc_ok(&fx, &fx.a, 2);

	CHECK_EQ(post_and_arm(&fx, BYTES, &send), 0);
	fab_sent(fx.a.fab, -ECONNRESET);
	WAIT(&fx, fx.a.events[FAB_EVENT_DISCONNECTED]);
	CHECK_EQ(fx.a.status, -ECONNRESET);
	fx_close(&fx);
}

const struct fx_case fx_cases_tcp_left[] = {
	{"what is left to the caller goes once", what_is_left_goes_once, 1u << FAB_TCP},
	{0},
};
