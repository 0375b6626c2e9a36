/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cmocka with the headers that it needs before it, and the little else that unit tests share.
 */
#ifndef RBLK_TESTS_UNIT_H
#define RBLK_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#define UNIT_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The file has this text and nothing else from now on. */
static inline __attribute__((format(printf, 2, 3))) void unit_file_write(const char *path, const char *format, ...)
{
	FILE *file = fopen(path, "w");
	va_list arguments;

	assert_non_null(file);
	va_start(arguments, format);
	assert_true(vfprintf(file, format, arguments) >= 0);
	va_end(arguments);
	assert_int_equal(fclose(file), 0);
}

/* The file's path, until the next call. */
static inline char *unit_path(const char *folder, const char *name)
{
	static char path[512];

	assert_in_range(snprintf(path, sizeof(path), "%s/%s", folder, name), 1, sizeof(path) - 1);
	return path;
}

#endif
