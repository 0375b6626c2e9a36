/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A ring of samples for each thing that has counters, and what these were at the last one. */
#include "target/watch/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/buckets.h"
#include "proto/screen/quantile.h"
#include "target/base/text.h"

/* The whole target, volumes, initiators, and who is not told apart. */
#define SERIES_MAX (1 + RBLK_VOLUMES_MAX + TGT_NAMES_MAX + 1)

enum { READS, WRITES, OTHERS, READ_BYTES, WRITTEN_BYTES, LIMITED, COUNTERS, P50 = COUNTERS, P99, VALUES };

static const char *const keys[VALUES] = {
	"reads_per_s", "writes_per_s", "others_per_s", "read_bytes_per_s", "written_bytes_per_s",
	"limited_per_s", "p50_ns", "p99_ns",
};

struct counters {
	uint64_t counts[COUNTERS], buckets[CORE_BUCKETS];
};

struct series {
	enum tgt_history_kind kind;
	char name[RBLK_NAME_BYTES];
	bool seen;		 /* in the view */
	uint64_t last_ns;	 /* when the counters were these: */
	struct counters last;
	float values[TGT_HISTORY_SAMPLES][VALUES]; /* NAN: not known */
};

struct tgt_history {
	uint64_t due_ns, view_ns; /* the next sample; the last one's view */
	struct counters total;	  /* of the view */
	uint64_t samples;	  /* so far; the ring's place of the next one */
	bool lacks, lacked;	  /* something had no series for want of memory: in this sample, in the last one */
	uint64_t times_s[TGT_HISTORY_SAMPLES];
	double ends_us[CORE_BUCKETS];
	struct series *series[SERIES_MAX]; /* by kind, then name */
	unsigned int count;
};

struct tgt_history *tgt_history_create(uint64_t now_ns)
{
	struct tgt_history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->due_ns = now_ns + TGT_HISTORY_NS;
	history->view_ns = now_ns;
	/* The last one has no end. */
	for (unsigned int i = 0; i < CORE_BUCKETS; i++)
		history->ends_us[i] = (double)core_bucket_end(i + 1 < CORE_BUCKETS ? i : i - 1);
	return history;
}

int tgt_history_timeout_ms(const struct tgt_history *history, uint64_t now_ns)
{
	if (!history)
		return -1;
	return history->due_ns > now_ns ? (int)((history->due_ns - now_ns) / 1000000) + 1 : 0;
}

void tgt_history_destroy(struct tgt_history *history)
{
	if (!history)
		return;
	for (unsigned int i = 0; i < history->count; i++)
		free(history->series[i]);
	free(history);
}

/* -- series ------------------------------------------------------------------------------------ */

static int series_order(const void *a, const void *b)
{
	const struct series *one = *(struct series *const *)a, *two = *(struct series *const *)b;

	return one->kind != two->kind ? (one->kind < two->kind ? -1 : 1) : strcmp(one->name, two->name);
}

/* NULL: there is none. */
static struct series *series_find(const struct tgt_history *history, enum tgt_history_kind kind, const char *name)
{
	struct series wanted = {.kind = kind}, *key = &wanted, **found;

	if (strlen(name) >= sizeof(wanted.name))
		return NULL;
	strcpy(wanted.name, name);
	found = bsearch(&key, history->series, history->count, sizeof(key), series_order);
	return found ? *found : NULL;
}

/* Its counters began at 0, since the last sample. NULL: no memory. */
static struct series *series_begin(struct tgt_history *history, enum tgt_history_kind kind, const char *name)
{
	struct series *series = history->count < SERIES_MAX ? calloc(1, sizeof(*series)) : NULL;

	if (!series)
		return NULL;
	series->kind = kind;
	strcpy(series->name, name);
	series->last_ns = history->view_ns;
	for (unsigned int i = 0; i < TGT_HISTORY_SAMPLES; i++)
		for (unsigned int value = 0; value < VALUES; value++)
			series->values[i][value] = NAN;
	history->series[history->count++] = series;
	qsort(history->series, history->count, sizeof(series), series_order);
	return series;
}

/* -- a sample ---------------------------------------------------------------------------------- */

static void counters_of(const struct tgt_counts *counts, struct counters *to)
{
	memset(to, 0, sizeof(*to));
	for (unsigned int opcode = 0; opcode < TGT_COUNT_OPCODES; opcode++)
		to->counts[opcode == RBLK_OP_READ ? READS : opcode == RBLK_OP_WRITE ? WRITES : OTHERS] +=
			counts->operations[opcode];
	to->counts[READ_BYTES] = counts->bytes_read;
	to->counts[WRITTEN_BYTES] = counts->bytes_written;
	to->counts[LIMITED] = counts->limited_commands;
	for (unsigned int kind = 0; kind < TGT_COUNT_KINDS; kind++)
		tgt_counts_sum(to->buckets, counts->latency[kind][TGT_STAGE_BOTH], sizeof(to->buckets));
}

/* False: something was counted anew, so the difference means nothing. */
static bool counters_since(struct counters *now, const struct counters *last)
{
	for (unsigned int i = 0; i < COUNTERS; i++) {
		if (now->counts[i] < last->counts[i])
			return false;
		now->counts[i] -= last->counts[i];
	}
	for (unsigned int i = 0; i < CORE_BUCKETS; i++) {
		if (now->buckets[i] < last->buckets[i])
			return false;
		now->buckets[i] -= last->buckets[i];
	}
	return true;
}

