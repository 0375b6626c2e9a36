/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Validators of what every peer may send: login, acceptance, refusal, command and reply messages
 * (payloads: wire_check_payload.c); and the code that packs a time into a byte. Pure functions over
 * bytes, called by both ends before any field is used. The state machines check what depends on the
 * session, the volume or the credits; one table here says what each opcode may carry.
 */
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_bytes.h"

/* The meanings of an opcode's lba and argument, beside "must be zero". */
enum number_rule {
	NUMBER_NONE = 0, /* must be zero */
	NUMBER_ANY,
	NUMBER_QUEUE,     /* a queue's index */
	NUMBER_U32,       /* fits 32 bits */
	NUMBER_U32_ONE,   /* fits 32 bits and is not zero */
	NUMBER_NOT_ZERO,
	NUMBER_CAPSULE,   /* offset of the payload in the message */
};

enum segment_rule {
	SEGMENT_NONE = 0, /* must be all zero */
	SEGMENT_BLOCKS,   /* whole blocks, in memory or (RBLK_CMD_CAPSULE allowed) in the capsule */
	SEGMENT_PAYLOAD,  /* one payload in the capsule; RBLK_CMD_CAPSULE must be set */
	SEGMENT_REPORT,   /* memory for a report of at least report_bytes */
	SEGMENT_BOTH,     /* likewise, and a payload in the capsule at `argument` */
};

#define ALWAYS (RBLK_CMD_RETRY) /* any command may be a retry */
#define BLOCK (ALWAYS | RBLK_CMD_PRIORITY)

struct opcode_rule {
	u8 flags;        /* that the opcode may have; 0: no such opcode */
	u8 segment;      /* enum segment_rule */
	u8 lba;          /* enum number_rule */
	u8 argument;     /* enum number_rule */
	u8 direction;    /* enum rblk_data_direction */
	bool volume;     /* needs a handle; else it must be zero */
	u32 volume_feature; /* with which it may have a handle; 0: none */
	bool blocks;     /* needs a count; else it must be zero */
	bool reserved_tag;
	u16 report_bytes; /* the least length of the segment, where it reports */
	u32 feature;      /* without which there is no such opcode; 0: none */
};

