/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shares of memory.
 */
#include "target/io/share.h"

#include "target/store/pool.h"

void tgt_share_init(struct tgt_share *share, struct tgt_turn *turn)
{
	share->turn = turn;
	TAILQ_INIT(&share->starving);
}

/* `held`: what the session has of the pool. Blocks are counted as they are cut. */
static void *pool_take(struct tgt_pool *pool, uint64_t *held, uint32_t bytes)
{
	size_t before = tgt_pool_free_bytes(pool), after;
	void *block;

	if (*held && (before < bytes || *held + bytes > TGT_SHARE_OF_FREE * (before - bytes)))
		return NULL;
	block = tgt_pool_alloc(pool, bytes);
	after = tgt_pool_free_bytes(pool);
	*held += before - after;
	return block;
}

static void pool_give(struct tgt_pool *pool, uint64_t *held, void *block, uint32_t bytes)
{
	size_t before = tgt_pool_free_bytes(pool);

	tgt_pool_free(pool, block, bytes);
	*held -= tgt_pool_free_bytes(pool) - before;
}

void *tgt_share_alloc(struct tgt_lane *lane, uint32_t bytes)
{
	return pool_take(lane->turn->pool, &lane->share->data_bytes, bytes);
}

void *tgt_share_alloc_report(struct tgt_lane *lane, uint32_t bytes)
{
	void *block = NULL;

	if (lane->reports_out < lane->reports_max)
		block = pool_take(lane->reports, &lane->share->report_bytes, bytes);
	lane->reports_out += block != NULL;
	return block;
}

void tgt_share_free(struct tgt_lane *lane, void *block, uint32_t bytes, bool report)
{
	if (report) {
		lane->reports_out--;
		pool_give(lane->reports, &lane->share->report_bytes, block, bytes);
		return;
	}
	pool_give(lane->turn->pool, &lane->share->data_bytes, block, bytes);
	lane->turn->memory_freed = true;
}

void tgt_share_wait(struct tgt_lane *lane)
{
	struct tgt_share *share = lane->share;

	if (!lane->is_starving) {
		lane->is_starving = true;
		TAILQ_INSERT_TAIL(&share->starving, lane, starving_link);
	}
	/* Memory is gathered for a session that has none: nobody overtakes it. */
	if (!share->data_bytes)
		share->turn->short_of_memory = true;
	if (!share->is_starving) {
		share->is_starving = true;
		TAILQ_INSERT_TAIL(&share->turn->starving, share, link);
	}
}

void tgt_share_turn(struct tgt_share *share)
{
	struct tgt_lane *lane = TAILQ_FIRST(&share->starving);

	TAILQ_REMOVE(&share->starving, lane, starving_link);
	TAILQ_INSERT_TAIL(&share->starving, lane, starving_link);
	TAILQ_REMOVE(&share->turn->starving, share, link);
	TAILQ_INSERT_TAIL(&share->turn->starving, share, link);
}

void tgt_share_leave(struct tgt_lane *lane)
{
	struct tgt_share *share = lane->share;

	if (lane->is_starving) {
		lane->is_starving = false;
		TAILQ_REMOVE(&share->starving, lane, starving_link);
	}
	if (share->is_starving && TAILQ_EMPTY(&share->starving)) {
		share->is_starving = false;
		TAILQ_REMOVE(&share->turn->starving, share, link);
	}
}
