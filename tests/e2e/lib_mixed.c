/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session whose hosts are of different kinds of fabric uses all of them, and goes on with
 * one when the other is lost: commands are sent again with the keys of the fabric that they go
 * through. Method: one rblkd that listens twice, behind two proxies; librblk reaches one by TCP and
 * the other by a second fabric (other_fabric.h). The lab does the same with RDMA and TCP.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include "tests/e2e/load.h"
#include "tests/e2e/other_fabric.h"
#include "tests/e2e/session.h"
#include "tests/e2e/two_paths.h"

#define ROUNDS 3u
#define BYTES (2u << 20)
#define PIECE 4096u
#define PIECES 3u /* as one message, OTHER_FABRIC_SGE does not suffice for it */
#define HANG_MS 60000

static int start(void **state)
{
	(void)state;
	other_fabric_use();
	two_paths_start(BYTES, "rblk+sim://", "1h", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return two_paths_stop();
}

static void each_is_lost_and_found(uint32_t queues)
{
	struct load *load = load_start(&(struct load_options){.uri = two_paths_uri,
							      .queues = queues,
							      .depth = 16,
							      .bytes = BYTES,
							      .seed = queues});

	for (unsigned int round = 0; round < ROUNDS; round++)
		for (unsigned int path = 0; path < PATHS; path++) {
			for (unsigned int i = 0; i < PATHS; i++)
				two_paths_wait(load, i);
			proxy_cut(paths[path]);
			two_paths_wait(load, 1 - path);
			proxy_mend(paths[path]);
		}
	for (unsigned int i = 0; i < PATHS; i++)
		two_paths_wait(load, i);
	load_stop(load);
}

static void lost_in_turn(void **state)
{
	(void)state;
	each_is_lost_and_found(2);
	each_is_lost_and_found(5);
}

/* One queue: whatever it has outstanding goes from one fabric to the other. */
static void moved(void **state)
{
	struct load *load = load_start(&(struct load_options){
		.uri = two_paths_uri, .queues = 1, .depth = 16, .bytes = BYTES, .seed = 3});

	(void)state;
	for (unsigned int round = 0; round < ROUNDS; round++)
		for (unsigned int path = 0; path < PATHS; path++) {
			proxy_cut(paths[path]);
			two_paths_wait(load, 1 - path);
			proxy_mend(paths[path]);
		}
	load_stop(load);
}

struct world {
	struct rblk_session *session;
	struct rblk_volume *volume;
	char *data;
};

static void open_world(struct world *w, uint32_t queues)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	options.queues = queues;
	options.polling = RBLK_POLL_NEVER;
	options.command_timeout_ms = 10 * HANG_MS;
	w->session = e2e_session_open(two_paths_uri, &options);
	w->volume = rblk_volume_open(w->session, NULL, 0);
	w->data = rblk_buffer_alloc(w->session, 4 * PIECES * PIECE);
	assert_true(w->volume && w->data);
}

static void finished(void *arg, const struct rblk_result *result)
{
	assert_int_equal(result->error, 0);
	++*(unsigned int *)arg;
}

/* A program with a loop of its own is woken by either fabric. */
static void one_descriptor_for_both(void **state)
{
	struct pollfd fd = {.events = POLLIN};
	unsigned int done = 0, wanted;
	struct world w;

	(void)state;
	open_world(&w, PATHS);
	fd.fd = rblk_fd(w.session);
	for (wanted = 1; wanted <= 100; wanted++) {
		/* Each doorbell is the next queue's. */
		assert_int_equal(rblk_read(w.volume, w.data, PIECE, 0, 0, finished, &done), 0);
		assert_int_equal(rblk_submit(w.session), 0);
		while (done < wanted) {
			assert_true(rblk_poll(w.session, 0) >= 0);
			if (done == wanted || rblk_arm(w.session))
				continue;
			/* No timer is due before that. */
			if (!poll(&fd, 1, HANG_MS))
				fail_msg("read %u: nothing woke the program", wanted);
		}
		assert_int_equal(fd.fd, rblk_fd(w.session));
	}
	for (unsigned int i = 0; i < PATHS; i++)
		assert_true(proxy_bytes(paths[i]) > 40u * PIECE);
	rblk_session_close(w.session);
}

