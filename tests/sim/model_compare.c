/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * COMPARE_AND_WRITE in the model. Success says that each sector held what was expected at the
 * moment at which it was replaced; COMPARE, that one did not, and that nothing was done. Every
 * write but of zeroes has an id of its own, so what was replaced is there no more, unless the write is sent
 * again: one expectation of it is met, and whoever wrote after it wrote after the replacement, too. And no
 * COMPARE_AND_WRITE is done twice, however often it is sent (F8): the disk tells what it stores.
 */
#include "tests/sim/model_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/trace.h"

/* By id, modulo this: no two that close are under way together. */
#define STORED_MAX 4096u

/* What the disk has stored of one COMPARE_AND_WRITE: a bit per sector of its range. */
static struct stored {
	uint64_t id, sector, all, done;
} stored[STORED_MAX];

void sim_compare_reset(void)
{
	memset(stored, 0, sizeof(stored));
}

void sim_compare_began(struct model_command *command, const uint64_t *expected)
{
	const struct sim_command *it = &command->command;

	if (it->sectors > SIM_COMPARE_SECTORS)
		sim_fail("a COMPARE_AND_WRITE of %" PRIu64 " sectors", it->sectors);
	command->expected = malloc(it->sectors * sizeof(*expected));
	if (!command->expected)
		sim_fail("out of memory");
	memcpy(command->expected, expected, it->sectors * sizeof(*expected));
	stored[it->id % STORED_MAX] = (struct stored){
		.id = it->id, .sector = it->sector, .all = (1ull << it->sectors) - 1};
}

/* -- contents ------------------------------------------------------------------------------ */

/* What the command may have found in a sector. */
enum found {
	FOUND_EXPECTED,	  /* what it expected */
	FOUND_TO_REPLACE, /* that, and no other COMPARE_AND_WRITE has replaced it */
	FOUND_ANOTHER,
};

/* A WRITE that is sent again may be done twice. A COMPARE_AND_WRITE that was begun before its end may
 * have replaced what the first attempt wrote, and another one what the second wrote. */
static bool may_have_been_twice(const struct candidate *c, const struct model_command *command)
{
	return c->write && c->write->repeated && !c->write->expected &&
	       sim_candidate_end(c) >= command->command.begin;
}

/* Else it may have been done before the loss, and another one may have found the older write again after it. */
static bool nothing_lost_since(const struct model_command *command)
{
	const struct sim_volume *volume = command->command.volume;

	return command->command.begin > volume->crashed && command->command.begin > volume->lost;
}

static bool could_find(const struct candidate *c, const struct model_command *command, uint64_t id,
		       enum found what)
{
	if (c->write == command || c->dead < command->command.begin)
		return false;
	if (c->id == SIM_ID_ANYTHING)
		return true;
	return (c->id == id) == (what != FOUND_ANOTHER) &&
	       !(what == FOUND_TO_REPLACE && c->replaced && nothing_lost_since(command) &&
		 !may_have_been_twice(c, command));
}

static const struct contents *contents_of(const struct model_command *command, uint64_t i)
{
	return &command->command.volume->contents[command->command.sector + i];
}

static bool any_found(const struct model_command *command, uint64_t i, enum found what)
{
	const struct candidate *c;

	SIM_CONTENTS_FOREACH(c, contents_of(command, i))
		if (could_find(c, command, command->expected[i], what))
			return true;
	return false;
}

static __attribute__((noreturn)) void compare_fail(const struct model_command *command, uint64_t i,
						   const char *what)
{
	const struct sim_command *it = &command->command;

	sim_sector_explain(it->volume, it->sector + i);
	sim_fail("volume %s sector %" PRIu64 ": COMPARE_AND_WRITE %" PRIu64
		 " expects write %" PRIu64 ": %s",
		 it->volume->name, it->sector + i, it->id, command->expected[i], what);
}

void sim_compare_found(const struct model_command *command)
{
	for (uint64_t i = 0; i < command->command.sectors; i++)
		if (!any_found(command, i, FOUND_TO_REPLACE))
			compare_fail(command, i,
				     "it succeeds, and the sector cannot have held that");
}

