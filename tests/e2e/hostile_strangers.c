/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: connections that are not from initiators cost the target nothing and keep no initiator out.
 * The target drops silent ones after a time limit, also when it is idle, and those that send
 * nonsense at once. A flood of either leaves room for initiators. Method: plain TCP sockets.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "proto/fabric/fabric_tcp_wire.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define FLOOD 600
#define WAIT_MS 60000

static struct e2e_daemon server;

static int start(void **state)
{
	(void)state;
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "1", "--keepalive", "0",
			 NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return e2e_daemon_stop(&server);
}

static int stranger(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				   .sin_port =
					   htons((uint16_t)atoi(strrchr(server.host, ':') + 1))};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* The target sends it nothing and ends the connection. */
static void expect_end(int fd)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	char byte;

	assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
	assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) <= 0);
	close(fd);
}

static void initiators_get_in(void)
{
	struct raw raw;

	raw_init(&raw);
	assert_true(raw_connect(&raw, server.host));
	assert_int_not_equal(raw_open(&raw, "mem"), 0);
	raw_close(&raw);
}

static void the_silent_are_dropped(void **state)
{
	int fds[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		fds[i] = stranger();
	/* One sends half of a hello. */
	assert_int_equal(send(fds[1], "RTCP\1\0\1", 7, MSG_NOSIGNAL), 7);
	for (int i = 0; i < 3; i++)
		expect_end(fds[i]);
	initiators_get_in();
}

static void nonsense_is_dropped_at_once(void **state)
{
	unsigned char bytes[sizeof(struct fab_tcp_hello)];

	(void)state;
	for (int i = 0; i < 300; i++) {
		struct fab_tcp_hello hello = {.magic = rblk_to_le32(FAB_TCP_MAGIC),
					      .version = rblk_to_le16(FAB_TCP_VERSION),
					      .kind = FAB_TCP_REQUEST};
		int fd = stranger();

		/* Noise, then hellos with a login of noise: the target answers the hellos and
		 * refuses the logins.
		 */
		env_random(bytes, sizeof(bytes));
		if (i % 2) {
			hello.private_bytes = RBLK_PRIVATE_DATA_MAX;
			memcpy(hello.private_data, bytes, RBLK_PRIVATE_DATA_MAX);
			memcpy(bytes, &hello, sizeof(hello));
		}
		assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
		if (i % 2) {
			assert_int_equal(recv(fd, &hello, sizeof(hello), MSG_WAITALL),
					 sizeof(hello));
			assert_int_equal(hello.kind, FAB_TCP_REJECT);
		}
		expect_end(fd);
	}
	initiators_get_in();
}

static void a_flood_leaves_room(void **state)
{
	unsigned int before = e2e_daemon_descriptors(&server);
	int fds[FLOOD];

	(void)state;
	for (int i = 0; i < FLOOD; i++) {
		fds[i] = stranger();
		if (i % 100 == 99)
			initiators_get_in();
	}
	/* The target dropped the oldest for the newest. */
	for (int i = 0; i < FLOOD / 2; i++)
		expect_end(fds[i]);
	for (int i = FLOOD / 2; i < FLOOD; i++)
		close(fds[i]);
	e2e_daemon_wait_descriptors(&server, before);
	initiators_get_in();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_silent_are_dropped),
		cmocka_unit_test(nonsense_is_dropped_at_once),
		cmocka_unit_test(a_flood_leaves_room),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
