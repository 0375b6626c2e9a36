/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Text for the codes of the wire, for logs, errors and traces, and the one conversion of a status
 * to an errno. All return static strings, never NULL; pure, any thread.
 */
#ifndef RBLK_WIRE_NAMES_H
#define RBLK_WIRE_NAMES_H

#include "proto/wire/wire.h"

const char *rblk_opcode_name(u8 opcode);         /* "READ"; unknown: "unknown opcode" */
const char *rblk_status_text(u16 status);        /* "beyond the end of the volume" */
const char *rblk_reject_text(u16 reason);        /* "the session's epoch is over" */
const char *rblk_denied_text(u64 why);           /* enum rblk_denied */
/* rblk_status_text(), for RBLK_E_DENIED with what its result tells. */
const char *rblk_refusal_text(u16 status, u64 result);
const char *rblk_feature_name(u32 bit);          /* one bit */

/* 0 for RBLK_OK, else the negative errno that an application gets for this status. */
int rblk_status_errno(u16 status);

#endif
