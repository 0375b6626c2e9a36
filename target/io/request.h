/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The life of a request: one command from its arrival to its reply. It reads from top to bottom in
 * request.c and request_end.c; request_state.c, request_check.c and request_memory.c are its helpers. The struct and
 * its states are in io_queue.h. The reactor's thread only.
 */
#ifndef RBLK_TARGET_REQUEST_H
#define RBLK_TARGET_REQUEST_H

#include "proto/core/trace.h"
#include "proto/digest/digest.h"
#include "proto/wire/message.h"
#include "target/io/command.h"
#include "target/io/io_queue.h"

/* The row of a block command. */
static inline const struct tgt_command *tgt_command_of(const struct tgt_request *request)
{
	return &tgt_commands[request->opcode];
}

static inline const struct tgt_volume *tgt_request_volume(const struct tgt_request *request)
{
	return request->access->channel->volume;
}

/* Its range in the volume. */
static inline uint64_t tgt_request_offset(const struct tgt_request *request)
{
	return request->lba * tgt_request_volume(request)->block_bytes;
}

static inline uint64_t tgt_request_bytes(const struct tgt_request *request)
{
	return (uint64_t)request->blocks * tgt_request_volume(request)->block_bytes;
}

/* -- request_state.c --------------------------------------------------------------------------- */

/* The states that may follow each: a bit for each of them. */
extern const uint16_t tgt_request_next[TGT_REQUEST_STATES];
/* There is no such step: logs it, closes the queue, returns false. */
bool tgt_request_refuse_state(struct tgt_request *request, enum tgt_request_state state);

/*
 * The one place where a request's state changes. False: there is no such step; it was logged, the
 * queue is closed, and the request is unchanged except for what closing does to it in its old
 * state. The caller must not use it then.
 */
__attribute__((warn_unused_result, always_inline)) static inline bool
tgt_request_set_state(struct tgt_request *request, enum tgt_request_state state)
{
	if (!(tgt_request_next[request->state] & 1u << state))
		return tgt_request_refuse_state(request, state);
	rblk_trace_state(request, state);
	request->state = (uint8_t)state;
	request->leave = NULL;
	return true;
}

/* -- request_check.c --------------------------------------------------------------------------- */

/* Does its volume allow it? Also asked of one that has waited. */
enum rblk_status tgt_request_check_volume(const struct tgt_request *request);
/* When its volume has been looked up: may it be done? */
static inline enum rblk_status tgt_request_check(const struct tgt_request *request)
{
	if (request->io_queue->loop->draining)
		return RBLK_E_DRAINING;
	return request->access ? tgt_request_check_volume(request) : RBLK_E_GONE;
}

/* Does a reservation refuse this block command? Without a reservation this is the only check of a command. */
static inline bool tgt_request_refused(const struct tgt_request *request)
{
	return request->access->refused && request->access->refused & tgt_command_of(request)->refused;
}

/* -- request_memory.c -------------------------------------------------------------------------- */

/* Memory for `bytes` of data, now or when it is its turn; then the command goes on. */
void tgt_request_get_memory(struct tgt_request *request, uint32_t bytes);
/* Memory may be there again: true if the request, the first that waits for its volume, went on. */
bool tgt_request_retry_memory(struct tgt_request *request);
/* Memory for what a session command reports, zeroed; then tgt_request_report() or _complete().
 * NULL: there is none, and it is to be answered BUSY. */
void *tgt_request_report_alloc(struct tgt_request *request, uint32_t bytes);

/* Release the block; the receive buffer. No effect if there is none. */
void tgt_request_free_block(struct tgt_request *request);
static inline void tgt_request_free_data(struct tgt_request *request)
{
	if (request->home == TGT_HOME_POOL || request->home == TGT_HOME_REPORT)
		tgt_request_free_block(request);
	request->home = TGT_HOME_NONE;
	request->data = NULL;
}
static inline void tgt_request_release_capsule(struct tgt_request *request)
{
	if (!request->holds_capsule)
		return;
	request->holds_capsule = false;
	tgt_receives_release(request->io_queue->receives, request->capsule_buffer);
}
/* Its data in the receive buffer stays there until it is released. Idempotent. */
static inline void tgt_request_hold_capsule(struct tgt_request *request)
{
	if (request->holds_capsule)
		return;
	request->holds_capsule = true;
	tgt_receives_hold(request->io_queue->receives, request->capsule_buffer);
}
/* If it holds its data in the receive buffer: that is moved to its memory, and the buffer released. */
bool tgt_request_move_capsule(struct tgt_request *request);

/* -- request.c --------------------------------------------------------------------------------- */

/* `command` has passed its validator and belongs in this slot, which is free. `capsule`: its data
 * in receive buffer `buffer`, or NULL. */
void tgt_request_begin(struct tgt_request *request, const struct rblk_wire_command *command,
		       char *capsule, uint32_t capsule_bytes, uint32_t buffer);
/* A message has arrived in buffer `index` of `receives`, which the caller holds: it is checked by its validator, then
 * against what the I/O queue has granted, and split into requests, which begin. */
