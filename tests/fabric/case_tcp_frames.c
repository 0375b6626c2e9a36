/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: each rule of fabric_tcp_wire.h about frames is enforced: a peer that breaks it gets a NAK
 * if there is one, loses its connection, and reaches no memory; another connection of the same fab
 * keeps working. Method: a table with one broken rule per row, played by a bare socket.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"

#define TARGET_OFFSET 8192u /* of the memory in b that rows access */
#define TARGET_BYTES 4096u
#define SEND_ID 50 /* of what b posts if a row says so: READ of 64 bytes, then SEND of 64 */

enum row_flags {
	KEY_ALL = 1 << 0,   /* key of the target with all rights */
	KEY_READ = 1 << 1,  /* ... that may only be read */
	KEY_WRITE = 1 << 2, /* ... that may only be written */
	AT_TARGET = 1 << 3, /* address is relative to the target */
	POSTED = 1 << 4,    /* b has a READ (1) and a SEND (2) outstanding */
	HANG_UP = 1 << 5,   /* the socket is closed after the bytes */
	SHORT = 1 << 6,	    /* only half of the header is sent */
};

struct row {
	const char *name;
	uint8_t opcode, flags, status, reserved;
	uint32_t length, sequence, ack;
	uint64_t address;
	unsigned int row_flags;
	uint32_t payload; /* bytes sent after the header */
	int disconnected; /* the status that b is told */
	uint8_t nak;	  /* enum fab_tcp_nak that the peer is told */
};

#define BROKEN .disconnected = -EPROTO
#define NAKED(reason) .disconnected = -EIO, .nak = FAB_TCP_NAK_##reason

