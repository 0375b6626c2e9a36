// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * /sys/block/rblkN/rblk/: what a device is connected to, how it is, what it has counted. Read only;
 * commands go through the control device.
 */
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/sysfs.h>

#include "kmod/device.h"
#include "kmod/disk.h"
#include "kmod/queue.h"

static struct rblk_device *rblk_sysfs_device(struct device *dev)
{
	return dev_to_disk(dev)->private_data;
}

#define RBLK_SHOW(name, format, ...)                                                               \
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf)   \
	{                                                                                          \
		struct rblk_device *device = rblk_sysfs_device(dev);                               \
                                                                                                   \
		return sysfs_emit(buf, format "\n", __VA_ARGS__);                                  \
	}                                                                                          \
	static DEVICE_ATTR_RO(name)

RBLK_SHOW(state, "%s", rblk_device_state_name(READ_ONCE(device->state)));
RBLK_SHOW(target, "%s", device->options.address_text);
RBLK_SHOW(volume, "%s", device->options.volume);
RBLK_SHOW(attachment, "%016llx", device->attachment);
RBLK_SHOW(wwid, "uuid.%16phN", device->uuid);
RBLK_SHOW(serial, "%16phN", device->uuid);
RBLK_SHOW(cache_epoch, "%16phN", device->cache_epoch);
RBLK_SHOW(queues, "%u", device->queue_count);
RBLK_SHOW(poll_queues, "%u", device->options.poll_queues);
RBLK_SHOW(credits, "%u", device->tag_set.queue_depth);
RBLK_SHOW(losses, "%lld", atomic64_read(&device->losses));
RBLK_SHOW(connect_ms, "%u", device->options.connect_ms);
RBLK_SHOW(command_ms, "%u", device->options.command_ms);
RBLK_SHOW(give_up_ms, "%u", device->options.give_up_ms);
RBLK_SHOW(keepalive_ms, "%u", device->keepalive_ms);

/* The session's id allows taking over the session (section 13 of the specification): root alone. */
static ssize_t session_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%16phN\n", rblk_sysfs_device(dev)->session_id);
}
static DEVICE_ATTR_ADMIN_RO(session);

/* Why the connection was lost; empty while it is not. */
static ssize_t reason_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct rblk_device *device = rblk_sysfs_device(dev);
	unsigned long flags;
	ssize_t done;

	spin_lock_irqsave(&device->state_lock, flags);
	done = sysfs_emit(buf, "%s\n", device->reason);
	spin_unlock_irqrestore(&device->state_lock, flags);
	return done;
}
static DEVICE_ATTR_RO(reason);

/* "name value" a line, summed over the queues. */
static ssize_t counters_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct rblk_device *device = rblk_sysfs_device(dev);
	struct rblk_queue_stats sum = {};
	unsigned int i;

	for (i = 0; i < device->queue_count; i++) {
		const struct rblk_queue_stats *s = &device->queues[i]->stats;

		sum.commands += READ_ONCE(s->commands);
		sum.messages += READ_ONCE(s->messages);
		sum.replies += READ_ONCE(s->replies);
		sum.immediates += READ_ONCE(s->immediates);
		sum.registrations += READ_ONCE(s->registrations);
		sum.invalidations += READ_ONCE(s->invalidations);
		sum.remote_invalidations += READ_ONCE(s->remote_invalidations);
	}
	return sysfs_emit(buf,
			  "commands %llu\nmessages %llu\nreplies %llu\nimmediates %llu\n"
			  "registrations %llu\ninvalidations %llu\nremote_invalidations %llu\n",
			  sum.commands, sum.messages, sum.replies, sum.immediates,
			  sum.registrations, sum.invalidations, sum.remote_invalidations);
}
static DEVICE_ATTR_RO(counters);

static struct attribute *rblk_attributes[] = {
	&dev_attr_state.attr,	     &dev_attr_target.attr,	&dev_attr_volume.attr,
	&dev_attr_session.attr,	     &dev_attr_wwid.attr,	&dev_attr_serial.attr,
	&dev_attr_cache_epoch.attr,  &dev_attr_queues.attr,	&dev_attr_credits.attr,
	&dev_attr_losses.attr,	     &dev_attr_connect_ms.attr, &dev_attr_command_ms.attr,
	&dev_attr_give_up_ms.attr,   &dev_attr_keepalive_ms.attr, &dev_attr_reason.attr,
	&dev_attr_counters.attr,     &dev_attr_poll_queues.attr, &dev_attr_attachment.attr, NULL,
};

static const struct attribute_group rblk_attribute_group = {
	.name = "rblk",
	.attrs = rblk_attributes,
};

const struct attribute_group *rblk_disk_groups[] = { &rblk_attribute_group, NULL };
