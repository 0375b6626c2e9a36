/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: any number of threads share an NBD connection's link, with requests longer than a slot, and
 * get their own data. When the target is killed and stays away, each gets an error and none waits
 * for ever. A flush on one link fails when writes answered on another may be lost, and a trim takes whole blocks of what
 * it is given. Method: threads with a part of the volume each, without nbdkit, so that the link can run under sanitizers;
 * a volume whose path is a link, which is turned to another file.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "initiator/nbdkit/link.h"
#include "tests/e2e/daemon.h"

#define THREADS 24u /* more than the link has slots */
#define PART (1u << 20)
#define ROUNDS 60u

static struct e2e_daemon server;

static int start(void **state)
{
	e2e_daemon_start(&server, "--memory", "memory=24M", "--reactors", "2", NULL);
	return 0;
}

static int stop(void **state)
{
	return e2e_daemon_stop(&server);
}

static struct nbd_link *open_link(bool polling)
{
	struct nbd_link_options options = {
		.uri = e2e_daemon_uri(&server, "memory"),
		.queues = 2,
		.give_up_ms = 100,
		.polling = polling,
	};
	char error[RBLK_ERROR_BYTES];
	struct nbd_link *link = nbd_link_open(&options, error);

	if (!link)
		fail_msg("%s", error);
	return link;
}

/* A user of the link. The test creates and joins its thread, which owns all else. */
struct user {
	pthread_t thread;
	struct nbd_link *link;
	unsigned int index;
	int result;		 /* of the request that ended it */
	atomic_uint *rounds;	 /* of all users */
	atomic_bool *until_lost; /* go on until there is an error; NULL: do ROUNDS rounds */
};

static int user_round(struct user *user, uint8_t *data, uint8_t *back, unsigned int round)
{
	uint32_t bytes = (1 + (round * 37 + user->index * 11) % 256) * 4096;
	uint64_t offset = (uint64_t)user->index * PART + (PART - bytes) / 8192 * 4096;
	int err;

	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(user->index * 7 + round + i / 512);
	err = nbd_link_write(user->link, data, bytes, offset, 0);
	if (!err && round % 5 == 4) {
		memset(data, 0, 8192 < bytes ? 8192 : bytes);
		err = nbd_link_zero(user->link, 8192 < bytes ? 8192 : bytes, offset, 0);
	}
	if (!err)
		err = nbd_link_read(user->link, back, bytes, offset);
	if (!err && memcmp(data, back, bytes) != 0) {
		fprintf(stderr, "user %u round %u: wrong data was read\n", user->index, round);
		abort();
	}
	return err;
}

static void *user_thread(void *arg)
{
	struct user *user = arg;
	uint8_t *data = malloc(PART), *back = malloc(PART);

	if (!data || !back)
		abort();
	for (unsigned int round = 0; !user->result && (user->until_lost || round < ROUNDS);
	     round++) {
		user->result = user_round(user, data, back, round);
		atomic_fetch_add(user->rounds, 1);
	}
	free(data);
	free(back);
	return NULL;
}

static void users_start(struct user *users, struct nbd_link *link, atomic_uint *rounds,
			atomic_bool *until_lost)
{
	for (unsigned int i = 0; i < THREADS; i++) {
		users[i] = (struct user){
			.link = link, .index = i, .rounds = rounds, .until_lost = until_lost };
		assert_int_equal(
			pthread_create(&users[i].thread, NULL, user_thread, &users[i]), 0);
	}
}

static void everyone_gets_his_own(bool polling)
{
	struct user users[THREADS];
	struct nbd_link *link = open_link(polling);
	atomic_uint rounds = 0;

	users_start(users, link, &rounds, NULL);
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(users[i].thread, NULL);
		assert_int_equal(users[i].result, 0);
	}
	nbd_link_close(link);
}

static void sleeping_link(void **state)
{
	everyone_gets_his_own(false);
}

static void spinning_link(void **state)
{
	everyone_gets_his_own(true);
}

static void what_the_volume_cannot_is_an_error(void **state)
{
	struct nbd_link *link = open_link(false);
	char error[RBLK_ERROR_BYTES];
	static uint8_t data[4096];

	assert_int_equal(nbd_link_flush(link), -EOPNOTSUPP);
	assert_int_equal(nbd_link_read(link, data, 4096, 24u << 20), -ERANGE);
	assert_int_equal(nbd_link_read(link, data, 100, 0), -EINVAL);
	assert_int_equal(nbd_link_write(link, data, 512, 100, 0), -EINVAL);
	assert_int_equal(nbd_link_write(link, data, 4096, 0, 0), 0);
	nbd_link_error(link, error);
	assert_string_equal(error, "");
	nbd_link_close(link);
}

