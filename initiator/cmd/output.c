/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The command's output: error lines, numbers for people, tables. Every verb's text for people comes
 * from here, so that they look alike.
 */
#include "initiator/cmd/cmd.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/screen/table.h"

/* An operand may be as long as a path; the rest of a message is short. */
#define ERROR_BYTES (PATH_MAX + 1024)

int cmd_error(const char *format, ...)
{
	char words[ERROR_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	fflush(stdout);
	fprintf(stderr, "rblk: %s\n", words);
	cmd_json_error(words);
	return CMD_FAILED;
}

const char *cmd_format_bytes(uint64_t bytes, char *text)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned int unit = 0;
	uint64_t whole = bytes;
	uint64_t rest = 0;

	while (whole >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		rest |= whole & 1023;
		whole >>= 10;
		unit++;
	}
	if (!rest)
		snprintf(text, CMD_TEXT_BYTES, "%" PRIu64 " %s", whole, units[unit]);
	else
		snprintf(text, CMD_TEXT_BYTES, "%.1f %s",
			 (double)bytes / (double)(1ull << (10 * unit)), units[unit]);
	return text;
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

const char *cmd_format_seconds(uint64_t seconds, char *text)
{
	uint64_t minutes = seconds / 60;

	if (minutes >= 60)
		snprintf(text, CMD_TEXT_BYTES, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, minutes / 60,
			 minutes % 60, seconds % 60);
	else
		snprintf(text, CMD_TEXT_BYTES, "%" PRIu64 ":%02" PRIu64, minutes, seconds % 60);
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

void cmd_table_print(const struct cmd_table *table)
{
	screen_table_print(table->screen, 0, NULL);
}

void cmd_table_destroy(struct cmd_table *table)
{
	screen_table_destroy(table->screen);
	free(table);
}
