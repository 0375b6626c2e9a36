/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: in a reload each volume that must be closed before it is opened again is served as soon as
 * its own file is free, whatever happens to the others; the reload waits only for conditions that
 * end; and a volume that is lost is opened again. Method: reload.c over a registry without
 * reactors; locks that another file description holds, and a wait() that checks what is served so far.
 */
#include "target/control/reload.h"
#include "tests/unit/target_rig.h"

#include <ctype.h>
#include <sys/file.h>
#include "target/base/unserved.h"
#include "target/control/config.h"
#include "target/serve/calls.h"

#define VOLUMES 3u

static struct tgt_registry *registry;
static struct tgt_config current;
static char *directory;
static int locks[VOLUMES]; /* -1: not held */
static unsigned int waits;
static unsigned int release_at; /* this wait ends the first lock */

static const char name[VOLUMES][2] = {"a", "b", "c"};

static void path_of(unsigned int i, char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/%s", directory, name[i]);
}

static struct tgt_config config_of(uint32_t block_bytes)
{
	struct tgt_config config = {.volume_count = VOLUMES};

	config.volumes = calloc(VOLUMES, sizeof(*config.volumes));
	assert_non_null(config.volumes);
	for (unsigned int i = 0; i < VOLUMES; i++) {
		config.volumes[i] = rig_volume("uring", "", 0);
		strcpy(config.volumes[i].name, name[i]);
		path_of(i, config.volumes[i].path, sizeof(config.volumes[i].path));
		config.volumes[i].cache = TGT_CACHE_BUFFERED;
		config.volumes[i].block_bytes = block_bytes;
	}
	return config;
}

/* The block size with which the volume is served, 0 if it is not served. */
static uint32_t served(unsigned int i)
{
	struct tgt_volume *volume = tgt_volume_get(registry, name[i]);
	uint32_t block_bytes = volume ? volume->block_bytes : 0;

	if (volume)
		tgt_volume_put(volume);
	return block_bytes;
}

/* A volume that is not served because another process has the file: the reload must open it
 * later. */
static void lock_away(unsigned int i)
{
	char path[64];

	path_of(i, path, sizeof(path));
	tgt_volume_put(tgt_volume_remove(registry, name[i]));
	locks[i] = open(path, O_RDONLY);
	assert_int_equal(flock(locks[i], LOCK_EX), 0);
}

static void lock_end(unsigned int i)
{
	close(locks[i]);
	locks[i] = -1;
}

static int setup(void **state)
{
	char path[64], error[TGT_ERROR_BYTES];

	directory = rig_directory();
	waits = 0;
	release_at = 0;
	assert_int_equal(tgt_registry_create(&registry), 0);
	for (unsigned int i = 0; i < VOLUMES; i++) {
		locks[i] = -1;
		path_of(i, path, sizeof(path));
		rig_file(path, 65536);
	}
	current = config_of(512);
	for (unsigned int i = 0; i < VOLUMES; i++)
		assert_int_equal(tgt_volume_add(registry, &current.volumes[i], error), 0);
	return 0;
}

static int teardown(void **state)
{
	for (unsigned int i = 0; i < VOLUMES; i++) {
		struct tgt_volume *volume = tgt_volume_remove(registry, name[i]);

		if (volume)
			tgt_volume_put(volume);
		if (locks[i] >= 0)
			lock_end(i);
	}
	tgt_config_fini(&current);
	tgt_registry_destroy(registry);
	rig_directory_remove(directory);
	return 0;
}

/* Whenever the reload waits, all volumes but the first are served with the new settings. */
static bool wait_looking(void *context)
{
	assert_int_equal(served(0), 0);
	for (unsigned int i = 1; i < VOLUMES; i++)
		assert_int_equal(served(i), 4096);
	if (++waits == release_at)
		lock_end(0);
	return waits < 5;
}

static bool wait_never(void *context)
{
	fail_msg("waited for a condition that does not end");
	return false;
}

