/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model of model.h. Everything that is reported has a number, in order, because much happens at
 * one moment of virtual time: a candidate's `dead` is when the sector is known not to hold it any
 * more, `buried` when not even a crash can bring it back. Crashes are model_life.c's, sessions and what
 * they have lost model_session.c's.
 */
#include "tests/sim/model_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/clock.h"
#include "tests/sim/disk.h"
#include "tests/sim/hung.h"
#include "tests/sim/lost.h"
#include "tests/sim/trace.h"

/* A target's patience is 5 s; besides, its threads come late and its READs are sent again. */
#define WAITED_US_MAX 8000000u

static struct {
	uint64_t now; /* number of the last report */
	uint64_t id;  /* of the last WRITE */
	struct sim_volume *volumes;
} model;

uint64_t sim_model_now(void)
{
	return ++model.now;
}

/* -- contents ------------------------------------------------------------------------------ */

uint64_t sim_model_number(void)
{
	return sim_model_now();
}

uint64_t sim_model_id(void)
{
	return ++model.id;
}

void sim_sector_fill(uint8_t *sector, uint64_t id, uint64_t number)
{
	uint64_t words[SIM_SECTOR / 8], first = id * 0x9e3779b97f4a7c15u ^ number;

	for (uint64_t i = 0; i < SIM_SECTOR / 8; i++)
		words[i] = first + (i - 1) * 0x632be59bd9b4e019u;
	words[0] = id;
	words[1] = number;
	memcpy(sector, words, SIM_SECTOR);
}

/* Which write it is of; false: of none, torn or of another place. */
static bool sector_identify(const uint8_t *sector, uint64_t number, uint64_t *id)
{
	uint8_t expected[SIM_SECTOR];

	memcpy(id, sector, 8);
	if (*id == SIM_ID_ZERO)
		memset(expected, 0, sizeof(expected));
	else
		sim_sector_fill(expected, *id, number);
	return !memcmp(sector, expected, SIM_SECTOR);
}

bool sim_sector_is_whole(const uint8_t *sector, uint64_t number)
{
	uint64_t id;

	return sector_identify(sector, number, &id) && id != SIM_ID_ZERO;
}

/* -- candidates ---------------------------------------------------------------------------- */

static void command_put(struct model_command *command)
{
	if (--command->refs)
		return;
	free(command->expected);
	free(command);
}

void sim_candidate_add(struct sim_volume *volume, uint64_t sector, struct model_command *write,
			  uint64_t id)
{
	struct contents *contents = &volume->contents[sector];

	if (contents->count == contents->room) {
		contents->room = 2 * contents->room + 4;
		contents->first = realloc(contents->first, contents->room * sizeof(*contents->first));
		if (!contents->first)
			sim_fail("out of memory");
	}
	contents->first[contents->count++] = (struct candidate){.write = write,
								.since = model.now,
								.id = id,
								.dead = SIM_NEVER,
								.buried = SIM_NEVER,
								.found_written = SIM_NEVER};
	if (!write)
		return;
	write->refs++;
	contents->compared |= write->command.kind == SIM_COMMAND_COMPARE;
}

/* The oldest beginning of what is under way: nobody asks for what was dead before. */
static uint64_t volume_oldest(const struct sim_volume *volume)
{
	const struct model_command *command;
	uint64_t oldest = sim_model_now();

	TAILQ_FOREACH(command, &volume->commands, link)
		if ((command->command.kind == SIM_COMMAND_READ || command->expected) &&
		    command->command.begin < oldest)
			oldest = command->command.begin;
	return oldest;
}

static void sector_prune(struct sim_volume *volume, uint64_t sector, uint64_t oldest)
{
	struct contents *contents = &volume->contents[sector];
	struct candidate *settled = contents->first + contents->settled, *kept = settled, *c;

	SIM_CONTENTS_FOREACH(c, contents) {
		struct candidate one = *c;

		if (one.dead >= oldest) {
			*kept++ = one;
		} else if (volume->durable && one.buried >= oldest) {
			*kept++ = *settled;
			*settled++ = one;
		} else if (one.write) {
			command_put(one.write);
		}
	}
	contents->count = (uint32_t)(kept - contents->first);
	contents->settled = (uint32_t)(settled - contents->first);
}

