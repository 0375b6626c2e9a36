/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finished lines on their way to stderr: log.c has them written, main() starts and stops the writing. */
#ifndef RBLK_TARGET_LOG_WRITER_H
#define RBLK_TARGET_LOG_WRITER_H

#include <stddef.h>

/* Longest line, its end included. */
#define TGT_LOG_LINE_BYTES 2048
/* Lines that wait for stderr to take them. */
#define TGT_LOG_RING_BYTES 262144

/*
 * From start to stop, a thread of its own writes the lines; before and after, each is written at
 * once. Main thread, signals blocked. stop waits a moment for what is still unwritten, and no
 * longer where stderr takes nothing.
 */
int tgt_log_start(void); /* 0 or negative errno */
void tgt_log_stop(void);

/* Any thread. `line` ends with '\n'. Never waits between start and stop. */
void tgt_log_put(const char *line, size_t bytes);

#endif
