/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The addresses of discovery_address.h. */
#include "target/watch/discovery_address.h"

#include <arpa/inet.h>
#include <string.h>

/* The prefix of an address of IPv4 that is mapped into IPv6. */
static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static bool is_ipv4(const uint8_t address[16])
{
	return !memcmp(address, mapped, sizeof(mapped));
}

bool tgt_discovery_address(const struct sockaddr *address, uint8_t bytes[16])
{
	if (address->sa_family == AF_INET6) {
		memcpy(bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
		return true;
	}
	memcpy(bytes, mapped, sizeof(mapped));
	memcpy(bytes + sizeof(mapped), &((const struct sockaddr_in *)address)->sin_addr, 4);
	return address->sa_family == AF_INET;
}

const char *tgt_discovery_address_text(const uint8_t address[16], char *text)
{
	if (is_ipv4(address))
		inet_ntop(AF_INET, address + sizeof(mapped), text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, address, text, INET6_ADDRSTRLEN);
	return text;
}

unsigned int tgt_discovery_prefix(const struct sockaddr *mask)
{
	bool v4 = mask->sa_family == AF_INET;
	const uint8_t *bytes = v4 ? (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr :
				    (const uint8_t *)&((const struct sockaddr_in6 *)mask)->sin6_addr;
	unsigned int bits = 0, most = v4 ? 32 : 128;

	while (bits < most && bytes[bits / 8] & 0x80 >> bits % 8)
		bits++;
	return bits + 128 - most;
}

bool tgt_discovery_on_link(const uint8_t address[16], const uint8_t local[16], unsigned int prefix)
{
	bool last = true;

	for (unsigned int bit = 0; bit < 128; bit++) {
		uint8_t mask = (uint8_t)(0x80 >> bit % 8);

		if (bit < prefix && (address[bit / 8] ^ local[bit / 8]) & mask)
			return false;
		if (bit >= prefix && !(address[bit / 8] & mask))
			last = false;
	}
	/* A network of one or two addresses has no broadcast address. */
	return !last || prefix >= 127 || !is_ipv4(local);
}
