/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * top: a table of what was done since the last one, again and again. On a terminal it fills the
 * screen and takes keys; elsewhere the tables follow each other.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "target/ctl/ctl.h"

#define CELLS(...) ((const char *const[]){__VA_ARGS__})
#define COLUMNS 11

/* The most important columns first: the last ones go on narrow terminals. */
static const unsigned int importance[COLUMNS] = {0, 2, 6, 7, 1, 4, 5, 8, 3, 9, 10};

struct top {
	const struct ctl_values *values;
	char sort[16];
	bool screen; /* standard output is a terminal, and standard input, too */
	struct termios before;
	json_t *last;
};

/* -- the terminal ------------------------------------------------------------------------------ */

static struct top *on_screen; /* for the end by a signal */

static void screen_leave(void)
{
	if (!on_screen)
		return;
	tcsetattr(STDIN_FILENO, TCSANOW, &on_screen->before);
	/* The cursor, and the screen that was there. */
	if (write(STDOUT_FILENO, "\033[?25h\033[?1049l", 14) < 0)
		return;
	on_screen = NULL;
}

static void screen_signal(int number)
{
	screen_leave();
	_exit(128 + number);
}

static void screen_enter(struct top *top)
{
	struct termios raw;

	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || top->values->json ||
	    tcgetattr(STDIN_FILENO, &top->before))
		return;
	raw = top->before;
	raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	top->screen = true;
	on_screen = top;
	signal(SIGINT, screen_signal);
	signal(SIGTERM, screen_signal);
	signal(SIGHUP, screen_signal);
	printf("\033[?1049h\033[?25l");
}

static struct winsize screen_size(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		memset(&size, 0, sizeof(size));
	return size;
}

static void sort_next(struct top *top)
{
	const char *next = strstr(CTL_SORTS, top->sort);

	if (next)
		next += strlen(top->sort) + strspn(next + strlen(top->sort), " ");
	if (!next || !*next)
		next = CTL_SORTS;
	snprintf(top->sort, sizeof(top->sort), "%.*s", (int)strcspn(next, " "), next);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* False: the user wants to end. *again: show the table at once. */
static bool top_wait(struct top *top)
{
	uint64_t until_ms = now_ms() + top->values->interval_ms, left_ms;
	struct pollfd keys = {.fd = top->screen ? STDIN_FILENO : -1, .events = POLLIN};
	char key;

	while ((left_ms = until_ms - now_ms()) <= top->values->interval_ms && left_ms) {
		if (poll(&keys, 1, (int)left_ms) <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 4)
			return false;
		if (key == 's')
			sort_next(top);
		/* Any other key: the next table now. */
		if (key != 's')
			return true;
	}
	return true;
}

/* -- the table --------------------------------------------------------------------------------- */

static void table_row(struct ctl_table *table, const struct ctl_row *row)
{
	char iops[CTL_TEXT_BYTES], reads[CTL_TEXT_BYTES], in[16], out[16], p50[CTL_TEXT_BYTES],
		p99[CTL_TEXT_BYTES], depth[CTL_TEXT_BYTES], net[16], disk[16];

	snprintf(in, sizeof(in), "%.1f", row->read_bytes / 1e6);
	snprintf(out, sizeof(out), "%.1f", row->written_bytes / 1e6);
	snprintf(net, sizeof(net), "%.0f", row->bytes_share * 100);
	snprintf(disk, sizeof(disk), "%.0f", row->store_share * 100);
	ctl_table_row(table,
		      CELLS(row->volume, row->initiator,
			    ctl_format_count(row->reads + row->writes + row->others, iops),
			    ctl_format_count(row->reads, reads), in, out,
			    ctl_format_us(row->p50_us, p50), ctl_format_us(row->p99_us, p99),
			    ctl_format_count((double)row->outstanding, depth), net, disk));
}

/* Cut at the edge of the terminal; width 0: none. */
static void line_print(const char *line, unsigned int width)
{
	printf("%.*s\n", width ? (int)width : -1, line);
}

static void top_table(const struct top *top, const struct ctl_rows *rows)
{
	struct winsize size = screen_size();
	struct ctl_table *table = ctl_table_create(COLUMNS);
	size_t room = rows->count;
	char line[256];

	/* Two lines above, and the heading. */
	if (top->screen && size.ws_row > 4 && room > size.ws_row - 4u)
		room = size.ws_row - 4u;
	ctl_table_row(table, CELLS("VOLUME", "INITIATOR", ">IOPS", ">READS", ">MB/S READ",
				   ">WRITTEN", ">P50", ">P99", ">DEPTH", ">NET%", ">DISK%"));
	for (size_t i = 0; i < room; i++)
		table_row(table, &rows->rows[i]);
	if (top->screen)
		printf("\033[H\033[J");
	snprintf(line, sizeof(line),
		 "%.0f operations a second, %.1f MB/s read, %.1f written, p99 %.0f us, "
		 "reactors busy %.0f%%",
		 rows->all.reads + rows->all.writes + rows->all.others, rows->all.read_bytes / 1e6,
		 rows->all.written_bytes / 1e6, rows->all.p99_us, rows->busy * 100);
	line_print(line, size.ws_col);
	snprintf(line, sizeof(line), "sorted by %s (s: the next key, q: the end)%s%s", top->sort,
		 top->values->filter ? ", only with " : "",
		 top->values->filter ? top->values->filter : "");
	if (top->screen)
		line_print(line, size.ws_col);
	ctl_table_print(table, size.ws_col, importance);
	if (!top->screen)
		printf("\n");
	ctl_table_destroy(table);
}

static json_t *row_json(const struct ctl_row *row)
{
	return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:f, s:f}", "volume",
			 row->volume, "initiator", row->initiator, "reads_per_s", row->reads,
			 "writes_per_s", row->writes, "others_per_s", row->others,
			 "read_bytes_per_s", row->read_bytes, "written_bytes_per_s",
			 row->written_bytes, "p50_ns", (json_int_t)(row->p50_us * 1000), "p99_ns",
			 (json_int_t)(row->p99_us * 1000), "outstanding",
			 (json_int_t)row->outstanding, "bytes_share", row->bytes_share,
			 "store_share", row->store_share);
}

