/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: either all queues of a session measure or none: measuring queues have memory and protection
 * domains of their own, which other sessions must never use. Method: further queues that disagree
 * with queue 0, both ways; both sessions go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

static struct e2e_daemon server;

static int start(void **state)
{
	(void)state;
	e2e_daemon_start(&server, "--memory", "mem=1M", "--allow-scratch", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return e2e_daemon_stop(&server);
}

/* Queue 0 of two has `features`; the target refuses queue 1 with `other_features`. */
static void refuse_second(struct raw *first, uint32_t features, uint32_t other_features)
{
	struct raw second;

	raw_init(first);
	first->login.queue_count = rblk_to_le16(2);
	first->login.features = rblk_to_le32(features);
	assert_true(raw_connect(first, server.host));
	raw_init(&second);
	second.login = first->login;
	second.login.queue_index = rblk_to_le16(1);
	second.login.features = rblk_to_le32(other_features);
	assert_false(raw_connect(&second, server.host));
	assert_int_equal(rblk_le16(second.reject.reason), RBLK_REJECT_FEATURES);
	assert_int_equal(rblk_le32(second.reject.detail), RBLK_FEATURE_SCRATCH);
	raw_close(&second);
}

static void a_session_with_volumes_gets_no_measuring_queue(void **state)
{
	struct raw raw;

	(void)state;
	refuse_second(&raw, 0, RBLK_FEATURE_SCRATCH);
	assert_int_not_equal(raw_open(&raw, "mem"), 0);
	raw_close(&raw);
}

static void a_measuring_session_gets_no_other_queue(void **state)
{
	struct raw raw;

	(void)state;
	refuse_second(&raw, RBLK_FEATURE_SCRATCH, 0);
	assert_int_equal(raw_open(&raw, "mem"), 0);
	assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 0), RBLK_OK);
	raw_close(&raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_with_volumes_gets_no_measuring_queue),
		cmocka_unit_test(a_measuring_session_gets_no_other_queue),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