/* `winner` has succeeded: what ended before it began is over. */
static void sector_supersede(struct sim_volume *volume, uint64_t sector,
			     const struct model_command *winner)
{
	uint64_t end = winner->command.end;
	struct candidate *c;

	if (winner->command.fua)
		volume->contents[sector].settled = 0;
	SIM_CONTENTS_FOREACH(c, &volume->contents[sector]) {
		if (c->write == winner)
			c->succeeded = true;
		/* What it has ended already is most of them. */
		if (c->dead <= end && (!winner->command.fua || c->buried <= end))
			continue;
		if (c->write == winner || sim_candidate_end(c) >= winner->command.begin)
			continue;
		if (c->dead > end)
			c->dead = end;
		if (winner->command.fua && c->buried > end)
			c->buried = end;
	}
}

/*
 * Every session's writes since the handle was opened; and the session's own since it first opened the
 * volume: if it had lost some of them, it would know (F7).
 */
static bool covered(const struct model_command *write, const struct sim_command *flush)
{
	return write->acked_life >= flush->life ||
	       (write->command.session == flush->session && write->acked_life >= flush->own_life);
}

/* A FLUSH has succeeded: what succeeded before it began is durable. */
static void sector_flushed(struct sim_volume *volume, uint64_t sector,
			   const struct sim_command *flush)
{
	uint64_t durable = 0; /* the latest beginning of those */
	struct candidate *c;

	volume->contents[sector].settled = 0;
	SIM_CONTENTS_FOREACH(c, &volume->contents[sector])
		if (c->succeeded && sim_candidate_end(c) < flush->begin && covered(c->write, flush) &&
		    sim_candidate_begin(c) > durable)
			durable = sim_candidate_begin(c);
	if (!durable)
		return;
	SIM_CONTENTS_FOREACH(c, &volume->contents[sector]) {
		if ((c->buried <= flush->end && c->dead <= flush->end) ||
		    sim_candidate_end(c) >= durable)
			continue;
		if (c->buried > flush->end)
			c->buried = flush->end;
		if (c->dead > flush->end)
			c->dead = flush->end;
	}
}

/* Where a sector has but one candidate, there is nothing that this one could end. */
static void volume_flushed(struct sim_volume *volume, const struct sim_command *flush,
			   uint64_t oldest)
{
	for (uint64_t sector = 0; sector < volume->sectors; sector++) {
		if (volume->contents[sector].count < 2)
			continue;
		sector_flushed(volume, sector, flush);
		sector_prune(volume, sector, oldest);
	}
}

/* -- checking ------------------------------------------------------------------------------ */

void sim_sector_explain(const struct sim_volume *volume, uint64_t sector)
{
	const struct contents *contents = &volume->contents[sector];

	for (uint32_t i = contents->count; i-- > 0;) {
		const struct candidate *c = &contents->first[i];

		sim_trace("model",
			  "sector %" PRIu64 ": write %" PRIu64 " from %" PRIu64 " to %" PRIu64
			  " dead %" PRIu64 " buried %" PRIu64,
			  sector, c->id, sim_candidate_begin(c), sim_candidate_end(c), c->dead, c->buried);
	}
}

static bool sector_may_hold(const struct sim_volume *volume, uint64_t sector, uint64_t id,
			    uint64_t since)
{
	const struct candidate *c;

	SIM_CONTENTS_FOREACH(c, &volume->contents[sector])
		if ((c->id == id || c->id == SIM_ID_ANYTHING) && c->dead >= since)
			return true;
	return false;
}

/* It was being written at some moment since, or by two at a time. */
static bool sector_tears(const struct sim_volume *volume, uint64_t sector, uint64_t since)
{
	const struct candidate *c;
	unsigned int count = 0;

	SIM_CONTENTS_FOREACH(c, &volume->contents[sector])
		count += c->dead >= since;
	return volume->tears && count > 1;
}

/* It held `id` at some moment of the READ: what had ended before and is another is over. */
static void sector_seen(struct sim_volume *volume, uint64_t sector, uint64_t id,
			const struct sim_command *read)
{
	struct candidate *c;

	SIM_CONTENTS_FOREACH(c, &volume->contents[sector])
		if (c->dead > read->end && c->id != id && c->id != SIM_ID_ANYTHING &&
		    sim_candidate_end(c) < read->begin)
			c->dead = read->end;
}

