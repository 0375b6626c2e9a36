/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opening and closing a reactor's channel to a volume: the store attached to the reactor's ring, and
 * memory of the store itself registered with the reactor's fabrics. The reactor's thread only.
 */
#ifndef RBLK_TARGET_STORE_CHANNEL_H
#define RBLK_TARGET_STORE_CHANNEL_H

#include "proto/fabric/fabric.h"
#include "target/store/store.h"
#include "target/store/volume.h"

/* Whom a channel belongs to: `opened` is called when one that was OPENING is READY or FAILED, in the
 * ring's reap. */
struct tgt_channel_owner {
	void (*opened)(struct tgt_channel *channel, void *context);
	void *context;
	struct tgt_log_limit
		*log_limit; /* for failures, which a peer can repeat; outlives the channel */
};

/*
 * `volume`: a reference, which becomes the channel's; it is given back on failure. Returns 0, or
 * negative errno after it has been logged. The channel is READY, or OPENING: registering a large
 * memory takes long, and a thread of the store's does it.
 */
int tgt_channel_open(struct tgt_volume *volume, struct tgt_ring *ring, struct fab *const *fabs,
		     unsigned int fab_count, const struct tgt_channel_owner *owner,
		     struct tgt_channel **channel);
/* READY or FAILED, and nothing is in flight. Gives the reference to the volume back, now or
 * (memory) when its registrations have ended; until then it counts as in flight in the ring. */
void tgt_channel_close(struct tgt_channel *channel);

/* The store's own memory as a device of that fabric knows it. */
static inline uint32_t tgt_channel_lkey(const struct tgt_channel *channel, unsigned int fabric,
					const struct fab_device *device)
{
	return fab_mr_lkey(channel->mr[fabric], device);
}

#endif
