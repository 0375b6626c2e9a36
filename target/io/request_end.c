/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a command ends: it is answered, or its connection is lost. One that waits has told where by request->leave, so
 * ABORT, a reservation, a limit in time and the end of its connection all end it the same way; one that has begun runs
 * on, and what its store still has when the connection is lost is an orphan of the volume (F5). A request gives back
 * what it holds when its answer has left. F8: the session's reply cache is asked before an operation begins, and told
 * here how it ended.
 */
#include "target/io/request.h"

#include "proto/core/trace.h"
#include "target/io/replay.h"
#include "target/io/share.h"
#include "target/io/transfer.h"

/* -- the number of an operation (F8) ----------------------------------------------------------- */

bool tgt_request_begin_operation(struct tgt_request *request)
{
	struct tgt_answer answer = {.number = 0};
	enum rblk_status status = RBLK_E_INVALID;

	switch (tgt_replay_begin(request->io_queue->answers, request->argument,
				  request->flags & RBLK_CMD_RETRY, &answer)) {
	case TGT_OPERATION_NEW:
		request->numbered = true;
		return true;
	case TGT_OPERATION_KNOWN:
		request->result = answer.result;
		status = (enum rblk_status)answer.status;
		break;
	case TGT_OPERATION_LATER:
		status = RBLK_E_BUSY;
		break;
	case TGT_OPERATION_INVALID:
		break;
	}
	tgt_request_complete(request, status);
	return false;
}

void tgt_request_tell_operation(struct tgt_request *request, enum rblk_status status)
{
	request->numbered = false;
	tgt_replay_end(request->io_queue->answers, request->argument, status, request->result);
}

/* -- answered ---------------------------------------------------------------------------------- */

static bool reply_leave(struct tgt_request *request)
{
	TAILQ_REMOVE(tgt_turns_list(&request->io_queue->done, request), request, link);
	return true;
}

static bool chained_leave(struct tgt_request *request)
{
	TAILQ_REMOVE(&request->io_queue->chained, request, link);
	return true;
}

static inline __attribute__((always_inline)) bool request_queue_reply(struct tgt_request *request,
								      enum tgt_request_state state)
{
	struct tgt_io_queue *io_queue = request->io_queue;

	if (!tgt_request_set_state(request, state))
		return false;
	TAILQ_INSERT_TAIL(tgt_turns_list(&request->io_queue->done, request), request, link);
	request->leave = reply_leave;
	tgt_io_queue_mark_dirty(io_queue);
	return true;
}

static inline __attribute__((always_inline)) void request_account(struct tgt_request *request)
{
	struct tgt_io_queue *io_queue = request->io_queue;
	struct tgt_totals *totals = &io_queue->totals;
	uint32_t queued_us = request->queued_us, stored_us = request->stored_us, bytes = request->length;
	struct tgt_counts *counts;

	if (!request->access) {
		if (request->status != RBLK_OK)
			io_queue->loop->refused[request->status]++;
		return;
	}
	/* RESERVE and RESERVATIONS: session commands, which no volume counts. */
	if (request->opcode >= TGT_COUNT_OPCODES)
		return;
	counts = request->access->counts;
	tgt_counts_add(counts, request->opcode, queued_us, stored_us);
	totals->queued_us += queued_us;
	totals->stored_us += stored_us;
	if (request->status != RBLK_OK) {
		counts->errors[request->status]++;
	} else if (request->opcode == RBLK_OP_READ) {
		totals->bytes_read += bytes;
		counts->bytes_read += bytes;
	} else if (request->opcode == RBLK_OP_WRITE || tgt_command_of(request)->data) {
		if (request->opcode != RBLK_OP_WRITE)
			bytes /= tgt_command_of(request)->data;
		totals->bytes_written += bytes;
		counts->bytes_written += bytes;
	}
}

/* All requests come by here, and hardly any is a COMPARE_AND_WRITE. */
static void request_end_compare(struct tgt_request *request)
{
	if (request->compare)
		tgt_compare_release(request);
}

static void request_end_orphan(struct tgt_request *request)
{
	tgt_orphans_end(&request->access->channel->volume->orphans, request->orphan);
	request->orphan = 0;
}

void tgt_request_complete(struct tgt_request *request, enum rblk_status status)
{
	bool data_out = request->opcode == RBLK_OP_READ && status == RBLK_OK;

	request_end_compare(request);
	if (!request_queue_reply(request, data_out ? TGT_REQUEST_DATA_OUT : TGT_REQUEST_REPLYING))
		return;
	request->status = (uint16_t)status;
	tgt_request_end_operation(request, status);
	/* A reservation removed its rights while the store had it; now the store has ended it. */
	if (request->orphan)
		request_end_orphan(request);
	request_account(request);
	tgt_request_release_capsule(request);
	if (!data_out)
		tgt_request_free_data(request);
}

void tgt_request_report(struct tgt_request *request)
{
	if (request_queue_reply(request, TGT_REQUEST_DATA_OUT))
		request_account(request);
}

void tgt_request_chained(struct tgt_request *request)
{
	if (!tgt_request_set_state(request, TGT_REQUEST_REPLYING))
		return;
	request->queued_us = tgt_microseconds(request->received_ns, request->io_queue->loop->now_ns);
	request_account(request);
	request->leave = chained_leave;
	TAILQ_INSERT_TAIL(&request->io_queue->chained, request, link);
}

