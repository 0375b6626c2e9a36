/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See tls_ends.h. */
#include "tls_ends.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/secret/secret.h"

static char path[] = "/tmp/fabric-tls-XXXXXX"; /* until the end */
static bool made;
static struct rblk_secrets *secrets;
static struct rblk_tls_context *client, *server;

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
	unlink(path);
}

/* A child has no secret: their pages are wiped on fork. It reads the same one again. */
static void forget(void)
{
	secrets = NULL;
	client = server = NULL;
}

static void make_file(void)
{
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file || rblk_secret_write_new(file) || fclose(file) || pthread_atfork(NULL, NULL, forget))
		die("no key file");
	made = true;
	atexit(end);
}

static void begin(void)
{
	static const char name[RBLK_NAME_BYTES] = "fabric";
	char error[RBLK_SECRET_ERROR_BYTES];

	if (!made)
		make_file();
	secrets = rblk_secrets_read(path, error);
	if (!secrets)
		die(error);
	client = rblk_tls_client(name, secrets);
	server = rblk_tls_server(find, NULL);
	if (!client || !server)
		die("no TLS");
}

struct rblk_tls_context *tls_ends_client(void)
{
	if (!client)
		begin();
	return client;
}

struct rblk_tls_context *tls_ends_server(void)
{
	if (!server)
		begin();
	return server;
}
