/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe namespace is found and served by either of its devices, and both are claimed, so that neither a mount nor a
 * second daemon gets it; what cannot be served is refused, or served through the block layer, with words. Method: a
 * namespace in memory (nvme_fake.h). target_store_nvme.c has the operations.
 */
#include <sys/file.h>
#include "target/store/path.h"
#include "tests/unit/nvme_fake.h"

static void either_device_is_the_volume(void **state)
{
	static const struct {
		const struct tgt_store_ops *ops;
		const char *path;
	} ways[] = {
		{&tgt_store_nvme, FAKE_BLOCK}, {&tgt_store_nvme, FAKE_GENERIC}, {&tgt_store_uring, FAKE_GENERIC}};
	struct tgt_store_id id, other;

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(ways); i++) {
		struct tgt_volume_config config = rig_volume("nvme", ways[i].path, 0);
		char error[TGT_ERROR_BYTES];
		struct rig rig;

		assert_int_equal(rig_open(&rig, ways[i].ops, &config, error), 0);
		assert_ptr_equal(rig.store->ops, &tgt_store_nvme);
		assert_true(fake.exclusive);
		assert_int_equal(rig.store->info.bytes, FAKE_BYTES);
		assert_int_equal(rig.store->info.block_bytes, 512);
		assert_true(rig.store->info.can_flush && rig.store->info.can_fua && rig.store->info.can_compare);
		assert_true(rig.store->info.can_discard && rig.store->info.can_write_zeroes);
		assert_false(rig.store->info.can_extents);
		/* The kernel's "write through" is an administrator's word; the device has a cache. */
		assert_true(rig.store->info.volatile_cache);
		rig_close(&rig);
	}
	assert_int_equal(tgt_path_identify(FAKE_BLOCK, &id), 0);
	assert_int_equal(tgt_path_identify(FAKE_GENERIC, &other), 0);
	assert_true(tgt_store_id_same(&id, &other));
}

/* F6: nobody else gets either of them, by either store. */
static void both_devices_are_locked(void **state)
{
	static const char *const nodes[] = {"ng0n1", "nvme0n1"};
	struct tgt_volume_config config = rig_volume("uring", FAKE_BLOCK, 0);
	char error[TGT_ERROR_BYTES], file[128];
	struct rig rig, other;

	(void)state;
	fake_open(&rig);
	assert_int_equal(rig_open(&other, &tgt_store_uring, &config, error), -EBUSY);
	assert_int_equal(rig_open(&other, &tgt_store_nvme, &config, error), -EBUSY);
	for (size_t i = 0; i < UNIT_LENGTH(nodes); i++) {
		int fd;

		snprintf(file, sizeof(file), "%s/%s", fake.folder, nodes[i]);
		fd = open(file, O_RDWR);
		assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
		close(fd);
	}
	rig_close(&rig);
	/* A predecessor's lock on the generic device alone keeps it, too. */
	snprintf(file, sizeof(file), "%s/ng0n1", fake.folder);
	{
		int fd = open(file, O_RDWR);

		assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
		assert_int_equal(rig_open(&other, &tgt_store_nvme, &config, error), -EBUSY);
		assert_non_null(strstr(error, FAKE_GENERIC ": in use by"));
		close(fd);
	}
	fake_open(&rig);
	rig_close(&rig);
}

static void readers_share_it(void **state)
{
	struct tgt_volume_config config = rig_volume("nvme", FAKE_GENERIC, 0);
	char error[TGT_ERROR_BYTES];
	unsigned char *buffer = rig_buffer(4096, 1);
	struct rig first, second;

	(void)state;
	config.read_only = true;
	assert_int_equal(rig_open(&first, &tgt_store_nvme, &config, error), 0);
	assert_int_equal(rig_open(&second, &tgt_store_nvme, &config, error), 0);
	assert_false(first.store->info.can_discard || first.store->info.can_write_zeroes);
	assert_int_equal(rig_io(&second, TGT_IO_READ, 0, 0, buffer, 4096), 0);
	assert_memory_equal(buffer, fake.data, 4096);
	rig_close(&first);
	rig_close(&second);
	free(buffer);
}

/* The message of an attempt that must fail. */
static const char *refusal(const char *path, int wanted)
{
	struct tgt_volume_config config = rig_volume("nvme", path, 0);
	static char error[TGT_ERROR_BYTES];
	struct rig rig;

	assert_int_equal(rig_open(&rig, &tgt_store_nvme, &config, error), wanted);
	return error;
}

