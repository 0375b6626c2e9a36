/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A hostile peer of discovery, over IPv4:
 *   twists IFACE PORT        sends queries that each break one rule, some to where none belongs, then a valid
 *                            one; fails if anything but the answer to the last comes, or that is longer than it;
 *                            prints how many were malformed, and the answer's text
 *   flood IFACE PORT COUNT ADDRESSES   sends COUNT valid queries, in turn as 10.78.0.0, 10.78.0.1, ... (forged);
 *                            ADDRESSES 0: all as what the interface has
 *   lie IFACE PORT KIND      joins the group and answers each query wrongly; many: as one target of 48 portals;
 *                            prints "ready"
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "proto/wire/wire_check.h"
#include "tests/e2e/discover_twists.h"

static unsigned int index_of;
static struct sockaddr_in group = {.sin_family = AF_INET};

static void die(const char *what)
{
	fprintf(stderr, "discover_peer: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* A socket that sends into the group by the interface; from: 0, or a forged address. */
static int socket_make(uint32_t from)
{
	struct ip_mreqn by = {.imr_ifindex = (int)index_of};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(from)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by)))
		die("socket");
	if (from && (setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof(one)) ||
		     bind(fd, (struct sockaddr *)&address, sizeof(address))))
		die("bind");
	return fd;
}

static void send_to(int fd, const void *data, size_t bytes, const struct sockaddr_in *to)
{
	if (sendto(fd, data, bytes, 0, (const struct sockaddr *)to, sizeof(*to)) < 0 && errno != ECONNREFUSED)
		die("send");
}

/* -- twists ------------------------------------------------------------------------------------- */

static unsigned int sent;

static void twists_send(int fd)
{
	struct rblk_wire_discover query[2];
	size_t bytes;

	for (; discover_twist(sent, query, &bytes); sent++)
		send_to(fd, query, bytes, &group);
}

/* Nothing else may come: not to what is malformed, and nothing that is longer than its question. */
static void answer_check(const uint8_t *answer, ssize_t length, const struct rblk_wire_discover *query)
{
	if (length != sizeof(*query) || rblk_check_discover(answer, (size_t)length, RBLK_DISCOVER_ANSWER) ||
	    memcmp(((const struct rblk_wire_discover *)answer)->nonce, query->nonce, sizeof(query->nonce)))
		die("not the answer to the valid query");
}

static void twists(uint16_t port, const char *unicast)
{
	struct sockaddr_in direct = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct rblk_wire_discover good = discover_query(1);
	struct pollfd polled = {.fd = socket_make(0), .events = POLLIN};
	uint8_t answer[2048];
	bool answered = false;

	twists_send(polled.fd);
	/* To the machine's own address: not for those who are not on the link. */
	good.nonce[0] = 255;
	inet_pton(AF_INET, unicast, &direct.sin_addr);
	send_to(polled.fd, &good, sizeof(good), &direct);
	/* Another target's name. */
	strcpy(good.name, "another");
	send_to(polled.fd, &good, sizeof(good), &group);
	good = discover_query(1);
	/* Again and again: it may be over the limit. The unicast query's answer is an error of a receive. */
	for (unsigned int i = 0; i < 60 && !answered; i++) {
		send_to(polled.fd, &good, sizeof(good), &group);
		while (poll(&polled, 1, 1000) == 1) {
			ssize_t length = recv(polled.fd, answer, sizeof(answer), 0);

			if (length < 0 && errno == ECONNREFUSED)
				continue;
			answer_check(answer, length, &good);
			answered = true;
		}
	}
	if (!answered)
		die("no answer");
	printf("%u malformed\n", sent);
	for (size_t i = 0; i < sizeof(good); i++)
		putchar(isprint(answer[i]) ? answer[i] : '.');
	putchar('\n');
}

/* -- flood -------------------------------------------------------------------------------------- */

static void flood(unsigned long count, unsigned long addresses)
{
	struct rblk_wire_discover good = discover_query(1);
	int fds[256];

	if (addresses > 256)
		addresses = 256;
	for (unsigned long i = 0; i < (addresses ? addresses : 1); i++)
		fds[i] = socket_make(addresses ? 0x0a4e0000u + (uint32_t)i + 1 : 0);
	for (unsigned long i = 0; i < count; i++) {
		int fd = fds[addresses ? i % addresses : 0];

		/* What the own queue does not take is no matter. */
		if (sendto(fd, &good, sizeof(good), MSG_DONTWAIT, (struct sockaddr *)&group, sizeof(group)) < 0 &&
		    errno != EAGAIN && errno != ENOBUFS && errno != ECONNREFUSED)
			die("flood");
	}
}

