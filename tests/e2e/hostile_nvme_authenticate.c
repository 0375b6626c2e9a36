/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no host gets in without the secret: a wrong one, replies of another exchange or queue, the target's own
 * challenge, messages in the wrong order or of wrong lengths, hashes and groups that there are not, hosts that say
 * nothing more; and those who make the target compute leave room for others. Method: one mischief a connection, and
 * the explanation that the target gives for it.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_chap_host.h"
#include "tests/e2e/secret_file.h"

#define SUBSYSTEM NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101"
#define MESSAGE_MAX (16 + 2 * NVME_HASH_MAX + NVME_DH_MAX)
#define FLOOD 60

static struct e2e_daemon server;
static char folder[64], address[64];
static struct nvme_chap_host right;
static struct nvme_host host;

static int start(void **state)
{
	char path[80], config[80];
	struct rblk_secrets *secrets;

	(void)state;
	e2e_folder_create(folder);
	snprintf(path, sizeof(path), "%s/key", folder);
	snprintf(config, sizeof(config), "%s/conf", folder);
	secrets = secret_file_make(path, "w");
	right = (struct nvme_chap_host){
		.subsystem = SUBSYSTEM, .hashes = 1, .groups = 1, .hash = {NVME_HASH_SHA384}, .group = {NVME_DH_2048}};
	memcpy(right.key, rblk_secrets_bytes(secrets, 0), sizeof(right.key));
	rblk_nvme_derive(secrets, 0, right.target_key);
	rblk_secrets_put(secrets);
	unit_file_write(config,
			"[volume disk]\nstore = memory\nsize = 1M\nuuid = 01010101-0101-0101-0101-010101010101\n"
			"[initiator uuid:00000000-0000-0000-0000-00000000000a]\nsecret = %s\nwrite = disk\n",
			path);
	e2e_daemon_start(&server, "--listen", "nvme+tcp://127.0.0.1:0", "--config", config, "--reactors", "1", NULL);
	e2e_daemon_second_host(&server, address);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_folder_remove(folder);
	return e2e_daemon_stop(&server);
}

static void dial(struct nvme_host *one, uint16_t queue)
{
	assert_int_equal(nvme_host_connect(one, address, SUBSYSTEM, NVME_HOST_NQN, queue, 16), NVME_OK);
	assert_true(one->authenticates);
}

static struct nvme_chap_host dial_and_begin(void)
{
	struct nvme_chap_host chap = right;

	dial(&host, 0);
	assert_true(nvme_chap_begin(&host, &chap));
	return chap;
}

static void say(const void *message, uint32_t bytes)
{
	assert_int_equal(nvme_chap_send(&host, NVME_HOST_CAPSULE, message, bytes), NVME_OK);
}

/* -- the secret ---------------------------------------------------------------------------------- */

static void a_wrong_secret(void **state)
{
	unsigned int denied = e2e_daemon_log_count(&server, "authentication as \"uuid:00000000");

	(void)state;
	for (uint8_t group = 0; group < 2; group++) {
		struct nvme_chap_host chap = right;
		uint8_t message[MESSAGE_MAX];

		chap.key[31] ^= 0x80;
		chap.group[0] = group;
		dial(&host, 0);
		assert_true(nvme_chap_begin(&host, &chap));
		say(message, nvme_chap_reply(&chap, message));
		assert_int_equal(nvme_chap_failure(&host), NVME_AUTH_FAILED);
	}
	/* It is counted and said as that of any other initiator. */
	e2e_daemon_log_wait(&server, "authentication as \"uuid:00000000", denied + 1);
}

/* All that a reply is of but the connection. */
static void a_reply_of_another_exchange(void **state)
{
	struct nvme_chap_host first = dial_and_begin(), second;
	uint8_t message[MESSAGE_MAX];
	uint32_t bytes = nvme_chap_reply(&first, message);
	struct nvme_auth_reply *reply = (void *)message;

	(void)state;
	say(message, bytes);
	assert_true(nvme_chap_end(&host, &first));
	nvme_host_close(&host);
	second = dial_and_begin();
	reply->head.transaction = second.challenge.head.transaction;
	say(message, bytes);
	assert_int_equal(nvme_chap_failure(&host), NVME_AUTH_FAILED);
}

