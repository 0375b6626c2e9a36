/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ranges of addresses, all in IPv6's form, so that one comparison serves both families. */
#include "target/base/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "proto/words/units.h"
#include "target/base/error.h"

#define MAPPED_BITS 96u /* before an IPv4 address as IPv6 maps it */

/* The bits behind the first `bits` are zero. */
static bool rest_zero(const uint8_t address[16], unsigned int bits)
{
	for (unsigned int i = bits; i < 128; i++)
		if (address[i / 8] & (0x80u >> i % 8))
			return false;
	return true;
}

static bool address_parse(const char *text, struct tgt_network *network, unsigned int *most)
{
	memset(network, 0, sizeof(*network));
	if (inet_pton(AF_INET6, text, network->address) == 1) {
		*most = 128;
		return true;
	}
	network->address[10] = network->address[11] = 0xff;
	*most = 32;
	return inet_pton(AF_INET, text, &network->address[12]) == 1;
}

int tgt_network_parse(const char *text, struct tgt_network *network, char *why)
{
	char address[INET6_ADDRSTRLEN + 1] = "";
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);
	unsigned int most;
	uint64_t bits;

	if (strcmp(text, "local") == 0) {
		*network = (struct tgt_network){.local = true};
		return 0;
	}
	if (length < sizeof(address))
		memcpy(address, text, length);
	if (!address_parse(address, network, &most))
		return tgt_error(why, -EINVAL,
				 "\"%s\" is not an address, as in 10.9.0.0/16, fd09::1 or local",
				 text);
	bits = most;
	if (slash && (units_count(slash + 1, &bits) < 0 || bits > most))
		return tgt_error(why, -EINVAL, "\"%s\": the bits after / must be from 0 to %u", text,
				 most);
	network->bits = (uint8_t)(bits + (most == 32 ? MAPPED_BITS : 0));
	if (!rest_zero(network->address, network->bits))
		return tgt_error(why, -EINVAL, "\"%s\": the address has bits beyond its /%u", text,
				 (unsigned int)bits);
	return 0;
}

void tgt_network_format(const struct tgt_network *network, char text[TGT_NETWORK_BYTES])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool v4 = network->bits >= MAPPED_BITS && !memcmp(network->address, mapped, sizeof(mapped));
	unsigned int bits = network->bits - (v4 ? MAPPED_BITS : 0);
	size_t length;

	strcpy(text, "local");
	if (network->local)
		return;
	inet_ntop(v4 ? AF_INET : AF_INET6, network->address + (v4 ? 12 : 0), text, TGT_NETWORK_BYTES);
	length = strlen(text);
	if (bits < (v4 ? 32 : 128))
		snprintf(text + length, TGT_NETWORK_BYTES - length, "/%u", bits);
}

bool tgt_network_has(const struct tgt_network *network, const uint8_t address[16], bool local)
{
	if (network->local)
		return local;
	for (unsigned int i = 0; i < network->bits; i++)
		if ((network->address[i / 8] ^ address[i / 8]) & (0x80u >> i % 8))
			return false;
	return true;
}
