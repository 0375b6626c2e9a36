/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An NVMe host's queue: its making and its end, its slots, and how its commands and those of its setup are handed to
 * the reactor. Behind Connect of an admin queue the host is named, and the subsystem's volume is found and opened: OPEN
 * waits for the writes of lost connections (F5), and so does the host.
 */
#include "target/nvme/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"

#define HANDLE 1u /* the session's only one, and the namespace's id */
#define CHECK_MS 2000u
#define READY_MS 20u
#define READY_TRIES 500u
#define LIST_RETRIES 1000u /* one LIST is answered in a turn */

/* -- slots --------------------------------------------------------------------------------------- */

struct nvme_slot *nvme_slot_get(struct nvme_queue *queue, const struct nvme_command *command)
{
	struct nvme_slot *slot = TAILQ_FIRST(&queue->free);

	if (!slot)
		return NULL;
	TAILQ_REMOVE(&queue->free, slot, link);
	slot->used = true;
	slot->command = *command;
	slot->segment = slot->bytes = slot->moved = slot->range = slot->ranges = slot->tries = slot->overtaken = 0;
	slot->fuse = NVME_FUSE_NONE;
	slot->partner = NULL;
	return slot;
}

static void slot_free_data(struct nvme_slot *slot)
{
	free(slot->data);
	slot->data = NULL;
}

void nvme_slot_put(struct nvme_queue *queue, struct nvme_slot *slot)
{
	if (slot->tagged) {
		queue->by_tag[slot->tag] = NULL;
		queue->free_tags[queue->free_tag_count++] = slot->tag;
	}
	slot_free_data(slot);
	queue->reports -= slot->reports;
	slot->used = slot->tagged = slot->fetches = slot->damaged = slot->differs = false;
	slot->gathers = slot->reserves = slot->reports = slot->aborting = false;
	TAILQ_INSERT_HEAD(&queue->free, slot, link);
}

/* -- to the reactor ------------------------------------------------------------------------------ */

bool nvme_may_begin(const struct nvme_queue *queue)
{
	return TAILQ_EMPTY(&queue->waiting) && queue->free_tag_count;
}

uint32_t nvme_message_place(struct nvme_queue *queue, char *memory, uint32_t bytes, struct rblk_wire_command *wire)
{
	wire->sequence = rblk_to_le32(queue->sequence++);
	memcpy(memory + bytes, wire, sizeof(*wire));
	return bytes + (uint32_t)sizeof(*wire);
}

uint32_t nvme_slot_place(struct nvme_queue *queue, struct nvme_slot *slot, char *memory)
{
	if (!slot->tagged) {
		slot->tag = queue->free_tags[--queue->free_tag_count];
		slot->tagged = true;
		queue->by_tag[slot->tag] = slot;
	}
	slot->wire.tag = rblk_to_le16(slot->tag);
	return nvme_message_place(queue, memory, slot->wire.flags & RBLK_CMD_CAPSULE ? slot->bytes : 0, &slot->wire);
}

void nvme_slot_wait(struct nvme_queue *queue, struct nvme_slot *slot)
{
	TAILQ_INSERT_TAIL(&queue->waiting, slot, link);
	nvme_hand_over(queue);
}

/* A whole command, which was not refused so far. */
static void slot_go_on(struct nvme_queue *queue, struct nvme_slot *slot)
{
	if (nvme_auth_is_command(&slot->command)) {
		nvme_auth_command(queue, slot);
		return;
	}
	if (slot->gathers && !slot->data) {
		slot->data = malloc(slot->bytes);
		if (slot->data)
			nvme_fetch(queue, slot);
		else
			nvme_respond(queue, slot, NVME_INTERNAL, 0);
	} else if (slot->reserves) {
		nvme_reserve_begin(queue, slot);
	} else if (slot->command.opcode != NVME_DATASET_MANAGEMENT) {
		nvme_slot_wait(queue, slot);
	} else if (nvme_io_next_range(queue, slot)) {
		nvme_slot_wait(queue, slot);
	} else {
		nvme_respond(queue, slot, NVME_OK, 0);
	}
}

