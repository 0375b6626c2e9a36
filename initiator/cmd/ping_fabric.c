/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The end of a ping over the fabric alone that measures. It owns one connection to another `rblk ping`, and has one round
 * trip under way at a time.
 */
#include "initiator/cmd/ping_fabric.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/source.h"
#include "proto/core/env.h"

/* The other end ends a connection on which it hears nothing for long, and one-sided round trips are not heard. */
#define ALIVE_NS 1000000000ull
/* A busy loop looks for the fabric's events once in so many turns without a completion: that costs a system call. */
#define EVENTS_TURNS 256u

enum { PING_WR_RECEIVE = 1, PING_WR_SEND = 2 };

struct ping_fabric {
	struct fab *fab;
	struct fab_conn *conn;
	struct fab_mr *mr;
	enum ping_kind kind;
	uint32_t bytes;
	uint64_t timeout_ns, heard_ns; /* heard: the last message was answered then */
	uint64_t sequence;
	struct ping_welcome welcome;
	unsigned int idle;
	bool established, drained, received;
	unsigned int sends; /* signalled ones under way */
	int error;	    /* of the connection, negative errno; `words` say which */
	char words[FAB_ERROR_BYTES + 64];
	/* Registered: */
	struct ping_message message, answer;
	char page[PING_BYTES_MAX];
};

__attribute__((format(printf, 3, 4))) static int fail(struct ping_fabric *fabric, int error, const char *format, ...)
{
	va_list args;

	if (fabric->error)
		return fabric->error;
	va_start(args, format);
	vsnprintf(fabric->words, sizeof(fabric->words), format, args);
	va_end(args);
	return fabric->error = error;
}

const char *ping_fabric_error(const struct ping_fabric *fabric)
{
	return fabric->words;
}

/* -- what arrives -------------------------------------------------------------------------------- */

static void take_welcome(struct ping_fabric *fabric, const struct fab_event *event)
{
	struct ping_welcome *welcome = &fabric->welcome;
	const char *peer = fab_conn_peer(fabric->conn);

	if (event->private_bytes < sizeof(*welcome)) {
		fail(fabric, -EPROTO, "%s: it is no rblk ping --serve", peer);
		return;
	}
	memcpy(welcome, event->private_data, sizeof(*welcome));
	if (rblk_le32(welcome->magic) != PING_MAGIC || rblk_le16(welcome->version) != PING_VERSION)
		fail(fabric, -EPROTO, "%s: it is no rblk ping --serve of this version", peer);
	else if (rblk_le32(welcome->length) != PING_BYTES_MAX || rblk_le64(welcome->address) > UINT64_MAX - PING_BYTES_MAX)
		fail(fabric, -EPROTO, "%s: its memory has a length or address that cannot be", peer);
	else
		fabric->established = true;
}

static void take_refusal(struct ping_fabric *fabric, const struct fab_event *event)
{
	const char *peer = fab_conn_peer(fabric->conn);
	struct ping_refusal refusal = { 0 };

	if (event->private_bytes >= sizeof(refusal))
		memcpy(&refusal, event->private_data, sizeof(refusal));
	if (rblk_le32(refusal.magic) != PING_MAGIC)
		fail(fabric, -EPROTO, "%s: refused: it is no rblk ping --serve", peer);
	else if (rblk_le16(refusal.version) != PING_VERSION)
		fail(fabric, -EPROTO, "%s: refused: its protocol is %u, and this one's %u", peer,
		     rblk_le16(refusal.version), PING_VERSION);
	else if (rblk_le16(refusal.reason) == PING_REFUSED_BUSY)
		fail(fabric, -EBUSY, "%s: refused: it serves as many others as it can", peer);
	else
		fail(fabric, -ECONNREFUSED, "%s: refused, for reason %u", peer, rblk_le16(refusal.reason));
}