static int reload_to(struct tgt_config wanted, bool (*wait)(void *context), char *error)
{
	const struct tgt_reload reload = {.registry = registry, .wait = wait};

	return tgt_reload_apply(&reload, &current, &wanted, error);
}

static void one_that_is_stuck_delays_no_other(void **state)
{
	char error[TGT_ERROR_BYTES];

	lock_away(0);
	release_at = 3;
	assert_int_equal(reload_to(config_of(4096), wait_looking, error), 0);
	assert_int_equal(waits, 3);
	for (unsigned int i = 0; i < VOLUMES; i++)
		assert_int_equal(served(i), 4096);
}

/* Its waiting time is over: it is opened later, and the others are not affected. */
static void what_stays_stuck_is_mended(void **state)
{
	const struct tgt_reload reload = {.registry = registry};
	char error[TGT_ERROR_BYTES];

	lock_away(0);
	assert_int_equal(reload_to(config_of(4096), wait_looking, error), 0);
	assert_int_equal(waits, 5);
	assert_int_equal(tgt_reload_mend(&reload, &current), 1);
	lock_end(0);
	assert_int_equal(tgt_reload_mend(&reload, &current), 0);
	assert_int_equal(served(0), 4096);
}

static unsigned int list_told;

void __wrap_tgt_reactors_call(struct tgt_reactor *const *reactors, unsigned int count, tgt_reactor_run *run,
			      struct tgt_volume *volume);
void __wrap_tgt_reactors_call(struct tgt_reactor *const *reactors, unsigned int count, tgt_reactor_run *run,
			      struct tgt_volume *volume)
{
	list_told += run == tgt_reactor_list_changed ? count : 0;
}

/* A volume is closed to be opened again, and that fails for a while: initiators are told of
 * both. */
static void a_list_that_lacks_a_volume_is_told(void **state)
{
	struct tgt_volume *held = tgt_volume_get(registry, name[0]);
	struct tgt_config wanted = config_of(512);
	char error[TGT_ERROR_BYTES];
	struct tgt_reactor *none = NULL;
	const struct tgt_reload reload = {
		.registry = registry, .reactors = &none, .reactor_count = 1};
	unsigned int before, left;
	int status;

	list_told = 0;
	wanted.volumes[0].block_bytes = 4096;
	status = tgt_reload_apply(&reload, &current, &wanted, error);
	before = served(0);
	left = tgt_reload_mend(&reload, &current);
	tgt_volume_put(held);
	assert_int_equal(status, 0);
	assert_int_equal(before, 0);
	assert_int_equal(left, 1);
	assert_int_equal(list_told, 1);
	assert_int_equal(tgt_reload_mend(&reload, &current), 0);
	assert_int_equal(served(0), 4096);
	assert_int_equal(list_told, 2);
}

/* A long wait for a lock applies to the start; a reload tries the others meanwhile. */
static void a_lock_wait_is_not_spent_on_one(void **state)
{
	struct tgt_config wanted = config_of(4096);
	char error[TGT_ERROR_BYTES];

	lock_away(0);
	wanted.volumes[0].lock_wait_ms = 600000;
	release_at = 2;
	assert_int_equal(reload_to(wanted, wait_looking, error), 0);
	assert_int_equal(served(0), 4096);
}

/* Settings with which the volume cannot be served, and a file that another volume keeps. */
static void what_does_not_pass_is_not_waited_for(void **state)
{
	struct tgt_config wanted = config_of(512);
	char error[TGT_ERROR_BYTES], path[64];

	path_of(0, path, sizeof(path));
	assert_int_equal(truncate(path, 65536 + 512), 0);
	wanted.volumes[0].block_bytes = 4096; /* not a whole number of these */
	tgt_volume_put(tgt_volume_remove(registry, name[1]));
	path_of(2, wanted.volumes[1].path, sizeof(wanted.volumes[1].path));
	assert_int_equal(reload_to(wanted, wait_never, error), 0);
	assert_int_equal(served(0), 512); /* as before */
	assert_int_equal(served(1), 512); /* likewise, on its own file */
	assert_int_equal(served(2), 512);
}

