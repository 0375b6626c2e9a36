/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a local store's fence domain (F10) is the same for a process that serves the same store of
 * the same machine again, another one for any other store or machine, clones included, and of this
 * boot alone where nothing else identifies the machine. Method: what Linux says of machine and
 * device, in a folder of the test; and files of the test.
 */
#include "target/store/domain.h"
#include "tests/unit/target_rig.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define UUID "4c4c4544-0044-3510-8052-b4c04f4e3232"
#define OTHER_UUID "4c4c4544-0044-3510-8052-b4c04f4e3233"

static char *root;

static int setup(void **state)
{
	root = rig_directory();
	return 0;
}

static int teardown(void **state)
{
	rig_directory_remove(root);
	return 0;
}

/* A file below the root, with its folders. */
static void put(const char *path, const char *text)
{
	char name[512], *slash;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (slash = strchr(name + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(name, 0700) && errno != EEXIST)
			fail_msg("%s: %s", name, strerror(errno));
		*slash = '/';
	}
	unit_file_write(name, "%s", text);
}

static void take_away(const char *path)
{
	char name[512];

	snprintf(name, sizeof(name), "%s%s", root, path);
	assert_int_equal(unlink(name), 0);
}

static bool machine(char words[TGT_MACHINE_BYTES])
{
	return tgt_domain_machine(root, NULL, words);
}

static void clones_are_others(void **state)
{
	char first[TGT_MACHINE_BYTES], words[TGT_MACHINE_BYTES];

	put("/proc/sys/kernel/random/boot_id", "11111111-aaaa-4aaa-8aaa-111111111111\n");
	put("/etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n");
	put("/sys/class/dmi/id/product_uuid", UUID "\n");
	assert_true(machine(first));
	/* It boots. */
	put("/proc/sys/kernel/random/boot_id", "22222222-aaaa-4aaa-8aaa-222222222222\n");
	assert_true(machine(words));
	assert_string_equal(first, words);
	/* A clone of its installation. */
	put("/sys/class/dmi/id/product_uuid", OTHER_UUID "\n");
	assert_true(machine(words));
	assert_string_not_equal(first, words);
	/* Another installation on a board whose maker has given several one UUID. */
	put("/sys/class/dmi/id/product_uuid", UUID "\n");
	put("/etc/machine-id", "4d1219c7c4c5404aaa1f6d2a48adfda4\n");
	assert_true(machine(words));
	assert_string_not_equal(first, words);
}

/* A container: no machine-id, or an empty one, or an image's; it is made again and is the same. */
static void container_without_an_id(void **state)
{
	char first[TGT_MACHINE_BYTES], words[TGT_MACHINE_BYTES];

	put("/sys/class/dmi/id/product_uuid", UUID "\n");
	put("/etc/machine-id", "");
	assert_true(machine(first));
	put("/etc/machine-id", "uninitialized\n");
	assert_true(machine(words));
	assert_string_equal(first, words);
	take_away("/etc/machine-id");
	assert_true(machine(words));
	assert_string_equal(first, words);
}

/* What is no one's own identifies nothing: then it is the boot. */
static void only_the_boot(void **state)
{
	static const char *const bad[] = {
		"",
		"none\n",
		"00000000-0000-0000-0000-000000000000\n",
		"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF\n",
		"03000200-0400-0500-0006-000700080009\n",
		"00020003-0004-0005-0006-000700080009\n",
	};
	char first[TGT_MACHINE_BYTES], words[TGT_MACHINE_BYTES];

	put("/etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n");
	for (unsigned int i = 0; i < UNIT_LENGTH(bad); i++) {
		put("/sys/class/dmi/id/product_uuid", bad[i]);
		put("/proc/sys/kernel/random/boot_id", "11111111-aaaa-4aaa-8aaa-111111111111\n");
		assert_false(machine(first));
		assert_false(machine(words));
		assert_string_equal(first, words);
		put("/proc/sys/kernel/random/boot_id", "22222222-aaaa-4aaa-8aaa-222222222222\n");
		assert_false(machine(words));
		assert_string_not_equal(first, words);
	}
	/* Not even that: no domain. */
	take_away("/proc/sys/kernel/random/boot_id");
	assert_false(machine(words));
	assert_string_equal(words, "");
}

