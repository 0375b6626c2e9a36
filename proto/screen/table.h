/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tables for people, of rblk and rblkctl: columns as wide as they need to be; on a narrow terminal the
 * least important ones are left out. Text of a peer never moves the cursor: other bytes than printable
 * ASCII and UTF-8 become '?'.
 */
#ifndef RBLK_PROTO_SCREEN_TABLE_H
#define RBLK_PROTO_SCREEN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCREEN_COLUMNS_MAX 16
struct screen_table;
/* columns: at most SCREEN_COLUMNS_MAX. Without memory these end the program, with a message. */
struct screen_table *screen_table_create(unsigned int columns);
/* As many strings as there are columns; they are copied. A heading that begins with '>' is right-aligned. */
void screen_table_row(struct screen_table *table, const char *const *cells);
/* width: of the terminal, 0: any. Columns are left out from the end of `order` (indices of columns,
 * the most important first) until the others fit. NULL: none is. */
void screen_table_print(const struct screen_table *table, unsigned int width,
			const unsigned int *order);
/* Prints all columns; where there is only the heading, a sentence in its place: "no sessions". NULL: none. */
void screen_table_list(const struct screen_table *table, const char *empty);
bool screen_table_is_empty(const struct screen_table *table);
void screen_table_destroy(struct screen_table *table);

#endif
