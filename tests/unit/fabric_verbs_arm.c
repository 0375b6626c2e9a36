/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a device whose completion queue can be neither armed nor polled is lost, and the fab's other devices go on: their
 * sessions do not fail. Method: the verbs fabric's function on a device whose provider the test plays.
 */
#include "proto/fabric/fabric_verbs.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

static struct verbs_fab fab;
static struct verbs_device device;
static struct ibv_context context;
static struct ibv_cq cq;
static int arming, polling; /* what the provider returns */

static int fake_notify(struct ibv_cq *of, int solicited)
{
	(void)of;
	(void)solicited;
	return arming;
}

static int fake_poll(struct ibv_cq *of, int count, struct ibv_wc *wc)
{
	(void)of;
	(void)count;
	(void)wc;
	return polling;
}

static int setup(void **state)
{
	(void)state;
	memset(&fab, 0, sizeof(fab));
	memset(&device, 0, sizeof(device));
	TAILQ_INIT(&fab.conns);
	device.head.fab = &fab.head;
	device.receives.cq = &cq;
	cq.context = &context;
	context.ops.req_notify_cq = fake_notify;
	context.ops.poll_cq = fake_poll;
	arming = polling = 0;
	return 0;
}

static void it_is_armed(void **state)
{
	(void)state;
	assert_int_equal(verbs_device_arm(&device, false), 0);
	assert_false(device.gone);
}

static void lost(void)
{
	/* There is an event now: poll before sleeping. */
	assert_int_equal(verbs_device_arm(&device, false), 1);
	assert_true(device.gone && device.gone_pending);
	/* And then nothing more, so that the caller may sleep. */
	assert_int_equal(verbs_device_arm(&device, false), 0);
}

static void it_cannot_be_armed(void **state)
{
	(void)state;
	arming = EIO;
	lost();
}

static void it_cannot_be_polled(void **state)
{
	(void)state;
	polling = -1;
	lost();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_is_armed, setup),
		cmocka_unit_test_setup(it_cannot_be_armed, setup),
		cmocka_unit_test_setup(it_cannot_be_polled, setup),
	};

	return cmocka_run_group_tests_name("fabric verbs arm", tests, NULL, NULL);
}
