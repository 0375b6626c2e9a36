/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers for people, and what answers have. */
#include "target/ctl/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ctl_print_clean(const char *text)
{
	for (; *text; text++)
		putchar(*text < ' ' || *text > '~' ? '?' : *text);
}

/* -- answers ----------------------------------------------------------------------------------- */

uint64_t ctl_integer(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

const char *ctl_string(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static uint64_t sum_of(json_t *object)
{
	const char *key;
	json_t *value;
	uint64_t sum = 0;

	json_object_foreach(object, key, value)
		sum += (uint64_t)json_integer_value(value);
	return sum;
}

uint64_t ctl_operations(const json_t *object)
{
	return sum_of(json_object_get(object, "operations"));
}

uint64_t ctl_errors_of(const json_t *object)
{
	return sum_of(json_object_get(object, "errors"));
}

int ctl_show(const struct ctl_values *values, json_t *result, void (*print)(const json_t *result))
{
	if (!result)
		return CTL_FAILED;
	if (values->json)
		return ctl_json_print(result);
	print(result);
	json_decref(result);
	return CTL_OK;
}
