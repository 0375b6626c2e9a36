/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: five minutes of rates, and no more; nothing is invented where nothing is known: counters that begin again, a reactor
 * that does not answer, nothing done. Method: views that are made here.
 */
#include <stdlib.h>
#include <string.h>
#include "target/watch/history.h"
#include "tests/unit/unit.h"

#define S 1000000000ull

static struct tgt_view_volume volumes[2];
static struct tgt_view_initiator initiators[2];
static struct tgt_view view;
static bool callocs_fail;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return callocs_fail ? NULL : __real_calloc(count, bytes);
}

static struct tgt_history *history;

static int setup(void **state)
{
	(void)state;
	memset(volumes, 0, sizeof(volumes));
	memset(initiators, 0, sizeof(initiators));
	view = (struct tgt_view){
		.volumes = volumes, .volume_count = 2, .initiators = initiators, .initiator_count = 2, .taken_ns = 100 * S};
	strcpy(volumes[0].name, "data");
	strcpy(volumes[1].name, "logs");
	/* The same name, said and proven. */
	strcpy(initiators[0].name, "web1");
	strcpy(initiators[1].name, "web1");
	initiators[1].proven = true;
	history = tgt_history_create(100 * S);
	return history ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	tgt_history_destroy(history);
	return 0;
}

static void look(void)
{
	view.taken_ns += 2 * S;
	tgt_history_add(history, &view);
}

/* The last rate of that key; -1: null. */
static double rate(enum tgt_history_kind kind, const char *name, const char *key)
{
	json_t *object = json_object(), *value;
	double number;

	tgt_history_rates(history, kind, name, object);
	value = json_object_get(object, key);
	assert_non_null(value);
	number = json_is_null(value) ? -1 : json_real_value(value);
	json_decref(object);
	return number;
}

static void work(struct tgt_counts *counts, unsigned int reads, unsigned int us)
{
	for (unsigned int i = 0; i < reads; i++)
		tgt_counts_add(counts, RBLK_OP_READ, 0, us);
	counts->bytes_read += reads * 4096ull;
}

static void rates_are_a_seconds(void **state)
{
	(void)state;
	work(&volumes[0].counts, 200, 96);
	volumes[0].counts.limited_commands = 8;
	tgt_counts_add(&volumes[1].counts, RBLK_OP_WRITE, 5, 5);
	tgt_counts_add(&volumes[1].counts, RBLK_OP_FLUSH, 5, 5);
	volumes[1].counts.bytes_written = 1024;
	work(&initiators[1].counts, 50, 96);
	look();
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "reads_per_s") == 100);
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "read_bytes_per_s") == 100 * 4096);
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "limited_per_s") == 4);
	assert_true(rate(TGT_HISTORY_VOLUME, "logs", "writes_per_s") == 0.5);
	assert_true(rate(TGT_HISTORY_VOLUME, "logs", "others_per_s") == 0.5);
	assert_true(rate(TGT_HISTORY_VOLUME, "logs", "written_bytes_per_s") == 512);
	assert_true(rate(TGT_HISTORY_TOTAL, "", "reads_per_s") == 100);
	assert_true(rate(TGT_HISTORY_TOTAL, "", "writes_per_s") == 0.5);
	assert_true(rate(TGT_HISTORY_INITIATOR, "web1", "reads_per_s") == 0);
	assert_true(rate(TGT_HISTORY_PROVEN, "web1", "reads_per_s") == 25);
	/* In the bucket from 96 to 128 us. */
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "p99_ns") > 96000 && rate(TGT_HISTORY_VOLUME, "data", "p99_ns") <= 128000);
	assert_true(rate(TGT_HISTORY_INITIATOR, "web1", "p99_ns") == -1);
	/* Of the time since, whatever was before; and nothing was done. */
	view.taken_ns += 2 * S;
	work(&volumes[0].counts, 20, 1);
	look();
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "reads_per_s") == 5);
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "p99_ns") < 3000);
	assert_true(rate(TGT_HISTORY_VOLUME, "logs", "p50_ns") == -1);
}

