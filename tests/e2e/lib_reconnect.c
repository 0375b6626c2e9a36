/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session outlives its target. If the target is killed, or stopped and started again, the
 * program sees a pause without an error, and every command is called back once. The program is told
 * which writes may be lost, and FLUSH fails until it acknowledges that. Method: rblkd killed and
 * started again at the same port while blocks that carry their number and generation are written
 * and read; waiting for conditions only.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define BLOCK 4096u
#define BLOCKS 256u
#define DEPTH 32
#define LARGE (64 * 1024u)

static struct e2e_daemon daemon_;

struct slot {
	uint8_t *data;
	uint32_t block;
	uint64_t generation; /* of the write; 0: this is a read */
	bool busy;
};

static struct load {
	struct rblk_session *session;
	struct rblk_volume *volume;
	struct slot slots[DEPTH];
	uint64_t written[BLOCKS]; /* generation; acknowledged */
	bool busy[BLOCKS];
	uint64_t generation, completed, errors;
	uint32_t random;
	int last_error;
	unsigned int recovering, recovered, lost;
} load;

static uint32_t below(uint32_t n)
{
	load.random = load.random * 1664525u + 1013904223u;
	return (load.random >> 8) % n;
}

static void fill(uint8_t *data, uint32_t block, uint64_t generation)
{
	for (size_t i = 0; i < BLOCK; i += 16) {
		memcpy(data + i, &generation, 8);
		memcpy(data + i + 8, &block, 4);
		memset(data + i + 12, (int)(i / 16), 4);
	}
}

static void slot_done(void *arg, const struct rblk_result *result)
{
	struct slot *slot = arg;
	uint8_t expected[BLOCK];

	assert_true(slot->busy);
	slot->busy = false;
	load.busy[slot->block] = false;
	load.completed++;
	if (result->error) {
		load.errors++;
		load.last_error = result->error;
		return;
	}
	if (slot->generation) {
		load.written[slot->block] = slot->generation;
		return;
	}
	if (load.written[slot->block])
		fill(expected, slot->block, load.written[slot->block]);
	else
		memset(expected, 0, sizeof(expected));
	assert_memory_equal(slot->data, expected, BLOCK);
}

static void slot_start(struct slot *slot)
{
	int err;

	slot->block = below(BLOCKS);
	if (load.busy[slot->block])
		return;
	slot->generation = below(3) ? ++load.generation : 0;
	if (slot->generation) {
		fill(slot->data, slot->block, slot->generation);
		err = rblk_write(load.volume, slot->data, BLOCK, (uint64_t)slot->block * BLOCK, 0,
				 slot_done, slot);
	} else {
		err = rblk_read(load.volume, slot->data, BLOCK, (uint64_t)slot->block * BLOCK, 0,
				slot_done, slot);
	}
	if (err == -EAGAIN)
		return;
	if (err)
		fail_msg("%s: %s", strerror(-err), rblk_session_error(load.session));
	slot->busy = load.busy[slot->block] = true;
}

static void on_event(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	(void)arg;
	(void)session;
	load.recovering += event->type == RBLK_SESSION_EVENT_RECOVERING;
	load.recovered += event->type == RBLK_SESSION_EVENT_RECOVERED;
	load.lost += event->type == RBLK_SESSION_EVENT_WRITES_LOST;
}

static void load_begin(const struct rblk_options *options)
{
	memset(&load, 0, sizeof(load));
	load.random = 1;
	load.session = e2e_session_open(e2e_daemon_uri(&daemon_, "disk"), options);
	rblk_session_on_event(load.session, on_event, NULL);
	load.volume = e2e_volume_open(load.session, NULL, 0);
	for (int i = 0; i < DEPTH; i++) {
		load.slots[i].data = rblk_buffer_alloc(load.session, BLOCK);
		assert_non_null(load.slots[i].data);
	}
}

/* Waits until so many more commands are completed. */
static void load_run(uint64_t more)
{
	uint64_t until = load.completed + more;

	while (load.completed < until) {
		for (int i = 0; i < DEPTH; i++)
			if (!load.slots[i].busy)
				slot_start(&load.slots[i]);
		rblk_wait(load.session, 100);
	}
}

static void load_settle(void)
{
	bool busy;

	do {
		busy = false;
		for (int i = 0; i < DEPTH; i++)
			busy = busy || load.slots[i].busy;
		if (busy)
			rblk_wait(load.session, 100);
	} while (busy);
}

