/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what tests with a daemon cannot have at will is a problem in time: a reactor that is
 * silent, or was busy nearly all the time of the last ten seconds; and
 * more problems than are listed are counted. Method: views that are made here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/daemon_event.h"
#include "target/base/text.h"
#include "target/watch/health.h"
#include "tests/unit/unit.h"

#define S 1000000000ull

static struct tgt_health health;

static unsigned int count_of(const struct tgt_view *view, const struct tgt_busy *busy,
			     enum tgt_problem_kind kind)
{
	tgt_health_fini(&health);
	assert_int_equal(tgt_health_take(view, busy, NULL, &health), 0);
	return health.counts[kind];
}

/* Looks at each time that is due, for so many seconds, in which reactor 0 works half of its time, and reactor 1 that part. */
static void reactors_work(struct tgt_busy *busy, struct tgt_busy_look *now, unsigned int seconds, double part)
{
	for (unsigned int s = 0; s < seconds; s++) {
		now->at_ns += S;
		now->busy_ns[0] += S / 2;
		now->busy_ns[1] += (uint64_t)(part * (double)S);
		if (!tgt_busy_timeout_ms(busy, now->at_ns))
			tgt_busy_add(busy, now, 2);
	}
}

/* That a reactor is at its limit: how many, and the words of the last. */
static unsigned int events_of(char words[448])
{
	struct tgt_daemon_event last = {.message = ""};
	unsigned int count = tgt_daemon_events_count(TGT_DAEMON_EVENT_REACTOR_BUSY, 0, &last);

	strcpy(words, last.message);
	return count;
}

static void a_reactor_is_busy(void **state)
{
	struct tgt_view view = {.reactor_count = 2};
	struct tgt_busy_look now = {.at_ns = 3600 * S};
	struct tgt_snapshot snapshot = {0};
	struct tgt_busy busy = {0};
	char *words, event[448];

	(void)state;
	view.snapshots[0] = view.snapshots[1] = &snapshot;
	assert_int_equal(tgt_busy_timeout_ms(&busy, now.at_ns), 0);
	tgt_busy_add(&busy, &now, 2);
	assert_int_equal(tgt_busy_timeout_ms(&busy, now.at_ns), 2000);
	assert_int_equal(tgt_busy_timeout_ms(&busy, now.at_ns + 1), 2000);
	/* It works all the time, but nobody knows for how long it will. */
	reactors_work(&busy, &now, 9, 1);
	assert_int_equal(count_of(&view, &busy, TGT_PROBLEM_REACTOR_BUSY), 0);
	assert_int_equal(events_of(event), 0);
	reactors_work(&busy, &now, 1, 1);
	assert_int_equal(count_of(&view, &busy, TGT_PROBLEM_REACTOR_BUSY), 1);
	words = tgt_health_words(&health, true);
	assert_string_equal(words, "1 problem: reactor 1: at its limit, busy for 100% of the last ten seconds");
	free(words);
	assert_int_equal(health.failures, 0);
	/* The same words are an event, once. */
	assert_int_equal(events_of(event), 1);
	assert_string_equal(event, "reactor 1: at its limit, busy for 100% of the last ten seconds");
	reactors_work(&busy, &now, 20, 1);
	assert_int_equal(events_of(event), 1);
	/* Not each time that it comes there again: in ten minutes. */
	for (unsigned int i = 0; i < 10; i++) {
		reactors_work(&busy, &now, 20, 0);
		reactors_work(&busy, &now, 20, 1);
	}
	assert_int_equal(events_of(event), 1);
	/* Only the last ten seconds count, however long it has been idle or busy before. */
	reactors_work(&busy, &now, 2, 0);
	assert_int_equal(count_of(&view, &busy, TGT_PROBLEM_REACTOR_BUSY), 0);
	reactors_work(&busy, &now, 3600, 0);
	reactors_work(&busy, &now, 8, 1);
	assert_int_equal(count_of(&view, &busy, TGT_PROBLEM_REACTOR_BUSY), 0);
	reactors_work(&busy, &now, 2, 1);
	assert_int_equal(count_of(&view, &busy, TGT_PROBLEM_REACTOR_BUSY), 1);
	reactors_work(&busy, &now, 30, 0.97);
	assert_int_equal(count_of(&view, &busy, TGT_PROBLEM_REACTOR_BUSY), 1);
	words = tgt_health_words(&health, true);
	assert_string_equal(words, "1 problem: reactor 1: at its limit, busy for 97% of the last ten seconds");
	free(words);
	/* An hour later it was one more. */
	assert_int_equal(events_of(event), 2);
	reactors_work(&busy, &now, 30, 0.94);
	assert_int_equal(count_of(&view, &busy, TGT_PROBLEM_REACTOR_BUSY), 0);
	tgt_health_fini(&health);
}

