/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session connects from the address that the program names, each host from its own if there are several, and its
 * packets have the TOS that the program names. What cannot be so is an error in words, and no connection is made in
 * another way. Method: rblkd, which logs whom a login came from; a listener of the test's that keeps the first packet.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

static struct e2e_daemon server;
static struct e2e_file file;
static char uri[256], error[RBLK_ERROR_BYTES];

static int start(void **state)
{
	(void)state;
	/* From where each connection comes is told when it ends. */
	e2e_file_create(&file, "disk", 1 << 20);
	e2e_daemon_start(&server, "--cache", "buffered", file.volume, "--listen", "rblk+tcp://127.0.0.1:0", "--log-level", "debug",
			 NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return e2e_disk_stop(&server, &file);
}

static struct rblk_session *open_from(const char *source, uint32_t queues)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	options.source = source;
	options.queues = queues;
	options.no_reconnect = true;
	error[0] = '\0';
	return rblk_session_open(uri, &options, error);
}

static void must_open_from(const char *source, uint32_t queues)
{
	struct rblk_session *session = open_from(source, queues);

	if (!session)
		fail_msg("%s", error);
	rblk_session_close(session);
}

static void the_target_sees_it(void **state)
{
	(void)state;
	snprintf(uri, sizeof(uri), "rblk+tcp://%s", server.host);
	must_open_from("127.0.0.2", 1);
	e2e_daemon_log_wait(&server, "queue 0 [127.0.0.2:", 1);
	assert_int_equal(e2e_daemon_log_count(&server, "[127.0.0.1:"), 0);
}

/* Host 2 begins with the first again. */
static void each_host_has_its_own(void **state)
{
	(void)state;
	snprintf(uri, sizeof(uri), "rblk+tcp://%s,%s,%s", server.host, server.host, server.host);
	must_open_from("127.0.0.3,127.0.0.4", 3);
	e2e_daemon_log_wait(&server, "queue 0 [127.0.0.3:", 1);
	e2e_daemon_log_wait(&server, "queue 1 [127.0.0.4:", 1);
	e2e_daemon_log_wait(&server, "queue 2 [127.0.0.3:", 1);
}

static void another_family_is_no_path(void **state)
{
	struct rblk_path_info info[2];
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_session *session;

	(void)state;
	options.source = "127.0.0.5";
	options.queues = 2;
	snprintf(uri, sizeof(uri), "rblk+tcp://[::1]%s,%s", strchr(server.host, ':'), server.host);
	session = e2e_session_open(uri, &options);
	assert_int_equal(rblk_session_paths(session, info, sizeof(info[0]), 2), 2);
	assert_non_null(strstr(info[0].words, "the source address is of another family"));
	assert_true(info[1].connections > 0);
	rblk_session_close(session);
}

static void an_address_of_another_machine(void **state)
{
	(void)state;
	snprintf(uri, sizeof(uri), "rblk+tcp://%s", server.host);
	assert_null(open_from("192.0.2.1", 1));
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_non_null(strstr(error, "the source address is not this machine's"));
}

static void wrong_ones_are_refused(void **state)
{
	static const char *const bad[] = {"", "localhost", "127.0.0.1,", "127.0.0.1:0"};
	struct rblk_options options = RBLK_OPTIONS_INIT;

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(bad); i++) {
		assert_null(open_from(bad[i], 1));
		assert_string_equal(error, "options: source is no address, nor several by commas");
	}
	snprintf(uri, sizeof(uri), "rblk+tcp://%s", server.host);
	assert_null(open_from("127.0.0.2,127.0.0.3", 1));
	assert_string_equal(error, "options: source has more addresses than there are hosts");
	options.tos = 256;
	assert_null(rblk_session_start(uri, &options, error));
	assert_string_equal(error, "options: tos must be from 0 to 255");
	options.tos = 0;
	options.ack_timeout = 32;
	assert_null(rblk_session_start(uri, &options, error));
	assert_string_equal(error, "options: ack_timeout must be from 0 to 31");
}

/* TOS, or traffic class, of the first packet that a session sends to this address. */
static unsigned int tos_sent_to(int family, const char *format, uint32_t tos)
{
	struct sockaddr_in6 at = {.sin6_family = (sa_family_t)family};
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_session *session;
	struct pollfd ready;
	uint8_t packet[128] = {0};
	socklen_t bytes = sizeof(at);
	const int yes = 1;
	int fd = socket(family, SOCK_STREAM, 0), accepted;

	if (family == AF_INET6)
		at.sin6_addr = in6addr_loopback;
	else
		((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_SAVE_SYN, &yes, sizeof(yes)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	snprintf(uri, sizeof(uri), format, ntohs(at.sin6_port));
	options.tos = tos;
	session = rblk_session_start(uri, &options, error);
	assert_non_null(session);
	ready = (struct pollfd){.fd = fd, .events = POLLIN};
	while (poll(&ready, 1, 0) == 0)
		assert_true(rblk_wait(session, 10) >= 0);
	accepted = accept(fd, NULL, NULL);
	bytes = sizeof(packet);
	assert_int_equal(getsockopt(accepted, IPPROTO_TCP, TCP_SAVED_SYN, packet, &bytes), 0);
	rblk_session_close(session);
	close(accepted);
	close(fd);
	if (family == AF_INET)
		return packet[1];
	return (packet[0] & 15u) << 4 | packet[1] >> 4;
}

/* The lowest two bits are the network's. */
static void packets_have_the_tos(void **state)
{
	(void)state;
	assert_int_equal(tos_sent_to(AF_INET, "rblk+tcp://127.0.0.1:%u", 0) & ~3u, 0);
	assert_int_equal(tos_sent_to(AF_INET, "rblk+tcp://127.0.0.1:%u", 104) & ~3u, 104);
	assert_int_equal(tos_sent_to(AF_INET6, "rblk+tcp://[::1]:%u", 104) & ~3u, 104);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_target_sees_it),
		cmocka_unit_test(each_host_has_its_own),
		cmocka_unit_test(another_family_is_no_path),
		cmocka_unit_test(an_address_of_another_machine),
		cmocka_unit_test(wrong_ones_are_refused),
		cmocka_unit_test(packets_have_the_tos),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
