/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a connection whose peer takes data as fast as it is sent does not hold its thread; others
 * send in the same turn, and all of its data goes in the end. Method: the socket is replaced by a
 * peer that takes everything at once, cut where the fabric cuts it, and that looks at each frame's
 * header.
 */
#include <string.h>

#include "peer.h"
#include "proto/fabric/fabric_tcp_conn.h"

#define WRITES 16u
#define WRITE_BYTES (1u << 20)
#define TURN_BYTES (2u << 20) /* a turn sends twice: before and after it has received */
#define FRAME_BYTES (WRITE_BYTES + (uint32_t)sizeof(struct fab_tcp_frame))

static struct {
	int fast, other; /* sockets */
	uint64_t taken;	 /* of `fast` */
	uint64_t before; /* what `fast` had sent when `other` sent first; UINT64_MAX: it has not */
	struct fab_tcp_frame header; /* of the frame that is being taken */
	uint32_t frames;
} took;

/* Frames are of one size: a header's place follows from how much came before it. */
static void take_bytes(const char *data, size_t bytes)
{
	while (bytes > 0) {
		uint32_t at = (uint32_t)(took.taken % FRAME_BYTES);
		size_t part =
			at < sizeof(took.header) ? sizeof(took.header) - at : FRAME_BYTES - at;

		part = part < bytes ? part : bytes;
		if (at < sizeof(took.header))
			memcpy((char *)&took.header + at, data, part);
		took.taken += part;
		data += part;
		bytes -= part;
		if (at + part != sizeof(took.header))
			continue;
		took.frames++;
		CHECK_EQ(took.header.opcode, FAB_TCP_WRITE);
		CHECK_EQ(rblk_le32(took.header.length), WRITE_BYTES);
		CHECK_EQ(rblk_le32(took.header.sequence), took.frames);
	}
}

static ssize_t take_all(int fd, const struct msghdr *message)
{
	size_t bytes = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++) {
		if (fd == took.fast)
			take_bytes(message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
		bytes += message->msg_iov[i].iov_len;
	}
	if (fd == took.other && took.before == UINT64_MAX)
		took.before = took.taken;
	return (ssize_t)bytes;
}

static int socket_of(const struct peer *peer)
{
	return tcp_conn_of(peer->victim)->source.fd;
}

static void one_that_takes_all_does_not_hold_the_turn(void)
{
	struct fx fx = {0};
	struct peer fast = {0}, other = {0};
	struct fab_conn *own;
	uint64_t total = (uint64_t)WRITES * FRAME_BYTES;
	struct ibv_wc wc;
	int turns = 0;

	fx_open_connected(&fx);
	peer_attach(&fx, &fast, NULL);
	peer_attach(&fx, &other, NULL);
	memset(&took, 0, sizeof(took));
	took.fast = socket_of(&fast);
	took.other = socket_of(&other);
	took.before = UINT64_MAX;
	peer_takes = take_all;
	own = fx.b.conn;
	fx.b.conn = fast.victim;
	for (uint32_t i = 0; i < WRITES; i++)
		fx_post_rdma(&fx.b, i, IBV_WR_RDMA_WRITE, 0, WRITE_BYTES, 0, 1, 0);
	fx.b.conn = other.victim;
	fx_post_send(&fx.b, WRITES, 0, 64, 0);
	fx.b.conn = own;
	while (took.taken < total) {
		uint64_t before = took.taken;

		CHECK_EQ(fab_poll(fx.b.fab, &wc, 1), 0);
		CHECK(took.taken > before);
		CHECK(took.taken - before <= TURN_BYTES);
		CHECK(took.before <= TURN_BYTES / 2);
		turns++;
	}
	CHECK_EQ(took.taken, total);
	CHECK_EQ(took.frames, WRITES);
	CHECK(turns >= (int)(total / TURN_BYTES));
	peer_takes = NULL;
	peer_detach(&fx, &other);
	peer_detach(&fx, &fast);
	fx.b.wc_count = 0;
	fx_close(&fx);
}

/* Asleep, its owner is woken for the rest. */
static void what_is_left_keeps_its_owner_awake(void)
{
	struct fx fx = {0};
	struct peer fast = {0};
	struct fab_conn *own;

	fx_open_connected(&fx);
	peer_attach(&fx, &fast, NULL);
	memset(&took, 0, sizeof(took));
	took.fast = socket_of(&fast);
	took.other = -1;
	peer_takes = take_all;
	own = fx.b.conn;
	fx.b.conn = fast.victim;
	for (uint32_t i = 0; i < WRITES; i++)
		fx_post_rdma(&fx.b, i, IBV_WR_RDMA_WRITE, 0, WRITE_BYTES, 0, 1, 0);
	fx.b.conn = own;
	for (int turns = 0; fab_arm(fx.b.fab) != 0; turns++) {
		struct ibv_wc wc;

		CHECK(turns < (int)WRITES);
		CHECK_EQ(fab_poll(fx.b.fab, &wc, 1), 0);
	}
	CHECK_EQ(took.taken, (uint64_t)WRITES * FRAME_BYTES);
	peer_takes = NULL;
	peer_detach(&fx, &fast);
	fx.b.wc_count = 0;
	fx_close(&fx);
}

const struct fx_case fx_cases_tcp_budget[] = {
	{"one_that_takes_all_does_not_hold_the_turn", one_that_takes_all_does_not_hold_the_turn, 0},
	{"what_is_left_keeps_its_owner_awake", what_is_left_keeps_its_owner_awake, 0},
	{0},
};