/* The reload waits for a removed volume that has not ended, even if the new one waits for no
 * other process. */
static void a_former_life_is_waited_for(void **state)
{
	struct tgt_volume *held = tgt_volume_get(registry, name[0]);
	struct tgt_config wanted = config_of(512);
	char error[TGT_ERROR_BYTES];

	/* Removed in one reload, added under another name in the next: opened before anything
	 * changes. */
	memmove(&wanted.volumes[0], &wanted.volumes[1], 2 * sizeof(wanted.volumes[0]));
	wanted.volume_count = 2;
	assert_int_equal(reload_to(wanted, wait_never, error), 0);
	wanted = config_of(512);
	strcpy(wanted.volumes[0].name, "again");
	assert_int_equal(reload_to(wanted, NULL, error), -EAGAIN);
	assert_non_null(strstr(error, "in use by this process, for a volume that is being closed"));
	tgt_volume_put(held);
	wanted = config_of(512);
	assert_int_equal(reload_to(wanted, wait_never, error), 0);
	assert_int_equal(served(0), 512);
}

static unsigned int losses;

static void on_lost(void *context)
{
	losses++;
}

/* Whoever has it open keeps a store of which nothing can be had; others get a new one, when it can be opened. */
static void a_lost_volume_is_opened_again(void **state)
{
	struct tgt_unserved *unserved = tgt_unserved_create();
	const struct tgt_reload reload = {.registry = registry, .unserved = unserved};
	struct tgt_volume *lost = tgt_volume_get(registry, name[0]), *again;
	struct tgt_unserved_one *missing;
	unsigned int count;

	losses = 0;
	tgt_registry_on_lost(registry, on_lost, NULL);
	assert_null(tgt_volume_why_lost(lost));
	assert_int_equal(tgt_reload_mend(&reload, &current), 0);
	tgt_volume_lost(lost->store, "gone for a test");
	assert_int_equal(losses, 1);
	assert_string_equal(tgt_volume_why_lost(lost), "gone for a test");
	assert_int_equal(served(0), 512); /* until it is looked at */
	assert_int_equal(tgt_reload_mend(&reload, &current), 1);
	assert_int_equal(served(0), 0);
	assert_int_equal(served(1), 512);
	missing = tgt_unserved_list(unserved, TGT_UNSERVED_VOLUME, &count);
	assert_int_equal(count, 1);
	assert_non_null(strstr(missing->reason, "in use by this process"));
	free(missing);
	tgt_volume_put(lost);
	assert_int_equal(tgt_reload_mend(&reload, &current), 0);
	again = tgt_volume_get(registry, name[0]);
	assert_non_null(again);
	assert_null(tgt_volume_why_lost(again));
	tgt_volume_put(again);
	assert_int_equal(tgt_unserved_count(unserved, TGT_UNSERVED_VOLUME), 0);
	/* Whoever asks later is told of it, too. */
	tgt_registry_on_lost(registry, on_lost, NULL);
	assert_int_equal(losses, 2);
	tgt_registry_on_lost(registry, NULL, NULL);
	tgt_unserved_destroy(unserved);
}

/* -- a store that is late ------------------------------------------------------------------------ */

static bool is_late;
static char asked[256]; /* of it: "+a" ahead; "a" for a moment; "A" for as long as it takes */

static void ask(const char *what, const struct tgt_volume_config *config, bool long_wait)
{
	size_t length = strlen(asked);

	snprintf(asked + length, sizeof(asked) - length, "%s%c", what,
		 long_wait ? toupper(config->name[0]) : config->name[0]);
}

static void late_open_ahead(const struct tgt_volume_config *config)
{
	ask("+", config, false);
}

