/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The block layer of block.h, as blk-mq has it: a request is started once and ended once, what a driver
 * has no room for is asked again, a request that is looked at is not another's meanwhile. The requests of a context are
 * divided among the queues that have asked for one of late; so that no disk may take all before another one asks is the
 * driver's to see to.
 */
#include "tests/sim/kernel/block.h"

#include "kmod/disk.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/kernel/module_kernel.h"
#include "tests/sim/random.h"

#define QUEUES_MAX 8u
#define RERUN_NS (3 * SIM_MS)
/* No share is smaller. */
#define SHARE_LEAST 4u

uint32_t sim_blk_fake_timeouts;
static struct request_queue *queues[QUEUES_MAX];
static unsigned int tag_sets;
const struct attribute_group *rblk_disk_groups[1];

void rblk_debugfs_add(struct rblk_disk *disk)
{
}

void rblk_debugfs_remove(struct rblk_disk *disk)
{
}

/* -- statuses -------------------------------------------------------------------------------------- */

static const struct {
	blk_status_t status;
	int error;
} statuses[] = {
	{BLK_STS_OK, 0},		   {BLK_STS_NOTSUPP, -EOPNOTSUPP},
	{BLK_STS_TIMEOUT, -ETIMEDOUT},	   {BLK_STS_NOSPC, -ENOSPC},
	{BLK_STS_TRANSPORT, -ENOLINK},	   {BLK_STS_TARGET, -EREMOTEIO},
	{BLK_STS_RESV_CONFLICT, -EBADE},   {BLK_STS_MEDIUM, -ENODATA},
	{BLK_STS_PROTECTION, -EILSEQ},	   {BLK_STS_RESOURCE, -ENOMEM},
	{BLK_STS_IOERR, -EIO},
};

blk_status_t errno_to_blk_status(int error)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].error == error)
			return statuses[i].status;
	return BLK_STS_IOERR;
}

int blk_status_to_errno(blk_status_t status)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].error;
	return -EIO;
}

/* -- requests ----------------------------------------------------------------------------------------- */

void blk_mq_start_request(struct request *rq)
{
	if (rq->state != SIM_RQ_IDLE)
		sim_fail("the kernel: a request is started twice");
	rq->state = SIM_RQ_IN_FLIGHT;
	rq->timeout = rq->q->set->timeout;
	rq->deadline = jiffies + rq->timeout;
	sim_event_by(&rq->q->timer, sim_now_ns() + rq->timeout * SIM_MS);
}

bool blk_mq_request_started(const struct request *rq)
{
	return rq->state != SIM_RQ_IDLE;
}

bool blk_mq_request_completed(const struct request *rq)
{
	return rq->state == SIM_RQ_COMPLETE;
}

static void on_remote(void *arg)
{
	struct request *rq = arg;

	rq->q->set->ops->complete(rq);
}

static void request_set_complete(struct request *rq)
{
	if (rq->state != SIM_RQ_IN_FLIGHT)
		sim_fail("the kernel: a request is completed that %s",
			 rq->state == SIM_RQ_IDLE ? "is not started" : "has been completed");
	rq->state = SIM_RQ_COMPLETE;
	rq->completed(rq);
}

bool blk_mq_complete_request_remote(struct request *rq)
{
	request_set_complete(rq);
	if (sim_chance(700000))
		return false;
	sim_event_in(&rq->remote, sim_below(sim_chance(900000) ? 20 * SIM_US : sim_chance(500000) ? SIM_MS : 20 * SIM_MS));
	return true;
}

void blk_mq_complete_request(struct request *rq)
{
	if (!blk_mq_complete_request_remote(rq))
		rq->q->set->ops->complete(rq);
}

static void set_run(struct blk_mq_tag_set *set)
{
	for (unsigned int i = 0; i < QUEUES_MAX; i++)
		if (queues[i] && queues[i]->set == set && !list_empty(&queues[i]->waiting))
			sim_work_queue(&queues[i]->run_work);
}

static void request_put(struct request *rq)
{
	struct blk_mq_tag_set *set = rq->q->set;

	if (--rq->refs)
		return;
	sim_wake(rq->q);
	rq->q = NULL;
	set_run(set);
}

void blk_mq_end_request(struct request *rq, blk_status_t status)
{
	if (rq->state != (rq->end ? SIM_RQ_COMPLETE : SIM_RQ_IN_FLIGHT))
		sim_fail("the kernel: a request is ended that was not completed");
	rq->state = SIM_RQ_IDLE;
	if (rq->end)
		rq->end(rq, status);
	request_put(rq);
}

