/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: NVMe hosts register keys, and take, release and report a reservation as the specification says, which persists
 * over a restart of the daemon if it is to; what is wrong with a command is its status. Method: hosts and bare
 * initiators of the test's own.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include "tests/e2e/nvme_reserver.h"

#define PERSISTS (3u << 30)
#define VOLATILE (2u << 30)

/* -- keys ---------------------------------------------------------------------------------------- */

static void keys_are_as_specified(void **state)
{
	struct nvme_reserver a, b;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	nvme_reserver_connect(&b, OTHER_NQN, 1);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_UNREGISTER, 5, 0), NVME_RESERVED);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_UNREGISTER, 0, 0), NVME_RESERVED);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_REPLACE, 0, 5), NVME_RESERVED);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 0, 0, WE), NVME_RESERVED);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_NEW, 0, 0), NVME_BAD_FIELD);
	/* The current key does not matter; the same one again does not, and another one is not taken. */
	assert_int_equal(nvme_register(&a, NVME_REGISTER_NEW, 99, 5), NVME_OK);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_NEW, 0, 5), NVME_OK);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_NEW, 5, 6), NVME_RESERVED);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_NEW | NVME_RESERVE_IGNORE_KEY, 5, 6), NVME_RESERVED);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_REPLACE, 4, 6), NVME_RESERVED);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_REPLACE, 5, 6), NVME_OK);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_REPLACE | NVME_RESERVE_IGNORE_KEY, 1, 7), NVME_OK);
	assert_int_equal(nvme_register(&b, NVME_REGISTER_REPLACE | NVME_RESERVE_IGNORE_KEY, 1, 7), NVME_OK);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 6, 0, WE), NVME_RESERVED);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 7, 0, WE), NVME_OK);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 7, 0, WE), NVME_OK);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 7, 0, RBLK_RESERVATION_EXCLUSIVE_ACCESS), NVME_RESERVED);
	assert_int_equal(nvme_acquire(&b, NVME_ACQUIRE, 7, 0, WE), NVME_RESERVED);
	assert_int_equal(nvme_release(&b, NVME_RELEASE, 7, WE), NVME_OK); /* it holds none */
	assert_int_equal(nvme_reserver_write(&b, 'b'), NVME_RESERVED);
	assert_int_equal(nvme_release(&a, NVME_RELEASE, 7, RBLK_RESERVATION_EXCLUSIVE_ACCESS), NVME_BAD_FIELD);
	assert_int_equal(nvme_release(&a, NVME_RELEASE, 6, WE), NVME_RESERVED);
	assert_int_equal(nvme_release(&a, NVME_RELEASE, 7, WE), NVME_OK);
	assert_int_equal(nvme_reserver_write(&b, 'b'), NVME_OK);
	assert_int_equal(nvme_register(&b, NVME_REGISTER_UNREGISTER, 6, 0), NVME_RESERVED);
	assert_int_equal(nvme_register(&b, NVME_REGISTER_UNREGISTER, 7, 0), NVME_OK);
	/* As Linux asks for it. */
	assert_int_equal(nvme_register(&a, NVME_REGISTER_REPLACE, 7, 0), NVME_OK);
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 7, 0), NVME_RESERVED);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_NEW, 0, 8), NVME_OK);
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 7, 0), NVME_RESERVED);
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 8, 0), NVME_OK);
	assert_int_equal(nvme_register(&a, NVME_REGISTER_UNREGISTER, 8, 0), NVME_RESERVED);
	nvme_reserver_close(&a);
	nvme_reserver_close(&b);
}

/* -- what is wrong ------------------------------------------------------------------------------- */