void sim_model_differs(struct sim_command *it, uint64_t offset)
{
	const struct model_command *command = (const struct model_command *)it;
	const struct stored *kept = &stored[it->id % STORED_MAX];
	uint64_t differs = offset / SIM_SECTOR;

	if (differs >= it->sectors)
		compare_fail(command, 0, "a difference beyond its range");
	if (kept->id == it->id && kept->done == kept->all)
		compare_fail(command, differs, "said to differ, and it was done (F8)");
	for (uint64_t i = 0; i < differs; i++)
		if (!any_found(command, i, FOUND_EXPECTED))
			compare_fail(command, i, "not the first difference");
	if (!any_found(command, differs, FOUND_ANOTHER))
		compare_fail(command, differs, "said to differ, and it cannot have held another");
}

/* -- order --------------------------------------------------------------------------------- */

/*
 * Is it known whose content was replaced, if the sector may have held what was expected of several? An id says that.
 * Zeroes have none: another COMPARE_AND_WRITE may have replaced one's, and this one another's.
 */
static bool finds_one(const struct model_command *command, uint64_t i)
{
	const struct candidate *c;
	unsigned int found = 0;

	if (command->expected[i] != SIM_ID_ZERO)
		return true;
	SIM_CONTENTS_FOREACH(c, contents_of(command, i))
		found += could_find(c, command, SIM_ID_ZERO, FOUND_TO_REPLACE);
	return found == 1;
}

/* When what it found had been written for sure, or SIM_NEVER: that may have been beside it. What
 * was found is replaced. */
static uint64_t sector_replace(const struct model_command *command, uint64_t i)
{
	bool one = finds_one(command, i);
	uint64_t written = 0;
	struct candidate *c;

	SIM_CONTENTS_FOREACH(c, contents_of(command, i)) {
		if (!could_find(c, command, command->expected[i], FOUND_TO_REPLACE))
			continue;
		if (sim_candidate_end(c) >= command->command.begin || c->id == SIM_ID_ANYTHING)
			written = SIM_NEVER;
		else
			c->replaced |= one;
		if (written < sim_candidate_end(c))
			written = sim_candidate_end(c);
	}
	return written;
}

/* Since the volume has last lost something, and after what the other one replaced? */
static bool came_after(const struct sim_volume *volume, const struct candidate *write,
		       uint64_t replaced_written)
{
	uint64_t begin = sim_candidate_begin(write);

	return write->succeeded && begin > replaced_written && begin > volume->crashed &&
	       begin > volume->lost;
}

/* A write that came after what a COMPARE_AND_WRITE found came after that one, too. */
void sim_compare_order(struct sim_volume *volume, uint64_t sector, uint64_t now)
{
	struct contents *contents = &volume->contents[sector];
	const struct candidate *w;
	struct candidate *c;

	if (!contents->compared)
		return;
	contents->settled = 0;
	SIM_CONTENTS_FOREACH(c, contents) {
		if (!c->write || !c->write->expected || !c->succeeded || c->dead <= now ||
		    c->found_written == SIM_NEVER)
			continue;
		SIM_CONTENTS_FOREACH(w, contents)
			if (w != c && w->write && came_after(volume, w, c->found_written))
				c->dead = now;
	}
}

void sim_compare_succeeded(const struct model_command *command)
{
	const struct sim_command *it = &command->command;

	for (uint64_t i = 0; i < it->sectors; i++) {
		uint64_t written = sector_replace(command, i);
		struct candidate *c;

		SIM_CONTENTS_FOREACH(c, contents_of(command, i))
			if (c->write == command)
				c->found_written = written;
	}
	sim_reached("compare", "replaces what it expected", NULL);
}

/* -- what the disk does -------------------------------------------------------------------- */

static struct stored *stored_of(const uint8_t *data)
{
	struct stored *kept;
	uint64_t id;

	memcpy(&id, data, sizeof(id));
	kept = &stored[id % STORED_MAX];
	return id != SIM_ID_ZERO && kept->id == id ? kept : NULL;
}

void sim_compare_stores(const uint8_t *data, uint64_t sector)
{
	const struct stored *kept = stored_of(data);

	/* A part may be stored twice: of a transfer that was short. */
	if (kept && kept->done == kept->all)
		sim_fail("sector %" PRIu64 ": COMPARE_AND_WRITE %" PRIu64
			 " was done, and is done again (F8)",
			 sector, kept->id);
}

void sim_compare_stored(const uint8_t *data, uint64_t sector, uint64_t sectors)
{
	struct stored *kept = stored_of(data);

	if (kept)
		kept->done |= ((1ull << sectors) - 1) << (sector - kept->sector);
}