static void what_it_does_not_serve_is_refused(void **state)
{
	struct tgt_volume_config config = rig_volume("nvme", FAKE_GENERIC, 0);
	char error[TGT_ERROR_BYTES];
	struct rig rig;

	(void)state;
	fake.metadata = 8;
	assert_string_equal(refusal(FAKE_GENERIC, -EINVAL),
			    FAKE_GENERIC ": the namespace has 8 bytes of metadata for each block, which passthrough does "
					 "not serve; serve its block device with store = uring, or format it without");
	fake.protection = 1;
	assert_non_null(strstr(refusal(FAKE_GENERIC, -EINVAL), "8 bytes of metadata for each block and protection information"));
	fake.metadata = 0;
	assert_non_null(strstr(refusal(FAKE_GENERIC, -EINVAL), "and protection information"));
	fake.protection = 0;
	fake.zone_sectors = 1024;
	assert_string_equal(refusal(FAKE_GENERIC, -EINVAL), FAKE_BLOCK ": a namespace of zones, which is not supported");
	fake.zone_sectors = 0;
	fake.shift = 12;
	assert_string_equal(refusal(FAKE_GENERIC, -EINVAL),
			    FAKE_GENERIC ": blocks of 4096 bytes, but of 512 bytes on " FAKE_BLOCK);
	fake.shift = 13;
	assert_string_equal(refusal(FAKE_GENERIC, -EINVAL),
			    FAKE_GENERIC ": the namespace has blocks of 2^13 bytes; 512 to 4096 are supported");
	fake.shift = 9;
	assert_string_equal(refusal(FAKE_PART, -EINVAL),
			    FAKE_PART ": not a whole NVMe namespace (/dev/ngXnY or /dev/nvmeXnY)");
	assert_string_equal(refusal("/dev/null", -EINVAL),
			    "/dev/null: not a whole NVMe namespace (/dev/ngXnY or /dev/nvmeXnY)");
	config.cache = TGT_CACHE_BUFFERED;
	assert_int_equal(rig_open(&rig, &tgt_store_nvme, &config, error), -EINVAL);
	assert_string_equal(error, FAKE_GENERIC ": passthrough has no page cache: remove cache = buffered");
	/* None of these attempts has left a lock. */
	fake_open(&rig);
	rig_close(&rig);
}

/* Opens it although there is no passthrough; what was logged goes to `line`. */
static void open_without(struct rig *rig, const char *path, char line[1024])
{
	struct tgt_volume_config config = rig_volume("nvme", path, 0);
	int saved = dup(STDERR_FILENO), status;
	char error[TGT_ERROR_BYTES] = "";
	FILE *log = tmpfile();

	dup2(fileno(log), STDERR_FILENO);
	status = rig_open(rig, &tgt_store_nvme, &config, error);
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_string_equal(error, "");
	assert_int_equal(status, 0);
	rewind(log);
	assert_non_null(fgets(line, 1024, log));
	fclose(log);
	assert_ptr_equal(rig->store->ops, &tgt_store_uring);
	assert_true(fake.exclusive);
	assert_int_equal(rig->store->info.bytes, FAKE_BYTES);
}

static void without_passthrough_the_block_device_is_served(void **state)
{
	static const struct {
		int identify_errno, kernel, generic_errno;
		bool no_generic;
		const char *words;
	} ways[] = {
		{EACCES, 0, 0, false, FAKE_GENERIC ": the kernel lets only CAP_SYS_ADMIN identify it: no passthrough"},
		{0, -EACCES, 0, false, FAKE_GENERIC ": the kernel lets only CAP_SYS_ADMIN pass commands to it: no passthrough"},
		{0, -EOPNOTSUPP, 0, false, "passes no NVMe commands through io_uring (Linux 5.19 and later do): no passthrough"},
		{0, 0, 0, true, FAKE_BLOCK ": the kernel has no generic device for it (Linux 5.13 and later do): no passthrough"},
		/* Another user's device, and one that the service's unit does not allow. */
		{0, 0, EACCES, false, FAKE_GENERIC ": Permission denied; rblkd runs as user "},
		{0, 0, EPERM, false, FAKE_GENERIC ": Operation not permitted; rblkd runs as user "},
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(ways); i++) {
		char line[1024];
		struct rig rig;

		fake.identify_errno = ways[i].identify_errno;
		fake.kernel = ways[i].kernel;
		fake.no_generic = ways[i].no_generic;
		fake.generic_errno = ways[i].generic_errno;
		open_without(&rig, ways[i].no_generic ? FAKE_BLOCK : FAKE_GENERIC, line);
		assert_non_null(strstr(line, "volume v: "));
		assert_non_null(strstr(line, ways[i].words));
		assert_non_null(strstr(line, FAKE_BLOCK " is served through the block layer"));
		rig_close(&rig);
	}
	/* A device that is gone is an error. */
	fake.no_generic = false;
	fake.generic_errno = ENXIO;
	assert_string_equal(refusal(FAKE_GENERIC, -ENXIO), FAKE_GENERIC ": No such device or address");
	fake.generic_errno = 0;
	fake.kernel = -ENODEV;
	assert_string_equal(refusal(FAKE_GENERIC, -ENODEV), FAKE_GENERIC ": passing a command to it: No such device");
	/* A bad first block is not. */
	fake.kernel = 0x4281;
	{
		struct rig rig;

		fake_open(&rig);
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(either_device_is_the_volume),
		FAKE_TEST(both_devices_are_locked),
		FAKE_TEST(readers_share_it),
		FAKE_TEST(what_it_does_not_serve_is_refused),
		FAKE_TEST(without_passthrough_the_block_device_is_served),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