static void top_json(const struct ctl_rows *rows)
{
	json_t *array = json_array();

	for (size_t i = 0; i < rows->count; i++)
		json_array_append_new(array, row_json(&rows->rows[i]));
	ctl_json_print(json_pack("{s:o, s:f}", "rows", array, "busy_share", rows->busy));
}

/* One more answer, and its table unless it is the first. */
static bool top_step(struct top *top, struct ctl_connection *connection)
{
	json_t *counts = ctl_call(connection, "counts", NULL);
	struct ctl_rows rows;

	if (!counts)
		return false;
	if (top->last) {
		if (!ctl_rows_make(top->last, counts, top->values->filter, top->sort, &rows)) {
			json_decref(counts);
			ctl_error("out of memory");
			return false;
		}
		if (top->values->json)
			top_json(&rows);
		else
			top_table(top, &rows);
		ctl_rows_free(&rows);
		fflush(stdout);
	}
	json_decref(top->last);
	top->last = counts;
	return !ferror(stdout);
}

int ctl_top(const struct ctl_values *values, char **operands, int count)
{
	struct ctl_connection *connection = ctl_connect(values->socket);
	struct top top = {.values = values};
	uint64_t tables = 0;
	bool good;

	(void)operands;
	(void)count;
	if (!connection)
		return CTL_FAILED;
	snprintf(top.sort, sizeof(top.sort), "%s", values->sort);
	good = top_step(&top, connection);
	if (good)
		screen_enter(&top);
	while (good && top_wait(&top)) {
		/* What fails now is said on the screen that stays. */
		good = top_step(&top, connection);
		if (good && values->count && ++tables >= values->count)
			break;
	}
	screen_leave();
	json_decref(top.last);
	ctl_disconnect(connection);
	return good ? CTL_OK : CTL_FAILED;
}
