/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rules that librblk and the kernel module hold an answer's digest to (specification sections 4
 * and 5), and how often they send a command again whose data does not match. Each computes CRC32C
 * on its own: proto/digest, kmod/digest.c. Pure.
 */
#ifndef RBLK_CORE_DIGEST_H
#define RBLK_CORE_DIGEST_H

#include "proto/wire/message.h"

/* So often is a command sent again whose data did not match; then it fails. */
#define CORE_DIGEST_RETRIES 3

/* A read that asks for a digest. */
static inline bool core_digest_asked(const struct rblk_wire_command *command)
{
	return command->opcode == RBLK_OP_READ && command->flags & RBLK_CMD_DIGEST;
}

/* The mistake in an answer's digest, or its lack; NULL: there is none. */
static inline const char *core_digest_fault(const struct rblk_wire_command *command,
					    const struct rblk_wire_completion *completion)
{
	bool told = completion->flags & RBLK_CPL_DIGEST;

	if (told && !core_digest_asked(command))
		return "a digest that was not asked for";
	if (!told && core_digest_asked(command) && rblk_le16(completion->status) == RBLK_OK)
		return "no digest, although it was asked for";
	return NULL;
}

#endif
