/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: peers that break the rules of the handshake, or do not complete it, are dropped; their
 * number and time are bounded, and they do not keep others out, also when descriptors run out.
 * Method: bare sockets against a listener, a bare listener against fab_connect(); a clock that is
 * put forward.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "env_shift.h"
#include "peer.h"
#include "proto/fabric/fabric_tcp_hello.h"
#include "proto/fabric/fabric_tcp_listen.h"

struct hello_row {
	const char *name;
	size_t offset; /* of the byte that is wrong */
	uint8_t value;
	int error; /* that the connecting end gets */
};

#define AT(field) offsetof(struct fab_tcp_hello, field)
static const struct hello_row hello_rows[] = {
	{"magic", AT(magic), 0, -EPROTO},
	{"version", AT(version), FAB_TCP_VERSION + 1, -EPROTONOSUPPORT},
	{"kind 0", AT(kind), 0, -EPROTO},
	{"kind unknown", AT(kind), FAB_TCP_REJECT + 1, -EPROTO},
	{"kind beyond any mask", AT(kind), 255, -EPROTO},
	{"private data beyond its room", AT(private_bytes), FAB_TCP_PRIVATE_MAX + 1, -EPROTO},
	{"reserved, first", AT(reserved), 1, -EPROTO},
	{"reserved, last", AT(reserved) + 5, 1, -EPROTO},
	{"private data beyond its length", AT(private_data), 1, -EPROTO},
};
#define HELLO_ROWS (sizeof(hello_rows) / sizeof(hello_rows[0]))

/* To a listener: it reports no request, sends no answer and closes the connection. */
static void bad_requests(void)
{
	struct fx fx = {0};
	struct peer peer = {0};

	fx_open(&fx);
	for (size_t i = 0; i <= HELLO_ROWS; i++) {
		/* One more row: an answer instead of a request. */
		struct fab_tcp_hello hello =
			peer_hello(i < HELLO_ROWS ? FAB_TCP_REQUEST : FAB_TCP_ACCEPT);
		char byte;

		fx_about(i < HELLO_ROWS ? hello_rows[i].name : "kind of an answer");
		if (i < HELLO_ROWS)
			((uint8_t *)&hello)[hello_rows[i].offset] = hello_rows[i].value;
		peer_connect(&fx, &peer);
		peer_send(&peer, &hello, sizeof(hello));
		peer_expect_end(&fx, &peer);
		CHECK(recv(peer.fd, &byte, 1, MSG_DONTWAIT) <= 0);
		close(peer.fd);
		peer.fd = 0;
	}
	fx_about("half a hello");
	peer_connect(&fx, &peer);
	peer_send(&peer, "RTCP", 4);
	CHECK_EQ(shutdown(peer.fd, SHUT_WR), 0);
	peer_expect_end(&fx, &peer);
	close(peer.fd);
	CHECK_EQ(fx.b.events[FAB_EVENT_REQUEST], 0);
	fx_connect(&fx);
	fx_close(&fx);
}

/* From a listener to a connecting end: FAILED, with the row's errno; nothing is established. */
static void bad_answers(void)
{
	struct fx fx = {0};
	struct sockaddr_storage addr = fx_target.addr;
	socklen_t bytes = sizeof(addr);
	int listener, fd;

	fx_open(&fx);
	listener = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(listener, (struct sockaddr *)&addr,
		      tcp_address_bytes((struct sockaddr *)&addr)),
		 0);
	CHECK_EQ(listen(listener, 4), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&fx.addr, &bytes), 0);
	CHECK_EQ(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	for (size_t i = 0; i <= HELLO_ROWS; i++) {
		/* One more row: a request instead of an answer. */
		struct fab_tcp_hello hello =
			peer_hello(i < HELLO_ROWS ? FAB_TCP_ACCEPT : FAB_TCP_REQUEST);

		fx_about(i < HELLO_ROWS ? hello_rows[i].name : "kind of a request");
		if (i < HELLO_ROWS)
			((uint8_t *)&hello)[hello_rows[i].offset] = hello_rows[i].value;
		fx_connect_begin(&fx);
		WAIT(&fx, (fd = accept(listener, NULL, NULL)) >= 0);
		CHECK_EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
		WAIT(&fx, fx.a.events[FAB_EVENT_FAILED]);
		CHECK_EQ(fx.a.status, i < HELLO_ROWS ? hello_rows[i].error : -EPROTO);
		CHECK(strstr(fab_error(fx.a.fab), fab_conn_peer(fx.a.conn)));
		CHECK_EQ(fx.a.events[FAB_EVENT_ESTABLISHED], 0);
		close(fd);
		fx_drain(&fx, &fx.a);
	}
	close(listener);
	fx_close(&fx);
}

