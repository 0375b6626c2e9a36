// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Slots (registered memory of each tag's own, for the queue's life) and fast registrations (one memory
 * region per I/O tag, its key changed for each use). Called by command.c for each request, by
 * queue.c when a queue comes and goes. Posting is left to queue.c.
 */
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "kmod/memory.h"
#include "kmod/compat.h"
#include "kmod/device.h"
#include "kmod/queue.h"

/* More would only make one command's registration long; 1 MiB in 4 KiB pages. */
#define RBLK_FAST_PAGES_MAX 256u

static unsigned int slot_bytes = 4096;

static int rblk_memory_set_slot_bytes(const char *value, const struct kernel_param *kp)
{
	unsigned int bytes;
	int error = kstrtouint(value, 0, &bytes);

	if (error)
		return error;
	if (bytes < RBLK_SLOT_BYTES_MIN || bytes > RBLK_SLOT_BYTES_MAX || !is_power_of_2(bytes))
		return -EINVAL;
	*(unsigned int *)kp->arg = bytes;
	return 0;
}

static const struct kernel_param_ops rblk_slot_bytes_ops = {
	.set = rblk_memory_set_slot_bytes,
	.get = param_get_uint,
};
module_param_cb(slot_bytes, &rblk_slot_bytes_ops, &slot_bytes, 0644);
MODULE_PARM_DESC(slot_bytes,
		 "largest I/O that is copied rather than registered: 4096 to 65536, for new devices");

struct rblk_memory {
	unsigned int tags, credits;
	unsigned int order; /* a slot is 1 << order pages */
	unsigned int slots_per_mr, slot_mr_count;
	u32 fast_pages;
	struct page **pages; /* tags */
	u64 *dma;            /* tags */
	struct ib_mr **slot_mrs;
	struct ib_reg_wr *slot_wrs;
	struct ib_cqe slot_cqe;
	struct ib_mr **fast_mrs; /* credits */
};

static void rblk_memory_registered(struct ib_cq *cq, struct ib_wc *wc)
{
	struct rblk_queue *queue = cq->cq_context;

	if (wc->status != IB_WC_SUCCESS && wc->status != IB_WC_WR_FLUSH_ERR)
		rblk_device_lost(queue->device, "queue %u: registering memory: %s", queue->index,
				 ib_wc_status_msg(wc->status));
}

static int rblk_memory_alloc_slots(struct rblk_queue *queue, struct rblk_memory *m)
{
	int node = ibdev_to_node(queue->ibdev);
	unsigned int i;

	for (i = 0; i < m->tags; i++) {
		m->pages[i] = alloc_pages_node(node, GFP_KERNEL | __GFP_ZERO | __GFP_COMP,
					       m->order);
		if (!m->pages[i])
			return -ENOMEM;
		m->dma[i] = ib_dma_map_page(queue->ibdev, m->pages[i], 0, PAGE_SIZE << m->order,
					    DMA_BIDIRECTIONAL);
		if (ib_dma_mapping_error(queue->ibdev, m->dma[i])) {
			__free_pages(m->pages[i], m->order);
			m->pages[i] = NULL;
			return -EIO;
		}
	}
	return 0;
}

static int rblk_memory_alloc_mrs(struct ib_pd *pd, struct ib_mr **mrs, unsigned int count,
				 u32 pages)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct ib_mr *mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, pages);

		if (IS_ERR(mr))
			return PTR_ERR(mr);
		mrs[i] = mr;
	}
	return 0;
}

unsigned int rblk_memory_slot_order(void)
{
	return get_order(READ_ONCE(slot_bytes));
}

u32 rblk_memory_pages_needed(unsigned int slot_order)
{
	/* Two at least: rblk_memory_max_bytes() is a page less than what can be registered. */
	return max(2u, 1u << slot_order);
}

u32 rblk_memory_slot_registrations(const struct ib_device *ibdev, unsigned int slot_order,
				   u32 tags)
{
	u32 per_mr = ibdev->attrs.max_fast_reg_page_list_len >> slot_order;

	return DIV_ROUND_UP(tags, clamp(per_mr, 1u, tags));
}

int rblk_memory_create(struct rblk_queue *queue, unsigned int credits, unsigned int tags)
{
	u32 limit = queue->ibdev->attrs.max_fast_reg_page_list_len;
	struct rblk_memory *m = kzalloc(sizeof(*m), GFP_KERNEL);
	int error = -ENOMEM;

	if (!m)
		return -ENOMEM;
	queue->memory = m;
	m->tags = tags;
	m->credits = credits;
	m->fast_pages = min(limit, RBLK_FAST_PAGES_MAX);
	m->order = queue->device->slot_order;
	m->slots_per_mr = min(limit >> m->order, tags);
	if (!m->slots_per_mr)
		goto err_destroy;
	m->slot_mr_count = DIV_ROUND_UP(tags, m->slots_per_mr);
	m->slot_cqe.done = rblk_memory_registered;
	m->pages = kcalloc(tags, sizeof(*m->pages), GFP_KERNEL);
	m->dma = kcalloc(tags, sizeof(*m->dma), GFP_KERNEL);
	m->slot_mrs = kcalloc(m->slot_mr_count, sizeof(*m->slot_mrs), GFP_KERNEL);
	m->slot_wrs = kcalloc(m->slot_mr_count, sizeof(*m->slot_wrs), GFP_KERNEL);
	m->fast_mrs = kcalloc(credits, sizeof(*m->fast_mrs), GFP_KERNEL);
	if (!m->pages || !m->dma || !m->slot_mrs || !m->slot_wrs || !m->fast_mrs)
		goto err_destroy;
	error = rblk_memory_alloc_slots(queue, m);
	if (!error)
		error = rblk_memory_alloc_mrs(queue->pd, m->slot_mrs, m->slot_mr_count,
					      m->slots_per_mr << m->order);
	if (!error)
		error = rblk_memory_alloc_mrs(queue->pd, m->fast_mrs, credits, m->fast_pages);
	if (!error)
		return 0;

err_destroy:
	rblk_memory_destroy(queue);
	return error;
}

