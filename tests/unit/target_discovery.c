/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a target answers so many queries of one address and in all, however many addresses ask, and
 * tells the portals of the network that asked and no others. Method: the limit with a clock of the
 * test's own, and as many addresses as a forger likes; answers made of addresses written down here.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/wire/wire_check.h"
#include "target/watch/discovery_address.h"
#include "target/watch/discovery_responder.h"
#include "target/watch/discovery_limit.h"
#include "target/watch/discovery_portals.h"
#include "target/watch/discovery_window.h"

/* -- the limit ---------------------------------------------------------------------------------- */

#define SECOND 1000000000ull

static struct tgt_discovery_limit limit;

static void address_make(uint8_t address[16], uint64_t number)
{
	memset(address, 0, 16);
	memcpy(address, &number, sizeof(number));
}

/* How many of `count` queries of this address are answered at this time. */
static unsigned int taken(uint64_t number, unsigned int count, uint64_t now_ns)
{
	uint8_t address[16];
	unsigned int answers = 0;

	address_make(address, number);
	while (count--)
		answers += tgt_discovery_limit_take(&limit, address, now_ns);
	return answers;
}

static void one_address(void **state)
{
	uint64_t now = 5 * SECOND;

	tgt_discovery_limit_init(&limit, 1);
	assert_int_equal(taken(1, 1000, now), TGT_DISCOVERY_BURST);
	assert_int_equal(taken(2, 1, now), 1); /* others are not affected */
	now += SECOND;
	assert_int_equal(taken(1, 1000, now), TGT_DISCOVERY_RATE);
	/* What was not used is there again up to the burst, never more. */
	now += 1000 * SECOND;
	assert_int_equal(taken(1, 1000, now), TGT_DISCOVERY_BURST);
}

static void all_together(void **state)
{
	uint64_t now = 5 * SECOND;
	unsigned int answers = 0;

	tgt_discovery_limit_init(&limit, 2);
	for (uint64_t i = 0; i < 100000; i++)
		answers += taken(i, 1, now);
	assert_in_range(answers, 1, TGT_DISCOVERY_BURST_ALL);
	/* For ten seconds, a new address for each query: the rate of all, and no more. */
	answers = 0;
	for (uint64_t i = 0; i < 100000; i++)
		answers += taken(200000 + i, 1, now + i * (10 * SECOND / 100000));
	assert_in_range(answers, 1, 10 * TGT_DISCOVERY_RATE_ALL);
}

/* So many reads, and the next when the window is over; what waits for it wakes then, or earlier. */
static void window_reads(void **state)
{
	struct tgt_discovery_window window = { 0 };
	uint64_t now = 5 * SECOND;

	assert_true(tgt_discovery_window_open(&window, now));
	for (unsigned int i = 0; i < TGT_DISCOVERY_WINDOW_READS; i++) {
		assert_int_equal(tgt_discovery_window_wait_ms(&window, now + SECOND, now), 1001);
		assert_true(tgt_discovery_window_open(&window, now + i));
		window.reads++;
	}
	assert_false(tgt_discovery_window_open(&window, now + TGT_DISCOVERY_WINDOW_NS - 1));
	assert_int_equal(tgt_discovery_window_wait_ms(&window, now + SECOND, now), 101);
	assert_int_equal(tgt_discovery_window_wait_ms(&window, now + SECOND / 100, now), 11);
	assert_int_equal(tgt_discovery_window_wait_ms(&window, now, now + 1), 0);
	assert_true(tgt_discovery_window_open(&window, now + TGT_DISCOVERY_WINDOW_NS));
	assert_int_equal(window.reads, 0);
}

/* -- the responder ----------------------------------------------------------------------------- */

static struct tgt_discovery_responder responder;

/* By whatever fabric: the limits of an address are one. */
static void one_responder(void **state)
{
	struct rblk_wire_discover query = { .magic = rblk_to_le32(RBLK_MAGIC),
					    .version = rblk_to_le16(RBLK_DISCOVER_VERSION),
					    .type = rblk_to_le16(RBLK_DISCOVER_QUERY),
					    .nonce = { 7 } };
	struct tgt_discovery_question question = {
		.discover = &query, .length = sizeof(query), .address = { 1 }, .interface = "eth0" };
	struct rblk_wire_discover answer = { .nonce = { 0 } };
	uint64_t now = 5 * SECOND;

	memset(&responder, 0, sizeof(responder));
	strcpy(responder.self.name, "storage1");
	tgt_discovery_responder_init(&responder, "all");
	for (unsigned int i = 0; i < TGT_DISCOVERY_BURST; i++)
		assert_true(tgt_discovery_responder_take(&responder, &question, &answer, now));
	assert_int_equal(answer.nonce[0], 7);
	question.interface = "eth1";
	assert_false(tgt_discovery_responder_take(&responder, &question, &answer, now));
	assert_int_equal(responder.limited, 1);
	question.address[0] = 2;
	strcpy(query.name, "storage2");
	assert_false(tgt_discovery_responder_take(&responder, &question, &answer, now));
	strcpy(query.name, "storage1");
	assert_true(tgt_discovery_responder_take(&responder, &question, &answer, now));
	question.length--;
	assert_false(tgt_discovery_responder_take(&responder, &question, &answer, now));
	question.length += 2;
	assert_false(tgt_discovery_responder_take(&responder, &question, &answer, now));
	assert_int_equal(responder.malformed, 2);
	assert_int_equal(responder.limited, 1);
	tgt_discovery_responder_fini(&responder);
}

