/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads that serve NVMe hosts and may sleep: how one tells the others that a controller has news for its queues. Each
 * fab adds the eventfd that ends its sleep.
 */
#ifndef RBLK_TARGET_NVME_WAKE_H
#define RBLK_TARGET_NVME_WAKE_H

/* Beyond the most that there is room for, a thread hears of news by its queues' timers only. */
void nvme_wake_add(int eventfd);
void nvme_wake_remove(int eventfd);
/* Any thread. */
void nvme_wake_all(void);

#endif
