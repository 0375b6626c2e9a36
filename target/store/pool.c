/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The buddy allocator of pool.h. One note per page: the head page of a free block carries its
 * order and its place in that order's list. Allocation takes the smallest list that is not empty
 * (a bitmap says which) and splits; freeing joins buddies as far as they are free. Some blocks that
 * were freed are kept whole, for the next allocation of their size, which is usually soon; they are
 * joined when nothing else is left.
 */
#include "target/store/pool.h"

#include <assert.h>
#include <stdlib.h>
#include "proto/core/trace.h"

#define ORDERS 32
#define NONE UINT32_MAX
/* Blocks of so many small orders are kept, at most so many of each: what a turn gives and takes. */
#define KEPT_ORDERS 6u
#define KEPT_MAX 32u
#define KEPT_MARK 255u

struct page_note {
	uint32_t next, prev; /* of a free block's head: in its order's list */
	/* order + 1 of the free block that begins here; 0: none does; KEPT_MARK: a kept one */
	uint8_t free_order;
};

struct tgt_pool {
	char *base;
	uint32_t pages;
	unsigned int order_max;
	size_t free_bytes;
	uint32_t nonempty; /* bit per order */
	uint32_t head[ORDERS];
	uint32_t kept_count[KEPT_ORDERS];
	uint32_t kept[KEPT_ORDERS][KEPT_MAX];
	struct page_note notes[];
};

static unsigned int order_of(size_t bytes)
{
	return bytes <= TGT_POOL_PAGE ? 0 : 64 - (unsigned int)__builtin_clzl((bytes - 1) / TGT_POOL_PAGE);
}

static void list_push(struct tgt_pool *pool, uint32_t page, unsigned int order)
{
	struct page_note *note = &pool->notes[page];

	note->free_order = (uint8_t)(order + 1);
	note->prev = NONE;
	note->next = pool->head[order];
	if (note->next != NONE)
		pool->notes[note->next].prev = page;
	pool->head[order] = page;
	pool->nonempty |= 1u << order;
}

static void list_remove(struct tgt_pool *pool, uint32_t page, unsigned int order)
{
	struct page_note *note = &pool->notes[page];

	if (note->prev != NONE)
		pool->notes[note->prev].next = note->next;
	else
		pool->head[order] = note->next;
	if (note->next != NONE)
		pool->notes[note->next].prev = note->prev;
	if (pool->head[order] == NONE)
		pool->nonempty &= ~(1u << order);
	note->free_order = 0;
}

struct tgt_pool *tgt_pool_create(void *base, size_t bytes, size_t block_max)
{
	size_t pages = bytes / TGT_POOL_PAGE;
	struct tgt_pool *pool;
	uint32_t page = 0;

	if (pages == 0 || pages >= NONE)
		return NULL;
	pool = calloc(1, sizeof(*pool) + pages * sizeof(struct page_note));
	if (!pool)
		return NULL;
	pool->base = base;
	pool->pages = (uint32_t)pages;
	pool->order_max = order_of(block_max);
	for (unsigned int i = 0; i < ORDERS; i++)
		pool->head[i] = NONE;
	/* Cut the memory into the largest aligned blocks that fit. */
	while (page < pool->pages) {
		unsigned int order = page ? (unsigned int)__builtin_ctz(page) : ORDERS - 1;

		if (order > pool->order_max)
			order = pool->order_max;
		while ((1ull << order) > pool->pages - page)
			order--;
		list_push(pool, page, order);
		page += 1u << order;
	}
	pool->free_bytes = pages * TGT_POOL_PAGE;
	return pool;
}

void tgt_pool_destroy(struct tgt_pool *pool)
{
	free(pool);
}

static __attribute__((noinline)) void pool_join(struct tgt_pool *pool, uint32_t page, unsigned int order)
{
	while (order < pool->order_max) {
		uint32_t buddy = page ^ (1u << order);

		if (buddy >= pool->pages || pool->notes[buddy].free_order != order + 1)
			break;
		list_remove(pool, buddy, order);
		page &= ~(1u << order);
		order++;
	}
	list_push(pool, page, order);
}

/* -- kept blocks ------------------------------------------------------------------------------- */

static bool kept_push(struct tgt_pool *pool, uint32_t page, unsigned int order)
{
	if (order >= KEPT_ORDERS || pool->kept_count[order] == KEPT_MAX)
		return false;
	pool->kept[order][pool->kept_count[order]++] = page;
	pool->notes[page].free_order = KEPT_MARK;
	return true;
}

static uint32_t kept_pop(struct tgt_pool *pool, unsigned int order)
{
	uint32_t page;

	if (order >= KEPT_ORDERS || !pool->kept_count[order])
		return NONE;
	page = pool->kept[order][--pool->kept_count[order]];
	pool->notes[page].free_order = 0;
	return page;
}

static void kept_join_all(struct tgt_pool *pool)
{
	for (unsigned int order = 0; order < KEPT_ORDERS; order++) {
		uint32_t page;

		while ((page = kept_pop(pool, order)) != NONE)
			pool_join(pool, page, order);
	}
}

/* -- taking and giving ------------------------------------------------------------------------- */

/* The first page of a block of the lists, cut from a larger one if need be. NONE: there is none. */
static __attribute__((noinline)) uint32_t pool_cut(struct tgt_pool *pool, unsigned int want)
{
	uint32_t candidates = pool->nonempty & ~((1u << want) - 1);
	unsigned int order;
	uint32_t page;

	if (!candidates) {
		kept_join_all(pool);
		candidates = pool->nonempty & ~((1u << want) - 1);
	}
	if (!candidates)
		return NONE;
	order = (unsigned int)__builtin_ctz(candidates);
	page = pool->head[order];
	list_remove(pool, page, order);
	while (order > want) {
		order--;
		list_push(pool, page + (1u << order), order);
	}
	return page;
}

void *tgt_pool_alloc(struct tgt_pool *pool, size_t bytes)
{
	unsigned int want = order_of(bytes);
	uint32_t page;
	char *block;

	if (want > pool->order_max)
		return NULL;
	page = kept_pop(pool, want);
	if (page == NONE)
		page = pool_cut(pool, want);
	if (page == NONE)
		return NULL;
	pool->free_bytes -= (size_t)TGT_POOL_PAGE << want;
	block = pool->base + (size_t)page * TGT_POOL_PAGE;
	rblk_trace_pool_alloc(block, bytes);
	return block;
}

void tgt_pool_free(struct tgt_pool *pool, void *block, size_t bytes)
{
	uint32_t page = (uint32_t)((size_t)((char *)block - pool->base) / TGT_POOL_PAGE);
	unsigned int order = order_of(bytes);

	rblk_trace_pool_free(block, bytes);
	assert(tgt_pool_owns(pool, block) && !pool->notes[page].free_order);
	pool->free_bytes += (size_t)TGT_POOL_PAGE << order;
	if (!kept_push(pool, page, order))
		pool_join(pool, page, order);
}

bool tgt_pool_owns(const struct tgt_pool *pool, const void *block)
{
	const char *at = block;

	return at >= pool->base && at < pool->base + (size_t)pool->pages * TGT_POOL_PAGE;
}

size_t tgt_pool_largest(const struct tgt_pool *pool)
{
	unsigned int order = 31 - (unsigned int)__builtin_clz(pool->pages);

	return (size_t)TGT_POOL_PAGE << (order < pool->order_max ? order : pool->order_max);
}

size_t tgt_pool_free_bytes(const struct tgt_pool *pool)
{
	return pool->free_bytes;
}
