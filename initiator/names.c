/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns questions to the resolver, and the threads that wait for its answers, see names.h. */
#include "initiator/names.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct ini_lookup {
	atomic_uint holders; /* the thread, and the owner until it has the answer or drops it */
	atomic_bool answered; /* the thread's last store: then what follows is the owner's */
	int error;
	struct ini_addresses found;
	char name[256], port[8];
};

static atomic_uint lookups; /* threads */

static int ask(const char *name, const char *port, int flags, struct addrinfo **list)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};

	return getaddrinfo(name, port, &hints, list);
}

int ini_names_ask(const char *name, const char *port, struct ini_addresses *found)
{
	struct addrinfo *list;
	int err = ask(name, port, 0, &list);

	memset(found, 0, sizeof(*found));
	if (err)
		return err;
	for (const struct addrinfo *one = list; one && found->count < INI_ADDRESSES_MAX; one = one->ai_next)
		memcpy(&found->of[found->count++], one->ai_addr, one->ai_addrlen);
	freeaddrinfo(list);
	return 0;
}

bool ini_names_numeric(const char *name)
{
	struct addrinfo *list;

	if (ask(name, NULL, AI_NUMERICHOST, &list))
		return false;
	freeaddrinfo(list);
	return true;
}

/* -- aside ------------------------------------------------------------------------------------- */

static void lookup_put(struct ini_lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->holders, 1) == 1)
		free(lookup);
}

static void *lookup_run(void *argument)
{
	struct ini_lookup *lookup = argument;

	lookup->error = ini_names_ask(lookup->name, lookup->port, &lookup->found);
	atomic_store_explicit(&lookup->answered, true, memory_order_release);
	lookup_put(lookup);
	atomic_fetch_sub(&lookups, 1);
	return NULL;
}

/* The program's signals are for the program's threads. */
static int thread_start(struct ini_lookup *lookup)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int err = pthread_attr_init(&attributes);

	if (err)
		return err;
	/* Nobody waits for it: the resolver may be at it for longer than its session lasts. */
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attributes, lookup_run, lookup);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return err;
}

struct ini_lookup *ini_lookup_start(const char *name, const char *port)
{
	struct ini_lookup *lookup;

	if (atomic_fetch_add(&lookups, 1) >= INI_LOOKUPS_MAX)
		goto err_count;
	lookup = calloc(1, sizeof(*lookup));
	if (!lookup)
		goto err_count;
	atomic_init(&lookup->holders, 2);
	strncpy(lookup->name, name, sizeof(lookup->name) - 1);
	strncpy(lookup->port, port, sizeof(lookup->port) - 1);
	if (thread_start(lookup))
		goto err_free;
	return lookup;

err_free:
	free(lookup);
err_count:
	atomic_fetch_sub(&lookups, 1);
	return NULL;
}

bool ini_lookup_answered(struct ini_lookup *lookup, struct ini_addresses *found, int *error)
{
	if (!atomic_load_explicit(&lookup->answered, memory_order_acquire))
		return false;
	*found = lookup->found;
	*error = lookup->error;
	lookup_put(lookup);
	return true;
}

void ini_lookup_drop(struct ini_lookup *lookup)
{
	if (lookup)
		lookup_put(lookup);
}
