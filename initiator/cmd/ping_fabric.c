/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The end of a ping over the fabric alone that measures. It owns one connection to another `rblk ping`, and has one round
 * trip under way at a time.
 */
#include "initiator/cmd/ping.h"

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

struct ping_fabric {
	struct fab *fab;
	struct fab_conn *conn;
	struct fab_mr *mr;
	enum ping_kind kind;
	uint32_t bytes;
	uint64_t timeout_ns, deadline_ns, heard_ns, sequence;
	struct ping_welcome welcome;
	unsigned int idle;
	bool established, drained, sending, awaiting; /* awaiting: an answer */
	int error;				      /* of the connection, negative errno; `words` say which */
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

static void take_event(struct ping_fabric *fabric, const struct fab_event *event)
{
	const char *peer = fab_conn_peer(fabric->conn);
	struct ping_welcome welcome = { 0 };

	if (event->private_data)
		memcpy(&welcome, event->private_data,
		       event->private_bytes < sizeof(welcome) ? event->private_bytes : sizeof(welcome));
	switch (event->type) {
	case FAB_EVENT_ESTABLISHED:
		fabric->welcome = welcome;
		fabric->established = true;
		if (rblk_le32(welcome.magic) != PING_MAGIC || event->private_bytes < sizeof(welcome))
			fail(fabric, -EPROTO, "%s: it is no rblk ping --serve of this version", peer);
		break;
	case FAB_EVENT_REJECTED:
		if (rblk_le32(welcome.magic) == PING_MAGIC)
			fail(fabric, -EBUSY, "%s: refused: it cannot serve one more", peer);
		else
			fail(fabric, -EPROTO, "%s: refused: it is no rblk ping --serve of this version", peer);
		break;
	case FAB_EVENT_FAILED:
		fail(fabric, event->status ? event->status : -ECONNREFUSED, "%s", fab_error(fabric->fab));
		break;
	case FAB_EVENT_DISCONNECTED:
	case FAB_EVENT_DEVICE_GONE:
		fail(fabric, -ECONNRESET, "%s: the connection is lost: %s", peer, fab_lost_text(event->status));
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
	else if (!(wc->opcode & IBV_WC_RECV))
		fabric->sending = false;
	else if (wc->byte_len != sizeof(fabric->answer) || fabric->answer.sequence != fabric->message.sequence)
		fail(fabric, -EPROTO, "%s: an answer that was not asked for", fab_conn_peer(fabric->conn));
	else
		fabric->awaiting = false;
}

/* Handles what is there; if that is nothing, sleeps or lets others run. */
static void turn(struct ping_fabric *fabric, bool asleep)
{
	struct pollfd pollfd = { .fd = fab_fd(fabric->fab), .events = POLLIN };
	struct fab_event event;
	struct ibv_wc wc[4];
	int count = fab_poll(fabric->fab, wc, 4), left_ms, timer_ms;
	uint64_t now_ns;

	for (int i = 0; i < count; i++)
		take_completion(fabric, &wc[i]);
	if (count > 0)
		return;
	if (!asleep) {
		env_yield();
		if (++fabric->idle % EVENTS_TURNS)
			return;
	}
	while (fab_poll_event(fabric->fab, &event) == 1) {
		take_event(fabric, &event);
		asleep = false;
	}
	now_ns = env_now_ns();
	if (now_ns > fabric->deadline_ns)
		fail(fabric, -ETIMEDOUT, "%s: no answer in time", fab_conn_peer(fabric->conn));
	else if (asleep && !fab_arm(fabric->fab)) {
		left_ms = (int)((fabric->deadline_ns - now_ns) / 1000000) + 1;
		timer_ms = fab_timeout_ms(fabric->fab);
		poll(&pollfd, 1, timer_ms < 0 || timer_ms > left_ms ? left_ms : timer_ms);
	}
}

/* -- round trips --------------------------------------------------------------------------------- */

/* Posts these and waits for the completion of the last, which alone is signalled. */
static int post(struct ping_fabric *fabric, struct ibv_send_wr *wr, bool asleep)
{
	struct ibv_send_wr *bad;
	int err = fabric->error ? fabric->error : fab_post_send(fabric->conn, wr, &bad);

	if (err)
		return fail(fabric, err, "%s: %s", fab_conn_peer(fabric->conn), strerror(-err));
	fabric->deadline_ns = env_now_ns() + fabric->timeout_ns;
	fabric->sending = true;
	while ((fabric->sending || fabric->awaiting) && !fabric->error)
		turn(fabric, asleep);
	return fabric->error;
}

static struct ibv_sge sge_of(const struct ping_fabric *fabric, void *memory, size_t bytes)
{
	return (struct ibv_sge){ .addr = (uintptr_t)memory,
				 .length = (uint32_t)bytes,
				 .lkey = fab_mr_lkey(fabric->mr, fab_conn_device(fabric->conn)) };
}

static int round_message(struct ping_fabric *fabric, bool asleep)
{
	struct ibv_sge answer = sge_of(fabric, &fabric->answer, sizeof(fabric->answer));
	struct ibv_sge message = sge_of(fabric, &fabric->message, sizeof(fabric->message));
	struct ibv_recv_wr receive = { .sg_list = &answer, .num_sge = 1 }, *bad;
	struct ibv_send_wr send = {
		.sg_list = &message,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED |
			      (fab_conn_inline(fabric->conn) >= sizeof(fabric->message) ? IBV_SEND_INLINE : 0),
	};
	int err = fab_post_recv(fabric->conn, &receive, &bad);

	if (err)
		return fail(fabric, err, "%s: %s", fab_conn_peer(fabric->conn), strerror(-err));
	fabric->message.sequence = rblk_to_le64(++fabric->sequence);
	fabric->awaiting = true;
	err = post(fabric, &send, asleep);
	fabric->heard_ns = env_now_ns();
	return err;
}

static int round_one_sided(struct ping_fabric *fabric)
{
	struct ibv_sge sge = sge_of(fabric, fabric->page, fabric->bytes);
	struct ibv_send_wr read = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = rblk_le64(fabric->welcome.address), .rkey = rblk_le32(fabric->welcome.rkey) },
	};
	struct ibv_send_wr write = read;
	int err = 0;

