/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the fault store does to operations what its plan says, the same each time, and nothing
 * else; an invalid plan is refused with a message. Method: plans over a memory store, whose bytes
 * show what reached it; delays by the order in which operations end, never by the clock.
 */
#include "target/fault/fault.h"
#include "target/fault/plan.h"
#include "tests/unit/target_rig.h"

#include <sys/wait.h>
#include <unistd.h>

#define BYTES 65536

static void open_plan(struct rig *rig, const char *plan)
{
	struct tgt_volume_config config = rig_volume("memory", "", BYTES);
	char error[TGT_ERROR_BYTES];

	strcpy(config.fault, plan);
	assert_int_equal(rig_open(rig, tgt_fault_store.ops, &config, error), 0);
	assert_int_equal(rig->store->info.bytes, BYTES);
	assert_null(rig->store->info.direct); /* RDMA would bypass the faults */
}

static void fails_only_what_it_names(void **state)
{
	unsigned char *out = rig_buffer(4096, 0x11), *in = rig_buffer(4096, 0xff);
	struct rig rig;

	open_plan(&rig, "fail=write:ENOSPC:1");
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 4096), -ENOSPC);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 4096), 0);
	assert_int_equal(in[0], 0);
	assert_int_equal(in[4095], 0);
	rig_close(&rig);
	free(out);
	free(in);
}

static void after_and_count_bound_it(void **state)
{
	void *buffer = rig_buffer(4096, 0);
	const int wanted[] = {0, 0, -EIO, -EIO, 0, 0};
	struct rig rig;
	size_t i;

	open_plan(&rig, "fail=read,after=2,count=2");
	for (i = 0; i < UNIT_LENGTH(wanted); i++)
		assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, buffer, 4096), wanted[i]);
	rig_close(&rig);
	free(buffer);
}

static uint64_t failures(const char *plan)
{
	void *buffer = rig_buffer(4096, 0);
	uint64_t bits = 0;
	struct rig rig;
	int i;

	open_plan(&rig, plan);
	for (i = 0; i < 64; i++)
		bits = bits << 1 | (rig_io(&rig, TGT_IO_READ, 0, 0, buffer, 512) == -EIO);
	rig_close(&rig);
	free(buffer);
	return bits;
}

static void seed_decides(void **state)
{
	uint64_t first = failures("seed=7,fail=0.5");

	assert_int_equal(first, failures("seed=7,fail=0.5"));
	assert_int_not_equal(first, failures("seed=8,fail=0.5"));
	assert_in_range(__builtin_popcountll(first), 16, 48);
	assert_int_equal(failures("fail=0"), 0);
	assert_int_equal(failures("fail=1"), UINT64_MAX);
}

static void tears_in_the_middle(void **state)
{
	unsigned char *out = rig_buffer(8192, 0x22), *in = rig_buffer(8192, 0);
	struct rig rig;

	open_plan(&rig, "tear=1,count=1");
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 8192), -EIO);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 8192), 0);
	assert_memory_equal(in, out, 4096);
	assert_int_equal(in[4096], 0);
	assert_int_equal(in[8191], 0);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 8192), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 8192), 0);
	assert_memory_equal(in, out, 8192);
	rig_close(&rig);
	free(out);
	free(in);
}