bool blk_update_request(struct request *rq, blk_status_t status, unsigned int bytes)
{
	if (status != BLK_STS_OK || !bytes || bytes >= rq->bytes || bytes != rq->bio->bi_iter.bi_size)
		sim_fail("the kernel: %u bytes of a request of %u end with status %u", bytes, rq->bytes, status);
	rq->sector += bytes >> SECTOR_SHIFT;
	rq->bytes -= bytes;
	rq->memory = (u8 *)rq->memory + bytes;
	sim_reached("module", "joined untorn writes go one by one", NULL);
	return true;
}

void blk_mq_requeue_request(struct request *rq, bool kick)
{
	if (rq->state != SIM_RQ_COMPLETE || !kick)
		sim_fail("the kernel: a request is queued again that was not completed, or nobody looks at it");
	rq->state = SIM_RQ_IDLE;
	list_add(&rq->entry, &rq->q->waiting);
	sim_work_queue(&rq->q->run_work);
}

bool blk_mq_add_to_batch(struct request *rq, struct io_comp_batch *batch, bool is_error,
			 void (*end_all)(struct io_comp_batch *batch))
{
	if (!batch || is_error)
		return false;
	if (!batch->open)
		sim_fail("the kernel: a request is added to a batch of a poll that is over");
	rq->rq_next = batch->req_list;
	batch->req_list = rq;
	batch->complete = end_all;
	return true;
}

void blk_mq_end_request_batch(struct io_comp_batch *batch)
{
	struct request *rq, *next;

	sim_reached("module", batch->req_list->rq_next ? "several polled requests are ended together"
						       : "a polled request is ended by its poller", NULL);
	for (rq = batch->req_list; rq; rq = next) {
		next = rq->rq_next;
		blk_mq_end_request(rq, BLK_STS_OK);
	}
	batch->req_list = NULL;
}

struct request *blk_mq_alloc_request_hctx(struct request_queue *q, enum req_op op, unsigned int flags, unsigned int hctx)
{
	struct request *rq = q->set->requests[hctx * q->set->queue_depth];

	(void)flags;
	if (rq->q)
		return ERR_PTR(-EAGAIN);
	q->active |= 1u << hctx;
	rq->q = q;
	rq->refs = 1;
	rq->cmd_flags = op;
	rq->end = NULL;
	return rq;
}

void blk_mq_free_request(struct request *rq)
{
	request_put(rq);
}

/* -- shares (hctx_may_queue() in the kernel) ------------------------------------------------------------ */

/* Of a context's requests that disks may have, those that this one has. */
static unsigned int share_used(const struct request_queue *q, unsigned int hctx)
{
	const struct blk_mq_tag_set *set = q->set;
	unsigned int used = 0;

	for (unsigned int i = set->reserved_tags; i < set->queue_depth; i++)
		used += set->requests[hctx * set->queue_depth + i]->q == q;
	return used;
}

static bool share_has_more(const struct request_queue *q, unsigned int hctx)
{
	unsigned int users = 0, depth = q->set->queue_depth - q->set->reserved_tags;

	for (unsigned int i = 0; i < QUEUES_MAX; i++)
		users += queues[i] && queues[i]->set == q->set && queues[i]->active & 1u << hctx;
	if (share_used(q, hctx) < max(DIV_ROUND_UP(depth, users), SHARE_LEAST))
		return true;
	sim_reached("module", "a disk has its share of the requests", NULL);
	return false;
}

/* Another one that has had requests before would find none, for as long as the I/O of this one is held. */
static void share_check(const struct request_queue *q, unsigned int hctx)
{
	unsigned int depth = q->set->queue_depth - q->set->reserved_tags;

	if (depth <= SHARE_LEAST || share_used(q, hctx) < depth)
		return;
	for (unsigned int i = 0; i < QUEUES_MAX; i++)
		if (queues[i] && queues[i] != q && queues[i]->set == q->set && queues[i]->served)
			sim_fail("the kernel: one disk has all requests of a context, another one none");
}

struct request *sim_blk_get(struct request_queue *q, unsigned int hctx)
{
	const struct blk_mq_tag_set *set = q->set;

