/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a claim excludes others from its range: writes and claims that overlap wait, in the order
 * in which they came, on any reactor; others do not wait; nothing waits for ever. Method: two
 * ports, each with a ring, stepped by one thread; then two threads that increment a plain counter
 * under claims.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "target/store/claim.h"
#include "target/store/ring.h"

#define PORTS 2

struct claimant {
	struct tgt_claim claim; /* first member: a cast leads back here */
	unsigned int granted;
};

static struct tgt_claims claims;
static struct tgt_ring *rings[PORTS];
static struct tgt_claims_port ports[PORTS];
static unsigned int unblocked;
static uint64_t host = 1; /* of the next claims */
static struct tgt_write *last_unblocked;

static void on_unblocked(struct tgt_write *write)
{
	unblocked++;
	last_unblocked = write;
}

static void on_grant(struct tgt_claim *claim)
{
	((struct claimant *)claim)->granted++;
}

static int setup(void **state)
{
	(void)state;
	memset(ports, 0, sizeof(ports));
	unblocked = 0;
	tgt_claims_init(&claims);
	for (int i = 0; i < PORTS; i++) {
		assert_int_equal(tgt_ring_create(64, 8, &rings[i]), 0);
		assert_int_equal(tgt_claims_attach(&claims, &ports[i], rings[i], on_unblocked), 0);
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
		tgt_claims_detach(&ports[i]);
	settle();
	for (int i = 0; i < PORTS; i++) {
		assert_int_equal(tgt_ring_inflight(rings[i]), 0);
		tgt_ring_destroy(rings[i]);
	}
	tgt_claims_fini(&claims);
	return 0;
}

static int claim(int port, struct claimant *claimant, uint64_t offset, uint64_t bytes)
{
	*claimant = (struct claimant){.claim.grant = on_grant};
	return tgt_claim_begin(&ports[port], &claimant->claim, host, offset, bytes);
}

/* True: the claim is held, now or after all ports have handled their messages. */
static bool held(int port, struct claimant *claimant, uint64_t offset, uint64_t bytes)
{
	int status = claim(port, claimant, offset, bytes);

	assert_true(status >= 0);
	settle();
	return status || claimant->granted;
}

static void a_claim_waits_for_the_writes_before_it(void **state)
{
	(void)state;
	for (int port = 0; port < PORTS; port++) {
		struct tgt_write write = {0}, other = {0};
		struct claimant one;

		assert_true(tgt_write_begin(&ports[port], &write, 4096, 4096));
		assert_true(tgt_write_begin(&ports[port], &other, 8192, 4096));
		assert_false(held(0, &one, 7680, 512));
		tgt_write_end(&ports[port], &other);
		settle();
		assert_int_equal(one.granted, 0);
		tgt_write_end(&ports[port], &write);
		settle();
		assert_int_equal(one.granted, 1);
		tgt_claim_end(&one.claim);
	}
}

static void what_does_not_overlap_does_not_wait(void **state)
{
	struct tgt_write before = {0}, behind = {0};
	struct claimant one, two;

	(void)state;
	assert_true(tgt_write_begin(&ports[1], &before, 0, 4096));
	assert_true(held(0, &one, 4096, 512));
	assert_true(held(1, &two, 4608, 512));
	assert_true(tgt_write_begin(&ports[0], &behind, 5120, 512));
	tgt_write_end(&ports[1], &before);
	tgt_write_end(&ports[0], &behind);
	tgt_claim_end(&one.claim);
	tgt_claim_end(&two.claim);
}

static void a_write_waits_for_the_claims_before_it(void **state)
{
	(void)state;
	for (int port = 0; port < PORTS; port++) {
		struct tgt_write write = {0}, direct = {0};
		struct claimant one;

		unblocked = 0;
		assert_true(held(0, &one, 0, 4096));
		assert_false(tgt_write_begin(&ports[port], &write, 2048, 4096));
		/* A write that cannot wait begins only if there is no claim at all. */
		assert_false(tgt_write_begin_now(&ports[port], &direct, 1 << 20, 512));
		settle();
		assert_int_equal(unblocked, 0);
		tgt_claim_end(&one.claim);
		settle();
		assert_int_equal(unblocked, 1);
		assert_ptr_equal(last_unblocked, &write);
		assert_true(tgt_write_begin_now(&ports[port], &direct, 1 << 20, 512));
		tgt_write_end(&ports[port], &direct);
		tgt_write_end(&ports[port], &write);
	}
}

/* Neither claims nor writes starve the other. */
static void they_take_turns_in_the_order_in_which_they_came(void **state)
{
	struct claimant first, second, third;
	struct tgt_write write = {0};

	(void)state;
	assert_true(held(0, &first, 0, 512));
	assert_false(held(1, &second, 0, 512));
	assert_false(tgt_write_begin(&ports[0], &write, 0, 512));
	assert_false(held(1, &third, 0, 512));
	tgt_claim_end(&first.claim);
	settle();
	assert_int_equal(second.granted, 1);
	assert_int_equal(unblocked, 0);
	assert_int_equal(third.granted, 0);
	tgt_claim_end(&second.claim);
	settle();
	assert_int_equal(unblocked, 1);
	assert_int_equal(third.granted, 0);
	tgt_write_end(&ports[0], &write);
	settle();
	assert_int_equal(third.granted, 1);
	tgt_claim_end(&third.claim);
}

static void who_gives_up_is_not_waited_for(void **state)
{
	struct claimant first, second, third;
	struct tgt_write write = {0};

	(void)state;
	assert_true(held(0, &first, 0, 512));
	assert_false(held(0, &second, 0, 512));
	assert_false(tgt_write_begin(&ports[1], &write, 0, 512));
	assert_false(held(1, &third, 0, 512));
	tgt_claim_end(&second.claim);
	assert_true(tgt_write_withdraw(&ports[1], &write));
	assert_false(tgt_write_withdraw(&ports[1], &write));
	tgt_claim_end(&first.claim);
	settle();
	assert_int_equal(second.granted, 0);
	assert_int_equal(unblocked, 0);
	assert_int_equal(third.granted, 1);
	tgt_claim_end(&third.claim);
}

static void a_port_that_ends_is_not_waited_for(void **state)
{
	struct claimant one;

	(void)state;
	assert_int_equal(claim(0, &one, 0, 512), 0);
	/* The message to it is on its way. */
	tgt_claims_detach(&ports[1]);
	settle();
	assert_int_equal(one.granted, 1);
	tgt_claim_end(&one.claim);
	assert_int_equal(tgt_claims_attach(&claims, &ports[1], rings[1], on_unblocked), 0);
}

static void claims_are_bounded(void **state)
{
	static struct claimant many[TGT_CLAIMS_MAX + 1];

	(void)state;
	for (unsigned int i = 0; i < TGT_CLAIMS_MAX; i++) {
		host = i;
		assert_true(held(0, &many[i], i * 512, 512));
	}
	host = TGT_CLAIMS_MAX;
	assert_int_equal(claim(0, &many[TGT_CLAIMS_MAX], 1 << 20, 512), -EBUSY);
	host = 1;
	for (unsigned int i = 0; i < TGT_CLAIMS_MAX; i++)
		tgt_claim_end(&many[i].claim);
}

static void a_host_leaves_claims_to_others(void **state)
{
	static struct claimant many[TGT_CLAIMS_MAX + 1];
	unsigned int count = 0;

	(void)state;
	/* Over all reactors. */
	while (claim((int)(count % PORTS), &many[count], count * 512, 512) >= 0)
		count++;
	assert_int_equal(count, TGT_CLAIMS_MAX - TGT_CLAIMS_KEPT);
	/* Another one always has its part, and no more than that. */
	host = 2;
	for (unsigned int i = 0; i + 1 < TGT_CLAIMS_KEPT; i++, count++)
		assert_true(held(0, &many[count], count * 512, 512));
	host = 1;
	assert_int_equal(claim(0, &many[count], count * 512, 512), -EBUSY);
	host = 2;
	assert_true(held(0, &many[count], count * 512, 512));
	count++;
	assert_int_equal(claim(0, &many[count], count * 512, 512), -EBUSY);
	/* What becomes free is neither's, as long as it is one of the last. */
	tgt_claim_end(&many[0].claim);
	assert_int_equal(claim(0, &many[count], count * 512, 512), -EBUSY);
	host = 3;
	assert_true(held(0, &many[0], 0, 512));
	host = 1;
	settle();
	while (count)
		tgt_claim_end(&many[--count].claim);
}

/* -- on threads -------------------------------------------------------------------------------- */

#define ROUNDS 1000 /* each takes two turns of the scheduler */

static unsigned int counter; /* changed by the holder of the range; not atomic */
static _Atomic unsigned int claiming; /* threads that are not done */

static void serve(int port)
{
	if (!tgt_ring_reap(rings[port], 64))
		tgt_ring_wait(rings[port], 10);
}

/* Each increment under a claim. Then the thread goes on answering the other's claims. */
static void *increment(void *arg)
{
	int port = (int)(intptr_t)arg;
	struct claimant one;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		int status = claim(port, &one, 0, 512);

		assert_true(status >= 0);
		while (!status && !one.granted)
			serve(port);
		counter++;
		tgt_claim_end(&one.claim);
	}
	atomic_fetch_sub(&claiming, 1);
	while (atomic_load(&claiming))
		serve(port);
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

#define CLAIM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLAIM_TEST(a_claim_waits_for_the_writes_before_it),
		CLAIM_TEST(what_does_not_overlap_does_not_wait),
		CLAIM_TEST(a_write_waits_for_the_claims_before_it),
		CLAIM_TEST(they_take_turns_in_the_order_in_which_they_came),
		CLAIM_TEST(who_gives_up_is_not_waited_for),
		CLAIM_TEST(a_port_that_ends_is_not_waited_for),
		CLAIM_TEST(claims_are_bounded),
		CLAIM_TEST(a_host_leaves_claims_to_others),
		CLAIM_TEST(threads_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