static void read_check(const struct sim_command *read, const uint8_t *data)
{
	struct sim_volume *volume = read->volume;

	for (uint64_t i = 0; i < read->sectors; i++) {
		uint64_t sector = read->sector + i, id;
		bool whole = sector_identify(data + i * SIM_SECTOR, sector, &id);

		if (whole && sector_may_hold(volume, sector, id, read->begin)) {
			if (read->begin > volume->crashed && read->begin > volume->lost)
				sector_seen(volume, sector, id, read);
			continue;
		}
		if (!whole && (sector_may_hold(volume, sector, SIM_ID_ANYTHING, read->begin) ||
			       sector_tears(volume, sector, read->begin)))
			continue;
		sim_sector_explain(volume, sector);
		if (!whole)
			sim_fail("volume %s sector %" PRIu64
				 ": what was read is no sector that was "
				 "ever written there",
				 volume->name, sector);
		sim_fail("volume %s sector %" PRIu64 ": read write %" PRIu64 ", which it must not "
			 "hold",
			 volume->name, sector, id);
	}
}

/* -- commands ------------------------------------------------------------------------------ */

bool sim_command_writes(const struct sim_command *command)
{
	return command->kind == SIM_COMMAND_WRITE || command->kind == SIM_COMMAND_ZEROES ||
	       command->kind == SIM_COMMAND_DISCARD || command->kind == SIM_COMMAND_COMPARE;
}

struct sim_command *sim_model_begin(const struct sim_command *template)
{
	struct model_command *command = calloc(1, sizeof(*command));
	struct sim_volume *volume = template->volume;

	if (!command)
		sim_fail("out of memory");
	command->command = *template;
	command->command.begin = sim_model_now();
	command->command.end = SIM_NEVER;
	command->refs = 1;
	TAILQ_INSERT_TAIL(&volume->commands, command, link);
	for (uint64_t i = 0; i < template->sectors && sim_command_writes(template); i++)
		sim_candidate_add(volume, template->sector + i, command,
				  template->kind == SIM_COMMAND_ZEROES	  ? SIM_ID_ZERO
				  : template->kind == SIM_COMMAND_DISCARD ? SIM_ID_ANYTHING
									  : template->id);
	if (sim_command_writes(template) && template->id)
		sim_lost_began(&command->command);
	if (template->kind == SIM_COMMAND_COMPARE)
		sim_compare_began(command, template->expected);
	return &command->command;
}

void sim_model_over(struct model_command *command)
{
	TAILQ_REMOVE(&command->command.volume->commands, command, link);
	if (command->command.end == SIM_NEVER)
		command->command.end = command->lost && command->over ? command->over : sim_model_now();
	command_put(command);
}

/* Nothing was done: it was never a candidate. */
static void candidates_withdraw(struct model_command *command)
{
	const struct sim_command *write = &command->command;

	for (uint64_t i = 0; i < write->sectors; i++) {
		struct contents *contents = &write->volume->contents[write->sector + i];
		struct candidate *c, *kept = contents->first + contents->settled;

		SIM_CONTENTS_FOREACH(c, contents) {
			if (c->write == command)
				command_put(command);
			else
				*kept++ = *c;
		}
		contents->count = (uint32_t)(kept - contents->first);
	}
}

static void command_succeeded(struct model_command *command, const uint8_t *data)
{
	struct sim_command *it = &command->command;
	uint64_t oldest;

	it->end = sim_model_now();
	command->acked_life = it->volume->life;
	oldest = volume_oldest(it->volume);
	if (it->kind == SIM_COMMAND_READ) {
		read_check(it, data);
		return;
	}
	if (it->kind == SIM_COMMAND_COMPARE)
		sim_compare_found(command);
	/*
	 * Done before a loss of which its application does not know yet: only FUA has outlived it.
	 * But a FLUSH beside one that failed says of what was acknowledged before that it is
	 * durable: done before the loss, or it must not succeed (F9).
	 */
	if (it->begin < it->volume->crashed && !it->fua)
		return;
	if (it->begin < it->volume->lost && !it->fua && it->kind != SIM_COMMAND_FLUSH)
		return;
	if (it->kind == SIM_COMMAND_FLUSH && it->life < it->volume->told_life &&
	    it->begin > it->volume->told)
		sim_fail("volume %s: a FLUSH succeeds, and writes that were acknowledged since its "
			 "handle was opened may be lost (F9)",
			 it->volume->name);
	if (it->kind == SIM_COMMAND_FLUSH)
		volume_flushed(it->volume, it, oldest);
	if (!sim_command_writes(it))
		return;
	if (it->kind == SIM_COMMAND_COMPARE && it->begin > it->volume->crashed &&
	    it->begin > it->volume->lost)
		sim_compare_succeeded(command);
	for (uint64_t i = it->sector; i < it->sector + it->sectors; i++) {
		sector_supersede(it->volume, i, command);
		sim_compare_order(it->volume, i, it->end);
		sector_prune(it->volume, i, oldest);
	}
}

