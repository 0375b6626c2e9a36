/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Addresses as discovery compares them: 16 bytes, IPv6's, or IPv4's as IPv6 maps it. Whether one is on a link.
 * Pure; any thread.
 */
#ifndef RBLK_TARGET_WATCH_DISCOVERY_ADDRESS_H
#define RBLK_TARGET_WATCH_DISCOVERY_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* False: neither family; `bytes` are of no use then. */
bool tgt_discovery_address(const struct sockaddr *address, uint8_t bytes[16]);
/* "10.9.0.1", "fd09::1". text has INET6_ADDRSTRLEN bytes; returns it. */
const char *tgt_discovery_address_text(const uint8_t address[16], char *text);

/* How many bits an address shares with the others on its link, by its mask. */
unsigned int tgt_discovery_prefix(const struct sockaddr *mask);
/* Is `address` in the network of `local`, and not the broadcast address, the last one of a network of IPv4? */
bool tgt_discovery_on_link(const uint8_t address[16], const uint8_t local[16], unsigned int prefix);

#endif
