/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: whether there is a client can be asked while a client ends, which may last for ever; one
 * that ends is not at the keeper; one that was shut out is lost to all its users, and another one takes its place,
 * later and later, once it has shut out those that have written. Method: the client with fakes of librados and of the
 * keeper.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "target/base/error.h"
#include "target/rbd/rbd.h"

static struct rbd_task *_Atomic queued; /* at the keeper */
static _Atomic unsigned int ended; /* clients */

/* -- the machine's time ------------------------------------------------------------------------ */

static time_t now_s = 1000;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){.tv_sec = now_s};
	return 0;
}

/* -- the module's other files ------------------------------------------------------------------ */

static unsigned int lost; /* stores */
static unsigned int shots, shots_fail;

static void fake_log(enum tgt_log_level level, const char *format, ...)
{
}

static void fake_lost(struct tgt_store *store, const char *why)
{
	lost++;
}

int tgt_rbd_shoot(rados_t cluster, const char *name, const char *where, const char *why, char *error)
{
	assert_string_equal(where, "1.2.3.4:0/5");
	if (shots_fail) {
		shots_fail--;
		return tgt_error(error, -EACCES, "no right");
	}
	shots++;
	return 0;
}

static const struct tgt_module_host host = {.error = tgt_error, .log = fake_log, .lost = fake_lost};
const struct tgt_module_host *tgt_rbd_host = &host;

void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns)
{
	assert_true(!queued || queued == task);
	task->queued = true;
	queued = task;
}

/* The keeper begins with it: it is in the queue no more, and runs soon. */
static struct rbd_task *keeper_begins(void)
{
	struct rbd_task *task = queued;

	assert_non_null(task);
	task->queued = false;
	queued = NULL;
	return task;
}

int rados_create(rados_t *cluster, const char *const user)
{
	*cluster = &ended;
	return 0;
}

int rados_conf_read_file(rados_t cluster, const char *path)
{
	return 0;
}

int rados_conf_parse_env(rados_t cluster, const char *variable)
{
	return 0;
}

int rados_conf_set(rados_t cluster, const char *option, const char *value)
{
	return 0;
}

int rados_connect(rados_t cluster)
{
	return 0;
}

static _Atomic bool asked, answers;
static int map_result;

static int pool_error;

int rados_ioctx_get_pool_name(rados_ioctx_t io, char *name, unsigned int bytes)
{
	return pool_error;
}

int rados_wait_for_latest_osdmap(rados_t cluster)
{
	atomic_store(&asked, true);
	while (!atomic_load(&answers))
		;
	return map_result;
}

int rados_getaddrs(rados_t cluster, char **addresses)
{
	*addresses = strdup("1.2.3.4:0/5");
	return 0;
}

void rados_shutdown(rados_t cluster)
{
	/* Another thread asks. */
	assert_true(tgt_rbd_client_is_there());
	assert_null(queued);
	atomic_fetch_add(&ended, 1);
}

/* -- tests ------------------------------------------------------------------------------------- */

static struct rbd_client *get(void)
{
	struct rbd_client *client;
	char error[TGT_ERROR_BYTES];

	assert_int_equal(tgt_rbd_client_get(&client, error), 0);
	return client;
}

static struct rbd_task *used_once(void)
{
	ended = 0;
	tgt_rbd_client_put(get());
	assert_true(tgt_rbd_client_is_there());
	return keeper_begins();
}

static void one_that_nobody_has_ends(void **state)
{
	struct rbd_task *task = used_once();

	(void)state;
	task->run(task);
	assert_int_equal(ended, 1);
	assert_false(tgt_rbd_client_is_there());
}

static void one_that_is_used_goes_on(void **state)
{
	struct rbd_task *task = used_once();
	struct rbd_client *client = get();

	(void)state;
	task->run(task);
	assert_int_equal(ended, 0);
	tgt_rbd_client_put(client);
	task = keeper_begins();
	task->run(task);
	assert_int_equal(ended, 1);
}

/* Between the keeper's taking it up and its looking. */
static void one_that_was_used_meanwhile_lingers_anew(void **state)
{
	struct rbd_task *task = used_once();

	(void)state;
	tgt_rbd_client_put(get());
	task->run(task);
	assert_int_equal(ended, 0);
	task = keeper_begins();
	task->run(task);
	assert_int_equal(ended, 1);
}

/* One question at a time; the client stays until it is answered. */
static void the_monitors_are_asked(void **state)
{
	struct rbd_client *client = get();
	struct rbd_task *task;

	(void)state;
	ended = 0;
	now_s += 1000;
	atomic_store(&answers, false);
	assert_false(tgt_rbd_reach_silent());
	tgt_rbd_client_probe();
	while (!atomic_load(&asked))
		;
	atomic_store(&asked, false);
	tgt_rbd_client_probe();
	now_s += 2;
	assert_false(tgt_rbd_reach_silent());
	now_s++;
	assert_true(tgt_rbd_reach_silent());
	tgt_rbd_client_put(client);
	assert_null(queued);
	assert_false(atomic_load(&asked));
	/* One that fails is not answered. */
	map_result = -EAGAIN;
	atomic_store(&answers, true);
	while (!atomic_load(&queued))
		;
	atomic_store(&asked, false);
	assert_true(tgt_rbd_reach_silent());
	map_result = 0;
	keeper_begins();
	client = get();
	tgt_rbd_client_probe();
	tgt_rbd_client_put(client);
	while (!atomic_load(&queued))
		;
	assert_false(tgt_rbd_reach_silent());
	atomic_store(&asked, false);
	task = keeper_begins();
	task->run(task);
	assert_int_equal(ended, 1);
	/* There is none. */
	tgt_rbd_client_probe();
	assert_false(atomic_load(&asked));
}

