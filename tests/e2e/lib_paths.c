/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session whose URI names two hosts uses both paths. A lost path causes no error, and is
 * used again when it is back. Both policies do this. Method: one rblkd that listens twice, each
 * address behind a proxy that counts what it forwards and can be cut; a load that checks its data
 * meanwhile.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/e2e/load.h"
#include "tests/e2e/session.h"
#include "tests/e2e/two_paths.h"

#define ROUNDS 3u
#define BYTES (2u << 20)

static int start(void **state)
{
	(void)state;
	two_paths_start(BYTES, "", "5s", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return two_paths_stop();
}

static void lost_and_found(unsigned int policy, uint32_t queues, const char *what)
{
	struct load *load = load_start(&(struct load_options){.uri = two_paths_uri,
							      .queues = queues,
							      .depth = 16,
							      .bytes = BYTES,
							      .seed = queues + policy,
							      .policy = policy});
	uint64_t longest_us = 0;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int path = 0; path < PATHS; path++) {
			uint64_t pause_us;

			for (unsigned int i = 0; i < PATHS; i++)
				two_paths_wait(load, i);
			load_pause_us(load);
			proxy_cut(paths[path]);
			/* Commands in flight on the lost path are fenced and sent again on the
			 * other one. */
			two_paths_wait(load, 1 - path);
			pause_us = load_pause_us(load);
			longest_us = pause_us > longest_us ? pause_us : longest_us;
			proxy_mend(paths[path]);
		}
	}
	for (unsigned int i = 0; i < PATHS; i++)
		two_paths_wait(load, i);
	load_stop(load);
	printf("%s, %u queues: longest pause %llu ms\n", what, queues,
	       (unsigned long long)longest_us / 1000);
	fflush(stdout);
}

static void round_robin(void **state)
{
	(void)state;
	lost_and_found(RBLK_POLICY_ROUND_ROBIN, 2, "round robin");
	lost_and_found(RBLK_POLICY_ROUND_ROBIN, 5, "round robin");
}

static void least_in_flight(void **state)
{
	(void)state;
	lost_and_found(RBLK_POLICY_LEAST_IN_FLIGHT, 2, "least in flight");
	lost_and_found(RBLK_POLICY_LEAST_IN_FLIGHT, 4, "least in flight");
}

/* Both paths are lost: I/O waits for either of them. */
static void both_lost(void **state)
{
	struct load *load = load_start(&(struct load_options){
		.uri = two_paths_uri, .queues = 2, .depth = 16, .bytes = BYTES, .seed = 7});

	(void)state;
	for (unsigned int path = 0; path < PATHS; path++) {
		load_wait(load, 100);
		for (unsigned int i = 0; i < PATHS; i++)
			proxy_cut(paths[i]);
		proxy_mend(paths[path]);
		load_wait(load, 100);
		proxy_mend(paths[1 - path]);
	}
	load_stop(load);
}

/* Until the path has so many connections. */
static void wait_for_connections(struct rblk_session *session, unsigned int path,
				 unsigned int count, struct rblk_path_info *info)
{
	do {
		assert_true(rblk_wait(session, 10) >= 0);
		assert_int_equal(rblk_session_paths(session, info, sizeof(*info), PATHS), PATHS);
	} while (info[path].connections != count);
}

/* A program sees how each is, and why. */
static void each_is_told(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_path_info info[PATHS + 1];
	struct rblk_session *session;

	(void)state;
	options.queues = 2;
	session = e2e_session_open(two_paths_uri, &options);
	memset(info, 0xa5, sizeof(info));
	assert_int_equal(rblk_session_paths(session, info, sizeof(info[0]), 0), PATHS);
	assert_int_equal(rblk_session_paths(session, info, sizeof(size_t), PATHS), -EINVAL);
	assert_int_equal(((uint8_t *)info)[0], 0xa5);
	assert_int_equal(rblk_session_paths(session, info, sizeof(info[0]), PATHS + 1), PATHS);
	assert_int_equal(((uint8_t *)&info[PATHS])[0], 0xa5);
	for (unsigned int i = 0; i < PATHS; i++) {
		assert_int_equal(info[i].size, sizeof(info[i]));
		assert_string_equal(info[i].host, proxy_host(paths[i]));
		assert_string_equal(info[i].peer, proxy_host(paths[i]));
		assert_string_equal(info[i].device, "tcp");
		assert_int_equal(info[i].connections, 1);
		assert_int_equal(info[i].error, 0);
		assert_string_equal(info[i].words, "");
	}
	for (unsigned int i = 0; i < PATHS; i++) {
		while (!info[i].connected_ms)
			wait_for_connections(session, i, 1, info);
		proxy_cut(paths[i]);
		wait_for_connections(session, i, 0, info);
		assert_int_equal(info[i].connected_ms, 0);
		assert_true(info[i].error < 0);
		assert_non_null(strstr(info[i].words, proxy_host(paths[i])));
		assert_string_equal(info[i].peer, "");
		proxy_mend(paths[i]);
		wait_for_connections(session, i, 1, info);
		assert_true(info[!i].connected_ms >= info[i].connected_ms);
		assert_int_equal(info[i].error, 0);
	}
	rblk_session_close(session);
}

/* Nor is a name that nobody knows forgotten. */
static void an_unknown_host_is_told(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_path_info info[PATHS];
	char mixed[256];
	struct rblk_session *session;

	(void)state;
	snprintf(mixed, sizeof(mixed), "rblk+tcp://no-such-host.invalid,%s/disk",
		 proxy_host(paths[0]));
	session = e2e_session_open(mixed, &options);
	assert_int_equal(rblk_session_paths(session, info, sizeof(info[0]), PATHS), PATHS);
	assert_int_equal(info[1].connections, 1);
	assert_string_equal(info[0].host, "no-such-host.invalid:4430");
	assert_int_equal(info[0].connections, 0);
	assert_true(info[0].error < 0);
	assert_non_null(strstr(info[0].words, "no-such-host.invalid"));
	rblk_session_close(session);
}

static void unknown_policy(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	char error[RBLK_ERROR_BYTES] = "";

	(void)state;
	options.policy = RBLK_POLICY_LEAST_IN_FLIGHT + 1;
	assert_null(rblk_session_start(two_paths_uri, &options, error));
	assert_string_equal(error, "options: policy is not an enum rblk_policy");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_robin),
		cmocka_unit_test(least_in_flight),
		cmocka_unit_test(both_lost),
		cmocka_unit_test(each_is_told),
		cmocka_unit_test(an_unknown_host_is_told),
		cmocka_unit_test(unknown_policy),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
