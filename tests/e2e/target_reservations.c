/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a reservation keeps out the initiators that it should, on every reactor; PREEMPT returns
 * when the victim's writes have ended; persistent reservations are there after a stop and after a
 * kill; one host's registrants leave room for others; malformed and anonymous RESERVEs are refused.
 * Method: the bare fabric as several named initiators, against a daemon whose file has slow writes
 * where a test needs them.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"
#include "tests/e2e/reserver.h"
#include "tests/e2e/source_address.h"

static struct e2e_daemon server;
static struct e2e_file disk;
static char kept[64];

/* -- the daemon -------------------------------------------------------------------------------- */

/* With one more option. */
static int start_with(const char *option, const char *value)
{
	e2e_file_create(&disk, "disk", 4 << 20);
	e2e_folder_create(kept);
	e2e_daemon_start(&server, "--cache", "buffered", "--reactors", "2", "--reservations-dir", kept, option, value,
			 disk.volume, NULL);
	return 0;
}

static int start(void **state)
{
	return start_with("--memory", "mem=4M");
}

static int start_slow(void **state)
{
	return start_with("--fault", "delay=write:1s");
}

static void start_again(void)
{
	e2e_daemon_start_again(&server, "--cache", "buffered", "--reactors", "2",
			       "--reservations-dir", kept, "--memory", "mem=4M", disk.volume, NULL);
}

static int stop(void **state)
{
	e2e_file_remove(&disk);
	e2e_folder_remove(kept);
	return e2e_daemon_stop(&server);
}

static void connect_as(struct reserver *host, const char *name, const char *volume)
{
	reserver_connect(host, server.host, name, volume);
}

/* -- access rights --------------------------------------------------------------------------- */

static void matrix_of(const char *volume)
{
	struct reserver holder, registrant, other, again;

	connect_as(&holder, "a", volume);
	connect_as(&registrant, "b", volume);
	connect_as(&other, NULL, volume);
	assert_int_equal(REGISTER(&holder, 1), RBLK_OK);
	assert_int_equal(REGISTER(&registrant, 2), RBLK_OK);
	for (const struct reserver_rights *row = reserver_rights; row < reserver_rights + RESERVER_TYPES; row++) {
		assert_int_equal(ACQUIRE(&holder, 1, row->type), RBLK_OK);
		reserver_assert_may(&holder, true, true);
		reserver_assert_may(&registrant, row->registrant_reads, row->registrant_writes);
		reserver_assert_may(&other, row->other_reads, false);
		/* The same initiators in new sessions, which open the volume now. */
		connect_as(&again, "a", volume);
		reserver_assert_may(&again, true, true);
		raw_close(&again.raw);
		connect_as(&again, "c", volume);
		reserver_assert_may(&again, row->other_reads, false);
		/* An initiator may change its name. */
		reserver_identify(&again.raw, "a");
		reserver_assert_may(&again, true, true);
		raw_close(&again.raw);
		assert_int_equal(
			RESERVE(&holder, .action = RBLK_RESERVE_RELEASE, .key = rblk_to_le64(1), .type = row->type),
			RBLK_OK);
		reserver_assert_may(&other, true, true);
	}
	assert_int_equal(RESERVE(&holder, .action = RBLK_RESERVE_CLEAR, .key = rblk_to_le64(1)),
			 RBLK_OK);
	raw_close(&holder.raw);
	raw_close(&registrant.raw);
	raw_close(&other.raw);
}

static void each_type_keeps_out_whom_it_says(void **state)
{
	matrix_of("disk");
}

static void in_memory_too(void **state)
{
	struct reserver a, b;

	connect_as(&a, "a", "mem");
	connect_as(&b, "b", "mem");
	assert_int_equal(REGISTER(&a, 1), RBLK_OK);
	assert_int_equal(ACQUIRE(&a, 1, RBLK_RESERVATION_EXCLUSIVE_ACCESS), RBLK_OK);
	reserver_io_begin(&b, RBLK_OP_READ, 2, 0, 0);
	assert_int_equal(raw_wait(&b.raw, 2), RBLK_E_RESERVED);
	reserver_io_begin(&b, RBLK_OP_WRITE, 2, 0, 'b');
	assert_int_equal(raw_wait(&b.raw, 2), RBLK_E_RESERVED);
	reserver_io_begin(&a, RBLK_OP_WRITE, 2, 0, 'a');
	assert_int_equal(raw_wait(&a.raw, 2), RBLK_OK);
	reserver_assert_reads(&a, 0, 'a');
	/* Reservations of a memory volume cannot persist. */
	assert_int_equal(REGISTER(&b, 2, .flags = RBLK_RESERVE_PERSIST), RBLK_E_UNSUPPORTED);
	raw_close(&a.raw);
	raw_close(&b.raw);
}