static const struct opcode_rule opcode_rules[] = {
	[RBLK_OP_READ] = {
		.flags = BLOCK | RBLK_CMD_INVALIDATE | RBLK_CMD_DIGEST | RBLK_CMD_IMMEDIATE,
		.segment = SEGMENT_BLOCKS, .direction = RBLK_DATA_TO_INITIATOR,
		.volume = true, .lba = NUMBER_ANY, .blocks = true,
	},
	[RBLK_OP_WRITE] = {
		.flags = BLOCK | RBLK_CMD_FUA | RBLK_CMD_CAPSULE | RBLK_CMD_INVALIDATE |
			 RBLK_CMD_DIGEST,
		.segment = SEGMENT_BLOCKS, .direction = RBLK_DATA_TO_TARGET,
		.volume = true, .lba = NUMBER_ANY, .blocks = true,
	},
	[RBLK_OP_FLUSH] = { .flags = BLOCK, .volume = true },
	[RBLK_OP_DISCARD] = {
		.flags = BLOCK, .volume = true, .lba = NUMBER_ANY, .blocks = true,
	},
	[RBLK_OP_WRITE_ZEROES] = {
		.flags = BLOCK | RBLK_CMD_FUA | RBLK_CMD_NO_UNMAP,
		.volume = true, .lba = NUMBER_ANY, .blocks = true,
	},
	[RBLK_OP_COMPARE_AND_WRITE] = {
		.flags = BLOCK | RBLK_CMD_FUA | RBLK_CMD_CAPSULE | RBLK_CMD_INVALIDATE |
			 RBLK_CMD_DIGEST,
		.segment = SEGMENT_BLOCKS, .direction = RBLK_DATA_TO_TARGET,
		.volume = true, .lba = NUMBER_ANY, .blocks = true, .argument = NUMBER_NOT_ZERO,
	},
	[RBLK_OP_CHECKSUM] = {
		.flags = BLOCK, .volume = true, .lba = NUMBER_ANY, .blocks = true,
	},
	[RBLK_OP_EXTENTS] = {
		.flags = BLOCK | RBLK_CMD_INVALIDATE, .feature = RBLK_FEATURE_EXTENTS,
		.segment = SEGMENT_REPORT, .direction = RBLK_DATA_TO_INITIATOR,
		.volume = true, .lba = NUMBER_ANY, .blocks = true,
		.report_bytes = sizeof(struct rblk_wire_extent),
	},
	[RBLK_OP_IDENTIFY] = {
		.flags = ALWAYS | RBLK_CMD_CAPSULE, .reserved_tag = true,
		.segment = SEGMENT_PAYLOAD, .direction = RBLK_DATA_TO_TARGET,
	},
	[RBLK_OP_AUTHENTICATE] = {
		.flags = ALWAYS | RBLK_CMD_CAPSULE | RBLK_CMD_INVALIDATE, .reserved_tag = true,
		.segment = SEGMENT_BOTH, .direction = RBLK_DATA_TO_INITIATOR,
		.argument = NUMBER_CAPSULE,
		.report_bytes = sizeof(struct rblk_wire_authenticate),
	},
	[RBLK_OP_LIST] = {
		.flags = ALWAYS | RBLK_CMD_INVALIDATE, .reserved_tag = true,
		.segment = SEGMENT_REPORT, .direction = RBLK_DATA_TO_INITIATOR,
		.lba = NUMBER_U32, .report_bytes = sizeof(struct rblk_wire_volume),
	},
	[RBLK_OP_OPEN] = {
		.flags = ALWAYS | RBLK_CMD_CAPSULE | RBLK_CMD_INVALIDATE, .reserved_tag = true,
		.segment = SEGMENT_BOTH, .direction = RBLK_DATA_TO_INITIATOR,
		.volume = true, .argument = NUMBER_CAPSULE, .report_bytes = sizeof(struct rblk_wire_volume),
	},
	[RBLK_OP_CLOSE] = { .flags = ALWAYS, .reserved_tag = true, .volume = true },
	[RBLK_OP_FENCE] = {
		.flags = ALWAYS, .reserved_tag = true,
		.lba = NUMBER_QUEUE, .argument = NUMBER_U32_ONE,
		.volume_feature = RBLK_FEATURE_VOLUME_FENCE,
	},
	[RBLK_OP_ABORT] = { .flags = ALWAYS, .reserved_tag = true, .lba = NUMBER_U32 },
	[RBLK_OP_KEEPALIVE] = { .flags = ALWAYS, .reserved_tag = true, .argument = NUMBER_U32 },
	[RBLK_OP_PING] = { .flags = ALWAYS, .reserved_tag = true },
	[RBLK_OP_RESERVE] = {
		.flags = ALWAYS | RBLK_CMD_CAPSULE, .reserved_tag = true,
		.segment = SEGMENT_PAYLOAD, .direction = RBLK_DATA_TO_TARGET,
		.volume = true, .argument = NUMBER_NOT_ZERO,
	},
	[RBLK_OP_RESERVATIONS] = {
		.flags = ALWAYS | RBLK_CMD_INVALIDATE, .reserved_tag = true,
		.segment = SEGMENT_REPORT, .direction = RBLK_DATA_TO_INITIATOR, .volume = true,
		.report_bytes = sizeof(struct rblk_wire_reservation_report),
	},
};
static_assert(sizeof(opcode_rules) / sizeof(opcode_rules[0]) == RBLK_OP_MAX,
	      "opcode_rules covers its enum");

static const struct opcode_rule *opcode_rule(u8 opcode)
{
	if (opcode >= RBLK_OP_MAX || !opcode_rules[opcode].flags)
		return NULL;
	return &opcode_rules[opcode];
}

bool rblk_opcode_reserved_tag(u8 opcode)
{
	const struct opcode_rule *rule = opcode_rule(opcode);

	return rule && rule->reserved_tag;
}

enum rblk_data_direction rblk_opcode_direction(u8 opcode)
{
	const struct opcode_rule *rule = opcode_rule(opcode);

	return rule ? (enum rblk_data_direction)rule->direction : RBLK_DATA_NONE;
}

/* -- login, acceptance, refusal ------------------------------------------------------------- */

enum rblk_wire_error rblk_check_login(const void *data, size_t length)
{
	const struct rblk_wire_login *login = data;

