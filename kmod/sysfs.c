// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * /sys/block/rblkN/rblk/: what a disk is connected to, how it is; and one thing to write,
 * acknowledge. /sys/block/rblkN/rblk_counters/: what its session has counted. Each file is
 * described in kmod/sysfs-block-rblk. Below debugfs, rblk/rblkN/kill_connection is for tests.
 * Everything else goes through the control device.
 */
#include <linux/blkdev.h>
#include <linux/debugfs.h>
#include <linux/device.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>

#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/module.h"
#include "kmod/queue.h"

static struct rblk_disk *rblk_sysfs_disk(struct device *dev)
{
	return dev_to_disk(dev)->private_data;
}

#define RBLK_SHOW(name, format, ...) \
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
	{ \
		struct rblk_disk *disk = rblk_sysfs_disk(dev); \
		\
		return sysfs_emit(buf, format "\n", __VA_ARGS__); \
	} \
	static DEVICE_ATTR_RO(name);

/* Attributes of one value: name, format, value. (Of the key its name.) */
#define RBLK_FACTS(fact) \
	fact(state, "%s", rblk_disk_state(disk)) \
	fact(target, "%s", rblk_session_peer(disk->session)) \
	fact(volume, "%s", disk->options.volume) \
	fact(name, "%s", disk->options.name) \
	fact(uri, "%s", disk->options.uri) \
	fact(initiator, "%s", disk->session->options.initiator) \
	fact(key, "%s", disk->session->options.key) \
	fact(digest, "%u", disk->session->options.digest) \
	fact(attachment, "%016llx", disk->attachment) \
	fact(wwid, "uuid.%16phN", disk->uuid) \
	fact(serial, "%16phN", disk->uuid) \
	fact(queues, "%u", disk->session->hw_queues) \
	fact(poll_queues, "%u", disk->session->options.poll_queues) \
	fact(credits, "%u", READ_ONCE(disk->session->credits)) \
	fact(losses, "%lld", atomic64_read(&disk->session->losses)) \
	fact(connect_ms, "%u", disk->session->options.connect_ms) \
	fact(command_ms, "%u", disk->session->options.command_ms) \
	fact(retries, "%lld", atomic64_read(&disk->session->retries)) \
	fact(writes_lost, "%d", rblk_durable_lost(disk)) \
	fact(reconnect_ms, "%u", disk->session->options.reconnect_ms) \
	fact(fail_fast_ms, "%u", disk->session->options.fail_fast_ms) \
	fact(give_up_ms, "%u", disk->session->options.give_up_ms) \
	fact(session_number, "%d", disk->session->number) \
	fact(keepalive_ms, "%u", READ_ONCE(disk->session->queues[0]->keepalive_ms))

RBLK_FACTS(RBLK_SHOW)

static ssize_t cache_epoch_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct rblk_disk *disk = rblk_sysfs_disk(dev);
	u8 epoch[sizeof(disk->cache_epoch)];

	spin_lock_irq(&disk->session->core_lock);
	memcpy(epoch, disk->cache_epoch, sizeof(epoch));
	spin_unlock_irq(&disk->session->core_lock);
	return sysfs_emit(buf, "%16phN\n", epoch);
}

static DEVICE_ATTR_RO(cache_epoch);

/* The session's id allows taking over the session (section 13 of the specification): root alone. */
static ssize_t session_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%16phN\n", rblk_sysfs_disk(dev)->session->session_id);
}
static DEVICE_ATTR_ADMIN_RO(session);

/* Why a connection was lost, and why it does not come back; empty while all are up. */
static ssize_t reason_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	char text[RBLK_TEXT_BYTES];

	rblk_disk_say_reason(rblk_sysfs_disk(dev), text);
	return sysfs_emit(buf, "%s\n", text);
}
static DEVICE_ATTR_RO(reason);

/* An array: a line for each address of the target. */
static ssize_t portals_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct rblk_session_options *o = &rblk_sysfs_disk(dev)->session->options;
	unsigned int i;
	int length = 0;

	for (i = 0; i < o->portal_count; i++)
		length += sysfs_emit_at(buf, length, "%s\n", o->portals[i].text);
	return length;
}
static DEVICE_ATTR_RO(portals);

