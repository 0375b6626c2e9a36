/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: volumes are found by name until they are removed, exist until the last reference is put,
 * and are described correctly; a volume that cannot be served is refused with its reason; closing a
 * store blocks no thread. Method: the registry itself, over memory volumes and files of the test.
 */
#include "proto/wire/wire_check.h"
#include "target/store/volume.h"
#include "tests/unit/target_rig.h"

#include <semaphore.h>
#include <sys/file.h>

static struct tgt_registry *registry;

static int registry_make(void **state)
{
	return tgt_registry_create(&registry);
}

/* tgt_registry_destroy() asserts that no volume is left. */
static int registry_end(void **state)
{
	tgt_registry_destroy(registry);
	return 0;
}

static int add(const char *name, const char *store, const char *path, uint64_t bytes,
	       uint32_t block_bytes, char *error)
{
	struct tgt_volume_config config = rig_volume(store, path, bytes);

	strcpy(config.name, name);
	config.block_bytes = block_bytes;
	config.cache = TGT_CACHE_BUFFERED;
	return tgt_volume_add(registry, &config, error);
}

static void drop(const char *name)
{
	struct tgt_volume *volume = tgt_volume_remove(registry, name);

	assert_non_null(volume);
	tgt_volume_put(volume);
}

static void listed_by_name(void **state)
{
	static const char *const names[] = {"m", "a", "z", "b"}, *const sorted[] = {"a", "b", "m",
										    "z"};
	struct tgt_volume *list[8];
	char error[TGT_ERROR_BYTES];
	unsigned int total, i;

	for (i = 0; i < 4; i++)
		assert_int_equal(add(names[i], "memory", "", 65536, 0, error), 0);
	assert_int_equal(tgt_volume_list(registry, 0, list, 8, &total), 4);
	assert_int_equal(total, 4);
	for (i = 0; i < 4; i++) {
		assert_string_equal(list[i]->config.name, sorted[i]);
		tgt_volume_put(list[i]);
	}
	assert_int_equal(tgt_volume_list(registry, 3, list, 8, &total), 1);
	assert_string_equal(list[0]->config.name, "z");
	tgt_volume_put(list[0]);
	assert_int_equal(tgt_volume_list(registry, 4, list, 8, &total), 0);
	assert_int_equal(tgt_volume_list(registry, 1, list, 2, &total), 2);
	tgt_volume_put(list[0]);
	tgt_volume_put(list[1]);
	for (i = 0; i < 4; i++)
		drop(names[i]);
	assert_int_equal(tgt_volume_list(registry, 0, list, 8, &total), 0);
	assert_int_equal(total, 0);
}

static void removed_lives_while_held(void **state)
{
	struct tgt_volume *held, *removed, *next;
	char error[TGT_ERROR_BYTES];

	assert_int_equal(add("v", "memory", "", 65536, 0, error), 0);
	held = tgt_volume_get(registry, "v");
	assert_non_null(held);
	removed = tgt_volume_remove(registry, "v");
	assert_ptr_equal(removed, held);
	assert_true(atomic_load(&held->removed));
	tgt_volume_put(removed);
	assert_null(tgt_volume_get(registry, "v"));
	assert_null(tgt_volume_remove(registry, "v"));
	memset(held->store->info.direct, 1, 65536); /* still there */
	/* Its name is free again; its slot is not, because reactors still index with it. */
	assert_int_equal(add("v", "memory", "", 65536, 0, error), 0);
	next = tgt_volume_get(registry, "v");
	assert_int_not_equal(next->slot, held->slot);
	tgt_volume_put(held);
	tgt_volume_put(next);
	drop("v");
	assert_int_equal(add("w", "memory", "", 65536, 0, error), 0);
	next = tgt_volume_get(registry, "w");
	assert_int_equal(next->slot, 0);
	tgt_volume_put(next);
	drop("w");
}

