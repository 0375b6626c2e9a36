/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host that breaks the rules loses its connection and nothing more: whatever is wrong with a PDU, the
 * target says so (or only closes), goes on, and a well-behaved host beside it notices nothing. Method: a session that
 * writes and reads after each mischief of another; silent and half connections by the hundred.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"

#define BLOCK 512u
#define ENTRIES 4u

static struct e2e_daemon server;
static struct e2e_file file;
static char address[64], nqn[NVME_NQN_BYTES];
static struct nvme_host admin, io;

static void connect_both(struct nvme_host *first, struct nvme_host *second, uint16_t entries)
{
	assert_int_equal(nvme_host_connect(first, address, nqn, NVME_HOST_NQN, 0, 32), NVME_OK);
	nvme_host_enable(first);
	second->controller = first->controller;
	assert_int_equal(nvme_host_connect(second, address, nqn, NVME_HOST_NQN, 1, entries), NVME_OK);
}

static int start(void **state)
{
	(void)state;
	e2e_disk_start(&server, &file, "nvme+tcp://127.0.0.1:0");
	e2e_daemon_second_host(&server, address);
	nvme_host_discover(address, nqn);
	admin.host_id = io.host_id = 1; /* the others are another host */
	connect_both(&admin, &io, 128);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	nvme_host_close(&io);
	nvme_host_close(&admin);
	return e2e_disk_stop(&server, &file);
}

static void others_are_served(void)
{
	uint8_t data[16 * BLOCK], back[16 * BLOCK] = {0};

	env_random(data, sizeof(data));
	assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_R2T, 0, 15, data, sizeof(data)), NVME_OK);
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 0, 15, back, sizeof(back)), NVME_OK);
	assert_memory_equal(back, data, sizeof(data));
}

/* -- PDUs ---------------------------------------------------------------------------------------- */

struct mischief {
	struct nvme_pdu_data pdu; /* as much of it as there is in any PDU */
	uint32_t zeroes;	  /* that follow */
	int answer;		  /* the type of the last PDU; -1: there is none */
};

#define PDU(t, f, h, o, b)                                                                       \
	{                                                                                        \
		.type = (t), .flags = (f), .header_bytes = (h), .data_offset = (o), .bytes = (b) \
	}

static void wrong_pdus_end_the_connection(void **state)
{
	static const struct mischief all[] = {
		{{.pdu = PDU(0x08, 0, 24, 0, 24)}, 0, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_IC_REQ, 0, 128, 0, 128)}, 104, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_RESPONSE, 0, 24, 0, 24)}, 0, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_C2H_DATA, 0, 24, 24, 32)}, 8, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_COMMAND, 1, 72, 0, 72)}, 48, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_COMMAND, 0, 71, 0, 72)}, 48, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_COMMAND, 0, 72, 0, 8)}, 48, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_COMMAND, 0, 72, 0, 584)}, 512, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_COMMAND, 0, 72, 70, 584)}, 512, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_COMMAND, 0, 72, 252, 584)}, 512, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_COMMAND, 0, 72, 72, 72 + 8193)}, 48, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_COMMAND, 0, 72, 72, 0xffffffff)}, 48, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_H2C_DATA, 4, 24, 24, 536), .length = 512}, 512, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_H2C_DATA, 4, 24, 24, 536), .transfer = 0x7fff, .length = 512},
		 512,
		 NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_H2C_DATA, 4, 24, 24, 536), .transfer = 0x8000, .length = 512},
		 512,
		 NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_H2C_DATA, 4, 24, 24, 536), .transfer = 0xffff, .length = 512},
		 512,
		 NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_H2C_DATA, 4, 24, 24, 24)}, 0, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_H2C_DATA, 4, 24, 24, 536), .length = 511}, 512, NVME_PDU_C2H_TERM},
		{{.pdu = PDU(NVME_PDU_H2C_TERM, 0, 24, 0, 24)}, 0, -1},
	};
	static const char zeroes[1024];

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		struct nvme_host first = {.fd = -1}, second = {.fd = -1};

		connect_both(&first, &second, 16);
		nvme_host_write(second.fd, &all[i].pdu, sizeof(all[i].pdu));
		if (all[i].zeroes)
			nvme_host_write(second.fd, zeroes, all[i].zeroes);
		assert_int_equal(nvme_host_ended(second.fd), all[i].answer);
		nvme_host_close(&first);
	}
	others_are_served();
}

/* -- R2T ----------------------------------------------------------------------------------------- */

/* A write whose data is asked for: the R2T. */
static struct nvme_pdu_data asked(struct nvme_host *host)
{
	struct nvme_host_command write = {.way = NVME_HOST_R2T, .bytes = 2 * BLOCK};
	struct nvme_pdu_data r2t;

	write.command.opcode = NVME_WRITE;
	write.command.namespace = rblk_to_le32(1);
	write.command.word[2] = rblk_to_le32(1);
	nvme_host_send(host, &write);
	assert_int_equal(recv(host->fd, &r2t, sizeof(r2t), MSG_WAITALL), sizeof(r2t));
	assert_int_equal(r2t.pdu.type, NVME_PDU_R2T);
	return r2t;
}

