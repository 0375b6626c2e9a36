/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a volume keeps its UUID and its block size whatever becomes of its path, its file system and its machine's name; what
 * earlier versions have given stays; two volumes are never one, and no reservation is forgotten by another UUID. Method:
 * registries over files of the test, one after the other; the machine's id and host name are the test's.
 */
#include "target/store/identity.h"
#include "proto/core/env.h"
#include "target/control/check.h"
#include "target/store/identity_file.h"
#include "target/store/path.h"
#include "target/store/reservation_file.h"
#include "target/store/volume.h"
#include "tests/unit/target_rig.h"

#include <sys/stat.h>
#include <uuid/uuid.h>

static char *directory, folder[64], disk[64];
static struct tgt_registry *registry;
static const char *machine_id, *host_name; /* NULL: there is none */
static const char *mount_root; /* of the volume that the folder is on; NULL: as it is */
static uint32_t block_bytes; /* that files need; 0: their own */
static bool disks; /* each file is a block device, a path to a disk whose name is the file's first
		      byte */

bool __wrap_env_machine_id(const char *root, char id[ENV_MACHINE_ID_BYTES]);
bool __wrap_env_machine_id(const char *root, char id[ENV_MACHINE_ID_BYTES])
{
	snprintf(id, ENV_MACHINE_ID_BYTES, "%s", machine_id ? machine_id : "");
	return machine_id;
}

FILE *__real_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode)
{
	static char mounts[512];
	struct statx stx;

	if (strcmp(name, "/proc/self/mountinfo") || !mount_root)
		return __real_fopen(name, mode);
	assert_int_equal(statx(AT_FDCWD, folder, 0, STATX_MNT_ID, &stx), 0);
	snprintf(mounts, sizeof(mounts), "1 0 0:1 / / rw - overlay overlay rw\n%llu 1 8:1 %s /var/lib/rblkd rw - ext4 /dev/sda1 rw\n",
		 (unsigned long long)stx.stx_mnt_id, mount_root);
	return fmemopen(mounts, strlen(mounts), mode);
}

int __wrap_gethostname(char *name, size_t bytes);
int __wrap_gethostname(char *name, size_t bytes)
{
	snprintf(name, bytes, "%s", host_name);
	return 0;
}

static void make_disk(const char *path, struct tgt_store_id *id)
{
	id->is_device = true;
	id->device = id->inode;
	id->inode = 0;
	rig_file_bytes(path, id->disk, 1, 0);
}

int __real_tgt_path_identify(const char *path, struct tgt_store_id *id);
int __wrap_tgt_path_identify(const char *path, struct tgt_store_id *id);
int __wrap_tgt_path_identify(const char *path, struct tgt_store_id *id)
{
	int status = __real_tgt_path_identify(path, id);

	if (!status && disks)
		make_disk(path, id);
	return status;
}

int __real_tgt_path_open(const struct tgt_volume_config *config, struct tgt_path *path, struct tgt_store_info *info,
			 char *error);
int __wrap_tgt_path_open(const struct tgt_volume_config *config, struct tgt_path *path, struct tgt_store_info *info,
			 char *error);
int __wrap_tgt_path_open(const struct tgt_volume_config *config, struct tgt_path *path, struct tgt_store_info *info,
			 char *error)
{
	int status = __real_tgt_path_open(config, path, info, error);

	if (!status && block_bytes)
		info->block_bytes = block_bytes;
	if (!status && disks)
		make_disk(config->path, &info->id);
	return status;
}

static int setup(void **state)
{
	directory = rig_directory();
	snprintf(folder, sizeof(folder), "%s/kept", directory);
	snprintf(disk, sizeof(disk), "%s/disk", directory);
	rig_file(disk, 65536);
	machine_id = "0123456789abcdef0123456789abcdef";
	host_name = "storage1";
	block_bytes = 0;
	disks = false;
	mount_root = NULL;
	if (tgt_registry_create(&registry))
		return -1;
	return tgt_registry_keep(registry, folder) ? 0 : -1;
}