/* By its users, and by the cluster. It is there until its thread has ended it. */
static void client_ends(struct rbd_client *client)
{
	struct rbd_task *task;

	ended = 0;
	tgt_rbd_client_put(client);
	task = keeper_begins();
	task->run(task);
	while (!atomic_load(&ended))
		;
}

static void one_that_is_shut_out_is_lost_to_its_users(void **state)
{
	struct rbd_client *client = get();
	struct rbd_user users[2], late;

	(void)state;
	now_s += 1000;
	assert_int_equal(tgt_rbd_client_join(client, &users[0]), 0);
	assert_int_equal(tgt_rbd_client_join(client, &users[1]), 0);
	tgt_rbd_client_leave(client, &users[0]);
	lost = 0;
	tgt_rbd_client_fenced(client, NULL);
	tgt_rbd_client_fenced(client, NULL);
	assert_int_equal(lost, 1);
	assert_true(tgt_rbd_client_is_fenced(client));
	assert_int_equal(tgt_rbd_client_join(client, &late), -ESHUTDOWN);
	tgt_rbd_client_leave(client, &users[1]);
	client_ends(client);
}

static void another_one_takes_its_place(void **state)
{
	struct rbd_client *first = get(), *second;
	char error[TGT_ERROR_BYTES], name[RBD_CLIENT_BYTES];

	(void)state;
	now_s += 1000;
	tgt_rbd_client_writes(first);
	strcpy(name, tgt_rbd_client_name(first));
	tgt_rbd_client_fenced(first, NULL);
	shots = 0;
	/* Whoever has not the right for that has no client. */
	shots_fail = 1;
	assert_int_equal(tgt_rbd_client_get(&second, error), -EACCES);
	assert_string_equal(error, "no right");
	/* A moment later nobody is asked. */
	assert_int_equal(tgt_rbd_client_get(&second, error), -EAGAIN);
	assert_string_equal(error, "no right");
	now_s++;
	assert_int_equal(tgt_rbd_client_get(&second, error), 0);
	assert_int_equal(shots, 1);
	assert_true(tgt_rbd_client_was(second, name));
	assert_false(tgt_rbd_client_was(second, tgt_rbd_client_name(second)));
	assert_false(tgt_rbd_client_was(second, "another@machine"));
	client_ends(first);
	/* It has not lasted, and has written nothing. */
	tgt_rbd_client_fenced(second, NULL);
	assert_int_equal(tgt_rbd_client_get(&first, error), -EAGAIN);
	assert_non_null(strstr(error, "once more"));
	now_s += 2;
	assert_int_equal(tgt_rbd_client_get(&first, error), 0);
	assert_int_equal(shots, 1);
	client_ends(second);
	now_s += 1000;
	tgt_rbd_client_fenced(first, NULL);
	assert_int_equal(tgt_rbd_client_get(&second, error), 0);
	client_ends(first);
	client_ends(second);
}

static void one_whose_lock_is_broken_shuts_itself_out(void **state)
{
	struct rbd_client *first = get(), *second;
	char error[TGT_ERROR_BYTES];

	(void)state;
	now_s += 1000;
	tgt_rbd_client_writes(first);
	shots = 0;
	tgt_rbd_client_unlocked(first);
	assert_true(tgt_rbd_client_is_fenced(first));
	assert_int_equal(shots, 1);
	/* Once. */
	assert_int_equal(tgt_rbd_client_get(&second, error), 0);
	assert_int_equal(shots, 1);
	client_ends(first);
	/* If it cannot, its successor does. */
	now_s += 1000;
	tgt_rbd_client_writes(second);
	shots_fail = 1;
	tgt_rbd_client_unlocked(second);
	assert_int_equal(shots, 1);
	assert_int_equal(tgt_rbd_client_get(&first, error), 0);
	assert_int_equal(shots, 2);
	client_ends(second);
	now_s += 1000;
	client_ends(first);
}

/* Only that is not doubted: an image is not lost because its client is. */
static void a_pool_that_was_deleted_takes_its_images_along(void **state)
{
	struct tgt_store store = {0};

	(void)state;
	lost = 0;
	for (pool_error = -ESHUTDOWN; pool_error <= 0; pool_error++)
		assert_int_equal(tgt_rbd_client_pool_gone(NULL, &store), pool_error == -ENOENT);
	assert_int_equal(lost, 1);
}

static void those_that_do_not_end_are_not_many(void **state)
{
	struct rbd_client *clients[16];
	char error[TGT_ERROR_BYTES];
	unsigned int count = 0;
	int err;

	(void)state;
	for (;;) {
		now_s += 1000;
		err = tgt_rbd_client_get(&clients[count], error);
		if (err)
			break;
		tgt_rbd_client_fenced(clients[count++], NULL);
		assert_true(count < 16);
	}
	assert_int_equal(err, -EAGAIN);
	assert_non_null(strstr(error, "former clients of this process have not ended"));
	while (count)
		client_ends(clients[--count]);
	do
		err = tgt_rbd_client_get(&clients[0], error);
	while (err == -EAGAIN); /* until the threads have */
	assert_int_equal(err, 0);
	client_ends(clients[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_nobody_has_ends),
		cmocka_unit_test(one_that_is_used_goes_on),
		cmocka_unit_test(one_that_was_used_meanwhile_lingers_anew),
		cmocka_unit_test(one_that_is_shut_out_is_lost_to_its_users),
		cmocka_unit_test(another_one_takes_its_place),
		cmocka_unit_test(the_monitors_are_asked),
		cmocka_unit_test(one_whose_lock_is_broken_shuts_itself_out),
		cmocka_unit_test(a_pool_that_was_deleted_takes_its_images_along),
		cmocka_unit_test(those_that_do_not_end_are_not_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