static void a_reply_of_another_queue(void **state)
{
	struct nvme_chap_host chap = right, other = right;
	struct nvme_host io[2] = {{.fd = -1}, {.fd = -1}}, admin = {.fd = -1};
	uint8_t message[MESSAGE_MAX];
	uint32_t bytes;

	(void)state;
	dial(&admin, 0);
	assert_true(nvme_chap_run(&admin, &chap));
	nvme_host_enable(&admin);
	for (uint16_t i = 0; i < 2; i++) {
		io[i].controller = admin.controller;
		dial(&io[i], i + 1);
	}
	/* The first has not begun at all. */
	assert_true(nvme_chap_begin(&io[1], &other));
	chap = other;
	bytes = nvme_chap_reply(&other, message);
	assert_int_equal(nvme_chap_send(&io[0], NVME_HOST_CAPSULE, message, bytes), NVME_OK);
	assert_int_equal(nvme_chap_failure(&io[0]), NVME_AUTH_BAD_MESSAGE);
	/* The next has. */
	dial(&io[0], 3);
	assert_true(nvme_chap_begin(&io[0], &chap));
	((struct nvme_auth_reply *)message)->head.transaction = chap.challenge.head.transaction;
	assert_int_equal(nvme_chap_send(&io[0], NVME_HOST_CAPSULE, message, bytes), NVME_OK);
	assert_int_equal(nvme_chap_failure(&io[0]), NVME_AUTH_FAILED);
	nvme_host_close(&io[1]);
	nvme_host_close(&admin);
}

static void a_reflected_challenge(void **state)
{
	struct nvme_chap_host chap = dial_and_begin();
	uint8_t message[MESSAGE_MAX];
	uint32_t bytes, hash_bytes = chap.challenge.hash_bytes;

	(void)state;
	chap.mutual = true;
	bytes = nvme_chap_reply(&chap, message);
	memcpy(message + 16 + hash_bytes, chap.challenge_bytes, hash_bytes);
	say(message, bytes);
	assert_int_equal(nvme_chap_failure(&host), NVME_AUTH_BAD_PAYLOAD);
}

/* -- order --------------------------------------------------------------------------------------- */

static void messages_out_of_order(void **state)
{
	static const struct {
		uint8_t type, id;
	} all[] = {
		{NVME_AUTH_DHCHAP, NVME_AUTH_REPLY},	{NVME_AUTH_DHCHAP, NVME_AUTH_SUCCESS2},
		{NVME_AUTH_DHCHAP, NVME_AUTH_SUCCESS1}, {NVME_AUTH_DHCHAP, NVME_AUTH_CHALLENGE},
		{NVME_AUTH_COMMON, NVME_AUTH_FAILURE1}, {NVME_AUTH_DHCHAP, NVME_AUTH_NEGOTIATE},
		{NVME_AUTH_COMMON, NVME_AUTH_REPLY},	{2, NVME_AUTH_NEGOTIATE},
	};
	uint8_t message[MESSAGE_MAX], negotiation[72];
	struct nvme_chap_host chap;

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		struct nvme_auth_head *head = (void *)message;

		memset(message, 0, sizeof(message));
		head->type = all[i].type;
		head->id = all[i].id;
		dial(&host, 0);
		assert_int_equal(nvme_chap_receive(&host, negotiation, 72), NVME_BAD_SEQUENCE);
		say(message, 192);
		assert_int_equal(nvme_chap_failure(&host), NVME_AUTH_BAD_MESSAGE);
	}
	/* Twice; and with a challenge that is awaited. */
	for (int i = 0; i < 2; i++) {
		if (i) {
			chap = dial_and_begin();
		} else {
			chap = right;
			dial(&host, 0);
			say(negotiation, nvme_chap_negotiation(&chap, negotiation));
		}
		say(negotiation, nvme_chap_negotiation(&chap, negotiation));
		assert_int_equal(nvme_chap_failure(&host), NVME_AUTH_BAD_MESSAGE);
	}
	/* Success2 that nobody waits for, and a reply to what was answered already. */
	for (int i = 0; i < 2; i++) {
		struct nvme_auth_reply *reply = (void *)message;

		chap = dial_and_begin();
		say(message, nvme_chap_reply(&chap, message));
		assert_true(nvme_chap_end(&host, &chap));
		reply->head.id = i ? NVME_AUTH_SUCCESS2 : NVME_AUTH_REPLY;
		say(message, 16);
		assert_int_equal(nvme_chap_failure(&host), NVME_AUTH_BAD_MESSAGE);
	}
	/* While the target computes, or has not been asked for its answer. */
	chap = dial_and_begin();
	say(message, nvme_chap_reply(&chap, message));
	say(message, 16);
	assert_int_equal(nvme_chap_failure(&host), NVME_AUTH_BAD_MESSAGE);
}

