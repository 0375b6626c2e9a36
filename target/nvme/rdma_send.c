/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sending half of a queue. The reactor's READs and WRITEs get the address and the key that the command
 * has; a SEND has one completion of rblk's, which is replaced by NVMe's where it lies. What is for this room becomes a
 * WRITE of nothing, so that completions keep their order, or is left out if nobody waits for its completion. Answers of
 * this room's own, and data that it fetches, have a few places of registered memory, and wait for one.
 */
#include "target/nvme/rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"

#define MEMORY_BYTES (NVME_RDMA_PLACES * (NVME_RDMA_PLACE_BYTES + sizeof(struct nvme_completion)))
#define NO_PLACE 0xffu /* in a wr_id: its completion tells nothing */

/* -- places -------------------------------------------------------------------------------------- */

static bool memory_get(struct nvme_rdma *rdma)
{
	if (rdma->mr)
		return true;
	if (!rdma->memory)
		rdma->memory = calloc(1, MEMORY_BYTES);
	if (!rdma->memory ||
	    fab_mr_register(rdma->conn->fab, rdma->memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE, &rdma->mr))
		return false;
	rdma->lkey = fab_mr_lkey(rdma->mr, rdma->conn->device);
	return true;
}

bool nvme_rdma_send_init(struct nvme_rdma *rdma)
{
	/* At most each of its commands has an answer here, and those may be as many that have not gone out yet. */
	uint32_t answers = 4 * rdma->queue->hello.entries;

	answers = 1u << (32 - __builtin_clz(answers - 1));
	rdma->answer_mask = answers - 1;
	rdma->answers = calloc(answers, sizeof(*rdma->answers));
	return rdma->answers && memory_get(rdma);
}

void nvme_rdma_send_fini(struct nvme_rdma *rdma)
{
	for (uint32_t i = rdma->answer_head; i != rdma->answer_tail; i++)
		free(rdma->answers[i & rdma->answer_mask].data);
	free(rdma->answers);
	fab_mr_deregister(rdma->mr);
	free(rdma->memory);
}

static char *place_data(const struct nvme_rdma *rdma, uint32_t index)
{
	return rdma->memory + index * NVME_RDMA_PLACE_BYTES;
}

static struct nvme_completion *place_completion(const struct nvme_rdma *rdma, uint32_t index)
{
	return (struct nvme_completion *)place_data(rdma, NVME_RDMA_PLACES) + index;
}

/* NVME_RDMA_PLACES: there is none. */
static uint32_t place_find(const struct nvme_rdma *rdma)
{
	uint32_t index = 0;

	while (index < NVME_RDMA_PLACES && rdma->places[index].used)
		index++;
	return index;
}

static bool places_idle(const struct nvme_rdma *rdma)
{
	for (uint32_t i = 0; i < NVME_RDMA_PLACES; i++)
		if (rdma->places[i].used)
			return false;
	return true;
}

bool nvme_rdma_has_room(const struct nvme_queue *queue)
{
	const struct nvme_rdma *rdma = queue->rdma;

	return rdma->answer_head == rdma->answer_tail && place_find(rdma) < NVME_RDMA_PLACES;
}

/* -- answers ------------------------------------------------------------------------------------- */

static void post(struct nvme_rdma *rdma, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (rdma->closed || nvme_rdma_below->ops->post_send(rdma->conn, wr, &bad))
		nvme_rdma_fail(rdma, -EIO);
}

/* A completion, of which wr->sg_list says where it is. */
static void send_fill(const struct nvme_rdma *rdma, struct ibv_send_wr *wr, bool invalidates, uint32_t key)
{
	const struct fab_conn *conn = rdma->conn;

	wr->opcode = invalidates ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
	wr->invalidate_rkey = invalidates ? key : 0;
	wr->sg_list->length = sizeof(struct nvme_completion);
	wr->send_flags &= ~(unsigned int)IBV_SEND_INLINE;
	if (conn->inline_bytes >= sizeof(struct nvme_completion) &&
	    (!invalidates || conn->device->limits.invalidate_inline))
		wr->send_flags |= IBV_SEND_INLINE;
}

/* The first answer: a piece of its data, and its completion behind the last. */
static void answer_post(struct nvme_rdma *rdma, uint32_t index)
{
	struct nvme_rdma_answer *answer = &rdma->answers[rdma->answer_head & rdma->answer_mask];
	uint32_t piece = answer->bytes - answer->done;
	struct ibv_sge sges[] = {{(uintptr_t)place_data(rdma, index), 0, rdma->lkey},
				 {(uintptr_t)place_completion(rdma, index), 0, rdma->lkey}};
	struct ibv_send_wr write = {.wr_id = NVME_RDMA_OWN | NO_PLACE, .sg_list = &sges[0], .num_sge = 1};
	struct ibv_send_wr send = {.wr_id = NVME_RDMA_OWN | index,
				   .sg_list = &sges[1],
				   .num_sge = 1,
				   .send_flags = IBV_SEND_SIGNALED};

	if (piece > NVME_RDMA_PLACE_BYTES)
		piece = NVME_RDMA_PLACE_BYTES;
	write.opcode = IBV_WR_RDMA_WRITE;
	write.wr.rdma.remote_addr = answer->address + answer->done;
	write.wr.rdma.rkey = answer->key;
	sges[0].length = piece;
	if (piece)
		memcpy(place_data(rdma, index), answer->data + answer->done, piece);
	answer->done += piece;
	rdma->places[index] = (struct nvme_rdma_place){.used = true};
	if (answer->done < answer->bytes) {
		write.wr_id = NVME_RDMA_OWN | index;
		write.send_flags = IBV_SEND_SIGNALED;
		post(rdma, &write);
		return;
	}
	write.next = &send;
	*place_completion(rdma, index) = answer->completion;
	send_fill(rdma, &send, answer->invalidates, answer->key);
	free(answer->data);
	rdma->answer_head++;
	post(rdma, piece ? &write : &send);
}

