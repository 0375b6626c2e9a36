/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a connection by TLS ends as soon as its stream has ended or was changed, also behind good data and
 * without another edge of the socket; what TLS has proven is told until the connection is destroyed; peers
 * that do not complete the handshake are dropped; an error of the socket is final. Method: a peer that
 * has the key, with the case between its stream and the socket; a clock that is put forward; a
 * socket that fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "env_shift.h"
#include "peer.h"
#include "proto/fabric/fabric_tcp_listen.h"
#include "tls_ends.h"

#define WIRE_BYTES 4096

/* What the peer's stream says goes to `inner`, and by the case to the socket. */
struct secured {
	struct peer peer;
	int inner[2]; /* the stream's, the case's */
	struct rblk_tls *tls;
};

/* -- the socket ---------------------------------------------------------------------------------- */

static int send_error; /* not 0: send() fails so */

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	if (!send_error)
		return __real_send(fd, data, bytes, flags);
	errno = send_error;
	return -1;
}

/* -- a peer by TLS ------------------------------------------------------------------------------- */

static size_t take(int fd, unsigned char wire[WIRE_BYTES])
{
	ssize_t got = recv(fd, wire, WIRE_BYTES, MSG_DONTWAIT);

	return got < 0 ? 0 : (size_t)got;
}

/* Brings what there is to the other side, both ways. */
static void relay(struct fx *fx, struct secured *one)
{
	unsigned char wire[WIRE_BYTES];
	size_t bytes = take(one->inner[1], wire);

	if (bytes)
		peer_send(&one->peer, wire, bytes);
	fx_step(fx);
	bytes = take(one->peer.fd, wire);
	if (bytes)
		CHECK_EQ(send(one->inner[1], wire, bytes, MSG_DONTWAIT), bytes);
}

static void secured_begin(struct fx *fx, struct secured *one)
{
	peer_connect(fx, &one->peer);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, one->inner), 0);
	one->tls = rblk_tls_create(tls_ends_client(), one->inner[0]);
	CHECK(one->tls);
}

static void secured_shake(struct fx *fx, struct secured *one)
{
	uint64_t deadline = fx_deadline_ns();
	int ready;

	while ((ready = rblk_tls_handshake(one->tls)) == 0) {
		relay(fx, one);
		CHECK(!fx_past(deadline));
	}
	CHECK_EQ(ready, 1);
	relay(fx, one);
}

static void say(struct secured *one, const void *data, size_t bytes)
{
	const struct iovec iov = {(void *)data, bytes};

	CHECK_EQ(rblk_tls_send(one->tls, &iov, 1), bytes);
}

/* As peer_attach(). */
static void secured_attach(struct fx *fx, struct secured *one)
{
	struct fab_tcp_hello hello = peer_hello(FAB_TCP_REQUEST);
	const struct iovec iov = {&hello, sizeof(hello)};
	uint64_t deadline = fx_deadline_ns();

	fx->options.tls = tls_ends_server();
	fx_open(fx);
	secured_begin(fx, one);
	secured_shake(fx, one);
	say(one, &hello, sizeof(hello));
	while (!fx->b.request) {
		relay(fx, one);
		CHECK(!fx_past(deadline));
	}
	CHECK_EQ(fab_accept(fx->b.fab, fx->b.request, &fx->conn_options, &one->peer.victim), 0);
	fx->b.request = NULL;
	fx->b.conn = one->peer.victim;
	for (uint32_t i = 0; i < PEER_RECEIVES; i++)
		fx_post_recv(&fx->b, PEER_RECV_ID + i, PEER_RECEIVE_OFFSET + i * PEER_RECEIVE_BYTES,
			     PEER_RECEIVE_BYTES);
	CHECK_EQ(fab_conn_establish(one->peer.victim, NULL, 0), 0);
	while (rblk_tls_recv(one->tls, &iov, 1) != (ssize_t)sizeof(hello)) {
		relay(fx, one);
		CHECK(!fx_past(deadline));
	}
	CHECK_EQ(hello.kind, FAB_TCP_ACCEPT);
}

static void secured_close(struct fx *fx, struct secured *one)
{
	fx->b.conn = NULL;
	if (one->peer.victim)
		peer_detach(fx, &one->peer);
	else
		close(one->peer.fd);
	rblk_tls_destroy(one->tls);
	close(one->inner[0]);
	close(one->inner[1]);
	*one = (struct secured){0};
	fx_close(fx);
}

/* A SEND of 8 bytes. Nothing is sent for it. */
static void say_send(struct secured *one, uint32_t sequence)
{
	struct {
		struct fab_tcp_frame frame;
		char text[8];
	} message = {{.opcode = FAB_TCP_SEND,
		      .length = rblk_to_le32(8),
		      .sequence = rblk_to_le32(sequence)},
		     "message"};

	say(one, &message, sizeof(message));
}

/* -- cases --------------------------------------------------------------------------------------- */

/* In one segment, and the peer then waits: there is no other edge. */
static void changed_behind_good(void)
{
	struct fx fx = {0};
	struct secured one = {0};
	unsigned char wire[WIRE_BYTES];
	size_t bytes;

	secured_attach(&fx, &one);
	say_send(&one, 1);
	say_send(&one, 2);
	bytes = take(one.inner[1], wire);
	wire[bytes - 1] ^= 1;
	peer_send(&one.peer, wire, bytes);
	WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED]);
	CHECK_EQ(fx.b.status, -EBADMSG);
	CHECK_EQ(fab_conn_lost(one.peer.victim), -EBADMSG);
	/* What came before is good. */
	fx_wc_ok(&fx, &fx.b, PEER_RECV_ID);
	secured_close(&fx, &one);
}

