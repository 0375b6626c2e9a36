/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state machine of a request: which step may follow which. Everything that moves a request on
 * (request.c) asks here; enum tgt_request_state says who owns what in each state.
 */
#include "target/io/request.h"

#include "target/io/io_queue.h"

#define BIT(state) (1u << (state))

const uint16_t tgt_request_next[TGT_REQUEST_STATES] = {
	[TGT_REQUEST_FREE] = BIT(TGT_REQUEST_RECEIVED),
	[TGT_REQUEST_RECEIVED] = BIT(TGT_REQUEST_WAITING) | BIT(TGT_REQUEST_DATA_IN) | BIT(TGT_REQUEST_STORING) |
				 BIT(TGT_REQUEST_HELD) | BIT(TGT_REQUEST_DATA_OUT) | BIT(TGT_REQUEST_REPLYING) |
				 BIT(TGT_REQUEST_LIMITED) | BIT(TGT_REQUEST_FREE),
	[TGT_REQUEST_WAITING] = BIT(TGT_REQUEST_DATA_IN) | BIT(TGT_REQUEST_STORING) | BIT(TGT_REQUEST_REPLYING) |
				BIT(TGT_REQUEST_FREE),
	[TGT_REQUEST_DATA_IN] = BIT(TGT_REQUEST_STORING) | BIT(TGT_REQUEST_REPLYING) | BIT(TGT_REQUEST_FREE),
	/* A request that was put off may need memory when its turn comes. */
	[TGT_REQUEST_STORING] = BIT(TGT_REQUEST_DATA_OUT) | BIT(TGT_REQUEST_REPLYING) | BIT(TGT_REQUEST_FREE) |
				BIT(TGT_REQUEST_LIMITED) | BIT(TGT_REQUEST_WAITING),
	[TGT_REQUEST_HELD] = BIT(TGT_REQUEST_DATA_OUT) | BIT(TGT_REQUEST_REPLYING) | BIT(TGT_REQUEST_FREE),
	[TGT_REQUEST_DATA_OUT] = BIT(TGT_REQUEST_FREE),
	[TGT_REQUEST_REPLYING] = BIT(TGT_REQUEST_FREE),
	[TGT_REQUEST_LIMITED] = BIT(TGT_REQUEST_RECEIVED) | BIT(TGT_REQUEST_STORING) | BIT(TGT_REQUEST_REPLYING) |
				BIT(TGT_REQUEST_FREE),
};

static const char *const state_names[TGT_REQUEST_STATES] = {
	[TGT_REQUEST_FREE] = "free",	     [TGT_REQUEST_RECEIVED] = "received", [TGT_REQUEST_WAITING] = "waiting",
	[TGT_REQUEST_DATA_IN] = "data in",   [TGT_REQUEST_STORING] = "storing",   [TGT_REQUEST_HELD] = "held",
	[TGT_REQUEST_DATA_OUT] = "data out", [TGT_REQUEST_REPLYING] = "replying", [TGT_REQUEST_LIMITED] = "limited",
};

bool tgt_request_refuse_state(struct tgt_request *request, enum tgt_request_state state)
{
	struct tgt_io_queue *io_queue = request->io_queue;

	tgt_log_limited(
		&io_queue->loop->log_limit, TGT_LOG_ERROR,
		"session %u queue %u tag %u: internal error: %s -> %s is not a step of a request",
		io_queue->session_number, io_queue->index, request->tag, state_names[request->state],
		state_names[state]);
	io_queue->ops->close(io_queue, "internal error");
	return false;
}
