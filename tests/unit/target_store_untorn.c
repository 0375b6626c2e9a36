/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the uring store has the untorn writes that the kernel tells of, and makes one operation of each. Method: a
 * file, with what statx() says of it replaced; a completion that says less than all.
 */
#include "tests/unit/target_rig.h"

#define BYTES (1u << 20)

static char *directory;
static char path[64];
static uint32_t untorn_bytes; /* the longest that statx() tells of */

int __real_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *stx);
int __wrap_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *stx);
int __wrap_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *stx)
{
	int err = __real_statx(fd, name, flags, mask, stx);

	if (mask & 0x10000) { /* STATX_WRITE_ATOMIC, and the fields' place in the kernel's struct */
		stx->stx_mask |= 0x10000;
		memcpy((char *)stx + 0xa8, (uint32_t[]){4096, untorn_bytes}, 8);
	}
	return err;
}

static int make_file(void **state)
{
	directory = rig_directory();
	snprintf(path, sizeof(path), "%s/disk", directory);
	rig_file(path, BYTES);
	return 0;
}

static int remove_file(void **state)
{
	rig_directory_remove(directory);
	return 0;
}

/* What the kernel says, and only of direct I/O. */
static void untorn_units(void **state)
{
	struct rig rig;

	untorn_bytes = 65536;
	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	assert_int_equal(rig.store->info.untorn_max_bytes, 0);
	rig_close(&rig);
	untorn_bytes = 12288;
	rig_open_file(&rig, path, TGT_CACHE_DIRECT);
	assert_int_equal(rig.store->info.untorn_max_bytes, 0);
	rig_close(&rig);
	untorn_bytes = 65536;
	rig_open_file(&rig, path, TGT_CACHE_DIRECT);
	assert_int_equal(rig.store->info.untorn_min_bytes, 4096);
	assert_int_equal(rig.store->info.untorn_max_bytes, 65536);
	rig_close(&rig);
}

static void swallowed(struct tgt_ring_op *op, int result, uint32_t flags)
{
	(void)result;
	(void)flags;
	op->complete = NULL;
}

/* One operation, or an error: the kernel refuses what its disk cannot keep, and no rest is written. */
static void untorn_writes_are_not_continued(void **state)
{
	unsigned char *out = rig_buffer(16384, 'x'), *in = rig_buffer(16384, 0);
	struct rig_io write = {.io = {.kind = TGT_IO_WRITE,
				      .flags = TGT_IO_UNTORN,
				      .bytes = 16384,
				      .buffer = out,
				      .buffer_index = -1,
				      .done = rig_io_done}};
	struct rig rig;
	int error;

	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	error = rig_io(&rig, TGT_IO_WRITE, TGT_IO_UNTORN, 0, out, 16384);
	assert_int_equal(error, -EOPNOTSUPP);
	rig_file_bytes(path, in, 16384, 0);
	for (unsigned int i = 0; i < 16384; i++)
		assert_int_equal(in[i], 0);
	assert_int_equal(rig.store->ops->submit(rig.channel, &write.io), 0);
	write.io.ring_op.complete(&write.io.ring_op, 4096, 0);
	assert_int_equal(write.done, 1);
	assert_int_equal(write.error, -EIO);
	write.io.ring_op.complete = swallowed;
	while (write.io.ring_op.complete) {
		tgt_ring_wait(rig.ring, 1000);
		tgt_ring_reap(rig.ring, 64);
	}
	/* Others are. */
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 16384), 0);
	rig_close(&rig);
	free(out);
	free(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(untorn_units, make_file, remove_file),
		cmocka_unit_test_setup_teardown(untorn_writes_are_not_continued, make_file, remove_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
