/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The two messages: commands (initiator to target) and replies (target to initiator).
 * Specification sections 4 and 5.
 *
 *   command message:  [ in-capsule data, 0.. bytes ][ descriptor 0 ] ... [ descriptor K-1 ]
 *   reply message:    [ completion 0 ] ... [ completion K-1 ]
 *
 * Descriptors are at the *end* so that in-capsule data begins where the receiver's buffer begins:
 * page aligned, fit for direct I/O without a copy. A single command without data is 64 bytes.
 */
#ifndef RBLK_WIRE_MESSAGE_H
#define RBLK_WIRE_MESSAGE_H

#include "proto/wire/types.h"

#define RBLK_BATCH_MAX 64          /* descriptors in a command message */
#define RBLK_REPLY_BATCH_MAX 64    /* completions in a reply message */
#define RBLK_CAPSULE_ALIGN 512     /* of in-capsule data: offset and length */
#define RBLK_CAPSULE_DATA_MAX (64u << 10) /* in-capsule bytes of one message, at most */
#define RBLK_IO_BYTES_MAX (16u << 20)     /* data of one command, whatever the target agrees */

/* The longest message that any target may agree to. */
#define RBLK_COMMAND_BYTES_MAX (RBLK_CAPSULE_DATA_MAX + RBLK_BATCH_MAX * 64u)
/* The shortest: one command with one payload (RBLK_CAPSULE_ALIGN bytes) in its capsule. */
#define RBLK_COMMAND_BYTES_MIN (RBLK_CAPSULE_ALIGN + 64u)

/*
 * F8: commands that are not idempotent carry an operation number in `argument`: 1, 2, 3, ... in the
 * session, the same again when it is retried. Number n is used only when n - RBLK_OPERATIONS_MAX
 * has been answered, so that a reply cache of this many entries per session never drops one too
 * soon.
 */
#define RBLK_OPERATIONS_MAX 64

enum rblk_opcode {
	RBLK_OP_INVALID = 0,
	RBLK_OP_READ = 1,
	RBLK_OP_WRITE = 2,
	RBLK_OP_FLUSH = 3,
	RBLK_OP_DISCARD = 4,
	RBLK_OP_WRITE_ZEROES = 5,
	/* data: blocks to compare, then blocks to write; argument: operation number (F8) */
	RBLK_OP_COMPARE_AND_WRITE = 6,
	RBLK_OP_CHECKSUM = 7,          /* result: CRC32C of the range */
	RBLK_OP_EXTENTS = 10, /* reports: struct rblk_wire_extent[]; result: how many */

	/* The following may use the reserved tags. */
	RBLK_OP_IDENTIFY = 16,     /* in capsule: struct rblk_wire_identify */
	RBLK_OP_AUTHENTICATE = 17, /* in capsule and in the report: struct rblk_wire_authenticate */
	RBLK_OP_LIST = 18,         /* lba: first index; reports: struct rblk_wire_volume[] */
	RBLK_OP_OPEN = 19,         /* volume: the handle; in capsule: struct rblk_wire_open; reports rblk_wire_volume */
	RBLK_OP_CLOSE = 20,        /* volume: the handle */
	RBLK_OP_FENCE = 21,        /* lba: queue index; argument: incarnation; volume: or none (F5) */
	RBLK_OP_ABORT = 22,        /* lba: sequence number of the command, on this queue;
				      result: enum rblk_abort_result */
	RBLK_OP_KEEPALIVE = 23,    /* argument: number of the last event seen, or 0 */
	RBLK_OP_PING = 24,         /* answered at once; result: the answering thread's CPU time, ns */
	/* 25 is reserved */
	RBLK_OP_RESERVE = 26, /* in capsule: struct rblk_wire_reservation; argument: as for 6 */
	RBLK_OP_RESERVATIONS = 27, /* reports: struct rblk_wire_reservation_report */
	RBLK_OP_MAX
};

