/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC32C as the wire means it: polynomial 0x1edc6f41 reflected, register all ones at first,
 * inverted at the end; "123456789" gives 0xe3069283. Pure; any thread.
 */
#ifndef RBLK_DIGEST_H
#define RBLK_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* The digest of earlier bytes, whose digest is `before` (0: there are none), followed by `data`. */
uint32_t rblk_digest(uint32_t before, const void *data, size_t bytes);

#endif
