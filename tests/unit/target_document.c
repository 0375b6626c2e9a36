/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an edit changes the lines that it is about and no others, and a save that fails leaves the old
 * file and nothing else. Method: texts before and after; writes that fail, by the linker.
 */
#include "target/control/document.h"
#include "tests/unit/target_rig.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

static char *directory;
static char path[128];
static ssize_t room; /* bytes that the disk still takes; -1: any */
static bool touch;   /* the file changes while it is read */

ssize_t __real_write(int fd, const void *buffer, size_t bytes);
ssize_t __wrap_write(int fd, const void *buffer, size_t bytes);
ssize_t __wrap_write(int fd, const void *buffer, size_t bytes)
{
	if (room < 0)
		return __real_write(fd, buffer, bytes);
	if (!room) {
		errno = ENOSPC;
		return -1;
	}
	if (bytes > (size_t)room)
		bytes = (size_t)room;
	room -= (ssize_t)bytes;
	return __real_write(fd, buffer, bytes);
}

ssize_t __real_read(int fd, void *buffer, size_t bytes);
ssize_t __wrap_read(int fd, void *buffer, size_t bytes);
ssize_t __wrap_read(int fd, void *buffer, size_t bytes)
{
	ssize_t got = __real_read(fd, buffer, bytes);

	if (touch && got > 0) {
		FILE *file = fopen(path, "a");

		touch = false;
		assert_non_null(file);
		fputs("store = null\n", file);
		fclose(file);
	}
	return got;
}

static void file_write(const char *text)
{
	unit_file_write(path, "%s", text);
}

static void file_is(const char *text)
{
	char got[4096] = "";
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	assert_true(fread(got, 1, sizeof(got) - 1, file) < sizeof(got) - 1);
	fclose(file);
	assert_string_equal(got, text);
}