/* Who asks in the name of many does not get rid of what he has had himself. */
static void not_forgotten(void **state)
{
	uint64_t now = 5 * SECOND;

	tgt_discovery_limit_init(&limit, 3);
	assert_int_equal(taken(1, 1000, now), TGT_DISCOVERY_BURST);
	for (uint64_t i = 0; i < 100000; i++)
		taken(1000 + i, 1, now);
	assert_int_equal(taken(1, 1000, now), 0);
}

/* -- the answer --------------------------------------------------------------------------------- */

struct entry {
	struct ifaddrs ifaddrs;
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr any;
	} address;
};

static void entry_make(struct entry *entry, const char *interface, const char *text)
{
	memset(entry, 0, sizeof(*entry));
	entry->ifaddrs.ifa_name = (char *)interface;
	entry->ifaddrs.ifa_flags = IFF_UP | (strcmp(interface, "lo") ? IFF_MULTICAST : IFF_LOOPBACK);
	entry->ifaddrs.ifa_addr = &entry->address.any;
	if (inet_pton(AF_INET, text, &entry->address.v4.sin_addr) == 1) {
		entry->address.any.sa_family = AF_INET;
	} else {
		entry->address.any.sa_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, text, &entry->address.v6.sin6_addr), 1);
	}
}

static struct tgt_discovery_listen listen_make(enum fab_kind kind, const char *text, uint16_t port)
{
	struct tgt_discovery_listen listen = { .kind = kind };
	struct entry entry;

	entry_make(&entry, "x", text);
	memcpy(&listen.address, &entry.address, sizeof(entry.address));
	((struct sockaddr_in *)&listen.address)->sin_port = htons(port);
	return listen;
}

/* 10.9.0.0/16 is RDMA's here. */
static bool rdma(const struct sockaddr *address)
{
	return address->sa_family == AF_INET &&
	       ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 16 == 0x0a09;
}

/* The answer's portals as text: "1 10.9.0.1:4430, ...". */
static const char *portals(const struct rblk_wire_discover *answer)
{
	static char text[1024];
	char host[INET6_ADDRSTRLEN];
	size_t length = 0;

	text[0] = 0;
	assert_int_equal(rblk_check_discover(answer, sizeof(*answer), RBLK_DISCOVER_ANSWER), RBLK_WIRE_OK);
	for (unsigned int i = 0; i < rblk_le16(answer->portal_count); i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%u %s %u", i ? ", " : "",
					   answer->portals[i].kind,
					   inet_ntop(AF_INET6, answer->portals[i].address, host, sizeof(host)),
					   rblk_le16(answer->portals[i].port));
	return text;
}

static struct entry entries[40];

static const struct ifaddrs *addresses(void)
{
	static const char *const all[][2] = {
		{ "lo", "127.0.0.1" },	{ "lo", "::1" },	 { "eth0", "10.8.0.1" }, { "eth0", "fd08::1" },
		{ "eth0", "fe80::8" },	{ "eth1", "10.9.0.1" }, { "eth1", "fd09::1" },
	};

	for (unsigned int i = 0; i < UNIT_LENGTH(all); i++) {
		entry_make(&entries[i], all[i][0], all[i][1]);
		if (i)
			entries[i - 1].ifaddrs.ifa_next = &entries[i].ifaddrs;
	}
	return &entries[0].ifaddrs;
}

static struct tgt_discovery_self self_make(void)
{
	return (struct tgt_discovery_self){ .name = "storage1", .instance = { 1 }, .rdma_address = rdma };
}

static void any_address(void **state)
{
	struct tgt_discovery_self self = self_make();
	struct rblk_wire_discover answer;

	self.listens[0] = listen_make(FAB_VERBS, "::", 4430);
	self.listens[1] = listen_make(FAB_TCP, "::", 4431);
	self.listens[2] = listen_make(FAB_TCP, "0.0.0.0", 4432);
	self.listen_count = 3;
	tgt_discovery_answer(&self, addresses(), "eth0", &answer);
	assert_string_equal(portals(&answer), "2 ::ffff:10.8.0.1 4431, 2 fd08::1 4431, 2 ::ffff:10.8.0.1 4432");
	assert_string_equal(answer.name, "storage1");
	tgt_discovery_answer(&self, addresses(), "eth1", &answer);
	assert_string_equal(portals(&answer), "1 ::ffff:10.9.0.1 4430, 2 ::ffff:10.9.0.1 4431, 2 fd09::1 4431, "
					      "2 ::ffff:10.9.0.1 4432");
	tgt_discovery_answer(&self, addresses(), "lo", &answer);
	assert_string_equal(portals(&answer), "2 ::ffff:127.0.0.1 4431, 2 ::1 4431, 2 ::ffff:127.0.0.1 4432");
}