static int teardown(void **state)
{
	tgt_registry_destroy(registry);
	rig_directory_remove(directory);
	return 0;
}

static struct tgt_volume_config volume_of(const char *name, const char *path)
{
	struct tgt_volume_config config = rig_volume("uring", path, 0);

	strcpy(config.name, name);
	config.cache = TGT_CACHE_BUFFERED;
	return config;
}

static int add(const struct tgt_volume_config *config, char *error)
{
	return tgt_volume_add(registry, config, error);
}

static void drop(const char *name)
{
	struct tgt_volume *volume = tgt_volume_remove(registry, name);

	assert_non_null(volume);
	tgt_volume_put(volume);
}

/* Serves it for a moment. */
static void serve(const struct tgt_volume_config *config, uint8_t uuid[16], uint32_t *blocks_of)
{
	char error[TGT_ERROR_BYTES];
	struct tgt_volume *volume;

	if (add(config, error))
		fail_msg("%s", error);
	volume = tgt_volume_get(registry, config->name);
	memcpy(uuid, volume->config.uuid, 16);
	if (blocks_of)
		*blocks_of = volume->block_bytes;
	tgt_volume_put(volume);
	drop(config->name);
}

static void expect_uuid(const struct tgt_volume_config *config, const uint8_t uuid[16])
{
	uint8_t now[16];

	serve(config, now, NULL);
	assert_memory_equal(now, uuid, 16);
}

static void expect_refused(const struct tgt_volume_config *config, int status, const char *words)
{
	char error[TGT_ERROR_BYTES];

	assert_int_equal(add(config, error), status);
	if (!strstr(error, words))
		fail_msg("\"%s\" lacks \"%s\"", error, words);
}

/* As version 0.1.0 has given it to a volume of a machine and path. */
static void what_follows_from_machine_path_and_name_is_the_same_in_every_version(void **state)
{
	struct tgt_volume_config config = volume_of("data", "/srv/disk.img");
	char text[UUID_STR_LEN];
	uint8_t uuid[16];

	assert_true(tgt_identity_derive(&config, uuid));
	uuid_unparse_lower(uuid, text);
	assert_string_equal(text, "67c2c2cc-6e63-54c9-9e4a-ba01201ed370");
	config = rig_volume("memory", "", 65536);
	strcpy(config.name, "scratch");
	tgt_identity_derive(&config, uuid);
	uuid_unparse_lower(uuid, text);
	assert_string_equal(text, "96cab7e2-4c6f-518d-bdde-af6558e49e1a");
}

/* It has reservations, and nothing else is kept yet. */
static void an_upgrade_changes_nothing(void **state)
{
	struct tgt_reservation all = {.persist = true, .generation = 3, .count = 1};
	struct tgt_volume_config config = volume_of("data", disk);
	char error[TGT_ERROR_BYTES];
	struct tgt_volume *volume;
	uint8_t uuid[16];
	bool replaced;

	tgt_identity_derive(&config, uuid);
	strcpy(all.registrants[0].initiator, "node1");
	all.registrants[0].key = 1;
	assert_int_equal(tgt_reservation_save(folder, uuid, &all, &replaced, error), 0);
	host_name = "other";
	assert_int_equal(add(&config, error), 0);
	volume = tgt_volume_get(registry, "data");
	assert_memory_equal(volume->config.uuid, uuid, 16);
	assert_int_equal(volume->reservations.now.count, 1);
	tgt_volume_put(volume);
	drop("data");
	machine_id = "fedcba9876543210fedcba9876543210";
	expect_uuid(&config, uuid);
}

static void another_path_or_machine_finds_it_again(void **state)
{
	struct tgt_volume_config config = volume_of("data", disk);
	char other[80];
	uint8_t uuid[16], second[16];

	serve(&config, uuid, NULL);
	snprintf(other, sizeof(other), "%s.link", disk);
	assert_int_equal(symlink("disk", other), 0);
	machine_id = NULL;
	host_name = "3f0c2a1b77de"; /* as a container's that was made anew */
	config = volume_of("other", other);
	expect_uuid(&config, uuid);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(rename(disk, other), 0);
	expect_uuid(&config, uuid);
	/* Who reads may have it as several volumes. */
	config.read_only = true;
	expect_uuid(&config, uuid);
	strcpy(config.name, "third");
	machine_id = "0123456789abcdef0123456789abcdef";
	serve(&config, second, NULL);
	assert_memory_not_equal(second, uuid, 16);
}

