/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal (F9): when one session's FLUSH has failed, no other session's FLUSH succeeds although data
 * is lost, until all have closed the volume; a new cache epoch tells those that open it again.
 * Method: rblkd on a file with a fault plan. Its second FLUSH fails and reverts the unflushed
 * bytes, as Linux does with pages that it cannot write. Sessions on two reactors.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define PIECE 65536u

struct client {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
};

static void client_open(struct client *client, const struct e2e_daemon *daemon)
{
	client->session = e2e_session_open(e2e_daemon_uri(daemon, "disk"), NULL);
	client->volume = e2e_volume_open(client->session, NULL, 0);
	client->data = rblk_buffer_alloc(client->session, PIECE);
}

static int client_write(struct client *client, uint8_t byte, unsigned int piece, uint32_t flags)
{
	memset(client->data, byte, PIECE);
	return rblk_pwrite(client->volume, client->data, PIECE, (uint64_t)piece * PIECE, flags);
}

static void expect_bytes(struct client *client, uint8_t byte, unsigned int piece)
{
	memset(client->data, 0x55, PIECE);
	assert_int_equal(rblk_pread(client->volume, client->data, PIECE, (uint64_t)piece * PIECE),
			 0);
	assert_int_equal(client->data[0], byte);
	assert_int_equal(client->data[PIECE - 1], byte);
}

static const uint8_t *epoch(const struct client *client)
{
	return rblk_volume_info(client->volume)->cache_epoch;
}

static int flush(struct client *client)
{
	return rblk_fsync(client->volume);
}

static void a_failed_flush_is_told_to_everyone(void **state)
{
	struct client a, b, late;
	uint8_t before[16], after[16];
	struct e2e_daemon daemon;
	struct e2e_file file;

	e2e_file_create(&file, "disk", 16u << 20);
	e2e_daemon_start(&daemon, file.volume, "--cache", "buffered", "--reactors", "2", "--fault",
			 "lose=flush,after=1,count=1", NULL);
	client_open(&a, &daemon);
	client_open(&b, &daemon);
	memcpy(before, epoch(&a), 16);

	assert_int_equal(client_write(&a, 1, 0, 0), 0);
	assert_int_equal(flush(&a), 0);
	assert_int_equal(client_write(&a, 2, 1, 0), 0);
	assert_int_equal(client_write(&b, 3, 2, 0), 0);
	assert_int_equal(client_write(&b, 4, 3, RBLK_IO_FUA), 0);
	assert_int_equal(flush(&a), -EIO);
	/* The disk works again, but what b wrote is lost, and b must be told. */
	expect_bytes(&b, 0, 2);
	assert_int_equal(flush(&b), -EIO);
	assert_int_equal(flush(&a), -EIO);
	expect_bytes(&a, 1, 0);
	expect_bytes(&a, 4, 3);
	/* Commands that promise nothing about earlier writes go on. */
	assert_int_equal(client_write(&b, 5, 4, RBLK_IO_FUA), 0);
	expect_bytes(&b, 5, 4);

	client_open(&late, &daemon);
	memcpy(after, epoch(&late), 16);
	assert_memory_not_equal(before, after, 16); /* F7 */
	assert_int_equal(flush(&late), -EIO);
	/* It is told of the other epoch, too: who closes without having heard of a loss leaves it to the next open (F7). */
	assert_int_equal(flush(&b), -EIO);
	assert_int_equal(rblk_volume_close(late.volume), 0);
	assert_int_equal(rblk_volume_close(b.volume), 0);
	assert_int_equal(flush(&a), -EIO);
	assert_int_equal(rblk_volume_close(a.volume), 0);

	a.volume = e2e_volume_open(a.session, NULL, 0);
	assert_memory_equal(epoch(&a), after, 16);
	assert_int_equal(client_write(&a, 6, 5, 0), 0);
	assert_int_equal(flush(&a), 0);
	expect_bytes(&a, 6, 5);

	rblk_session_close(a.session);
	rblk_session_close(b.session);
	rblk_session_close(late.session);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
	assert_int_equal(e2e_daemon_log_count(&daemon, "volume disk: FLUSH failed (failure 1): "
						       "Input/output error"),
			 1);
	assert_int_equal(
		e2e_daemon_log_count(&daemon, "volume disk: acknowledged writes may be lost"), 1);
	assert_int_equal(e2e_daemon_log_count(&daemon, "volume disk: every session has closed it"),
			 1);
	e2e_file_remove(&file);
}

/* The daemon, which ends here, knows that a sync has failed: FLUSH fails until its volume is closed. */
static void expect_loss_until_closed(struct e2e_daemon *daemon, uint8_t after[16])
{
	struct client client;

	e2e_daemon_log_wait(daemon, "volume disk: a sync has failed earlier", 1);
	client_open(&client, daemon);
	memcpy(after, epoch(&client), 16);
	assert_int_equal(flush(&client), -EIO);
	assert_int_equal(rblk_volume_close(client.volume), 0);
	client.volume = e2e_volume_open(client.session, NULL, 0);
	assert_int_equal(flush(&client), 0);
	assert_memory_equal(epoch(&client), after, 16);
	rblk_session_close(client.session);
	assert_int_equal(e2e_daemon_stop(daemon), 0);
}

/* A restart does not clear the loss: FLUSH still fails, and the cache epoch differs. */
static void a_failed_flush_survives_the_daemon(void **state)
{
	uint8_t before[16], after[16];
	struct e2e_daemon daemon;
	struct client client;
	struct e2e_file file;

	e2e_file_create(&file, "disk", 16u << 20);
	e2e_daemon_start(&daemon, file.volume, "--cache", "buffered", "--fault",
			 "lose=flush,count=1", NULL);
	client_open(&client, &daemon);
	memcpy(before, epoch(&client), 16);
	assert_int_equal(client_write(&client, 1, 0, 0), 0);
	assert_int_equal(flush(&client), -EIO);
	e2e_daemon_kill(&daemon);
	rblk_session_close(client.session);

	e2e_daemon_start(&daemon, file.volume, "--cache", "buffered", NULL);
	expect_loss_until_closed(&daemon, after);
	assert_memory_not_equal(before, after, 16);

	/* All have closed the volume: FLUSH works again, and the cache epoch tells those that
	 * were away. */
	e2e_daemon_start(&daemon, file.volume, "--cache", "buffered", NULL);
	client_open(&client, &daemon);
	assert_memory_equal(epoch(&client), after, 16);
	assert_int_equal(flush(&client), 0);
	rblk_session_close(client.session);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
	e2e_file_remove(&file);
}

/* An end in good order, while a session has the volume open, does not clear it, either: only the session's close does. */
static void a_failed_flush_survives_an_end_in_good_order(void **state)
{
	uint8_t after[16];
	struct e2e_daemon daemon;
	struct client client;
	struct e2e_file file;

	e2e_file_create(&file, "disk", 16u << 20);
	e2e_daemon_start(&daemon, file.volume, "--reactors", "2", "--fault", "lose=flush,count=1", NULL);
	client_open(&client, &daemon);
	assert_int_equal(client_write(&client, 1, 0, 0), 0);
	assert_int_equal(flush(&client), -EIO);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
	assert_int_equal(e2e_daemon_log_count(&daemon, "volume disk: every session has closed it"), 0);
	rblk_session_close(client.session);

	e2e_daemon_start(&daemon, file.volume, NULL);
	expect_loss_until_closed(&daemon, after);
	e2e_file_remove(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_flush_is_told_to_everyone),
		cmocka_unit_test(a_failed_flush_survives_the_daemon),
		cmocka_unit_test(a_failed_flush_survives_an_end_in_good_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
