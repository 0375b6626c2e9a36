/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns what verbs print alike: for people, and as JSON. */
#include "initiator/cmd/cmd.h"

#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/screen/table.h"

/* -- for people -------------------------------------------------------------------------------- */

/*
 * The command's output: error lines, numbers for people, tables. Every verb's text for people comes
 * from here, so that they look alike.
 */

/* An operand may be as long as a path; the rest of a message is short. */
#define ERROR_BYTES (PATH_MAX + 1024)

static void output_line(const char *words)
{
	progress_erase();
	fflush(stdout);
	fprintf(stderr, "rblk: %s\n", words);
}

int cmd_error(const char *format, ...)
{
	char words[ERROR_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	output_line(words);
	cmd_json_error(words);
	return CMD_FAILED;
}

void cmd_note(const char *format, ...)
{
	char words[ERROR_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	output_line(words);
}

const char *cmd_format_uuid(const uint8_t uuid[16], char *text)
{
	size_t length = 0;
	int i;

	for (i = 0; i < 16; i++)
		length +=
			(size_t)snprintf(text + length, CMD_TEXT_BYTES - length, "%s%02x",
					 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	return text;
}

/* -- tables ------------------------------------------------------------------------------------ */

struct cmd_table {
	unsigned int columns;
	struct screen_table *screen;
};

struct cmd_table *cmd_table_create(unsigned int columns)
{
	struct cmd_table *table = malloc(sizeof(*table));

	if (!table)
		exit(cmd_error("out of memory"));
	table->columns = columns;
	table->screen = screen_table_create(columns);
	return table;
}

void cmd_table_row(struct cmd_table *table, ...)
{
	const char *cells[SCREEN_COLUMNS_MAX];
	va_list args;

	va_start(args, table);
	for (unsigned int i = 0; i < table->columns; i++)
		cells[i] = va_arg(args, const char *);
	va_end(args);
	screen_table_row(table->screen, cells);
}

void cmd_table_print(const struct cmd_table *table, const char *empty)
{
	screen_table_list(table->screen, empty);
}

void cmd_table_destroy(struct cmd_table *table)
{
	screen_table_destroy(table->screen);
	free(table);
}

/* -- for programs ------------------------------------------------------------------------------ */

/*
 * JSON that several verbs print, and what all of it has: the key "errors". The verbs build their own
 * objects; rblk.schema.json says what is in them.
 */

/* The object of this process, which does one verb. */
static json_t *json_errors; /* NULL: JSON was not asked for */
static FILE *json_out;
static bool json_printed;

void cmd_json_begin(void)
{
	json_errors = json_array();
	json_out = stdout;
}

void cmd_json_output(FILE *out)
{
	json_out = out;
}

void cmd_json_error(const char *words)
{
	if (json_errors)
		json_array_append_new(json_errors, cmd_json_text(words));
}

int cmd_json_print(json_t *root)
{
	FILE *out = json_out ? json_out : stdout;
	int failed;

	if (!root || json_object_set_new(root, "errors",
					 json_errors ? json_incref(json_errors) : json_array())) {
		json_decref(root);
		return cmd_error("out of memory");
	}
	json_printed = true;
	failed = json_dumpf(root, out, JSON_INDENT(2)) || putc('\n', out) == EOF || fflush(out);
	json_decref(root);
	return failed ? CMD_FAILED : CMD_OK; /* main() says it */
}

int cmd_json_end(int status)
{
	if (!json_errors)
		return status;
	if (!json_printed && status && cmd_json_print(json_object()))
		status = CMD_FAILED;
	json_decref(json_errors);
	json_errors = NULL;
	return status;
}

/* A file's name may be any bytes; those that are not UTF-8 become question marks. */
json_t *cmd_json_text(const char *text)
{
	json_t *string = json_string(text);
	char *copy;

	if (string)
		return string;
	copy = strdup(text);
	if (!copy)
		return NULL;
	for (char *c = copy; *c; c++)
		if (*c & 0x80)
			*c = '?';
	string = json_string(copy);
	free(copy);
	return string;
}

json_t *cmd_json_words(const char *text)
{
	return text && text[0] ? cmd_json_text(text) : json_null();
}

json_t *cmd_json_features(const char *features)
{
	json_t *list = json_array();
	size_t length;

	for (; *features; features += length) {
		features += strspn(features, " ");
		length = strcspn(features, " ");
		if (length)
			json_array_append_new(list, json_stringn(features, length));
	}
	return list;
}

json_t *cmd_json_volume(const struct rblk_volume_info *info)
{
	char uuid[CMD_TEXT_BYTES], epoch[CMD_TEXT_BYTES];

	return json_pack(
		"{s:s s:s s:s s:I s:I s:I s:I s:I s:I s:I s:I s:b s:b s:b s:b s:b s:b s:b s:b s:b s:b s:I s:I}",
		"volume", info->name, "uuid", cmd_format_uuid(info->uuid, uuid), "cache_epoch",
		cmd_format_uuid(info->cache_epoch, epoch), "bytes", (json_int_t)info->bytes,
		"block_bytes", (json_int_t)info->block_bytes, "physical_bytes",
		(json_int_t)info->physical_bytes, "optimal_bytes", (json_int_t)info->optimal_bytes,
		"max_io_bytes", (json_int_t)info->max_io_bytes, "max_capsule_bytes",
		(json_int_t)info->max_capsule_bytes, "discard_granularity_bytes",
		(json_int_t)info->discard_granularity_bytes, "max_discard_bytes",
		(json_int_t)info->max_discard_bytes, "read_only", info->read_only, "can_flush",
		info->can_flush, "can_fua", info->can_fua, "can_discard", info->can_discard,
		"can_write_zeroes", info->can_write_zeroes, "can_checksum", info->can_checksum,
		"can_compare_and_write", info->can_compare_and_write, "can_extents", info->can_extents,
		"volatile_cache", info->volatile_cache, "rotational", info->rotational,
		"untorn_min_bytes", (json_int_t)info->untorn_min_bytes, "untorn_max_bytes",
		(json_int_t)info->untorn_max_bytes);
}