enum rblk_abort_result {
	RBLK_ABORT_RUNS = 0,    /* it has begun, and runs on */
	RBLK_ABORT_DROPPED = 1, /* it is answered ABORTED */
	RBLK_ABORT_UNKNOWN = 2, /* it is not outstanding: it was answered before */
};

enum rblk_command_flag {
	RBLK_CMD_FUA = 1u << 0,        /* what this command writes is durable when it succeeds */
	RBLK_CMD_CAPSULE = 1u << 1,    /* data in the message; segment.address: offset, rkey 0 */
	RBLK_CMD_INVALIDATE = 1u << 2, /* the reply may invalidate segment.rkey (F3) */
	RBLK_CMD_DIGEST = 1u << 3,     /* WRITE: digest is valid; READ: the completion has one */
	RBLK_CMD_IMMEDIATE = 1u << 4,  /* READ: may be completed by RDMA WRITE WITH IMMEDIATE */
	RBLK_CMD_RETRY = 1u << 5,      /* sent before on an incarnation since fenced (F5, F8) */
	RBLK_CMD_NO_UNMAP = 1u << 6,   /* WRITE_ZEROES: keep the space allocated */
	RBLK_CMD_UNTORN = 1u << 6,     /* WRITE: all or nothing of it survives a loss of power */
	RBLK_CMD_PRIORITY = 1u << 7,   /* block commands: before others of its session */
};
#define RBLK_CMD_FLAGS_ALL 0xffu

/*
 * Memory of the initiator, or a place in the message (RBLK_CMD_CAPSULE). OPEN and AUTHENTICATE both
 * send a payload and get a report: there RBLK_CMD_CAPSULE is set, `argument` is the offset of the
 * payload (RBLK_CAPSULE_ALIGN bytes) and the segment is memory for the report.
 * rblk_command_capsule() handles the difference.
 */
struct rblk_wire_segment {
	__le64 address;
	__le32 rkey;
	__le32 length; /* bytes */
};
RBLK_ASSERT_SIZE(struct rblk_wire_segment, 16);

struct rblk_wire_command {
	__u8 opcode;      /* enum rblk_opcode */
	__u8 flags;       /* enum rblk_command_flag */
	__le16 tag;       /* unique among the queue's outstanding commands; indexes the slot */
	__u8 index;       /* of this descriptor in its message, 0.. */
	__u8 reserved0[3];
	__le32 sequence;  /* of this command on this incarnation: 0, 1, 2, ... (wraps) */
	__le32 volume;    /* handle; 0 where the opcode has none */
	__le64 lba;       /* first block, in the volume's block size */
	__le32 blocks;    /* how many blocks; 0 where the opcode has none */
	__le32 digest;    /* CRC32C of the data, with RBLK_CMD_DIGEST */
	struct rblk_wire_segment segment; /* all zero where there is no data */
	__le64 argument;  /* the opcode's own */
	__u8 reserved1[8];
};
RBLK_ASSERT_SIZE(struct rblk_wire_command, 64);
RBLK_ASSERT_OFFSET(struct rblk_wire_command, tag, 2);
RBLK_ASSERT_OFFSET(struct rblk_wire_command, sequence, 8);
RBLK_ASSERT_OFFSET(struct rblk_wire_command, lba, 16);
RBLK_ASSERT_OFFSET(struct rblk_wire_command, segment, 32);
RBLK_ASSERT_OFFSET(struct rblk_wire_command, argument, 48);

