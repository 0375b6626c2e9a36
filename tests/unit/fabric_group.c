/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the source of a datagram over RDMA is found in any header that a device puts in front of it, and in
 * nothing else; an address that is no RDMA device's is refused with its name. Method: headers written down here.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/fabric/fabric.h"
#include "proto/fabric/fabric_group.h"

/* 10.9.0.2 to 239.255.114.98, protocol UDP, time to live 1. */
static const uint8_t ipv4[20] = {0x45, 0, 0x02, 0x28, 0, 0, 0x40, 0, 1, 17, 0, 0, 10, 9, 0, 2, 239, 255, 114, 98};

/* With its checksum. */
static void ipv4_make(uint8_t header[FAB_GROUP_HEADER_BYTES])
{
	uint32_t sum = 0;

	memcpy(header + 20, ipv4, sizeof(ipv4));
	for (unsigned int i = 0; i < sizeof(ipv4); i += 2)
		sum += (uint32_t)ipv4[i] << 8 | ipv4[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	header[30] = (uint8_t)(~sum >> 8);
	header[31] = (uint8_t)~sum;
}

static const char *source(const uint8_t header[FAB_GROUP_HEADER_BYTES])
{
	static char text[INET6_ADDRSTRLEN];
	uint8_t address[16];

	if (!fab_group_source(header, address))
		return "none";
	return inet_ntop(AF_INET6, address, text, sizeof(text));
}

static void of_ipv4(void **state)
{
	uint8_t header[FAB_GROUP_HEADER_BYTES] = {0};

	ipv4_make(header);
	assert_string_equal(source(header), "::ffff:10.9.0.2");
	/* What is left in front of it from before, even if it looks like IPv6. */
	memset(header, 0xff, 20);
	assert_string_equal(source(header), "::ffff:10.9.0.2");
	memset(header, 0x60, 20);
	assert_string_equal(source(header), "::ffff:10.9.0.2");
	/* Soft-RoCE, from the same machine: no checksum. */
	memset(header, 0, 20);
	header[30] = header[31] = 0;
	assert_string_equal(source(header), "::ffff:10.9.0.2");
}

static void of_ipv6(void **state)
{
	uint8_t header[FAB_GROUP_HEADER_BYTES] = {0x60};

	inet_pton(AF_INET6, "fd09::2", header + 8);
	inet_pton(AF_INET6, "ff12::7262:6c6b", header + 24);
	assert_string_equal(source(header), "fd09::2");
	/* A destination that begins like IPv4's header, without its checksum. */
	header[20] = 0x45;
	assert_string_equal(source(header), "fd09::4500:2");
}

static void of_nothing(void **state)
{
	uint8_t header[FAB_GROUP_HEADER_BYTES] = {0};

	assert_string_equal(source(header), "none");
	header[20] = 0x46; /* options: not of RoCE */
	assert_string_equal(source(header), "none");
	header[20] = 0x65;
	assert_string_equal(source(header), "none");
	memset(header, 0xff, sizeof(header));
	assert_string_equal(source(header), "none");
}

static void no_device(void **state)
{
	struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)}, /* nobody's */
		to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xefff7262)};
	struct fab_group_options options = {
		.local = (struct sockaddr *)&local, .group = (struct sockaddr *)&to, .listen = true};
	struct fab_group *group = (struct fab_group *)&options;
	char error[FAB_ERROR_BYTES] = "";

	assert_true(fab_group_join(&options, &group, error) < 0);
	assert_null(group);
	assert_ptr_equal(strstr(error, "192.0.2.1: "), error);
	fab_group_leave(group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_ipv4), cmocka_unit_test(of_ipv6),
		cmocka_unit_test(of_nothing), cmocka_unit_test(no_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
