/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a command on a volume with `priority = yes` goes before those of its session on others that came sooner, unless
 * all of the initiator's have priority; a reload changes it for who has the volume open. Method: reads wait for a limit
 * of few a second, one on another volume comes behind them, and the order of the answers is looked at.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define PLAIN 12u
#define BLOCK 4096u

static struct e2e_daemon server;
static char config[64];

static void config_write(const char *priority)
{
	unit_file_write(config,
			"[volume plain]\nstore = memory\nsize = 1M\n"
			"[volume other]\nstore = memory\nsize = 1M\n"
			"[volume quick]\nstore = memory\nsize = 1M\npriority = %s\n"
			"[initiator *]\naddress = local\nwrite = *\nlimit_iops = 10\nlimit_burst = 20ms\n"
			"[initiator all]\naddress = local\nwrite = *\npriority = yes\n",
			priority);
}

static int start(void **state)
{
	(void)state;
	snprintf(config, sizeof(config), "/tmp/rblk-priority-%d.conf", (int)getpid());
	config_write("yes");
	e2e_daemon_start(&server, "--config", config, "--reactors", "1", "--memory-lock=no", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	unlink(config);
	return e2e_daemon_stop(&server);
}

struct reads {
	struct rblk_session *session;
	struct rblk_volume *plain, *last;
	uint8_t *data;
	unsigned int plain_done, before_last;
	bool last_done;
};

static void plain_done(void *arg, const struct rblk_result *result)
{
	struct reads *reads = arg;

	assert_int_equal(result->error, 0);
	reads->plain_done++;
}

static void last_done(void *arg, const struct rblk_result *result)
{
	struct reads *reads = arg;

	assert_int_equal(result->error, 0);
	reads->before_last = reads->plain_done;
	reads->last_done = true;
}

static void reads_open(struct reads *reads, const char *initiator, const char *volume)
{
	struct rblk_options options = {.size = sizeof(options), .initiator_name = initiator, .queues = 1};

	memset(reads, 0, sizeof(*reads));
	reads->session = e2e_session_open(e2e_daemon_uri(&server, "plain"), &options);
	reads->plain = e2e_volume_open(reads->session, NULL, 0);
	reads->last = e2e_volume_open(reads->session, volume, 0);
	reads->data = rblk_buffer_alloc(reads->session, BLOCK);
	assert_non_null(reads->data);
}

/* How many of PLAIN reads of "plain" are answered before one of the other volume, which comes behind them. */
static unsigned int before_last(struct reads *reads)
{
	reads->plain_done = 0;
	reads->last_done = false;
	for (unsigned int i = 0; i < PLAIN; i++)
		assert_int_equal(rblk_read(reads->plain, reads->data, BLOCK, 0, 0, plain_done, reads), 0);
	assert_int_equal(rblk_read(reads->last, reads->data, BLOCK, 0, 0, last_done, reads), 0);
	while (reads->plain_done < PLAIN || !reads->last_done)
		assert_true(rblk_wait(reads->session, -1) >= 0);
	return reads->before_last;
}

static void a_volume_goes_before_others(void **state)
{
	struct reads reads;

	(void)state;
	reads_open(&reads, "some", "other");
	assert_int_equal(before_last(&reads), PLAIN);
	rblk_session_close(reads.session);
	reads_open(&reads, "some", "quick");
	assert_true(before_last(&reads) < PLAIN / 2);
	config_write("no");
	kill(server.pid, SIGHUP);
	e2e_daemon_log_wait(&server, "reload: ", 1);
	assert_int_equal(before_last(&reads), PLAIN);
	rblk_session_close(reads.session);
}

/* With priority of all that it does, none of it goes before the rest. */
static void an_initiator_has_it_for_all(void **state)
{
	struct reads reads;

	(void)state;
	reads_open(&reads, "all", "quick");
	assert_int_equal(before_last(&reads), PLAIN);
	rblk_session_close(reads.session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_volume_goes_before_others, start, stop),
		cmocka_unit_test_setup_teardown(an_initiator_has_it_for_all, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
