/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* rblk top: a live table (proto/screen/top.h) of what attached disks and sessions of programs do. */
#include "initiator/cmd/top.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "initiator/cmd/cmd.h"
#include "proto/screen/table.h"
#include "proto/screen/top.h"

#define CELLS(...) ((const char *const[]){ __VA_ARGS__ })
#define COLUMNS 14

/* The most important columns first: the last ones go on narrow terminals. */
static const unsigned int importance[COLUMNS] = { 0, 4, 8, 1, 3, 6, 7, 11, 10, 9, 5, 12, 13, 2 };

static struct top_values {
	const char *folder, *sort, *filter;
	uint64_t interval_ms, count;
	bool json;
} values = { .interval_ms = 2000, .sort = "iops" };

static const struct cmd_option options[] = {
	{ "interval", 'i', CMD_OPTION_TIME, offsetof(struct top_values, interval_ms), 100, 3600000,
	  "TIME", "time between two tables (default: 2s)" },
	{ "count", 'n', CMD_OPTION_NUMBER, offsetof(struct top_values, count), 1, 1000000000,
	  "COUNT", "end after so many tables" },
	{ "sort", 'S', CMD_OPTION_TEXT, offsetof(struct top_values, sort), 0, 0, "KEY",
	  "order of the rows: " TOP_SORTS " (default: iops)" },
	{ "filter", 'f', CMD_OPTION_TEXT, offsetof(struct top_values, filter), 0, 0, "TEXT",
	  "only rows whose user, volume or target contains this" },
	{ "folder", 'd', CMD_OPTION_TEXT, offsetof(struct top_values, folder), 0, 0, "FOLDER",
	  "only sessions that publish in this folder, and no disks" },
	CMD_OPTION_JSON(struct top_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

struct top {
	struct screen_top screen; /* the first member */
	struct top_look last;
};

/* -- looks ------------------------------------------------------------------------------------- */

static bool look_failed(const char *where, int err)
{
	cmd_error("%s: %s", where, strerror(-err));
	return false;
}

/*
 * False: the end, after a message. At first the folder has to be there: a mistyped one would be empty for ever. It may
 * go and come later, as that of a service does.
 */
static bool top_look(struct top_look *look, bool first)
{
	int err;

	memset(look, 0, sizeof(*look));
	look->taken_ns = progress_now_ns();
	if (values.folder) {
		err = first && access(values.folder, F_OK) ? -errno : top_pages_look(values.folder, look);
		return err ? look_failed(values.folder, err) : true;
	}
	err = top_disks_look("", look);
	if (err)
		return look_failed("/sys/block", err);
	err = top_pages_look_usual("", look);
	return err ? look_failed("the folder of sessions", err) : true;
}

/* -- the table --------------------------------------------------------------------------------- */

/* "-": the use has no such count, or nothing was done. */
static const char *cell_us(bool known, double us, char *text)
{
	return known ? units_format_us(us, text) : "-";
}

static const char *cell_rate(bool known, double count, char *text)
{
	return known ? units_format_count(count, text) : "-";
}

static void table_row(struct screen_table *table, const struct top_row *row, double seconds)
{
	const struct top_use *use = row->use;
	double operations = (double)row->reads + (double)row->writes + (double)row->others;
	char iops[UNITS_TEXT_BYTES], reads[UNITS_TEXT_BYTES], mean[UNITS_TEXT_BYTES],
		p50[UNITS_TEXT_BYTES], p99[UNITS_TEXT_BYTES], depth[UNITS_TEXT_BYTES],
		failed[UNITS_TEXT_BYTES], in[32] = "-", out[32] = "-", share[16] = "-";
	bool timed = use->counted && operations > 0, spread = timed && use->spread;

	if (use->counted) {
		snprintf(in, sizeof(in), "%.1f", (double)row->read_bytes / seconds / 1e6);
		snprintf(out, sizeof(out), "%.1f", (double)row->written_bytes / seconds / 1e6);
		snprintf(share, sizeof(share), "%.0f", row->bytes_share * 100);
	}
	screen_table_row(
		table,
		CELLS(use->user, use->volume, top_target(use), use->state,
		      cell_rate(use->counted, operations / seconds, iops),
		      cell_rate(use->counted, (double)row->reads / seconds, reads), in, out,
		      cell_us(timed, row->mean_us, mean), cell_us(spread, row->p50_us, p50),
		      cell_us(spread, row->p99_us, p99),
		      cell_rate(use->counted, (double)use->outstanding, depth),
		      cell_rate(use->spread, (double)row->failed / seconds, failed), share));
}

static void top_table(const struct top *top, const struct top_rows *rows, bool cut)
{
	const struct top_row *all = &rows->all;
	struct screen_table *table = screen_table_create(COLUMNS);
	size_t room = screen_top_room(&top->screen);
	char sum[256], mean[UNITS_TEXT_BYTES];

	screen_table_row(table, CELLS("USER", "VOLUME", "TARGET", "STATE", ">IOPS", ">READS",
				      ">MB/S READ", ">WRITTEN", ">MEAN", ">P50", ">P99", ">DEPTH",
				      ">FAILED", ">NET%"));
	for (size_t i = 0; i < rows->count && i < room; i++)
		table_row(table, &rows->rows[i], rows->seconds);
	snprintf(sum, sizeof(sum),
		 "%.0f operations a second, %.1f MB/s read, %.1f written, mean %s%s",
		 ((double)all->reads + (double)all->writes + (double)all->others) / rows->seconds,
		 (double)all->read_bytes / rows->seconds / 1e6,
		 (double)all->written_bytes / rows->seconds / 1e6,
		 units_format_us(all->mean_us, mean), cut ? "; there are more rows" : "");
	screen_top_begin(&top->screen, sum);
	screen_top_end(&top->screen, table, importance);
	screen_table_destroy(table);
}

/* -- JSON -------------------------------------------------------------------------------------- */

static json_t *json_count(bool known, uint64_t count)
{
	return known ? json_integer((json_int_t)(count & INT64_MAX)) : json_null();
}

/* Microseconds, which JSON has as nanoseconds. */
static json_t *json_ns_of_us(bool known, double us)
{
	return known ? json_integer((json_int_t)(us * 1000)) : json_null();
}

static json_t *row_json(const struct top_row *row)
{
	const struct top_use *use = row->use;
	bool counted = use->counted, timed = counted && row->reads + row->writes + row->others > 0;

	return json_pack(
		"{s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o}", "device",
		cmd_json_words(use->device), "program", cmd_json_words(use->program), "pid",
		json_count(!use->attached, use->pid), "volume", cmd_json_text(use->volume), "uri",
		cmd_json_words(use->uri), "peer", cmd_json_words(use->peer), "state",
		cmd_json_text(use->state), "reads", json_count(counted, row->reads), "writes",
		json_count(counted, row->writes), "others", json_count(counted, row->others),
		"failures", json_count(use->spread, row->failed), "read_bytes",
		json_count(counted, row->read_bytes), "written_bytes",
		json_count(counted, row->written_bytes), "average_ns",
		json_ns_of_us(timed, row->mean_us), "p50_ns",
		json_ns_of_us(timed && use->spread, row->p50_us), "p99_ns",
		json_ns_of_us(timed && use->spread, row->p99_us), "outstanding",
		json_count(counted, use->outstanding));
}

static bool top_json(const struct top_rows *rows)
{
	json_t *array = json_array();

	for (size_t i = 0; i < rows->count; i++)
		json_array_append_new(array, row_json(&rows->rows[i]));
	return cmd_json_print(json_pack("{s:o s:I}", "uses", array, "elapsed_ns",
					(json_int_t)(rows->seconds * 1e9))) == CMD_OK;
}

/* -- the verb ---------------------------------------------------------------------------------- */

static bool top_step(struct screen_top *screen, bool first)
{
	struct top *top = (struct top *)screen;
	struct top_look now;
	struct top_rows rows;
	bool good = top_look(&now, first);

	if (good && !first) {
		good = top_rows_make(&top->last, &now, values.filter, screen->sort, &rows);
		if (!good)
			cmd_error("out of memory");
		else if (values.json)
			good = top_json(&rows);
		else
			top_table(top, &rows, now.cut);
		top_rows_free(&rows);
	}
	top_look_free(&top->last);
	top->last = now;
	return good;
}

static bool sort_known(const char *key)
{
	size_t length = strlen(key);

	for (const char *word = TOP_SORTS; *word; word += strspn(word, " ")) {
		size_t next = strcspn(word, " ");

		if (length == next && !strncmp(word, key, length))
			return true;
		word += next;
	}
	return false;
}

static int top_run(char **operands, int count)
{
	struct top top = {.screen = {.interval_ms = values.interval_ms,
				     .count = values.count,
				     .sorts = TOP_SORTS,
				     .filter = values.filter,
				     .empty = values.folder
						      ? "no program publishes in this folder"
						      : "no attached disks, and no program publishes what it does",
				     .plain = values.json,
				     .step = top_step}};
	bool good;

	if (!sort_known(values.sort)) {
		cmd_error("--sort: \"%.64s\" is not one of %s", values.sort, TOP_SORTS);
		return CMD_USAGE;
	}
	snprintf(top.screen.sort, sizeof(top.screen.sort), "%s", values.sort);
	good = screen_top_run(&top.screen);
	top_look_free(&top.last);
	return good ? CMD_OK : CMD_FAILED;
}

const struct cmd_verb cmd_verb_top = {
	.name = "top",
	.operands = "",
	.summary = "a live table of what attached disks and programs do",
	.options = options,
	.values = &values,
	.operands_most = 0,
	.run = top_run,
};
