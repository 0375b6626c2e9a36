/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The end of a ping over the fabric alone that answers (`rblk ping --serve`). It owns its peers: at most PEERS_MAX, each with one
 * page and two messages of memory, whatever they send. A peer that breaks the protocol of ping.h, or is silent for
 * --timeout, loses its connection; the others go on. Nobody looks at what a peer writes to its page.
 */
#include "initiator/cmd/ping.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "proto/core/env.h"

#define PEERS_MAX 8u
#define BATCH 16
#define NOTE_NS 1000000000ull /* peers cause one line in this time */
#define EVENTS_TURNS 64u /* a busy loop looks for events once in so many turns: that costs a system call */

/* A message is received, then answered when the answer before has been sent; only then the next one can be received. */
struct peer {
	struct ping_message message, answer;
	char page[PING_BYTES_MAX];
	struct fab_conn *conn; /* NULL: free */
	struct fab_mr *page_mr;
	enum ping_kind kind;
	bool established, closing, received, sending;
	uint64_t heard_ns;
};

/* The only server's. */
static struct peer peers[PEERS_MAX];
static struct fab *fab;
static struct fab_mr *peers_mr; /* for this end */

/* A line about a peer, if there has been none for a while. */
static void note(const char *peer, const char *what)
{
	static uint64_t noted_ns;
	uint64_t now_ns = env_now_ns();

	if (noted_ns && now_ns - noted_ns < NOTE_NS)
		return;
	noted_ns = now_ns;
	cmd_error("ping: %s: %s", peer, what);
}

/* -- one peer ------------------------------------------------------------------------------------ */

/* why: NULL if it has left. */
static void peer_close(struct peer *peer, const char *why)
{
	if (peer->closing)
		return;
	if (why)
		note(fab_conn_peer(peer->conn), why);
	peer->closing = true;
	fab_conn_close(peer->conn);
}

/* When nothing of its connection is under way any more. */
static void peer_free(struct peer *peer)
{
	fab_conn_destroy(peer->conn);
	if (peer->page_mr)
		fab_mr_deregister(peer->page_mr);
	memset(peer, 0, sizeof(*peer));
}

static struct ibv_sge peer_sge(const struct peer *peer, struct ping_message *message)
{
	return (struct ibv_sge){ .addr = (uintptr_t)message,
				 .length = sizeof(*message),
				 .lkey = fab_mr_lkey(peers_mr, fab_conn_device(peer->conn)) };
}

static int peer_receive(struct peer *peer)
{
	struct ibv_sge sge = peer_sge(peer, &peer->message);
	struct ibv_recv_wr wr = { .wr_id = (uint64_t)(peer - peers), .sg_list = &sge, .num_sge = 1 }, *bad;

	peer->received = false;
	return fab_post_recv(peer->conn, &wr, &bad);
}

static int peer_answer(struct peer *peer)
{
	struct ibv_sge sge = peer_sge(peer, &peer->answer);
	struct ibv_send_wr wr = {
		.wr_id = (uint64_t)(peer - peers),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED |
			      (fab_conn_inline(peer->conn) >= sizeof(peer->answer) ? IBV_SEND_INLINE : 0),
	}, *bad;
	int err;

	peer->answer.sequence = peer->message.sequence;
	peer->answer.cpu_ns = rblk_to_le64(env_thread_cpu_ns());
	err = peer_receive(peer);
	peer->sending = true;
	return err ? err : fab_post_send(peer->conn, &wr, &bad);
}

static void take_completion(const struct ibv_wc *wc)
{
	struct peer *peer = &peers[wc->wr_id];
	int err = 0;

	/* The event that follows what was flushed knows why. */
	if (peer->closing || wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		peer_close(peer, ibv_wc_status_str(wc->status));
	} else if (!(wc->opcode & IBV_WC_RECV)) {
		peer->sending = false;
	} else if (wc->opcode != IBV_WC_RECV || wc->byte_len != sizeof(peer->message)) {
		peer_close(peer, "it sends something else than messages of this protocol");
	} else {
		peer->received = true;
		peer->heard_ns = env_now_ns();
	}
	if (!peer->closing && peer->received && !peer->sending)
		err = peer_answer(peer);
	if (err)
		peer_close(peer, strerror(-err));
}

/* -- connections --------------------------------------------------------------------------------- */

/* Accepted: gives it its page, and answers the request. */
static int peer_establish(struct peer *peer)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct ping_welcome welcome = {
		.magic = rblk_to_le32(PING_MAGIC),
		.address = rblk_to_le64((uintptr_t)peer->page),
	};
	int err = fab_mr_register(fab, peer->page, sizeof(peer->page), all, &peer->page_mr);

	if (!err)
		err = peer_receive(peer);
	if (err)
		return err;
	welcome.rkey = rblk_to_le32(fab_mr_rkey(peer->page_mr, fab_conn_device(peer->conn)));
	return fab_conn_establish(peer->conn, &welcome, sizeof(welcome));
}

