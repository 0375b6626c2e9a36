/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A live table of what was done since the last one. On a terminal it fills the screen and takes keys;
 * elsewhere the tables follow each other. The caller (rblkctl top, rblk top) fills it.
 */
#ifndef RBLK_PROTO_SCREEN_TOP_H
#define RBLK_PROTO_SCREEN_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

struct screen_table;

/* One for a process. The caller sets what is above the line, before screen_top_run(). */
struct screen_top {
	uint64_t interval_ms, count; /* of tables; 0: without end */
	const char *sorts;	     /* the keys, separated by blanks */
	const char *filter;	     /* told on the screen; NULL: none */
	const char *empty;	     /* the sentence in place of a table without rows */
	const char *alert;	     /* a line above the sum; the caller may change it before each table. NULL: none */
	bool plain;		     /* no terminal's screen, for JSON */
	/* Looks at what there is now, and prints what was done since the last look unless `first`.
	 * False: the end, after a message. */
	bool (*step)(struct screen_top *top, bool first);
	char sort[16]; /* the key in use; the user changes it */
	/* -- */
	bool screen; /* standard output is a terminal, and standard input, too */
	struct termios before;
};

/* Until the user ends it, or after `count` tables. False: a step failed. */
bool screen_top_run(struct screen_top *top);
/* Begins the next table: the alert, if there is one, and one line of the sum; on a screen, one of the keys, too. */
void screen_top_begin(const struct screen_top *top, const char *sum);
/* How many rows there is room for below that and the heading. */
size_t screen_top_room(const struct screen_top *top);
/* The table, as wide as the terminal at most: screen_table_print(), which explains `order`. */
void screen_top_end(const struct screen_top *top, const struct screen_table *table,
		    const unsigned int *order);

#endif
