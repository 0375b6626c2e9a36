/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: thousands of initiators that come and go, in every way and with commands in flight, harm no
 * other client and leave nothing behind. Method: two loads check their data while storms of threads
 * connect and leave; at the end the target has as many descriptors open as before.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/load.h"

#define STORMS 3u
#define ROUNDS 1000u /* of each storm */
#define DEPTH 16u
#define IO_BYTES 65536u
#define VOLUME_BYTES (64u << 20)

static struct e2e_daemon server;

static int start(void **state)
{
	e2e_daemon_start(&server, "--memory", "memory=8M", "--memory", "victim=64M", "--null",
			 "nul=64M", "--reactors", "2", NULL);
	return 0;
}

static int stop(void **state)
{
	return e2e_daemon_stop(&server);
}

static void ignore(void *arg, const struct rblk_result *result)
{
	(void)arg;
	(void)result;
}

struct storm {
	pthread_t thread;
	char uris[2][256];
	unsigned int index;
	unsigned int connected;
};

static void storm_die(const char *what, const char *why)
{
	fprintf(stderr, "storm: %s: %s\n", what, why);
	abort();
}

/* Sends a queue full of I/O and leaves, mostly before it is answered. */
static void storm_io(struct rblk_session *session, unsigned int round)
{
	uint64_t offset = round % (VOLUME_BYTES / (DEPTH * IO_BYTES)) * (DEPTH * IO_BYTES);
	struct rblk_volume *volume = rblk_volume_open(session, NULL, 0);
	char *data = rblk_buffer_alloc(session, DEPTH * IO_BYTES);

	if (!volume || !data)
		storm_die("open", rblk_session_error(session));
	for (unsigned int i = 0; i < DEPTH; i++) {
		uint32_t bytes = (round + i) % 3 ? 4096 : IO_BYTES;
		bool read = (round + i) % 2;
		int err = read ? rblk_read(volume, data + i * IO_BYTES, bytes,
					   offset + i * IO_BYTES, 0, ignore, NULL)
			       : rblk_write(volume, data + i * IO_BYTES, bytes,
					    offset + i * IO_BYTES, 0, ignore, NULL);

		if (err)
			storm_die("start", strerror(-err));
	}
	rblk_submit(session);
	for (unsigned int turns = round % 5; turns; turns--)
		rblk_poll(session, 0);
}

static void *storm_thread(void *arg)
{
	struct storm *storm = arg;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		const char *uri = storm->uris[round / 7 % 2];
		struct rblk_options options = {.size = sizeof(options), .queues = 1 + round % 3};
		char error[RBLK_ERROR_BYTES];
		struct rblk_session *session;

		/* One in eight leaves in the middle of connecting. */
		if (round % 8 == 7) {
			session = rblk_session_start(uri, &options, error);
			for (unsigned int turns = round % 6; session && turns; turns--)
				rblk_poll(session, 0);
		} else {
			session = rblk_session_open(uri, &options, error);
			storm->connected++;
		}
		if (!session)
			storm_die(uri, error);
		if (round % 8 != 7 && round % 8 != 3)
			storm_io(session, round * STORMS + storm->index);
		rblk_session_close(session);
	}
	return NULL;
}

static void storms_harm_nobody(void **state)
{
	struct load_options options = {.queues = 2, .depth = 8, .bytes = 4u << 20};
	unsigned int before = e2e_daemon_descriptors(&server);
	struct storm storms[STORMS];
	struct load *loads[2];

	for (unsigned int i = 0; i < 2; i++) {
		options.uri = e2e_daemon_uri(&server, "memory");
		options.offset = i * options.bytes;
		options.seed = i;
		loads[i] = load_start(&options);
		load_wait(loads[i], 1);
	}
	for (unsigned int i = 0; i < STORMS; i++) {
		storms[i] = (struct storm){.index = i};
		strcpy(storms[i].uris[0], e2e_daemon_uri(&server, "victim"));
		strcpy(storms[i].uris[1], e2e_daemon_uri(&server, "nul"));
		assert_int_equal(pthread_create(&storms[i].thread, NULL, storm_thread, &storms[i]),
				 0);
	}
	for (unsigned int i = 0; i < STORMS; i++) {
		pthread_join(storms[i].thread, NULL);
		assert_int_equal(storms[i].connected, ROUNDS * 7 / 8);
	}
	for (unsigned int i = 0; i < 2; i++) {
		load_wait(loads[i], 100);
		load_stop(loads[i]);
	}
	e2e_daemon_wait_descriptors(&server, before);
	/* Peers do not fill the log, however often they come: its lines are rate-limited. */
	assert_true(e2e_daemon_log_count(&server, ": ended: ") < STORMS * ROUNDS * 7 / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(storms_harm_nobody),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
