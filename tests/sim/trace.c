/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lines go into a ring (or to stdout) and into a hash. Crashes of the code under test (an
 * assertion, a wild pointer) are failures like others: the handlers here say the seed, too.
 */
#include "tests/sim/trace.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/sim/clock.h"

#define LINES 400
#define LINE_BYTES 200

static struct {
	enum sim_trace_mode mode;
	const char *program;
	uint64_t seed, hash;
	unsigned int next;
	char lines[LINES][LINE_BYTES];
} trace;

static void trace_show(void)
{
	for (unsigned int i = 0; i < LINES; i++) {
		const char *line = trace.lines[(trace.next + i) % LINES];

		if (line[0])
			puts(line);
	}
}

/* Says the seed; where there is no trace yet, becomes a run of that seed with one. */
static void trace_end(const char *words)
{
	char seed[32];

	snprintf(seed, sizeof(seed), "%" PRIu64, trace.seed);
	if (trace.mode == SIM_TRACE_OFF) {
		printf("seed %s: %s\n\n", seed, words);
		fflush(stdout);
		execl("/proc/self/exe", trace.program, "--seed", seed, "--tail", (char *)NULL);
		_exit(1);
	}
	if (trace.mode == SIM_TRACE_TAIL)
		trace_show();
	printf("seed %s: %s\nreplay: %s --seed %s --trace\n", seed, words, trace.program, seed);
	fflush(stdout);
	_exit(1);
}

static void on_crash(int signal_number)
{
	signal(signal_number, SIG_DFL);
	trace_end(signal_number == SIGABRT ? "aborted: an assertion of the code under test"
					   : "crashed: a signal in the code under test");
}

void sim_trace_init(enum sim_trace_mode mode, const char *program)
{
	static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_NODEFER};

	trace.mode = mode;
	trace.program = program;
	for (unsigned int i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &action, NULL);
}

void sim_trace_seed(uint64_t seed)
{
	trace.seed = seed;
	trace.hash = 0xcbf29ce484222325u;
	trace.next = 0;
	memset(trace.lines, 0, sizeof(trace.lines));
}

bool sim_traced(void)
{
	return trace.mode != SIM_TRACE_OFF;
}

void sim_trace_line(const char *who, const char *format, ...)
{
	char *line = trace.lines[trace.next++ % LINES];
	uint64_t us = sim_now_ns() / SIM_US - 1000 * SIM_S / SIM_US;
	va_list args;
	int length;

	length = snprintf(line, LINE_BYTES, "%4" PRIu64 ".%06" PRIu64 " %-12s ", us / 1000000,
			  us % 1000000, who);
	va_start(args, format);
	vsnprintf(line + length, LINE_BYTES - (size_t)length, format, args);
	va_end(args);
	for (const char *c = line; *c; c++)
		trace.hash = (trace.hash ^ (unsigned char)*c) * 0x100000001b3u;
	if (trace.mode == SIM_TRACE_ALL)
		puts(line);
}

uint64_t sim_trace_hash(void)
{
	return trace.hash;
}

void sim_fail(const char *format, ...)
{
	char words[512];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	trace_end(words);
	abort();
}
