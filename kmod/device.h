/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An attached volume: one session with one target, its queues, and the disk over them.
 *
 * Lifetime: rblk_device_attach() makes it and puts it in the registry; the registry holds the first
 * reference, every open of the disk and every caller that found it another. rblk_device_detach()
 * (or module unload) takes it out, ends its works, stops everything, and drops the registry's.
 *
 * Locks, in order: rblk_registry_lock (registry), device->lifecycle (one attach, detach, loss or
 * removal at a time; sleeps), device->state_lock (state; spinlock). device->opens_lock (mutex),
 * device->refused_lock and queue->lock (spinlocks) are leaves.
 */
#ifndef RBLK_KMOD_DEVICE_H
#define RBLK_KMOD_DEVICE_H

#include <linux/blk-mq.h>
#include <linux/inet.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/socket.h>
#include <linux/workqueue.h>

#include "proto/wire/wire.h"

struct ib_device;
struct rblk_queue;
struct net;

#define RBLK_TEXT_BYTES 256

/* The options of attach. Owned by its device, fixed after attach. */
struct rblk_options {
	struct sockaddr_storage address; /* port included */
	char address_text[64];           /* for messages: "10.9.0.1:4430" */
	char volume[RBLK_NAME_BYTES];
	char initiator[RBLK_NAME_BYTES];
	unsigned int queues;        /* wanted; 0: min(cores, 8, what poll_queues leave) */
	unsigned int poll_queues;   /* as many more, for I/O whose submitter polls */
	unsigned int credits;       /* wanted per queue */
	unsigned int connect_ms;    /* address, route, handshake and login of one queue */
	unsigned int command_ms;    /* an unanswered command fails the connection */
	unsigned int give_up_ms;    /* a lost device's I/O waits so long, then fails */
	bool read_only;
	bool accept_volatile;       /* fsync() may succeed for what cannot be flushed */
};

enum rblk_device_state {
	RBLK_DEVICE_CONNECTING, /* attach owns everything; no disk, no I/O */
	RBLK_DEVICE_LIVE,       /* I/O flows; the queues own their commands */
	RBLK_DEVICE_LOST,       /* queues are or will be drained; requests are held, if they may be */
	RBLK_DEVICE_FAILED,     /* given up: requests are ended with an error at once */
	RBLK_DEVICE_REMOVING,   /* detach owns everything; like FAILED for I/O */
	RBLK_DEVICE_STATES
};

struct rblk_device {
	struct kref refs;
	struct list_head entry; /* registry; rblk_registry_lock */
	int index;              /* N of /dev/rblkN */
	struct rblk_options options;
	struct net *net;        /* of the attaching process; referenced */

	struct mutex lifecycle;
	spinlock_t state_lock;
	/* state_lock. Read without it where stale is harmless; LIVE releases all that I/O needs. */
	enum rblk_device_state state;
	char reason[RBLK_TEXT_BYTES]; /* why it was lost; state_lock */
	unsigned int openers;         /* lifecycle is too heavy: opens_lock */
	bool closing;                 /* no more opens; opens_lock */
	struct mutex opens_lock;

	u64 attachment;    /* random; tells this attach from all others. No secret: sysfs, /run */
	u8 session_id[16]; /* a secret */
	u64 session_epoch;
	u8 target_instance[16];
	u32 keepalive_ms;
	struct rblk_queue **queues; /* queue_count; fixed while a disk exists; polled ones are last */
	unsigned int queue_count;
	wait_queue_head_t session_wait; /* for the answers to the session's own commands */
	u32 slot_bytes; /* rblk_memory_slot_bytes(), at attach */
	/* Which RDMA devices the queues are on, by index; to be compared only. state_lock. */
	const struct ib_device *ibdevs[RBLK_QUEUES_MAX];

	/* The open volume, in the machine's byte order; fixed after attach but for `blocks`. */
	u32 handle, block_bytes, volume_flags, max_io_bytes, max_capsule_bytes;
	u8 block_shift;
	u64 blocks;
	u8 uuid[16];
	u8 cache_epoch[16]; /* F7 */
	u32 physical_bytes, optimal_bytes, discard_granularity, max_discard_blocks;

