/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkd's log lines: one line each, the object first, the reason last, to stderr, with systemd's
 * priority prefix where the journal reads it. Lines that a peer can trigger are rate-limited. Any
 * thread. No caller waits for stderr: lines that it does not take are counted.
 */
#ifndef RBLK_TARGET_LOG_H
#define RBLK_TARGET_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum tgt_log_level { TGT_LOG_ERROR = 3, TGT_LOG_WARNING = 4, TGT_LOG_INFO = 6, TGT_LOG_DEBUG = 7 };

void tgt_log_set_level(enum tgt_log_level level);
enum tgt_log_level tgt_log_get_level(void);
/* "warning" */
const char *tgt_log_level_name(enum tgt_log_level level);
/* False: no level has that name. */
bool tgt_log_level_find(const char *name, enum tgt_log_level *level);
/* Standard error is systemd's journal. */
bool tgt_log_is_journal(void);
void tgt_log(enum tgt_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Through one limit: TGT_LOG_BURST lines at once, TGT_LOG_RATE a second in the long run; the next counts the others. */
#define TGT_LOG_BURST 100
#define TGT_LOG_RATE 10
struct tgt_log_limit {
	uint64_t paid_ns; /* monotonic; lines are paid for until then, each adds 1 s / TGT_LOG_RATE */
	unsigned int dropped;
};
void tgt_log_limited(struct tgt_log_limit *limit, enum tgt_log_level level, const char *format,
		     ...) __attribute__((format(printf, 3, 4)));

#endif
