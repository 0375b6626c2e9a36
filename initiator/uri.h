/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parses rblk://host[:port][,host[:port]...][/volume] and rblk+tcp://... Schemes may be in capitals, names may have %XX in
 * place of a character. IPv6 addresses stand in brackets, with a zone behind %25 (RFC 6874) or %. Several hosts are portals
 * of one target; behind a semicolon are those of another one with the same volume (rblk://a1,a2;b1,b2/volume). A host
 * may have a scheme of its own (rblk://a,rblk+tcp://b/volume), which then holds for the hosts behind it, too. No name
 * is resolved here.
 */
#ifndef RBLK_INITIATOR_URI_H
#define RBLK_INITIATOR_URI_H

#include "proto/fabric/fabric.h"
#include "proto/wire/payload.h"

#define INI_URI_HOSTS 8

struct ini_uri_host {
	enum fab_kind kind;
	u16 group;	/* 0, 1, ...: of its target's hosts */
	char name[256]; /* without brackets */
	char port[8];   /* decimal, the default's where none was given */
};

struct ini_uri {
	struct ini_uri_host hosts[INI_URI_HOSTS];
	u16 host_count;
	char volume[RBLK_NAME_BYTES]; /* zero filled; empty where none was given */
};

/* 0 or -EINVAL with `error` (RBLK_ERROR_BYTES) "uri: reason". */
int ini_uri_parse(const char *text, struct ini_uri *uri, char *error);
/* Are its hosts of several kinds of fabric? */
bool ini_uri_mixed(const struct ini_uri *uri);
#define INI_URI_HOST_TEXT 288 /* rblk+tcp://[name]:port */
/* "10.0.0.2:4430", "[::1]:4430"; with its scheme where the URI is mixed. */
void ini_uri_format_host(const struct ini_uri *uri, const struct ini_uri_host *host, char *text,
			 size_t bytes);

#endif
