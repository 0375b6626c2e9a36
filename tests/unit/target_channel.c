/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: registering and deregistering a memory volume takes no time of the reactor; a channel is not
 * ready before its memory is registered, and the volume exists until it is deregistered. Method: a
 * memory volume on a real ring, and a fabric of the test whose work blocks until the test releases
 * it.
 */
#include "target/base/log.h"
#include "target/store/channel.h"
#include "target/store/submit.h"
#include "tests/unit/target_rig.h"

#include <pthread.h>
#include <semaphore.h>
#include "proto/fabric/fabric_impl.h"

#define HANG_S 120 /* generous: a thread that waits for the blocked work would wait for ever */

static sem_t entered, go;
static pthread_t worked_on;
static unsigned int begun, retired, worked, ended, refuse;
static struct fab_mr the_mr;

static int fake_begin(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr)
{
	begun++;
	if (refuse)
		return fab_fail(fab, -ENOMEM, "out of lockable memory");
	the_mr = (struct fab_mr){.fab = fab};
	*mr = &the_mr;
	return 0;
}

static void fake_retire(struct fab_mr *mr)
{
	retired++;
}

static void fake_work(struct fab_mr *mr)
{
	worked++;
	worked_on = pthread_self();
	sem_post(&entered);
	sem_wait(&go);
}

static int fake_end(struct fab_mr *mr)
{
	ended++;
	return refuse && !mr->retired ? fab_fail(mr->fab, -ENOMEM, "out of lockable memory") : 0;
}

static const struct fab_ops fake_ops = {
	.kind = FAB_SIM,
	.mr_begin = fake_begin,
	.mr_retire = fake_retire,
	.mr_work = fake_work,
	.mr_end = fake_end,
};

static struct fab fab = {.ops = &fake_ops};
static struct fab *fabrics[] = {&fab};
static struct tgt_registry *registry;
static struct tgt_volume *volume; /* the test's own reference */
static struct tgt_ring *ring;
static struct tgt_channel *opened;
static struct tgt_log_limit log_limit;

static void on_opened(struct tgt_channel *channel, void *context)
{
	assert_ptr_equal(context, &opened);
	assert_null(opened);
	opened = channel;
}

static int setup(void **state)
{
	struct tgt_volume_config config = rig_volume("memory", "", 65536);
	char error[TGT_ERROR_BYTES];

	alarm(HANG_S);
	begun = retired = worked = ended = refuse = 0;
	opened = NULL;
	sem_init(&entered, 0, 0);
	sem_init(&go, 0, 0);
	assert_int_equal(tgt_registry_create(&registry), 0);
	assert_int_equal(tgt_volume_add(registry, &config, error), 0);
	volume = tgt_volume_get(registry, "v");
	assert_int_equal(tgt_ring_create(64, 8, &ring), 0);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(tgt_ring_inflight(ring), 0);
	assert_int_equal(atomic_load(&volume->refs), 2);
	tgt_ring_destroy(ring);
	tgt_volume_put(volume);
	tgt_volume_put(tgt_volume_remove(registry, "v"));
	tgt_registry_destroy(registry);
	alarm(0);
	return 0;
}

static struct tgt_channel *open_channel(struct tgt_ring *on)
{
	const struct tgt_channel_owner owner = {
		.opened = on_opened, .context = &opened, .log_limit = &log_limit};
	struct tgt_channel *channel;

	assert_int_equal(tgt_channel_open(tgt_volume_ref(volume), on, fabrics, 1, &owner, &channel), 0);
	return channel;
}

/* Releases the blocked work, and handles its completion. */
static void let_go(void)
{
	assert_int_equal(tgt_ring_reap(ring, 16), 0);
	sem_post(&go);
	while (tgt_ring_inflight(ring)) {
		assert_int_equal(tgt_ring_wait(ring, 1000), 0);
		tgt_ring_reap(ring, 16);
	}
}

