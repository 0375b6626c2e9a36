/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal (F7): a FLUSH by any open of a volume, in any session of the process, fails when writes that
 * were acknowledged to another one may be lost, also to one that has been closed; until each open
 * that was there has been closed or has acknowledged it. Method: the volume's path is a link, which
 * is turned to another file while rblkd is away, so the volume comes back with another cache epoch.
 * One session runs at a time: the other one has not noticed yet.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define PIECE 4096u

/* One open of the volume, perhaps with others in its session. */
struct user {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
	unsigned int losses; /* told as an event */
};

static struct e2e_turning file;
static struct e2e_daemon daemon_;

static int begin(void **state)
{
	(void)state;
	e2e_turning_create(&file);
	e2e_daemon_start(&daemon_, "--config", file.config, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
	e2e_turning_remove(&file);
	return 0;
}

static void turn_to(const struct e2e_file *to)
{
	e2e_daemon_kill(&daemon_);
	e2e_turning_turn(&file, to);
	e2e_daemon_start_again(&daemon_, "--config", file.config, NULL);
}

static void lose(void)
{
	turn_to(&file.second);
}

static void on_event(void *arg, struct rblk_session *session,
		     const struct rblk_session_event *event)
{
	struct user *user = arg;

	(void)session;
	user->losses += event->type == RBLK_SESSION_EVENT_WRITES_LOST;
}

static struct user use(void)
{
	struct user user = {.losses = 0};

	user.session = e2e_session_open(e2e_daemon_uri(&daemon_, "disk"), NULL);
	user.volume = e2e_volume_open(user.session, NULL, 0);
	user.data = rblk_buffer_alloc(user.session, PIECE);
	assert_non_null(user.data);
	return user;
}

static void write_some(const struct user *user)
{
	assert_int_equal(rblk_pwrite(user->volume, user->data, PIECE, 0, 0), 0);
}

static void two_opens_of_a_session(void **state)
{
	struct user user = use();
	struct rblk_volume *other = rblk_volume_open(user.session, NULL, 0);

	(void)state;
	assert_non_null(other);
	write_some(&user);
	lose();
	assert_int_equal(rblk_fsync(other), -EIO);
	assert_int_equal(rblk_fsync(user.volume), -EIO);
	/* Both have to know. */
	assert_int_equal(rblk_acknowledge(other), 1);
	assert_int_equal(rblk_acknowledge(other), 0);
	assert_int_equal(rblk_fsync(other), -EIO);
	assert_int_equal(rblk_volume_close(user.volume), 0);
	assert_int_equal(rblk_fsync(other), 0);
	rblk_session_close(user.session);
}

/* The one that wrote learns of it last. */
static void two_sessions(void **state)
{
	struct user writer = use(), other = use();

	(void)state;
	rblk_session_on_event(writer.session, on_event, &writer);
	rblk_session_on_event(other.session, on_event, &other);
	write_some(&writer);
	lose();
	assert_int_equal(rblk_pread(other.volume, other.data, PIECE, 0), 0);
	assert_int_equal(rblk_fsync(other.volume), -EIO);
	assert_int_equal(other.losses, 1);
	assert_int_equal(rblk_acknowledge(other.volume), 1);
	assert_int_equal(rblk_fsync(other.volume), -EIO);
	assert_int_equal(rblk_fsync(writer.volume), -EIO);
	assert_int_equal(rblk_pread(writer.volume, writer.data, PIECE, 0), 0);
	assert_int_equal(writer.losses, 1);
	assert_int_equal(rblk_acknowledge(writer.volume), 1);
	assert_int_equal(rblk_fsync(writer.volume), 0);
	assert_int_equal(rblk_fsync(other.volume), 0);
	assert_int_equal(other.losses, 1);
	rblk_session_close(writer.session);
	rblk_session_close(other.session);
}

/* What one has flushed is not owed to the other. */
static void a_flush_speaks_for_all(void **state)
{
	struct user writer = use(), other = use();

	(void)state;
	write_some(&writer);
	assert_int_equal(rblk_fsync(other.volume), 0);
	lose();
	assert_int_equal(rblk_fsync(other.volume), 0);
	assert_int_equal(rblk_fsync(writer.volume), 0);
	rblk_session_close(writer.session);
	rblk_session_close(other.session);
}

/* An NBD client, say, that has connected anew. */
static void a_closed_one_has_written(void **state)
{
	struct user writer = use(), next;

	(void)state;
	write_some(&writer);
	rblk_session_close(writer.session);
	lose();
	next = use();
	rblk_session_on_event(next.session, on_event, &next);
	assert_int_equal(rblk_fsync(next.volume), -EIO);
	assert_int_equal(rblk_pread(next.volume, next.data, PIECE, 0), 0);
	assert_int_equal(next.losses, 1);
	rblk_session_close(next.session);
	/* It has been told, and has closed it. */
	next = use();
	assert_int_equal(rblk_fsync(next.volume), 0);
	rblk_session_close(next.session);
}

/* A FLUSH has failed, and it writes on: what the next loss takes, which it does not hear of, is owed to the next open. */
static void closed_behind_a_second_loss(void **state)
{
	struct user writer = use(), next;

	(void)state;
	write_some(&writer);
	lose();
	assert_int_equal(rblk_fsync(writer.volume), -EIO);
	write_some(&writer);
	turn_to(&file.first);
	assert_int_equal(rblk_pread(writer.volume, writer.data, PIECE, 0), 0);
	rblk_session_close(writer.session);
	next = use();
	assert_int_equal(rblk_fsync(next.volume), -EIO);
	assert_int_equal(rblk_acknowledge(next.volume), 1);
	assert_int_equal(rblk_fsync(next.volume), 0);
	rblk_session_close(next.session);
}

/* Opened behind the loss, it waits for the others, and has nothing to acknowledge. */
static void a_new_one_waits_for_the_others(void **state)
{
	struct user writer = use(), next;

	(void)state;
	write_some(&writer);
	lose();
	assert_int_equal(rblk_fsync(writer.volume), -EIO);
	next = use();
	assert_int_equal(rblk_fsync(next.volume), -EIO);
	assert_int_equal(rblk_acknowledge(next.volume), 0);
	rblk_session_close(writer.session);
	assert_int_equal(rblk_fsync(next.volume), 0);
	rblk_session_close(next.session);
}

/* -- threads
 * --------------------------------------------------------------------------------------- */

#define THREADS 4

struct worker {
	pthread_t thread;
	struct user user;
	atomic_uint flushed;
};

static atomic_uint rounds;
static atomic_bool over;

static void *work(void *arg)
{
	struct worker *worker = arg;

	while (!atomic_load(&over)) {
		int err;

		write_some(&worker->user);
		err = rblk_fsync(worker->user.volume);
		if (!err)
			atomic_fetch_add(&worker->flushed, 1);
		if (err != 0 && err != -EIO)
			abort();
		atomic_fetch_add(&rounds, 1);
		if (err)
			rblk_acknowledge(worker->user.volume);
	}
	return NULL;
}

static void await_rounds(unsigned int count)
{
	unsigned int from = atomic_load(&rounds);

	while (atomic_load(&rounds) - from < count)
		usleep(1000);
}

/* Sessions on their own threads lose writes. In the end, when all know, all flush again. */
static void sessions_on_threads(void **state)
{
	struct worker workers[THREADS];

	(void)state;
	atomic_store(&over, false);
	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i].user = use();
		atomic_init(&workers[i].flushed, 0);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	await_rounds(200);
	/* Some threads may have had no processor meanwhile. */
	for (unsigned int i = 0; i < THREADS; i++)
		while (!atomic_load(&workers[i].flushed))
			usleep(1000);
	lose();
	await_rounds(400);
	atomic_store(&over, true);
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
	/* A thread that hears late of a write from before is another loss, of all. */
	for (unsigned int i = 0; i < THREADS; i++)
		rblk_acknowledge(workers[i].user.volume);
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(rblk_fsync(workers[i].user.volume), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		rblk_session_close(workers[i].user.session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_opens_of_a_session, begin, end),
		cmocka_unit_test_setup_teardown(two_sessions, begin, end),
		cmocka_unit_test_setup_teardown(a_flush_speaks_for_all, begin, end),
		cmocka_unit_test_setup_teardown(a_closed_one_has_written, begin, end),
		cmocka_unit_test_setup_teardown(closed_behind_a_second_loss, begin, end),
		cmocka_unit_test_setup_teardown(a_new_one_waits_for_the_others, begin, end),
		cmocka_unit_test_setup_teardown(sessions_on_threads, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
