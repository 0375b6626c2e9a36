/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Capsules of a host that may be hostile become commands. The data of a write is where the reactor wants it already:
 * the command's descriptor is put behind it, and the receive is the reactor's. Commands without data take the receive
 * that has brought them. Whatever has to wait is copied, and the receive is posted again. The end of a connection that
 * this room finds is told by an event.
 */
#include "target/nvme/rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"

/* -- messages to the reactor --------------------------------------------------------------------- */

static void push(struct nvme_queue *queue, uint64_t wr_id, uint32_t bytes)
{
	struct nvme_rdma *rdma = queue->rdma;

	nvme_rdma_done(rdma->fab, wr_id, rdma->conn->qp_num)->byte_len = bytes;
}

/* The receive at hand, if there is one; else one that was kept back. */
static char *take(struct nvme_queue *queue, uint32_t bytes, uint64_t *wr_id)
{
	struct nvme_rdma *rdma = queue->rdma;
	struct nvme_rdma_device *device = rdma->device;
	const struct nvme_rdma_receive *receive = rdma->offered;
	uint32_t number;

	if (rdma->failed || rdma->closed)
		return NULL;
	if (!receive) {
		if (!device->spare_count || !nvme_rdma_done_room(rdma->fab)) {
			if (rdma->woken || rdma->starved)
				return NULL;
			rdma->starved = true;
			TAILQ_INSERT_TAIL(&rdma->fab->starved, rdma, work_link);
			return NULL;
		}
		number = device->spares[--device->spare_count];
		device->free_numbers[device->free_count++] = number;
		receive = &device->receives[number];
	}
	rdma->offered = NULL;
	if (receive->bytes < bytes) {
		nvme_rdma_fail(rdma, -EFAULT);
		return NULL;
	}
	*wr_id = receive->wr_id;
	return (char *)(uintptr_t)receive->address;
}

/* -- capsules ------------------------------------------------------------------------------------ */

/* Its data waits here. */
static bool data_keep(struct nvme_slot *slot, const char *data, uint32_t bytes)
{
	if (!bytes)
		return true;
	free(slot->data);
	slot->data = malloc(bytes);
	if (slot->data)
		memcpy(slot->data, data, bytes);
	return slot->data;
}

void nvme_rdma_capsule(struct nvme_rdma *rdma, const struct nvme_rdma_receive *receive,
		       const struct nvme_command *command, const char *data, uint32_t bytes)
{
	struct nvme_queue *queue = rdma->queue;
	struct nvme_slot *slot = nvme_slot_get(queue, command);
	uint16_t refused;

	if (!slot) {
		nvme_rdma_fail(rdma, -EPROTO);
		return;
	}
	if (nvme_is_admin(queue))
		queue->heard_ns = env_now_ns();
	if (nvme_slot_begin(queue, slot, bytes, &refused) && receive && TAILQ_EMPTY(&rdma->parked)) {
		rdma->offered = NULL;
		push(queue, receive->wr_id, nvme_slot_place(queue, slot, (char *)(uintptr_t)receive->address));
		return;
	}
	if (!data_keep(slot, data, bytes)) {
		nvme_rdma_fail(rdma, -ENOMEM);
		return;
	}
	slot->refused = refused;
	if (TAILQ_EMPTY(&rdma->parked) && nvme_rdma_has_room(queue))
		nvme_slot_run(queue, slot, refused);
	else
		TAILQ_INSERT_TAIL(&rdma->parked, slot, link);
}

/* -- what is to be done -------------------------------------------------------------------------- */

void nvme_rdma_idle(struct nvme_rdma *rdma)
{
	if (rdma->woken)
		TAILQ_REMOVE(&rdma->fab->woken, rdma, work_link);
	if (rdma->starved)
		TAILQ_REMOVE(&rdma->fab->starved, rdma, work_link);
	if (rdma->told)
		TAILQ_REMOVE(&rdma->fab->failed, rdma, failed_link);
	rdma->woken = rdma->starved = rdma->told = false;
}

static void wake(struct nvme_queue *queue)
{
	struct nvme_rdma *rdma = queue->rdma;

	if (rdma->woken || rdma->closed)
		return;
	if (rdma->starved)
		TAILQ_REMOVE(&rdma->fab->starved, rdma, work_link);
	rdma->starved = false;
	rdma->woken = true;
	TAILQ_INSERT_TAIL(&rdma->fab->woken, rdma, work_link);
}

static bool may_go_on(const struct nvme_rdma *starved)
{
	return starved && starved->device->spare_count && nvme_rdma_done_room(starved->fab);
}

bool nvme_rdma_has_work(const struct nvme_rdma_fab *fab)
{
	return !TAILQ_EMPTY(&fab->woken) || may_go_on(TAILQ_FIRST(&fab->starved));
}

/* Those that were woken before, once each: what they do may wake them again. */
void nvme_rdma_work(struct nvme_rdma_fab *fab)
{
	struct nvme_rdma *rdma, *last;

	while (may_go_on(rdma = TAILQ_FIRST(&fab->starved)))
		wake(rdma->queue);
	last = TAILQ_LAST(&fab->woken, nvme_rdma_list);
	while ((rdma = TAILQ_FIRST(&fab->woken))) {
		TAILQ_REMOVE(&fab->woken, rdma, work_link);
		rdma->woken = false;
		if (!rdma->failed)
			nvme_hand_over(rdma->queue);
		if (rdma == last)
			break;
	}
}

/* -- the end ------------------------------------------------------------------------------------- */

void nvme_rdma_fail(struct nvme_rdma *rdma, int status)
{
	if (rdma->failed || rdma->closed)
		return;
	rdma->failed = true;
	rdma->status = status;
	rdma->conn->lost = status;
	if (rdma->state != NVME_RDMA_ACCEPTED) {
		nvme_rdma_lobby_end(rdma);
		return;
	}
	rdma->told = true;
	TAILQ_INSERT_TAIL(&rdma->fab->failed, rdma, failed_link);
}

/* -- for queue.c --------------------------------------------------------------------------------- */

static void fail(struct nvme_queue *queue, int status)
{
	nvme_rdma_fail(queue->rdma, status);
}

static void finish(struct nvme_queue *queue)
{
	queue->rdma->finishes = true;
}

static void tick(struct nvme_queue *queue, uint32_t ms)
{
	nvme_rdma_timer(queue->rdma, env_now_ns() + ms * 1000000ull);
}

static void local(const struct nvme_queue *queue, struct sockaddr_storage *address)
{
	nvme_rdma_below->local(queue->rdma->conn, address);
}

const struct nvme_transport nvme_rdma_transport = {
	.kind = 1,
	.keyed = true,
	.respond = nvme_rdma_respond,
	.finish = finish,
	.fetch = nvme_rdma_fetch,
	.take = take,
	.push = push,
	.wake = wake,
	.tick = tick,
	.fail = fail,
	.has_room = nvme_rdma_has_room,
	.local = local,
};
