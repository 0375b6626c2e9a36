/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Virtual time: an agenda of what is to happen, in the order of time and, at the same time, of
 * entry. Time stands still while something runs and jumps to the next entry when it has. Also the
 * simulator's env_now_ns() and env_random(); env_yield() is fiber.c's.
 */
#ifndef RBLK_TESTS_SIM_CLOCK_H
#define RBLK_TESTS_SIM_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_US 1000ull
#define SIM_MS 1000000ull
#define SIM_S 1000000000ull

/* Embedded in whatever it concerns; zeroed, then run and arg set. In the agenda while `place`. */
struct sim_event {
	uint64_t at_ns;
	void (*run)(void *arg);
	void *arg;
	size_t place; /* in the heap, from 1; 0: not in it */
};

#define SIM_CLOCKS 16u

void sim_clock_reset(void);
/* What env_now_ns() says on that machine: so far ahead, and so much faster (parts of a million). */
void sim_clock_skew(unsigned int machine, uint64_t ahead_ns, int32_t drift_ppm);
uint64_t sim_now_ns(void);
/* At that time, not before now; one that is in the agenda already is moved. */
void sim_event_at(struct sim_event *event, uint64_t at_ns);
void sim_event_in(struct sim_event *event, uint64_t delay_ns);
/* Not later than that. */
void sim_event_by(struct sim_event *event, uint64_t at_ns);
void sim_event_cancel(struct sim_event *event);
/* Advance to the next entry and run it. False: the agenda is empty. */
bool sim_clock_step(void);
/*
 * While a dead process is being taken apart (host.c) its code sees time pass with every look at the
 * clock, so that a wait with a time-out ends.
 */
void sim_clock_hurry(bool hurry);

#endif
