/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host whose name has a secret proves it, by each hash and group, and does nothing before on any of its
 * queues; the target proves itself to a host that asks; one secret serves both protocols, in both of NVMe's forms, and
 * while it is changed; it may be proven again under I/O; who has none is not asked. Method: DH-HMAC-CHAP by hand.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_chap_host.h"
#include "tests/e2e/secret_file.h"

#define BLOCK 512u
#define SUBSYSTEM NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101"
#define OTHER_NQN NVME_UUID_PREFIX "00000000-0000-0000-0000-00000000000b"

static struct e2e_daemon server;
static char folder[64], address[64];
static struct nvme_chap_host right[2]; /* either of the name's two secrets */

static int start(void **state)
{
	char path[80], config[80];
	struct rblk_secrets *secrets;

	(void)state;
	e2e_folder_create(folder);
	snprintf(path, sizeof(path), "%s/key", folder);
	snprintf(config, sizeof(config), "%s/conf", folder);
	rblk_secrets_put(secret_file_make(path, "w"));
	secrets = secret_file_make(path, "a");
	for (unsigned int i = 0; i < 2; i++) {
		right[i] = (struct nvme_chap_host){.subsystem = SUBSYSTEM, .hashes = 3, .groups = 6,
						   .hash = {1, 2, 3}, .group = {0, 1, 2, 3, 4, 5}};
		memcpy(right[i].key, rblk_secrets_bytes(secrets, i), sizeof(right[i].key));
		rblk_nvme_derive(secrets, i, right[i].target_key);
	}
	rblk_secrets_put(secrets);
	unit_file_write(config,
			"[volume disk]\nstore = memory\nsize = 1M\nuuid = 01010101-0101-0101-0101-010101010101\n"
			"[initiator uuid:00000000-0000-0000-0000-00000000000a]\nsecret = %s\nwrite = disk\n"
			"[initiator uuid:00000000-0000-0000-0000-00000000000b]\naddress = 127.0.0.0/8\nread = disk\n",
			path);
	e2e_daemon_start(&server, "--listen", "nvme+tcp://127.0.0.1:0", "--config", config, "--reactors", "2", NULL);
	e2e_daemon_second_host(&server, address);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_folder_remove(folder);
	return e2e_daemon_stop(&server);
}

static void connect_queue(struct nvme_host *host, uint16_t queue)
{
	assert_int_equal(nvme_host_connect(host, address, SUBSYSTEM, NVME_HOST_NQN, queue, queue ? 16 : 32), NVME_OK);
	assert_true(host->authenticates);
}

static void write_and_read(struct nvme_host *io)
{
	uint8_t data[BLOCK], back[BLOCK];

	env_random(data, sizeof(data));
	assert_int_equal(nvme_host_io(io, NVME_WRITE, NVME_HOST_CAPSULE, 0, 0, data, BLOCK), NVME_OK);
	assert_int_equal(nvme_host_io(io, NVME_READ, NVME_HOST_IN, 0, 0, back, BLOCK), NVME_OK);
	assert_memory_equal(data, back, BLOCK);
}

static void connect_both(struct nvme_host *admin, struct nvme_host *io, struct nvme_chap_host *chap)
{
	connect_queue(admin, 0);
	assert_true(nvme_chap_run(admin, chap));
	nvme_host_enable(admin);
	io->controller = admin->controller;
	connect_queue(io, 1);
	assert_true(nvme_chap_run(io, chap));
}

static void close_both(struct nvme_host *admin, struct nvme_host *io)
{
	nvme_host_close(io);
	nvme_host_close(admin);
}

/*
 * A Connect whose host has not proven itself ends nobody, and none that has come later: its host has given it up.
 */
static void a_late_one_ends_nobody(void **state)
{
	struct nvme_host late = {.fd = -1}, admin = {.fd = -1}, io = {.fd = -1};
	uint8_t reply[16 + 2 * NVME_HASH_MAX + NVME_DH_MAX];
	struct nvme_chap_host chap = right[0], other;

	(void)state;
	chap.groups = 1; /* that without Diffie-Hellman: there are only ten seconds */
	other = chap;
	connect_queue(&late, 0);
	assert_true(nvme_chap_begin(&late, &chap));
	connect_both(&admin, &io, &other);
	write_and_read(&io);
	assert_int_equal(nvme_chap_send(&late, NVME_HOST_CAPSULE, reply, nvme_chap_reply(&chap, reply)), NVME_OK);
	assert_int_equal(nvme_chap_receive(&late, reply, 16), NVME_CONNECT_BUSY);
	nvme_host_ended(late.fd);
	write_and_read(&io);
	close_both(&admin, &io);
}

