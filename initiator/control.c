/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the commands that are not I/O: their payloads and reports live in one registered block, one
 * place per reserved tag of queue 0, so that each tag has its own fixed memory.
 */
#include "initiator/session.h"

int ini_control_init(struct rblk_session *session)
{
	session->control.memory = ini_pages_alloc(sizeof(*session->control.memory), &session->control.bytes);
	if (!session->control.memory)
		return -ENOMEM;
	return ini_mr_register(&session->fabs, session->control.memory, session->control.bytes,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			       &session->control.mr);
}

void ini_control_fini(struct rblk_session *session)
{
	ini_mr_deregister(&session->control.mr);
	ini_pages_free(session->control.memory, session->control.bytes);
	session->control.memory = NULL;
}

int ini_control_ready(const struct rblk_session *session)
{
	if (!ini_session_usable(session))
		return -ENOTCONN;
	/* While queue 0 is away, or the volumes are opened anew, it has to wait. */
	if (session->core.state != CORE_SESSION_LIVE)
		return -EAGAIN;
	if (session->queues[0].tags.taken_reserved >= RBLK_RESERVED_TAGS - 1)
		return -EAGAIN;
	return 0;
}

int ini_control_start(struct rblk_session *session, const struct rblk_wire_command *command,
		      const void *payload, size_t payload_bytes, u32 report_bytes,
		      rblk_callback done, void *arg, const void **report)
{
	struct ini_queue *queue = &session->queues[0];
	struct ini_control *control = session->control.memory;
	struct ini_slot *slot;
	__le16 tag;
	u32 place;

	if (queue->state != INI_QUEUE_LIVE)
		return -ENOTCONN;
	if (payload_bytes && queue->capsule_max < RBLK_CAPSULE_ALIGN)
		return -EMSGSIZE;
	slot = ini_slot_take(queue, true);
	if (!slot)
		return -EAGAIN;
	place = slot->tag - queue->tags.credits;
	tag = slot->command.tag;
	slot->command = *command;
	slot->command.tag = tag;
	slot->done = done;
	slot->arg = arg;
	if (payload_bytes) {
		memset(control->payload[place], 0, RBLK_CAPSULE_ALIGN);
		memcpy(control->payload[place], payload, payload_bytes);
		slot->capsule = control->payload[place];
		slot->capsule_bytes = RBLK_CAPSULE_ALIGN;
		slot->capsule_lkey = ini_mr_lkey(&session->control.mr, queue->device);
		slot->command.flags |= RBLK_CMD_CAPSULE;
		slot->command.segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
	}
	if (report_bytes) {
		/* An earlier report here must not be taken for this one. */
		memset(control->report[place], 0, report_bytes);
		slot->command.segment.address =
			rblk_to_le64((uintptr_t)control->report[place]);
		slot->command.segment.rkey =
			rblk_to_le32(ini_mr_rkey(&session->control.mr, queue->device));
		slot->command.segment.length = rblk_to_le32(report_bytes);
		*report = control->report[place];
	}
	ini_slot_start(slot);
	return 0;
}

int ini_control_authenticate(struct ini_queue *queue, const struct rblk_wire_command *command,
			     const struct rblk_wire_authenticate *payload, rblk_callback done)
{
	struct rblk_session *session = queue->session;
	u8 *capsule = session->control.memory->authenticate[queue->index].payload;
	u8 *report = session->control.memory->authenticate[queue->index].report;
	struct ini_slot *slot;
	__le16 tag;

	if (queue->state != INI_QUEUE_LIVE)
		return -ENOTCONN;
	if (queue->capsule_max < RBLK_CAPSULE_ALIGN)
		return -EMSGSIZE;
	slot = ini_slot_take(queue, true);
	if (!slot)
		return -EAGAIN;
	memset(capsule, 0, RBLK_CAPSULE_ALIGN);
	memcpy(capsule, payload, sizeof(*payload));
	memset(report, 0, sizeof(*payload));
	tag = slot->command.tag;
	slot->command = *command;
	slot->command.tag = tag;
	slot->command.flags = RBLK_CMD_CAPSULE;
	slot->command.segment.address = rblk_to_le64((uintptr_t)report);
	slot->command.segment.rkey = rblk_to_le32(ini_mr_rkey(&session->control.mr, queue->device));
	slot->command.segment.length = rblk_to_le32(sizeof(*payload));
	slot->capsule = capsule;
	slot->capsule_bytes = RBLK_CAPSULE_ALIGN;
	slot->capsule_lkey = ini_mr_lkey(&session->control.mr, queue->device);
	slot->done = done;
	slot->arg = queue;
	ini_slot_start(slot);
	return 0;
}

/* -- commands of lost connections -------------------------------------------------------------- */

bool ini_control_again(struct rblk_session *session, struct ini_again *again,
		       const struct rblk_result *result)
{
	if (!result->error || result->status || core_session_over(&session->core))
		return false;
	again->next = session->control.again;
	session->control.again = again;
	session->control.again_due = true;
	return true;
}

bool ini_control_due(const struct rblk_session *session)
{
	return session->control.again && session->control.again_due && session->core.state == CORE_SESSION_LIVE;
}

void ini_control_resume(struct rblk_session *session)
{
	struct ini_again *again = session->control.again;

	if (!again || (session->core.state != CORE_SESSION_LIVE && !session->ended))
		return;
	/* A command that cannot be sent now is queued here again. */
	session->control.again = NULL;
	while (again) {
		struct ini_again *next = again->next;

		again->run(again);
		again = next;
	}
	session->control.again_due = false; /* what is there again waits for an answer */
}

/* -- KEEPALIVE --------------------------------------------------------------------------------- */

/* Nothing to do: an answer that fails the session does so by itself. */
static void keepalive_done(void *arg, const struct rblk_result *result)
{
}

int ini_control_keepalive(struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;
	struct ini_slot *slot = ini_slot_take(queue, true);

	if (!slot)
		return -EAGAIN;
	slot->command.opcode = RBLK_OP_KEEPALIVE;
	if (!queue->index) {
		slot->command.argument = rblk_to_le64(session->events.seen);
		session->events.confirmed = session->events.seen;
	}
	slot->done = keepalive_done;
	ini_slot_start(slot);
	return 0;
}