/* -- PREEMPT waits ----------------------------------------------------------------------------- */

/* The store holds the victim's write for a second. After the answer to PREEMPT its data is on
 * disk, and it does not overwrite a later write. */
static void preempt_while_a_write_is_stored(uint8_t flags, bool connection_lost)
{
	struct reserver victim, agent;

	connect_as(&victim, "victim", "disk");
	connect_as(&agent, "agent", "disk");
	assert_int_equal(REGISTER(&victim, 1), RBLK_OK);
	assert_int_equal(ACQUIRE(&victim, 1, RBLK_RESERVATION_WRITE_EXCLUSIVE), RBLK_OK);
	assert_int_equal(REGISTER(&agent, 2), RBLK_OK);
	reserver_io_begin(&victim, RBLK_OP_WRITE, 1, 0, 'v');
	/* The answer to the next command of the queue shows that the write has arrived. */
	assert_int_equal(raw_simple(&victim.raw, RBLK_OP_KEEPALIVE, 4), RBLK_OK);
	reserver_io_begin(&victim, RBLK_OP_READ, 2, 64, 0);
	raw_wait(&victim.raw, 2); /* its data was fetched by then: the store has the write */
	if (connection_lost)
		raw_close(&victim.raw);
	reserver_assert_reads(&agent, 0, 0);
	assert_int_equal(RESERVE(&agent, .action = RBLK_RESERVE_PREEMPT, .key = rblk_to_le64(2),
				 .other_key = rblk_to_le64(1), .flags = flags,
				 .type = RBLK_RESERVATION_WRITE_EXCLUSIVE),
			 RBLK_OK);
	reserver_assert_reads(&agent, 0, 'v');
	if (!connection_lost) {
		assert_int_equal(raw_wait(&victim.raw, 1), RBLK_OK);
		reserver_io_begin(&victim, RBLK_OP_WRITE, 1, 0, 'w');
		assert_int_equal(raw_wait(&victim.raw, 1), RBLK_E_RESERVED);
		assert_int_equal(ACQUIRE(&victim, 1, 1), RBLK_E_RESERVED);
		raw_close(&victim.raw);
	}
	reserver_io_begin(&agent, RBLK_OP_WRITE, 1, 0, 'a');
	assert_int_equal(raw_wait(&agent.raw, 1), RBLK_OK);
	reserver_assert_reads(&agent, 0, 'a');
	raw_close(&agent.raw);
}

static void preempt_waits_for_the_store(void **state)
{
	preempt_while_a_write_is_stored(0, false);
}

static void preempt_and_abort_waits_for_the_store(void **state)
{
	preempt_while_a_write_is_stored(RBLK_RESERVE_ABORT, false);
}

static void preempt_waits_for_lost_connections(void **state)
{
	preempt_while_a_write_is_stored(RBLK_RESERVE_ABORT, true);
}

/* A victim that changes its name while its write is in flight does not hide the write. */
static void preempt_waits_for_who_changed_its_name(void **state)
{
	struct reserver victim, agent;

	connect_as(&victim, "victim", "disk");
	connect_as(&agent, "agent", "disk");
	assert_int_equal(REGISTER(&victim, 1), RBLK_OK);
	assert_int_equal(ACQUIRE(&victim, 1, RBLK_RESERVATION_WRITE_EXCLUSIVE), RBLK_OK);
	assert_int_equal(REGISTER(&agent, 2), RBLK_OK);
	reserver_io_begin(&victim, RBLK_OP_WRITE, 1, 0, 'v');
	reserver_io_begin(&victim, RBLK_OP_READ, 2, 64, 0);
	assert_int_equal(raw_wait(&victim.raw, 2), RBLK_OK);
	reserver_identify(&victim.raw, "changed");
	reserver_assert_reads(&agent, 0, 0);
	assert_int_equal(RESERVE(&agent, .action = RBLK_RESERVE_PREEMPT, .key = rblk_to_le64(2),
				 .other_key = rblk_to_le64(1), .type = RBLK_RESERVATION_WRITE_EXCLUSIVE),
			 RBLK_OK);
	reserver_assert_reads(&agent, 0, 'v');
	raw_close(&victim.raw);
	raw_close(&agent.raw);
}

