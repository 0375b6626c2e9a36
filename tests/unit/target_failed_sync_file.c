/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a failed-sync file keeps its data for the same file and boot, and for no other; another file in its place is
 * not accepted. Method: failed-sync files in a folder of the test.
 */
#include "target/store/failed_sync_file.h"
#include "tests/unit/target_rig.h"

#include <sys/stat.h>

static char *directory, folder[64];
static const struct tgt_store_info disk = {
	.id = {.device = 0x810, .is_device = true}, .cache_epoch = {1, 2, 3}};
static const struct tgt_store_info file = {
	.id = {.device = 0x810, .inode = 77}, .cache_epoch = {1, 2, 3}, .born_s = 5, .born_ns = 6};

static int setup(void **state)
{
	directory = rig_directory();
	snprintf(folder, sizeof(folder), "%s/state", directory);
	return 0;
}

static int teardown(void **state)
{
	rig_directory_remove(directory);
	return 0;
}

static struct tgt_failed_sync_file *open_file(const struct tgt_store_info *info)
{
	char error[TGT_ERROR_BYTES];
	struct tgt_failed_sync_file *kept;

	if (tgt_failed_sync_file_open(folder, info, &kept, error) < 0)
		fail_msg("%s", error);
	return kept;
}

/* Like a process whose FLUSH failed and that was killed. */
static void leave(const struct tgt_store_info *info, uint64_t epoch)
{
	struct tgt_failed_sync_file *kept = open_file(info);

	atomic_store(&kept->epoch, epoch);
	atomic_store(&kept->lost_ns, 1);
	atomic_store(&kept->state, TGT_STORE_SERVED);
	tgt_failed_sync_file_close(kept);
}

static void expect_file(const struct tgt_store_info *info, uint64_t epoch)
{
	struct tgt_failed_sync_file *kept = open_file(info);

	assert_int_equal(atomic_load(&kept->epoch), epoch);
	assert_int_equal(atomic_load(&kept->lost_ns), epoch != 0);
	assert_int_equal(atomic_load(&kept->state), epoch ? TGT_STORE_SERVED : TGT_STORE_CLEAN);
	tgt_failed_sync_file_close(kept);
}

static bool there_is(const char *name)
{
	return access(unit_path(folder, name), F_OK) == 0;
}

static void it_is_kept(void **state)
{
	leave(&disk, 0x1234);
	leave(&file, 0x5678);
	expect_file(&disk, 0x1234);
	expect_file(&file, 0x5678);
	expect_file(&disk, 0x1234);
	assert_true(there_is("d-810") && there_is("f-810-4d"));
}

static void another_boot_and_another_file_know_nothing_of_it(void **state)
{
	struct tgt_store_info other = disk;

	leave(&disk, 1);
	other.cache_epoch[15]++;
	expect_file(&other, 0);
	expect_file(&disk, 0);
	other = file;
	leave(&file, 2);
	other.born_ns++;
	expect_file(&other, 0);
	leave(&file, 2);
	other = file;
	other.id.inode++;
	expect_file(&other, 0);
	expect_file(&file, 2);
}

/* Nor does it hold up who only reads. */
static void expect_none(void)
{
	struct tgt_failed_sync_file kept;

	assert_false(tgt_failed_sync_file_find(folder, &disk, &kept));
}

static void rubbish_is_not_believed(void **state)
{
	static const char *const contents[] = {"", "short", "x", NULL};
	char path[128], all[sizeof(struct tgt_failed_sync_file) + 1];

	leave(&disk, 3);
	snprintf(path, sizeof(path), "%s/d-810", folder);
	memset(all, 'x', sizeof(all) - 1);
	all[sizeof(all) - 1] = 0;
	for (int i = 0; i < 4; i++) {
		unit_file_write(path, "%s", contents[i] ? contents[i] : all);
		expect_none();
		expect_file(&disk, 0);
	}
}

