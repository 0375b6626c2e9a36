/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: librblk looks every few seconds whether the devices that it has open still exist, for
 * rdma_cm tells only of those with a connection; and not in every turn, as it takes system calls. One that was removed is
 * released as soon as no connection is on it: else its place is lost for the session's life.
 * Method: a session of which the test moves the clock, on fabrics that count the looks.
 */
#include "initiator/session.h"
#include "tests/unit/unit.h"

#include <string.h>
#include "proto/fabric/fabric_impl.h"

#define SECOND_NS 1000000000ull
/* By then it must have looked. */
#define PATIENCE_NS (30 * SECOND_NS)

static struct rblk_session session;
static struct fab fab_list[2];
static unsigned int looks[2];
static struct fab_device devices[2];
static unsigned int removed, released[2]; /* how many are yet to be told of; and of each */

static void fake_devices_check(struct fab *fab)
{
	looks[fab - fab_list]++;
}

static int fake_poll_event(struct fab *fab, struct fab_event *event)
{
	if (fab != &fab_list[0] || !removed)
		return 0;
	*event = (struct fab_event){.type = FAB_EVENT_DEVICE_GONE, .device = &devices[--removed]};
	return 1;
}

static void fake_device_release(struct fab_device *device)
{
	released[device - devices]++;
}

static const struct fab_ops with_devices = {
	.kind = FAB_VERBS,
	.devices_check = fake_devices_check,
	.poll_event = fake_poll_event,
	.device_release = fake_device_release,
};
static const struct fab_ops without = {.kind = FAB_TCP, .poll_event = fake_poll_event};

static int setup(void **state)
{
	(void)state;
	memset(&session, 0, sizeof(session));
	memset(fab_list, 0, sizeof(fab_list));
	memset(looks, 0, sizeof(looks));
	memset(released, 0, sizeof(released));
	devices[0].fab = devices[1].fab = &fab_list[0];
	removed = 0;
	fab_list[0].ops = &with_devices;
	fab_list[1].ops = &without;
	session.fabs.list[0] = &fab_list[0];
	session.fabs.list[1] = &fab_list[1];
	session.fabs.count = 2;
	/* Its machine has nothing to do. */
	session.core.state = CORE_SESSION_ENDED;
	return 0;
}

static void pass_time(uint64_t ns)
{
	session.now_ns += ns;
	ini_timer_run(&session);
}

static void devices_are_looked_for_again_and_again(void **state)
{
	(void)state;
	for (unsigned int times = 1; times <= 3; times++) {
		pass_time(PATIENCE_NS);
		assert_int_equal(looks[0], times);
	}
}

static void not_in_every_turn(void **state)
{
	(void)state;
	pass_time(PATIENCE_NS);
	for (unsigned int i = 0; i < 100; i++)
		pass_time(SECOND_NS / 100);
	assert_int_equal(looks[0], 1);
}

static void removed_devices_are_released(void **state)
{
	struct ini_queue *queue = &session.queues[0];

	(void)state;
	session.queue_count = 1;
	queue->session = &session;
	queue->device = &devices[0];
	removed = 2;
	ini_event_poll(&session);
	assert_int_equal(released[1], 1);
	assert_int_equal(released[0], 0);
	queue->device = NULL; /* its connection is drained */
	ini_devices_release(&session);
	ini_devices_release(&session);
	assert_int_equal(released[0], 1);
	assert_int_equal(released[1], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(devices_are_looked_for_again_and_again, setup),
		cmocka_unit_test_setup(not_in_every_turn, setup),
		cmocka_unit_test_setup(removed_devices_are_released, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