/* One slot region: its pages as a list with device addresses filled in by hand. */
static int rblk_memory_map_slots(struct rblk_memory *m, unsigned int n, struct scatterlist *sgl)
{
	unsigned int first = n * m->slots_per_mr, count = min(m->slots_per_mr, m->tags - first), i;
	struct ib_mr *mr = m->slot_mrs[n];
	int mapped;

	sg_init_table(sgl, count);
	for (i = 0; i < count; i++) {
		sg_set_page(&sgl[i], m->pages[first + i], PAGE_SIZE << m->order, 0);
		sg_dma_address(&sgl[i]) = m->dma[first + i];
		sg_dma_len(&sgl[i]) = PAGE_SIZE << m->order;
	}
	mapped = ib_map_mr_sg(mr, sgl, count, NULL, PAGE_SIZE);
	if (mapped < 0)
		return mapped;
	if ((unsigned int)mapped != count)
		return -EINVAL;
	m->slot_wrs[n] = (struct ib_reg_wr){
		.wr = { .wr_cqe = &m->slot_cqe, .opcode = IB_WR_REG_MR },
		.mr = mr,
		.key = mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE,
	};
	return 0;
}

int rblk_memory_register(struct rblk_queue *queue)
{
	struct rblk_memory *m = queue->memory;
	struct scatterlist *sgl;
	unsigned int n;
	int error = 0;

	sgl = kcalloc(m->slots_per_mr, sizeof(*sgl), GFP_KERNEL);
	if (!sgl)
		return -ENOMEM;
	for (n = 0; n < m->slot_mr_count && !error; n++) {
		error = rblk_memory_map_slots(m, n, sgl);
		if (n)
			m->slot_wrs[n - 1].wr.next = &m->slot_wrs[n].wr;
	}
	kfree(sgl);
	/* Work requests of a send queue are done in order: the first SEND finds them registered. */
	return error ? error : ib_post_send(queue->qp, &m->slot_wrs[0].wr, NULL);
}

void rblk_memory_destroy(struct rblk_queue *queue)
{
	struct rblk_memory *m = queue->memory;
	unsigned int i;

	if (!m)
		return;
	for (i = 0; m->fast_mrs && i < m->credits; i++)
		if (m->fast_mrs[i])
			ib_dereg_mr(m->fast_mrs[i]);
	for (i = 0; m->slot_mrs && i < m->slot_mr_count; i++)
		if (m->slot_mrs[i])
			ib_dereg_mr(m->slot_mrs[i]);
	for (i = 0; m->pages && m->dma && i < m->tags && m->pages[i]; i++) {
		ib_dma_unmap_page(queue->ibdev, m->dma[i], PAGE_SIZE << m->order,
				  DMA_BIDIRECTIONAL);
		__free_pages(m->pages[i], m->order);
	}
	kfree(m->fast_mrs);
	kfree(m->slot_wrs);
	kfree(m->slot_mrs);
	kfree(m->dma);
	kfree(m->pages);
	kfree(m);
	queue->memory = NULL;
}

u32 rblk_memory_max_bytes(const struct rblk_queue *queue)
{
	/* One page less: a request that begins in the middle of a page touches one more. */
	return (queue->memory->fast_pages - 1) * SZ_4K;
}

u32 rblk_memory_slot_bytes(const struct rblk_queue *queue)
{
	return PAGE_SIZE << queue->memory->order;
}

void *rblk_memory_slot(struct rblk_queue *queue, u16 tag)
{
	return page_address(queue->memory->pages[tag]);
}

void rblk_memory_slot_sge(struct rblk_queue *queue, u16 tag, u32 bytes, struct ib_sge *sge)
{
	sge->addr = queue->memory->dma[tag];
	sge->length = bytes;
	sge->lkey = queue->pd->local_dma_lkey;
}

void rblk_memory_slot_segment(struct rblk_queue *queue, u16 tag, u32 bytes,
			      struct rblk_wire_segment *segment)
{
	struct rblk_memory *m = queue->memory;
	struct ib_mr *mr = m->slot_mrs[tag / m->slots_per_mr];