static void a_reactor_is_silent(void **state)
{
	struct tgt_snapshot snapshot = {.reactor = 0, .taken_ns = S};
	struct tgt_view view = {.snapshots = {&snapshot, NULL}, .reactor_count = 2, .missing = 1};
	struct tgt_busy looks = {0};
	char *words;

	(void)state;
	assert_int_equal(count_of(&view, &looks, TGT_PROBLEM_REACTOR_SILENT), 1);
	assert_int_equal(health.failures, 1);
	words = tgt_health_words(&health, false);
	assert_string_equal(words,
			    "1 problem: reactor 1: does not answer, its sessions stand still");
	free(words);
	tgt_health_fini(&health);
}

static void many_are_counted(void **state)
{
	struct tgt_snapshot_session sessions[TGT_PROBLEMS_LISTED + 36];
	struct tgt_view view = {.sessions = sessions, .session_count = TGT_PROBLEMS_LISTED + 36};
	struct tgt_busy looks = {0};
	json_t *report;
	char *words;

	(void)state;
	memset(sessions, 0, sizeof(sessions));
	for (unsigned int i = 0; i < view.session_count; i++) {
		strcpy(sessions[i].initiator, "web1");
		sessions[i].awaits_ns = 43 * S;
		sessions[i].gone_ns = 17 * S;
		sessions[i].handles = 1;
	}
	/* These are waited for no longer, have nothing open, and have just gone. */
	sessions[1].awaits_ns = 0;
	sessions[2].handles = 0;
	sessions[3].gone_ns = S;
	assert_int_equal(count_of(&view, &looks, TGT_PROBLEM_CLIENT_AWAITED),
			 TGT_PROBLEMS_LISTED + 33);
	words = tgt_health_words(&health, true);
	assert_non_null(strstr(words, "97 problems: initiator web1: its connections are lost, its "
				      "session waits for it 43 s more; "));
	assert_non_null(strstr(words, "; and 33 more"));
	free(words);
	report = tgt_health_report(&health, true);
	assert_int_equal(json_array_size(report), TGT_PROBLEMS_LISTED);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(report, 0), "initiator")), "web1");
	json_decref(report);
	tgt_health_fini(&health);
}

static void failures_are_told_apart(void **state)
{
	uint64_t now_ns = tgt_time_now_ns();
	struct tgt_view_volume volume = {
		.name = "data", .error = 5, .failures = {[TGT_IO_READ] = 230, [TGT_IO_WRITE] = 71, [TGT_IO_FLUSH] = 1}};
	struct tgt_view view = {.volumes = &volume, .volume_count = 1};
	struct tgt_busy looks = {0};
	char first[TGT_TIME_BYTES], last[TGT_TIME_BYTES], wanted[512], *words;

	(void)state;
	volume.first_error_time_ns = now_ns - 3600 * S;
	volume.error_time_ns = now_ns;
	assert_int_equal(count_of(&view, &looks, TGT_PROBLEM_VOLUME_FAILING), 1);
	words = tgt_health_words(&health, false);
	snprintf(wanted, sizeof(wanted),
		 "1 problem: volume data: 302 commands failed since %s (230 reads, 71 writes, 1 flush), the last at %s: "
		 "Input/output error",
		 tgt_time_words(volume.first_error_time_ns, first), tgt_time_words(now_ns, last));
	assert_string_equal(words, wanted);
	free(words);
	/* One is not "since". */
	memset(volume.failures, 0, sizeof(volume.failures));
	volume.failures[TGT_IO_WRITE_ZEROES] = 1;
	assert_int_equal(count_of(&view, &looks, TGT_PROBLEM_VOLUME_FAILING), 1);
	words = tgt_health_words(&health, false);
	snprintf(wanted, sizeof(wanted),
		 "1 problem: volume data: 1 command failed (1 write of zeroes), the last at %s: Input/output error", last);
	assert_string_equal(words, wanted);
	free(words);
	/* An old one is none. */
	volume.error_time_ns = now_ns - TGT_PROBLEM_NS - S;
	assert_int_equal(count_of(&view, &looks, TGT_PROBLEM_VOLUME_FAILING), 0);
	tgt_health_fini(&health);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reactor_is_busy),
		cmocka_unit_test(a_reactor_is_silent),
		cmocka_unit_test(many_are_counted),
		cmocka_unit_test(failures_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
