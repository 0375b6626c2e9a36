/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The secret that the module's machine and the targets of its world share, in worlds that have one. */
#ifndef RBLK_TESTS_SIM_SECRET_H
#define RBLK_TESTS_SIM_SECRET_H

struct rblk_secrets;

/* Always the same one; the reference is kept for good. */
struct rblk_secrets *sim_secrets(void);

#endif
