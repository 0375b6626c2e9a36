/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's block layer as kmod/ uses it: requests with tags and states, a tag set that several queues
 * share, holding back, time-outs. A request's data is one piece of memory. block.c; module_io.c asks.
 */
#ifndef RBLK_TESTS_SIM_KERNEL_BLOCK_H
#define RBLK_TESTS_SIM_KERNEL_BLOCK_H

#include "tests/sim/crc32c.h"
#include "tests/sim/kernel/kernel.h"

typedef unsigned int blk_status_t;
#define BLK_STS_OK 0u
#define BLK_STS_NOTSUPP 1u
#define BLK_STS_TIMEOUT 2u
#define BLK_STS_NOSPC 3u
#define BLK_STS_TRANSPORT 4u
#define BLK_STS_TARGET 5u
#define BLK_STS_RESV_CONFLICT 6u
#define BLK_STS_MEDIUM 7u
#define BLK_STS_PROTECTION 8u
#define BLK_STS_RESOURCE 9u
#define BLK_STS_IOERR 10u
blk_status_t errno_to_blk_status(int error);
int blk_status_to_errno(blk_status_t status);

enum req_op { REQ_OP_READ, REQ_OP_WRITE, REQ_OP_FLUSH, REQ_OP_DISCARD, REQ_OP_WRITE_ZEROES, REQ_OP_DRV_OUT };
#define REQ_OP_MASK 0xffu
#define REQ_FUA (1u << 8)
#define REQ_NOUNMAP (1u << 9)
#define REQ_FAILFAST (1u << 10)
#define REQ_ATOMIC (1u << 11)
#define READ 0
#define WRITE 1

enum sim_request_state { SIM_RQ_IDLE, SIM_RQ_IN_FLIGHT, SIM_RQ_COMPLETE };

struct blk_mq_tag_set;
struct blk_mq_hw_ctx {
	void *driver_data;
	unsigned int queue_num;
};

/* Of a tag set, for its life; its driver's data is behind it. */
struct request {
	struct request_queue *q; /* of the disk that has it; NULL: free */
	struct blk_mq_hw_ctx *mq_hctx;
	int tag;
	unsigned int cmd_flags; /* enum req_op, REQ_* */
	unsigned short ioprio;
	u64 sector;
	u32 bytes;
	void *memory;
	struct bio { struct { u32 bi_size; } bi_iter; } *bio, first; /* each of as many bytes, if several are joined */
	unsigned long timeout, deadline; /* jiffies */
	enum sim_request_state state;
	unsigned int refs;	  /* who looks at it, besides its user */
	struct request *rq_next;  /* in a batch */
	struct list_head entry;	  /* queue->waiting */
	struct sim_event remote;  /* its completion, on another processor */
	void (*completed)(struct request *rq); /* by the driver; its end may come later, on another processor */
	void (*end)(struct request *rq, blk_status_t status);
	void *user;
};

struct request_queue {
	void *queuedata;
	bool write_cache; /* else there are no FLUSHes, nor FUA */
	bool served;	  /* a disk's, which is there and has had a request */
	uint32_t active;  /* hardware contexts that it has asked for a request, and that its timer has not found idle since */
	struct blk_mq_tag_set *set;
	struct list_head waiting; /* not dispatched yet */
	struct work_struct run_work, timeout_work;
	struct sim_event timer, rerun;
};

struct block_device_operations;
struct gendisk {
	struct request_queue *queue;
	const struct block_device_operations *fops;
	void *private_data;
	char disk_name[32];
	u64 sectors;
	bool read_only;
	unsigned int refs; /* its owner's, and one for each who has it open */
};

struct blk_mq_queue_data {
	struct request *rq;
	bool last;
};

enum blk_eh_timer_return { BLK_EH_DONE, BLK_EH_RESET_TIMER };
enum { HCTX_TYPE_DEFAULT, HCTX_TYPE_READ, HCTX_TYPE_POLL, HCTX_MAX_TYPES };
struct io_comp_batch {
	struct request *req_list;
	bool open; /* its poller polls */
	void (*complete)(struct io_comp_batch *batch);
};
struct blk_mq_queue_map { unsigned int nr_queues, queue_offset; };

struct blk_mq_ops {
	blk_status_t (*queue_rq)(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd);
	void (*commit_rqs)(struct blk_mq_hw_ctx *hctx);
	void (*complete)(struct request *rq);
	enum blk_eh_timer_return (*timeout)(struct request *rq);
	int (*poll)(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *batch);
	void (*map_queues)(struct blk_mq_tag_set *set);
	int (*init_hctx)(struct blk_mq_hw_ctx *hctx, void *data, unsigned int index);
	int (*init_request)(struct blk_mq_tag_set *set, struct request *rq, unsigned int hctx,
			    unsigned int node);
};

struct blk_mq_tag_set {
	const struct blk_mq_ops *ops;
	unsigned int nr_hw_queues, nr_maps, queue_depth, reserved_tags, cmd_size, flags;
	int numa_node;
	unsigned long timeout;
	void *driver_data;
	struct blk_mq_queue_map map[HCTX_MAX_TYPES];
	struct blk_mq_hw_ctx *hctxs;
	struct request **requests; /* by hardware context and tag */
};

