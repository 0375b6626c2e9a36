/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Both ends of a TLS stream over a pair of sockets with small buffers, and the secrets of the specification's test
 * vector. The target knows the initiator "db1" alone.
 */
#ifndef RBLK_TESTS_UNIT_TLS_PAIR_H
#define RBLK_TESTS_UNIT_TLS_PAIR_H

#include "tests/unit/unit.h"
#include "proto/tls/tls.h"

extern char tls_db1[RBLK_NAME_BYTES], tls_db2[RBLK_NAME_BYTES];
extern struct rblk_secrets *tls_first, *tls_second, *tls_both;

struct tls_pair {
	int fd[2]; /* client, server */
	struct rblk_tls_context *context[2];
	struct rblk_tls *tls[2];
};

/* For cmocka_run_group_tests(). */
int tls_secrets_make(void **state);
int tls_secrets_end(void **state);

void tls_pair_open(struct tls_pair *pair, const char name[RBLK_NAME_BYTES], struct rblk_secrets *client,
		   struct rblk_secrets *server);
void tls_pair_close(struct tls_pair *pair);
/* Both results of the handshake. */
void tls_pair_shake(struct tls_pair *pair, int result[2]);
/* It has to end well. */
void tls_pair_ready(struct tls_pair *pair);

/* A text as one record. */
ssize_t tls_say(struct rblk_tls *tls, const char *text);
ssize_t tls_hear(struct rblk_tls *tls, char text[16]);

#endif
