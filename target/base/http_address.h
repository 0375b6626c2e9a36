/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The address that the setting `http` names. Any thread. */
#ifndef RBLK_TARGET_HTTP_ADDRESS_H
#define RBLK_TARGET_HTTP_ADDRESS_H

#include <sys/socket.h>

/* "[HOST:]PORT" with the number of an address, one of IPv6 in brackets; without HOST 127.0.0.1. 0, or -EINVAL with the
 * reason in `why` (TGT_ERROR_BYTES). */
int tgt_http_address_parse(const char *text, struct sockaddr_storage *address, char *why);

#endif
