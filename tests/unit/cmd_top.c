/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk top: disks come from sysfs and the block layer's counts, sessions from pages that may hold anything, and rows are
 * the difference of two looks. Method: a root folder and pages made for the test.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "initiator/cmd/top.h"

static char root[64];

static void path_of(const char *path, char full[PATH_MAX])
{
	snprintf(full, PATH_MAX, "%s%s", root, path);
	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		assert_true(!mkdir(full, 0755) || errno == EEXIST);
		*slash = '/';
	}
}

static void put(const char *path, const char *text)
{
	char full[PATH_MAX];

	path_of(path, full);
	unit_file_write(full, "%s", text);
}

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
	return 0;
}

static int setup(void **state)
{
	snprintf(root, sizeof(root), "/tmp/rblk-root.XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

/* -- disks ------------------------------------------------------------------------------------- */

static void put_disk(const char *stat)
{
	put("/sys/block/rblk0/rblk/state", "live\n");
	put("/sys/block/rblk0/rblk/volume", "disk\n");
	put("/sys/block/rblk0/rblk/target", "10.0.0.1:4430\n");
	put("/sys/block/rblk0/rblk/attachment", "1\n");
	put("/sys/block/rblk0/stat", stat);
}

static void disks_have_the_block_layers_counts(void **state)
{
	struct top_look look = {0};

	put_disk("  10 1 80 30  5 2 16 20  3 50 60  4 0 8 7  2 9\n");
	assert_int_equal(top_disks_look(root, &look), 0);
	assert_int_equal(look.count, 1);
	assert_string_equal(look.uses[0].user, "rblk0");
	assert_string_equal(look.uses[0].device, "/dev/rblk0");
	assert_string_equal(top_target(&look.uses[0]), "10.0.0.1:4430");
	assert_true(look.uses[0].counted && look.uses[0].attached);
	assert_false(look.uses[0].spread);
	assert_int_equal(look.uses[0].reads, 10);
	assert_int_equal(look.uses[0].read_bytes, 80 * 512);
	assert_int_equal(look.uses[0].writes, 5);
	assert_int_equal(look.uses[0].written_bytes, 16 * 512);
	assert_int_equal(look.uses[0].others, 6);
	assert_int_equal(look.uses[0].outstanding, 3);
	assert_int_equal(look.uses[0].ns, (30 + 20 + 7 + 9) * 1000000ull);
	top_look_free(&look);
}

static void what_is_not_counted_is_told(void **state)
{
	static const char *const texts[] = {"", "\n", "1 2 3\n", "a b c d e f g h i j k\n"};
	struct top_look look = {0};

	for (size_t i = 0; i < UNIT_LENGTH(texts); i++) {
		put_disk(texts[i]);
		assert_int_equal(top_disks_look(root, &look), 0);
		assert_int_equal(look.count, 1);
		assert_false(look.uses[0].counted);
		top_look_free(&look);
	}
	put_disk("1 1 1 1 1 1 1 1 1 1 1\n");
	put("/sys/block/rblk0/queue/iostats", "0\n");
	assert_int_equal(top_disks_look(root, &look), 0);
	assert_false(look.uses[0].counted);
	top_look_free(&look);
}

/* -- pages ------------------------------------------------------------------------------------- */

static struct ini_page page_of(void)
{
	struct ini_page page = {
		.magic = INI_PAGE_MAGIC,
		.version = INI_PAGE_VERSION,
		.bytes = sizeof(page),
		.pid = 12,
		.state = RBLK_SESSION_READY,
		.program = "program",
		.uri = "rblk://host/disk",
	};

	page.volumes[0] = (struct ini_page_volume){.use = 3, .name = "disk", .reads = 7, .us = 70};
	page.volumes[0].buckets[core_bucket(10)] = 7;
	return page;
}

/* A page whose program runs; returns its descriptor. */
static int put_page(const char *name, const struct ini_page *page, size_t bytes, bool locked)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[PATH_MAX], full[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "/pages/%s", name);
	path_of(path, full);
	fd = open(full, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, page, bytes), bytes);
	if (locked)
		assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	return fd;
}

static struct top_look pages_look(void)
{
	struct top_look look = {0};
	char full[PATH_MAX];

