/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a path that rblkd may not use is reported with the user that rblkd runs as and with what helps: by owner, mode, group,
 * the unit's list of devices, or a folder on the way. Method: stat(), access() and geteuid() of the test's own.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "target/base/denied.h"
#include "tests/unit/unit.h"

static uid_t user;
static mode_t mode;
static uid_t owner;
static gid_t group;
static const char *closed; /* this folder may not be entered */

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
	return user;
}

int __wrap_access(const char *path, int rights);
int __wrap_access(const char *path, int rights)
{
	if (rights != X_OK || !closed || strcmp(path, closed))
		return 0;
	errno = EACCES;
	return -1;
}

int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
	(void)path;
	memset(st, 0, sizeof(*st));
	st->st_mode = mode;
	st->st_uid = owner;
	st->st_gid = group;
	return 0;
}

static void expect_words(const char *path, int error, const char *wanted)
{
	char words[TGT_DENIED_BYTES];

	errno = ENODATA;
	assert_string_equal(tgt_denied(path, error, words), wanted);
	assert_string_equal(tgt_denied(path, -error, words), wanted);
	assert_int_equal(errno, ENODATA);
}

static int setup(void **state)
{
	(void)state;
	user = 4711; /* which nobody has */
	mode = S_IFREG | 0600;
	owner = 0;
	group = 0;
	closed = NULL;
	return 0;
}

static void a_file_of_others_wants_chown(void **state)
{
	(void)state;
	expect_words("/srv/a.img", EACCES, "; rblkd runs as user 4711: chown 4711 /srv/a.img");
	expect_words("a.img", EACCES, "; rblkd runs as user 4711: chown 4711 a.img");
	user = 0;
	owner = 4711;
	expect_words("/srv/a.img", EACCES, "; rblkd runs as user root: chown root /srv/a.img");
}

static void a_file_of_its_own_wants_chmod(void **state)
{
	(void)state;
	owner = user;
	mode = S_IFREG | 0400;
	expect_words("/srv/a.img", EACCES, "; rblkd runs as user 4711: chmod u+rw /srv/a.img");
	mode = S_IFREG | 0600;
	expect_words("/srv/a.img", EACCES, "; rblkd runs as user 4711: the file system or a security module refuses");
}

static void a_closed_folder_is_named(void **state)
{
	(void)state;
	closed = "/srv/private";
	expect_words("/srv/private/a/b.img", EACCES, "; rblkd runs as user 4711: it may not enter /srv/private");
	/* The path itself is no folder on the way. */
	expect_words("/srv/private", EACCES, "; rblkd runs as user 4711: chown 4711 /srv/private");
}

static void a_device_is_for_a_group(void **state)
{
	(void)state;
	mode = S_IFBLK | 0660;
	group = 0;
	expect_words("/dev/sda", EACCES, "; rblkd runs as user 4711: a rule of udev can give the device to that user's group");
	group = 4712;
	expect_words("/dev/sda", EACCES,
		     "; rblkd runs as user 4711: the device is for group 4712 (SupplementaryGroups=4712 in its unit)");
	mode = S_IFCHR | 0600;
	expect_words("/dev/ng0n1", EACCES, "; rblkd runs as user 4711: a rule of udev can give the device to that user's group");
	/* The control group's word. */
	expect_words("/dev/ng0n1", EPERM, "; rblkd runs as user 4711: DeviceAllow= in its unit does not have this device");
}

static void other_errors_have_no_words(void **state)
{
	(void)state;
	expect_words("/srv/a.img", ENOENT, "");
	expect_words("/srv/a.img", EIO, "");
	expect_words("", EACCES, "");
	/* Of a file: it is immutable, or the like. */
	expect_words("/srv/a.img", EPERM, "");
}

#define DENIED_TEST(function) cmocka_unit_test_setup(function, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DENIED_TEST(a_file_of_others_wants_chown),
		DENIED_TEST(a_file_of_its_own_wants_chmod),
		DENIED_TEST(a_closed_folder_is_named),
		DENIED_TEST(a_device_is_for_a_group),
		DENIED_TEST(other_errors_have_no_words),
	};

	return cmocka_run_group_tests_name("target denied", tests, NULL, NULL);
}
