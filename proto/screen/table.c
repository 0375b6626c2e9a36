/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A table and its cells, and numbers that fit into them. */
#include "proto/screen/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct screen_table {
	unsigned int columns, rows;
	bool right[SCREEN_COLUMNS_MAX];
	char **cells; /* rows * columns */
};

static void *checked(void *memory)
{
	if (!memory) {
		fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
		exit(EXIT_FAILURE);
	}
	return memory;
}

struct screen_table *screen_table_create(unsigned int columns)
{
	struct screen_table *table = checked(calloc(1, sizeof(*table)));

	table->columns = columns < SCREEN_COLUMNS_MAX ? columns : SCREEN_COLUMNS_MAX;
	return table;
}

/* Bytes of a UTF-8 character that may be shown; 0: none begins here. */
static size_t character_bytes(const unsigned char *text)
{
	size_t bytes = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;

	if (bytes == 1)
		return text[0] >= ' ' && text[0] < 0x7f;
	/* C1 controls are two bytes. */
	if (text[0] < 0xc2 || text[0] > 0xf4 || (text[0] == 0xc2 && text[1] < 0xa0))
		return 0;
	for (size_t i = 1; i < bytes; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return bytes;
}

static char *cell_copy(const char *text)
{
	char *copy = checked(strdup(text));
	size_t bytes;

	for (char *c = copy; *c; c += bytes) {
		bytes = character_bytes((unsigned char *)c);
		if (!bytes) {
			*c = '?';
			bytes = 1;
		}
	}
	return copy;
}

/* In characters. */
static int cell_width(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

void screen_table_row(struct screen_table *table, const char *const *cells)
{
	size_t used = (size_t)table->rows * table->columns;

	table->cells =
		checked(realloc(table->cells, (used + table->columns) * sizeof(*table->cells)));
	for (unsigned int i = 0; i < table->columns; i++) {
		const char *text = cells[i];

		if (!table->rows && text[0] == '>') {
			table->right[i] = true;
			text++;
		}
		table->cells[used + i] = cell_copy(text);
	}
	table->rows++;
}

static unsigned int table_widths(const struct screen_table *table, int widths[SCREEN_COLUMNS_MAX])
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < table->columns; i++) {
		widths[i] = 0;
		for (unsigned int row = 0; row < table->rows; row++) {
			int width = cell_width(table->cells[row * table->columns + i]);

			if (width > widths[i])
				widths[i] = width;
		}
		sum += (unsigned int)widths[i] + 2;
	}
	return sum - 2;
}

static void row_print(const struct screen_table *table, unsigned int row,
		      const int widths[SCREEN_COLUMNS_MAX], const bool shown[SCREEN_COLUMNS_MAX])
{
	int blanks = 0; /* before the next cell */

	for (unsigned int i = 0; i < table->columns; i++) {
		const char *cell = table->cells[row * table->columns + i];
		int room = widths[i] - cell_width(cell);

		if (!shown[i])
			continue;
		printf("%*s%s", blanks + (table->right[i] ? room : 0), "", cell);
		blanks = 2 + (table->right[i] ? 0 : room);
	}
	printf("\n");
}

void screen_table_print(const struct screen_table *table, unsigned int width,
			const unsigned int *order)
{
	int widths[SCREEN_COLUMNS_MAX];
	unsigned int sum = table_widths(table, widths), left = table->columns;
	bool shown[SCREEN_COLUMNS_MAX];

	for (unsigned int i = 0; i < table->columns; i++)
		shown[i] = true;
	while (width && order && sum > width && left > 1) {
		unsigned int column = order[--left];

		shown[column] = false;
		sum -= (unsigned int)widths[column] + 2;
	}
	for (unsigned int row = 0; row < table->rows; row++)
		row_print(table, row, widths, shown);
}

bool screen_table_is_empty(const struct screen_table *table)
{
	return table->rows <= 1;
}

void screen_table_list(const struct screen_table *table, const char *empty)
{
	if (empty && screen_table_is_empty(table))
		printf("%s\n", empty);
	else
		screen_table_print(table, 0, NULL);
}

void screen_table_destroy(struct screen_table *table)
{
	for (unsigned int i = 0; i < table->rows * table->columns; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}