bool nvme_slot_begin(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes, uint16_t *refused)
{
	*refused = NVME_OK;
	queue->sq_head = (uint16_t)((queue->sq_head + 1) % queue->hello.entries);
	slot->wire.flags = 0;
	if (nvme_auth_is_command(&slot->command) && (queue->answered || nvme_auth_bars(queue)))
		slot->bytes = capsule_bytes;
	else if (!queue->answered)
		*refused = nvme_auth_bars(queue) ? NVME_AUTH_REQUIRED : NVME_BAD_SEQUENCE;
	else if (!nvme_is_admin(queue))
		*refused = nvme_io_decode(queue, slot, capsule_bytes);
	if (slot->fuse != NVME_FUSE_SECOND)
		nvme_fused_missing(queue);
	return !*refused && slot->wire.flags & RBLK_CMD_CAPSULE && nvme_may_begin(queue);
}

void nvme_slot_run(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t refused)
{
	if (refused && refused != NVME_TRANSPORT && refused != NVME_INACCESSIBLE)
		refused |= NVME_NO_RETRY;
	if (slot->fuse)
		nvme_fused(queue, slot, refused);
	else if (refused)
		nvme_respond(queue, slot, refused, 0);
	else if (nvme_is_admin(queue) && !nvme_auth_is_command(&slot->command))
		nvme_admin(queue, slot);
	else
		slot_go_on(queue, slot);
}

void nvme_fetch(struct nvme_queue *queue, struct nvme_slot *slot)
{
	slot->fetches = true;
	queue->transport->fetch(queue, slot);
}

void nvme_fetched(struct nvme_queue *queue, struct nvme_slot *slot)
{
	slot->fetches = false;
	if (slot->partner)
		nvme_fused_arrived(queue, slot);
	else if (slot->damaged)
		nvme_respond(queue, slot, NVME_TRANSPORT, 0);
	else
		slot_go_on(queue, slot);
}

static void slot_hand_over(struct nvme_queue *queue, struct nvme_slot *slot, char *memory, uint64_t wr_id)
{
	TAILQ_REMOVE(&queue->waiting, slot, link);
	if (slot->wire.flags & RBLK_CMD_CAPSULE) {
		memcpy(memory, slot->data, slot->bytes);
		if (!slot->reserves)
			slot_free_data(slot);
	}
	queue->transport->push(queue, wr_id, nvme_slot_place(queue, slot, memory));
}

/* -- its own commands ---------------------------------------------------------------------------- */

static void step_payload(const struct nvme_queue *queue, char payload[RBLK_CAPSULE_ALIGN])
{
	struct rblk_wire_identify *identify = (void *)payload;
	struct rblk_wire_open *open = (void *)payload;

	memset(payload, 0, RBLK_CAPSULE_ALIGN);
	if (queue->step == NVME_STEP_NONCE || queue->step == NVME_STEP_PROOF) {
		nvme_auth_payload(queue, (void *)payload);
	} else if (queue->step == NVME_STEP_IDENTIFY) {
		memcpy(identify->initiator, queue->hello.name, sizeof(identify->initiator));
		strcpy(identify->software, queue->transport->keyed ? "NVMe host, by RDMA" : "NVMe host");
	} else {
		memcpy(open->name, queue->volume, sizeof(open->name));
	}
}

/* Those that have a payload in the capsule, and those that get a report, of so many bytes. */
static const struct {
	uint8_t opcode;
	bool payload, volume;
	uint32_t report;
} steps[] = {
	[NVME_STEP_NONCE] = {RBLK_OP_AUTHENTICATE, true, false, sizeof(struct rblk_wire_authenticate)},
	[NVME_STEP_PROOF] = {RBLK_OP_AUTHENTICATE, true, false, sizeof(struct rblk_wire_authenticate)},
	[NVME_STEP_IDENTIFY] = {RBLK_OP_IDENTIFY, true, false, 0},
	[NVME_STEP_LIST] = {RBLK_OP_LIST, false, false, NVME_REPORT_BYTES},
	[NVME_STEP_OPEN] = {RBLK_OP_OPEN, true, true, sizeof(struct rblk_wire_volume)},
	[NVME_STEP_CLOSE] = {RBLK_OP_CLOSE, false, true, 0},
	[NVME_STEP_SEEN] = {RBLK_OP_KEEPALIVE, false, false, 0},
	[NVME_STEP_READY] = {RBLK_OP_CHECKSUM, false, true, 0}, /* the smallest one without data */
};