static const struct row rows[] = {
	{"opcode 0", .opcode = 0, .sequence = 1, BROKEN},
	{"opcode beyond the last", .opcode = FAB_TCP_OPCODE_MAX, .sequence = 1, BROKEN},
	{"unknown flag", .opcode = FAB_TCP_SEND, .flags = 2, .sequence = 1, BROKEN},
	{"reserved byte", .opcode = FAB_TCP_SEND, .reserved = 1, .sequence = 1, BROKEN},
	{"status of a SEND", .opcode = FAB_TCP_SEND, .status = 1, .sequence = 1, BROKEN},
	{"oversize", .opcode = FAB_TCP_WRITE, .length = FAB_TCP_MESSAGE_MAX + 1, .sequence = 1,
	 .row_flags = KEY_ALL | AT_TARGET, BROKEN},
	{"ACK with a payload", .opcode = FAB_TCP_ACK, .length = 1, .payload = 1, BROKEN},
	{"sequence 0", .opcode = FAB_TCP_SEND, .sequence = 0, BROKEN},
	{"sequence skipped", .opcode = FAB_TCP_SEND, .sequence = 2, BROKEN},
	{"ack of what was never sent", .opcode = FAB_TCP_ACK, .ack = 1, BROKEN},
	{"ack beyond what was sent", .opcode = FAB_TCP_ACK, .ack = 3, .row_flags = POSTED, BROKEN},
	{"ack that goes back", .opcode = FAB_TCP_ACK, .ack = UINT32_MAX, BROKEN},

	{"unasked READ_DATA", .opcode = FAB_TCP_READ_DATA, .length = 64, .sequence = 1,
	 .payload = 64, BROKEN},
	{"READ_DATA before its READ was executed", .opcode = FAB_TCP_READ_DATA, .length = 64,
	 .sequence = 1, .payload = 64, .row_flags = POSTED, BROKEN},
	{"READ_DATA of another request", .opcode = FAB_TCP_READ_DATA, .length = 64, .sequence = 2,
	 .ack = 2, .payload = 64, .row_flags = POSTED, BROKEN},
	{"READ_DATA longer than asked", .opcode = FAB_TCP_READ_DATA, .length = 65, .sequence = 1,
	 .ack = 1, .payload = 65, .row_flags = POSTED, BROKEN},
	{"READ_DATA shorter than asked", .opcode = FAB_TCP_READ_DATA, .length = 63, .sequence = 1,
	 .ack = 1, .payload = 63, .row_flags = POSTED, BROKEN},

	{"NAK without a reason", .opcode = FAB_TCP_NAK, .sequence = 1, .row_flags = POSTED, BROKEN},
	{"NAK with an unknown reason", .opcode = FAB_TCP_NAK, .status = FAB_TCP_NAK_MAX,
	 .sequence = 1, .row_flags = POSTED, BROKEN},
	{"NAK of what was never sent", .opcode = FAB_TCP_NAK, .status = FAB_TCP_NAK_ACCESS,
	 .sequence = 1, BROKEN},
	{"NAK before what precedes it was answered", .opcode = FAB_TCP_NAK,
	 .status = FAB_TCP_NAK_INVALID, .sequence = 2, .ack = 1, .row_flags = POSTED, BROKEN},

	{"WRITE without a key", .opcode = FAB_TCP_WRITE, .length = 64, .sequence = 1, .payload = 64,
	 .row_flags = AT_TARGET, NAKED(ACCESS)},
	{"WRITE of what may only be read", .opcode = FAB_TCP_WRITE, .length = 64, .sequence = 1,
	 .payload = 64, .row_flags = KEY_READ | AT_TARGET, NAKED(ACCESS)},
	{"WRITE one byte before", .opcode = FAB_TCP_WRITE, .length = 64, .sequence = 1,
	 .address = UINT64_MAX, .payload = 64, .row_flags = KEY_ALL | AT_TARGET, NAKED(ACCESS)},
	{"WRITE one byte beyond", .opcode = FAB_TCP_WRITE, .length = 64, .sequence = 1,
	 .address = TARGET_BYTES - 63, .payload = 64, .row_flags = KEY_ALL | AT_TARGET,
	 NAKED(ACCESS)},
	{"WRITE whose end wraps", .opcode = FAB_TCP_WRITE, .length = 64, .sequence = 1,
	 .address = UINT64_MAX - 15, .payload = 64, .row_flags = KEY_ALL, NAKED(ACCESS)},
	{"WRITE_IMM without a key", .opcode = FAB_TCP_WRITE_IMM, .length = 64, .sequence = 1,
	 .payload = 64, .row_flags = AT_TARGET, NAKED(ACCESS)},
	{"READ without a key", .opcode = FAB_TCP_READ, .length = 64, .sequence = 1,
	 .row_flags = AT_TARGET, NAKED(ACCESS)},
	{"READ of what may only be written", .opcode = FAB_TCP_READ, .length = 64, .sequence = 1,
	 .row_flags = KEY_WRITE | AT_TARGET, NAKED(ACCESS)},
	{"READ one byte beyond", .opcode = FAB_TCP_READ, .length = TARGET_BYTES, .sequence = 1,
	 .address = 1, .row_flags = KEY_ALL | AT_TARGET, NAKED(ACCESS)},
	{"READ of the greatest length", .opcode = FAB_TCP_READ, .length = FAB_TCP_MESSAGE_MAX,
	 .sequence = 1, .row_flags = KEY_ALL | AT_TARGET, NAKED(ACCESS)},
	{"SEND longer than the receive", .opcode = FAB_TCP_SEND, .length = PEER_RECEIVE_BYTES + 1,
	 .sequence = 1, .payload = PEER_RECEIVE_BYTES + 1, NAKED(INVALID)},
	{"SEND_INV of no key", .opcode = FAB_TCP_SEND_INV, .length = 8, .sequence = 1, .payload = 8,
	 NAKED(INVALID)},

	{"half a header", .opcode = FAB_TCP_SEND, .sequence = 1, .row_flags = SHORT | HANG_UP},
	{"half a SEND", .opcode = FAB_TCP_SEND, .length = 100, .sequence = 1, .payload = 50,
	 .row_flags = HANG_UP},
	{"half an answer", .opcode = FAB_TCP_READ_DATA, .length = 64, .sequence = 1, .ack = 1,
	 .payload = 32, .row_flags = POSTED | HANG_UP},
	{"nothing at all", .opcode = FAB_TCP_ACK, .row_flags = HANG_UP},
};

struct keys {
	struct fab_mr *all, *read, *write;
};

static struct fab_tcp_frame row_frame(const struct row *row, const struct fx *fx,
				      const struct keys *keys)
{
	const struct fab_mr *mr = row->row_flags & KEY_ALL    ? keys->all
				  : row->row_flags & KEY_READ ? keys->read
							      : keys->write;
	uint64_t base = row->row_flags & AT_TARGET ? fx_address(&fx->b, TARGET_OFFSET) : 0;

	return (struct fab_tcp_frame){
		.opcode = row->opcode,
		.flags = row->flags,
		.status = row->status,
		.reserved = row->reserved,
		.length = rblk_to_le32(row->length),
		.sequence = rblk_to_le32(row->sequence),
		.ack = rblk_to_le32(row->ack),
		.key = rblk_to_le32(row->row_flags & (KEY_ALL | KEY_READ | KEY_WRITE)
					    ? fx_rkey(&fx->b, mr)
					    : 0),
		.address = rblk_to_le64(base + row->address),
	};
}

