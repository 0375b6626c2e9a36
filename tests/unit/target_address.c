/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an address to listen on is parsed in all its forms, is printed in a form that parses again,
 * and gives the right socket addresses. Method: texts against the struct.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include "target/base/error.h"
#include "target/control/address.h"
#include "tests/unit/unit.h"

static void texts_are_understood(void **state)
{
	static const struct {
		const char *text, *again;
		enum fab_kind kind;
		const char *host;
		unsigned int port;
	} cases[] = {
		{"rblk://storage", "rblk://storage:4430", FAB_VERBS, "storage", 4430},
		{"rblk+tcp://127.0.0.1:0", "rblk+tcp://127.0.0.1:0", FAB_TCP, "127.0.0.1", 0},
		{"rdma://10.0.0.1:1", "rblk://10.0.0.1:1", FAB_VERBS, "10.0.0.1", 1},
		{"tcp://[::1]:65535", "rblk+tcp://[::1]:65535", FAB_TCP, "::1", 65535},
		{"rblk://[fe80::1%eth0]", "rblk://[fe80::1%eth0]:4430", FAB_VERBS, "fe80::1%eth0",
		 4430},
		{"rblk://", "rblk://:4430", FAB_VERBS, "", 4430},
		{"rblk+tcp://:7", "rblk+tcp://:7", FAB_TCP, "", 7},
		{"nvme+tcp://[::]", "nvme+tcp://[::]:4420", FAB_NVME, "::", 4420},
		{"nvme+rdma://h", "nvme+rdma://h:4420", FAB_NVME_RDMA, "h", 4420},
		{"sim://10.0.0.1:4430", "sim://10.0.0.1:4430", FAB_SIM, "10.0.0.1", 4430},
	};
	struct tgt_address address;
	char text[TGT_ADDRESS_BYTES];

	for (size_t i = 0; i < UNIT_LENGTH(cases); i++) {
		assert_null(tgt_address_parse(cases[i].text, &address));
		assert_int_equal(address.kind, cases[i].kind);
		assert_string_equal(address.host, cases[i].host);
		assert_int_equal(address.port, cases[i].port);
		tgt_address_format(&address, text);
		assert_string_equal(text, cases[i].again);
		assert_null(tgt_address_parse(text, &address));
	}
}

static void nonsense_is_refused(void **state)
{
	static const struct {
		const char *text, *wrong;
	} cases[] = {
		{"", "it begins with none of rblk://, rblk+tcp://, nvme+tcp:// and nvme+rdma://"},
		{"10.0.0.1", "it begins with none of rblk://, rblk+tcp://, nvme+tcp:// and nvme+rdma://"},
		{"udp://h", "it begins with none of rblk://, rblk+tcp://, nvme+tcp:// and nvme+rdma://"},
		{"rblk:/h", "it begins with none of rblk://, rblk+tcp://, nvme+tcp:// and nvme+rdma://"},
		{"rblk://h:", "the port must be a number from 0 to 65535"},
		{"rblk://h:65536", "the port must be a number from 0 to 65535"},
		{"rblk://h:-1", "the port must be a number from 0 to 65535"},
		{"rblk://h:12x", "the port must be a number from 0 to 65535"},
		{"rblk://[]:1", "the host is missing"},
		{"rblk://[::1", "the bracket of the IPv6 address is not closed"},
		{"rblk://[::1]4430", "only \":PORT\" may follow the bracket"},
		{"rblk://::1:1", "an IPv6 address must be in brackets, as in [::1]"},
		{"rblk://h/volume", "a host has no \"/\""},
		{"rblk+tcp://4430", "a number alone is no host; a port is written :PORT"},
		{"rblk://4430:1", "a number alone is no host; a port is written :PORT"},
	};
	char text[200] = "rblk://";
	struct tgt_address address;

	for (size_t i = 0; i < UNIT_LENGTH(cases); i++)
		assert_string_equal(tgt_address_parse(cases[i].text, &address), cases[i].wrong);
	memset(text + strlen(text), 'h', 112);
	assert_string_equal(tgt_address_parse(text, &address), "it is too long");
}

