/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shares of memory.
 */
#include "target/io/share.h"

#include "target/store/pool.h"

void tgt_share_init(struct tgt_share *share, struct tgt_loop *loop, struct tgt_host_share *host)
{
	share->loop = loop;
	share->host = host;
	TAILQ_INIT(&share->starving);
}

/* -- taking ------------------------------------------------------------------------------------ */

/* How much may one that holds `held` still take where `free_bytes` are free? After that it holds
 * TGT_SHARE_OF_FREE times what stays free. */
static uint64_t room_of(uint64_t held, uint64_t free_bytes)
{
	if (TGT_SHARE_OF_FREE * free_bytes <= held)
		return 0;
	return (TGT_SHARE_OF_FREE * free_bytes - held) / (TGT_SHARE_OF_FREE + 1);
}

/* May the session take so much more, as far as shares go? */
static bool is_within(uint64_t held, uint64_t host_held, uint32_t bytes, uint64_t free_bytes)
{
	uint64_t room = room_of(host_held, free_bytes);

	if (!host_held)
		return true;
	if (bytes > room)
		return false;
	return !held || bytes <= room_of(held, room);
}

static uint64_t session_room(const struct tgt_share *share)
{
	return room_of(share->data_bytes, room_of(share->host->data_bytes, tgt_pool_free_bytes(share->loop->pool)));
}

bool tgt_portion_has_room(const struct tgt_portion *portion, uint32_t bytes)
{
	return !portion->data_bytes || bytes <= room_of(portion->data_bytes, session_room(portion->share));
}

bool tgt_portion_is_full(const struct tgt_portion *portion, uint32_t bytes)
{
	return bytes <= session_room(portion->share) && !tgt_portion_has_room(portion, bytes);
}

/* Blocks are counted as they are cut. */
static void *pool_take(struct tgt_pool *pool, uint64_t *held, uint64_t *host_held, uint32_t bytes)
{
	size_t before = tgt_pool_free_bytes(pool), taken;
	void *block;

	if (!is_within(*held, *host_held, bytes, before))
		return NULL;
	block = tgt_pool_alloc(pool, bytes);
	taken = before - tgt_pool_free_bytes(pool);
	*held += taken;
	*host_held += taken;
	return block;
}

static void pool_give(struct tgt_pool *pool, uint64_t *held, uint64_t *host_held, void *block,
		      uint32_t bytes)
{
	size_t before = tgt_pool_free_bytes(pool), given;

	tgt_pool_free(pool, block, bytes);
	given = tgt_pool_free_bytes(pool) - before;
	*held -= given;
	*host_held -= given;
}

void *tgt_share_alloc(struct tgt_io_queue *io_queue, struct tgt_portion *portion, uint32_t bytes)
{
	struct tgt_share *share = io_queue->share;
	void *block;

	if (!tgt_portion_has_room(portion, bytes))
		return NULL;
	block = pool_take(io_queue->loop->pool, &share->data_bytes, &share->host->data_bytes, bytes);
	if (block)
		portion->data_bytes += tgt_pool_block_bytes(bytes);
	return block;
}

void tgt_portion_init(struct tgt_portion *portion, struct tgt_share *share)
{
	*portion = (struct tgt_portion){.share = share};
	TAILQ_INIT(&portion->waiting);
}

void tgt_portion_give(struct tgt_portion *portion, uint32_t bytes)
{
	portion->data_bytes -= tgt_pool_block_bytes(bytes);
	portion->share->loop->memory_freed |= !TAILQ_EMPTY(&portion->waiting);
}

void *tgt_share_alloc_report(struct tgt_io_queue *io_queue, uint32_t bytes)
{
	struct tgt_share *share = io_queue->share;
	void *block = NULL;

	if (io_queue->reports_out < TGT_REPORTS_MAX)
		block = pool_take(io_queue->loop->reports, &share->report_bytes,
				  &share->host->report_bytes, bytes);
	io_queue->reports_out += block != NULL;
	return block;
}

