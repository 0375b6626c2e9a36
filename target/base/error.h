/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How an error message gets to the place that logs it: a buffer of TGT_ERROR_BYTES that the caller
 * owns, filled where the failure is found. Any thread.
 */
#ifndef RBLK_TARGET_ERROR_H
#define RBLK_TARGET_ERROR_H

#define TGT_ERROR_BYTES 512

/* Advice about -EMFILE, appended to the reason. */
#define TGT_RAISE_DESCRIPTORS "raise the limit: ulimit -n, or LimitNOFILE= in the unit"

/* Formats `error` (object first, reason last) and returns `code`. Cuts what is too long. */
int tgt_error(char *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
