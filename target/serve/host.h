/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hosts: the accounts of all sessions and logins of one host, so that many sessions get no more of
 * the shared resources than one (io/share.h, login_answer.c). A host is known by the name that its
 * sessions have proven (AUTHENTICATE), from wherever they come; others by their address without the
 * port, so that one with several addresses counts as several. A name without a proof (IDENTIFY) does
 * not count: a new one costs nothing. The reactor's thread only.
 */
#ifndef RBLK_TARGET_HOST_H
#define RBLK_TARGET_HOST_H

#include "target/io/share.h"
#include "target/serve/reactor_impl.h"

struct tgt_host_key {
	uint8_t address[16]; /* of IPv4 as IPv6 maps it */
	uint32_t scope;	     /* of a link-local address */
	uint32_t family;     /* of other addresses, which are not told apart; else 0; or TGT_HOST_NAMED */
};
/* No address family: the address is a digest of the name. */
#define TGT_HOST_NAMED UINT32_MAX

struct tgt_host {
	TAILQ_ENTRY(tgt_host) link; /* reactor->hosts */
	struct tgt_host_key key;
	char name[RBLK_NAME_BYTES]; /* proven; empty: it is known by its address */
	unsigned int users;	   /* sessions, logins under way, and fences */
	unsigned int logins;	   /* that wait */
	unsigned int fences;	   /* of its OPENs, at other gateways */
	unsigned int sessions, queues; /* places that it holds, by the reactor's quotas */
	struct tgt_host_share share; /* of the reactor's memory, by all its sessions */
};

void tgt_host_key_of(const struct sockaddr *address, struct tgt_host_key *key);
/* The host at that address, with one user more. NULL: no memory. */
struct tgt_host *tgt_host_get(struct tgt_reactor *reactor, const struct sockaddr *address);
/* The host of this proven name, likewise. */
struct tgt_host *tgt_host_get_named(struct tgt_reactor *reactor, const char name[RBLK_NAME_BYTES]);
static inline void tgt_host_ref(struct tgt_host *host)
{
	host->users++;
}
/* One user less. The last one frees the host. */
void tgt_host_put(struct tgt_reactor *reactor, struct tgt_host *host);

#endif
