/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session that names two gateways uses the one that has its volumes, with all of its queues, whichever comes
 * first in the URI; goes to the other at once when that one ends in good order, and stays there; and says of each why
 * there is nothing to use. Method: two rblkd; where both have one file, its lock makes the second wait for the end of the
 * first.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "initiator/session.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define PIECE 4096u
#define BYTES (1u << 20)

static struct e2e_file files[2];
static struct e2e_daemon gateways[2];
static char config[64];
static struct rblk_session *session;

static void gateway_start(unsigned int i)
{
	if (gateways[i].host[0])
		e2e_daemon_start_again(&gateways[i], "--config", config, NULL);
	else
		e2e_daemon_start(&gateways[i], "--config", config, NULL);
}

/* The first has the volumes "a" and "b". The second has neither, or, if it `waits`, would have "a". */
static void gateways_start(bool waits)
{
	FILE *file;

	memset(gateways, 0, sizeof(gateways));
	e2e_file_create(&files[0], "a", BYTES);
	e2e_file_create(&files[1], "b", BYTES);
	snprintf(config, sizeof(config), "%s.conf", files[0].path);
	file = fopen(config, "w");
	assert_non_null(file);
	fprintf(file, "[target]\nrequire_all = no\n[volume a]\npath = %s\ncache = buffered\nlock_wait = 5ms\n",
		files[0].path);
	if (!waits)
		fprintf(file, "[volume b]\npath = %s\ncache = buffered\n", files[1].path);
	fclose(file);
	gateway_start(0);
	if (waits)
		gateway_start(1);
	else
		e2e_daemon_start(&gateways[1], "--memory", "other=1M", NULL);
}

static void gateways_remove(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		if (gateways[i].pid)
			e2e_daemon_kill(&gateways[i]);
		e2e_file_remove(&files[i]);
	}
	unlink(config);
}

/* Of both, the first one's first, or last. */
static void session_start(bool first, char delimiter, const struct rblk_options *given)
{
	struct rblk_options options = *given;
	char uri[256];

	snprintf(uri, sizeof(uri), "rblk+tcp://%s%c%s", gateways[!first].host, delimiter, gateways[first].host);
	options.size = sizeof(options);
	session = e2e_session_open(uri, &options);
}

struct opening {
	struct rblk_volume *volume;
	int error;
	bool done;
};

static void opened(void *arg, struct rblk_volume *volume, int error)
{
	*(struct opening *)arg = (struct opening){volume, error, true};
}

/* Started together, before either is answered. */
static void open_together(const char *one, const char *other, struct opening opening[2])
{
	const char *names[2] = {one, other};
	time_t until = time(NULL) + 120;

	memset(opening, 0, 2 * sizeof(*opening));
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(rblk_volume_open_start(session, names[i], 0, opened, &opening[i]), 0);
	while (!opening[0].done || !opening[1].done) {
		assert_true(time(NULL) < until);
		rblk_wait(session, 20);
	}
}

/* Several OPENs at the gateway that waits: all of them are sent to the other one. */
static void opens_go_together(void **state)
{
	static const struct rblk_options kinds[] = {{.queues = 1}, {.queues = 3}, {.queues = 2, .no_reconnect = true}};
	struct opening opening[2];

	(void)state;
	gateways_start(false);
	for (size_t i = 0; i < 2 * UNIT_LENGTH(kinds); i++) {
		session_start(i % 2, i < 3 ? ',' : ';', &kinds[i / 2]);
		open_together("a", "b", opening);
		if (opening[0].error || opening[1].error)
			fail_msg("%zu: %s", i, rblk_session_error(session));
		rblk_session_close(session);
	}
	gateways_remove();
}