static unsigned int files_in_directory(void)
{
	unsigned int count = 0;
	DIR *folder = opendir(directory);
	struct dirent *entry;

	assert_non_null(folder);
	while ((entry = readdir(folder)))
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

static int setup(void **state)
{
	(void)state;
	directory = rig_directory();
	snprintf(path, sizeof(path), "%s/rblkd.conf", directory);
	room = -1;
	touch = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_directory_remove(directory);
	return 0;
}

/* -- edits ------------------------------------------------------------------------------------- */

static void check_edit(const char *before, struct tgt_edit edit, const char *after)
{
	struct tgt_document document = {0};
	char error[TGT_ERROR_BYTES];

	file_write(before);
	assert_int_equal(tgt_document_read(&document, path, error), 0);
	assert_int_equal(tgt_document_edit(&document, &edit, 1, error), 0);
	assert_string_equal(document.files[0].text, after);
	assert_int_equal(document.files[0].bytes, strlen(after));
	tgt_document_fini(&document);
}

#define SET(section_, key_, value_) \
	((struct tgt_edit){.kind = TGT_EDIT_SET, .section = section_, .key = key_, .value = value_})

static void edits_leave_other_lines(void **state)
{
	(void)state;
	/* In its place, with indentation and comment; '-' is '_', ':' is '='. */
	check_edit("[volume a]\n\tblock-size: 512\t; as the disk\r\npath = /x\n",
		   SET("volume a", "block_size", "4K"),
		   "[volume a]\n\tblock_size = 4K\t; as the disk\r\npath = /x\n");
	check_edit("[volume a]\npath = /x\r\n", SET("volume a", "path", "/y"),
		   "[volume a]\npath = /y\r\n");
	/* A new key: behind the last one, before comments of what follows. */
	check_edit("[ volume \t a]\npath = /x\n\n# b\n[volume b]\n", SET("volume a", "cache", "direct"),
		   "[ volume \t a]\npath = /x\ncache = direct\n\n# b\n[volume b]\n");
	check_edit("[volume a]", SET("volume a", "path", "/x"), "[volume a]\npath = /x\n");
	check_edit("[volume a]\npath = /x", SET("volume a", "cache", "direct"),
		   "[volume a]\npath = /x\ncache = direct\n");
	/* Not another section's, nor a comment's, nor a longer name's. */
	check_edit("[volume ab]\npath = /1\n[volume a]\n# path = /2\n;path = /3\npaths = /4\n",
		   SET("volume a", "path", "/5"),
		   "[volume ab]\npath = /1\n[volume a]\n# path = /2\n;path = /3\npaths = /4\npath = /5\n");
	/* All lines of a repeated key. */
	check_edit("[initiator i]\naddress = 1\nread = v\naddress = 2\n\naddress = 3\n[volume v]\n",
		   SET("initiator i", "address", "local"),
		   "[initiator i]\nread = v\n\naddress = local\n[volume v]\n");
	check_edit("[initiator i]\naddress = 1\nread = v\naddress = 2\n",
		   (struct tgt_edit){.kind = TGT_EDIT_UNSET, .section = "initiator i", .key = "address"},
		   "[initiator i]\nread = v\n");
	check_edit("[initiator i]\naddress = 1\nread = v\n",
		   (struct tgt_edit){
			   .kind = TGT_EDIT_MORE, .section = "initiator i", .key = "address", .value = "2"},
		   "[initiator i]\naddress = 1\naddress = 2\nread = v\n");
	/* Of several [target], the last value counts. */
	check_edit("[target]\nopen = no\n[volume a]\n[target]\nopen = yes\n", SET("target", "open", "no"),
		   "[target]\n[volume a]\n[target]\nopen = no\n");
	check_edit("", (struct tgt_edit){.kind = TGT_EDIT_FIND, .section = "target"}, "[target]\n");
	check_edit("[volume a]", (struct tgt_edit){.kind = TGT_EDIT_ADD, .section = "volume b"},
		   "[volume a]\n\n[volume b]\n");
	check_edit("# a\n[volume a]\npath = /x\n\n# b\n[volume b]\n",
		   (struct tgt_edit){.kind = TGT_EDIT_REMOVE, .section = "volume a"},
		   "# a\n\n# b\n[volume b]\n");
	/* What "add" has put before it goes with it, so that nothing is left of both. */
	check_edit("[volume a]\n\n[volume b]\n", (struct tgt_edit){.kind = TGT_EDIT_REMOVE, .section = "volume b"},
		   "[volume a]\n");
	check_edit("[volume a]\n\n[volume b]\npath = /x\n\n[volume c]\n",
		   (struct tgt_edit){.kind = TGT_EDIT_REMOVE, .section = "volume b"}, "[volume a]\n\n[volume c]\n");
	check_edit("\n[volume b]\n", (struct tgt_edit){.kind = TGT_EDIT_REMOVE, .section = "volume b"}, "");
	check_edit("[volume a]\n\n[volume b]\n# c\n",
		   (struct tgt_edit){.kind = TGT_EDIT_REMOVE, .section = "volume b"}, "[volume a]\n\n# c\n");
}

static void wrong_edits_are_refused(void **state)
{
	static const struct {
		struct tgt_edit edit;
		const char *error;
	} wrong[] = {
		{{.kind = TGT_EDIT_ADD, .section = "volume a"}, "section [volume a] is already there"},
		{{.kind = TGT_EDIT_REMOVE, .section = "volume b"}, "there is no section [volume b]"},
		{{.kind = TGT_EDIT_ADD, .section = "volume b]\n[target"}, "a control character"},
		{{.kind = TGT_EDIT_ADD, .section = "volume b]x"}, "is not the name of a section"},
		{{TGT_EDIT_SET, "volume a", "pa th", "/y"}, "\"pa th\" is not a key"},
		{{TGT_EDIT_SET, "volume a", "", "/y"}, "\"\" is not a key"},
		{{TGT_EDIT_SET, "volume a", "path", "/y\nsize = 1"}, "a control character"},
		{{TGT_EDIT_SET, "volume a", "path", "/y ; z"}, "would begin a comment"},
	};
	char error[TGT_ERROR_BYTES];

	(void)state;
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct tgt_document document = {0};

		file_write("[volume a]\npath = /x\n");
		assert_int_equal(tgt_document_read(&document, path, error), 0);
		assert_true(tgt_document_edit(&document, &wrong[i].edit, 1, error) < 0);
		assert_non_null(strstr(error, wrong[i].error));
		assert_false(tgt_document_changed(&document));
		tgt_document_fini(&document);
	}
}