void sim_model_again(struct sim_command *it, bool repeated)
{
	struct model_command *command = (struct model_command *)it;

	command->repeated |= repeated;
	command->over = 0;
	command->process_lost = false;
}

void sim_model_end(struct sim_command *it, enum sim_outcome outcome, const uint8_t *data)
{
	struct model_command *command = (struct model_command *)it;

	switch (outcome) {
	case SIM_OUTCOME_DONE:
		command_succeeded(command, data);
		break;
	case SIM_OUTCOME_FAILED:
		break;
	case SIM_OUTCOME_NOTHING:
		if (sim_command_writes(it))
			candidates_withdraw(command);
		break;
	case SIM_OUTCOME_LOST:
		/* It ends with the target's connections, if there still are some. */
		command->lost = true;
		command->command.resent = false;
		if (sim_command_writes(it) && it->id)
			sim_lost_told(it);
		if (sim_command_writes(it) && !command->over &&
		    (command->process_lost || sim_model_has_conns(it->session)))
			return;
		break;
	}
	sim_model_over(command);
}

struct sim_command *sim_model_look(struct sim_volume *volume)
{
	struct sim_command command = {.kind = SIM_COMMAND_READ, .volume = volume};

	return sim_model_begin(&command);
}

void sim_model_zeroes(const struct sim_command *look, uint64_t sector, uint64_t sectors)
{
	for (uint64_t i = sector; i < sector + sectors; i++) {
		if (sector_may_hold(look->volume, i, SIM_ID_ZERO, look->begin))
			continue;
		sim_sector_explain(look->volume, i);
		sim_fail("volume %s sector %" PRIu64 ": called a hole, and it must not be zero",
			 look->volume->name, i);
	}
}

void sim_model_waited(const char *who, uint64_t queued_us)
{
	if (queued_us > WAITED_US_MAX)
		sim_fail("%s: a command has waited for %" PRIu64
			 " ms, and was not answered BUSY (C6)",
			 who, queued_us / 1000);
}

/* -- volumes ------------------------------------------------------------------------------- */

struct sim_volume *sim_volume_create(const char *name, uint64_t sectors, bool durable)
{
	struct sim_volume *volume = calloc(1, sizeof(*volume));

	if (!volume)
		sim_fail("out of memory");
	snprintf(volume->name, sizeof(volume->name), "%s", name);
	volume->sectors = sectors;
	volume->durable = durable;
	volume->contents = calloc(sectors, sizeof(*volume->contents));
	if (!volume->contents)
		sim_fail("out of memory");
	TAILQ_INIT(&volume->commands);
	for (uint64_t i = 0; i < sectors; i++)
		sim_candidate_add(volume, i, NULL, SIM_ID_ZERO);
	volume->next = model.volumes;
	model.volumes = volume;
	return volume;
}

void sim_model_tears(struct sim_volume *volume)
{
	volume->tears = true;
}

struct sim_volume *sim_model_volumes(void)
{
	return model.volumes;
}

const char *sim_volume_name(const struct sim_volume *volume)
{
	return volume->name;
}

void sim_model_reset(void)
{
	memset(&model, 0, sizeof(model));
	sim_sessions_reset();
	sim_compare_reset();
	sim_lost_reset();
	sim_hung_reset();
}

static void volume_free(struct sim_volume *volume)
{
	struct model_command *command;
	const struct candidate *c;

	for (uint64_t i = 0; i < volume->sectors; i++) {
		volume->contents[i].settled = 0;
		SIM_CONTENTS_FOREACH(c, &volume->contents[i])
			if (c->write)
				command_put(c->write);
		free(volume->contents[i].first);
	}
	while ((command = TAILQ_FIRST(&volume->commands)))
		sim_model_over(command);
	free(volume->contents);
	free(volume);
}

void sim_model_fini(void)
{
	struct sim_volume *volume;

	while ((volume = model.volumes)) {
		model.volumes = volume->next;
		volume_free(volume);
	}
}
