/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the failure of F9 is forgotten with the last channel, but not a new one on a reactor that
 * opens the volume at that moment, nor one of a session that the target has ended. Method: a store whose FLUSH fails, and
 * tgt_sync_forget() wrapped, so that it waits while another thread opens and flushes.
 */
#include "target/store/submit.h"
#include "tests/unit/target_rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include "target/store/failed_sync_file.h"
#include "target/store/sync.h"

static int fake_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel)
{
	*channel = calloc(1, sizeof(**channel));
	(*channel)->store = store;
	(*channel)->ring = ring;
	return 0;
}

static void fake_detach(struct tgt_channel *channel)
{
	free(channel);
}

static int fake_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	return -EIO;
}

static const struct tgt_store_ops fake_ops = {
	.kind = "fake",
	.attach = fake_attach,
	.detach = fake_detach,
	.submit = fake_submit,
};

static struct tgt_store store = {.ops = &fake_ops};
static struct tgt_volume volume = {.store = &store, .config.name = "v"};
static struct tgt_channel *late_channel;
static pthread_t opener;
static bool armed;
static _Atomic bool has_failed;

static void flush_fails(struct tgt_channel *channel)
{
	struct tgt_io io = {.kind = TGT_IO_FLUSH, .ended = rig_io_done};

	assert_int_equal(tgt_volume_submit(&volume, channel, &io), -EIO);
	assert_true(tgt_sync_is_lost(&volume));
}

static void *open_and_fail(void *arg)
{
	(void)arg;
	assert_int_equal(tgt_volume_attach(&volume, NULL, &late_channel), 0);
	flush_fails(late_channel);
	atomic_store(&has_failed, true);
	return NULL;
}

void __real_tgt_sync_forget(struct tgt_volume *of);
void __wrap_tgt_sync_forget(struct tgt_volume *of);
void __wrap_tgt_sync_forget(struct tgt_volume *of)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	if (armed) {
		armed = false;
		assert_int_equal(pthread_create(&opener, NULL, open_and_fail, NULL), 0);
		/* The other thread may be blocked until this call ends, so the wait is short. */
		for (int i = 0; i < 200 && !atomic_load(&has_failed); i++)
			nanosleep(&pause, NULL);
	}
	__real_tgt_sync_forget(of);
}

static void a_later_failure_is_not_forgotten(void **state)
{
	struct tgt_channel *channel;

	tgt_range_locks_init(&volume.range_locks);
	assert_int_equal(tgt_volume_attach(&volume, NULL, &channel), 0);
	flush_fails(channel);
	armed = true;
	tgt_volume_detach(&volume, channel);
	assert_int_equal(pthread_join(opener, NULL), 0);
	assert_true(has_failed);
	assert_true(tgt_sync_is_lost(&volume));
	tgt_volume_detach(&volume, late_channel);
	assert_false(tgt_sync_is_lost(&volume));
}

/* A reactor drains before another one, on which the last session closes the volume; or the volume is removed. */
static void what_the_target_ends_is_not_closed(void **state)
{
	struct tgt_channel *channels[3];

	for (unsigned int way = 0; way < 6; way++) {
		struct tgt_channel *ended;

		for (unsigned int i = 0; i < 3; i++)
			assert_int_equal(tgt_volume_attach(&volume, NULL, &channels[i]), 0);
		flush_fails(channels[0]);
		ended = channels[way % 3];
		ended->drained = way < 3;
		for (unsigned int i = 0; i < 3; i++) {
			atomic_store(&volume.removed, way >= 3 && channels[i] == ended);
			tgt_volume_detach(&volume, channels[i]);
		}
		atomic_store(&volume.removed, false);
		assert_true(tgt_sync_is_lost(&volume));
		/* The next process closes it. */
		volume.trouble.unclosed = false;
		assert_int_equal(tgt_volume_attach(&volume, NULL, &channels[0]), 0);
		tgt_volume_detach(&volume, channels[0]);
		assert_false(tgt_sync_is_lost(&volume));
	}
}

/* The failed-sync file has the time of the first failure, be it a former process's, until all is forgotten. */
static void the_first_failure_keeps_its_time(void **state)
{
	static struct tgt_failed_sync_file file;
	struct tgt_channel *channel;
	uint64_t first_ns;

	volume.trouble.file = &file;
	assert_int_equal(tgt_volume_attach(&volume, NULL, &channel), 0);
	flush_fails(channel);
	first_ns = atomic_load(&file.lost_ns);
	assert_true(first_ns && first_ns == atomic_load(&volume.trouble.lost_ns));
	flush_fails(channel);
	assert_true(atomic_load(&file.lost_ns) == first_ns && atomic_load(&volume.trouble.lost_ns) == first_ns);
	tgt_volume_detach(&volume, channel);
	assert_true(!atomic_load(&file.lost_ns) && !atomic_load(&volume.trouble.lost_ns));
	atomic_store(&file.lost_ns, 77);
	assert_int_equal(tgt_volume_attach(&volume, NULL, &channel), 0);
	flush_fails(channel);
	assert_true(atomic_load(&file.lost_ns) == 77);
	tgt_volume_detach(&volume, channel);
	volume.trouble.file = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_later_failure_is_not_forgotten),
		cmocka_unit_test(what_the_target_ends_is_not_closed),
		cmocka_unit_test(the_first_failure_keeps_its_time),
	};

	return cmocka_run_group_tests_name("target forget", tests, NULL, NULL);
}
