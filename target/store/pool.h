/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A buddy allocator over memory that its user owns and has registered: blocks are powers of two
 * from TGT_POOL_PAGE up, aligned to their size relative to the base. Its notes live outside of that
 * memory, so that nothing a peer or a disk writes there can confuse it. Never allocates after
 * creation. Its reactor's thread only.
 */
#ifndef RBLK_TARGET_POOL_H
#define RBLK_TARGET_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TGT_POOL_PAGE 4096u

struct tgt_pool;

/* `base` page aligned; `bytes` in whole pages, less than 2^43. Blocks of at most block_max bytes (a
 * power of two of pages). NULL: no memory. */
struct tgt_pool *tgt_pool_create(void *base, size_t bytes, size_t block_max);
void tgt_pool_destroy(struct tgt_pool *pool); /* does not touch the memory */

/* NULL: nothing that large is free now. bytes > 0. */
void *tgt_pool_alloc(struct tgt_pool *pool, size_t bytes);
void tgt_pool_free(struct tgt_pool *pool, void *block, size_t bytes); /* as allocated */

/* How large is the block that so many bytes take? */
static inline size_t tgt_pool_block_bytes(size_t bytes)
{
	return bytes <= TGT_POOL_PAGE ? TGT_POOL_PAGE : (size_t)1 << (64 - __builtin_clzl(bytes - 1));
}
bool tgt_pool_owns(const struct tgt_pool *pool, const void *block);
size_t tgt_pool_largest(const struct tgt_pool *pool); /* that could ever be had */
size_t tgt_pool_free_bytes(const struct tgt_pool *pool);

#endif
