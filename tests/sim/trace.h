/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What happens in a simulated world, in words, and how a run ends that found something. Without
 * --trace nothing is written and a failure runs the seed again with it.
 */
#ifndef RBLK_TESTS_SIM_TRACE_H
#define RBLK_TESTS_SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>

enum sim_trace_mode {
	SIM_TRACE_OFF,
	SIM_TRACE_TAIL, /* kept, shown on failure: the last SIM_TRACE_LINES lines */
	SIM_TRACE_ALL,	/* shown as it happens */
};

/* program: how to call it again. */
void sim_trace_init(enum sim_trace_mode mode, const char *program);
void sim_trace_seed(uint64_t seed);
bool sim_traced(void);

/* One line: the time, who, what. */
void sim_trace_line(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define sim_trace(who, ...)                               \
	do {                                              \
		if (sim_traced())                         \
			sim_trace_line(who, __VA_ARGS__); \
	} while (0)

/* A hash of all lines of the seed so far: equal for two runs that did the same. */
uint64_t sim_trace_hash(void);

/* The promise is broken: say what, the seed and the trace, and end the program with status 1. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
