/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: data memory for far less than the clients ask for slows all clients and starves none: data
 * is right, small loads progress next to large ones, and commands that need no data memory do not
 * wait (C6). Method: loads of very different depth on a disk that takes its time, over a pool that
 * holds four of the largest transfers; a bare connection that sends PINGs.
 */
#include "tests/unit/unit.h"

#include "tests/e2e/daemon.h"
#include "tests/e2e/hostile_rules.h"
#include "tests/e2e/load.h"
#include "tests/e2e/raw.h"

#define LOADS 4u
#define PART (4u << 20)
#define ROUNDS 10u

static struct e2e_daemon server;
static struct e2e_file disk;

static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", LOADS * PART);
	e2e_daemon_start(&server, "--reactors", "1", "--pool-size", "1M", "--max-io", "256K",
			 "--cache", "buffered", "--fault", "delay=2ms", disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

static void nobody_starves_over_a_small_pool(void **state)
{
	static const uint32_t depths[LOADS] = {1, 8, 32, 64};
	struct load *loads[LOADS];
	struct raw raw;

	(void)state;
	raw_init(&raw);
	assert_true(raw_connect(&raw, server.host));
	for (unsigned int i = 0; i < LOADS; i++) {
		const struct load_options options = {
			.uri = e2e_daemon_uri(&server, "disk"),
			.queues = 1 + i % 2,
			.depth = depths[i],
			.offset = (uint64_t)i * PART,
			.bytes = PART,
			.seed = i,
		};

		loads[i] = load_start(&options);
	}
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < LOADS; i++)
			load_wait(loads[i], 5);
		assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 0), RBLK_OK);
	}
	for (unsigned int i = 0; i < LOADS; i++)
		assert_true(load_stop(loads[i]) >= 5 * ROUNDS);
	raw_close(&raw);
}

/* One initiator holds all of the pool. The target does not wait for it, and still has what
 * others need to connect, open and close. */
static void who_holds_the_pool_keeps_nobody_out(void **state)
{
	struct raw holder, other;
	uint32_t volume;

	(void)state;
	raw_init(&holder);
	assert_true(raw_connect(&holder, server.host));
	volume = raw_open(&holder, "disk");
	/* It receives nothing meanwhile: what the socket does not hold stays in the pool. */
	for (uint16_t tag = 1; tag < 24; tag++)
		raw_io(&holder, RBLK_OP_READ, tag, volume, 0, 512, 512 * 512);
	for (unsigned int i = 0; i < 5; i++) {
		raw_init(&other);
		assert_true(raw_connect(&other, server.host));
		volume = raw_open(&other, "disk");
		assert_int_not_equal(volume, 0);
		assert_int_equal(raw_simple(&other, RBLK_OP_KEEPALIVE, 0), RBLK_OK);
		raw_close(&other);
	}
	/* On a slow machine the last ones may have waited longer than the target allows. */
	for (uint16_t tag = 1; tag < 24; tag++) {
		uint16_t status = raw_wait(&holder, tag);

		assert_true(status == RBLK_OK || status == RBLK_E_BUSY);
	}
	raw_close(&holder);
}

static const char *rule(unsigned int index)
{
	return index ? NULL : "C6";
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_starves_over_a_small_pool),
		cmocka_unit_test(who_holds_the_pool_keeps_nobody_out),
	};

	if (hostile_lists(argc, argv, rule))
		return 0;
	return cmocka_run_group_tests(tests, start, stop);
}
