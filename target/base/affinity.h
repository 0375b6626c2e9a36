/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads that a reactor starts inherit its CPU (the setting `cpus`), where they would be in its way. They leave it for
 * those CPUs that the process had at its start.
 */
#ifndef RBLK_TARGET_AFFINITY_H
#define RBLK_TARGET_AFFINITY_H

/* Before any thread is bound to a CPU: remembers those of this thread. */
void tgt_affinity_keep(void);
/* The calling thread's: back to those. Without tgt_affinity_keep() nothing happens. */
void tgt_affinity_roam(void);

#endif