void nvme_step_begin(struct nvme_queue *queue, enum nvme_step step, struct nvme_slot *slot)
{
	struct rblk_wire_command *wire = &queue->step_wire;

	memset(wire, 0, sizeof(*wire));
	wire->opcode = steps[step].opcode;
	wire->flags = steps[step].payload ? RBLK_CMD_CAPSULE : 0;
	wire->tag = rblk_to_le16((uint16_t)queue->credits); /* the first reserved one */
	wire->volume = rblk_to_le32(steps[step].volume ? HANDLE : 0);
	wire->segment.rkey = rblk_to_le32(steps[step].report ? NVME_KEY_REPORT : 0);
	wire->segment.length = rblk_to_le32(steps[step].report ? steps[step].report
					    : steps[step].payload ? RBLK_CAPSULE_ALIGN : 0);
	if (step == NVME_STEP_LIST) {
		wire->lba = rblk_to_le64(queue->listed);
	} else if (step == NVME_STEP_SEEN) {
		wire->argument = rblk_to_le64(queue->heard_event);
		queue->heard_event = 0;
	} else if (step == NVME_STEP_READY) {
		wire->tag = 0; /* it is free until Connect is answered */
		wire->blocks = rblk_to_le32(1);
	}
	queue->step = step;
	queue->asked_for = slot;
	queue->step_waits = true;
	queue->transport->wake(queue);
}

static bool step_hand_over(struct nvme_queue *queue)
{
	uint32_t bytes = queue->step_wire.flags & RBLK_CMD_CAPSULE ? RBLK_CAPSULE_ALIGN : 0;
	uint64_t wr_id;
	char *memory = queue->transport->take(queue, bytes + sizeof(queue->step_wire), &wr_id);

	if (!memory)
		return false;
	queue->step_waits = false;
	if (bytes)
		step_payload(queue, memory);
	queue->transport->push(queue, wr_id, nvme_message_place(queue, memory, bytes, &queue->step_wire));
	return true;
}

void nvme_hand_over(struct nvme_queue *queue)
{
	struct nvme_slot *slot;
	uint64_t wr_id;
	char *memory;

	if (queue->step_waits && !step_hand_over(queue))
		return;
	if (queue->abort_waits && !nvme_abort_hand_over(queue))
		return;
	while ((slot = TAILQ_FIRST(&queue->waiting)) && (slot->tagged || queue->free_tag_count)) {
		memory = queue->transport->take(queue, NVME_CAPSULE_BYTES + sizeof(slot->wire), &wr_id);
		if (!memory)
			return;
		nvme_reserve_number(queue, slot);
		slot_hand_over(queue, slot, memory, wr_id);
	}
}

/* -- what came of them --------------------------------------------------------------------------- */

/* Connect is refused for what its admin queue could not get. */
static uint16_t status_of_step(enum rblk_status status)
{
	switch (status) {
	case RBLK_E_DENIED:
		return NVME_CONNECT_HOST | NVME_NO_RETRY;
	case RBLK_E_NO_VOLUME:
		return NVME_CONNECT_INVALID | NVME_NO_RETRY;
	default:
		return NVME_CONNECT_BUSY;
	}
}

static void step_refused(struct nvme_queue *queue, uint16_t status)
{
	struct nvme_slot *slot = queue->asked_for;

	queue->asked_for = NULL;
	if (slot)
		nvme_respond(queue, slot, NVME_INTERNAL, 0);
	else
		nvme_respond_connect(queue, status);
}

/*
 * F5: what the host has sent to an older controller must not land on what it writes by this one; that its connections
 * are lost may be known to the host alone. So that controller ends if it had the same path, and a second OPEN waits for
 * its writes; or this one waits. The first OPEN shows that this host may use the volume.
 */
static void volume_opened(struct nvme_queue *queue)
{
	enum nvme_path_state state;

	/* Another volume may have its name by now. */
	if (!nvme_list_is_wanted(queue, (const void *)queue->report)) {
		nvme_respond_connect(queue, NVME_CONNECT_BUSY);
		return;
	}
	memcpy(&queue->controller->volume, queue->report, sizeof(queue->controller->volume));
	state = nvme_path_connect(queue);
	if (state == NVME_PATH_OPENS)
		nvme_step_begin(queue, NVME_STEP_OPEN, NULL);
	else
		nvme_respond_connect(queue, state == NVME_PATH_LEFT ? NVME_CONNECT_BUSY : NVME_OK);
}

