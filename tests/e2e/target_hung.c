/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a volume whose disk does not answer leaves memory for data to the other volumes of its session. Method: one session that
 * asks such a volume for more than the target has memory for, and then uses another one: each of its commands ends before any
 * of the first volume's, which take longer than the test.
 */
#include "tests/unit/unit.h"
#include <stdio.h>
#include <stdlib.h>
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
		      "fault = delay=read:60s\n", good, hung);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_volumes_have_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
