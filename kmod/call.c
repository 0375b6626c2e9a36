// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The session's own commands; see call.h. A reserved tag is taken, and its command on the queue, at
 * once, under queue->lock: so a queue that is down has none that is still to come. It stays taken
 * until the command's end.
 */
#include "kmod/call.h"
#include "kmod/session.h"
#include "kmod/drive.h"
#include "kmod/memory.h"
#include "kmod/queue.h"
#include "kmod/tell.h"
#include "proto/core/trace.h"
#include "proto/wire/wire_names.h"

/* Whoever waits for the end of a command; on its stack, and queue->lock's until `finished`. */
struct rblk_call_waiter {
	struct rblk_session_command *sc;
	int error;
	bool finished; /* stored with release, last */
};

static void rblk_call_tell(const struct rblk_call *call, struct rblk_call_waiter *waiter)
{
	const struct rblk_command *command = &call->command;
	struct rblk_session_command *sc = waiter->sc;

	lockdep_assert_held(&command->queue->lock);
	waiter->error = command->error;
	if (!command->error) {
		sc->status = command->status;
		sc->denied = command->detail;
		waiter->error = rblk_status_errno(command->status);
	}
	if (!waiter->error && sc->report_bytes)
		memcpy(sc->report, rblk_call_report(call), sc->report_bytes);
	smp_store_release(&waiter->finished, true);
}

void rblk_call_finish(struct rblk_call *call)
{
	struct rblk_queue *queue = call->command.queue;
	struct rblk_session *session = queue->session;
	struct rblk_call_waiter *waiter;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	waiter = call->waiter;
	if (waiter)
		rblk_call_tell(call, waiter);
	spin_unlock_irqrestore(&queue->lock, flags);
	if (!waiter && call->left)
		call->left(session, call, call->left_arg);
	spin_lock_irqsave(&queue->lock, flags);
	__clear_bit(call - queue->reserved, &queue->reserved_used);
	spin_unlock_irqrestore(&queue->lock, flags);
	rblk_drive_kick(session); /* another one may have waited for the tag */
	wake_up_all(&session->wait);
}

void rblk_call_fail_all(struct rblk_queue *queue)
{
	unsigned int i;

	for (i = 0; queue->reserved && i < RBLK_RESERVED_TAGS; i++) {
		struct rblk_call *call = &queue->reserved[i];

		if (call->command.account.state == CORE_TAG_FREE)
			continue;
		/*
		 * The next connection may have so many credits that its tag is one for I/O there.
		 */
		queue->commands[call->command.tag] = NULL;
		call->command.error = -ENOTCONN;
		call->command.account.state = CORE_TAG_FREE;
		rblk_call_finish(call);
	}
}

/* Is the answer to it one that may take as long as a volume's storage? Its sender may leave it. */
static bool rblk_call_waits_for_storage(u8 opcode)
{
	return opcode == RBLK_OP_OPEN || opcode == RBLK_OP_CLOSE || opcode == RBLK_OP_RESERVE ||
	       opcode == RBLK_OP_RESERVATIONS;
}

/*
 * How many reserved tags may be taken already for this command to take another. One that waits for
 * a volume's storage leaves one for ABORT and FENCE besides, an OPEN only if no FENCE of all
 * volumes has it, which may last; and every command but KEEPALIVE leaves one for KEEPALIVE.
 */
static unsigned int rblk_call_room(const struct rblk_queue *queue, u8 opcode)
{
	bool fences = false;
	unsigned int i;

	for_each_set_bit(i, &queue->reserved_used, RBLK_RESERVED_TAGS)
		fences |= queue->reserved[i].fences_all;
	if (opcode == RBLK_OP_KEEPALIVE)
		return RBLK_RESERVED_TAGS - 1;
	if (!rblk_call_waits_for_storage(opcode) || (opcode == RBLK_OP_OPEN && fences))
		return RBLK_RESERVED_TAGS - 2;
	return RBLK_RESERVED_TAGS - 3;
}

/*
 * A CLOSE, RESERVE or RESERVATIONS that storage holds up, and that nobody waits for, keeps the next
 * one of these from being sent, so that OPEN finds a tag; the target answers OPEN BUSY after some
 * seconds, and CLOSE ends it.
 */
static bool rblk_call_may_take(const struct rblk_queue *queue, u8 opcode)
{
	unsigned int i;

	lockdep_assert_held(&queue->lock);
	if (hweight_long(queue->reserved_used) > rblk_call_room(queue, opcode))
		return false;
	if (!rblk_call_waits_for_storage(opcode) || opcode == RBLK_OP_OPEN)
		return true;
	for_each_set_bit(i, &queue->reserved_used, RBLK_RESERVED_TAGS) {
		const struct rblk_call *other = &queue->reserved[i];

		if (!other->waiter && other->command.wire.opcode != RBLK_OP_OPEN &&
		    rblk_call_waits_for_storage(other->command.wire.opcode))
			return false;
	}
	return true;
}

/*
 * The payload is in the first half of the command's slot, the report is written to the second, so
 * that they cannot overlap; without a payload, a report may fill the slot.
 */
static u32 rblk_call_report_offset(bool payload)
{
	return payload ? RBLK_SLOT_BYTES_MIN / 2 : 0;
}

const void *rblk_call_report(const struct rblk_call *call)
{
	const struct rblk_command *command = &call->command;

	rblk_memory_sync_slot(command->queue, command->tag, false);
	return rblk_memory_slot(command->queue, command->tag) +
	       rblk_call_report_offset(command->memory == RBLK_MEMORY_CAPSULE);
}