/* The session's only connection is now on the other path. */
static void wait_to_move(struct world *w, unsigned int to)
{
	struct rblk_path_info info[PATHS];

	do {
		assert_true(rblk_wait(w->session, 10) >= 0);
		assert_int_equal(rblk_session_paths(w->session, info, sizeof(info[0]), PATHS),
				 PATHS);
	} while (!info[to].connections);
}

/* A write of several pieces that one fabric takes as one message goes through the other in
 * pieces. */
static void gathered_write_moves(void **state)
{
	struct iovec iov[PIECES];
	unsigned int done = 0;
	struct world w;
	char *read_back;

	(void)state;
	open_world(&w, 1);
	read_back = w.data + 2 * PIECES * PIECE;
	assert_true(rblk_volume_info(w.volume)->max_capsule_bytes >= PIECES * PIECE);
	for (unsigned int round = 0; round < 4; round++) {
		for (unsigned int i = 0; i < PIECES; i++) {
			iov[i] = (struct iovec){w.data + 2 * i * PIECE, PIECE};
			memset(iov[i].iov_base, (int)(1 + round * PIECES + i), PIECE);
		}
		done = 0;
		proxy_cut(paths[0]); /* it is not noticed before the write has been started */
		assert_int_equal(rblk_writev(w.volume, iov, PIECES, 0, 0, finished, &done), 0);
		while (!done)
			assert_true(rblk_wait(w.session, -1) >= 0);
		proxy_mend(paths[0]);
		assert_int_equal(rblk_pread(w.volume, read_back, PIECES * PIECE, 0), 0);
		for (unsigned int i = 0; i < PIECES; i++)
			assert_memory_equal(read_back + i * PIECE, iov[i].iov_base, PIECE);
		/* And one that begins there. */
		done = 0;
		assert_int_equal(rblk_writev(w.volume, iov, PIECES, PIECE, 0, finished, &done), 0);
		while (!done)
			assert_true(rblk_wait(w.session, -1) >= 0);
		assert_int_equal(rblk_pread(w.volume, read_back, PIECES * PIECE, PIECE), 0);
		for (unsigned int i = 0; i < PIECES; i++)
			assert_memory_equal(read_back + i * PIECE, iov[i].iov_base, PIECE);
		proxy_cut(paths[1]);
		wait_to_move(&w, 0);
		proxy_mend(paths[1]);
	}
	rblk_session_close(w.session);
}

/* Hosts have their scheme in all words, and paths their device. */
static void each_is_told(void **state)
{
	struct rblk_path_info info[PATHS];
	char host[PATHS][96];
	struct world w;

	(void)state;
	open_world(&w, PATHS);
	snprintf(host[0], sizeof(host[0]), "rblk+tcp://%s", proxy_host(paths[0]));
	snprintf(host[1], sizeof(host[1]), "rblk+sim://%s", proxy_host(paths[1]));
	assert_int_equal(rblk_session_paths(w.session, info, sizeof(info[0]), PATHS), PATHS);
	for (unsigned int i = 0; i < PATHS; i++) {
		assert_string_equal(info[i].host, host[i]);
		assert_int_equal(info[i].connections, 1);
		assert_string_equal(info[i].device, "tcp");
	}
	rblk_session_close(w.session);
}

/* Without RDMA, or where RDMA does not lead to the target, the paths over TCP are used. */
static void without_rdma(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	char mixed[256];
	struct rblk_path_info info[PATHS];
	struct rblk_session *session;
	int count;

	(void)state;
	snprintf(mixed, sizeof(mixed), "rblk://127.0.0.1:1,rblk+tcp://%s/disk",
		 proxy_host(paths[0]));
	options.queues = PATHS;
	options.device = "none-such"; /* of RDMA */
	session = e2e_session_open(mixed, &options);
	count = rblk_session_paths(session, info, sizeof(info[0]), PATHS);
	assert_int_equal(count, PATHS);
	for (int i = 0; i < count; i++) {
		bool rdma = !strcmp(info[i].host, "rblk://127.0.0.1:1");

		assert_int_equal(!info[i].connections, rdma);
		assert_int_equal(info[i].error < 0, rdma);
		assert_int_equal(info[i].words[0] != '\0', rdma);
	}
	rblk_session_close(session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_in_turn),
		cmocka_unit_test(moved),
		cmocka_unit_test(one_descriptor_for_both),
		cmocka_unit_test(gathered_write_moves),
		cmocka_unit_test(each_is_told),
		cmocka_unit_test(without_rdma),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