static void step_completed(struct nvme_queue *queue, enum rblk_status status, uint64_t result)
{
	enum nvme_step step = queue->step;
	struct nvme_slot *slot = queue->asked_for;

	if (step == NVME_STEP_NONCE || step == NVME_STEP_PROOF) {
		nvme_auth_proven(queue, status);
		return;
	}
	/* One in a turn. */
	if (step == NVME_STEP_LIST && status == RBLK_E_BUSY && queue->busy++ < LIST_RETRIES) {
		nvme_step_begin(queue, step, slot);
		return;
	}
	if (queue->answered && !slot && (status || step != NVME_STEP_LIST)) {
		nvme_event_done(queue, step, status);
		return;
	}
	/* A thread registers the memory of a volume with this reactor's devices. */
	if (step == NVME_STEP_READY && status == RBLK_E_BUSY && queue->busy++ < READY_TRIES) {
		queue->step_later = true;
		queue->transport->tick(queue, READY_MS);
		return;
	}
	queue->step = NVME_STEP_NONE;
	if (step == NVME_STEP_READY) {
		nvme_respond_connect(queue, status == RBLK_E_BUSY ? NVME_CONNECT_BUSY : NVME_OK);
		return;
	}
	if (step == NVME_STEP_CLOSE) {
		queue->status |= NVME_CSTS_SHUT;
		nvme_respond(queue, slot, NVME_OK, 0);
		return;
	}
	/* Another target's controller is in charge: this one waits, as those that stand in line here. */
	if (step == NVME_STEP_OPEN && status == RBLK_E_FENCED) {
		queue->reopen_later = true;
		nvme_respond_connect(queue, NVME_OK);
		return;
	}
	if (status) {
		step_refused(queue, status_of_step(status));
		return;
	}
	switch (step) {
	case NVME_STEP_IDENTIFY:
		if (queue->controller->discovery)
			nvme_respond_connect(queue, NVME_OK);
		else
			nvme_step_begin(queue, NVME_STEP_LIST, NULL);
		break;
	case NVME_STEP_LIST:
		nvme_listed(queue, result);
		break;
	case NVME_STEP_OPEN:
		volume_opened(queue);
		break;
	default:
		break;
	}
}

void nvme_completed(struct nvme_queue *queue, const struct rblk_wire_completion *completion)
{
	enum rblk_status status = (enum rblk_status)rblk_le16(completion->status);
	uint16_t tag = rblk_le16(completion->tag), refused = NVME_OK;
	struct nvme_slot *slot = tag < queue->credits ? queue->by_tag[tag] : NULL;

	if (completion->flags & RBLK_CPL_EVENT) {
		nvme_event_heard(queue, completion);
		return;
	}
	if (tag == queue->credits || queue->step == NVME_STEP_READY) {
		step_completed(queue, status, rblk_le64(completion->result));
		nvme_event_next(queue);
		return;
	}
	if (tag == queue->credits + 1) {
		nvme_abort_done(queue, rblk_le64(completion->result));
		nvme_abort_news(queue, false);
		return;
	}
	/* The host has no word for it: it loses the connection, and sends what was not begun on the next one. */
	if (!slot || status == RBLK_E_DRAINING) {
		queue->transport->fail(queue, -ESHUTDOWN);
		return;
	}
	if (slot->reserves) {
		nvme_reserve_done(queue, slot, status);
		return;
	}
	/* In front, because it has a tag, and one that has none may wait for that. */
	if (!status && nvme_io_next_range(queue, slot)) {
		TAILQ_INSERT_HEAD(&queue->waiting, slot, link);
		return;
	}
	if (status)
		refused = status == RBLK_E_ABORTED && slot->aborting ? NVME_ABORTED
								     : nvme_status_of(status, slot->command.opcode);
	else if (slot->differs)
		refused = NVME_DIFFERS | NVME_NO_RETRY;
	if (!slot->partner)
		nvme_respond(queue, slot, refused, 0);
	else if (status == RBLK_E_COMPARE)
		nvme_fused_respond(queue, slot, refused, NVME_FUSED_FAILED | NVME_NO_RETRY);
	else /* another one may have had its number, which is INVALID, too */
		nvme_fused_respond(queue, slot, status == RBLK_E_INVALID ? NVME_INTERRUPTED : refused,
				   status == RBLK_E_INVALID ? NVME_INTERRUPTED : refused);
}

/* -- making and ending --------------------------------------------------------------------------- */