	write.opcode = IBV_WR_RDMA_WRITE;
	if (fabric->kind == PING_RDMA_SIGNALLED) {
		err = post(fabric, &read, false);
	} else {
		/* The READ's completion implies that of the WRITE before it in the queue. */
		write.send_flags = 0;
		write.next = &read;
	}
	return err ? err : post(fabric, &write, false);
}

int ping_fabric_round(struct ping_fabric *fabric, uint64_t *ns)
{
	bool one_sided = fabric->kind >= PING_RDMA_SIGNALLED;
	uint64_t start_ns;
	int err = 0;

	if (one_sided && env_now_ns() - fabric->heard_ns > ALIVE_NS)
		err = round_message(fabric, true);
	start_ns = env_now_ns();
	if (!err)
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
	if (!fabric->conn)
		return;
	fabric->deadline_ns = env_now_ns() + fabric->timeout_ns;
	fab_conn_close(fabric->conn);
	while (!fabric->drained && env_now_ns() < fabric->deadline_ns)
		turn(fabric, true);
	if (!fabric->drained)
		return;
	fab_conn_destroy(fabric->conn);
	fabric->conn = NULL;
}

static void connect_to(struct ping_fabric *fabric, const struct sockaddr *address, struct fab_conn_options *options)
{
	fabric->error = 0;
	fabric->drained = false;
	fabric->deadline_ns = env_now_ns() + fabric->timeout_ns;
	if (fab_connect(fabric->fab, address, options, NULL, &fabric->conn)) {
		fabric->conn = NULL;
		fail(fabric, -ECONNREFUSED, "%s", fab_error(fabric->fab));
	}
	while (!fabric->established && !fabric->error)
		turn(fabric, true);
	fabric->heard_ns = env_now_ns();
	if (fabric->error)
		disconnect(fabric);
}

/* To each address of the host, until one is connected. */
static int connect_any(struct ping_fabric *fabric, const struct ini_uri_host *host, const struct cmd_connect *connect)
{
	const struct ping_hello hello = { .magic = rblk_to_le32(PING_MAGIC), .kind = rblk_to_le32(fabric->kind) };
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct ini_addresses sources = { .count = 0 };
	const char *fault = connect->source ? ini_source_parse(connect->source, 1, &sources) : NULL;
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
		.source = ini_source_of(&sources, 0),
		.tos = (uint8_t)connect->tos,
		.ack_timeout = (uint8_t)connect->ack_timeout,
	};
	struct addrinfo *list;
	int err;

	if (fault)
		return fail(fabric, -EINVAL, "--source: \"%s\" %s", connect->source, fault);
	err = getaddrinfo(host->name, host->port, &hints, &list);
	if (err)
		return fail(fabric, -EINVAL, "%s: %s", host->name, gai_strerror(err));
	for (const struct addrinfo *next = list; next && !fabric->conn; next = next->ai_next)
		connect_to(fabric, next->ai_addr, &options);
	freeaddrinfo(list);
	return fabric->error;
}

struct ping_fabric *ping_fabric_open(const struct ini_uri_host *host, const struct cmd_connect *connect, enum ping_kind kind,
				     size_t bytes)
{
	const struct fab_options options = { .cq_depth = 16, .recv_sge = 1, .device = connect->device };
	const size_t first = offsetof(struct ping_fabric, message);
	struct ping_fabric *fabric = calloc(1, sizeof(*fabric));

	if (!fabric) {
		cmd_error("out of memory");
		return NULL;
	}
	fabric->kind = kind;
	fabric->bytes = (uint32_t)bytes;
	fabric->timeout_ns = connect->timeout_ms * 1000000;
	fabric->fab = fab_open(host->kind, &options, fabric->words);
	/* On iWARP, where an RDMA READ is answered by a WRITE, memory that is read into takes those. */
	if (fabric->fab && fab_mr_register(fabric->fab, (char *)fabric + first, sizeof(*fabric) - first,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &fabric->mr))
		fail(fabric, -ENOMEM, "%s", fab_error(fabric->fab));
	if (fabric->mr && !connect_any(fabric, host, connect))
		return fabric;
	cmd_error("%s", fabric->words);
	ping_fabric_close(fabric);
	return NULL;
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
