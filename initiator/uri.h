/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parses rblk://host[:port][,host[:port]...][/volume] and rblk+tcp://... IPv6 addresses stand in
 * brackets. Several hosts are portals of one target. No name is resolved here.
 */
#ifndef RBLK_INITIATOR_URI_H
#define RBLK_INITIATOR_URI_H

#include "proto/fabric/fabric.h"
#include "proto/wire/payload.h"

#define INI_URI_HOSTS 8

struct ini_uri_host {
	char name[256]; /* without brackets */
	char port[8];   /* decimal, the default's where none was given */
};

struct ini_uri {
	enum fab_kind kind;
	struct ini_uri_host hosts[INI_URI_HOSTS];
	u16 host_count;
	char volume[RBLK_NAME_BYTES]; /* zero filled; empty where none was given */
};

/* 0 or -EINVAL with `error` (RBLK_ERROR_BYTES) "uri: reason". */
int ini_uri_parse(const char *text, struct ini_uri *uri, char *error);

#endif
