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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"

#define BLOCK 4096u
#define DEPTH 16u

static struct e2e_daemon server;
static struct e2e_file file;
static char config[64];

static struct program {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
	unsigned int outstanding, errors, changed, refreshed;
} program;

/* right: "read" or "write". */
static void write_config(const char *right)
{
	FILE *to = fopen(config, "w");

	assert_non_null(to);
	fprintf(to, "[volume disk]\npath = %s\ncache = buffered\n[initiator app]\naddress = local\n%s = disk\n", file.path,
		right);
	assert_int_equal(fclose(to), 0);
}

static void reload(const char *right)
{
	unsigned int reloads = e2e_daemon_log_count(&server, "reload: ");

	write_config(right);
	assert_int_equal(kill(server.pid, SIGHUP), 0);
	e2e_daemon_log_wait(&server, "reload: ", reloads + 1);
}

static void on_refreshed(void *arg, struct rblk_volume *volume, int error)
{
	(void)arg;
	assert_ptr_equal(volume, program.volume);
	assert_int_equal(error, 0);
	program.refreshed++;
}

static void on_event(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	(void)arg;
	(void)session;
	if (event->type != RBLK_SESSION_EVENT_VOLUME_CHANGED)
		return;
	assert_ptr_equal(event->volume, program.volume);
	program.changed++;
	assert_int_equal(rblk_volume_refresh_start(event->volume, on_refreshed, NULL), 0);
}

static int start(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	char error[RBLK_ERROR_BYTES] = "";

	(void)state;
	memset(&program, 0, sizeof(program));
	e2e_file_create(&file, "disk", 1 << 20);
	strcpy(config, "/var/tmp/rblk-e2e-rights-XXXXXX");
	close(mkstemp(config));
	write_config("read");
	e2e_daemon_start(&server, "--config", config, NULL);
	options.initiator_name = "app";
	program.session = rblk_session_open(e2e_daemon_uri(&server, "disk"), &options, error);
	if (!program.session)
		fail_msg("%s", error);
	rblk_session_on_event(program.session, on_event, NULL);
	program.data = rblk_buffer_alloc(program.session, DEPTH * BLOCK);
	assert_non_null(program.data);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	rblk_session_close(program.session);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	e2e_file_remove(&file);
	unlink(config);
	return 0;
}

static void open_volume(uint32_t flags)
{
	program.volume = rblk_volume_open(program.session, NULL, flags);
	assert_non_null(program.volume);
	assert_true(rblk_volume_info(program.volume)->read_only);
	assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, 0, 0), -EROFS);
}

static void may_write(void)
{
	assert_false(rblk_volume_info(program.volume)->read_only);
	assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, 0, 0), 0);
}

static void done(void *arg, const struct rblk_result *result)
{
	(void)arg;
	program.outstanding--;
	program.errors += result->error != 0;
}

/* Keeps `depth` reads in flight, and waits for one event. */
static void turn(unsigned int depth)
{
	while (program.outstanding < depth) {
		assert_int_equal(rblk_read(program.volume, program.data + program.outstanding * BLOCK, BLOCK, 0, 0, done,
					   NULL),
				 0);
		program.outstanding++;
	}
	assert_true(rblk_wait(program.session, 100) >= 0);
}

/* The change's letter was sent before: a reactor reads it in the turn of the first READ at the latest, so what it has to say
 * comes before the second one's answer. */
static void not_told(unsigned int changed)
{
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(rblk_pread(program.volume, program.data, BLOCK, 0), 0);
	turn(0);
	assert_int_equal(program.changed, changed);
}

/* No second handle is left. */
static void one_handle(void)
{
	kill(server.pid, SIGUSR1);
	e2e_daemon_log_wait(&server, "open: disk", 1);
	assert_int_equal(e2e_daemon_log_count(&server, "open: disk, disk"), 0);
}

static void a_reader_becomes_a_writer(void **state)
{
	(void)state;
	open_volume(0);
	/* Nothing has changed: nobody is told. */
	reload("read");
	not_told(0);
	reload("write");
	while (!program.refreshed)
		turn(0);
	may_write();
	assert_int_equal(program.changed, 1);
	reload("write");
	not_told(1);
	one_handle();
}

/*
 * Its handle stays if commands are outstanding with it when the new one is there, which is chance here. Whatever the volume
 * says of itself then is true.
 */
static void a_reader_becomes_a_writer_under_reads(void **state)
{
	(void)state;
	open_volume(0);
	turn(DEPTH);
	reload("write");
	while (!program.refreshed)
		turn(DEPTH);
	while (program.outstanding)
		turn(0);
	assert_int_equal(program.errors, 0);
	if (rblk_volume_info(program.volume)->read_only) {
		assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, 0, 0), -EROFS);
		assert_int_equal(rblk_volume_refresh(program.volume), 0);
	}
	may_write();
	one_handle();
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