static void take_request(const struct fab_event *event)
{
	struct peer *peer = peers;
	const char *wrong = NULL;
	struct ping_hello hello;
	char address[96];

	while (peer < peers + PEERS_MAX && peer->conn)
		peer++;
	fab_format_address(fab_request_peer(event->request), address, sizeof(address));
	if (event->private_bytes >= sizeof(hello))
		memcpy(&hello, event->private_data, sizeof(hello));
	if (event->private_bytes < sizeof(hello) || rblk_le32(hello.magic) != PING_MAGIC || rblk_le32(hello.kind) >= PING_KINDS) {
		note(address, "refused: it is no rblk ping --peer of this version");
		fab_reject(event->request, NULL, 0);
		return;
	}
	if (peer == peers + PEERS_MAX) {
		wrong = "refused: as many others are served as may be";
	} else {
		const struct fab_conn_options options = {
			.send_depth = 1,
			.recv_depth = 1,
			.send_sge = 1,
			.inline_bytes = sizeof(struct ping_message),
			.read_in = 1,
			.read_out = 1,
			.user = peer,
		};

		if (fab_accept(fab, event->request, &options, &peer->conn)) {
			peer->conn = NULL;
			wrong = fab_error(fab);
		}
	}
	if (wrong) {
		note(address, wrong);
		fab_reject(event->request, &hello, sizeof(hello));
		return;
	}
	peer->kind = (enum ping_kind)rblk_le32(hello.kind);
	peer->heard_ns = env_now_ns();
	if (peer_establish(peer))
		peer_close(peer, fab_error(fab));
}

/* False: the process has to end. */
static bool take_event(const struct fab_event *event)
{
	struct peer *peer = event->conn ? fab_conn_user(event->conn) : NULL;

	switch (event->type) {
	case FAB_EVENT_REQUEST:
		take_request(event);
		break;
	case FAB_EVENT_ESTABLISHED:
		peer->established = true;
		break;
	case FAB_EVENT_FAILED:
		if (peer)
			peer_close(peer, fab_error(fab));
		else
			note("listener", fab_error(fab));
		break;
	case FAB_EVENT_DISCONNECTED:
		peer_close(peer, event->status ? fab_lost_text(event->status) : NULL);
		break;
	case FAB_EVENT_DRAINED:
		peer_free(peer);
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

/* Ends silent peers. Returns when the next may be, in ms, -1: never; 0: a peer wants this end to poll. */
static int peers_check(uint64_t silent_ns)
{
	uint64_t now_ns = env_now_ns(), next_ns = UINT64_MAX;
	bool polled = false;

	for (struct peer *peer = peers; peer < peers + PEERS_MAX; peer++) {
		uint64_t end_ns = peer->heard_ns + silent_ns;

		if (!peer->conn || peer->closing)
			continue;
		if (end_ns <= now_ns)
			peer_close(peer, "silent for too long");
		else if (end_ns < next_ns)
			next_ns = end_ns;
		polled |= peer->established && peer->kind == PING_SEND_POLLED;
	}
	return polled ? 0 : next_ns == UINT64_MAX ? -1 : (int)((next_ns - now_ns) / 1000000) + 1;
}

static int serve(uint64_t silent_ns)
{
	struct pollfd pollfd = { .fd = fab_fd(fab), .events = POLLIN };
	unsigned int busy = 0;
	struct fab_event event;
	struct ibv_wc wc[BATCH];
	int count, timeout_ms, timer_ms;

	for (;;) {
		count = fab_poll(fab, wc, BATCH);
		for (int i = 0; i < count; i++)
			take_completion(&wc[i]);
		if (count > 0 && ++busy % EVENTS_TURNS)
			continue;
		for (count = 0; count < BATCH && fab_poll_event(fab, &event) == 1; count++)
			if (!take_event(&event))
				return CMD_FAILED;
		timeout_ms = peers_check(silent_ns);
		if (!timeout_ms)
			env_yield();
		if (!timeout_ms || count || fab_arm(fab))
			continue;
		timer_ms = fab_timeout_ms(fab);
		poll(&pollfd, 1, timeout_ms < 0 || (timer_ms >= 0 && timer_ms < timeout_ms) ? timer_ms : timeout_ms);
	}
}

/* At the first address of the host that can be listened at. CMD_OK, or CMD_FAILED after an error message. */
static int serve_listen(const struct ini_uri_host *host, struct fab_listener **listener)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	char address[96];
	int err = getaddrinfo(host->name, host->port, &hints, &list);

	if (err)
		return cmd_error("ping: %s: %s", host->name, gai_strerror(err));
	err = -EADDRNOTAVAIL;
	for (const struct addrinfo *next = list; next && err; next = next->ai_next) {
		fab_format_address(next->ai_addr, address, sizeof(address));
		err = fab_listen(fab, next->ai_addr, BATCH, listener);
	}
	freeaddrinfo(list);
	if (err)
		return cmd_error("ping: %s", fab_error(fab));
	printf("serving %s%s\n", host->kind == FAB_TCP ? "rblk+tcp://" : "rblk://", address);
	return fflush(stdout) ? cmd_error("standard output: %s", strerror(errno)) : CMD_OK;
}

int ping_serve(const struct ini_uri_host *host, const struct cmd_connect *connect)
{
	const struct fab_options options = { .cq_depth = PEERS_MAX * 8, .recv_sge = 1, .device = connect->device };
	struct fab_listener *listener = NULL;
	char error[FAB_ERROR_BYTES];

	fab = fab_open(host->kind, &options, error);
	if (!fab)
		return cmd_error("%s", error);
	if (fab_mr_register(fab, peers, sizeof(peers), IBV_ACCESS_LOCAL_WRITE, &peers_mr))
		cmd_error("ping: %s", fab_error(fab));
	/* Ends with the process, whose memory and connections are the kernel's to give back. */
	else if (serve_listen(host, &listener) == CMD_OK)
		return serve(connect->timeout_ms * 1000000);
	fab_listener_destroy(listener);
	if (peers_mr)
		fab_mr_deregister(peers_mr);
	fab_close(fab);
	return CMD_FAILED;
}