	path_of("/pages/", full);
	assert_int_equal(top_pages_look(full, &look), 0);
	return look;
}

static void a_page_is_read(void **state)
{
	struct ini_page page = page_of();
	int fd = put_page("librblk.12.0", &page, sizeof(page), true);
	struct top_look look = pages_look();

	assert_int_equal(look.count, 1);
	assert_string_equal(look.uses[0].user, "program[12]");
	assert_string_equal(look.uses[0].volume, "disk");
	assert_string_equal(look.uses[0].state, "live");
	assert_string_equal(top_target(&look.uses[0]), "rblk://host/disk");
	assert_int_equal(look.uses[0].reads, 7);
	assert_int_equal(look.uses[0].ns, 70000);
	assert_false(look.uses[0].attached);
	top_look_free(&look);
	close(fd);
}

static void a_dead_programs_page_is_removed(void **state)
{
	struct ini_page page = page_of();
	struct top_look look;
	char full[PATH_MAX];

	close(put_page("librblk.12.0", &page, sizeof(page), true));
	look = pages_look();
	assert_int_equal(look.count, 0);
	top_look_free(&look);
	path_of("/pages/librblk.12.0", full);
	assert_int_equal(access(full, F_OK), -1);
}

static void assert_unread(const struct ini_page *page, size_t bytes)
{
	int fd = put_page("librblk.12.0", page, bytes, true);
	struct top_look look = pages_look();

	assert_int_equal(look.count, 0);
	top_look_free(&look);
	close(fd);
}

static void what_is_no_page_is_not_read(void **state)
{
	struct ini_page page = page_of();
	struct top_look look;
	int fd;

	assert_unread(&page, sizeof(page) - 1);
	page.magic[7] = 'x';
	assert_unread(&page, sizeof(page));
	page = page_of();
	page.version++;
	assert_unread(&page, sizeof(page));
	page = page_of();
	page.bytes--;
	assert_unread(&page, sizeof(page));
	page = page_of();
	page.volumes[0].use = 4; /* even: it has been closed */
	assert_unread(&page, sizeof(page));
	page = page_of();
	fd = put_page("librblk.12.x", &page, sizeof(page), true);
	look = pages_look();
	assert_int_equal(look.count, 0);
	top_look_free(&look);
	close(fd);
}

static void any_content_is_survived(void **state)
{
	struct ini_page page, old = page_of();
	struct top_look before, after;
	struct top_rows rows;
	int fd = put_page("librblk.12.0", &old, sizeof(old), true);

	before = pages_look();
	memset(&page, 0xff, sizeof(page));
	memcpy(page.magic, INI_PAGE_MAGIC, sizeof(page.magic));
	page.version = INI_PAGE_VERSION;
	page.bytes = sizeof(page);
	assert_int_equal(pwrite(fd, &page, sizeof(page), 0), sizeof(page));
	after = pages_look();
	assert_int_equal(after.count, INI_PAGE_VOLUMES);
	for (size_t i = 0; i < after.count; i++) {
		assert_true(strlen(after.uses[i].volume) < sizeof(after.uses[i].volume));
		assert_true(strlen(after.uses[i].uri) < sizeof(after.uses[i].uri));
		assert_true(strlen(after.uses[i].program) < sizeof(after.uses[i].program));
		assert_string_equal(after.uses[i].state, "failed");
		assert_true(after.uses[i].ns <= INT64_MAX / 2 + 1ull); /* in JSON, too */
	}
	assert_true(top_rows_make(&before, &after, NULL, "bytes", &rows));
	assert_int_equal(rows.count, INI_PAGE_VOLUMES);
	top_rows_free(&rows);
	top_look_free(&before);
	top_look_free(&after);
	close(fd);
}

