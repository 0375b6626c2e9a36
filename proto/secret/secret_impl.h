/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The inside of struct rblk_secrets, for the files of this room. */
#ifndef RBLK_SECRET_SECRET_IMPL_H
#define RBLK_SECRET_SECRET_IMPL_H

#include <stdatomic.h>
#include "proto/secret/secret.h"

/* In a page of its own. Fixed but for refs, once its maker has returned it; all zero in a process that was forked. */
struct rblk_secrets {
	_Atomic unsigned int refs;
	unsigned int count;
	u8 list[RBLK_SECRETS_MAX][RBLK_SECRET_BYTES];
};
#define RBLK_SECRETS_BYTES 4096u
static_assert(sizeof(struct rblk_secrets) <= RBLK_SECRETS_BYTES, "a page holds them");

/* nvme_text.c: does it begin as one of NVMe's? Then: NULL, or words for what is wrong with it. */
bool rblk_nvme_is_text(const char *line, size_t length);
const char *rblk_nvme_parse(const char *line, size_t length, u8 secret[RBLK_SECRET_BYTES]);

#endif
