/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk's LIST: by it the volume of a subsystem is found, behind Connect and when it may have come back, and discovery
 * knows which subsystems there are.
 */
#include "target/nvme/queue.h"

#include <string.h>

bool nvme_list_is_wanted(const struct nvme_queue *queue, const struct rblk_wire_volume *volume)
{
	char nqn[NVME_NQN_BYTES];

	nvme_subsystem_of(volume->uuid, nqn);
	return strcmp(nqn, queue->hello.identity.subsystem) == 0;
}

/* The volume of the subsystem that the host wants. */
static bool list_find(struct nvme_queue *queue, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		const struct rblk_wire_volume *volume = (const struct rblk_wire_volume *)queue->report + i;

		if (!nvme_list_is_wanted(queue, volume))
			continue;
		memcpy(queue->volume, volume->name, sizeof(queue->volume));
		return nvme_event_found(queue, volume);
	}
	return false;
}

static void list_keep(struct nvme_queue *queue, unsigned int count)
{
	for (unsigned int i = 0; i < count && queue->listed + i < RBLK_VOLUMES_MAX; i++)
		memcpy(queue->uuids[queue->listed + i], ((const struct rblk_wire_volume *)queue->report + i)->uuid,
		       sizeof(*queue->uuids));
}

void nvme_listed(struct nvme_queue *queue, uint64_t result)
{
	unsigned int count = (unsigned int)(result & 0xffffffff), total = (unsigned int)(result >> 32);
	struct nvme_slot *slot = queue->asked_for;

	if (count > RBLK_LIST_MAX)
		count = RBLK_LIST_MAX;
	if (queue->controller->discovery)
		list_keep(queue, count);
	else if (list_find(queue, count)) {
		nvme_step_begin(queue, NVME_STEP_OPEN, NULL);
		return;
	}
	queue->listed += count;
	if (count && queue->listed < total && queue->listed < RBLK_VOLUMES_MAX) {
		nvme_step_begin(queue, NVME_STEP_LIST, slot);
		return;
	}
	queue->asked_for = NULL;
	if (queue->controller->discovery)
		nvme_admin_listed(queue, slot);
	else if (queue->answered)
		nvme_event_absent(queue);
	else
		nvme_respond_connect(queue, NVME_CONNECT_INVALID | NVME_NO_RETRY);
}
