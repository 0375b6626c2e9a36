/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: over TLS a read returns what was written, for every size, also when bits are changed on the way,
 * connections are cut off or ended, and the target is killed: the session goes on, and the log says
 * why a connection was lost. Nothing that was written can be read on the way. Method: a proxy that changes
 * bits, ends directions, cuts, and looks for what is in the blocks; an array with what was written.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/proxy.h"
#include "tests/e2e/session.h"

#define KEY "/var/tmp/e2e-lib-tls.key"
#define CONF "/var/tmp/e2e-lib-tls.conf"
#define SECRET "rblk1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define VOLUME_BYTES (4u << 20)
#define MAX_IO (1u << 20)

static struct e2e_daemon daemon_;
static struct e2e_file disk;
static struct proxy *proxy;
static struct rblk_session *session;
static struct rblk_volume *volume;
static unsigned char *data, model[VOLUME_BYTES];
static unsigned int seed = 1, recoveries;

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fchmod(fileno(file), 0600), 0);
	fclose(file);
}

static void on_event(void *arg, struct rblk_session *one, const struct rblk_session_event *event)
{
	(void)arg;
	(void)one;
	recoveries += event->type == RBLK_SESSION_EVENT_RECOVERED;
}

static struct rblk_options options_of(enum rblk_tls_use tls)
{
	return (struct rblk_options){.size = sizeof(struct rblk_options),
				     .initiator_name = "db1",
				     .key_file = KEY,
				     .tls = tls,
				     .queues = 2};
}

static int begin(void **state)
{
	struct rblk_options options = options_of(RBLK_TLS_ALWAYS);
	char uri[64];
	struct rblk_session_info info;
	struct rblk_path_info path;
	char conf[512];

	(void)state;
	write_text(KEY, SECRET);
	e2e_file_create(&disk, "disk", VOLUME_BYTES);
	snprintf(conf, sizeof(conf),
		 "[target]\nreactors = 2\ntls = always\n[volume disk]\npath = %s\ncache = buffered\n"
		 "[initiator db1]\nsecret = " KEY "\nwrite = disk\n",
		 disk.path);
	write_text(CONF, conf);
	e2e_daemon_start(&daemon_, "--config", CONF, NULL);
	proxy = proxy_start(daemon_.host);
	snprintf(uri, sizeof(uri), "rblk+tcp://%s/disk", proxy_host(proxy));
	session = e2e_session_open(uri, &options);
	rblk_session_on_event(session, on_event, NULL);
	volume = e2e_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, MAX_IO);
	assert_non_null(data);
	assert_int_equal(rblk_session_info(session, &info, sizeof(info)), 0);
	assert_true(info.tls && info.proven);
	assert_int_equal(rblk_session_paths(session, &path, sizeof(path), 1), 1);
	assert_true(path.tls && path.proven && !path.digest);
	return 0;
}

static int end(void **state)
{
	int status;

	(void)state;
	rblk_session_close(session);
	proxy_stop(proxy);
	status = e2e_daemon_stop(&daemon_);
	e2e_file_remove(&disk);
	unlink(KEY);
	unlink(CONF);
	return status;
}

/* One write and one read, anywhere; blocks are runs of one byte. */
static void step(void)
{
	static const uint32_t sizes[] = {512, 4096, 8192, 65536, 131072, MAX_IO};
	uint32_t bytes = sizes[(unsigned int)rand_r(&seed) % 6];
	uint64_t offset = (unsigned int)rand_r(&seed) % ((VOLUME_BYTES - bytes) / 512 + 1) * 512ull;
	int err;

	/* Never 0, of which there are many runs in structs. */
	for (uint32_t at = 0; at < bytes; at += 512)
		memset(model + offset + at, 0xa0 + rand_r(&seed) % 16, 512);
	memcpy(data, model + offset, bytes);
	err = rblk_pwrite(volume, data, bytes, offset, 0);
	if (err)
		fail_msg("write: %s: %s", strerror(-err), rblk_session_error(session));
	offset = (unsigned int)rand_r(&seed) % ((VOLUME_BYTES - bytes) / 512 + 1) * 512ull;
	memset(data, 0, bytes);
	err = rblk_pread(volume, data, bytes, offset);
	if (err)
		fail_msg("read: %s: %s", strerror(-err), rblk_session_error(session));
	assert_memory_equal(data, model + offset, bytes);
}

static void steps(unsigned int count)
{
	while (count--)
		step();
}

static void all_is_as_written(void)
{
	for (uint64_t at = 0; at < VOLUME_BYTES; at += MAX_IO) {
		assert_int_equal(rblk_pread(volume, data, MAX_IO, at), 0);
		assert_memory_equal(data, model + at, MAX_IO);
	}
}

static void nothing_is_readable_on_the_way(void **state)
{
	(void)state;
	steps(60);
	all_is_as_written();
	for (unsigned int byte = 0xa0; byte < 0xb0; byte++)
		assert_false(proxy_saw_run(proxy, (unsigned char)byte));
	assert_true(proxy_bytes(proxy) > VOLUME_BYTES);
	assert_true(e2e_daemon_log_wait(&daemon_, "initiator db1 has proven its name, by TLS", 1) >= 1);
}

static void changed_bits_lose_the_connection(void **state)
{
	unsigned int before = recoveries;

	(void)state;
	for (unsigned int i = 0; i < 6; i++) {
		proxy_flip(proxy, i % 2);
		while (proxy_flips(proxy))
			step();
		steps(2);
	}
	all_is_as_written();
	assert_true(recoveries > before);
	e2e_daemon_log_wait(&daemon_, "TLS: what arrived is not what the peer has sent", 1);
}

static void a_cut_stream_is_told(void **state)
{
	unsigned int before = e2e_daemon_log_count(&daemon_, "TLS was cut off");

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		proxy_truncate(proxy);
		steps(2);
		proxy_cut(proxy);
		proxy_mend(proxy);
		steps(2);
	}
	all_is_as_written();
	e2e_daemon_log_wait(&daemon_, "TLS was cut off", before + 1);
}

static void the_target_is_killed(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		e2e_daemon_kill(&daemon_);
		e2e_daemon_start_again(&daemon_, "--config", CONF, NULL);
		steps(4);
	}
	all_is_as_written();
}

/* One that has the right key, but is told not to use TLS; and one without a key. */
static void there_is_no_way_around(void **state)
{
	struct rblk_options options = options_of(RBLK_TLS_NEVER);
	char error[RBLK_ERROR_BYTES] = "";

	(void)state;
	assert_null(rblk_session_open(e2e_daemon_uri(&daemon_, "disk"), &options, error));
	assert_non_null(strstr(error, "the target wants TLS over TCP"));
	/* To this machine itself it is the same as never. */
	options.tls = RBLK_TLS_AUTO;
	assert_null(rblk_session_open(e2e_daemon_uri(&daemon_, "disk"), &options, error));
	assert_non_null(strstr(error, "the target wants TLS over TCP"));
	options.key_file = NULL;
	assert_null(rblk_session_open(e2e_daemon_uri(&daemon_, "disk"), &options, error));
	assert_non_null(strstr(error, "the target wants TLS over TCP"));
	e2e_daemon_log_wait(&daemon_, "denied: the target wants TLS over TCP", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_readable_on_the_way),
		cmocka_unit_test(changed_bits_lose_the_connection),
		cmocka_unit_test(a_cut_stream_is_told),
		cmocka_unit_test(the_target_is_killed),
		cmocka_unit_test(there_is_no_way_around),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