	segment->address =
		rblk_to_le64(mr->iova + ((u64)(tag % m->slots_per_mr) << PAGE_SHIFT << m->order));
	segment->rkey = rblk_to_le32(mr->rkey);
	segment->length = rblk_to_le32(bytes);
}

void rblk_memory_sync_slot(struct rblk_queue *queue, u16 tag, bool for_device)
{
	u32 bytes = rblk_memory_slot_bytes(queue);
	u64 dma = queue->memory->dma[tag];

	if (for_device)
		ib_dma_sync_single_for_device(queue->ibdev, dma, bytes, DMA_BIDIRECTIONAL);
	else
		ib_dma_sync_single_for_cpu(queue->ibdev, dma, bytes, DMA_BIDIRECTIONAL);
}

/* Between a request's pages and its slot. */
static void rblk_memory_copy(struct rblk_command *command, struct request *rq, bool to_slot)
{
	u8 *slot = rblk_memory_slot(command->queue, command->tag);
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_segment(bv, rq, iter) {
		if (to_slot)
			memcpy_from_bvec(slot, &bv);
		else
			memcpy_to_bvec(&bv, slot);
		slot += bv.bv_len;
	}
}

void rblk_memory_copy_out(struct rblk_command *command)
{
	rblk_memory_sync_slot(command->queue, command->tag, false);
	rblk_memory_copy(command, command->rq, false);
}

/* Register the request's own pages under a new key. */
static int rblk_memory_map_fast(struct rblk_command *command, struct request *rq)
{
	struct rblk_queue *queue = command->queue;
	struct ib_mr *mr = queue->memory->fast_mrs[command->tag];
	int error, nents, mapped;

	command->direction = rq_dma_dir(rq);
	command->table.sgl = command->first_sgl;
	error = sg_alloc_table_chained(&command->table, blk_rq_nr_phys_segments(rq),
				       command->table.sgl, RBLK_INLINE_SG);
	if (error)
		return -ENOMEM;
	/* Fewer than allocated, where segments were joined; orig_nents stays, to free by. */
	nents = rblk_compat_map_sg(rq, command->table.sgl);
	command->nents = nents;
	mapped = ib_dma_map_sg(queue->ibdev, command->table.sgl, nents, command->direction);
	if (!mapped) {
		error = -EIO;
		goto err_free_table;
	}
	error = ib_map_mr_sg(mr, command->table.sgl, mapped, NULL, SZ_4K);
	if (error != mapped) {
		error = error < 0 ? error : -EINVAL;
		goto err_unmap;
	}
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	command->mr = mr;
	command->memory = RBLK_MEMORY_FAST;
	command->reg_wr = (struct ib_reg_wr){
		.wr = { .wr_cqe = &command->reg_cqe, .opcode = IB_WR_REG_MR },
		.mr = mr,
		.key = mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE |
			  (command->direction == DMA_TO_DEVICE ? IB_ACCESS_REMOTE_READ
							       : IB_ACCESS_REMOTE_WRITE),
	};
	command->wire.segment.address = rblk_to_le64(mr->iova);
	command->wire.segment.rkey = rblk_to_le32(mr->rkey);
	command->wire.segment.length = rblk_to_le32(command->bytes);
	if (queue->features & RBLK_FEATURE_INVALIDATE)
		command->wire.flags |= RBLK_CMD_INVALIDATE;
	return 0;

err_unmap:
	ib_dma_unmap_sg(queue->ibdev, command->table.sgl, nents, command->direction);
err_free_table:
	sg_free_table_chained(&command->table, RBLK_INLINE_SG);
	return error;
}

int rblk_memory_map(struct rblk_command *command, struct request *rq)
{
	struct rblk_queue *queue = command->queue;
	bool write = rq_data_dir(rq) == WRITE;

	command->bytes = blk_rq_payload_bytes(rq);
	if (command->bytes > rblk_memory_slot_bytes(queue))
		return rblk_memory_map_fast(command, rq);
	if (write)
		rblk_memory_copy(command, rq, true);
	rblk_memory_sync_slot(queue, command->tag, true);
	if (write && command->bytes <= queue->device->max_capsule_bytes) {
		command->memory = RBLK_MEMORY_CAPSULE;
		command->wire.flags |= RBLK_CMD_CAPSULE;
		command->wire.segment.length = rblk_to_le32(command->bytes);
		return 0;
	}
	command->memory = RBLK_MEMORY_SLOT;
	rblk_memory_slot_segment(queue, command->tag, command->bytes, &command->wire.segment);
	/* The slot's key outlives the command, so the lone answer may be an immediate. */
	if (!write && queue->features & RBLK_FEATURE_IMMEDIATE)
		command->wire.flags |= RBLK_CMD_IMMEDIATE;
	return 0;
}

void rblk_memory_unmap(struct rblk_command *command)
{
	if (command->memory == RBLK_MEMORY_FAST) {
		ib_dma_unmap_sg(command->queue->ibdev, command->table.sgl, command->nents,
				command->direction);
		sg_free_table_chained(&command->table, RBLK_INLINE_SG);
	}
	command->memory = RBLK_MEMORY_NONE;
}
