/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a volume's cache epoch stays the same from one process to the next only where nothing acknowledged can have been
 * lost (F7, F9): after an end in good order, or a kill that the kernel's cache has outlived. Method: lives of a store that
 * answers as it is told to, with failed-sync files in a folder of the test; a kill leaves a life without its end.
 */
#include "target/store/epoch.h"
#include "target/store/failed_sync_file.h"
#include "target/store/path.h"
#include "target/store/submit.h"
#include "tests/unit/target_rig.h"

#include <sys/wait.h>

static char *directory, folder[64];
static int sync_answer, write_answer;
static unsigned int syncs;
static bool is_device, cache_kept, read_only;

static int fake_sync(struct tgt_store *store)
{
	syncs++;
	return sync_answer;
}

static int fake_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel)
{
	*channel = calloc(1, sizeof(**channel));
	(*channel)->store = store;
	return 0;
}

static void fake_detach(struct tgt_channel *channel)
{
	free(channel);
}

static int fake_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	return io->kind == TGT_IO_WRITE && write_answer ? write_answer : 1;
}

static const struct tgt_store_ops fake_ops = {
	.kind = "fake",
	.sync = fake_sync,
	.attach = fake_attach,
	.detach = fake_detach,
	.submit = fake_submit,
};

/* A process that serves it. */
struct life {
	struct tgt_store store;
	struct tgt_volume volume;
	uint8_t epoch[16];
};

static void life_begin(struct life *life, const char *files)
{
	memset(life, 0, sizeof(*life));
	life->store.ops = &fake_ops;
	life->store.info = (struct tgt_store_info){
		.bytes = 65536,
		.can_flush = true,
		.id = {.device = 0x810, .inode = is_device ? 0 : 77, .is_device = is_device},
		.cache_epoch = {1, 2, 3},
		.cache_kept = cache_kept,
	};
	life->volume.store = &life->store;
	life->volume.config.read_only = read_only;
	life->volume.block_bytes = 512;
	life->volume.blocks = 128;
	pthread_mutex_init(&life->volume.trouble.lock, NULL);
	tgt_range_locks_init(&life->volume.range_locks);
	tgt_epoch_begin(&life->volume, files);
	tgt_epoch_get(&life->volume, life->epoch);
}

static void life_free(struct life *life)
{
	tgt_range_locks_fini(&life->volume.range_locks);
	pthread_mutex_destroy(&life->volume.trouble.lock);
}

static void life_end(struct life *life)
{
	tgt_epoch_end(&life->volume);
	life_free(life);
}

static void life_killed(struct life *life)
{
	if (life->volume.trouble.file)
		tgt_failed_sync_file_close(life->volume.trouble.file);
	life_free(life);
}

/* A plain write that fails. */
static void life_write(struct life *life, int error)
{
	struct rig_io write = {.io = {.kind = TGT_IO_WRITE, .bytes = 512, .buffer_index = -1, .done = rig_io_done}};
	struct tgt_channel *channel;

	write_answer = error;
	assert_int_equal(tgt_volume_attach(&life->volume, NULL, &channel), 0);
	assert_int_equal(tgt_volume_submit(&life->volume, channel, &write.io), error);
	tgt_volume_detach(&life->volume, channel);
	write_answer = 0;
}

static int setup(void **state)
{
	directory = rig_directory();
	snprintf(folder, sizeof(folder), "%s/state", directory);
	sync_answer = write_answer = 0;
	is_device = read_only = false;
	cache_kept = true;
	return 0;
}

static int teardown(void **state)
{
	rig_directory_remove(directory);
	return 0;
}

#define SAME true
#define OTHER false

/* The next life, which is not ended. */
static void expect_next(struct life *life, const struct life *before, bool same)
{
	life_begin(life, folder);
	assert_int_equal(!memcmp(life->epoch, before->epoch, 16), same);
}

static void an_end_in_good_order_loses_nothing(void **state)
{
	struct life first, next;

	life_begin(&first, folder);
	syncs = 0;
	life_end(&first);
	assert_int_equal(syncs, 1);
	cache_kept = false; /* the file system was mounted anew since */
	expect_next(&next, &first, SAME);
	life_end(&next);
	cache_kept = true;
	expect_next(&first, &next, SAME);
	life_end(&first);
}

static void what_cannot_be_made_durable_is_told(void **state)
{
	struct life first, next;

	life_begin(&first, folder);
	sync_answer = -EIO;
	life_end(&first);
	sync_answer = 0;
	expect_next(&next, &first, OTHER);
	assert_true(atomic_load(&next.volume.trouble.lost_ns));
	life_end(&next);
}

