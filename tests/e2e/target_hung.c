/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a volume whose disk does not answer delays itself alone: it leaves memory for data to the other volumes of its
 * session, and the session's only connection is made again, in the same epoch and in a new one; a session that ends closes
 * its other volumes. Method: one session that asks such a volume for more than the target has memory for, or writes to it
 * and loses its connection or is forgotten, and then uses another volume: each of its commands ends before any of the first
 * volume's, which take longer than the test.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define PIECE (1u << 20)
#define READS 24 /* of so much each: more than the pool */
#define SMALL 65536u
#define ROUNDS 40u
#define CAPSULE 4096u /* a write of so much goes with its data: it is begun as soon as it is there */

static void no_answer(void *arg, const struct rblk_result *result)
{
	--*(int *)arg;
}

static void config_write(const char *path, const char *good, const char *hung)
{
	unit_file_write(path,
			"[volume good]\npath = %s\ncache = buffered\nfault = delay=close:1us\n[volume hung]\npath = "
			"%s\ncache = buffered\n"
			"fault = delay=read+write:60s\n",
			good, hung);
}

static void other_volumes_have_memory(void **state)
{
	struct rblk_options patient = {.size = sizeof(patient), .command_timeout_ms = 600000};
	char config[] = "/tmp/rblk-hung-XXXXXX";
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
	session = e2e_session_open(e2e_daemon_uri(&daemon, "good"), &patient);
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

/* A session with one connection and two volumes, of which one's disk hangs. */
static struct {
	char config[32], folder[32], socket[64], control[64];
	struct rblk_session *session;
	struct rblk_volume *good, *hung;
	struct e2e_daemon daemon;
	struct e2e_file files[2];
	char *data;
	int left; /* commands that the disk has */
} f;

static void begin(const struct rblk_options *options)
{
	e2e_file_create(&f.files[0], "good", PIECE);
	e2e_file_create(&f.files[1], "hung", PIECE);
	strcpy(f.config, "/tmp/rblk-hung-XXXXXX");
	strcpy(f.folder, "/tmp/rblk-hung-XXXXXX");
	close(mkstemp(f.config));
	assert_non_null(mkdtemp(f.folder));
	snprintf(f.socket, sizeof(f.socket), "%s/fault", f.folder);
	snprintf(f.control, sizeof(f.control), "%s/control", f.folder);
	config_write(f.config, f.files[0].path, f.files[1].path);
	e2e_daemon_start(&f.daemon, "--config", f.config, "--fault-socket", f.socket, "--control-socket", f.control, "--reactors", "2", NULL);
	f.session = e2e_session_open(e2e_daemon_uri(&f.daemon, "good"), options);
	f.good = rblk_volume_open(f.session, "good", 0);
	f.hung = rblk_volume_open(f.session, "hung", 0);
	assert_true(f.good && f.hung);
	f.data = rblk_buffer_alloc(f.session, 2 * SMALL);
	assert_non_null(f.data);
	memset(f.data, 0x5a, SMALL);
	f.left = 1;
}

static void end(void)
{
	e2e_daemon_kill(&f.daemon);
	if (f.session)
		rblk_session_close(f.session);
	unlink(f.config);
	unlink(f.socket);
	unlink(f.control);
	rmdir(f.folder);
	e2e_file_remove(&f.files[0]);
	e2e_file_remove(&f.files[1]);
}

/* The store has what was sent before when a command behind it is answered. */
static void store_has_it(void)
{
	assert_int_equal(rblk_pread(f.good, f.data + SMALL, SMALL, 0), 0);
}

/* The exit status of a command of `program`. */
static int run(const char *program, const char *command)
{
	char text[512];

	snprintf(text, sizeof(text), command, getenv(program), f.folder);
	return WEXITSTATUS(system(text));
}

#define CUT "'%s' fault '%s/fault' cut"
#define ENDING "'%s' sessions --json --socket '%s/control' | grep -q '\"ending\": *true'"
#define KICK "'%s' kick --socket '%s/control' host 2>&1 | grep -q "

/* The session's only connection ends while the hung disk has a write. */
static void comes_back(const char *program, const char *command)
{
	const struct rblk_options options = {.size = sizeof(options), .queues = 1, .initiator_name = "host"};

	begin(&options);
	assert_int_equal(rblk_write(f.hung, f.data + SMALL, CAPSULE, 0, 0, no_answer, &f.left), 0);
	store_has_it();
	for (unsigned int round = 0; round < 3; round++) {
		assert_int_equal(run(program, command), 0);
		assert_int_equal(rblk_pwrite(f.good, f.data, SMALL, round * SMALL, 0), 0);
		assert_int_equal(rblk_fsync(f.good), 0);
		assert_int_equal(f.left, 1);
	}
}

static void the_only_connection_is_made_again(void **state)
{
	(void)state;
	comes_back("RBLK", CUT);
	end();
}

/* The session has another epoch then, and another volume's OPEN waits for nothing. */
static void so_is_a_session_that_was_ended(void **state)
{
	(void)state;
	comes_back("RBLKCTL", KICK "'is ended'");
	/* What is left of it then is said. */
	assert_int_equal(run("RBLKCTL", KICK "'is ended'"), 0);
	assert_int_equal(run("RBLKCTL", KICK "'the sessions of initiator \"host\" are ending'"), 0);
	end();
}

/* TGT_LINGERING_MAX: each loss leaves a read with the disk, and keeps its memory. */
static void a_fifth_loss_waits_for_the_disk(void **state)
{
	const struct rblk_options options = {.size = sizeof(options), .queues = 1};

	(void)state;
	begin(&options);
	assert_int_equal(rblk_read(f.hung, f.data, CAPSULE, 0, 0, no_answer, &f.left), 0);
	for (unsigned int round = 0; round < 5; round++) {
		/* It goes again at once, before what comes now. */
		store_has_it();
		assert_int_equal(run("RBLK", CUT), 0);
	}
	while (run("RBLKCTL", "'%s' status --json --socket '%s/control' | grep -q '\"logins_waiting\": *1'"))
		assert_true(rblk_wait(f.session, 20) >= 0);
	end();
}

/*
 * F9: FLUSH of a volume fails until every session has closed it. One that was ended does so although another of its volumes hangs, also
 * on other reactors.
 */
static void a_session_that_ends_closes_its_other_volumes(void **state)
{
	const struct rblk_options options = {.size = sizeof(options), .queues = 4, .initiator_name = "host"};

	(void)state;
	begin(&options);
	for (f.left = 0; f.left < 16; f.left++) {
		assert_int_equal(rblk_write(f.hung, f.data + SMALL, CAPSULE, 0, 0, no_answer, &f.left), 0);
		store_has_it();
	}
	assert_int_equal(run("RBLK", "'%s' fault '%s/fault' plan good fail=flush:EIO,count=1"), 0);
	assert_int_equal(rblk_fsync(f.good), -EIO);
	assert_int_equal(run("RBLK", "'%s' fault '%s/fault' plan good delay=close:1us"), 0);
	assert_int_equal(run("RBLKCTL", KICK "'is ended'"), 0);
	store_has_it(); /* in the new epoch */
	do {
		rblk_volume_close(f.good);
		f.good = e2e_volume_open(f.session, "good", 0);
	} while (rblk_fsync(f.good));
	/* It is not over: its disk hangs. The view that is shown may be a moment old, from before the kick. */
	for (unsigned int tries = 0; run("RBLKCTL", ENDING); tries++) {
		assert_true(tries < 100);
		assert_true(rblk_wait(f.session, 20) >= 0);
	}
	end();
}

/* With such a session the acceptance is the fence: else what failed would hold all volumes, and no time would end that. */
static void a_session_that_fails_fast_does_not_hang(void **state)
{
	const struct rblk_options options = {.size = sizeof(options), .queues = 1, .fail_fast_ms = 200};

	(void)state;
	begin(&options);
	assert_int_equal(rblk_write(f.hung, f.data + SMALL, CAPSULE, 0, 0, no_answer, &f.left), 0);
	store_has_it();
	assert_int_equal(run("RBLK", CUT), 0);
	while (f.left)
		assert_true(rblk_wait(f.session, 20) >= 0);
	assert_true(rblk_pwrite(f.good, f.data, SMALL, 0, 0) < 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_volumes_have_memory),
		cmocka_unit_test(the_only_connection_is_made_again),
		cmocka_unit_test(so_is_a_session_that_was_ended),
		cmocka_unit_test(a_fifth_loss_waits_for_the_disk),
		cmocka_unit_test(a_session_that_ends_closes_its_other_volumes),
		cmocka_unit_test(a_session_that_fails_fast_does_not_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
