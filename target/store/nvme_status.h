/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The meaning of an NVMe status: an errno for the initiator, words for the log, and whether the
 * command may be repeated.
 */
#ifndef RBLK_TARGET_STORE_NVME_STATUS_H
#define RBLK_TARGET_STORE_NVME_STATUS_H

#include <stdbool.h>

/* As passthrough returns it: 1 .. 0x7fff, code and type and, at 0x4000, "do not retry". */
int tgt_nvme_errno(int status);
/* The command was not done, or can be done again, and may succeed in a moment. */
bool tgt_nvme_is_transient(int status);
/* "unrecovered read error" */
const char *tgt_nvme_words(int status);

#endif