static void refusals_have_reasons(void **state)
{
	char *directory = rig_directory(), odd[64], empty[64];
	char error[TGT_ERROR_BYTES], wanted[TGT_ERROR_BYTES];

	snprintf(odd, sizeof(odd), "%s/odd", directory);
	snprintf(empty, sizeof(empty), "%s/empty", directory);
	rig_file(odd, 1000);
	rig_file(empty, 0);

	assert_int_equal(add("twice", "null", "", 65536, 0, error), 0);
	assert_int_equal(add("twice", "null", "", 65536, 0, error), -EEXIST);
	assert_string_equal(error, "volume twice: this name is already served");
	drop("twice");
	assert_int_equal(add("no/name", "null", "", 65536, 0, error), -EINVAL);
	assert_string_equal(error, "volume \"no/name\": not a valid name");
	assert_int_equal(add("v", "tape", "", 65536, 0, error), -EINVAL);
	assert_string_equal(error, "volume v: no such kind of store: \"tape\"");
	assert_int_equal(add("v", "uring", odd, 0, 0, error), -EINVAL);
	snprintf(wanted, sizeof(wanted),
		 "volume v: %s: size 1000 is not a multiple of the block size, 512", odd);
	assert_string_equal(error, wanted);
	assert_int_equal(add("v", "uring", empty, 0, 0, error), -EINVAL);
	snprintf(wanted, sizeof(wanted), "volume v: %s: size is 0", empty);
	assert_string_equal(error, wanted);
	assert_int_equal(add("v", "uring", "gone", 0, 0, error), -ENOENT);
	assert_string_equal(error, "volume v: gone: No such file or directory");
	assert_int_equal(add("v", "null", "", 65536 + 512, 4096, error), -EINVAL);
	assert_string_equal(error,
			    "volume v: null: size 66048 is not a multiple of the block size, 4096");
	assert_null(tgt_volume_get(registry, "v"));
	rig_directory_remove(directory);
}

static void refresh_sees_growth(void **state)
{
	char *directory = rig_directory(), path[64], error[TGT_ERROR_BYTES];
	struct tgt_volume *volume;

	snprintf(path, sizeof(path), "%s/disk", directory);
	rig_file(path, 65536);
	assert_int_equal(add("v", "uring", path, 0, 4096, error), 0);
	volume = tgt_volume_get(registry, "v");
	assert_int_equal(volume->blocks, 16);
	assert_false(tgt_volume_refresh(volume));
	assert_int_equal(truncate(path, 131072 + 100), 0);
	assert_true(tgt_volume_refresh(volume));
	assert_int_equal(volume->blocks, 32); /* whole blocks only */
	assert_false(tgt_volume_refresh(volume));
	tgt_volume_put(volume);
	drop("v");
	rig_directory_remove(directory);
}

static uint64_t device_bytes;
static int device_bytes_now(struct tgt_store *store, uint64_t *bytes)
{
	*bytes = device_bytes;
	return store ? 0 : -EINVAL;
}

/* At OPEN a larger size is served at once, a smaller one never. */
static void a_device_grows(void **state)
{
	const struct tgt_store_ops *own;
	struct tgt_store_ops ops;
	struct tgt_volume *volume;
	char error[TGT_ERROR_BYTES];

	assert_int_equal(add("v", "null", "", 65536, 4096, error), 0);
	volume = tgt_volume_get(registry, "v");
	assert_false(tgt_volume_grow(volume)); /* it is no device */
	own = volume->store->ops;
	ops = *own;
	ops.device_bytes = device_bytes_now;
	volume->store->ops = &ops;
	device_bytes = 65536 + 4095; /* whole blocks only */
	assert_false(tgt_volume_grow(volume));
	assert_int_equal(volume->blocks, 16);
	device_bytes = 131072 + 100;
	assert_true(tgt_volume_grow(volume));
	assert_int_equal(volume->blocks, 32);
	assert_false(tgt_volume_grow(volume));
	device_bytes = 65536;
	assert_false(tgt_volume_grow(volume));
	assert_int_equal(volume->blocks, 32);
	volume->store->ops = own;
	tgt_volume_put(volume);
	drop("v");
}

static void described_as_the_wire_allows(void **state)
{
	static const char *const stores[] = {"memory", "null", "uring"};
	char *directory = rig_directory(), path[64], error[TGT_ERROR_BYTES];
	struct rblk_wire_volume described;
	struct tgt_volume *volume;
	size_t i;

	snprintf(path, sizeof(path), "%s/disk", directory);
	rig_file(path, 65536);
	for (i = 0; i < UNIT_LENGTH(stores); i++) {
		bool file = strcmp(stores[i], "uring") == 0;
		uint32_t flags;

		assert_int_equal(
			add("v", stores[i], file ? path : "", file ? 0 : 65536, 4096, error), 0);
		volume = tgt_volume_get(registry, "v");
		memset(&described, 0xff, sizeof(described));
		tgt_volume_describe(volume, 0, (1u << 20) + 512, 8192, &described);
		assert_int_equal(rblk_check_volume(&described, sizeof(described), 0), RBLK_WIRE_OK);
		assert_string_equal(described.name, "v");
		assert_int_equal(rblk_le64(described.blocks), 16);
		assert_int_equal(rblk_le32(described.block_bytes), 4096);
		assert_int_equal(rblk_le32(described.max_io_bytes), 1u << 20);
		assert_int_equal(rblk_le32(described.max_capsule_bytes), 8192);
		flags = rblk_le32(described.flags);
		assert_true(flags & RBLK_VOLUME_VOLATILE_CACHE);
		assert_int_equal(!!(flags & RBLK_VOLUME_FLUSH), file);
		assert_int_equal(!!(flags & RBLK_VOLUME_FUA), file);
		tgt_volume_put(volume);
		drop("v");
	}
	rig_directory_remove(directory);
}

