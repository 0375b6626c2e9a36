/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: COMPARE_AND_WRITE and its reply cache (F8) at the target: it writes if and only if the
 * blocks are as expected, it tells where they differ, and a command that was done is not done again
 * after the connection was lost. Method: the bare fabric against a file and against memory, with
 * the data in the capsule and by RDMA; the volume is read back after each.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"
#include "tests/sim/crc32c.h"

#define BLOCK 512u
#define LONG 256u /* blocks: more than one piece of the comparison */

static struct e2e_daemon server;
static struct e2e_file disk;
static const char *const volumes[] = {"disk", "mem"};

static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", 4 << 20);
	e2e_daemon_start(&server, "--cache", "buffered", "--memory", "mem=4M", "--null", "null=4M",
			 disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

static uint32_t rkey(const struct raw *raw)
{
	return fab_mr_rkey(raw->mr, fab_conn_device(raw->conn));
}

/* One COMPARE_AND_WRITE: each block is filled with one byte; one byte of `expected` may differ. */
struct order {
	uint64_t number;
	uint8_t flags; /* CAPSULE, RETRY, FUA, DIGEST */
	uint32_t blocks;
	char expected, written;
	uint32_t odd;	    /* index of the byte of `expected` that differs; 0: none */
	bool digest_wrong;
};

static void order_data(const struct order *order, char *data)
{
	uint32_t bytes = order->blocks * BLOCK;

	memset(data, order->expected, bytes);
	memset(data + bytes, order->written, bytes);
	if (order->odd)
		data[order->odd] ^= 1;
}

static void order_send(struct raw *raw, uint32_t volume, uint16_t tag, const struct order *order)
{
	bool capsule = order->flags & RBLK_CMD_CAPSULE;
	uint32_t length = 2 * order->blocks * BLOCK, told = capsule ? length : 0;
	struct rblk_wire_command *command = raw_command(raw, told, 0);
	char *data = raw->memory + (capsule ? RAW_SEND : RAW_DATA);

	order_data(order, data);
	raw_fill(raw, command, 0, RBLK_OP_COMPARE_AND_WRITE, tag);
	command->flags = order->flags;
	command->volume = rblk_to_le32(volume);
	command->blocks = rblk_to_le32(order->blocks);
	command->argument = rblk_to_le64(order->number);
	command->segment.length = rblk_to_le32(length);
	if (order->flags & RBLK_CMD_DIGEST)
		command->digest = rblk_to_le32(sim_crc32c(0, (const uint8_t *)data, length) +
					       order->digest_wrong);
	if (!capsule) {
		command->segment.address = rblk_to_le64((uintptr_t)data);
		command->segment.rkey = rblk_to_le32(rkey(raw));
	}
	raw_send(raw, told + 64);
}

static uint16_t order_do(struct raw *raw, uint32_t volume, const struct order *order)
{
	order_send(raw, volume, 1, order);
	return raw_wait(raw, 1);
}

static uint64_t result(const struct raw *raw)
{
	return rblk_le64(raw->last[1].result);
}

static void assert_holds(struct raw *raw, uint32_t volume, uint32_t blocks, char byte)
{
	char *data = raw->memory + RAW_DATA;

	memset(data, ~byte, blocks * BLOCK);
	raw_io(raw, RBLK_OP_READ, 2, volume, 0, blocks, blocks * BLOCK);
	assert_int_equal(raw_wait(raw, 2), RBLK_OK);
	for (uint32_t i = 0; i < blocks * BLOCK; i++)
		assert_int_equal(data[i], byte);
}

static void fill(struct raw *raw, uint32_t volume, uint32_t blocks, char byte)
{
	memset(raw->memory + RAW_DATA, byte, blocks * BLOCK);
	raw_io(raw, RBLK_OP_WRITE, 2, volume, 0, blocks, blocks * BLOCK);
	assert_int_equal(raw_wait(raw, 2), RBLK_OK);
}

static void connect_to(struct raw *raw, uint32_t features)
{
	raw_init(raw);
	raw->login.features = rblk_to_le32(features);
	assert_true(raw_connect(raw, server.host));
}

/* The connection is lost, and the next one fences it. */
static void reconnect(struct raw *raw, const char *host)
{
	struct rblk_wire_login login = raw->login;
	uint32_t incarnation = rblk_le32(login.incarnation);

	raw_close(raw);
	raw_init(raw);
	login.fence_incarnation = rblk_to_le32(incarnation);
	login.incarnation = rblk_to_le32(incarnation + 1);
	raw->login = login;
	assert_true(raw_connect(raw, host));
}

/* -- one by one -------------------------------------------------------------------------------- */

static void writes_what_was_expected_and_nothing_else(struct raw *raw, uint32_t volume,
						       uint32_t blocks, uint8_t flags)
{
	struct order order = {.number = 1, .flags = flags, .blocks = blocks, .expected = 'a',
			      .written = 'b'};

	fill(raw, volume, blocks, 'a');
	assert_int_equal(order_do(raw, volume, &order), RBLK_OK);
	assert_int_equal(result(raw), 0);
	assert_holds(raw, volume, blocks, 'b');
	/* The last byte, and the first. */
	order = (struct order){.number = 2, .flags = flags, .blocks = blocks, .expected = 'b',
			       .written = 'c', .odd = blocks * BLOCK - 1};
	assert_int_equal(order_do(raw, volume, &order), RBLK_E_COMPARE);
	assert_int_equal(result(raw), blocks * BLOCK - 1);
	order = (struct order){.number = 3, .flags = flags, .blocks = blocks, .expected = 'z',
			       .written = 'c'};
	assert_int_equal(order_do(raw, volume, &order), RBLK_E_COMPARE);
	assert_int_equal(result(raw), 0);
	assert_holds(raw, volume, blocks, 'b');
}

static void it_writes_exactly_what_was_compared(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct raw raw;
		uint32_t volume;

		connect_to(&raw, 0);
		volume = raw_open(&raw, volumes[i]);
		writes_what_was_expected_and_nothing_else(&raw, volume, LONG, 0);
		raw_close(&raw);
		connect_to(&raw, 0);
		volume = raw_open(&raw, volumes[i]);
		writes_what_was_expected_and_nothing_else(&raw, volume, 8, RBLK_CMD_CAPSULE);
		raw_close(&raw);
	}
}

