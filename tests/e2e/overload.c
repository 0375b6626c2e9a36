/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: hundreds of times more demand than pool and disk can serve leads to BUSY with growing
 * delays, not to errors: the daemon's memory stays bounded, sessions get equal shares, and logins
 * and keep-alive go on (C6). Method: sessions that keep all their credits in use with the longest
 * reads, with a pool that holds four of them and a slow disk; counts, the daemon's resident memory,
 * and logins meanwhile.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define SESSIONS 8u
#define QUEUES 2u
#define CREDITS 64u
#define IO_BYTES (256u << 10)
#define DEMAND_KIB (SESSIONS * QUEUES * CREDITS * (IO_BYTES >> 10))
#define DISK_BYTES (1u << 20)
#define LEAST 40u /* commands that each session must complete */
#define LOGINS 5u
/* No command is BUSY more often on average, since delays grow and the target itself lets a
 * command wait up to 5 s. */
#define TRIES_MAX 40u

static struct e2e_daemon server;
static struct e2e_file disk;

static struct client {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
	unsigned int outstanding, done, lost;
} clients[SESSIONS];

static void on_event(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	struct client *client = arg;

	(void)session;
	client->lost += event->type == RBLK_SESSION_EVENT_RECOVERING ||
			event->type == RBLK_SESSION_EVENT_FAILED;
}

static void on_done(void *arg, const struct rblk_result *result)
{
	struct client *client = arg;

	if (result->error)
		fail_msg("a read: %s: %s", strerror(-result->error),
			 rblk_session_error(client->session));
	client->outstanding--;
	client->done++;
}

static void client_open(struct client *client)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	options.queues = QUEUES;
	options.credits = CREDITS;
	options.command_timeout_ms = 600000; /* a slow machine must not fail the test */
	client->session = e2e_session_open(e2e_daemon_uri(&server, "disk"), &options);
	rblk_session_on_event(client->session, on_event, client);
	client->volume = e2e_volume_open(client->session, NULL, 0);
	client->data = rblk_buffer_alloc(client->session, IO_BYTES);
	assert_non_null(client->data);
}

/* All credits are in use from here on. */
static void client_turn(struct client *client, bool more)
{
	int err = 0;

	while (more && !err) {
		err = rblk_read(client->volume, client->data, IO_BYTES,
				(uint64_t)client->done % 4 * IO_BYTES, 0, on_done, client);
		client->outstanding += !err;
	}
	assert_true(err == 0 || err == -EAGAIN);
	rblk_submit(client->session);
	assert_true(rblk_wait(client->session, 1) >= 0);
}

static unsigned int least_done(void)
{
	unsigned int least = clients[0].done;

	for (unsigned int i = 1; i < SESSIONS; i++)
		least = clients[i].done < least ? clients[i].done : least;
	return least;
}

static uint64_t busy_retries(void)
{
	struct rblk_stats stats;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < SESSIONS; i++) {
		assert_int_equal(rblk_session_stats(clients[i].session, &stats, sizeof(stats)), 0);
		sum += stats.busy_retries;
	}
	return sum;
}

/* A new client gets a session, and commands that need no data memory are answered. */
static void login_works(void)
{
	char error[RBLK_ERROR_BYTES] = "";
	struct rblk_session *session =
		rblk_session_open(e2e_daemon_uri(&server, "disk"), NULL, error);
	struct rblk_volume *volume;
	uint64_t cpu_ns;

	if (!session)
		fail_msg("a login: %s", error);
	volume = e2e_volume_open(session, NULL, 0);
	assert_int_equal(rblk_ping(session, &cpu_ns), 0);
	assert_int_equal(rblk_volume_close(volume), 0);
	rblk_session_close(session);
}

static void overloaded(void **state)
{
	unsigned int before_kib, most_kib = 0, logins = 0, most = 0, total = 0, left;

	(void)state;
	for (unsigned int i = 0; i < SESSIONS; i++)
		client_open(&clients[i]);
	before_kib = e2e_daemon_resident_kib(&server);
	while (least_done() < LEAST || !busy_retries() || logins < LOGINS) {
		unsigned int kib = e2e_daemon_resident_kib(&server);

		most_kib = kib > most_kib ? kib : most_kib;
		for (unsigned int i = 0; i < SESSIONS; i++)
			client_turn(&clients[i], true);
		if (logins < LOGINS && least_done() >= logins * LEAST / LOGINS) {
			login_works();
			logins++;
		}
	}
	for (unsigned int i = 0; i < SESSIONS; i++) {
		most = clients[i].done > most ? clients[i].done : most;
		total += clients[i].done;
	}
	printf("%u reads, %u to %u for a session; %llu times BUSY; resident %u KiB, then %u KiB\n",
	       total, least_done(), most, (unsigned long long)busy_retries(), before_kib, most_kib);
	/* Fair: for equal demand, about equal shares. */
	assert_true(most <= 2 * least_done());
	/* The pool bounds the memory, not the demand. */
	assert_true(most_kib < before_kib + DEMAND_KIB / 2);
	do {
		left = 0;
		for (unsigned int i = 0; i < SESSIONS; i++) {
			client_turn(&clients[i], false);
			left += clients[i].outstanding;
		}
	} while (left);
	total = 0;
	for (unsigned int i = 0; i < SESSIONS; i++) {
		total += clients[i].done;
		/* No session lost its connection. */
		assert_int_equal(clients[i].lost, 0);
	}
	assert_true(busy_retries() <= (uint64_t)total * TRIES_MAX);
	for (unsigned int i = 0; i < SESSIONS; i++)
		rblk_session_close(clients[i].session);
}

static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", DISK_BYTES);
	e2e_daemon_start(&server, "--reactors", "1", "--pool-size", "1M", "--max-io", "256K",
			 "--cache", "buffered", "--fault", "delay=30ms", disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overloaded),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
