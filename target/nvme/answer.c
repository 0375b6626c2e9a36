/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Answers to the commands of a host's queue, and to its Connect. */
#include "target/nvme/queue.h"

static struct nvme_completion completion_of(const struct nvme_queue *queue, uint16_t id, uint16_t status,
					    uint64_t result)
{
	return (struct nvme_completion){
		.result = rblk_to_le64(result),
		.sq_head = rblk_to_le16(queue->hello.no_head ? 0xffff : queue->sq_head),
		.sq_id = rblk_to_le16(queue->hello.queue),
		.id = id,
		.status = rblk_to_le16((uint16_t)(status << 1)),
	};
}

void nvme_respond(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t status, uint64_t result)
{
	struct nvme_completion completion = completion_of(queue, slot->command.id, status, result);

	if (status)
		nvme_errors_keep(queue, slot, status);
	queue->transport->respond(queue, slot, &completion, NULL, 0);
	nvme_slot_put(queue, slot);
}

void nvme_respond_data(struct nvme_queue *queue, struct nvme_slot *slot, void *data, uint32_t bytes)
{
	struct nvme_completion completion = completion_of(queue, slot->command.id, NVME_OK, 0);

	slot->bytes = bytes;
	queue->transport->respond(queue, slot, &completion, data, bytes);
	nvme_slot_put(queue, slot);
}

void nvme_respond_connect(struct nvme_queue *queue, uint16_t status)
{
	struct nvme_completion completion =
		completion_of(queue, queue->hello.id, status, status ? 0 : queue->controller->id);

	/* Connect was answered before: the host authenticates itself. */
	if (nvme_auth_bars(queue)) {
		nvme_auth_set_up(queue, status);
		return;
	}
	queue->answered = status == NVME_OK;
	queue->transport->respond(queue, NULL, &completion, NULL, 0);
	/* A queue that is refused ends, and with it the host's attempt. */
	if (status)
		queue->transport->finish(queue);
}

void nvme_respond_bars(struct nvme_queue *queue)
{
	struct nvme_completion completion =
		completion_of(queue, queue->hello.id, NVME_OK, queue->controller->id | NVME_CONNECT_AUTHENTICATE);

	queue->transport->respond(queue, NULL, &completion, NULL, 0);
}
