/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reactor: one thread that owns sessions and queues, one fab per fabric kind that is
 * listened on, one ring, one buffer pool. No lock and no allocation per I/O; other threads only
 * send it messages. The control thread creates, starts, stops and destroys reactors.
 */
#ifndef RBLK_TARGET_REACTOR_H
#define RBLK_TARGET_REACTOR_H

#include "proto/fabric/fabric.h"
#include "target/base/settings.h"
#include "target/store/volume.h"

struct tgt_reactor;
struct tgt_peers;

/*
 * error: TGT_ERROR_BYTES. `index` 0..reactors-1, in this order. config is copied where it is kept;
 * registry and peers (peers.h) outlive the reactor.
 */
int tgt_reactor_create(const struct tgt_config *config, unsigned int index,
		       struct tgt_registry *registry, struct tgt_peers *peers,
		       struct tgt_reactor **reactor, char *error);
/* Whether reactors get their io_uring here, without one: 0, or negative errno with `error` (TGT_ERROR_BYTES). */
int tgt_reactor_check_ring(char *error);
/* The thread. Without start, a test or the simulator drives tgt_reactor_step() itself. */
int tgt_reactor_start(struct tgt_reactor *reactor);
void tgt_reactor_destroy(struct tgt_reactor *reactor); /* after stop; frees everything */

/* One turn: poll, handle, reply, submit. Returns how much there was to do. Never sleeps. */
unsigned int tgt_reactor_step(struct tgt_reactor *reactor);
/* Nanoseconds on env_now_ns()'s clock at which a step is due even if nothing arrives. */
uint64_t tgt_reactor_deadline_ns(const struct tgt_reactor *reactor);

/* It has drained (tgt_reactor_drain): the thread ends, and destroy joins it. Any thread. */
bool tgt_reactor_drained(const struct tgt_reactor *reactor);
/* How long it has been in turns that found work. Any thread; the reactor need not be asked, and sleeps on. */
uint64_t tgt_reactor_busy_ns(const struct tgt_reactor *reactor);

#endif