static void wrong_words_are_refused(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t word10;
	} wrong[] = {
		{NVME_RESERVE_REGISTER, 3},
		{NVME_RESERVE_REGISTER, 1u << 30},
		{NVME_RESERVE_REGISTER, 1u << 29},
		{NVME_RESERVE_REGISTER, 1u << 4},
		{NVME_RESERVE_ACQUIRE, 3 | TYPE(1)},
		{NVME_RESERVE_ACQUIRE, 0},
		{NVME_RESERVE_ACQUIRE, TYPE(7)},
		{NVME_RESERVE_ACQUIRE, NVME_RESERVE_IGNORE_KEY | TYPE(1)},
		{NVME_RESERVE_ACQUIRE, TYPE(0x101)},
		{NVME_RESERVE_RELEASE, 2 | TYPE(1)},
		{NVME_RESERVE_RELEASE, 0},
		{NVME_RESERVE_RELEASE, TYPE(7)},
		{NVME_RESERVE_RELEASE, NVME_RESERVE_IGNORE_KEY | TYPE(1)},
		{NVME_RESERVE_RELEASE, TYPE(1) | 1u << 31},
	};
	struct nvme_reserver a;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	for (size_t i = 0; i < UNIT_LENGTH(wrong); i++)
		assert_int_equal(nvme_reserve(&a, wrong[i].opcode, wrong[i].word10, 0, 5), NVME_BAD_FIELD);
	/* PREEMPT of nobody's key, and without one. */
	assert_int_equal(nvme_register(&a, NVME_REGISTER_NEW, 0, 5), NVME_OK);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE_PREEMPT, 5, 0, WE), NVME_BAD_FIELD);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE_PREEMPT, 5, 6, WE), NVME_RESERVED);
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 5, 0), NVME_OK);
	nvme_reserver_close(&a);
}

static void wrong_data_is_refused(void **state)
{
	static const struct {
		uint8_t opcode;
		enum nvme_host_way way;
		uint32_t bytes;
		uint16_t status;
	} all[] = {
		{NVME_RESERVE_REGISTER, NVME_HOST_CAPSULE, 8, NVME_BAD_SGL_LENGTH},
		{NVME_RESERVE_REGISTER, NVME_HOST_R2T, 15, NVME_BAD_SGL_LENGTH},
		{NVME_RESERVE_REGISTER, NVME_HOST_NONE, 0, NVME_BAD_SGL_LENGTH},
		{NVME_RESERVE_REGISTER, NVME_HOST_CAPSULE, 513, NVME_BAD_SGL_LENGTH},
		{NVME_RESERVE_REGISTER, NVME_HOST_R2T, 513, NVME_BAD_SGL_LENGTH},
		{NVME_RESERVE_REGISTER, NVME_HOST_R2T, 512, NVME_OK},
		{NVME_RESERVE_REGISTER, NVME_HOST_CAPSULE, 512, NVME_OK},
		{NVME_RESERVE_REGISTER, NVME_HOST_R2T, 16, NVME_OK},
		{NVME_RESERVE_RELEASE, NVME_HOST_CAPSULE, 7, NVME_BAD_SGL_LENGTH},
		{NVME_RESERVE_RELEASE, NVME_HOST_CAPSULE, 8, NVME_OK},
		{NVME_RESERVE_RELEASE, NVME_HOST_R2T, 8, NVME_OK},
	};
	struct nvme_reserve keys[64] = {{.key = rblk_to_le64(5), .other = rblk_to_le64(5)}};
	struct nvme_host_command command;
	struct nvme_reserver a;

	(void)state;
	/* The nvme_block of a command that is here to stay has its digest, too. */
	for (uint8_t digests = 0; digests <= 3; digests = (uint8_t)(digests + 3)) {
		nvme_reserver_connect_with(&a, NVME_HOST_NQN, 0, 0, digests);
		for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
			command = nvme_reserver_make(all[i].opcode,
						     all[i].opcode == NVME_RESERVE_RELEASE ? TYPE(WE) : 0, keys);
			command.way = all[i].way;
			command.bytes = all[i].bytes;
			assert_int_equal(nvme_host_run(&a.io, &command), all[i].status);
			if (!digests || all[i].status)
				continue;
			a.io.damage = NVME_DIGEST_DATA;
			assert_int_equal(nvme_host_run(&a.io, &command), NVME_TRANSPORT);
		}
		command = nvme_reserver_make(NVME_RESERVE_REGISTER, 0, keys);
		command.command.namespace = rblk_to_le32(2);
		assert_int_equal(nvme_host_run(&a.io, &command), NVME_BAD_NAMESPACE);
		assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 5, 0), NVME_OK);
		nvme_reserver_close(&a);
	}
}

/* -- reports ------------------------------------------------------------------------------------- */

