/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The list of what is configured and cannot be served now, with the reason: volumes, and addresses
 * to listen on (HTTP's, too). Whoever tries to serve it adds it, tries again, and removes it;
 * people see the list as "missing". Any thread; a process has one, made before the first attempt.
 */
#ifndef RBLK_TARGET_BASE_UNSERVED_H
#define RBLK_TARGET_BASE_UNSERVED_H

#include <stdbool.h>
#include <stdint.h>
#include "target/base/error.h"

/* How often it is tried again. */
#define TGT_UNSERVED_AGAIN_MS 1000

enum tgt_unserved_kind {
	TGT_UNSERVED_VOLUME,
	TGT_UNSERVED_ADDRESS,
	TGT_UNSERVED_KINDS
};

struct tgt_unserved_one {
	enum tgt_unserved_kind kind;
	char name[256];
	char reason[TGT_ERROR_BYTES]; /* begins with the object */
};

struct tgt_unserved;

/* NULL: no memory. */
struct tgt_unserved *tgt_unserved_create(void);
void tgt_unserved_destroy(struct tgt_unserved *unserved); /* NULL: no effect */

/*
 * It is not served, for this reason. The first time it is an event, and an error in the log; a reason that
 * becomes another one is a line in the log. NULL, or no memory: nobody is told.
 */
void tgt_unserved_add(struct tgt_unserved *unserved, enum tgt_unserved_kind kind, const char *name,
		      const char *reason);
/* It is in the list because another target serves it: nobody is to wait for it here. */
void tgt_unserved_elsewhere(struct tgt_unserved *unserved, enum tgt_unserved_kind kind, const char *name);
/* It is served, or not wanted any more. True: it was in the list. */
bool tgt_unserved_remove(struct tgt_unserved *unserved, enum tgt_unserved_kind kind, const char *name);
/* It is in the list, and has been for less than wait_ms: it may come soon. */
bool tgt_unserved_awaited(struct tgt_unserved *unserved, enum tgt_unserved_kind kind, const char *name,
			  unsigned int wait_ms);
unsigned int tgt_unserved_count(struct tgt_unserved *unserved, enum tgt_unserved_kind kind);
/* A copy of all of that kind, in the order in which they came: the caller frees it. NULL: there is none, or no
 * memory. */
struct tgt_unserved_one *tgt_unserved_list(struct tgt_unserved *unserved, enum tgt_unserved_kind kind,
					   unsigned int *count);

#endif
