/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * target/base/log.h into the trace. Linked instead of target/base/log.c. A line that a target calls an
 * internal error is a failure here.
 */
#include "target/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "tests/sim/actor.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/trace.h"

static __attribute__((format(printf, 1, 0))) void log_line(const char *format, va_list args)
{
	struct sim_actor *self = sim_actor_self();
	char line[256];

	vsnprintf(line, sizeof(line), format, args);
	sim_trace(self ? self->name : "target", "log: %s", line);
	if (strstr(line, "internal error") || strstr(line, "is no step of a request") ||
	    (!sim_net.refuse && strstr(line, "posting failed")) ||
	    strstr(line, "broke the protocol"))
		sim_fail("%s", line);
}

void tgt_log_set_level(enum tgt_log_level level)
{
	(void)level;
}

void tgt_log(enum tgt_log_level level, const char *format, ...)
{
	va_list args;

	(void)level;
	va_start(args, format);
	log_line(format, args);
	va_end(args);
}

void tgt_log_limited(struct tgt_log_limit *limit, enum tgt_log_level level, const char *format, ...)
{
	va_list args;

	(void)limit;
	(void)level;
	va_start(args, format);
	log_line(format, args);
	va_end(args);
}
