/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an initiator that sends many commands and receives no answers does not keep others from
 * connecting, opening and reading; and an initiator that asks for the most credits allowed gets
 * them. Method: initiators that send many LISTs and never step their connection again, next to one
 * that does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define GREEDY 3u
#define LISTS 64u

static struct e2e_daemon server;

static int start(void **state)
{
	(void)state;
	/* No keep-alive, so the silent ones are not ended. */
	e2e_daemon_start(&server, "--memory", "mem=4M", "--connections", "16", "--reactors", "1",
			 "--keepalive", "0", "--receive-buffers", "8192", "--credits", "1024", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return e2e_daemon_stop(&server);
}

/* As many LISTs as fit into one message; their reports are not received. */
static void list_without_end(struct raw *raw)
{
	for (unsigned int n = 0; n < LISTS; n++) {
		struct rblk_wire_command *command = raw_command(raw, 0, n);

		raw_fill(raw, command, n, RBLK_OP_LIST, (uint16_t)n);
		raw_segment(raw, command, RBLK_LIST_MAX * sizeof(struct rblk_wire_volume));
	}
	raw_send(raw, LISTS * 64);
}

static void who_takes_nothing_keeps_nobody_out(void **state)
{
	struct raw greedy[GREEDY], late;
	uint32_t volume;

	(void)state;
	for (unsigned int i = 0; i < GREEDY; i++) {
		raw_init(&greedy[i]);
		greedy[i].login.credits = rblk_to_le16(LISTS);
		assert_true(raw_connect(&greedy[i], server.host));
		list_without_end(&greedy[i]);
	}
	raw_init(&late);
	assert_true(raw_connect(&late, server.host));
	volume = raw_open(&late, "mem");
	assert_int_not_equal(volume, 0);
	raw_io(&late, RBLK_OP_READ, 1, volume, 0, 8, 4096);
	assert_int_equal(raw_wait(&late, 1), RBLK_OK);
	raw_close(&late);
	/* Every LIST is answered; those without memory for a report got BUSY. */
	for (unsigned int i = 0; i < GREEDY; i++) {
		for (uint16_t tag = 0; tag < LISTS; tag++) {
			uint16_t status = raw_wait(&greedy[i], tag);

			assert_true(status == RBLK_OK || status == RBLK_E_BUSY);
		}
		raw_close(&greedy[i]);
	}
}

static void the_most_credits_are_granted(void **state)
{
	struct raw raw;

	(void)state;
	raw_init(&raw);
	raw.login.credits = rblk_to_le16(RBLK_CREDITS_MAX);
	assert_true(raw_connect(&raw, server.host));
	assert_int_equal(rblk_le16(raw.accept.credits), RBLK_CREDITS_MAX);
	assert_int_equal(raw_simple(&raw, RBLK_OP_PING, RBLK_CREDITS_MAX - 1), RBLK_OK);
	raw_close(&raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_takes_nothing_keeps_nobody_out),
		cmocka_unit_test(the_most_credits_are_granted),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