/* An array of connections, one for each queue: "queue state portal milliseconds". */
static ssize_t connections_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct rblk_session *session = rblk_sysfs_disk(dev)->session;
	struct core_queue queue;
	unsigned long flags;
	unsigned int i;
	int length = 0;
	u64 age_ns;

	for (i = 0; i < session->queue_count; i++) {
		spin_lock_irqsave(&session->core_lock, flags);
		queue = session->core.queue[i];
		age_ns = queue.state == CORE_QUEUE_LIVE ? rblk_drive_now() - queue.live_ns : 0;
		spin_unlock_irqrestore(&session->core_lock, flags);
		length += sysfs_emit_at(buf, length, "%u %s %s %llu\n", i,
					core_queue_state_name(queue.state),
					session->options.portals[queue.portal].text,
					div_u64(age_ns, NSEC_PER_MSEC));
	}
	return length;
}
static DEVICE_ATTR_RO(connections);

/* F7: I know that writes may be lost. FLUSH works again. */
static ssize_t acknowledge_store(struct device *dev, struct device_attribute *attr, const char *buf,
				 size_t bytes)
{
	if (!sysfs_streq(buf, "1"))
		return -EINVAL;
	rblk_durable_acknowledge(rblk_sysfs_disk(dev));
	return bytes;
}
static DEVICE_ATTR_WO(acknowledge);

#define RBLK_FACT_ATTRIBUTE(name, ...) &dev_attr_##name.attr,

static struct attribute *rblk_attributes[] = {
	RBLK_FACTS(RBLK_FACT_ATTRIBUTE)
	&dev_attr_session.attr,
	&dev_attr_cache_epoch.attr,
	&dev_attr_portals.attr,
	&dev_attr_connections.attr,
	&dev_attr_reason.attr,
	&dev_attr_acknowledge.attr,
	NULL,
};

static const struct attribute_group rblk_attribute_group = {
	.name = "rblk",
	.attrs = rblk_attributes,
};

/* -- what the session has counted: rblk_counters/NAME -- */

/* A field of struct rblk_queue_stats, summed over the queues. */
struct rblk_counter {
	struct device_attribute attr;
	size_t offset;
};

static ssize_t rblk_counter_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct rblk_session *session = rblk_sysfs_disk(dev)->session;
	size_t offset = container_of(attr, struct rblk_counter, attr)->offset;
	unsigned int i;
	u64 sum = 0;

	for (i = 0; i < session->queue_count; i++)
		sum += READ_ONCE(*(const u64 *)((u8 *)&session->queues[i]->stats + offset));
	return sysfs_emit(buf, "%llu\n", sum);
}

#define RBLK_COUNTER(name) \
	(&((struct rblk_counter){ __ATTR(name, 0444, rblk_counter_show, NULL), \
				  offsetof(struct rblk_queue_stats, name) }).attr.attr)

static struct attribute *rblk_counters[] = {
	RBLK_COUNTER(commands),
	RBLK_COUNTER(messages),
	RBLK_COUNTER(replies),
	RBLK_COUNTER(immediates),
	RBLK_COUNTER(registrations),
	RBLK_COUNTER(invalidations),
	RBLK_COUNTER(remote_invalidations),
	RBLK_COUNTER(doorbells),
	RBLK_COUNTER(aborts),
	RBLK_COUNTER(dropped),
	RBLK_COUNTER(digest_retries),
	NULL,
};

static const struct attribute_group rblk_counter_group = {
	.name = "rblk_counters",
	.attrs = rblk_counters,
};

const struct attribute_group *rblk_disk_groups[] = {
	&rblk_attribute_group,
	&rblk_counter_group,
	NULL,
};

/* -- for tests: debugfs -- */

/* "N": the connection of queue N is cut; "all": of each. It comes back as any that is lost. */
static ssize_t rblk_kill_connection(struct file *file, const char __user *data, size_t bytes,
				    loff_t *pos)
{
	struct rblk_disk *disk = file->private_data;
	struct rblk_session *session = disk->session;
	unsigned int i, only = UINT_MAX;
	char text[16] = "";
	bool all;

	if (bytes >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, data, bytes))
		return -EFAULT;
	all = sysfs_streq(text, "all");
	if (!all && kstrtouint(strim(text), 10, &only))
		return -EINVAL;
	if (!all && only >= session->queue_count)
		return -ERANGE;
	for (i = 0; i < session->queue_count; i++)
		if (all || i == only)
			rblk_queue_lost(session->queues[i], "killed by hand (kill_connection)");
	return bytes;
}

static const struct file_operations rblk_kill_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = rblk_kill_connection,
};

struct dentry *rblk_debugfs;

void rblk_debugfs_add(struct rblk_disk *disk)
{
	disk->debugfs = debugfs_create_dir(disk->gendisk->disk_name, rblk_debugfs);
	debugfs_create_file("kill_connection", 0200, disk->debugfs, disk, &rblk_kill_fops);
}

void rblk_debugfs_remove(struct rblk_disk *disk)
{
	debugfs_remove(disk->debugfs);
}
