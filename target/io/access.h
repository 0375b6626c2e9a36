/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a command needs of an open volume: the port to it, and a count of its users. serve/ embeds
 * one in each handle and ends the handle when the last user has ended. The reactor's thread only.
 */
#ifndef RBLK_TARGET_ACCESS_H
#define RBLK_TARGET_ACCESS_H

#include <stdbool.h>
#include <stdint.h>
#include "target/store/port.h"

struct tgt_access {
	struct tgt_port *port; /* NULL: the volume was removed and its users have ended */
	bool read_only;	       /* opened so, or the volume is */
	uint32_t users; /* commands in flight, and transfers to or from the store's memory */
	void (*idle)(struct tgt_access *access); /* called after the last user has ended; fixed */
};

static inline void tgt_access_get(struct tgt_access *access)
{
	access->users++;
}

static inline void tgt_access_put(struct tgt_access *access)
{
	if (--access->users == 0)
		access->idle(access);
}

#endif