static void killed_and_started_again(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct e2e_file file;

	(void)state;
	e2e_file_create(&file, "disk", BLOCKS * BLOCK);
	e2e_daemon_start(&daemon_, file.volume, "--cache", "buffered", NULL);
	options.queues = 3;
	load_begin(&options);
	for (int round = 0; round < 6; round++) {
		load_run(500);
		if (round % 2)
			e2e_daemon_kill(&daemon_);
		else
			assert_int_equal(e2e_daemon_stop(&daemon_), 0);
		rblk_wait(load.session, 50); /* the session may or may not notice */
		e2e_daemon_start_again(&daemon_, file.volume, "--cache", "buffered", NULL);
	}
	load_run(500);
	load_settle();
	assert_int_equal(load.errors, 0);
	assert_int_equal(load.lost, 0); /* the machine did not go down */
	assert_true(load.recovering > 0 && load.recovered > 0);
	assert_int_equal(rblk_session_state(load.session), RBLK_SESSION_READY);
	assert_int_equal(rblk_fsync(load.volume), 0);
	rblk_session_close(load.session);
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
	e2e_file_remove(&file);
}

/* The target does not come back. */
static void given_up(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct e2e_file file;
	int err;

	(void)state;
	e2e_file_create(&file, "disk", BLOCKS * BLOCK);
	e2e_daemon_start(&daemon_, file.volume, "--cache", "buffered", NULL);
	options.give_up_ms = 700;
	load_begin(&options);
	load_run(100);
	e2e_daemon_kill(&daemon_);
	for (int i = 0; i < DEPTH; i++)
		if (!load.slots[i].busy)
			slot_start(&load.slots[i]);
	load_settle();
	assert_int_equal(load.last_error, -ETIMEDOUT);
	while ((err = rblk_wait(load.session, 100)) >= 0)
		;
	assert_int_equal(err, -ETIMEDOUT);
	assert_int_equal(rblk_session_state(load.session), RBLK_SESSION_FAILED);
	assert_non_null(strstr(rblk_session_error(load.session), "no connection for 700ms"));
	rblk_session_close(load.session);
	e2e_file_remove(&file);
}

/* Commands already sent and new ones fail after a while; the session goes on trying. */
static void failed_fast(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct e2e_file file;

	(void)state;
	e2e_file_create(&file, "disk", BLOCKS * BLOCK);
	e2e_daemon_start(&daemon_, file.volume, "--cache", "buffered", NULL);
	options.fail_fast_ms = 200;
	load_begin(&options);
	load_run(100);
	e2e_daemon_kill(&daemon_);
	for (int i = 0; i < DEPTH; i++)
		if (!load.slots[i].busy)
			slot_start(&load.slots[i]);
	load_settle();
	assert_int_equal(load.last_error, -EIO);
	assert_int_equal(rblk_session_state(load.session), RBLK_SESSION_RECOVERING);
	e2e_daemon_start_again(&daemon_, file.volume, "--cache", "buffered", NULL);
	while (rblk_session_state(load.session) != RBLK_SESSION_READY)
		rblk_wait(load.session, 100);
	load.errors = 0;
	memset(load.written, 0, sizeof(load.written));
	assert_int_equal(rblk_pread(load.volume, load.slots[0].data, BLOCK, 0), 0);
	rblk_session_close(load.session);
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
	e2e_file_remove(&file);
}

/* A memory volume ends with its daemon: its writes are lost. FLUSH reports that until it is
 * acknowledged. */
static void writes_are_lost(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	(void)state;
	e2e_daemon_start(&daemon_, "--memory", "disk=1M", NULL);
	load_begin(&options);
	assert_int_equal(rblk_pwrite(load.volume, load.slots[0].data, BLOCK, 0, 0), 0);
	e2e_daemon_kill(&daemon_);
	e2e_daemon_start_again(&daemon_, "--memory", "disk=1M", NULL);
	while (!load.lost)
		rblk_wait(load.session, 100);
	assert_int_equal(load.lost, 1);
	assert_int_equal(rblk_pread(load.volume, load.slots[0].data, BLOCK, 0), 0);
	assert_int_equal(rblk_acknowledge(load.volume), 1);
	assert_int_equal(rblk_acknowledge(load.volume), 0);
	rblk_session_close(load.session);
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
}

static void ended(void *arg, const struct rblk_result *result)
{
	assert_int_equal(result->error, 0);
	*(bool *)arg = true;
}

