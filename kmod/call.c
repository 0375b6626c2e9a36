// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The session's own commands; see call.h. A reserved tag is a caller's from reserve to unreserve;
 * that of a command that was left stays taken until its end, since the answer may still come.
 */
#include "kmod/call.h"
#include "kmod/session.h"
#include "kmod/drive.h"
#include "kmod/memory.h"
#include "kmod/queue.h"
#include "proto/wire/wire_names.h"

void rblk_call_finish(struct rblk_call *call)
{
	struct rblk_queue *queue = call->command.queue;
	rblk_left_fn left;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	left = call->left;
	/* From then on the waiter owns the command. */
	smp_store_release(&call->finished, true);
	spin_unlock_irqrestore(&queue->lock, flags);
	if (left) {
		left(queue->session, call, call->left_arg);
		spin_lock_irqsave(&queue->lock, flags);
		call->left = NULL;
		__clear_bit(call - queue->reserved, &queue->reserved_used);
		spin_unlock_irqrestore(&queue->lock, flags);
		rblk_drive_kick(queue->session); /* another one may have waited for the tag */
	}
	wake_up_all(&queue->session->wait);
}

/*
 * The caller goes away, and the command stays outstanding: payload and report are in its slot.
 * False: it has ended, or is of a kind that is not left, because a target that lives answers it at
 * once.
 */
