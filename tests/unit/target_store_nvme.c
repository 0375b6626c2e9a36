/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the nvme store does each operation by the right commands and within the namespace's limits; only FLUSH and FUA
 * make durable what the device has cached; errors are told by their kind, and what the device gives back for now is
 * repeated. Method: a namespace in memory (nvme_fake.h) behind a real io_uring. The kernel's driver, and a real device, are
 * for the lab (target-nvme.sh). target_nvme_path.c has the opening.
 */
#include "target/store/nvme_status.h"
#include "tests/unit/nvme_fake.h"

static unsigned char *pattern(size_t bytes)
{
	unsigned char *buffer = rig_buffer(bytes, 0);

	for (size_t i = 0; i < bytes; i++)
		buffer[i] = (unsigned char)(i * 7 + i / 251 + 1);
	return buffer;
}

/* -- operations -------------------------------------------------------------------------------- */

static void writes_and_reads(void **state)
{
	unsigned char *out = pattern(65536), *in = rig_buffer(65536, 0);
	struct rig rig;

	(void)state;
	fake_open(&rig);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 8192, out, 65536), 0);
	assert_memory_equal(fake.data + 8192, out, 65536);
	assert_int_equal(fake.command_count, 1);
	assert_int_equal(fake.commands[0].opcode, TGT_NVME_WRITE);
	assert_int_equal(fake.commands[0].first, 16);
	assert_int_equal(fake.commands[0].blocks, 128);
	assert_int_equal(fake.commands[0].flags, 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 8192, in, 65536), 0);
	assert_memory_equal(in, out, 65536);
	/* Data of a capsule. */
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, TGT_IO_FUA, FAKE_BYTES - 512, out + 512, 512), 0);
	assert_memory_equal(fake.data + FAKE_BYTES - 512, out + 512, 512);
	rig_close(&rig);
	free(out);
	free(in);
}

static void larger_blocks_are_counted_in_their_size(void **state)
{
	unsigned char *out = pattern(16384);
	struct rig rig;

	(void)state;
	fake.shift = 12;
	fake.block_bytes = 4096;
	fake_open(&rig);
	assert_int_equal(rig.store->info.block_bytes, 4096);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 12288, out, 16384), 0);
	assert_int_equal(fake.commands[0].first, 3);
	assert_int_equal(fake.commands[0].blocks, 4);
	assert_memory_equal(fake.data + 12288, out, 16384);
	rig_close(&rig);
	free(out);
}

/* Of MDTS, of the driver and of the memory's pages, the smallest limit counts. */
static void large_transfers_are_split(void **state)
{
	static const struct {
		unsigned int mdts, max_kb, segments, commands;
	} ways[] = {{7, 1280, 0, 2}, {5, 1280, 0, 8}, {0, 256, 0, 4}, {0, 1280, 65, 4}, {0, 1280, 257, 1}};
	unsigned char *out = pattern(1 << 20), *in = rig_buffer(1 << 20, 0);

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(ways); i++) {
		struct rig rig;

		fake.mdts = ways[i].mdts;
		fake.max_kb = ways[i].max_kb;
		fake.segments = ways[i].segments;
		memset(fake.data, 0, sizeof(fake.data));
		fake_open(&rig);
		assert_int_equal(rig_io(&rig, TGT_IO_WRITE, TGT_IO_FUA, 4096, out, 1 << 20), 0);
		assert_int_equal(fake.command_count, ways[i].commands);
		for (unsigned int j = 0; j < fake.command_count; j++)
			assert_int_equal(fake.commands[j].flags, TGT_NVME_FUA);
		assert_memory_equal(fake.durable + 4096, out, 1 << 20);
		memset(in, 0, 1 << 20);
		assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 4096, in, 1 << 20), 0);
		assert_int_equal(fake.command_count, 2 * ways[i].commands);
		assert_memory_equal(in, out, 1 << 20);
		rig_close(&rig);
	}
	free(out);
	free(in);
}

