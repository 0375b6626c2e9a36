/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Notices as JSON, under the name events, and the method of the control socket that has them. */
#ifndef RBLK_TARGET_WATCH_NOTICES_H
#define RBLK_TARGET_WATCH_NOTICES_H

#include "target/base/notice.h"
#include "target/watch/rpc.h"

/* The most events of one answer. */
#define TGT_NOTICES_ANSWER 200u

/* A new reference, or NULL: no memory. What is not known is left out. */
json_t *tgt_notice_report(const struct tgt_notice *notice);
/* {"events": [...], "last": NUMBER}: the first ones after a number. */
json_t *tgt_notices_report(uint64_t after);
/* Parameter "after": a number, 0 if it is left out. */
json_t *tgt_notices_method(struct tgt_rpc_call *call);

#endif
