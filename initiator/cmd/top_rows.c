/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Looks, which the other two files fill, and the rows that two of them make: what each use has done in
 * between, in the order of a key. Pure.
 */
#include "initiator/cmd/top.h"

#include <stdlib.h>
#include <string.h>

#include "proto/screen/quantile.h"

/* -- looks ------------------------------------------------------------------------------------- */

struct top_use *top_look_add(struct top_look *look)
{
	struct top_use *more;

	if (look->most && look->count >= look->most) {
		look->cut = true;
		return NULL;
	}
	/* Grows at powers of two. */
	if (!(look->count & (look->count - 1))) {
		size_t room = look->count ? 2 * look->count : 1;

		more = room > TOP_USES_MAX ? NULL : realloc(look->uses, room * sizeof(*more));
		if (!more) {
			look->cut = true;
			return NULL;
		}
		look->uses = more;
	}
	more = &look->uses[look->count++];
	memset(more, 0, sizeof(*more));
	return more;
}

void top_look_free(struct top_look *look)
{
	free(look->uses);
	memset(look, 0, sizeof(*look));
}

/* NULL: it has begun since, and counts from zero. */
static const struct top_use *use_before(const struct top_look *before, const struct top_use *use)
{
	for (size_t i = 0; i < before->count; i++)
		if (!strcmp(before->uses[i].key, use->key))
			return &before->uses[i];
	return NULL;
}

/* -- differences ------------------------------------------------------------------------------- */

struct work {
	double operations, ns;
	double buckets[CORE_BUCKETS];
};

/* A count that has become smaller began again. */
static uint64_t grown(uint64_t before, uint64_t after)
{
	return after >= before ? after - before : after;
}

static void ends_make(double ends[CORE_BUCKETS])
{
	for (unsigned int i = 0; i + 1 < CORE_BUCKETS; i++)
		ends[i] = (double)core_bucket_end(i);
	ends[CORE_BUCKETS - 1] = ends[CORE_BUCKETS - 2];
}

static void row_times(struct top_row *row, const struct work *work)
{
	double ends[CORE_BUCKETS];

	ends_make(ends);
	row->mean_us = work->operations > 0 ? work->ns / work->operations / 1000 : 0;
	row->p50_us = screen_quantile(work->buckets, ends, CORE_BUCKETS, 0.5);
	row->p99_us = screen_quantile(work->buckets, ends, CORE_BUCKETS, 0.99);
}

static void row_make(struct top_row *row, const struct top_use *before, const struct top_use *use,
		     struct work *work)
{
	memset(work, 0, sizeof(*work));
	*row = (struct top_row){
		.use = use,
		.reads = grown(before->reads, use->reads),
		.writes = grown(before->writes, use->writes),
		.others = grown(before->others, use->others),
		.failed = grown(before->failed, use->failed),
		.read_bytes = grown(before->read_bytes, use->read_bytes),
		.written_bytes = grown(before->written_bytes, use->written_bytes),
	};
	work->operations = (double)row->reads + (double)row->writes + (double)row->others;
	work->ns = (double)grown(before->ns, use->ns);
	for (unsigned int i = 0; i < CORE_BUCKETS; i++)
		work->buckets[i] = (double)grown(before->buckets[i], use->buckets[i]);
	row_times(row, work);
}

static void all_add(struct top_row *all, struct work *all_work, const struct top_row *row,
		    const struct work *work)
{
	all->reads += row->reads;
	all->writes += row->writes;
	all->others += row->others;
	all->failed += row->failed;
	all->read_bytes += row->read_bytes;
	all->written_bytes += row->written_bytes;
	all_work->operations += work->operations;
	all_work->ns += work->ns;
	for (unsigned int i = 0; i < CORE_BUCKETS; i++)
		all_work->buckets[i] += work->buckets[i];
}

/* -- order ------------------------------------------------------------------------------------- */

static double row_bytes(const struct top_row *row)
{
	return (double)row->read_bytes + (double)row->written_bytes;
}

static const char *sort_key; /* of the qsort() that runs: row_order() is given no context */

static double row_value(const struct top_row *row)
{
	if (!strcmp(sort_key, "bytes"))
		return row_bytes(row);
	if (!strcmp(sort_key, "latency"))
		return row->mean_us;
	if (!strcmp(sort_key, "depth"))
		return (double)row->use->outstanding;
	return (double)row->reads + (double)row->writes + (double)row->others;
}

/* By name where all else is equal, so that idle rows stay where they are. */
static int row_order(const void *a, const void *b)
{
	const struct top_row *one = a, *two = b;
	int order = 0;

	if (!strcmp(sort_key, "volume"))
		order = strcmp(one->use->volume, two->use->volume);
	else if (strcmp(sort_key, "user") && row_value(one) != row_value(two))
		return row_value(one) > row_value(two) ? -1 : 1;
	if (!order)
		order = strcmp(one->use->user, two->use->user);
	return order ? order : strcmp(one->use->key, two->use->key);
}

const char *top_target(const struct top_use *use)
{
	return *use->peer ? use->peer : use->uri;
}

static bool row_wanted(const struct top_use *use, const char *filter)
{
	return !filter || strstr(use->user, filter) || strstr(use->volume, filter) ||
	       strstr(top_target(use), filter);
}

bool top_rows_make(const struct top_look *before, const struct top_look *after, const char *filter,
		   const char *sort, struct top_rows *rows)
{
	static const struct top_use begun;
	struct work all = {0}, work;
	double bytes;

	memset(rows, 0, sizeof(*rows));
	rows->rows = calloc(after->count + 1, sizeof(*rows->rows));
	if (!rows->rows)
		return false;
	for (size_t i = 0; i < after->count; i++) {
		const struct top_use *use = &after->uses[i], *old = use_before(before, use);
		struct top_row *row = &rows->rows[rows->count];

		row_make(row, old ? old : &begun, use, &work);
		all_add(&rows->all, &all, row, &work);
		rows->count += row_wanted(use, filter);
	}
	row_times(&rows->all, &all);
	rows->seconds = (double)grown(before->taken_ns, after->taken_ns) / 1e9;
	if (rows->seconds <= 0)
		rows->seconds = 1;
	bytes = row_bytes(&rows->all);
	for (size_t i = 0; i < rows->count && bytes > 0; i++)
		rows->rows[i].bytes_share = row_bytes(&rows->rows[i]) / bytes;
	sort_key = sort;
	qsort(rows->rows, rows->count, sizeof(*rows->rows), row_order);
	return true;
}

void top_rows_free(struct top_rows *rows)
{
	free(rows->rows);
	memset(rows, 0, sizeof(*rows));
}
