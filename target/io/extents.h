/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * EXTENTS: which parts of a range hold data, as its store knows, or all of it where the store does
 * not. The list is made in a block of the pool and goes out as data. Named by command.c.
 */
#ifndef RBLK_TARGET_EXTENTS_H
#define RBLK_TARGET_EXTENTS_H

#include "target/io/request.h"

/* The command has been checked. */
void tgt_extents_begin(struct tgt_request *request);
/* It has its memory. */
void tgt_extents_next(struct tgt_request *request);
/* The store has filled the list, or failed. */
void tgt_extents_stored(struct tgt_request *request, int error);

#endif
