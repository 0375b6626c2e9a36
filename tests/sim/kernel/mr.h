/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Between rdma.c and mr.c, which has the memory registrations. */
#ifndef RBLK_TESTS_SIM_KERNEL_MR_H
#define RBLK_TESTS_SIM_KERNEL_MR_H

#include "tests/sim/kernel/rdma.h"

struct fab;
struct fab_device;

/* -- rdma.c ---------------------------------------------------------------------------------------------- */

/* NULL: there is no session. */
struct fab *sim_rdma_fab(void);
/* Its device. */
const struct fab_device *sim_rdma_side(void);
/* It fails if the queue, unless NULL, is one that goes on. */
void sim_rdma_freed(const void *queue, const char *what);

/* -- mr.c ------------------------------------------------------------------------------------------------ */

/* Begin with no registrations; fail if one is left at the end. */
void sim_mrs_start(void);
void sim_mrs_stop(void);
/* A queue pair begins there: no key of an earlier one's may be valid. */
void sim_mrs_connected(const struct ib_pd *pd);
/* The work request that makes a key valid has been posted. */
void sim_mr_begins(const struct ib_reg_wr *wr);
/* The one that invalidates a key has been posted. Returns the key's registration. */
struct ib_mr *sim_mr_ending(u32 rkey);
/* It has no key any more. */
void sim_mr_end(struct ib_mr *mr);

#endif