static void rblk_call_fill(struct rblk_command *command, const struct rblk_session_command *sc)
{
	struct rblk_queue *queue = command->queue;
	struct rblk_wire_command *wire = &command->wire;
	u8 *slot = rblk_memory_slot(queue, command->tag);

	wire->flags = sc->flags;
	wire->volume = rblk_to_le32(sc->volume);
	wire->lba = rblk_to_le64(sc->lba);
	wire->argument = rblk_to_le64(sc->argument);
	memset(slot, 0, RBLK_SLOT_BYTES_MIN);
	if (sc->payload_bytes) {
		memcpy(slot, sc->payload, sc->payload_bytes);
		command->bytes = ALIGN(sc->payload_bytes, RBLK_CAPSULE_ALIGN);
		command->memory = RBLK_MEMORY_CAPSULE;
		/* the report's, if there is one */
		wire->segment.length = rblk_to_le32(command->bytes);
		wire->flags |= RBLK_CMD_CAPSULE;
	}
	if (sc->report_bytes) {
		rblk_memory_slot_segment(queue, command->tag, sc->report_bytes, &wire->segment);
		wire->segment.address = rblk_to_le64(rblk_le64(wire->segment.address) +
						     rblk_call_report_offset(sc->payload_bytes));
	}
	rblk_memory_sync_slot(queue, command->tag, true);
}

void rblk_call_late(struct rblk_queue *queue, bool *asks)
{
	unsigned long flags;
	unsigned int i, timeout_ms = 0;
	u8 opcode = 0;

	spin_lock_irqsave(&queue->lock, flags);
	for_each_set_bit(i, &queue->reserved_used, RBLK_RESERVED_TAGS) {
		struct rblk_call *call = &queue->reserved[i];

		if (!call->timeout_ms && !time_before(jiffies, call->end)) {
			call->end = jiffies + msecs_to_jiffies(queue->session->options.command_ms);
			*asks = true;
		}
		if (time_before(jiffies, call->end)) {
			rblk_drive_in(queue->session, call->end - jiffies);
			continue;
		}
		timeout_ms = call->timeout_ms;
		opcode = call->command.wire.opcode;
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	/* A target that lives would have answered it. */
	if (timeout_ms && opcode == RBLK_OP_ABORT)
		rblk_queue_lost(queue,
				"no answer to a command in " RBLK_TIME ", nor to its ABORT in "
				RBLK_TIME,
				RBLK_TIME_OF(queue->session->options.command_ms),
				RBLK_TIME_OF(timeout_ms));
	else if (timeout_ms)
		rblk_queue_lost(queue, "no answer to %s in " RBLK_TIME, rblk_opcode_name(opcode),
				RBLK_TIME_OF(timeout_ms));
}

/*
 * Here alone a command comes to a connection whose target has not proven itself yet: whoever tries
 * again may meet the next connection. While it is up, its epoch stays.
 */
static int rblk_call_check(const struct rblk_queue *queue, const struct rblk_session_command *sc)
{
	if (queue->down || (sc->epoch && sc->epoch != queue->epoch) ||
	    (!queue->proven && sc->opcode != RBLK_OP_AUTHENTICATE))
		return -ENOTCONN;
	return rblk_call_may_take(queue, sc->opcode) ? 0 : -EBUSY;
}

/* *call: only to be looked at by who holds a waiter that is not finished. */
static int rblk_call_post(struct rblk_queue *queue, const struct rblk_session_command *sc,
			  unsigned int timeout_ms, struct rblk_call_waiter *waiter,
			  struct rblk_call **call)
{
	unsigned long flags, bit;
	int error;

	spin_lock_irqsave(&queue->lock, flags);
	error = rblk_call_check(queue, sc);
	if (!error) {
		bit = find_first_zero_bit(&queue->reserved_used, RBLK_RESERVED_TAGS);
		__set_bit(bit, &queue->reserved_used);
		*call = &queue->reserved[bit];
		**call = (struct rblk_call){
			.command.queue = queue,
			.fences_all = sc->opcode == RBLK_OP_FENCE && !sc->volume,
			.waiter = waiter,
			.left = sc->left,
			.left_arg = sc->left_arg,
			.timeout_ms = timeout_ms,
			.end = jiffies + msecs_to_jiffies(timeout_ms ?:
							  queue->session->options.command_ms),
		};
		rblk_command_reset(&(*call)->command, queue->credits + bit, sc->opcode);
		rblk_call_fill(&(*call)->command, sc);
		rblk_queue_add_locked(queue, &(*call)->command);
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	if (!error)
		rblk_queue_kick(queue, true);
	return error;
}

int rblk_call_send(struct rblk_queue *queue, const struct rblk_session_command *sc,
		   unsigned int timeout_ms)
{
	struct rblk_call *call;

	rblk_trace_call(queue, sc);
	return rblk_call_post(queue, sc, timeout_ms, NULL, &call);
}

int rblk_call_run(struct rblk_queue *queue, struct rblk_session_command *sc)
{
	struct rblk_call_waiter waiter = { .sc = sc };
	struct rblk_call *call;
	unsigned long flags;
	int error = rblk_call_post(queue, sc, 0, &waiter, &call);

	if (error)
		return error;
	rblk_drive_kick(queue->session); /* which looks at the times */
	error = wait_event_killable(queue->session->wait, smp_load_acquire(&waiter.finished));
	if (error) {
		spin_lock_irqsave(&queue->lock, flags);
		sc->was_left = !waiter.finished;
		if (sc->was_left)
			call->waiter = NULL;
		spin_unlock_irqrestore(&queue->lock, flags);
	}
	return sc->was_left ? -EINTR : waiter.error;
}