	/* Magic and version stand where they are in every version, whatever its length. */
	if (length < offsetof(struct rblk_wire_login, queue_index))
		return RBLK_WIRE_SHORT;
	if (rblk_le32(login->magic) != RBLK_MAGIC)
		return RBLK_WIRE_MAGIC;
	if (rblk_le16(login->version) != RBLK_PROTOCOL_VERSION)
		return RBLK_WIRE_VERSION;
	if (length < sizeof(*login))
		return RBLK_WIRE_SHORT;
	if (!RBLK_FIELD_ZERO(login, reserved))
		return RBLK_WIRE_RESERVED;
	if (RBLK_FIELD_ZERO(login, session_id))
		return RBLK_WIRE_SESSION_ID;
	if (!rblk_le64(login->session_epoch))
		return RBLK_WIRE_EPOCH;
	if (rblk_le32(login->fence_incarnation) >= rblk_le32(login->incarnation))
		return RBLK_WIRE_INCARNATION;
	if (!rblk_between(rblk_le16(login->queue_count), 1, RBLK_QUEUES_MAX) ||
	    rblk_le16(login->queue_index) >= rblk_le16(login->queue_count))
		return RBLK_WIRE_QUEUE;
	if (!rblk_between(rblk_le16(login->credits), RBLK_CREDITS_MIN, RBLK_CREDITS_MAX))
		return RBLK_WIRE_CREDITS;
	if (!rblk_between(rblk_le32(login->reply_bytes), RBLK_REPLY_BYTES_MIN,
			  RBLK_REPLY_BYTES_MAX))
		return RBLK_WIRE_SIZES;
	return RBLK_WIRE_OK;
}

enum rblk_wire_error rblk_check_accept(const void *data, size_t length)
{
	const struct rblk_wire_accept *accept = data;

	if (length < sizeof(*accept))
		return RBLK_WIRE_SHORT;
	if (rblk_le32(accept->magic) != RBLK_MAGIC)
		return RBLK_WIRE_MAGIC;
	if (rblk_le16(accept->version) != RBLK_PROTOCOL_VERSION)
		return RBLK_WIRE_VERSION;
	if (!RBLK_FIELD_ZERO(accept, reserved) || rblk_le32(accept->features) & ~RBLK_FEATURES_ALL)
		return RBLK_WIRE_RESERVED;
	if (RBLK_FIELD_ZERO(accept, target_instance))
		return RBLK_WIRE_SESSION_ID;
	if (!rblk_le64(accept->session_epoch))
		return RBLK_WIRE_EPOCH;
	if (!rblk_le32(accept->incarnation))
		return RBLK_WIRE_INCARNATION;
	if (!rblk_between(rblk_le16(accept->credits), RBLK_CREDITS_MIN, RBLK_CREDITS_MAX))
		return RBLK_WIRE_CREDITS;
	if (!rblk_between(rblk_le32(accept->command_bytes), RBLK_COMMAND_BYTES_MIN,
		     RBLK_COMMAND_BYTES_MAX) ||
	    !rblk_between(rblk_le32(accept->max_io_bytes), RBLK_BLOCK_BYTES_MAX,
			  RBLK_IO_BYTES_MAX) ||
	    rblk_le32(accept->max_io_bytes) % RBLK_BLOCK_BYTES_MAX)
		return RBLK_WIRE_SIZES;
	if (!rblk_between(rblk_le16(accept->max_batch), 1, RBLK_BATCH_MAX))
		return RBLK_WIRE_BATCH;
	return RBLK_WIRE_OK;
}

enum rblk_wire_error rblk_check_reject(const void *data, size_t length)
{
	const struct rblk_wire_reject *reject = data;
	u16 reason;

	if (length < sizeof(*reject))
		return RBLK_WIRE_SHORT;
	if (rblk_le32(reject->magic) != RBLK_MAGIC)
		return RBLK_WIRE_MAGIC;
	reason = rblk_le16(reject->reason);
	if (reason == RBLK_REJECT_NONE)
		return RBLK_WIRE_REASON;
	/* A target of another version may use reasons and bytes that are unknown here. */
	if (rblk_le16(reject->version) != RBLK_PROTOCOL_VERSION)
		return RBLK_WIRE_OK;
	if (reason >= RBLK_REJECT_MAX)
		return RBLK_WIRE_REASON;
	return RBLK_FIELD_ZERO(reject, reserved) ? RBLK_WIRE_OK : RBLK_WIRE_RESERVED;
}

/* -- commands ------------------------------------------------------------------------------- */

