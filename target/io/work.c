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

void tgt_work_init(struct tgt_turn *turn)
{
	TAILQ_INIT(&turn->alive);
	TAILQ_INIT(&turn->dirty);
	TAILQ_INIT(&turn->starving);
	TAILQ_INIT(&turn->bounded);
	TAILQ_INIT(&turn->resumed);
	TAILQ_INIT(&turn->limited);
	TAILQ_INIT(&turn->seats);
	TAILQ_INIT(&turn->idle);
}

unsigned int tgt_work_resume(struct tgt_turn *turn)
{
	/* Those that put themselves back are the next turn's. */
	struct tgt_request *last = TAILQ_LAST(&turn->resumed, tgt_request_list), *request;
	unsigned int count = 0;
	bool more = true;

	turn->direct_bytes = 0;
	while (more && (request = TAILQ_FIRST(&turn->resumed)) && count < RESUME_BATCH &&
	       turn->direct_bytes < TGT_DIRECT_BYTES) {
		more = request != last;
		tgt_request_resume(request);
		count++;
	}
	turn->direct_bytes = 0;
	return count;
}

/* The memory that the session waits for: that of the oldest command of its next lane. */
static uint32_t share_wants(const struct tgt_share *share)
{
	const struct tgt_lane *lane = TAILQ_FIRST(&share->starving);

	return TAILQ_FIRST(&lane->waiting)->data_bytes;
}

/* Memory for the oldest command of the session's next lane. False: there is none for it. */
static bool work_feed_session(struct tgt_share *share)
{
	struct tgt_lane *lane = TAILQ_FIRST(&share->starving);
	struct tgt_request *request = TAILQ_FIRST(&lane->waiting);

	if (request && !tgt_request_retry_memory(request))
		return false;
	tgt_share_turn(share);
	if (TAILQ_EMPTY(&lane->waiting))
		tgt_share_leave(lane);
	return true;
}

static void work_feed_bounded(struct tgt_turn *turn)
{
	struct tgt_portion *portion, *following;
	struct tgt_request *request;

	for (portion = TAILQ_FIRST(&turn->bounded); portion; portion = following) {
		following = TAILQ_NEXT(portion, link);
		while ((request = TAILQ_FIRST(&portion->waiting)) && tgt_request_retry_bounded(request))
			;
	}
}

/*
 * Sessions in turn. One that has its share is skipped. For one that holds nothing and finds no
 * memory, memory is gathered: no other overtakes it, for a bounded time.
 */
void tgt_work_feed(struct tgt_turn *turn)
{
	struct tgt_share *share, *following;
	bool fed = true;

	if (!turn->memory_freed)
		return;
	turn->memory_freed = false;
	tgt_share_gather(turn, false);
	work_feed_bounded(turn);
	while (fed) {
		fed = false;
		for (share = TAILQ_FIRST(&turn->starving); share; share = following) {
			following = TAILQ_NEXT(share, link);
			if (work_feed_session(share)) {
				fed = true;
				continue;
			}
			tgt_share_gather(turn, tgt_share_lacks_memory(share, share_wants(share)));
			if (turn->short_of_memory)
				return;
		}
	}
}

/* Those that waited for their volume's share before are not the last to be due. */
static void work_expire_list(const struct tgt_turn *turn, struct tgt_request_list *list)
{
	struct tgt_request *request, *following;

	for (request = TAILQ_FIRST(list); request; request = following) {
		following = TAILQ_NEXT(request, link);
		if (turn->now_ns - request->waiting_ns < TGT_MEMORY_WAIT_NS)
			continue;
		tgt_request_end_early(request, RBLK_E_BUSY);
	}
}

void tgt_work_expire(struct tgt_turn *turn)
{
	struct tgt_portion *portion, *following;
	struct tgt_share *share;
	struct tgt_lane *lane;

	TAILQ_FOREACH(share, &turn->starving, link)
		TAILQ_FOREACH(lane, &share->starving, starving_link)
			work_expire_list(turn, &lane->waiting);
	for (portion = TAILQ_FIRST(&turn->bounded); portion; portion = following) {
		following = TAILQ_NEXT(portion, link);
		work_expire_list(turn, &portion->waiting);
	}
	/* The time for gathering may be over: then the others get theirs. */
	if (turn->short_of_memory) {
		tgt_share_gather(turn, true);
		turn->memory_freed |= !turn->short_of_memory;
	}
}

uint64_t tgt_work_check_taken(struct tgt_turn *turn)
{
	struct tgt_lane *lane, *following;
	uint64_t next_ns = UINT64_MAX;

	for (lane = TAILQ_FIRST(&turn->alive); lane; lane = following) {
		uint64_t due_ns = lane->taken_ns + TGT_TAKE_NS;

		following = TAILQ_NEXT(lane, alive_link);
		if (lane->sent_head == lane->sent_tail)
			continue;
		if (turn->now_ns >= due_ns && lane->is_late) {
			tgt_lane_violation(lane, "it does not take what is sent to it (C8)");
			continue;
		}
		/* This end may have been late: process what was accepted meanwhile first. */
		if (turn->now_ns >= due_ns) {
			lane->is_late = true;
			lane->taken_ns = turn->now_ns - TGT_TAKE_NS + TGT_LATE_NS;
			due_ns = turn->now_ns + TGT_LATE_NS;
		}
		if (due_ns < next_ns)
			next_ns = due_ns;
	}
	return next_ns;
}

void tgt_work_post(struct tgt_turn *turn)
{
	struct tgt_receives *receives, *following;
	struct tgt_lane *lane;

	/* C5, receives first: a reply gives the initiator a credit, and behind a credit there is a
	 * receive. One that cannot be posted (its device is lost) is tried again. */
	for (receives = TAILQ_FIRST(&turn->idle); receives; receives = following) {
		following = TAILQ_NEXT(receives, idle_link);
		if (tgt_receives_post(receives))
			continue;
		TAILQ_REMOVE(&turn->idle, receives, idle_link);
		receives->is_listed = false;
	}
	while ((lane = TAILQ_FIRST(&turn->dirty))) {
		TAILQ_REMOVE(&turn->dirty, lane, dirty_link);
		lane->is_dirty = false;
		if (lane->open)
			tgt_transfer_flush(lane);
	}
}

bool tgt_work_is_idle(const struct tgt_turn *turn)
{
	const struct tgt_lane *lane;

	TAILQ_FOREACH(lane, &turn->alive, alive_link)
		if (lane->active || lane->sent_head != lane->sent_tail)
			return false;
	return true;
}