static inline void *blk_mq_rq_to_pdu(struct request *rq)
{
	return rq + 1;
}

static inline struct request *blk_mq_rq_from_pdu(void *pdu)
{
	return (struct request *)pdu - 1;
}

#define req_op(rq) ((enum req_op)((rq)->cmd_flags & REQ_OP_MASK))
#define IOPRIO_CLASS_RT 1
#define IOPRIO_PRIO_CLASS(ioprio) ((ioprio) >> 13)
#define req_get_ioprio(rq) ((rq)->ioprio)
#define rq_data_dir(rq) (req_op(rq) == REQ_OP_READ ? READ : WRITE)
#define blk_rq_pos(rq) ((rq)->sector)
#define blk_rq_bytes(rq) ((rq)->bytes)
#define blk_rq_payload_bytes(rq) ((rq)->memory ? (rq)->bytes : 0u)
#define blk_rq_nr_phys_segments(rq) 1u
#define blk_noretry_request(rq) (((rq)->cmd_flags & REQ_FAILFAST) != 0)
#define blk_mq_map_queues(map) ((void)(map))

int blk_mq_alloc_tag_set(struct blk_mq_tag_set *set);
void blk_mq_free_tag_set(struct blk_mq_tag_set *set);
struct request_queue *sim_blk_queue(struct blk_mq_tag_set *set, void *data);
void blk_mq_destroy_queue(struct request_queue *q);
void blk_put_queue(struct request_queue *q);
void blk_mq_start_request(struct request *rq);
bool blk_mq_request_started(const struct request *rq);
bool blk_mq_request_completed(const struct request *rq);
void blk_mq_complete_request(struct request *rq);
bool blk_mq_complete_request_remote(struct request *rq);
void blk_mq_end_request(struct request *rq, blk_status_t status);
/* So many bytes have succeeded, and the rest of the request is dispatched again. */
bool blk_update_request(struct request *rq, blk_status_t status, unsigned int bytes);
void blk_mq_requeue_request(struct request *rq, bool kick);
#define rq_list_for_each(list, rq) for ((rq) = *(list); (rq); (rq) = (rq)->rq_next)
bool blk_mq_add_to_batch(struct request *rq, struct io_comp_batch *batch, bool is_error,
			 void (*end_all)(struct io_comp_batch *batch));
/* With success. */
void blk_mq_end_request_batch(struct io_comp_batch *batch);
/* Each request that is started. */
void blk_mq_tagset_busy_iter(struct blk_mq_tag_set *set, bool (*look)(struct request *rq, void *data), void *data);
bool blk_should_fake_timeout(const struct request_queue *q);
/* The driver's own requests, of which each context has one. */
#define BLK_MQ_REQ_NOWAIT 1u
#define BLK_MQ_REQ_RESERVED 2u
struct request *blk_mq_alloc_request_hctx(struct request_queue *q, enum req_op op, unsigned int flags, unsigned int hctx);
#define blk_mq_alloc_request(q, op, flags) blk_mq_alloc_request_hctx(q, op, flags, 0)
void blk_mq_free_request(struct request *rq);
/* Neither its timer nor what that has begun runs any more. */
void blk_sync_queue(struct request_queue *q);

/* -- data: a segment for each bio ----------------------------------------------------------------------- */

struct bio_vec { void *memory; u32 bv_len; };
struct req_iterator { u32 done; };
#define rq_for_each_segment(bv, rq, iter) \
	for ((iter).done = 0; (iter).done < (rq)->bytes && \
	     ((bv) = (struct bio_vec){ (u8 *)(rq)->memory + (iter).done, (rq)->bio->bi_iter.bi_size }, true); \
	     (iter).done += (bv).bv_len)
#define bvec_kmap_local(bv) ((bv)->memory)
#define kunmap_local(memory) ((void)(memory))
/* As the kernel has it: nothing is inverted, neither at first nor in the end. */
static inline u32 crc32c(u32 crc, const void *data, size_t bytes)
{
	return ~sim_crc32c(~crc, data, bytes);
}
#define memcpy_from_bvec(to, bv) memcpy(to, (bv)->memory, (bv)->bv_len)
#define memcpy_to_bvec(bv, from) memcpy((bv)->memory, from, (bv)->bv_len)

struct scatterlist {
	u8 *address;
	u32 length, dma_length;
	u64 dma_address;
};
struct sg_table { struct scatterlist *sgl; };
#define sg_init_table(sgl, count) memset(sgl, 0, (count) * sizeof(*(sgl)))
#define sg_set_buf(sg, buffer, bytes) ((void)((sg)->address = (buffer), (sg)->length = (bytes)))
#define sg_dma_address(sg) ((sg)->dma_address)
#define sg_dma_len(sg) ((sg)->dma_length)
#define sg_alloc_table_chained(table, segments, first, firsts) ((table)->sgl = (first), 0)
#define sg_free_table_chained(table, firsts) ((void)((table)->sgl = NULL))

