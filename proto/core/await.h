/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides whether the submitter of a command waits for its answer on the processor, or sleeps. kmod/await.c calls it, and
 * does the waiting. That pays where one command at a time is under way and waking is dear: a processor that sleeps has to be
 * interrupted, and in a virtual machine given back by the host. It is a loss where the submitter has something else to do
 * meanwhile, or others want the processor.
 *
 * Decided by trial. Commands that come one at a time form cycles, each from one submission to the next. What waking costs,
 * and what a submitter misses while it waits, is all in them. Some are slept through, some waited through. Waiting is kept
 * if its cycles are shorter by more than an eighth, sleeping otherwise, for a number of commands that grows while the same
 * way wins. A submitter that has several commands under way is found out by commands that are not waited for. Pure:
 * clock readings in, a decision out. Several submitters at once may spoil a trial, nothing else.
 */
#ifndef RBLK_CORE_AWAIT_H
#define RBLK_CORE_AWAIT_H

#include "proto/wire/types.h"

/* No command is waited for longer. */
#define CORE_AWAIT_MOST_NS 1000000ull

struct core_await {
	u64 begun_ns;	/* when the last command was submitted; 0: no cycle counts that begins with it */
	u64 slept_ns;	/* the cycles of the trial that were slept through, all together */
	u64 waited_ns;	/* those that were waited through */
	u32 left;	/* so many cycles more this way */
	u32 keep;	/* for so many the winner of the next trial is kept */
	u8 phase;	/* enum core_await_phase */
	bool wins;	/* waiting has won the last trial */
	bool waits;	/* the last command was waited for */
	u8 failures;	/* commands in a row that were waited for in vain */
};

/* Begins with a trial. */
void core_await_init(struct core_await *await);

/*
 * A command is submitted; `alone`: no other is under way. True: wait for it, CORE_AWAIT_MOST_NS at most, and only while
 * nobody else wants the processor; then core_await_waited(), unless it could not be sent.
 */
bool core_await_submit(struct core_await *await, u64 now_ns, bool alone);

/* The wait is over. `answered`: by the answer. */
void core_await_waited(struct core_await *await, bool answered);

#endif
