/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what waits for a fence while storage is slow (F5), and what does not. A write that failed fast never
 * lands on one that is acknowledged later; many fences on one queue leave it its keep-alive; a read of
 * a lost connection goes again while the fence waits, and so does a write on another volume than the slow one. Method:
 * rblkd with a store that delays its first writes, reached over two proxies that are cut while
 * these writes are in the store.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "initiator/session.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/proxy.h"
#include "tests/e2e/session.h"

#define PATHS 2u
#define BLOCK 4096u
#define QUEUES 8u

static struct e2e_daemon server;
static struct proxy *paths[PATHS];
static struct rblk_session *session;
static struct rblk_volume *volume;
static uint8_t *data;

struct outcome {
	bool ended;
	int error;
};

static void done(void *arg, const struct rblk_result *result)
{
	struct outcome *outcome = arg;

	assert_false(outcome->ended);
	outcome->ended = true;
	outcome->error = result->error;
}

/* Of the daemon, which runs. */
static void open_paths(const struct rblk_options *options)
{
	char uri[256];

	for (unsigned int i = 0; i < PATHS; i++)
		paths[i] = proxy_start(server.host);
	snprintf(uri, sizeof(uri), "rblk+tcp://%s,%s/disk", proxy_host(paths[0]),
		 proxy_host(paths[1]));
	session = e2e_session_open(uri, options);
	volume = e2e_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, QUEUES * BLOCK);
	assert_non_null(data);
}

static void begin(const char *fault, const struct rblk_options *options)
{
	/* One reactor: the counts of a fault are for each. */
	e2e_daemon_start(&server, "--memory", "disk=1M", "--reactors", "1", "--fault", fault, NULL);
	open_paths(options);
}

static void end(void)
{
	rblk_session_close(session);
	for (unsigned int i = 0; i < PATHS; i++)
		proxy_stop(paths[i]);
	assert_int_equal(e2e_daemon_stop(&server), 0);
}

static void wait_for(const struct outcome *outcome)
{
	while (!outcome->ended)
		assert_true(rblk_wait(session, 10) >= 0);
}

/* One block, by the next queue in turn. */
static void write_begin(unsigned int block, struct outcome *outcome)
{
	assert_int_equal(
		rblk_write(volume, data + block * BLOCK, BLOCK, block * BLOCK, 0, done, outcome),
		0);
	assert_int_equal(rblk_submit(session), 0);
}

/* -- a write that failed fast ------------------------------------------------------------------ */

/* `turn`: the write goes by the one queue or by the other. */
static void fail_fast_and_write_again(unsigned int turn)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct outcome failed = {false}, slow = {false};

	options.queues = 2;
	options.fail_fast_ms = 100;
	begin("delay=write:4s,count=1", &options);
	for (unsigned int i = 0; i < turn; i++)
		assert_int_equal(rblk_pread(volume, data, BLOCK, 0), 0);
	memset(data, 1, BLOCK);
	write_begin(0, &failed);
	/* The store has it when a command behind it is answered. */
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(rblk_pread(volume, data + BLOCK, BLOCK, 0), 0);
	for (unsigned int i = 0; i < PATHS; i++)
		proxy_cut(paths[i]);
	wait_for(&failed);
	assert_int_equal(failed.error, -EIO);
	for (unsigned int i = 0; i < PATHS; i++)
		proxy_mend(paths[i]);
	while (rblk_session_state(session) != RBLK_SESSION_READY)
		assert_true(rblk_wait(session, 10) >= 0);
	memset(data, 2, BLOCK);
	write_begin(0, &slow);
	wait_for(&slow);
	assert_int_equal(slow.error, 0);
	/* OPEN is answered when the first write has left the store. */
	assert_non_null(rblk_volume_open(session, NULL, 0));
	assert_int_equal(rblk_pread(volume, data, BLOCK, 0), 0);
	assert_int_equal(data[0], 2);
	end();
}

static void failed_fast_does_not_land_later(void **state)
{
	(void)state;
	fail_fast_and_write_again(0);
	fail_fast_and_write_again(1);
}

/* -- many fences ------------------------------------------------------------------------------- */

/* FENCEs that this queue waits for. */
static unsigned int fences_of(const struct ini_queue *queue)
{
	unsigned int count = 0;

	for (unsigned int tag = 0; tag < queue->slot_count; tag++)
		count += queue->tag_array[tag].state != CORE_TAG_FREE &&
			 queue->slots[tag].command.opcode == RBLK_OP_FENCE;
	return count;
}

/* The last reserved tag is KEEPALIVE's: without it a path that is well would be taken for silent.
 */