/* After a FLUSH that loses, data of the last good FLUSH and of FUA writes is still there. */
static void loses_what_was_not_flushed(void **state)
{
	unsigned char *data = rig_buffer(8192, 0), *in = rig_buffer(32768, 0);
	char *directory = rig_directory(), path[64], error[TGT_ERROR_BYTES];
	struct tgt_volume_config config;
	struct rig rig;

	snprintf(path, sizeof(path), "%s/disk", directory);
	rig_file(path, BYTES);
	config = rig_volume("uring", path, 0);
	config.cache = TGT_CACHE_BUFFERED;
	strcpy(config.fault, "lose=flush,after=1,count=1");
	assert_int_equal(rig_open(&rig, tgt_fault_store.ops, &config, error), 0);

	memset(data, 1, 8192);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, data, 8192), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), 0);
	memset(data, 2, 8192); /* across the end of the first, twice */
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 4096, data, 8192), 0);
	memset(data, 3, 8192);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 4096, data, 8192), 0);
	memset(data, 4, 8192); /* durable, in the middle of it */
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, TGT_IO_FUA, 8192, data, 512), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 4096, in, 8192), 0);
	assert_int_equal(in[0], 3);
	assert_int_equal(in[4096], 4);
	assert_int_equal(in[8191], 3);

	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), -EIO);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 16384), 0);
	assert_int_equal(in[0], 1);
	assert_int_equal(in[8191], 1);
	assert_int_equal(in[8192], 4);
	assert_int_equal(in[8192 + 511], 4);
	assert_int_equal(in[8192 + 512], 0);
	assert_int_equal(in[16383], 0);
	/* From then on nothing is reverted. */
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 4096, data, 8192), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 4096, in, 8192), 0);
	assert_memory_equal(in, data, 8192);
	rig_close(&rig);

	config = rig_volume("memory", "", BYTES);
	strcpy(config.fault, "lose=flush");
	assert_int_equal(rig_open(&rig, tgt_fault_store.ops, &config, error), -EINVAL);
	assert_string_equal(error,
			    "fault: \"lose\" needs a store that can flush, not a memory store");
	rig_directory_remove(directory);
	free(data);
	free(in);
}

/* A process that ends without closing its store, as if it had been killed. */
static void power_child(const struct tgt_volume_config *config)
{
	unsigned char *data = rig_buffer(8192, 0);
	char error[TGT_ERROR_BYTES];
	struct rig rig;

	if (rig_open(&rig, tgt_fault_store.ops, config, error) != 0)
		_exit(1);
	memset(data, 1, 8192);
	rig_io(&rig, TGT_IO_WRITE, 0, 0, data, 8192);
	rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0);
	memset(data, 2, 8192); /* across the end of the first, twice */
	rig_io(&rig, TGT_IO_WRITE, 0, 4096, data, 8192);
	memset(data, 3, 8192);
	rig_io(&rig, TGT_IO_WRITE, 0, 4096, data, 8192);
	memset(data, 4, 8192); /* durable, in the middle of it */
	rig_io(&rig, TGT_IO_WRITE, TGT_IO_FUA, 8192, data, 512);
	rig_io(&rig, TGT_IO_WRITE_ZEROES, 0, 32768, NULL, 4096);
	_exit(0);
}

static void power_open(struct rig *rig, const struct tgt_volume_config *config, uint8_t epoch[16])
{
	char error[TGT_ERROR_BYTES];

	assert_int_equal(rig_open(rig, tgt_fault_store.ops, config, error), 0);
	assert_true(rig->store->info.volatile_cache);
	memcpy(epoch, rig->store->info.cache_epoch, 16);
}

/* Unflushed data is lost with the process, and the cache epoch changes; a clean end loses
 * nothing. */
