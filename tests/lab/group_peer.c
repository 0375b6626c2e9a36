/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A hostile peer of discovery over RDMA, on the RDMA device of the IPv4 address LOCAL:
 *   twists LOCAL         sends queries that each break one rule, then a valid one until it is answered; fails if
 *                        anything but that answer comes; prints how many were malformed
 *   flood LOCAL COUNT    sends COUNT valid queries, and prints how many were answered
 *   lie LOCAL            joins the group, prints "ready", and answers each query wrongly
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/fabric/fabric.h"
#include "proto/fabric/fabric_group.h"
#include "tests/e2e/discover_twists.h"

static struct fab_group *group;

static void die(const char *what, int err)
{
	fprintf(stderr, "group_peer: %s: %s\n", what, strerror(err));
	exit(1);
}

static void join(const char *local, bool listen)
{
	struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
	struct fab_group_options options = {
		.local = (struct sockaddr *)&from, .group = (struct sockaddr *)&to, .listen = listen};
	char error[FAB_ERROR_BYTES];

	inet_pton(AF_INET, local, &from.sin_addr);
	inet_pton(AF_INET, RBLK_DISCOVER_GROUP_IPV4, &to.sin_addr);
	if (fab_group_join(&options, &group, error))
		die(error, errno);
}

/* Waits for one, so many milliseconds at most. */
static bool receive(struct fab_group_message *message, int timeout_ms)
{
	struct pollfd polled[FAB_GROUP_FDS];

	if (fab_group_receive(group, message))
		return true;
	if (fab_group_lost(group))
		die(fab_group_lost(group), EIO);
	fab_group_polled(group, polled);
	poll(polled, FAB_GROUP_FDS, timeout_ms);
	return fab_group_receive(group, message);
}

/* Answers that come meanwhile are counted. */
static unsigned int send_query(const void *data, size_t bytes)
{
	struct fab_group_message message;
	unsigned int answers = 0;
	int err;

	while ((err = fab_group_send(group, data, bytes)) == -EAGAIN)
		answers += receive(&message, 10);
	if (err)
		die("send", -err);
	return answers;
}

static void answer_check(const struct fab_group_message *message, const struct rblk_wire_discover *query)
{
	const struct rblk_wire_discover *answer = message->data;

	if (rblk_check_discover(answer, message->length, RBLK_DISCOVER_ANSWER) ||
	    memcmp(answer->nonce, query->nonce, sizeof(query->nonce)) != 0)
		die("not the answer to the valid query", EPROTO);
}

static void twists(void)
{
	struct rblk_wire_discover query[2], good = discover_query(1), another = discover_query(255);
	struct fab_group_message message;
	unsigned int sent = 0, answers = 0;
	size_t bytes;

	for (; discover_twist(sent, query, &bytes); sent++)
		answers += send_query(query, bytes);
	/* Another target's name. */
	strcpy(another.name, "another");
	answers += send_query(&another, sizeof(another));
	if (answers)
		die("an answer to none", EPROTO);
	for (unsigned int i = 0; i < 60 && !answers; i++) {
		send_query(&good, sizeof(good));
		while (receive(&message, 1000)) {
			answer_check(&message, &good);
			answers++;
		}
	}
	if (!answers)
		die("no answer", ETIMEDOUT);
	printf("%u malformed\n", sent);
}

static void flood(unsigned long count)
{
	struct rblk_wire_discover good = discover_query(1);
	struct fab_group_message message;
	unsigned long answers = 0;

	for (unsigned long i = 0; i < count; i++)
		answers += send_query(&good, sizeof(good));
	while (receive(&message, 2000))
		answers++;
	printf("%lu answers\n", answers);
}

/* To each query: an answer to another one, one that is too long, one that is too short, and a query. */
static void lie(void)
{
	struct fab_group_message message;

	puts("ready");
	fflush(stdout);
	for (;;) {
		struct rblk_wire_discover answers[2];

		if (!receive(&message, 1000) || message.length != sizeof(*answers))
			continue;
		memcpy(answers, message.data, sizeof(*answers));
		memcpy(answers + 1, message.data, sizeof(*answers));
		fab_group_answer(group, &message, answers, sizeof(*answers));
		answers->type = rblk_to_le16(RBLK_DISCOVER_ANSWER);
		answers->protocol = rblk_to_le16(1);
		answers->instance[0] = 1;
		strcpy(answers->name, "liar");
		fab_group_answer(group, &message, answers, sizeof(*answers) - 1);
		fab_group_answer(group, &message, answers, sizeof(answers));
		answers->nonce[0] ^= 1;
		fab_group_answer(group, &message, answers, sizeof(*answers));
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	join(argv[2], !strcmp(argv[1], "lie"));
	if (!strcmp(argv[1], "twists"))
		twists();
	else if (!strcmp(argv[1], "flood") && argc == 4)
		flood(strtoul(argv[3], NULL, 10));
	else if (!strcmp(argv[1], "lie"))
		lie();
	else
		return 2;
	fab_group_leave(group);
	return 0;
}