static void only_flush_and_fua_make_durable(void **state)
{
	unsigned char *out = pattern(8192), *nothing = rig_buffer(8192, 0);
	struct rig rig;

	(void)state;
	fake_open(&rig);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 8192), 0);
	assert_memory_equal(fake.durable, nothing, 8192);
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), 0);
	assert_memory_equal(fake.durable, out, 8192);
	assert_int_equal(fake.command_count, 2);
	assert_int_equal(fake.commands[1].opcode, TGT_NVME_FLUSH);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, TGT_IO_FUA, 16384, out, 8192), 0);
	assert_memory_equal(fake.durable + 16384, out, 8192);
	assert_int_equal(fake.command_count, 3);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE_ZEROES, TGT_IO_FUA, 16384, NULL, 8192), 0);
	assert_memory_equal(fake.durable + 16384, nothing, 8192);
	rig_close(&rig);
	/* Without a volatile cache initiators need not flush; one that comes is done nevertheless. */
	fake.vwc = 0;
	fake_open(&rig);
	assert_false(rig.store->info.volatile_cache);
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), 0);
	assert_int_equal(fake.commands[0].opcode, TGT_NVME_FLUSH);
	rig_close(&rig);
	free(out);
	free(nothing);
}

static void ranges_are_zeroed_and_given_back(void **state)
{
	static const struct {
		enum tgt_io_kind kind;
		uint32_t flags;
		unsigned int dlfeat, opcode, commands;
		uint32_t wanted;
	} ways[] = {
		{TGT_IO_DISCARD, 0, 9, TGT_NVME_DATASET_MANAGEMENT, 2, 0},
		{TGT_IO_WRITE_ZEROES, 0, 9, TGT_NVME_WRITE_ZEROES, 32, TGT_NVME_DEALLOCATE},
		{TGT_IO_WRITE_ZEROES, TGT_IO_NO_UNMAP, 9, TGT_NVME_WRITE_ZEROES, 32, 0},
		/* What it gives back might not read as zeroes. */
		{TGT_IO_WRITE_ZEROES, 0, 8, TGT_NVME_WRITE_ZEROES, 32, 0},
		{TGT_IO_WRITE_ZEROES, TGT_IO_FUA, 1, TGT_NVME_WRITE_ZEROES, 32, TGT_NVME_FUA},
	};
	unsigned char *zeroes = rig_buffer(2 << 20, 0), *ones = rig_buffer(FAKE_BYTES, 0x77);

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(ways); i++) {
		struct rig rig;

		fake.dlfeat = ways[i].dlfeat;
		memcpy(fake.data, ones, FAKE_BYTES);
		fake_open(&rig);
		assert_int_equal(rig.store->info.max_discard_bytes, 16 << 20);
		assert_int_equal(rig_io(&rig, ways[i].kind, ways[i].flags, 8192, NULL, 2 << 20), 0);
		assert_int_equal(fake.command_count, ways[i].commands);
		for (unsigned int j = 0; j < fake.command_count; j++) {
			assert_int_equal(fake.commands[j].opcode, ways[i].opcode);
			assert_int_equal(fake.commands[j].flags, ways[i].wanted);
		}
		assert_memory_equal(fake.data, ones, 8192);
		assert_memory_equal(fake.data + 8192, zeroes, 2 << 20);
		assert_memory_equal(fake.data + 8192 + (2 << 20), ones, 8192);
		rig_close(&rig);
	}
	free(zeroes);
	free(ones);
}

static void what_the_device_lacks_is_not_offered(void **state)
{
	struct rig rig;

	(void)state;
	fake.zeroes_max = 0;
	fake_open(&rig);
	assert_false(rig.store->info.can_write_zeroes);
	assert_true(rig.store->info.can_discard);
	rig_close(&rig);
	fake.zeroes_max = 65536;
	fake.discard_max = 0;
	fake_open(&rig);
	assert_true(rig.store->info.can_write_zeroes);
	assert_false(rig.store->info.can_discard);
	assert_int_equal(rig_io(&rig, TGT_IO_EXTENTS, 0, 0, NULL, 4096), -EOPNOTSUPP);
	rig_close(&rig);
}

/* -- fixed buffers ----------------------------------------------------------------------------- */

static int fixed_io(struct rig *rig, enum tgt_io_kind kind, void *buffer, uint64_t bytes)
{
	struct rig_io one = {.io = {.kind = kind, .offset = 4096, .bytes = bytes, .buffer = buffer, .buffer_index = 0}};

	return rig_do(rig, &one);
}

