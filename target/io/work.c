/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A turn goes through its lists: it continues postponed requests, gives memory to those that wait,
 * and posts.
 */
#include "target/io/work.h"

#include "target/io/request.h"
#include "target/io/share.h"
#include "target/io/transfer.h"

#define RESUME_BATCH 16u

void tgt_work_init(struct tgt_loop *loop)
{
	TAILQ_INIT(&loop->alive);
	TAILQ_INIT(&loop->dirty);
	TAILQ_INIT(&loop->starving);
	TAILQ_INIT(&loop->bounded);
	TAILQ_INIT(&loop->resumed);
	TAILQ_INIT(&loop->limited);
	TAILQ_INIT(&loop->buckets);
	TAILQ_INIT(&loop->idle);
}

unsigned int tgt_work_resume(struct tgt_loop *loop)
{
	/* Those that put themselves back are the next turn's. */
	struct tgt_request *last = TAILQ_LAST(&loop->resumed, tgt_request_list), *request;
	unsigned int count = 0;
	bool more = true;

	loop->direct_bytes = 0;
	while (more && (request = TAILQ_FIRST(&loop->resumed)) && count < RESUME_BATCH &&
	       loop->direct_bytes < TGT_DIRECT_BYTES) {
		more = request != last;
		tgt_request_resume(request);
		count++;
	}
	loop->direct_bytes = 0;
	return count;
}

/* The session's next command. */
static struct tgt_request *share_first(const struct tgt_share *share)
{
	return tgt_portion_first(TAILQ_FIRST(&share->starving));
}

/* Memory for the first command of the session's next volume. False: there is none for it. */
static bool work_feed_session(struct tgt_share *share)
{
	struct tgt_portion *portion = TAILQ_FIRST(&share->starving);
	struct tgt_request *request = share_first(share);

	/* One that has its share: the session goes on without it. */
	if (!tgt_portion_is_full(portion, request->data_bytes) && !tgt_request_retry_memory(request))
		return false;
	if (tgt_portion_first(portion))
		tgt_portion_again(portion);
	if (!TAILQ_EMPTY(&share->starving)) {
		TAILQ_REMOVE(&share->loop->starving, share, link);
		TAILQ_INSERT_TAIL(&share->loop->starving, share, link);
	}
	return true;
}

static void work_feed_bounded(struct tgt_loop *loop)
{
	struct tgt_portion *portion, *following;
	struct tgt_request *request;

	TAILQ_FOREACH_SAFE(portion, &loop->bounded, link, following) {
		while ((request = tgt_portion_first(portion)) && tgt_portion_has_room(portion, request->data_bytes)) {
			if (TAILQ_EMPTY(&portion->share->starving) && !loop->short_of_memory &&
			    tgt_request_retry_memory(request))
				continue;
			/* Behind others. */
			tgt_portion_again(portion);
			break;
		}
	}
}

/*
 * Sessions in turn. One that has its share is skipped. For one that holds nothing and finds no
 * memory, memory is gathered: no other overtakes it, for a bounded time.
 */
void tgt_work_feed(struct tgt_loop *loop)
{
	struct tgt_share *share, *following;
	bool fed = true;

	if (!loop->memory_freed)
		return;
	loop->memory_freed = false;
	tgt_share_gather(loop, false);
	work_feed_bounded(loop);
	while (fed) {
		fed = false;
		TAILQ_FOREACH_SAFE(share, &loop->starving, link, following) {
			if (work_feed_session(share)) {
				fed = true;
				continue;
			}
			tgt_share_gather(loop, tgt_share_lacks_memory(share, share_first(share)->data_bytes));
			if (loop->short_of_memory)
				return;
		}
	}
}

static void work_expire(const struct tgt_loop *loop, const struct tgt_request_list *list)
{
	struct tgt_request *request;

	while ((request = TAILQ_FIRST(list)) && loop->now_ns - request->waiting_ns >= TGT_MEMORY_WAIT_NS)
		tgt_request_end_early(request, RBLK_E_BUSY);
}

static void work_expire_portions(const struct tgt_loop *loop, struct tgt_portion_list *portions)
{
	struct tgt_portion *portion, *following;

	TAILQ_FOREACH_SAFE(portion, portions, link, following) {
		work_expire(loop, &portion->waiting);
		work_expire(loop, &portion->waiting_priority);
	}
}

void tgt_work_expire(struct tgt_loop *loop)
{
	struct tgt_share *share, *following;

	TAILQ_FOREACH_SAFE(share, &loop->starving, link, following)
		work_expire_portions(loop, &share->starving);
	work_expire_portions(loop, &loop->bounded);
	/* The time for gathering may be over: then the others get theirs. */
	if (loop->short_of_memory) {
		tgt_share_gather(loop, true);
		loop->memory_freed |= !loop->short_of_memory;
	}
}

void tgt_work_check_taken(struct tgt_loop *loop)
{
	struct tgt_io_queue *io_queue, *following;

	TAILQ_FOREACH_SAFE(io_queue, &loop->alive, alive_link, following) {
		uint64_t due_ns = io_queue->taken_ns + TGT_TAKE_NS;

		if (io_queue->sent_head == io_queue->sent_tail)
			continue;
		if (loop->now_ns >= due_ns && io_queue->is_late) {
			tgt_io_queue_violation(io_queue, "it does not take what is sent to it (C8)");
			continue;
		}
		/* This end may have been late: process what was accepted meanwhile first. */
		if (loop->now_ns >= due_ns) {
			io_queue->is_late = true;
			io_queue->taken_ns = loop->now_ns - TGT_TAKE_NS + TGT_LATE_NS;
			due_ns = loop->now_ns + TGT_LATE_NS;
		}
		tgt_loop_timer(loop, due_ns);
	}
}

void tgt_work_post(struct tgt_loop *loop)
{
	struct tgt_receives *receives, *following;
	struct tgt_io_queue *io_queue;

	/* C5, receives first: a reply gives the initiator a credit, and behind a credit there is a
	 * receive. One that cannot be posted (its device is lost) is tried again. */
	TAILQ_FOREACH_SAFE(receives, &loop->idle, idle_link, following) {
		if (tgt_receives_post(receives))
			continue;
		TAILQ_REMOVE(&loop->idle, receives, idle_link);
		receives->is_listed = false;
	}
	while ((io_queue = TAILQ_FIRST(&loop->dirty))) {
		TAILQ_REMOVE(&loop->dirty, io_queue, dirty_link);
		io_queue->is_dirty = false;
		if (io_queue->open)
			tgt_transfer_flush(io_queue);
	}
}

bool tgt_work_is_idle(const struct tgt_loop *loop)
{
	const struct tgt_io_queue *io_queue;

	TAILQ_FOREACH(io_queue, &loop->alive, alive_link)
		if (io_queue->active || io_queue->sent_head != io_queue->sent_tail)
			return false;
	return true;
}
