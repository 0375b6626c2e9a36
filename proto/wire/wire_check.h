/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Validators: is a message from a peer well formed in itself? Pure functions over bytes, no state.
 * The state machines check whether it fits the session, the volume or the credits.
 *
 * Each returns RBLK_WIRE_OK or the first rule that is broken; rblk_wire_error_text() describes it.
 * The length is checked before any field is read. `length` is what arrived, in bytes; private data
 * may be longer than its struct (connection managers pad it), messages may not. Data is aligned to
 * 8 bytes, as every receive buffer and private data copy is.
 */
#ifndef RBLK_WIRE_CHECK_H
#define RBLK_WIRE_CHECK_H

#include "proto/wire/wire.h"

enum rblk_wire_error {
	RBLK_WIRE_OK = 0,
	RBLK_WIRE_SHORT,          /* shorter than the struct, or a broken number of structs */
	RBLK_WIRE_LONG,           /* longer than allowed */
	RBLK_WIRE_MAGIC,
	RBLK_WIRE_VERSION,
	RBLK_WIRE_RESERVED,       /* a reserved byte or flag is set */
	RBLK_WIRE_SESSION_ID,     /* of the session, or the target's instance: all zero */
	RBLK_WIRE_EPOCH,          /* zero */
	RBLK_WIRE_INCARNATION,    /* zero, or not above the fenced one */
	RBLK_WIRE_QUEUE,          /* index or count out of range */
	RBLK_WIRE_CREDITS,
	RBLK_WIRE_SIZES,          /* a size field out of its limits */
	RBLK_WIRE_REASON,         /* unknown reject reason */
	RBLK_WIRE_BATCH,          /* number of descriptors or completions */
	RBLK_WIRE_INDEX,          /* a descriptor's index is not its place */
	RBLK_WIRE_OPCODE,
	RBLK_WIRE_FLAGS,          /* a flag that this opcode, or this session, does not have */
	RBLK_WIRE_TAG,
	RBLK_WIRE_VOLUME,         /* handle missing, or present where the opcode has none */
	RBLK_WIRE_BLOCKS,         /* lba or count missing, or present where the opcode has none */
	RBLK_WIRE_SEGMENT,        /* segment missing, malformed, or present where there is none */
	RBLK_WIRE_CAPSULE,        /* in-capsule data outside the message, unaligned, overlapping */
	RBLK_WIRE_ARGUMENT,       /* missing, out of range, or present where the opcode has none */
	RBLK_WIRE_DIGEST,         /* present without its flag */
	RBLK_WIRE_STATUS,
	RBLK_WIRE_NAME,           /* not terminated, empty, or a character that is not allowed */
	RBLK_WIRE_PAYLOAD,        /* a field of a payload */
	RBLK_WIRE_PORTAL,         /* a portal's address, port or kind, or how many there are */
	RBLK_WIRE_ERROR_MAX
};

const char *rblk_wire_error_text(enum rblk_wire_error error);

enum rblk_wire_error rblk_check_login(const void *data, size_t length);
enum rblk_wire_error rblk_check_accept(const void *data, size_t length);
enum rblk_wire_error rblk_check_reject(const void *data, size_t length);

/*
 * A command message: on success *commands points at the first descriptor inside `data`, *count of
 * them, and *capsule_bytes of in-capsule data stand before them. Every descriptor has passed
 * rblk_check_command(), and the in-capsule ranges tile [0, capsule_bytes) in the descriptors' order
 * without gap or overlap. `features` are those agreed at login; max_batch and command_bytes too.
 */
enum rblk_wire_error rblk_check_message(const void *data, size_t length, u32 features,
					u16 max_batch, u32 command_bytes,
					const struct rblk_wire_command **commands, u16 *count,
					u32 *capsule_bytes);

/* One descriptor, apart from its place in a message. */
enum rblk_wire_error rblk_check_command(const struct rblk_wire_command *command, u32 features);

/*
 * Where a command's in-capsule data is in its message; false where it has none. For a command that
 * has passed rblk_check_command().
 */
static inline bool rblk_command_capsule(const struct rblk_wire_command *command, u32 *offset, u32 *length)
{
	if (!(command->flags & RBLK_CMD_CAPSULE) || command->opcode >= RBLK_OP_MAX)
		return false;
	/* The two whose segment is memory for a report. */
	if (command->opcode == RBLK_OP_OPEN || command->opcode == RBLK_OP_AUTHENTICATE) {
		*offset = (u32)rblk_le64(command->argument);
		*length = RBLK_CAPSULE_ALIGN;
	} else {
		*offset = (u32)rblk_le64(command->segment.address);
		*length = rblk_le32(command->segment.length);
	}
	return true;
}

/* A reply message; as rblk_check_message(). tags: credits + RBLK_RESERVED_TAGS of the queue. */
enum rblk_wire_error rblk_check_reply(const void *data, size_t length, u32 features, u32 tags,
				      const struct rblk_wire_completion **completions,
				      u16 *count);

/*
 * Payloads of an initiator: `length` is the in-capsule length, and what follows the struct must be
 * zero. Each fits RBLK_CAPSULE_ALIGN.
 */
enum rblk_wire_error rblk_check_identify(const void *data, size_t length);
enum rblk_wire_error rblk_check_authenticate(const void *data, size_t length);
enum rblk_wire_error rblk_check_open(const void *data, size_t length);
enum rblk_wire_error rblk_check_reservation(const void *data, size_t length);
/* `length`: of the memory that the target was to write the report to. */
enum rblk_wire_error rblk_check_reservation_report(const void *data, size_t length);

/* Reports of a target: `length` bytes can be read; only the struct is checked. `features`: agreed on its queue. */
enum rblk_wire_error rblk_check_volume(const void *data, size_t length, u32 features);
/*
 * The answer to EXTENTS of `blocks` blocks: `count` (the completion's result) extents in the
 * `length` bytes of the segment.
 */
enum rblk_wire_error rblk_check_extents(const void *data, size_t length, u64 count, u32 blocks);

/*
 * A datagram of discovery of the wanted type (enum rblk_discover_type), exactly `length` bytes. On
 * success an answer's portal_count and portals are within their limits.
 */
enum rblk_wire_error rblk_check_discover(const void *data, size_t length, u16 type);

/* A name field: 1..RBLK_NAME_BYTES-1 characters of [A-Za-z0-9._:+-], zero filled to its end. */
bool rblk_name_valid(const char name[RBLK_NAME_BYTES]);
/* And one that tells this host from others: neither RBLK_NAME_UNNAMED, nor what a host is called that has no name. */
bool rblk_name_distinct(const char name[RBLK_NAME_BYTES]);

/* May this opcode use a reserved tag? False for an unknown one. */
bool rblk_opcode_reserved_tag(u8 opcode);

enum rblk_data_direction { RBLK_DATA_NONE, RBLK_DATA_TO_TARGET, RBLK_DATA_TO_INITIATOR };
/* READ and the opcodes that report: to the initiator. OPEN and AUTHENTICATE count as reporting. */
enum rblk_data_direction rblk_opcode_direction(u8 opcode);

#endif
