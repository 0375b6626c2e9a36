/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host comes by TLS with a key of its name's secret, is asked for nothing more, and its data is right;
 * who has another key, another name or another subsystem than it has proven, an older TLS, or none where it is asked of
 * everyone, gets nothing, and the log says why; a secret that is taken away ends what it has let in; silent peers end,
 * and a flood of them keeps nobody out. Method: OpenSSL's client below an NVMe host; bytes by hand for those who do not
 * speak TLS.
 */
#include "tests/unit/unit.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "proto/secret/secret.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_chap_host.h"
#include "tests/e2e/nvme_tls_relay.h"
#include "tests/e2e/secret_file.h"

#define BLOCK 512u
#define MUCH (96u << 10)
#define SUBSYSTEM NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101"
#define NAME "uuid:00000000-0000-0000-0000-00000000000a" /* NVME_HOST_NQN */
#define OTHER "uuid:00000000-0000-0000-0000-00000000000b"
#define OTHER_NQN NVME_STANDARD_PREFIX OTHER
#define FLOOD 100

static struct e2e_daemon server;
static char folder[64], address[64], config[80];
static struct rblk_secrets *secrets; /* both of the host's */
static struct nvme_tls_relay relay;

static void config_write(const char *secret)
{
	unit_file_write(config,
			"[volume disk]\nstore = memory\nsize = 1M\nuuid = 01010101-0101-0101-0101-010101010101\n"
			"[initiator " NAME "]\nsecret = %s/%s\nwrite = disk\n"
			"[initiator " OTHER "]\naddress = 127.0.0.0/8\nread = disk\n",
			folder, secret);
}

static void daemon_start(const char *tls)
{
	e2e_daemon_start(&server, "--listen", "nvme+tcp://127.0.0.1:0", "--config", config, "--reactors", "2",
			 "--tls", tls, NULL);
	e2e_daemon_second_host(&server, address);
	snprintf(relay.target, sizeof(relay.target), "%s", address);
}

static int start(void **state)
{
	char path[80], error[RBLK_SECRET_ERROR_BYTES];

	(void)state;
	e2e_folder_create(folder);
	snprintf(config, sizeof(config), "%s/conf", folder);
	snprintf(path, sizeof(path), "%s/other", folder);
	rblk_secrets_put(secret_file_make(path, "w"));
	snprintf(path, sizeof(path), "%s/key", folder);
	rblk_secrets_put(secret_file_make(path, "w"));
	rblk_secrets_put(secret_file_make(path, "a"));
	secrets = rblk_secrets_read(path, error);
	assert_non_null(secrets);
	config_write("key");
	daemon_start("auto");
	nvme_tls_relay_start(&relay, address);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	rblk_secrets_put(secrets);
	e2e_folder_remove(folder);
	return e2e_daemon_stop(&server);
}

static void key_set(const char *host, const char *subsystem, unsigned int secret, unsigned int version,
		    unsigned int form)
{
	nvme_tls_key_make(&relay.key, rblk_secrets_bytes(secrets, secret), host, subsystem, version, form);
}

static uint16_t connect_queue(struct nvme_host *host, uint16_t queue)
{
	return nvme_host_connect(host, relay.address, SUBSYSTEM, NVME_HOST_NQN, queue, queue ? 16 : 32);
}

static void connect_both(struct nvme_host *admin, struct nvme_host *io)
{
	assert_int_equal(connect_queue(admin, 0), NVME_OK);
	assert_false(admin->authenticates);
	nvme_host_enable(admin);
	io->controller = admin->controller;
	assert_int_equal(connect_queue(io, 1), NVME_OK);
	assert_false(io->authenticates);
}

static void each_way_in(void **state)
{
	uint8_t *data = malloc(MUCH), *back = malloc(MUCH);

	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		struct nvme_host admin = {.fd = -1}, io = {.digests = i & 1 ? 3 : 0};
		uint32_t bytes = i & 1 ? MUCH : BLOCK;

		key_set(NVME_HOST_NQN, SUBSYSTEM, i & 1, i >> 1 & 1, i >> 2 ? NVME_TLS_OLD : 0);
		connect_both(&admin, &io);
		env_random(data, bytes);
		assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_R2T, 0, bytes / BLOCK - 1, data, bytes),
				 NVME_OK);
		assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 0, bytes / BLOCK - 1, back, bytes),
				 NVME_OK);
		assert_memory_equal(data, back, bytes);
		nvme_host_close(&io);
		nvme_host_close(&admin);
	}
	e2e_daemon_log_wait(&server, "initiator " NAME " has proven its name, by TLS", 8);
	free(data);
	free(back);
}

