/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no byte of a peer makes the TCP fabric misbehave. Method: the input is played as a hostile
 * peer over loopback against a connection that has receives, SENDs and READs posted; afterwards
 * each of its work requests must have come back exactly once, and no input may be slow. Slow is
 * measured in processor time, which other programs do not affect. The input is a list of records:
 *
 *   control byte, frame header (32 bytes), count byte, `count` bytes of payload
 *
 * where bits of the control byte put a right sequence, key, address, or small length into the
 * header, so that inputs pass the first checks and reach later ones, too.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/fabric/fabric.h"
#include "proto/fabric/fabric_tcp_wire.h"

#define POSTED 8
#define TURNS 40
#define SLOW_NS 1000000000ll /* the longest input takes much less than a millisecond */
#define WAIT_MS 30000

enum {
	FIX_SEQUENCE = 1,
	FIX_KEY = 2,
	FIX_ADDRESS = 4,
	FIX_LENGTH = 8,
	FIX_ACK = 16,
	FIX_OPCODE = 32,
};

static struct fab *fab;
static struct fab_listener *listener;
static struct sockaddr_storage addr;
static struct fab_mr *mr;
static unsigned char memory[65536];

#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition,                 \
				strerror(errno));                                                  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void setup(void)
{
	const struct fab_options options = {.cq_depth = 16, .recv_sge = 1};
	struct sockaddr_in in = {.sin_family = AF_INET};
	char error[FAB_ERROR_BYTES];

	if (fab)
		return;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fab = fab_open(FAB_TCP, &options, error);
	require(fab);
	require(fab_listen(fab, (struct sockaddr *)&in, 8, &listener) == 0);
	require(fab_listener_address(listener, &addr) == 0);
	require(fab_mr_register(fab, memory, sizeof(memory),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_REMOTE_WRITE,
				&mr) == 0);
}

/*
 * Waits and does not spin: on a busy machine a spinning thread would keep the processor from the
 * kernel's thread that has the packets.
 */
static void wait_for_request(struct fab_event *event)
{
	struct pollfd polled = {.fd = fab_fd(fab), .events = POLLIN};

	while (event->type != FAB_EVENT_REQUEST) {
		if (fab_poll_event(fab, event) == 1 || fab_arm(fab) != 0)
			continue;
		/* The fuzzer's timer interrupts. */
		require(poll(&polled, 1, WAIT_MS) == 1 || errno == EINTR);
	}
}

static long long processor_ns(void)
{
	struct timespec now;

	require(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* A raw socket that has sent a hello, and the connection made from it. */
static int attach(struct fab_conn **conn)
{
	const struct fab_conn_options options = {.send_depth = POSTED, .recv_depth = POSTED,
						 .send_sge = 1, .read_in = 2, .read_out = 2};
	struct fab_tcp_hello hello = {.magic = rblk_to_le32(FAB_TCP_MAGIC),
				      .version = rblk_to_le16(FAB_TCP_VERSION),
				      .kind = FAB_TCP_REQUEST, .read_in = 2, .read_out = 2};
	const struct linger reset = {.l_onoff = 1}; /* else ports run out */
	struct fab_event event = {0};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	require(fd >= 0);
	/* The fuzzer's timer interrupts; connecting goes on meanwhile. */
	while (connect(fd, (struct sockaddr *)&addr, sizeof(struct sockaddr_in)) < 0 &&
	       errno != EISCONN)
		require(errno == EINTR || errno == EALREADY);
	require(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0);
	require(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello));
	wait_for_request(&event);
	require(fab_accept(fab, event.request, &options, conn) == 0);
	require(fab_conn_establish(*conn, NULL, 0) == 0);
	return fd;
}

static void post(struct fab_conn *conn)
{
	struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)memory, .length = 512,
			      .lkey = fab_mr_lkey(mr, fab_conn_device(conn))};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sge, .num_sge = 1,
				   .send_flags = IBV_SEND_SIGNALED}, *bad_send;

	for (unsigned int i = 0; i < POSTED; i++) {
		recv.wr_id = 100 + i;
		require(fab_post_recv(conn, &recv, &bad_recv) == 0);
		send.wr_id = i;
		send.opcode = i % 2 ? IBV_WR_RDMA_READ : IBV_WR_SEND;
		require(fab_post_send(conn, &send, &bad_send) == 0);
	}
}

static void turn(uint32_t *back, bool *drained)
{
	struct fab_event event;
	struct ibv_wc wc[8];
	int count = fab_poll(fab, wc, 8);

	for (int i = 0; i < count; i++) {
		uint64_t bit = wc[i].wr_id >= 100 ? wc[i].wr_id - 100 + POSTED : wc[i].wr_id;

		require(bit < 2 * POSTED && !(*back & (1u << bit)));
		*back |= 1u << bit;
	}
	while (fab_poll_event(fab, &event) == 1)
		*drained |= event.type == FAB_EVENT_DRAINED;
}

static void fix(struct fab_tcp_frame *frame, uint8_t control, uint32_t *sequence,
		const struct fab_conn *conn)
{
	if (control & FIX_OPCODE)
		frame->opcode = (__u8)(1 + frame->opcode % (FAB_TCP_OPCODE_MAX - 1));
	if (control & FIX_SEQUENCE)
		frame->sequence = rblk_to_le32((*sequence)++);
	if (control & FIX_KEY)
		frame->key = rblk_to_le32(fab_mr_rkey(mr, fab_conn_device(conn)));
	if (control & FIX_ADDRESS)
		frame->address = rblk_to_le64((uint64_t)(uintptr_t)memory +
					      rblk_le64(frame->address) % sizeof(memory));
	if (control & FIX_LENGTH)
		frame->length = rblk_to_le32(rblk_le32(frame->length) % 300);
	if (control & FIX_ACK)
		frame->ack = rblk_to_le32(rblk_le32(frame->ack) % (POSTED + 1));
	if (control & FIX_OPCODE) {
		frame->flags &= FAB_TCP_ACK_WANTED;
		frame->reserved = 0;
		if (frame->opcode != FAB_TCP_NAK)
			frame->status = 0;
		if (frame->opcode >= FAB_TCP_ACK)
			frame->length = 0;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fab_conn *conn;
	uint32_t back = 0, sequence = 1;
	bool drained = false;
	long long begun_ns;
	int fd;

	setup();
	begun_ns = processor_ns();
	fd = attach(&conn);
	post(conn);
	while (bytes > sizeof(struct fab_tcp_frame) + 1) {
		struct fab_tcp_frame frame;
		uint8_t control = data[0];
		size_t payload;

		memcpy(&frame, data + 1, sizeof(frame));
		data += 1 + sizeof(frame);
		bytes -= 1 + sizeof(frame);
		fix(&frame, control, &sequence, conn);
		payload = data[0] < bytes - 1 ? data[0] : bytes - 1;
		send(fd, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT);
		send(fd, data + 1, payload, MSG_NOSIGNAL | MSG_DONTWAIT);
		data += 1 + payload;
		bytes -= 1 + payload;
		turn(&back, &drained);
	}
	for (int i = 0; i < TURNS / 10; i++)
		turn(&back, &drained);
	fab_conn_close(conn);
	close(fd);
	for (int i = 0; i < TURNS && !drained; i++)
		turn(&back, &drained);
	require(drained && back == (1u << 2 * POSTED) - 1);
	fab_conn_destroy(conn);
	require(processor_ns() - begun_ns < SLOW_NS);
	return 0;
}
