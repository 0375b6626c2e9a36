/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a device that finds out late that it has no command for zeroes is zeroed and discarded all the same. Method: a loop
 * device over a file of a file system that punches holes and cannot zero (tmpfs): the first zeroes that are to keep their space
 * make it forget that it can punch. Needs root and loop devices.
 */
#include "tests/unit/unit.h"
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define BYTES (16u << 20)
#define RANGE 65536u

/* Its descriptor, and its path; -1: there are none here. */
static int loop_make(char path[64])
{
	char backing[] = "/dev/shm/rblk-zeroes-XXXXXX";
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), number, file, loop = -1;

	if (control < 0)
		return -1;
	file = mkostemp(backing, O_CLOEXEC);
	unlink(backing);
	if (file < 0 || ftruncate(file, BYTES))
		fail_msg("%s: cannot be made", backing);
	number = ioctl(control, LOOP_CTL_GET_FREE);
	snprintf(path, 64, "/dev/loop%d", number);
	if (number >= 0)
		loop = open(path, O_RDWR | O_CLOEXEC);
	if (loop >= 0 && ioctl(loop, LOOP_SET_FD, file)) {
		close(loop);
		loop = -1;
	}
	close(file);
	close(control);
	return loop;
}

struct answer {
	bool done;
	int error;
};

static void answered(void *arg, const struct rblk_result *result)
{
	*(struct answer *)arg = (struct answer){.done = true, .error = result->error};
}

static int wait_for(struct rblk_session *session, struct answer *answer)
{
	assert_int_equal(rblk_submit(session), 0);
	while (!answer->done)
		assert_true(rblk_wait(session, -1) >= 0);
	return answer->error;
}

static int zeroes(struct rblk_session *session, struct rblk_volume *volume, unsigned int flags)
{
	struct answer answer = {.done = false};

	assert_int_equal(rblk_write_zeroes(volume, RANGE, 0, flags, answered, &answer), 0);
	return wait_for(session, &answer);
}

static int discard(struct rblk_session *session, struct rblk_volume *volume)
{
	struct answer answer = {.done = false};

	assert_int_equal(rblk_discard(volume, RANGE, 0, answered, &answer), 0);
	return wait_for(session, &answer);
}

static void a_device_may_find_out_late(void **state)
{
	char path[64], argument[80];
	struct rblk_session *session;
	struct rblk_volume *volume;
	struct e2e_daemon daemon;
	int loop = loop_make(path);
	char *data;

	(void)state;
	if (loop < 0) {
		print_message("SKIP: no loop devices here\n");
		skip();
	}
	snprintf(argument, sizeof(argument), "dev=%s", path);
	e2e_daemon_start(&daemon, "--reactors", "1", argument, NULL);
	session = e2e_session_open(e2e_daemon_uri(&daemon, "dev"), NULL);
	volume = rblk_volume_open(session, "dev", 0);
	data = rblk_buffer_alloc(session, RANGE);
	assert_true(volume && data);
	for (unsigned int i = 0; i < 6; i++) {
		/* In the second round nothing is new to the target. */
		memset(data, 'x', RANGE);
		assert_int_equal(rblk_pwrite(volume, data, RANGE, 0, 0), 0);
		if (i % 3 == 2)
			assert_int_equal(discard(session, volume), 0);
		else
			assert_int_equal(zeroes(session, volume, i % 3 ? 0 : RBLK_IO_NO_UNMAP), 0);
		assert_int_equal(rblk_pread(volume, data, RANGE, 0), 0);
		for (unsigned int at = 0; at < RANGE; at++)
			assert_int_equal(data[at], 0);
	}
	rblk_session_close(session);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
	assert_int_equal(ioctl(loop, LOOP_CLR_FD, 0), 0);
	close(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_may_find_out_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
