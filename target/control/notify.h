/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages to systemd about the daemon's state. Without systemd all of it does nothing. Control
 * thread.
 */
#ifndef RBLK_TARGET_NOTIFY_H
#define RBLK_TARGET_NOTIFY_H

#include <stdint.h>

/* The text is what `systemctl status` shows. */
void tgt_notify_ready(const char *status);
void tgt_notify_reloading(void); /* tgt_notify_ready() ends it */
void tgt_notify_stopping(const char *status);

/* Milliseconds between watchdog notifications (half of systemd's limit), -1: none. */
int tgt_notify_watchdog_ms(void);
void tgt_notify_alive(void);

#endif
