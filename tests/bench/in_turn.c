/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Many sessions, one I/O at a time:
 *   bench_in_turn URI SESSIONS I/OS
 * Opens them all, then reads 4 KiB on each in turn. Before the first read and after the last one it opens a volume and
 * closes it: these CLOSEs, the only ones until then, mark the reads for whoever counts in the target.
 */
#include "initiator/rblk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 4096u

struct client {
	struct rblk_session *session;
	struct rblk_volume *volume;
	void *block;
};

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "bench_in_turn: %s: %s\n", what, why);
	exit(1);
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || !value)
		fail(text, "not a number");
	return value;
}

static void client_open(struct client *client, const char *uri)
{
	/* Never polling: the target has the processor until it has answered. */
	struct rblk_options options = {
		.size = sizeof(options), .polling = RBLK_POLL_NEVER, .credits = 4, .statistics = "no"};
	char error[RBLK_ERROR_BYTES];

	client->session = rblk_session_open(uri, &options, error);
	if (!client->session)
		fail(uri, error);
	client->volume = rblk_volume_open(client->session, NULL, 0);
	client->block = client->volume ? rblk_buffer_alloc(client->session, BLOCK) : NULL;
	if (!client->block)
		fail(uri, rblk_session_error(client->session));
	/* Acknowledges the answers now. Until then the target would keep their memory, for all these sessions. */
	rblk_arm(client->session);
}

/* Opens the volume once more and closes it: a mark. */
static void mark(const struct client *client)
{
	struct rblk_volume *volume = rblk_volume_open(client->session, NULL, 0);

	if (!volume || rblk_volume_close(volume))
		fail("volume", rblk_session_error(client->session));
}

int main(int argc, char **argv)
{
	unsigned long count, ios;
	struct client *clients;

	if (argc != 4)
		fail("arguments", "URI SESSIONS I/OS");
	count = number(argv[2]);
	ios = number(argv[3]);
	clients = calloc(count, sizeof(*clients));
	if (!clients)
		fail(argv[2], "no memory");
	for (unsigned long i = 0; i < count; i++)
		client_open(&clients[i], argv[1]);
	mark(&clients[0]);
	for (unsigned long i = 0; i < ios; i++) {
		int err = rblk_pread(clients[i % count].volume, clients[i % count].block, BLOCK, 0);

		if (err)
			fail("read", strerror(-err));
	}
	mark(&clients[0]);
	for (unsigned long i = 0; i < count; i++)
		rblk_session_close(clients[i].session);
	free(clients);
	return 0;
}
