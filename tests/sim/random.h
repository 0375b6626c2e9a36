/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one source of chance in a simulated world: a sequence that the seed alone determines. Every
 * decision of the simulator, and env_random() of the code under test, draws from it. No two draws in one
 * call's arguments, or on both sides of an operator but && || ?: : each compiler has its own order there
 * (sim.compilers).
 */
#ifndef RBLK_TESTS_SIM_RANDOM_H
#define RBLK_TESTS_SIM_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void sim_random_seed(uint64_t seed);
uint64_t sim_random(void);
/* 0 .. bound - 1; 0 where bound is 0. */
uint64_t sim_below(uint64_t bound);
/* low .. high, both included. */
uint64_t sim_between(uint64_t low, uint64_t high);
/* True in `parts` of a million draws. */
bool sim_chance(uint32_t parts);
/* What is drawn from here on is of another sequence; returns where that one was, for sim_random_back(). */
uint64_t sim_random_aside(uint64_t seed);
void sim_random_back(uint64_t was);

#endif
