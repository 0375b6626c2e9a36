/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who runs now.
 */
#include "tests/sim/actor.h"

#include <stddef.h>

void (*sim_actor_changes)(const struct sim_actor *actor);

static struct sim_actor *self;

struct sim_actor *sim_actor_self(void)
{
	return self;
}

struct sim_actor *sim_actor_become(struct sim_actor *actor)
{
	struct sim_actor *before = self;

	self = actor;
	if (sim_actor_changes)
		sim_actor_changes(actor);
	return before;
}