static void fixed_buffers_are_used_where_the_kernel_takes_them(void **state)
{
	unsigned char *pool = pattern(65536);
	struct iovec iov = {pool, 65536};
	unsigned int fixed = 0;
	struct rig rig;

	(void)state;
	fake_open(&rig);
	/* Registered after the ring was widened, as before. */
	assert_int_equal(tgt_ring_register_buffers(rig.ring, &iov, 1), 0);
	assert_int_equal(fixed_io(&rig, TGT_IO_WRITE, pool, 65536), 0);
	assert_true(fake.commands[0].fixed);
	assert_memory_equal(fake.data + 4096, pool, 65536);
	/* From now on the kernel refuses: each is done all the same, and soon none is tried any more. */
	fake.fixed_refused = true;
	fake.command_count = 0;
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(fixed_io(&rig, TGT_IO_READ, pool, 4096), 0);
	for (unsigned int i = 0; i < fake.command_count; i++)
		fixed += fake.commands[i].fixed;
	assert_int_equal(fixed, 16);
	assert_int_equal(fake.command_count, 36);
	rig_close(&rig);
	/* A kernel that takes none is found out when the volume is opened. */
	fake_open(&rig);
	assert_int_equal(tgt_ring_register_buffers(rig.ring, &iov, 1), 0);
	assert_int_equal(fixed_io(&rig, TGT_IO_READ, pool, 4096), 0);
	assert_int_equal(fake.command_count, 1);
	assert_false(fake.commands[0].fixed);
	rig_close(&rig);
	free(pool);
}

static void buffers_from_before_are_in_the_wide_half(void **state)
{
	unsigned char *pool = rig_buffer(8192, 0);
	struct iovec iov[2] = {{pool, 4096}, {pool + 4096, 4096}};
	struct tgt_ring *ring;

	(void)state;
	assert_int_equal(tgt_ring_create(4, 2, &ring), 0);
	assert_int_equal(tgt_ring_register_buffers(ring, &iov[0], 1), 0);
	assert_int_equal(tgt_ring_widen(ring), 0);
	assert_true(tgt_ring_wide_has_buffer(ring, 0));
	assert_false(tgt_ring_wide_has_buffer(ring, 1));
	assert_int_equal(tgt_ring_register_buffers(ring, &iov[1], 1), 1);
	assert_true(tgt_ring_wide_has_buffer(ring, 1));
	assert_false(tgt_ring_wide_has_buffer(ring, -1));
	tgt_ring_destroy(ring);
	free(pool);
}

/* -- errors ------------------------------------------------------------------------------------ */

/* A WRITE whose first `count` commands get `result`. */
static int write_with(struct rig *rig, int result, unsigned int count)
{
	static unsigned char data[4096] __attribute__((aligned(4096)));

	fake.result = result;
	fake.opcode = TGT_NVME_WRITE;
	fake.count = count;
	fake.command_count = 0;
	fake.pauses = 0;
	return rig_io(rig, TGT_IO_WRITE, 0, 0, data, sizeof(data));
}

static void statuses_have_their_errors(void **state)
{
	static const struct {
		int result, error;
	} ways[] = {
		{0x4281, -ENODATA}, {0x281, -ENODATA}, {0x4280, -ENODATA}, {0x282, -EILSEQ}, {0x81, -ENOSPC},
		{0x20, -EROFS},	    {0x182, -EROFS},   {0x80, -EIO},	   {0x83, -EIO},     {0x1, -EIO},
		{0x7ff, -EIO},	    {-ENODEV, -ENODEV}, {-EIO, -EIO},	   {0x4006, -EIO},   {0x4370, -EIO},
	};
	struct rig rig;

	(void)state;
	fake_open(&rig);
	for (size_t i = 0; i < UNIT_LENGTH(ways); i++) {
		assert_int_equal(write_with(&rig, ways[i].result, 1), ways[i].error);
		assert_int_equal(fake.command_count, 1);
		assert_int_equal(fake.pauses, 0);
	}
	/* Ranges may be unsupported; a FLUSH that is has failed. */
	fake.result = 0x4001;
	fake.count = 1;
	fake.opcode = TGT_NVME_FLUSH;
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), -EIO);
	fake.count = 1;
	fake.opcode = TGT_NVME_DATASET_MANAGEMENT;
	assert_int_equal(rig_io(&rig, TGT_IO_DISCARD, 0, 0, NULL, 4096), -EOPNOTSUPP);
	/* And its place is free again, however often. */
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(rig_io(&rig, TGT_IO_DISCARD, 0, 0, NULL, 4096), 0);
	rig_close(&rig);
	assert_string_equal(tgt_nvme_words(0x4281), "unrecovered read error");
	assert_string_equal(tgt_nvme_words(0x777), "a status that rblkd does not know");
}