static void what_is_proven_is_what_counts(void **state)
{
	struct nvme_host host = {.fd = -1};

	(void)state;
	key_set(NVME_HOST_NQN, SUBSYSTEM, 0, 1, 0);
	assert_int_equal(nvme_host_connect(&host, relay.address, SUBSYSTEM, OTHER_NQN, 0, 32), NVME_CONNECT_HOST);
	assert_int_equal(nvme_host_connect(&host, relay.address, NVME_DISCOVERY_NQN, NVME_HOST_NQN, 0, 32),
			 NVME_CONNECT_HOST);
	assert_int_equal(nvme_host_connect(&host, relay.address, NVME_UUID_PREFIX "01010101-0101-0101-0101-01010101010",
					   NVME_HOST_NQN, 0, 32),
			 NVME_CONNECT_HOST);
	/* A subsystem that is none. */
	key_set(NVME_HOST_NQN, "nqn.none", 0, 0, 0);
	assert_int_equal(nvme_host_connect(&host, relay.address, "nqn.none", NVME_HOST_NQN, 0, 32),
			 NVME_CONNECT_INVALID);
}

static void nobody_else_gets_in(void **state)
{
	uint8_t wrong[RBLK_SECRET_BYTES];
	struct nvme_tls_key key;

	(void)state;
	env_random(wrong, sizeof(wrong));
	nvme_tls_key_make(&key, wrong, NVME_HOST_NQN, SUBSYSTEM, 1, 0);
	assert_false(nvme_tls_try(address, &key, TLS1_3_VERSION));
	e2e_daemon_log_wait(&server, "refused: host \"" NAME "\" has another secret here", 1);
	nvme_tls_key_make(&key, wrong, OTHER_NQN, SUBSYSTEM, 0, 0);
	assert_false(nvme_tls_try(address, &key, TLS1_3_VERSION));
	e2e_daemon_log_wait(&server, "refused: host \"" OTHER "\" has no secret here", 1);
	snprintf(key.identity, sizeof(key.identity), "rblk1/db1/0123456789abcdef");
	assert_false(nvme_tls_try(address, &key, TLS1_3_VERSION));
	e2e_daemon_log_wait(&server, "refused: it does not name itself as NVMe hosts do", 1);
	assert_false(nvme_tls_try(address, &key, TLS1_2_VERSION));
	e2e_daemon_log_wait(&server, "refused: TLS handshake failed: ", 1);
}

/* The first entry of the discovery log page: what it says of TLS. */
static unsigned int discovered(const char *at, bool authenticates)
{
	struct {
		struct nvme_discovery header;
		struct nvme_discovery_entry entry;
	} page = {0};
	struct nvme_host_command command = {.way = NVME_HOST_IN, .data = &page, .bytes = sizeof(page)};
	struct nvme_host host = {.fd = -1};

	assert_int_equal(nvme_host_connect(&host, at, NVME_DISCOVERY_NQN, NVME_HOST_NQN, 0, 32), NVME_OK);
	assert_int_equal(host.authenticates, authenticates);
	if (authenticates)
		return 0;
	nvme_host_enable(&host);
	command.command.opcode = NVME_GET_LOG_PAGE;
	command.command.word[0] = rblk_to_le32((uint32_t)(sizeof(page) / 4 - 1) << 16 | NVME_LOG_DISCOVERY);
	assert_int_equal(nvme_host_run(&host, &command), NVME_OK);
	assert_int_equal(rblk_le64(page.header.records), 1);
	nvme_host_close(&host);
	return page.entry.requirements << 8 | page.entry.specific[0];
}

static void discovery_tells_who_comes_by_it(void **state)
{
	(void)state;
	key_set(NVME_HOST_NQN, NVME_DISCOVERY_NQN, 1, 1, 0);
	assert_int_equal(discovered(relay.address, false), 0x102);
	assert_int_equal(discovered(address, true), 0);
}

