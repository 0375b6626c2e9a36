/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a disk is attached. Its servers have the same, one after the other. */
#ifndef RBLK_UBLK_OPTIONS_H
#define RBLK_UBLK_OPTIONS_H

#include <stdbool.h>
#include "initiator/rblk.h"

#define UBLK_QUEUES 4u   /* at most, unless said: one per processor up to so many */
#define UBLK_CREDITS 64u /* unless said: commands outstanding per queue, and on each of its connections */

struct ublk_disk_options {
	const char *uri, *name; /* name: in rblktab; NULL or "": none */
	struct rblk_options session; /* of each queue */
	unsigned int queues;         /* 0: as above */
	bool read_only;
	bool accept_volatile;        /* also a volume that cannot be flushed and is lost with its target */
};

#endif