/* Root sees the sessions of each user, however many another one has. */
static void users_have_parts(void **state)
{
	enum { PAGES = TOP_USES_OF_USER_MAX / INI_PAGE_VOLUMES + 2 };
	struct ini_page page = page_of();
	struct top_look look = {0};
	char name[PATH_MAX];
	int fds[2 * PAGES];
	bool alone = false;

	for (unsigned int i = 0; i < INI_PAGE_VOLUMES; i++)
		page.volumes[i].use = 1;
	for (unsigned int i = 0; i < 2 * PAGES; i++) {
		snprintf(name, sizeof(name), "../run/user/%u/rblk/librblk.1.%u", i % 2 ? 7 : 8, i);
		fds[i] = put_page(name, &page, sizeof(page), true);
	}
	put("/run/user/9/rblk/other", "");
	memset(&page.volumes[1], 0, sizeof(page.volumes) - sizeof(page.volumes[0]));
	strcpy(page.volumes[0].name, "alone");
	close(fds[0]);
	fds[0] = put_page("../run/user/9/rblk/librblk.1.0", &page, sizeof(page), true);
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(top_pages_look_usual(root, &look), 0);
	assert_int_equal(look.count, 2 * TOP_USES_OF_USER_MAX + 1);
	assert_true(look.cut);
	for (size_t i = 0; i < look.count; i++)
		alone |= !strcmp(look.uses[i].volume, "alone");
	assert_true(alone);
	top_look_free(&look);
	for (unsigned int i = 0; i < 2 * PAGES; i++)
		close(fds[i]);
}

/* -- rows -------------------------------------------------------------------------------------- */

static struct top_use *use_of(struct top_look *look, const char *name, uint64_t reads, uint64_t bytes)
{
	struct top_use *use = top_look_add(look);

	assert_non_null(use);
	snprintf(use->key, sizeof(use->key), "%s", name);
	snprintf(use->user, sizeof(use->user), "%s", name);
	snprintf(use->volume, sizeof(use->volume), "of %s", name);
	use->counted = true;
	use->reads = reads;
	use->read_bytes = bytes;
	return use;
}

static void rows_are_differences(void **state)
{
	struct top_look before = {.taken_ns = 1000000000}, after = {.taken_ns = 3000000000};
	struct top_rows rows;
	struct top_use *use;

	use_of(&before, "a", 100, 1000)->ns = 5000;
	use_of(&before, "b", 100, 1000);
	use_of(&before, "gone", 100, 1000);
	use_of(&after, "new", 5, 3000);
	use = use_of(&after, "a", 110, 2000);
	use->ns = 25000;
	use->buckets[core_bucket(2)] = 10;
	/* It began again. */
	use_of(&after, "b", 40, 0);
	assert_true(top_rows_make(&before, &after, NULL, "iops", &rows));
	assert_int_equal(rows.count, 3);
	assert_true(rows.seconds == 2);
	assert_string_equal(rows.rows[0].use->user, "b");
	assert_int_equal(rows.rows[0].reads, 40);
	assert_int_equal(rows.rows[0].read_bytes, 0);
	assert_string_equal(rows.rows[1].use->user, "a");
	assert_int_equal(rows.rows[1].reads, 10);
	assert_true(rows.rows[1].mean_us == 2);
	assert_true(rows.rows[1].p50_us == 2.5);
	assert_true(rows.rows[1].bytes_share == 0.25);
	assert_int_equal(rows.rows[2].reads, 5);
	assert_int_equal(rows.all.reads, 55);
	assert_int_equal(rows.all.read_bytes, 4000);
	top_rows_free(&rows);
	assert_true(top_rows_make(&before, &after, "of new", "volume", &rows));
	assert_int_equal(rows.count, 1);
	assert_true(rows.rows[0].bytes_share == 0.75);
	top_rows_free(&rows);
	top_look_free(&before);
	top_look_free(&after);
}

static void barriers_are_bounded(void **state)
{
	struct top_look look = {0};

	for (unsigned int i = 0; i < TOP_USES_MAX; i++)
		assert_non_null(top_look_add(&look));
	assert_false(look.cut);
	assert_null(top_look_add(&look));
	assert_true(look.cut);
	top_look_free(&look);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(disks_have_the_block_layers_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_not_counted_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(a_page_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(a_dead_programs_page_is_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_no_page_is_not_read, setup, teardown),
		cmocka_unit_test_setup_teardown(any_content_is_survived, setup, teardown),
		cmocka_unit_test_setup_teardown(users_have_parts, setup, teardown),
		cmocka_unit_test(rows_are_differences),
		cmocka_unit_test(barriers_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
