/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a configuration file is read whole, or refused with file, line and a suggestion. Method:
 * small files in a directory of the test, against the struct or the exact message.
 */
#include <sys/stat.h>
#include "target/control/address.h"
#include "target/control/config.h"
#include "target/fault/fault.h"
#include "tests/unit/target_rig.h"

static char *directory;
static char home[4096];

static int enter(void **state)
{
	assert_non_null(getcwd(home, sizeof(home)));
	directory = rig_directory();
	return chdir(directory);
}

static int leave(void **state)
{
	if (chdir(home))
		return -1;
	rig_directory_remove(directory);
	return 0;
}

static int load(const char *text, struct tgt_config *config, char *error)
{
	int status;

	unit_file_write("rblkd.conf", "%s", text);
	tgt_config_init(config);
	status = tgt_config_load(config, "rblkd.conf", error);
	if (status == 0)
		status = tgt_config_complete(config, error);
	if (status < 0)
		tgt_config_fini(config);
	return status;
}

struct mistake {
	const char *text, *error;
};

static const struct mistake mistakes_in_lines[] = {
	{"[volume a]\npath = /x\nblok_size = 512\n",
	 "rblkd.conf:3: unknown key \"blok_size\"; did you mean \"block_size\"?"},
	{"[volume a]\n\n# a comment\n\tpath = /x\n\tzebra = 1\n",
	 "rblkd.conf:5: unknown key \"zebra\""},
	{"[target]\npath = /x\n",
	 "rblkd.conf:2: \"path\" belongs in a [volume NAME] section"},
	{"[volume a]\nreactors = 2\n", "rblkd.conf:2: \"reactors\" belongs in [target]"},
	{"[target]\nconfig = x\n", "rblkd.conf:2: unknown key \"config\""},
	{"[target]\nreactors = two\n",
	 "rblkd.conf:2: reactors: \"two\" is not a number from 0 to 64"},
	{"[target]\nreactors = 2\nreactors = 3\n",
	 "rblkd.conf:3: duplicate key \"reactors\" in this section"},
	{"[target]\nreactors =\n", "rblkd.conf:2: reactors: needs a value"},
	{"[target]\n[volume a]\npath=/x\n[target]\n",
	 "rblkd.conf:4: duplicate section [target]"},
	{"reactors = 2\n", "rblkd.conf:1: \"reactors\" is before the first section"},
	{"[volumes]\n", "rblkd.conf:1: unknown section [volumes]; "
			"there are [target], [volume NAME] and [initiator NAME]"},
	{"[volume a] read_only = yes\npath=/x\n",
	 "rblkd.conf:1: behind the ] of a section is \"read_only = yes\": a key has a line of its own"},
	{"[target]\rreactors = 2\r", "rblkd.conf:1: lines end with a carriage return alone"},
	{"[target]\nreactors\n", "rblkd.conf:2: neither \"key = value\" nor a [section]"},
	{"[target\nreactors=2\n", "rblkd.conf:1: neither \"key = value\" nor a [section]"},
	{"[target]\nnonsense\nzebra = 1\n",
	 "rblkd.conf:2: neither \"key = value\" nor a [section]"},
	{"[target]\nstate_dir = run/rblkd\n",
	 "rblkd.conf:2: state_dir: run/rblkd is relative: write an absolute path"},
};

static const struct mistake mistakes_in_volumes[] = {
	{"[volume a b]\n", "rblkd.conf:1: \"a b\" is not a volume name: "
			   "1 to 63 of A-Z a-z 0-9 . _ : + -"},
	{"[volume ]\n", "rblkd.conf:1: \"\" is not a volume name: "
			"1 to 63 of A-Z a-z 0-9 . _ : + -"},
	{"[volume a]\npath=/x\n[volume a]\npath=y\n",
	 "volume a: defined twice, at rblkd.conf:1 and at rblkd.conf:3"},
	{"[volume a]\npath=/x\n[volume b]\npath=/x\n",
	 "rblkd.conf:3: volume b: volume a already uses path /x"},
	{"[volume a]\n", "rblkd.conf:1: volume a: store = uring, but it has no path"},
	{"[volume a]\npath = \"/srv/x\"\n",
	 "rblkd.conf:2: path: \"/srv/x\" has quotes, which would be part of the name: "
	 "write it without them"},
	{"[volume a]\npath = '/srv/x'\n",
	 "rblkd.conf:2: path: '/srv/x' has quotes, which would be part of the name: "
	 "write it without them"},
	{"[volume a]\npath = srv/x\n",
	 "rblkd.conf:2: path: srv/x is relative: write an absolute path"},
	{"[volume a]\npath = /x\nsize = 1M\n",
	 "rblkd.conf:1: volume a: store = uring, "
	 "but it has a path and a size; the size comes from the path"},
	{"[volume a]\nstore = memory\n",
	 "rblkd.conf:1: volume a: store = memory, but it has no size"},
	{"[volume a]\nstore = null\nsize = 1M\npath = /x\n",
	 "rblkd.conf:1: volume a: store = null, but it has a path, which this store does "
	 "not use"},
	{"[volume a]\nstore = tape\npath = /x\n",
	 "rblkd.conf:1: volume a: store \"tape\" is not one of uring, nvme, rbd, memory, null"},
	{"[volume a]\nstore = fault\npath = /x\n",
	 "rblkd.conf:1: volume a: store \"fault\" is not one of uring, nvme, rbd, memory, null"},
	{"[volume a]\npath = /x\nuuid = 17\n", "rblkd.conf:3: uuid: \"17\" is not a UUID"},
	{"[volume a]\npath = /x\nfault = slow\n",
	 "rblkd.conf:3: fault: \"slow\" is not one of "
	 "delay=, fail=, tear=, lose=, power=, untorn=, after=, count=, seed="},
};