/* Commands that write nothing leave nothing that could be lost. */
static void nothing_is_lost(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	bool checksum = false;

	(void)state;
	e2e_daemon_start(&daemon_, "--memory", "disk=1M", NULL);
	load_begin(&options);
	assert_int_equal(rblk_pread(load.volume, load.slots[0].data, BLOCK, 0), 0);
	assert_int_equal(rblk_checksum(load.volume, BLOCK, 0, ended, &checksum), 0);
	assert_int_equal(rblk_submit(load.session), 0);
	while (!checksum)
		assert_true(rblk_wait(load.session, 100) >= 0);
	e2e_daemon_kill(&daemon_);
	e2e_daemon_start_again(&daemon_, "--memory", "disk=1M", NULL);
	while (!load.recovered)
		assert_true(rblk_wait(load.session, 100) >= 0);
	assert_int_equal(rblk_pread(load.volume, load.slots[0].data, BLOCK, 0), 0);
	assert_int_equal(load.lost, 0);
	assert_int_equal(rblk_acknowledge(load.volume), 0);
	rblk_session_close(load.session);
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
}

static struct {
	bool told;
	int error;
	char words[RBLK_ERROR_BYTES];
} loss;

static void on_loss(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	(void)arg;
	if (event->type != RBLK_SESSION_EVENT_RECOVERING)
		return;
	loss.told = true;
	loss.error = event->error;
	snprintf(loss.words, sizeof(loss.words), "%s", rblk_session_error(session));
}

/* The target stops, and its system keeps the connection. The program is told what is wrong. */
static void silent(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	(void)state;
	e2e_daemon_start(&daemon_, "--memory", "disk=1M", "--keepalive", "500ms", NULL);
	load_begin(&options);
	rblk_session_on_event(load.session, on_loss, NULL);
	/* On a slow machine the target may be the first to find the other end silent. */
	for (int attempt = 0; attempt < 20; attempt++) {
		assert_int_equal(rblk_pread(load.volume, load.slots[0].data, BLOCK, 0), 0);
		loss.told = false;
		kill(daemon_.pid, SIGSTOP);
		while (!loss.told)
			assert_true(rblk_wait(load.session, 100) >= 0);
		kill(daemon_.pid, SIGCONT);
		if (loss.error != -ECONNRESET)
			break;
	}
	assert_int_equal(loss.error, -ETIMEDOUT);
	if (!strstr(loss.words, "KEEPALIVE was not answered within 500ms"))
		fail_msg("%s", loss.words);
	assert_int_equal(rblk_pread(load.volume, load.slots[0].data, BLOCK, 0), 0);
	rblk_session_close(load.session);
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
}

/* Session commands wait, too: while the target is away, a volume is opened and closed, and a
 * list is read. */
static void session_commands_wait(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_volume_info *list;
	struct rblk_volume *volume;
	struct e2e_file file;

	(void)state;
	e2e_file_create(&file, "disk", BLOCKS * BLOCK);
	e2e_daemon_start(&daemon_, file.volume, "--cache", "buffered", NULL);
	load_begin(&options);
	e2e_daemon_kill(&daemon_);
	e2e_daemon_start_again(&daemon_, file.volume, "--cache", "buffered", NULL);
	volume = e2e_volume_open(load.session, "disk", 0);
	e2e_daemon_kill(&daemon_);
	e2e_daemon_start_again(&daemon_, file.volume, "--cache", "buffered", NULL);
	assert_int_equal(rblk_list(load.session, &list, sizeof(*list)), 1);
	free(list);
	e2e_daemon_kill(&daemon_);
	e2e_daemon_start_again(&daemon_, file.volume, "--cache", "buffered", NULL);
	assert_int_equal(rblk_volume_close(volume), 0);
	assert_int_equal(rblk_volume_refresh(load.volume), 0);
	rblk_session_close(load.session);
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
	e2e_file_remove(&file);
}

/* Two portals of one target: it does not matter that nothing listens at one of them. */
static void second_portal(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	char uri[256];
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;

	(void)state;
	e2e_daemon_start(&daemon_, "--memory", "disk=1M", NULL);
	snprintf(uri, sizeof(uri), "rblk+tcp://127.0.0.1:1,%s/disk", daemon_.host);
	options.queues = 4;
	session = e2e_session_open(uri, &options);
	volume = e2e_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, LARGE);
	for (unsigned int i = 0; i < 16; i++)
		assert_int_equal(rblk_pwrite(volume, data, LARGE, i * LARGE, 0), 0);
	rblk_session_close(session);
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_and_started_again),
		cmocka_unit_test(given_up),
		cmocka_unit_test(failed_fast),
		cmocka_unit_test(writes_are_lost),
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(silent),
		cmocka_unit_test(session_commands_wait),
		cmocka_unit_test(second_portal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