static void take_event(struct ping_fabric *fabric, const struct fab_event *event)
{
	switch (event->type) {
	case FAB_EVENT_ESTABLISHED:
		take_welcome(fabric, event);
		break;
	case FAB_EVENT_REJECTED:
		take_refusal(fabric, event);
		break;
	case FAB_EVENT_FAILED:
		fail(fabric, event->status ? event->status : -ECONNREFUSED, "%s", fab_error(fabric->fab));
		break;
	case FAB_EVENT_DISCONNECTED:
	case FAB_EVENT_DEVICE_GONE:
		fail(fabric, -ECONNRESET, "%s: the connection is lost: %s", fab_conn_peer(fabric->conn),
		     fab_lost_text(event->status));
		break;
	case FAB_EVENT_DRAINED:
		fabric->drained = true;
		break;
	default:
		break;
	}
}

static void take_completion(struct ping_fabric *fabric, const struct ibv_wc *wc)
{
	/* The event that follows what was flushed knows why. */
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (wc->status != IBV_WC_SUCCESS)
		fail(fabric, -EIO, "%s: %s", fab_conn_peer(fabric->conn), ibv_wc_status_str(wc->status));
	else if (wc->wr_id == PING_WR_SEND)
		fabric->sends--;
	else if (wc->byte_len != sizeof(fabric->answer) || fabric->answer.sequence != fabric->message.sequence)
		fail(fabric, -EPROTO, "%s: an answer that was not asked for", fab_conn_peer(fabric->conn));
	else
		fabric->received = true;
}

/* Handles what is there; if that is nothing, sleeps or lets others run. */
static void turn(struct ping_fabric *fabric, bool asleep, uint64_t deadline_ns)
{
	struct pollfd pollfd = { .fd = fab_fd(fabric->fab), .events = POLLIN };
	struct fab_event event;
	struct ibv_wc wc[4];
	int count = fab_poll(fabric->fab, wc, 4), events = 0, timer_ms;
	uint64_t now_ns;

	for (int i = 0; i < count; i++)
		take_completion(fabric, &wc[i]);
	if (count > 0 || (!asleep && ++fabric->idle % EVENTS_TURNS)) {
		if (count <= 0)
			env_yield();
		return;
	}
	while (fab_poll_event(fabric->fab, &event) == 1) {
		take_event(fabric, &event);
		events++;
	}
	now_ns = env_now_ns();
	if (now_ns > deadline_ns) {
		fail(fabric, -ETIMEDOUT, "%s: no answer in time", fab_conn_peer(fabric->conn));
		return;
	}
	if (!asleep || events || fab_arm(fabric->fab))
		return;
	timer_ms = fab_timeout_ms(fabric->fab);
	if (timer_ms < 0 || (uint64_t)timer_ms > (deadline_ns - now_ns) / 1000000)
		timer_ms = (int)((deadline_ns - now_ns) / 1000000) + 1;
	poll(&pollfd, 1, timer_ms);
}

/* -- round trips --------------------------------------------------------------------------------- */

