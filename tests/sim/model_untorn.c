/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Untorn writes in the model: what a loss of power may leave of one. A sector that holds it, beside one of its range
 * that holds what was over before it began, is a tear. What a failed flush has lost is not looked at: that may be any
 * sector.
 */
#include <inttypes.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/model_impl.h"
#include "tests/sim/trace.h"

/* The newest that has written this there, or (`discarded`) may have by a DISCARD; NULL: nothing that the model has. */
static const struct candidate *newest_of(const struct sim_volume *volume, uint64_t sector, uint64_t id, bool discarded)
{
	const struct contents *contents = &volume->contents[sector];
	const struct candidate *newest = NULL;

	for (uint32_t i = 0; i < contents->count; i++)
		if ((contents->first[i].id == id || (discarded && contents->first[i].id == SIM_ID_ANYTHING)) &&
		    (!newest || sim_candidate_end(&contents->first[i]) > sim_candidate_end(newest)))
			newest = &contents->first[i];
	return newest;
}

static uint64_t sector_id(const struct sim_disk *disk, uint64_t sector)
{
	uint64_t id;

	memcpy(&id, sim_disk_sector(disk, sector), sizeof(id));
	return id;
}

static void write_check(const struct sim_volume *volume, const struct sim_disk *disk, const struct sim_command *write)
{
	for (uint64_t sector = write->sector; sector < write->sector + write->sectors; sector++) {
		uint64_t id = sector_id(disk, sector);
		const struct candidate *holds = newest_of(volume, sector, id, true);

		if (id == write->id || !holds || sim_candidate_end(holds) >= write->begin)
			continue;
		sim_sector_explain(volume, sector);
		sim_fail("volume %s: untorn write %" PRIu64 " is torn: sector %" PRIu64 " has write %" PRIu64
			 " of before", volume->name, write->id, sector, id);
	}
}

void sim_model_untorn(const struct sim_volume *volume, const struct sim_disk *disk)
{
	for (uint64_t sector = 0; sector < volume->sectors && sector < disk->bytes / SIM_SECTOR; sector++) {
		const struct candidate *holds = newest_of(volume, sector, sector_id(disk, sector), false);
		const struct sim_command *write = holds && holds->write ? &holds->write->command : NULL;

		if (!write || !write->untorn || write->begin < volume->lost)
			continue;
		if (write->sectors > 1)
			sim_reached("crash", "leaves an untorn write of several sectors", NULL);
		write_check(volume, disk, write);
	}
}
