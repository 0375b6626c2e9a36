/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an initiator that gets more rights on a volume that it has open is told, opens it again, and may write; one whose
 * rights stay is not told. Method: access rules that a reload changes; the session's event, the volume's info, and writes,
 * without I/O and under it.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include "tests/e2e/changing_volume.h"

static struct changing_volume disk;

/* The configuration's access rule; right: "read" or "write". */
static const char *rule(const char *right)
{
	static char text[64];

	snprintf(text, sizeof(text), "[initiator app]\naddress = local\n%s = disk\n", right);
	return text;
}

static void reload(const char *right)
{
	unsigned int reloads = e2e_daemon_log_count(&disk.server, "reload: ");

	changing_volume_configure(&disk, rule(right));
	assert_int_equal(kill(disk.server.pid, SIGHUP), 0);
	e2e_daemon_log_wait(&disk.server, "reload: ", reloads + 1);
}

static int start(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	(void)state;
	options.initiator_name = "app";
	changing_volume_start(&disk, rule("read"), &options);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return changing_volume_stop(&disk);
}

static void open_volume(uint32_t flags)
{
	changing_volume_open(&disk, flags);
	assert_true(rblk_volume_info(disk.volume)->read_only);
	assert_int_equal(rblk_pwrite(disk.volume, disk.data, BLOCK, 0, 0), -EROFS);
}

static void may_write(void)
{
	assert_false(rblk_volume_info(disk.volume)->read_only);
	assert_int_equal(rblk_pwrite(disk.volume, disk.data, BLOCK, 0, 0), 0);
}

/* The change's message was sent before: a reactor reads it in the turn of the first READ at the latest, so what it
 * has to say comes before the second one's answer. */
static void not_told(unsigned int changed)
{
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(rblk_pread(disk.volume, disk.data, BLOCK, 0), 0);
	changing_volume_turn(&disk, 0);
	assert_int_equal(disk.changed, changed);
}

static void a_reader_becomes_a_writer(void **state)
{
	(void)state;
	open_volume(0);
	/* Nothing has changed: nobody is told. */
	reload("read");
	not_told(0);
	reload("write");
	while (!disk.refreshed)
		changing_volume_turn(&disk, 0);
	may_write();
	assert_int_equal(disk.changed, 1);
	reload("write");
	not_told(1);
	changing_volume_assert_one_handle(&disk);
}

/*
 * Its handle stays if commands are outstanding with it when the new one is there, which is chance here. Whatever the volume
 * says of itself then is true.
 */
static void a_reader_becomes_a_writer_under_reads(void **state)
{
	(void)state;
	open_volume(0);
	changing_volume_turn(&disk, DEPTH);
	reload("write");
	while (!disk.refreshed)
		changing_volume_turn(&disk, DEPTH);
	changing_volume_settle(&disk);
	assert_int_equal(disk.errors, 0);
	if (rblk_volume_info(disk.volume)->read_only) {
		assert_int_equal(rblk_pwrite(disk.volume, disk.data, BLOCK, 0, 0), -EROFS);
		assert_int_equal(rblk_volume_refresh(disk.volume), 0);
	}
	may_write();
	changing_volume_assert_one_handle(&disk);
}

static void who_wants_to_read_is_not_told(void **state)
{
	(void)state;
	open_volume(RBLK_VOLUME_OPEN_READ_ONLY);
	reload("write");
	not_told(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_reader_becomes_a_writer, start, stop),
		cmocka_unit_test_setup_teardown(a_reader_becomes_a_writer_under_reads, start, stop),
		cmocka_unit_test_setup_teardown(who_wants_to_read_is_not_told, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