static void reports_name_all(void **state)
{
	static const uint8_t zeroes[64];
	struct reserver c;
	struct nvme_report all, part;
	struct nvme_reserver a, b;
	uint32_t generation;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0x1a);
	nvme_reserver_connect(&b, NVME_HOST_NQN, 0xb2);
	nvme_report(&a, &all);
	assert_int_equal(all.head.type, 0);
	assert_int_equal(all.head.registrants[0], 0);
	assert_memory_equal(all.registrants, zeroes, sizeof(zeroes));
	generation = rblk_le32(all.head.generation);
	assert_int_equal(nvme_register(&a, 0, 0, 0x1122334455667788), NVME_OK);
	assert_int_equal(nvme_register(&b, 0, 0, 6), NVME_OK);
	reserver_connect(&c, nvme_server.host, "c", "disk");
	assert_int_equal(REGISTER(&c, 7), RBLK_OK);
	assert_int_equal(nvme_acquire(&b, NVME_ACQUIRE, 6, 0, RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS), NVME_OK);
	nvme_report(&a, &all);
	assert_int_equal(rblk_le32(all.head.generation), generation + 3);
	assert_int_equal(all.head.type, RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS);
	assert_int_equal(all.head.registrants[0], 3);
	assert_int_equal(all.head.persists, 0);
	assert_int_equal(rblk_le64(all.registrants[0].key), 0x1122334455667788);
	assert_int_equal(all.registrants[0].host_id[15], 0x1a);
	assert_memory_equal(all.registrants[0].host_id, zeroes, 15);
	assert_int_equal(rblk_le16(all.registrants[0].controller), 0xffff);
	assert_int_equal(all.registrants[0].holder, 0);
	assert_int_equal(all.registrants[1].host_id[15], 0xb2);
	assert_int_equal(all.registrants[1].holder, 1);
	/* An initiator of rblk's always has the same one. */
	assert_memory_not_equal(all.registrants[2].host_id, zeroes, 16);
	assert_int_equal(rblk_le64(all.registrants[2].key), 7);
	assert_memory_equal(&all.registrants[3], zeroes, sizeof(zeroes));
	/* As much as there is room for. */
	for (uint32_t bytes = 4; bytes < 64 * 5; bytes += 4) {
		assert_int_equal(nvme_report_bytes(&b, &part, bytes), NVME_OK);
		assert_memory_equal(&part, &all, bytes);
	}
	/* rblk's initiators see the same. */
	assert_int_equal(reserver_report(&c, 4096)->type, RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS);
	assert_int_equal(rblk_le32(reserver_report(&c, 4096)->registrants), 3);
	assert_memory_equal(reserver_registrants(&c)[1].initiator, "hostid:00000000-0000-0000-0000-0000000000b2:", 44);
	assert_int_equal(reserver_registrants(&c)[1].holder, 1);
	assert_int_equal(nvme_release(&b, NVME_RELEASE_CLEAR, 6, 0), NVME_OK);
	raw_close(&c.raw);
	nvme_reserver_close(&a);
	nvme_reserver_close(&b);
}

static void wrong_reports_are_refused(void **state)
{
	static uint8_t large[(64 << 10) + 4];
	struct nvme_host_command command = {.way = NVME_HOST_IN, .data = large, .bytes = sizeof(large)};
	struct nvme_reserver a;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	command.command.opcode = NVME_RESERVE_REPORT;
	command.command.namespace = rblk_to_le32(1);
	command.command.word[0] = rblk_to_le32(sizeof(large) / 4 - 1);
	assert_int_equal(nvme_host_run(&a.io, &command), NVME_HOST_ID_FORMAT);
	command.command.word[1] = rblk_to_le32(1);
	assert_int_equal(nvme_host_run(&a.io, &command), NVME_BAD_FIELD);
	command.command.word[0] = rblk_to_le32(0xffffffff);
	assert_int_equal(nvme_host_run(&a.io, &command), NVME_BAD_FIELD);
	command.command.word[0] = rblk_to_le32(sizeof(large) / 4 - 2);
	assert_int_equal(nvme_host_run(&a.io, &command), NVME_BAD_SGL_LENGTH);
	command.bytes -= 4;
	assert_int_equal(nvme_host_run(&a.io, &command), NVME_OK);
	command.way = NVME_HOST_CAPSULE;
	command.bytes = 4;
	command.command.word[0] = 0;
	assert_int_equal(nvme_host_run(&a.io, &command), NVME_BAD_SGL_TYPE);
	nvme_reserver_close(&a);
}