/* The peer receives all that b has asked for. */
static void post_requests(struct fx *fx, struct peer *peer)
{
	struct fab_conn *own = fx->b.conn;
	struct fab_tcp_frame frame;
	char data[64];

	fx->b.conn = peer->victim;
	fx_post_rdma(&fx->b, SEND_ID, IBV_WR_RDMA_READ, 2u << 20, 64, 0x1000, 1, 0);
	fx_post_send(&fx->b, SEND_ID + 1, 0, 64, 0);
	fx->b.conn = own;
	peer_receive(fx, peer, &frame, sizeof(frame));
	CHECK_EQ(frame.opcode, FAB_TCP_READ);
	peer_receive(fx, peer, &frame, sizeof(frame));
	CHECK_EQ(frame.opcode, FAB_TCP_SEND);
	peer_receive(fx, peer, data, sizeof(data));
}

/* Each work request of the victim has come back once, none as a success. */
static void check_victim_flushed(struct fx_end *end, bool posted)
{
	unsigned int back = 0;

	for (int i = 0; i < end->wc_count; i++) {
		unsigned int bit = end->wcs[i].wr_id >= PEER_RECV_ID
					   ? (unsigned int)end->wcs[i].wr_id - PEER_RECV_ID
					   : (unsigned int)end->wcs[i].wr_id - SEND_ID + 8;

		CHECK(end->wcs[i].status != IBV_WC_SUCCESS);
		CHECK(bit < 16 && !(back & (1u << bit)));
		back |= 1u << bit;
	}
	CHECK_EQ(back, (1u << PEER_RECEIVES) - 1 + (posted ? 3u << 8 : 0));
	end->wc_count = 0;
}

static void check_other_goes_on(struct fx *fx)
{
	fx_post_recv(&fx->b, 1, 0, 64);
	fx_post_send(&fx->a, 2, 0, 64, 0);
	fx_wc_ok(fx, &fx->b, 1);
	fx_wc_ok(fx, &fx->a, 2);
}

static void play(struct fx *fx, const struct row *row, const struct keys *keys)
{
	unsigned char payload[2 * PEER_RECEIVE_BYTES];
	int before = fx->b.events[FAB_EVENT_DISCONNECTED];
	struct peer peer = {0};
	struct fab_tcp_frame frame;

	peer_attach(fx, &peer, NULL);
	if (row->row_flags & POSTED)
		post_requests(fx, &peer);
	frame = row_frame(row, fx, keys);
	memset(payload, 0x66, sizeof(payload));
	peer_send(&peer, &frame, row->row_flags & SHORT ? sizeof(frame) / 2 : sizeof(frame));
	peer_send(&peer, payload, row->payload);
	if (row->row_flags & HANG_UP)
		CHECK_EQ(shutdown(peer.fd, SHUT_WR), 0);
	if (row->nak) {
		peer_receive(fx, &peer, &frame, sizeof(frame));
		CHECK_EQ(frame.opcode, FAB_TCP_NAK);
		CHECK_EQ(frame.status, row->nak);
		CHECK_EQ(rblk_le32(frame.sequence), row->sequence);
	}
	WAIT(fx, fx->b.events[FAB_EVENT_DISCONNECTED] > before);
	CHECK_EQ(fx->b.status, row->disconnected);
	peer_expect_end(fx, &peer);
	peer_detach(fx, &peer);
	check_victim_flushed(&fx->b, row->row_flags & POSTED);
	for (uint32_t i = TARGET_OFFSET - 64; i < TARGET_OFFSET + TARGET_BYTES + 64; i++)
		CHECK_EQ(fx->b.memory[i], 0);
	check_other_goes_on(fx);
}

static struct fab_mr *target_register(struct fx *fx, int access)
{
	struct fab_mr *mr;

	CHECK_EQ(fab_mr_register(fx->b.fab, fx->b.memory + TARGET_OFFSET, TARGET_BYTES,
				 IBV_ACCESS_LOCAL_WRITE | access, &mr),
		 0);
	return mr;
}