void tgt_share_free(struct tgt_io_queue *io_queue, void *block, uint32_t bytes, bool report)
{
	struct tgt_share *share = io_queue->share;

	if (report) {
		io_queue->reports_out--;
		pool_give(io_queue->loop->reports, &share->report_bytes, &share->host->report_bytes,
			  block, bytes);
		return;
	}
	pool_give(io_queue->loop->pool, &share->data_bytes, &share->host->data_bytes, block,
		  bytes);
	io_queue->loop->memory_freed = true;
}

/* -- a turn's work ----------------------------------------------------------------------------- */

bool tgt_share_over_budget(struct tgt_share *share, uint64_t bytes)
{
	struct tgt_host_share *host = share->host;
	struct tgt_loop *loop = share->loop;

	if (host->direct_ns != loop->now_ns)
		host->direct_extra = 0;
	if (loop->direct_bytes >= TGT_DIRECT_BYTES) {
		if (share->direct_ns == loop->now_ns || host->direct_extra == TGT_DIRECT_EXTRA)
			return true;
		host->direct_extra++;
	}
	host->direct_ns = share->direct_ns = loop->now_ns;
	loop->direct_bytes += bytes;
	return false;
}

/* -- waiting ----------------------------------------------------------------------------------- */

bool tgt_share_lacks_memory(const struct tgt_share *share, uint32_t bytes)
{
	return !share->data_bytes &&
	       is_within(0, share->host->data_bytes, bytes,
			 tgt_pool_free_bytes(share->loop->pool));
}

void tgt_share_gather(struct tgt_loop *loop, bool wanted)
{
	uint64_t now_ns = loop->now_ns;

	if (loop->short_of_memory)
		loop->gathered_ns += now_ns - loop->gather_seen_ns;
	loop->gather_seen_ns = now_ns;
	if (now_ns - loop->gather_begun_ns >= TGT_GATHER_PERIOD_NS) {
		loop->gather_begun_ns = now_ns;
		loop->gathered_ns = 0;
	}
	loop->short_of_memory = wanted && loop->gathered_ns < TGT_GATHER_NS;
}

/* By its first command. */
static void portion_list(struct tgt_portion *portion)
{
	struct tgt_share *share = portion->share;

	portion->bounded = tgt_portion_is_full(portion, TAILQ_FIRST(&portion->waiting)->data_bytes);
	if (portion->bounded) {
		TAILQ_INSERT_TAIL(&share->loop->bounded, portion, link);
		return;
	}
	if (TAILQ_EMPTY(&share->starving))
		TAILQ_INSERT_TAIL(&share->loop->starving, share, link);
	TAILQ_INSERT_TAIL(&share->starving, portion, link);
}

static void portion_unlist(struct tgt_portion *portion)
{
	struct tgt_share *share = portion->share;

	if (portion->bounded) {
		TAILQ_REMOVE(&share->loop->bounded, portion, link);
		return;
	}
	TAILQ_REMOVE(&share->starving, portion, link);
	if (TAILQ_EMPTY(&share->starving))
		TAILQ_REMOVE(&share->loop->starving, share, link);
}

void tgt_portion_wait(struct tgt_request *request)
{
	struct tgt_portion *portion = request->access->portion;
	struct tgt_share *share = portion->share;
	bool first = TAILQ_EMPTY(&portion->waiting);

	TAILQ_INSERT_TAIL(&portion->waiting, request, link);
	if (first)
		portion_list(portion);
	/* No session overtakes one that memory is gathered for. */
	if (!portion->bounded && !share->loop->short_of_memory && tgt_share_lacks_memory(share, request->data_bytes))
		tgt_share_gather(share->loop, true);
}

void tgt_portion_leave(struct tgt_request *request)
{
	struct tgt_portion *portion = request->access->portion;

	TAILQ_REMOVE(&portion->waiting, request, link);
	if (TAILQ_EMPTY(&portion->waiting))
		portion_unlist(portion);
}

void tgt_portion_again(struct tgt_portion *portion)
{
	portion_unlist(portion);
	portion_list(portion);
}
