/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables and numbers for people. */
#include "target/ctl/ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ctl_table {
	unsigned int columns, rows;
	bool right[CTL_COLUMNS_MAX];
	char **cells; /* rows * columns */
};

static void *checked(void *memory)
{
	if (!memory)
		exit(ctl_error("out of memory"));
	return memory;
}

struct ctl_table *ctl_table_create(unsigned int columns)
{
	struct ctl_table *table = checked(calloc(1, sizeof(*table)));

	table->columns = columns;
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

void ctl_table_row(struct ctl_table *table, const char *const *cells)
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

static unsigned int table_widths(const struct ctl_table *table, int widths[CTL_COLUMNS_MAX])
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

static void row_print(const struct ctl_table *table, unsigned int row,
		      const int widths[CTL_COLUMNS_MAX], const bool shown[CTL_COLUMNS_MAX])
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

void ctl_table_print(const struct ctl_table *table, unsigned int width, const unsigned int *order)
{
	int widths[CTL_COLUMNS_MAX];
	unsigned int sum = table_widths(table, widths), left = table->columns;
	bool shown[CTL_COLUMNS_MAX];

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

void ctl_table_destroy(struct ctl_table *table)
{
	for (unsigned int i = 0; i < table->rows * table->columns; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

/* -- numbers ----------------------------------------------------------------------------------- */

const char *ctl_format_bytes(uint64_t bytes, char *text)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned int unit = 0;
	double value = (double)bytes;

	while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	snprintf(text, CTL_TEXT_BYTES, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return text;
}

const char *ctl_format_count(double count, char *text)
{
	if (count >= 1e7)
		snprintf(text, CTL_TEXT_BYTES, "%.1fM", count / 1e6);
	else if (count >= 1e4)
		snprintf(text, CTL_TEXT_BYTES, "%.1fk", count / 1e3);
	else
		snprintf(text, CTL_TEXT_BYTES, "%.0f", count);
	return text;
}

const char *ctl_format_us(double us, char *text)
{
	if (us >= 1e6)
		snprintf(text, CTL_TEXT_BYTES, "%.1fs", us / 1e6);
	else if (us >= 1e3)
		snprintf(text, CTL_TEXT_BYTES, "%.1fms", us / 1e3);
	else
		snprintf(text, CTL_TEXT_BYTES, "%.0fus", us);
	return text;
}

const char *ctl_format_age(uint64_t ns, char *text)
{
	uint64_t s = ns / 1000000000;

	if (s >= 86400)
		snprintf(text, CTL_TEXT_BYTES, "%" PRIu64 "d %" PRIu64 ":%02" PRIu64, s / 86400,
			 s / 3600 % 24, s / 60 % 60);
	else
		snprintf(text, CTL_TEXT_BYTES, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600,
			 s / 60 % 60, s % 60);
	return text;
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
	return fflush(stdout) ? CTL_FAILED : CTL_OK;
}