/* Each answer takes room: a third is refused while two wait. All are answered. */
static void many_reports_are_answered(void **state)
{
	static uint8_t large[64 << 10];
	struct nvme_host_command reports[30];
	unsigned int served_of = 0;
	struct nvme_reserver a;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	for (unsigned int i = 0; i < UNIT_LENGTH(reports); i++) {
		reports[i] = (struct nvme_host_command){.way = NVME_HOST_IN, .data = large, .bytes = sizeof(large)};
		reports[i].command.opcode = NVME_RESERVE_REPORT;
		reports[i].command.namespace = rblk_to_le32(1);
		reports[i].command.word[0] = rblk_to_le32(sizeof(large) / 4 - 1);
		reports[i].command.word[1] = rblk_to_le32(1);
		nvme_host_send(&a.io, &reports[i]);
	}
	nvme_host_await_all(&a.io, reports, UNIT_LENGTH(reports));
	for (unsigned int i = 0; i < UNIT_LENGTH(reports); i++) {
		assert_true(reports[i].status == NVME_OK || reports[i].status == NVME_INTERRUPTED);
		served_of += reports[i].status == NVME_OK;
	}
	assert_true(served_of >= 2);
	nvme_reserver_close(&a);
}

/* -- over restarts ------------------------------------------------------------------------------- */

static uint16_t feature(struct nvme_reserver *host, uint8_t opcode, uint8_t id, uint32_t value, uint64_t *result)
{
	struct nvme_host_command command = {.way = NVME_HOST_NONE};
	uint16_t status;

	command.command.opcode = opcode;
	command.command.namespace = rblk_to_le32(1);
	command.command.word[0] = rblk_to_le32(id);
	command.command.word[1] = rblk_to_le32(value);
	status = nvme_host_run(&host->admin, &command);
	*result = command.result;
	return status;
}

static void persists(struct nvme_reserver *host, uint64_t wanted)
{
	struct nvme_report all;
	uint64_t result;

	nvme_report(host, &all);
	assert_int_equal(all.head.persists, wanted);
	assert_int_equal(feature(host, NVME_GET_FEATURES, NVME_FEATURE_RESERVATION_PERSISTENCE, 0, &result), NVME_OK);
	assert_int_equal(result, wanted);
	assert_int_equal(
		feature(host, NVME_SET_FEATURES, NVME_FEATURE_RESERVATION_PERSISTENCE, (uint32_t)wanted, &result),
		NVME_OK);
	assert_int_equal(feature(host, NVME_SET_FEATURES, NVME_FEATURE_RESERVATION_PERSISTENCE, !wanted, &result),
			 NVME_NOT_CHANGEABLE);
}

static void restart(bool kill)
{
	if (kill)
		e2e_daemon_kill(&nvme_server);
	else
		assert_int_equal(e2e_daemon_stop(&nvme_server), 0);
	e2e_daemon_start_again(&nvme_server, NVME_RESERVER_ARGUMENTS, "--reservations-dir", nvme_kept, nvme_disk.volume,
			       NULL);
	nvme_reserver_served();
}

static void what_is_to_persist_persists(void **state)
{
	struct nvme_reserver a, b;
	struct nvme_report all;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 3);
	persists(&a, 0);
	assert_int_equal(nvme_register(&a, PERSISTS, 0, 1), NVME_OK);
	persists(&a, 1);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, WE), NVME_OK);
	nvme_reserver_close(&a);
	for (int kill = 0; kill < 2; kill++) {
		restart(kill);
		nvme_reserver_connect(&b, OTHER_NQN, 3);
		nvme_reserver_may(&b, true, false);
		nvme_reserver_connect(&a, NVME_HOST_NQN, 3);
		nvme_reserver_may(&a, true, true);
		persists(&a, 1);
		nvme_report(&b, &all);
		assert_int_equal(all.head.type, WE);
		assert_int_equal(all.registrants[0].host_id[15], 3);
		assert_int_equal(all.registrants[0].holder, 1);
		nvme_reserver_close(&a);
		nvme_reserver_close(&b);
	}
	/* The same key again, and from now on volatile. */
	nvme_reserver_connect(&a, NVME_HOST_NQN, 3);
	assert_int_equal(nvme_register(&a, VOLATILE, 0, 1), NVME_OK);
	persists(&a, 0);
	nvme_reserver_close(&a);
	restart(true);
	nvme_reserver_connect(&b, OTHER_NQN, 3);
	nvme_reserver_may(&b, true, true);
	nvme_reserver_close(&b);
}