/* ACQUIRE keeps out an initiator without a registration, and also waits for its writes. */
static void acquire_waits_for_the_store(void **state)
{
	struct reserver victim, agent;

	connect_as(&victim, NULL, "disk");
	connect_as(&agent, "agent", "disk");
	assert_int_equal(REGISTER(&agent, 2), RBLK_OK);
	reserver_io_begin(&victim, RBLK_OP_WRITE, 1, 0, 'v');
	reserver_io_begin(&victim, RBLK_OP_READ, 2, 64, 0);
	assert_int_equal(raw_wait(&victim.raw, 2), RBLK_OK);
	reserver_assert_reads(&agent, 0, 0);
	assert_int_equal(ACQUIRE(&agent, 2, RBLK_RESERVATION_EXCLUSIVE_ACCESS), RBLK_OK);
	reserver_assert_reads(&agent, 0, 'v');
	assert_int_equal(raw_wait(&victim.raw, 1), RBLK_OK);
	raw_close(&victim.raw);
	raw_close(&agent.raw);
}

/* A queue on another reactor knows the session's name as soon as IDENTIFY is answered. */
static void the_name_is_known_on_every_queue(void **state)
{
	struct reserver owner, a;
	struct raw second;

	connect_as(&owner, "a", "disk");
	assert_int_equal(REGISTER(&owner, 1), RBLK_OK);
	assert_int_equal(ACQUIRE(&owner, 1, RBLK_RESERVATION_EXCLUSIVE_ACCESS), RBLK_OK);
	for (unsigned int i = 0; i < 20; i++) {
		memset(&a, 0, sizeof(a));
		raw_init(&a.raw);
		a.raw.login.queue_count = rblk_to_le16(2);
		assert_true(raw_connect(&a.raw, server.host));
		raw_init(&second);
		second.login = a.raw.login;
		second.login.queue_index = rblk_to_le16(1);
		assert_true(raw_connect(&second, server.host));
		reserver_identify(&a.raw, "a");
		a.volume = raw_open(&a.raw, "disk");
		raw_io(&second, RBLK_OP_READ, 2, a.volume, 0, 1, BLOCK);
		assert_int_equal(raw_wait(&second, 2), RBLK_OK);
		raw_close(&second);
		raw_close(&a.raw);
	}
	raw_close(&owner.raw);
}

/* A message full of names costs no more than one: the others are to come again (C6). */
static void one_name_at_a_time(void **state)
{
	struct rblk_wire_identify who = {.software = "test"};
	struct reserver a;

	connect_as(&a, "a", "disk");
	for (unsigned int i = 0; i < 8; i++) {
		struct rblk_wire_command *command = raw_command(&a.raw, 8 * RBLK_CAPSULE_ALIGN, i);
		char *capsule = a.raw.memory + RAW_SEND + i * RBLK_CAPSULE_ALIGN;

		snprintf(who.initiator, sizeof(who.initiator), "b%u", i ? i : 7);
		memset(capsule, 0, RBLK_CAPSULE_ALIGN);
		memcpy(capsule, &who, sizeof(who));
		raw_fill(&a.raw, command, i, RBLK_OP_IDENTIFY, (uint16_t)i);
		command->flags = RBLK_CMD_CAPSULE;
		command->segment.address = rblk_to_le64(i * RBLK_CAPSULE_ALIGN);
		command->segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
	}
	raw_send(&a.raw, 8 * (RBLK_CAPSULE_ALIGN + 64));
	for (uint16_t i = 0; i < 8; i++)
		assert_int_equal(raw_wait(&a.raw, i), i % 7 ? RBLK_E_BUSY : RBLK_OK);
	assert_int_equal(REGISTER(&a, 1), RBLK_OK);
	reserver_report(&a, 4096);
	assert_string_equal(reserver_registrants(&a)[0].initiator, "b7");
	raw_close(&a.raw);
}

/* -- over restarts ----------------------------------------------------------------------------- */

static void leave_a_reservation(uint8_t flags)
{
	struct reserver a, b;

	connect_as(&a, "a", "disk");
	connect_as(&b, "b", "disk");
	assert_int_equal(REGISTER(&a, 1, .flags = flags), RBLK_OK);
	assert_int_equal(REGISTER(&b, 2), RBLK_OK);
	assert_int_equal(ACQUIRE(&a, 1, RBLK_RESERVATION_WRITE_EXCLUSIVE), RBLK_OK);
	raw_close(&a.raw);
	raw_close(&b.raw);
}

