/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no credit is granted for a receive buffer that is not posted to the device (C5); a removed
 * device is released after its last connection, of any kind; and the memory for reply rings is
 * enough for every connection, however much the first ones took. Method: a device made by the test,
 * on a fabric that refuses receives when it is told to.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/fabric/fabric_impl.h"
#include "target/base/log.h"
#include "target/io/io_queue.h"
#include "target/io/work.h"
#include "target/serve/device.h"

#define BUFFERS (2 * TGT_RECEIVES_CHUNK)

static struct {
	bool refuse;
	unsigned int posted, released;
} seen;

static int fake_mr_register(struct fab *fab, void *addr, size_t bytes, int access,
			    struct fab_mr **mr)
{
	*mr = calloc(1, sizeof(**mr));
	assert_non_null(*mr);
	(*mr)->fab = fab;
	return 0;
}

static void fake_mr_deregister(struct fab_mr *mr)
{
	free(mr);
}

static int fake_post_srq_recv(struct fab_device *device, struct ibv_recv_wr *wr,
			      struct ibv_recv_wr **bad)
{
	if (seen.refuse) {
		*bad = wr;
		return -ENOMEM;
	}
	for (; wr; wr = wr->next)
		seen.posted++;
	return 0;
}

static void fake_device_release(struct fab_device *device)
{
	seen.released++;
}

static const struct fab_ops fake_ops = {
	.mr_register = fake_mr_register,
	.mr_deregister = fake_mr_deregister,
	.post_srq_recv = fake_post_srq_recv,
	.device_release = fake_device_release,
};

static struct rig {
	struct tgt_reactor reactor;
	struct fab fab;
	struct fab_device fab_device;
} *rig;

static int setup(void **state)
{
	(void)state;
	tgt_log_set_level(TGT_LOG_ERROR);
	memset(&seen, 0, sizeof(seen));
	rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	rig->fab.ops = &fake_ops;
	rig->fab_device.fab = &rig->fab;
	rig->fab_device.limits.max_srq_wr = BUFFERS;
	rig->reactor.config.receive_buffers = BUFFERS;
	rig->reactor.fabrics[0].fab = &rig->fab;
	rig->reactor.fabric_count = 1;
	tgt_work_init(&rig->reactor.loop);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tgt_device_free(rig->reactor.fabrics[0].devices[0]);
	free(rig);
	return 0;
}

static struct tgt_device *device_get(void)
{
	struct tgt_device *device = tgt_device_get(&rig->reactor, &rig->reactor.fabrics[0],
						   &rig->fab_device);

	assert_non_null(device);
	return device;
}

static uint32_t remaining(struct tgt_device *device, uint32_t wanted)
{
	return tgt_device_remaining(&rig->reactor, &rig->reactor.fabrics[0], device, wanted);
}

static void what_is_not_posted_stands_behind_no_credit(void **state)
{
	struct tgt_device *device;

	(void)state;
	seen.refuse = true;
	device = device_get();
	assert_int_equal(remaining(device, 8), 0);
	/* No more memory was allocated for receives that the device refuses. */
	assert_int_equal(device->receives.count, TGT_RECEIVES_CHUNK);
	tgt_work_post(&rig->reactor.loop);
	assert_int_equal(seen.posted, 0);
	/* The target tries again in each turn, and with each login. */
	seen.refuse = false;
	tgt_work_post(&rig->reactor.loop);
	assert_int_equal(seen.posted, TGT_RECEIVES_CHUNK);
	assert_int_equal(remaining(device, 8), TGT_RECEIVES_CHUNK);
	device->receives.promised = TGT_RECEIVES_CHUNK - 4;
	assert_int_equal(remaining(device, 8), BUFFERS - device->receives.promised);
	assert_int_equal(seen.posted, BUFFERS);
}

static void a_login_posts_what_an_earlier_one_could_not(void **state)
{
	struct tgt_device *device;

	(void)state;
	seen.refuse = true;
	device = device_get();
	seen.refuse = false;
	assert_int_equal(remaining(device, 8), TGT_RECEIVES_CHUNK);
	assert_int_equal(seen.posted, TGT_RECEIVES_CHUNK);
}

static void a_device_goes_after_its_last_connection(void **state)
{
	struct tgt_device *device = device_get();

	(void)state;
	device->queues = 1;
	tgt_device_removed(&rig->reactor, &rig->reactor.fabrics[0], &rig->fab_device);
	tgt_device_retire_all(&rig->reactor);
	assert_int_equal(seen.released, 0);
	assert_true(rig->reactor.retire);
	device->queues = 0;
	tgt_device_retire_all(&rig->reactor);
	assert_int_equal(seen.released, 1);
	assert_false(rig->reactor.retire);
}

/* Greedy connections for two devices, and memory for the rings of one (reactor_create.c). */
static void every_connection_has_a_reply_ring(void **state)
{
	enum { QUEUES = 64, PAGES = QUEUES + 1024 * 128 / TGT_POOL_PAGE };
	char *memory = aligned_alloc(TGT_POOL_PAGE, PAGES * TGT_POOL_PAGE);
	struct tgt_pool *pool;

	(void)state;
	assert_non_null(memory);
	pool = tgt_pool_create(memory, PAGES * TGT_POOL_PAGE, PAGES * TGT_POOL_PAGE);
	assert_non_null(pool);
	for (unsigned int left = QUEUES; left; left--) {
		uint16_t credits = tgt_io_queue_ring_credits(pool, 128, left - 1);

		assert_in_range(credits, RBLK_CREDITS_MIN, 128);
		assert_true(left != QUEUES || credits == 128);
		assert_non_null(tgt_pool_alloc(pool, tgt_io_queue_ring_bytes(credits)));
	}
	tgt_pool_destroy(pool);
	free(memory);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_not_posted_stands_behind_no_credit),
		TEST(a_login_posts_what_an_earlier_one_could_not),
		TEST(a_device_goes_after_its_last_connection),
		cmocka_unit_test(every_connection_has_a_reply_ring),
	};

	return cmocka_run_group_tests_name("target device", tests, NULL, NULL);
}