static void what_cannot_be_kept_is_not_changed(void **state)
{
	char moved[80];
	struct nvme_report all;
	struct nvme_reserver a;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	assert_int_equal(nvme_register(&a, PERSISTS, 0, 1), NVME_OK);
	snprintf(moved, sizeof(moved), "%s.away", nvme_kept);
	assert_int_equal(rename(nvme_kept, moved), 0);
	assert_int_equal(nvme_acquire(&a, NVME_ACQUIRE, 1, 0, WE), NVME_INTERNAL);
	nvme_report(&a, &all);
	assert_int_equal(all.head.type, 0);
	assert_int_equal(rename(moved, nvme_kept), 0);
	assert_int_equal(nvme_release(&a, NVME_RELEASE_CLEAR, 1, 0), NVME_OK);
	nvme_reserver_close(&a);
}

/* Each change of a reservation that persists is one of the disk's: others that come meanwhile wait. */
static void changes_at_the_same_time_all_succeed(void **state)
{
	struct nvme_host_command commands[6][20];
	struct nvme_reserve keys[6][20];
	struct nvme_reserver hosts[6];
	struct nvme_report all;

	(void)state;
	for (unsigned int i = 0; i < 6; i++) {
		nvme_reserver_connect(&hosts[i], NVME_HOST_NQN, (uint8_t)i);
		for (unsigned int j = 0; j < 20; j++) {
			keys[i][j].other = rblk_to_le64(100 * (i + 1) + j);
			commands[i][j] = nvme_reserver_make(NVME_RESERVE_REGISTER,
							    NVME_REGISTER_REPLACE | NVME_RESERVE_IGNORE_KEY | PERSISTS,
							    &keys[i][j]);
			nvme_host_send(&hosts[i].io, &commands[i][j]);
		}
	}
	for (unsigned int i = 0; i < 6; i++) {
		nvme_host_await_all(&hosts[i].io, commands[i], 20);
		for (unsigned int j = 0; j < 20; j++)
			assert_int_equal(commands[i][j].status, NVME_OK);
	}
	nvme_report(&hosts[0], &all);
	assert_int_equal(all.head.registrants[0], 6);
	assert_int_equal(nvme_release(&hosts[0], NVME_RELEASE_CLEAR, rblk_le64(all.registrants[0].key), 0),
			 all.registrants[0].host_id[15] ? NVME_RESERVED : NVME_OK);
	assert_int_equal(nvme_register(&hosts[0], NVME_REGISTER_REPLACE | NVME_RESERVE_IGNORE_KEY, 0, 1), NVME_OK);
	assert_int_equal(nvme_release(&hosts[0], NVME_RELEASE_CLEAR, 1, 0), NVME_OK);
	for (unsigned int i = 0; i < 6; i++)
		nvme_reserver_close(&hosts[i]);
}

/* -- what hosts read ----------------------------------------------------------------------------- */