static void who_only_reads_finds_it_and_writes_nothing(void **state)
{
	struct tgt_store_info other = disk;
	struct tgt_failed_sync_file kept;

	assert_false(tgt_failed_sync_file_find(folder, &file, &kept));
	leave(&disk, 0x1234);
	assert_true(tgt_failed_sync_file_find(folder, &disk, &kept));
	assert_int_equal(atomic_load(&kept.epoch), 0x1234);
	assert_int_equal(atomic_load(&kept.lost_ns), 1);
	other.cache_epoch[15]++;
	assert_false(tgt_failed_sync_file_find(folder, &other, &kept));
	assert_false(tgt_failed_sync_file_find(folder, &file, &kept));
	assert_false(there_is("f-810-4d"));
	expect_file(&disk, 0x1234);
}

static void a_folder_that_cannot_be_is_said(void **state)
{
	char error[TGT_ERROR_BYTES], wanted[TGT_ERROR_BYTES], deep[128];
	struct tgt_failed_sync_file *kept;

	snprintf(deep, sizeof(deep), "%s/missing/state", directory);
	assert_int_equal(tgt_failed_sync_file_open(deep, &disk, &kept, error), -ENOENT);
	snprintf(wanted, sizeof(wanted), "%s: No such file or directory", deep);
	assert_string_equal(error, wanted);
	/* A symbolic link in its place is not followed, but replaced. */
	assert_int_equal(mkdir(folder, 0700), 0);
	snprintf(deep, sizeof(deep), "%s/d-810", folder);
	assert_int_equal(symlink("/dev/null", deep), 0);
	expect_file(&disk, 0);
}

/* Its owner could truncate it while it is mapped, which kills the process; and a write to it
 * would change another file. */
static void what_is_not_ours_is_replaced(void **state)
{
	char error[TGT_ERROR_BYTES], path[128], other[128], wanted[TGT_ERROR_BYTES];
	struct tgt_failed_sync_file *kept;
	struct stat st;

	assert_int_equal(mkdir(folder, 0700), 0);
	snprintf(path, sizeof(path), "%s/d-810", folder);
	snprintf(other, sizeof(other), "%s/precious", directory);
	rig_file(other, 100);
	assert_int_equal(link(other, path), 0);
	expect_none();
	expect_file(&disk, 0);
	assert_int_equal(stat(other, &st), 0);
	assert_int_equal(st.st_size, 100);
	assert_int_equal(unlink(path), 0);
	/* A pipe, a directory. */
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_none();
	expect_file(&disk, 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	expect_none();
	assert_int_equal(tgt_failed_sync_file_open(folder, &disk, &kept, error), -EISDIR);
	assert_int_equal(rmdir(path), 0);
	if (geteuid())
		return;
	leave(&disk, 5);
	assert_int_equal(chown(path, 4711, (gid_t)-1), 0);
	expect_none();
	expect_file(&disk, 0);
	/* In a folder of another user's the file is that one's, and his process finds it. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(chown(folder, 4712, (gid_t)-1), 0);
	leave(&disk, 6);
	assert_int_equal(seteuid(4712), 0);
	expect_file(&disk, 6);
	/* One that it may neither open nor remove is no folder without rights, which an ordinary user's usually is. */
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(chown(path, 0, (gid_t)-1), 0);
	assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(seteuid(4712), 0);
	assert_int_equal(tgt_failed_sync_file_open(folder, &disk, &kept, error), -EPERM);
	snprintf(wanted, sizeof(wanted), "%s: not a file of rblkd's own; remove it", path);
	assert_string_equal(error, wanted);
	assert_int_equal(seteuid(0), 0);
}

#define FILE_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILE_TEST(it_is_kept),
		FILE_TEST(another_boot_and_another_file_know_nothing_of_it),
		FILE_TEST(rubbish_is_not_believed),
		FILE_TEST(who_only_reads_finds_it_and_writes_nothing),
		FILE_TEST(a_folder_that_cannot_be_is_said),
		FILE_TEST(what_is_not_ours_is_replaced),
	};

	return cmocka_run_group_tests_name("target failed-sync file", tests, NULL, NULL);
}