/* -- lies --------------------------------------------------------------------------------------- */

static struct rblk_wire_discover answer_make(const struct rblk_wire_discover *query)
{
	struct rblk_wire_discover answer = *query;

	answer.type = rblk_to_le16(RBLK_DISCOVER_ANSWER);
	memset(answer.name, 0, sizeof(answer.name));
	strcpy(answer.name, "liar");
	answer.instance[0] = 1;
	answer.protocol = rblk_to_le16(1);
	return answer;
}

#define LIE(assignment)                                                                            \
	do {                                                                                       \
		struct rblk_wire_discover d = answer_make(query);                                  \
		d.assignment;                                                                      \
		send_to(fd, &d, sizeof(d), to);                                                    \
	} while (0)

static void lies_send(int fd, const struct rblk_wire_discover *query, const struct sockaddr_in *to)
{
	struct rblk_wire_discover two[2] = {answer_make(query), answer_make(query)};

	send_to(fd, two, 0, to);
	send_to(fd, two, sizeof(two[0]) - 1, to);
	send_to(fd, two, sizeof(two), to);
	LIE(nonce[5] ^= 1); /* to another question */
	LIE(magic = 0);
	LIE(type = rblk_to_le16(RBLK_DISCOVER_QUERY));
	LIE(name[0] = 0);
	LIE(name[1] = '\x1b');
	LIE(name[63] = 'x');
	LIE(instance[0] = 0);
	LIE(protocol = 0);
	LIE(portal_count = rblk_to_le16(17));
	LIE(portal_count = rblk_to_le16(1)); /* of nothing */
	LIE(portals[0].kind = 1);	     /* uncounted */
}

/* Three times so many portals as one answer has place for. */
static void many_send(int fd, const struct rblk_wire_discover *query, const struct sockaddr_in *to)
{
	struct rblk_wire_discover answer = answer_make(query);

	answer.portal_count = rblk_to_le16(RBLK_DISCOVER_PORTALS_MAX);
	for (unsigned int i = 0; i < 3; i++) {
		for (unsigned int j = 0; j < RBLK_DISCOVER_PORTALS_MAX; j++)
			answer.portals[j] = (struct rblk_wire_portal){
				.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 77, [15] = 1},
				.port = rblk_to_le16((uint16_t)(1 + i * RBLK_DISCOVER_PORTALS_MAX + j)),
				.kind = RBLK_PORTAL_TCP,
			};
		send_to(fd, &answer, sizeof(answer), to);
	}
}

static void lie(const char *kind)
{
	struct ip_mreqn member = {.imr_multiaddr = group.sin_addr, .imr_ifindex = (int)index_of};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
	struct rblk_wire_discover query;
	struct sockaddr_in from;
	socklen_t bytes;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&group, sizeof(group)) ||
	    setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof(member)))
		die("listen");
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		bytes = sizeof(from);
		if (recvfrom(fd, &query, sizeof(query), 0, (struct sockaddr *)&from, &bytes) != sizeof(query))
			continue;
		if (!strcmp(kind, "many"))
			many_send(fd, &query, &from);
		else
			lies_send(fd, &query, &from);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	index_of = if_nametoindex(argv[2]);
	if (!index_of)
		die(argv[2]);
	inet_pton(AF_INET, RBLK_DISCOVER_GROUP_IPV4, &group.sin_addr);
	group.sin_port = htons((uint16_t)atoi(argv[3]));
	if (!strcmp(argv[1], "twists") && argc == 5)
		twists((uint16_t)atoi(argv[3]), argv[4]);
	else if (!strcmp(argv[1], "flood") && argc == 6)
		flood(strtoul(argv[4], NULL, 10), strtoul(argv[5], NULL, 10));
	else if (!strcmp(argv[1], "lie") && argc == 5)
		lie(argv[4]);
	else
		return 2;
	return 0;
}
