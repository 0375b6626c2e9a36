/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What reserve.c tells disks.c.
 */
#ifndef RBLK_TESTS_SIM_KERNEL_RESERVE_H
#define RBLK_TESTS_SIM_KERNEL_RESERVE_H

#include <stdbool.h>

struct rblk_disk;

/* One of its volume, whose program was killed, is under way. */
bool sim_reserve_left(const struct rblk_disk *disk);

#endif
