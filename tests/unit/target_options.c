/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the command line is read as the manual says, every mistake gets its own message, and table,
 * --help, the two manuals and a reload agree. Method: argument vectors against the struct or the exact
 * message; the texts against the table; each setting changed by itself.
 */
#include <ctype.h>
#include "target/control/address.h"
#include "target/control/config.h"
#include "target/control/reload_settings.h"
#include "target/fault/fault.h"
#include "tests/unit/target_rig.h"

#define ARGUMENTS_MAX 12

static int parse(const char *const *words, struct tgt_config *config, enum tgt_run_mode *mode,
		 char *error)
{
	char *argv[ARGUMENTS_MAX + 2] = {"rblkd"};
	int argc = 1;

	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
	return tgt_options_parse(argc, argv, config, mode, error);
}

static const struct {
	const char *words[ARGUMENTS_MAX];
	const char *error;
} mistakes[] = {
	{{NULL}, "nothing to serve: name a file, or --memory NAME=SIZE, or --config FILE"},
	{{"--blok-size=512", "x.img"},
	 "unknown option \"--blok-size\"; did you mean \"--block-size\"?"},
	{{"--wombat", "x.img"}, "unknown option \"--wombat\"; see rblkd --help"},
	{{"-z"}, "unknown option \"-z\"; see rblkd --help"},
	{{"--check=yes", "x.img"}, "--check=yes: takes no value"},
	{{"--listen"}, "--listen: needs a value"},
	{{"x.img", "--reactors", "many"},
	 "--reactors: \"many\" is not a number from 0 to 64"},
	{{"x.img", "--reactors=65"}, "--reactors: \"65\" is not a number from 0 to 64"},
	{{"x.img", "--reactors=-1"}, "--reactors: \"-1\" is not a number from 0 to 64"},
	{{"x.img", "--reactors="}, "--reactors: needs a value"},
	{{"x.img", "--cpus", "all"}, "--cpus: \"all\" is not a list of CPUs from 0 to 1023 (0-3,8)"},
	{{"x.img", "--cpus", "3-1"}, "--cpus: \"3-1\" is not a list of CPUs from 0 to 1023 (0-3,8)"},
	{{"x.img", "--cpus", "1,"}, "--cpus: \"1,\" is not a list of CPUs from 0 to 1023 (0-3,8)"},
	{{"x.img", "--cpus", "1024"}, "--cpus: \"1024\" is not a list of CPUs from 0 to 1023 (0-3,8)"},
	{{"x.img", "--cpus", "-1"}, "--cpus: \"-1\" is not a list of CPUs from 0 to 1023 (0-3,8)"},
	{{"x.img", "--cpus", "0-2,1"}, "--cpus: \"0-2,1\" has CPU 1 twice"},
	{{"x.img", "--cpus", "0-64"}, "--cpus: \"0-64\" has more than 64 CPUs"},
	{{"x.img", "--pool-size", "5x"},
	 "--pool-size: \"5x\" is not a size from 1M to 64G, like 512, 64K, 10G or 1GiB, all of 1024"},
	{{"x.img", "--pool-size", "99999999999999999999"},
	 "--pool-size: \"99999999999999999999\" is not a size from 1M to 64G"
	 ", like 512, 64K, 10G or 1GiB, all of 1024"},
	{{"x.img", "--keepalive", "3601"},
	 "--keepalive: \"3601\" is not a time from 0 to 1h, like 20ms, 30s or 2min; without a unit it is seconds"},
	{{"x.img", "--session-time", "0"},
	 "--session-time: \"0\" is not a time from 1ms to 1h, like 20ms, 30s or 2min; without a unit it is seconds"},
	{{"x.img", "--poll-time", "2s"},
	 "--poll-time: \"2s\" is not a time from 0 to 1s, like 500us, 20ms or 30s; without a unit it is seconds; or auto"},
	{{"x.img", "--polling", "sometimes"},
	 "--polling: \"sometimes\" is not one of adaptive, always, never"},
	{{"x.img", "--open=maybe"},
	 "--open: \"maybe\" is neither yes nor no"},
	{{"x.img", "--block-size", "1000"},
	 "--block-size: \"1000\" is not a block size: 512, 1K, 2K or 4K"},
	{{"x.img", "--listen", "udp://there"},
	 "--listen: \"udp://there\" is not an address: "
	 "it begins with none of rblk://, rblk+tcp://, nvme+tcp:// and nvme+rdma://"},
	{{"x.img", "--listen", "sim://h"},
	 "--listen: \"sim://h\" is not an address: "
	 "it begins with none of rblk://, rblk+tcp://, nvme+tcp:// and nvme+rdma://"},
	{{"x.img", "--listen", "rblk+tcp://h:65536"},
	 "--listen: \"rblk+tcp://h:65536\" is not an address: "
	 "the port must be a number from 0 to 65535"},
	{{"x.img", "--fault", "slow"},
	 "--fault: \"slow\" is not one of delay=, fail=, tear=, lose=, power=, untorn=, after=, count=, "
	 "seed="},
	{{"x.img", "y/x.raw"}, "volume x: defined twice on the command line"},
	{{"a=x.img", "b=x.img"},
	 "command line: volume b: volume a already uses path x.img"},
	{{"my disk.img"},
	 "my disk.img: \"my disk\" is not a volume name; give it one, as in NAME=my "
	 "disk.img"},
	{{"a b=x"},
	 "command line: \"a b\" is not a volume name: "
	 "1 to 63 of A-Z a-z 0-9 . _ : + -"},
	{{"=x"}, "=x: a name has 1 to 63 characters"},
	{{"x="}, "volume x: path: needs a value"},
	{{"--memory", "m"}, "--memory: \"m\" is not NAME=SIZE"},
	{{"--memory", "m=lots"},
	 "--memory: m: \"lots\" is not a size from 512 to 1024T, like 512, 64K, 10G or 1GiB, all of 1024"},
	{{"--memory", "m=1000"},
	 "command line: volume m: store = memory, but it has a "
	 "size that is not a multiple of its block size"},
	{{"--config", "no.conf"}, "no.conf: No such file or directory"},
	{{"--config", "a", "--config", "b"}, "--config: given twice"},
	{{"--config", "/dev/null", "--cache=buffered"},
	 "--cache: no volume on the command line to apply it to"},
	{{"--config", "/dev/null"},
	 "nothing to serve: the configuration has no section [volume NAME]"},
	{{"x.img", "--max-io=2M", "--pool-size=1M"},
	 "pool_size is less than max_io: one command could never get a buffer"},
	{{"x.img", "--credits=1024", "--receive-buffers=1024"},
	 "receive_buffers must be at least credits + 4: one queue needs those"},
};

