/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes that an initiator has called back as lost, while the target may still carry them out (F5). From
 * then on none of them may be with a disk together with a write that its session began later, nor come
 * to the disk after that one: whichever blocks they are of, because a broken rule need not do harm in this
 * seed. And none that was sent again comes to the disk while it is there. It holds for initiators that fence
 * by themselves (librblk, the module). The model reports what is begun and lost, the disk what it is given.
 * OSDs of a cluster are a disk each: whoever fences has the map that shuts a writer out, and brings it with
 * the first operation to each; until then that writer's may land there, and nobody behind the fence can tell.
 */
#ifndef RBLK_TESTS_SIM_LOST_H
#define RBLK_TESTS_SIM_LOST_H

#include "tests/sim/disk.h"
#include "tests/sim/model.h"

void sim_lost_reset(void);
/* A write that has an id is begun. */
void sim_lost_began(const struct sim_command *write);
/* It is called back, without an answer. */
void sim_lost_told(const struct sim_command *write);
/* The disk is given a WRITE, at a place of which it has one or more (an OSD); order is of one place. */
void sim_lost_stores(const struct sim_disk *disk, const void *where, const struct sim_io *io);

#endif
