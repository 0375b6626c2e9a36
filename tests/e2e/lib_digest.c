/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: with the option `digest`, a bit that changes between the program and the target's memory changes no
 * data: the command is sent again, and fails with EBADMSG if that does not help. Method: a proxy changes bits of
 * writes, reads, gathered writes, small ones in capsules and COMPARE_AND_WRITEs; a second session without digests
 * shows that the same bit does change data, and says what is stored.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/proxy.h"
#include "tests/e2e/session.h"

#define VOLUME_BYTES (4u << 20)
#define LARGE 65536u /* more than fits into a capsule */
#define SMALL 8192u  /* fits, and its middle is the data's */
#define RETRIES 3u   /* after which a command fails */

static struct e2e_daemon daemon_;
static struct e2e_file disk;
static struct proxy *proxy;

struct client {
	struct rblk_session *session;
	struct rblk_volume *volume;
	unsigned char *data;
};

static struct client checked, plain, straight; /* with digests; without; without, and past the proxy */

static void client_open(struct client *client, const char *host, bool digest)
{
	struct rblk_options options = {.size = sizeof(options), .digest = digest};
	char uri[128];

	snprintf(uri, sizeof(uri), "rblk+tcp://%s/disk", host);
	client->session = e2e_session_open(uri, &options);
	client->volume = e2e_volume_open(client->session, NULL, 0);
	client->data = rblk_buffer_alloc(client->session, 2 * LARGE);
	assert_non_null(client->data);
}

static int begin(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", VOLUME_BYTES);
	e2e_daemon_start(&daemon_, "--cache", "buffered", disk.volume, NULL);
	proxy = proxy_start(daemon_.host);
	client_open(&checked, proxy_host(proxy), true);
	client_open(&plain, proxy_host(proxy), false);
	client_open(&straight, daemon_.host, false);
	return 0;
}

static int end(void **state)
{
	(void)state;
	rblk_session_close(checked.session);
	rblk_session_close(plain.session);
	rblk_session_close(straight.session);
	proxy_stop(proxy);
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&daemon_);
}

static uint64_t digest_retries(void)
{
	struct rblk_stats stats;

	assert_int_equal(rblk_session_stats(checked.session, &stats, sizeof(stats)), 0);
	return stats.digest_retries;
}

/* What is stored, as one who is not disturbed reads it: into straight.data, so `expected` is in other memory. */
static void assert_stored(const void *expected, size_t bytes, uint64_t offset)
{
	assert_ptr_not_equal(expected, straight.data);
	assert_int_equal(rblk_pread(straight.volume, straight.data, bytes, offset), 0);
	assert_memory_equal(straight.data, expected, bytes);
}

static void store(unsigned char byte, size_t bytes, uint64_t offset)
{
	memset(straight.data, byte, bytes);
	assert_int_equal(rblk_pwrite(straight.volume, straight.data, bytes, offset, 0), 0);
}

/* The bit that the proxy changes is one of the data. */
static void without_digests_data_changes(void **state)
{
	(void)state;
	memset(plain.data, 0x11, LARGE);
	proxy_flip_data(proxy, true);
	assert_int_equal(rblk_pwrite(plain.volume, plain.data, LARGE, 0, 0), 0);
	assert_false(proxy_flips(proxy));
	assert_int_equal(rblk_pread(straight.volume, straight.data, LARGE, 0), 0);
	assert_memory_not_equal(straight.data, plain.data, LARGE);
	store(0x22, LARGE, 0);
	proxy_flip_data(proxy, false);
	assert_int_equal(rblk_pread(plain.volume, plain.data, LARGE, 0), 0);
	assert_false(proxy_flips(proxy));
	assert_memory_not_equal(straight.data, plain.data, LARGE);
}

static void a_write_is_sent_again(void **state)
{
	static const size_t sizes[] = {SMALL, LARGE};
	uint64_t before = digest_retries();

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		memset(checked.data, 0x31 + (int)i, sizes[i]);
		proxy_flip_data(proxy, true);
		assert_int_equal(rblk_pwrite(checked.volume, checked.data, sizes[i], 0, 0), 0);
		assert_false(proxy_flips(proxy));
		assert_stored(checked.data, sizes[i], 0);
	}
	assert_int_equal(digest_retries(), before + 2);
}

static void a_gathered_write_is_sent_again(void **state)
{
	struct iovec pieces[3];
	uint64_t before = digest_retries();

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		pieces[i].iov_base = checked.data + i * 16384u;
		pieces[i].iov_len = 4096;
		memset(pieces[i].iov_base, 0x41 + (int)i, 4096);
		memset(straight.data + i * 4096u, 0x41 + (int)i, 4096);
	}
	memcpy(plain.data, straight.data, 3 * 4096);
	proxy_flip_data(proxy, true);
	assert_int_equal(rblk_pwritev(checked.volume, pieces, 3, LARGE, 0), 0);
	assert_false(proxy_flips(proxy));
	assert_stored(plain.data, 3 * 4096, LARGE);
	assert_int_equal(digest_retries(), before + 1);
}

