/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A cluster of RADOS with one image, and the processes that are its clients, for the module of target/rbd: its
 * object code is linked once, and calls these files where it would call librados, librbd and threads.
 *
 * The cluster is what F5 has to cope with, and no better. The monitors commit maps, each with a number, one after
 * the other; an OSD gets a map late, or with the first operation of a client that has it. It judges an operation
 * by the map that it has when it carries it out, and keeps one client's operations in order. Entries of the
 * blocklist end. What a process has sent is delivered when its machine reaches the cluster again, whatever has
 * become of the process. A watch ends when its client is not heard of for a while, or an OSD fails.
 */
#ifndef RBLK_TESTS_SIM_RADOS_H
#define RBLK_TESTS_SIM_RADOS_H

#include <stdbool.h>
#include <stdint.h>
#include "tests/sim/clock.h"

struct sim_disk;

/* Machines with gateways; numbers from 0 on. */
#define SIM_RADOS_MACHINES 10u

/* Calls of all processes, since the simulator has begun. */
extern struct sim_rados_counts {
	uint64_t notifies, blocked, maps;
} sim_rados_counts;

/* -- rados.c: the cluster -------------------------------------------------------------------- */

/* False: this simulator has no module of target/rbd. */
bool sim_rados_can(void);
/* There is one from now on, with this image. */
void sim_rados_begin(struct sim_disk *image);
/* Monitors commit what waits together, as they do; otherwise each entry of the blocklist has a commit of its own. */
void sim_rados_commits_together(void);
/* No client is left. Idempotent. */
void sim_rados_fini(void);
/* The machine does not reach the cluster for so long. */
void sim_rados_cut(unsigned int machine, uint64_t ns);
/* What the machine's processes have sent to the image's OSDs, and still send, arrives so late: packets are lost. */
void sim_rados_delay(unsigned int machine, uint64_t ns);
/* The machine's clients are on the blocklist from now on, by hand. */
void sim_rados_block(unsigned int machine);
/* Since then a client was on the blocklist whose process had not ended it yet. */
bool sim_rados_was_shut_out(uint64_t since_ns);
/* One OSD does nothing for so long. */
void sim_rados_stall(uint64_t ns);
/* An OSD forgets a watch. */
void sim_rados_forget_watch(void);

/* -- rados_process.c: the processes ------------------------------------------------------------ */

/* The machine's process begins; its module has never run. */
void sim_rados_process_begin(unsigned int machine);
/* Of a thread of the process: waits until its stores are closed, or it is dead. */
void sim_rados_process_close(unsigned int machine);
/* Killed: from now on every call comes back at once, with an error, and none has an effect. */
void sim_rados_process_kill(unsigned int machine);
/* Its threads go on as those of a dead one do; true: as far as they get. */
bool sim_rados_process_hurry(unsigned int machine);
/* Nothing of it is left, but for what it has sent. */
void sim_rados_process_end(unsigned int machine);
bool sim_rados_process_is_dead(unsigned int machine);
/* SIGSTOP: none of its threads runs for so long. */
void sim_rados_process_hold(unsigned int machine, uint64_t ns);

#endif
