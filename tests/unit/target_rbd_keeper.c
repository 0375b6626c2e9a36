/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a task that waits for the cluster, for ever perhaps, keeps no other one waiting, neither one that may wait nor
 * one that is to be done in time; is not run beside itself; and is over when it is forgotten. Method: the keeper itself,
 * with tasks that wait for each other.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include "target/rbd/rbd.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned int begun, at_once, most, others;
static bool goes_on; /* the one that waits */

static void set(unsigned int *count, unsigned int by)
{
	pthread_mutex_lock(&lock);
	*count += by;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_for(const unsigned int *count, unsigned int least)
{
	pthread_mutex_lock(&lock);
	while (*count < least)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void waits(struct rbd_task *task)
{
	pthread_mutex_lock(&lock);
	begun++;
	at_once++;
	most = at_once > most ? at_once : most;
	pthread_cond_broadcast(&changed);
	while (!goes_on)
		pthread_cond_wait(&changed, &lock);
	at_once--;
	pthread_mutex_unlock(&lock);
}

static void other(struct rbd_task *task)
{
	set(&others, 1);
}

static void a_task_that_waits_delays_itself_alone(void **state)
{
	struct rbd_task stuck = {.run = waits}, image = {.run = other}, in_time = {.run = other, .in_time = true};

	assert_int_equal(tgt_rbd_keeper_start(), 0);
	tgt_rbd_keeper_later(&stuck, 0);
	wait_for(&begun, 1);
	tgt_rbd_keeper_later(&stuck, 0);
	tgt_rbd_keeper_later(&image, 0);
	tgt_rbd_keeper_later(&in_time, 1000000);
	wait_for(&others, 2);
	assert_int_equal(begun, 1);
	pthread_mutex_lock(&lock);
	goes_on = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	wait_for(&begun, 2);
	tgt_rbd_keeper_forget(&stuck);
	tgt_rbd_keeper_forget(&image);
	tgt_rbd_keeper_forget(&in_time);
	assert_int_equal(at_once, 0);
	assert_int_equal(most, 1);
}

static void one_that_is_forgotten_is_not_run(void **state)
{
	struct rbd_task late = {.run = waits};

	begun = 0;
	tgt_rbd_keeper_later(&late, 1000000000ull);
	tgt_rbd_keeper_forget(&late);
	assert_false(late.queued);
	assert_int_equal(begun, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_task_that_waits_delays_itself_alone),
		cmocka_unit_test(one_that_is_forgotten_is_not_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
