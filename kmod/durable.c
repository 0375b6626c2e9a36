// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Owns the host's record of what is durable, volume by volume, see disk.h.
 */
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "kmod/disk.h"
#include "kmod/command.h"
#include "kmod/queue.h"
#include "proto/wire/wire.h"

/* A volume, by its uuid. Freed with the last disk that has it. */
struct rblk_durable {
	struct list_head entry;
	u8 uuid[16];
	unsigned int disks;
	spinlock_t lock; /* of core, and of its disks' parts */
	struct core_durable core;
};

static DEFINE_MUTEX(rblk_durables_lock); /* the list, and how many disks each has */
static LIST_HEAD(rblk_durables);

int rblk_durable_get(struct rblk_disk *disk, const u8 uuid[16])
{
	struct rblk_durable *durable;

	mutex_lock(&rblk_durables_lock);
	list_for_each_entry(durable, &rblk_durables, entry)
		if (!memcmp(durable->uuid, uuid, sizeof(durable->uuid)))
			goto found;
	durable = kzalloc(sizeof(*durable), GFP_KERNEL);
	if (!durable)
		goto out;
	memcpy(durable->uuid, uuid, sizeof(durable->uuid));
	spin_lock_init(&durable->lock);
	core_durable_init(&durable->core);
	list_add_tail(&durable->entry, &rblk_durables);
found:
	durable->disks++;
out:
	disk->durable = durable;
	mutex_unlock(&rblk_durables_lock);
	return durable ? 0 : -ENOMEM;
}

void rblk_durable_put(struct rblk_disk *disk)
{
	struct rblk_durable *durable = disk->durable;

	if (!durable)
		return;
	mutex_lock(&rblk_durables_lock);
	if (!--durable->disks) {
		list_del(&durable->entry);
		kfree(durable);
	}
	mutex_unlock(&rblk_durables_lock);
	disk->durable = NULL;
}

void rblk_durable_join(struct rblk_disk *disk)
{
	lockdep_assert_held(&disk->opens_lock);
	spin_lock_irq(&disk->durable->lock);
	core_durable_join(&disk->durable->core, &disk->part);
	spin_unlock_irq(&disk->durable->lock);
}

void rblk_durable_leave(struct rblk_disk *disk)
{
	lockdep_assert_held(&disk->opens_lock);
	spin_lock_irq(&disk->durable->lock);
	/*
	 * Its last opener has gone, and as with other disks nobody is left who would have to know.
	 */
	core_durable_leave(&disk->durable->core, &disk->part, disk->part.unaware);
	spin_unlock_irq(&disk->durable->lock);
}

bool rblk_durable_learn(struct rblk_disk *disk, const u8 epoch[16], bool caches)
{
	bool lost;

	lockdep_assert_held(&disk->session->core_lock);
	spin_lock(&disk->durable->lock);
	lost = core_durable_learn(&disk->durable->core, &disk->part, epoch);
	core_durable_adopt(&disk->part, caches);
	memcpy(disk->cache_epoch, epoch, sizeof(disk->cache_epoch));
	spin_unlock(&disk->durable->lock);
	return lost;
}

void rblk_durable_say_lost(const struct rblk_disk *disk)
{
	pr_err("rblk%d [%s]: writes that were acknowledged and not flushed may be lost: FLUSH fails on each disk of volume \"%s\" until all have closed them, or acknowledge\n",
	       disk->index, rblk_session_peer(disk->session), disk->options.volume);
}

u64 rblk_durable_number(struct rblk_disk *disk)
{
	unsigned long flags;
	u64 number;

	spin_lock_irqsave(&disk->durable->lock, flags);
	number = core_durable_flush(&disk->durable->core);
	spin_unlock_irqrestore(&disk->durable->lock, flags);
	return number;
}

bool rblk_durable_done(struct rblk_io *io)
{
	struct rblk_disk *disk = rblk_disk_of(rblk_io_rq(io));
	struct rblk_durable *durable = disk->durable;
	bool flush = io->command.wire.opcode == RBLK_OP_FLUSH, good = true, lost = false;
	unsigned long flags;

	if (!flush && core_durable_noted(&durable->core, io->owes))
		return true;
	spin_lock_irqsave(&durable->lock, flags);
	if (flush)
		good = core_durable_flushed(&durable->core, io->owes, io->flush);
	else
		lost = core_durable_wrote(&durable->core, io->owes);
	spin_unlock_irqrestore(&durable->lock, flags);
	if (lost)
		rblk_durable_say_lost(disk);
	return good;
}

void rblk_durable_acknowledge(struct rblk_disk *disk)
{
	unsigned long flags;

	spin_lock_irqsave(&disk->durable->lock, flags);
	core_durable_acknowledge(&disk->durable->core, &disk->part);
	spin_unlock_irqrestore(&disk->durable->lock, flags);
}

bool rblk_durable_lost(const struct rblk_disk *disk)
{
	return READ_ONCE(disk->durable->core.unaware);
}