static void each_hash_and_group(void **state)
{
	struct nvme_host admin = {.fd = -1}, io = {.fd = -1};

	(void)state;
	for (uint8_t i = 0; i < 12; i++) {
		struct nvme_chap_host chap = right[0];

		chap.hashes = chap.groups = 1;
		chap.hash[0] = 1 + i % 3;
		chap.group[0] = i < 3 ? 0 : i % 6;
		chap.mutual = i & 1;
		connect_both(&admin, &io, &chap);
		assert_int_equal(chap.challenge.hash, chap.hash[0]);
		assert_int_equal(chap.challenge.group, chap.group[0]);
		write_and_read(&io);
		close_both(&admin, &io);
	}
}

static void bars_all(struct nvme_host *admin)
{
	assert_int_equal(nvme_host_admin(admin, NVME_KEEP_ALIVE, 0, 0, 0, NULL, 0), NVME_AUTH_REQUIRED);
	assert_int_equal(nvme_host_admin(admin, NVME_FABRICS, NVME_PROPERTY_GET, 0, 0, NULL, 0), NVME_AUTH_REQUIRED);
	assert_int_equal(nvme_host_admin(admin, NVME_FABRICS, NVME_PROPERTY_SET, 0, 0, NULL, 0), NVME_AUTH_REQUIRED);
	assert_int_equal(nvme_host_admin(admin, NVME_ASYNC_EVENT, 0, 0, 0, NULL, 0), NVME_AUTH_REQUIRED);
	assert_int_equal(nvme_host_admin(admin, NVME_GET_FEATURES, 0, 0, 0, NULL, 0), NVME_AUTH_REQUIRED);
}

static void nothing_goes_before(void **state)
{
	uint8_t message[16 + 2 * NVME_HASH_MAX + NVME_DH_MAX], data[BLOCK] = {0};
	struct nvme_host admin = {.fd = -1}, io = {.fd = -1};
	struct nvme_chap_host chap = right[0];
	uint32_t bytes;

	(void)state;
	connect_queue(&admin, 0);
	bars_all(&admin);
	/* Nor has it been enabled, so that there are no other queues. */
	io.controller = admin.controller;
	assert_int_equal(nvme_host_connect(&io, address, SUBSYSTEM, NVME_HOST_NQN, 1, 16), NVME_CONNECT_BUSY);
	assert_true(nvme_chap_begin(&admin, &chap));
	bars_all(&admin);
	bytes = nvme_chap_reply(&chap, message);
	assert_int_equal(nvme_chap_send(&admin, NVME_HOST_CAPSULE, message, bytes), NVME_OK);
	bars_all(&admin);
	assert_true(nvme_chap_end(&admin, &chap));
	nvme_host_enable(&admin);
	connect_queue(&io, 1);
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 0, 0, data, BLOCK), NVME_AUTH_REQUIRED);
	assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_CAPSULE, 0, 0, data, BLOCK), NVME_AUTH_REQUIRED);
	assert_int_equal(nvme_host_io(&io, NVME_FLUSH, NVME_HOST_NONE, 0, 0, NULL, 0), NVME_AUTH_REQUIRED);
	assert_true(nvme_chap_run(&io, &chap));
	write_and_read(&io);
	close_both(&admin, &io);
}

