/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Waits for descriptors, also when the process may have fewer of them than it has. */
#ifndef RBLK_TARGET_BASE_POLL_H
#define RBLK_TARGET_BASE_POLL_H

#include <errno.h>
#include <poll.h>

#define TGT_POLL_STARVED_MS 100

/*
 * poll(), which fails with EINVAL as long as the process may have fewer descriptors than `count`: its loop would turn
 * without ever seeing that it is to end. Then this waits for the first one alone, for 100 ms at most. The others' revents
 * are then 0, if the caller has set them so.
 */
static inline int tgt_poll(struct pollfd *polled, nfds_t count, int timeout_ms)
{
	int found = poll(polled, count, timeout_ms);

	return found < 0 && errno == EINVAL ? poll(polled, 1, TGT_POLL_STARVED_MS) : found;
}

#endif
