/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: data is right when many sessions with different numbers of queues work at once on shared
 * volumes, over several reactors. Method: eight loads, each in its own part of a volume in memory
 * or of a file. Each reads back what it wrote, and then another session does so, too.
 */
#include "tests/unit/unit.h"

#include "tests/e2e/daemon.h"
#include "tests/e2e/load.h"

#define LOADS 8u
#define PART (2u << 20)
#define OPERATIONS 500ul

static struct e2e_daemon server;
static struct e2e_file disk;

static int start(void **state)
{
	e2e_file_create(&disk, "file", LOADS * PART);
	e2e_daemon_start(&server, "--memory", "memory=16M", "--reactors", "2", disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

static void all_loads_are_right(void **state)
{
	static const char *const volumes[] = { "memory", "file" };
	struct load *loads[LOADS];

	for (unsigned int i = 0; i < LOADS; i++) {
		struct load_options options = {
			.uri = e2e_daemon_uri(&server, volumes[i % 2]),
			.queues = 1 + i / 2,
			.depth = 4u << i / 2,
			.offset = (uint64_t)i * PART,
			.bytes = PART,
			.seed = i,
		};

		loads[i] = load_start(&options);
	}
	for (unsigned int i = 0; i < LOADS; i++)
		load_wait(loads[i], OPERATIONS);
	for (unsigned int i = 0; i < LOADS; i++)
		assert_true(load_stop(loads[i]) >= OPERATIONS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_loads_are_right),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
