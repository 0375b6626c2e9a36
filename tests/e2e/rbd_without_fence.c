/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loaded before rblkd (LD_PRELOAD), for the controls of tests that have to fail with it: its calls that shut a
 * gateway out of the cluster do nothing and succeed; with RBD_UNASKED in the environment it finds no other gateway
 * registered, and asks none.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rados/librados.h>

#define OWN __attribute__((visibility("default")))

static char own[256]; /* the cookie of this process's lock */

/* librados is loaded behind this, and by a module: it is not in the scope that RTLD_NEXT knows. */
static void *real_of(const char *name)
{
	return dlsym(dlopen("librados.so.2", RTLD_LAZY | RTLD_NOLOAD), name);
}

OWN int rados_blocklist_add(rados_t cluster, char *address, uint32_t seconds)
{
	(void)cluster;
	(void)address;
	(void)seconds;
	return 0;
}

OWN int rados_lock_shared(rados_ioctx_t io, const char *object, const char *name, const char *cookie, const char *tag,
			  const char *description, struct timeval *duration, uint8_t flags)
{
	__typeof__(&rados_lock_shared) real = real_of("rados_lock_shared");

	snprintf(own, sizeof(own), "%s", cookie);
	return real(io, object, name, cookie, tag, description, duration, flags);
}

/* The string of that number in a row of them. */
static const char *nth(const char *text, ssize_t n)
{
	while (n--)
		text += strlen(text) + 1;
	return text;
}

OWN ssize_t rados_list_lockers(rados_ioctx_t io, const char *object, const char *name, int *exclusive, char *tag,
			       size_t *tag_bytes, char *clients, size_t *clients_bytes, char *cookies,
			       size_t *cookies_bytes, char *addresses, size_t *addresses_bytes)
{
	__typeof__(&rados_list_lockers) real = real_of("rados_list_lockers");
	ssize_t count = real(io, object, name, exclusive, tag, tag_bytes, clients, clients_bytes, cookies,
			     cookies_bytes, addresses, addresses_bytes);

	for (ssize_t i = 0; i < count && getenv("RBD_UNASKED"); i++) {
		const char *client = nth(clients, i), *cookie = nth(cookies, i), *address = nth(addresses, i);

		if (strcmp(cookie, own))
			continue;
		memmove(clients, client, strlen(client) + 1);
		memmove(cookies, cookie, strlen(cookie) + 1);
		memmove(addresses, address, strlen(address) + 1);
		return 1;
	}
	return count;
}
