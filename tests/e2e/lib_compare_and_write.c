/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: rblk_compare_and_write() happens once or not at all, and says which. Method: threads with a
 * session each increment one counter in a block while a proxy cuts their connections again and
 * again: the counter is exactly the number of successes. It would be higher if a retry were done
 * twice, and lower if a write came between comparing and writing. Then one call at a time.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/proxy.h"
#include "tests/e2e/session.h"

#define BLOCK 512u
#define THREADS 4
#define SUCCESSES 60 /* of each thread */
#define CUTS 5 /* few: with more, back-off grows until the target forgets the session */

static struct e2e_daemon server;
static struct e2e_file disk;
static struct proxy *proxy;
static char uris[2][128]; /* of the file and of memory, by the proxy */

static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", 4 << 20);
	/* Two reactors, so that range locks cross from one to the other. The delay makes it likely
	 * that a command had begun to write when its connection was cut. */
	e2e_daemon_start(&server, "--cache", "buffered", "--reactors", "2", "--fault",
			 "delay=write:2ms", "--memory", "mem=4M",
			 "--null", "null=4M", disk.volume, NULL);
	proxy = proxy_start(server.host);
	snprintf(uris[0], sizeof(uris[0]), "rblk+tcp://%s/disk", proxy_host(proxy));
	snprintf(uris[1], sizeof(uris[1]), "rblk+tcp://%s/mem", proxy_host(proxy));
	return 0;
}

static int stop(void **state)
{
	(void)state;
	proxy_stop(proxy);
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

/* A session with a volume, and memory for what is expected and what is new. */
struct client {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
};

static void client_open(struct client *client, const char *uri, uint16_t queues)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	options.queues = queues;
	client->session = e2e_session_open(uri, &options);
	client->volume = e2e_volume_open(client->session, NULL, 0);
	client->data = rblk_buffer_alloc(client->session, 1 << 20);
	assert_non_null(client->data);
}

/* -- the counter ------------------------------------------------------------------------------- */

static atomic_uint successes, mismatches;
static pthread_barrier_t opened; /* no connection is cut before all sessions are open */

/* Reads the counter and tries to replace it with the next number. True: it did; false: another
 * thread was faster. */
static bool increment_once(struct client *client)
{
	uint8_t *expected = client->data, *wanted = client->data + BLOCK;
	uint64_t count, difference;
	int err;

	assert_int_equal(rblk_pread(client->volume, expected, BLOCK, 0), 0);
	memcpy(&count, expected, sizeof(count));
	count++;
	memcpy(wanted, expected, BLOCK);
	memcpy(wanted, &count, sizeof(count));
	err = rblk_pcompare_and_write(client->volume, client->data, BLOCK, 0, 0, &difference);
	if (err == -EILSEQ) {
		assert_true(difference < sizeof(count));
		atomic_fetch_add(&mismatches, 1);
		return false;
	}
	assert_int_equal(err, 0);
	return true;
}

static void *increment(void *arg)
{
	struct client client;
	struct rblk_stats stats;

	client_open(&client, arg, 2);
	pthread_barrier_wait(&opened);
	for (unsigned int i = 0; i < SUCCESSES;)
		if (increment_once(&client)) {
			atomic_fetch_add(&successes, 1);
			i++;
		}
	rblk_session_stats(client.session, &stats, sizeof(stats));
	rblk_session_close(client.session);
	return (void *)(uintptr_t)stats.retries;
}

/* Plain writes into a neighbouring block. They must not affect the counter, and none may be
 * lost. */
static void *write_beside(void *arg)
{
	struct client client;

	client_open(&client, arg, 1);
	pthread_barrier_wait(&opened);
	for (uint32_t i = 1; successes < THREADS * SUCCESSES; i++) {
		memset(client.data, (int)i, BLOCK);
		assert_int_equal(rblk_pwrite(client.volume, client.data, BLOCK, BLOCK, 0), 0);
		assert_int_equal(rblk_pread(client.volume, client.data + BLOCK, BLOCK, BLOCK), 0);
		assert_memory_equal(client.data, client.data + BLOCK, BLOCK);
	}
	rblk_session_close(client.session);
	return NULL;
}

static void the_sum_is_exact_however_often_connections_are_cut(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		pthread_t threads[THREADS], beside;
		uintptr_t retries = 0;
		struct client client;
		uint64_t count;

		successes = 0;
		pthread_barrier_init(&opened, NULL, THREADS + 2);
		for (int t = 0; t < THREADS; t++)
			assert_int_equal(pthread_create(&threads[t], NULL, increment, uris[i]), 0);
		assert_int_equal(pthread_create(&beside, NULL, write_beside, uris[i]), 0);
		pthread_barrier_wait(&opened);
		for (unsigned int c = 1; c <= CUTS; c++) {
			while (successes < c * THREADS * SUCCESSES / (CUTS + 1))
				usleep(1000);
			proxy_cut(proxy);
			proxy_mend(proxy);
		}
		for (int t = 0; t < THREADS; t++) {
			void *one;

			pthread_join(threads[t], &one);
			retries += (uintptr_t)one;
		}
		pthread_join(beside, NULL);
		pthread_barrier_destroy(&opened);
		client_open(&client, uris[i], 1);
		assert_int_equal(rblk_pread(client.volume, client.data, BLOCK, 0), 0);
		memcpy(&count, client.data, sizeof(count));
		print_message("%s: %u increments, %u were too late, %lu commands sent again\n",
			      uris[i], successes, mismatches, (unsigned long)retries);
		assert_int_equal(count, THREADS * SUCCESSES);
		rblk_session_close(client.session);
	}
	assert_int_not_equal(mismatches, 0);
}