static void numbers_become_socket_addresses(void **state)
{
	struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES];
	const struct sockaddr_in *in = (const struct sockaddr_in *)&found[0];
	struct tgt_address address;
	char error[TGT_ERROR_BYTES];

	assert_null(tgt_address_parse("rblk://10.1.2.3:99", &address));
	assert_int_equal(tgt_address_resolve(&address, found, error), 1);
	assert_int_equal(in->sin_family, AF_INET);
	assert_int_equal(ntohl(in->sin_addr.s_addr), 0x0a010203);
	assert_int_equal(ntohs(in->sin_port), 99);
	assert_null(tgt_address_parse("rblk://[:x]:99", &address));
	assert_int_equal(tgt_address_resolve(&address, found, error), -EINVAL);
	assert_non_null(strstr(error, "rblk://[:x]:99: "));
}

static void an_empty_host_is_both_families(void **state)
{
	struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES];
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&found[0];
	const struct sockaddr_in *in = (const struct sockaddr_in *)&found[1];
	struct tgt_address address;
	char error[TGT_ERROR_BYTES];

	assert_null(tgt_address_parse("rblk+tcp://:99", &address));
	assert_int_equal(tgt_address_resolve(&address, found, error), 2);
	assert_int_equal(in6->sin6_family, AF_INET6);
	assert_true(IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr));
	assert_int_equal(ntohs(in6->sin6_port), 99);
	assert_int_equal(in->sin_family, AF_INET);
	assert_int_equal(in->sin_addr.s_addr, 0);
	assert_int_equal(ntohs(in->sin_port), 99);
}

static void sockets_collide_on_one_port(void **state)
{
	static const struct {
		const char *one, *other;
		bool collide;
	} cases[] = {
		{"10.0.0.1:99", "10.0.0.1:99", true},	    {"10.0.0.1:99", "10.0.0.1:98", false},
		{"10.0.0.1:99", "10.0.0.2:99", false},	    {"10.0.0.1:0", "10.0.0.1:0", false},
		{"0.0.0.0:99", "10.0.0.1:99", true},	    {"0.0.0.0:99", "[::1]:99", false},
		{"[::]:99", "10.0.0.1:99", true},	    {"[::]:99", "0.0.0.0:99", true},
		{"[::]:99", "[fe80::1]:99", true},	    {"[fe80::1%1]:99", "[fe80::1%2]:99", false},
		{"[fe80::1%1]:99", "[fe80::1%1]:99", true}, {"[fe80::1]:99", "[fe80::2]:99", false},
		{"[::1]:99", "127.0.0.1:99", false},
	};
	struct sockaddr_storage one[TGT_ADDRESS_CANDIDATES], other[TGT_ADDRESS_CANDIDATES];
	char text[64], error[TGT_ERROR_BYTES];
	struct tgt_address address;

	assert_true(tgt_kinds_share_ports(FAB_TCP, FAB_TCP));
	assert_true(tgt_kinds_share_ports(FAB_VERBS, FAB_VERBS));
	assert_false(tgt_kinds_share_ports(FAB_TCP, FAB_VERBS));
	assert_false(tgt_kinds_share_ports(FAB_VERBS, FAB_TCP));
	for (size_t i = 0; i < UNIT_LENGTH(cases); i++) {
		snprintf(text, sizeof(text), "rblk+tcp://%s", cases[i].one);
		assert_null(tgt_address_parse(text, &address));
		assert_int_equal(tgt_address_resolve(&address, one, error), 1);
		snprintf(text, sizeof(text), "rblk+tcp://%s", cases[i].other);
		assert_null(tgt_address_parse(text, &address));
		assert_int_equal(tgt_address_resolve(&address, other, error), 1);
		assert_int_equal(tgt_sockets_collide(one, other), cases[i].collide);
		assert_int_equal(tgt_sockets_collide(other, one), cases[i].collide);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_understood),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(numbers_become_socket_addresses),
		cmocka_unit_test(an_empty_host_is_both_families),
		cmocka_unit_test(sockets_collide_on_one_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
