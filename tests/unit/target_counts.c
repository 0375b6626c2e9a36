/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a latency is counted in the bucket that has it; what a volume's handles have done is in a
 * census exactly once, while they are open and after they were closed, with and without a tally of
 * their own; and a session has no more than its part of these. Method: buckets of many latencies; a
 * reactor made by the test, with handles of two volumes.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/serve/census.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/session.h"
#include "target/serve/tally.h"
#include "target/store/pool.h"

/* -- buckets ----------------------------------------------------------------------------------- */

static void check_bucket(uint32_t us)
{
	unsigned int bucket = core_bucket(us);

	assert_in_range(bucket, 0, CORE_BUCKETS - 1);
	assert_true(us < core_bucket_end(bucket));
	if (bucket)
		assert_true(us >= core_bucket_end(bucket - 1));
}

static void a_latency_is_in_its_bucket(void **state)
{
	(void)state;
	for (uint32_t us = 0; us < 100000; us++)
		check_bucket(us);
	for (unsigned int shift = 1; shift < 32; shift++)
		for (int near = -2; near <= 2; near++)
			check_bucket((1u << shift) + (1u << (shift - 1)) + (uint32_t)near);
	check_bucket(UINT32_MAX);
	for (unsigned int i = 1; i < CORE_BUCKETS; i++)
		assert_true(core_bucket_end(i) > core_bucket_end(i - 1));
	/* No bucket is wider than half of what it begins with, so that a quantile is no further off. */
	for (unsigned int i = 2; i < CORE_BUCKETS - 1; i++)
		assert_true((core_bucket_end(i) - core_bucket_end(i - 1)) * 2 <=
			    core_bucket_end(i - 1));
}

/* -- tallies ----------------------------------------------------------------------------------- */

#define POOL_BYTES (1u << 20)

struct world {
	struct tgt_reactor reactor;
	struct tgt_session session;
	struct tgt_volume volumes[2];
	struct tgt_port ports[2];
	void *memory;
};

static struct world *world_create(void)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->memory = aligned_alloc(4096, POOL_BYTES);
	world->reactor.turn.pool = tgt_pool_create(world->memory, POOL_BYTES, POOL_BYTES);
	assert_non_null(world->reactor.turn.pool);
	world->reactor.pool_bytes = tgt_pool_free_bytes(world->reactor.turn.pool);
	TAILQ_INIT(&world->reactor.sessions);
	tgt_tallies_init(&world->reactor.tallies);
	world->session.reactor = &world->reactor;
	world->session.number = 7;
	strcpy(world->session.initiator, "db1");
	TAILQ_INSERT_TAIL(&world->reactor.sessions, &world->session, link);
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(world->volumes[i].config.name, RBLK_NAME_BYTES, "v%u", i);
		world->volumes[i].slot = i;
		world->ports[i].volume = &world->volumes[i];
	}
	return world;
}

static void world_free(struct world *world)
{
	tgt_tallies_fini(&world->reactor.tallies);
	tgt_pool_destroy(world->reactor.turn.pool);
	free(world->memory);
	free(world);
}

static struct tgt_handle *handle_open(struct world *world, unsigned int volume)
{
	struct tgt_handle *handle = calloc(1, sizeof(*handle));

	assert_non_null(handle);
	handle->session = &world->session;
	handle->access.port = &world->ports[volume];
	tgt_tally_open(handle);
	return handle;
}

static void handle_close(struct tgt_handle *handle)
{
	tgt_tally_close(handle);
	free(handle);
}

/* Operations on the volume that a census has: in its uses, and in all. */
static uint64_t counted(struct world *world, const char *volume, uint64_t *uses)
{
	struct tgt_census *census = tgt_census_take(&world->reactor);
	uint64_t all;

	assert_non_null(census);
	*uses = 0;
	for (unsigned int i = 0; i < census->use_count; i++) {
		assert_int_equal(census->uses[i].session, 7);
		if (!strcmp(census->uses[i].volume, volume))
			*uses += census->uses[i].counts.operations[RBLK_OP_READ];
	}
	all = *uses;
	for (unsigned int i = 0; i < census->volume_count; i++)
		if (!strcmp(census->volumes[i].name, volume))
			all += census->volumes[i].counts.operations[RBLK_OP_READ];
	assert_int_equal(census->session_count, 1);
	assert_string_equal(census->sessions[0].initiator, "db1");
	free(census);
	return all;
}

static void closed_handles_leave_their_counts(void **state)
{
	struct world *world = world_create();
	struct tgt_handle *one = handle_open(world, 0), *two = handle_open(world, 0),
			  *other = handle_open(world, 1);
	uint64_t uses;

	(void)state;
	tgt_counts_add(one->access.counts, RBLK_OP_READ, 3, 5);
	tgt_counts_add(two->access.counts, RBLK_OP_READ, 3, 5);
	tgt_counts_add(other->access.counts, RBLK_OP_READ, 3, 5);
	assert_int_equal(counted(world, "v0", &uses), 2);
	assert_int_equal(uses, 2);
	handle_close(one);
	assert_int_equal(counted(world, "v0", &uses), 2);
	assert_int_equal(uses, 1);
	handle_close(two);
	assert_int_equal(counted(world, "v0", &uses), 2);
	assert_int_equal(uses, 0);
	assert_int_equal(counted(world, "v1", &uses), 1);
	/* Another volume gets the slot, and does not begin with the counts of the former one. */
	strcpy(world->volumes[0].config.name, "new");
	one = handle_open(world, 0);
	tgt_counts_add(one->access.counts, RBLK_OP_READ, 3, 5);
	handle_close(one);
	assert_int_equal(counted(world, "new", &uses), 1);
	assert_int_equal(counted(world, "v0", &uses), 0);
	handle_close(other);
	world_free(world);
}

static void handles_beyond_the_bound_count_for_the_volume(void **state)
{
	static struct tgt_handle *handles[TGT_TALLIES_OF_SESSION + 3];
	struct world *world = world_create();
	uint64_t uses;

	(void)state;
	for (unsigned int i = 0; i < TGT_TALLIES_OF_SESSION + 3; i++) {
		handles[i] = handle_open(world, 0);
		tgt_counts_add(handles[i]->access.counts, RBLK_OP_READ, 0, 0);
	}
	assert_int_equal(counted(world, "v0", &uses), TGT_TALLIES_OF_SESSION + 3);
	assert_int_equal(uses, TGT_TALLIES_OF_SESSION);
	for (unsigned int i = 0; i < TGT_TALLIES_OF_SESSION + 3; i++)
		handle_close(handles[i]);
	assert_int_equal(counted(world, "v0", &uses), TGT_TALLIES_OF_SESSION + 3);
	assert_int_equal(world->session.tallies, 0);
	assert_int_equal(world->reactor.tallies.count, 0);
	world_free(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_latency_is_in_its_bucket),
		cmocka_unit_test(closed_handles_leave_their_counts),
		cmocka_unit_test(handles_beyond_the_bound_count_for_the_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
