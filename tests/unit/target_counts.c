/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a latency is counted in the bucket that has it; what a volume's handles have done is in a
 * snapshot exactly once, while they are open and after they were closed, with and without stats of
 * their own; and a session has no more than its part of these. Likewise what an initiator has done, by
 * its name, of which so many are told apart as the bounds say. Method: buckets of many latencies; a
 * reactor made by the test, with handles of two volumes.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/serve/snapshot.h"
#include "target/serve/host.h"
#include "target/serve/peers.h"
#include "target/serve/names.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/session.h"
#include "target/serve/stats.h"
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

/* -- stats ------------------------------------------------------------------------------------- */

#define POOL_BYTES (1u << 20)
#define WHERE 9u /* the last byte of the host's address */

struct world {
	struct tgt_reactor reactor;
	struct tgt_peers peers;
	struct tgt_host host;
	struct tgt_session session;
	struct tgt_volume volumes[2];
	struct tgt_channel channels[2];
	void *memory;
};

static struct world *world_create(void)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->memory = aligned_alloc(4096, POOL_BYTES);
	world->reactor.loop.pool = tgt_pool_create(world->memory, POOL_BYTES, POOL_BYTES);
	assert_non_null(world->reactor.loop.pool);
	world->reactor.pool_bytes = tgt_pool_free_bytes(world->reactor.loop.pool);
	TAILQ_INIT(&world->reactor.sessions);
	tgt_stats_table_init(&world->reactor.stats_table);
	world->peers.names = tgt_names_create();
	assert_non_null(world->peers.names);
	world->reactor.peers = &world->peers;
	world->host.key.address[15] = WHERE;
	world->session.host = &world->host;
	world->session.reactor = &world->reactor;
	world->session.number = 7;
	strcpy(world->session.initiator, "db1");
	TAILQ_INSERT_TAIL(&world->reactor.sessions, &world->session, link);
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(world->volumes[i].config.name, RBLK_NAME_BYTES, "v%u", i);
		world->volumes[i].slot = i;
		world->channels[i].volume = &world->volumes[i];
	}
	return world;
}

static void world_free(struct world *world)
{
	tgt_stats_table_fini(&world->reactor.stats_table);
	tgt_names_destroy(world->peers.names);
	tgt_pool_destroy(world->reactor.loop.pool);
	free(world->memory);
	free(world);
}

static struct tgt_handle *handle_open(struct world *world, unsigned int volume)
{
	struct tgt_handle *handle = calloc(1, sizeof(*handle));

	assert_non_null(handle);
	handle->session = &world->session;
	handle->access.channel = &world->channels[volume];
	tgt_stats_open(handle);
	return handle;
}

static void handle_close(struct tgt_handle *handle)
{
	tgt_stats_close(handle);
	free(handle);
}

/* Operations on the volume that a snapshot has: in its uses, and in all. */
static uint64_t counted(struct world *world, const char *volume, uint64_t *uses)
{
	struct tgt_snapshot *snapshot = tgt_snapshot_take(&world->reactor);
	uint64_t all;

	assert_non_null(snapshot);
	*uses = 0;
	for (unsigned int i = 0; i < snapshot->use_count; i++) {
		assert_int_equal(snapshot->uses[i].session, 7);
		if (!strcmp(snapshot->uses[i].volume, volume))
			*uses += snapshot->uses[i].counts.operations[RBLK_OP_READ];
	}
	all = *uses;
	for (unsigned int i = 0; i < snapshot->volume_count; i++)
		if (!strcmp(snapshot->volumes[i].name, volume))
			all += snapshot->volumes[i].counts.operations[RBLK_OP_READ];
	assert_int_equal(snapshot->session_count, 1);
	assert_string_equal(snapshot->sessions[0].initiator, "db1");
	free(snapshot);
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
	static struct tgt_handle *handles[128];
	struct world *world = world_create();
	uint64_t uses;

	(void)state;
	assert_true(tgt_stats_quota.each + 3 <= UNIT_LENGTH(handles));
	for (unsigned int i = 0; i < tgt_stats_quota.each + 3; i++) {
		handles[i] = handle_open(world, 0);
		tgt_counts_add(handles[i]->access.counts, RBLK_OP_READ, 0, 0);
	}
	assert_int_equal(counted(world, "v0", &uses), tgt_stats_quota.each + 3);
	assert_int_equal(uses, tgt_stats_quota.each);
	for (unsigned int i = 0; i < tgt_stats_quota.each + 3; i++)
		handle_close(handles[i]);
	assert_int_equal(counted(world, "v0", &uses), tgt_stats_quota.each + 3);
	assert_int_equal(world->session.stats_count, 0);
	assert_int_equal(world->reactor.stats_table.count, 0);
	world_free(world);
}