static inline bool number_fits(u64 number, enum number_rule rule)
{
	if (rule <= NUMBER_ANY)
		return rule == NUMBER_ANY || number == 0;
	switch (rule) {
	case NUMBER_QUEUE:
		return number < RBLK_QUEUES_MAX;
	case NUMBER_U32:
		return number <= (u32)-1;
	case NUMBER_U32_ONE:
		return number != 0 && number <= (u32)-1;
	case NUMBER_NOT_ZERO:
		return number != 0;
	case NUMBER_CAPSULE: /* checked with the capsule */
		return true;
	case NUMBER_NONE:
	case NUMBER_ANY:
		break;
	}
	return false;
}

/* The flags that a queue with these features may use. */
static u8 flags_of(u32 features)
{
	u8 flags = RBLK_CMD_FLAGS_ALL;

	if (!(features & RBLK_FEATURE_PRIORITY))
		flags &= ~RBLK_CMD_PRIORITY;
	if (!(features & RBLK_FEATURE_INVALIDATE))
		flags &= ~RBLK_CMD_INVALIDATE;
	if (!(features & RBLK_FEATURE_DIGEST))
		flags &= ~RBLK_CMD_DIGEST;
	if (!(features & RBLK_FEATURE_IMMEDIATE))
		flags &= ~RBLK_CMD_IMMEDIATE;
	return flags;
}

/* Only a WRITE may have it; asked where flags are not allowed, so that other commands do not pay for it. */
static bool is_untorn(u8 flags, u8 opcode, u32 features)
{
	return flags == RBLK_CMD_UNTORN && opcode == RBLK_OP_WRITE && features & RBLK_FEATURE_UNTORN;
}

static enum rblk_wire_error check_flags(u8 opcode, u8 flags, u8 allowed, u32 features)
{
	if (flags & ~allowed && !is_untorn(flags & ~allowed, opcode, features))
		return RBLK_WIRE_FLAGS;
	/* An immediate carries a tag and times: no key to invalidate, and no room for a digest. */
	if (flags & RBLK_CMD_IMMEDIATE && flags & (RBLK_CMD_INVALIDATE | RBLK_CMD_DIGEST))
		return RBLK_WIRE_FLAGS;
	return RBLK_WIRE_OK;
}

/* One range of the capsule. Its place among the message's other ranges is the message's check. */
static enum rblk_wire_error check_capsule(u64 offset, u32 length)
{
	if (offset % RBLK_CAPSULE_ALIGN || length % RBLK_CAPSULE_ALIGN)
		return RBLK_WIRE_CAPSULE;
	if (length > RBLK_CAPSULE_DATA_MAX || offset > RBLK_CAPSULE_DATA_MAX - length)
		return RBLK_WIRE_CAPSULE;
	return RBLK_WIRE_OK;
}

static enum rblk_wire_error check_memory(u64 address, u32 length, u32 least, u32 multiple)
{
	if (length < least || length > RBLK_IO_BYTES_MAX || length % multiple)
		return RBLK_WIRE_SEGMENT;
	if (address > (u64)-1 - length)
		return RBLK_WIRE_SEGMENT;
	return RBLK_WIRE_OK;
}

static enum rblk_wire_error check_segment(const struct rblk_wire_command *command,
					  const struct opcode_rule *rule)
{
	u64 address = rblk_le64(command->segment.address);
	u32 length = rblk_le32(command->segment.length);
	bool capsule = command->flags & RBLK_CMD_CAPSULE;
	enum rblk_wire_error error;

	if (rule->segment == SEGMENT_BLOCKS && !capsule)
		return check_memory(address, length, RBLK_BLOCK_BYTES_MIN, RBLK_BLOCK_BYTES_MIN);
	switch ((enum segment_rule)rule->segment) {
	case SEGMENT_NONE:
		return rblk_bytes_zero(&command->segment, sizeof(command->segment)) ? RBLK_WIRE_OK :
									      RBLK_WIRE_SEGMENT;
	case SEGMENT_BLOCKS:
		/* There is no key to invalidate. */
		if (command->flags & RBLK_CMD_INVALIDATE)
			return RBLK_WIRE_FLAGS;
		if (command->segment.rkey || !length)
			return RBLK_WIRE_SEGMENT;
		return check_capsule(address, length);
	case SEGMENT_PAYLOAD:
		if (!capsule)
			return RBLK_WIRE_FLAGS;
		if (command->segment.rkey || length != RBLK_CAPSULE_ALIGN)
			return RBLK_WIRE_SEGMENT;
		return check_capsule(address, length);
	case SEGMENT_BOTH:
		if (!capsule)
			return RBLK_WIRE_FLAGS;
		error = check_capsule(rblk_le64(command->argument), RBLK_CAPSULE_ALIGN);
		if (error)
			return error;
		return check_memory(address, length, rule->report_bytes, 1);
	case SEGMENT_REPORT:
		return check_memory(address, length, rule->report_bytes, 1);
	}
	return RBLK_WIRE_SEGMENT;
}

