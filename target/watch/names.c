/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tables of names.h. */
#include "target/watch/names.h"

#include <stddef.h>
#include "target/io/command.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static_assert(TGT_COUNT_OPCODES <= COUNT(tgt_commands), "every block command has a name");

static const char *const errors[] = {
	[RBLK_OK] = "none",
	[RBLK_E_BUSY] = "busy",
	[RBLK_E_UNSUPPORTED] = "unsupported",
	[RBLK_E_INVALID] = "invalid",
	[RBLK_E_NO_VOLUME] = "no_volume",
	[RBLK_E_RANGE] = "range",
	[RBLK_E_READ_ONLY] = "read_only",
	[RBLK_E_IO] = "io",
	[RBLK_E_NO_SPACE] = "no_space",
	[RBLK_E_MEDIUM] = "medium",
	[RBLK_E_DIGEST] = "digest",
	[RBLK_E_COMPARE] = "compare",
	[RBLK_E_ABORTED] = "aborted",
	[RBLK_E_FENCED] = "fenced",
	[RBLK_E_RESERVED] = "reserved",
	[RBLK_E_DENIED] = "denied",
	[RBLK_E_DRAINING] = "draining",
	[RBLK_E_GONE] = "gone",
	[RBLK_E_NO_RESOURCES] = "no_resources",
};
static_assert(COUNT(errors) == RBLK_E_MAX, "every error has a name");

static const char *const kinds[] = {
	[TGT_COUNT_READ] = "read",
	[TGT_COUNT_WRITE] = "write",
	[TGT_COUNT_OTHER] = "other",
};
static_assert(COUNT(kinds) == TGT_COUNT_KINDS, "every kind has a name");

static const char *const stages[] = {
	[TGT_STAGE_QUEUED] = "queued",
	[TGT_STAGE_STORED] = "stored",
	[TGT_STAGE_BOTH] = "both",
};
static_assert(COUNT(stages) == TGT_STAGES, "every stage has a name");

static const char *const ends[] = {
	[TGT_END_TARGET] = "target",	     [TGT_END_DISCONNECTED] = "disconnected",
	[TGT_END_LOST] = "lost",	     [TGT_END_SILENT] = "silent",
	[TGT_END_VIOLATION] = "violation",
};
static_assert(COUNT(ends) == TGT_ENDS, "every reason has a name");

static const char *const logins[] = {
	[TGT_LOGIN_ACCEPTED] = "accepted", [TGT_LOGIN_RETURNED] = "returned",	[TGT_LOGIN_DENIED] = "denied",
	[TGT_LOGIN_MALFORMED] = "malformed", [TGT_LOGIN_FULL] = "full",	[TGT_LOGIN_STALE] = "stale",
	[TGT_LOGIN_DRAINING] = "draining",
};
static_assert(COUNT(logins) == TGT_LOGIN_RESULTS, "every result has a name");

const char *tgt_name_opcode(unsigned int opcode)
{
	return opcode < COUNT(tgt_commands) ? tgt_commands[opcode].name : NULL;
}

const char *tgt_name_error(unsigned int status)
{
	return status < COUNT(errors) ? errors[status] : "unknown";
}

const char *tgt_name_kind(enum tgt_count_kind kind)
{
	return kinds[kind];
}

const char *tgt_name_stage(enum tgt_count_stage stage)
{
	return stages[stage];
}

const char *tgt_name_end(enum tgt_end end)
{
	return ends[end];
}

const char *tgt_name_reservation(unsigned int type)
{
	static const char *const types[] = {
		[RBLK_RESERVATION_NONE] = "none",
		[RBLK_RESERVATION_WRITE_EXCLUSIVE] = "write-exclusive",
		[RBLK_RESERVATION_EXCLUSIVE_ACCESS] = "exclusive-access",
		[RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS] = "write-exclusive-registrants",
		[RBLK_RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS] = "exclusive-access-registrants",
		[RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL] = "write-exclusive-all",
		[RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL] = "exclusive-access-all",
	};

	return type < COUNT(types) ? types[type] : "unknown";
}

const char *tgt_name_login(enum tgt_login_result result)
{
	return logins[result];
}