/* A message and its answer. */
static int round_message(struct ping_fabric *fabric, bool asleep)
{
	uint32_t lkey = fab_mr_lkey(fabric->mr, fab_conn_device(fabric->conn));
	struct ibv_sge answer = { .addr = (uintptr_t)&fabric->answer, .length = sizeof(fabric->answer), .lkey = lkey };
	struct ibv_sge message = { .addr = (uintptr_t)&fabric->message, .length = sizeof(fabric->message), .lkey = lkey };
	struct ibv_recv_wr receive = { .wr_id = PING_WR_RECEIVE, .sg_list = &answer, .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr send = {
		.wr_id = PING_WR_SEND,
		.sg_list = &message,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad_send;
	uint64_t deadline_ns = env_now_ns() + fabric->timeout_ns;
	int err;

	fabric->message.sequence = rblk_to_le64(++fabric->sequence);
	fabric->received = false;
	if (fab_conn_inline(fabric->conn) >= sizeof(fabric->message))
		send.send_flags |= IBV_SEND_INLINE;
	err = fab_post_recv(fabric->conn, &receive, &bad_receive);
	if (!err)
		err = fab_post_send(fabric->conn, &send, &bad_send);
	if (err)
		return fail(fabric, err, "%s: a message cannot be posted: %s", fab_conn_peer(fabric->conn), strerror(-err));
	fabric->sends++;
	while ((!fabric->received || fabric->sends) && !fabric->error)
		turn(fabric, asleep, deadline_ns);
	fabric->heard_ns = env_now_ns();
	return fabric->error;
}

/* One of a one-sided round trip; only the last of a chain is signalled. */
static struct ibv_send_wr one_sided(const struct ping_fabric *fabric, struct ibv_sge *sge, enum ibv_wr_opcode opcode)
{
	return (struct ibv_send_wr){
		.wr_id = PING_WR_SEND,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = rblk_le64(fabric->welcome.address), .rkey = rblk_le32(fabric->welcome.rkey) },
	};
}

static int round_post(struct ping_fabric *fabric, struct ibv_send_wr *wr)
{
	uint64_t deadline_ns = env_now_ns() + fabric->timeout_ns;
	struct ibv_send_wr *bad;
	int err = fab_post_send(fabric->conn, wr, &bad);

	if (err)
		return fail(fabric, err, "%s: RDMA cannot be posted: %s", fab_conn_peer(fabric->conn), strerror(-err));
	fabric->sends++;
	while (fabric->sends && !fabric->error)
		turn(fabric, false, deadline_ns);
	return fabric->error;
}

static int round_one_sided(struct ping_fabric *fabric)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)fabric->page,
		.length = fabric->bytes,
		.lkey = fab_mr_lkey(fabric->mr, fab_conn_device(fabric->conn)),
	};
	struct ibv_send_wr write_wr = one_sided(fabric, &sge, IBV_WR_RDMA_WRITE);
	struct ibv_send_wr read_wr = one_sided(fabric, &sge, IBV_WR_RDMA_READ);
	int err;

	if (fabric->kind == PING_RDMA_UNSIGNALLED) {
		/* The READ's completion implies that of the WRITE before it in the queue. */
		write_wr.send_flags = 0;
		write_wr.next = &read_wr;
		return round_post(fabric, &write_wr);
	}
	err = round_post(fabric, &read_wr);
	return err ? err : round_post(fabric, &write_wr);
}

int ping_fabric_round(struct ping_fabric *fabric, uint64_t *ns)
{
	bool one_sided = fabric->kind == PING_RDMA_SIGNALLED || fabric->kind == PING_RDMA_UNSIGNALLED;
	uint64_t start_ns = env_now_ns();
	int err;

	if (one_sided && start_ns - fabric->heard_ns > ALIVE_NS) {
		err = round_message(fabric, true);
		if (err)
			return err;
		start_ns = env_now_ns();
	}
	err = one_sided ? round_one_sided(fabric) : round_message(fabric, fabric->kind == PING_SEND_EVENTS);
	*ns = env_now_ns() - start_ns;
	return err;
}

int ping_fabric_cpu(struct ping_fabric *fabric, uint64_t *cpu_ns)
{
	int err = round_message(fabric, true);

	*cpu_ns = rblk_le64(fabric->answer.cpu_ns);
	return err;
}

/* -- connecting ---------------------------------------------------------------------------------- */

static void disconnect(struct ping_fabric *fabric)
{
	uint64_t deadline_ns = env_now_ns() + fabric->timeout_ns;

	if (!fabric->conn)
		return;
	fab_conn_close(fabric->conn);
	while (!fabric->drained && env_now_ns() < deadline_ns)
		turn(fabric, true, deadline_ns);
	if (!fabric->drained)
		return;
	fab_conn_destroy(fabric->conn);
	fabric->conn = NULL;
}

