/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a range lock excludes others from its range: writes and range locks that overlap wait, in the order
 * in which they came, on any reactor; others do not wait; nothing waits for ever. Method: two
 * channels, each with a ring, stepped by one thread; then two threads that increment a plain counter
 * under range locks.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "target/store/range_lock.h"
#include "target/store/ring.h"

#define PORTS 2

struct locker {
	struct tgt_range_lock range_lock; /* first member: a cast leads back here */
	unsigned int granted;
};

static struct tgt_range_locks range_locks;
static struct tgt_ring *rings[PORTS];
static struct tgt_range_locks_channel channels[PORTS];
static unsigned int unblocked;
static uint64_t host = 1; /* of the next range locks */
static struct tgt_write *last_unblocked;

static void on_unblocked(struct tgt_write *write)
{
	unblocked++;
	last_unblocked = write;
}

static void on_grant(struct tgt_range_lock *range_lock)
{
	((struct locker *)range_lock)->granted++;
}

static int setup(void **state)
{
	(void)state;
	memset(channels, 0, sizeof(channels));
	unblocked = 0;
	tgt_range_locks_init(&range_locks);
	for (int i = 0; i < PORTS; i++) {
		assert_int_equal(tgt_ring_create(64, 8, &rings[i]), 0);
		assert_int_equal(tgt_range_locks_attach(&range_locks, &channels[i], rings[i], on_unblocked), 0);
	}
	return 0;
}

/* Handles all posted messages, and those that these post. */
static void settle(void)
{
	for (int i = 0; i < 4 * PORTS; i++)
		tgt_ring_reap(rings[i % PORTS], 64);
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < PORTS; i++)
		tgt_range_locks_detach(&channels[i]);
	settle();
	for (int i = 0; i < PORTS; i++) {
		assert_int_equal(tgt_ring_inflight(rings[i]), 0);
		tgt_ring_destroy(rings[i]);
	}
	tgt_range_locks_fini(&range_locks);
	return 0;
}

static int range_lock(int channel, struct locker *locker, uint64_t offset, uint64_t bytes)
{
	*locker = (struct locker){.range_lock.grant = on_grant};
	return tgt_range_lock_begin(&channels[channel], &locker->range_lock, host, offset, bytes);
}

/* True: the range lock is held, now or after all channels have handled their messages. */
static bool held(int channel, struct locker *locker, uint64_t offset, uint64_t bytes)
{
	int status = range_lock(channel, locker, offset, bytes);

	assert_true(status >= 0);
	settle();
	return status || locker->granted;
}

static void a_range_lock_waits_for_the_writes_before_it(void **state)
{
	(void)state;
	for (int channel = 0; channel < PORTS; channel++) {
		struct tgt_write write = {0}, other = {0};
		struct locker one;

		assert_true(tgt_write_begin(&channels[channel], &write, 4096, 4096));
		assert_true(tgt_write_begin(&channels[channel], &other, 8192, 4096));
		assert_false(held(0, &one, 7680, 512));
		tgt_write_end(&channels[channel], &other);
		settle();
		assert_int_equal(one.granted, 0);
		tgt_write_end(&channels[channel], &write);
		settle();
		assert_int_equal(one.granted, 1);
		tgt_range_lock_end(&one.range_lock);
	}
}

static void what_does_not_overlap_does_not_wait(void **state)
{
	struct tgt_write before = {0}, behind = {0};
	struct locker one, two;

	(void)state;
	assert_true(tgt_write_begin(&channels[1], &before, 0, 4096));
	assert_true(held(0, &one, 4096, 512));
	assert_true(held(1, &two, 4608, 512));
	assert_true(tgt_write_begin(&channels[0], &behind, 5120, 512));
	tgt_write_end(&channels[1], &before);
	tgt_write_end(&channels[0], &behind);
	tgt_range_lock_end(&one.range_lock);
	tgt_range_lock_end(&two.range_lock);
}

static void a_write_waits_for_the_range_locks_before_it(void **state)
{
	(void)state;
	for (int channel = 0; channel < PORTS; channel++) {
		struct tgt_write write = {0}, direct = {0};
		struct locker one;

		unblocked = 0;
		assert_true(held(0, &one, 0, 4096));
		assert_false(tgt_write_begin(&channels[channel], &write, 2048, 4096));
		/* A write that cannot wait begins only if there is no range lock at all. */
		assert_false(tgt_write_begin_now(&channels[channel], &direct, 1 << 20, 512));
		settle();
		assert_int_equal(unblocked, 0);
		tgt_range_lock_end(&one.range_lock);
		settle();
		assert_int_equal(unblocked, 1);
		assert_ptr_equal(last_unblocked, &write);
		assert_true(tgt_write_begin_now(&channels[channel], &direct, 1 << 20, 512));
		tgt_write_end(&channels[channel], &direct);
		tgt_write_end(&channels[channel], &write);
	}
}

/* Neither range locks nor writes starve the other. */
static void they_take_turns_in_the_order_in_which_they_came(void **state)
{
	struct locker first, second, third;
	struct tgt_write write = {0};

	(void)state;
	assert_true(held(0, &first, 0, 512));
	assert_false(held(1, &second, 0, 512));
	assert_false(tgt_write_begin(&channels[0], &write, 0, 512));
	assert_false(held(1, &third, 0, 512));
	tgt_range_lock_end(&first.range_lock);
	settle();
	assert_int_equal(second.granted, 1);
	assert_int_equal(unblocked, 0);
	assert_int_equal(third.granted, 0);
	tgt_range_lock_end(&second.range_lock);
	settle();
	assert_int_equal(unblocked, 1);
	assert_int_equal(third.granted, 0);
	tgt_write_end(&channels[0], &write);
	settle();
	assert_int_equal(third.granted, 1);
	tgt_range_lock_end(&third.range_lock);
}

