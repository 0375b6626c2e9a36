/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands of I/O: NVMe's become rblk's, and rblk's statuses become NVMe's. What depends on the volume as it is now is
 * checked below, as for rblk's own initiators.
 */
#include "target/nvme/queue.h"

#include <string.h>

#define NAMESPACE 1u
#define ALL_NAMESPACES 0xffffffffu

/* -- statuses ------------------------------------------------------------------------------------ */

uint16_t nvme_status_of(enum rblk_status status, uint8_t opcode)
{
	static const uint16_t statuses[RBLK_E_MAX] = {
		[RBLK_E_BUSY] = NVME_INTERRUPTED,
		[RBLK_E_UNSUPPORTED] = NVME_BAD_OPCODE | NVME_NO_RETRY,
		[RBLK_E_INVALID] = NVME_BAD_FIELD | NVME_NO_RETRY,
		[RBLK_E_NO_VOLUME] = NVME_BAD_NAMESPACE | NVME_NO_RETRY,
		[RBLK_E_RANGE] = NVME_RANGE | NVME_NO_RETRY,
		[RBLK_E_READ_ONLY] = NVME_WRITE_PROTECTED | NVME_NO_RETRY,
		[RBLK_E_IO] = NVME_INTERNAL,
		[RBLK_E_NO_SPACE] = NVME_FULL | NVME_NO_RETRY,
		[RBLK_E_DIGEST] = NVME_TRANSPORT,
		[RBLK_E_COMPARE] = NVME_DIFFERS | NVME_NO_RETRY,
		[RBLK_E_MEDIUM] = NVME_MEDIUM_READ | NVME_NO_RETRY,
		[RBLK_E_ABORTED] = NVME_PREEMPTED, /* by RESERVE */
		[RBLK_E_FENCED] = NVME_ABORTED,
		[RBLK_E_RESERVED] = NVME_RESERVED | NVME_NO_RETRY,
		[RBLK_E_DENIED] = NVME_DENIED | NVME_NO_RETRY,
		[RBLK_E_GONE] = NVME_BAD_NAMESPACE | NVME_NO_RETRY,
		[RBLK_E_NO_RESOURCES] = NVME_INTERRUPTED,
	};

	if (status == RBLK_E_MEDIUM && opcode != NVME_READ && opcode != NVME_COMPARE && opcode != NVME_VERIFY)
		return NVME_MEDIUM_WRITE | NVME_NO_RETRY;
	return status < RBLK_E_MAX && statuses[status] ? statuses[status] : NVME_INTERNAL;
}

/* -- commands ------------------------------------------------------------------------------------ */

static const struct nvme_io commands[] = {
	[NVME_FLUSH] = {.to = RBLK_OP_FLUSH, .needs = RBLK_VOLUME_FLUSH},
	[NVME_WRITE] = {.to = RBLK_OP_WRITE, .writes = true, .ranged = true, .word12 = NVME_FUA},
	[NVME_READ] = {.to = RBLK_OP_READ, .ranged = true},
	[NVME_COMPARE] = {.to = RBLK_OP_READ, .ranged = true, .word12 = NVME_FUA},
	[NVME_WRITE_ZEROES] = {.to = RBLK_OP_WRITE_ZEROES, .writes = true, .ranged = true,
			       .word12 = NVME_FUA | NVME_DEALLOCATE, .needs = RBLK_VOLUME_WRITE_ZEROES},
	[NVME_DATASET_MANAGEMENT] = {.to = RBLK_OP_DISCARD, .writes = true, .needs = RBLK_VOLUME_DISCARD},
	/* The target reads the blocks; their checksum is not sent. */
	[NVME_VERIFY] = {.to = RBLK_OP_CHECKSUM, .ranged = true, .word12 = NVME_FUA, .needs = RBLK_VOLUME_CHECKSUM},
	[NVME_RESERVE_REGISTER] = {.to = RBLK_OP_RESERVE, .needs = RBLK_VOLUME_RESERVATIONS},
	[NVME_RESERVE_REPORT] = {.to = RBLK_OP_RESERVATIONS, .needs = RBLK_VOLUME_RESERVATIONS},
	[NVME_RESERVE_ACQUIRE] = {.to = RBLK_OP_RESERVE, .needs = RBLK_VOLUME_RESERVATIONS},
	[NVME_RESERVE_RELEASE] = {.to = RBLK_OP_RESERVE, .needs = RBLK_VOLUME_RESERVATIONS},
};

