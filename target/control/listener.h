/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Listens on the configured addresses with a fab of its own per kind, and hands each connection
 * request to the reactor that owns (or shall own) its session. Control thread only.
 */
#ifndef RBLK_TARGET_LISTENER_H
#define RBLK_TARGET_LISTENER_H

#include "target/base/settings.h"
#include "target/serve/reactor.h"
#include "target/serve/rules.h"

struct tgt_listener;
struct tgt_unserved;

/* All of it outlives the listener, but for config. */
struct tgt_listener_options {
	const struct tgt_config *config;
	struct tgt_reactor **reactors;
	struct tgt_rulebook *rules;    /* NULL: there is no TLS */
	struct tgt_unserved *unserved; /* gets the addresses that cannot be listened on; NULL: nobody asks */
	_Atomic uint64_t *tls_failures; /* counts connections that fail in the handshake; NULL: nobody asks */
	bool none_will_do; /* no address need be there, unless config->require_all; otherwise one has to be */
};

/*
 * Addresses that are missing are tried again. error: TGT_ERROR_BYTES, "rblk://0.0.0.0:4430: address
 * already in use".
 */
int tgt_listener_create(const struct tgt_listener_options *options, struct tgt_listener **listener, char *error);
void tgt_listener_destroy(struct tgt_listener *listener);

/* Readable when tgt_listener_step() has something to do. At most TGT_LISTEN_FDS. */
#define TGT_LISTEN_FDS 5
unsigned int tgt_listener_fds(const struct tgt_listener *listener, int fds[TGT_LISTEN_FDS]);
/* When it has something to do without that, in milliseconds; -1: never. */
int tgt_listener_timeout_ms(const struct tgt_listener *listener);
unsigned int tgt_listener_step(struct tgt_listener *listener);
/* The n-th address, also one that is missing, as a socket address. False past the last. */
bool tgt_listener_bound(const struct tgt_listener *listener, unsigned int n, enum fab_kind *kind,
			struct sockaddr_storage *bound);
/* The n-th address that is, or was, listened on, as bound ("rblk+tcp://127.0.0.1:40123"), NULL past the last. The text
 * stays. Any thread. */
const char *tgt_listener_address(const struct tgt_listener *listener, unsigned int n);

#endif
