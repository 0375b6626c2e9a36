/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opening and closing a reactor's port to a volume: the store attached to the reactor's ring, and
 * memory of the store itself registered with the reactor's fabrics. The reactor's thread only.
 */
#ifndef RBLK_TARGET_PORT_H
#define RBLK_TARGET_PORT_H

#include "proto/fabric/fabric.h"
#include "target/store/store.h"
#include "target/store/volume.h"

/* Whom a port belongs to: `opened` is called when one that was OPENING is READY or FAILED, in the
 * ring's reap. */
struct tgt_port_owner {
	void (*opened)(struct tgt_port *port, void *context);
	void *context;
	struct tgt_log_limit
		*log_limit; /* for failures, which a peer can repeat; outlives the port */
};

/*
 * `volume`: a reference, which becomes the port's; it is given back on failure. Returns 0, or
 * negative errno after it has been logged. The port is READY, or OPENING: registering a large
 * memory takes long, and a thread of the store's does it.
 */
int tgt_port_open(struct tgt_volume *volume, struct tgt_ring *ring, struct fab *const *fabs,
		  unsigned int fab_count, const struct tgt_port_owner *owner,
		  struct tgt_port **port);
/* READY or FAILED, and nothing is in flight. Gives the reference to the volume back, now or
 * (memory) when its registrations have ended; until then it counts as in flight in the ring. */
void tgt_port_close(struct tgt_port *port);

/* The store's own memory as a device of that fabric knows it. */
static inline uint32_t tgt_port_lkey(const struct tgt_port *port, unsigned int fabric,
				     const struct fab_device *device)
{
	return fab_mr_lkey(port->mr[fabric], device);
}

#endif
