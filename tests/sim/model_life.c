/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lives of a volume in the model: what a crash or a failed flush brings back, and which cache
 * epoch an OPEN may report (F7, F9).
 */
#include "tests/sim/model_impl.h"

#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/trace.h"

/* What it held before its last successful write is not known to be gone for good. */
static bool sector_unflushed(const struct sim_volume *volume, uint64_t sector)
{
	bool acknowledged = false, older = false;
	const struct candidate *c;

	SIM_CONTENTS_FOREACH(c, &volume->contents[sector]) {
		acknowledged |= c->succeeded;
		older |= !c->succeeded && c->buried == SIM_NEVER && c->dead != SIM_NEVER;
	}
	return acknowledged && older;
}

void sim_model_keeps(struct sim_volume *volume, bool keeps)
{
	volume->keeps = keeps;
}

void sim_model_crash(struct sim_volume *volume)
{
	uint64_t now = sim_model_now();
	struct candidate *c;

	volume->life++;
	volume->crashed = now;
	sim_trace("model", "volume %s: life %u", volume->name, volume->life);
	if (volume->keeps)
		sim_reached("crash", "spares a volume without a volatile cache", NULL);
	for (uint64_t i = 0; i < volume->sectors && !volume->keeps; i++) {
		volume->contents[i].settled = 0;
		if (volume->durable && sector_unflushed(volume, i))
			sim_reached("crash", "loses what was acknowledged and not flushed", NULL);
		SIM_CONTENTS_FOREACH(c, &volume->contents[i]) {
			c->succeeded = c->replaced = false;
			if (c->buried > now)
				c->dead = SIM_NEVER;
			/* Of memory nothing is left but zeroes, and what will be sent again. */
			if (!volume->durable && c->dead > now &&
			    !(sim_candidate_end(c) == SIM_NEVER && c->write->command.resent))
				c->dead = now;
		}
		if (!volume->durable)
			sim_candidate_add(volume, i, NULL, SIM_ID_ZERO);
	}
}

/* What is not known to be durable may come back. */
static void volume_revive(struct sim_volume *volume, bool forget)
{
	uint64_t now = sim_model_now();
	struct candidate *c;

	for (uint64_t i = 0; i < volume->sectors; i++) {
		volume->contents[i].settled = 0;
		SIM_CONTENTS_FOREACH(c, &volume->contents[i]) {
			if (c->buried > now)
				c->dead = SIM_NEVER;
			c->succeeded &= !forget;
			c->replaced = false;
		}
	}
}

void sim_model_lost(struct sim_volume *volume)
{
	sim_trace("model", "volume %s: a failed flush has lost something", volume->name);
	volume_revive(volume, false);
	volume->lost = sim_model_now();
}

void sim_model_told(struct sim_volume *volume, bool alive)
{
	if (!alive) {
		volume_revive(volume, true);
		return;
	}
	volume->told_life = ++volume->life;
	volume->told = sim_model_now();
	sim_trace("model", "volume %s: life %u, after a failed flush", volume->name, volume->life);
}

void sim_model_doubted(struct sim_volume *volume)
{
	volume->life++;
	sim_trace("model", "volume %s: life %u, as nothing vouches for the last", volume->name, volume->life);
}

struct sim_opening sim_model_opening(struct sim_volume *volume)
{
	struct sim_opening opening = {.volume = volume, .life = volume->life, .since = sim_model_now()};

	return opening;
}

unsigned int sim_model_opened(const struct sim_opening *opening, const uint8_t value[16])
{
	struct sim_volume *volume = opening->volume;
	struct epoch *epoch;

	sim_model_inherited(volume, opening->since);
	/* It crashed in between: the answer may be of either life. */
	if (opening->life != volume->life)
		return volume->life;
	for (unsigned int i = 0; i < volume->epoch_count; i++) {
		epoch = &volume->epochs[i];
		if (!memcmp(epoch->value, value, 16) == (epoch->life == volume->life))
			continue;
		sim_fail("volume %s: %s (F7)", volume->name,
			 epoch->life == volume->life
				 ? "another cache epoch, and nothing was lost"
				 : "its cache was lost and its cache epoch is the same");
	}
	if (volume->epoch_count == SIM_EPOCHS_MAX)
		return volume->life;
	epoch = &volume->epochs[volume->epoch_count++];
	memcpy(epoch->value, value, 16);
	epoch->life = volume->life;
	return volume->life;
}