static void neither_is_done_on_the_callers_thread(void **state)
{
	struct tgt_channel *channel = open_channel(ring);

	sem_wait(&entered);
	assert_int_equal(channel->state, TGT_CHANNEL_OPENING);
	assert_false(pthread_equal(worked_on, pthread_self()));
	assert_int_equal(tgt_ring_inflight(ring), 1);
	assert_int_equal(ended, 0);
	let_go();
	assert_ptr_equal(opened, channel);
	assert_int_equal(channel->state, TGT_CHANNEL_READY);
	assert_int_equal(ended, 1);

	tgt_channel_close(channel);
	sem_wait(&entered);
	assert_int_equal(retired, 1);
	assert_int_equal(ended, 1);
	assert_int_equal(atomic_load(&volume->refs), 3);
	assert_int_equal(tgt_ring_inflight(ring), 1);
	let_go();
	assert_int_equal(ended, 2);
	assert_int_equal(worked, 2);
}

static void what_is_refused_is_a_failed_channel(void **state)
{
	struct tgt_channel *channel = open_channel(ring);

	sem_wait(&entered);
	refuse = 1;
	let_go();
	assert_ptr_equal(opened, channel);
	assert_int_equal(channel->state, TGT_CHANNEL_FAILED);
	/* There is nothing to deregister. */
	tgt_channel_close(channel);
	assert_int_equal(retired, 0);
	assert_int_equal(worked, 1);
}

/* Without a ring the end of the work cannot be reported, so the work is done at once. */
static void without_a_ring_it_is_done_at_once(void **state)
{
	struct tgt_channel *channel;

	sem_post(&go);
	sem_post(&go);
	channel = open_channel(NULL);
	assert_int_equal(channel->state, TGT_CHANNEL_READY);
	assert_null(opened);
	tgt_channel_close(channel);
	assert_int_equal(worked, 2);
	assert_int_equal(ended, 2);
}

/* Each of all reactors has a channel, and one of them opens the volume again while its former channel is still
 * deregistered. */
static void a_channel_that_ends_slowly_keeps_no_place(void **state)
{
	struct tgt_channel *channel = open_channel(ring), *others[TGT_REACTORS_MAX], *again;

	sem_wait(&entered);
	let_go();
	for (unsigned int i = 1; i < TGT_REACTORS_MAX; i++)
		assert_int_equal(tgt_volume_attach(volume, ring, &others[i]), 0);
	tgt_channel_close(channel);
	sem_wait(&entered);
	assert_int_equal(tgt_volume_attach(volume, ring, &again), 0);
	tgt_volume_detach(volume, again);
	for (unsigned int i = 1; i < TGT_REACTORS_MAX; i++)
		tgt_volume_detach(volume, others[i]);
	let_go();
}

/* A peer that opens a volume again and again does not fill the log. */
static void failures_are_logged_with_a_limit(void **state)
{
	const struct tgt_channel_owner owner = {
		.opened = on_opened, .context = &opened, .log_limit = &log_limit};
	struct tgt_channel *channel;

	refuse = 1;
	log_limit = (struct tgt_log_limit){0};
	/* Until the burst is used up, however long that takes. */
	do
		for (unsigned int i = 0; i < 10 * TGT_LOG_BURST; i++)
			assert_int_equal(tgt_channel_open(tgt_volume_ref(volume), NULL, fabrics, 1,
							  &owner, &channel),
					 -ENOMEM);
	while (!log_limit.dropped);
	assert_int_equal(worked, 0);
}

#define CHANNEL_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHANNEL_TEST(neither_is_done_on_the_callers_thread),
		CHANNEL_TEST(what_is_refused_is_a_failed_channel),
		CHANNEL_TEST(without_a_ring_it_is_done_at_once),
		CHANNEL_TEST(a_channel_that_ends_slowly_keeps_no_place),
		CHANNEL_TEST(failures_are_logged_with_a_limit),
	};

	return cmocka_run_group_tests_name("target channel", tests, NULL, NULL);
}
