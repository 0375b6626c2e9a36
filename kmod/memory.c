// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Slots (registered memory of each tag's own) and fast registrations (one memory region per I/O
 * tag, its key changed for each use). Called by command.c for each request, by connect.c when a
 * connection comes and goes. Posting is left to queue.c.
 */
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "kmod/memory.h"
#include "kmod/compat.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/queue.h"
#include "kmod/slots.h"

/* 1 MiB in pages of 4 KiB, wherever in its first page it begins. */
#define RBLK_FAST_PAGES_MAX 257u

static unsigned int slot_bytes = 4096;

static int rblk_memory_set_slot_bytes(const char *value, const struct kernel_param *kp)
{
	unsigned int bytes;
	int error = kstrtouint(value, 0, &bytes);

	if (!error && !is_power_of_2(bytes))
		error = -EINVAL;
	return error ?: param_set_uint_minmax(value, kp, RBLK_SLOT_BYTES_MIN, RBLK_SLOT_BYTES_MAX);
}

static const struct kernel_param_ops rblk_slot_bytes_ops = {
	.set = rblk_memory_set_slot_bytes,
	.get = param_get_uint,
};
module_param_cb(slot_bytes, &rblk_slot_bytes_ops, &slot_bytes, 0644);
MODULE_PARM_DESC(slot_bytes,
		 "largest I/O that is copied, not registered: 4096 to 65536, for new sessions");

struct rblk_memory {
	struct rblk_slots slots;
	struct rblk_ring ring; /* a slot for each tag */
	unsigned int credits;
	u32 fast_pages;
	struct ib_mr **slot_mrs; /* slots.mrs */
	struct ib_reg_wr *slot_wrs;
	struct ib_cqe slot_cqe;
	bool slots_registered;   /* or may be */
	struct ib_mr **fast_mrs; /* credits */
};

static void rblk_memory_registered(struct ib_cq *cq, struct ib_wc *wc)
{
	struct rblk_queue *queue = cq->cq_context;

	if (wc->status != IB_WC_SUCCESS && wc->status != IB_WC_WR_FLUSH_ERR)
		rblk_queue_lost(queue, "registering memory: %s", ib_wc_status_msg(wc->status));
}

static int rblk_memory_alloc_mrs(struct ib_pd *pd, struct ib_mr **mrs, unsigned int count,
				 u32 pages)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct ib_mr *mr;

		if (mrs[i])
			continue;
		mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, pages);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		mrs[i] = mr;
	}
	return 0;
}

u32 rblk_memory_slot_bytes(void)
{
	return READ_ONCE(slot_bytes);
}

u32 rblk_memory_pages_needed(u32 slot)
{
	/* Two at least: rblk_memory_max_bytes() is a page less than what can be registered. */
	return max(2u, slot / RBLK_SLOT_UNIT);
}

static struct rblk_slots rblk_memory_slots(const struct ib_device *ibdev, u32 slot, u32 tags)
{
	return rblk_slots_lay_out(slot, ibdev->attrs.max_fast_reg_page_list_len, tags);
}

u32 rblk_memory_slot_registrations(const struct ib_device *ibdev, u32 slot, u32 tags)
{
	return rblk_memory_slots(ibdev, slot, tags).mrs;
}

int rblk_memory_create(struct rblk_queue *queue)
{
	struct rblk_memory *m = kzalloc(sizeof(*m), GFP_KERNEL);
	unsigned int credits = queue->wanted, tags = credits + RBLK_RESERVED_TAGS;

	if (!m)
		return -ENOMEM;
	queue->memory = m;
	m->credits = credits;
	m->fast_pages = min(queue->ibdev->attrs.max_fast_reg_page_list_len, RBLK_FAST_PAGES_MAX);
	m->slots = rblk_memory_slots(queue->ibdev, queue->session->slot_bytes, tags);
	m->slot_cqe.done = rblk_memory_registered;
	m->slot_mrs = kcalloc(m->slots.mrs, sizeof(*m->slot_mrs), GFP_KERNEL);
	m->slot_wrs = kcalloc(m->slots.mrs, sizeof(*m->slot_wrs), GFP_KERNEL);
	m->fast_mrs = kcalloc(credits, sizeof(*m->fast_mrs), GFP_KERNEL);
	if (!m->slot_mrs || !m->slot_wrs || !m->fast_mrs)
		return -ENOMEM;
	return rblk_ring_create(&m->ring, queue->ibdev, tags, m->slots.slot_bytes,
				DMA_BIDIRECTIONAL);
}

