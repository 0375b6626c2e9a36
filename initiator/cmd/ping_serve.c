/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The end of a ping over the fabric alone that answers (`rblk ping --serve`). It owns its peers: at most PEERS_MAX, each with one
 * page and SLOTS messages of memory, whatever they send. A peer that breaks the protocol of ping_fabric.h, or is silent for
 * --timeout, loses its connection; the others go on. What a peer writes to its page is never looked at.
 */
#include "initiator/cmd/ping_fabric.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"

#define PEERS_MAX 8u
#define SLOTS 4u     /* messages of a peer that are received or answered at a time */
#define BATCH 16
#define BACKLOG 16
#define NOTE_NS 1000000000ull /* peers cause one line in this time */
#define EVENTS_TURNS 64u /* a busy loop looks for events once in so many turns: that costs a system call */

/* A message and its answer: posted, received, answered, and posted again when the answer has been sent. */
struct slot {
	struct ping_message message, answer;
};

struct peer {
	struct slot slots[SLOTS];
	char page[PING_BYTES_MAX];
	struct fab_conn *conn; /* NULL: free */
	struct fab_mr *page_mr;
	enum ping_kind kind;
	bool established, closing, drained;
	uint64_t heard_ns;
};

struct server {
	struct fab *fab;
	struct fab_listener *listener;
	struct fab_mr *mr; /* of all peers, for this end */
	uint64_t silent_ns, noted_ns;
	unsigned int busy; /* turns with completions */
};

/* The only server's; registered. */
static struct peer peers[PEERS_MAX];

/* A line about a peer, if there has been none for a while. */
static void note(struct server *server, const char *peer, const char *what)
{
	uint64_t now_ns = env_now_ns();

	if (server->noted_ns && now_ns - server->noted_ns < NOTE_NS)
		return;
	server->noted_ns = now_ns;
	cmd_error("ping: %s: %s", peer, what);
}

/* -- one peer ------------------------------------------------------------------------------------ */

static void peer_close(struct server *server, struct peer *peer, const char *why)
{
	if (peer->closing)
		return;
	if (why)
		note(server, fab_conn_peer(peer->conn), why);
	peer->closing = true;
	fab_conn_close(peer->conn);
}

/* When nothing of its connection is under way any more. */
static void peer_free(struct peer *peer)
{
	fab_conn_destroy(peer->conn);
	if (peer->page_mr)
		fab_mr_deregister(peer->page_mr);
	peer->page_mr = NULL;
	peer->conn = NULL;
}

static int slot_post(const struct server *server, struct peer *peer, unsigned int index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&peer->slots[index].message,
		.length = sizeof(peer->slots[index].message),
		.lkey = fab_mr_lkey(server->mr, fab_conn_device(peer->conn)),
	};
	struct ibv_recv_wr wr = {
		.wr_id = (uint64_t)(peer - peers) * SLOTS + index,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad;

	return fab_post_recv(peer->conn, &wr, &bad);
}

static int slot_answer(const struct server *server, struct peer *peer, unsigned int index)
{
	struct slot *slot = &peer->slots[index];
	struct ibv_sge sge = {
		.addr = (uintptr_t)&slot->answer,
		.length = sizeof(slot->answer),
		.lkey = fab_mr_lkey(server->mr, fab_conn_device(peer->conn)),
	};
	struct ibv_send_wr wr = {
		.wr_id = (uint64_t)(peer - peers) * SLOTS + index,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	if (fab_conn_inline(peer->conn) >= sizeof(slot->answer))
		wr.send_flags |= IBV_SEND_INLINE;
	slot->answer = (struct ping_message){
		.sequence = slot->message.sequence,
		.cpu_ns = rblk_to_le64(env_thread_cpu_ns()),
	};
	return fab_post_send(peer->conn, &wr, &bad);
}

static void take_completion(struct server *server, const struct ibv_wc *wc)
{
	struct peer *peer = &peers[wc->wr_id / SLOTS];
	unsigned int index = (unsigned int)(wc->wr_id % SLOTS);
	int err;

	if (peer->closing)
		return;
	/* The event that follows what was flushed knows why. */
	if (wc->status != IBV_WC_SUCCESS) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			peer_close(server, peer, ibv_wc_status_str(wc->status));
		return;
	}
	if (!(wc->opcode & IBV_WC_RECV)) {
		err = slot_post(server, peer, index);
	} else if (wc->opcode != IBV_WC_RECV || wc->byte_len != sizeof(struct ping_message)) {
		peer_close(server, peer, "it sends something else than messages of this protocol");
		return;
	} else {
		peer->heard_ns = env_now_ns();
		err = slot_answer(server, peer, index);
	}
	if (err)
		peer_close(server, peer, strerror(-err));
}