/* Restored, or moved to another file system: it is at the same path, under the same name. */
static void what_takes_its_place_has_it_then(void **state)
{
	struct tgt_volume_config config = volume_of("data", disk), former;
	char old[80], error[TGT_ERROR_BYTES];
	uint8_t uuid[16], again[16];
	uint32_t blocks;

	config.block_bytes = 4096;
	serve(&config, uuid, &blocks);
	assert_int_equal(blocks, 4096);
	config.block_bytes = 0;
	snprintf(old, sizeof(old), "%s.old", disk);
	assert_int_equal(rename(disk, old), 0);
	rig_file(disk, 65536);
	serve(&config, again, &blocks);
	assert_memory_equal(again, uuid, 16);
	assert_int_equal(blocks, 4096);
	/* Both, in either order. */
	former = volume_of("old", old);
	assert_int_equal(add(&config, error), 0);
	expect_refused(&former, -EEXIST, "is that of volume data");
	drop("data");
	assert_int_equal(add(&former, error), 0);
	expect_refused(&config, -EEXIST, "is that of volume old");
	drop("old");
	uuid_generate(former.uuid);
	assert_int_equal(add(&config, error), 0);
	assert_int_equal(add(&former, error), 0);
	drop("data");
	drop("old");
	memset(former.uuid, 0, 16);
	assert_int_equal(add(&former, error), 0);
	assert_int_equal(add(&config, error), 0);
	drop("data");
	drop("old");
}

static void two_volumes_are_never_one(void **state)
{
	struct tgt_volume_config first = volume_of("a", disk), second;
	char other[80], error[TGT_ERROR_BYTES];

	snprintf(other, sizeof(other), "%s.other", disk);
	rig_file(other, 65536);
	uuid_generate(first.uuid);
	second = volume_of("b", other);
	memcpy(second.uuid, first.uuid, 16);
	assert_int_equal(add(&first, error), 0);
	expect_refused(&second, -EEXIST, "is that of volume a");
	drop("a");
	assert_int_equal(add(&second, error), 0);
	drop("b");
}

static void path_to_disk(char *path, const char *name, char byte)
{
	int fd;

	sprintf(path, "%s/%s", directory, name);
	rig_file(path, 65536);
	fd = open(path, O_WRONLY);
	assert_int_equal(write(fd, &byte, 1), 1);
	close(fd);
}

/* Nothing else would stop it: the lock is on the device node. A UUID of its own does not make it
 * another disk. */
static void two_paths_to_one_disk_are_one_volume(void **state)
{
	char one[80], same[80], other[80], nameless[2][80], error[TGT_ERROR_BYTES];
	struct tgt_volume_config first, second, both[2];
	struct tgt_config config = {.volumes = both, .volume_count = 2};
	struct tgt_volume *held;

	disks = true;
	path_to_disk(one, "sda", 'x');
	path_to_disk(same, "sdb", 'x');
	path_to_disk(other, "sdc", 'y');
	path_to_disk(nameless[0], "loop0", 0);
	path_to_disk(nameless[1], "loop1", 0);
	first = volume_of("a", one);
	second = volume_of("b", same);
	uuid_generate(second.uuid);
	assert_int_equal(add(&first, error), 0);
	expect_refused(&second, -EALREADY, "already served as volume a");
	expect_refused(&second, -EALREADY,
		       "two paths to one disk: serve it once, through multipath");
	both[0] = first;
	both[1] = second;
	assert_int_equal(tgt_check(&config, false), 1);
	/* While it is being closed, too. */
	held = tgt_volume_get(registry, "a");
	drop("a");
	expect_refused(&second, -EAGAIN, "which is being closed");
	tgt_volume_put(held);
	assert_int_equal(add(&second, error), 0);
	drop("b");
	/* Readers may share; other disks, and those without a name, are others. */
	first.read_only = second.read_only = true;
	assert_int_equal(add(&first, error), 0);
	assert_int_equal(add(&second, error), 0);
	drop("a");
	drop("b");
	first = volume_of("a", one);
	second = volume_of("b", other);
	assert_int_equal(add(&first, error), 0);
	assert_int_equal(add(&second, error), 0);
	drop("a");
	drop("b");
	first = volume_of("a", nameless[0]);
	second = volume_of("b", nameless[1]);
	assert_int_equal(add(&first, error), 0);
	assert_int_equal(add(&second, error), 0);
	drop("a");
	drop("b");
}