int rblk_memory_make_keys(struct rblk_queue *queue)
{
	struct rblk_memory *m = queue->memory;
	u32 pages = m->slots.per_mr * (m->slots.slot_bytes / RBLK_SLOT_UNIT);

	return rblk_memory_alloc_mrs(queue->pd, m->slot_mrs, m->slots.mrs, pages) ?:
	       rblk_memory_alloc_mrs(queue->pd, m->fast_mrs, m->credits, m->fast_pages);
}

/* One slot region: its slots as a list with device addresses filled in by hand. */
static int rblk_memory_map_slots(struct rblk_memory *m, u32 tags, unsigned int n,
				 struct scatterlist *sgl)
{
	u32 bytes = m->slots.slot_bytes;
	u32 first = n * m->slots.per_mr, count = min(m->slots.per_mr, tags - first), i;
	struct ib_mr *mr = m->slot_mrs[n];
	int mapped;
	u64 dma;

	sg_init_table(sgl, count);
	for (i = 0; i < count; i++) {
		sg_set_buf(&sgl[i], rblk_ring_entry(&m->ring, first + i, &dma), bytes);
		sg_dma_address(&sgl[i]) = dma;
		sg_dma_len(&sgl[i]) = bytes;
	}
	mapped = ib_map_mr_sg(mr, sgl, count, NULL, RBLK_SLOT_UNIT);
	if (mapped != (int)count)
		return mapped < 0 ? mapped : -EINVAL;
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

	sgl = kcalloc(m->slots.per_mr, sizeof(*sgl), GFP_KERNEL);
	if (!sgl)
		return -ENOMEM;
	for (n = 0; n < m->slots.mrs && !error; n++) {
		error = rblk_memory_map_slots(m, queue->wanted + RBLK_RESERVED_TAGS, n, sgl);
		if (n)
			m->slot_wrs[n - 1].wr.next = &m->slot_wrs[n].wr;
	}
	kfree(sgl);
	if (error)
		return error;
	m->slots_registered = true;
	/* Work requests of a send queue are done in order: the first SEND finds them registered. */
	return ib_post_send(queue->qp, &m->slot_wrs[0].wr, NULL);
}

static void rblk_memory_end_mrs(struct ib_mr **mrs, unsigned int count)
{
	unsigned int i;

	for (i = 0; mrs && i < count; i++) {
		if (mrs[i])
			ib_dereg_mr(mrs[i]);
		mrs[i] = NULL;
	}
}

/*
 * F4. With the queue pair the last RDMA of its connection is over. But a key belongs to the
 * protection domain: one that is valid still would be the next connection's, too, and its pages are
 * about to be unmapped. Nothing but a queue pair invalidates it, and on the next one its peer could
 * use it before that is done. So these registrations go: the slots', and those of commands that
 * have not ended, because an answer ends its command only when its key has ended. The others are
 * invalid, and get another key with each use.
 */
void rblk_memory_end_keys(struct rblk_queue *queue)
{
	struct rblk_memory *m = queue->memory;
	unsigned int tag;

	if (!m)
		return;
	if (m->slots_registered)
		rblk_memory_end_mrs(m->slot_mrs, m->slots.mrs);
	m->slots_registered = false;
	for (tag = 0; tag < m->credits; tag++)
		if (queue->commands[tag] && rblk_command_has_valid_key(queue->commands[tag]))
			rblk_memory_end_mrs(&m->fast_mrs[tag], 1);
}

