/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the memory store keeps its data, the null store keeps none, and both refuse what they
 * cannot do. Method: each operation on a small store, checked by the bytes that are read back.
 */
#include <sched.h>
#include <sys/mman.h>
#include "tests/unit/target_rig.h"

#define BYTES 65536

static void memory_keeps_bytes(void **state)
{
	struct tgt_volume_config config = rig_volume("memory", "", BYTES);
	unsigned char *out = rig_buffer(8192, 0xa5), *in = rig_buffer(8192, 0);
	char error[TGT_ERROR_BYTES];
	struct rig rig;

	assert_int_equal(rig_open(&rig, &tgt_store_memory, &config, error), 0);
	assert_int_equal(rig.store->info.bytes, BYTES);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 4096, out, 8192), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 4096, in, 8192), 0);
	assert_memory_equal(in, out, 8192);
	/* Its neighbours have not changed, and the RDMA device sees the same memory. */
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, in, 4096), 0);
	assert_int_equal(in[4095], 0);
	assert_memory_equal((char *)rig.store->info.direct + 4096, out, 8192);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE_ZEROES, 0, 8192, NULL, 4096), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 4096, in, 8192), 0);
	assert_int_equal(in[4095], 0xa5);
	assert_int_equal(in[4096], 0);
	assert_int_equal(in[8191], 0);
	rig_close(&rig);
	free(out);
	free(in);
}

static void memory_refuses_to_pretend(void **state)
{
	struct tgt_volume_config config = rig_volume("memory", "", BYTES);
	void *buffer = rig_buffer(4096, 1);
	char error[TGT_ERROR_BYTES];
	struct rig rig;

	assert_int_equal(rig_open(&rig, &tgt_store_memory, &config, error), 0);
	assert_false(rig.store->info.can_flush || rig.store->info.can_fua ||
		     rig.store->info.can_discard);
	assert_true(rig.store->info.volatile_cache);
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), -EOPNOTSUPP);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, TGT_IO_FUA, 0, buffer, 4096), -EOPNOTSUPP);
	assert_int_equal(rig_io(&rig, TGT_IO_DISCARD, 0, 0, NULL, 4096), -EOPNOTSUPP);
	assert_int_equal(*(char *)rig.store->info.direct, 0); /* the refused write did nothing */
	rig_close(&rig);
	free(buffer);
}

/* F7: the data of the earlier store is lost, and an initiator can see that. */
static void each_life_has_its_epoch(void **state)
{
	const struct tgt_store_ops *kinds[] = {&tgt_store_memory, &tgt_store_null};
	size_t i;

	for (i = 0; i < UNIT_LENGTH(kinds); i++) {
		struct tgt_volume_config config = rig_volume(kinds[i]->kind, "", BYTES);
		char error[TGT_ERROR_BYTES];
		struct rig first, second;

		assert_int_equal(rig_open(&first, kinds[i], &config, error), 0);
		assert_int_equal(rig_open(&second, kinds[i], &config, error), 0);
		assert_memory_not_equal(first.store->info.cache_epoch,
					second.store->info.cache_epoch, 16);
		rig_close(&first);
		rig_close(&second);
	}
}

static void null_reads_zeroes(void **state)
{
	struct tgt_volume_config config = rig_volume("null", "", BYTES);
	unsigned char *buffer = rig_buffer(4096, 0xff), *zeroes = rig_buffer(4096, 0);
	char error[TGT_ERROR_BYTES];
	struct rig rig;

	assert_int_equal(rig_open(&rig, &tgt_store_null, &config, error), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, buffer, 4096), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, buffer, 4096), 0);
	assert_memory_equal(buffer, zeroes, 4096);
	assert_int_equal(rig_io(&rig, TGT_IO_DISCARD, 0, 0, NULL, 4096), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE_ZEROES, 0, 0, NULL, 4096), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), -EOPNOTSUPP);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, TGT_IO_FUA, 0, buffer, 4096), -EOPNOTSUPP);
	rig_close(&rig);
	free(buffer);
	free(zeroes);
}

static void no_size_is_refused(void **state)
{
	struct tgt_volume_config config = rig_volume("memory", "", 0);
	char error[TGT_ERROR_BYTES];
	struct rig rig;

	assert_int_equal(rig_open(&rig, &tgt_store_memory, &config, error), -EINVAL);
	assert_string_equal(error, "memory store: no size given");
	assert_int_equal(rig_open(&rig, &tgt_store_null, &config, error), -EINVAL);
	assert_string_equal(error, "null store: no size given");
	config.bytes = 1ull << 60;
	assert_int_equal(rig_open(&rig, &tgt_store_memory, &config, error), -ENOMEM);
	assert_string_equal(error,
			    "memory store: 1152921504606846976 bytes: Cannot allocate memory");
}

/* Registering with a device later finds every page allocated: nothing is zeroed while a reactor
 * waits. */
static void pages_are_there_before_registering(void **state)
{
	const size_t bytes = 256u << 20, page = (size_t)sysconf(_SC_PAGESIZE);
	struct tgt_volume_config config = rig_volume("memory", "", bytes);
	unsigned char *there = calloc(1, bytes / page);
	char error[TGT_ERROR_BYTES];
	struct rig rig;
	size_t count = 0;

	assert_non_null(there);
	assert_int_equal(rig_open(&rig, &tgt_store_memory, &config, error), 0);
	((char *)rig.store->info.direct)[4096] = 9;
	assert_int_equal(mincore(rig.store->info.direct, bytes, there), 0);
	assert_int_equal(there[bytes / page - 1] & 1, 0);
	while (!rig.store->ops->prepare(rig.store))
		sched_yield();
	assert_true(rig.store->ops->prepare(rig.store));
	assert_int_equal(mincore(rig.store->info.direct, bytes, there), 0);
	for (size_t i = 0; i < bytes / page; i++)
		count += there[i] & 1;
	assert_int_equal(count, bytes / page);
	assert_int_equal(((char *)rig.store->info.direct)[4096], 9); /* touched, not changed */
	rig_close(&rig);
	/* Closed in the middle of it: nothing accesses freed memory afterwards. */
	assert_int_equal(rig_open(&rig, &tgt_store_memory, &config, error), 0);
	rig.store->ops->prepare(rig.store);
	rig_close(&rig);
	free(there);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_are_there_before_registering),
		cmocka_unit_test(memory_keeps_bytes),
		cmocka_unit_test(memory_refuses_to_pretend),
		cmocka_unit_test(each_life_has_its_epoch),
		cmocka_unit_test(null_reads_zeroes),
		cmocka_unit_test(no_size_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