	q->active |= 1u << hctx;
	if (!share_has_more(q, hctx))
		return NULL;
	for (unsigned int i = set->reserved_tags; i < set->queue_depth; i++) {
		struct request *rq = set->requests[hctx * set->queue_depth + i];

		if (rq->q)
			continue;
		rq->q = q;
		rq->refs = 1;
		rq->cmd_flags = rq->bytes = 0;
		rq->sector = 0;
		rq->memory = NULL;
		rq->bio = &rq->first;
		q->served = true;
		share_check(q, hctx);
		return rq;
	}
	return NULL;
}

/* -- dispatching ----------------------------------------------------------------------------------------- */

/* False: not now; it is to be tried again. */
static bool dispatch(struct request *rq, bool last)
{
	struct request_queue *q = rq->q;
	struct blk_mq_queue_data data = { .rq = rq, .last = last };
	blk_status_t status;

	sim_rcu_readers++;
	status = q->set->ops->queue_rq(rq->mq_hctx, &data);
	sim_rcu_read_unlock();
	if (status == BLK_STS_OK)
		return true;
	if (status != BLK_STS_RESOURCE)
		sim_fail("the kernel: a request is refused: status %u", status);
	rq->state = SIM_RQ_IDLE;
	return false;
}

static void queue_run(struct work_struct *work)
{
	struct request_queue *q = container_of(work, struct request_queue, run_work);
	struct blk_mq_hw_ctx *hctx = NULL;

	while (!list_empty(&q->waiting)) {
		struct request *rq = list_first_entry(&q->waiting, struct request, entry);

		list_del_init(&rq->entry);
		if (hctx && hctx != rq->mq_hctx)
			q->set->ops->commit_rqs(hctx);
		hctx = rq->mq_hctx;
		if (dispatch(rq, false))
			continue;
		list_add(&rq->entry, &q->waiting);
		sim_event_by(&q->rerun, sim_now_ns() + RERUN_NS);
		break;
	}
	if (hctx)
		q->set->ops->commit_rqs(hctx);
}

void sim_blk_submit(struct request *rq, bool last)
{
	struct request_queue *q = rq->q;

	if (list_empty(&q->waiting) && dispatch(rq, last))
		return;
	list_add_tail(&rq->entry, &q->waiting);
	sim_event_by(&q->rerun, sim_now_ns() + RERUN_NS);
	if (last)
		q->set->ops->commit_rqs(rq->mq_hctx);
}

static void on_rerun(void *arg)
{
	struct request_queue *q = arg;

	sim_work_queue(&q->run_work);
}

/* -- time-outs ---------------------------------------------------------------------------------------------- */

static void queue_timeout(struct work_struct *work)
{
	struct request_queue *q = container_of(work, struct request_queue, timeout_work);
	const struct blk_mq_tag_set *set = q->set;
	bool idle = true;

	for (unsigned int i = 0; i < set->nr_hw_queues * set->queue_depth; i++) {
		struct request *rq = set->requests[i];

		if (rq->q != q || rq->state != SIM_RQ_IN_FLIGHT)
			continue;
		idle = false;
		rq->refs++;
		if (!time_before(jiffies, rq->deadline) &&
		    set->ops->timeout(rq) == BLK_EH_RESET_TIMER) {
			rq->deadline = jiffies + rq->timeout;
			sim_reached("module", "a request's time is over", NULL);
		}
		if (rq->state == SIM_RQ_IN_FLIGHT)
			sim_event_by(&q->timer, max((u64)rq->deadline, (u64)jiffies + 1) * SIM_MS);
		request_put(rq);
	}
	if (idle)
		q->active = 0;
}

void blk_sync_queue(struct request_queue *q)
{
	sim_event_cancel(&q->timer);
	cancel_work_sync(&q->timeout_work);
}

static void on_timer(void *arg)
{
	struct request_queue *q = arg;

	sim_work_queue(&q->timeout_work);
}

bool blk_should_fake_timeout(const struct request_queue *q)
{
	(void)q;
	return !sim_net.calm && sim_chance(sim_blk_fake_timeouts);
}

/* -- tag sets, queues -------------------------------------------------------------------------------------------- */

