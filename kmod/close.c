// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CLOSE, on queue 0, by drive_work: nobody waits for its answer but who detaches, and that one not
 * for long. The session has a bit for each slot of its handles that is to be closed; CLOSE is sent
 * again when its answer was lost.
 */
#include "kmod/volume.h"
#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/queue.h"

/* No reserved tag was free. */
#define RBLK_CLOSE_AGAIN_MS 10u
/* So much later a CLOSE is sent again that the target refused. */
#define RBLK_CLOSE_REFUSED_MS 100u

void rblk_close_mark(struct rblk_session *session, u32 handle, bool close)
{
	u32 slot = RBLK_HANDLE_SLOT(handle);

	lockdep_assert_held(&session->core_lock);
	if (close)
		__set_bit(slot, session->close_slots);
	else
		__clear_bit(slot, session->close_slots);
	if (session->close_slot == slot)
		session->close_slot = 0;
}

/* rblk_left_fn of CLOSE. */
static void rblk_close_answered(struct rblk_session *session, const struct rblk_call *call,
				void *arg)
{
	const struct rblk_command *command = &call->command;
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	if (command->error || command->status == RBLK_E_BUSY ||
	    command->status == RBLK_E_NO_RESOURCES)
		session->close_due.at = jiffies + msecs_to_jiffies(RBLK_CLOSE_REFUSED_MS);
	else if (session->close_slot)
		__clear_bit(session->close_slot, session->close_slots);
	session->close_sent = false;
	spin_unlock_irqrestore(&session->core_lock, flags);
}

void rblk_close_send(struct rblk_session *session)
{
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_CLOSE,
		.left = rblk_close_answered,
	};
	unsigned long slot;

	spin_lock_irq(&session->core_lock);
	slot = find_first_bit(session->close_slots, RBLK_HANDLES_MAX);
	if (slot < RBLK_HANDLES_MAX && !session->close_sent &&
	    session->core.state == CORE_SESSION_LIVE &&
	    rblk_drive_is_due(session, &session->close_due)) {
		sc.volume = slot;
		session->close_slot = slot;
		session->close_sent = true;
	}
	spin_unlock_irq(&session->core_lock);
	if (!sc.volume || !rblk_call_send(session->queues[0], &sc, 0))
		return;
	spin_lock_irq(&session->core_lock);
	session->close_sent = false;
	spin_unlock_irq(&session->core_lock);
	rblk_drive_in(session, msecs_to_jiffies(RBLK_CLOSE_AGAIN_MS) + 1);
}

void rblk_close_add(struct rblk_session *session, u32 handle)
{
	spin_lock_irq(&session->core_lock);
	rblk_close_mark(session, handle, true);
	session->close_due = (struct rblk_due){ true, jiffies };
	spin_unlock_irq(&session->core_lock);
	rblk_drive_kick(session);
}

static bool rblk_close_is_done(struct rblk_session *session, u32 handle)
{
	bool closed;

	spin_lock_irq(&session->core_lock);
	closed = !test_bit(RBLK_HANDLE_SLOT(handle), session->close_slots) ||
		 session->core.state != CORE_SESSION_LIVE;
	spin_unlock_irq(&session->core_lock);
	return closed;
}

void rblk_close(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;

	rblk_close_add(session, disk->handle);
	/* Whoever has waited for so long goes on; so does the CLOSE. */
	wait_event_timeout(session->wait, rblk_close_is_done(session, disk->handle),
			   msecs_to_jiffies(session->options.command_ms));
}
