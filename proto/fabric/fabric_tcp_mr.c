/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registered memory of fabric_tcp: random 32-bit keys, and the table from a key to its region. Each
 * use of a key is checked here for bounds and rights. lkey and rkey
 * of a region are one number; invalidation ends it for the peer only. fabric_tcp_tx.c and
 * fabric_tcp_rx.c use the keys.
 */
#include "proto/fabric/fabric_tcp_mr.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/core/env.h"

#define TCP_MR_SLOTS_MIN 16u
#define TCP_MR_SLOTS_MAX (1u << 21)

struct tcp_mr {
	struct fab_mr head; /* first */
	char *addr;
	size_t bytes;
	int access;
	uint32_t key;
	bool invalidated; /* the key is dead for the peer */
};

/* Keys are random: their low bits are as good a hash as any. */
static struct tcp_mr *mr_table_find(const struct tcp_mr_table *table, uint32_t key)
{
	if (!table->slots)
		return NULL;
	for (uint32_t i = key & table->mask; table->slots[i]; i = (i + 1) & table->mask)
		if (table->slots[i]->key == key)
			return table->slots[i];
	return NULL;
}

static void mr_table_put(struct tcp_mr_table *table, struct tcp_mr *mr)
{
	uint32_t i = mr->key & table->mask;

	while (table->slots[i])
		i = (i + 1) & table->mask;
	table->slots[i] = mr;
	table->used++;
}

static int mr_table_reserve(struct tcp_mr_table *table)
{
	struct tcp_mr_table old = *table;
	uint32_t slots = old.slots ? old.mask + 1 : 0;

	if (old.slots && (old.used + 1) * 2 <= slots)
		return 0;
	if (slots == TCP_MR_SLOTS_MAX)
		return -ENOMEM;
	table->mask = (slots ? slots * 2 : TCP_MR_SLOTS_MIN) - 1;
	table->slots = calloc((size_t)table->mask + 1, sizeof(*table->slots));
	if (!table->slots) {
		*table = old;
		return -ENOMEM;
	}
	table->used = 0;
	for (uint32_t i = 0; i < slots; i++)
		if (old.slots[i])
			mr_table_put(table, old.slots[i]);
	free(old.slots);
	return 0;
}

/* Entries behind the gap move into it unless they would land before their home. */
static void mr_table_remove(struct tcp_mr_table *table, const struct tcp_mr *mr)
{
	uint32_t gap = mr->key & table->mask;

	while (table->slots[gap] != mr)
		gap = (gap + 1) & table->mask;
	for (uint32_t i = (gap + 1) & table->mask; table->slots[i]; i = (i + 1) & table->mask) {
		uint32_t home = table->slots[i]->key & table->mask;

		if (((i - home) & table->mask) < ((i - gap) & table->mask))
			continue;
		table->slots[gap] = table->slots[i];
		gap = i;
	}
	table->slots[gap] = NULL;
	if (--table->used == 0) {
		free(table->slots);
		table->slots = NULL;
		table->mask = 0;
	}
}

int tcp_mr_create(struct tcp_mr_table *table, struct fab *fab, void *addr, size_t bytes, int access,
		  struct fab_mr **out)
{
	struct tcp_mr *mr;
	int err;

	/* Verbs refuse this too: remote write without local write. */
	if ((access & IBV_ACCESS_REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return fab_fail(fab, -EINVAL, "memory of %zu bytes: remote write needs local write",
				bytes);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return fab_fail(fab, -ENOMEM, "memory of %zu bytes: out of memory", bytes);
	err = mr_table_reserve(table);
	if (err) {
		free(mr);
		return fab_fail(fab, err, "memory of %zu bytes: too many regions", bytes);
	}
	mr->head.fab = fab;
	mr->addr = addr;
	mr->bytes = bytes;
	mr->access = access;
	/* The table is at most half full of 2^32 keys: this ends. 0 means "no key". */
	do
		env_random(&mr->key, sizeof(mr->key));
	while (mr->key == 0 || mr_table_find(table, mr->key));
	mr->head.lkey[0] = mr->key; /* the only device is the first */
	mr->head.rkey[0] = mr->key;
	mr_table_put(table, mr);
	*out = &mr->head;
	return 0;
}

void tcp_mr_destroy(struct tcp_mr_table *table, struct fab_mr *head)
{
	/* The head is the struct's first member. */
	struct tcp_mr *mr = (struct tcp_mr *)head;

	mr_table_remove(table, mr);
	free(mr);
}

static void *mr_range(const struct tcp_mr *mr, uint64_t address, uint64_t length, int access)
{
	uint64_t offset = address - (uint64_t)(uintptr_t)mr->addr;

	if ((mr->access & access) != access || offset > mr->bytes || length > mr->bytes - offset)
		return NULL;
	return mr->addr + offset;
}

void *tcp_mr_local(const struct tcp_mr_table *table, const struct ibv_sge *sge, int access)
{
	const struct tcp_mr *mr = mr_table_find(table, sge->lkey);

	return mr ? mr_range(mr, sge->addr, sge->length, access) : NULL;
}

void *tcp_mr_remote(const struct tcp_mr_table *table, uint32_t key, uint64_t address,
		    uint32_t length, int access)
{
	const struct tcp_mr *mr = mr_table_find(table, key);

	if (!mr || mr->invalidated)
		return NULL;
	return mr_range(mr, address, length, access);
}

bool tcp_mr_invalidate(const struct tcp_mr_table *table, uint32_t key)
{
	struct tcp_mr *mr = mr_table_find(table, key);

	if (!mr || mr->invalidated)
		return false;
	mr->invalidated = true;
	return true;
}
