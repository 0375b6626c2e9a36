/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: NVMe hosts and rblk's own initiators share one list of registrants and one reservation, which each of them
 * respects; a host is its name with its identifier; PREEMPT is answered when the victim's writes have ended. Method:
 * hosts and bare initiators of the test's own, two hosts by identifier or by name, and a store that is slow where a
 * test needs it.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "tests/e2e/nvme_reserver.h"

static int start_slow(void **state)
{
	(void)state;
	return nvme_reserver_start_with("--fault", "delay=write:1s");
}

/* -- who is kept out ----------------------------------------------------------------------------- */

static void each_type_keeps_out_whom_it_says(void **state)
{
	struct reserver inside, outside;
	struct nvme_reserver a, b, c;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	nvme_reserver_connect(&b, OTHER_NQN, 1);
	reserver_connect(&inside, nvme_server.host, "inside", "disk");
	reserver_connect(&outside, nvme_server.host, "outside", "disk");
	assert_int_equal(nvme_register(&a, 0, 0, 1), NVME_OK);
	assert_int_equal(nvme_register(&b, 0, 0, 2), NVME_OK);
	assert_int_equal(REGISTER(&inside, 3), RBLK_OK);
	for (const struct reserver_rights *row = reserver_rights; row < reserver_rights + RESERVER_TYPES; row++) {
		/* An NVMe host holds it, then an initiator of rblk's: each keeps out both kinds. */
		assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, row->type), NVME_OK);
		nvme_reserver_may(&a, true, true);
		nvme_reserver_may(&b, row->registrant_reads, row->registrant_writes);
		reserver_assert_may(&inside, row->registrant_reads, row->registrant_writes);
		reserver_assert_may(&outside, row->other_reads, false);
		/* A host that connects now. */
		nvme_reserver_connect(&c, OTHER_NQN, 9);
		nvme_reserver_may(&c, row->other_reads, false);
		nvme_reserver_close(&c);
		assert_int_equal(nvme_release(&a, NVME_RELEASE, 1, row->type), NVME_OK);
		reserver_assert_may(&outside, true, true);
		assert_int_equal(ACQUIRE(&inside, 3, row->type), RBLK_OK);
		reserver_assert_may(&inside, true, true);
		nvme_reserver_may(&b, row->registrant_reads, row->registrant_writes);
		nvme_reserver_connect(&c, OTHER_NQN, 9);
		nvme_reserver_may(&c, row->other_reads, false);
		nvme_reserver_close(&c);
		assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, row->type),
				 row->type >= RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL ? NVME_OK : NVME_RESERVED);
		assert_int_equal(RESERVE(&inside, .action = RBLK_RESERVE_RELEASE, .key = rblk_to_le64(3)), RBLK_OK);
	}
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 1, 0), NVME_OK);
	nvme_reserver_may(&b, true, true);
	raw_close(&inside.raw);
	raw_close(&outside.raw);
	nvme_reserver_close(&a);
	nvme_reserver_close(&b);
}

/* A fused pair writes. */
static void a_pair_is_kept_out(void **state)
{
	struct nvme_host_command pair[2] = {{.way = NVME_HOST_CAPSULE, .data = nvme_block, .bytes = BLOCK},
					    {.way = NVME_HOST_CAPSULE, .data = nvme_block, .bytes = BLOCK}};
	uint16_t statuses[2];
	struct nvme_reserver a, b;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	nvme_reserver_connect(&b, OTHER_NQN, 0);
	assert_int_equal(nvme_register(&a, 0, 0, 1), NVME_OK);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, WE), NVME_OK);
	for (int i = 0; i < 2; i++) {
		pair[i].command.opcode = i ? NVME_WRITE : NVME_COMPARE;
		pair[i].command.flags = i ? NVME_FUSE_SECOND : NVME_FUSE_FIRST;
		pair[i].command.namespace = rblk_to_le32(1);
	}
	nvme_host_run_pair(&b.io, pair, statuses);
	assert_int_equal(statuses[0], NVME_RESERVED);
	assert_int_equal(statuses[1], NVME_RESERVED);
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 1, 0), NVME_OK);
	nvme_reserver_close(&a);
	nvme_reserver_close(&b);
}

/* -- who is who ---------------------------------------------------------------------------------- */