void rblk_memory_destroy(struct rblk_queue *queue)
{
	struct rblk_memory *m = queue->memory;

	if (!m)
		return;
	rblk_memory_end_mrs(m->fast_mrs, m->credits);
	rblk_memory_end_mrs(m->slot_mrs, m->slots.mrs);
	rblk_ring_release(&m->ring, queue->ibdev);
	kfree(m->fast_mrs);
	kfree(m->slot_wrs);
	kfree(m->slot_mrs);
	kfree(m);
	queue->memory = NULL;
}

u32 rblk_memory_max_bytes(const struct rblk_queue *queue)
{
	/* Software devices have none: they use the processor's own addresses. */
	struct device *dma_device = queue->ibdev->dma_device;
	/* A bounce buffer holds one segment, and a request may be one. */
	size_t mapping = dma_device ? dma_max_mapping_size(dma_device) : SIZE_MAX;
	/* One page less: a request that begins in the middle of a page touches one more. */
	u32 bytes = (queue->memory->fast_pages - 1) * SZ_4K;

	return min_t(size_t, bytes, round_down(mapping, SZ_4K));
}

void *rblk_memory_slot(struct rblk_queue *queue, u16 tag)
{
	u64 dma;

	return rblk_ring_entry(&queue->memory->ring, tag, &dma);
}

void rblk_memory_slot_sge(struct rblk_queue *queue, u16 tag, u32 bytes, struct ib_sge *sge)
{
	rblk_ring_entry(&queue->memory->ring, tag, &sge->addr);
	sge->length = bytes;
	sge->lkey = queue->pd->local_dma_lkey;
}

void rblk_memory_slot_segment(struct rblk_queue *queue, u16 tag, u32 bytes,
			      struct rblk_wire_segment *segment)
{
	const struct rblk_memory *m = queue->memory;
	const struct ib_mr *mr = m->slot_mrs[rblk_slots_mr(&m->slots, tag)];

	segment->address = rblk_to_le64(mr->iova + rblk_slots_mr_offset(&m->slots, tag));
	segment->rkey = rblk_to_le32(mr->rkey);
	segment->length = rblk_to_le32(bytes);
}

void rblk_memory_sync_slot(struct rblk_queue *queue, u16 tag, bool for_device)
{
	u32 bytes = queue->memory->slots.slot_bytes;
	u64 dma;

	rblk_ring_entry(&queue->memory->ring, tag, &dma);
	if (for_device)
		ib_dma_sync_single_for_device(queue->ibdev, dma, bytes, DMA_BIDIRECTIONAL);
	else
		ib_dma_sync_single_for_cpu(queue->ibdev, dma, bytes, DMA_BIDIRECTIONAL);
}

/* Between a request's pages and its slot. */
static void rblk_memory_copy(struct rblk_io *io, bool to_slot)
{
	u8 *slot = rblk_memory_slot(io->command.queue, io->command.tag);
	struct request *rq = rblk_io_rq(io);
	const u8 *end = slot + io->command.bytes;
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_segment(bv, rq, iter) {
		if (slot == end)
			break;
		if (to_slot)
			memcpy_from_bvec(slot, &bv);
		else
			memcpy_to_bvec(&bv, slot);
		slot += bv.bv_len;
	}
}

void rblk_memory_copy_out(struct rblk_io *io)
{
	rblk_memory_sync_slot(io->command.queue, io->command.tag, false);
	rblk_memory_copy(io, false);
}

/*
 * The work request that makes its memory's new key valid; and the key in the command, for the
 * target.
 */
