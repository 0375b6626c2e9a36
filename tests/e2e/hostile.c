/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Implements hostile.h. The load runs in a thread of its own; all else runs in the test's thread.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include "proto/core/env.h"
#include "tests/e2e/hostile.h"
#include "tests/e2e/load.h"

#define WAIT_NS (120 * 1000000000ull)

static struct e2e_daemon daemon;
static struct load *load;
static FILE *log_file;
static unsigned int offences, logged;

int hostile_start(void **state)
{
	struct load_options options = {.queues = 2, .depth = 2, .bytes = 1u << 20};

	(void)state;
	e2e_daemon_start(&daemon, "--memory", "mem=16M", "--memory", "load=1M", "--reactors", "2",
			 "--queues", "4", NULL);
	log_file = fopen(daemon.log, "r");
	assert_non_null(log_file);
	options.uri = e2e_daemon_uri(&daemon, "load");
	load = load_start(&options);
	load_wait(load, 1);
	return 0;
}

int hostile_stop(void **state)
{
	(void)state;
	load_stop(load);
	fclose(log_file);
	return e2e_daemon_stop(&daemon);
}

const char *hostile_host(void)
{
	return daemon.host;
}

void hostile_goes_on(void)
{
	load_wait(load, 2);
}

/* -- what the log says ------------------------------------------------------------------------- */

/* Counts one for a line about an offence, and one for each line that it says was suppressed. */
static unsigned int line_offences(const char *line)
{
	const char *last = strrchr(line, '(');
	unsigned int suppressed;

	if (!strstr(line, "closed: the peer broke the protocol: ") &&
	    !strstr(line, "(the peer does not expose the memory that it named)"))
		return 0;
	if (last && sscanf(last, "(%u similar line", &suppressed) == 1)
		return 1 + suppressed;
	return 1;
}

/* Reads on where the last call ended. True: there is a line about queue 0 with these words. */
static bool log_says(const char *words)
{
	char line[1024];
	bool said = false;
	long at;

	clearerr(log_file);
	for (at = ftell(log_file); fgets(line, sizeof(line), log_file); at = ftell(log_file)) {
		if (!strchr(line, '\n')) {
			fseek(log_file, at, SEEK_SET);
			break;
		}
		logged += line_offences(line);
		said |= strstr(line, " queue 0 [127.0.0.1:") && strstr(line, ": closed: ") &&
			strstr(line, words);
	}
	/* Never two lines for one offence. */
	assert_true(logged <= offences);
	return said;
}

/* -- offences ---------------------------------------------------------------------------------- */

/* Two queues of one session. */
static void connect_pair(struct raw *first, struct raw *second)
{
	raw_init(first);
	first->login.queue_count = rblk_to_le16(2);
	assert_true(raw_connect(first, daemon.host));
	raw_init(second);
	second->login = first->login;
	second->login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(second, daemon.host));
}

void hostile_offended(void)
{
	offences++;
}

void hostile_offend_quietly(void (*commit)(struct raw *raw, const void *arg), const void *arg)
{
	struct raw offender, sister;

	connect_pair(&offender, &sister);
	commit(&offender, arg);
	raw_wait_gone(&offender);
	hostile_offended();
	assert_int_equal(raw_simple(&sister, RBLK_OP_PING, 0), RBLK_OK);
	raw_close(&offender);
	raw_close(&sister);
	hostile_goes_on();
}

void hostile_offend(void (*commit)(struct raw *raw, const void *arg), const void *arg,
		    const char *words)
{
	uint64_t until_ns = env_now_ns() + WAIT_NS;

	log_says(words);
	do {
		if (env_now_ns() > until_ns)
			fail_msg("no line says \"%s\"", words);
		hostile_offend_quietly(commit, arg);
	} while (!log_says(words));
}

void hostile_settle(void (*commit)(struct raw *raw, const void *arg), const void *arg)
{
	uint64_t until_ns = env_now_ns() + WAIT_NS;

	while (log_says(""), logged != offences) {
		if (env_now_ns() > until_ns)
			fail_msg("%u offences, %u lines or suppressed", offences, logged);
		hostile_offend_quietly(commit, arg);
	}
}
