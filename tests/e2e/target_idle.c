/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the default limits allow a thousand initiators; and a thousand idle connections cost the
 * target no processor time, and little memory each besides the buffers for their credits. Method: a
 * thousand sessions that send a command once and then nothing. The kernel's counters tell how often
 * the target's threads woke, how long they ran, and how much memory the target uses.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define PEERS (E2E_SANITIZED ? 250u : 1000u) /* a sanitizer's build is slow */
/* Of each connection: its receive buffers of 20 KiB, allocated as connections come, and the
 * rest. */
#define BYTES_EACH ((RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS) * 20480ull + 65536)
#define STRETCH_S 3

static struct e2e_daemon server;
static struct raw *peers;

/* The kernel's counters. */
struct usage {
	unsigned long wakeups; /* voluntary context switches */
	unsigned long ticks;   /* of processor time */
};

/* Only the daemon's own threads count: a sanitizer has one that wakes now and then. */
static bool thread_is_its_own(const char *thread, const char *stat)
{
	return atoi(thread) == server.pid || strstr(stat, "(reactor-");
}

static void thread_usage(const char *thread, struct usage *usage)
{
	unsigned long user = 0, system = 0, switches = 0;
	char path[300], line[512];
	const char *rest;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", server.pid, thread);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	if (!thread_is_its_own(thread, line))
		return;
	rest = strrchr(line, ')');
	assert_non_null(rest);
	assert_int_equal(sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				&user, &system),
			 2);
	usage->ticks += user + system;
	snprintf(path, sizeof(path), "/proc/%d/task/%s/status", server.pid, thread);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &switches) == 1)
			usage->wakeups += switches;
	fclose(file);
}

static struct usage server_usage(void)
{
	struct usage usage = {0};
	char path[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", server.pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			thread_usage(entry->d_name, &usage);
	closedir(dir);
	return usage;
}

static unsigned long long server_bytes(void)
{
	unsigned long long kib = 0;
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", server.pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %llu kB", &kib) == 1)
			break;
	fclose(file);
	return kib * 1024;
}

static void begin(const char *keepalive)
{
	/* Each session needs three descriptors in this process. */
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_true(limit.rlim_cur > 4 * PEERS);
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "1", "--keepalive", keepalive,
			 NULL);
	peers = calloc(PEERS, sizeof(*peers));
	assert_non_null(peers);
}

/* The number `i`. The others take what was sent to them meanwhile, however long this lasts (C8). */
static void connect_one(unsigned int i)
{
	struct raw *peer = &peers[i];

	for (unsigned int other = 0; i % 25 == 0 && other < i; other++)
		raw_poll(&peers[other]);
	raw_init(peer);
	peer->login.credits = rblk_to_le16(RBLK_CREDITS_MIN);
	assert_true(raw_connect(peer, server.host));
	assert_int_equal(raw_simple(peer, RBLK_OP_PING, 0), RBLK_OK);
}

static void end(void)
{
	for (unsigned int i = 0; i < PEERS; i++)
		raw_close(&peers[i]);
	free(peers);
	assert_int_equal(e2e_daemon_stop(&server), 0);
}

/* Waits until no thread wakes: the work after connecting (polling, log lines) is done. */
static struct usage settled(void)
{
	const struct timespec pause = {.tv_nsec = 200000000};
	struct usage before, now = server_usage();
	time_t until = time(NULL) + 60;

	do {
		assert_true(time(NULL) < until);
		before = now;
		nanosleep(&pause, NULL);
		now = server_usage();
	} while (now.wakeups != before.wakeups || now.ticks != before.ticks);
	return now;
}

static void a_thousand_idle_connections_cost_nothing(void **state)
{
	const struct timespec stretch = {.tv_sec = STRETCH_S};
	unsigned long long bytes;
	struct usage before, after;

	(void)state;
	begin("0");
	/* The first connection allocates what all share: rings, pages of the pool. */
	connect_one(0);
	settled();
	bytes = server_bytes();
	for (unsigned int i = 1; i < PEERS; i++)
		connect_one(i);
	before = settled();
	if (!E2E_SANITIZED)
		assert_in_range((server_bytes() - bytes) / (PEERS - 1), 0, BYTES_EACH);
	print_message("%llu bytes for each connection\n", (server_bytes() - bytes) / (PEERS - 1));
	nanosleep(&stretch, NULL);
	after = server_usage();
	/* No thread wakes: there is nothing to do. */
	assert_int_equal(after.wakeups, before.wakeups);
	assert_int_equal(after.ticks, before.ticks);
	/* And all sessions are still there. */
	for (unsigned int i = 0; i < PEERS; i++)
		assert_int_equal(raw_simple(&peers[i], RBLK_OP_PING, 0), RBLK_OK);
	end();
}

/*
 * With probes: the target probes each connection once per keep-alive time and receives an answer.
 * That is at most two wakeups per connection, and fewer because timers have a slack.
 */
static void probes_cost_what_they_must(void **state)
{
	const uint64_t stretch_ns = STRETCH_S * 1000000000ull;
	struct usage before, after;
	uint64_t begun_ns;

	(void)state;
	begin("1s");
	for (unsigned int i = 0; i < PEERS; i++)
		connect_one(i);
	before = server_usage();
	begun_ns = env_now_ns();
	while (env_now_ns() - begun_ns < stretch_ns)
		for (unsigned int i = 0; i < PEERS; i++)
			raw_poll(&peers[i]);
	after = server_usage();
	print_message("%lu wakeups, %lu ticks in %u s\n", after.wakeups - before.wakeups,
		      after.ticks - before.ticks, STRETCH_S);
	assert_in_range(after.wakeups - before.wakeups, 1, 2 * PEERS * (STRETCH_S + 1));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thousand_idle_connections_cost_nothing),
		cmocka_unit_test(probes_cost_what_they_must),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