static void mistakes_have_their_words(void **state)
{
	char error[TGT_ERROR_BYTES];
	struct tgt_config config;
	enum tgt_run_mode mode;
	size_t i;

	for (i = 0; i < UNIT_LENGTH(mistakes); i++) {
		error[0] = 0;
		assert_true(parse(mistakes[i].words, &config, &mode, error) < 0);
		assert_string_equal(error, mistakes[i].error);
	}
}

static void cpus_are_lists_in_their_order(void **state)
{
	const char *const words[] = {"x.img", "--cpus", "0", "--cpus=9-11,2,1023", NULL};
	const char *const fewer[] = {"x.img", "--cpus=1,0", "--reactors=1", NULL};
	static const uint16_t wanted[] = {9, 10, 11, 2, 1023};
	char error[TGT_ERROR_BYTES];
	struct tgt_config config;
	enum tgt_run_mode mode;

	assert_int_equal(parse(words, &config, &mode, error), 0);
	assert_int_equal(config.cpus.count, 5);
	assert_memory_equal(config.cpus.cpu, wanted, sizeof(wanted));
	assert_int_equal(config.reactors, 5);
	tgt_config_fini(&config);
	assert_int_equal(parse(fewer, &config, &mode, error), 0);
	assert_int_equal(config.reactors, 1);
	tgt_config_fini(&config);
}