static int late_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error)
{
	ask("", config, !config->others_wait);
	return tgt_error(error, -ETIMEDOUT, "%s is late", config->name);
}

const struct tgt_store_ops *__real_tgt_store_find(const char *kind);
const struct tgt_store_ops *__wrap_tgt_store_find(const char *kind);
const struct tgt_store_ops *__wrap_tgt_store_find(const char *kind)
{
	static const struct tgt_store_ops late = {
		.kind = "uring", .on_path = true, .open_ahead = late_open_ahead, .open = late_open};

	return is_late ? &late : __real_tgt_store_find(kind);
}

/* All volumes are at it, and not served. */
static void all_are_late(void)
{
	for (unsigned int i = 0; i < VOLUMES; i++)
		tgt_volume_put(tgt_volume_remove(registry, name[i]));
	is_late = true;
	asked[0] = '\0';
}

static void a_start_waits_for_those_that_are_late_together(void **state)
{
	struct tgt_unserved *unserved = tgt_unserved_create();
	const struct tgt_reload reload = {.registry = registry, .unserved = unserved};
	char error[TGT_ERROR_BYTES];

	all_are_late();
	assert_int_equal(tgt_reload_begin(&reload, &current, VOLUMES, error), 0);
	assert_string_equal(asked, "a+b+cbcABC");
	assert_int_equal(tgt_unserved_count(unserved, TGT_UNSERVED_VOLUME), VOLUMES);
	asked[0] = '\0';
	assert_int_equal(tgt_reload_begin(&reload, &current, 0, error), -ETIMEDOUT);
	assert_string_equal(asked, "a+b+cbcA");
	assert_non_null(strstr(error, "a is late"));
	is_late = false;
	assert_int_equal(tgt_reload_begin(&reload, &current, 0, error), 0);
	for (unsigned int i = 0; i < VOLUMES; i++)
		assert_int_equal(served(i), 512);
	tgt_unserved_destroy(unserved);
}

/* As above, without a wait; but for one that is served. */
static void all_that_is_late_is_mended_together(void **state)
{
	const struct tgt_reload reload = {.registry = registry};
	char error[TGT_ERROR_BYTES];

	all_are_late();
	assert_int_equal(tgt_reload_mend(&reload, &current), VOLUMES);
	assert_string_equal(asked, "a+b+cbc");
	is_late = false;
	assert_int_equal(tgt_volume_add(registry, &current.volumes[1], error), 0);
	is_late = true;
	asked[0] = '\0';
	assert_int_equal(tgt_reload_mend(&reload, &current), VOLUMES - 1);
	assert_string_equal(asked, "a+cc");
	is_late = false;
}

/* It is no part of the reload, which waits for what it changes. */
static void a_reload_does_not_wait_for_what_was_missing(void **state)
{
	struct tgt_config wanted = config_of(512);
	char error[TGT_ERROR_BYTES];

	all_are_late();
	wanted.volumes[1].block_bytes = 4096;
	assert_int_equal(reload_to(wanted, wait_never, error), 0);
	assert_string_equal(asked, "aBBc"); /* and with its former settings */
	is_late = false;
}

#define RELOAD_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RELOAD_TEST(one_that_is_stuck_delays_no_other),
		RELOAD_TEST(what_stays_stuck_is_mended),
		RELOAD_TEST(a_list_that_lacks_a_volume_is_told),
		RELOAD_TEST(a_lock_wait_is_not_spent_on_one),
		RELOAD_TEST(what_does_not_pass_is_not_waited_for),
		RELOAD_TEST(a_former_life_is_waited_for),
		RELOAD_TEST(a_lost_volume_is_opened_again),
		RELOAD_TEST(a_start_waits_for_those_that_are_late_together),
		RELOAD_TEST(all_that_is_late_is_mended_together),
		RELOAD_TEST(a_reload_does_not_wait_for_what_was_missing),
	};

	return cmocka_run_group_tests_name("target reload", tests, NULL, NULL);
}
