/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* top: a table of what was done since the last one, again and again (proto/screen/top.h), for each use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/screen/top.h"
#include "target/ctl/ctl.h"

#define CELLS(...) ((const char *const[]){__VA_ARGS__})
#define COLUMNS 13

/* The most important columns first: the last ones go on narrow terminals. */
static const unsigned int importance[COLUMNS] = {0, 1, 3, 8, 2, 12, 11, 5, 6, 7, 9, 10, 4};

struct top {
	struct screen_top screen; /* the first member */
	const struct ctl_values *values;
	struct ctl_connection *connection;
	json_t *last;
	json_t *status; /* of the same time: the problems */
	char *alert;	/* what is wrong, for a terminal: "2 problems: ..."; NULL: nothing */
};

/* A volume or an initiator with a problem, or that waits for a limit. */
static bool in_trouble(const struct top *top, const struct ctl_row *row)
{
	const json_t *problem;
	size_t i;

	json_array_foreach(json_object_get(top->status, "problems"), i, problem)
		if (!strcmp(ctl_string(problem, "volume"), row->volume) ||
		    !strcmp(ctl_string(problem, "initiator"), row->initiator))
			return true;
	return row->limited > 0;
}

static void table_row(const struct top *top, struct screen_table *table, const struct ctl_row *row)
{
	char iops[UNITS_TEXT_BYTES], reads[UNITS_TEXT_BYTES], in[16], out[16], p50[UNITS_TEXT_BYTES],
		p99[UNITS_TEXT_BYTES], depth[UNITS_TEXT_BYTES], net[16], disk[16], limited[UNITS_TEXT_BYTES];

	snprintf(in, sizeof(in), "%.1f", row->read_bytes / 1e6);
	snprintf(out, sizeof(out), "%.1f", row->written_bytes / 1e6);
	snprintf(net, sizeof(net), "%.0f", row->bytes_share * 100);
	snprintf(disk, sizeof(disk), "%.0f", row->store_share * 100);
	screen_table_row(table,
		      CELLS(in_trouble(top, row) ? "!" : "", row->volume, row->initiator,
			    units_format_count(row->reads + row->writes + row->others, iops),
			    units_format_count(row->reads, reads), in, out,
			    units_format_us(row->p50_us, p50), units_format_us(row->p99_us, p99),
			    units_format_count((double)row->outstanding, depth), net, disk,
			    units_format_count(row->limited, limited)));
}

/* instead: in place of the sum; NULL: the sum. */
static void top_table(const struct top *top, const struct ctl_rows *rows, const char *instead)
{
	struct screen_table *table = screen_table_create(COLUMNS);
	size_t room = screen_top_room(&top->screen);
	char sum[256], p99[UNITS_TEXT_BYTES];

	screen_table_row(table, CELLS(" ", "VOLUME", "INITIATOR", ">IOPS", ">READS", ">MB/S READ",
				      ">WRITTEN", ">P50", ">P99", ">DEPTH", ">NET%", ">DISK%", ">LIMITED"));
	for (size_t i = 0; i < rows->count && i < room; i++)
		table_row(top, table, &rows->rows[i]);
	snprintf(sum, sizeof(sum),
		 "%.0f IOPS, %.1f MB/s read, %.1f written, p99 %s, reactors busy %.0f%%",
		 rows->all.reads + rows->all.writes + rows->all.others, rows->all.read_bytes / 1e6,
		 rows->all.written_bytes / 1e6, units_format_us(rows->all.p99_us, p99), rows->busy * 100);
	screen_top_begin(&top->screen, instead ? instead : sum);
	if (!instead)
		screen_top_end(&top->screen, table, importance);
	else if (!top->screen.screen)
		printf("\n");
	screen_table_destroy(table);
}

