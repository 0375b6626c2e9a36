/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A fused pair: a Compare, and as the next command of the queue a Write of the same range. They are one
 * COMPARE_AND_WRITE of rblk's, whose data is gathered here; it is small (identify's ACWU), as that of all that is
 * compared. The first asks the host for its data only when its second is there: until then it can be answered at once.
 */
#include "target/nvme/queue.h"

#include <stdlib.h>
#include <string.h>

void nvme_fused_missing(struct nvme_queue *queue)
{
	struct nvme_slot *first = queue->first;

	queue->first_failed = false;
	queue->first = NULL;
	if (first)
		nvme_respond(queue, first, NVME_FUSED_MISSING | NVME_NO_RETRY, 0);
}

void nvme_fused_respond(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t first, uint16_t second)
{
	struct nvme_slot *partner = slot->partner;

	nvme_respond(queue, slot, first, 0);
	nvme_respond(queue, partner, second, 0);
}

/* Both are here, and so is all data: one command. */
static void fused_begin(struct nvme_queue *queue, struct nvme_slot *first, struct nvme_slot *second)
{
	uint32_t bytes = first->bytes;
	uint8_t *both = realloc(first->data, 2 * bytes);

	if (!both) {
		nvme_fused_respond(queue, first, NVME_INTERNAL, NVME_FUSED_FAILED);
		return;
	}
	memcpy(both + bytes, second->data, bytes);
	first->data = both;
	first->bytes = 2 * bytes;
	first->wire.opcode = RBLK_OP_COMPARE_AND_WRITE;
	first->wire.flags = RBLK_CMD_CAPSULE | (second->wire.flags & RBLK_CMD_FUA);
	first->wire.segment.rkey = 0;
	first->wire.segment.length = rblk_to_le32(2 * bytes);
	/* F8: nobody sends it again by this number. */
	first->wire.argument = rblk_to_le64(atomic_fetch_add(&queue->controller->operations, 1) + 1);
	nvme_slot_wait(queue, first);
}

void nvme_fused_arrived(struct nvme_queue *queue, struct nvme_slot *slot)
{
	struct nvme_slot *first = slot->fuse == NVME_FUSE_FIRST ? slot : slot->partner, *second = first->partner;

	if (first->fetches || second->fetches)
		return;
	if (first->damaged || second->damaged)
		nvme_fused_respond(queue, first, first->damaged ? NVME_TRANSPORT : NVME_FUSED_FAILED,
				   second->damaged ? NVME_TRANSPORT : NVME_FUSED_FAILED);
	else
		fused_begin(queue, first, second);
}

static void fused_fetch(struct nvme_queue *queue, struct nvme_slot *first, struct nvme_slot *second)
{
	bool fetches[] = {!first->data, !second->data};

	if (fetches[0])
		first->data = malloc(first->bytes);
	if (fetches[1])
		second->data = malloc(second->bytes);
	if (!first->data || !second->data) {
		nvme_fused_respond(queue, first, NVME_INTERNAL, NVME_FUSED_FAILED);
		return;
	}
	if (fetches[0])
		nvme_fetch(queue, first);
	if (fetches[1])
		nvme_fetch(queue, second);
	nvme_fused_arrived(queue, first);
}

void nvme_fused(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t status)
{
	struct nvme_slot *first = queue->first;
	bool failed = queue->first_failed;

	if (slot->fuse == NVME_FUSE_FIRST) {
		queue->first_failed = status;
		if (status)
			nvme_respond(queue, slot, status, 0);
		else
			queue->first = slot;
		return;
	}
	queue->first = NULL;
	queue->first_failed = false;
	if (!first) {
		nvme_respond(queue, slot, failed ? NVME_FUSED_FAILED : NVME_FUSED_MISSING | NVME_NO_RETRY, 0);
		return;
	}
	if (!status && (slot->wire.lba != first->wire.lba || slot->wire.blocks != first->wire.blocks))
		status = NVME_BAD_FIELD | NVME_NO_RETRY;
	first->partner = slot;
	slot->partner = first;
	if (status)
		nvme_fused_respond(queue, first, NVME_FUSED_FAILED, status);
	else
		fused_fetch(queue, first, slot);
}
