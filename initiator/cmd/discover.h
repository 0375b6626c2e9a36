/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Discovery: asks a multicast group which targets there are (specification section 3.1).
 *
 *	discover.c         the verb
 *	discover_ask.c     asks on network interfaces of this machine: over UDP, and over RDMA by the multicast groups of
 *	                   their RDMA devices
 *	discover_list.c    the answers, put together: pure; discover://NAME/VOLUME, a target by its name
 *
 * An answer is what somebody on the link says. Nothing of it is proven.
 */
#ifndef RBLK_CMD_DISCOVER_H
#define RBLK_CMD_DISCOVER_H

#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include "initiator/rblk.h"
#include "proto/fabric/fabric.h"
#include "proto/fabric/fabric_group.h"
#include "proto/wire/discover.h"

/* -- discover_list.c --------------------------------------------------------------------------- */

/* At most so many answers are kept, whoever sent them; the rest is counted. */
#define DISCOVER_TARGETS_MAX 1024
#define DISCOVER_PORTALS_MAX 32 /* of one target, over all networks */

/* How is asked, and answered. */
enum discover_over { DISCOVER_OVER_RDMA = 1, DISCOVER_OVER_UDP = 2 };

struct discover_portal {
	uint8_t address[16]; /* IPv4 as IPv6 maps it */
	uint16_t port;
	uint8_t kind; /* enum rblk_portal_kind */
};

struct discovered {
	char name[RBLK_NAME_BYTES];
	uint8_t instance[16];
	uint16_t protocol;
	char interface[IFNAMSIZ]; /* by which the first answer came */
	unsigned int over;	  /* by which answers came: of enum discover_over */
	struct discover_portal portals[DISCOVER_PORTALS_MAX];
	unsigned int portal_count;
};

struct discover_list {
	struct discovered *targets; /* owned */
	unsigned int count;
	uint64_t left_out; /* targets and portals beyond the limits */
};

/* An answer that rblk_check_discover() has passed. 0 or -ENOMEM. */
int discover_list_add(struct discover_list *list, const struct rblk_wire_discover *answer,
		      const char *interface, enum discover_over over);
/* By name, then by instance. */
void discover_list_sort(struct discover_list *list);
void discover_list_free(struct discover_list *list);

#define DISCOVER_PORTAL_BYTES 80
/* "rblk://10.9.0.1:4430", "rblk+tcp://[fd09::1]:4430". text: DISCOVER_PORTAL_BYTES; returns it. */
const char *discover_portal_format(const struct discover_portal *portal, char *text);

/* Which portals are of use; with ANY those of RDMA, if there are some. */
enum discover_fabric { DISCOVER_ANY, DISCOVER_RDMA, DISCOVER_TCP };
#define DISCOVER_REASON_BYTES 320

bool discover_uri_is(const char *text);
/* One that discover_uri_is(); without a volume it is empty. 0, or -EINVAL with `reason` (DISCOVER_REASON_BYTES). */
int discover_uri_parse(const char *text, char name[RBLK_NAME_BYTES], char volume[RBLK_NAME_BYTES],
		       char *reason);
/* The answers of those who have the name, as one URI with hosts. 0, or -errno with `reason`. */
int discover_uri_compose(const struct discover_list *list, const char *name, const char *volume,
			 enum discover_fabric fabric, char uri[RBLK_URI_BYTES], char *reason);

/* -- discover_ask.c ---------------------------------------------------------------------------- */

#define DISCOVER_TIME_MS 1000

struct discover_question {
	const char *name;	/* of the target; NULL: every one */
	const char *interfaces; /* "eth0,eth1"; NULL: all that can multicast, but the loopback */
	uint16_t port;	   /* of UDP */
	unsigned int over; /* of enum discover_over; 0: by all ways that this machine has */
	uint64_t time_ms; /* how long answers are taken */
};

/* 0 with *list to be freed, or -1 after an error message. */
int discover_ask(const struct discover_question *question, struct discover_list *list);
/* The fabric that this machine can use: TCP where it has no RDMA device. */
enum discover_fabric discover_fabric_here(void);
/* Asks. 0, or -1 after an error message. */
int discover_uri_resolve(const char *text, enum discover_fabric fabric, char uri[RBLK_URI_BYTES]);

#endif
