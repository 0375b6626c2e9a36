/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: volumes whose disk does not answer do not delay FLUSH, WRITE_ZEROES and reads of other
 * volumes. Method: this test freezes and thaws the file system in RBLK_E2E_SLOW_DIR, so it needs
 * root and a file system of its own (tests/lab/jobs/target-slow.sh). That has more files than the
 * kernel gives a ring threads that may block, and each one is zeroed; or one of them has more direct writes than that.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define SLOW 24 /* more than 4 for each of 4 processors */
#define EACH 2	/* all of them within the credits of one session */
#define PIECE 65536u
#define SLOW_BYTES (2u << 20)
#define WRITES 256
#define MANY 64 /* more than 4 for each of 4 processors, and 3 for the volume */
#define BLOCK 4096u

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
	struct rblk_session *session = e2e_session_open(e2e_daemon_uri(daemon, "good"), NULL);

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

/* Begins to zero in every slow volume. */
static void zero_all(struct rblk_session *session, int *left)
{
	for (int i = 0; i < SLOW; i++) {
		char name[8];
		struct rblk_volume *volume;

		snprintf(name, sizeof(name), "s%d", i);
		volume = volume_open(session, name);
		for (int k = 0; k < EACH; k++, ++*left)
			assert_int_equal(rblk_write_zeroes(volume, PIECE, (uint64_t)k * PIECE, 0,
							   done, left),
					 0);
	}
}

/* Begins to write to one of them, as much as the session may have outstanding. */
static void write_one(struct rblk_session *session, int *left)
{
	struct rblk_volume *volume = volume_open(session, "s0");
	char *data = rblk_buffer_alloc(session, WRITES * BLOCK);

	assert_non_null(data);
	memset(data, 5, WRITES * BLOCK);
	while (*left < WRITES &&
	       !rblk_write(volume, data + *left * BLOCK, BLOCK, (uint64_t)*left * BLOCK, 0, done, left))
		++*left;
	assert_true(*left >= MANY);
}

static void slow_file(const char *path)
{
	static const char data[PIECE];
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);

	/* Written, so that it needs no new blocks. */
	for (unsigned int at = 0; fd >= 0 && at < SLOW_BYTES; at += PIECE)
		if (pwrite(fd, data, PIECE, at) != (ssize_t)PIECE)
			fail_msg("%s: cannot be written", path);
	if (fd < 0 || fsync(fd))
		fail_msg("%s: cannot be made", path);
	close(fd);
}

/* The configuration: `good` elsewhere, and `slow` files in the directory. */
static void config_write(const char *path, const char *good, const char *directory, const char *cache, int slow)
{
	FILE *file = fopen(path, "w");
	char name[256];

	assert_non_null(file);
	fprintf(file, "[volume good]\npath = %s\n", good);
	for (int i = 0; i < slow; i++) {
		snprintf(name, sizeof(name), "%s/s%d", directory, i);
		slow_file(name);
		fprintf(file, "[volume s%d]\npath = %s\ncache = %s\n", i, name, cache);
	}
	assert_int_equal(fclose(file), 0);
}

/* Whatever `begin` has the slow volumes do does not delay the other one. */
static void keep_none_waiting(const char *cache, int slow_volumes, void (*begin)(struct rblk_session *session, int *left))
{
	const char *directory = getenv("RBLK_E2E_SLOW_DIR");
	struct rblk_options patient = {.size = sizeof(patient), .command_timeout_ms = 600000};
	struct rblk_session *slow, *good;
	struct rblk_volume *volume;
	char config[] = "/tmp/rblk-slow-XXXXXX", error[RBLK_ERROR_BYTES];
	struct e2e_daemon daemon;
	struct e2e_file file;
	int left = 0, fd;
	void *data;

	if (!directory) {
		print_message("SKIP: RBLK_E2E_SLOW_DIR names no file system that may be frozen\n");
		skip();
	}
	e2e_file_create(&file, "good", 16u << 20);
	close(mkstemp(config));
	config_write(config, file.path, directory, cache, slow_volumes);
	e2e_daemon_start(&daemon, "--config", config, "--reactors", "1", "--keepalive", "0", NULL);
	good = session_open(&daemon);
	slow = rblk_session_open(e2e_daemon_uri(&daemon, "good"), &patient, error);
	assert_non_null(slow);
	fd = open(directory, O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	atexit(thaw);
	assert_int_equal(ioctl(fd, FIFREEZE, 0), 0);
	frozen = fd;

	begin(slow, &left);
	assert_int_equal(rblk_submit(slow), 0);
	volume = volume_open(good, "good");
	data = rblk_buffer_alloc(good, PIECE);
	memset(data, 7, PIECE);
	for (int i = 0; i < 8; i++) {
		rblk_poll(slow, 0);
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
	unlink(config);
	e2e_file_remove(&file);
}

static void frozen_volumes_keep_none_waiting(void **state)
{
	keep_none_waiting("buffered", SLOW, zero_all);
}

static void frozen_direct_writes_keep_none_waiting(void **state)
{
	keep_none_waiting("direct", 1, write_one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frozen_volumes_keep_none_waiting),
		cmocka_unit_test(frozen_direct_writes_keep_none_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
