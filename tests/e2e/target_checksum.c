/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a CHECKSUM of a whole volume keeps the limits of its volume as READs of as much do: what comes after it is
 * not made to wait for all of it. While it waits between its pieces it can be aborted, and its connection can end.
 * Method: what ends first; nothing here depends on time, except that a limit of bytes for hours is not over in a test.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define BYTES (64ull << 20)

static struct e2e_daemon server;
static struct e2e_file file;
static char config[64];

static struct program {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
	unsigned int ended;
} program;

/* One command. */
struct outcome {
	unsigned int place; /* among those that have ended, from 1 on */
	int error;
	uint64_t value;
};

static void on_end(void *arg, const struct rblk_result *result)
{
	struct outcome *outcome = arg;

	assert_int_equal(outcome->place, 0);
	outcome->place = ++program.ended;
	outcome->error = result->error;
	outcome->value = result->value;
}

static void await(const struct outcome *outcome)
{
	while (!outcome->place)
		assert_true(rblk_wait(program.session, -1) >= 0);
}

static void open_volume(const char *name)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	options.command_timeout_ms = 600000;
	memset(&program, 0, sizeof(program));
	program.session = e2e_session_open(e2e_daemon_uri(&server, name), &options);
	program.volume = rblk_volume_open(program.session, NULL, 0);
	program.data = rblk_buffer_alloc(program.session, 65536);
	assert_true(program.volume && program.data);
}

/* 16 MiB a second: it takes 256 pieces and four seconds, and a READ is one of those that wait in line. */
static void read_beside(const char *name)
{
	struct outcome sum = {0}, read = {0};

	open_volume(name);
	assert_int_equal(rblk_checksum(program.volume, BYTES, 0, on_end, &sum), 0);
	assert_int_equal(rblk_read(program.volume, program.data, 65536, 0, 0, on_end, &read), 0);
	await(&sum);
	await(&read);
	assert_int_equal(sum.error, 0);
	assert_int_equal(read.error, 0);
	assert_int_equal(read.place, 1);
	/* Of so many zeroes. */
	assert_int_equal(sum.value, 0x32456b5d);
	rblk_session_close(program.session);
}

static void test_others_read(void **state)
{
	(void)state;
	read_beside("memory");
	read_beside("disk");
}

static void test_abort(void **state)
{
	struct outcome sum = {0}, read = {0};

	(void)state;
	open_volume("slow");
	assert_int_equal(rblk_checksum(program.volume, BYTES, 0, on_end, &sum), 0);
	/* Behind its first piece: both wait. */
	assert_int_equal(rblk_read(program.volume, program.data, 512, 0, 0, on_end, &read), 0);
	while (rblk_wait(program.session, 100) > 0)
		;
	assert_int_equal(program.ended, 0);
	assert_int_equal(rblk_abort(program.volume, on_end, &sum), 0);
	await(&sum);
	assert_int_equal(sum.error, -ECANCELED);
	/* The session ends with the READ, and with one more. */
	sum = (struct outcome){0};
	assert_int_equal(rblk_checksum(program.volume, BYTES, 0, on_end, &sum), 0);
	rblk_session_close(program.session);
	assert_int_equal(program.ended, 3);
}

static int start(void **state)
{
	(void)state;
	e2e_file_create(&file, "disk", BYTES);
	snprintf(config, sizeof(config), "%s.conf", file.path);
	unit_file_write(config,
			"[volume memory]\nstore = memory\nsize = 64M\nlimit_rate = 16M\nlimit_burst = 20ms\n"
			"[volume slow]\nstore = memory\nsize = 64M\nlimit_rate = 1K\nlimit_burst = 20ms\n"
			"[volume disk]\npath = %s\ncache = buffered\nlimit_rate = 16M\nlimit_burst = 20ms\n",
			file.path);
	e2e_daemon_start(&server, "--config", config, "--open", NULL);
	return 0;
}

static int stop(void **state)
{
	int status = e2e_daemon_stop(&server);

	(void)state;
	unlink(config);
	e2e_file_remove(&file);
	return status;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_others_read),
		cmocka_unit_test(test_abort),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
