/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a path that comes back is used again although a disk hangs: the connection that is to move there waits for its
 * commands no longer than a command's time. Method: two paths of one rblkd (two_paths.h) whose writes take longer than the
 * test; one path is cut and mended while both connections have such writes. The session's first connection goes to the other
 * path at once, and the one that was there makes room for it.
 */
#include "tests/unit/unit.h"
#include "tests/e2e/session.h"

#include "tests/e2e/two_paths.h"

#define WRITES 8
#define BYTES 4096u

static void answered(void *arg, const struct rblk_result *result)
{
	--*(int *)arg;
}

static void wait_for_connections(struct rblk_session *session, unsigned int path, unsigned int count)
{
	struct rblk_path_info info[PATHS];

	do {
		assert_true(rblk_wait(session, 10) >= 0);
		assert_int_equal(rblk_session_paths(session, info, sizeof(info[0]), PATHS), PATHS);
	} while (info[path].connections != count);
}

static void a_path_is_used_again_beside_a_hung_disk(void **state)
{
	struct rblk_options options = {.size = sizeof(options), .queues = 2, .command_timeout_ms = 500};
	struct rblk_session *session;
	struct rblk_volume *volume;
	int left = WRITES;
	char *data;

	(void)state;
	two_paths_start(1 << 20, "", "1h", "delay=write:20s");
	session = e2e_session_open(two_paths_uri, &options);
	volume = rblk_volume_open(session, "disk", 0);
	data = rblk_buffer_alloc(session, BYTES);
	assert_true(volume && data);
	for (unsigned int i = 0; i < WRITES; i++) {
		assert_int_equal(rblk_write(volume, data, BYTES, i * BYTES, 0, answered, &left), 0);
		rblk_submit(session);
	}
	proxy_cut(paths[0]);
	wait_for_connections(session, 0, 0);
	proxy_mend(paths[0]);
	wait_for_connections(session, 0, 1);
	assert_int_equal(left, WRITES);
	rblk_session_close(session);
	two_paths_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_used_again_beside_a_hung_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
