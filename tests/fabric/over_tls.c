/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes all connections of a program over TCP ones by TLS: the same cases must hold. Linked with
 * --wrap=fab_open,--wrap=fab_connect.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fabric/fabric.h"
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"

static struct rblk_secrets *secrets;
static struct rblk_tls_context *client, *server;

struct fab *__real_fab_open(enum fab_kind kind, const struct fab_options *options, char *error);
struct fab *__wrap_fab_open(enum fab_kind kind, const struct fab_options *options, char *error);
int __real_fab_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
		       fab_prepare_fn prepare, struct fab_conn **conn);
int __wrap_fab_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
		       fab_prepare_fn prepare, struct fab_conn **conn);

static struct rblk_secrets *find(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "fabric") ? NULL : rblk_secrets_ref(secrets);
}

static void die(const char *what)
{
	fprintf(stderr, "%s\n", what);
	abort();
}

static void end(void)
{
	rblk_tls_context_destroy(client);
	rblk_tls_context_destroy(server);
	rblk_secrets_put(secrets);
}

static void begin(void)
{
	static const char name[RBLK_NAME_BYTES] = "fabric";
	char error[RBLK_SECRET_ERROR_BYTES], path[] = "/tmp/fabric-tls-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file || rblk_secret_write_new(file) || fclose(file))
		die("no key file");
	secrets = rblk_secrets_read(path, error);
	unlink(path);
	if (!secrets)
		die(error);
	client = rblk_tls_client(name, secrets);
	server = rblk_tls_server(find, NULL);
	if (!client || !server)
		die("no TLS");
	atexit(end);
}

struct fab *__wrap_fab_open(enum fab_kind kind, const struct fab_options *options, char *error)
{
	struct fab_options own = *options;

	if (!server)
		begin();
	own.tls = server;
	return __real_fab_open(kind, &own, error);
}

int __wrap_fab_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
		       fab_prepare_fn prepare, struct fab_conn **conn)
{
	struct fab_conn_options own = *options;

	own.tls = client;
	return __real_fab_connect(fab, addr, &own, prepare, conn);
}