static bool rblk_call_leave(struct rblk_call *call, struct rblk_session_command *sc)
{
	struct rblk_queue *queue = call->command.queue;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	sc->was_left = sc->left && !call->finished;
	if (sc->was_left) {
		call->left = sc->left;
		call->left_arg = sc->left_arg;
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	return sc->was_left;
}

void rblk_call_forget(struct rblk_session *session, const struct rblk_call *call, void *arg)
{
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
 * One that storage holds up, and that nobody waits for, keeps this one from being sent: an OPEN,
 * which the target answers BUSY after some seconds, only the next one of its volume.
 */
static bool rblk_call_stuck(const struct rblk_call *call, const struct rblk_session_command *sc)
{
	u8 opcode = call->command.wire.opcode;
	bool opens = opcode == RBLK_OP_OPEN;

	if (!call->left || !rblk_call_waits_for_storage(opcode) ||
	    opens != (sc->opcode == RBLK_OP_OPEN))
		return false;
	/* The name is in the payload. */
	return !opens || !memcmp(rblk_memory_slot(call->command.queue, call->command.tag),
				 sc->payload, sc->payload_bytes);
}

/*
 * Volumes that hang take one of the two tags for commands that wait for storage at most: other
 * disks' OPEN has the other.
 */
static bool rblk_call_may_take(const struct rblk_queue *queue,
			       const struct rblk_session_command *sc)
{
	unsigned int i;

	lockdep_assert_held(&queue->lock);
	if (hweight_long(queue->reserved_used) > rblk_call_room(queue, sc->opcode))
		return false;
	for (i = 0; rblk_call_waits_for_storage(sc->opcode) && i < RBLK_RESERVED_TAGS; i++)
		if (rblk_call_stuck(&queue->reserved[i], sc))
			return false;
	return true;
}

/*
 * While it is held, the queue's memory stays: rblk_queue_stop() waits for rblk_call_unreserve().
 * Here alone a command comes to a connection whose target has not proven itself yet: a caller that
 * tries again may meet the next connection.
 */
static struct rblk_call *rblk_call_reserve(struct rblk_queue *queue,
					   const struct rblk_session_command *sc)
{
	struct rblk_call *call = ERR_PTR(-EBUSY);
	unsigned long flags, bit;

	spin_lock_irqsave(&queue->lock, flags);
	bit = find_first_zero_bit(&queue->reserved_used, RBLK_RESERVED_TAGS);
	/* While it is up, its epoch stays; and it is not taken down while it has callers. */
	if (queue->down || (sc->epoch && sc->epoch != queue->epoch) ||
	    (!queue->proven && sc->opcode != RBLK_OP_AUTHENTICATE)) {
		call = ERR_PTR(-ENOTCONN);
	} else if (rblk_call_may_take(queue, sc)) {
		__set_bit(bit, &queue->reserved_used);
		queue->session_callers++;
		call = &queue->reserved[bit];
		call->fences_all = sc->opcode == RBLK_OP_FENCE && !sc->volume;
		call->finished = false;
		call->left = NULL;
		call->timeout_ms = 0;
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	if (IS_ERR(call))
		return call;
	call->command.queue = queue;
	INIT_LIST_HEAD(&call->command.entry);
	return call;
}

/* `answered`: the tag may be used again. Otherwise its answer may still come. */
static void rblk_call_unreserve(struct rblk_queue *queue, struct rblk_call *call, bool answered)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	if (answered) {
		call->left = NULL;
		__clear_bit(call - queue->reserved, &queue->reserved_used);
	}
	if (!--queue->session_callers)
		wake_up(&queue->session_idle); /* under the lock: the waiter frees the queue */
	spin_unlock_irqrestore(&queue->lock, flags);
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

static long rblk_call_sleep(struct rblk_call *call, unsigned long timeout)
{
	struct rblk_queue *queue = call->command.queue;
	unsigned long end = jiffies + timeout, slice = msecs_to_jiffies(RBLK_CALL_POLL_MS);
	long left = 0;

	if (!queue->polled)
		return wait_event_killable_timeout(queue->session->wait,
						   smp_load_acquire(&call->finished), timeout);
	while (!left && (timeout == MAX_SCHEDULE_TIMEOUT || time_before(jiffies, end))) {
		rblk_queue_poll(queue, NULL);
		left = wait_event_killable_timeout(queue->session->wait,
						   smp_load_acquire(&call->finished), slice);
	}
	return left;
}

/* A target that lives would have answered it. */
static void rblk_call_unanswered(struct rblk_queue *queue, u8 opcode, unsigned int timeout_ms)
{
	if (opcode == RBLK_OP_ABORT)
		rblk_queue_lost(queue, "no answer to a command in %u ms, nor to its ABORT in %u ms",
				queue->session->options.command_ms, timeout_ms);
	else
		rblk_queue_lost(queue, "no answer to %s in %u ms", rblk_opcode_name(opcode),
				timeout_ms);
}

unsigned long rblk_call_late(struct rblk_queue *queue)
{
	unsigned long flags, next = MAX_JIFFY_OFFSET;
	unsigned int i, timeout_ms = 0;
	u8 opcode = 0;

	spin_lock_irqsave(&queue->lock, flags);
	for_each_set_bit(i, &queue->reserved_used, RBLK_RESERVED_TAGS) {
		const struct rblk_call *call = &queue->reserved[i];

		if (!call->timeout_ms)
			continue;
		if (time_before(jiffies, call->end)) {
			next = min(next, call->end - jiffies);
			continue;
		}
		timeout_ms = call->timeout_ms;
		opcode = call->command.wire.opcode;
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	if (timeout_ms)
		rblk_call_unanswered(queue, opcode, timeout_ms);
	return next;
}

/* Until it has been answered, or cannot be any more. */
static int rblk_call_wait(struct rblk_call *call, struct rblk_session_command *sc,
			  unsigned int timeout_ms)
{
	struct rblk_queue *queue = call->command.queue;
	long left = rblk_call_sleep(call, timeout_ms == RBLK_CALL_FOREVER
						  ? MAX_SCHEDULE_TIMEOUT
						  : msecs_to_jiffies(timeout_ms));

	if (left > 0)
		return 0;
	if (rblk_call_leave(call, sc))
		return left < 0 ? -EINTR : -ETIMEDOUT;
	if (smp_load_acquire(&call->finished))
		return 0;
	rblk_call_unanswered(queue, sc->opcode, timeout_ms);
	return -ETIMEDOUT;
}

/* On failure the call is not the caller's any more. */
static int rblk_call_post(struct rblk_queue *queue, struct rblk_call *call,
			  const struct rblk_session_command *sc)
{
	int error;

	rblk_command_reset(&call->command, queue->credits + (call - queue->reserved), sc->opcode);
	rblk_call_fill(&call->command, sc);
	error = rblk_queue_add(queue, &call->command);
	if (error)
		rblk_call_unreserve(queue, call, true);
	else
		rblk_queue_kick_now(queue);
	return error;
}

int rblk_call_send(struct rblk_queue *queue, const struct rblk_session_command *sc,
		   unsigned int timeout_ms)
{
	struct rblk_call *call = rblk_call_reserve(queue, sc);
	int error;

	if (IS_ERR(call))
		return PTR_ERR(call);
	call->left = sc->left;
	call->left_arg = sc->left_arg;
	call->timeout_ms = timeout_ms;
	call->end = jiffies + msecs_to_jiffies(timeout_ms);
	error = rblk_call_post(queue, call, sc);
	if (!error)
		rblk_call_unreserve(queue, call, false);
	return error;
}

int rblk_call_run(struct rblk_queue *queue, struct rblk_session_command *sc,
		  unsigned int timeout_ms)
{
	struct rblk_call *call = rblk_call_reserve(queue, sc);
	struct rblk_command *command;
	int error;

	if (IS_ERR(call))
		return PTR_ERR(call);
	error = rblk_call_post(queue, call, sc);
	if (error)
		return error;
	error = rblk_call_wait(call, sc, timeout_ms);
	if (error) {
		rblk_call_unreserve(queue, call, false);
		return error;
	}
	command = &call->command;
	error = command->error;
	if (!error) {
		sc->status = command->status;
		sc->denied = sc->status == RBLK_E_DENIED ? command->detail : RBLK_DENIED_UNSAID;
		sc->result = command->detail;
		error = rblk_status_errno(command->status);
	}
	if (!error && sc->report_bytes)
		memcpy(sc->report, rblk_call_report(call), sc->report_bytes);
	rblk_call_unreserve(queue, call, true);
	return error;
}