void nvme_queue_free(struct nvme_queue *queue)
{
	for (uint32_t i = 0; i < queue->hello.entries; i++)
		free(queue->slots[i].data);
	if (queue->controller) {
		queue->controller->connected[queue->hello.queue] = false;
		nvme_abort_end(queue);
	}
	if (queue->controller && nvme_is_admin(queue))
		nvme_path_leave(queue->controller);
	nvme_auth_free(queue);
	nvme_controller_put(queue->controller);
	free(queue->report);
	free(queue->uuids);
	free(queue);
}

static bool queue_init(struct nvme_queue *queue)
{
	if (!queue->controller || queue->credits > NVME_ENTRIES_MAX)
		return false;
	for (uint32_t i = queue->hello.entries; i > 0; i--) {
		queue->slots[i - 1].number = (uint16_t)(i - 1);
		TAILQ_INSERT_HEAD(&queue->free, &queue->slots[i - 1], link);
	}
	for (uint32_t i = queue->credits; i > 0; i--)
		queue->free_tags[queue->free_tag_count++] = (uint16_t)(i - 1);
	if (!nvme_is_admin(queue))
		return true;
	queue->report = malloc(NVME_REPORT_BYTES);
	if (queue->controller->discovery)
		queue->uuids = calloc(RBLK_VOLUMES_MAX, sizeof(*queue->uuids));
	return queue->report && (queue->uuids || !queue->controller->discovery);
}

struct nvme_queue *nvme_queue_create(struct nvme_hello *hello, const void *private_data, uint8_t bytes,
				     const struct nvme_transport *transport, const struct fab_conn *conn)
{
	const struct rblk_wire_accept *accept = private_data;
	size_t size = sizeof(struct nvme_queue) + hello->entries * sizeof(struct nvme_slot);
	struct nvme_queue *queue = bytes < sizeof(*accept) ? NULL : calloc(1, size);

	if (!queue)
		return NULL;
	TAILQ_INIT(&queue->free);
	TAILQ_INIT(&queue->waiting);
	TAILQ_INIT(&queue->later);
	queue->hello = *hello;
	queue->hello.is_queue = true;
	queue->hello.controller = NULL;
	queue->transport = transport;
	queue->conn = conn;
	queue->accept = *accept;
	queue->credits = rblk_le16(accept->credits);
	queue->heard_ns = env_now_ns();
	queue->controller = hello->controller;
	hello->controller = NULL;
	if (!queue->controller)
		queue->controller = nvme_controller_create(&hello->identity, hello->name, accept,
							   hello->login.session_id,
							   rblk_le16(hello->login.queue_count));
	if (queue_init(queue))
		return queue;
	nvme_queue_free(queue);
	return NULL;
}

void nvme_queue_begin(struct nvme_queue *queue)
{
	queue->transport->tick(queue, CHECK_MS);
	queue->controller->connected[queue->hello.queue] = true;
	if (!nvme_auth_begin(queue))
		nvme_step_begin(queue, nvme_is_admin(queue) ? NVME_STEP_IDENTIFY : NVME_STEP_READY, NULL);
	queue->transport->wake(queue);
	nvme_check_end(queue); /* this thread may have ended the others of its controller */
}

void nvme_check_end(struct nvme_queue *queue)
{
	if (queue->controller->over)
		queue->transport->fail(queue, queue->controller->replaced ? -ESTALE : 0);
	else if (nvme_is_admin(queue) && queue->controller->path.state == NVME_PATH_DUE)
		nvme_event_next(queue);
	if (nvme_is_admin(queue))
		nvme_notice_news(queue);
	nvme_abort_news(queue, false);
}

void nvme_tick(struct nvme_queue *queue)
{
	/* The host sends one in half of that; twice as long, because this end may be late. */
	uint64_t silence_ns = queue->hello.keep_alive_ms * 2 * 1000000ull;
	uint32_t soon_ms = nvme_auth_timeout(queue);

	queue->transport->tick(queue, soon_ms ? soon_ms : CHECK_MS);
	if (queue->step_later) {
		queue->step_later = false;
		nvme_step_begin(queue, NVME_STEP_READY, NULL);
	}
	if (queue->reopen_later) {
		queue->reopen_later = false;
		queue->reopens = true;
		nvme_event_next(queue);
	}
	if (!TAILQ_EMPTY(&queue->later))
		nvme_reserve_again(queue);
	nvme_check_end(queue);
	nvme_abort_news(queue, true);
	if (nvme_is_admin(queue) && silence_ns && queue->answered && env_now_ns() - queue->heard_ns > silence_ns)
		queue->transport->fail(queue, -ETIMEDOUT);
}