static void data_that_does_not_match_its_digest_is_not_compared(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		struct order order = {.number = 1, .blocks = 8, .expected = 'a', .written = 'b',
				      .digest_wrong = true};
		uint32_t volume;
		struct raw raw;

		order.flags = (uint8_t)(RBLK_CMD_DIGEST | (i % 2 ? RBLK_CMD_CAPSULE : 0));
		connect_to(&raw, RBLK_FEATURE_DIGEST);
		volume = raw_open(&raw, volumes[i / 2]);
		fill(&raw, volume, 8, 'a');
		assert_int_equal(order_do(&raw, volume, &order), RBLK_E_DIGEST);
		assert_holds(&raw, volume, 8, 'a');
		/* Nothing was done: the operation number is still free. */
		order.digest_wrong = false;
		assert_int_equal(order_do(&raw, volume, &order), RBLK_OK);
		assert_holds(&raw, volume, 8, 'b');
		raw_close(&raw);
	}
}

static void what_a_volume_cannot_do_is_refused(void **state)
{
	const struct order order = {.number = 1, .blocks = 1, .expected = 0, .written = 'b'};
	struct order durable = order;
	struct raw raw;
	uint32_t volume;

	(void)state;
	connect_to(&raw, 0);
	volume = raw_open(&raw, "null");
	assert_int_equal(order_do(&raw, volume, &order), RBLK_E_UNSUPPORTED);
	durable.flags = RBLK_CMD_FUA;
	volume = raw_open(&raw, "mem");
	assert_int_equal(order_do(&raw, volume, &durable), RBLK_E_UNSUPPORTED);
	volume = raw_open(&raw, "disk");
	fill(&raw, volume, 1, 0);
	assert_int_equal(order_do(&raw, volume, &durable), RBLK_OK);
	assert_holds(&raw, volume, 1, 'b');
	raw_close(&raw);
}

/* -- F8 ---------------------------------------------------------------------------------------- */

