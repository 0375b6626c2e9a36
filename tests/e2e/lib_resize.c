/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: when a volume grows at the target, a program that has it open sees the new size without
 * closing it, and I/O goes on. A volume does not shrink unless that is allowed. Method: a file that
 * is made longer or shorter, then SIGHUP, or a restart; the session's event, the volume's info, and
 * a block at the new end.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"

#define BLOCK 4096u
#define DEPTH 16u

static struct e2e_daemon server;
static struct e2e_file file;
static char config[64];

static struct program {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
	unsigned int outstanding, errors, changed, refreshed;
	int last_error;
} program;

static void write_config(const char *more)
{
	FILE *to = fopen(config, "w");

	assert_non_null(to);
	fprintf(to, "[volume disk]\npath = %s\ncache = buffered\n%s", file.path, more);
	assert_int_equal(fclose(to), 0);
}

static void on_refreshed(void *arg, struct rblk_volume *volume, int error)
{
	(void)arg;
	assert_ptr_equal(volume, program.volume);
	assert_int_equal(error, 0);
	program.refreshed++;
}

/* As a program with a loop does it: in the callback, without waiting for its own I/O. */
static void on_event(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	(void)arg;
	(void)session;
	if (event->type != RBLK_SESSION_EVENT_VOLUME_CHANGED)
		return;
	assert_ptr_equal(event->volume, program.volume);
	program.changed++;
	assert_int_equal(rblk_volume_refresh_start(event->volume, on_refreshed, NULL), 0);
}

static int start(void **state)
{
	char error[RBLK_ERROR_BYTES] = "";

	(void)state;
	memset(&program, 0, sizeof(program));
	e2e_file_create(&file, "disk", 1 << 20);
	strcpy(config, "/var/tmp/rblk-e2e-resize-XXXXXX");
	close(mkstemp(config));
	write_config("");
	e2e_daemon_start(&server, "--config", config, NULL);
	program.session = rblk_session_open(e2e_daemon_uri(&server, "disk"), NULL, error);
	if (!program.session)
		fail_msg("%s", error);
	rblk_session_on_event(program.session, on_event, NULL);
	program.volume = rblk_volume_open(program.session, NULL, 0);
	assert_non_null(program.volume);
	program.data = rblk_buffer_alloc(program.session, DEPTH * BLOCK);
	assert_non_null(program.data);
	assert_int_equal(rblk_volume_info(program.volume)->bytes, 1 << 20);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	rblk_session_close(program.session);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	e2e_file_remove(&file);
	unlink(config);
	return 0;
}

static void done(void *arg, const struct rblk_result *result)
{
	(void)arg;
	program.outstanding--;
	program.errors += result->error != 0;
	if (result->error)
		program.last_error = result->error;
}

/* Keeps `depth` reads in flight, and waits for one event. */
static void turn(unsigned int depth)
{
	while (program.outstanding < depth) {
		assert_int_equal(rblk_read(program.volume, program.data + program.outstanding * BLOCK,
					   BLOCK, 0, 0, done, NULL),
				 0);
		program.outstanding++;
	}
	assert_true(rblk_wait(program.session, 100) >= 0);
}

static void settle(void)
{
	while (program.outstanding)
		turn(0);
}

static void resize(off_t bytes)
{
	assert_int_equal(truncate(file.path, bytes), 0);
	assert_int_equal(kill(server.pid, SIGHUP), 0);
}

static void last_block_works(uint64_t bytes)
{
	memset(program.data, 0x5a, BLOCK);
	assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, bytes - BLOCK, 0), 0);
	memset(program.data, 0, BLOCK);
	assert_int_equal(rblk_pread(program.volume, program.data, BLOCK, bytes - BLOCK), 0);
	assert_int_equal(program.data[0], 0x5a);
	assert_int_equal(rblk_pread(program.volume, program.data, BLOCK, bytes), -ERANGE);
}

static void grows_under_io(void **state)
{
	(void)state;
	for (unsigned int round = 1; round <= 4; round++) {
		resize((off_t)(round + 1) << 20);
		while (program.refreshed < round)
			turn(DEPTH);
		assert_int_equal(program.changed, round);
		assert_int_equal(rblk_volume_info(program.volume)->bytes, (round + 1) << 20);
		assert_false(rblk_volume_info(program.volume)->changed);
	}
	settle();
	assert_int_equal(program.errors, 0);
	last_block_works(5 << 20);
	/* Every handle is closed: none is left at the target. */
	kill(server.pid, SIGUSR1);
	e2e_daemon_log_wait(&server, "open: disk", 1);
	assert_int_equal(e2e_daemon_log_count(&server, "open: disk, disk"), 0);
}

static void does_not_shrink_unasked(void **state)
{
	(void)state;
	resize(512 << 10);
	e2e_daemon_log_wait(&server, "set allow_shrink = yes to allow it", 1);
	assert_int_equal(truncate(file.path, 1 << 20), 0);
	turn(0);
	assert_int_equal(program.changed, 0);
	assert_int_equal(rblk_volume_info(program.volume)->bytes, 1 << 20);
	last_block_works(1 << 20);
	/* Shrinking was asked for. */
	write_config("allow_shrink = yes\n");
	resize(512 << 10);
	while (!program.refreshed)
		turn(DEPTH);
	settle();
	assert_int_equal(program.errors, 0);
	assert_int_equal(rblk_volume_info(program.volume)->bytes, 512 << 10);
	last_block_works(512 << 10);
}

/* The target sends no event here: the session learns the size when it opens the volume again. */
static void grows_while_the_target_is_down(void **state)
{
	(void)state;
	turn(DEPTH);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	assert_int_equal(truncate(file.path, 3 << 20), 0);
	e2e_daemon_start_again(&server, "--config", config, NULL);
	while (!program.refreshed)
		turn(DEPTH);
	settle();
	assert_int_equal(program.errors, 0);
	assert_int_equal(program.changed, 1);
	assert_int_equal(rblk_volume_info(program.volume)->bytes, 3 << 20);
	last_block_works(3 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(grows_under_io, start, stop),
		cmocka_unit_test_setup_teardown(does_not_shrink_unasked, start, stop),
		cmocka_unit_test_setup_teardown(grows_while_the_target_is_down, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
