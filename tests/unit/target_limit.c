/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: whoever is limited gets its limit within 3 %, of operations and of bytes, at one reactor and at
 * several, whatever each of them does, and no more than a burst beyond it. Method: buckets on a clock of the
 * test's, which begin as many operations as they may, or as the test's program of each wants.
 */
#include "target/io/limit.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

#define MS 1000000ull
#define S (1000 * MS)
#define BUCKETS_MAX 8u

static struct tgt_limit *limit;
static struct tgt_token_bucket buckets[BUCKETS_MAX];
static uint64_t done[BUCKETS_MAX]; /* operations */
static unsigned int bucket_count;
static uint64_t now_ns;

static void begin(unsigned int count, unsigned int iops, uint64_t rate_bytes, uint32_t burst_ms)
{
	const struct tgt_limit_config config = {
		.iops = iops, .rate_bytes = rate_bytes, .burst_ms = burst_ms};

	now_ns = 3 * S;
	limit = tgt_limit_create(&config);
	assert_non_null(limit);
	bucket_count = count;
	for (unsigned int i = 0; i < count; i++) {
		tgt_token_bucket_init(&buckets[i], tgt_limit_ref(limit));
		done[i] = 0;
	}
}

static uint64_t all_done(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < bucket_count; i++)
		sum += done[i];
	return sum;
}

static void end(void)
{
	for (unsigned int i = 0; i < bucket_count; i++)
		tgt_token_bucket_fini(&buckets[i], now_ns);
	tgt_limit_put(limit);
}

/* As many as it may, of at most `most`. */
static void run(unsigned int i, uint64_t bytes, unsigned int most)
{
	while (most-- && tgt_token_bucket_ready(&buckets[i], now_ns)) {
		tgt_token_bucket_use(&buckets[i], bytes);
		done[i]++;
	}
}

/* Every bucket wants all it can get, in steps of so much time. */
static void run_all(uint64_t time_ns, uint64_t step_ns, uint64_t bytes)
{
	uint64_t until_ns = now_ns + time_ns;

	for (; now_ns < until_ns; now_ns += step_ns)
		for (unsigned int i = 0; i < bucket_count; i++)
			run(i, bytes, 1000000);
}

/* `wanted` within 3 %, and the burst. */
static void check_done(double wanted, double burst)
{
	double got = (double)all_done();

	if (got < wanted * 0.97 || got > wanted * 1.03 + burst)
		fail_msg("%.0f operations, not %.0f", got, wanted);
}

static void operations_are_limited(void **state)
{
	static const unsigned int iops[] = {1, 7, 100, 1000, 33333, 1000000};
	static const unsigned int counts[] = {1, 2, 8};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(iops); i++)
		for (unsigned int j = 0; j < UNIT_LENGTH(counts); j++) {
			/* 200 operations at least, so that one more or less does not count. */
			uint64_t seconds = iops[i] < 100 ? 200 : 4;

			begin(counts[j], iops[i], 0, 100);
			run_all(seconds * S, iops[i] < 100 ? 2 * MS : MS / 2, 4096);
			check_done((double)iops[i] * (double)seconds,
				   0.1 * (double)iops[i] + counts[j] + 1);
			end();
		}
}

static void bytes_are_limited(void **state)
{
	static const uint64_t sizes[] = {512, 4096, 1 << 20};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(sizes); i++) {
		begin(2, 0, 100 << 20, 100);
		run_all(10 * S, MS / 2, sizes[i]);
		check_done(10.0 * (100 << 20) / (double)sizes[i], 0.1 * (100 << 20) / (double)sizes[i] + 3);
		end();
	}
	/* Of both limits the stricter one counts. */
	begin(2, 1000, 100 << 20, 100);
	run_all(10 * S, MS / 2, 4096);
	check_done(10000, 100 + 3);
	end();
	begin(2, 1000, 1 << 20, 100);
	run_all(100 * S, MS, 1 << 20);
	check_done(100, 3);
	end();
}

/* One operation after the other, as a program without a queue does, on a lazy machine: the limit is reached. */
static void a_program_without_queue_gets_its_limit(void **state)
{
	(void)state;
	begin(1, 1000, 0, 100);
	for (uint64_t until_ns = now_ns + 20 * S; now_ns < until_ns; now_ns += MS / 4)
		run(0, 4096, 1);
	check_done(20000, 101);
	end();
	/* Looked at only every 20 ms. */
	begin(1, 1000, 0, 100);
	run_all(20 * S, 20 * MS, 4096);
	check_done(20000, 101);
	end();
}

