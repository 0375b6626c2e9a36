/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the number of CPUs that cgroups allow is the least of the process's cgroup and those above it. Method: the
 * files of a machine, in a folder.
 */
#include "tests/unit/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "target/control/cpus.h"

static char root[] = "/tmp/unit-cpus-XXXXXX";

static void write_file(const char *name, const char *text)
{
	char *path = unit_path(root, name);

	/* Each folder of it. */
	for (char *slash = path + sizeof(root); (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	unit_file_write(path, "%s", text);
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(root) == NULL;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void the_least_counts(void **state)
{
	(void)state;
	assert_int_equal(tgt_cpus_quota(root), 0);
	write_file("proc/self/cgroup", "1:name=systemd:/other\n0::/system.slice/rblkd.service\n");
	assert_int_equal(tgt_cpus_quota(root), 0);
	write_file("sys/fs/cgroup/system.slice/rblkd.service/cpu.max", "max 100000\n");
	assert_int_equal(tgt_cpus_quota(root), 0);
	write_file("sys/fs/cgroup/system.slice/cpu.max", "250000 100000\n");
	assert_int_equal(tgt_cpus_quota(root), 3);
	write_file("sys/fs/cgroup/system.slice/rblkd.service/cpu.max", "50000 100000\n");
	assert_int_equal(tgt_cpus_quota(root), 1);
	write_file("sys/fs/cgroup/system.slice/rblkd.service/cpu.max", "400000 100000\n");
	assert_int_equal(tgt_cpus_quota(root), 3);
	/* In a container, which sees its own cgroup as the root. */
	write_file("proc/self/cgroup", "0::/\n");
	assert_int_equal(tgt_cpus_quota(root), 0);
	write_file("sys/fs/cgroup/cpu.max", "200000 100000\n");
	assert_int_equal(tgt_cpus_quota(root), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_counts)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