/* -- files ------------------------------------------------------------------------------------- */

static void a_save_is_whole_or_nothing(void **state)
{
	const struct tgt_edit edit = SET("volume a", "path", "/y");
	struct tgt_document document = {0};
	char error[TGT_ERROR_BYTES], words[TGT_ERROR_BYTES];
	struct stat st;

	(void)state;
	file_write("[volume a]\npath = /x\n");
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(tgt_document_read(&document, path, error), 0);
	assert_int_equal(tgt_document_edit(&document, &edit, 1, error), 0);
	/* A full disk: at once, and in the middle. */
	snprintf(words, sizeof(words), "%s: No space left on device: the file is as it was", path);
	for (unsigned int bytes = 0; bytes < 12; bytes += 10) {
		room = bytes;
		assert_int_equal(tgt_document_save(&document, false, error), -ENOSPC);
		assert_string_equal(error, words);
		file_is("[volume a]\npath = /x\n");
		assert_int_equal(files_in_directory(), 1);
		assert_true(tgt_document_changed(&document));
	}
	room = -1;
	assert_int_equal(tgt_document_save(&document, false, error), 0);
	file_is("[volume a]\npath = /y\n");
	assert_int_equal(files_in_directory(), 1);
	assert_false(tgt_document_changed(&document));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	/* Its own save is not somebody else's change. */
	assert_int_equal(tgt_document_edit(&document, &SET("volume a", "path", "/z"), 1, error), 0);
	assert_int_equal(tgt_document_save(&document, false, error), 0);
	file_is("[volume a]\npath = /z\n");
	tgt_document_fini(&document);
}

static void what_a_killed_save_left_is_replaced(void **state)
{
	struct tgt_document document = {0};
	char error[TGT_ERROR_BYTES], left[sizeof(path) + 8];

	(void)state;
	file_write("[volume a]\n");
	assert_int_equal(tgt_document_read(&document, path, error), 0);
	snprintf(left, sizeof(left), "%s.new", path);
	unit_file_write(left, "[volume a]\npath = /x that is longer than what comes");
	assert_int_equal(tgt_document_edit(&document, &SET("volume a", "path", "/z"), 1, error), 0);
	assert_int_equal(tgt_document_save(&document, false, error), 0);
	file_is("[volume a]\npath = /z\n");
	assert_int_equal(files_in_directory(), 1);
	tgt_document_fini(&document);
}

static void so_many_files_and_no_more(void **state)
{
	struct tgt_document document = {0};
	char error[TGT_ERROR_BYTES];

	(void)state;
	file_write("[volume a]\n");
	for (unsigned int i = 0; i < TGT_DOCUMENT_FILES_MAX; i++)
		assert_int_equal(tgt_document_read_file(&document, path, error), 0);
	assert_int_equal(tgt_document_read_file(&document, path, error), -E2BIG);
	assert_non_null(strstr(error, "more than"));
	tgt_document_fini(&document);
}

static void half_a_file_is_not_read(void **state)
{
	struct tgt_document document = {0};
	char error[TGT_ERROR_BYTES];

	(void)state;
	file_write("[volume a]\n");
	touch = true;
	assert_int_equal(tgt_document_read(&document, path, error), -EAGAIN);
	assert_non_null(strstr(error, "was written while it was read: reload again"));
	tgt_document_fini(&document);
	assert_int_equal(tgt_document_read(&document, path, error), 0);
	tgt_document_fini(&document);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(edits_leave_other_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(wrong_edits_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_save_is_whole_or_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_killed_save_left_is_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(so_many_files_and_no_more, setup, teardown),
		cmocka_unit_test_setup_teardown(half_a_file_is_not_read, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