static void blocks_stay_although_the_disk_has_others(void **state)
{
	struct tgt_volume_config config = volume_of("data", disk);
	uint8_t uuid[16];
	uint32_t blocks;

	serve(&config, uuid, &blocks);
	assert_int_equal(blocks, 512);
	block_bytes = 4096;
	expect_refused(&config, -EINVAL, "it was served with blocks of 512 bytes, and needs 4096 now");
	config.block_bytes = 4096;
	serve(&config, uuid, &blocks);
	assert_int_equal(blocks, 4096);
	config.block_bytes = 0;
	block_bytes = 512;
	serve(&config, uuid, &blocks);
	assert_int_equal(blocks, 4096);
}

static void reservations_of_a_former_uuid_are_not_forgotten(void **state)
{
	struct tgt_reservation all = {.persist = true, .generation = 3, .count = 1};
	struct tgt_volume_config config = volume_of("data", disk);
	char error[TGT_ERROR_BYTES], path[PATH_MAX];
	uint8_t uuid[16];
	bool replaced;

	serve(&config, uuid, NULL);
	strcpy(all.registrants[0].initiator, "node1");
	all.registrants[0].key = 1;
	assert_int_equal(tgt_reservation_save(folder, uuid, &all, &replaced, error), 0);
	uuid_generate(config.uuid);
	expect_refused(&config, -EEXIST, "and reservations are kept for that: set uuid = ");
	memcpy(config.uuid, uuid, 16);
	expect_uuid(&config, uuid);
	uuid_generate(config.uuid);
	assert_true(tgt_reservation_exists(folder, uuid, path));
	assert_int_equal(unlink(path), 0);
	expect_uuid(&config, config.uuid);
	/* From now on that is the one. */
	memcpy(uuid, config.uuid, 16);
	memset(config.uuid, 0, 16);
	expect_uuid(&config, uuid);
}

static void a_machine_without_an_id_has_to_keep_it(void **state)
{
	struct tgt_volume_config config = volume_of("data", disk), memory = rig_volume("memory", "", 65536);
	uint8_t uuid[16];

	machine_id = NULL;
	tgt_registry_destroy(registry);
	assert_int_equal(tgt_registry_create(&registry), 0);
	expect_refused(&config, -ENOENT, "this machine has no /etc/machine-id");
	serve(&memory, uuid, NULL);
	uuid_generate(config.uuid);
	expect_uuid(&config, config.uuid);
	memset(config.uuid, 0, 16);
	tgt_registry_keep(registry, folder);
	serve(&config, uuid, NULL);
	host_name = "other";
	expect_uuid(&config, uuid);
	tgt_registry_destroy(registry);
	assert_int_equal(tgt_registry_create(&registry), 0);
	machine_id = "0123456789abcdef0123456789abcdef";
	serve(&config, uuid, NULL);
}

#define ENGINE_NAME "3fa9c1d2e4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeeff"