/* True: connected. */
static bool connect_to(struct ping_fabric *fabric, const struct sockaddr *address, const struct cmd_connect *connect,
		       const struct ini_addresses *sources)
{
	const struct ping_hello hello = {
		.magic = rblk_to_le32(PING_MAGIC),
		.version = rblk_to_le16(PING_VERSION),
		.kind = (__u8)fabric->kind,
	};
	struct fab_conn_options options = {
		.send_depth = 4,
		.recv_depth = 1,
		.send_sge = 1,
		.inline_bytes = sizeof(struct ping_message),
		.read_in = 1,
		.read_out = 1,
		.private_data = &hello,
		.private_bytes = sizeof(hello),
		.timeout_ms = (uint32_t)connect->timeout_ms,
		.source = ini_source_of(sources, 0),
		.tos = (uint8_t)connect->tos,
		.ack_timeout = (uint8_t)connect->ack_timeout,
		.user = fabric,
	};
	uint64_t deadline_ns = env_now_ns() + fabric->timeout_ns;
	int err;

	fabric->error = 0;
	fabric->drained = false;
	err = fab_connect(fabric->fab, address, &options, NULL, &fabric->conn);
	if (err) {
		fabric->conn = NULL;
		fail(fabric, err, "%s", fab_error(fabric->fab));
		return false;
	}
	while (!fabric->established && !fabric->error)
		turn(fabric, true, deadline_ns);
	fabric->heard_ns = env_now_ns();
	if (fabric->error)
		disconnect(fabric);
	return !fabric->error;
}

/* Each address of the host, until one is connected. */
static int connect_any(struct ping_fabric *fabric, const struct ini_uri_host *host, const struct cmd_connect *connect)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct ini_addresses sources = { .count = 0 };
	struct addrinfo *list;
	const char *fault = connect->source ? ini_source_parse(connect->source, 1, &sources) : NULL;
	int err;

	if (fault)
		return fail(fabric, -EINVAL, "--source: \"%s\" %s", connect->source, fault);
	err = getaddrinfo(host->name, host->port, &hints, &list);
	if (err)
		return fail(fabric, -EINVAL, "%s: %s", host->name, gai_strerror(err));
	for (const struct addrinfo *address = list; address; address = address->ai_next)
		if (connect_to(fabric, address->ai_addr, connect, &sources) || fabric->conn)
			break;
	freeaddrinfo(list);
	return fabric->error;
}

/* The fab, with the memory of all messages. */
static int open_fab(struct ping_fabric *fabric, enum fab_kind kind, const struct cmd_connect *connect)
{
	const struct fab_options options = { .cq_depth = 16, .recv_sge = 1, .device = connect->device };
	const size_t first = offsetof(struct ping_fabric, message);
	int err;

	fabric->fab = fab_open(kind, &options, fabric->words);
	if (!fabric->fab)
		return -errno;
	/* On iWARP, where an RDMA READ is answered by a WRITE, memory that is read into takes those. */
	err = fab_mr_register(fabric->fab, (char *)fabric + first, sizeof(*fabric) - first,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &fabric->mr);
	return err ? fail(fabric, err, "%s", fab_error(fabric->fab)) : 0;
}

struct ping_fabric *ping_fabric_open(const struct ini_uri_host *host, const struct cmd_connect *connect, enum ping_kind kind,
				     size_t bytes)
{
	struct ping_fabric *fabric = calloc(1, sizeof(*fabric));

	if (!fabric) {
		cmd_error("out of memory");
		return NULL;
	}
	fabric->kind = kind;
	fabric->bytes = (uint32_t)bytes;
	fabric->timeout_ns = connect->timeout_ms * 1000000;
	if (open_fab(fabric, host->kind, connect) || connect_any(fabric, host, connect)) {
		cmd_error("%s", fabric->words);
		ping_fabric_close(fabric);
		return NULL;
	}
	return fabric;
}

void ping_fabric_close(struct ping_fabric *fabric)
{
	disconnect(fabric);
	/* A device that does not drain keeps the memory, until the process ends. */
	if (fabric->conn)
		return;
	if (fabric->mr)
		fab_mr_deregister(fabric->mr);
	if (fabric->fab)
		fab_close(fabric->fab);
	free(fabric);
}
