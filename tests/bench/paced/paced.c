// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * paced: disks in memory that write so many MiB a second, one WRITE after the other, and read at once, for measurements in a
 * guest whose clock counts instructions (tests/lab/jobs/priority-counted.sh): QEMU's own limits go by the host's clock.
 * With `burst`, WRITEs that are done are told so many times 128 KiB later at most, together.
 */
#include <linux/blkdev.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#define PACED_DISKS 5
#define PACED_MB 128

static unsigned long rate = 64;
module_param(rate, ulong, 0444);
MODULE_PARM_DESC(rate, "MiB a second that a disk writes");
static unsigned int burst = 1;
module_param(burst, uint, 0644);
MODULE_PARM_DESC(burst, "WRITEs of 128 KiB that end together");

static struct paced_disk {
	struct gendisk *gendisk;
	u8 *memory;
	spinlock_t lock; /* of: */
	struct bio_list writes; /* in the order in which they end; bi_sector is when, in ns: their data has been taken */
	struct hrtimer timer;
	bool armed;
	u64 free_ns; /* when all of them have ended */
} disks[PACED_DISKS];

static u64 paced_ns(u64 bytes)
{
	return div64_u64(bytes * NSEC_PER_SEC, rate << 20);
}

static void paced_copy(const struct paced_disk *disk, struct bio *bio)
{
	u8 *at = disk->memory + (bio->bi_iter.bi_sector << SECTOR_SHIFT);
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		if (bio_data_dir(bio) == WRITE)
			memcpy_from_bvec(at, &bv);
		else
			memcpy_to_bvec(&bv, at);
		at += bv.bv_len;
	}
}

static enum hrtimer_restart paced_fire(struct hrtimer *timer)
{
	struct paced_disk *disk = container_of(timer, struct paced_disk, timer);
	struct bio_list ended = BIO_EMPTY_LIST;
	u64 now_ns = ktime_get_ns();
	unsigned long flags;
	struct bio *bio;

	spin_lock_irqsave(&disk->lock, flags);
	while ((bio = bio_list_peek(&disk->writes)) && bio->bi_iter.bi_sector <= now_ns)
		bio_list_add(&ended, bio_list_pop(&disk->writes));
	disk->armed = bio;
	if (bio)
		hrtimer_forward_now(timer, ns_to_ktime(paced_ns(burst * SZ_128K)));
	spin_unlock_irqrestore(&disk->lock, flags);
	while ((bio = bio_list_pop(&ended)))
		bio_endio(bio);
	return disk->armed ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

static void paced_submit(struct bio *bio)
{
	struct paced_disk *disk = bio->bi_bdev->bd_disk->private_data;
	unsigned long flags;

	paced_copy(disk, bio);
	if (bio_op(bio) != REQ_OP_WRITE || !bio_sectors(bio)) {
		bio_endio(bio);
		return;
	}
	spin_lock_irqsave(&disk->lock, flags);
	disk->free_ns = max(disk->free_ns, ktime_get_ns()) + paced_ns(bio->bi_iter.bi_size);
	bio->bi_iter.bi_sector = disk->free_ns;
	bio_list_add(&disk->writes, bio);
	if (!disk->armed)
		hrtimer_start(&disk->timer, ns_to_ktime(paced_ns(burst * SZ_128K)), HRTIMER_MODE_REL_SOFT);
	disk->armed = true;
	spin_unlock_irqrestore(&disk->lock, flags);
}

static const struct block_device_operations paced_operations = { .owner = THIS_MODULE, .submit_bio = paced_submit };

/* The guest ends with it: nothing is given back. */
static int __init paced_init(void)
{
	int major = register_blkdev(0, "paced"), i, error = 0;

	for (i = 0; i < PACED_DISKS && major > 0 && !error; i++) {
		struct paced_disk *disk = &disks[i];

		disk->memory = vzalloc(PACED_MB << 20);
		disk->gendisk = blk_alloc_disk(NUMA_NO_NODE);
		if (!disk->memory || !disk->gendisk)
			return -ENOMEM;
		spin_lock_init(&disk->lock);
		hrtimer_init(&disk->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
		disk->timer.function = paced_fire;
		disk->gendisk->major = major;
		disk->gendisk->first_minor = i;
		disk->gendisk->minors = 1;
		disk->gendisk->fops = &paced_operations;
		disk->gendisk->private_data = disk;
		snprintf(disk->gendisk->disk_name, DISK_NAME_LEN, "paced%d", i);
		set_capacity(disk->gendisk, PACED_MB << (20 - SECTOR_SHIFT));
		blk_queue_max_hw_sectors(disk->gendisk->queue, SZ_1M >> SECTOR_SHIFT);
		blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->gendisk->queue);
		blk_queue_flag_set(QUEUE_FLAG_NOWAIT, disk->gendisk->queue);
		error = add_disk(disk->gendisk);
	}
	return major < 0 ? major : error;
}

module_init(paced_init);
MODULE_DESCRIPTION("disks in memory that write at a certain rate");
MODULE_LICENSE("Dual BSD/GPL");