static void what_is_not_known_is_not_told(void **state)
{
	json_t *curves;

	(void)state;
	assert_true(rate(TGT_HISTORY_TOTAL, "", "reads_per_s") == -1);
	assert_null(tgt_history_curves(history, TGT_HISTORY_TOTAL, ""));
	work(&volumes[0].counts, 200, 10);
	look();
	/* It was replaced, and counts anew. */
	memset(&volumes[0].counts, 0, sizeof(volumes[0].counts));
	work(&volumes[0].counts, 10, 10);
	look();
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "reads_per_s") == -1);
	assert_true(rate(TGT_HISTORY_TOTAL, "", "reads_per_s") == -1);
	work(&volumes[0].counts, 10, 10);
	look();
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "reads_per_s") == 5);
	/* Without one reactor's counts nothing is a sum. The next sample is over the time since. */
	view.missing = 1;
	look();
	view.missing = 0;
	work(&volumes[0].counts, 40, 10);
	look();
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "reads_per_s") == 10);
	curves = tgt_history_curves(history, TGT_HISTORY_TOTAL, "");
	assert_int_equal(json_array_size(json_object_get(curves, "times_s")), 4);
	assert_int_equal(json_array_size(json_object_get(curves, "p99_ns")), 4);
	assert_true(json_is_null(json_array_get(json_object_get(curves, "reads_per_s"), 1)));
	json_decref(curves);
	/* A volume that is removed is forgotten, and one that comes begins at 0. */
	view.volumes = &volumes[1];
	view.volume_count = 1;
	look();
	assert_null(tgt_history_curves(history, TGT_HISTORY_VOLUME, "data"));
	view.volumes = volumes;
	view.volume_count = 2;
	memset(&volumes[0].counts, 0, sizeof(volumes[0].counts));
	work(&volumes[0].counts, 6, 10);
	look();
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "reads_per_s") == 3);
	curves = tgt_history_curves(history, TGT_HISTORY_VOLUME, "data");
	assert_true(json_is_null(json_array_get(json_object_get(curves, "reads_per_s"), 4)));
	json_decref(curves);
	/* Names are a peer's words. */
	assert_null(tgt_history_curves(history, TGT_HISTORY_VOLUME, "nosuch"));
	assert_null(tgt_history_curves(
		history, TGT_HISTORY_VOLUME,
		"a-name-that-is-longer-than-any-volume-has-it-as-nobody-checks-what-is-asked-for"));
}

/* What has no memory has no curve, and later one without what it had done before. */
static void without_memory_there_are_no_curves(void **state)
{
	(void)state;
	callocs_fail = true;
	assert_null(tgt_history_create(S));
	work(&volumes[0].counts, 200, 96);
	look();
	callocs_fail = false;
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "reads_per_s") == -1);
	assert_null(tgt_history_curves(history, TGT_HISTORY_VOLUME, "data"));
	work(&volumes[0].counts, 20, 96);
	look();
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "reads_per_s") == -1);
	assert_true(rate(TGT_HISTORY_TOTAL, "", "reads_per_s") == -1);
	work(&volumes[0].counts, 20, 96);
	look();
	assert_true(rate(TGT_HISTORY_VOLUME, "data", "reads_per_s") == 10);
	assert_true(rate(TGT_HISTORY_TOTAL, "", "reads_per_s") == 10);
}

static void five_minutes_are_kept(void **state)
{
	json_t *curves, *reads;

	(void)state;
	for (unsigned int i = 1; i <= 2 * TGT_HISTORY_SAMPLES + 7; i++) {
		assert_int_equal(tgt_history_timeout_ms(history, view.taken_ns), 2001);
		assert_int_equal(tgt_history_timeout_ms(history, view.taken_ns + 2 * S), 0);
		work(&volumes[0].counts, 2 * i, 1);
		look();
	}
	assert_int_equal(tgt_history_timeout_ms(NULL, 0), -1);
	curves = tgt_history_curves(history, TGT_HISTORY_VOLUME, "data");
	reads = json_object_get(curves, "reads_per_s");
	assert_int_equal(json_array_size(reads), TGT_HISTORY_SAMPLES);
	assert_int_equal(json_array_size(json_object_get(curves, "times_s")), TGT_HISTORY_SAMPLES);
	for (unsigned int i = 0; i < TGT_HISTORY_SAMPLES; i++)
		assert_true(json_real_value(json_array_get(reads, i)) == TGT_HISTORY_SAMPLES + 8 + i);
	json_decref(curves);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rates_are_a_seconds, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_not_known_is_not_told, setup, teardown),
		cmocka_unit_test_setup_teardown(without_memory_there_are_no_curves, setup, teardown),
		cmocka_unit_test_setup_teardown(five_minutes_are_kept, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