static void answers_post(struct nvme_rdma *rdma)
{
	uint32_t index;

	while (rdma->answer_head != rdma->answer_tail && !rdma->failed &&
	       (index = place_find(rdma)) < NVME_RDMA_PLACES)
		answer_post(rdma, index);
}

/* May the host's key end with the answer? It asks for that. */
static bool invalidates(const struct nvme_rdma *rdma, const struct nvme_slot *slot)
{
	return slot && rdma->device->invalidates && slot->command.sgl == NVME_SGL_KEYED_INVALIDATE &&
	       nvme_data_length(rdma->queue, &slot->command) && nvme_command_key(&slot->command);
}

void nvme_rdma_respond(struct nvme_queue *queue, struct nvme_slot *slot, const struct nvme_completion *completion,
		       void *data, uint32_t bytes)
{
	struct nvme_rdma *rdma = queue->rdma;
	struct ibv_send_wr *reply = rdma->reply;
	struct nvme_rdma_answer *answer;

	/* Connect's may be the last. */
	if (reply && !data && slot) {
		rdma->reply = NULL;
		memcpy((void *)(uintptr_t)reply->sg_list->addr, completion, sizeof(*completion));
		send_fill(rdma, reply, invalidates(rdma, slot), nvme_command_key(&slot->command));
		return;
	}
	if (rdma->answer_tail - rdma->answer_head > rdma->answer_mask) {
		free(data);
		nvme_rdma_fail(rdma, -ENOBUFS);
		return;
	}
	answer = &rdma->answers[rdma->answer_tail++ & rdma->answer_mask];
	*answer = (struct nvme_rdma_answer){.completion = *completion, .data = data, .bytes = bytes};
	if (slot) {
		answer->address = rblk_le64(slot->command.address);
		answer->key = nvme_command_key(&slot->command);
		answer->invalidates = invalidates(rdma, slot);
	}
	answers_post(rdma);
}

