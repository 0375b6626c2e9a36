/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mistakes, each of which must be reported: `canary MISTAKE`. They depend on what the compiler cannot know.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assertion(void **state)
{
	(void)state;
	assert_int_equal(1, 2);
}

static volatile int shared;

/* So often, because ThreadSanitizer may miss two accesses of the same moment. */
static void *race(void *unused)
{
	(void)unused;
	for (int i = 0; i < 1000; i++)
		shared++;
	return NULL;
}

int main(int argc, char **argv)
{
	const char *mistake = argc == 2 ? argv[1] : "";
	const struct CMUnitTest tests[] = { cmocka_unit_test(assertion) };
	volatile char *memory;
	volatile int number = INT32_MAX;
	pthread_t thread;

	if (!strcmp(mistake, "assertion"))
		return cmocka_run_group_tests(tests, NULL, NULL);
	if (!strcmp(mistake, "race")) {
		pthread_create(&thread, NULL, race, NULL);
		race(NULL);
		return pthread_join(thread, NULL);
	}
	if (!strcmp(mistake, "undefined"))
		return (number += argc) != 0;
	memory = malloc(8);
	if (!strcmp(mistake, "overflow"))
		memory[6 + argc] = 1;
	memory = NULL;
	puts("canary assertion|race|undefined|overflow|leak");
	return 2;
}
