/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which process holds the flock() of a file, as far as /proc/locks knows. Any thread. */
#ifndef RBLK_TARGET_LOCK_HOLDER_H
#define RBLK_TARGET_LOCK_HOLDER_H

/*
 * Its id, or 0: none that can be seen from here. Not for each attempt to get a lock: while /proc/locks is read, the kernel gives
 * and releases no lock on the whole machine, and it waits for an RCU grace period first.
 */
int tgt_lock_holder(const char *path);

#endif