static void a_host_is_its_name_and_its_identifier(void **state)
{
	struct nvme_reserver a, same, other_id, other_name;
	struct reserver liar;
	struct nvme_report all;
	char name[RBLK_NAME_BYTES];

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 4);
	assert_int_equal(nvme_register(&a, 0, 0, 1), NVME_OK);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, WE), NVME_OK);
	nvme_reserver_connect(&other_id, NVME_HOST_NQN, 5);
	nvme_reserver_connect(&other_name, OTHER_NQN, 4);
	nvme_reserver_may(&other_id, true, false);
	nvme_reserver_may(&other_name, true, false);
	assert_int_equal(nvme_release(&other_id, NVME_RELEASE, 1, WE), NVME_RESERVED);
	assert_int_equal(nvme_release(&other_name, NVME_RELEASE_CLEAR, 1, 0), NVME_RESERVED);
	nvme_report(&a, &all);
	assert_int_equal(all.head.registrants[0], 1);
	/* It is the same when it has connected again; and an initiator that calls itself so is not it. */
	nvme_reserver_close(&a);
	nvme_reserver_connect(&same, NVME_HOST_NQN, 4);
	nvme_reserver_may(&same, true, true);
	reserver_connect(&liar, nvme_server.host, "honest", "disk");
	reserver_report(&liar, 4096);
	memcpy(name, reserver_registrants(&liar)[0].initiator, sizeof(name));
	reserver_identify(&liar.raw, name);
	reserver_assert_may(&liar, true, false);
	assert_int_equal(REGISTER(&liar, 1), RBLK_E_DENIED);
	assert_int_equal(nvme_release(&same, NVME_RELEASE_CLEAR, 1, 0), NVME_OK);
	assert_int_equal(REGISTER(&liar, 1), RBLK_E_DENIED);
	raw_close(&liar.raw);
	nvme_reserver_close(&same);
	nvme_reserver_close(&other_id);
	nvme_reserver_close(&other_name);
}

static void one_address_leaves_room_for_others(void **state)
{
	struct nvme_reserver hosts[8], one, other;

	(void)state;
	for (uint8_t i = 0; i < 8; i++) {
		nvme_reserver_connect(&hosts[i], NVME_HOST_NQN, (uint8_t)(100 + i));
		assert_int_equal(nvme_register(&hosts[i], 0, 0, 1), NVME_OK);
	}
	nvme_reserver_connect(&one, NVME_HOST_NQN, 108);
	assert_int_equal(nvme_register(&one, 0, 0, 1), NVME_INTERNAL);
	nvme_reserver_connect_with(&other, NVME_HOST_NQN, 109, 9, 0);
	assert_int_equal(nvme_register(&other, 0, 0, 1), NVME_OK);
	assert_int_equal(nvme_release(&other, NVME_RELEASE_CLEAR, 1, 0), NVME_OK);
	for (uint8_t i = 0; i < 8; i++)
		nvme_reserver_close(&hosts[i]);
	nvme_reserver_close(&one);
	nvme_reserver_close(&other);
}

/* -- PREEMPT ------------------------------------------------------------------------------------- */

/* Of an initiator of the other kind, both ways. */
static void each_preempts_the_other(void **state)
{
	struct reserver agent;
	struct nvme_reserver a;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	reserver_connect(&agent, nvme_server.host, "agent", "disk");
	for (uint32_t action = NVME_ACQUIRE_PREEMPT; action <= NVME_ACQUIRE_PREEMPT_ABORT; action++) {
		assert_int_equal(nvme_register(&a, 0, 0, 1), NVME_OK);
		assert_int_equal(REGISTER(&agent, 2), RBLK_OK);
		assert_int_equal(ACQUIRE(&agent, 2, RBLK_RESERVATION_EXCLUSIVE_ACCESS), RBLK_OK);
		nvme_reserver_may(&a, false, false);
		assert_int_equal(nvme_acquire(&a, action, 1, 2, WE), NVME_OK);
		nvme_reserver_may(&a, true, true);
		reserver_assert_may(&agent, true, false);
		assert_int_equal(REGISTER(&agent, 3), RBLK_OK);
		assert_int_equal(RESERVE(&agent, .action = RBLK_RESERVE_PREEMPT, .key = rblk_to_le64(3),
					 .other_key = rblk_to_le64(1), .type = WE,
					 .flags = action == NVME_ACQUIRE_PREEMPT_ABORT ? RBLK_RESERVE_ABORT : 0),
				 RBLK_OK);
		nvme_reserver_may(&a, true, false);
		assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, WE), NVME_RESERVED);
		assert_int_equal(RESERVE(&agent, .action = RBLK_RESERVE_CLEAR, .key = rblk_to_le64(3)), RBLK_OK);
		nvme_reserver_may(&a, true, true);
	}
	/* Of all, by the types that all hold. */
	assert_int_equal(nvme_register(&a, 0, 0, 1), NVME_OK);
	assert_int_equal(REGISTER(&agent, 2), RBLK_OK);
	assert_int_equal(ACQUIRE(&agent, 2, RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL), RBLK_OK);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE_PREEMPT, 1, 0, WE), NVME_OK);
	reserver_assert_may(&agent, true, false);
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 1, 0), NVME_OK);
	raw_close(&agent.raw);
	nvme_reserver_close(&a);
}