static void one_listen(void **state)
{
	struct tgt_discovery_self self = self_make();
	struct rblk_wire_discover answer;

	self.listens[0] = listen_make(FAB_TCP, "127.0.0.1", 4430);
	self.listens[1] = listen_make(FAB_VERBS, "10.7.0.1", 4430);
	self.listen_count = 2;
	tgt_discovery_answer(&self, addresses(), "eth0", &answer);
	assert_string_equal(portals(&answer), "1 ::ffff:10.7.0.1 4430");
	tgt_discovery_answer(&self, addresses(), "lo", &answer);
	assert_string_equal(portals(&answer), "2 ::ffff:127.0.0.1 4430");
	/* An interface without an address, and without a portal, is answered all the same. */
	self.listen_count = 1;
	tgt_discovery_answer(&self, addresses(), "eth0", &answer);
	assert_string_equal(portals(&answer), "");
}

static void many_addresses(void **state)
{
	struct tgt_discovery_self self = self_make();
	struct rblk_wire_discover answer;
	char text[32];

	for (unsigned int i = 0; i < UNIT_LENGTH(entries); i++) {
		snprintf(text, sizeof(text), "10.9.1.%u", i / 2 + 1); /* each twice */
		entry_make(&entries[i], "eth1", text);
		if (i)
			entries[i - 1].ifaddrs.ifa_next = &entries[i].ifaddrs;
	}
	self.listens[0] = listen_make(FAB_TCP, "::", 4430);
	self.listen_count = 1;
	tgt_discovery_answer(&self, &entries[0].ifaddrs, "eth1", &answer);
	assert_int_equal(rblk_le16(answer.portal_count), RBLK_DISCOVER_PORTALS_MAX);
	assert_non_null(strstr(portals(&answer), "2 ::ffff:10.9.1.16 4430"));
}

static void names(void **state)
{
	char name[RBLK_NAME_BYTES], host[100];

	tgt_discovery_name("storage1.example.org", name);
	assert_string_equal(name, "storage1.example.org");
	tgt_discovery_name("my host\n", name);
	assert_string_equal(name, "my-host-");
	tgt_discovery_name("", name);
	assert_string_equal(name, "rblkd");
	memset(host, 'x', sizeof(host) - 1);
	host[sizeof(host) - 1] = 0;
	tgt_discovery_name(host, name);
	assert_true(rblk_name_valid(name));
	assert_int_equal(strlen(name), RBLK_NAME_BYTES - 1);
}

/* -- the link ----------------------------------------------------------------------------------- */

static bool on_link(const char *address, const char *local, const char *mask)
{
	struct entry entry;
	uint8_t a[16], b[16];

	entry_make(&entry, "x", mask);
	assert_int_equal(inet_pton(AF_INET6, address, a), 1);
	assert_int_equal(inet_pton(AF_INET6, local, b), 1);
	return tgt_discovery_on_link(a, b, tgt_discovery_prefix(entry.ifaddrs.ifa_addr));
}

static void links(void **state)
{
	static const char v4[] = "::ffff:10.9.3.1", v6[] = "fd09::1";

	assert_true(on_link("::ffff:10.9.3.2", v4, "255.255.255.0"));
	assert_true(on_link(v4, v4, "255.255.255.0")); /* this machine */
	assert_false(on_link("::ffff:10.9.4.2", v4, "255.255.255.0"));
	assert_false(on_link("::ffff:10.9.3.255", v4, "255.255.255.0"));
	assert_true(on_link("::ffff:10.9.4.255", v4, "255.255.0.0"));
	assert_false(on_link("::ffff:10.9.255.255", v4, "255.255.0.0"));
	assert_true(on_link("::ffff:10.9.3.0", v4, "255.255.255.254")); /* one of two */
	assert_false(on_link("::ffff:10.9.3.2", v4, "255.255.255.255"));
	assert_false(on_link("::ffff:255.255.255.255", v4, "255.0.0.0"));
	assert_false(on_link("fd09::2", v4, "255.255.255.0"));
	assert_true(on_link("fd09::2", v6, "ffff:ffff:ffff:ffff::"));
	assert_true(on_link("fd09::ffff:ffff:ffff:ffff", v6, "ffff:ffff:ffff:ffff::"));
	assert_false(on_link("fd08::2", v6, "ffff:ffff:ffff:ffff::"));
	assert_false(on_link("::ffff:10.9.3.2", v6, "ffff:ffff:ffff:ffff::"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_address),
		cmocka_unit_test(all_together),
		cmocka_unit_test(not_forgotten),
		cmocka_unit_test(any_address),
		cmocka_unit_test(one_listen),
		cmocka_unit_test(many_addresses),
		cmocka_unit_test(names),
		cmocka_unit_test(window_reads),
		cmocka_unit_test(links),
		cmocka_unit_test(one_responder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
