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
#include <string.h>
#include <unistd.h>
#include "tests/e2e/changing_volume.h"

static struct changing_volume disk;

static int start(void **state)
{
	(void)state;
	changing_volume_start(&disk, "", NULL);
	changing_volume_open(&disk, 0);
	assert_int_equal(rblk_volume_info(disk.volume)->bytes, 1 << 20);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return changing_volume_stop(&disk);
}

static void resize(off_t bytes)
{
	assert_int_equal(truncate(disk.file.path, bytes), 0);
	assert_int_equal(kill(disk.server.pid, SIGHUP), 0);
}

static void last_block_works(uint64_t bytes)
{
	memset(disk.data, 0x5a, BLOCK);
	assert_int_equal(rblk_pwrite(disk.volume, disk.data, BLOCK, bytes - BLOCK, 0), 0);
	memset(disk.data, 0, BLOCK);
	assert_int_equal(rblk_pread(disk.volume, disk.data, BLOCK, bytes - BLOCK), 0);
	assert_int_equal(disk.data[0], 0x5a);
	assert_int_equal(rblk_pread(disk.volume, disk.data, BLOCK, bytes), -ERANGE);
}

static void grows_under_io(void **state)
{
	(void)state;
	for (unsigned int round = 1; round <= 4; round++) {
		resize((off_t)(round + 1) << 20);
		while (disk.refreshed < round)
			changing_volume_turn(&disk, DEPTH);
		assert_int_equal(disk.changed, round);
		assert_int_equal(rblk_volume_info(disk.volume)->bytes, (round + 1) << 20);
		assert_false(rblk_volume_info(disk.volume)->changed);
	}
	changing_volume_settle(&disk);
	assert_int_equal(disk.errors, 0);
	last_block_works(5 << 20);
	changing_volume_assert_one_handle(&disk);
}

static void does_not_shrink_unasked(void **state)
{
	(void)state;
	resize(512 << 10);
	e2e_daemon_log_wait(&disk.server, "set allow_shrink = yes to allow it", 1);
	assert_int_equal(truncate(disk.file.path, 1 << 20), 0);
	changing_volume_turn(&disk, 0);
	assert_int_equal(disk.changed, 0);
	assert_int_equal(rblk_volume_info(disk.volume)->bytes, 1 << 20);
	last_block_works(1 << 20);
	/* Shrinking was asked for. */
	changing_volume_configure(&disk, "allow_shrink = yes\n");
	resize(512 << 10);
	while (!disk.refreshed)
		changing_volume_turn(&disk, DEPTH);
	changing_volume_settle(&disk);
	assert_int_equal(disk.errors, 0);
	assert_int_equal(rblk_volume_info(disk.volume)->bytes, 512 << 10);
	last_block_works(512 << 10);
}

/* The target sends no event here: the session learns the size when it opens the volume again. */
static void grows_while_the_target_is_down(void **state)
{
	(void)state;
	changing_volume_turn(&disk, DEPTH);
	assert_int_equal(e2e_daemon_stop(&disk.server), 0);
	assert_int_equal(truncate(disk.file.path, 3 << 20), 0);
	e2e_daemon_start_again(&disk.server, "--config", disk.config, NULL);
	while (!disk.refreshed)
		changing_volume_turn(&disk, DEPTH);
	changing_volume_settle(&disk);
	assert_int_equal(disk.errors, 0);
	assert_int_equal(disk.changed, 1);
	assert_int_equal(rblk_volume_info(disk.volume)->bytes, 3 << 20);
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