int blk_mq_alloc_tag_set(struct blk_mq_tag_set *set)
{
	unsigned int count = set->nr_hw_queues * set->queue_depth;

	set->hctxs = calloc(set->nr_hw_queues, sizeof(*set->hctxs));
	set->requests = calloc(count, sizeof(*set->requests));
	if (!set->hctxs || !set->requests)
		sim_fail("out of memory");
	tag_sets++;
	set->ops->map_queues(set);
	for (unsigned int i = 0; i < set->nr_hw_queues; i++) {
		set->hctxs[i].queue_num = i;
		set->ops->init_hctx(&set->hctxs[i], set->driver_data, i);
	}
	for (unsigned int i = 0; i < count; i++) {
		struct request *rq = calloc(1, sizeof(*rq) + set->cmd_size);

		if (!rq)
			sim_fail("out of memory");
		rq->mq_hctx = &set->hctxs[i / set->queue_depth];
		rq->tag = (int)(i % set->queue_depth);
		rq->remote = (struct sim_event){.run = on_remote, .arg = rq};
		INIT_LIST_HEAD(&rq->entry);
		set->ops->init_request(set, rq, i / set->queue_depth, 0);
		set->requests[i] = rq;
	}
	return 0;
}

void blk_mq_free_tag_set(struct blk_mq_tag_set *set)
{
	for (unsigned int i = 0; i < set->nr_hw_queues * set->queue_depth; i++) {
		if (set->requests[i]->q)
			sim_fail("the kernel: a tag set is freed with a request in use");
		free(set->requests[i]);
	}
	free(set->requests);
	free(set->hctxs);
	tag_sets--;
}

struct request_queue *sim_blk_queue(struct blk_mq_tag_set *set, void *data)
{
	struct request_queue *q = calloc(1, sizeof(*q));
	unsigned int i = 0;

	while (i < QUEUES_MAX && queues[i])
		i++;
	if (!q || i == QUEUES_MAX)
		sim_fail("the kernel: too many queues");
	queues[i] = q;
	q->set = set;
	q->queuedata = data;
	INIT_LIST_HEAD(&q->waiting);
	INIT_WORK(&q->run_work, queue_run);
	INIT_WORK(&q->timeout_work, queue_timeout);
	q->timer = (struct sim_event){.run = on_timer, .arg = q};
	q->rerun = (struct sim_event){.run = on_rerun, .arg = q};
	return q;
}

static bool queue_is_busy(const struct request_queue *q)
{
	const struct blk_mq_tag_set *set = q->set;

	for (unsigned int i = 0; i < set->nr_hw_queues * set->queue_depth; i++)
		if (set->requests[i]->q == q)
			return true;
	return false;
}

/* Sleeps until its last request has ended. */
void blk_mq_destroy_queue(struct request_queue *q)
{
	sim_might_sleep(__func__);
	while (queue_is_busy(q))
		sim_sleep_on(q, UINT64_MAX);
	blk_sync_queue(q);
	sim_event_cancel(&q->rerun);
	cancel_work_sync(&q->run_work);
	for (unsigned int i = 0; i < QUEUES_MAX; i++)
		if (queues[i] == q)
			queues[i] = NULL;
}

void blk_put_queue(struct request_queue *q)
{
	free(q);
}

void blk_mq_tagset_busy_iter(struct blk_mq_tag_set *set, bool (*look)(struct request *rq, void *data), void *data)
{
	for (unsigned int i = 0; i < set->nr_hw_queues * set->queue_depth; i++)
		if (blk_mq_request_started(set->requests[i]) && !look(set->requests[i], data))
			return;
}

/* -- disks ---------------------------------------------------------------------------------------------------- */

struct gendisk *rblk_compat_alloc_disk(struct blk_mq_tag_set *set, const struct rblk_limits *l,
				       void *data)
{
	struct gendisk *disk = calloc(1, sizeof(*disk));

	if (!disk)
		sim_fail("out of memory");
	disk->queue = sim_blk_queue(set, data);
	disk->queue->write_cache = l->write_cache;
	disk->refs = 1;
	return disk;
}

void del_gendisk(struct gendisk *disk)
{
	sim_might_sleep(__func__);
	while (queue_is_busy(disk->queue))
		sim_sleep_on(disk->queue, UINT64_MAX);
	disk->queue->served = false;
}

void put_disk(struct gendisk *disk)
{
	blk_mq_destroy_queue(disk->queue);
	blk_put_queue(disk->queue);
	disk->queue = NULL;
	sim_gendisk_put(disk);
}

void sim_gendisk_get(struct gendisk *disk)
{
	disk->refs++;
}

void sim_gendisk_put(struct gendisk *disk)
{
	if (!--disk->refs)
		free(disk);
}

/* -- the end ------------------------------------------------------------------------------------------------- */

void sim_blk_stop(void)
{
	for (unsigned int i = 0; i < QUEUES_MAX; i++)
		if (queues[i])
			sim_fail("the kernel: a request queue was not destroyed");
	if (tag_sets)
		sim_fail("the kernel: %u tag sets were not freed", tag_sets);
}
