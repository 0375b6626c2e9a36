/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The addresses of this machine that a session connects from (options.source): one, or by commas one for each host of
 * its URI. Addresses only, no names; an IPv6 one may have a zone behind a %.
 */
#ifndef RBLK_INITIATOR_SOURCE_H
#define RBLK_INITIATOR_SOURCE_H

#include "initiator/names.h"

/* NULL, and the addresses of a URI with so many hosts; or what is wrong: "is no ...", "has more ...". */
const char *ini_source_parse(const char *text, u16 hosts, struct ini_addresses *found);
/* The one of the URI's host `host`, from 0; NULL: none was asked for. */
const struct sockaddr *ini_source_of(const struct ini_addresses *sources, u16 host);

#endif
