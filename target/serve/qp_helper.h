/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reactor's own helper thread makes and destroys queue pairs, which takes a driver up to
 * milliseconds, while the reactor serves its other sessions.
 */
#ifndef RBLK_TARGET_SERVE_QP_HELPER_H
#define RBLK_TARGET_SERVE_QP_HELPER_H

#include <stdbool.h>
#include "proto/fabric/fabric.h"

struct tgt_reactor;

/*
 * A fab_helper_fn of a struct tgt_reactor: the job ends in a reap of the reactor's ring. False: too many wait already, or
 * there is no memory, so the reactor does it itself. That is the bound for a peer that connects again and again.
 */
bool tgt_qp_helper_take(struct fab_job *work, void *reactor);

/* Says so in the log if a driver has taken seconds for a job: until it ends, others wait. Now and then, on the reactor's thread. */
void tgt_qp_helper_check(struct tgt_reactor *reactor);

#endif
