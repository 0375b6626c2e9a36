/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The list of commands that wait for a limit, in their order, and the counts of them. One that waits for its
 * initiator's limit does not keep others from the volume; those that wait for the same limit do not overtake each other.
 */
#include "target/io/throttle.h"

#include "target/io/io_queue.h"
#include "target/io/share.h"

/* The limit that it waits for; NULL: it may begin. */
static struct tgt_token_bucket *request_blocker(const struct tgt_request *request)
{
	/* No limit delays the end of the daemon, or of a volume whose path is wanted. */
	if (request->io_queue->loop->draining || atomic_load(&request->access->channel->volume->removed))
		return NULL;
	for (unsigned int i = 0; i < TGT_ACCESS_BUCKETS; i++) {
		struct tgt_token_bucket *bucket = request->access->buckets[i];

		if (bucket && (bucket->blocked || !tgt_token_bucket_ready(bucket, request->io_queue->loop->now_ns)))
			return bucket;
	}
	return NULL;
}

static void request_use(const struct tgt_request *request)
{
	uint64_t (*bytes)(const struct tgt_request *) = tgt_command_of(request)->bytes;

	for (unsigned int i = 0; i < TGT_ACCESS_BUCKETS; i++)
		if (request->access->buckets[i])
			tgt_token_bucket_use(request->access->buckets[i], bytes ? bytes(request) : 0);
}

/* It has waited: it goes on, or ends. The store did not have it meanwhile, but may have had earlier pieces of a CHECKSUM. */
static void request_waited(struct tgt_request *request)
{
	uint64_t waited_ns = request->io_queue->loop->now_ns - request->limited_ns;
	uint64_t queued_us = request->queued_us + waited_ns / 1000;

	request->access->counts->limited_ns += waited_ns;
	request->submitted_ns += waited_ns;
	request->queued_us = queued_us < UINT32_MAX ? (uint32_t)queued_us : UINT32_MAX;
}

/* The list of its session in which it waits. */
static struct tgt_waiter_list *limited_list(const struct tgt_request *request)
{
	struct tgt_share *share = request->io_queue->share;

	return tgt_request_priority(request) ? &share->limited_priority : &share->limited;
}

/* It waits no more. */
static void limited_remove(struct tgt_request *request)
{
	struct tgt_share *share = request->io_queue->share;

	TAILQ_REMOVE(&request->io_queue->loop->limited, request, link);
	TAILQ_REMOVE(limited_list(request), &request->io.waiter, link);
	share->limited_moved &= !TAILQ_EMPTY(&share->limited);
	request_waited(request);
}

/* The first of the list that may begin, or NULL. */
static struct tgt_request *limited_first(const struct tgt_waiter_list *list)
{
	struct tgt_waiter *waiter;

	TAILQ_FOREACH(waiter, list, link) {
		struct tgt_request *request = (struct tgt_request *)tgt_io_of(waiter);

		if (!request_blocker(request))
			return request;
	}
	return NULL;
}

/*
 * It is the turn of this request, and so its session's. A request of the session with priority goes instead; after
 * TGT_PRIORITY_MOST of them the oldest without. This one gets the place of the one that goes: the session goes no
 * sooner, and its requests without priority keep their order, whichever places they have.
 */
static struct tgt_request *limited_turn(struct tgt_request *request)
{
	struct tgt_share *share = request->io_queue->share;
	struct tgt_request *turn = NULL;

	if (tgt_request_priority(request))
		return request;
	if (share->limited_passed < TGT_PRIORITY_MOST)
		turn = limited_first(&share->limited_priority);
	if (turn) {
		share->limited_passed++;
		share->limited_moved = true;
	} else {
		share->limited_passed = 0;
		turn = share->limited_moved ? limited_first(&share->limited) : request;
	}
	if (turn != request) {
		TAILQ_REMOVE(&request->io_queue->loop->limited, request, link);
		TAILQ_INSERT_BEFORE(turn, request, link);
	}
	return turn;
}

static void loop_await(struct tgt_loop *loop, struct tgt_token_bucket *bucket)
{
	uint64_t due_ns = bucket->next_ns;

	bucket->blocked++;
	if (due_ns < loop->now_ns + TGT_LIMIT_WAIT_NS)
		due_ns = loop->now_ns + TGT_LIMIT_WAIT_NS;
	if (loop->limited_ns > due_ns)
		loop->limited_ns = due_ns;
}

/* It waits no more, and does not go on. */
static bool limited_leave(struct tgt_request *request)
{
	limited_remove(request);
	/* Others waited behind it; and whoever walks through the list must begin anew. */
	tgt_throttle_again(request->io_queue->loop);
	return true;
}

bool tgt_throttle_pass(struct tgt_request *request, bool has_capsule)
{
	struct tgt_token_bucket *bucket = request_blocker(request);

	if (!bucket) {
		request_use(request);
		return true;
	}
	if (!tgt_request_set_state(request, TGT_REQUEST_LIMITED))
		return false;
	if (has_capsule)
		tgt_request_hold_capsule(request);
	/* Counted once, however often it waits: a CHECKSUM may wait before each of its pieces. */
	request->access->counts->limited_commands += !request->limited_ns;
	request->limited_ns = request->io_queue->loop->now_ns;
	request->leave = limited_leave;
	TAILQ_INSERT_TAIL(&request->io_queue->loop->limited, request, link);
	TAILQ_INSERT_TAIL(limited_list(request), &request->io.waiter, link);
	loop_await(request->io_queue->loop, bucket);
	return false;
}

void tgt_throttle_again(struct tgt_loop *loop)
{
	loop->limited_ns = 0;
}

unsigned int tgt_throttle_resume(struct tgt_loop *loop)
{
	struct tgt_request *request, *following;
	unsigned int count = 0;
	struct tgt_token_bucket *bucket;

	if (TAILQ_EMPTY(&loop->limited) || (loop->now_ns < loop->limited_ns && !loop->draining))
		return 0;
	TAILQ_FOREACH(bucket, &loop->buckets, link)
		bucket->blocked = 0;
	loop->limited_ns = UINT64_MAX;
	for (request = TAILQ_FIRST(&loop->limited); request; request = following) {
		struct tgt_request *turn;

		following = TAILQ_NEXT(request, link);
		bucket = request_blocker(request);
		if (bucket) {
			loop_await(loop, bucket);
			continue;
		}
		turn = limited_turn(request);
		if (turn == following)
			following = request; /* which is in its place now */
		limited_remove(turn);
		request_use(turn);
		tgt_request_unlimited(turn);
		count++;
		if (!loop->limited_ns)
			break;
	}
	return count;
}