static void a_kill_loses_nothing_if_the_cache_lives_on(void **state)
{
	struct life first, next;

	life_begin(&first, folder);
	life_killed(&first);
	expect_next(&next, &first, SAME);
	assert_false(atomic_load(&next.volume.trouble.lost_ns));
	life_killed(&next);
	cache_kept = false;
	expect_next(&first, &next, OTHER);
	life_killed(&first);
	/* That one may have lost something, too. */
	expect_next(&next, &first, OTHER);
	life_end(&next);
}

static void without_a_file_nothing_vouches(void **state)
{
	struct life first, next;
	char path[128];

	life_begin(&first, NULL);
	syncs = 0;
	life_end(&first);
	assert_int_equal(syncs, 1); /* it is made durable all the same, or that is said */
	life_begin(&next, NULL);
	sync_answer = -EIO;
	life_end(&next);
	assert_true(atomic_load(&next.volume.trouble.lost_ns));
	sync_answer = 0;
	life_begin(&next, NULL);
	assert_memory_not_equal(first.epoch, next.epoch, 16);
	life_end(&next);
	/* The folder begins to be used, and is emptied. */
	expect_next(&first, &next, OTHER);
	life_end(&first);
	snprintf(path, sizeof(path), "%s/f-810-4d", folder);
	assert_int_equal(unlink(path), 0);
	expect_next(&next, &first, OTHER);
	life_end(&next);
	/* It cannot be used. */
	life_begin(&first, "/proc/none/state");
	assert_memory_not_equal(first.epoch, next.epoch, 16);
	life_end(&first);
}

static void a_write_that_failed_is_a_sign(void **state)
{
	static const int errors[] = {-EIO, -ENOSPC, -EROFS};
	struct life first, next;

	for (size_t i = 0; i < UNIT_LENGTH(errors); i++) {
		life_begin(&first, folder);
		life_write(&first, errors[i]);
		life_killed(&first);
		expect_next(&next, &first, OTHER);
		life_write(&next, errors[i]);
		life_end(&next);
		expect_next(&first, &next, SAME);
		life_end(&first);
	}
	/* It says nothing of a disk's other blocks. */
	is_device = true;
	life_begin(&first, folder);
	life_write(&first, -EIO);
	life_killed(&first);
	expect_next(&next, &first, SAME);
	life_end(&next);
}

static void who_only_reads_changes_nothing(void **state)
{
	struct life first, next;

	life_begin(&first, folder);
	life_killed(&first);
	read_only = true;
	expect_next(&next, &first, SAME);
	syncs = 0;
	life_end(&next);
	assert_int_equal(syncs, 0);
	cache_kept = false;
	expect_next(&next, &first, OTHER);
	life_end(&next);
	cache_kept = true;
	expect_next(&next, &first, SAME);
	life_end(&next);
	read_only = false;
	expect_next(&next, &first, SAME);
	life_end(&next);
}

/* -- of a real file ---------------------------------------------------------------------------- */

static bool open_keeps(const char *path, bool reads)
{
	struct tgt_volume_config config = rig_volume("uring", path, 0);
	char error[TGT_ERROR_BYTES];
	struct tgt_store_info info;
	struct tgt_path opened;

	config.cache = TGT_CACHE_BUFFERED;
	config.read_only = reads;
	if (tgt_path_open(&config, &opened, &info, error) < 0)
		fail_msg("%s", error);
	close(opened.fd);
	return info.cache_kept;
}

static void a_file_is_known_again(void **state)
{
	char path[64], copy[128];

	snprintf(path, sizeof(path), "%s/disk", directory);
	snprintf(copy, sizeof(copy), "%s.copy", path);
	rig_file(path, 65536);
	rig_file(copy, 65536);
	assert_false(open_keeps(path, true)); /* who reads does not label it */
	assert_false(open_keeps(path, false));
	assert_true(open_keeps(path, false));
	assert_true(open_keeps(path, true));
	assert_int_equal(rename(copy, path), 0);
	assert_false(open_keeps(path, false));
}

#define EPOCH_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EPOCH_TEST(an_end_in_good_order_loses_nothing),
		EPOCH_TEST(what_cannot_be_made_durable_is_told),
		EPOCH_TEST(a_kill_loses_nothing_if_the_cache_lives_on),
		EPOCH_TEST(without_a_file_nothing_vouches),
		EPOCH_TEST(a_write_that_failed_is_a_sign),
		EPOCH_TEST(who_only_reads_changes_nothing),
		EPOCH_TEST(a_file_is_known_again),
	};

	return cmocka_run_group_tests_name("target epoch", tests, NULL, NULL);
}
