/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a volume whose disk does not answer delays itself alone: it leaves memory for data to the other volumes of its
 * session, and the session's only connection is made again, in the same epoch and in a new one. Method: one session that
 * asks such a volume for more than the target has memory for, or writes to it and loses its connection or is forgotten, and
 * then uses another volume: each of its commands ends before any of the first volume's, which take longer than the test.
 */
#include "tests/unit/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"

#define PIECE (1u << 20)
#define READS 24 /* of so much each: more than the pool */
#define SMALL 65536u
#define ROUNDS 40u

static void no_answer(void *arg, const struct rblk_result *result)
{
	--*(int *)arg;
}

static void config_write(const char *path, const char *good, const char *hung)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fprintf(file, "[volume good]\npath = %s\ncache = buffered\n[volume hung]\npath = %s\ncache = buffered\n"
		      "fault = delay=read+write:60s\n", good, hung);
	assert_int_equal(fclose(file), 0);
}

static void other_volumes_have_memory(void **state)
{
	struct rblk_options patient = {.size = sizeof(patient), .command_timeout_ms = 600000};
	char config[] = "/tmp/rblk-hung-XXXXXX", error[RBLK_ERROR_BYTES] = "";
	struct rblk_volume *good, *hung;
	struct rblk_session *session;
	struct e2e_file files[2];
	struct e2e_daemon daemon;
	int left = READS;
	char *data;

	(void)state;
	e2e_file_create(&files[0], "good", PIECE);
	e2e_file_create(&files[1], "hung", PIECE);
	close(mkstemp(config));
	config_write(config, files[0].path, files[1].path);
	e2e_daemon_start(&daemon, "--config", config, "--reactors", "1", "--pool-size", "16M", NULL);
	session = rblk_session_open(e2e_daemon_uri(&daemon, "good"), &patient, error);
	if (!session)
		fail_msg("%s", error);
	good = rblk_volume_open(session, "good", 0);
	hung = rblk_volume_open(session, "hung", 0);
	assert_true(good && hung);
	data = rblk_buffer_alloc(session, READS * PIECE + SMALL);
	assert_non_null(data);
	for (unsigned int i = 0; i < READS; i++)
		assert_int_equal(rblk_read(hung, data + i * PIECE, PIECE, 0, 0, no_answer, &left), 0);
	for (unsigned int i = 0; i < ROUNDS; i++)
		assert_int_equal(rblk_pread(good, data + READS * PIECE, SMALL, 0), 0);
	assert_int_equal(left, READS);
	e2e_daemon_kill(&daemon);
	rblk_session_close(session);
	unlink(config);
	e2e_file_remove(&files[0]);
	e2e_file_remove(&files[1]);
}

/* `verb` of `program` ends the session's only connection while the hung disk has a write. */
static void comes_back(const char *program, const char *verb)
{
	struct rblk_options options = {.size = sizeof(options), .queues = 1, .initiator_name = "host"};
	char config[] = "/tmp/rblk-hung-XXXXXX", folder[] = "/tmp/rblk-hung-XXXXXX", socket[64],
	     control[64], command[256], error[RBLK_ERROR_BYTES] = "";
	struct rblk_volume *good, *hung;
	struct rblk_session *session;
	struct e2e_daemon daemon;
	struct e2e_file files[2];
	int left = 1;
	char *data;

	e2e_file_create(&files[0], "good", PIECE);
	e2e_file_create(&files[1], "hung", PIECE);
	close(mkstemp(config));
	assert_non_null(mkdtemp(folder));
	snprintf(socket, sizeof(socket), "%s/fault", folder);
	snprintf(control, sizeof(control), "%s/control", folder);
	config_write(config, files[0].path, files[1].path);
	e2e_daemon_start(&daemon, "--config", config, "--fault-socket", socket, "--control-socket", control, NULL);
	session = rblk_session_open(e2e_daemon_uri(&daemon, "good"), &options, error);
	if (!session)
		fail_msg("%s", error);
	good = rblk_volume_open(session, "good", 0);
	hung = rblk_volume_open(session, "hung", 0);
	assert_true(good && hung);
	data = rblk_buffer_alloc(session, 2 * SMALL);
	assert_non_null(data);
	memset(data, 0x5a, SMALL);
	assert_int_equal(rblk_write(hung, data + SMALL, SMALL, 0, 0, no_answer, &left), 0);
	/* The store has it when a command behind it is answered. */
	assert_int_equal(rblk_pread(good, data + SMALL, SMALL, 0), 0);
	for (unsigned int round = 0; round < 3; round++) {
		snprintf(command, sizeof(command), verb, getenv(program), folder);
		assert_int_equal(system(command), 0);
		assert_int_equal(rblk_pwrite(good, data, SMALL, round * SMALL, 0), 0);
		assert_int_equal(rblk_fsync(good), 0);
		assert_int_equal(left, 1);
	}
	e2e_daemon_kill(&daemon);
	rblk_session_close(session);
	unlink(config);
	unlink(socket);
	unlink(control);
	rmdir(folder);
	e2e_file_remove(&files[0]);
	e2e_file_remove(&files[1]);
}

static void the_only_connection_is_made_again(void **state)
{
	(void)state;
	comes_back("RBLK", "'%s' fault '%s/fault' cut");
}

/* The session has another epoch then, and another volume's OPEN waits for nothing. */
static void so_is_a_session_that_was_ended(void **state)
{
	(void)state;
	comes_back("RBLKCTL", "'%s' kick --socket '%s/control' host > /dev/null");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_volumes_have_memory),
		cmocka_unit_test(the_only_connection_is_made_again),
		cmocka_unit_test(so_is_a_session_that_was_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
