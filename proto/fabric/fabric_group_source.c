/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whom a datagram comes from, by the header that the device puts in front of it. A device does not say
 * which kind the header is. Pure; anyone may send what it reads.
 */
#include "proto/fabric/fabric_group.h"

#include <string.h>

#define IPV4_AT 20	   /* of the header: what is in front of it is not defined */
#define IPV4_BYTES 20	   /* without options: RoCE has none */
#define IPV4_SOURCE_AT 12
#define IPV6_SOURCE_AT 8   /* InfiniBand's global route header has the same place */

/* The sum of a right header, its own checksum included, is all ones. */
static bool ipv4_sum_right(const uint8_t header[IPV4_BYTES])
{
	uint32_t sum = 0;

	for (unsigned int i = 0; i < IPV4_BYTES; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/*
 * Bytes that look like IPv6 may be left over in front of IPv4: a header with a right checksum is no
 * accident. Where it does not look like IPv6, the checksum is not asked for: Soft-RoCE leaves it
 * out of what a machine sends to itself.
 */
static bool is_ipv4(const uint8_t header[FAB_GROUP_HEADER_BYTES])
{
	if (header[IPV4_AT] != 0x45)
		return false;
	return header[0] >> 4 != 6 || ipv4_sum_right(header + IPV4_AT);
}

bool fab_group_source(const uint8_t header[FAB_GROUP_HEADER_BYTES], uint8_t address[16])
{
	if (is_ipv4(header)) {
		memset(address, 0, 16);
		address[10] = address[11] = 0xff;
		memcpy(address + 12, header + IPV4_AT + IPV4_SOURCE_AT, 4);
		return true;
	}
	memcpy(address, header + IPV6_SOURCE_AT, 16);
	return header[0] >> 4 == 6;
}