static void what_comes_back_for_now_is_repeated(void **state)
{
	static const int transients[] = {0x6, 0x7, 0x8, 0x21, 0x82, 0x301, 0x302, 0x303, 0x370, 0x371, 0x37e, -EINTR, -EAGAIN};
	struct rig rig;

	(void)state;
	fake_open(&rig);
	for (size_t i = 0; i < UNIT_LENGTH(transients); i++) {
		assert_int_equal(write_with(&rig, transients[i], 3), 0);
		assert_int_equal(fake.command_count, 4);
		assert_int_equal(fake.pauses, 3);
	}
	/* For half a minute. */
	assert_int_equal(write_with(&rig, -EINTR, 1000), -EINTR);
	assert_int_equal(fake.command_count, 301);
	assert_int_equal(write_with(&rig, 0x370, 1000), -EIO);
	assert_int_equal(fake.pauses, 300);
	fake.count = 0;
	rig_close(&rig);
	/* With several paths, one that has gone is not the namespace's end. */
	fake.subsystem = true;
	fake_open(&rig);
	assert_int_equal(write_with(&rig, -ENODEV, 2), 0);
	assert_int_equal(write_with(&rig, -EINVAL, 2), 0);
	rig_close(&rig);
}

/* A part of a transfer that is repeated does not begin the whole again. */
static void only_a_part_is_repeated(void **state)
{
	unsigned char *out = pattern(3 << 19);
	struct rig rig;

	(void)state;
	fake.segments = 0;
	fake_open(&rig);
	fake.opcode = TGT_NVME_WRITE;
	fake.result = 0x8;
	fake.count = 1;
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 1 << 20), 0);
	assert_int_equal(fake.command_count, 3);
	assert_int_equal(fake.commands[1].first, 0);
	assert_int_equal(fake.commands[2].first, 1024);
	assert_memory_equal(fake.data, out, 1 << 20);
	/* And one behind the first does not go on behind itself. */
	memset(fake.data, 0, sizeof(fake.data));
	fake.command_count = 0;
	fake.pass = 1;
	fake.count = 2;
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 3 << 19), 0);
	assert_int_equal(fake.command_count, 5);
	assert_int_equal(fake.commands[3].first, 1024);
	assert_memory_equal(fake.data, out, 3 << 19);
	rig_close(&rig);
	free(out);
}

/* A Flush that comes back for now has made nothing durable. */
static void a_flush_is_repeated(void **state)
{
	unsigned char *out = pattern(8192);
	struct rig rig;

	(void)state;
	fake_open(&rig);
	fake.opcode = TGT_NVME_FLUSH;
	fake.result = 0x8;
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 8192), 0);
	fake.count = 3;
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), 0);
	assert_int_equal(fake.pauses, 3);
	assert_memory_equal(fake.durable, out, 8192);
	fake.result = -EAGAIN;
	fake.count = 1000;
	assert_int_not_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), 0);
	fake.count = 0;
	rig_close(&rig);
	free(out);
}

/* -- the ring, and changes --------------------------------------------------------------------- */