const struct nvme_io *nvme_io_of(uint8_t opcode)
{
	return opcode < sizeof(commands) / sizeof(commands[0]) && commands[opcode].to ? &commands[opcode] : NULL;
}

/* Its range. Bits of word 12 beside the count must be among `flags`; "limited retry" is a hint. */
static uint16_t decode_range(struct nvme_slot *slot, uint32_t flags)
{
	uint32_t word12 = nvme_word(slot, 12);

	if (word12 & ~(0xffff | NVME_LIMITED_RETRY | flags))
		return NVME_BAD_FIELD;
	slot->wire.lba = rblk_to_le64(nvme_block(&slot->command));
	slot->wire.blocks = rblk_to_le32((word12 & 0xffff) + 1);
	return NVME_OK;
}

uint16_t nvme_io_decode_data(const struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes)
{
	const struct nvme_command *command = &slot->command;
	uint32_t length = nvme_data_length(queue, command);

	if (command->sgl == NVME_SGL_CAPSULE) {
		if (command->address)
			return NVME_BAD_SGL_OFFSET;
		if (length != capsule_bytes)
			return NVME_BAD_SGL_LENGTH;
	} else if (!nvme_is_remote(queue, command)) {
		return NVME_BAD_SGL_TYPE;
	} else if (capsule_bytes) {
		return NVME_BAD_SGL_LENGTH;
	}
	slot->bytes = length;
	return NVME_OK;
}

static uint16_t decode_transfer(const struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes)
{
	uint16_t status = nvme_io_decode_data(queue, slot, capsule_bytes);
	bool capsule = slot->command.sgl == NVME_SGL_CAPSULE;

	if (status)
		return status;
	if (slot->bytes != (uint64_t)rblk_le32(slot->wire.blocks) * nvme_block_bytes(queue))
		return NVME_BAD_SGL_LENGTH;
	if (slot->bytes > rblk_le32(queue->controller->volume.max_io_bytes))
		return NVME_BAD_FIELD;
	if (capsule && slot->command.opcode == NVME_READ)
		return NVME_BAD_SGL_TYPE;
	slot->wire.flags |= capsule ? RBLK_CMD_CAPSULE : 0;
	/* A volume in memory may change data after its digest was computed. */
	if (nvme_data_digest_bytes(&queue->hello) &&
	    (slot->command.opcode != NVME_READ || !nvme_has(queue, RBLK_VOLUME_FLUSH)))
		slot->wire.flags |= RBLK_CMD_DIGEST;
	slot->wire.segment.rkey = rblk_to_le32(capsule ? 0 : slot->number + 1u);
	slot->wire.segment.length = rblk_to_le32(slot->bytes);
	return NVME_OK;
}

/* A Compare is a READ whose data is compared where it would be sent (send.c), or the first of a pair. */
static uint16_t decode_compare(const struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes)
{
	uint16_t status = nvme_io_decode_data(queue, slot, capsule_bytes);

	if (status)
		return status;
	if (slot->bytes != (uint64_t)rblk_le32(slot->wire.blocks) * nvme_block_bytes(queue))
		return NVME_BAD_SGL_LENGTH;
	if (slot->bytes > (slot->fuse ? nvme_fused_bytes(queue) : NVME_COMPARE_BYTES))
		return NVME_BAD_FIELD;
	slot->gathers = true;
	slot->wire.segment.rkey = rblk_to_le32(slot->number + 1u);
	slot->wire.segment.length = rblk_to_le32(slot->bytes);
	return NVME_OK;
}

static uint16_t decode_ranges(const struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes)
{
	uint32_t ranges = (nvme_word(slot, 10) & 0xff) + 1;
	uint16_t status = nvme_io_decode_data(queue, slot, capsule_bytes);

	if (status)
		return status;
	if (slot->bytes < ranges * sizeof(struct nvme_range) ||
	    slot->bytes > NVME_DSM_RANGES * sizeof(struct nvme_range))
		return NVME_BAD_SGL_LENGTH;
	/* Other attributes are hints. */
	slot->ranges = nvme_word(slot, 11) & NVME_DSM_DEALLOCATE ? ranges : 0;
	slot->gathers = slot->ranges;
	return NVME_OK;
}

