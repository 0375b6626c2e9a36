/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: volumes whose disk does not answer do not delay FLUSH, WRITE_ZEROES and reads of other
 * volumes. Method: this test freezes and thaws the file system in RBLK_E2E_SLOW_DIR, so it needs
 * root and a file system of its own (tests/lab/jobs/target_slow.sh). That has more files than the
 * kernel gives a ring threads that may block, and each one is zeroed.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"

#define SLOW 24 /* more than 4 for each of 4 processors */
#define EACH 2	/* all of them within the credits of one session */
#define PIECE 65536u

static int frozen = -1; /* the directory, while its file system is frozen */

/* Thaws it however the test ends: a frozen file system blocks every process that uses it. */
static void thaw(void)
{
	if (frozen >= 0)
		ioctl(frozen, FITHAW, 0);
	frozen = -1;
}

static struct rblk_session *session_open(const struct e2e_daemon *daemon)
{
	char error[RBLK_ERROR_BYTES] = "";
	struct rblk_session *session =
		rblk_session_open(e2e_daemon_uri(daemon, "good"), NULL, error);

	if (!session)
		fail_msg("%s", error);
	return session;
}

static struct rblk_volume *volume_open(struct rblk_session *session, const char *name)
{
	struct rblk_volume *volume = rblk_volume_open(session, name, 0);

	if (!volume)
		fail_msg("%s: %s", name, rblk_session_error(session));
	return volume;
}

static void done(void *arg, const struct rblk_result *result)
{
	int *left = arg;

	assert_int_equal(result->error, 0);
	--*left;
}

/* Begins to zero in every slow volume; returns how many commands. */
static int zero_all(struct rblk_session *session, int *left)
{
	int count = 0;

	for (int i = 0; i < SLOW; i++) {
		char name[8];
		struct rblk_volume *volume;

		snprintf(name, sizeof(name), "s%d", i);
		volume = volume_open(session, name);
		for (int k = 0; k < EACH; k++, count++)
			assert_int_equal(rblk_write_zeroes(volume, PIECE, (uint64_t)k * PIECE, 0,
							   done, left),
					 0);
	}
	*left = count;
	return count;
}

static void slow_file(const char *volume)
{
	const char *path = strchr(volume, '=') + 1;
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);

	if (fd < 0 || ftruncate(fd, 1 << 20))
		fail_msg("%s: cannot be made", path);
	close(fd);
}

static void frozen_volumes_keep_none_waiting(void **state)
{
	const char *directory = getenv("RBLK_E2E_SLOW_DIR");
	struct rblk_options patient = {.size = sizeof(patient), .command_timeout_ms = 600000};
	struct rblk_session *slow, *good;
	struct rblk_volume *volume;
	static char v[SLOW][300];
	struct e2e_daemon daemon;
	char error[RBLK_ERROR_BYTES];
	struct e2e_file file;
	int left, fd;
	void *data;

	if (!directory) {
		print_message("SKIP: RBLK_E2E_SLOW_DIR names no file system that may be frozen\n");
		skip();
	}
	e2e_file_create(&file, "good", 16u << 20);
	for (int i = 0; i < SLOW; i++) {
		snprintf(v[i], sizeof(v[i]), "s%d=%s/s%d", i, directory, i);
		slow_file(v[i]);
	}
	e2e_daemon_start(&daemon, file.volume, "--cache", "buffered", "--reactors", "1",
			 "--keepalive", "0", v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8],
			 v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19],
			 v[20], v[21], v[22], v[23], NULL);
	good = session_open(&daemon);
	slow = rblk_session_open(e2e_daemon_uri(&daemon, "good"), &patient, error);
	assert_non_null(slow);
	fd = open(directory, O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	atexit(thaw);
	assert_int_equal(ioctl(fd, FIFREEZE, 0), 0);
	frozen = fd;

	zero_all(slow, &left);
	assert_int_equal(rblk_submit(slow), 0);
	volume = volume_open(good, "good");
	data = rblk_buffer_alloc(good, PIECE);
	memset(data, 7, PIECE);
	for (int i = 0; i < 8; i++) {
		/* command_timeout_ms is the hang guard. */
		if (rblk_pwrite(volume, data, PIECE, 0, 0) || rblk_fsync(volume) ||
		    rblk_pread(volume, data, PIECE, 0)) {
			thaw();
			fail_msg("%s", rblk_session_error(good));
		}
	}
	rblk_poll(slow, 0);
	assert_true(left > 0);
	thaw();
	while (left)
		assert_true(rblk_wait(slow, -1) >= 0);
	rblk_session_close(slow);
	rblk_session_close(good);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
	close(fd);
	e2e_file_remove(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frozen_volumes_keep_none_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
