/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asynchronous events: rblk's event that a volume has changed becomes a notice to the host, which reads the namespace
 * again: so a volume that grows is larger at a host that has it attached. The new size comes with another OPEN. Admin
 * queue only.
 */
#include "target/nvme/queue.h"

/* A notice, that a namespace's attributes have changed, with the log page that says which. */
#define NOTICE (2u | NVME_LOG_CHANGED << 16)

void nvme_event_tell(struct nvme_queue *queue)
{
	if (!queue->changed || queue->told || !queue->event_count ||
	    !(queue->event_configuration & NVME_EVENT_NAMESPACE))
		return;
	queue->told = true;
	nvme_respond(queue, queue->events[--queue->event_count], NVME_OK, NOTICE);
}

void nvme_event_read(struct nvme_queue *queue, bool keeps, __le32 *list)
{
	if (queue->changed)
		*list = rblk_to_le32(1);
	if (!keeps)
		queue->changed = queue->told = false;
}

void nvme_event_heard(struct nvme_queue *queue, const struct rblk_wire_completion *event)
{
	queue->heard_event = (uint32_t)(rblk_le64(event->result) >> 32);
	queue->reopens |= rblk_le16(event->status) == RBLK_EVENT_VOLUME_CHANGED;
	nvme_event_next(queue);
}

void nvme_event_done(struct nvme_queue *queue, enum nvme_step step, enum rblk_status status)
{
	const struct rblk_wire_volume *volume = (const void *)queue->report;

	queue->step = NVME_STEP_NONE;
	if (step != NVME_STEP_OPEN)
		return;
	/* The timer tries again. */
	queue->reopen_later = status == RBLK_E_BUSY;
	if (status || volume->blocks == queue->controller->volume.blocks)
		return;
	queue->controller->volume.blocks = volume->blocks; /* this queue alone reads it */
	queue->changed = true;
	nvme_event_tell(queue);
}

void nvme_event_next(struct nvme_queue *queue)
{
	struct nvme_slot *held = queue->held;

	nvme_auth_next(queue);
	if (queue->step || !queue->answered)
		return;
	if (held) {
		queue->held = NULL;
		nvme_admin(queue, held);
	}
	/* It may have begun one. */
	if (queue->step)
		return;
	if (queue->heard_event) {
		nvme_step_begin(queue, NVME_STEP_SEEN, NULL);
	} else if (queue->reopens && !(queue->status & NVME_CSTS_SHUT)) {
		queue->reopens = false;
		nvme_step_begin(queue, NVME_STEP_OPEN, NULL);
	}
}