uint16_t nvme_io_decode(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes)
{
	const struct nvme_command *command = &slot->command;
	uint32_t namespace = rblk_le32(command->namespace), word12 = nvme_word(slot, 12);
	const struct nvme_io *io = nvme_io_of(command->opcode);
	struct rblk_wire_command *wire = &slot->wire;
	uint16_t status;

	memset(wire, 0, sizeof(*wire));
	wire->volume = rblk_to_le32(NAMESPACE);
	/* F5: it must not pass those of another path that have not ended. */
	if (queue->controller->path.state != NVME_PATH_OPTIMIZED)
		return NVME_INACCESSIBLE;
	if ((command->flags & ~NVME_FLAGS_FUSE) != NVME_FLAGS_SGL)
		return NVME_BAD_FIELD;
	slot->fuse = command->flags & NVME_FLAGS_FUSE;
	if (slot->fuse && command->opcode != (slot->fuse == NVME_FUSE_FIRST ? NVME_COMPARE : NVME_WRITE)) {
		/* One that is neither fuses with nothing. */
		if (slot->fuse > NVME_FUSE_SECOND)
			slot->fuse = NVME_FUSE_NONE;
		return NVME_BAD_FIELD;
	}
	if (namespace != NAMESPACE && !(command->opcode == NVME_FLUSH && namespace == ALL_NAMESPACES))
		return NVME_BAD_NAMESPACE;
	if (!io || (io->needs && !nvme_has(queue, io->needs)))
		return NVME_BAD_OPCODE;
	wire->opcode = io->to;
	wire->flags = io->writes && io->word12 & word12 & NVME_FUA ? RBLK_CMD_FUA : 0;
	status = io->ranged ? decode_range(slot, io->word12) : NVME_OK;
	if (status)
		return status;
	switch (command->opcode) {
	case NVME_READ:
	case NVME_WRITE:
		status = decode_transfer(queue, slot, capsule_bytes);
		if (slot->fuse) /* its data comes here */
			wire->flags &= RBLK_CMD_FUA;
		return status;
	case NVME_COMPARE:
		return decode_compare(queue, slot, capsule_bytes);
	case NVME_DATASET_MANAGEMENT:
		return decode_ranges(queue, slot, capsule_bytes);
	case NVME_RESERVE_REGISTER:
	case NVME_RESERVE_REPORT:
	case NVME_RESERVE_ACQUIRE:
	case NVME_RESERVE_RELEASE:
		return nvme_reserve_decode(queue, slot, capsule_bytes);
	case NVME_WRITE_ZEROES:
		wire->flags |= word12 & NVME_DEALLOCATE ? 0 : RBLK_CMD_NO_UNMAP;
		break;
	default:
		break;
	}
	return capsule_bytes ? NVME_BAD_SGL_LENGTH : NVME_OK;
}

bool nvme_io_next_range(struct nvme_queue *queue, struct nvme_slot *slot)
{
	uint32_t most = rblk_le32(queue->controller->volume.max_discard_blocks);
	struct nvme_range range;
	uint32_t blocks;

	for (; slot->range < slot->ranges; slot->range++) {
		uint8_t *place = slot->data + slot->range * sizeof(range);

		memcpy(&range, place, sizeof(range));
		blocks = rblk_le32(range.blocks);
		if (!blocks)
			continue;
		if (most && blocks > most)
			blocks = most;
		slot->wire.lba = range.lba;
		slot->wire.blocks = rblk_to_le32(blocks);
		range.lba = rblk_to_le64(rblk_le64(range.lba) + blocks);
		range.blocks = rblk_to_le32(rblk_le32(range.blocks) - blocks);
		memcpy(place, &range, sizeof(range));
		return true;
	}
	return false;
}

/* -- data from the reactor ----------------------------------------------------------------------- */

bool nvme_io_written(struct nvme_queue *queue, uint32_t key, uint64_t offset, const void *data, uint32_t bytes,
		     struct nvme_slot **slot)
{
	struct nvme_slot *of = nvme_slot_of_key(queue, key);
	bool reports = key == NVME_KEY_REPORT || (of && of->reports);
	uint8_t *memory = key == NVME_KEY_REPORT ? queue->report : of ? of->data : NULL;
	uint32_t room = key == NVME_KEY_REPORT ? NVME_REPORT_BYTES : of ? of->bytes : 0;

	*slot = NULL;
	if (of && !reports && (of->command.opcode != NVME_COMPARE || nvme_is_admin(queue))) {
		*slot = of;
		return true;
	}
	if (!memory || offset > room || bytes > room - offset)
		return false;
	if (reports)
		memcpy(memory + offset, data, bytes);
	else
		of->differs |= memcmp(memory + offset, data, bytes) != 0;
	return true;
}
