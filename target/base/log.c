/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Formats log lines, see log.h. log_writer.c writes them to stderr. */
#include "target/base/log.h"
#include "target/base/log_writer.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/text.h"

#define PRICE_NS (1000000000u / TGT_LOG_RATE)

static _Atomic int log_level = TGT_LOG_INFO;

void tgt_log_set_level(enum tgt_log_level level)
{
	atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

enum tgt_log_level tgt_log_get_level(void)
{
	return (enum tgt_log_level)atomic_load_explicit(&log_level, memory_order_relaxed);
}

static const char *const level_names[] = {
	[TGT_LOG_ERROR] = "error",
	[TGT_LOG_WARNING] = "warning",
	[TGT_LOG_INFO] = "info",
	[TGT_LOG_DEBUG] = "debug",
};

const char *tgt_log_level_name(enum tgt_log_level level)
{
	return level_names[level];
}

bool tgt_log_level_find(const char *name, enum tgt_log_level *level)
{
	for (unsigned int i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (!level_names[i] || strcmp(level_names[i], name))
			continue;
		*level = (enum tgt_log_level)i;
		return true;
	}
	return false;
}

/*
 * JOURNAL_STREAM has the device and inode of the journal's pipe: only if stderr is still that pipe
 * does the journal read a "<6>" prefix as a priority.
 */
bool tgt_log_is_journal(void)
{
	static _Atomic int known; /* 0: not looked yet, 1: no, 2: yes */
	int answer = atomic_load_explicit(&known, memory_order_relaxed);

	if (!answer) {
		const char *stream = getenv("JOURNAL_STREAM");
		unsigned long long device, inode;
		struct stat st;

		answer = 1;
		if (stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
		    fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode)
			answer = 2;
		atomic_store_explicit(&known, answer, memory_order_relaxed);
	}
	return answer == 2;
}

static __attribute__((format(printf, 3, 0))) void
log_write(enum tgt_log_level level, unsigned int dropped, const char *format, va_list args)
{
	char line[TGT_LOG_LINE_BYTES];
	int length, more;

	if (tgt_log_is_journal())
		length = snprintf(line, sizeof(line), "<%d>", (int)level);
	else
		length = snprintf(line, sizeof(line), "rblkd: ");
	more = vsnprintf(line + length, sizeof(line) - (size_t)length, format, args);
	if (more > 0)
		length += more;
	if (dropped > 0 && length < TGT_LOG_LINE_BYTES)
		length += snprintf(line + length, sizeof(line) - (size_t)length,
				   " (%u similar line%s suppressed)", dropped, TGT_S(dropped));
	if (length > TGT_LOG_LINE_BYTES - 1)
		length = TGT_LOG_LINE_BYTES - 1;
	line[length++] = '\n';
	tgt_log_put(line, (size_t)length);
}

static bool level_shown(enum tgt_log_level level)
{
	return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

void tgt_log(enum tgt_log_level level, const char *format, ...)
{
	va_list args;

	if (!level_shown(level))
		return;
	va_start(args, format);
	log_write(level, 0, format, args);
	va_end(args);
}

void tgt_log_limited(struct tgt_log_limit *limit, enum tgt_log_level level, const char *format, ...)
{
	uint64_t now = env_now_ns();
	unsigned int dropped;
	va_list args;

	if (!level_shown(level))
		return;
	if (limit->paid_ns < now)
		limit->paid_ns = now;
	if (limit->paid_ns - now > (TGT_LOG_BURST - 1) * (uint64_t)PRICE_NS) {
		limit->dropped++;
		return;
	}
	limit->paid_ns += PRICE_NS;
	dropped = limit->dropped;
	limit->dropped = 0;
	va_start(args, format);
	log_write(level, dropped, format, args);
	va_end(args);
}
