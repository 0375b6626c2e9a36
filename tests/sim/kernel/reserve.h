/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What passes between disks.c, where the module's calls of the session pass by, and reserve.c.
 */
#ifndef RBLK_TESTS_SIM_KERNEL_RESERVE_H
#define RBLK_TESTS_SIM_KERNEL_RESERVE_H

#include <stdbool.h>

struct rblk_disk;
struct rblk_queue;
struct rblk_session_command;

/* RESERVE or RESERVATIONS of a program in sim_disk_reserve() or the like is sent, and answered or lost. */
int sim_reserve_run(struct rblk_queue *queue, struct rblk_session_command *sc);
/* One of its volume, whose program was killed, is under way. */
bool sim_reserve_left(const struct rblk_disk *disk);

#endif