/* What one reactor does not want, another has; and the other way round at once. */
static void the_limit_moves_between_reactors(void **state)
{
	uint64_t before;

	(void)state;
	begin(4, 10000, 0, 20);
	for (unsigned int turn = 0; turn < 40; turn++) {
		uint64_t until_ns = now_ns + S / 4;

		before = done[turn % 4];
		for (; now_ns < until_ns; now_ns += MS / 2)
			run(turn % 4, 4096, 1000000);
		assert_true(done[turn % 4] - before > 2500 * 0.97 - 50);
	}
	check_done(100000, 200);
	/* Those that want little get all of it: 100 a second each, beside one that wants everything. */
	before = done[1];
	for (uint64_t step = 0; step < 20000; step++, now_ns += MS / 2) {
		run(0, 4096, 1000000);
		for (unsigned int i = 1; i < 4; i++)
			if (step % 20 == i)
				run(i, 4096, 1);
	}
	assert_true(done[1] - before > 1000 * 0.9);
	check_done(200000, 200);
	end();
	/* Equals get equal parts, roughly. */
	begin(4, 10000, 0, 100);
	run_all(40 * S, MS / 4, 4096);
	for (unsigned int i = 0; i < 4; i++)
		assert_in_range(done[i], 60000, 140000);
	end();
}

static void a_burst_is_what_was_not_used(void **state)
{
	(void)state;
	begin(1, 1000, 0, 2000);
	run(0, 4096, 1000000);
	run_all(10 * MS, MS, 4096);
	/* Two seconds' worth; a bucket buys it in steps, each twice as large as what it used. */
	run_all(S, MS, 4096);
	check_done(3000, 30);
	/* After an hour without use it is no more than that. */
	done[0] = 0;
	now_ns += 3600 * S;
	run_all(S, MS, 4096);
	check_done(3000, 30);
	end();
}

/* Who ends and begins again pays all the same: here a gigabyte of 1 MiB a second, and then what it may. */
static void a_debt_outlives_its_bucket(void **state)
{
	(void)state;
	begin(1, 0, 1 << 20, 100);
	run(0, 1 << 30, 1);
	assert_int_equal(done[0], 1);
	tgt_token_bucket_fini(&buckets[0], now_ns);
	tgt_token_bucket_init(&buckets[0], tgt_limit_ref(limit));
	run_all(1020 * S, 50 * MS, 1 << 30);
	assert_int_equal(done[0], 1);
	run_all(10 * S, 50 * MS, 1 << 30);
	assert_int_equal(done[0], 2);
	end();
	/* And who begins again after each of his operations gets no more than his limit. */
	begin(1, 100, 0, 100);
	for (uint64_t until_ns = now_ns + 10 * S; now_ns < until_ns; now_ns += MS) {
		run(0, 4096, 1);
		tgt_token_bucket_fini(&buckets[0], now_ns);
		tgt_token_bucket_init(&buckets[0], tgt_limit_ref(limit));
	}
	assert_in_range(done[0], 1, 1011);
	end();
}

/* However many operations: buckets meet at the limit a few hundred times a second. */
static void reactors_seldom_meet(void **state)
{
	uint64_t last_ns = 0, meetings = 0;

	(void)state;
	begin(1, 1000000, 0, 100);
	for (uint64_t until_ns = now_ns + S; now_ns < until_ns; now_ns += 1000) {
		run(0, 4096, 1);
		meetings += buckets[0].next_ns != last_ns;
		last_ns = buckets[0].next_ns;
	}
	assert_in_range(done[0], 970000, 1030000);
	assert_in_range(meetings, 1, 1000);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_are_limited),
		cmocka_unit_test(bytes_are_limited),
		cmocka_unit_test(a_program_without_queue_gets_its_limit),
		cmocka_unit_test(the_limit_moves_between_reactors),
		cmocka_unit_test(a_burst_is_what_was_not_used),
		cmocka_unit_test(a_debt_outlives_its_bucket),
		cmocka_unit_test(reactors_seldom_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