static void the_target_proves_itself(void **state)
{
	struct nvme_auth_success2 last = {.head = {.type = NVME_AUTH_DHCHAP, .id = NVME_AUTH_SUCCESS2}};
	struct nvme_auth_fail no = {
		.head = {.type = NVME_AUTH_COMMON, .id = NVME_AUTH_FAILURE2}, .reason = 1, .explanation = 1};
	struct nvme_host admin = {.fd = -1};
	struct nvme_chap_host chap = right[0];
	uint8_t message[16 + 2 * NVME_HASH_MAX + NVME_DH_MAX];

	(void)state;
	chap.mutual = true;
	for (int i = 0; i < 2; i++) {
		connect_queue(&admin, 0);
		assert_true(nvme_chap_begin(&admin, &chap));
		nvme_chap_send(&admin, NVME_HOST_CAPSULE, message, nvme_chap_reply(&chap, message));
		assert_int_equal(nvme_chap_receive(&admin, message, 128), NVME_OK);
		/* Until the host has said so it is not over. */
		bars_all(&admin);
		last.head.transaction = no.head.transaction = rblk_to_le16(chap.transaction);
		if (i) {
			assert_int_equal(nvme_chap_send(&admin, NVME_HOST_CAPSULE, &no, sizeof(no)), NVME_OK);
			assert_int_equal(nvme_host_ended(admin.fd), -1);
			continue;
		}
		assert_int_equal(nvme_chap_send(&admin, NVME_HOST_CAPSULE, &last, sizeof(last)), NVME_OK);
		nvme_host_enable(&admin);
		nvme_host_close(&admin);
	}
}

static void either_secret_in_either_form(void **state)
{
	struct nvme_host admin = {.fd = -1}, io = {.fd = -1};

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		struct nvme_chap_host chap = right[i & 1];

		chap.plain = i >> 1;
		chap.mutual = true;
		connect_both(&admin, &io, &chap);
		write_and_read(&io);
		close_both(&admin, &io);
	}
}

static void its_data_may_be_asked_for(void **state)
{
	uint8_t message[16 + 2 * NVME_HASH_MAX + NVME_DH_MAX];
	struct nvme_host admin = {.digests = 3};
	struct nvme_chap_host chap = right[0];
	uint32_t bytes;

	(void)state;
	connect_queue(&admin, 0);
	assert_true(nvme_chap_begin(&admin, &chap));
	bytes = nvme_chap_reply(&chap, message);
	assert_int_equal(nvme_chap_send(&admin, NVME_HOST_R2T, message, bytes), NVME_OK);
	assert_int_equal(admin.r2ts, 1);
	assert_true(nvme_chap_end(&admin, &chap));
	nvme_host_enable(&admin);
	nvme_host_close(&admin);
}

static void again_under_io(void **state)
{
	struct nvme_host admin = {.fd = -1}, io = {.fd = -1};
	struct nvme_chap_host chap = right[0], wrong = right[0];

	(void)state;
	connect_both(&admin, &io, &chap);
	for (unsigned int i = 0; i < 3; i++) {
		chap = right[i & 1];
		chap.mutual = i;
		assert_true(nvme_chap_begin(i < 2 ? &admin : &io, &chap));
		/* What is served goes on. */
		write_and_read(&io);
		assert_int_equal(nvme_host_admin(&admin, NVME_KEEP_ALIVE, 0, 0, 0, NULL, 0), NVME_OK);
		assert_int_equal(nvme_chap_receive(i < 2 ? &admin : &io, &wrong.challenge, 16), NVME_BAD_SEQUENCE);
		{
			uint8_t message[16 + 2 * NVME_HASH_MAX + NVME_DH_MAX];
			uint32_t bytes = nvme_chap_reply(&chap, message);

			assert_int_equal(nvme_chap_send(i < 2 ? &admin : &io, NVME_HOST_CAPSULE, message, bytes),
					 NVME_OK);
		}
		assert_true(nvme_chap_end(i < 2 ? &admin : &io, &chap));
		write_and_read(&io);
	}
	wrong = right[0];
	wrong.key[7] ^= 1;
	assert_false(nvme_chap_run(&admin, &wrong));
	assert_int_equal(nvme_host_ended(admin.fd), -1);
	assert_int_equal(nvme_host_ended(io.fd), -1);
}