/* flags: flags_of(features), found once for a message. */
static inline enum rblk_wire_error check_command(const struct rblk_wire_command *command, u32 features, u8 flags)
{
	const struct opcode_rule *rule = opcode_rule(command->opcode);
	enum rblk_wire_error error;
	bool told_digest;

	if (!rule || (rule->feature && !(features & rule->feature)))
		return RBLK_WIRE_OPCODE;
	if (!RBLK_FIELD_ZERO(command, reserved0) || !RBLK_FIELD_ZERO(command, reserved1))
		return RBLK_WIRE_RESERVED;
	error = check_flags(command->opcode, command->flags, rule->flags & flags, features);
	if (error)
		return error;
	/* The queue's own limit is lower; this one holds for any queue. */
	if (rblk_le16(command->tag) >= RBLK_CREDITS_MAX + RBLK_RESERVED_TAGS)
		return RBLK_WIRE_TAG;
	if ((command->volume != 0) != rule->volume && !(features & rule->volume_feature))
		return RBLK_WIRE_VOLUME;
	if ((command->blocks != 0) != rule->blocks)
		return RBLK_WIRE_BLOCKS;
	if (!number_fits(rblk_le64(command->lba), rule->lba))
		return RBLK_WIRE_BLOCKS;
	if (!number_fits(rblk_le64(command->argument), rule->argument))
		return RBLK_WIRE_ARGUMENT;
	/* On a READ the flag asks for a digest; only data that goes to the target brings one. */
	told_digest = command->flags & RBLK_CMD_DIGEST && rule->direction == RBLK_DATA_TO_TARGET;
	if (command->digest && !told_digest)
		return RBLK_WIRE_DIGEST;
	return check_segment(command, rule);
}

enum rblk_wire_error rblk_check_command(const struct rblk_wire_command *command, u32 features)
{
	return check_command(command, features, flags_of(features));
}

/*
 * The ranges, in the descriptors' order, must tile [0, capsule_bytes). As each ends within
 * RBLK_CAPSULE_DATA_MAX, so does what they tile. All commands have passed check_command().
 */
static enum rblk_wire_error check_tiling(const struct rblk_wire_command *commands, u32 count,
					 u32 capsule_bytes)
{
	u32 next = 0, offset, length, i;

	for (i = 0; i < count; i++) {
		if (!rblk_command_capsule(&commands[i], &offset, &length))
			continue;
		if (offset != next || length > capsule_bytes - next)
			return RBLK_WIRE_CAPSULE;
		next += length;
	}
	return next == capsule_bytes ? RBLK_WIRE_OK : RBLK_WIRE_CAPSULE;
}

enum rblk_wire_error rblk_check_message(const void *data, size_t length, u32 features,
					u16 max_batch, u32 command_bytes,
					const struct rblk_wire_command **commands, u16 *count,
					u32 *capsule_bytes)
{
	const struct rblk_wire_command *first, *last;
	enum rblk_wire_error error;
	u32 descriptors, capsule, i;
	u8 flags = flags_of(features);

	if (length > command_bytes || length > RBLK_COMMAND_BYTES_MAX)
		return RBLK_WIRE_LONG;
	/* In-capsule data comes in multiples of a descriptor's size, so whole messages do too. */
	if (length < sizeof(*last) || length % sizeof(*last))
		return RBLK_WIRE_SHORT;
	last = (const void *)((const u8 *)data + (length - sizeof(*last)));
	descriptors = last->index + 1u;
	if (descriptors > max_batch || descriptors > RBLK_BATCH_MAX ||
	    descriptors > length / sizeof(*last))
		return RBLK_WIRE_BATCH;
	first = last - (descriptors - 1);
	capsule = (u32)(length - descriptors * sizeof(*last));
	for (i = 0; i < descriptors; i++) {
		if (first[i].index != i)
			return RBLK_WIRE_INDEX;
		error = check_command(&first[i], features, flags);
		if (error)
			return error;
	}
	error = check_tiling(first, descriptors, capsule);
	if (error)
		return error;
	*commands = first;
	*count = (u16)descriptors;
	*capsule_bytes = capsule;
	return RBLK_WIRE_OK;
}