static void read_only_is_said(void **state)
{
	struct tgt_volume_config config = rig_volume("null", "", 65536);
	struct rblk_wire_volume described;
	char error[TGT_ERROR_BYTES];
	struct tgt_volume *volume;
	uint32_t flags;

	config.read_only = true;
	assert_int_equal(tgt_volume_add(registry, &config, error), 0);
	volume = tgt_volume_get(registry, "v");
	tgt_volume_describe(volume, 0, 1u << 20, 4096, &described);
	flags = rblk_le32(described.flags);
	assert_true(flags & RBLK_VOLUME_READ_ONLY);
	assert_false(flags & (RBLK_VOLUME_DISCARD | RBLK_VOLUME_WRITE_ZEROES));
	assert_int_equal(rblk_check_volume(&described, sizeof(described), 0), RBLK_WIRE_OK);
	tgt_volume_put(volume);
	drop("v");
}

static void check_untorn(const struct tgt_volume *volume, uint32_t features, uint32_t min_bytes, uint32_t max_bytes)
{
	struct rblk_wire_volume described;

	tgt_volume_describe(volume, features, 3u << 18, 4096, &described);
	assert_int_equal(rblk_le32(described.untorn_min_bytes), min_bytes);
	assert_int_equal(rblk_le32(described.untorn_max_bytes), max_bytes);
	assert_int_equal(rblk_check_volume(&described, sizeof(described), features), RBLK_WIRE_OK);
}

/* Untorn writes: the store's, as far as one command and the volume's blocks allow; only to who has agreed on them. */
static void untorn_limits(void **state)
{
	struct tgt_volume_config config = rig_volume("memory", "", 65536);
	char error[TGT_ERROR_BYTES];
	struct tgt_volume *volume;

	config.block_bytes = 4096;
	assert_int_equal(tgt_volume_add(registry, &config, error), 0);
	volume = tgt_volume_get(registry, "v");
	check_untorn(volume, RBLK_FEATURE_UNTORN, 4096, 1u << 19);
	check_untorn(volume, 0, 0, 0);
	volume->store->info.untorn_max_bytes = 2048;
	check_untorn(volume, RBLK_FEATURE_UNTORN, 0, 0);
	volume->store->info.untorn_max_bytes = 8192;
	check_untorn(volume, RBLK_FEATURE_UNTORN, 4096, 8192);
	/* Whoever may not write is told that. */
	volume->config.read_only = true;
	check_untorn(volume, RBLK_FEATURE_UNTORN, 4096, 8192);
	tgt_volume_put(volume);
	drop("v");
	config = rig_volume("null", "", 65536);
	assert_int_equal(tgt_volume_add(registry, &config, error), 0);
	volume = tgt_volume_get(registry, "v");
	check_untorn(volume, RBLK_FEATURE_UNTORN, 0, 0);
	tgt_volume_put(volume);
	drop("v");
}