/* -- what is in them ----------------------------------------------------------------------------- */

static void replies_that_are_none(void **state)
{
	static const struct {
		int32_t longer;
		uint8_t hash_bytes, challenges; /* exclusive or */
		uint16_t public_bytes, transaction;
	} all[] = {
		{.longer = -1},	    {.longer = 1},     {.longer = 1024},	{.longer = -256},    {.longer = -340},
		{.hash_bytes = 16}, {.challenges = 2}, {.public_bytes = 1}, {.public_bytes = 256}, {.transaction = 1},
	};
	uint8_t message[4096] = {0}, *public = message + 16 + 2 * 48;
	struct nvme_auth_reply *reply = (void *)message;

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		struct nvme_chap_host chap = dial_and_begin();
		uint32_t bytes = nvme_chap_reply(&chap, message);

		reply->hash_bytes ^= all[i].hash_bytes;
		reply->challenges ^= all[i].challenges;
		reply->public_bytes ^= rblk_to_le16(all[i].public_bytes);
		reply->head.transaction ^= rblk_to_le16(all[i].transaction);
		say(message, bytes + (uint32_t)all[i].longer);
		assert_int_equal(nvme_chap_failure(&host), NVME_AUTH_BAD_PAYLOAD);
	}
	/* A public value that is none; and a challenge without its number. */
	for (int i = 0; i < 3; i++) {
		struct nvme_chap_host chap = dial_and_begin();
		uint32_t bytes;

		chap.mutual = i == 2;
		bytes = nvme_chap_reply(&chap, message);
		if (i == 2)
			reply->sequence = 0;
		else
			memset(public, i ? 0xff : 0, 256);
		say(message, bytes);
		assert_int_equal(nvme_chap_failure(&host), NVME_AUTH_BAD_PAYLOAD);
	}
}

static void negotiations_that_lead_to_nothing(void **state)
{
	static const struct {
		uint32_t at;
		uint8_t value, failure;
		uint32_t bytes;
	} all[] = {
		{6, 1, NVME_AUTH_NO_SECURE_CHANNEL, 72}, {7, 0, NVME_AUTH_BAD_PAYLOAD, 72},
		{7, 0, NVME_AUTH_BAD_PAYLOAD, 8},	 {7, 2, NVME_AUTH_BAD_PAYLOAD, 72},
		{7, 255, NVME_AUTH_BAD_PAYLOAD, 72},	 {7, 1, NVME_AUTH_BAD_PAYLOAD, 71},
		{7, 1, NVME_AUTH_BAD_PAYLOAD, 136},	 {8, 2, NVME_AUTH_NO_PROTOCOL, 72},
		{10, 0, NVME_AUTH_NO_HASH, 72},		 {10, 31, NVME_AUTH_BAD_PAYLOAD, 72},
		{12, 4, NVME_AUTH_NO_HASH, 72},		 {12, 0, NVME_AUTH_NO_HASH, 72},
		{11, 0, NVME_AUTH_NO_GROUP, 72},	 {11, 31, NVME_AUTH_BAD_PAYLOAD, 72},
		{42, 6, NVME_AUTH_NO_GROUP, 72},	 {42, 255, NVME_AUTH_NO_GROUP, 72},
	};
	uint8_t message[256] = {0};

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		nvme_chap_negotiation(&right, message);
		message[all[i].at] = all[i].value;
		dial(&host, 0);
		say(message, all[i].bytes);
		assert_int_equal(nvme_chap_failure(&host), all[i].failure);
	}
	/* Another protocol first is none to stumble over. */
	nvme_chap_negotiation(&right, message);
	memcpy(message + 72, message + 8, 64);
	message[7] = 2;
	message[8] = 9;
	dial(&host, 0);
	say(message, 136);
	assert_int_equal(nvme_chap_receive(&host, message, 32), NVME_BAD_FIELD);
	nvme_host_close(&host);
}

static uint16_t odd(uint8_t type, uint32_t word10, uint32_t word11, enum nvme_host_way way, uint32_t bytes)
{
	static uint8_t data[8192];
	struct nvme_host_command command = {.way = way, .data = data, .bytes = bytes};

	command.command.opcode = NVME_FABRICS;
	command.command.namespace = rblk_to_le32(type);
	command.command.word[0] = rblk_to_le32(word10);
	command.command.word[1] = rblk_to_le32(word11);
	return nvme_host_run(&host, &command);
}

