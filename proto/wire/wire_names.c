/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the text of every code of the wire: one table per enum, and the one table that converts a
 * status to an errno. Used by logs, errors and traces at both ends; no state.
 */
#include "proto/wire/wire_names.h"
#include "proto/wire/wire_check.h"

#ifdef __KERNEL__
#include <linux/errno.h>
#endif

#define TABLE_LENGTH(table) (sizeof(table) / sizeof((table)[0]))
#define ASSERT_COVERS(table, max)                                                                  \
	static_assert(TABLE_LENGTH(table) == (max), #table " covers its enum")

static const char *const opcode_names[] = {
	[RBLK_OP_READ] = "READ",
	[RBLK_OP_WRITE] = "WRITE",
	[RBLK_OP_FLUSH] = "FLUSH",
	[RBLK_OP_DISCARD] = "DISCARD",
	[RBLK_OP_WRITE_ZEROES] = "WRITE_ZEROES",
	[RBLK_OP_COMPARE_AND_WRITE] = "COMPARE_AND_WRITE",
	[RBLK_OP_CHECKSUM] = "CHECKSUM",
	[RBLK_OP_EXTENTS] = "EXTENTS",
	[RBLK_OP_IDENTIFY] = "IDENTIFY",
	[RBLK_OP_AUTHENTICATE] = "AUTHENTICATE",
	[RBLK_OP_LIST] = "LIST",
	[RBLK_OP_OPEN] = "OPEN",
	[RBLK_OP_CLOSE] = "CLOSE",
	[RBLK_OP_FENCE] = "FENCE",
	[RBLK_OP_ABORT] = "ABORT",
	[RBLK_OP_KEEPALIVE] = "KEEPALIVE",
	[RBLK_OP_PING] = "PING",
	[RBLK_OP_RESERVE] = "RESERVE",
	[RBLK_OP_RESERVATIONS] = "RESERVATIONS",
};
ASSERT_COVERS(opcode_names, RBLK_OP_MAX);

/* A status's text, and the errno that an application gets for it. */
static const struct {
	const char *text;
	int error;
} statuses[] = {
	[RBLK_OK] = { "success", 0 },
	[RBLK_E_BUSY] = { "the target is busy", -EBUSY },
	[RBLK_E_UNSUPPORTED] = { "not supported by this target or volume", -EOPNOTSUPP },
	[RBLK_E_INVALID] = { "invalid for this volume", -EINVAL },
	[RBLK_E_NO_VOLUME] = { "no such volume", -ENOENT },
	[RBLK_E_RANGE] = { "beyond the end of the volume", -ERANGE },
	[RBLK_E_READ_ONLY] = { "the volume is read-only", -EROFS },
	[RBLK_E_IO] = { "the store failed", -EIO },
	[RBLK_E_NO_SPACE] = { "the store is full", -ENOSPC },
	[RBLK_E_MEDIUM] = { "the data cannot be read back", -ENODATA },
	[RBLK_E_DIGEST] = { "the data does not match its digest", -EBADMSG },
	[RBLK_E_COMPARE] = { "the data on the volume differs", -EILSEQ },
	[RBLK_E_ABORTED] = { "aborted", -ECANCELED },
	[RBLK_E_FENCED] = { "fenced by a newer connection", -ESTALE },
	[RBLK_E_RESERVED] = { "another initiator holds a reservation", -EBADE },
	[RBLK_E_DENIED] = { "not allowed", -EACCES },
	[RBLK_E_DRAINING] = { "the target is shutting down", -ESHUTDOWN },
	[RBLK_E_GONE] = { "the volume was removed or changed", -ENODEV },
	[RBLK_E_NO_RESOURCES] = { "the target ran out of memory or handles", -ENOMEM },
};
ASSERT_COVERS(statuses, RBLK_E_MAX);

static const char *const reject_texts[] = {
	[RBLK_REJECT_NONE] = "no reason",
	[RBLK_REJECT_MALFORMED] = "the login is malformed",
	[RBLK_REJECT_VERSION] = "the target speaks another protocol version",
	[RBLK_REJECT_FEATURES] = "the target lacks or forbids a feature",
	[RBLK_REJECT_QUEUE_COUNT] = "more queues than the target allows",
	[RBLK_REJECT_NO_SESSION] = "the target does not know the session: it was restarted, or is another one",
	[RBLK_REJECT_STALE_EPOCH] = "the session's epoch is over",
	[RBLK_REJECT_STALE_INCARNATION] = "the queue's incarnation is over",
	[RBLK_REJECT_NO_CREDITS] = "the target's receive buffers are all promised to others",
	[RBLK_REJECT_NO_RESOURCES] = "the target ran out of memory, queue pairs or sessions",
	[RBLK_REJECT_DRAINING] = "the target is shutting down",
	[RBLK_REJECT_DENIED] = "the target does not allow this address or initiator",
};
ASSERT_COVERS(reject_texts, RBLK_REJECT_MAX);

static const char *const denied_texts[] = {
	[RBLK_DENIED_UNSAID] = "not allowed",
	[RBLK_DENIED_LOCAL] = ("only the target's own machine may: its administrator has to add an "
			       "[initiator] section to rblkd.conf, or --open"),
	[RBLK_DENIED_ADDRESS] = "no access rule of the target is for this address",
	[RBLK_DENIED_RULES] = "the target's access rules do not allow it to this initiator",
	[RBLK_DENIED_UNPROVEN] =
		"the target has a secret for this initiator's name, which has to be proven with its key",
	[RBLK_DENIED_PROOF] = "the target has another secret for this initiator's name, or none",
	[RBLK_DENIED_NAME] = "the session has proven another initiator's name",
	[RBLK_DENIED_TLS] = "the target wants TLS over TCP: use a key, and --tls always to loopback addresses",
	[RBLK_DENIED_UNNAMED] = "this initiator has no name of its own: give it one, or its host a name",
};
ASSERT_COVERS(denied_texts, RBLK_DENIED_MAX);

/* Bits: the table's index is the bit's number. */
static const char *const feature_names[] = {
	"immediate", "invalidate", "digest", "events", NULL, "extents", "fence-domain", "volume-fence",
	"priority", "untorn", "compare-limit",
};
static_assert((1u << TABLE_LENGTH(feature_names)) - 1 == (RBLK_FEATURES_ALL | 1u << 4 /* reserved */),
	      "feature_names covers its enum");

static const char *const wire_error_texts[] = {
	[RBLK_WIRE_OK] = "well formed",
	[RBLK_WIRE_SHORT] = "too short",
	[RBLK_WIRE_LONG] = "too long",
	[RBLK_WIRE_MAGIC] = "not rblk (wrong magic number)",
	[RBLK_WIRE_VERSION] = "another protocol version",
	[RBLK_WIRE_RESERVED] = "a reserved byte or flag is set",
	[RBLK_WIRE_SESSION_ID] = "the session or instance id is all zero",
	[RBLK_WIRE_EPOCH] = "the session epoch is zero",
	[RBLK_WIRE_INCARNATION] = "the incarnation is zero or not above the fenced one",
	[RBLK_WIRE_QUEUE] = "the queue index or count is out of range",
	[RBLK_WIRE_CREDITS] = "the credits are out of range",
	[RBLK_WIRE_SIZES] = "a size is out of its limits",
	[RBLK_WIRE_REASON] = "the reason is unknown",
	[RBLK_WIRE_BATCH] = "too many commands or completions in one message",
	[RBLK_WIRE_INDEX] = "a descriptor's index is not its place in the message",
	[RBLK_WIRE_OPCODE] = "the opcode is unknown",
	[RBLK_WIRE_FLAGS] = "a flag that does not belong to this command or session",
	[RBLK_WIRE_TAG] = "the tag is out of range",
	[RBLK_WIRE_VOLUME] = "the volume handle is missing, or present where none belongs",
	[RBLK_WIRE_BLOCKS] = "lba or block count missing, or present where none belongs",
	[RBLK_WIRE_SEGMENT] = "the segment is missing, malformed, or present where none belongs",
	[RBLK_WIRE_CAPSULE] = "in-capsule data outside the message, unaligned or overlapping",
	[RBLK_WIRE_ARGUMENT] = "the argument is missing, out of range, or where none belongs",
	[RBLK_WIRE_DIGEST] = "a digest without its flag",
	[RBLK_WIRE_STATUS] = "the status is unknown",
	[RBLK_WIRE_NAME] = "a name is empty, not terminated, or has a forbidden character",
	[RBLK_WIRE_PAYLOAD] = "a field of the payload is out of range",
	[RBLK_WIRE_PORTAL] = "a portal's address, port or kind, or their number, is out of range",
};
ASSERT_COVERS(wire_error_texts, RBLK_WIRE_ERROR_MAX);

static const char *text_at(const char *const *table, size_t length, u32 code, const char *unknown)
{
	return code < length && table[code] ? table[code] : unknown;
}

/* The name of a single bit; no bit or several are unknown. */
static const char *text_of_bit(const char *const *table, size_t length, u32 bit,
			       const char *unknown)
{
	size_t i;

	for (i = 0; i < length; i++)
		if (bit == 1u << i && table[i])
			return table[i];
	return unknown;
}

const char *rblk_opcode_name(u8 opcode)
{
	return text_at(opcode_names, TABLE_LENGTH(opcode_names), opcode, "unknown opcode");
}

const char *rblk_status_text(u16 status)
{
	return status < TABLE_LENGTH(statuses) ? statuses[status].text : "unknown status";
}

const char *rblk_reject_text(u16 reason)
{
	return text_at(reject_texts, TABLE_LENGTH(reject_texts), reason, "unknown reason");
}

const char *rblk_denied_text(u64 why)
{
	return why < TABLE_LENGTH(denied_texts) ? denied_texts[why] :
						  denied_texts[RBLK_DENIED_UNSAID];
}

const char *rblk_refusal_text(u16 status, u64 result)
{
	return status == RBLK_E_DENIED ? rblk_denied_text(result) : rblk_status_text(status);
}

const char *rblk_feature_name(u32 bit)
{
	return text_of_bit(feature_names, TABLE_LENGTH(feature_names), bit, "unknown feature");
}

const char *rblk_wire_error_text(enum rblk_wire_error error)
{
	return text_at(wire_error_texts, TABLE_LENGTH(wire_error_texts), error,
		       "unknown wire error");
}

int rblk_status_errno(u16 status)
{
	return status < TABLE_LENGTH(statuses) ? statuses[status].error : -EPROTO;
}