static void fences_leave_keepalive(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct outcome outcomes[QUEUES] = {{false}};
	unsigned int most = 0;

	(void)state;
	options.queues = QUEUES;
	begin("delay=write:4s,count=8", &options);
	for (unsigned int i = 0; i < QUEUES; i++)
		write_begin(i, &outcomes[i]);
	assert_int_equal(rblk_pread(volume, data, BLOCK, 0), 0);
	/* Four queues are lost. Their fences go by the same queue, and wait for the store. */
	proxy_cut(paths[0]);
	for (unsigned int i = 0; i < QUEUES; i++) {
		while (!outcomes[i].ended) {
			assert_true(rblk_wait(session, 10) >= 0);
			for (unsigned int q = 0; q < QUEUES; q++)
				if (fences_of(&session->queues[q]) > most)
					most = fences_of(&session->queues[q]);
		}
		assert_int_equal(outcomes[i].error, 0);
	}
	assert_in_range(most, 1, RBLK_RESERVED_TAGS - 1);
	end();
}

/* The daemon has commands that take longer than the test. */
static void end_hung(void)
{
	e2e_daemon_kill(&server);
	rblk_session_close(session);
	for (unsigned int i = 0; i < PATHS; i++)
		proxy_stop(paths[i]);
}

/* -- reads ------------------------------------------------------------------------------------- */

static bool a_fence_is_owed(void)
{
	for (unsigned int q = 0; q < 2; q++)
		if (session->core.queue[q].lost.waits && !session->core.queue[q].lost.fenced)
			return true;
	return false;
}

static void reads_wait_for_no_fence(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct outcome writes[2] = {{false}}, reads[2] = {{false}};

	(void)state;
	options.queues = 2;
	/* On each queue a write that hangs, and behind it a read that is lost, or not. */
	begin("delay=write:60s,delay=read:500ms", &options);
	for (unsigned int i = 0; i < 2; i++)
		write_begin(i, &writes[i]);
	/* The store has them when a command behind each is answered. */
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(rblk_pread(volume, data + 2 * BLOCK, BLOCK, 0), 0);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(rblk_read(volume, data + (2 + i) * BLOCK, BLOCK, 0, 0, done,
					   &reads[i]),
				 0);
		assert_int_equal(rblk_submit(session), 0);
	}
	proxy_cut(paths[0]);
	while (!a_fence_is_owed())
		assert_true(rblk_wait(session, 10) >= 0);
	for (unsigned int i = 0; i < 2; i++) {
		wait_for(&reads[i]);
		assert_int_equal(reads[i].error, 0);
	}
	assert_true(a_fence_is_owed());
	assert_false(writes[0].ended || writes[1].ended);
	end_hung();
}

/* -- other volumes ----------------------------------------------------------------------------- */

static void config_write(const char *path, const struct e2e_file files[2])
{
	unit_file_write(path,
			"[volume disk]\npath = %s\ncache = buffered\nfault = delay=write:60s\n"
			"[volume well]\npath = %s\ncache = buffered\nfault = delay=write:500ms\n",
			files[0].path, files[1].path);
}

/*
 * On each queue a write that hangs, and one on each of two handles of another volume: those of the queue that is lost are
 * still at that store, so that FENCE of the volume is answered BUSY first.
 */
static void other_volumes_wait_for_themselves(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct outcome hung[2] = {{false}}, well[4] = {{false}};
	char config[] = "/tmp/rblk-fences-XXXXXX";
	struct rblk_volume *others[2];
	struct e2e_file files[2];

	(void)state;
	options.queues = 2;
	e2e_file_create(&files[0], "disk", QUEUES * BLOCK);
	e2e_file_create(&files[1], "well", QUEUES * BLOCK);
	close(mkstemp(config));
	config_write(config, files);
	e2e_daemon_start(&server, "--config", config, "--reactors", "2", NULL);
	open_paths(&options);
	for (unsigned int i = 0; i < 2; i++)
		others[i] = rblk_volume_open(session, "well", 0);
	assert_true(others[0] && others[1]);
	for (unsigned int i = 0; i < 2; i++)
		write_begin(i, &hung[i]);
	for (unsigned int i = 0; i < 4; i++) {
		memset(data + i * BLOCK, 'a' + (int)i, BLOCK);
		assert_int_equal(rblk_write(others[i / 2], data + i * BLOCK, BLOCK, i * BLOCK, 0, done, &well[i]), 0);
		assert_int_equal(rblk_submit(session), 0);
	}
	/* The stores have them when a command behind each is answered. */
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(rblk_pread(volume, data + 4 * BLOCK, BLOCK, 0), 0);
	proxy_cut(paths[0]);
	while (!a_fence_is_owed())
		assert_true(rblk_wait(session, 10) >= 0);
	for (unsigned int i = 0; i < 4; i++) {
		wait_for(&well[i]);
		assert_int_equal(well[i].error, 0);
		assert_int_equal(rblk_pread(others[0], data + 4 * BLOCK, BLOCK, i * BLOCK), 0);
		assert_memory_equal(data + 4 * BLOCK, data + i * BLOCK, BLOCK);
	}
	assert_true(a_fence_is_owed());
	assert_false(hung[0].ended || hung[1].ended);
	end_hung();
	unlink(config);
	e2e_file_remove(&files[0]);
	e2e_file_remove(&files[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failed_fast_does_not_land_later),
		cmocka_unit_test(fences_leave_keepalive),
		cmocka_unit_test(reads_wait_for_no_fence),
		cmocka_unit_test(other_volumes_wait_for_themselves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
