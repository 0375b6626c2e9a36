/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what was saved can be loaded, also after an interrupted save; a damaged file is refused
 * with a message and stays; no file is left of reservations that do not persist; what a save that
 * has failed says of the file is what a load finds. Method: files in a folder of the test; each byte and the
 * length of one are changed in turn; fsync(2) fails of the file or of the folder.
 */
#include "target/store/reservation_file.h"
#include "target/store/folder.h"
#include "tests/unit/target_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char *directory, folder[64], path[160];
static const uint8_t uuid[16] = {0xab, 1, 2, 3}, other_uuid[16] = {0xcd};

/* fsync(2), to which the linker leads its calls. */
static bool file_sync_fails, folder_sync_fails;
static unsigned int folder_syncs;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	folder_syncs += S_ISDIR(st.st_mode);
	if (S_ISDIR(st.st_mode) ? !folder_sync_fails : !file_sync_fails)
		return __real_fsync(fd);
	errno = EIO;
	return -1;
}

static int setup(void **state)
{
	char error[TGT_ERROR_BYTES];

	file_sync_fails = folder_sync_fails = false;
	directory = rig_directory();
	snprintf(folder, sizeof(folder), "%s/kept", directory);
	snprintf(path, sizeof(path), "%s/reservations-ab010203-0000-0000-0000-000000000000",
		 folder);
	assert_int_equal(tgt_folder_make(folder, error), 0);
	return 0;
}

static int teardown(void **state)
{
	rig_directory_remove(directory);
	return 0;
}

static struct tgt_reservation two(void)
{
	return (struct tgt_reservation){
		.generation = 7,
		.type = RBLK_RESERVATION_WRITE_EXCLUSIVE,
		.persist = true,
		.count = 2,
		.registrants = {{.initiator = "a", .host = {1, 2}, .key = 1ull << 63},
				{.initiator = "b", .host = {3}, .key = 5, .holder = true}},
	};
}

static int load(const uint8_t id[16], struct tgt_reservation *reservation, char *error)
{
	memset(reservation, 0x55, sizeof(*reservation));
	return tgt_reservation_load(folder, id, reservation, error);
}

static void save(const struct tgt_reservation *reservation)
{
	char error[TGT_ERROR_BYTES];
	bool replaced;

	if (tgt_reservation_save(folder, uuid, reservation, &replaced, error))
		fail_msg("%s", error);
	assert_true(replaced);
}

/* It fails, and says whether the file is the new one. */
static void save_fails(const struct tgt_reservation *reservation, bool expected)
{
	char error[TGT_ERROR_BYTES];
	bool replaced = !expected;

	assert_int_equal(tgt_reservation_save(folder, uuid, reservation, &replaced, error), -EIO);
	assert_non_null(strstr(error, folder));
	assert_int_equal(replaced, expected);
}

static void expect(const struct tgt_reservation *expected)
{
	struct tgt_reservation loaded;
	char error[TGT_ERROR_BYTES];

	if (load(uuid, &loaded, error))
		fail_msg("%s", error);
	assert_int_equal(loaded.generation, expected->generation);
	assert_int_equal(loaded.type, expected->type);
	assert_int_equal(loaded.persist, expected->persist);
	assert_int_equal(loaded.count, expected->count);
	for (unsigned int i = 0; i < RBLK_REGISTRANTS_MAX; i++) {
		assert_memory_equal(loaded.registrants[i].initiator,
				    expected->registrants[i].initiator, RBLK_NAME_BYTES);
		assert_memory_equal(loaded.registrants[i].host, expected->registrants[i].host,
				    TGT_REGISTRANT_HOST_BYTES);
		assert_int_equal(loaded.registrants[i].key, expected->registrants[i].key);
		assert_int_equal(loaded.registrants[i].holder, expected->registrants[i].holder);
	}
}

static size_t contents(const char *name, char *data, size_t room)
{
	int fd = open(name, O_RDONLY);
	ssize_t got;

	assert_true(fd >= 0);
	got = read(fd, data, room);
	close(fd);
	assert_true(got >= 0);
	return (size_t)got;
}

static void put(const char *name, const char *data, size_t bytes)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), bytes);
	close(fd);
}

static void saved_is_loaded(void **state)
{
	const struct tgt_reservation none = {.count = 0};
	struct tgt_reservation all = two();

	expect(&none);
	save(&all);
	expect(&all);
	all.registrants[0].key = 9;
	save(&all);
	expect(&all);
	/* The largest. */
	all.count = RBLK_REGISTRANTS_MAX;
	for (unsigned int i = 0; i < RBLK_REGISTRANTS_MAX; i++) {
		snprintf(all.registrants[i].initiator, RBLK_NAME_BYTES, "host%u", i);
		all.registrants[i].key = i + 1;
	}
	save(&all);
	expect(&all);
}

