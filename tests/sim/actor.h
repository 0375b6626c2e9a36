/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who runs: a process's thread in a simulated world. What the code under test opens while it runs
 * (fabrics, rings) belongs to the actor and wakes it.
 */
#ifndef RBLK_TESTS_SIM_ACTOR_H
#define RBLK_TESTS_SIM_ACTOR_H

#include <stdbool.h>
#include <stdint.h>

/* Embedded in what it is: a reactor, a listener, an application. */
struct sim_actor {
	char name[16];	      /* "target0.r0", "app2" */
	unsigned int machine; /* on which it runs: index of the network's end */
	void (*wake)(struct sim_actor *actor);
	bool digests; /* all its data has a digest: bits of it may change on the way */
	unsigned int spared; /* that many transfers of data do not change now */
	unsigned int flips;  /* so many did since nothing was under way */
};

struct sim_actor *sim_actor_self(void);
/* The one that runs from now on; returns the one before. */
struct sim_actor *sim_actor_become(struct sim_actor *actor);
/* Called with it; NULL: nobody wants to know. */
extern void (*sim_actor_changes)(const struct sim_actor *actor);

static inline void sim_actor_wake(struct sim_actor *actor)
{
	actor->wake(actor);
}

#endif