static void what_was_done_is_not_done_again(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct order order = {.number = 1, .blocks = 8, .expected = 'a', .written = 'b'};
		struct raw raw;
		uint32_t volume;

		connect_to(&raw, 0);
		volume = raw_open(&raw, volumes[i]);
		fill(&raw, volume, 8, 'a');
		assert_int_equal(order_do(&raw, volume, &order), RBLK_OK);
		/* Another command restores the old blocks: if the command were done again, it
		 * would succeed and write. */
		fill(&raw, volume, 8, 'a');
		assert_int_equal(order_do(&raw, volume, &order), RBLK_E_INVALID);
		reconnect(&raw, server.host);
		order.flags = RBLK_CMD_RETRY;
		assert_int_equal(order_do(&raw, volume, &order), RBLK_OK);
		assert_holds(&raw, volume, 8, 'a');
		/* The reply cache also keeps an answer that says that they differ, with its
		 * offset. */
		order = (struct order){.number = 2, .blocks = 8, .expected = 'a', .written = 'b',
				       .odd = 700};
		assert_int_equal(order_do(&raw, volume, &order), RBLK_E_COMPARE);
		reconnect(&raw, server.host);
		order.flags = RBLK_CMD_RETRY;
		order.odd = 0;
		assert_int_equal(order_do(&raw, volume, &order), RBLK_E_COMPARE);
		assert_int_equal(result(&raw), 700);
		assert_holds(&raw, volume, 8, 'a');
		/* A command that had not begun is done now. */
		order.number = 3;
		assert_int_equal(order_do(&raw, volume, &order), RBLK_OK);
		assert_holds(&raw, volume, 8, 'b');
		raw_close(&raw);
	}
}

/* The connection is lost while the store writes: the fence waits for the write, so the retry
 * finds it done. */
static void what_was_under_way_is_answered_to_the_retry(void **state)
{
	struct order order = {.number = 1, .blocks = 8, .expected = 0, .written = 'b'};
	struct e2e_daemon slow;
	struct e2e_file file;
	uint32_t volume;
	struct raw raw;

	(void)state;
	e2e_file_create(&file, "slow", 4 << 20);
	e2e_daemon_start(&slow, "--cache", "buffered", "--fault", "delay=write:700ms", file.volume,
			 NULL);
	raw_init(&raw);
	assert_true(raw_connect(&raw, slow.host));
	volume = raw_open(&raw, "slow");
	order_send(&raw, volume, 1, &order);
	/* The answer to an ABORT sent after it shows that it has arrived. */
	assert_int_equal(raw_simple_numbers(&raw, RBLK_OP_ABORT, 3, 12345, 0), RBLK_OK);
	reconnect(&raw, slow.host);
	order.flags = RBLK_CMD_RETRY;
	assert_int_equal(order_do(&raw, volume, &order), RBLK_OK);
	assert_holds(&raw, volume, 8, 'b');
	raw_close(&raw);
	assert_int_equal(e2e_daemon_stop(&slow), 0);
	e2e_file_remove(&file);
}

/* -- ABORT ------------------------------------------------------------------------------------- */

static void abort_ends_it_before_it_writes(void **state)
{
	struct order order = {.number = 1, .blocks = 8, .expected = 0, .written = 'b'};
	struct e2e_daemon slow;
	struct e2e_file file;
	uint32_t volume;
	struct raw raw;

	(void)state;
	e2e_file_create(&file, "slow", 4 << 20);
	e2e_daemon_start(&slow, "--cache", "buffered", "--fault", "delay=read:500ms", file.volume,
			 NULL);
	raw_init(&raw);
	assert_true(raw_connect(&raw, slow.host));
	volume = raw_open(&raw, "slow");
	/* The first one reads; the second one waits for it. */
	order_send(&raw, volume, 1, &order);
	order.number = 2;
	order_send(&raw, volume, 3, &order);
	assert_int_equal(raw_simple_numbers(&raw, RBLK_OP_ABORT, 10, raw.sequence - 1, 0), RBLK_OK);
	assert_int_equal(rblk_le64(raw.last[10].result), 1);
	assert_int_equal(raw_wait(&raw, 3), RBLK_E_ABORTED);
	assert_int_equal(raw_simple_numbers(&raw, RBLK_OP_ABORT, 10, raw.sequence - 3, 0), RBLK_OK);
	assert_int_equal(rblk_le64(raw.last[10].result), 1);
	assert_int_equal(raw_wait(&raw, 1), RBLK_E_ABORTED);
	assert_holds(&raw, volume, 8, 0);
	/* Neither operation number was used. */
	assert_int_equal(order_do(&raw, volume, &order), RBLK_OK);
	assert_holds(&raw, volume, 8, 'b');
	raw_close(&raw);
	assert_int_equal(e2e_daemon_stop(&slow), 0);
	e2e_file_remove(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_writes_exactly_what_was_compared),
		cmocka_unit_test(data_that_does_not_match_its_digest_is_not_compared),
		cmocka_unit_test(what_a_volume_cannot_do_is_refused),
		cmocka_unit_test(what_was_done_is_not_done_again),
		cmocka_unit_test(what_was_under_way_is_answered_to_the_retry),
		cmocka_unit_test(abort_ends_it_before_it_writes),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