static void pages_and_features_say_it(void **state)
{
	uint8_t page[NVME_IDENTIFY_BYTES], id[16];
	struct nvme_host_command command = {.way = NVME_HOST_IN, .data = page, .bytes = sizeof(page)};
	uint64_t result;
	struct nvme_reserver a;

	(void)state;
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0x42);
	command.command.opcode = NVME_IDENTIFY;
	command.command.word[0] = rblk_to_le32(NVME_CNS_CONTROLLER);
	assert_int_equal(nvme_host_run(&a.admin, &command), NVME_OK);
	assert_true(rblk_le16(((struct nvme_identify_controller *)page)->optional) & NVME_OPTIONAL_RESERVATIONS);
	command.command.namespace = rblk_to_le32(1);
	command.command.word[0] = rblk_to_le32(NVME_CNS_NAMESPACE);
	command.arrived = 0;
	assert_int_equal(nvme_host_run(&a.admin, &command), NVME_OK);
	assert_int_equal(((struct nvme_identify_namespace *)page)->reservations, 0xff);
	assert_int_equal(((struct nvme_identify_namespace *)page)->paths, 1);
	/* There are no notices. */
	command = (struct nvme_host_command){.way = NVME_HOST_IN, .data = page, .bytes = 64};
	command.command.opcode = NVME_GET_LOG_PAGE;
	command.command.word[0] = rblk_to_le32(NVME_LOG_RESERVATIONS | 15u << 16);
	assert_int_equal(nvme_host_run(&a.admin, &command), NVME_OK);
	for (unsigned int i = 0; i < 64; i++)
		assert_int_equal(page[i], 0);
	command = (struct nvme_host_command){.way = NVME_HOST_IN, .data = id, .bytes = sizeof(id)};
	command.command.opcode = NVME_GET_FEATURES;
	command.command.word[0] = rblk_to_le32(NVME_FEATURE_HOST_ID);
	assert_int_equal(nvme_host_run(&a.admin, &command), NVME_BAD_FIELD);
	command.command.word[1] = rblk_to_le32(1);
	assert_int_equal(nvme_host_run(&a.admin, &command), NVME_OK);
	assert_int_equal(id[15], 0x42);
	command.way = NVME_HOST_NONE;
	assert_int_equal(nvme_host_run(&a.admin, &command), NVME_BAD_SGL_LENGTH);
	assert_int_equal(feature(&a, NVME_GET_FEATURES, NVME_FEATURE_RESERVATION_MASK, 0, &result), NVME_OK);
	assert_int_equal(result, 0);
	assert_int_equal(feature(&a, NVME_SET_FEATURES, NVME_FEATURE_RESERVATION_MASK, 0xf, &result), NVME_OK);
	assert_int_equal(feature(&a, NVME_GET_FEATURES, NVME_FEATURE_RESERVATION_MASK, 0, &result), NVME_OK);
	assert_int_equal(result, NVME_RESERVATION_MASKS);
	/* Of a namespace; set: or of all. Data that nobody asked for is dropped. */
	command = (struct nvme_host_command){.way = NVME_HOST_CAPSULE, .data = page, .bytes = 64};
	command.command.opcode = NVME_GET_FEATURES;
	command.command.word[0] = rblk_to_le32(NVME_FEATURE_RESERVATION_PERSISTENCE);
	assert_int_equal(nvme_host_run(&a.admin, &command), NVME_BAD_NAMESPACE);
	command.command.namespace = rblk_to_le32(0xffffffff);
	assert_int_equal(nvme_host_run(&a.admin, &command), NVME_BAD_NAMESPACE);
	command.command.opcode = NVME_SET_FEATURES;
	assert_int_equal(nvme_host_run(&a.admin, &command), NVME_OK);
	nvme_reserver_close(&a);
}

/* Without a folder nothing persists. */
static void a_volume_in_memory_keeps_nothing(void **state)
{
	uint64_t result;
	struct nvme_report all;
	struct nvme_reserver a;

	(void)state;
	e2e_daemon_start(&nvme_server, "--listen", "nvme+tcp://127.0.0.1:0", "--memory", "mem=1M", NULL);
	nvme_reserver_served();
	nvme_reserver_connect(&a, NVME_HOST_NQN, 0);
	assert_int_equal(nvme_register(&a, PERSISTS, 0, 1), NVME_BAD_FIELD);
	assert_int_equal(nvme_register(&a, VOLATILE, 0, 1), NVME_OK);
	nvme_report(&a, &all);
	assert_int_equal(all.head.registrants[0], 1);
	assert_int_equal(feature(&a, NVME_GET_FEATURES, NVME_FEATURE_RESERVATION_PERSISTENCE, 0, &result),
			 NVME_BAD_FIELD);
	nvme_reserver_close(&a);
	assert_int_equal(e2e_daemon_stop(&nvme_server), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, nvme_reserver_start, nvme_reserver_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keys_are_as_specified),
		TEST(wrong_words_are_refused),
		TEST(wrong_data_is_refused),
		TEST(reports_name_all),
		TEST(wrong_reports_are_refused),
		TEST(many_reports_are_answered),
		TEST(what_is_to_persist_persists),
		TEST(what_cannot_be_kept_is_not_changed),
		TEST(changes_at_the_same_time_all_succeed),
		TEST(pages_and_features_say_it),
		cmocka_unit_test(a_volume_in_memory_keeps_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