/* What no gateway has fails beside what one has, and alone; the words name both. */
static void what_nobody_has(void **state)
{
	struct opening opening[2];

	(void)state;
	gateways_start(false);
	for (unsigned int first = 0; first < 2; first++) {
		session_start(first, ';', &(struct rblk_options){.queues = 2});
		open_together("none", "nothing", opening);
		assert_int_equal(opening[0].error, -ENOENT);
		assert_int_equal(opening[1].error, -ENOENT);
		assert_non_null(strstr(rblk_session_error(session), gateways[0].host));
		assert_non_null(strstr(rblk_session_error(session), gateways[1].host));
		open_together("none", "a", opening);
		assert_int_equal(opening[0].error, -ENOENT);
		assert_int_equal(opening[1].error, 0);
		rblk_session_close(session);
	}
	/* One is not there: the other is asked once. */
	e2e_daemon_kill(&gateways[0]);
	session_start(true, ',', &(struct rblk_options){.queues = 1});
	open_together("none", "nothing", opening);
	assert_int_equal(opening[0].error, -ENOENT);
	assert_int_equal(opening[1].error, -ENOENT);
	assert_non_null(strstr(rblk_session_error(session), gateways[0].host));
	rblk_session_close(session);
	gateways_remove();
}

/* Until so many connections are up at gateway `i`, and all I/O goes on. */
static void await_connections(struct rblk_volume *volume, void *data, unsigned int i, unsigned int count)
{
	struct rblk_path_info paths[2];
	time_t until = time(NULL) + 120;

	for (;;) {
		assert_true(time(NULL) < until);
		assert_int_equal(rblk_pwrite(volume, data, PIECE, 0, 0), 0);
		rblk_wait(session, 10);
		assert_int_equal(rblk_session_paths(session, paths, sizeof(paths[0]), 2), 2);
		for (unsigned int p = 0; p < 2; p++)
			if (!strcmp(paths[p].host, gateways[i].host) && paths[p].connections == count)
				return;
	}
}

static u32 attempts(void)
{
	u32 sum = 0;

	for (u16 i = 0; i < session->queue_count; i++)
		sum += session->core.queue[i].incarnation;
	return sum;
}

/* All queues are at the gateway that has the volume. The other is not asked again and again, with groups or without. */
static void all_queues_at_one(void **state)
{
	static const char delimiters[] = ",;";
	struct rblk_volume *volume;
	void *data;

	(void)state;
	gateways_start(false);
	for (unsigned int i = 0; i < 4; i++) {
		session_start(i % 2, delimiters[i / 2], &(struct rblk_options){.queues = 4});
		volume = e2e_volume_open(session, "a", 0);
		data = rblk_buffer_alloc(session, PIECE);
		assert_non_null(data);
		memset(data, 1, PIECE);
		await_connections(volume, data, 0, 4);
		/* Two of them were at the other, once, if nobody had said so. */
		assert_true(attempts() <= (i / 2 ? 4u : 6u));
		rblk_session_close(session);
	}
	gateways_remove();
}

/* Both are upgraded, one after the other: a pause each, no error, and no way back by itself. */
static void gateways_in_turn(void **state)
{
	struct rblk_volume *volume;
	uint8_t *data;

	(void)state;
	gateways_start(true);
	session_start(true, ';', &(struct rblk_options){.queues = 2});
	volume = e2e_volume_open(session, "a", 0);
	data = rblk_buffer_alloc(session, 2 * PIECE);
	assert_non_null(data);
	memset(data, 7, PIECE);
	for (unsigned int round = 0; round < 2; round++) {
		unsigned int from = round % 2;

		await_connections(volume, data, from, 2);
		data[0] = (uint8_t)round;
		assert_int_equal(rblk_pwrite(volume, data, PIECE, PIECE, 0), 0);
		assert_int_equal(rblk_fsync(volume), 0);
		assert_int_equal(e2e_daemon_stop(&gateways[from]), 0);
		/* It would look by itself, some time later. */
		assert_int_equal(kill(gateways[!from].pid, SIGHUP), 0);
		await_connections(volume, data, !from, 2);
		assert_int_equal(rblk_pread(volume, data + PIECE, PIECE, PIECE), 0);
		assert_int_equal(data[PIECE], round);
		gateway_start(from);
		/* It is back, and another one's disk. */
		await_connections(volume, data, !from, 2);
	}
	rblk_session_close(session);
	gateways_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_go_together),
		cmocka_unit_test(what_nobody_has),
		cmocka_unit_test(all_queues_at_one),
		cmocka_unit_test(gateways_in_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
