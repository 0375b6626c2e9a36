/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a restart of the target is a pause, not an error: sessions under load come back by their
 * id, whether the new daemon starts before or after the old one ends. Method: several loads that
 * check their data (load.c: any error aborts) while rblkd is stopped, killed, and replaced by one
 * that was started before it ended; then another session reads what one session has written. The
 * longest pause of each way is printed, but has no limit.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/load.h"

#define LOADS 4u
#define DEPTH 16
#define ROUNDS 2u
#define SHARE (1u << 20) /* of the volume, for each load */

static struct e2e_daemon server;
static struct e2e_file file;
static struct load *loads[LOADS];

static void start_loads(const char *volume)
{
	char uri[256];

	snprintf(uri, sizeof(uri), "%s", e2e_daemon_uri(&server, volume));
	for (unsigned int i = 0; i < LOADS; i++)
		loads[i] = load_start(&(struct load_options){.uri = uri,
							     .queues = 1 + i % 3,
							     .depth = DEPTH,
							     .offset = (uint64_t)i * SHARE,
							     .bytes = SHARE,
							     .seed = i + 1});
}

/* The longest pause of all loads since the last call. */
static uint64_t longest_pause_us(void)
{
	uint64_t longest = 0;

	for (unsigned int i = 0; i < LOADS; i++) {
		uint64_t pause_us = load_pause_us(loads[i]);

		longest = pause_us > longest ? pause_us : longest;
	}
	return longest;
}

/* Waits until every load has completed operations: it has its session again. */
static void run_loads(void)
{
	for (unsigned int i = 0; i < LOADS; i++)
		load_wait(loads[i], 200);
}

static void stop_loads(void)
{
	for (unsigned int i = 0; i < LOADS; i++)
		load_stop(loads[i]);
}

static void report(const char *what, uint64_t longest_us)
{
	printf("%-50s longest pause %llu ms\n", what, (unsigned long long)longest_us / 1000);
	fflush(stdout);
}

/*
 * `signal_number` ends the old daemon, and then the new one starts; or `before` that, while the old one serves, and
 * waits for its locks and address.
 */
static void one_after_the_other(int signal_number, bool before, const char *what)
{
	uint64_t longest_us = 0;

	e2e_file_create(&file, "disk", LOADS * SHARE);
	e2e_daemon_start(&server, file.volume, "--cache", "buffered", NULL);
	start_loads("disk");
	run_loads();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct e2e_daemon next = server;
		uint64_t pause_us;

		if (before) {
			e2e_daemon_begin_again(&next, file.volume, "--cache", "buffered", NULL);
			e2e_daemon_log_wait(&next, "waiting up to 30s: in use by", 1);
		}
		longest_pause_us();
		if (signal_number == SIGTERM)
			assert_int_equal(e2e_daemon_stop(&server), 0);
		else
			e2e_daemon_kill(&server);
		if (before) {
			e2e_daemon_await(&next);
			server = next;
		} else {
			e2e_daemon_start_again(&server, file.volume, "--cache", "buffered", NULL);
		}
		run_loads();
		pause_us = longest_pause_us();
		longest_us = pause_us > longest_us ? pause_us : longest_us;
	}
	report(what, longest_us);
	stop_loads();
	assert_int_equal(e2e_daemon_stop(&server), 0);
	e2e_file_remove(&file);
}

static void stopped(void **state)
{
	(void)state;
	one_after_the_other(SIGTERM, false, "stopped, then started:");
}

static void killed(void **state)
{
	(void)state;
	one_after_the_other(SIGKILL, false, "killed, then started:");
}

static void replaced(void **state)
{
	(void)state;
	one_after_the_other(SIGTERM, true, "stopped, the next one waits already:");
}

static void killed_and_replaced(void **state)
{
	(void)state;
	one_after_the_other(SIGKILL, true, "killed, the next one waits already:");
}

/* There is no volume lock to wait for, so the new daemon waits for the address. */
static void address_is_waited_for(void **state)
{
	struct e2e_daemon next;

	(void)state;
	e2e_daemon_start(&server, "--null", "disk=1M", NULL);
	next = server;
	e2e_daemon_begin_again(&next, "--null", "disk=1M", NULL);
	e2e_daemon_log_wait(&next, "Address already in use: waiting up to 30s", 1);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	e2e_daemon_await(&next);
	assert_int_equal(e2e_daemon_stop(&next), 0);
}

/* A signal ends the wait. */
static void wait_is_ended(void **state)
{
	struct e2e_daemon next;

	(void)state;
	e2e_daemon_start(&server, "--null", "disk=1M", NULL);
	next = server;
	e2e_daemon_begin_again(&next, "--null", "disk=1M", NULL);
	e2e_daemon_log_wait(&next, "Address already in use: waiting up to", 1);
	assert_int_not_equal(e2e_daemon_stop(&next), 0);
	assert_int_equal(e2e_daemon_stop(&server), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped),
		cmocka_unit_test(killed),
		cmocka_unit_test(replaced),
		cmocka_unit_test(killed_and_replaced),
		cmocka_unit_test(address_is_waited_for),
		cmocka_unit_test(wait_is_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