bool nvme_rdma_respond_first(struct nvme_rdma *rdma, uint16_t status)
{
	struct nvme_rdma_device *device = rdma->device;
	char *completions = device->own + NVME_RDMA_OWN_RECEIVES * NVME_RDMA_CAPSULE_BYTES;
	struct nvme_completion *completion =
		(struct nvme_completion *)completions + device->answers++ % NVME_RDMA_OWN_RECEIVES;
	struct ibv_sge sge = {(uintptr_t)completion, 0, fab_mr_lkey(device->own_mr, device->device)};
	struct ibv_send_wr send = {.wr_id = NVME_RDMA_OWN | NO_PLACE,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	*completion = (struct nvme_completion){
		.sq_id = rblk_to_le16(rdma->hello->queue),
		.id = rdma->hello->id,
		.status = rblk_to_le16((uint16_t)(status << 1)),
	};
	send_fill(rdma, &send, false, 0);
	return !nvme_rdma_below->ops->post_send(rdma->conn, &send, &bad);
}

/* -- fetched data -------------------------------------------------------------------------------- */

static void fetch_post(struct nvme_rdma *rdma, const struct nvme_command *command, uint32_t bytes, uint32_t index)
{
	struct ibv_sge sge = {(uintptr_t)place_data(rdma, index), bytes, rdma->lkey};
	struct ibv_send_wr read = {.wr_id = NVME_RDMA_OWN | index,
				   .opcode = IBV_WR_RDMA_READ,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .send_flags = IBV_SEND_SIGNALED};

	read.wr.rdma.remote_addr = rblk_le64(command->address);
	read.wr.rdma.rkey = nvme_command_key(command);
	post(rdma, &read);
}

bool nvme_rdma_fetch_first(struct nvme_rdma *rdma, uint32_t bytes)
{
	if (!memory_get(rdma))
		return false;
	fetch_post(rdma, &rdma->connect, bytes, 0);
	return true;
}

void nvme_rdma_fetch(struct nvme_queue *queue, struct nvme_slot *slot)
{
	TAILQ_INSERT_TAIL(&queue->rdma->fetches, slot, link);
	nvme_rdma_send_go_on(queue->rdma);
}

void nvme_rdma_send_go_on(struct nvme_rdma *rdma)
{
	struct nvme_slot *slot;
	uint32_t index;

	answers_post(rdma);
	while (!rdma->failed && (slot = TAILQ_FIRST(&rdma->fetches)) && (index = place_find(rdma)) < NVME_RDMA_PLACES) {
		TAILQ_REMOVE(&rdma->fetches, slot, link);
		rdma->places[index] = (struct nvme_rdma_place){.used = true, .slot = slot};
		fetch_post(rdma, &slot->command, slot->bytes, index);
	}
}

void nvme_rdma_own_sent(struct nvme_rdma *rdma, uint64_t wr_id, bool well)
{
	uint32_t index = (uint32_t)wr_id & NO_PLACE;
	struct nvme_slot *slot;

	if (rdma->state == NVME_RDMA_REFUSED)
		nvme_rdma_lobby_end(rdma);
	else if (rdma->state == NVME_RDMA_READS && well)
		nvme_rdma_first_read(rdma, place_data(rdma, 0));
	if (!well || !rdma->queue || rdma->closed || rdma->failed || index >= NVME_RDMA_PLACES)
		return;
	slot = rdma->places[index].slot;
	rdma->places[index].used = false;
	if (slot) {
		memcpy(slot->data, place_data(rdma, index), slot->bytes);
		nvme_fetched(rdma->queue, slot);
	}
	nvme_rdma_send_go_on(rdma);
	if (rdma->finishes && places_idle(rdma))
		nvme_rdma_fail(rdma, -EPROTO);
	while (nvme_rdma_has_room(rdma->queue) && !rdma->failed && (slot = TAILQ_FIRST(&rdma->parked))) {
		TAILQ_REMOVE(&rdma->parked, slot, link);
		nvme_slot_run(rdma->queue, slot, slot->refused);
	}
}

/* -- the reactor's work requests ----------------------------------------------------------------- */

static void make_nothing(struct ibv_send_wr *wr)
{
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->send_flags &= ~(unsigned int)IBV_SEND_INLINE;
	wr->sg_list = NULL;
	wr->num_sge = 0;
	wr->wr.rdma.remote_addr = 0;
	wr->wr.rdma.rkey = 0;
}

static void translate(const struct nvme_slot *slot, struct ibv_send_wr *wr)
{
	wr->wr.rdma.remote_addr += rblk_le64(slot->command.address);
	wr->wr.rdma.rkey = nvme_command_key(&slot->command);
}

/* False: a mistake of this end. */
static bool take_write(struct nvme_rdma *rdma, struct ibv_send_wr *wr)
{
	const void *data = wr->num_sge ? (const void *)(uintptr_t)wr->sg_list->addr : NULL;
	uint32_t bytes = wr->num_sge ? wr->sg_list->length : 0;
	struct nvme_slot *slot;
	bool well;

	if (!bytes) /* a probe */
		return true;
	well = nvme_io_written(rdma->queue, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, data, bytes, &slot);
	if (slot)
		translate(slot, wr);
	else
		make_nothing(wr);
	return well;
}

static bool take_read(const struct nvme_rdma *rdma, struct ibv_send_wr *wr)
{
	const struct nvme_slot *slot = nvme_slot_of_key(rdma->queue, wr->wr.rdma.rkey);

	if (slot)
		translate(slot, wr);
	return slot;
}

/* One completion: the command's answer takes this work request, if it has one now. */
static bool take_send(struct nvme_rdma *rdma, struct ibv_send_wr *wr)
{
	struct rblk_wire_completion completion;

	if (wr->num_sge != 1 || wr->sg_list->length != sizeof(completion))
		return false;
	memcpy(&completion, (const void *)(uintptr_t)wr->sg_list->addr, sizeof(completion));
	rdma->reply = wr;
	nvme_completed(rdma->queue, &completion);
	if (rdma->reply)
		make_nothing(wr);
	rdma->reply = NULL;
	/* It may have been another range's, or others have waited for its tag. */
	if (!TAILQ_EMPTY(&rdma->queue->waiting))
		rdma->queue->transport->wake(rdma->queue);
	return true;
}

static bool take_wr(struct nvme_rdma *rdma, struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
		return take_write(rdma, wr);
	case IBV_WR_RDMA_READ:
		return take_read(rdma, wr);
	case IBV_WR_SEND:
		return take_send(rdma, wr);
	default:
		return false;
	}
}

int nvme_rdma_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct nvme_rdma *rdma = nvme_rdma(conn);
	struct ibv_send_wr *first = wr, **link = &first;

	for (; wr; wr = wr->next) {
		if (!rdma->failed && !take_wr(rdma, wr))
			nvme_rdma_fail(rdma, -EFAULT);
		/* Never posted, never completed: a READ that had not been one would count as its data. The reactor
		 * closes the connection, and DRAINED releases what they use. */
		if (rdma->failed) {
			*link = NULL;
			break;
		}
		if (wr->num_sge || wr->send_flags & IBV_SEND_SIGNALED)
			link = &wr->next;
		else
			*link = wr->next;
	}
	return first ? nvme_rdma_below->ops->post_send(conn, first, bad) : 0;
}
