/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the decisions about durability, see durable.h: what a success means, and what a cache epoch
 * takes away.
 */
#include "proto/core/durable.h"

#include "proto/wire/wire.h"

void core_durable_init(struct core_durable *durable)
{
	memset(durable, 0, sizeof(*durable));
	durable->next = 1;
}

void core_durable_join(struct core_durable *durable, struct core_durable_open *open)
{
	open->next = durable->opens;
	durable->opens = open;
	open->unaware = durable->untold ? durable->losses : 0;
	durable->unaware += durable->untold;
	durable->untold = false;
}

void core_durable_leave(struct core_durable *durable, struct core_durable_open *open, u32 heard)
{
	struct core_durable_open **link = &durable->opens;
	bool untold = open->unaware != heard;

	while (*link && *link != open)
		link = &(*link)->next;
	if (*link)
		*link = open->next;
	if (core_durable_acknowledge(durable, open) && untold)
		durable->untold = true;
}

/* Acknowledged writes may be lost. True: somebody has to be told. */
static bool durable_lose(struct core_durable *durable)
{
	struct core_durable_open *open;

	durable->floor = durable->next;
	durable->losses++;
	durable->unaware = 0;
	for (open = durable->opens; open; open = open->next) {
		open->unaware = durable->losses;
		durable->unaware++;
	}
	return durable->unaware;
}

bool core_durable_learn(struct core_durable *durable, struct core_durable_open *open,
			const u8 epoch[16])
{
	bool changed = durable->generation && memcmp(durable->epoch, epoch, sizeof(durable->epoch));
	bool dirty = core_durable_dirty(durable);

	if (changed || !durable->generation) {
		memcpy(durable->epoch, epoch, sizeof(durable->epoch));
		/* Before `written` is stored again: core_durable_noted(). */
		core_durable_store(durable->generation, durable->generation + 1);
	}
	open->learnt = durable->generation;
	if (!changed)
		return false;
	durable->flushed = durable->next;
	core_durable_store(durable->next, durable->next + 1);
	return dirty && durable_lose(durable);
}

void core_durable_adopt(struct core_durable_open *open, bool caches)
{
	open->adopted = open->learnt;
	open->caches = caches;
}

u32 core_durable_owes(const struct core_durable_open *open, u8 opcode, u8 flags)
{
	switch (opcode) {
	case RBLK_OP_FLUSH:
		return open->adopted;
	case RBLK_OP_WRITE:
	case RBLK_OP_WRITE_ZEROES:
	case RBLK_OP_COMPARE_AND_WRITE:
		return flags & RBLK_CMD_FUA || !open->caches ? 0 : open->adopted;
	}
	/* A DISCARD that is lost loses nothing; other commands change nothing. */
	return 0;
}

bool core_durable_wrote(struct core_durable *durable, u32 generation)
{
	/* Its cache is gone, and when that was learnt nobody knew of this write. */
	if (generation != durable->generation)
		return durable_lose(durable);
	core_durable_release(durable->written, durable->next);
	return false;
}

u64 core_durable_flush(struct core_durable *durable)
{
	u64 number = durable->next;

	core_durable_store(durable->next, number + 1);
	return number;
}

bool core_durable_may_flush(const struct core_durable *durable, u64 number)
{
	return !durable->unaware && number >= durable->floor;
}

bool core_durable_flushed(struct core_durable *durable, u32 generation, u64 number)
{
	if (!core_durable_may_flush(durable, number))
		return false;
	/* One of an older generation says nothing of what was written in this one. */
	if (generation == durable->generation && number > durable->flushed)
		durable->flushed = number;
	return true;
}

bool core_durable_acknowledge(struct core_durable *durable, struct core_durable_open *open)
{
	bool unaware = open->unaware;

	open->unaware = 0;
	durable->unaware -= unaware;
	return unaware;
}