/* The next container has another one, which is empty. */
static void a_container_keeps_it_on_a_volume_with_a_name(void **state)
{
	static const char *const anonymous[] = {"/var/lib/docker/volumes/" ENGINE_NAME "/_data",
						"/home/me/.local/share/containers/storage/volumes/" ENGINE_NAME "/_data",
						"/io.containerd.grpc.v1.cri/containers/" ENGINE_NAME "/volumes/" ENGINE_NAME};
	static const char *const named[] = {"/var/lib/docker/volumes/kept/_data", "/", "/srv/_data", "/_data",
					    "/volumes/" ENGINE_NAME "0/_data", "/volumes/" ENGINE_NAME "/kept"};
	struct tgt_volume_config config = volume_of("data", disk);
	uint8_t uuid[16];

	machine_id = NULL;
	for (size_t i = 0; i < UNIT_LENGTH(anonymous); i++) {
		mount_root = anonymous[i];
		expect_refused(&config, -ENOENT, "is a volume without a name, which goes with this container");
	}
	/* With a UUID, or on a machine with an id, it does not depend on what is kept. */
	uuid_generate(config.uuid);
	expect_uuid(&config, config.uuid);
	rig_directory_remove(folder);
	assert_true(tgt_registry_keep(registry, folder));
	memset(config.uuid, 0, 16);
	for (size_t i = 0; i < UNIT_LENGTH(named); i++) {
		mount_root = named[i];
		serve(&config, uuid, NULL);
		rig_directory_remove(folder);
		assert_true(tgt_registry_keep(registry, folder));
	}
	mount_root = anonymous[0];
	machine_id = "0123456789abcdef0123456789abcdef";
	serve(&config, uuid, NULL);
	/* The same container, which was stopped: it is kept already. */
	machine_id = NULL;
	expect_uuid(&config, uuid);
}

static void rubbish_is_not_believed(void **state)
{
	struct tgt_identity_record record = {.block_bytes = 4096, .key = "file 1", .name = "data"}, read;
	static const char *const contents[] = {"", "name data\nstore file 1\n", "name data\nstore file 1\nblock_size 513\n",
					       "name data\nblock_size 512\n"};
	char error[TGT_ERROR_BYTES], path[PATH_MAX];
	const uint8_t uuid[16] = {1};
	uint8_t found[16];

	assert_false(tgt_identity_file_find(folder, "file 1", found));
	assert_int_equal(tgt_identity_file_write(folder, uuid, &record, error), 0);
	assert_true(tgt_identity_file_find(folder, "file 1", found));
	assert_memory_equal(found, uuid, 16);
	assert_int_equal(tgt_identity_file_read(folder, uuid, &read, error), 0);
	assert_int_equal(read.block_bytes, 4096);
	assert_string_equal(read.key, "file 1");
	snprintf(path, sizeof(path), "%s/volume-01000000-0000-0000-0000-000000000000", folder);
	for (size_t i = 0; i < UNIT_LENGTH(contents); i++) {
		unit_file_write(path, "%s", contents[i]);
		assert_int_equal(tgt_identity_file_read(folder, uuid, &read, error), -ENOENT);
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(tgt_identity_file_read(folder, uuid, &read, error), -ENOENT);
	assert_int_equal(tgt_identity_file_write("/proc/none", uuid, &record, error), -ENOENT);
}

#define IDENTITY_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IDENTITY_TEST(what_follows_from_machine_path_and_name_is_the_same_in_every_version),
		IDENTITY_TEST(an_upgrade_changes_nothing),
		IDENTITY_TEST(another_path_or_machine_finds_it_again),
		IDENTITY_TEST(what_takes_its_place_has_it_then),
		IDENTITY_TEST(two_volumes_are_never_one),
		IDENTITY_TEST(two_paths_to_one_disk_are_one_volume),
		IDENTITY_TEST(blocks_stay_although_the_disk_has_others),
		IDENTITY_TEST(reservations_of_a_former_uuid_are_not_forgotten),
		IDENTITY_TEST(a_machine_without_an_id_has_to_keep_it),
		IDENTITY_TEST(a_container_keeps_it_on_a_volume_with_a_name),
		IDENTITY_TEST(rubbish_is_not_believed),
	};

	return cmocka_run_group_tests_name("target identity", tests, NULL, NULL);
}