/* F6 within one process: refused at once with the other volume's name, without waiting. */
static void one_file_has_one_name(void **state)
{
	char *directory = rig_directory(), disk[64], hard[64], soft[64];
	char error[TGT_ERROR_BYTES], wanted[TGT_ERROR_BYTES];
	struct tgt_volume_config config;
	struct tgt_volume *held;
	int fd;

	snprintf(disk, sizeof(disk), "%s/disk", directory);
	snprintf(hard, sizeof(hard), "%s/hard", directory);
	snprintf(soft, sizeof(soft), "%s/soft", directory);
	rig_file(disk, 65536);
	assert_int_equal(link(disk, hard), 0);
	assert_int_equal(symlink("disk", soft), 0);
	assert_int_equal(add("a", "uring", disk, 0, 0, error), 0);
	assert_int_equal(add("b", "uring", hard, 0, 0, error), -EALREADY);
	snprintf(wanted, sizeof(wanted), "volume b: %s: already served as volume a (%s)", hard,
		 disk);
	assert_string_equal(error, wanted);
	/* If this waited, ten minutes would exceed the test's time limit. */
	config = rig_volume("uring", soft, 0);
	config.cache = TGT_CACHE_BUFFERED;
	config.lock_wait_ms = 600000;
	strcpy(config.name, "b");
	assert_int_equal(tgt_volume_add(registry, &config, error), -EALREADY);
	snprintf(wanted, sizeof(wanted), "volume b: %s: already served as volume a (%s)", soft,
		 disk);
	assert_string_equal(error, wanted);
	config.read_only = true;
	assert_int_equal(tgt_volume_add(registry, &config, error), -EALREADY);

	/* Removed, and not yet closed by all: opening waits for that. */
	held = tgt_volume_remove(registry, "a");
	assert_int_equal(add("b", "uring", hard, 0, 0, error), -EAGAIN);
	snprintf(wanted, sizeof(wanted),
		 "volume b: %s: in use by this process, for a volume that is being closed", hard);
	assert_string_equal(error, wanted);
	tgt_volume_put(held);

	/* A lock of another process (here of another description) has another error. */
	fd = open(disk, O_RDONLY);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(add("b", "uring", hard, 0, 0, error), -EBUSY);
	close(fd);

	/* Readers share. */
	config.lock_wait_ms = 0;
	assert_int_equal(tgt_volume_add(registry, &config, error), 0);
	strcpy(config.name, "c");
	assert_int_equal(tgt_volume_add(registry, &config, error), 0);
	assert_int_equal(add("d", "uring", hard, 0, 0, error), -EALREADY);
	drop("b");
	drop("c");
	rig_directory_remove(directory);
}

/* -- closing --------------------------------------------------------------------------------- */

static const struct tgt_store_ops *slow_base;
static sem_t slow_entered, slow_go;

static void slow_close(struct tgt_store *store)
{
	sem_post(&slow_entered);
	sem_wait(&slow_go);
	slow_base->close(store);
}

/*
 * Putting the last reference does not wait for the disk; a user of the same file is told why it
 * must wait.
 */
static void closing_blocks_nobody(void **state)
{
	char *directory = rig_directory(), disk[64], error[TGT_ERROR_BYTES], name[RBLK_NAME_BYTES];
	struct tgt_store_ops slow = tgt_store_uring;
	struct tgt_volume *volume;

	snprintf(disk, sizeof(disk), "%s/disk", directory);
	rig_file(disk, 65536);
	sem_init(&slow_entered, 0, 0);
	sem_init(&slow_go, 0, 0);
	slow_base = &tgt_store_uring;
	slow.close = slow_close;
	tgt_registry_use_threads(registry);
	assert_int_equal(add("a", "uring", disk, 0, 0, error), 0);
	assert_null(tgt_registry_closing(registry, name));
	volume = tgt_volume_remove(registry, "a");
	volume->store->ops = &slow;
	alarm(120); /* a close that waits here would wait for ever */
	tgt_volume_put(volume);
	sem_wait(&slow_entered);
	alarm(0);
	/* A daemon that stops asks which volume is still closing, and may exit without waiting
	 * for it. */
	assert_ptr_equal(tgt_registry_closing(registry, name), name);
	assert_string_equal(name, "a");
	assert_int_equal(add("b", "uring", disk, 0, 0, error), -EAGAIN);
	assert_int_equal(add("other", "memory", "", 65536, 0, error), 0);
	drop("other");
	sem_post(&slow_go);
	/* That closes all volumes: neither they nor their locks may remain. */
	tgt_registry_destroy(registry);
	assert_int_equal(tgt_registry_create(&registry), 0);
	assert_int_equal(add("b", "uring", disk, 0, 0, error), 0);
	drop("b");
	rig_directory_remove(directory);
}

static int slow_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error)
{
	static struct tgt_store_ops slow;
	int err = slow_base->open(config, store, error);

	slow = *slow_base;
	slow.close = slow_close;
	if (!err)
		(*store)->ops = &slow;
	return err;
}