static void volatile_leaves_no_file(void **state)
{
	const struct tgt_reservation none = {.count = 0};
	struct tgt_reservation all = two();
	struct stat st;

	save(&all);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	all.persist = false;
	save(&all);
	assert_int_equal(stat(path, &st), -1);
	expect(&none);
	save(&all); /* there is none to remove */
	all = (struct tgt_reservation){.persist = true};
	save(&all);
	assert_int_equal(stat(path, &st), -1);
}

/* A process killed in the middle has left a part of the next file. */
static void an_interrupted_save_changes_nothing(void **state)
{
	struct tgt_reservation all = two();
	char fresh[200];

	save(&all);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	put(fresh, "rblkPR", 6);
	expect(&all);
	all.generation++;
	save(&all);
	expect(&all);
	assert_int_equal(access(fresh, F_OK), -1);
}

/* The old one, where its data could not be written; the new one, or none, where that is certain but
 * for a crash. */
static void what_a_failed_save_says_is_what_is_loaded(void **state)
{
	const struct tgt_reservation none = {.count = 0};
	struct tgt_reservation all = two(), loaded;
	char error[TGT_ERROR_BYTES];

	save(&all);
	file_sync_fails = true;
	all.generation++;
	save_fails(&all, false);
	all.generation--;
	expect(&all);
	file_sync_fails = false;
	folder_sync_fails = true;
	all.generation++;
	save_fails(&all, true);
	/* Who loads it counts on it, so it must be durable then. */
	assert_int_equal(load(uuid, &loaded, error), -EIO);
	assert_non_null(strstr(error, folder));
	assert_int_equal(loaded.count, 0);
	folder_sync_fails = false;
	expect(&all);
	folder_sync_fails = true;
	all.persist = false;
	save_fails(&all, true);
	folder_sync_fails = false;
	expect(&none);
}

static void refuse(const uint8_t id[16], const char *words)
{
	struct tgt_reservation loaded;
	char error[TGT_ERROR_BYTES];

	assert_int_equal(load(id, &loaded, error), -EBADMSG);
	if (!strstr(error, words) || !strstr(error, "reservations-"))
		fail_msg("\"%s\" does not say \"%s\"", error, words);
	assert_int_equal(loaded.count, 0);
}

static void damage_is_refused(void **state)
{
	struct tgt_reservation all = two();
	char data[4096], name[200];
	size_t bytes;

	save(&all);
	bytes = contents(path, data, sizeof(data));
	for (size_t i = 0; i < bytes; i++) {
		data[i] ^= 0x10;
		put(path, data, bytes);
		refuse(uuid, "remove it to serve the volume without its reservations");
		data[i] ^= 0x10;
	}
	for (size_t cut = 0; cut < bytes; cut++) {
		put(path, data, cut);
		refuse(uuid, cut < 48 ? "it is cut short" : "its length is wrong");
	}
	data[bytes] = 0;
	put(path, data, bytes + 1);
	refuse(uuid, "its length is wrong");
	put(path, data, bytes);
	expect(&all);
	/* The file of another volume. */
	snprintf(name, sizeof(name), "%s/reservations-cd000000-0000-0000-0000-000000000000",
		 folder);
	put(name, data, bytes);
	refuse(other_uuid, "it is another volume's");
}

static void a_folder_that_cannot_be_used_is_told(void **state)
{
	struct tgt_reservation all = two();
	char error[TGT_ERROR_BYTES], name[200];
	bool replaced = true;

	snprintf(name, sizeof(name), "%s/no/such", directory);
	assert_int_equal(tgt_folder_make(name, error), -ENOENT);
	assert_non_null(strstr(error, name));
	assert_int_equal(tgt_reservation_save(name, uuid, &all, &replaced, error), -ENOENT);
	assert_false(replaced);
	assert_non_null(strstr(error, name));
}

/* After a crash of the machine the folder must be there, too: it is a name in its parent. */
static void a_folder_that_is_made_is_durable(void **state)
{
	char error[TGT_ERROR_BYTES], name[200];
	unsigned int before = folder_syncs;

	snprintf(name, sizeof(name), "%s/made", directory);
	folder_sync_fails = true;
	assert_int_equal(tgt_folder_make(name, error), -EIO);
	folder_sync_fails = false;
	assert_int_equal(tgt_folder_make(name, error), 0);
	assert_int_equal(folder_syncs, before + 2);
	assert_int_equal(tgt_folder_make(name, error), 0);
	assert_int_equal(folder_syncs, before + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(saved_is_loaded, setup, teardown),
		cmocka_unit_test_setup_teardown(volatile_leaves_no_file, setup, teardown),
		cmocka_unit_test_setup_teardown(an_interrupted_save_changes_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_a_failed_save_says_is_what_is_loaded, setup,
						teardown),
		cmocka_unit_test_setup_teardown(damage_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_used_is_told, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_folder_that_is_made_is_durable, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
