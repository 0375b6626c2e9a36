/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: when several logins of one queue wait for its old connection to end, only the newest stays,
 * and it is accepted. Method: a connection that is lost while a slow disk has its write, and logins
 * after it, each with a higher incarnation than the last.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define LATER 10u

static struct e2e_daemon server;
static struct e2e_file disk;

static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", 1u << 20);
	e2e_daemon_start(&server, "--reactors", "1", "--cache", "buffered", "--fault",
			 "delay=write:4s", disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

static void only_the_newest_login_of_a_queue_waits(void **state)
{
	struct raw first, later[LATER];
	unsigned int superseded = 0;
	uint32_t volume;

	(void)state;
	raw_init(&first);
	assert_true(raw_connect(&first, server.host));
	volume = raw_open(&first, "disk");
	assert_int_not_equal(volume, 0);
	raw_io(&first, RBLK_OP_WRITE, 1, volume, 0, 8, 4096);
	/* The target fetches the data meanwhile, in order, after the first answer. Then the disk
	 * has the write. */
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(raw_simple(&first, RBLK_OP_PING, 2), RBLK_OK);
	for (unsigned int i = 0; i < LATER; i++) {
		raw_init(&later[i]);
		memcpy(later[i].login.session_id, first.login.session_id,
		       sizeof(first.login.session_id));
		later[i].login.incarnation = rblk_to_le32(2 + i);
		raw_connect_begin(&later[i], server.host);
		/* One by one, so that they come in order. On a slow machine one may be accepted. */
		while (i && !later[i - 1].rejected && !later[i - 1].established) {
			raw_step(&later[i - 1]);
			raw_step(&later[i]);
		}
		superseded += i && later[i - 1].rejected;
	}
	assert_true(superseded > 0);
	for (unsigned int i = 0; i < LATER - 1; i++)
		if (later[i].rejected)
			assert_int_equal(rblk_le16(later[i].reject.reason),
					 RBLK_REJECT_STALE_INCARNATION);
	assert_true(raw_connect_wait(&later[LATER - 1]));
	assert_int_equal(raw_simple(&later[LATER - 1], RBLK_OP_PING, 2), RBLK_OK);
	for (unsigned int i = 0; i < LATER; i++)
		raw_close(&later[i]);
	raw_close(&first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_newest_login_of_a_queue_waits),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
