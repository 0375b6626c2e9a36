/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reservations: NVMe's commands become RESERVE and RESERVATIONS, so that hosts and rblk's own initiators have one list
 * of registrants and one reservation. The data of a command is here until it is answered, because it may be asked
 * again: rblk answers BUSY while another change of the volume is under way, and NVMe has no word for that.
 */
#include "target/nvme/queue.h"

#include <stdlib.h>
#include <string.h>
#include "target/base/registrant.h"

#define DATA_MOST 512u /* of a command's data; hosts send more than its fields */
#define AGAIN_MS 20u
#define AGAIN_MOST 500u
#define OVERTAKEN_MOST 8u

/* -- from the host ------------------------------------------------------------------------------- */

static bool type_valid(uint32_t word10)
{
	uint32_t type = word10 >> 8 & 0xff;

	return type >= RBLK_RESERVATION_WRITE_EXCLUSIVE && type <= RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL;
}

/* Bits that must not be set: reserved ones, and "ignore the existing key" where the specification forbids it. */
static uint16_t words_check(const struct nvme_slot *slot)
{
	uint32_t word10 = nvme_word(slot, 10), action = word10 & 7;
	bool valid = false;

	switch (slot->command.opcode) {
	case NVME_RESERVE_REGISTER:
		valid = action <= NVME_REGISTER_REPLACE && word10 >> 30 != 1 && !(word10 & 0x3ffffff0);
		break;
	case NVME_RESERVE_ACQUIRE:
		valid = action <= NVME_ACQUIRE_PREEMPT_ABORT && type_valid(word10) && !(word10 & 0xffff00f8);
		break;
	case NVME_RESERVE_RELEASE:
		valid = action <= NVME_RELEASE_CLEAR && (action == NVME_RELEASE_CLEAR || type_valid(word10)) &&
			!(word10 & 0xffff00f8);
		break;
	default:
		/* NVMe over Fabrics has host identifiers of 16 bytes alone. */
		return nvme_word(slot, 11) & 1 ? NVME_OK : NVME_HOST_ID_FORMAT;
	}
	return valid ? NVME_OK : NVME_BAD_FIELD;
}

uint16_t nvme_reserve_decode(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes)
{
	bool reports = slot->command.opcode == NVME_RESERVE_REPORT;
	uint64_t least = slot->command.opcode == NVME_RESERVE_RELEASE ? 8 : sizeof(struct nvme_reserve);
	uint64_t most = DATA_MOST;
	uint16_t status = words_check(slot);

	if (!status)
		status = nvme_io_decode_data(queue, slot, capsule_bytes);
	if (status)
		return status;
	if (reports)
		least = most = ((uint64_t)nvme_word(slot, 10) + 1) * 4;
	if (reports && slot->command.sgl == NVME_SGL_CAPSULE)
		return NVME_BAD_SGL_TYPE;
	if (reports && most > NVME_LOG_BYTES)
		return NVME_BAD_FIELD;
	if (slot->bytes < least || slot->bytes > most)
		return NVME_BAD_SGL_LENGTH;
	slot->reserves = true;
	slot->gathers = !reports;
	return NVME_OK;
}

/* -- to rblk ------------------------------------------------------------------------------------- */

static void fill_register(uint32_t word10, const struct nvme_reserve *from, struct rblk_wire_reservation *to,
			  uint8_t *flags)
{
	uint32_t action = word10 & 7, persistence = word10 >> 30;

	to->action = RBLK_RESERVE_REGISTER;
	to->flags = persistence == 3 ? RBLK_RESERVE_PERSIST : persistence == 2 ? RBLK_RESERVE_VOLATILE : 0;
	if (action != NVME_REGISTER_UNREGISTER)
		to->new_key = from->other;
	/* A host that has this key already has succeeded; with another one it has not. */
	if (action == NVME_REGISTER_NEW)
		*flags |= RBLK_CMD_RETRY;
	else if (word10 & NVME_RESERVE_IGNORE_KEY)
		to->flags |= RBLK_RESERVE_IGNORE_KEY;
	else
		to->key = from->key;
}

static void fill_acquire(uint32_t word10, const struct nvme_reserve *from, struct rblk_wire_reservation *to)
{
	uint32_t action = word10 & 7;

	to->action = action == NVME_ACQUIRE ? RBLK_RESERVE_ACQUIRE : RBLK_RESERVE_PREEMPT;
	to->flags = action == NVME_ACQUIRE_PREEMPT_ABORT ? RBLK_RESERVE_ABORT : 0;
	to->type = (__u8)(word10 >> 8);
	to->key = from->key;
	to->other_key = action == NVME_ACQUIRE ? 0 : from->other;
}

