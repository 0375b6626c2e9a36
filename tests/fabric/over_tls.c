/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes all connections of a program over TCP ones by TLS: the same cases must hold. Linked with
 * --wrap=fab_open,--wrap=fab_connect.
 */
#include "proto/fabric/fabric.h"
#include "tls_ends.h"

struct fab *__real_fab_open(enum fab_kind kind, const struct fab_options *options, char *error);
struct fab *__wrap_fab_open(enum fab_kind kind, const struct fab_options *options, char *error);
int __real_fab_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
		       fab_prepare_fn prepare, struct fab_conn **conn);
int __wrap_fab_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
		       fab_prepare_fn prepare, struct fab_conn **conn);

struct fab *__wrap_fab_open(enum fab_kind kind, const struct fab_options *options, char *error)
{
	struct fab_options own = *options;

	own.tls = tls_ends_server();
	return __real_fab_open(kind, &own, error);
}

int __wrap_fab_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
		       fab_prepare_fn prepare, struct fab_conn **conn)
{
	struct fab_conn_options own = *options;

	own.tls = tls_ends_client();
	return __real_fab_connect(fab, addr, &own, prepare, conn);
}
