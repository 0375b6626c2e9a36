/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of a request: the block that its data or its report lies in, the wait for one, and the
 * receive buffer of an in-capsule write. share.c decides how much a session, and a volume of it, may have; request.c
 * calls this, and the command's row says how one that waited goes on.
 */
#include "target/io/request.h"

#include <string.h>
#include "target/io/io_queue.h"
#include "target/io/share.h"

static inline __attribute__((always_inline)) bool request_take_memory(struct tgt_request *request)
{
	struct tgt_portion *portion = request->access->portion;
	struct tgt_share *share = request->io_queue->share;
	bool others = !TAILQ_EMPTY(&share->starving) || !TAILQ_EMPTY(&portion->waiting);

	request->data = tgt_share_alloc(request->io_queue, portion, request->data_bytes);
	if (!request->data)
		return false;
	if (!tgt_request_priority(request) || !others)
		share->passed = 0;
	else if (share->passed < TGT_PRIORITY_MOST) /* it stays there: of one volume all that wait may have priority */
		share->passed++;
	request->home = TGT_HOME_POOL;
	request->lkey = request->io_queue->lkey;
	return true;
}

/* A command does not overtake those that wait, or a large one would never get its memory; but one with priority
 * overtakes a few of its session. Sessions that have their share do not make others wait, and volumes that have theirs
 * do not make their session's other volumes wait. */
static bool request_may_take(const struct tgt_request *request)
{
	const struct tgt_portion *portion = request->access->portion;
	const struct tgt_share *share = request->io_queue->share;

	if (request->io_queue->loop->short_of_memory || !TAILQ_EMPTY(&portion->waiting_priority))
		return false;
	if (TAILQ_EMPTY(&share->starving) && TAILQ_EMPTY(&portion->waiting))
		return true;
	return tgt_request_priority(request) && share->passed < TGT_PRIORITY_MOST;
}

static bool waiting_leave(struct tgt_request *request)
{
	tgt_portion_leave(request);
	/* Memory may have been gathered for it: check again. */
	request->io_queue->loop->memory_freed = true;
	return true;
}

void tgt_request_get_memory(struct tgt_request *request, uint32_t bytes)
{
	struct tgt_loop *loop = request->io_queue->loop;

	request->data_bytes = bytes;
	if (request_may_take(request) && request_take_memory(request)) {
		tgt_command_of(request)->with_memory(request);
		return;
	}
	if (!tgt_request_set_state(request, TGT_REQUEST_WAITING))
		return;
	request->waiting_ns = loop->now_ns;
	request->leave = waiting_leave;
	tgt_portion_wait(request);
	tgt_loop_timer(loop, request->waiting_ns + TGT_MEMORY_WAIT_NS);
}

bool tgt_request_retry_memory(struct tgt_request *request)
{
	if (!request_take_memory(request))
		return false;
	tgt_portion_leave(request);
	tgt_command_of(request)->with_memory(request);
	return true;
}

void tgt_request_free_block(struct tgt_request *request)
{
	if (request->home == TGT_HOME_POOL)
		tgt_portion_give(request->access->portion, request->data_bytes);
	tgt_share_free(request->io_queue, request->data, request->data_bytes, request->home == TGT_HOME_REPORT);
}

void *tgt_request_report_alloc(struct tgt_request *request, uint32_t bytes)
{
	struct tgt_io_queue *io_queue = request->io_queue;

	request->data = tgt_share_alloc_report(io_queue, bytes);
	if (!request->data)
		return NULL;
	request->home = TGT_HOME_REPORT;
	request->data_bytes = bytes;
	request->lkey = io_queue->lkey;
	memset(request->data, 0, bytes);
	return request->data;
}

bool tgt_request_move_capsule(struct tgt_request *request)
{
	if (!request->holds_capsule)
		return false;
	memcpy(request->data,
	       tgt_receives_buffer(request->io_queue->receives, request->capsule_buffer) + request->address,
	       request->length);
	tgt_request_release_capsule(request);
	return true;
}
