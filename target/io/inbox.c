/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receive buffers and how they are posted.
 */
#include "target/io/inbox.h"

#include <errno.h>
#include <stdlib.h>

#define POST_BATCH 32

int tgt_inbox_init(struct tgt_inbox *inbox, char *base, uint32_t buffer_bytes, uint32_t count,
		   uint32_t lkey)
{
	inbox->base = base;
	inbox->buffer_bytes = buffer_bytes;
	inbox->count = count;
	inbox->lkey = lkey;
	inbox->holds = calloc(count, sizeof(*inbox->holds));
	inbox->idle = calloc(count, sizeof(*inbox->idle));
	if (!inbox->holds || !inbox->idle) {
		tgt_inbox_fini(inbox);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++)
		inbox->idle[i] = count - 1 - i;
	inbox->idle_count = count;
	return 0;
}

void tgt_inbox_fini(struct tgt_inbox *inbox)
{
	free(inbox->holds);
	free(inbox->idle);
	inbox->holds = NULL;
	inbox->idle = NULL;
}

int tgt_inbox_post(struct tgt_inbox *inbox)
{
	struct ibv_recv_wr wr[POST_BATCH], *bad;
	struct ibv_sge sge[POST_BATCH];
	uint64_t base_id = TGT_WR_RECEIVE;

	if (inbox->device)
		base_id |= (uint64_t)fab_device_index(inbox->device) << 32;
	while (inbox->idle_count) {
		uint32_t count = inbox->idle_count < POST_BATCH ? inbox->idle_count : POST_BATCH;
		int err;

		for (uint32_t i = 0; i < count; i++) {
			uint32_t index = inbox->idle[inbox->idle_count - 1 - i];

			sge[i].addr = (uintptr_t)tgt_inbox_buffer(inbox, index);
			sge[i].length = inbox->buffer_bytes;
			sge[i].lkey = inbox->lkey;
			wr[i].wr_id = base_id | index;
			wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
			wr[i].sg_list = &sge[i];
			wr[i].num_sge = 1;
		}
		err = inbox->device ? fab_post_srq_recv(inbox->device, wr, &bad)
				    : fab_post_recv(inbox->conn, wr, &bad);
		inbox->idle_count -= err ? (uint32_t)(bad - wr) : count;
		if (err)
			return err;
	}
	return 0;
}
