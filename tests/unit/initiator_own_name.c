/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an initiator's default name is its machine's alone and stays the same, as reservations know initiators by name; hosts
 * whose name is none (too long, unset, with other characters) are not one and the same. Method: gethostname() and
 * /etc/machine-id are the test's.
 */
#include "initiator/own_name.h"
#include "proto/wire/wire_check.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *host_name, *machine_id;

FILE *__real_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode)
{
	if (strcmp(name, "/etc/machine-id") != 0)
		return __real_fopen(name, mode);
	return machine_id ? fmemopen((char *)machine_id, strlen(machine_id), mode) : NULL;
}

/* As glibc's. */
int __wrap_gethostname(char *name, size_t bytes);
int __wrap_gethostname(char *name, size_t bytes)
{
	size_t length = strlen(host_name) + 1;

	memcpy(name, host_name, length < bytes ? length : bytes);
	if (length <= bytes)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

static void expect(const char *wanted)
{
	char name[RBLK_NAME_BYTES];

	memset(name, 'x', sizeof(name));
	assert_int_equal(ini_own_name(name), !strcmp(wanted, host_name));
	assert_true(rblk_name_valid(name));
	assert_string_equal(name, wanted);
}

static const char *const no_names[] = {
	"", "(none)", "localhost", "localhost.localdomain", "unnamed", "a name", "sp\xc3\xa4ti",
	"storage-compute-node-rack17-slot04.cluster-a.eu-central1.exampl1",
};

static void a_host_has_its_name(void **state)
{
	machine_id = "0123456789abcdef0123456789abcdef\n";
	host_name = "storage1.example";
	expect("storage1.example");
	host_name = "storage-compute-node-rack17-slot04.cluster-a.eu-central1.exampl";
	assert_int_equal(strlen(host_name), RBLK_NAME_BYTES - 1);
	expect(host_name);
}

static void what_is_no_name_follows_from_the_machine(void **state)
{
	for (size_t i = 0; i < UNIT_LENGTH(no_names); i++) {
		host_name = no_names[i];
		machine_id = "0123456789abcdef0123456789abcdef\n";
		expect("host-149355e7d89ac12b56d5b801");
		machine_id = "0123456789abcdef0123456789abcdee\n";
		expect("host-1fb2e540fef2ed92a17bc51e");
	}
}

static void without_a_machine_there_is_none(void **state)
{
	static const char *const ids[] = {NULL, "uninitialized\n", "\n", "0123456789abcdef0123456789abcde\n",
					  "0123456789ABCDEF0123456789abcdef\n"};

	for (size_t i = 0; i < UNIT_LENGTH(no_names); i++)
		for (size_t j = 0; j < UNIT_LENGTH(ids); j++) {
			host_name = no_names[i];
			machine_id = ids[j];
			if (strcmp(host_name, "unnamed") != 0)
				expect("unnamed");
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_has_its_name),
		cmocka_unit_test(what_is_no_name_follows_from_the_machine),
		cmocka_unit_test(without_a_machine_there_is_none),
	};

	return cmocka_run_group_tests_name("initiator own name", tests, NULL, NULL);
}