/* -- replies -------------------------------------------------------------------------------- */

static enum rblk_wire_error check_event(const struct rblk_wire_completion *event, u32 features)
{
	u16 code = rblk_le16(event->status);

	if (!(features & RBLK_FEATURE_EVENTS) || event->flags != RBLK_CPL_EVENT)
		return RBLK_WIRE_FLAGS;
	if (rblk_le16(event->tag) != RBLK_TAG_EVENT)
		return RBLK_WIRE_TAG;
	if (code == RBLK_EVENT_NONE || code >= RBLK_EVENT_MAX)
		return RBLK_WIRE_STATUS;
	if (event->queued_us || event->stored_us || event->digest || event->sequence)
		return RBLK_WIRE_RESERVED;
	/* KEEPALIVE says 0 for "none seen". */
	return rblk_le64(event->result) >> 32 ? RBLK_WIRE_OK : RBLK_WIRE_ARGUMENT;
}

static enum rblk_wire_error check_completion(const struct rblk_wire_completion *completion,
					     u32 features, u32 tags)
{
	u8 flags = completion->flags;

	if (flags & ~RBLK_CPL_FLAGS_ALL || !RBLK_FIELD_ZERO(completion, reserved))
		return RBLK_WIRE_RESERVED;
	if (flags & RBLK_CPL_EVENT)
		return check_event(completion, features);
	if ((flags & RBLK_CPL_DIGEST && !(features & RBLK_FEATURE_DIGEST)) ||
	    (flags & RBLK_CPL_INVALIDATED && !(features & RBLK_FEATURE_INVALIDATE)))
		return RBLK_WIRE_FLAGS;
	if (rblk_le16(completion->tag) >= tags)
		return RBLK_WIRE_TAG;
	if (rblk_le16(completion->status) >= RBLK_E_MAX)
		return RBLK_WIRE_STATUS;
	if (completion->digest && !(flags & RBLK_CPL_DIGEST))
		return RBLK_WIRE_DIGEST;
	return RBLK_WIRE_OK;
}

enum rblk_wire_error rblk_check_reply(const void *data, size_t length, u32 features, u32 tags,
				      const struct rblk_wire_completion **completions, u16 *count)
{
	const struct rblk_wire_completion *first = data;
	bool invalidated = false;
	enum rblk_wire_error error;
	size_t i;

	if (length < sizeof(*first) || length % sizeof(*first))
		return RBLK_WIRE_SHORT;
	if (length / sizeof(*first) > RBLK_REPLY_BATCH_MAX)
		return RBLK_WIRE_BATCH;
	for (i = 0; i < length / sizeof(*first); i++) {
		error = check_completion(&first[i], features, tags);
		if (error)
			return error;
		/* One SEND invalidates one key. */
		if (first[i].flags & RBLK_CPL_INVALIDATED && invalidated)
			return RBLK_WIRE_FLAGS;
		invalidated |= !!(first[i].flags & RBLK_CPL_INVALIDATED);
	}
	*completions = first;
	*count = (u16)i;
	return RBLK_WIRE_OK;
}

/* -- times ---------------------------------------------------------------------------------- */

/*
 * A code is exponent << 3 | mantissa. Exponent 0 and 1 are exact (0..7 and 8..15); from there on
 * the value is (8 + mantissa) << (exponent - 1), as in a float with three bits after the point.
 */
#define TIME_MANTISSA_BITS 3
#define TIME_EXPONENT_MAX 29 /* (8 + 7) << 28 is the last that fits 32 bits */

u8 rblk_time_encode(u32 us)
{
	u32 exponent = 0, mantissa = us;

	while (mantissa >= 2u << TIME_MANTISSA_BITS) {
		mantissa >>= 1;
		exponent++;
	}
	if (mantissa < 1u << TIME_MANTISSA_BITS)
		return (u8)mantissa;
	return (u8)((exponent + 1) << TIME_MANTISSA_BITS | (mantissa & 7));
}

u32 rblk_time_decode(u8 code)
{
	u32 exponent = code >> TIME_MANTISSA_BITS, mantissa = code & 7;

	if (!exponent)
		return mantissa;
	if (exponent > TIME_EXPONENT_MAX)
		return (u32)-1;
	return (8 + mantissa) << (exponent - 1);
}
