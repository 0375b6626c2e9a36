/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The list of attached volumes comes from sysfs; the users of a disk come from mounts, holders and swaps. Method: a root folder made for the test.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "initiator/cmd/attach.h"

static char root[64];

/* Write a file under root, with the folders that lead to it. */
static void put(const char *path, const char *text)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		assert_true(!mkdir(full, 0755) || errno == EEXIST);
		*slash = '/';
	}
	unit_file_write(full, "%s", text);
}

static void put_device(const char *device, const char *file, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/block/%s/%s", device, file);
	put(path, text);
}

static int setup(void **state)
{
	snprintf(root, sizeof(root), "/tmp/rblk-root.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	put_device("sda", "size", "8\n");
	put_device("rblk10", "rblk/state", "live\n");
	put_device("rblk10", "rblk/attachment", "aa\n");
	/* Of a module that does not tell for how long. */
	put_device("rblk10", "rblk/portals", "10.9.0.9:4430\n");
	put_device("rblk10", "rblk/connections", "0 live 10.9.0.9:4430\n");
	put_device("rblk2", "rblk/state", "recovering\n");
	put_device("rblk2", "rblk/reason", "the target closed the connection\n");
	put_device("rblk2", "rblk/target", "10.9.0.1:4430\n");
	put_device("rblk2", "rblk/volume", "disk\n");
	put_device("rblk2", "rblk/attachment", "bb\n");
	put_device("rblk2", "rblk/queues", "4\n");
	put_device("rblk2", "rblk/give_up_ms", "60000\n");
	put_device("rblk2", "rblk/key", "/etc/rblk/key\n");
	put_device("rblk2", "rblk/digest", "1\n");
	put_device("rblk2", "rblk/portals", "10.9.0.1:4430\n[fe80::2]:4430\n");
	put_device("rblk2", "rblk/connections",
		   "0 live [fe80::2]:4430 83999\n1 connecting 10.9.0.1:4430 0\n"
		   "2 live [fe80::2]:4430 4000\n3 ended 10.9.0.1:4430 0\n");
	put_device("rblk2", "rblk_counters/messages", "3\n");
	put_device("rblk2", "rblk_counters/commands", "12\n");
	put_device("rblk2", "size", "2048\n");
	put_device("rblk2", "ro", "1\n");
	put_device("rblk2", "dev", "252:128\n");
	put_device("rblk2", "rblk2p1/dev", "252:129\n");
	return 0;
}

static int teardown(void **state)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static void devices_are_found_in_order(void **state)
{
	struct attached *list;

	assert_int_equal(attached_list(root, &list), 2);
	assert_string_equal(list[0].device, "rblk2");
	assert_string_equal(list[1].device, "rblk10");
	assert_string_equal(list[0].state, "recovering");
	assert_string_equal(list[0].reason, "the target closed the connection");
	assert_string_equal(list[0].target, "10.9.0.1:4430");
	assert_int_equal(list[0].bytes, 1048576);
	assert_int_equal(list[0].queues, 4);
	assert_int_equal(list[0].give_up_ms, 60000);
	assert_true(list[0].read_only);
	assert_string_equal(list[0].key, "/etc/rblk/key");
	assert_true(list[0].digest);
	assert_int_equal(attached_counter(&list[0], "commands"), 12);
	assert_int_equal(attached_counter(&list[0], "messages"), 3);
	assert_int_equal(attached_counter(&list[0], "none"), 0);
	assert_string_equal(list[0].name, "");
	assert_int_equal(list[0].paths.count, 2);
	assert_string_equal(list[0].paths.list[0].host, "10.9.0.1:4430");
	assert_int_equal(list[0].paths.list[0].connections, 0);
	assert_string_equal(list[0].paths.list[1].host, "[fe80::2]:4430");
	assert_int_equal(list[0].paths.list[1].connections, 2);
	assert_int_equal(list[0].paths.list[1].connected_ms, 83999);
	assert_int_equal(list[1].paths.count, 1);
	assert_int_equal(list[1].paths.list[0].connections, 1);
	assert_int_equal(list[1].paths.list[0].connected_ms, 0);
	assert_string_equal(list[1].key, "");
	assert_false(list[1].digest);
	free(list);
}

/* What proves and protects a disk is seen by whoever looks at the list. */
static void security_is_printed(void **state)
{
	struct attached *list;
	char line[512];
	int saved = dup(STDOUT_FILENO), count = attached_list(root, &list);
	FILE *out = tmpfile();

	assert_non_null(out);
	fflush(stdout);
	assert_true(dup2(fileno(out), STDOUT_FILENO) >= 0);
	attached_print(list, count);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(out);
	assert_non_null(fgets(line, sizeof(line), out));
	assert_non_null(strstr(line, "PROVEN  DIGEST   AGE  STATE"));
	assert_non_null(fgets(line, sizeof(line), out));
	assert_non_null(strstr(line, "yes     yes     83 s  recovering"));
	assert_non_null(fgets(line, sizeof(line), out));
	assert_null(strstr(line, "yes"));
	fclose(out);
	free(list);
}

static void others_are_not_ours(void **state)
{
	static const char *const names[] = { "sda",	"rblk",	  "rblk3",
					     "rblk2p1", "rblk-2", "../rblk2" };
	struct attached attached;

	for (size_t i = 0; i < UNIT_LENGTH(names); i++)
		assert_int_equal(attached_read(root, names[i], &attached), -ENODEV);
}

/* Its name and URI are what sysfs says; a disk may have neither. */
static void names_are_the_modules(void **state)
{
	struct attached attached;
	char device[16];

	assert_false(attached_named(root, "data", device));
	put_device("rblk2", "rblk/name", "data\n");
	put_device("rblk2", "rblk/uri", "rblk://host/disk\n");
	put_device("rblk10", "rblk/name", "\n");
	assert_int_equal(attached_read(root, "rblk2", &attached), 0);
	assert_string_equal(attached.name, "data");
	assert_string_equal(attached.uri, "rblk://host/disk");
	assert_true(attached_named(root, "data", device));
	assert_string_equal(device, "rblk2");
	assert_false(attached_named(root, "dat", device));
	assert_false(attached_named(root, "", device));
	assert_string_equal(device, "");
}

/* F7: the module is told once, and only about the attachment that was meant. */
static void losses_are_acknowledged(void **state)
{
	struct attached attached;
	char path[PATH_MAX], text[8] = "";
	FILE *file;

	assert_int_equal(attached_read(root, "rblk2", &attached), 0);
	assert_int_equal(attached_acknowledge(root, &attached), -ENOENT); /* an older module */
	put_device("rblk2", "rblk/acknowledge", "");
	put_device("rblk2", "rblk/writes_lost", "0\n");
	assert_int_equal(attached_acknowledge(root, &attached), 0);
	put_device("rblk2", "rblk/writes_lost", "1\n");
	assert_int_equal(attached_acknowledge(root, &attached), 1);
	snprintf(path, sizeof(path), "%s/sys/block/rblk2/rblk/acknowledge", root);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	assert_string_equal(text, "1\n");
	put_device("rblk2", "rblk/acknowledge", "");
	put_device("rblk2", "rblk/attachment", "cc\n");
	assert_int_equal(attached_acknowledge(root, &attached), -ENOENT);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_null(fgets(text, sizeof(text), file));
	fclose(file);
}

/* An operand is a device, a name, or a URI. */
static void operands_find_their_disk(void **state)
{
	struct attached list[2] = {
		{.device = "rblk2", .name = "data", .uri = "rblk://host/disk"},
		{.device = "rblk10", .target = "10.9.0.1:4430", .volume = "two"},
	};

	assert_ptr_equal(attached_find("/dev/rblk2", list, 2), &list[0]);
	assert_ptr_equal(attached_find("rblk10", list, 2), &list[1]);
	assert_ptr_equal(attached_find("data", list, 2), &list[0]);
	assert_ptr_equal(attached_find("rblk://HOST:4430/disk", list, 2), &list[0]);
	assert_ptr_equal(attached_find("rblk://10.9.0.1/two", list, 2), &list[1]);
	assert_null(attached_find("rblk://10.9.0.1/disk", list, 2));
	assert_null(attached_find("other", list, 2));
}

static void users_are_named(void **state)
{
	char text[ATTACH_REASON_BYTES];

	assert_false(attached_users(root, "rblk2", text, sizeof(text)));
	put("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
	put("/proc/swaps", "Filename Type Size Used Priority\n/dev/rblk20 partition 1 0 -2\n");
	assert_false(attached_users(root, "rblk2", text, sizeof(text)));
	put("/proc/swaps", "Filename Type Size Used Priority\n/dev/rblk2 partition 1 0 -2\n");
	assert_true(attached_users(root, "rblk2", text, sizeof(text)));
	assert_string_equal(text, "in use as swap");
	put("/proc/swaps", "");
	put_device("rblk2", "rblk2p1/holders/dm-3", "");
	assert_true(attached_users(root, "rblk2", text, sizeof(text)));
	assert_string_equal(text, "its partition rblk2p1 is used by dm-3");
	put("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
				    "2 1 252:128 / /srv/data rw - ext4 /dev/rblk2 rw\n");
	assert_true(attached_users(root, "rblk2", text, sizeof(text)));
	assert_string_equal(text, "mounted at /srv/data");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(devices_are_found_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(security_is_printed, setup, teardown),
		cmocka_unit_test_setup_teardown(others_are_not_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(names_are_the_modules, setup, teardown),
		cmocka_unit_test_setup_teardown(losses_are_acknowledged, setup, teardown),
		cmocka_unit_test_setup_teardown(operands_find_their_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(users_are_named, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