static void wrong_data_ends_the_connection(void **state)
{
	static const struct {
		uint32_t offset, length;
		uint16_t command, transfer; /* exclusive or */
		uint8_t flags;
	} all[] = {
		{512, 512, 0, 0, 0},
		{0, 1536, 0, 0, NVME_PDU_LAST},
		{0, 512, 0, 0, NVME_PDU_LAST},
		{0, 1024, 0, 0, 0},
		{0, 1024, 1, 0, NVME_PDU_LAST},
		{0, 1024, 0, 1, NVME_PDU_LAST},
		{0xfffffe00, 1024, 0, 0, NVME_PDU_LAST},
	};
	static const char zeroes[2048];

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		struct nvme_host first = {.fd = -1}, second = {.fd = -1};
		struct nvme_pdu_data pdu;

		connect_both(&first, &second, 16);
		pdu = asked(&second);
		pdu.pdu = (struct nvme_pdu)PDU(NVME_PDU_H2C_DATA, all[i].flags, 24, 24, 24 + all[i].length);
		pdu.command ^= all[i].command;
		pdu.transfer ^= all[i].transfer;
		pdu.offset = all[i].offset;
		pdu.length = all[i].length;
		nvme_host_write(second.fd, &pdu, sizeof(pdu));
		nvme_host_write(second.fd, zeroes, all[i].length);
		assert_int_equal(nvme_host_ended(second.fd), NVME_PDU_C2H_TERM);
		nvme_host_close(&first);
	}
	others_are_served();
}

/* -- digests ------------------------------------------------------------------------------------- */

static void wrong_header_digests_end_the_connection(void **state)
{
	struct nvme_host_command alive = {.way = NVME_HOST_NONE};
	struct nvme_host first = {.digests = NVME_DIGEST_HEADER, .damage = NVME_DIGEST_HEADER}, second = first;
	struct nvme_pdu_term term;
	struct nvme_pdu_data pdu;

	(void)state;
	alive.command.opcode = NVME_KEEP_ALIVE;
	/* Of Connect. */
	nvme_host_greet_with(&first, address);
	nvme_host_send(&first, &alive);
	nvme_host_write(first.fd, &(char[sizeof(struct nvme_connect)]){0}, sizeof(struct nvme_connect));
	assert_int_equal(nvme_host_ended(first.fd), NVME_PDU_C2H_TERM);
	/* Of a command. */
	second.damage = 0;
	connect_both(&first, &second, 16);
	first.damage = NVME_DIGEST_HEADER;
	nvme_host_send(&first, &alive);
	assert_int_equal(recv(first.fd, &term, sizeof(term), MSG_WAITALL), sizeof(term));
	assert_int_equal(term.pdu.type, NVME_PDU_C2H_TERM);
	assert_int_equal(rblk_le16(term.status), NVME_FATAL_DIGEST);
	assert_int_equal(nvme_host_ended(first.fd), -1);
	assert_int_equal(nvme_host_ended(second.fd), -1);
	/* Of data: nothing of it is stored. */
	connect_both(&first, &second, 16);
	pdu = asked(&second);
	assert_int_equal(recv(second.fd, &term, 4, MSG_WAITALL), 4);
	pdu.pdu = (struct nvme_pdu){.type = NVME_PDU_H2C_DATA, .flags = NVME_PDU_LAST, .header_bytes = sizeof(pdu)};
	second.damage = NVME_DIGEST_HEADER;
	nvme_host_send_pdu(&second, &pdu.pdu, &(char[2 * BLOCK]){0}, 2 * BLOCK);
	assert_int_equal(nvme_host_ended(second.fd), NVME_PDU_C2H_TERM);
	nvme_host_close(&first);
	others_are_served();
}

static void a_wrong_digest_of_connect_refuses_it(void **state)
{
	struct nvme_host first = {.digests = 3, .damage = NVME_DIGEST_DATA};

	(void)state;
	assert_int_equal(nvme_host_connect(&first, address, nqn, NVME_HOST_NQN, 0, 32), NVME_TRANSPORT);
	assert_int_equal(nvme_host_connect(&first, address, nqn, NVME_HOST_NQN, 0, 32), NVME_OK);
	nvme_host_close(&first);
}

