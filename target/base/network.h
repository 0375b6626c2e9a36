/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A range of addresses as access rules name it: "10.9.0.0/16", "fd09::1", or "local", which stands for
 * this machine's own addresses. Pure; any thread.
 */
#ifndef RBLK_TARGET_NETWORK_H
#define RBLK_TARGET_NETWORK_H

#include "target/base/settings.h"

/* 0, or -EINVAL with `why` (TGT_ERROR_BYTES). */
int tgt_network_parse(const char *text, struct tgt_network *network, char *why);
#define TGT_NETWORK_BYTES 64
/* "10.9.0.0/16", "fd09::1" or "local": tgt_network_parse() understands it. */
void tgt_network_format(const struct tgt_network *network, char text[TGT_NETWORK_BYTES]);
/* `address` is of IPv6, or of IPv4 as IPv6 maps it; local: it is one of this machine. */
bool tgt_network_has(const struct tgt_network *network, const uint8_t address[16], bool local);

#endif