static void loses_power(void **state)
{
	char *directory = rig_directory(), path[64], error[TGT_ERROR_BYTES];
	unsigned char *in = rig_buffer(32768, 0);
	struct tgt_volume_config config;
	uint8_t before[16], after[16];
	struct rig rig;
	int status;
	pid_t child;

	snprintf(path, sizeof(path), "%s/disk", directory);
	rig_file(path, BYTES);
	config = rig_volume("uring", path, 0);
	config.cache = TGT_CACHE_BUFFERED;
	config.lock_wait_ms = 60000; /* until the kernel has ended the process's last I/O */
	strcpy(config.fault, "power=1");
	power_open(&rig, &config, before);
	rig_close(&rig);
	child = fork();
	if (child == 0)
		power_child(&config);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);

	power_open(&rig, &config, after);
	assert_memory_not_equal(before, after, 16);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 16384), 0);
	assert_int_equal(in[0], 1);
	assert_int_equal(in[8191], 1);
	assert_int_equal(in[8192], 4);
	assert_int_equal(in[8192 + 511], 4);
	assert_int_equal(in[8192 + 512], 0);
	assert_int_equal(in[16383], 0);

	memset(in, 5, 4096);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, in, 4096), 0);
	rig_close(&rig);
	power_open(&rig, &config, before);
	assert_memory_equal(before, after, 16);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 4096), 0);
	assert_int_equal(in[0], 5);
	rig_close(&rig);

	config = rig_volume("memory", "", BYTES);
	strcpy(config.fault, "power=1");
	assert_int_equal(rig_open(&rig, tgt_fault_store.ops, &config, error), -EINVAL);
	strcpy(config.fault, "power=1,lose=flush");
	assert_int_equal(rig_open(&rig, tgt_fault_store.ops, &config, error), -EINVAL);
	assert_string_equal(error, "fault: \"lose\" and \"power\" exclude each other");
	rig_directory_remove(directory);
	free(in);
}

/* EXTENTS changes nothing, so its range, however long, is not read to be reverted. */
static void extents_are_nothing_to_lose(void **state)
{
	char *directory = rig_directory(), path[64], error[TGT_ERROR_BYTES];
	const uint64_t bytes = 1ull << 40;
	struct tgt_extent *extents = rig_buffer(4096, 0);
	struct tgt_volume_config config;
	struct rig_io one = {.io = {.kind = TGT_IO_EXTENTS,
				    .bytes = bytes,
				    .buffer = extents,
				    .buffer_index = -1,
				    .extent_room = 4,
				    .extent_unit = 4096}};
	struct rig rig;

	snprintf(path, sizeof(path), "%s/disk", directory);
	rig_file(path, (off_t)bytes);
	config = rig_volume("uring", path, 0);
	config.cache = TGT_CACHE_BUFFERED;
	strcpy(config.fault, "lose=flush");
	assert_int_equal(rig_open(&rig, tgt_fault_store.ops, &config, error), 0);
	assert_int_equal(rig_do(&rig, &one), 0);
	assert_int_equal(extents[0].bytes, bytes);
	rig_close(&rig);
	rig_directory_remove(directory);
	free(extents);
}

/* The delayed write begins after the read that came later: the read returns the old bytes. */
static void delay_begins_later(void **state)
{
	struct rig_io write = {.io = {.kind = TGT_IO_WRITE,
				      .bytes = 512,
				      .buffer_index = -1,
				      .done = rig_io_done}};
	unsigned char *out = rig_buffer(4096, 0x33), *in = rig_buffer(4096, 0xff);
	struct rig rig;
	int status;

	open_plan(&rig, "delay=write:20ms");
	write.io.buffer = out;
	assert_int_equal(rig.store->ops->submit(rig.channel, &write.io), 0);
	memset(in, 0xff, 4096);
	/* A memory store answers at once, so this does not wait for the ring. */
	{
		struct rig_io read = {.io = {.kind = TGT_IO_READ,
					     .bytes = 512,
					     .buffer = in,
					     .buffer_index = -1,
					     .done = rig_io_done}};

		assert_int_equal(rig.store->ops->submit(rig.channel, &read.io), 1);
	}
	assert_int_equal(in[0], 0);
	assert_int_equal(write.done, 0);
	while (!write.done) {
		status = tgt_ring_wait(rig.ring, 1000);
		assert_true(status == 0 || status == -ETIME || status == -EINTR);
		tgt_ring_reap(rig.ring, 64);
	}
	assert_int_equal(write.error, 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 512), 0);
	assert_memory_equal(in, out, 512);
	rig_close(&rig);
	free(out);
	free(in);
}