static void broken_rules(void)
{
	struct fx fx = {0};
	struct keys keys;

	fx_open_connected(&fx);
	keys.all = target_register(&fx, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	keys.read = target_register(&fx, IBV_ACCESS_REMOTE_READ);
	keys.write = target_register(&fx, IBV_ACCESS_REMOTE_WRITE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fx_about(rows[i].name);
		play(&fx, &rows[i], &keys);
	}
	fab_mr_deregister(keys.all);
	fab_mr_deregister(keys.read);
	fab_mr_deregister(keys.write);
	fx_close(&fx);
}

/* More READs than b has agreed to answer at a time; the peer receives none of the answers. */
static void too_many_reads(void)
{
	struct fx fx = {0};
	struct peer peer = {0};
	struct fab_tcp_frame frame = {.opcode = FAB_TCP_READ, .length = rblk_to_le32(1u << 20)};
	struct fab_tcp_frame reads[PEER_READS + 1];

	fx_open_connected(&fx);
	peer_attach(&fx, &peer, NULL);
	frame.key = rblk_to_le32(fx_rkey(&fx.b, NULL));
	frame.address = rblk_to_le64(fx_address(&fx.b, 0));
	for (uint32_t i = 0; i <= PEER_READS; i++) {
		reads[i] = frame;
		reads[i].sequence = rblk_to_le32(i + 1);
	}
	peer_send(&peer, reads, sizeof(reads));
	for (int i = 0; i < PEER_READS; i++) {
		static unsigned char data[1u << 20];

		peer_receive(&fx, &peer, &frame, sizeof(frame));
		CHECK_EQ(frame.opcode, FAB_TCP_READ_DATA);
		peer_receive(&fx, &peer, data, sizeof(data));
	}
	peer_receive(&fx, &peer, &frame, sizeof(frame));
	CHECK_EQ(frame.opcode, FAB_TCP_NAK);
	CHECK_EQ(frame.status, FAB_TCP_NAK_INVALID);
	CHECK_EQ(rblk_le32(frame.sequence), PEER_READS + 1);
	WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED]);
	peer_detach(&fx, &peer);
	fx.b.wc_count = 0;
	check_other_goes_on(&fx);
	fx_close(&fx);
}

/* b never has more READs on the wire than the peer said, however many are posted. */
static void reads_outstanding(void)
{
	struct fx fx = {.conn_options = {.read_out = 8}};
	struct peer peer = {0};
	struct fab_tcp_frame frame;
	struct fab_conn *own;
	unsigned char data[16];

	fx_open_connected(&fx);
	peer_attach(&fx, &peer, NULL);
	own = fx.b.conn;
	fx.b.conn = peer.victim;
	CHECK_EQ(fab_conn_read_out(peer.victim), PEER_READS);
	for (uint32_t i = 0; i < 6; i++)
		fx_post_rdma(&fx.b, i, IBV_WR_RDMA_READ, i * 16, 16, 0x1000, 1, 0);
	for (int i = 0; i < PEER_READS; i++)
		peer_receive(&fx, &peer, &frame, sizeof(frame));
	for (uint32_t i = 0; i < 6; i++) {
		peer_expect_silence(&fx, &peer);
		frame = (struct fab_tcp_frame){
			.opcode = FAB_TCP_READ_DATA,
			.length = rblk_to_le32(16),
			.sequence = rblk_to_le32(i + 1),
			.ack = rblk_to_le32(i + 1),
		};
		fx_fill(data, sizeof(data), i);
		peer_send(&peer, &frame, sizeof(frame));
		peer_send(&peer, data, sizeof(data));
		fx_wc_ok(&fx, &fx.b, i);
		CHECK(fx_filled(fx.b.memory + i * 16, 16, i));
		if (i + PEER_READS >= 6)
			continue;
		peer_receive(&fx, &peer, &frame, sizeof(frame));
		CHECK_EQ(frame.opcode, FAB_TCP_READ);
		CHECK_EQ(rblk_le32(frame.sequence), i + 1 + PEER_READS);
	}
	fx.b.conn = own;
	peer_detach(&fx, &peer);
	fx_close(&fx);
}

const struct fx_case fx_cases_tcp_frames[] = {
	{"broken_rules", broken_rules, 0},
	{"too_many_reads", too_many_reads, 0},
	{"reads_outstanding", reads_outstanding, 0},
	{0},
};