static void fill_release(uint32_t word10, const struct nvme_reserve *from, struct rblk_wire_reservation *to)
{
	bool clears = (word10 & 7) == NVME_RELEASE_CLEAR;

	to->action = clears ? RBLK_RESERVE_CLEAR : RBLK_RESERVE_RELEASE;
	to->type = clears ? RBLK_RESERVATION_NONE : (__u8)(word10 >> 8);
	to->key = from->key;
}

/* F8: nobody sends it again by this number. Those of one queue come in the order of their numbers. */
void nvme_reserve_number(const struct nvme_queue *queue, struct nvme_slot *slot)
{
	if (slot->reserves && !slot->reports)
		slot->wire.argument = rblk_to_le64(atomic_fetch_add(&queue->controller->operations, 1) + 1);
}

static uint16_t change_begin(struct nvme_queue *queue, struct nvme_slot *slot)
{
	uint32_t word10 = nvme_word(slot, 10), action = word10 & 7;
	struct rblk_wire_reservation *to = calloc(1, RBLK_CAPSULE_ALIGN);
	bool registers = slot->command.opcode == NVME_RESERVE_REGISTER;
	struct nvme_reserve from = {0};
	uint8_t flags = 0;

	if (!to)
		return NVME_INTERNAL;
	memcpy(&from, slot->data, slot->bytes < sizeof(from) ? slot->bytes : sizeof(from));
	free(slot->data);
	slot->data = (uint8_t *)to;
	slot->bytes = RBLK_CAPSULE_ALIGN;
	if (registers)
		fill_register(word10, &from, to, &flags);
	else if (slot->command.opcode == NVME_RESERVE_ACQUIRE)
		fill_acquire(word10, &from, to);
	else
		fill_release(word10, &from, to);
	/* No registrant has the key 0; to rblk it means a host that is not registered. As the new one it is none, but
	 * Linux asks so to unregister. */
	if (registers && action == NVME_REGISTER_NEW && !to->new_key)
		return NVME_BAD_FIELD | NVME_NO_RETRY;
	if (registers && action != NVME_REGISTER_NEW && !to->key && !(to->flags & RBLK_RESERVE_IGNORE_KEY))
		return NVME_RESERVED | NVME_NO_RETRY;
	slot->wire.opcode = RBLK_OP_RESERVE;
	slot->wire.flags = RBLK_CMD_CAPSULE | flags;
	slot->wire.segment.length = rblk_to_le32(slot->bytes);
	return NVME_OK;
}

static uint16_t report_begin(struct nvme_queue *queue, struct nvme_slot *slot)
{
	/* Each answer takes more of the send queue than others do. */
	if (queue->reports == NVME_REPORTS_MAX)
		return NVME_INTERRUPTED;
	free(slot->data); /* nobody asked for it */
	slot->data = calloc(1, NVME_RESERVATIONS_BYTES);
	if (!slot->data)
		return NVME_INTERNAL;
	queue->reports++;
	slot->reports = true;
	slot->bytes = NVME_RESERVATIONS_BYTES;
	slot->wire.opcode = RBLK_OP_RESERVATIONS;
	slot->wire.segment.rkey = rblk_to_le32(slot->number + 1u);
	slot->wire.segment.length = rblk_to_le32(slot->bytes);
	return NVME_OK;
}

void nvme_reserve_begin(struct nvme_queue *queue, struct nvme_slot *slot)
{
	bool reports = !slot->gathers;
	uint16_t status = reports ? report_begin(queue, slot) : change_begin(queue, slot);

	if (status)
		nvme_respond(queue, slot, status, 0);
	else
		nvme_slot_wait(queue, slot);
}

/* -- to the host --------------------------------------------------------------------------------- */