/* Nor does refusing a volume whose store is open already. */
static void refusing_blocks_nobody(void **state)
{
	const struct tgt_store_ops ops = {.kind = "slow", .open = slow_open};
	const struct tgt_store_faults slow = {.ops = &ops};
	char *directory = rig_directory(), disk[64], error[TGT_ERROR_BYTES], name[RBLK_NAME_BYTES];
	struct tgt_volume_config config;

	snprintf(disk, sizeof(disk), "%s/disk", directory);
	rig_file(disk, 1000);
	sem_init(&slow_entered, 0, 0);
	sem_init(&slow_go, 0, 0);
	slow_base = &tgt_store_uring;
	tgt_store_faults = &slow;
	tgt_registry_use_threads(registry);
	config = rig_volume("uring", disk, 0);
	strcpy(config.name, "a");
	strcpy(config.fault, "slow");
	config.cache = TGT_CACHE_BUFFERED;
	alarm(120);
	assert_int_equal(tgt_volume_add(registry, &config, error), -EINVAL);
	assert_non_null(strstr(error, "is not a multiple of the block size"));
	sem_wait(&slow_entered);
	alarm(0);
	tgt_store_faults = NULL;
	assert_string_equal(tgt_registry_closing(registry, name), "a");
	assert_int_equal(add("b", "uring", disk, 0, 0, error), -EAGAIN);
	sem_post(&slow_go);
	tgt_registry_destroy(registry);
	assert_int_equal(tgt_registry_create(&registry), 0);
	rig_directory_remove(directory);
}

static void uuid_of(const char *name, const uint8_t *given, uint8_t uuid[16])
{
	struct tgt_volume_config config = rig_volume("null", "", 65536);
	char error[TGT_ERROR_BYTES];
	struct tgt_volume *volume;

	strcpy(config.name, name);
	if (given)
		memcpy(config.uuid, given, 16);
	assert_int_equal(tgt_volume_add(registry, &config, error), 0);
	volume = tgt_volume_get(registry, name);
	memcpy(uuid, volume->config.uuid, 16);
	tgt_volume_put(volume);
	drop(name);
}

static void uuid_is_stable(void **state)
{
	const uint8_t given[16] = {1, 2, 3};
	uint8_t first[16], again[16], other[16];

	uuid_of("a", NULL, first);
	uuid_of("a", NULL, again);
	uuid_of("b", NULL, other);
	assert_memory_equal(first, again, 16);
	assert_memory_not_equal(first, other, 16);
	uuid_of("a", given, first);
	assert_memory_equal(first, given, 16);
}

/* -- other targets ask -------------------------------------------------------------------------- */

static unsigned int handed_on, unplaced, answered;

static void ask_answered(struct tgt_store_ask *ask, bool quiet)
{
	(void)ask;
	assert_true(quiet);
	answered++;
}

/* Reactors find their channel by its slot. */
static void take_ask(void *context, struct tgt_volume *volume, struct tgt_store_ask *ask)
{
	(void)context;
	unplaced += volume->slot >= RBLK_VOLUMES_MAX;
	handed_on++;
	ask->answer(ask, true);
	tgt_volume_put(volume);
}

static void nobody_has_one_that_waits_for_a_reload(void **state)
{
	struct tgt_volume_config config = rig_volume("memory", "", 65536);
	struct tgt_store_ask ask = {.answer = ask_answered};
	char error[TGT_ERROR_BYTES];
	struct tgt_volume *volume;

	(void)state;
	tgt_registry_on_ask(registry, take_ask, NULL);
	assert_int_equal(tgt_volume_open(registry, &config, &volume, error), 0);
	tgt_volume_asked(volume->store, &ask);
	assert_int_equal(handed_on, 0);
	assert_int_equal(answered, 1);
	assert_int_equal(tgt_volume_publish(volume, error), 0);
	tgt_volume_asked(volume->store, &ask);
	assert_int_equal(handed_on, 1);
	assert_int_equal(unplaced, 0);
	assert_int_equal(answered, 2);
	tgt_registry_on_ask(registry, NULL, NULL);
	drop(config.name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listed_by_name),
		cmocka_unit_test(removed_lives_while_held),
		cmocka_unit_test(refusals_have_reasons),
		cmocka_unit_test(refresh_sees_growth),
		cmocka_unit_test(a_device_grows),
		cmocka_unit_test(described_as_the_wire_allows),
		cmocka_unit_test(read_only_is_said),
		cmocka_unit_test(untorn_limits),
		cmocka_unit_test(one_file_has_one_name),
		cmocka_unit_test(closing_blocks_nobody),
		cmocka_unit_test(refusing_blocks_nobody),
		cmocka_unit_test(uuid_is_stable),
		cmocka_unit_test(nobody_has_one_that_waits_for_a_reload),
	};

	return cmocka_run_group_tests(tests, registry_make, registry_end);
}
