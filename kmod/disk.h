/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A disk, /dev/rblkN: a volume of a target, attached over a session (session.h), which it may share
 * with other disks.
 *
 * Lifetime: rblk_disk_attach() makes it and puts it in the registry; the registry holds the first
 * reference, every open of the disk and every caller that found it another. rblk_disk_detach()
 * (or module unload) takes it out of its session, and drops the registry's.
 *
 * Locks, in order: rblk_disks_lock (registry), disk->opens_lock (mutex), which may be held around
 * session->core_lock. None of the session's mutexes is taken under them.
 */
#ifndef RBLK_KMOD_DISK_H
#define RBLK_KMOD_DISK_H

#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/types.h>

#include "kmod/session.h"
#include "proto/core/domain.h"
#include "proto/core/durable.h"

/* The words of an attach that are the disk's. */
struct rblk_disk_options {
	char volume[RBLK_NAME_BYTES];
	/* what user space calls it: for sysfs alone; empty: not said */
	char name[RBLK_NAME_BYTES]; /* of one disk at a time */
	char uri[RBLK_ATTACH_URI_BYTES];
	bool read_only;
	bool accept_volatile; /* fsync() may succeed for what cannot be flushed */
	bool own_session;     /* it shares no session */
	bool priority;	      /* all of its commands have RBLK_CMD_PRIORITY */
};

struct rblk_options {
	struct rblk_session_options session;
	struct rblk_disk_options disk;
};

struct pr_ops;
struct rblk_durable;
struct rblk_io;

/* An OPEN of the disk's volume, and its answer (volume.c); core_lock. */
struct rblk_opening {
	struct rblk_due due; /* one is to be sent */
	bool asks;        /* one was, and drive_work has not taken its answer */
	bool answered;    /* that is here */
	bool looks;       /* that one looks whether the open volume has changed */
	bool grace;       /* of RCU, since the volume is not open */
	unsigned int tries; /* that have failed since then; drive_work */
	u32 handle; /* that it was sent with */
	u64 epoch;
	int error; /* there was no answer */
	u16 status, denied;
	struct rblk_wire_volume volume;
};

struct rblk_disk {
	struct kref refs;
	u32 index;              /* N of /dev/rblkN */
	struct rblk_disk_options options;
	struct rblk_session *session; /* from attach's beginning; a reference */
	struct list_head peer;  /* session->disks */

	struct mutex opens_lock; /* whether it may be opened, and what its opening has shown */
	unsigned int openers; /* opens_lock */
	bool detaching;       /* no more opens; opens_lock */

	struct mutex reservation_lock; /* one ioctl of pr_ops at a time; outside of all others */

	u64 attachment; /* random; tells this attach from all others. No secret: sysfs */

	/*
	 * The open volume. session->core_lock owns handle, epoch, ready, changed, gone, gate and
	 * reason, for writing; ready and gate are read without it.
	 */
	u32 handle; /* the disk's, open or not */
	u64 epoch;  /* of the session, in which the handle was opened last; 0: never */
	bool ready; /* the handle is open: commands may be sent */
	bool changed; /* there was an event of the handle since it was to be opened */
	bool gone;  /* the handle's volume was removed or replaced: the next OPEN takes another */
	/*
	 * the last epoch at whose target the volume cannot be used, another one than before;
	 * core_lock
	 */
	u64 foreign;
	struct core_domain domain; /* F10: where it was opened last; core_lock */
	u8 gate;    /* enum rblk_gate: for this disk alone, beside the session's */
	/*
	 * Bitmap: queues whose LOST commands have ended with errors, on any disk of this volume,
	 * until they are fenced, for the volume or all. session->waiting_lock owns it for writing.
	 */
	unsigned long unfenced;
	/*
	 * the same for a RESERVE that was lost, on any disk; waiting_lock and core_lock own it for
	 * writing, either for reading
	 */
	unsigned long reserve_unfenced;
	bool endures;              /* it waits for a lost session: its attach has succeeded */
	/* why the volume is not open; empty: it is, or nothing was tried */
	char reason[RBLK_TEXT_BYTES];
	bool volume_lost; /* it was ready, and will be again; core_lock */
	unsigned long volume_lost_since; /* jiffies: it is so since then; core_lock */
	struct rblk_durable *durable; /* durable.c: F7, of its volume; NULL until that is open */
	struct core_durable_open part; /* its own there */
	u8 cache_epoch[16]; /* of the handle; session->core_lock */

	/*
	 * As the target describes it, in the machine's byte order. drive_work changes `blocks`,
	 * with opens_lock; and volume_flags, max_capsule_bytes and
	 * max_discard_blocks, while nothing is sent.
	 */
	u32 block_bytes, volume_flags, max_io_bytes, max_capsule_bytes;
	u8 block_shift;
	/*
	 * once, so that the next opening must find the same volume; stored with release, after uuid
	 */
	bool opened;
	u64 blocks;
	u8 uuid[16];
	u32 physical_bytes, optimal_bytes, discard_granularity, max_discard_blocks;
	u32 untorn_min_bytes, untorn_max_bytes;

	struct gendisk *gendisk; /* NULL until the volume is open */
	bool added;
	bool read_only; /* as the gendisk is; opens_lock, once it is added */
	bool flushes;   /* blk-mq was told of a volatile cache: it sends FLUSH and FUA; fixed */
	u32 disk_bytes; /* the longest command, as blk-mq was told */
	struct kernfs_node *state_node; /* sysfs's rblk/state, from `added` until detach */
	struct dentry *debugfs;

