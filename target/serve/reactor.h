/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reactor: one thread that owns sessions with all their queues, one fab per fabric kind that is
 * listened on, one ring, one buffer pool. No lock and no allocation per I/O; other threads only
 * send it messages. The control thread creates, starts, stops and destroys reactors.
 */
#ifndef RBLK_TARGET_REACTOR_H
#define RBLK_TARGET_REACTOR_H

#include "proto/fabric/fabric.h"
#include "target/base/settings.h"
#include "target/store/volume.h"

struct tgt_reactor;

/*
 * error: TGT_ERROR_BYTES. `index` 0..reactors-1. config is copied where it is kept; the registry
 * outlives the reactor.
 */
int tgt_reactor_create(const struct tgt_config *config, unsigned int index,
		       struct tgt_registry *registry, struct tgt_reactor **reactor, char *error);
/* The thread. Without start, a test or the simulator drives tgt_reactor_step() itself. */
int tgt_reactor_start(struct tgt_reactor *reactor);
void tgt_reactor_destroy(struct tgt_reactor *reactor); /* after stop; frees everything */

/* One turn: poll, handle, reply, submit. Returns how much there was to do. Never sleeps. */
unsigned int tgt_reactor_step(struct tgt_reactor *reactor);
/* Nanoseconds on env_now_ns()'s clock at which a step is due even if nothing arrives. */
uint64_t tgt_reactor_deadline_ns(const struct tgt_reactor *reactor);

/* -- messages to a reactor; any thread; each is carried out on the reactor's thread ------------ */

/* Judge, accept or reject a login. Consumes the request, and the listener's lease (or NULL). */
struct tgt_lease;
void tgt_reactor_login(struct tgt_reactor *reactor, struct fab_request *request,
		       const void *private_data, size_t private_bytes, struct tgt_lease *lease);
/* Takes over the caller's reference: the reactor closes what it has of the volume, then puts it. */
void tgt_reactor_volume_removed(struct tgt_reactor *reactor, struct tgt_volume *volume);
void tgt_reactor_volume_changed(struct tgt_reactor *reactor, struct tgt_volume *volume);
void tgt_reactor_list_changed(struct tgt_reactor *reactor);
/*
 * Stop taking logins and commands, finish what is in flight (at most drain_ms), close every
 * connection; tgt_reactor_drained() turns true, the thread ends and can be joined by destroy.
 */
void tgt_reactor_drain(struct tgt_reactor *reactor);
bool tgt_reactor_drained(const struct tgt_reactor *reactor);

#endif
