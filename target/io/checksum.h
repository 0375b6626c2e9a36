/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CHECKSUM: the CRC32C of a range, read piece by piece through one block of the pool, or directly
 * in the store's own memory. Named by command.c.
 */
#ifndef RBLK_TARGET_CHECKSUM_H
#define RBLK_TARGET_CHECKSUM_H

#include "target/io/request.h"

/* The bytes of its next piece, one turn's work; 0: there is none. */
uint64_t tgt_checksum_piece(const struct tgt_request *request);
/* The command has been checked. */
void tgt_checksum_begin(struct tgt_request *request);
/* It has its memory, or its turn has come again: the next piece, or the answer. */
void tgt_checksum_next(struct tgt_request *request);
/* A piece has been read. */
void tgt_checksum_stored(struct tgt_request *request, int error);
/* Before its next piece. */
bool tgt_checksum_may_abort(const struct tgt_request *request);

#endif