/* A disk with a unit: what is untorn is whole or absent; the store behind it knows of none. */
static void an_untorn_write_is_not_torn(void **state)
{
	unsigned char *out = rig_buffer(8192, 'x'), *in = rig_buffer(8192, 0);
	struct rig rig;

	open_plan(&rig, "untorn=16384,tear=1,count=2");
	assert_int_equal(rig.store->info.untorn_min_bytes, rig.store->info.block_bytes);
	assert_int_equal(rig.store->info.untorn_max_bytes, 16384);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, TGT_IO_UNTORN, 0, out, 8192), -EIO);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 8192), 0);
	assert_int_equal(in[0], 0);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 8192), -EIO);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 8192), 0);
	assert_int_equal(in[4095], 'x');
	assert_int_equal(in[4096], 0);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, TGT_IO_UNTORN, 0, out, 8192), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 8192), 0);
	assert_memory_equal(in, out, 8192);
	rig_close(&rig);
	free(out);
	free(in);
}

static void plans_are_judged(void **state)
{
	static const struct {
		const char *plan, *why;
	} bad[] = {
		{",", "it has no fault"},
		{"seed=3", "it has no fault"},
		{"delay",
		 "\"delay\" is not one of delay=, fail=, tear=, lose=, power=, untorn=, after=, count=, seed="},
		{"slow=5ms",
		 "\"slow\" is not one of delay=, fail=, tear=, lose=, power=, untorn=, after=, count=, seed="},
		{"delay=write", "\"delay\" needs a time, as in delay=5ms"},
		{"delay=61s", "\"61s\" is neither kinds of operations nor a probability nor "
			      "a time up to 60s"},
		{"fail=1.5", "\"1.5\" is neither kinds of operations nor a probability nor "
			     "an error's name"},
		{"fail=write:EPERM",
		 "\"EPERM\" is neither kinds of operations nor a probability nor "
		 "an error's name"},
		{"tear=read", "\"tear\" is for writes only"},
		{"power=write", "\"power\" is not of some kinds of operations"},
		{"tear=close", "\"close\" can only be delayed or fail"},
		{"lose=write+flush", "\"lose\" is for flushes only"},
		{"after=1,fail=1", "\"after\" needs a fault before it"},
		{"fail=1,count=many", "\"many\" is not a number"},
		{"untorn=12288", "\"untorn\" is a power of two, at most 16777216"},
		{"untorn=33554432", "\"untorn\" is a power of two, at most 16777216"},
	};
	struct tgt_fault_plan plan;
	char why[256];
	size_t i;

	for (i = 0; i < UNIT_LENGTH(bad); i++) {
		assert_int_equal(tgt_fault_parse(bad[i].plan, &plan, why, sizeof(why)), -EINVAL);
		assert_string_equal(why, bad[i].why);
	}
	assert_int_equal(tgt_fault_parse("delay=read+write:5ms:0.25,count=3,fail=flush,seed=9",
					 &plan, why, sizeof(why)),
			 0);
	assert_int_equal(plan.seed, 9);
	assert_int_equal(plan.rule_count, 2);
	assert_int_equal(plan.rules[0].kinds, 1u << TGT_IO_READ | 1u << TGT_IO_WRITE);
	assert_int_equal(plan.rules[0].delay_us, 5000);
	assert_true(plan.rules[0].probability == 0.25);
	assert_int_equal(plan.rules[0].count, 3);
	assert_int_equal(plan.rules[1].kinds, 1u << TGT_IO_FLUSH);
	assert_int_equal(plan.rules[1].error, -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fails_only_what_it_names),
		cmocka_unit_test(after_and_count_bound_it),
		cmocka_unit_test(seed_decides),
		cmocka_unit_test(tears_in_the_middle),
		cmocka_unit_test(loses_what_was_not_flushed),
		cmocka_unit_test(loses_power),
		cmocka_unit_test(extents_are_nothing_to_lose),
		cmocka_unit_test(delay_begins_later),
		cmocka_unit_test(an_untorn_write_is_not_torn),
		cmocka_unit_test(plans_are_judged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