/* Two that fail in one turn are each reported with their own message. */
static void words_of_two_failures(void)
{
	struct fx fx = {.conn_options = {.timeout_ms = 1000}};
	struct sockaddr_storage addrs[2] = {fx_target.addr, fx_target.addr};
	struct fab_conn *conns[2];
	struct fab_event event;
	int fds[2];

	fx_open(&fx);
	/* Bound and not listening: refused; the addresses differ. */
	for (int i = 0; i < 2; i++) {
		socklen_t bytes = sizeof(addrs[i]);

		fds[i] = socket(addrs[i].ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		CHECK_EQ(bind(fds[i], (struct sockaddr *)&addrs[i],
			      tcp_address_bytes((struct sockaddr *)&addrs[i])),
			 0);
		CHECK_EQ(getsockname(fds[i], (struct sockaddr *)&addrs[i], &bytes), 0);
		CHECK_EQ(listen(fds[i], 4), 0);
		CHECK_EQ(fab_connect(fx.a.fab, (struct sockaddr *)&addrs[i], &fx.conn_options, NULL,
				     &conns[i]),
			 0);
	}
	env_shift_ms(2000);
	for (int i = 0; i < 2; i++) {
		uint64_t deadline = fx_deadline_ns();

		while (fab_poll_event(fx.a.fab, &event) == 0)
			CHECK(!fx_past(deadline));
		CHECK_EQ(event.type, FAB_EVENT_FAILED);
		CHECK_EQ(event.status, -ETIMEDOUT);
		CHECK(strstr(fab_error(fx.a.fab), fab_conn_peer(event.conn)));
	}
	for (int i = 0; i < 2; i++) {
		fx.a.conn = conns[i];
		fx_drain(&fx, &fx.a);
		close(fds[i]);
	}
	fx_close(&fx);
}

/* A silent connection is dropped when the time for a handshake is over, not before. */
static void silent_stranger(void)
{
	struct fx fx = {0};
	struct peer peer = {0};

	fx_open(&fx);
	peer_connect(&fx, &peer);
	peer_expect_silence(&fx, &peer);
	CHECK(fab_timeout_ms(fx.b.fab) > 0);
	env_shift_ms(TCP_HANDSHAKE_MS / 2);
	peer_send(&peer, "RT", 2); /* a few bytes do not extend the time */
	peer_expect_silence(&fx, &peer);
	env_shift_ms(TCP_HANDSHAKE_MS / 2 + 1);
	CHECK_EQ(fab_timeout_ms(fx.b.fab), 0);
	peer_expect_end(&fx, &peer);
	close(peer.fd);
	CHECK_EQ(fx.b.events[FAB_EVENT_REQUEST], 0);
	fx_connect(&fx);
	fx_close(&fx);
}

static int descriptors_in_use(void)
{
	int highest = dup(0);

	close(highest);
	return highest;
}

/* From 127.0.0.N, where the addresses are of IPv4. */
static void connect_from(struct fx *fx, struct peer *peer, uint32_t n)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000 + n)};

	peer->fd = peer_socket(fx);
	CHECK_EQ(bind(peer->fd, (struct sockaddr *)&from, sizeof(from)), 0);
	peer_connect(fx, peer);
	fx_step(fx);
}