static void a_read_is_sent_again(void **state)
{
	uint64_t before = digest_retries();

	(void)state;
	store(0x51, LARGE, 0);
	memset(checked.data, 0, LARGE);
	proxy_flip_data(proxy, false);
	assert_int_equal(rblk_pread(checked.volume, checked.data, LARGE, 0), 0);
	assert_false(proxy_flips(proxy));
	assert_memory_equal(checked.data, straight.data, LARGE);
	assert_int_equal(digest_retries(), before + 1);
}

struct outcome {
	bool ended;
	struct rblk_result result;
};

static void done(void *arg, const struct rblk_result *result)
{
	struct outcome *outcome = arg;

	assert_false(outcome->ended);
	outcome->ended = true;
	outcome->result = *result;
}

static void wait_for(const struct client *client, const struct outcome *outcome)
{
	while (!outcome->ended)
		if (rblk_wait(client->session, -1) < 0)
			fail_msg("%s", rblk_session_error(client->session));
}

static void a_compare_and_write_is_done_once(void **state)
{
	struct outcome outcome = {.ended = false};
	uint64_t before = digest_retries();

	(void)state;
	store(0x61, SMALL, 0);
	memset(checked.data, 0x61, SMALL);
	memset(checked.data + SMALL, 0x62, SMALL);
	proxy_flip_data(proxy, true);
	assert_int_equal(rblk_compare_and_write(checked.volume, checked.data, SMALL, 0, 0, done,
						&outcome),
			 0);
	wait_for(&checked, &outcome);
	assert_false(proxy_flips(proxy));
	assert_int_equal(outcome.result.error, 0);
	assert_stored(checked.data + SMALL, SMALL, 0);
	assert_int_equal(digest_retries(), before + 1);
}

/* A bit of each attempt changes: then the command fails, and stores nothing. */
static void what_never_matches_fails(void **state)
{
	uint64_t before = digest_retries();

	(void)state;
	store(0x71, LARGE, 0);
	memset(plain.data, 0x71, LARGE);
	for (unsigned int writes = 0; writes < 2; writes++) {
		struct outcome outcome = {.ended = false};
		int err;

		memset(checked.data, 0x72, LARGE);
		err = writes ? rblk_write(checked.volume, checked.data, LARGE, 0, 0, done, &outcome)
			     : rblk_read(checked.volume, checked.data, LARGE, 0, 0, done, &outcome);
		assert_int_equal(err, 0);
		proxy_flip_all(proxy, true);
		wait_for(&checked, &outcome);
		proxy_flip_all(proxy, false);
		assert_int_equal(outcome.result.error, -EBADMSG);
		assert_stored(plain.data, LARGE, 0);
	}
	assert_int_equal(digest_retries(), before + 2 * RETRIES);
	memset(checked.data, 0x73, LARGE);
	assert_int_equal(rblk_pwrite(checked.volume, checked.data, LARGE, 0, 0), 0);
	assert_stored(checked.data, LARGE, 0);
}

/* A write that a connection was lost with, and that does not match when it is sent again: the target may have done it. */
static void after_a_loss_nobody_knows_what_was_done(void **state)
{
	struct outcome outcome;
	struct e2e_daemon slow;
	struct client client;
	struct proxy *way;

	(void)state;
	e2e_daemon_start(&slow, "--memory", "disk=4M", "--fault", "delay=write:1s", NULL);
	way = proxy_start(slow.host);
	client_open(&client, proxy_host(way), true);
	do {
		outcome = (struct outcome){.ended = false};
		assert_int_equal(rblk_write(client.volume, client.data, LARGE, 0, 0, done, &outcome), 0);
		assert_true(rblk_submit(client.session) >= 0);
		proxy_cut(way);
		proxy_flip_all(way, true);
		proxy_mend(way);
		wait_for(&client, &outcome);
		proxy_flip_all(way, false);
		/* On a machine that crawls the answer may have come before the cut. */
	} while (!outcome.result.error);
	assert_int_equal(outcome.result.error, -EBADMSG);
	assert_int_equal(outcome.result.status, 0);
	rblk_session_close(client.session);
	proxy_stop(way);
	assert_int_equal(e2e_daemon_stop(&slow), 0);
}

/* The session is one that has digests, and says so. */
static void a_session_tells_it(void **state)
{
	struct rblk_session_info info;

	(void)state;
	assert_int_equal(rblk_session_info(checked.session, &info, sizeof(info)), 0);
	assert_non_null(strstr(info.features, "digest"));
	assert_int_equal(rblk_session_info(plain.session, &info, sizeof(info)), 0);
	assert_null(strstr(info.features, "digest"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_digests_data_changes),
		cmocka_unit_test(a_write_is_sent_again),
		cmocka_unit_test(a_gathered_write_is_sent_again),
		cmocka_unit_test(a_read_is_sent_again),
		cmocka_unit_test(a_compare_and_write_is_done_once),
		cmocka_unit_test(what_never_matches_fails),
		cmocka_unit_test(after_a_loss_nobody_knows_what_was_done),
		cmocka_unit_test(a_session_tells_it),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
