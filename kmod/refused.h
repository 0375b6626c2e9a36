/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that the target could not begin (BUSY, DRAINING): each is sent again after a delay that
 * grows (C6), and not forever. Meanwhile they are held: started, and on device->refused.
 */
#ifndef RBLK_KMOD_REFUSED_H
#define RBLK_KMOD_REFUSED_H

#include <linux/types.h>
#include <linux/workqueue.h>

struct rblk_device;
struct rblk_io;

/* How long to wait before something is sent for the n-th time again, n from 1. */
static inline unsigned int rblk_refused_pause_ms(unsigned int n)
{
	return 5u << (n < 8 ? n : 8); /* 10 ms to 1.3 s */
}

/* Answered: take it, if it is to be sent again. Softirq, or the queue's poller. */
bool rblk_refused(struct rblk_io *io);
/* Sends what is due now. */
void rblk_refused_work(struct work_struct *work);
/* Sleeps. Every queue has been drained: whatever waits here is held from now on, like the others. */
void rblk_refused_stop(struct rblk_device *device);

#endif
