/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receive buffers and how they are posted.
 */
#include "target/io/receive.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define POST_BATCH 32

int tgt_receives_init(struct tgt_receives *receives, struct tgt_receives_list *idle_list,
		      uint32_t buffer_bytes, uint32_t most)
{
	receives->idle_list = idle_list;
	receives->buffer_bytes = buffer_bytes;
	receives->most = most;
	receives->count = receives->idle_count = receives->promised = 0;
	receives->holds = calloc(most, sizeof(*receives->holds));
	receives->idle = calloc(most, sizeof(*receives->idle));
	if (!receives->holds || !receives->idle) {
		tgt_receives_fini(receives);
		return -ENOMEM;
	}
	return 0;
}

void tgt_receives_add(struct tgt_receives *receives, uint32_t count)
{
	assert(receives->count % TGT_RECEIVES_CHUNK == 0 && count <= TGT_RECEIVES_CHUNK &&
	       count <= receives->most - receives->count);
	for (uint32_t i = count; i > 0; i--)
		receives->idle[receives->idle_count++] = receives->count + i - 1;
	receives->count += count;
	if (!receives->is_listed) {
		receives->is_listed = true;
		TAILQ_INSERT_TAIL(receives->idle_list, receives, idle_link);
	}
}

void tgt_receives_fini(struct tgt_receives *receives)
{
	if (receives->is_listed)
		TAILQ_REMOVE(receives->idle_list, receives, idle_link);
	receives->is_listed = false;
	free(receives->holds);
	free(receives->idle);
	receives->holds = NULL;
	receives->idle = NULL;
}

int tgt_receives_post(struct tgt_receives *receives)
{
	struct ibv_recv_wr wr[POST_BATCH], *bad;
	struct ibv_sge sge[POST_BATCH];
	uint64_t base_id = TGT_WR_RECEIVE | (uint64_t)receives->number << 32;

	while (receives->idle_count) {
		uint32_t count = receives->idle_count < POST_BATCH ? receives->idle_count : POST_BATCH;
		int err;

		for (uint32_t i = 0; i < count; i++) {
			uint32_t index = receives->idle[receives->idle_count - 1 - i];

			sge[i].addr = (uintptr_t)tgt_receives_buffer(receives, index);
			sge[i].length = receives->buffer_bytes;
			sge[i].lkey = receives->chunks[index / TGT_RECEIVES_CHUNK].lkey;
			wr[i].wr_id = base_id | index;
			wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
			wr[i].sg_list = &sge[i];
			wr[i].num_sge = 1;
		}
		err = fab_post_srq_recv(receives->device, wr, &bad);
		receives->idle_count -= err ? (uint32_t)(bad - wr) : count;
		if (err)
			return err;
	}
	return 0;
}
