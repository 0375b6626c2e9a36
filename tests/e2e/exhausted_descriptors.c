/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a target that has no descriptors left goes on serving its clients, logs the reason once,
 * does not spin over the connections that wait, and accepts them when others leave. Method: a
 * target with a low limit of descriptors. More initiators than that connect, and leave in the order
 * in which they came.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/load.h"
#include "tests/e2e/raw.h"

#define DESCRIPTORS 64u
#define PEERS 80u
#define WAIT_NS (60 * 1000000000ull)

static struct e2e_daemon server;
static struct load *load;
static struct raw peers[PEERS];

static int start(void **state)
{
	struct load_options options = {.queues = 2, .depth = 4, .bytes = 1u << 20};

	(void)state;
	e2e_daemon_start_limited(&server, DESCRIPTORS, "--memory", "mem=1M", "--reactors", "2",
				 NULL);
	options.uri = e2e_daemon_uri(&server, "mem");
	load = load_start(&options);
	load_wait(load, 1);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	load_stop(load);
	return e2e_daemon_stop(&server);
}

/* Processor time of the daemon's first thread, which accepts, in clock ticks. */
static unsigned long listener_ticks(void)
{
	unsigned long user = 0, system = 0;
	char path[64], line[512], *rest;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", server.pid, server.pid);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	rest = strrchr(line, ')');
	assert_non_null(rest);
	assert_int_equal(sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				&user, &system),
			 2);
	return user + system;
}

static unsigned int established(void)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < PEERS; i++) {
		if (!peers[i].fab)
			continue;
		raw_poll(&peers[i]);
		assert_false(peers[i].rejected);
		count += peers[i].established;
	}
	return count;
}

/* Connects until the target cannot accept one more; then waits long enough to detect a busy
 * loop. */
static unsigned int fill(void)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	uint64_t until_ns = env_now_ns() + WAIT_NS;
	unsigned int count = 0;
	unsigned long ticks;

	for (unsigned int i = 0; i < PEERS; i++) {
		raw_init(&peers[i]);
		raw_connect_begin(&peers[i], server.host);
	}
	while (!e2e_daemon_log_count(&server, "cannot accept: Too many open files")) {
		assert_true(env_now_ns() < until_ns);
		established();
	}
	ticks = listener_ticks();
	for (unsigned int i = 0; i < 100; i++) {
		count = established();
		nanosleep(&pause, NULL);
	}
	/* The target tries ten times a second, not a hundred thousand times. */
	assert_in_range(listener_ticks() - ticks, 0, (unsigned long)sysconf(_SC_CLK_TCK) / 4);
	assert_in_range(count, 1, DESCRIPTORS);
	return count;
}

static void who_waits_is_let_in_when_others_leave(void **state)
{
	unsigned int before = e2e_daemon_descriptors(&server);
	uint64_t until_ns;

	(void)state;
	assert_in_range(fill(), 1, PEERS - 2);
	load_wait(load, 100);
	for (unsigned int left = 0; left < PEERS; left++) {
		struct raw *leaving = &peers[left];

		/* Peers are accepted in the order in which they came, so this one is accepted by
		 * now or soon. */
		until_ns = env_now_ns() + WAIT_NS;
		while (!leaving->established) {
			assert_true(env_now_ns() < until_ns);
			established();
		}
		assert_int_equal(raw_simple(leaving, RBLK_OP_PING, 0), RBLK_OK);
		raw_close(leaving);
		leaving->fab = NULL;
		load_wait(load, 1);
	}
	e2e_daemon_wait_descriptors(&server, before);
	/* One line each time that the target ran out, not one each time that it tried. */
	assert_in_range(e2e_daemon_log_count(&server, "cannot accept"), 1, PEERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_waits_is_let_in_when_others_leave),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
