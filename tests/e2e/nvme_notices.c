/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host hears by an event, and reads in the log page of reservations, what others have done to its
 * registration and to the reservation: that it was preempted, released or cleared; not what it has done itself, nor
 * what it masks. It keeps the last ones, and their counts show which are lost. Method: hosts and a bare initiator of
 * the test's own; a command's answer comes after the notices that it leads to.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "target/base/registrant.h"
#include "target/nvme/controller.h"
#include "tests/e2e/nvme_reserver.h"

#define NOTICE 0x00800006u /* of an I/O command set; log page 80h */
#define WE_REGISTRANTS RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS

static struct nvme_reserver a, b, other;

static int connect_all(void **state)
{
	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	nvme_reserver_connect(&b, OTHER_NQN, 1);
	nvme_reserver_connect(&other, NVME_HOST_NQN, 1); /* half of either */
	assert_int_equal(nvme_register(&a, NVME_REGISTER_NEW, 0, 1), NVME_OK);
	assert_int_equal(nvme_register(&b, NVME_REGISTER_NEW, 0, 2), NVME_OK);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	(void)nvme_release(&a, NVME_RELEASE_CLEAR, 1, 0);
	nvme_reserver_close(&a);
	nvme_reserver_close(&b);
	nvme_reserver_close(&other);
	return 0;
}

/* Reads one. */
static void hears(struct nvme_reserver *host, uint64_t count, enum tgt_notice notice, unsigned int available)
{
	struct nvme_notice page;

	assert_int_equal(nvme_host_admin(&host->admin, NVME_GET_LOG_PAGE, 1, NVME_LOG_RESERVATIONS | 15u << 16, 0,
					 &page, sizeof(struct nvme_notice)),
			 NVME_OK);
	assert_int_equal(rblk_le64(page.count), count);
	assert_int_equal(page.type, notice);
	assert_int_equal(page.available, available);
	assert_int_equal(rblk_le32(page.namespace), count ? 1 : 0);
}

static void mask(struct nvme_reserver *host, uint32_t kinds)
{
	assert_int_equal(
		nvme_host_admin(&host->admin, NVME_SET_FEATURES, 1, NVME_FEATURE_RESERVATION_MASK, kinds, NULL, 0),
		NVME_OK);
}

static void event_comes(struct nvme_reserver *host, struct nvme_host_command *event)
{
	assert_int_equal(nvme_host_await(&host->admin, event), NVME_OK);
	assert_int_equal(event->result, NOTICE);
}

static void hold_and_release(uint8_t type)
{
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, type), NVME_OK);
	assert_int_equal(nvme_release(&a, NVME_RELEASE, 1, type), NVME_OK);
}

/* Once until it is read, and again when more are left. */
static void an_event_tells(void **state)
{
	struct nvme_host_command event = nvme_host_ask_event(&b.admin);
	struct nvme_notice page;

	(void)state;
	hold_and_release(WE_REGISTRANTS);
	event_comes(&b, &event);
	event = nvme_host_ask_event(&b.admin);
	hold_and_release(WE_REGISTRANTS);
	assert_int_equal(nvme_host_admin(&b.admin, NVME_GET_LOG_PAGE, 1,
					 NVME_LOG_RESERVATIONS | NVME_LOG_KEEPS | 15u << 16, 0, &page,
					 sizeof(struct nvme_notice)),
			 NVME_OK);
	assert_int_equal(rblk_le64(page.count), 1);
	/* Another answer than that of the command would end the test. */
	hears(&b, 1, TGT_NOTICE_RELEASED, 1);
	event_comes(&b, &event);
	hears(&b, 2, TGT_NOTICE_RELEASED, 0);
	hears(&b, 0, TGT_NOTICE_NONE, 0);
	hears(&a, 0, TGT_NOTICE_NONE, 0);
	hears(&other, 0, TGT_NOTICE_NONE, 0);
}

