/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Discovery: the datagram by which an initiator asks a multicast group which targets there are, and by
 * which a target answers. Specification section 3.1. Both have the same length: an answer is never
 * larger than its question. User space only.
 */
#ifndef RBLK_WIRE_DISCOVER_H
#define RBLK_WIRE_DISCOVER_H

#include "proto/wire/login.h"
#include "proto/wire/payload.h"

#define RBLK_DISCOVER_VERSION 1
#define RBLK_DISCOVER_BYTES 512 /* of a query and of an answer: fits every path, and UD from an MTU of 512 bytes */
#define RBLK_DISCOVER_PORTALS_MAX 16

/* The groups, at UDP port RBLK_DEFAULT_PORT where nothing else is configured. */
#define RBLK_DISCOVER_GROUP_IPV4 "239.255.114.98" /* of a site's own use (RFC 2365) */
#define RBLK_DISCOVER_GROUP_IPV6 "ff12::7262:6c6b" /* of one link, not assigned by IANA (RFC 4291) */

enum rblk_discover_type {
	RBLK_DISCOVER_QUERY = 1,
	RBLK_DISCOVER_ANSWER = 2,
	RBLK_DISCOVER_MAX
};

/* How a portal is reached. An initiator ignores portals of kinds that it does not know. */
enum rblk_portal_kind {
	RBLK_PORTAL_RDMA = 1,
	RBLK_PORTAL_TCP = 2, /* the software fabric */
	RBLK_PORTAL_MAX
};

struct rblk_wire_portal {
	__u8 address[16]; /* IPv4 as IPv6 maps it; never a multicast address or all zero */
	__le16 port;	  /* never 0 */
	__u8 kind;	  /* enum rblk_portal_kind, or one to come; never 0 */
	__u8 reserved[5];
};
RBLK_ASSERT_SIZE(struct rblk_wire_portal, 24);
RBLK_ASSERT_OFFSET(struct rblk_wire_portal, port, 16);
RBLK_ASSERT_OFFSET(struct rblk_wire_portal, kind, 18);

struct rblk_wire_discover {
	__le32 magic;	      /* RBLK_MAGIC */
	__le16 version;	      /* RBLK_DISCOVER_VERSION */
	__le16 type;	      /* enum rblk_discover_type */
	__u8 nonce[16];	      /* the initiator's choice, random; echoed */
	char name[RBLK_NAME_BYTES]; /* query: only this target answers, all zero: every one; answer: the target's */
	__u8 instance[16];    /* answer: random, new whenever the target process starts */
	__le16 protocol;      /* answer: the protocol that the target speaks (section 14) */
	__le16 portal_count;  /* answer: of portals[] */
	__u8 reserved[20];
	struct rblk_wire_portal portals[RBLK_DISCOVER_PORTALS_MAX]; /* zero behind portal_count */
};
RBLK_ASSERT_SIZE(struct rblk_wire_discover, RBLK_DISCOVER_BYTES);
RBLK_ASSERT_OFFSET(struct rblk_wire_discover, nonce, 8);
RBLK_ASSERT_OFFSET(struct rblk_wire_discover, name, 24);
RBLK_ASSERT_OFFSET(struct rblk_wire_discover, instance, 88);
RBLK_ASSERT_OFFSET(struct rblk_wire_discover, protocol, 104);
RBLK_ASSERT_OFFSET(struct rblk_wire_discover, portal_count, 106);
RBLK_ASSERT_OFFSET(struct rblk_wire_discover, portals, 128);

#endif