static void who_gives_up_is_not_waited_for(void **state)
{
	struct locker first, second, third;
	struct tgt_write write = {0};

	(void)state;
	assert_true(held(0, &first, 0, 512));
	assert_false(held(0, &second, 0, 512));
	assert_false(tgt_write_begin(&channels[1], &write, 0, 512));
	assert_false(held(1, &third, 0, 512));
	tgt_range_lock_end(&second.range_lock);
	assert_true(tgt_write_withdraw(&channels[1], &write));
	assert_false(tgt_write_withdraw(&channels[1], &write));
	tgt_range_lock_end(&first.range_lock);
	settle();
	assert_int_equal(second.granted, 0);
	assert_int_equal(unblocked, 0);
	assert_int_equal(third.granted, 1);
	tgt_range_lock_end(&third.range_lock);
}

static void a_channel_that_ends_is_not_waited_for(void **state)
{
	struct locker one;

	(void)state;
	assert_int_equal(range_lock(0, &one, 0, 512), 0);
	/* The message to it is on its way. */
	tgt_range_locks_detach(&channels[1]);
	settle();
	assert_int_equal(one.granted, 1);
	tgt_range_lock_end(&one.range_lock);
	assert_int_equal(tgt_range_locks_attach(&range_locks, &channels[1], rings[1], on_unblocked), 0);
}

static void range_locks_are_bounded(void **state)
{
	static struct locker many[TGT_RANGE_LOCKS_MAX + 1];

	(void)state;
	for (unsigned int i = 0; i < TGT_RANGE_LOCKS_MAX; i++) {
		host = i;
		assert_true(held(0, &many[i], i * 512, 512));
	}
	host = TGT_RANGE_LOCKS_MAX;
	assert_int_equal(range_lock(0, &many[TGT_RANGE_LOCKS_MAX], 1 << 20, 512), -EBUSY);
	host = 1;
	for (unsigned int i = 0; i < TGT_RANGE_LOCKS_MAX; i++)
		tgt_range_lock_end(&many[i].range_lock);
}

static void a_host_leaves_range_locks_to_others(void **state)
{
	static struct locker many[TGT_RANGE_LOCKS_MAX + 1];
	unsigned int count = 0;

	(void)state;
	/* Over all reactors. */
	while (range_lock((int)(count % PORTS), &many[count], count * 512, 512) >= 0)
		count++;
	assert_int_equal(count, TGT_RANGE_LOCKS_MAX - TGT_RANGE_LOCKS_KEPT);
	/* Another one always has its part, and no more than that. */
	host = 2;
	for (unsigned int i = 0; i + 1 < TGT_RANGE_LOCKS_KEPT; i++, count++)
		assert_true(held(0, &many[count], count * 512, 512));
	host = 1;
	assert_int_equal(range_lock(0, &many[count], count * 512, 512), -EBUSY);
	host = 2;
	assert_true(held(0, &many[count], count * 512, 512));
	count++;
	assert_int_equal(range_lock(0, &many[count], count * 512, 512), -EBUSY);
	/* What becomes free is neither's, as long as it is one of the last. */
	tgt_range_lock_end(&many[0].range_lock);
	assert_int_equal(range_lock(0, &many[count], count * 512, 512), -EBUSY);
	host = 3;
	assert_true(held(0, &many[0], 0, 512));
	host = 1;
	settle();
	while (count)
		tgt_range_lock_end(&many[--count].range_lock);
}

/* -- on threads -------------------------------------------------------------------------------- */

#define ROUNDS 1000 /* each takes two turns of the scheduler */

static unsigned int counter; /* changed by the holder of the range; not atomic */
static _Atomic unsigned int claiming; /* threads that are not done */

static void serve(int channel)
{
	if (!tgt_ring_reap(rings[channel], 64))
		tgt_ring_wait(rings[channel], 10);
}

/* Each increment under a range lock. Then the thread goes on answering the other's range locks. */
static void *increment(void *arg)
{
	int channel = (int)(intptr_t)arg;
	struct locker one;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		int status = range_lock(channel, &one, 0, 512);

		assert_true(status >= 0);
		while (!status && !one.granted)
			serve(channel);
		counter++;
		tgt_range_lock_end(&one.range_lock);
	}
	atomic_fetch_sub(&claiming, 1);
	while (atomic_load(&claiming))
		serve(channel);
	return NULL;
}

static void threads_take_turns(void **state)
{
	pthread_t other;

	(void)state;
	counter = 0;
	claiming = 2;
	assert_int_equal(pthread_create(&other, NULL, increment, (void *)(intptr_t)1), 0);
	increment((void *)0);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(counter, 2 * ROUNDS);
}

#define RANGE_LOCK_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RANGE_LOCK_TEST(a_range_lock_waits_for_the_writes_before_it),
		RANGE_LOCK_TEST(what_does_not_overlap_does_not_wait),
		RANGE_LOCK_TEST(a_write_waits_for_the_range_locks_before_it),
		RANGE_LOCK_TEST(they_take_turns_in_the_order_in_which_they_came),
		RANGE_LOCK_TEST(who_gives_up_is_not_waited_for),
		RANGE_LOCK_TEST(a_channel_that_ends_is_not_waited_for),
		RANGE_LOCK_TEST(range_locks_are_bounded),
		RANGE_LOCK_TEST(a_host_leaves_range_locks_to_others),
		RANGE_LOCK_TEST(threads_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
