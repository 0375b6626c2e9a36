/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: when sessions, connections, credits or handles have run out, the target refuses a new
 * client with a reason that both ends log, existing clients continue, and what is released can be
 * used again. Method: targets that allow few of one kind. Initiators connect until one is refused;
 * then one leaves and another comes.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/rblk.h"
#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define PEERS 40u
#define WAIT_NS (60 * 1000000000ull)

static struct e2e_daemon server;
static struct raw peers[PEERS];

static int stop(void **state)
{
	(void)state;
	return e2e_daemon_stop(&server);
}

/* Connects until one is refused. Returns how many were accepted, and the reason of the refusal. */
static unsigned int fill(enum rblk_reject_reason *reason)
{
	for (unsigned int i = 0; i < PEERS; i++) {
		raw_init(&peers[i]);
		if (raw_connect(&peers[i], server.host)) {
			/* The target forgets a session without an open volume when its
			 * connection ends. */
			assert_int_not_equal(raw_open(&peers[i], "mem"), 0);
			continue;
		}
		*reason = rblk_le16(peers[i].reject.reason);
		raw_close(&peers[i]);
		return i;
	}
	fail_msg("all were accepted");
	return 0;
}

/* librblk's error has these words. */
static void assert_refused_with(const char *words)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	char text[RBLK_ERROR_BYTES] = "";

	errno = 0;
	options.no_reconnect = true;
	assert_null(rblk_session_open(e2e_daemon_uri(&server, "mem"), &options, text));
	assert_int_equal(errno, EAGAIN);
	assert_non_null(strstr(text, words));
}

/* One leaves, and another one takes its place. */
static void replace(struct raw *peer)
{
	uint64_t until_ns = env_now_ns() + WAIT_NS;

	raw_close(peer);
	raw_init(peer);
	while (!raw_connect(peer, server.host)) {
		assert_true(env_now_ns() < until_ns);
		raw_close(peer);
		raw_init(peer);
	}
	assert_int_not_equal(raw_open(peer, "mem"), 0);
}

static void all_go_on(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(raw_simple(&peers[i], RBLK_OP_PING, 0), RBLK_OK);
}

/* Fills the target, checks the words of the refusal, replaces one peer, ends. */
static unsigned int run_out(enum rblk_reject_reason expected, const char *words, const char *line)
{
	enum rblk_reject_reason reason = RBLK_REJECT_NONE;
	unsigned int count = fill(&reason);

	assert_int_equal(reason, expected);
	assert_refused_with(words);
	e2e_daemon_log_wait(&server, line, 2);
	all_go_on(count);
	replace(&peers[count / 2]);
	all_go_on(count);
	for (unsigned int i = 0; i < count; i++)
		raw_close(&peers[i]);
	return count;
}

static void sessions_run_out(void **state)
{
	(void)state;
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "1", "--sessions", "6", NULL);
	assert_int_equal(run_out(RBLK_REJECT_NO_RESOURCES,
				 "the target ran out of memory, queue pairs or sessions",
				 "full: all 6 sessions of reactor 0 are in use (its share of "
				 "--sessions)"),
			 6);
}

static void connections_run_out(void **state)
{
	(void)state;
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "1", "--connections", "5",
			 NULL);
	assert_int_equal(run_out(RBLK_REJECT_NO_RESOURCES,
				 "the target ran out of memory, queue pairs or sessions",
				 "full: all 5 connections of reactor 0 are in use (its share of "
				 "--connections)"),
			 5);
}

/* Each session is granted a share of what is left, so grants become small before they end. */
static void credits_run_out(void **state)
{
	(void)state;
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "1", "--receive-buffers",
			 "128", "--credits", "32", NULL);
	assert_in_range(run_out(RBLK_REJECT_NO_CREDITS,
				"the target's receive buffers are all promised to others",
				"full: the target's receive buffers are all promised to others"),
			4, 16);
}

/* Queue `index` of the session that `queue_0` has begun. */
static bool join(struct raw *raw, const struct raw *queue_0, uint16_t index, uint32_t incarnation)
{
	raw_init(raw);
	raw->login = queue_0->login;
	raw->login.queue_index = rblk_to_le16(index);
	raw->login.incarnation = rblk_to_le32(incarnation);
	return raw_connect(raw, server.host);
}