static json_t *row_json(const struct ctl_row *row)
{
	return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "volume",
			 row->volume, "initiator", row->initiator, "reads_per_s", row->reads,
			 "writes_per_s", row->writes, "others_per_s", row->others,
			 "read_bytes_per_s", row->read_bytes, "written_bytes_per_s",
			 row->written_bytes, "p50_ns", (json_int_t)(row->p50_us * 1000), "p99_ns",
			 (json_int_t)(row->p99_us * 1000), "outstanding",
			 (json_int_t)row->outstanding, "limited_per_s", row->limited,
			 "limited_ns_per_s", row->limited_ns, "bytes_share", row->bytes_share,
			 "store_share", row->store_share);
}

static void top_json(const struct ctl_rows *rows)
{
	json_t *array = json_array();

	for (size_t i = 0; i < rows->count; i++)
		json_array_append_new(array, row_json(&rows->rows[i]));
	ctl_json_print(json_pack("{s:o, s:f}", "rows", array, "busy_share", rows->busy));
}

/* Takes the reference. Names are peers' words: they do not move the cursor. */
static void top_status(struct top *top, json_t *status)
{
	json_decref(top->status);
	free(top->alert);
	top->status = status;
	top->alert = json_array_size(json_object_get(status, "problems"))
			     ? strdup(ctl_string(status, "health")) : NULL;
	for (char *c = top->alert; c && *c; c++)
		*c = *c < ' ' || *c > '~' ? '?' : *c;
	top->screen.alert = top->alert;
}

/* The daemon is restarted, perhaps: it is asked again next time. A new one counts from 0, so what was counted is forgotten. */
static void top_wait(struct top *top, const char *reason)
{
	struct ctl_rows none = {0};
	char words[256];

	ctl_disconnect(top->connection);
	top->connection = NULL;
	json_decref(top->last);
	top->last = NULL;
	top_status(top, NULL);
	if (top->values->json)
		return;
	snprintf(words, sizeof(words), "no answer, asking again: %.200s", reason);
	top_table(top, &none, words);
}

/* One more answer, and its table unless it is the first. */
static bool top_step(struct screen_top *screen, bool first)
{
	struct top *top = (struct top *)screen;
	const char *reason = ctl_hold_errors(!first);
	struct ctl_rows rows;
	json_t *counts, *status = NULL;

	if (!top->connection)
		top->connection = ctl_connect(top->values->socket);
	counts = top->connection ? ctl_call(top->connection, "counts", NULL) : NULL;
	if (counts && !first && !top->values->json)
		status = ctl_call(top->connection, "status", NULL);
	ctl_hold_errors(false);
	if (!counts && !first)
		top_wait(top, reason);
	if (!counts)
		return !first;
	top_status(top, status);
	if (top->last) {
		if (!ctl_rows_make(top->last, counts, top->values->filter, screen->sort, &rows)) {
			json_decref(counts);
			ctl_error("out of memory");
			return false;
		}
		if (top->values->json)
			top_json(&rows);
		else
			top_table(top, &rows, NULL);
		ctl_rows_free(&rows);
	}
	json_decref(top->last);
	top->last = counts;
	return true;
}

int ctl_top(const struct ctl_values *values, char **operands, int count)
{
	struct top top = {
		.screen = {.interval_ms = values->interval_ms,
			   .count = values->count,
			   .sorts = CTL_SORTS,
			   .filter = values->filter,
			   .empty = "no session has a volume open",
			   .plain = values->json,
			   .step = top_step},
		.values = values,
		.connection = ctl_connect(values->socket),
	};
	bool good;

	(void)operands;
	(void)count;
	if (!top.connection)
		return CTL_FAILED;
	snprintf(top.screen.sort, sizeof(top.screen.sort), "%s", values->sort);
	good = screen_top_run(&top.screen);
	if (good && !top.connection)
		good = ctl_error("%s: no answer at the end", values->socket) == CTL_OK;
	json_decref(top.last);
	top_status(&top, NULL);
	ctl_disconnect(top.connection);
	return good ? CTL_OK : CTL_FAILED;
}