/* A service that is not root's has it from systemd; a device tree has another place. */
static void other_places(void **state)
{
	char first[TGT_MACHINE_BYTES], words[TGT_MACHINE_BYTES], credentials[256];

	put("/sys/class/dmi/id/product_uuid", UUID "\n");
	assert_true(machine(first));
	put("/sys/class/dmi/id/product_uuid", "none");
	put("/credentials/product_uuid", UUID "\n");
	snprintf(credentials, sizeof(credentials), "%s/credentials", root);
	assert_true(tgt_domain_machine(root, credentials, words));
	assert_string_equal(first, words);
	put("/sys/firmware/devicetree/base/serial-number", "10000000c4a5f2b1");
	assert_true(machine(words));
	assert_string_not_equal(first, words);
}

static void devices(void **state)
{
	char first[TGT_DEVICE_BYTES], words[TGT_DEVICE_BYTES];

	/* A disk by its own name, under any number. */
	put("/sys/dev/block/8:16/device/wwid", "naa.5000c500a1b2c3d4\n");
	put("/sys/dev/block/8:32/device/wwid", "naa.5000c500a1b2c3d4\n");
	tgt_domain_device(root, makedev(8, 16), first);
	tgt_domain_device(root, makedev(8, 32), words);
	assert_string_equal(first, words);
	/* Its partitions are others. */
	put("/sys/dev/block/8:16/sdb1/partition", "1\n");
	put("/sys/dev/block/8:16/sdb2/partition", "2\n");
	tgt_domain_device(root, makedev(8, 16), words);
	assert_string_equal(first, words);
	/* An array of disks, whose number may be another one after a start. */
	put("/sys/dev/block/9:127/md/uuid", "6fb7d3a8:0f8c2b0e:6e4b1c44:9d2f7a10\n");
	put("/sys/dev/block/9:0/md/uuid", " 6fb7d3a8:0f8c2b0e:6e4b1c44:9d2f7a10 \n");
	assert_true(tgt_device_name(root, makedev(9, 127), first));
	assert_true(tgt_device_name(root, makedev(9, 0), words));
	assert_string_equal(first, "device 6fb7d3a8:0f8c2b0e:6e4b1c44:9d2f7a10");
	assert_string_equal(first, words);
	/* Two loop devices, of one file perhaps: nothing makes sure of one who serves the other. */
	put("/sys/dev/block/7:0/size", "1\n");
	put("/sys/dev/block/7:1/size", "1\n");
	assert_false(tgt_device_name(root, makedev(7, 0), words));
	assert_string_equal(words, "");
	tgt_domain_device(root, makedev(7, 0), first);
	tgt_domain_device(root, makedev(7, 1), words);
	assert_string_not_equal(first, words);
	/* One that has an empty serial number. */
	put("/sys/dev/block/7:0/serial", "\n");
	tgt_domain_device(root, makedev(7, 0), words);
	assert_string_equal(first, words);
}

/* NVMe's, where there is neither UUID nor EUI: vendor, serial number, model and, at the end, the namespace. */
static void namespaces_with_long_names(void **state)
{
	char first[TGT_DEVICE_BYTES], second[TGT_DEVICE_BYTES], text[256];

	snprintf(text, sizeof(text), "nvme.1344-%040d-%080d-%08x\n", 1, 2, 1);
	put("/sys/dev/block/259:1/wwid", text);
	snprintf(text, sizeof(text), "nvme.1344-%040d-%080d-%08x\n", 1, 2, 2);
	put("/sys/dev/block/259:2/wwid", text);
	assert_true(tgt_device_name(root, makedev(259, 1), first));
	assert_true(tgt_device_name(root, makedev(259, 2), second));
	assert_string_not_equal(first, second);
}