/* It does not ask what has become of it: a wrong reply, and one that has broken off. */
static void again_and_wrong(void **state)
{
	struct nvme_host admin = {.fd = -1}, io = {.fd = -1}, other = {.fd = -1, .host_id = 1};
	uint8_t message[16 + 2 * NVME_HASH_MAX + NVME_DH_MAX] = {0}, data[BLOCK] = {0};
	struct nvme_chap_host chap = right[0];
	uint16_t status;

	(void)state;
	connect_both(&admin, &io, &chap);
	connect_queue(&other, 0);
	assert_true(nvme_chap_run(&other, &chap));
	assert_true(nvme_chap_begin(&other, &chap));
	assert_int_equal(nvme_chap_send(&other, NVME_HOST_CAPSULE, message, 64), NVME_OK);
	assert_int_equal(nvme_host_admin(&other, NVME_KEEP_ALIVE, 0, 0, 0, NULL, 0), NVME_AUTH_REQUIRED);
	chap.key[7] ^= 1;
	assert_true(nvme_chap_begin(&io, &chap));
	nvme_chap_send(&io, NVME_HOST_CAPSULE, message, nvme_chap_reply(&chap, message));
	do
		status = nvme_host_io(&io, NVME_WRITE, NVME_HOST_CAPSULE, 0, 0, data, BLOCK);
	while (!status);
	assert_int_equal(status, NVME_AUTH_REQUIRED);
	assert_int_equal(nvme_host_ended(io.fd), -1);
	assert_int_equal(nvme_host_ended(other.fd), -1);
	assert_int_equal(nvme_host_admin(&admin, NVME_KEEP_ALIVE, 0, 0, 0, NULL, 0), NVME_OK);
	nvme_host_close(&admin);
}

static void discovery_asks_too(void **state)
{
	struct nvme_host admin = {.fd = -1};
	struct nvme_chap_host chap = right[1];

	(void)state;
	chap.subsystem = NVME_DISCOVERY_NQN;
	chap.mutual = true;
	assert_int_equal(nvme_host_connect(&admin, address, NVME_DISCOVERY_NQN, NVME_HOST_NQN, 0, 32), NVME_OK);
	assert_true(admin.authenticates);
	assert_int_equal(nvme_host_admin(&admin, NVME_GET_LOG_PAGE, 0, 0, 0, NULL, 0), NVME_AUTH_REQUIRED);
	assert_true(nvme_chap_run(&admin, &chap));
	nvme_host_enable(&admin);
	nvme_host_close(&admin);
}

/* What Connect would be refused for comes with success1 then. */
static void no_such_subsystem(void **state)
{
	struct nvme_chap_host chap = right[0];
	struct nvme_host admin = {.fd = -1};
	uint8_t message[16 + 2 * NVME_HASH_MAX + NVME_DH_MAX];

	(void)state;
	chap.subsystem = NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010102";
	assert_int_equal(nvme_host_connect(&admin, address, chap.subsystem, NVME_HOST_NQN, 0, 32), NVME_OK);
	assert_true(nvme_chap_begin(&admin, &chap));
	nvme_chap_send(&admin, NVME_HOST_CAPSULE, message, nvme_chap_reply(&chap, message));
	assert_int_equal(nvme_chap_receive(&admin, message, 4096), NVME_CONNECT_INVALID);
	assert_int_equal(nvme_host_ended(admin.fd), -1);
}

static void who_has_none_is_not_asked(void **state)
{
	struct nvme_host admin = {.fd = -1};
	struct nvme_chap_host chap = right[0];

	(void)state;
	assert_int_equal(nvme_host_connect(&admin, address, SUBSYSTEM, OTHER_NQN, 0, 32), NVME_OK);
	assert_false(admin.authenticates);
	nvme_host_enable(&admin);
	assert_false(nvme_chap_begin(&admin, &chap));
	assert_int_equal(chap.challenge.hash, 0);
	assert_int_equal(nvme_host_ended(admin.fd), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_hash_and_group),
		cmocka_unit_test(a_late_one_ends_nobody),
		cmocka_unit_test(nothing_goes_before),
		cmocka_unit_test(the_target_proves_itself),
		cmocka_unit_test(either_secret_in_either_form),
		cmocka_unit_test(its_data_may_be_asked_for),
		cmocka_unit_test(again_under_io),
		cmocka_unit_test(again_and_wrong),
		cmocka_unit_test(discovery_asks_too),
		cmocka_unit_test(no_such_subsystem),
		cmocka_unit_test(who_has_none_is_not_asked),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