static void what_is_told(void **state)
{
	(void)state;
	/* A type that keeps out registrants, too, ends without a word. */
	hold_and_release(WE);
	hears(&b, 0, TGT_NOTICE_NONE, 0);
	hold_and_release(RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL);
	hears(&b, 1, TGT_NOTICE_RELEASED, 0);
	/* It ends with its holder. */
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, WE_REGISTRANTS), NVME_OK);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_UNREGISTER, 1, 0), NVME_OK);
	hears(&b, 2, TGT_NOTICE_RELEASED, 0);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_NEW, 0, 1), NVME_OK);
	/* It gets another type. */
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, WE), NVME_OK);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE_PREEMPT, 1, 1, WE_REGISTRANTS), NVME_OK);
	hears(&b, 3, TGT_NOTICE_RELEASED, 0);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE_PREEMPT, 1, 2, WE), NVME_OK);
	hears(&b, 4, TGT_NOTICE_UNREGISTERED, 0);
	/* It is none of its any more. */
	assert_int_equal(nvme_release(&a, NVME_RELEASE, 1, WE_REGISTRANTS), NVME_OK);
	hears(&b, 0, TGT_NOTICE_NONE, 0);
	assert_int_equal(nvme_register(&b, NVME_REGISTER_NEW, 0, 2), NVME_OK);
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 1, 0), NVME_OK);
	hears(&b, 5, TGT_NOTICE_PREEMPTED, 0);
	hears(&a, 0, TGT_NOTICE_NONE, 0);
	hears(&other, 0, TGT_NOTICE_NONE, 0);
}

/* Those of rblk's own initiators count as well. */
static void whoever_does_it(void **state)
{
	struct reserver own;

	(void)state;
	reserver_connect(&own, nvme_server.host, "own", "disk");
	assert_int_equal(REGISTER(&own, 3), RBLK_OK);
	assert_int_equal(RESERVE(&own, .action = RBLK_RESERVE_PREEMPT, .key = rblk_to_le64(3),
				 .other_key = rblk_to_le64(2), .type = WE),
			 RBLK_OK);
	hears(&b, 1, TGT_NOTICE_UNREGISTERED, 0);
	assert_int_equal(RESERVE(&own, .action = RBLK_RESERVE_CLEAR, .key = rblk_to_le64(3)), RBLK_OK);
	hears(&a, 1, TGT_NOTICE_PREEMPTED, 0);
	hears(&b, 0, TGT_NOTICE_NONE, 0);
	raw_close(&own.raw);
}

static void what_is_masked_is_not_kept(void **state)
{
	(void)state;
	mask(&b, 1u << TGT_NOTICE_RELEASED | 1);
	hold_and_release(WE_REGISTRANTS);
	hears(&b, 0, TGT_NOTICE_NONE, 0);
	mask(&b, 1u << TGT_NOTICE_UNREGISTERED | 1u << TGT_NOTICE_PREEMPTED);
	hold_and_release(WE_REGISTRANTS);
	hears(&b, 1, TGT_NOTICE_RELEASED, 0);
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 1, 0), NVME_OK);
	hears(&b, 0, TGT_NOTICE_NONE, 0);
}

static void the_last_ones_are_kept(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < NVME_NOTICES_MAX + 3; i++)
		hold_and_release(WE_REGISTRANTS);
	for (unsigned int i = 1; i < NVME_NOTICES_MAX; i++)
		hears(&b, i, TGT_NOTICE_RELEASED, NVME_NOTICES_MAX - i);
	hears(&b, NVME_NOTICES_MAX + 3, TGT_NOTICE_RELEASED, 0);
	hold_and_release(WE_REGISTRANTS);
	hears(&b, NVME_NOTICES_MAX + 4, TGT_NOTICE_RELEASED, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_event_tells, connect_all, close_all),
		cmocka_unit_test_setup_teardown(what_is_told, connect_all, close_all),
		cmocka_unit_test_setup_teardown(whoever_does_it, connect_all, close_all),
		cmocka_unit_test_setup_teardown(what_is_masked_is_not_kept, connect_all, close_all),
		cmocka_unit_test_setup_teardown(the_last_ones_are_kept, connect_all, close_all),
	};

	return cmocka_run_group_tests(tests, nvme_reserver_start, nvme_reserver_stop);
}