/* The identifier of an NVMe host; of another initiator one that is made of its name, so that it has always the same. */
static void host_id_of(const char *registrant, __u8 id[16])
{
	const char *digits = registrant + strlen(TGT_REGISTRANT_HOST);
	uint64_t halves[2];

	if (strncmp(registrant, TGT_REGISTRANT_HOST, strlen(TGT_REGISTRANT_HOST)) != 0) {
		halves[0] = nvme_hash(NVME_HASH_SEED, registrant, strlen(registrant));
		halves[1] = nvme_hash(halves[0], registrant, strlen(registrant));
		memcpy(id, halves, sizeof(halves));
		return;
	}
	for (unsigned int i = 0; i < 16; i++, digits += 2) {
		unsigned int byte = 0;

		if (*digits == '-')
			digits++;
		for (unsigned int j = 0; j < 2; j++)
			byte = byte << 4 | (unsigned int)(digits[j] <= '9' ? digits[j] - '0' : digits[j] - 'a' + 10);
		id[i] = (__u8)byte;
	}
}

/* As many of them as the host has room for; it is told how many there are. */
static void report_fill(const struct rblk_wire_reservation_report *from, uint8_t *to, uint64_t bytes)
{
	const struct rblk_wire_registrant *registrants = (const void *)(from + 1);
	uint32_t count = rblk_le32(from->registrants);
	struct nvme_reserve_report head = {
		.generation = from->generation,
		.type = from->type,
		.registrants = {(__u8)count, (__u8)(count >> 8)},
		.persists = from->persists,
	};

	memcpy(to, &head, bytes < sizeof(head) ? bytes : sizeof(head));
	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = sizeof(head) + i * sizeof(struct nvme_reserve_registrant);
		struct nvme_reserve_registrant one = {
			.controller = rblk_to_le16(0xffff), /* hosts' controllers come and go */
			.holder = registrants[i].holder,
			.key = registrants[i].key,
		};

		if (offset >= bytes)
			break;
		host_id_of(registrants[i].initiator, one.host_id);
		memcpy(to + offset, &one, bytes - offset < sizeof(one) ? bytes - offset : sizeof(one));
	}
}

static void report_answer(struct nvme_queue *queue, struct nvme_slot *slot)
{
	const struct rblk_wire_reservation_report *report = (const void *)slot->data;
	uint32_t bytes = (nvme_word(slot, 10) + 1) * 4;
	uint8_t *data;

	if (nvme_is_admin(queue)) { /* a feature: do they persist? */
		nvme_admin_persists(queue, slot, report->persists);
		return;
	}
	data = calloc(1, bytes);
	if (!data) {
		nvme_respond(queue, slot, NVME_INTERNAL, 0);
		return;
	}
	report_fill(report, data, bytes);
	nvme_respond_data(queue, slot, data, bytes);
}

/* Asks rblk again, in a while; the same change, so it does not matter whether the host has gone meanwhile. */
static bool again_later(struct nvme_queue *queue, struct nvme_slot *slot, enum rblk_status status)
{
	/* INVALID may mean its number, which another queue's later ones have overtaken: it gets a new one. */
	if (status == RBLK_E_INVALID ? slot->overtaken++ == OVERTAKEN_MOST :
				       status != RBLK_E_BUSY || slot->tries++ == AGAIN_MOST)
		return false;
	TAILQ_INSERT_TAIL(&queue->later, slot, link);
	queue->transport->tick(queue, AGAIN_MS);
	return true;
}

static uint16_t change_status(const struct nvme_slot *slot, enum rblk_status status)
{
	switch (status) {
	case RBLK_E_ABORTED:
		return slot->aborting ? NVME_ABORTED : nvme_status_of(status, NVME_RESERVE_REGISTER);
	case RBLK_E_UNSUPPORTED: /* the volume's reservations cannot persist */
		return NVME_BAD_FIELD | NVME_NO_RETRY;
	case RBLK_E_NO_RESOURCES: /* places of registrants */
		return NVME_INTERNAL | NVME_NO_RETRY;
	default:
		return nvme_status_of(status, NVME_RESERVE_REGISTER);
	}
}

void nvme_reserve_done(struct nvme_queue *queue, struct nvme_slot *slot, enum rblk_status status)
{
	if (status && again_later(queue, slot, status))
		return;
	if (status)
		nvme_respond(queue, slot, change_status(slot, status), 0);
	else if (slot->reports)
		report_answer(queue, slot);
	else
		nvme_respond(queue, slot, NVME_OK, 0);
}

void nvme_reserve_again(struct nvme_queue *queue)
{
	/* In front: they have tags, for which others may wait. */
	TAILQ_CONCAT(&queue->later, &queue->waiting, link);
	TAILQ_CONCAT(&queue->waiting, &queue->later, link);
	nvme_hand_over(queue);
}