static void ended_behind_good(void)
{
	struct fx fx = {0};
	struct secured one = {0};
	unsigned char wire[WIRE_BYTES];

	secured_attach(&fx, &one);
	say_send(&one, 1);
	rblk_tls_end(one.tls);
	peer_send(&one.peer, wire, take(one.inner[1], wire));
	WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED]);
	CHECK_EQ(fx.b.status, 0);
	fx_wc_ok(&fx, &fx.b, PEER_RECV_ID);
	secured_close(&fx, &one);
}

/* More records than one call receives, all of them before the socket's last edge. */
static void short_records_arrive(void)
{
	struct fx fx = {0};
	struct secured one = {0};
	unsigned char wire[WIRE_BYTES];
	struct {
		struct fab_tcp_frame frame;
		char text[PEER_RECEIVE_BYTES];
	} message = {.frame = {.opcode = FAB_TCP_SEND,
			       .length = rblk_to_le32(PEER_RECEIVE_BYTES),
			       .sequence = rblk_to_le32(1)}};

	secured_attach(&fx, &one);
	for (size_t i = 0; i < sizeof(message); i++) {
		say(&one, (char *)&message + i, 1);
		peer_send(&one.peer, wire, take(one.inner[1], wire));
	}
	CHECK_EQ(fx_wc_ok(&fx, &fx.b, PEER_RECV_ID).byte_len, PEER_RECEIVE_BYTES);
	secured_close(&fx, &one);
}

/* A request that came before the end is answered by what was proven then. */
static void channel_outlives_the_stream(void)
{
	struct fx fx = {0};
	struct secured one = {0};
	struct fab_channel channel;

	secured_attach(&fx, &one);
	CHECK_EQ(shutdown(one.peer.fd, SHUT_WR), 0);
	WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED]);
	CHECK_EQ(fx.b.status, -ECONNABORTED);
	CHECK(fab_conn_channel(one.peer.victim, &channel));
	CHECK(strcmp(channel.initiator, "fabric") == 0);
	CHECK(memcmp(channel.binding, rblk_tls_channel(one.tls), RBLK_TLS_CHANNEL_BYTES) == 0);
	secured_close(&fx, &one);
}

/* The time of a hello includes the handshake, wherever it stops. */
static void silent_in_the_handshake(void)
{
	for (unsigned int at = 0; at < 3; at++) {
		struct fx fx = {.options = {.tls = tls_ends_server()}};
		struct secured one = {0};
		unsigned char wire[WIRE_BYTES];
		size_t bytes;

		fx_open(&fx);
		secured_begin(&fx, &one);
		if (at == 2) {
			secured_shake(&fx, &one);
		} else {
			CHECK_EQ(rblk_tls_handshake(one.tls), 0);
			bytes = take(one.inner[1], wire);
			peer_send(&one.peer, wire, at ? bytes : bytes / 2);
		}
		for (int i = 0; i < 50; i++)
			fx_step(&fx);
		take(one.peer.fd, wire);
		env_shift_ms(TCP_HANDSHAKE_MS - 1000);
		peer_expect_silence(&fx, &one.peer);
		env_shift_ms(2000);
		peer_expect_end(&fx, &one.peer);
		CHECK_EQ(fx.b.events[FAB_EVENT_REQUEST], 0);
		secured_close(&fx, &one);
	}
}

/* A full socket has an edge when it is not full any more; other errors have none, and are final. */
static void errors_are_final(void)
{
	static const int errors[] = {ENOBUFS, ENOMEM, EPIPE};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct fx fx = {0};
		struct secured one = {0};

		secured_attach(&fx, &one);
		send_error = errors[i];
		fx_post_send(&fx.b, 1, 0, 64, 0);
		for (int step = 0; step < 50; step++)
			fx_step(&fx);
		send_error = 0;
		CHECK_EQ(fx.b.events[FAB_EVENT_DISCONNECTED], 1);
		CHECK_EQ(fx.b.status, -errors[i]);
		fx_wc_status(&fx, &fx.b, 1, IBV_WC_WR_FLUSH_ERR);
		secured_close(&fx, &one);
	}
}

/* A stranger who is refused does not keep it from being told that there are no descriptors. */
static void strangers_hide_nothing(void)
{
	struct fx fx = {.options = {.tls = tls_ends_server()}};
	struct secured one = {0};
	struct peer other = {0};
	struct rlimit before, none;

	fx_open(&fx);
	secured_begin(&fx, &one);
	for (int i = 0; i < 50; i++)
		fx_step(&fx);
	other.fd = peer_socket(&fx);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = (rlim_t)other.fd + 1;
	/* Both in one turn. */
	peer_send(&one.peer, "\x16 no TLS at all", 15);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	peer_connect(&fx, &other);
	WAIT(&fx, fx.b.events[FAB_EVENT_FAILED]);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	CHECK_EQ(fx.b.status, -EMFILE);
	close(other.fd);
	secured_close(&fx, &one);
}

const struct fx_case fx_cases_tcp_tls[] = {
	{"changed_behind_good", changed_behind_good, 0},
	{"ended_behind_good", ended_behind_good, 0},
	{"short_records_arrive", short_records_arrive, 0},
	{"channel_outlives_the_stream", channel_outlives_the_stream, 0},
	{"silent_in_the_handshake", silent_in_the_handshake, 0},
	{"errors_are_final", errors_are_final, 0},
	{"strangers_hide_nothing", strangers_hide_nothing, 0},
	{0},
};