	struct blk_mq_tag_set tag_set;
	bool tag_set_ready;
	struct gendisk *disk; /* NULL until the volume is open */
	bool disk_added;

	struct work_struct loss_work;         /* LIVE -> LOST: drain, then wait */
	struct delayed_work give_up_work;     /* LOST -> FAILED */
	struct delayed_work keepalive_work;
	struct work_struct refresh_work;      /* the target said that the volume changed */
	u32 event_seen;                       /* number of the last event; queue 0's CQ handlers */
	u32 event_told;                       /* that a KEEPALIVE has named; keepalive_work (V9) */

	spinlock_t refused_lock;              /* refused.c; a leaf */
	struct list_head refused;             /* struct rblk_io that go again; refused_lock */
	unsigned long refused_next;           /* jiffies: when the first does; refused_lock */
	struct delayed_work refused_work;

	atomic64_t losses;
};

const char *rblk_device_state_name(enum rblk_device_state state);

/* attach.c. Both sleep. text (RBLK_TEXT_BYTES) gets one line: the device's name, or what failed and why. */
int rblk_device_attach(const struct rblk_options *options, char *text);
int rblk_device_detach(const char *name, bool force, char *text);
void rblk_device_detach_all(void); /* module unload: nothing is open any more */

/* -- between attach.c and device.c; all but _lost and _go_live sleep ------------------------------------- */

/* A new one, CONNECTING. The caller's reference is the registry's. */
struct rblk_device *rblk_device_alloc(const struct rblk_options *options);
void rblk_device_get(struct rblk_device *device);
void rblk_device_put(struct rblk_device *device);
/* Into the registry, with device->lifecycle held from before: it cannot be detached yet. */
void rblk_device_register_locked(struct rblk_device *device);
/* A referenced device by its number, or any; NULL if there is none. */
struct rblk_device *rblk_device_find(int index);
struct rblk_device *rblk_device_find_any(void);
/* LIVE, unless the connection broke meanwhile: a loss before LIVE only leaves its reason. */
int rblk_device_go_live(struct rblk_device *device, char *text);
/* At once, whatever the connection's state: for a detach by force. */
void rblk_device_fail_now(struct rblk_device *device, const char *why);
/*
 * REMOVING, and the end of everything but the struct, and of the registry's reference. No I/O is left
 * or comes.
 */
void rblk_device_dismantle(struct rblk_device *device);

/* Any context: the connection is broken. The first reason is kept and logged. */
void rblk_device_lost(struct rblk_device *device, const char *format, ...) __printf(2, 3);

/* May new commands be sent? (They may still be lost right after.) */
static inline bool rblk_device_live(const struct rblk_device *device)
{
	return smp_load_acquire(&device->state) == RBLK_DEVICE_LIVE;
}

/*
 * The connection is broken, and in this state no work takes it down, which would end the waiting
 * calls.
 */
static inline bool rblk_device_broken(const struct rblk_device *device)
{
	enum rblk_device_state state = smp_load_acquire(&device->state);

	return (state == RBLK_DEVICE_CONNECTING || state == RBLK_DEVICE_REMOVING) &&
	       READ_ONCE(device->reason[0]);
}

/* Is there a reason why the connection broke? Then text (RBLK_TEXT_BYTES) says it. */
bool rblk_device_say_reason(struct rblk_device *device, char *text);

/* The target sent an event; softirq. */
void rblk_device_event(struct rblk_device *device, u16 event, u32 handle);

/* A queue is on this RDMA device now; NULL: on none. */
void rblk_device_note_ibdev(struct rblk_device *device, unsigned int queue,
			    const struct ib_device *ibdev);
/*
 * An RDMA device goes away: no work request of ours is left there on return, but for those of an
 * attach or a detach, on whose ends the connection manager waits. Sleeps.
 */
void rblk_device_ib_removed(struct ib_device *ibdev);

/* The disk's open and release. */
int rblk_device_open(struct rblk_device *device);
void rblk_device_release(struct rblk_device *device);

#endif