/* Outcome of a command. rblk_status_errno() converts it to an errno. */
enum rblk_status {
	RBLK_OK = 0,
	RBLK_E_BUSY = 1,          /* not begun; over a limit, or no buffer in time: retry */
	RBLK_E_UNSUPPORTED = 2,   /* this target, store or session cannot do that */
	RBLK_E_INVALID = 3,       /* a field makes no sense for this volume */
	RBLK_E_NO_VOLUME = 4,     /* no such volume, or a handle that is not open */
	RBLK_E_RANGE = 5,         /* beyond the end of the volume */
	RBLK_E_READ_ONLY = 6,
	RBLK_E_IO = 7,            /* the store failed */
	RBLK_E_NO_SPACE = 8,      /* the store is full */
	RBLK_E_MEDIUM = 9,        /* data cannot be read back */
	RBLK_E_DIGEST = 10,       /* data did not match its digest; nothing was stored */
	RBLK_E_COMPARE = 11,      /* COMPARE_AND_WRITE; result: offset of the first difference */
	RBLK_E_ABORTED = 12,      /* by ABORT, before it began */
	RBLK_E_FENCED = 13,       /* by FENCE or a newer incarnation, before it began */
	RBLK_E_RESERVED = 14,     /* another initiator holds a reservation */
	RBLK_E_DENIED = 15,       /* not authenticated, or not allowed */
	RBLK_E_DRAINING = 16,     /* the target is shutting down; not begun */
	RBLK_E_GONE = 17,         /* the volume was removed or changed while open */
	RBLK_E_NO_RESOURCES = 18, /* memory or handles ran out at the target */
	RBLK_E_MAX
};

enum rblk_completion_flag {
	RBLK_CPL_DIGEST = 1u << 0,      /* digest is valid */
	RBLK_CPL_INVALIDATED = 1u << 1, /* this message's SEND invalidates this command's rkey */
	RBLK_CPL_EVENT = 1u << 2,       /* no command: struct is an event; tag is RBLK_TAG_EVENT */
};
#define RBLK_CPL_FLAGS_ALL 0x7u

#define RBLK_TAG_EVENT 0xffffu

struct rblk_wire_completion {
	__le16 tag;
	__le16 status;   /* enum rblk_status; for an event: enum rblk_event */
	__u8 flags;      /* enum rblk_completion_flag */
	__u8 reserved[3];
	__le64 result;   /* the opcode's own; for an event: number << 32 | volume handle */
	__le32 queued_us; /* from arrival to the store's submission, data in included */
	__le32 stored_us; /* in the store */
	__le32 digest;   /* CRC32C of the data read, with RBLK_CPL_DIGEST */
	__le32 sequence; /* of the command, echoed: tells a completion of another incarnation */
};
RBLK_ASSERT_SIZE(struct rblk_wire_completion, 32);
RBLK_ASSERT_OFFSET(struct rblk_wire_completion, result, 8);
RBLK_ASSERT_OFFSET(struct rblk_wire_completion, queued_us, 16);
RBLK_ASSERT_OFFSET(struct rblk_wire_completion, sequence, 28);

/*
 * An event: the target reports it without a command, if RBLK_FEATURE_EVENTS is agreed, on queue 0.
 * One event is outstanding at a time: the next follows the KEEPALIVE whose argument is the event's
 * number.
 */
enum rblk_event {
	RBLK_EVENT_NONE = 0,
	RBLK_EVENT_VOLUME_CHANGED = 1, /* size or flags: OPEN it again to get them */
	RBLK_EVENT_VOLUME_REMOVED = 2,
	RBLK_EVENT_LIST_CHANGED = 3,
	RBLK_EVENT_DRAINING = 4, /* the target will end its connections */
	RBLK_EVENT_MAX
};

/*
 * The immediate of a read completed by RDMA WRITE WITH IMMEDIATE: tag, and the two stage times in
 * 8 bits each (rblk_time_encode()). On the wire it is big-endian like every immediate (htonl).
 */
static inline u32 rblk_immediate(u16 tag, u8 queued_code, u8 stored_code)
{
	return (u32)tag << 16 | (u32)queued_code << 8 | stored_code;
}

/*
 * Microseconds as 5 bits of exponent and 3 of mantissa: exact to 15, then to within one eighth.
 * Codes order as their times do; what is beyond the largest is the largest.
 */
u8 rblk_time_encode(u32 us);
u32 rblk_time_decode(u8 code);

#endif