static const struct mistake mistakes_in_initiators[] = {
	{"[initiator ]\n", "rblkd.conf:1: \"\" is not an initiator's name: "
			   "1 to 63 of A-Z a-z 0-9 . _ : + -, at the end perhaps *"},
	{"[initiator a*b]\n", "rblkd.conf:1: \"a*b\" is not an initiator's name: "
			      "1 to 63 of A-Z a-z 0-9 . _ : + -, at the end perhaps *"},
	{"[initiator a]\naddress = ::1\n[initiator b]\n[initiator a]\n",
	 "initiator a: defined twice, at rblkd.conf:1 and at rblkd.conf:4"},
	{"[volume v]\nstore = null\nsize = 1M\n[initiator a]\nread = v\n",
	 "rblkd.conf:4: initiator a: has neither secret nor address: anyone could use its "
	 "name; for everyone write address = 0.0.0.0/0, ::/0"},
	{"[initiator a*]\nsecret = /dev/null\n",
	 "rblkd.conf:2: secret: /dev/null: is not a regular file"},
	{"[initiator a]\nsecret = a.key\n",
	 "rblkd.conf:2: secret: a.key is relative: write an absolute path"},
	{"[initiator a]\naddress = ::1, here\n",
	 "rblkd.conf:2: address: \"here\" is not an address, as in 10.9.0.0/16, fd09::1 or local"},
	{"[initiator a]\nsecret = rblk1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
	 "rblkd.conf:2: secret: is a secret itself: write the path of a file that has it"},
	{"[initiator a]\nread = v *w\n",
	 "rblkd.conf:2: read: \"*w\" is not a volume's name, at the end perhaps *"},
	{"[initiator a]\npath = /x\n", "rblkd.conf:2: \"path\" belongs in a [volume NAME] section"},
	{"[target]\nread = v\n", "rblkd.conf:2: \"read\" belongs in an [initiator NAME] section"},
	{"[initiator a]\nadress = ::1\n",
	 "rblkd.conf:2: unknown key \"adress\"; did you mean \"address\"?"},
};

static void each_is_refused(const struct mistake *mistakes, size_t count)
{
	char error[TGT_ERROR_BYTES];
	struct tgt_config config;

	for (size_t i = 0; i < count; i++) {
		error[0] = 0;
		assert_true(load(mistakes[i].text, &config, error) < 0);
		assert_string_equal(error, mistakes[i].error);
	}
}

static void mistakes_have_file_and_line(void **state)
{
	each_is_refused(mistakes_in_lines, UNIT_LENGTH(mistakes_in_lines));
	each_is_refused(mistakes_in_volumes, UNIT_LENGTH(mistakes_in_volumes));
	each_is_refused(mistakes_in_initiators, UNIT_LENGTH(mistakes_in_initiators));
}

static void long_line_is_refused(void **state)
{
	char text[512] = "[volume a]\npath = /", error[TGT_ERROR_BYTES];
	struct tgt_config config;

	memset(text + strlen(text), 'x', 300);
	assert_int_equal(load(text, &config, error), -EINVAL);
	assert_string_equal(error, "rblkd.conf:2: line longer than 198 characters");
	/* The longest allowed line is read whole. */
	memset(text, 0, sizeof(text));
	strcpy(text, "[volume a]\npath = /");
	memset(text + strlen(text), 'x', 198 - strlen("path = /"));
	strcat(text, "\ncache = buffered\n");
	assert_int_equal(load(text, &config, error), 0);
	assert_int_equal(strlen(config.volumes[0].path), 198 - strlen("path = "));
	assert_int_equal(config.volumes[0].cache, TGT_CACHE_BUFFERED);
	tgt_config_fini(&config);
}