static void rblk_memory_tell_key(struct rblk_io *io)
{
	struct rblk_command *command = &io->command;
	struct ib_mr *mr = io->mr;

	io->reg_wr = (struct ib_reg_wr){
		.wr = { .wr_cqe = &io->reg_cqe, .opcode = IB_WR_REG_MR },
		.mr = mr,
		.key = mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE |
			  (io->direction == DMA_TO_DEVICE ? IB_ACCESS_REMOTE_READ
							  : IB_ACCESS_REMOTE_WRITE),
	};
	command->wire.segment.address = rblk_to_le64(mr->iova);
	command->wire.segment.rkey = rblk_to_le32(mr->rkey);
	command->wire.segment.length = rblk_to_le32(command->bytes);
	if (command->queue->features & RBLK_FEATURE_INVALIDATE)
		command->wire.flags |= RBLK_CMD_INVALIDATE;
}

/* Register the request's own pages under a new key. */
static int rblk_memory_map_fast(struct rblk_io *io)
{
	struct rblk_command *command = &io->command;
	struct rblk_queue *queue = command->queue;
	struct request *rq = rblk_io_rq(io);
	struct ib_mr *mr = queue->memory->fast_mrs[command->tag];
	int error, nents, mapped;

	io->direction = rq_dma_dir(rq);
	io->table.sgl = io->first_sgl;
	error = sg_alloc_table_chained(&io->table, blk_rq_nr_phys_segments(rq),
				       io->table.sgl, RBLK_INLINE_SG);
	if (error)
		return -ENOMEM;
	/* Fewer than allocated, where segments were joined; orig_nents stays, to free by. */
	nents = rblk_compat_map_sg(rq, io->table.sgl);
	io->nents = nents;
	mapped = ib_dma_map_sg(queue->ibdev, io->table.sgl, nents, io->direction);
	if (!mapped) {
		error = -ENOMEM; /* bounce buffers or I/O addresses are short for now */
		goto err_free_table;
	}
	error = ib_map_mr_sg(mr, io->table.sgl, mapped, NULL, SZ_4K);
	if (error != mapped) {
		error = error < 0 ? error : -EINVAL;
		goto err_unmap;
	}
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	io->mr = mr;
	io->mr_valid = false; /* until it is sent */
	command->memory = RBLK_MEMORY_FAST;
	atomic_inc(&queue->large);
	rblk_memory_tell_key(io);
	return 0;

err_unmap:
	ib_dma_unmap_sg(queue->ibdev, io->table.sgl, nents, io->direction);
err_free_table:
	sg_free_table_chained(&io->table, RBLK_INLINE_SG);
	return error;
}

int rblk_memory_map(struct rblk_io *io, u32 bytes)
{
	struct rblk_command *command = &io->command;
	struct rblk_queue *queue = command->queue;
	struct request *rq = rblk_io_rq(io);
	bool write = rq_data_dir(rq) == WRITE;

	command->bytes = bytes;
	if (command->bytes > queue->memory->slots.slot_bytes)
		return rblk_memory_map_fast(io);
	if (write)
		rblk_memory_copy(io, true);
	rblk_memory_sync_slot(queue, command->tag, true);
	if (write &&
	    command->bytes <= min(rblk_disk_of(rq)->max_capsule_bytes, queue->capsule_bytes)) {
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

void rblk_memory_unmap_pages(struct rblk_io *io)
{
	if (io->command.memory != RBLK_MEMORY_FAST)
		return;
	atomic_dec(&io->command.queue->large);
	ib_dma_unmap_sg(io->command.queue->ibdev, io->table.sgl, io->nents, io->direction);
	sg_free_table_chained(&io->table, RBLK_INLINE_SG);
	io->command.memory = RBLK_MEMORY_NONE;
}

void rblk_memory_unmap(struct rblk_io *io)
{
	rblk_memory_unmap_pages(io);
	io->command.memory = RBLK_MEMORY_NONE;
	if (io->borrowed)
		rblk_queue_put_tag(io->command.queue, io->command.tag);
	io->borrowed = false;
}