static void one_file_is_enough(void **state)
{
	const char *const words[] = {"/srv/images/disk.img", NULL};
	char error[TGT_ERROR_BYTES], listen[TGT_ADDRESS_BYTES];
	struct tgt_config config;
	enum tgt_run_mode mode;

	assert_int_equal(parse(words, &config, &mode, error), 0);
	assert_int_equal(mode, TGT_RUN_SERVE);
	assert_int_equal(config.listen_count, 1);
	tgt_address_format(&config.listen[0], listen);
	assert_string_equal(listen, "rblk://:4430");
	assert_in_range(config.reactors, 1, 8);
	assert_int_equal(config.polling, TGT_POLL_ADAPTIVE);
	assert_int_equal(config.poll_us_max, TGT_POLL_TIME_AUTO);
	assert_int_equal(config.volume_count, 1);
	assert_string_equal(config.volumes[0].name, "disk");
	assert_string_equal(config.volumes[0].path, "/srv/images/disk.img");
	assert_string_equal(config.volumes[0].store, "uring");
	assert_int_equal(config.volumes[0].cache, TGT_CACHE_AUTO);
	assert_int_equal(config.volumes[0].lock_wait_ms, 30000);
	tgt_config_fini(&config);
}

static void everything_is_understood(void **state)
{
	const char *const words[] = {"--listen=rblk+tcp://[::1]:0",
				     "-l",
				     "rblk://h",
				     "root=/dev/a=b",
				     "--memory=m=1G",
				     "--null=n=2K",
				     "--read-only",
				     "--block-size=4K",
				     "--poll-time=1ms",
				     "--keepalive=1m",
				     "/dev/disk+1.img",
				     NULL};
	char error[TGT_ERROR_BYTES], listen[TGT_ADDRESS_BYTES];
	struct tgt_config config;
	enum tgt_run_mode mode;
	unsigned int i;

	assert_int_equal(parse(words, &config, &mode, error), -EINVAL);
	assert_string_equal(error,
			    "command line: volume n: store = null, but it has a size that is "
			    "not a multiple of its block size");
	{
		const char *const right[] = {words[0], words[1],      words[2],	 words[3],
					     words[4], "--null=n=8K", words[6],	 words[7],
					     words[8], words[9],      words[10], NULL};

		assert_int_equal(parse(right, &config, &mode, error), 0);
	}
	assert_int_equal(config.listen_count, 2);
	tgt_address_format(&config.listen[0], listen);
	assert_string_equal(listen, "rblk+tcp://[::1]:0");
	tgt_address_format(&config.listen[1], listen);
	assert_string_equal(listen, "rblk://h:4430");
	assert_int_equal(config.poll_us_max, 1000);
	assert_int_equal(config.keepalive_ms, 60000);
	assert_int_equal(config.volume_count, 4);
	assert_string_equal(config.volumes[0].name, "root");
	assert_string_equal(config.volumes[0].path, "/dev/a=b");
	assert_string_equal(config.volumes[1].store, "memory");
	assert_int_equal(config.volumes[1].bytes, 1ull << 30);
	assert_string_equal(config.volumes[2].store, "null");
	assert_string_equal(config.volumes[3].path, "/dev/disk+1.img");
	assert_string_equal(config.volumes[3].name, "disk+1");
	for (i = 0; i < config.volume_count; i++) {
		assert_true(config.volumes[i].read_only);
		assert_int_equal(config.volumes[i].block_bytes, 4096);
	}
	tgt_config_fini(&config);
}

static void modes(void **state)
{
	static const struct {
		const char *words[3];
		enum tgt_run_mode mode;
	} cases[] = {
		{{"--help", "--null=n=8K"}, TGT_RUN_HELP},
		{{"-V"}, TGT_RUN_VERSION},
		{{"--check", "x"}, TGT_RUN_CHECK},
	};
	char error[TGT_ERROR_BYTES];
	struct tgt_config config;
	enum tgt_run_mode mode;
	size_t i;

	for (i = 0; i < UNIT_LENGTH(cases); i++) {
		assert_int_equal(parse(cases[i].words, &config, &mode, error), 0);
		assert_int_equal(mode, cases[i].mode);
		tgt_config_fini(&config);
	}
}

