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

#define TABLE_COLUMNS_MAX 16

struct cmd_table {
	unsigned int columns;
	unsigned int rows;
	bool right[TABLE_COLUMNS_MAX];
	char **cells; /* rows * columns */
};

static void *table_checked(void *memory)
{
	if (!memory) {
		cmd_error("out of memory");
		exit(CMD_FAILED);
	}
	return memory;
}

struct cmd_table *cmd_table_create(unsigned int columns)
{
	struct cmd_table *table = table_checked(calloc(1, sizeof(*table)));

	table->columns = columns < TABLE_COLUMNS_MAX ? columns : TABLE_COLUMNS_MAX;
	return table;
}

void cmd_table_row(struct cmd_table *table, ...)
{
	size_t used = (size_t)table->rows * table->columns;
	unsigned int column;
	const char *text;
	va_list args;

	table->cells = table_checked(
		realloc(table->cells, (used + table->columns) * sizeof(*table->cells)));
	va_start(args, table);
	for (column = 0; column < table->columns; column++) {
		text = va_arg(args, const char *);
		if (!table->rows && text[0] == '>') {
			table->right[column] = true;
			text++;
		}
		table->cells[used + column] = table_checked(strdup(text));
	}
	va_end(args);
	table->rows++;
}

void cmd_table_print(const struct cmd_table *table)
{
	int width[TABLE_COLUMNS_MAX] = { 0 };
	unsigned int row, column;
	const char *cell;

	for (row = 0; row < table->rows; row++)
		for (column = 0; column < table->columns; column++) {
			cell = table->cells[row * table->columns + column];
			if ((int)strlen(cell) > width[column])
				width[column] = (int)strlen(cell);
		}
	for (row = 0; row < table->rows; row++)
		for (column = 0; column < table->columns; column++) {
			cell = table->cells[row * table->columns + column];
			if (table->right[column])
				printf("%*s", width[column], cell);
			else if (column + 1 < table->columns)
				printf("%-*s", width[column], cell);
			else
				printf("%s", cell);
			printf("%s", column + 1 < table->columns ? "  " : "\n");
		}
}

void cmd_table_destroy(struct cmd_table *table)
{
	size_t i;

	for (i = 0; i < (size_t)table->rows * table->columns; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}