/* -- connections --------------------------------------------------------------------------------- */

static const char *hello_check(const struct fab_event *event, enum ping_kind *kind)
{
	struct ping_hello hello;

	if (event->private_bytes < sizeof(hello))
		return "its request is too short";
	memcpy(&hello, event->private_data, sizeof(hello));
	if (rblk_le32(hello.magic) != PING_MAGIC || rblk_le16(hello.version) != PING_VERSION || hello.reserved)
		return "it is no rblk ping --peer of this version";
	if (hello.kind >= PING_KINDS)
		return "it asks for an unknown kind of round trip";
	*kind = (enum ping_kind)hello.kind;
	return NULL;
}

static struct peer *peer_find_free(void)
{
	for (unsigned int i = 0; i < PEERS_MAX; i++)
		if (!peers[i].conn)
			return &peers[i];
	return NULL;
}

static int peer_establish(const struct server *server, struct peer *peer)
{
	const struct fab_device *device = fab_conn_device(peer->conn);
	struct ping_welcome welcome = {
		.magic = rblk_to_le32(PING_MAGIC),
		.version = rblk_to_le16(PING_VERSION),
		.length = rblk_to_le32(PING_BYTES_MAX),
		.address = rblk_to_le64((uintptr_t)peer->page),
	};
	int err = fab_mr_register(server->fab, peer->page, sizeof(peer->page),
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, &peer->page_mr);

	if (err)
		return err;
	for (unsigned int i = 0; i < SLOTS && !err; i++)
		err = slot_post(server, peer, i);
	welcome.rkey = rblk_to_le32(fab_mr_rkey(peer->page_mr, device));
	return err ? err : fab_conn_establish(peer->conn, &welcome, sizeof(welcome));
}

static void request_refuse(struct server *server, struct fab_request *request, enum ping_refused reason, const char *why)
{
	const struct ping_refusal refusal = {
		.magic = rblk_to_le32(PING_MAGIC),
		.version = rblk_to_le16(PING_VERSION),
		.reason = rblk_to_le16((uint16_t)reason),
	};
	char address[96];

	fab_format_address(fab_request_peer(request), address, sizeof(address));
	note(server, address, why);
	fab_reject(request, &refusal, sizeof(refusal));
}

static void take_request(struct server *server, const struct fab_event *event)
{
	struct peer *peer = peer_find_free();
	const struct fab_conn_options options = {
		.send_depth = SLOTS,
		.recv_depth = SLOTS,
		.send_sge = 1,
		.inline_bytes = sizeof(struct ping_message),
		.read_in = 1,
		.read_out = 1,
		.user = peer,
	};
	enum ping_kind kind = PING_SEND_EVENTS;
	const char *wrong = hello_check(event, &kind);
	struct fab_conn *conn;

	if (wrong) {
		request_refuse(server, event->request, PING_REFUSED_MALFORMED, wrong);
		return;
	}
	if (!peer) {
		request_refuse(server, event->request, PING_REFUSED_BUSY, "there are as many peers as may be");
		return;
	}
	if (fab_accept(server->fab, event->request, &options, &conn)) {
		request_refuse(server, event->request, PING_REFUSED_RESOURCES, fab_error(server->fab));
		return;
	}
	*peer = (struct peer){ .conn = conn, .kind = kind, .heard_ns = env_now_ns() };
	if (peer_establish(server, peer))
		peer_close(server, peer, fab_error(server->fab));
}

/* False: the process has to end. */
static bool take_event(struct server *server, const struct fab_event *event)
{
	struct peer *peer = event->conn ? fab_conn_user(event->conn) : NULL;

	switch (event->type) {
	case FAB_EVENT_REQUEST:
		take_request(server, event);
		break;
	case FAB_EVENT_ESTABLISHED:
		peer->established = true;
		break;
	case FAB_EVENT_FAILED:
		if (peer)
			peer_close(server, peer, fab_error(server->fab));
		else
			note(server, "listener", fab_error(server->fab));
		break;
	case FAB_EVENT_DISCONNECTED:
		peer_close(server, peer, event->status ? fab_lost_text(event->status) : NULL);
		break;
	case FAB_EVENT_DRAINED:
		peer->drained = true;
		break;
	case FAB_EVENT_DEVICE_GONE:
		/* Its driver waits until this process has released it. */
		cmd_error("ping: the RDMA device is gone");
		return false;
	default:
		break;
	}
	return true;
}

