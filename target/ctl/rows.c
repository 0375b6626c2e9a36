/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The difference of two answers to "counts", as rows a second: what top shows. */
#include "target/ctl/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/screen/quantile.h"

#define BUCKETS_MAX 128

/* -- counts ------------------------------------------------------------------------------------ */

/* The operations of one use, or of more, within the time. */
struct work {
	double operations, reads, writes, read_bytes, written_bytes, stored_ns;
	double limited, limited_ns;
	double buckets[BUCKETS_MAX];
};

/* A counter that has become smaller began again. */
static double grown(const json_t *before, const json_t *after, const char *key)
{
	uint64_t old = ctl_integer(before, key), new = ctl_integer(after, key);

	return (double)(new >= old ? new - old : new);
}

static json_t *part(const json_t *use, const char *kind, const char *stage)
{
	return json_object_get(json_object_get(json_object_get(use, "latency"), kind), stage);
}

static void work_kind(struct work *work, const json_t *before, const json_t *after, const char *kind)
{
	json_t *old = json_object_get(part(before, kind, "both"), "buckets");
	json_t *new = json_object_get(part(after, kind, "both"), "buckets");

	for (size_t i = 0; i < json_array_size(new) && i < BUCKETS_MAX; i++) {
		json_int_t more = json_integer_value(json_array_get(new, i)) -
				  json_integer_value(json_array_get(old, i));

		work->buckets[i] += more > 0 ? (double)more : 0;
	}
	work->stored_ns += grown(part(before, kind, "stored"), part(after, kind, "stored"), "sum_ns");
}

static void work_make(struct work *work, const json_t *before, const json_t *after)
{
	json_t *old = json_object_get(before, "operations");
	json_t *new = json_object_get(after, "operations");
	const char *key;
	json_t *value;

	memset(work, 0, sizeof(*work));
	json_object_foreach(new, key, value)
		work->operations += grown(old, new, key);
	work->reads = grown(old, new, "read");
	work->writes = grown(old, new, "write");
	work->read_bytes = grown(before, after, "read_bytes");
	work->written_bytes = grown(before, after, "written_bytes");
	work->limited = grown(before, after, "limited_commands");
	work->limited_ns = grown(before, after, "limited_ns");
	work_kind(work, before, after, "read");
	work_kind(work, before, after, "write");
	work_kind(work, before, after, "other");
}

static void work_add(struct work *all, const struct work *one)
{
	all->operations += one->operations;
	all->reads += one->reads;
	all->writes += one->writes;
	all->read_bytes += one->read_bytes;
	all->written_bytes += one->written_bytes;
	all->stored_ns += one->stored_ns;
	all->limited += one->limited;
	all->limited_ns += one->limited_ns;
	for (size_t i = 0; i < BUCKETS_MAX; i++)
		all->buckets[i] += one->buckets[i];
}

/* Where the buckets end, in microseconds. */
static void ends_read(const json_t *array, double ends[BUCKETS_MAX])
{
	size_t count = json_array_size(array);

	for (size_t i = 0; i < BUCKETS_MAX; i++) {
		if (i < count)
			ends[i] = (double)json_integer_value(json_array_get(array, i)) / 1000;
		else
			ends[i] = i ? ends[i - 1] : 0;
	}
}

static void row_fill(struct ctl_row *row, const struct work *work, const double *ends, double seconds)
{
	row->reads = work->reads / seconds;
	row->writes = work->writes / seconds;
	row->others = (work->operations - work->reads - work->writes) / seconds;
	row->read_bytes = work->read_bytes / seconds;
	row->written_bytes = work->written_bytes / seconds;
	row->limited = work->limited / seconds;
	row->limited_ns = work->limited_ns / seconds;
	row->p50_us = screen_quantile(work->buckets, ends, BUCKETS_MAX, 0.5);
	row->p99_us = screen_quantile(work->buckets, ends, BUCKETS_MAX, 0.99);
}

/* -- rows -------------------------------------------------------------------------------------- */

/* NULL: it has begun since, and counts from zero. */
static const json_t *use_before(const json_t *before, const json_t *use)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(before, "uses"), i, one)
		if (ctl_integer(one, "session") == ctl_integer(use, "session") &&
		    !strcmp(ctl_string(one, "volume"), ctl_string(use, "volume")))
			return one;
	return NULL;
}

static double busy_of(const json_t *before, const json_t *after)
{
	double busy = 0, all = 0;
	const json_t *reactor, *old;
	size_t i;

	json_array_foreach(json_object_get(after, "reactors"), i, reactor) {
		old = json_array_get(json_object_get(before, "reactors"), i);
		if (!old)
			continue;
		busy += grown(old, reactor, "busy_ns");
		all += grown(old, reactor, "taken_ns");
	}
	return all > 0 ? busy / all : 0;
}