void tgt_message_receive(struct tgt_io_queue *io_queue, struct tgt_receives *receives, uint32_t index,
			 uint32_t bytes);

/* The RDMA READs of a request in DATA_IN have all completed. */
void tgt_request_data_in(struct tgt_request *request);
/* Continue a request that was postponed to this turn (loop->resumed): the next piece of a checksum,
 * a command that works in the store's own memory. */
void tgt_request_resume(struct tgt_request *request);

/* Its limits let a request go on (throttle.c). */
void tgt_request_unlimited(struct tgt_request *request);

/* The upper room waits for something to end; it lists the request if true. held: request->held. */
bool tgt_request_hold(struct tgt_request *request, bool (*leave)(struct tgt_request *request), void *held)
	__attribute__((warn_unused_result));

enum rblk_status tgt_status_of_errno(int error);
/* Between two readings of the turn's clock: of one turn in most cases. */
static inline uint32_t tgt_microseconds(uint64_t from_ns, uint64_t to_ns)
{
	uint64_t us = to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;

	return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

/* -- request_end.c ----------------------------------------------------------------------------- */

/* Queue the completion; from RECEIVED, LIMITED, WAITING, DATA_IN, STORING or HELD. */
void tgt_request_complete(struct tgt_request *request, enum rblk_status status);
/* Success of a command with a report: request->data is sent first. */
void tgt_request_report(struct tgt_request *request);
/* F2: the READs into the store's memory have been posted; the reply follows in io_queue->chained. */
void tgt_request_chained(struct tgt_request *request);
/* The completion has been posted: release everything but what the posted work still uses. */
void tgt_request_finish(struct tgt_request *request);
/* The connection is lost: release everything. Not while it is in a list, or a store or the fabric owns the data. */
void tgt_request_drop(struct tgt_request *request);
/* End it if it waits: it is answered with that status, or with ABORTED before its next piece if it is done in pieces.
 * False: it runs on, or is no block command. */
bool tgt_request_end_early(struct tgt_request *request, enum rblk_status status);

/* A COMPARE_AND_WRITE or RESERVE has come (F8). True: do it now. False: it has been answered. */
bool tgt_request_begin_operation(struct tgt_request *request);
/*
 * It ends with this answer (and request->result), which is kept if it says that something was done.
 * Completing the request does it; a caller does it only where the connection was lost meanwhile, before
 * it drops the request. Dropped without it, the number may be used again: nothing was done, or (a
 * RESERVE that goes on without its connection) doing it twice is what doing it once is.
 */
void tgt_request_tell_operation(struct tgt_request *request, enum rblk_status status);
static inline void tgt_request_end_operation(struct tgt_request *request, enum rblk_status status)
{
	if (request->numbered)
		tgt_request_tell_operation(request, status);
}

/*
 * The end of an I/O queue, in two steps. Closed: the connection's, and that of requests that wait; those that the
 * store or the fabric owns count as the volumes' orphans until they end (F5). Idempotent.
 */
void tgt_io_queue_close(struct tgt_io_queue *io_queue);
/* Drained: the fabric no longer accesses any memory. Releases what the outstanding work requests used. */
void tgt_io_queue_drained(struct tgt_io_queue *io_queue);
/*
 * A reservation has removed rights of an initiator; access->refused is up to date. Commands that have not begun and are
 * refused now are answered. Writes that the store has begun count as the volume's orphans until they end, so that the change
 * can wait for them. `aborts`: all other commands that have not begun are answered ABORTED, and
 * reads count, too. Returns true if RDMA READs into the store's own memory are in flight: only the
 * end of the connection bounds how long they take.
 */
bool tgt_io_queue_revoke(struct tgt_io_queue *io_queue, struct tgt_access *access, bool aborts);

/* -- for the steps of commands (command.h) ---------------------------------------------------------- */

/* The turn has done enough of this kind: tgt_request_resume() continues in the next. */
void tgt_request_put_off(struct tgt_request *request);
/* To STORING, from RECEIVED or WAITING. False: refused by the state machine. */
bool tgt_request_begin_storing(struct tgt_request *request);
/* Gives request->io to the store; its kind, flags, offset and bytes are set. buffer: the
 * request's data, or the pool's buffer for it. */
void tgt_request_submit(struct tgt_request *request, char *buffer, bool (*leave)(struct tgt_request *request));
/* request->leave of one that the store has. */
bool tgt_request_withdraw(struct tgt_request *request);
/* The same for the whole command, with its range and its flags. */
void tgt_request_store(struct tgt_request *request, enum tgt_io_kind kind);
/* Its data is to be fetched by RDMA READs, to request->data. */
void tgt_request_fetch(struct tgt_request *request);
static inline bool tgt_request_digest_matches(const struct tgt_request *request)
{
	return !(request->flags & RBLK_CMD_DIGEST) ||
	       rblk_digest(0, request->data, request->length) == request->digest;
}
/* The store is done with the whole of it. */
void tgt_request_ended(struct tgt_request *request, int error);

#endif
