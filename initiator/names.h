/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The addresses that a host's name has. They are asked for on the caller's thread when a session starts. Later, while
 * the host cannot be reached, a thread of the library's own asks again: the resolver may take many seconds, and nothing
 * interrupts it. drive.c says when. A simulator has its own names.c.
 */
#ifndef RBLK_INITIATOR_NAMES_H
#define RBLK_INITIATOR_NAMES_H

#include <stdbool.h>
#include <sys/socket.h>
#include "proto/wire/types.h"

#define INI_ADDRESSES_MAX 16 /* of a name; further ones are not tried */

struct ini_addresses {
	struct sockaddr_storage of[INI_ADDRESSES_MAX]; /* in the resolver's order, the preferred one first */
	u16 count;
};

/* Blocks. 0, or the resolver's error, for gai_strerror(); then there is no address. */
int ini_names_ask(const char *name, const char *port, struct ini_addresses *found);
/* Is it an address, which no resolver changes? */
bool ini_names_numeric(const char *name);

/* A question on its way: its thread's and its owner's, freed by the last of the two. */
struct ini_lookup;
/*
 * The most lookups of all sessions of a process at a time: resolvers that hang cost no more than so
 * many threads.
 */
#define INI_LOOKUPS_MAX 64
/* Without blocking. NULL: there is no thread for it now. */
struct ini_lookup *ini_lookup_start(const char *name, const char *port);
/* Is it answered? Then it has ended, and *error is as of ini_names_ask(). */
bool ini_lookup_answered(struct ini_lookup *lookup, struct ini_addresses *found, int *error);
/* Nobody waits for the answer any more. NULL: no effect. */
void ini_lookup_drop(struct ini_lookup *lookup);

#endif