/* The commands themselves: refused, and the exchange goes on. */
static void commands_that_are_wrong(void **state)
{
	struct nvme_chap_host chap = right;

	(void)state;
	dial(&host, 0);
	assert_int_equal(odd(NVME_AUTH_SEND, 0xe8010100, 72, NVME_HOST_CAPSULE, 72), NVME_BAD_FIELD);
	assert_int_equal(odd(NVME_AUTH_SEND, 0xe9020100, 72, NVME_HOST_CAPSULE, 72), NVME_BAD_FIELD);
	assert_int_equal(odd(NVME_AUTH_SEND, 0xe9010000, 72, NVME_HOST_CAPSULE, 72), NVME_BAD_FIELD);
	assert_int_equal(odd(NVME_AUTH_SEND, 0xe9010100, 73, NVME_HOST_CAPSULE, 72), NVME_BAD_FIELD);
	assert_int_equal(odd(NVME_AUTH_SEND, 0xe9010100, 4, NVME_HOST_CAPSULE, 4), NVME_BAD_FIELD);
	assert_int_equal(odd(NVME_AUTH_SEND, 0xe9010100, 4100, NVME_HOST_CAPSULE, 4100), NVME_BAD_FIELD);
	assert_int_equal(odd(NVME_AUTH_SEND, 0xe9010100, 0xffffffff, NVME_HOST_R2T, 0xffffffff), NVME_BAD_FIELD);
	assert_int_equal(odd(NVME_AUTH_SEND, 0xe9010100, 0, NVME_HOST_NONE, 0), NVME_BAD_FIELD);
	assert_int_equal(odd(NVME_AUTH_RECEIVE, 0xe9010100, 72, NVME_HOST_CAPSULE, 72), NVME_BAD_SGL_TYPE);
	assert_int_equal(odd(NVME_AUTH_RECEIVE, 0xe9010100, 8192, NVME_HOST_IN, 8192), NVME_BAD_FIELD);
	assert_int_equal(odd(NVME_AUTH_RECEIVE, 0xe9010100, 4, NVME_HOST_IN, 4), NVME_BAD_FIELD);
	assert_true(nvme_chap_begin(&host, &chap));
	nvme_host_close(&host);
}

/* -- time ---------------------------------------------------------------------------------------- */

static void who_says_nothing_more_is_dropped(void **state)
{
	struct nvme_host silent = {.fd = -1}, alive = {.fd = -1};
	struct nvme_host_command command = {.way = NVME_HOST_NONE};

	(void)state;
	dial(&silent, 0);
	dial_and_begin();
	alive = host;
	/* Commands do not keep it there. */
	command.command.opcode = NVME_KEEP_ALIVE;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(nvme_host_run(&alive, &command), NVME_AUTH_REQUIRED);
		sleep(1);
	}
	assert_int_equal(nvme_host_ended(silent.fd), -1);
	assert_int_equal(nvme_host_ended(alive.fd), -1);
}

static void a_flood_of_the_dearest_leaves_room(void **state)
{
	struct nvme_host flood[FLOOD], late = {.from = 3};
	struct nvme_chap_host dear = right, chap = right;
	uint8_t message[72];

	(void)state;
	dear.group[0] = NVME_DH_8192;
	nvme_chap_negotiation(&dear, message);
	for (int i = 0; i < FLOOD; i++) {
		flood[i] = (struct nvme_host){.from = 2};
		dial(&flood[i], 0);
		assert_int_equal(nvme_chap_send(&flood[i], NVME_HOST_CAPSULE, message, 72), NVME_OK);
	}
	dial(&late, 0);
	assert_true(nvme_chap_run(&late, &chap));
	nvme_host_close(&late);
	/* They end while it is computed for them. */
	for (int i = 0; i < FLOOD; i++)
		nvme_host_close(&flood[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_secret),
		cmocka_unit_test(a_reply_of_another_exchange),
		cmocka_unit_test(a_reply_of_another_queue),
		cmocka_unit_test(a_reflected_challenge),
		cmocka_unit_test(messages_out_of_order),
		cmocka_unit_test(replies_that_are_none),
		cmocka_unit_test(negotiations_that_lead_to_nothing),
		cmocka_unit_test(commands_that_are_wrong),
		cmocka_unit_test(a_flood_of_the_dearest_leaves_room),
		cmocka_unit_test(who_says_nothing_more_is_dropped),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
