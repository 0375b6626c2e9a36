/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shares of memory.
 */
#include "target/io/share.h"

/*
 * While so many times what its host would then hold is free, a block is within every share, whatever of it is whose:
 * with F bytes free and H held by host, session and volume, these may take (3F - H) / 4, (9F - 7H) / 16,
 * (27F - 37H) / 64, and that is more than b where F is at least 4 (H + b).
 */
#define PLENTY 4u

void tgt_share_init(struct tgt_share *share, struct tgt_loop *loop, struct tgt_host_share *host)
{
	share->loop = loop;
	share->host = host;
	TAILQ_INIT(&share->starving);
	TAILQ_INIT(&share->limited);
	TAILQ_INIT(&share->limited_priority);
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

static inline bool portion_has_room(const struct tgt_portion *portion, uint32_t bytes)
{
	return !portion->data_bytes || bytes <= room_of(portion->data_bytes, session_room(portion->share));
}

bool tgt_portion_has_room(const struct tgt_portion *portion, uint32_t bytes)
{
	return portion_has_room(portion, bytes);
}

bool tgt_portion_is_full(const struct tgt_portion *portion, uint32_t bytes)
{
	return bytes <= session_room(portion->share) && !tgt_portion_has_room(portion, bytes);
}

/* Blocks are counted as they are cut. */
void *tgt_share_alloc(struct tgt_io_queue *io_queue, struct tgt_portion *portion, uint32_t bytes)
{
	struct tgt_share *share = io_queue->share;
	struct tgt_host_share *host = share->host;
	struct tgt_pool *pool = io_queue->loop->pool;
	size_t taken = tgt_pool_block_bytes(bytes);
	void *block;

	/* Its session and its host may take whatever the volume may still take. */
	if (tgt_pool_free_bytes(pool) / PLENTY < host->data_bytes + bytes &&
	    (portion->data_bytes ? !portion_has_room(portion, bytes) :
				  !is_within(share->data_bytes, host->data_bytes, bytes, tgt_pool_free_bytes(pool))))
		return NULL;
	block = tgt_pool_alloc(pool, bytes);
	if (!block)
		return NULL;
	portion->data_bytes += taken;
	share->data_bytes += taken;
	host->data_bytes += taken;
	return block;
}

void tgt_portion_init(struct tgt_portion *portion, struct tgt_share *share)
{
	*portion = (struct tgt_portion){.share = share};
	TAILQ_INIT(&portion->waiting);
	TAILQ_INIT(&portion->waiting_priority);
}

struct tgt_request *tgt_portion_first(const struct tgt_portion *portion)
{
	struct tgt_request *plain = TAILQ_FIRST(&portion->waiting), *first = TAILQ_FIRST(&portion->waiting_priority);

	return !first || (plain && portion->share->passed >= TGT_PRIORITY_MOST) ? plain : first;
}

void *tgt_share_alloc_report(struct tgt_io_queue *io_queue, uint32_t bytes)
{
	struct tgt_share *share = io_queue->share;
	struct tgt_pool *pool = io_queue->loop->reports;
	size_t taken = tgt_pool_block_bytes(bytes);
	void *block;

	if (io_queue->reports_out >= TGT_REPORTS_MAX ||
	    !is_within(share->report_bytes, share->host->report_bytes, bytes, tgt_pool_free_bytes(pool)))
		return NULL;
	block = tgt_pool_alloc(pool, bytes);
	if (!block)
		return NULL;
	io_queue->reports_out++;
	share->report_bytes += taken;
	share->host->report_bytes += taken;
	return block;
}

void tgt_share_free(struct tgt_io_queue *io_queue, void *block, uint32_t bytes, bool report)
{
	struct tgt_share *share = io_queue->share;
	size_t given = tgt_pool_block_bytes(bytes);

	if (report) {
		io_queue->reports_out--;
		share->report_bytes -= given;
		share->host->report_bytes -= given;
		tgt_pool_free(io_queue->loop->reports, block, bytes);
		return;
	}
	share->data_bytes -= given;
	share->host->data_bytes -= given;
	io_queue->loop->memory_freed = true;
	tgt_pool_free(io_queue->loop->pool, block, bytes);
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

	portion->bounded = tgt_portion_is_full(portion, tgt_portion_first(portion)->data_bytes);
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

static struct tgt_request_list *waiting_list(const struct tgt_request *request)
{
	struct tgt_portion *portion = request->access->portion;

	return tgt_request_priority(request) ? &portion->waiting_priority : &portion->waiting;
}

void tgt_portion_wait(struct tgt_request *request)
{
	struct tgt_portion *portion = request->access->portion;
	struct tgt_share *share = portion->share;
	bool first = !tgt_portion_first(portion);

	TAILQ_INSERT_TAIL(waiting_list(request), request, link);
	if (first)
		portion_list(portion);
	/* No session overtakes one that memory is gathered for. */
	if (!portion->bounded && !share->loop->short_of_memory && tgt_share_lacks_memory(share, request->data_bytes))
		tgt_share_gather(share->loop, true);
}

void tgt_portion_leave(struct tgt_request *request)
{
	struct tgt_portion *portion = request->access->portion;

	TAILQ_REMOVE(waiting_list(request), request, link);
	if (!tgt_portion_first(portion))
		portion_unlist(portion);
}

void tgt_portion_again(struct tgt_portion *portion)
{
	portion_unlist(portion);
	portion_list(portion);
}