/* -- one at a time ----------------------------------------------------------------------------- */

static void a_difference_is_found(void **state)
{
	const uint32_t lengths[] = {BLOCK, 8 * BLOCK, 512 * BLOCK};

	(void)state;
	for (int i = 0; i < 6; i++) {
		uint32_t bytes = lengths[i / 2];
		struct client client;
		uint64_t difference = 0;

		client_open(&client, uris[i % 2], 1);
		memset(client.data, 'a', bytes);
		assert_int_equal(rblk_pwrite(client.volume, client.data, bytes, BLOCK, 0), 0);
		memset(client.data + bytes, 'b', bytes);
		client.data[bytes - 2] = 'x';
		assert_int_equal(rblk_pcompare_and_write(client.volume, client.data, bytes, BLOCK, 0,
							 &difference),
				 -EILSEQ);
		assert_int_equal(difference, bytes - 2);
		client.data[bytes - 2] = 'a';
		assert_int_equal(rblk_pcompare_and_write(client.volume, client.data, bytes, BLOCK, 0,
							 NULL),
				 0);
		assert_int_equal(rblk_pread(client.volume, client.data, bytes, BLOCK), 0);
		assert_memory_equal(client.data, client.data + bytes, bytes);
		rblk_session_close(client.session);
	}
}

static void what_cannot_be_is_refused(void **state)
{
	struct client client;
	struct rblk_volume *null;
	uint32_t most;

	(void)state;
	client_open(&client, uris[1], 1);
	most = rblk_volume_info(client.volume)->max_io_bytes;
	assert_true(rblk_volume_info(client.volume)->can_compare_and_write);
	assert_int_equal(rblk_pcompare_and_write(client.volume, client.data, most, 0, 0, NULL),
			 -EINVAL);
	assert_int_equal(rblk_pcompare_and_write(client.volume, client.data, 0, 0, 0, NULL), -EINVAL);
	assert_int_equal(rblk_pcompare_and_write(client.volume, NULL, BLOCK, 0, 0, NULL), -EINVAL);
	assert_int_equal(rblk_pcompare_and_write(client.volume, client.data + (1 << 20) - BLOCK,
						 BLOCK, 0, 0, NULL),
			 -EFAULT);
	/* Memory is not durable; the file is. */
	assert_int_equal(rblk_pcompare_and_write(client.volume, client.data, BLOCK, 0, RBLK_IO_FUA,
						 NULL),
			 -EOPNOTSUPP);
	null = e2e_volume_open(client.session, "null", 0);
	assert_false(rblk_volume_info(null)->can_compare_and_write);
	assert_int_equal(rblk_pcompare_and_write(null, client.data, BLOCK, 0, 0, NULL), -EOPNOTSUPP);
	rblk_session_close(client.session);
	client_open(&client, uris[0], 1);
	assert_int_equal(rblk_pread(client.volume, client.data, BLOCK, 0), 0);
	assert_int_equal(rblk_pcompare_and_write(client.volume, client.data, BLOCK, 0, RBLK_IO_FUA,
						 NULL),
			 0);
	rblk_session_close(client.session);
}

/* -- many at once ------------------------------------------------------------------------------ */

#define MANY 200

static unsigned int called, well, differed;

static void many_done(void *arg, const struct rblk_result *result)
{
	(void)arg;
	called++;
	well += !result->error;
	differed += result->error == -EILSEQ;
}

/* All expect the same block contents, and one succeeds. */
static void of_many_one_succeeds(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct client client;
		int err;

		called = well = differed = 0;
		client_open(&client, uris[i], 2);
		assert_int_equal(rblk_pread(client.volume, client.data, BLOCK, 4 * BLOCK), 0);
		memset(client.data + BLOCK, 'n', BLOCK);
		for (unsigned int n = 0; n < MANY; n++)
			while ((err = rblk_compare_and_write(client.volume, client.data, BLOCK,
							     4 * BLOCK, 0, many_done, NULL))) {
				assert_int_equal(err, -EAGAIN);
				rblk_wait(client.session, -1);
			}
		while (called < MANY)
			rblk_wait(client.session, -1);
		assert_int_equal(well, 1);
		assert_int_equal(differed, MANY - 1);
		rblk_session_close(client.session);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_difference_is_found),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(of_many_one_succeeds),
		cmocka_unit_test(the_sum_is_exact_however_often_connections_are_cut),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