void tgt_request_finish(struct tgt_request *request)
{
	struct tgt_access *access = request->access;

	rblk_trace_finish(request);
	if (!tgt_request_set_state(request, TGT_REQUEST_FREE))
		return;
	request_end_compare(request);
	if (access)
		tgt_write_end(&access->channel->range_locks, &request->io.write);
	/* Its connection was lost before it was answered. */
	tgt_request_end_operation(request, RBLK_E_FENCED);
	tgt_request_release_capsule(request);
	tgt_request_free_data(request);
	if (request->orphan)
		request_end_orphan(request);
	request->access = NULL;
	request->io_queue->active--;
	if (access)
		tgt_access_put(access);
}

/* -- before its work is done ------------------------------------------------------------------- */

/* It has left where it waited: nothing has it any more. */
static bool request_leave(struct tgt_request *request)
{
	return request->leave && request->leave(request);
}

/* In other states its answer is known, the volume no longer has it, or it is a session command. */
static bool request_is_open(const struct tgt_request *request)
{
	return request->state == TGT_REQUEST_WAITING || request->state == TGT_REQUEST_DATA_IN ||
	       request->state == TGT_REQUEST_STORING || request->state == TGT_REQUEST_LIMITED;
}

bool tgt_request_end_early(struct tgt_request *request, enum rblk_status status)
{
	bool (*may_abort)(const struct tgt_request *);

	if (!request_is_open(request))
		return request->aborted;
	if (request_leave(request)) {
		tgt_request_complete(request, status);
		return true;
	}
	may_abort = tgt_command_of(request)->may_abort;
	if (request->state == TGT_REQUEST_STORING && may_abort && may_abort(request))
		request->aborted = true;
	return request->aborted;
}

/* If the data of this write goes directly into the store's own memory and a part of it is
 * posted: posts no more, and answers it ABORTED after that part. False: it is not such a write. */
static bool request_cut_short(struct tgt_request *request)
{
	if (request->state != TGT_REQUEST_DATA_IN || request->home != TGT_HOME_DIRECT ||
	    !request->moved)
		return false;
	TAILQ_REMOVE(tgt_turns_list(&request->io_queue->fetching, request), request, link);
	request->status = RBLK_E_ABORTED;
	tgt_request_chained(request);
	return true;
}

/* Counts the request, which the store has, as an orphan of the volume. Only once. */
static void request_orphan(struct tgt_request *request)
{
	if (!request->orphan)
		request->orphan = tgt_orphans_begin(&request->access->channel->volume->orphans);
}

static void request_revoke(struct tgt_request *request, bool aborts)
{
	bool refused;

	if (!request_is_open(request))
		return;
	refused = tgt_request_refused(request);
	/* Data that is arriving now is not stored if it is refused then (request.c). */
	if ((refused || aborts) && !request_cut_short(request))
		tgt_request_end_early(request, refused ? RBLK_E_RESERVED : RBLK_E_ABORTED);
	if (request->state == TGT_REQUEST_STORING && (aborts || tgt_command_of(request)->writes))
		request_orphan(request);
}

bool tgt_io_queue_revoke(struct tgt_io_queue *io_queue, struct tgt_access *access, bool aborts)
{
	/* Those of a closed I/O queue are orphans already. */
	if (!io_queue->open)
		return false;
	for (uint16_t tag = 0; tag < io_queue->tags; tag++) {
		struct tgt_request *request = &io_queue->requests[tag];

		if (request->state != TGT_REQUEST_FREE && request->access == access)
			request_revoke(request, aborts);
	}
	return tgt_transfer_orphan(io_queue, access);
}

/* -- its connection is lost -------------------------------------------------------------------- */

void tgt_request_drop(struct tgt_request *request)
{
	struct tgt_io_queue *io_queue = request->io_queue;

	tgt_request_finish(request);
	if (!io_queue->open && !io_queue->active)
		io_queue->ops->over(io_queue);
}

void tgt_io_queue_close(struct tgt_io_queue *io_queue)
{
	if (!io_queue->open)
		return;
	TAILQ_REMOVE(&io_queue->loop->alive, io_queue, alive_link);
	io_queue->open = false;
	/* Unreachable: from here on nothing is accepted from the peer, nothing is posted. */
	fab_conn_close(io_queue->conn);
	tgt_transfer_orphan(io_queue, NULL);
	for (uint16_t tag = 0; tag < io_queue->tags; tag++) {
		struct tgt_request *request = &io_queue->requests[tag];

		if (request_leave(request))
			tgt_request_drop(request);
		else if (request->state == TGT_REQUEST_STORING && tgt_command_of(request)->writes)
			request_orphan(request); /* F5: what has begun cannot be cancelled, only awaited */
	}
}

void tgt_io_queue_drained(struct tgt_io_queue *io_queue)
{
	tgt_transfer_abandon(io_queue);
	/* Also those that went on after the I/O queue was closed: a command may close its own I/O queue, and be
	 * answered then. */
	for (uint16_t tag = 0; tag < io_queue->tags; tag++) {
		struct tgt_request *request = &io_queue->requests[tag];

		if (request->state == TGT_REQUEST_FREE || request->state == TGT_REQUEST_STORING)
			continue;
		request_leave(request);
		tgt_request_drop(request);
	}
}