/* Reads of an initiator, with those of its open handles; `found`: how many entries it has. */
static uint64_t counted_for(struct world *world, const char *name, bool proven, unsigned int *found)
{
	struct tgt_snapshot *snapshot = tgt_snapshot_take(&world->reactor);
	unsigned int number = UINT32_MAX;
	uint64_t all = 0;

	assert_non_null(snapshot);
	*found = 0;
	for (unsigned int i = 0; i < snapshot->initiator_count; i++) {
		const struct tgt_initiator_stats *initiator = &snapshot->initiators[i];

		if (strcmp(initiator->name, name) || initiator->proven != proven)
			continue;
		++*found;
		number = initiator->number;
		all += initiator->counts.operations[RBLK_OP_READ];
	}
	for (unsigned int i = 0; i < snapshot->use_count; i++)
		if (snapshot->uses[i].initiator == number)
			all += snapshot->uses[i].counts.operations[RBLK_OP_READ];
	free(snapshot);
	return all;
}

static void world_rename(struct world *world, const char *name, bool proven)
{
	memset(world->session.initiator, 0, sizeof(world->session.initiator));
	strcpy(world->session.initiator, name);
	world->session.proven = proven;
}

/* Also of several names, volumes and sessions; a proof makes another one of a name. */
static void closed_handles_leave_their_counts_to_the_initiator(void **state)
{
	struct world *world = world_create();
	struct tgt_handle *one = handle_open(world, 0), *two = handle_open(world, 1), *liar;
	unsigned int found;

	(void)state;
	tgt_counts_add(one->access.counts, RBLK_OP_READ, 3, 5);
	tgt_counts_add(two->access.counts, RBLK_OP_READ, 3, 5);
	assert_int_equal(counted_for(world, "db1", false, &found), 2);
	handle_close(one);
	assert_int_equal(counted_for(world, "db1", false, &found), 2);
	world_rename(world, "db1", true);
	liar = handle_open(world, 0);
	tgt_counts_add(liar->access.counts, RBLK_OP_READ, 3, 5);
	/* It had the old name when it was opened. */
	handle_close(two);
	assert_int_equal(counted_for(world, "db1", false, &found), 2);
	assert_int_equal(found, 1);
	handle_close(liar);
	assert_int_equal(counted_for(world, "db1", true, &found), 1);
	assert_int_equal(found, 1);
	assert_int_equal(counted_for(world, "", false, &found), 0);
	assert_int_equal(found, 0);
	world_free(world);
}

/* Opens and closes, with one read; true: the name has counts of its own. */
static bool name_is_told_apart(struct world *world, unsigned int address, unsigned int n,
			       bool proven)
{
	struct tgt_handle *handle;
	char name[RBLK_NAME_BYTES];
	unsigned int found;

	world->host.key.address[15] = (uint8_t)address;
	snprintf(name, sizeof(name), "%s%u-%u", proven ? "p" : "u", address, n);
	world_rename(world, name, proven);
	handle = handle_open(world, 0);
	tgt_counts_add(handle->access.counts, RBLK_OP_READ, 3, 5);
	handle_close(handle);
	if (counted_for(world, name, proven, &found) == 0)
		return false;
	assert_int_equal(found, 1);
	return true;
}

static void names_beyond_the_bounds_are_counted_together(void **state)
{
	struct world *world = world_create();
	unsigned int told = 0, tried = 0, found;

	(void)state;
	for (unsigned int n = 0; n < tgt_names_quota.each + 4; n++, tried++)
		told += name_is_told_apart(world, WHERE, n, false);
	assert_int_equal(told, tgt_names_quota.each);
	/* Other addresses have theirs, up to the bound of all. */
	for (unsigned int address = 20; address < 40; address++)
		for (unsigned int n = 0; n < tgt_names_quota.each; n++, tried++)
			told += name_is_told_apart(world, address, n, false);
	assert_int_equal(told, tgt_names_quota.most);
	/* The rest is for those who can prove their name, from one address, too. */
	for (unsigned int n = 0; n < TGT_NAMES_MAX; n++, tried++)
		told += name_is_told_apart(world, WHERE, n, true);
	assert_int_equal(told, TGT_NAMES_MAX);
	assert_int_equal(counted_for(world, "", false, &found), tried - told);
	assert_int_equal(found, 1);
	/* Who was told apart, still is, wherever it comes from; nothing is lost or counted twice. */
	world->host.key.address[15] = 77;
	world_rename(world, "u9-0", false);
	handle_close(handle_open(world, 0));
	assert_int_equal(counted_for(world, "u9-0", false, &found), 1);
	assert_int_equal(found, 1);
	assert_int_equal(counted_for(world, "", false, &found), tried - told);
	world_free(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_latency_is_in_its_bucket),
		cmocka_unit_test(closed_handles_leave_their_counts),
		cmocka_unit_test(handles_beyond_the_bound_count_for_the_volume),
		cmocka_unit_test(closed_handles_leave_their_counts_to_the_initiator),
		cmocka_unit_test(names_beyond_the_bounds_are_counted_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
