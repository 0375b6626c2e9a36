/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a gateway sends its sessions away when its watch was not confirmed for long and the monitors do not answer
 * either, not for one of them alone; once, until the cluster has answered again.
 * An answer that has not come is forgotten when nobody asks. Method: its looks, one by one, with fakes of the gateway
 * and the client.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <time.h>
#include "target/rbd/rbd.h"

static struct rbd_gateway gateway;
static struct rbd_task *queued; /* at the keeper */
static uint64_t now_s = 1000, heard_s; /* 0: it has no watch */
static bool fenced, answers; /* the monitors do */
static unsigned int probes, left, cut;
static struct tgt_store_ask *held; /* not answered yet */
static bool holds;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){.tv_sec = (time_t)now_s};
	return 0;
}

static void fake_log(enum tgt_log_level level, const char *format, ...)
{
}

static void fake_asked(struct tgt_store *store, struct tgt_store_ask *ask)
{
	assert_false(held);
	left += ask->leave == TGT_ASK_LEAVE;
	cut += ask->leave == TGT_ASK_CUT;
	if (holds)
		held = ask;
	else
		ask->answer(ask, false);
}

static const struct tgt_module_host host = {.log = fake_log, .asked = fake_asked};
const struct tgt_module_host *tgt_rbd_host = &host;

bool tgt_rbd_client_is_fenced(const struct rbd_client *client)
{
	return fenced;
}

/* One question is under way at a time. */
void tgt_rbd_client_probe(void)
{
	if (probes && !answers)
		return;
	probes++;
	tgt_rbd_reach_begin();
	if (answers)
		tgt_rbd_reach_end(true);
}

bool tgt_rbd_gateway_heard(struct rbd_gateway *heard, uint64_t *ago_ms)
{
	*ago_ms = (now_s - heard_s) * 1000;
	return heard_s;
}

void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns)
{
	assert_int_equal(pause_ns, 1000000000);
	assert_true(task->in_time);
	queued = task;
}

void tgt_rbd_keeper_forget(struct rbd_task *task)
{
	queued = NULL;
}

/* A look each second. */
static void looks(unsigned int seconds)
{
	for (unsigned int i = 0; i < seconds; i++) {
		struct rbd_task *task = queued;

		now_s++;
		queued = NULL;
		task->run(task);
	}
}

static void begin(void)
{
	gateway = (struct rbd_gateway){0};
	tgt_rbd_cut_off_begin(&gateway);
	heard_s = now_s;
	answers = false;
	probes = left = cut = 0;
}

/* The monitors answer, and so does the cluster. */
static void end(void)
{
	if (probes && !answers)
		tgt_rbd_reach_end(true);
	answers = true;
	heard_s = now_s + 1;
	looks(1);
	tgt_rbd_cut_off_end(&gateway);
	assert_null(queued);
}

static void a_slow_osd_is_no_reason(void **state)
{
	(void)state;
	begin();
	answers = true;
	looks(6);
	assert_int_equal(probes, 0);
	looks(100);
	assert_true(probes > 50);
	assert_int_equal(left + cut, 0);
	end();
}

static void who_is_cut_off_sends_its_sessions_away(void **state)
{
	(void)state;
	begin();
	looks(19);
	assert_int_equal(probes, 1);
	assert_int_equal(left, 0);
	looks(1);
	assert_int_equal(left, 1);
	/* Connections end once they have had time to go. */
	assert_int_equal(cut, 0);
	looks(1);
	assert_int_equal(cut, 1);
	/* Once, and again when it has reached the cluster in between. */
	looks(1000);
	assert_int_equal(left, 1);
	assert_int_equal(cut, 1);
	tgt_rbd_reach_end(true);
	heard_s = now_s + 1;
	looks(1);
	probes = 0;
	looks(26);
	assert_int_equal(left, 2);
	assert_int_equal(cut, 2);
	end();
}

static void one_that_has_no_watch_is_cut_off_likewise(void **state)
{
	(void)state;
	begin();
	heard_s = 0;
	looks(20);
	assert_int_equal(left, 1);
	end();
}

static void a_process_that_stood_still_looks_again(void **state)
{
	(void)state;
	begin();
	looks(10);
	now_s += 30;
	looks(3);
	assert_int_equal(left, 0);
	looks(1);
	assert_int_equal(left, 1);
	end();
}

static void nobody_is_asked_twice_at_a_time(void **state)
{
	(void)state;
	begin();
	holds = true;
	looks(40);
	assert_int_equal(left, 1);
	assert_int_equal(cut, 0);
	holds = false;
	held->answer(held, false);
	held = NULL;
	looks(1);
	assert_int_equal(cut, 1);
	end();
}

static void one_that_is_shut_out_looks_no_more(void **state)
{
	(void)state;
	begin();
	fenced = true;
	looks(1);
	assert_null(queued);
	fenced = false;
	tgt_rbd_cut_off_end(&gateway);
}

static void silence_is_forgotten(void **state)
{
	(void)state;
	tgt_rbd_reach_begin();
	now_s += 30;
	tgt_rbd_reach_end(false);
	assert_true(tgt_rbd_reach_silent());
	/* The next attempt begins where that has ended. */
	now_s += 5;
	tgt_rbd_reach_begin();
	assert_true(tgt_rbd_reach_silent());
	tgt_rbd_reach_end(false);
	now_s += 15;
	assert_false(tgt_rbd_reach_silent());
	/* Of two, one is answered: the other one begins anew. */
	tgt_rbd_reach_begin();
	tgt_rbd_reach_begin();
	now_s += 10;
	assert_true(tgt_rbd_reach_silent());
	tgt_rbd_reach_end(true);
	assert_false(tgt_rbd_reach_silent());
	now_s += 3;
	assert_true(tgt_rbd_reach_silent());
	tgt_rbd_reach_end(true);
	assert_false(tgt_rbd_reach_silent());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_osd_is_no_reason),
		cmocka_unit_test(who_is_cut_off_sends_its_sessions_away),
		cmocka_unit_test(one_that_has_no_watch_is_cut_off_likewise),
		cmocka_unit_test(a_process_that_stood_still_looks_again),
		cmocka_unit_test(nobody_is_asked_twice_at_a_time),
		cmocka_unit_test(one_that_is_shut_out_looks_no_more),
		cmocka_unit_test(silence_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