	struct rblk_opening opening;
	/* of the attach's OPEN; -EINPROGRESS: there is no answer yet; core_lock */
	int open_error;
	unsigned long first_by;	 /* jiffies: until then that is sent again; core_lock */
	unsigned long refreshed; /* jiffies: when the open volume was looked at last; core_lock */
};

/* The disk of a request. */
static inline struct rblk_disk *rblk_disk_of(const struct request *rq)
{
	return rq->q->queuedata;
}

/*
 * -- attach.c. Both sleep. text (RBLK_TEXT_BYTES) gets one line: the disk's name, or what failed
 * and why.
 */
int rblk_disk_attach(const struct rblk_options *options, char *text);
int rblk_disk_detach(const char *name, bool force, char *text);
void rblk_disk_detach_all(void); /* module unload: nothing is open any more */

/*
 * -- disks.c: the registry, and what a disk says of itself; all may sleep, but where it is said
 * that they do not.
 */

/*
 * A new one, in the registry, without a session; -EEXIST: another one has its name. The caller's
 * reference is the registry's. It cannot be detached before it is added.
 */
struct rblk_disk *rblk_disk_alloc(const struct rblk_disk_options *options);
void rblk_disk_put(struct rblk_disk *disk);
/* Among the session's disks. */
void rblk_disk_join(struct rblk_disk *disk, struct rblk_session *session);
/* No longer among its session's disks, and no work of it runs. Its last I/O has ended. */
void rblk_disk_leave(struct rblk_disk *disk);
/* Out of the registry; its reference is dropped. */
void rblk_disk_unregister(struct rblk_disk *disk);
/* A referenced disk, the first with a number from `first` to `last`; NULL if there is none. */
struct rblk_disk *rblk_disk_find(unsigned long first, unsigned long last);
/* The queues that have commands of the disk's, sent or to be sent, as a bitmap. Any context. */
unsigned long rblk_disk_queues(const struct rblk_disk *disk);
/* No new command is sent for it, and what waits or comes fails. Any context. */
void rblk_disk_fail(struct rblk_disk *disk, const char *why);
/*
 * fail_fast_ms and give_up_ms of the session's disks whose volumes are not open: they do not wait
 * for an answer to an OPEN, nor for the turn to send one. By drive_work.
 */
void rblk_disk_late(struct rblk_session *session);
/*
 * Its state, in the words of its session's; why it is not live, as one line (false: nothing is
 * wrong). Any context.
 */
const char *rblk_disk_state(const struct rblk_disk *disk);
bool rblk_disk_say_reason(struct rblk_disk *disk, char *text);
/* Wake those who poll sysfs's state: it has changed. */
void rblk_disk_notify(struct rblk_disk *disk);

/* -- disk.c: the gendisk and its limits; all sleep */

/* Not yet visible; then visible (partitions are read: I/O must flow). */
int rblk_disk_create(struct rblk_disk *disk);
int rblk_disk_add(struct rblk_disk *disk);
void rblk_disk_remove(struct rblk_disk *disk);  /* invisible; waits for its I/O */
void rblk_disk_destroy(struct rblk_disk *disk); /* after remove, or instead of add */
/*
 * Takes over what the target says of the open volume: its size; whether it takes writes. opens_lock
 * is held.
 */
void rblk_disk_resize(struct rblk_disk *disk, u64 blocks);
void rblk_disk_permit(struct rblk_disk *disk, bool writes);

/*
 * -- durable.c: a record of what is durable for each volume that this host has attached (F7,
 * core/durable.h): all disks of one volume share it, over whatever session, because a FLUSH on one
 * of them speaks for all. A disk has a part in it, which is told of a loss while somebody has the
 * disk open.
 *
 * Each has a lock of its own, the innermost: session->core_lock may be held around it. I/O takes it
 * only for a FLUSH, and for the first write that succeeds behind one.
 */

/* The volume with this uuid is the disk's: 0 or -ENOMEM. Once; sleeps. */
int rblk_durable_get(struct rblk_disk *disk, const u8 uuid[16]);
/* If it has one; sleeps. */
void rblk_durable_put(struct rblk_disk *disk);
/*
 * The disk's first opener has come; its last one is gone, and with it whoever had to be told.
 * opens_lock is held.
 */
void rblk_durable_join(struct rblk_disk *disk);
void rblk_durable_leave(struct rblk_disk *disk);

/*
 * An OPEN has shown this cache epoch, and the disk uses its handle from here on; with core_lock
 * held. True: acknowledged writes may be lost, for rblk_durable_say_lost().
 */
bool rblk_durable_learn(struct rblk_disk *disk, const u8 epoch[16], bool caches);
void rblk_durable_say_lost(const struct rblk_disk *disk);

/* A FLUSH of the disk is asked for: its number. Any context. */
u64 rblk_durable_number(struct rblk_disk *disk);
/*
 * A request has succeeded, which owes. False: it is a FLUSH, and fails all the same. By the queue's
 * CQ handlers.
 */
bool rblk_durable_done(struct rblk_io *io);
/* Whoever has the disk open knows that writes may be lost. Any context. */
void rblk_durable_acknowledge(struct rblk_disk *disk);
/* FLUSH fails. */
bool rblk_durable_lost(const struct rblk_disk *disk);

/* -- reservation.c: of a volume (specification, section 6.2), as the block layer has them */
extern const struct pr_ops rblk_pr_ops;

/*
 * -- sysfs.c: what a disk and its session show; below debugfs what tests write, while the disk is
 * added
 */
extern const struct attribute_group *rblk_disk_groups[];
void rblk_debugfs_add(struct rblk_disk *disk);
void rblk_debugfs_remove(struct rblk_disk *disk);

#endif
