/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A name that is resolved while the control thread serves: the resolver may take long, so a thread of its own asks it,
 * and may outlive whoever has begun it. Control thread.
 */
#ifndef RBLK_TARGET_RESOLVE_H
#define RBLK_TARGET_RESOLVE_H

#include "target/control/address.h"

struct tgt_resolve;

/* NULL: no memory, or no thread. */
struct tgt_resolve *tgt_resolve_begin(const struct tgt_address *address);
/*
 * -EAGAIN: not yet. Otherwise it has ended, and is freed: how many socket addresses there are, as
 * tgt_address_resolve() returns them, or a negative errno and error (TGT_ERROR_BYTES).
 */
int tgt_resolve_end(struct tgt_resolve *resolve, struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES],
		    char *error);
/* Nobody waits for it any more. NULL: no effect. */
void tgt_resolve_leave(struct tgt_resolve *resolve);

#endif
