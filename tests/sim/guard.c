/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of guard.h. Guards are kept from seed to seed by their owners' index, because filling
 * them is what costs.
 */
#include "tests/sim/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "tests/sim/rules.h"
#include "tests/sim/trace.h"

#define PATTERN 0xa5

static struct sim_guard *guards;
static uint8_t *spare[8];
static unsigned int spare_count;

void sim_guard_init(struct sim_guard *guard, const char *owner)
{
	size_t bytes = (size_t)SIM_SLOTS * SIM_SLOT_BYTES;

	memset(guard, 0, sizeof(*guard));
	guard->owner = owner;
	if (spare_count) {
		guard->base = spare[--spare_count];
	} else {
		guard->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);
		if (guard->base == MAP_FAILED)
			sim_fail("out of memory");
		memset(guard->base, PATTERN, bytes);
	}
	guard->next = guards;
	guards = guard;
}

static bool pattern_whole(const uint8_t *memory, size_t bytes)
{
	return !bytes || (memory[0] == PATTERN && !memcmp(memory, memory + 1, bytes - 1));
}

static void slot_check(const struct sim_guard *guard, unsigned int slot, size_t bytes)
{
	if (!pattern_whole(guard->base + (size_t)slot * SIM_SLOT_BYTES, bytes))
		sim_fail("%s: memory changed after its command was completed (F4)", guard->owner);
}

void sim_guard_fini(struct sim_guard *guard)
{
	struct sim_guard **link = &guards;

	while (*link != guard)
		link = &(*link)->next;
	*link = guard->next;
	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		slot_check(guard, i, guard->dirty_bytes[i]);
	if (spare_count < 8)
		spare[spare_count++] = guard->base;
	else
		munmap(guard->base, (size_t)SIM_SLOTS * SIM_SLOT_BYTES);
}

uint8_t *sim_guard_lend(struct sim_guard *guard, uint32_t bytes, bool device_writes)
{
	for (unsigned int i = 0; i < SIM_SLOTS; i++) {
		if (guard->lent_bytes[i])
			continue;
		slot_check(guard, i, bytes);
		guard->lent_bytes[i] = bytes;
		guard->device_writes[i] = device_writes;
		if (guard->dirty_bytes[i] < bytes)
			guard->dirty_bytes[i] = bytes;
		return guard->base + (size_t)i * SIM_SLOT_BYTES;
	}
	return NULL;
}

void sim_guard_return(struct sim_guard *guard, uint8_t *memory)
{
	unsigned int slot = (unsigned int)((size_t)(memory - guard->base) / SIM_SLOT_BYTES);

	sim_rules_memory_free(sim_actor_self(), memory, guard->lent_bytes[slot]);
	memset(memory, PATTERN, guard->lent_bytes[slot]);
	guard->lent_bytes[slot] = 0;
}

unsigned int sim_guard_lent(const struct sim_guard *guard)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		count += guard->lent_bytes[i] != 0;
	return count;
}

void sim_guard_check(const void *memory, size_t bytes, bool writes)
{
	const uint8_t *at = memory;

	for (struct sim_guard *guard = guards; guard; guard = guard->next) {
		size_t offset = (size_t)(at - guard->base);
		unsigned int slot = (unsigned int)(offset / SIM_SLOT_BYTES);

		if (at < guard->base || slot >= SIM_SLOTS)
			continue;
		if (offset % SIM_SLOT_BYTES + bytes > guard->lent_bytes[slot])
			sim_fail("%s: a device %s memory that is not lent to it (F4)", guard->owner,
				 writes ? "writes" : "reads");
		if (writes && !guard->device_writes[slot])
			sim_fail("%s: a device writes memory that it may only read", guard->owner);
	}
}