static void sample_add(struct tgt_history *history, enum tgt_history_kind kind, const char *name,
		       const struct counters *now, uint64_t now_ns)
{
	struct series *series = series_find(history, kind, name);
	struct counters done = *now;
	double buckets[CORE_BUCKETS], p50, p99;
	bool known = true;
	float *values;

	if (!series) {
		/* It may be what lacked, and have counted for long. */
		known = !history->lacked;
		series = series_begin(history, kind, name);
	}
	if (!series) {
		history->lacks = true;
		return;
	}
	values = series->values[history->samples % TGT_HISTORY_SAMPLES];
	if (known && counters_since(&done, &series->last)) {
		for (unsigned int i = 0; i < COUNTERS; i++)
			values[i] = (float)((double)done.counts[i] * 1e9 / (double)(now_ns - series->last_ns));
		for (unsigned int i = 0; i < CORE_BUCKETS; i++)
			buckets[i] = (double)done.buckets[i];
		p50 = screen_quantile(buckets, history->ends_us, CORE_BUCKETS, 0.5);
		p99 = screen_quantile(buckets, history->ends_us, CORE_BUCKETS, 0.99);
		values[P50] = p50 > 0 ? (float)(p50 * 1000) : NAN;
		values[P99] = p99 > 0 ? (float)(p99 * 1000) : NAN;
	}
	series->last = *now;
	series->last_ns = now_ns;
	series->seen = true;
}

/* Empties the ring's next place, and marks every series as not seen. */
static void sample_begin(struct tgt_history *history)
{
	unsigned int place = history->samples % TGT_HISTORY_SAMPLES;

	history->times_s[place] = tgt_time_now_ns() / 1000000000u;
	memset(&history->total, 0, sizeof(history->total));
	history->lacked = history->lacks;
	history->lacks = false;
	for (unsigned int i = 0; i < history->count; i++) {
		history->series[i]->seen = false;
		for (unsigned int value = 0; value < VALUES; value++)
			history->series[i]->values[place][value] = NAN;
	}
}

/* Volumes that were removed have no series any more: who comes with the name begins at 0. */
static void sample_end(struct tgt_history *history)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < history->count; i++) {
		if (history->series[i]->seen)
			history->series[kept++] = history->series[i];
		else
			free(history->series[i]);
	}
	history->count = kept;
	history->samples++;
}

void tgt_history_add(struct tgt_history *history, const struct tgt_view *view)
{
	struct counters counters;

	history->due_ns = view->taken_ns + TGT_HISTORY_NS;
	if (view->missing || view->taken_ns <= history->view_ns)
		return;
	sample_begin(history);
	for (unsigned int i = 0; i < view->volume_count; i++) {
		counters_of(&view->volumes[i].counts, &counters);
		sample_add(history, TGT_HISTORY_VOLUME, view->volumes[i].name, &counters, view->taken_ns);
		tgt_counts_sum(&history->total, &counters, sizeof(counters));
	}
	for (unsigned int i = 0; i < view->initiator_count; i++) {
		const struct tgt_view_initiator *initiator = &view->initiators[i];

		counters_of(&initiator->counts, &counters);
		sample_add(history, initiator->proven ? TGT_HISTORY_PROVEN : TGT_HISTORY_INITIATOR, initiator->name,
			   &counters, view->taken_ns);
	}
	sample_add(history, TGT_HISTORY_TOTAL, "", &history->total, view->taken_ns);
	sample_end(history);
	history->view_ns = view->taken_ns;
}

/* -- what is told ------------------------------------------------------------------------------ */

static json_t *value_json(float value)
{
	return isnan(value) ? json_null() : json_real((double)value);
}

void tgt_history_rates(const struct tgt_history *history, enum tgt_history_kind kind, const char *name, json_t *object)
{
	const struct series *series = history && history->samples ? series_find(history, kind, name) : NULL;
	const float *values = series ? series->values[(history->samples - 1) % TGT_HISTORY_SAMPLES] : NULL;

	for (unsigned int value = 0; value < VALUES; value++)
		json_object_set_new(object, keys[value], values ? value_json(values[value]) : json_null());
}

json_t *tgt_history_curves(const struct tgt_history *history, enum tgt_history_kind kind, const char *name)
{
	const struct series *series = history ? series_find(history, kind, name) : NULL;
	json_t *object = series ? json_object() : NULL, *times = json_array(), *array;
	uint64_t first;

	if (!object) {
		json_decref(times);
		return NULL;
	}
	first = history->samples > TGT_HISTORY_SAMPLES ? history->samples - TGT_HISTORY_SAMPLES : 0;
	for (uint64_t i = first; i < history->samples; i++)
		json_array_append_new(times, json_integer((json_int_t)history->times_s[i % TGT_HISTORY_SAMPLES]));
	json_object_set_new(object, "times_s", times);
	for (unsigned int value = 0; value < VALUES; value++) {
		array = json_array();
		for (uint64_t i = first; i < history->samples; i++)
			json_array_append_new(array, value_json(series->values[i % TGT_HISTORY_SAMPLES][value]));
		json_object_set_new(object, keys[value], array);
	}
	return object;
}
