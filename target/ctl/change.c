/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The verbs that change the configuration, or who serves a volume: add, set, remove, reload, save, move. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "target/ctl/ctl.h"

static void restart_print(const json_t *result)
{
	const json_t *name;
	size_t i;

	json_array_foreach(json_object_get(result, "needs_restart"), i, name)
		printf("%s%s", i ? ", " : "these changes need a restart: ", json_string_value(name));
	if (json_array_size(json_object_get(result, "needs_restart")))
		printf("\n");
}

void ctl_unsaved_print(const json_t *result)
{
	if (json_is_true(json_object_get(result, "unsaved_changes")))
		printf("not saved: rblkctl save writes it to the configuration file\n");
}

static void counts_print(const json_t *result)
{
	uint64_t added = ctl_integer(result, "added");

	printf("%" PRIu64 " volume%s added, %" PRIu64 " removed, %" PRIu64 " changed\n", added,
	       added == 1 ? "" : "s", ctl_integer(result, "removed"), ctl_integer(result, "changed"));
	restart_print(result);
	ctl_unsaved_print(result);
}

/* A change of limits, rules and initiators leaves each volume what it is; it is in force all the same. */
static void change_print(const json_t *result)
{
	if (ctl_integer(result, "added") || ctl_integer(result, "removed") || ctl_integer(result, "changed")) {
		counts_print(result);
		return;
	}
	restart_print(result);
	printf("%sin force\n", json_array_size(json_object_get(result, "needs_restart")) ? "all else is " : "");
	ctl_unsaved_print(result);
}

static void save_print(const json_t *result)
{
	(void)result;
	printf("saved\n");
}

/* Takes over params. */
static int change(const struct ctl_values *values, const char *verb, const char *method, json_t *params,
		  void (*print)(const json_t *result))
{
	struct ctl_connection *connection = ctl_connect(values->socket);
	json_t *result;
	int status;

	if (values->force)
		json_object_set_new(params, "force", json_true());
	if (!connection) {
		json_decref(params);
		return CTL_FAILED;
	}
	ctl_be_patient(connection);
	result = ctl_call(connection, method, params);
	ctl_disconnect(connection);
	if (!result)
		return CTL_FAILED;
	if (!values->json && *ctl_string(result, "warning"))
		fprintf(stderr, "rblkctl: warning: %s\n", ctl_string(result, "warning"));
	if (!ctl_integer(result, "not_served"))
		return ctl_show(values, result, print);
	/* It is in force, but not all of it. */
	if (!values->json)
		print(result);
	status = ctl_error("%s: %s", verb, ctl_string(result, "reason"));
	json_decref(result);
	return status;
}

int ctl_reload(const struct ctl_values *values, char **operands, int count)
{
	(void)operands;
	(void)count;
	return change(values, "reload", "reload", json_object(), change_print);
}

int ctl_save(const struct ctl_values *values, char **operands, int count)
{
	(void)operands;
	(void)count;
	return change(values, "save", "save", json_object(), save_print);
}

static void move_print(const json_t *result)
{
	uint64_t left = ctl_integer(result, "left"), stay = ctl_integer(result, "stay");

	printf("%" PRIu64 " session%s left for another target, %" PRIu64 " stay%s%s\n", left,
	       left == 1 ? " has" : "s have", stay, stay == 1 ? "s" : "",
	       json_is_true(json_object_get(result, "given_away")) ?
		       "; not served here any more, unless no other target takes it" :
		       "");
}

int ctl_move(const struct ctl_values *values, char **operands, int count)
{
	if (count != 1)
		return ctl_usage("move");
	return change(values, "move", "move", json_pack("{s:s}", "volume", operands[0]), move_print);
}

/* -- edits ------------------------------------------------------------------------------------- */

/* KEY=VALUE; a key that is given several times has several values, one without a value has none. */
static bool keys_add(json_t *keys, const char *operand)
{
	const char *equals = strchr(operand, '=');
	json_t *value, *before;
	char key[64];

	if (!equals || equals == operand || (size_t)(equals - operand) >= sizeof(key)) {
		ctl_error("\"%.64s\" is not KEY=VALUE", operand);
		return false;
	}
	snprintf(key, sizeof(key), "%.*s", (int)(equals - operand), operand);
	value = equals[1] ? json_string(equals + 1) : json_null();
	if (!value) {
		ctl_error("%s: the value is not UTF-8", key);
		return false;
	}
	before = json_object_get(keys, key);
	if (!before)
		return !json_object_set_new(keys, key, value);
	if (!json_is_array(before)) {
		json_object_set_new(keys, key, json_pack("[O]", before));
		before = json_object_get(keys, key);
	}
	return !json_array_append_new(before, value);
}

/* The section that operands begin with, and how many they are; 0: they do not. */
static int section_take(char **operands, int count, char section[256])
{
	if (count >= 1 && !strcmp(operands[0], "target")) {
		strcpy(section, "target");
		return 1;
	}
	if (count < 2 || (strcmp(operands[0], "volume") && strcmp(operands[0], "initiator")))
		return 0;
	snprintf(section, 256, "%s %.200s", operands[0], operands[1]);
	return 2;
}

static int edit(const struct ctl_values *values, const char *verb, char **operands, int count)
{
	json_t *keys = json_object(), *edits;
	char section[256];
	int taken = section_take(operands, count, section);
	bool removes = !strcmp(verb, "remove");

	if (!taken || (taken == 1 && strcmp(verb, "set")) || removes != (count == taken)) {
		json_decref(keys);
		return ctl_usage(verb);
	}
	for (int i = taken; i < count; i++)
		if (!keys_add(keys, operands[i])) {
			json_decref(keys);
			return CTL_USAGE;
		}
	edits = json_pack("{s:[{s:s, s:s}]}", "edits", "edit", verb, "section", section);
	if (removes)
		json_decref(keys);
	else
		json_object_set_new(json_array_get(json_object_get(edits, "edits"), 0), "keys", keys);
	return change(values, verb, "change", edits, change_print);
}

int ctl_add(const struct ctl_values *values, char **operands, int count)
{
	return edit(values, "add", operands, count);
}

int ctl_set(const struct ctl_values *values, char **operands, int count)
{
	return edit(values, "set", operands, count);
}

int ctl_remove(const struct ctl_values *values, char **operands, int count)
{
	return edit(values, "remove", operands, count);
}
