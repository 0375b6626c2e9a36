/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asynchronous events. rblk's event that a volume has changed becomes a notice to the host, which reads the namespace
 * again: so a volume that grows is larger at a host that has it attached. The new size comes with another OPEN. So does
 * that this controller is in charge now (path.c). Admin queue only.
 */
#include "target/nvme/queue.h"

#include <errno.h>

/* A notice, of its kind, with the log page that says more. */
#define NOTICE_NAMESPACE (2u | NVME_LOG_CHANGED << 16)
#define NOTICE_ANA (2u | 3u << 8 | NVME_LOG_ANA << 16)

void nvme_event_tell(struct nvme_queue *queue)
{
	uint32_t due;

	while (queue->event_count && (due = queue->changed & ~queue->told & queue->event_configuration)) {
		bool ana = due & NVME_EVENT_ANA;

		queue->told |= ana ? NVME_EVENT_ANA : NVME_EVENT_NAMESPACE;
		nvme_respond(queue, queue->events[--queue->event_count], NVME_OK, ana ? NOTICE_ANA : NOTICE_NAMESPACE);
	}
}

bool nvme_event_read(struct nvme_queue *queue, uint32_t event, bool keeps)
{
	bool changed = queue->changed & event;

	if (!keeps) {
		queue->changed &= ~event;
		queue->told &= ~event;
	}
	return changed;
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
	if (status) {
		/* Connect will say why, if the host comes again. */
		if (status != RBLK_E_BUSY && status != RBLK_E_DRAINING &&
		    queue->controller->path.state == NVME_PATH_OPENS)
			queue->transport->fail(queue, -ENODEV);
		return;
	}
	if (nvme_path_opened(queue->controller)) {
		queue->path_changes++;
		queue->changed |= NVME_EVENT_ANA;
	}
	if (volume->blocks != queue->controller->volume.blocks) {
		queue->controller->volume.blocks = volume->blocks; /* this queue alone reads it */
		queue->changed |= NVME_EVENT_NAMESPACE;
	}
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
	} else if ((queue->reopens || queue->controller->path.state == NVME_PATH_DUE) &&
		   !(queue->status & NVME_CSTS_SHUT)) {
		queue->reopens = false;
		nvme_path_opens(queue->controller);
		nvme_step_begin(queue, NVME_STEP_OPEN, NULL);
	}
}
