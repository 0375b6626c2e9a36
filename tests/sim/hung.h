/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A disk that hangs for longer than the sessions that use it would wait for a target that is lost. It delays itself
 * alone: what its sessions do on other disks takes no longer than before, and none of them is lost, also where one
 * connection breaks meanwhile: what was on it goes on when its own volume is fenced (F5). One world in some has such a disk
 * (world_theme.c); the disk asks for its delay, initiators report what has ended.
 */
#ifndef RBLK_TESTS_SIM_HUNG_H
#define RBLK_TESTS_SIM_HUNG_H

#include "tests/sim/disk.h"
#include "tests/sim/model.h"

/* So many commands at most has an initiator under way on it, so that the others find tags and memory. More with each
 * connection that breaks: new ones go by the next. */
unsigned int sim_hung_depth(void);
void sim_hung_reset(void);
/* From then on, for so long; patience_ms: what its sessions have. */
void sim_hung_begin(const struct sim_disk *disk, uint64_t from_ns, uint64_t ns, uint64_t patience_ns);
bool sim_hung_is(const struct sim_disk *disk);
/* How much longer what it is given now takes. */
uint64_t sim_hung_ns(const struct sim_disk *disk);
/* Is it time for a connection to break? */
bool sim_hung_may_break(uint32_t chance);
/* Has one, and does the disk hang? */
bool sim_hung_broke(void);
/* It has. */
void sim_hung_broken(void);
/* Something that is not of the disk that hangs has been done: an attach, a RESERVE. */
void sim_hung_done(const char *who, const char *what, const struct sim_disk *disk, uint64_t begun_ns);
/* A command on a disk has ended, of the module or an application. */
void sim_hung_ended(const char *who, const struct sim_disk *disk, const struct sim_command *command, uint64_t begun_ns,
		    bool done, bool module);

#endif