/* Digests that are there or not there as it was not agreed, and PDUs too short for them. */
static void digests_that_were_not_agreed_end_it(void **state)
{
	static const struct {
		uint8_t digests; /* agreed */
		struct nvme_pdu pdu;
		uint32_t zeroes;
	} all[] = {
		{0, PDU(NVME_PDU_COMMAND, 1, 72, 0, 76), 68},
		{0, PDU(NVME_PDU_COMMAND, 2, 72, 72, 588), 580},
		{1, PDU(NVME_PDU_COMMAND, 0, 72, 0, 76), 68},
		{1, PDU(NVME_PDU_COMMAND, 1, 72, 0, 72), 68},
		{1, PDU(NVME_PDU_COMMAND, 1, 72, 0, 75), 68},
		{1, PDU(NVME_PDU_COMMAND, 1, 72, 72, 588), 580},
		{1, PDU(NVME_PDU_COMMAND, 3, 72, 76, 592), 584},
		{2, PDU(NVME_PDU_COMMAND, 2, 72, 0, 72), 64},
		{2, PDU(NVME_PDU_COMMAND, 0, 72, 72, 588), 580},
		{2, PDU(NVME_PDU_COMMAND, 2, 72, 72, 76), 68},
		{2, PDU(NVME_PDU_COMMAND, 2, 72, 72, 73), 65},
		{3, PDU(NVME_PDU_COMMAND, 3, 72, 76, 77), 69},
		{3, PDU(NVME_PDU_COMMAND, 3, 72, 76, 80), 72},
		{3, PDU(NVME_PDU_COMMAND, 3, 72, 76, 76 + 8192 + 5), 72},
		{3, PDU(NVME_PDU_H2C_DATA, 7, 24, 28, 32), 24},
	};
	static const char zeroes[1024];

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		struct nvme_host first = {.digests = all[i].digests}, second = first;

		connect_both(&first, &second, 16);
		nvme_host_write(second.fd, &all[i].pdu, sizeof(all[i].pdu));
		nvme_host_write(second.fd, zeroes, all[i].zeroes);
		assert_int_equal(nvme_host_ended(second.fd), NVME_PDU_C2H_TERM);
		nvme_host_close(&first);
	}
	others_are_served();
}

/* -- commands ------------------------------------------------------------------------------------ */

static void more_commands_than_entries_end_it(void **state)
{
	struct nvme_host first = {.fd = -1}, second = {.fd = -1};

	(void)state;
	connect_both(&first, &second, ENTRIES);
	/* None of them gets its data. */
	for (unsigned int i = 0; i <= ENTRIES; i++) {
		struct nvme_host_command write = {.way = NVME_HOST_R2T, .bytes = BLOCK};

		write.command.opcode = NVME_WRITE;
		write.command.namespace = rblk_to_le32(1);
		nvme_host_send(&second, &write);
	}
	assert_int_equal(nvme_host_ended(second.fd), NVME_PDU_C2H_TERM);
	nvme_host_close(&first);
	others_are_served();
}

static void events_wait_and_are_bounded(void **state)
{
	struct nvme_host_command event = {.way = NVME_HOST_NONE}, alive = {.way = NVME_HOST_NONE};
	struct nvme_host first = {.fd = -1};

	(void)state;
	assert_int_equal(nvme_host_connect(&first, address, nqn, NVME_HOST_NQN, 0, 32), NVME_OK);
	event.command.opcode = NVME_ASYNC_EVENT;
	for (int i = 0; i < 4; i++)
		nvme_host_send(&first, &event);
	alive.command.opcode = NVME_KEEP_ALIVE;
	assert_int_equal(nvme_host_run(&first, &alive), NVME_OK);
	assert_int_equal(nvme_host_run(&first, &event), NVME_TOO_MANY_EVENTS);
	nvme_host_close(&first);
}

/* -- before Connect ------------------------------------------------------------------------------ */

static void nonsense_is_dropped(void **state)
{
	unsigned char bytes[128];

	(void)state;
	for (int i = 0; i < 100; i++) {
		int fd = i % 2 ? nvme_host_greet(address) : nvme_host_dial(address);

		env_random(bytes, sizeof(bytes));
		bytes[0] |= 0x10;
		bytes[4] = 0;
		for (int j = 0; j < (i % 2 ? 9 : 1); j++)
			if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) < 0)
				break;
		assert_int_equal(nvme_host_ended(fd), -1);
	}
	others_are_served();
}

static void a_flood_leaves_room(void **state)
{
	struct nvme_host first = {.fd = -1}, second = {.fd = -1};
	int fds[300];

	(void)state;
	for (int i = 0; i < 300; i++)
		fds[i] = i % 2 ? nvme_host_dial(address) : nvme_host_greet(address);
	connect_both(&first, &second, 16);
	others_are_served();
	nvme_host_close(&first);
	nvme_host_close(&second);
	for (int i = 0; i < 300; i++)
		close(fds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_pdus_end_the_connection),
		cmocka_unit_test(wrong_data_ends_the_connection),
		cmocka_unit_test(wrong_header_digests_end_the_connection),
		cmocka_unit_test(a_wrong_digest_of_connect_refuses_it),
		cmocka_unit_test(digests_that_were_not_agreed_end_it),
		cmocka_unit_test(more_commands_than_entries_end_it),
		cmocka_unit_test(events_wait_and_are_bounded),
		cmocka_unit_test(nonsense_is_dropped),
		cmocka_unit_test(a_flood_leaves_room),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