static double row_iops(const struct ctl_row *row)
{
	return row->reads + row->writes + row->others;
}

static const char *sort_key;

static double row_value(const struct ctl_row *row)
{
	if (!strcmp(sort_key, "bytes"))
		return row->read_bytes + row->written_bytes;
	if (!strcmp(sort_key, "p99"))
		return row->p99_us;
	if (!strcmp(sort_key, "depth"))
		return (double)row->outstanding;
	return row_iops(row);
}

/* By name where all else is equal, so that idle rows stay where they are. */
static int row_order(const void *a, const void *b)
{
	const struct ctl_row *one = a, *two = b;
	int order = 0;

	if (!strcmp(sort_key, "initiator"))
		order = strcmp(one->initiator, two->initiator);
	else if (strcmp(sort_key, "volume") && row_value(one) != row_value(two))
		return row_value(one) > row_value(two) ? -1 : 1;
	if (!order)
		order = strcmp(one->volume, two->volume);
	return order ? order : strcmp(one->initiator, two->initiator);
}

static bool row_wanted(const struct ctl_row *row, const char *filter)
{
	return !filter || strstr(row->volume, filter) || strstr(row->initiator, filter);
}

static void row_name(struct ctl_row *row, const json_t *use)
{
	const char *initiator = ctl_string(use, "initiator");

	if (!*initiator || !strcmp(initiator, "unnamed"))
		initiator = ctl_string(use, "peer");
	snprintf(row->volume, sizeof(row->volume), "%s", ctl_string(use, "volume"));
	snprintf(row->initiator, sizeof(row->initiator), "%s", initiator);
	row->outstanding = ctl_integer(use, "outstanding");
}

/* Where the row with that volume and initiator is; a new one is behind the others. */
static size_t row_place(const struct ctl_rows *rows, const struct ctl_row *row)
{
	size_t i = 0;

	while (i < rows->count && (strcmp(rows->rows[i].volume, row->volume) ||
				   strcmp(rows->rows[i].initiator, row->initiator)))
		i++;
	return i;
}

/* All sessions of an initiator are one row of each volume. works has room for all uses. */
static void rows_gather(const json_t *before, const json_t *after, struct ctl_rows *rows, struct work *works,
			struct work *all)
{
	const json_t *use;
	size_t i;

	json_array_foreach(json_object_get(after, "uses"), i, use) {
		struct ctl_row named = {0};
		struct work work;
		size_t place;

		row_name(&named, use);
		place = row_place(rows, &named);
		if (place == rows->count)
			rows->rows[rows->count++] = named;
		else
			rows->rows[place].outstanding += named.outstanding;
		work_make(&work, use_before(before, use), use);
		work_add(&works[place], &work);
		work_add(all, &work);
		rows->all.outstanding += named.outstanding;
	}
}

static void rows_fill(struct ctl_rows *rows, const struct work *works, const struct work *all, const double *ends,
		      double seconds)
{
	double all_bytes = all->read_bytes + all->written_bytes;

	for (size_t i = 0; i < rows->count; i++) {
		struct ctl_row *row = &rows->rows[i];

		row_fill(row, &works[i], ends, seconds);
		row->bytes_share =
			all_bytes > 0 ? (works[i].read_bytes + works[i].written_bytes) / all_bytes : 0;
		row->store_share = all->stored_ns > 0 ? works[i].stored_ns / all->stored_ns : 0;
	}
	row_fill(&rows->all, all, ends, seconds);
}

static void rows_choose(struct ctl_rows *rows, const char *filter)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++)
		if (row_wanted(&rows->rows[i], filter))
			rows->rows[kept++] = rows->rows[i];
	rows->count = kept;
}

bool ctl_rows_make(const json_t *before, const json_t *after, const char *filter, const char *sort,
		   struct ctl_rows *rows)
{
	size_t uses = json_array_size(json_object_get(after, "uses"));
	double seconds = grown(before, after, "taken_ns") / 1e9;
	struct work *works = calloc(uses + 1, sizeof(*works));
	struct work all = {0};
	double ends[BUCKETS_MAX];

	memset(rows, 0, sizeof(*rows));
	rows->rows = calloc(uses + 1, sizeof(*rows->rows));
	if (!works || !rows->rows) {
		free(works);
		ctl_rows_free(rows);
		return false;
	}
	ends_read(json_object_get(after, "bucket_ends_ns"), ends);
	rows_gather(before, after, rows, works, &all);
	rows_fill(rows, works, &all, ends, seconds > 0 ? seconds : 1);
	rows->busy = busy_of(before, after);
	rows_choose(rows, filter);
	free(works);
	sort_key = sort;
	qsort(rows->rows, rows->count, sizeof(*rows->rows), row_order);
	return true;
}

void ctl_rows_free(struct ctl_rows *rows)
{
	free(rows->rows);
	rows->rows = NULL;
	rows->count = 0;
}