static const char all_keys[] =
	"# comment\n"
	"[target]\n"
	"listen = rblk+tcp://127.0.0.1:0\n"
	"listen = rblk://[fe80::1%eth0]:4431\n"
	"reactors = 3\npolling = never\npoll_time = 100us\nqueues = 4\n"
	"credits = 64\nreceive_buffers = 256\npool_size = 8M\n"
	"max_io = 256K\nsessions = 5\nconnections = 6\nkeepalive = 7s\nsession_time = 9s\n"
	"drain_time = 8s\nopen = yes\nmemory_lock = no\n"
	"state_dir = /run/other\n"
	"log_level = debug\n"
	"; comment\n"
	"[volume one]\n"
	"  path = /dev/vda ; comment\n"
	"  block_size = 4K\nread_only = on\ncache = buffered\n"
	"lock_wait = 5ms\nfault = delay=5ms\n"
	"uuid = 01234567-89ab-cdef-0123-456789abcdef\n"
	"[volume two]\nstore = memory\nsize = 2G\n"
	"[initiator db1]\n"
	"address = 10.9.0.0/16 , fd09::/64\naddress = local\n"
	"see = one\nread = one, t*\nwrite = two\n"
	"[initiator *]\naddress = ::/0\n";

static void target_is_read(const struct tgt_config *config)
{
	char listen[TGT_ADDRESS_BYTES];

	assert_int_equal(config->listen_count, 2);
	tgt_address_format(&config->listen[1], listen);
	assert_string_equal(listen, "rblk://[fe80::1%eth0]:4431");
	assert_int_equal(config->reactors, 3);
	assert_int_equal(config->polling, TGT_POLL_NEVER);
	assert_int_equal(config->poll_us_max, 100);
	assert_int_equal(config->queues_max, 4);
	assert_int_equal(config->credits, 64);
	assert_int_equal(config->receive_buffers, 256);
	assert_int_equal(config->pool_bytes, 8 << 20);
	assert_int_equal(config->max_io_bytes, 256 << 10);
	assert_int_equal(config->sessions_max, 5);
	assert_int_equal(config->queues_total_max, 6);
	assert_int_equal(config->keepalive_ms, 7000);
	assert_int_equal(config->session_ms, 9000);
	assert_int_equal(config->drain_ms, 8000);
	assert_false(config->memory_lock);
	assert_string_equal(config->state_dir, "/run/other");
	assert_int_equal(config->log_level, 7);
	assert_true(config->open);
}

static void volumes_are_read(const struct tgt_config *config)
{
	const struct tgt_volume_config *one = &config->volumes[0], *two = &config->volumes[1];
	const uint8_t uuid[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
				  0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

	assert_int_equal(config->volume_count, 2);
	assert_string_equal(one->name, "one");
	assert_string_equal(one->path, "/dev/vda");
	assert_string_equal(one->source, "rblkd.conf:23");
	assert_int_equal(one->block_bytes, 4096);
	assert_true(one->read_only);
	assert_int_equal(one->cache, TGT_CACHE_BUFFERED);
	assert_int_equal(one->lock_wait_ms, 5);
	assert_string_equal(one->fault, "delay=5ms");
	assert_memory_equal(one->uuid, uuid, 16);
	assert_string_equal(two->store, "memory");
	assert_int_equal(two->bytes, 2ull << 30);
	assert_false(two->read_only);
}

static void initiators_are_read(const struct tgt_config *config)
{
	const struct tgt_initiator_config *db1 = &config->initiators[0];

	assert_int_equal(config->initiator_count, 2);
	assert_string_equal(db1->name, "db1");
	assert_int_equal(db1->network_count, 3);
	assert_true(db1->networks[2].local);
	assert_int_equal(db1->grant_count, 4);
	assert_string_equal(db1->grants[2].volume, "t*");
	assert_int_equal(db1->grants[2].right, TGT_RIGHT_READ);
	assert_int_equal(db1->grants[3].right, TGT_RIGHT_WRITE);
	assert_string_equal(db1->source, "rblkd.conf:34");
	assert_string_equal(config->initiators[1].name, "*");
}

static void all_keys_are_read(void **state)
{
	char error[TGT_ERROR_BYTES] = "";
	struct tgt_config config;

	if (load(all_keys, &config, error) < 0)
		fail_msg("%s", error);
	target_is_read(&config);
	volumes_are_read(&config);
	initiators_are_read(&config);
	tgt_config_fini(&config);
}

static void names_may_be_long(void **state)
{
	char name[64], text[256], error[TGT_ERROR_BYTES];
	struct tgt_config config;

	memset(name, 'n', 63);
	name[63] = 0;
	snprintf(text, sizeof(text), "[volume %s]\npath = /x\n", name);
	assert_int_equal(load(text, &config, error), 0);
	assert_string_equal(config.volumes[0].name, name);
	tgt_config_fini(&config);
}

static void example_is_right(void **state)
{
	char error[TGT_ERROR_BYTES] = "";
	struct tgt_config config;

	tgt_config_init(&config);
	if (tgt_config_load(&config, RBLK_MANUALS "/../rblkd.conf", error) < 0 ||
	    tgt_config_complete(&config, error) < 0)
		fail_msg("%s", error);
	assert_int_equal(config.volume_count, 1);
	tgt_config_fini(&config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistakes_have_file_and_line),
		cmocka_unit_test(long_line_is_refused),
		cmocka_unit_test(all_keys_are_read),
		cmocka_unit_test(names_may_be_long),
		cmocka_unit_test(example_is_right),
	};

	tgt_store_faults = &tgt_fault_store;
	return cmocka_run_group_tests(tests, enter, leave);
}