/* Completions of the wide half end the sleep of the ring's thread; rig_do() sleeps a second otherwise. */
static void a_completion_wakes_the_ring(void **state)
{
	unsigned char *buffer = rig_buffer(4096, 0);
	struct rig_io one = {.io = {.kind = TGT_IO_READ, .bytes = 4096, .buffer = buffer, .buffer_index = -1}};
	struct rig rig;

	(void)state;
	fake_open(&rig);
	fake.slow = true;
	for (unsigned int i = 0; i < 3; i++) {
		one.io.done = rig_io_done;
		one.done = 0;
		assert_int_equal(rig.store->ops->submit(rig.channel, &one.io), 0);
		assert_int_equal(tgt_ring_inflight(rig.ring), 1);
		/* No time limit: only the completion ends it. */
		while (!one.done) {
			assert_int_equal(tgt_ring_wait(rig.ring, -1), 0);
			tgt_ring_reap(rig.ring, 64);
		}
		assert_int_equal(one.error, 0);
		assert_int_equal(tgt_ring_inflight(rig.ring), 0);
	}
	rig_close(&rig);
	free(buffer);
}

static unsigned int gets = UINT32_MAX; /* entries that there are, before: */
static unsigned int refusals;

struct io_uring_sqe *__real_tgt_ring_get_wide(struct tgt_ring *ring, struct tgt_ring_op *op);
struct io_uring_sqe *__wrap_tgt_ring_get_wide(struct tgt_ring *ring, struct tgt_ring_op *op);
struct io_uring_sqe *__wrap_tgt_ring_get_wide(struct tgt_ring *ring, struct tgt_ring_op *op)
{
	if (gets) {
		gets--;
	} else if (refusals) {
		refusals--;
		return NULL;
	}
	return __real_tgt_ring_get_wide(ring, op);
}

/* What was begun goes on when the ring has room again. */
static void what_was_begun_goes_on_when_there_is_room(void **state)
{
	unsigned char *out = pattern(1 << 20);
	struct rig rig;

	(void)state;
	fake.mdts = 7;
	fake.max_kb = 1280;
	fake_open(&rig);
	gets = 1;
	refusals = 3;
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 4096, out, 1 << 20), 0);
	assert_int_equal(refusals, 0);
	gets = UINT32_MAX;
	assert_memory_equal(fake.data + 4096, out, 1 << 20);
	rig_close(&rig);
	free(out);
}

static void its_size_is_the_block_devices(void **state)
{
	uint64_t bytes = 0;
	struct rig rig;

	(void)state;
	fake.bytes = FAKE_BYTES / 2;
	fake_open(&rig);
	assert_int_equal(rig.store->info.bytes, FAKE_BYTES / 2);
	fake.bytes = FAKE_BYTES;
	assert_int_equal(rig.store->ops->device_bytes(rig.store, &bytes), 0);
	assert_int_equal(bytes, FAKE_BYTES);
	assert_int_equal(rig.store->ops->refresh(rig.store), 0);
	assert_int_equal(rig.store->info.bytes, FAKE_BYTES);
	rig_close(&rig);
}

/* Its commands would mean other blocks now, and the device would move other lengths. */
static void a_namespace_that_was_formatted_is_served_no_more(void **state)
{
	unsigned char *buffer = rig_buffer(4096, 0);
	uint64_t bytes = 0;
	struct rig rig;

	(void)state;
	fake_open(&rig);
	fake.block_bytes = 4096;
	assert_int_equal(rig.store->ops->device_bytes(rig.store, &bytes), -ESTALE);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, buffer, 4096), -EIO);
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), -EIO);
	assert_int_equal(fake.command_count, 0);
	rig_close(&rig);
	free(buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(writes_and_reads),
		FAKE_TEST(larger_blocks_are_counted_in_their_size),
		FAKE_TEST(large_transfers_are_split),
		FAKE_TEST(only_flush_and_fua_make_durable),
		FAKE_TEST(ranges_are_zeroed_and_given_back),
		FAKE_TEST(what_the_device_lacks_is_not_offered),
		FAKE_TEST(fixed_buffers_are_used_where_the_kernel_takes_them),
		FAKE_TEST(buffers_from_before_are_in_the_wide_half),
		FAKE_TEST(statuses_have_their_errors),
		FAKE_TEST(what_comes_back_for_now_is_repeated),
		FAKE_TEST(only_a_part_is_repeated),
		FAKE_TEST(a_flush_is_repeated),
		FAKE_TEST(a_completion_wakes_the_ring),
		FAKE_TEST(what_was_begun_goes_on_when_there_is_room),
		FAKE_TEST(its_size_is_the_block_devices),
		FAKE_TEST(a_namespace_that_was_formatted_is_served_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