/*
 * C5: besides the others' queues there is room for four more. Two sessions have two each, and lose
 * their queues 0. Other queues cannot take all of what is free then: a queue 0 can always log in
 * again.
 */
static void queue_0_comes_back(enum rblk_reject_reason reason, unsigned int others)
{
	struct raw queue_0[2], queue_1[2], queue_2[2];

	for (unsigned int i = 0; i < others; i++) {
		raw_init(&peers[i]);
		peers[i].login.credits = rblk_to_le16(RBLK_CREDITS_MIN);
		assert_true(raw_connect(&peers[i], server.host));
	}
	for (unsigned int i = 0; i < 2; i++) {
		raw_init(&queue_0[i]);
		queue_0[i].login.queue_count = rblk_to_le16(3);
		queue_0[i].login.credits = rblk_to_le16(RBLK_CREDITS_MIN);
		assert_true(raw_connect(&queue_0[i], server.host));
		assert_int_not_equal(raw_open(&queue_0[i], "mem"), 0);
		assert_true(join(&queue_1[i], &queue_0[i], 1, 1));
	}
	/* The target answers when it has released them. */
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(raw_simple_numbers(&queue_1[i], RBLK_OP_FENCE, 0, 0, 1), RBLK_OK);
	assert_true(join(&queue_2[0], &queue_0[0], 2, 1));
	assert_false(join(&queue_2[1], &queue_0[1], 2, 1));
	assert_int_equal(rblk_le16(queue_2[1].reject.reason), reason);
	for (unsigned int i = 0; i < 2; i++) {
		struct rblk_wire_login login = queue_0[i].login;

		raw_close(&queue_0[i]);
		queue_0[i].login = login;
	}
	raw_close(&queue_2[1]);
	assert_true(join(&queue_2[1], &queue_0[1], 0, 2));
	assert_int_equal(raw_simple(&queue_2[1], RBLK_OP_PING, 0), RBLK_OK);
	for (unsigned int i = 0; i < 2; i++) {
		raw_close(&queue_1[i]);
		raw_close(&queue_2[i]);
	}
	for (unsigned int i = 0; i < others; i++)
		raw_close(&peers[i]);
}

static void connections_keep_queue_0(void **state)
{
	(void)state;
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "1", "--connections", "4",
			 NULL);
	queue_0_comes_back(RBLK_REJECT_NO_RESOURCES, 0);
}

static void credits_keep_queue_0(void **state)
{
	(void)state;
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "1", "--receive-buffers",
			 "64", "--credits", "4", NULL);
	queue_0_comes_back(RBLK_REJECT_NO_CREDITS, 4);
}

/* A session has as many as there are slots: one more closes another, and another session has its own. */
static void handles_run_out(void **state)
{
	struct raw raw, other;
	uint32_t first = 0, last = 0;

	(void)state;
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "1", NULL);
	raw_init(&raw);
	assert_true(raw_connect(&raw, server.host));
	for (unsigned int i = 0; i < RBLK_HANDLES_MAX; i++) {
		uint32_t handle = raw_open(&raw, "mem");

		assert_int_not_equal(handle, 0);
		last = handle;
		if (!first)
			first = handle;
	}
	assert_int_equal(raw_open(&raw, "mem"), last + 1);
	raw_io(&raw, RBLK_OP_READ, 1, first, 0, 1, 512);
	assert_int_equal(raw_wait(&raw, 1), RBLK_E_NO_VOLUME);
	raw_io(&raw, RBLK_OP_READ, 1, last, 0, 1, 512);
	assert_int_equal(raw_wait(&raw, 1), RBLK_OK);
	raw_init(&other);
	assert_true(raw_connect(&other, server.host));
	assert_int_not_equal(raw_open(&other, "mem"), 0);
	raw_close(&other);
	raw_close(&raw);
}

#define TEST(name) cmocka_unit_test_teardown(name, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sessions_run_out),		TEST(connections_run_out),  TEST(credits_run_out),
		TEST(connections_keep_queue_0), TEST(credits_keep_queue_0), TEST(handles_run_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
