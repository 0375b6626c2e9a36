// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * /sys/block/rblkN/rblk/: what a disk is connected to, how it is, what its session has counted; and
 * two things to write: kill_connection, acknowledge. Everything else goes through the control
 * device.
 */
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/sysfs.h>

#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/durable.h"
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
	static DEVICE_ATTR_RO(name)

RBLK_SHOW(state, "%s", rblk_disk_state(disk));
RBLK_SHOW(target, "%s", rblk_session_peer(disk->session));
RBLK_SHOW(volume, "%s", disk->options.volume);
RBLK_SHOW(initiator, "%s", disk->session->options.initiator);
RBLK_SHOW(key, "%s", disk->session->options.key); /* its name */
RBLK_SHOW(digest, "%u", disk->session->options.digest);
RBLK_SHOW(attachment, "%016llx", disk->attachment);
RBLK_SHOW(wwid, "uuid.%16phN", disk->uuid);
RBLK_SHOW(serial, "%16phN", disk->uuid);
RBLK_SHOW(cache_epoch, "%16phN", disk->cache_epoch);
RBLK_SHOW(queues, "%u", disk->session->hw_queues);
RBLK_SHOW(poll_queues, "%u", disk->session->options.poll_queues);
RBLK_SHOW(credits, "%u", disk->session->credits);
RBLK_SHOW(losses, "%lld", atomic64_read(&disk->session->losses));
RBLK_SHOW(connect_ms, "%u", disk->session->options.connect_ms);
RBLK_SHOW(command_ms, "%u", disk->session->options.command_ms);
RBLK_SHOW(retries, "%lld", atomic64_read(&disk->session->retries));
RBLK_SHOW(writes_lost, "%d", rblk_durable_lost(disk));
RBLK_SHOW(reconnect_ms, "%u", disk->session->options.reconnect_ms);
RBLK_SHOW(fail_fast_ms, "%u", disk->session->options.fail_fast_ms);
RBLK_SHOW(give_up_ms, "%u", disk->session->options.give_up_ms);
RBLK_SHOW(session_number, "%d", disk->session->number);
RBLK_SHOW(keepalive_ms, "%u", READ_ONCE(disk->session->queues[0]->keepalive_ms));

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

/* A line for each address of the target. */
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

/* "queue state portal" a line. */
static ssize_t connections_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct rblk_disk *disk = rblk_sysfs_disk(dev);
	const struct rblk_portal *portal;
	unsigned int i;
	int length = 0;

	for (i = 0; i < disk->session->queue_count; i++) {
		const struct core_queue *queue = &disk->session->core.queue[i];

		portal = &disk->session->options.portals[READ_ONCE(queue->portal)];
		length += sysfs_emit_at(buf, length, "%u %s %s\n", i,
					core_queue_state_name(READ_ONCE(queue->state)),
					portal->text);
	}
	return length;
}
static DEVICE_ATTR_RO(connections);

/* For tests: the connection of queue N is cut, or of all. It comes back as any that is lost. */
static ssize_t kill_connection_store(struct device *dev, struct device_attribute *attr,
				     const char *buf, size_t bytes)
{
	struct rblk_disk *disk = rblk_sysfs_disk(dev);
	unsigned int i, only = UINT_MAX;
	bool all = sysfs_streq(buf, "all");

	if (!all && kstrtouint(buf, 10, &only))
		return -EINVAL;
	if (!all && only >= disk->session->queue_count)
		return -ERANGE;
	for (i = 0; i < disk->session->queue_count; i++)
		if (all || i == only)
			rblk_queue_lost(disk->session->queues[i],
					"killed by hand (kill_connection)");
	return bytes;
}
static DEVICE_ATTR_WO(kill_connection);

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

/* "name value" a line, summed over the queues. */
static ssize_t counters_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct rblk_disk *disk = rblk_sysfs_disk(dev);
	struct rblk_queue_stats sum = {};
	unsigned int i;

	for (i = 0; i < disk->session->queue_count; i++) {
		const struct rblk_queue_stats *s = &disk->session->queues[i]->stats;

		sum.commands += READ_ONCE(s->commands);
		sum.messages += READ_ONCE(s->messages);
		sum.replies += READ_ONCE(s->replies);
		sum.immediates += READ_ONCE(s->immediates);
		sum.registrations += READ_ONCE(s->registrations);
		sum.invalidations += READ_ONCE(s->invalidations);
		sum.remote_invalidations += READ_ONCE(s->remote_invalidations);
		sum.doorbells += READ_ONCE(s->doorbells);
		sum.aborts += READ_ONCE(s->aborts);
		sum.dropped += READ_ONCE(s->dropped);
		sum.digest_retries += READ_ONCE(s->digest_retries);
	}
	return sysfs_emit(buf,
			  "commands %llu\nmessages %llu\nreplies %llu\nimmediates %llu\n"
			  "registrations %llu\ninvalidations %llu\nremote_invalidations %llu\n"
			  "doorbells %llu\naborts %llu\ndropped %llu\ndigest_retries %llu\n",
			  sum.commands, sum.messages, sum.replies, sum.immediates,
			  sum.registrations, sum.invalidations, sum.remote_invalidations,
			  sum.doorbells, sum.aborts, sum.dropped, sum.digest_retries);
}
static DEVICE_ATTR_RO(counters);

static struct attribute *rblk_attributes[] = {
	&dev_attr_state.attr,	     &dev_attr_target.attr,	&dev_attr_volume.attr,
	&dev_attr_session.attr,	     &dev_attr_wwid.attr,	&dev_attr_serial.attr,
	&dev_attr_cache_epoch.attr,  &dev_attr_queues.attr,	&dev_attr_credits.attr,
	&dev_attr_losses.attr,	     &dev_attr_connect_ms.attr, &dev_attr_command_ms.attr,
	&dev_attr_give_up_ms.attr,   &dev_attr_keepalive_ms.attr, &dev_attr_reason.attr,
	&dev_attr_counters.attr,     &dev_attr_poll_queues.attr, &dev_attr_attachment.attr,
	&dev_attr_retries.attr,	     &dev_attr_writes_lost.attr, &dev_attr_reconnect_ms.attr,
	&dev_attr_fail_fast_ms.attr, &dev_attr_portals.attr,	&dev_attr_connections.attr,
	&dev_attr_session_number.attr, &dev_attr_kill_connection.attr, &dev_attr_acknowledge.attr,
	&dev_attr_initiator.attr,    &dev_attr_key.attr,
	&dev_attr_digest.attr,
	NULL,
};

static const struct attribute_group rblk_attribute_group = {
	.name = "rblk",
	.attrs = rblk_attributes,
};

const struct attribute_group *rblk_disk_groups[] = { &rblk_attribute_group, NULL };