static void a_secret_is_taken_away(void **state)
{
	struct nvme_host admin = {.fd = -1}, io = {.fd = -1};

	(void)state;
	key_set(NVME_HOST_NQN, SUBSYSTEM, 1, 1, 0);
	connect_both(&admin, &io);
	config_write("other");
	kill(server.pid, SIGHUP);
	assert_int_equal(nvme_host_ended(admin.fd), -1);
	assert_int_equal(nvme_host_ended(io.fd), -1);
	assert_false(nvme_tls_try(address, &relay.key, TLS1_3_VERSION));
	config_write("key");
	kill(server.pid, SIGHUP);
	e2e_daemon_log_wait(&server, "reload: ", 2);
	connect_both(&admin, &io);
	nvme_host_close(&io);
	nvme_host_close(&admin);
}

/* DH-HMAC-CHAP inside of TLS: one that asks what has become of it, and one that does not, which is still barred. */
static void again_and_wrong(void **state)
{
	struct nvme_host admin = {.fd = -1}, io = {.fd = -1};
	uint8_t message[64] = {0}, data[BLOCK];

	(void)state;
	key_set(NVME_HOST_NQN, SUBSYSTEM, 0, 1, 0);
	connect_both(&admin, &io);
	assert_int_equal(nvme_chap_send(&io, NVME_HOST_CAPSULE, message, sizeof(message)), NVME_OK);
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 0, 0, data, BLOCK), NVME_AUTH_REQUIRED);
	assert_int_equal(nvme_host_ended(io.fd), -1);
	assert_int_equal(nvme_chap_send(&admin, NVME_HOST_CAPSULE, message, sizeof(message)), NVME_OK);
	assert_int_equal(nvme_chap_failure(&admin), NVME_AUTH_BAD_PAYLOAD);
}

/* The beginning of a record, and then nothing. */
static int half_open(const char *from_whom)
{
	static const uint8_t begin[] = {22, 3, 1, 2, 0, 1};
	int fd = nvme_host_dial(from_whom);

	nvme_host_write(fd, begin, sizeof(begin));
	return fd;
}

static void silent_ones_end_and_keep_nobody_out(void **state)
{
	struct nvme_host admin = {.fd = -1}, io = {.fd = -1};
	int fds[FLOOD];

	(void)state;
	key_set(NVME_HOST_NQN, SUBSYSTEM, 0, 1, 0);
	for (unsigned int i = 0; i < FLOOD; i++)
		fds[i] = i & 1 ? half_open(address) : nvme_host_dial(address);
	connect_both(&admin, &io);
	nvme_host_close(&io);
	nvme_host_close(&admin);
	for (unsigned int i = 0; i < FLOOD; i++)
		assert_int_equal(nvme_host_ended(fds[i]), -1);
	connect_both(&admin, &io);
	nvme_host_close(&io);
	nvme_host_close(&admin);
}

/* What begins as TLS and is none. */
static void other_bytes_end_it(void **state)
{
	uint8_t bytes[256];
	int fd;

	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		env_random(bytes, sizeof(bytes));
		bytes[0] = 22;
		if (i & 1)
			memcpy(bytes, (uint8_t[]){22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3}, 11);
		fd = nvme_host_dial(address);
		nvme_host_write(fd, bytes, sizeof(bytes));
		shutdown(fd, SHUT_WR);
		while (recv(fd, bytes, sizeof(bytes), 0) > 0)
			;
		close(fd);
	}
}

/* The last one: it is another daemon's. */
static void always_means_everyone(void **state)
{
	struct nvme_host admin = {.fd = -1}, io = {.fd = -1};

	(void)state;
	assert_int_equal(e2e_daemon_stop(&server), 0);
	daemon_start("always");
	assert_int_equal(nvme_host_connect(&admin, address, SUBSYSTEM, NVME_HOST_NQN, 0, 32), NVME_CONNECT_HOST);
	e2e_daemon_log_wait(&server, "TLS", 1);
	key_set(NVME_HOST_NQN, SUBSYSTEM, 0, 1, 0);
	connect_both(&admin, &io);
	nvme_host_close(&io);
	nvme_host_close(&admin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_way_in),
		cmocka_unit_test(what_is_proven_is_what_counts),
		cmocka_unit_test(nobody_else_gets_in),
		cmocka_unit_test(discovery_tells_who_comes_by_it),
		cmocka_unit_test(a_secret_is_taken_away),
		cmocka_unit_test(again_and_wrong),
		cmocka_unit_test(silent_ones_end_and_keep_nobody_out),
		cmocka_unit_test(other_bytes_end_it),
		cmocka_unit_test(always_means_everyone),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