/* One more unfinished handshake than allowed, of one address or in all: the oldest is dropped, the others
 * stay. */
static void too_many_strangers(void)
{
	static struct peer peers[TCP_HANDSHAKES_MAX + 2];
	struct fx fx = {0};
	uint32_t count = 0;

	fx_open(&fx);
	CHECK_EQ(fx.addr.ss_family, AF_INET);
	memset(peers, 0, sizeof(peers));
	connect_from(&fx, &peers[count++], 99);
	while (count <= TCP_HANDSHAKES_HOST_MAX)
		connect_from(&fx, &peers[count++], 2);
	peer_expect_silence(&fx, &peers[1]);
	connect_from(&fx, &peers[count++], 2);
	/* Its own oldest, and not the other address's that is older. */
	peer_expect_end(&fx, &peers[1]);
	peer_expect_silence(&fx, &peers[0]);
	peer_expect_silence(&fx, &peers[2]);
	for (; count <= TCP_HANDSHAKES_MAX; count++)
		connect_from(&fx, &peers[count], 3 + count / TCP_HANDSHAKES_HOST_MAX);
	peer_expect_silence(&fx, &peers[0]);
	connect_from(&fx, &peers[count++], 50);
	peer_expect_end(&fx, &peers[0]);
	peer_expect_silence(&fx, &peers[2]);
	peer_expect_silence(&fx, &peers[count - 1]);
	/* A proper peer still gets a connection. */
	fx_connect(&fx);
	for (uint32_t i = 0; i < count; i++)
		close(peers[i].fd);
	fx_close(&fx);
}

/* Out of descriptors: accepting pauses, without a busy loop, and goes on when there are some. */
static void no_descriptors(void)
{
	struct fx fx = {0};
	struct peer peer = {0};
	struct fab_tcp_hello hello = peer_hello(FAB_TCP_REQUEST);
	struct rlimit before, none;

	fx_open(&fx);
	peer.fd = peer_socket(&fx);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = (rlim_t)descriptors_in_use();
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	peer_connect(&fx, &peer);
	peer_send(&peer, &hello, sizeof(hello));
	for (int i = 0; i < 50; i++)
		fx_step(&fx);
	/* It tries again, and still has none: that is not reported again. */
	env_shift_ms(1000);
	for (int i = 0; i < 50; i++)
		fx_step(&fx);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	CHECK_EQ(fx.b.events[FAB_EVENT_REQUEST], 0);
	CHECK_EQ(fx.b.events[FAB_EVENT_FAILED], 1);
	CHECK_EQ(fx.b.status, -EMFILE);
	CHECK(strstr(fab_error(fx.b.fab), "cannot accept"));
	/* It does not ask to be called before the pause is over. */
	CHECK_EQ(fab_arm(fx.b.fab), 0);
	CHECK(fab_timeout_ms(fx.b.fab) > 0);
	env_shift_ms(1000);
	CHECK_EQ(fab_timeout_ms(fx.b.fab), 0);
	WAIT(&fx, fx.b.request);
	fab_reject(fx.b.request, NULL, 0);
	fx.b.request = NULL;
	peer_receive(&fx, &peer, &hello, sizeof(hello));
	CHECK_EQ(hello.kind, FAB_TCP_REJECT);
	close(peer.fd);
	fx_close(&fx);
}

const struct fx_case fx_cases_tcp_hello[] = {
	{"bad_requests", bad_requests, 0},
	{"bad_answers", bad_answers, 0},
	{"words_of_two_failures", words_of_two_failures, 0},
	{"silent_stranger", silent_stranger, 0},
	{"too_many_strangers", too_many_strangers, 0},
	{"no_descriptors", no_descriptors, 0},
	{0},
};
