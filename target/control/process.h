/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The process gets these from whoever starts it: signals, which all come to one descriptor, and
 * limits. Called by main.c alone, on the control thread.
 */
#ifndef RBLK_TARGET_PROCESS_H
#define RBLK_TARGET_PROCESS_H

/* Before all else: by default SIGHUP and SIGUSR1 end the process. From here on they stay pending for the signalfd. */
void tgt_process_defer_signals(void);
/*
 * Before any thread is made, so that all of them inherit it: signals come to the signalfd alone. The descriptor, or
 * negative errno and error (TGT_ERROR_BYTES).
 */
int tgt_process_open_signals(char *error);
/* The next signal of that descriptor, 0 if there is none. */
int tgt_process_take_signal(int signals);

/*
 * Soft limits are for other programs; this one may use the hard limits. A connection over TCP is a
 * descriptor: a limit for programs that use select() is too low. And a volume's file is written where an
 * initiator says. If a hard limit is too low, the code that meets it reports it.
 */
void tgt_process_raise_limits(void);

#endif