/* The store holds the victim's write for a second. After the answer to PREEMPT its nvme_block is on disk. */
static void preempt_while_a_write_is_stored(uint32_t action, bool connection_lost)
{
	struct nvme_host_command write = {.way = NVME_HOST_CAPSULE, .data = nvme_block, .bytes = BYTES};
	struct nvme_reserver victim, agent;

	nvme_reserver_connect(&victim, NVME_HOST_NQN, 0);
	nvme_reserver_connect(&agent, OTHER_NQN, 1);
	assert_int_equal(nvme_register(&victim, 0, 0, 1), NVME_OK);
	assert_int_equal(nvme_acquire(&victim, NVME_ACQUIRE, 1, 0, WE), NVME_OK);
	assert_int_equal(nvme_register(&agent, 0, 0, 2), NVME_OK);
	write.command.opcode = NVME_WRITE;
	write.command.namespace = rblk_to_le32(1);
	write.command.word[2] = rblk_to_le32(BYTES / BLOCK - 1);
	memset(nvme_block, 'v', BYTES);
	nvme_host_send(&victim.io, &write);
	{ /* Commands begin in order. */
		static uint8_t far[BLOCK];
		struct nvme_host_command read = {.way = NVME_HOST_IN, .data = far, .bytes = BLOCK};

		read.command.opcode = NVME_READ;
		read.command.namespace = rblk_to_le32(1);
		read.command.word[0] = rblk_to_le32(64);
		assert_int_equal(nvme_host_run(&victim.io, &read), NVME_OK);
	}
	if (connection_lost)
		nvme_reserver_close(&victim);
	assert_int_equal(nvme_acquire(&agent, action, 2, 1, WE), NVME_OK);
	assert_int_equal(nvme_reserver_read(&agent), NVME_OK);
	for (unsigned int i = 0; i < BYTES; i++)
		assert_int_equal(nvme_block[i], 'v');
	if (!connection_lost) {
		assert_int_equal(nvme_host_await(&victim.io, &write), NVME_OK);
		assert_int_equal(nvme_reserver_write(&victim, 'w'), NVME_RESERVED);
		nvme_reserver_close(&victim);
	}
	assert_int_equal(nvme_release(&agent, NVME_RELEASE_CLEAR, 2, 0), NVME_OK);
	assert_int_equal(nvme_reserver_write(&agent, 0), NVME_OK);
	nvme_reserver_close(&agent);
}

static void preempt_waits_for_the_store(void **state)
{
	(void)state;
	preempt_while_a_write_is_stored(NVME_ACQUIRE_PREEMPT, false);
	preempt_while_a_write_is_stored(NVME_ACQUIRE_PREEMPT_ABORT, false);
	preempt_while_a_write_is_stored(NVME_ACQUIRE_PREEMPT_ABORT, true);
}

/* A write that has not got its nvme_block has not begun. */
static void preempt_and_abort_drops_what_waits(void **state)
{
	struct nvme_host_command write = {.way = NVME_HOST_R2T, .data = nvme_block, .bytes = BYTES};
	struct nvme_pdu_data r2t;
	struct nvme_reserver victim, agent;

	(void)state;
	nvme_reserver_connect(&victim, NVME_HOST_NQN, 0);
	nvme_reserver_connect(&agent, OTHER_NQN, 1);
	assert_int_equal(nvme_register(&victim, 0, 0, 1), NVME_OK);
	assert_int_equal(nvme_register(&agent, 0, 0, 2), NVME_OK);
	write.command.opcode = NVME_WRITE;
	write.command.namespace = rblk_to_le32(1);
	write.command.word[2] = rblk_to_le32(BYTES / BLOCK - 1);
	nvme_host_send(&victim.io, &write);
	nvme_host_read(&victim.io, &r2t, sizeof(r2t));
	assert_int_equal(r2t.pdu.type, NVME_PDU_R2T);
	/* It lets the victim wait for nothing: its connection ends. */
	assert_int_equal(nvme_acquire(&agent, NVME_ACQUIRE_PREEMPT_ABORT, 2, 1, WE), NVME_OK);
	nvme_host_ended(victim.io.fd);
	assert_int_equal(nvme_release(&agent, NVME_RELEASE_CLEAR, 2, 0), NVME_OK);
	nvme_host_close(&victim.admin);
	nvme_reserver_close(&agent);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, nvme_reserver_start, nvme_reserver_stop)
#define SLOW(function) cmocka_unit_test_setup_teardown(function, start_slow, nvme_reserver_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_type_keeps_out_whom_it_says),
		TEST(a_pair_is_kept_out),
		TEST(a_host_is_its_name_and_its_identifier),
		TEST(one_address_leaves_room_for_others),
		TEST(each_preempts_the_other),
		SLOW(preempt_waits_for_the_store),
		TEST(preempt_and_abort_drops_what_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