static void find_the_reservation(void)
{
	struct reserver a, b;

	connect_as(&b, "b", "disk");
	reserver_assert_may(&b, true, false);
	assert_int_equal(reserver_report(&b, 4096)->type, RBLK_RESERVATION_WRITE_EXCLUSIVE);
	assert_int_equal(rblk_le32(reserver_report(&b, 4096)->registrants), 2);
	assert_int_equal(reserver_report(&b, 4096)->persists, 1);
	assert_string_equal(reserver_registrants(&b)[0].initiator, "a");
	assert_int_equal(rblk_le64(reserver_registrants(&b)[0].key), 1);
	assert_int_equal(reserver_registrants(&b)[0].holder, 1);
	assert_int_equal(reserver_registrants(&b)[1].holder, 0);
	connect_as(&a, "a", "disk");
	reserver_assert_may(&a, true, true);
	raw_close(&a.raw);
	raw_close(&b.raw);
}

static void what_is_to_persist_persists(void **state)
{
	struct reserver a;

	leave_a_reservation(RBLK_RESERVE_PERSIST);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	start_again();
	find_the_reservation();
	e2e_daemon_kill(&server);
	start_again();
	find_the_reservation();
	/* CLEAR removes reservation and registrants. */
	connect_as(&a, "a", "disk");
	assert_int_equal(RESERVE(&a, .action = RBLK_RESERVE_CLEAR, .key = rblk_to_le64(1)),
			 RBLK_OK);
	raw_close(&a.raw);
	e2e_daemon_kill(&server);
	start_again();
	connect_as(&a, NULL, "disk");
	reserver_assert_may(&a, true, true);
	assert_int_equal(rblk_le32(reserver_report(&a, 4096)->total), 0);
	raw_close(&a.raw);
}

static void what_is_volatile_ends_with_the_daemon(void **state)
{
	struct reserver b;

	leave_a_reservation(0);
	e2e_daemon_kill(&server);
	start_again();
	connect_as(&b, "b", "disk");
	reserver_assert_may(&b, true, true);
	assert_int_equal(rblk_le32(reserver_report(&b, 4096)->total), 0);
	raw_close(&b.raw);
}

/* Without the folder, RESERVE fails if the change could not persist, and the reservation stays
 * as it was. */
static void what_cannot_be_kept_is_not_changed(void **state)
{
	char moved[80];
	struct reserver a;

	connect_as(&a, "a", "disk");
	assert_int_equal(REGISTER(&a, 1, .flags = RBLK_RESERVE_PERSIST), RBLK_OK);
	snprintf(moved, sizeof(moved), "%s.away", kept);
	assert_int_equal(rename(kept, moved), 0);
	assert_int_equal(ACQUIRE(&a, 1, 1), RBLK_E_IO);
	e2e_daemon_log_wait(&server, "a reservation cannot be saved", 1);
	assert_int_equal(reserver_report(&a, 4096)->type, 0);
	assert_int_equal(rename(moved, kept), 0);
	assert_int_equal(ACQUIRE(&a, 1, 1), RBLK_OK);
	assert_int_equal(reserver_report(&a, 4096)->type, 1);
	raw_close(&a.raw);
}

/* -- retries, limits, malformed requests
 * ------------------------------------------------------------------- */

static void a_retry_gets_its_first_answer(void **state)
{
	const struct rblk_wire_reservation enter = {.action = RBLK_RESERVE_REGISTER,
						    .new_key = rblk_to_le64(1)};
	struct reserver a, b;

	connect_as(&a, "a", "disk");
	connect_as(&b, "b", "disk");
	assert_int_equal(REGISTER(&b, 2), RBLK_OK);
	reserver_begin(&a, &enter, 1, 0);
	assert_int_equal(raw_wait(&a.raw, 5), RBLK_OK);
	assert_int_equal(RESERVE(&b, .action = RBLK_RESERVE_PREEMPT, .key = rblk_to_le64(2),
				 .other_key = rblk_to_le64(1), .type = 1),
			 RBLK_OK);
	/* The retry does not register it again: the first request was answered before it was
	 * removed. */
	reserver_begin(&a, &enter, 1, RBLK_CMD_RETRY);
	assert_int_equal(raw_wait(&a.raw, 5), RBLK_OK);
	assert_int_equal(rblk_le32(reserver_report(&b, 4096)->total), 1);
	/* The same operation number for a new command is an error. */
	reserver_begin(&a, &enter, 1, 0);
	assert_int_equal(raw_wait(&a.raw, 5), RBLK_E_INVALID);
	raw_close(&a.raw);
	raw_close(&b.raw);
}

