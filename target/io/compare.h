/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * COMPARE_AND_WRITE. It gets all of its data from the initiator first, then locks its range
 * (store/range_lock.h), reads, compares, and writes. The range lock makes that one step: no other writing
 * command of the volume runs on that range meanwhile, of any session, on any reactor. command.c
 * names it; the reactor's thread only.
 */
#ifndef RBLK_TARGET_COMPARE_H
#define RBLK_TARGET_COMPARE_H

#include "target/io/request.h"

/* From RECEIVED. capsule: its data, or NULL. */
void tgt_compare_begin(struct tgt_request *request);
void tgt_compare_with_memory(struct tgt_request *request);
/* Its data has arrived and matches its digest. */
void tgt_compare_data_in(struct tgt_request *request);
/* The store is done with request->io. */
void tgt_compare_stored(struct tgt_request *request, int error);

/* Can it still end without having written? */
bool tgt_compare_may_abort(const struct tgt_request *request);
/* The request, which has one, is released. */
void tgt_compare_release(struct tgt_request *request);
/* The same; no effect if there is nothing. All requests come by here, and hardly any is a COMPARE_AND_WRITE. */
static inline void tgt_compare_free(struct tgt_request *request)
{
	if (request->compare)
		tgt_compare_release(request);
}

#endif
