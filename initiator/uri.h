/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk://host[:port][/volume] and rblk+tcp://host[:port][/volume], parsed. IPv6 addresses are in
 * brackets. No name is resolved here.
 */
#ifndef RBLK_INITIATOR_URI_H
#define RBLK_INITIATOR_URI_H

#include "proto/fabric/fabric.h"
#include "proto/wire/payload.h"

struct ini_uri {
	enum fab_kind kind;
	char host[256];               /* without brackets */
	char port[8];                 /* decimal, the default's where none was given */
	char volume[RBLK_NAME_BYTES]; /* zero filled; empty where none was given */
};

/* 0 or -EINVAL with `error` (RBLK_ERROR_BYTES) "uri: reason". */
int ini_uri_parse(const char *text, struct ini_uri *uri, char *error);

#endif