/* -- the loop ------------------------------------------------------------------------------------ */

/* Ends silent peers. Returns when the next may be, in ms; -1: never. */
static int peers_check(struct server *server, bool *polled)
{
	uint64_t now_ns = env_now_ns(), next_ns = UINT64_MAX;

	*polled = false;
	for (unsigned int i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &peers[i];
		uint64_t end_ns = peer->heard_ns + server->silent_ns;

		if (peer->conn && peer->drained)
			peer_free(peer);
		if (!peer->conn || peer->closing)
			continue;
		if (end_ns <= now_ns) {
			peer_close(server, peer, "silent for too long");
			continue;
		}
		if (end_ns < next_ns)
			next_ns = end_ns;
		*polled |= peer->established && peer->kind == PING_SEND_POLLED;
	}
	return next_ns == UINT64_MAX ? -1 : (int)((next_ns - now_ns) / 1000000) + 1;
}

static int serve(struct server *server)
{
	struct pollfd pollfd = { .fd = fab_fd(server->fab), .events = POLLIN };
	struct fab_event event;
	struct ibv_wc wc[BATCH];
	int count, timeout_ms, timer_ms;
	bool polled;

	for (;;) {
		count = fab_poll(server->fab, wc, BATCH);
		for (int i = 0; i < count; i++)
			take_completion(server, &wc[i]);
		if (count > 0 && ++server->busy % EVENTS_TURNS)
			continue;
		for (count = 0; count < BATCH && fab_poll_event(server->fab, &event) == 1; count++)
			if (!take_event(server, &event))
				return CMD_FAILED;
		timeout_ms = peers_check(server, &polled);
		if (polled) {
			env_yield();
			continue;
		}
		if (count || fab_arm(server->fab))
			continue;
		timer_ms = fab_timeout_ms(server->fab);
		if (timeout_ms < 0 || (timer_ms >= 0 && timer_ms < timeout_ms))
			timeout_ms = timer_ms;
		poll(&pollfd, 1, timeout_ms);
	}
}

/* At the first address of the host that can be listened at. 0, or the status after an error message. */
static int serve_listen(struct server *server, const struct ini_uri_host *host)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct sockaddr_storage bound;
	struct addrinfo *list;
	char address[96];
	int err = getaddrinfo(host->name, host->port, &hints, &list);

	if (err)
		return cmd_error("ping: %s: %s", host->name, gai_strerror(err));
	err = -EADDRNOTAVAIL;
	for (const struct addrinfo *next = list; next && err; next = next->ai_next)
		err = fab_listen(server->fab, next->ai_addr, BACKLOG, &server->listener);
	freeaddrinfo(list);
	if (err)
		return cmd_error("ping: %s", fab_error(server->fab));
	fab_listener_address(server->listener, &bound);
	fab_format_address((struct sockaddr *)&bound, address, sizeof(address));
	printf("serving %s%s\n", host->kind == FAB_TCP ? "rblk+tcp://" : "rblk://", address);
	return fflush(stdout) ? cmd_error("standard output: %s", strerror(errno)) : CMD_OK;
}

int ping_serve(const struct ini_uri_host *host, const struct cmd_connect *connect)
{
	const struct fab_options options = {
		.cq_depth = PEERS_MAX * SLOTS * 4,
		.recv_sge = 1,
		.device = connect->device,
	};
	struct server server = { .silent_ns = connect->timeout_ms * 1000000 };
	char error[FAB_ERROR_BYTES];
	int status;

	server.fab = fab_open(host->kind, &options, error);
	if (!server.fab)
		return cmd_error("%s", error);
	if (fab_mr_register(server.fab, peers, sizeof(peers), IBV_ACCESS_LOCAL_WRITE, &server.mr))
		status = cmd_error("ping: %s", fab_error(server.fab));
	else
		status = serve_listen(&server, host);
	/* Ends with the process, whose memory and connections are the kernel's to give back. */
	if (!status)
		return serve(&server);
	fab_listener_destroy(server.listener);
	if (server.mr)
		fab_mr_deregister(server.mr);
	fab_close(server.fab);
	return status;
}
