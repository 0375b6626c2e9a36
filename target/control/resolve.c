/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The thread of resolve.h. */
#include "target/control/resolve.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/affinity.h"
#include "target/base/error.h"

enum resolve_state {
	RESOLVING, /* all of it is the thread's */
	RESOLVED,  /* all of it is the control thread's */
	LEFT,	   /* the thread frees it */
};

struct tgt_resolve {
	_Atomic int state; /* enum resolve_state */
	struct tgt_address address;
	struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES];
	int count;
	char error[TGT_ERROR_BYTES];
};

static void *resolve_thread(void *argument)
{
	struct tgt_resolve *resolve = argument;

	pthread_setname_np(pthread_self(), "resolver");
	tgt_affinity_roam();
	resolve->count = tgt_address_resolve(&resolve->address, resolve->found, resolve->error);
	if (atomic_exchange(&resolve->state, RESOLVED) == LEFT)
		free(resolve);
	return NULL;
}

struct tgt_resolve *tgt_resolve_begin(const struct tgt_address *address)
{
	struct tgt_resolve *resolve = calloc(1, sizeof(*resolve));
	pthread_attr_t detached;
	pthread_t thread;
	int err;

	if (!resolve || pthread_attr_init(&detached)) {
		free(resolve);
		return NULL;
	}
	resolve->address = *address;
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &detached, resolve_thread, resolve);
	pthread_attr_destroy(&detached);
	if (!err)
		return resolve;
	free(resolve);
	return NULL;
}

int tgt_resolve_end(struct tgt_resolve *resolve, struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES],
		    char *error)
{
	int count;

	if (atomic_load(&resolve->state) != RESOLVED)
		return -EAGAIN;
	count = resolve->count;
	memcpy(found, resolve->found, sizeof(resolve->found));
	memcpy(error, resolve->error, sizeof(resolve->error));
	free(resolve);
	return count;
}

void tgt_resolve_leave(struct tgt_resolve *resolve)
{
	if (resolve && atomic_exchange(&resolve->state, LEFT) == RESOLVED)
		free(resolve);
}
