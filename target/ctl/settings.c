/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* show and diff: the configuration in force, and what differs from the files. */
#include <stdio.h>
#include <string.h>

#include "target/ctl/ctl.h"

static bool differs(const json_t *setting)
{
	return !json_equal(json_object_get(setting, "value"), json_object_get(setting, "in_files"));
}

/* Prints the section's name before its first line. */
static void section_begin(const json_t *setting, const char **last)
{
	const char *section = ctl_string(setting, "section");

	if (*last && !strcmp(*last, section))
		return;
	printf("%s[%s]\n", *last ? "\n" : "", section);
	*last = section;
}

/* Values that the daemon accepted have no control characters. */
static void value_print(const json_t *setting, const char *sign, const char *of, const char *behind)
{
	if (json_is_string(json_object_get(setting, of)))
		printf("%s%s = %s%s\n", sign, ctl_string(setting, "key"), ctl_string(setting, of),
		       behind);
}

static void unreadable_print(const json_t *result)
{
	if (json_is_string(json_object_get(result, "files_unreadable")))
		printf("\nthe files cannot be read: %s\n", ctl_string(result, "files_unreadable"));
}

static void show_print(const json_t *result)
{
	bool readable = json_is_null(json_object_get(result, "files_unreadable"));
	const char *last = NULL;
	const json_t *setting;
	size_t i;

	json_array_foreach(json_object_get(result, "settings"), i, setting)
	{
		if (json_is_null(json_object_get(setting, "value")))
			continue;
		section_begin(setting, &last);
		value_print(setting, "", "value",
			    readable && differs(setting) ? " ; not in the files" : "");
	}
	unreadable_print(result);
	ctl_unsaved_print(result);
}

static void diff_print(const json_t *result)
{
	const char *last = NULL;
	const json_t *setting;
	size_t i;

	if (!json_array_size(json_object_get(result, "settings")))
		printf("no differences\n");
	json_array_foreach(json_object_get(result, "settings"), i, setting)
	{
		section_begin(setting, &last);
		value_print(setting, "- ", "in_files", "");
		value_print(setting, "+ ", "value", "");
	}
}

/* Leaves out those for which this is true. */
static void settings_drop(json_t *result, bool (*drops)(const json_t *setting))
{
	json_t *settings = json_object_get(result, "settings");

	for (size_t i = json_array_size(settings); i-- > 0;)
		if (drops(json_array_get(settings, i)))
			json_array_remove(settings, i);
}

static json_t *settings_ask(const struct ctl_values *values)
{
	struct ctl_connection *connection = ctl_connect(values->socket);
	json_t *result;

	if (!connection)
		return NULL;
	/* It comes behind a reload that waits for a lock. */
	ctl_be_patient(connection);
	result = ctl_call(connection, "show", NULL);
	ctl_disconnect(connection);
	return result;
}

static bool is_default(const json_t *setting)
{
	return json_is_true(json_object_get(setting, "default"));
}

int ctl_settings(const struct ctl_values *values, char **operands, int count)
{
	json_t *result = settings_ask(values);

	(void)operands;
	(void)count;
	if (!values->all)
		settings_drop(result, is_default);
	return ctl_show(values, result, show_print);
}

/* A section that only one of both has is told by what is set in it. */
static bool is_same(const json_t *setting)
{
	return !differs(setting) || is_default(setting);
}

int ctl_diff(const struct ctl_values *values, char **operands, int count)
{
	json_t *result = settings_ask(values);
	bool same;

	(void)operands;
	(void)count;
	if (!result)
		return CTL_FAILED;
	if (json_is_string(json_object_get(result, "files_unreadable"))) {
		ctl_error("the files cannot be read: %s", ctl_string(result, "files_unreadable"));
		json_decref(result);
		return CTL_FAILED;
	}
	settings_drop(result, is_same);
	same = !json_array_size(json_object_get(result, "settings"));
	return ctl_show(values, result, diff_print) == CTL_OK && same ? CTL_OK : CTL_PROBLEMS;
}
