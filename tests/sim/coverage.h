/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the seeds have reached: states of requests, answers, refusals, faults. The code that sees
 * one reports its name; a run reports in how many seeds each was seen, and fails where one was in
 * none that coverage.floor lists.
 */
#ifndef RBLK_TESTS_SIM_COVERAGE_H
#define RBLK_TESTS_SIM_COVERAGE_H

/* "group: what detail". Strings that stay; detail may be NULL. */
void sim_reached(const char *group, const char *what, const char *detail);
/* What is reached from here on is another seed's. */
void sim_coverage_seed(void);
/* To stdout, sorted. Returns how many lines of `floor` (a file; NULL: none) were not reached. */
unsigned int sim_coverage_report(const char *floor);

#endif