static void guesses_are_near(void **state)
{
	assert_string_equal(tgt_option_suggest("blok_size", TGT_IN_VOLUME), "block_size");
	assert_string_equal(tgt_option_suggest("pahts", TGT_IN_VOLUME), "path");
	assert_string_equal(tgt_option_suggest("raectors", TGT_IN_TARGET), "reactors");
	assert_null(tgt_option_suggest("zebra", TGT_IN_TARGET));
	assert_null(tgt_option_suggest("pahts", TGT_IN_TARGET)); /* not in that section */
}

/* -- texts against the table ------------------------------------------------------------------ */

static char *read_all(FILE *file)
{
	char *text = calloc(1, 1 << 20);

	assert_non_null(text);
	assert_non_null(file);
	assert_in_range(fread(text, 1, (1 << 20) - 1, file), 1000, (1 << 20) - 2);
	fclose(file);
	return text;
}

static void dashed(const char *key, char name[64])
{
	snprintf(name, 64, "%s", key);
	for (; *name; name++)
		if (*name == '_')
			*name = '-';
}

/* Blanks of any length count as one, because texts may break lines anywhere. */
static void squeeze(char *text)
{
	char *to = text;
	bool blank = false;

	for (; *text; text++) {
		if (isspace((unsigned char)*text)) {
			blank = true;
			continue;
		}
		if (blank)
			*to++ = ' ';
		blank = false;
		*to++ = *text;
	}
	*to = 0;
}

static void help_shows_the_table(void **state)
{
	FILE *file = tmpfile();
	const struct tgt_option *options;
	unsigned int i, count;
	char wanted[512], name[64], *text;

	tgt_options_help(file);
	rewind(file);
	text = read_all(file);
	squeeze(text);
	options = tgt_options_table(&count);
	for (i = 0; i < count; i++) {
		dashed(options[i].name, name);
		snprintf(wanted, sizeof(wanted), "--%s", name);
		if (!(options[i].places & TGT_ON_COMMAND_LINE)) {
			strcat(wanted, " "); /* "--read" is not "--read-only" */
			assert_null(strstr(text, wanted));
			continue;
		}
		if (!strstr(text, wanted) || !strstr(text, options[i].help))
			fail_msg("--help does not show %s", wanted);
		if (!options[i].otherwise)
			continue;
		snprintf(wanted, sizeof(wanted), "%s (default: %s)", options[i].help,
			 options[i].otherwise);
		if (!strstr(text, wanted))
			fail_msg("--help does not show \"%s\"", wanted);
	}
	free(text);
}

static char *manual(const char *name)
{
	return read_all(fopen(unit_path(RBLK_MANUALS, name), "r"));
}

/* Whether `wanted` stands in the entry that begins with `head` at a line's start, before the next entry. */
static bool manual_entry_has(const char *text, const char *head, const char *wanted)
{
	const char *entry = strstr(text, head), *end, *found;

	if (!entry) {
		fail_msg("the manual has no entry %s", head + 1);
		return false;
	}
	end = strstr(entry + 1, "\n*");
	found = strstr(entry, wanted);
	return found && (!end || found < end);
}

/* rblkd.conf(5) has the option's text, with its default, and whether a reload puts it in force. */
static void file_entry_check(const char *text, const struct tgt_option *option)
{
	char head[128], wanted[128];
	bool reloaded;

	snprintf(head, sizeof(head), "\n*%s* = ", option->name);
	snprintf(wanted, sizeof(wanted), "Default: %s.", option->otherwise ? option->otherwise : "");
	if (!manual_entry_has(text, head, option->otherwise ? wanted : option->name))
		fail_msg("the manual's entry %s does not say \"%s\"", head + 1, wanted);
	reloaded = manual_entry_has(text, head, "A reload puts it in force");
	if (option->places & TGT_IN_TARGET && reloaded != !!(option->places & TGT_RELOADED))
		fail_msg("%s: rblkd.conf(5) says that a reload %s it in force", option->name,
			 reloaded ? "puts" : "does not put");
}

