/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asynchronous events. rblk's event that a volume has changed becomes a notice to the host, which reads the namespace
 * again: so a volume that grows is larger at a host that has it attached. The new size comes with another OPEN. So does
 * that this controller is in charge now (path.c). Admin queue only.
 *
 * A volume that was removed is closed, and looked for then and whenever the list of volumes changes. If it is not
 * there, or not with all that was acknowledged (F7), its namespace is gone. With all of that it is back; without, when
 * the host has seen that it was gone: what it knows of the old one must not become writes to the new one.
 */
#include "target/nvme/queue.h"

#include <errno.h>
#include <string.h>

/* A notice, of its kind, with the log page that says more. */
#define NOTICE_NAMESPACE (2u | NVME_LOG_CHANGED << 16)
#define NOTICE_ANA (2u | 3u << 8 | NVME_LOG_ANA << 16)
#define NOTICE_RESERVATION (6u | NVME_LOG_RESERVATIONS << 16)

void nvme_event_tell(struct nvme_queue *queue)
{
	static const struct {
		uint32_t event, notice;
	} kinds[] = {
		{NVME_EVENT_ANA, NOTICE_ANA},
		{NVME_EVENT_RESERVATIONS, NOTICE_RESERVATION},
		{NVME_EVENT_NAMESPACE, NOTICE_NAMESPACE},
	};
	uint32_t wanted = queue->event_configuration | NVME_EVENT_RESERVATIONS;

	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && queue->event_count; i++) {
		if (!(queue->changed & ~queue->told & wanted & kinds[i].event))
			continue;
		queue->told |= kinds[i].event;
		nvme_respond(queue, queue->events[--queue->event_count], NVME_OK, kinds[i].notice);
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
	uint16_t code = rblk_le16(event->status);

	queue->heard_event = (uint32_t)(rblk_le64(event->result) >> 32);
	queue->removed |= code == RBLK_EVENT_VOLUME_REMOVED;
	queue->reopens |=
		code == RBLK_EVENT_VOLUME_CHANGED || (code == RBLK_EVENT_LIST_CHANGED && queue->closed);
	nvme_event_next(queue);
}

void nvme_event_absent(struct nvme_queue *queue)
{
	if (queue->absent)
		return;
	queue->absent = true;
	queue->seen = false;
	queue->changed |= NVME_EVENT_NAMESPACE;
	nvme_event_tell(queue);
}

void nvme_event_seen(struct nvme_queue *queue)
{
	queue->seen = queue->reopens = true;
	nvme_event_next(queue);
}

bool nvme_event_found(struct nvme_queue *queue, const struct rblk_wire_volume *volume)
{
	__u8 *epoch = queue->controller->volume.cache_epoch;

	if (queue->absent && queue->seen)
		memcpy(epoch, volume->cache_epoch, sizeof(volume->cache_epoch));
	return !queue->answered || memcmp(epoch, volume->cache_epoch, sizeof(volume->cache_epoch)) == 0;
}

/*
 * It is open again. Its size alone may be another one: commands on other threads go by the rest of what it was. Else
 * the host gets it by its next Connect. False: the connection has failed.
 */
static bool volume_is_back(struct nvme_queue *queue, const struct rblk_wire_volume *volume)
{
	struct rblk_wire_volume same = *volume;

	same.blocks = queue->controller->volume.blocks;
	if (memcmp(&same, &queue->controller->volume, sizeof(same)) != 0) {
		queue->transport->fail(queue, -ENODEV);
		return false;
	}
	if (queue->absent)
		queue->changed |= NVME_EVENT_NAMESPACE;
	queue->closed = queue->absent = false;
	return true;
}

void nvme_event_done(struct nvme_queue *queue, enum nvme_step step, enum rblk_status status)
{
	const struct rblk_wire_volume *volume = (const void *)queue->report;

	queue->step = NVME_STEP_NONE;
	if (step == NVME_STEP_CLOSE)
		queue->closed = queue->reopens = true;
	if (step == NVME_STEP_CLOSE || step == NVME_STEP_SEEN)
		return;
	/* The timer tries again: also whether another target's controller is still in charge, or the cluster is away.
	 */
	queue->reopen_later = status == RBLK_E_BUSY || status == RBLK_E_NO_RESOURCES || status == RBLK_E_FENCED ||
			      status == RBLK_E_DRAINING;
	/* It could only read, and may write by now: another target's was quicker. The host comes again, and waits. */
	if (status == RBLK_E_FENCED && queue->controller->path.state == NVME_PATH_OPTIMIZED)
		queue->transport->fail(queue, -ESTALE);
	if (status && queue->closed && !queue->reopen_later)
		nvme_event_absent(queue);
	/* Connect will say why, if the host comes again. */
	if (status && !queue->closed && !queue->reopen_later && queue->controller->path.state == NVME_PATH_OPENS)
		queue->transport->fail(queue, -ENODEV);
	/* A volume that is open and cannot be opened again was removed, which an event tells; or the session ends. */
	if (status || (queue->closed && !volume_is_back(queue, volume)))
		return;
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
	} else if (queue->status & NVME_CSTS_SHUT) {
		return;
	} else if (queue->removed) {
		queue->removed = false;
		nvme_step_begin(queue, NVME_STEP_CLOSE, NULL);
	} else if (queue->closed && queue->reopens) {
		queue->reopens = false;
		queue->listed = queue->busy = 0;
		nvme_step_begin(queue, NVME_STEP_LIST, NULL);
	} else if (!queue->closed && (queue->reopens || queue->controller->path.state == NVME_PATH_DUE)) {
		queue->reopens = false;
		nvme_path_opens(queue->controller);
		nvme_step_begin(queue, NVME_STEP_OPEN, NULL);
	}
}