static void a_dead_target_is_an_error_for_all(void **state)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct user users[THREADS];
	struct nbd_link *link = open_link(false);
	atomic_uint rounds = 0;
	atomic_bool until_lost = true;
	char error[RBLK_ERROR_BYTES];

	users_start(users, link, &rounds, &until_lost);
	while (atomic_load(&rounds) < 2 * THREADS)
		nanosleep(&pause, NULL);
	e2e_daemon_kill(&server);
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(users[i].thread, NULL);
		assert_int_not_equal(users[i].result, 0);
	}
	assert_int_equal(nbd_link_flush(link), -EIO);
	nbd_link_error(link, error);
	assert_non_null(strstr(error, "no connection for"));
	nbd_link_close(link);
}

/* -- a file, which can be flushed ---------------------------------------------------------------- */

static struct e2e_turning file;

static int start_file(void **state)
{
	e2e_turning_create(&file);
	e2e_daemon_start(&server, "--config", file.config, NULL);
	return 0;
}

static int stop_file(void **state)
{
	int status = e2e_daemon_stop(&server);

	e2e_turning_remove(&file);
	return status;
}

static struct nbd_link *open_disk(void)
{
	struct nbd_link_options options = {.uri = e2e_daemon_uri(&server, "disk")};
	char error[RBLK_ERROR_BYTES];
	struct nbd_link *link = nbd_link_open(&options, error);

	if (!link)
		fail_msg("%s", error);
	return link;
}

static void lose(void)
{
	e2e_daemon_kill(&server);
	e2e_turning_turn(&file, &file.second);
	e2e_daemon_start_again(&server, "--config", file.config, NULL);
}

static void a_flush_speaks_for_all_links(void **state)
{
	static const uint8_t data[4096] = {1};
	struct nbd_link *writer = open_disk(), *other = open_disk();

	assert_int_equal(nbd_link_write(writer, data, sizeof(data), 0, 0), 0);
	assert_int_equal(nbd_link_flush(other), 0);
	assert_int_equal(nbd_link_write(writer, data, sizeof(data), 0, 0), 0);
	lose();
	assert_int_equal(nbd_link_flush(other), -EIO);
	assert_int_equal(nbd_link_flush(writer), -EIO);
	/* A client that has connected anew, beside one that does not know yet. */
	nbd_link_close(writer);
	writer = open_disk();
	assert_int_equal(nbd_link_flush(writer), -EIO);
	nbd_link_close(other);
	assert_int_equal(nbd_link_flush(writer), 0);
	nbd_link_close(writer);
}

static bool is_zero(struct nbd_link *link, uint64_t offset)
{
	static const uint8_t zeroes[512];
	uint8_t data[512];

	assert_int_equal(nbd_link_read(link, data, sizeof(data), offset), 0);
	return !memcmp(data, zeroes, sizeof(data));
}

static void a_trim_takes_whole_blocks(void **state)
{
	struct nbd_link *link = open_disk();
	static uint8_t data[3 * 512];

	memset(data, 1, sizeof(data));
	assert_int_equal(nbd_link_write(link, data, sizeof(data), 0, 0), 0);
	assert_int_equal(nbd_link_discard(link, 100, 10), 0);
	assert_int_equal(nbd_link_discard(link, 512, 1), 0);
	assert_false(is_zero(link, 0));
	assert_false(is_zero(link, 512));
	assert_int_equal(nbd_link_discard(link, 1000, 100), 0);
	assert_false(is_zero(link, 0));
	assert_true(is_zero(link, 512));
	assert_int_equal(nbd_link_discard(link, 1000, 512), 0);
	assert_false(is_zero(link, 1024));
	nbd_link_close(link);
}

int main(void)
{
	const struct CMUnitTest files[] = {
		cmocka_unit_test_setup_teardown(a_flush_speaks_for_all_links, start_file, stop_file),
		cmocka_unit_test_setup_teardown(a_trim_takes_whole_blocks, start_file, stop_file),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sleeping_link),
		cmocka_unit_test(spinning_link),
		cmocka_unit_test(what_the_volume_cannot_is_an_error),
		cmocka_unit_test(a_dead_target_is_an_error_for_all),
	};

	return cmocka_run_group_tests(tests, start, stop) + cmocka_run_group_tests(files, NULL, NULL);
}