static void one_host_leaves_room_for_others(void **state)
{
	enum rblk_status status = RBLK_OK;
	unsigned int count = 0;
	char name[16];
	struct reserver greedy, other;

	connect_as(&greedy, "first", "disk");
	while (status == RBLK_OK && count < 1000) {
		snprintf(name, sizeof(name), "name%u", count++);
		reserver_identify(&greedy.raw, name);
		status = REGISTER(&greedy, 7);
	}
	assert_int_equal(status, RBLK_E_NO_RESOURCES);
	source_address = "127.0.0.9";
	connect_as(&other, "other", "disk");
	source_address = NULL;
	assert_int_equal(REGISTER(&other, 8), RBLK_OK);
	/* The report contains as many registrants as fit. */
	assert_int_equal(rblk_le32(reserver_report(&other, 16)->registrants), 0);
	assert_int_equal(rblk_le32(reserver_report(&other, 16)->total), count);
	assert_int_equal(rblk_le32(reserver_report(&other, 16 + 80 + 79)->registrants), 1);
	assert_int_equal(rblk_le64(other.raw.last[6].result), 96);
	raw_close(&greedy.raw);
	raw_close(&other.raw);
}

static void what_makes_no_sense_is_refused(void **state)
{
	static const struct rblk_wire_reservation wrong[] = {
		{.action = 0},
		{.action = RBLK_RESERVE_CLEAR + 1},
		{.action = RBLK_RESERVE_ACQUIRE},
		{.action = RBLK_RESERVE_ACQUIRE, .type = 7},
		{.action = RBLK_RESERVE_REGISTER, .new_key = 1, .type = 1},
		{.action = RBLK_RESERVE_REGISTER, .new_key = 1, .flags = 0x10},
		{.action = RBLK_RESERVE_REGISTER, .new_key = 1, .reserved = {1}},
		{.action = RBLK_RESERVE_PREEMPT, .type = 1, .new_key = 1},
		{.action = RBLK_RESERVE_CLEAR, .flags = RBLK_RESERVE_ABORT},
	};
	struct reserver a, nobody;

	connect_as(&a, "a", "disk");
	connect_as(&nobody, NULL, "disk");
	for (unsigned int i = 0; i < UNIT_LENGTH(wrong); i++) {
		reserver_begin(&a, &wrong[i], ++a.operation, 0);
		assert_int_equal(raw_wait(&a.raw, 5), RBLK_E_INVALID);
	}
	assert_int_equal(REGISTER(&nobody, 1), RBLK_E_DENIED);
	a.volume ^= 1u << 20;
	assert_int_equal(REGISTER(&a, 1), RBLK_E_NO_VOLUME);
	a.volume ^= 1u << 20;
	assert_int_equal(rblk_le32(reserver_report(&a, 4096)->total), 0);
	assert_int_equal(REGISTER(&a, 1), RBLK_OK);
	raw_close(&a.raw);
	raw_close(&nobody.raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_type_keeps_out_whom_it_says, start, stop),
		cmocka_unit_test_setup_teardown(in_memory_too, start, stop),
		cmocka_unit_test_setup_teardown(preempt_waits_for_the_store, start_slow, stop),
		cmocka_unit_test_setup_teardown(preempt_and_abort_waits_for_the_store, start_slow,
						stop),
		cmocka_unit_test_setup_teardown(preempt_waits_for_lost_connections, start_slow,
						stop),
		cmocka_unit_test_setup_teardown(preempt_waits_for_who_changed_its_name, start_slow,
						stop),
		cmocka_unit_test_setup_teardown(acquire_waits_for_the_store, start_slow, stop),
		cmocka_unit_test_setup_teardown(the_name_is_known_on_every_queue, start, stop),
		cmocka_unit_test_setup_teardown(one_name_at_a_time, start, stop),
		cmocka_unit_test_setup_teardown(what_is_to_persist_persists, start, stop),
		cmocka_unit_test_setup_teardown(what_is_volatile_ends_with_the_daemon, start, stop),
		cmocka_unit_test_setup_teardown(what_cannot_be_kept_is_not_changed, start, stop),
		cmocka_unit_test_setup_teardown(a_retry_gets_its_first_answer, start, stop),
		cmocka_unit_test_setup_teardown(one_host_leaves_room_for_others, start, stop),
		cmocka_unit_test_setup_teardown(what_makes_no_sense_is_refused, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
