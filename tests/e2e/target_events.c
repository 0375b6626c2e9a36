/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an initiator that has agreed to events learns what a reload changed, one event at a time,
 * numbered from 1 in each incarnation, and a lost connection loses no event. Method: a daemon whose
 * configuration file changes; KEEPALIVE confirms an event, or does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

static struct e2e_daemon server;
static char path[] = "/tmp/rblk-events-XXXXXX";

static void write_config(const char *first, const char *second)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fprintf(file, "[volume %s]\nstore = memory\nsize = 1M\n", first);
	if (second)
		fprintf(file, "[volume %s]\nstore = memory\nsize = 1M\n", second);
	assert_int_equal(fclose(file), 0);
}

/* A reload. On return its events have been sent. `raw` is stepped meanwhile. */
static void reload(struct raw *raw, const char *first, const char *second)
{
	uint64_t until_ns = env_now_ns() + RAW_WAIT_MS * 1000000ull;
	unsigned int before = e2e_daemon_log_count(&server, "reload: ");

	write_config(first, second);
	kill(server.pid, SIGHUP);
	while (e2e_daemon_log_count(&server, "reload: ") == before) {
		assert_true(env_now_ns() < until_ns);
		raw_step(raw);
	}
	/* The reactor answers it after the reload's messages. */
	assert_int_equal(raw_simple(raw, RBLK_OP_PING, 2), RBLK_OK);
}

static int start(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	write_config("one", NULL);
	e2e_daemon_start(&server, "--reactors", "1", "--config", path, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	unlink(path);
	return e2e_daemon_stop(&server);
}

static uint32_t event_number(const struct raw *raw)
{
	return (uint32_t)(rblk_le64(raw->event.result) >> 32);
}

static void wait_event(struct raw *raw, uint32_t number, enum rblk_event code, uint32_t handle)
{
	uint64_t until_ns = env_now_ns() + RAW_WAIT_MS * 1000000ull;

	while (event_number(raw) != number) {
		assert_true(env_now_ns() < until_ns);
		raw_step(raw);
	}
	assert_int_equal(rblk_le16(raw->event.status), code);
	assert_int_equal((uint32_t)rblk_le64(raw->event.result), handle);
}

static void say_seen(struct raw *raw, uint32_t number)
{
	assert_int_equal(raw_simple_numbers(raw, RBLK_OP_KEEPALIVE, 1, 0, number), RBLK_OK);
}

static void events_come_one_at_a_time_and_are_not_lost(void **state)
{
	struct rblk_wire_login login;
	struct raw raw, other, deaf;
	uint32_t handle;

	(void)state;
	raw_init(&deaf); /* did not agree to events */
	assert_true(raw_connect(&deaf, server.host));
	raw_init(&raw);
	raw.login.features = rblk_to_le32(RBLK_FEATURE_EVENTS);
	raw.login.queue_count = rblk_to_le16(2);
	assert_true(raw_connect(&raw, server.host));
	raw_init(&other);
	other.login = raw.login;
	other.login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&other, server.host));
	handle = raw_open(&raw, "one");
	assert_int_not_equal(handle, 0);

	reload(&raw, "one", "two");
	wait_event(&raw, 1, RBLK_EVENT_LIST_CHANGED, 0);
	/* The next event waits until this one was confirmed. */
	reload(&raw, "two", NULL);
	assert_int_equal(event_number(&raw), 1);
	raw_io(&raw, RBLK_OP_READ, 3, handle, 0, 1, 512);
	assert_int_equal(raw_wait(&raw, 3), RBLK_E_GONE);
	/* Only queue 0 says so. */
	say_seen(&other, 1);
	assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 2), RBLK_OK);
	assert_int_equal(event_number(&raw), 1);
	say_seen(&raw, 1);
	wait_event(&raw, 2, RBLK_EVENT_VOLUME_REMOVED, handle);

	/* This event is not confirmed before the connection is lost. */
	login = raw.login;
	raw_close(&raw);
	raw_init(&raw);
	raw.login = login;
	raw.login.incarnation = rblk_to_le32(2);
	raw.login.fence_incarnation = rblk_to_le32(1);
	assert_true(raw_connect(&raw, server.host));
	assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 0), RBLK_OK);
	wait_event(&raw, 1, RBLK_EVENT_VOLUME_REMOVED, handle);
	say_seen(&raw, 1);
	wait_event(&raw, 2, RBLK_EVENT_LIST_CHANGED, 0);
	say_seen(&raw, 2);
	assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 0), RBLK_OK);
	assert_int_equal(event_number(&raw), 2);
	raw_close(&other);
	raw_close(&raw);

	assert_int_equal(raw_simple(&deaf, RBLK_OP_PING, 0), RBLK_OK);
	assert_int_equal(event_number(&deaf), 0);
	raw_close(&deaf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_one_at_a_time_and_are_not_lost),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