/* -- disks; sysfs, where nobody looks ---------------------------------------------------------------------- */

struct kernfs_node;
struct attribute_group;
struct block_device_operations {
	void *owner;
	int (*open)(struct gendisk *disk);
	void (*release)(struct gendisk *disk);
	const struct pr_ops *pr_ops;
};

struct block_device { struct gendisk *bd_disk; };
enum pr_type {
	PR_WRITE_EXCLUSIVE = 1, PR_EXCLUSIVE_ACCESS, PR_WRITE_EXCLUSIVE_REG_ONLY, PR_EXCLUSIVE_ACCESS_REG_ONLY,
	PR_WRITE_EXCLUSIVE_ALL_REGS, PR_EXCLUSIVE_ACCESS_ALL_REGS,
};
#define PR_FL_IGNORE_KEY 1u
#define PR_STS_RESERVATION_CONFLICT 0x18
struct pr_keys { u32 generation, num_keys; u64 keys[8]; };
struct pr_held_reservation { u64 key; u32 generation; enum pr_type type; };
struct pr_ops {
	int (*pr_register)(struct block_device *bdev, u64 old_key, u64 new_key, u32 flags);
	int (*pr_reserve)(struct block_device *bdev, u64 key, enum pr_type type, u32 flags);
	int (*pr_release)(struct block_device *bdev, u64 key, enum pr_type type);
	int (*pr_preempt)(struct block_device *bdev, u64 old_key, u64 new_key, enum pr_type type, bool abort);
	int (*pr_clear)(struct block_device *bdev, u64 key);
	int (*pr_read_keys)(struct block_device *bdev, struct pr_keys *keys);
	int (*pr_read_reservation)(struct block_device *bdev, struct pr_held_reservation *held);
};

#define THIS_MODULE NULL
#define sysfs_notify_dirent(node) ((void)(node))
#define sysfs_get_dirent(parent, name) ((struct kernfs_node *)(parent))
#define sysfs_put(node) ((void)(node))
#define device_add_disk(parent, disk, groups) ((void)(disk), (void)(groups), 0)
struct sim_device { struct { struct kernfs_node *sd; } kobj; };
#define disk_to_dev(disk) ((void)(disk), &(struct sim_device){{NULL}})
#define set_capacity(disk, count) ((void)((disk)->sectors = (count)))
#define set_capacity_and_notify(disk, count) (set_capacity(disk, count), true)
#define set_disk_ro(disk, ro) ((void)((disk)->read_only = (ro)))
#define rounddown_pow_of_two(x) (1u << ilog2(x))
#define rounddown(x, to) ((x) / (to) * (to))
/* It is not seen any more, and its I/O has ended; the owner's reference ends, and the queue with it. */
void del_gendisk(struct gendisk *disk);
void put_disk(struct gendisk *disk);

/* As an open of its block device, and its end. */
void sim_gendisk_get(struct gendisk *disk);
void sim_gendisk_put(struct gendisk *disk);

/* What kmod/compat.h gives, whose kernels are not this one. */
#define RBLK_KMOD_COMPAT_H
#define RBLK_COMPAT_PR_READ
struct rblk_limits {
	u32 untorn_min_bytes, untorn_max_bytes;
	u32 logical_bytes, physical_bytes, optimal_bytes;
	u32 max_sectors, max_segments;
	u32 discard_granularity, max_discard_sectors, max_zeroes_sectors;
	bool write_cache, fua, rotational, stable;
};
#define RBLK_COMPAT_OPEN(name) static int name(struct gendisk *disk)
#define RBLK_COMPAT_RELEASE(name) static void name(struct gendisk *disk)
#define RBLK_COMPAT_DISK disk
#define RBLK_COMPAT_TAG_FLAGS 0
#define BLK_MQ_F_NO_SCHED_BY_DEFAULT 0
typedef unsigned int rblk_compat_node_t;
struct gendisk *rblk_compat_alloc_disk(struct blk_mq_tag_set *set, const struct rblk_limits *l,
				       void *data);
#define rblk_compat_alloc_queue(set) sim_blk_queue(set, NULL)
static inline int rblk_compat_map_sg(struct request *rq, struct scatterlist *sgl)
{
	*sgl = (struct scatterlist){ .address = rq->memory, .length = rq->bytes };
	return 1;
}

/* -- for who has a disk ---------------------------------------------------------------------------------- */

/* A free request of this hardware context; NULL: there is none, or the disk has its share of them. `end` is called once it was submitted. */
struct request *sim_blk_get(struct request_queue *q, unsigned int hctx);
void sim_blk_submit(struct request *rq, bool last);

/* paths.c: before a request is sent; when it ends. */
struct rblk_command;
struct rblk_session;
#define SIM_LATE_MS 100u /* a machine that does other work, too, is late by so much */
void sim_paths_check_spread(const struct rblk_session *session);
void sim_paths_check_leaving(const struct rblk_session *session);
void sim_paths_check_end(const struct rblk_command *command, blk_status_t status);

#endif