static void manuals_show_the_table(void **state)
{
	char *command = manual("rblkd.8.scd"), *file = manual("rblkd.conf.5.scd");
	const struct tgt_option *options;
	char head[128], name[64];
	unsigned int i, count;

	options = tgt_options_table(&count);
	for (i = 0; i < count; i++) {
		const struct tgt_option *option = &options[i];

		dashed(option->name, name);
		if (option->places & (TGT_IN_TARGET | TGT_IN_VOLUME | TGT_IN_INITIATOR))
			file_entry_check(file, option);
		if (!(option->places & TGT_ON_COMMAND_LINE))
			continue;
		/* Texts stand once: rblkd(8) names those of the file, and describes its own. */
		snprintf(head, sizeof(head), "*--%s*", name);
		if (!strstr(command, head))
			fail_msg("rblkd(8) does not name %s", head);
		if (option->letter)
			snprintf(head, sizeof(head), "\n*-%c*, *--%s*", option->letter, name);
		else
			snprintf(head, sizeof(head), "\n*--%s*", name);
		if (option->places == TGT_ON_COMMAND_LINE)
			assert_true(manual_entry_has(command, head, "\n\t"));
	}
	free(command);
	free(file);
}

/* Every "--name" of the one manual and every "*name* =" of the other is in the table. */
static void manuals_show_no_more(void **state)
{
	char *command = manual("rblkd.8.scd"), *file = manual("rblkd.conf.5.scd");
	char name[64];
	const char *next;
	size_t length;

	for (next = command; (next = strstr(next, "*--")); next += 3) {
		length = strspn(next + 3, "abcdefghijklmnopqrstuvwxyz-");
		snprintf(name, sizeof(name), "%.*s", (int)length, next + 3);
		if (!tgt_option_find(name, TGT_ON_COMMAND_LINE))
			fail_msg("rblkd(8) has --%s, the table has not", name);
	}
	for (next = file; (next = strstr(next, "\n*")); next += 2) {
		length = strspn(next + 2, "abcdefghijklmnopqrstuvwxyz_");
		if (strncmp(next + 2 + length, "* =", 3) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)length, next + 2);
		if (!tgt_option_find(name, TGT_IN_TARGET | TGT_IN_VOLUME | TGT_IN_INITIATOR))
			fail_msg("rblkd.conf(5) has %s, the table has not", name);
	}
	free(command);
	free(file);
}

static void a_reload_names_what_needs_a_restart(void **state)
{
	const char *const words[] = {"x.img", NULL};
	char error[TGT_ERROR_BYTES], names[TGT_RESTART_BYTES];
	struct tgt_config current, wanted;
	const struct tgt_option *options;
	enum tgt_run_mode mode;
	unsigned int i, count;

	assert_int_equal(parse(words, &current, &mode, error), 0);
	options = tgt_options_table(&count);
	for (i = 0; i < count; i++) {
		if (!(options[i].places & TGT_IN_TARGET) || !options[i].field_bytes)
			continue;
		wanted = current;
		((unsigned char *)&wanted)[options[i].offset] ^= 1;
		tgt_reload_settings(&current, &wanted, names);
		assert_string_equal(names, options[i].places & TGT_RELOADED ? "" : options[i].name);
	}
	tgt_log_set_level(TGT_LOG_INFO);
	tgt_config_fini(&current);
}

/* A second option of a name could never be given. */
static void names_are_unique_in_a_place(void **state)
{
	const struct tgt_option *options;
	unsigned int i, other, count;

	options = tgt_options_table(&count);
	for (i = 0; i < count; i++)
		for (other = 0; other < i; other++) {
			if (options[i].places & options[other].places & ~TGT_RELOADED)
				assert_string_not_equal(options[i].name, options[other].name);
			if (options[i].letter)
				assert_int_not_equal(options[i].letter, options[other].letter);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistakes_have_their_words), cmocka_unit_test(one_file_is_enough),
		cmocka_unit_test(everything_is_understood),
		cmocka_unit_test(cpus_are_lists_in_their_order),
		  cmocka_unit_test(modes),
		cmocka_unit_test(guesses_are_near),	     cmocka_unit_test(help_shows_the_table),
		cmocka_unit_test(manuals_show_the_table),    cmocka_unit_test(manuals_show_no_more),
		cmocka_unit_test(a_reload_names_what_needs_a_restart),
		cmocka_unit_test(names_are_unique_in_a_place),
	};

	tgt_store_faults = &tgt_fault_store;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