static void partitions(void **state)
{
	char disk[TGT_DEVICE_BYTES], first[TGT_DEVICE_BYTES], second[TGT_DEVICE_BYTES];
	char link[512];

	put("/sys/devices/sdc/wwid", "eui.0025385b71b0a3d1\n");
	put("/sys/devices/sdc/sdc1/partition", "1\n");
	put("/sys/devices/sdc/sdc2/partition", "2\n");
	put("/sys/dev/block/README", "");
	snprintf(link, sizeof(link), "%s/sys/dev/block/8:33", root);
	assert_int_equal(symlink("../../devices/sdc/sdc1", link), 0);
	snprintf(link, sizeof(link), "%s/sys/dev/block/8:34", root);
	assert_int_equal(symlink("../../devices/sdc/sdc2", link), 0);
	snprintf(link, sizeof(link), "%s/sys/dev/block/8:40", root);
	assert_int_equal(symlink("../../devices/sdc", link), 0);
	tgt_domain_device(root, makedev(8, 40), disk);
	tgt_domain_device(root, makedev(8, 33), first);
	tgt_domain_device(root, makedev(8, 34), second);
	assert_string_not_equal(disk, first);
	assert_string_not_equal(disk, second);
	assert_string_not_equal(first, second);
	assert_true(tgt_device_name(root, makedev(8, 33), disk));
	assert_string_equal(disk,
			    "device eui.0025385b71b0a3d1 partition 1"); /* as identities are kept */
	assert_string_equal(disk, first);
}

static unsigned int warnings;

void __wrap_tgt_log(enum tgt_log_level level, const char *format, ...);
void __wrap_tgt_log(enum tgt_log_level level, const char *format, ...)
{
	warnings += level == TGT_LOG_WARNING;
}

static void local(struct tgt_store_info *info, const char *name)
{
	struct tgt_volume_config config = {0};

	strcpy(config.name, name);
	tgt_domain_local(info, &config);
}

static void stores(void **state)
{
	struct tgt_store_info one = {.id = {.device = 0x810, .inode = 77}, .born_s = 5, .born_ns = 6};
	struct tgt_store_info again = one, other = one, memory = {0}, same = {0};

	local(&one, "a");
	/* The same file, of a file system that is mounted elsewhere, under another name. */
	again.id.device = 0x820;
	local(&again, "b");
	assert_memory_equal(one.fence_domain, again.fence_domain, 16);
	other.id.inode = 78;
	local(&other, "a");
	assert_memory_not_equal(one.fence_domain, other.fence_domain, 16);
	local(&memory, "a");
	assert_memory_not_equal(one.fence_domain, memory.fence_domain, 16);
	local(&same, "a");
	assert_memory_equal(memory.fence_domain, same.fence_domain, 16);
	local(&same, "b");
	assert_memory_not_equal(memory.fence_domain, same.fence_domain, 16);
}

/* Before all others: it is said once. */
static void a_machine_without_uuid_is_told(void **state)
{
	struct tgt_store_info memory = {0}, file = {.id = {.device = 0x810, .inode = 77}};
	const struct tgt_volume_config config = {.name = "a", .fence_domain = {1}}, nobody = {.name = "b"};
	char words[TGT_MACHINE_BYTES];

	unsetenv("CREDENTIALS_DIRECTORY");
	local(&memory, "a");
	tgt_domain_warn(&memory, &nobody);
	tgt_domain_local(&file, &config);
	tgt_domain_warn(&file, &config);
	assert_int_equal(warnings, 0);
	tgt_domain_warn(&file, &nobody);
	tgt_domain_warn(&file, &nobody);
	assert_int_equal(warnings, tgt_domain_machine("", NULL, words) ? 0 : 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_without_uuid_is_told),
		cmocka_unit_test_setup_teardown(clones_are_others, setup, teardown),
		cmocka_unit_test_setup_teardown(container_without_an_id, setup, teardown),
		cmocka_unit_test_setup_teardown(other_places, setup, teardown),
		cmocka_unit_test_setup_teardown(devices, setup, teardown),
		cmocka_unit_test_setup_teardown(namespaces_with_long_names, setup, teardown),
		cmocka_unit_test_setup_teardown(partitions, setup, teardown),
		cmocka_unit_test_setup_teardown(only_the_boot, setup, teardown),
		cmocka_unit_test(stores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
