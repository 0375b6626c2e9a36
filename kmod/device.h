/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An attached volume: one session with one target, its queues, and the disk over them.
 *
 * Lifetime: rblk_device_attach() makes it and puts it in the registry; the registry holds the first
 * reference, every open of the disk and every caller that found it another. rblk_device_detach()
 * (or module unload) takes it out, ends its works, stops everything, and drops the registry's.
 *
 * Locks, in order: rblk_registry_lock (registry), device->lifecycle (a queue is taken down, what waits is
 * sent, the disk comes or goes; sleeps). device->opens_lock (mutex), device->core_lock,
 * device->waiting_lock and queue->lock (spinlocks) are leaves; opens_lock may be held around core_lock.
 */
#ifndef RBLK_KMOD_DEVICE_H
#define RBLK_KMOD_DEVICE_H

#include <linux/blk-mq.h>
#include <linux/inet.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/socket.h>
#include <linux/workqueue.h>

#include "proto/core/durable.h"
#include "proto/core/session.h"
#include "proto/wire/wire.h"

struct ib_device;
struct rblk_queue;
struct net;

#define RBLK_TEXT_BYTES 256

#define RBLK_NO_ROUTE 0xff

/* An address at which the target is reached. */
struct rblk_portal {
	struct sockaddr_storage address; /* port included */
	char text[64];                   /* for messages: "10.9.0.1:4430" */
};

/* The options of attach. Owned by its device, fixed after attach. */
struct rblk_options {
	struct rblk_portal portals[CORE_PORTALS_MAX];
	unsigned int portal_count;
	char volume[RBLK_NAME_BYTES];
	char initiator[RBLK_NAME_BYTES];
	unsigned int queues;        /* wanted; 0: min(cores, 8, what poll_queues leave) */
	unsigned int poll_queues;   /* as many more, for I/O whose submitter polls */
	unsigned int credits;       /* wanted per queue */
	unsigned int connect_ms;    /* address, route, handshake and login of one queue */
	unsigned int command_ms;    /* an unanswered command fails the connection */
	unsigned int reconnect_ms;  /* the longest pause between two attempts to connect */
	unsigned int fail_fast_ms;  /* without a connection for so long: REQ_FAILFAST fails; 0: never */
	unsigned int give_up_ms;    /* without a connection for so long: everything fails, for good */
	bool read_only;
	bool accept_volatile;       /* fsync() may succeed for what cannot be flushed */
};

/* What becomes of a request that no queue takes. */
enum rblk_gate {
	RBLK_GATE_HOLD,      /* it waits */
	RBLK_GATE_FAIL_FAST, /* it waits, unless it is to fail fast */
	RBLK_GATE_FAIL,      /* it fails */
};

struct rblk_device {
	struct kref refs;
	struct list_head entry; /* registry; rblk_registry_lock */
	int index;              /* N of /dev/rblkN */
	struct rblk_options options;
	struct net *net;        /* of the attaching process; referenced */

	struct mutex lifecycle;
	struct mutex reservation_lock; /* around one RESERVE or RESERVATIONS */
	u64 operation;                 /* F8: the last one's number; reservation_lock */
	struct mutex opens_lock;
	unsigned int openers; /* opens_lock */
	bool closing;         /* no more opens; opens_lock */

	/*
	 * The session. core_lock owns these, for writing; `core.state`, `route` and `gate` are read
	 * without it where stale is harmless.
	 */
	spinlock_t core_lock;
	struct core_session core;
	u8 route[RBLK_QUEUES_MAX]; /* by hardware context: the queue that takes its requests */
	u8 gate;                   /* enum rblk_gate */
	char reason[RBLK_TEXT_BYTES];  /* why a connection was lost; empty: all are up */
	char attempt[RBLK_TEXT_BYTES]; /* why the last attempt to connect came to nothing */
	bool reason_untold;            /* it has not been logged */
	struct core_durable durable;   /* F7; opened and flushed */
	/* Which RDMA devices the queues are on, by index; to be compared only. */
	const struct ib_device *ibdevs[RBLK_QUEUES_MAX];

	u8 told_state; /* that was logged; drive_work */
	bool ended;    /* FAILED or ENDED, no queue is connected, nothing waits; drive_work sets it */
	wait_queue_head_t session_wait; /* the session changed, or one of its own commands ended */
	struct work_struct drive_work, name_work;
	struct delayed_work tick_work;

	u64 attachment;    /* random; tells this attach from all others. No secret: sysfs, /run */
	u8 session_id[16]; /* a secret */
	struct rblk_queue **queues; /* queue_count, from attach to detach; polled ones are last */
	unsigned int queue_count;
	unsigned int hw_queues; /* that blk-mq has: as many as the target allowed at attach */
	u32 slot_bytes; /* rblk_memory_slot_bytes(), at attach */

	/* The open volume, in the machine's byte order. name_work and refresh_work change handle and blocks. */
	u32 handle, block_bytes, volume_flags, max_io_bytes, max_capsule_bytes;
	u8 block_shift;
	bool opened; /* once, so that the next opening must find the same volume */
	u64 blocks;
	u8 uuid[16];
	u32 physical_bytes, optimal_bytes, discard_granularity, max_discard_blocks;

	struct blk_mq_tag_set tag_set;
	bool tag_set_ready;
	struct gendisk *disk; /* NULL until the volume is open */
	bool disk_added;
	u32 disk_bytes; /* the longest command, as blk-mq was told */
	unsigned int credits; /* the fewest of a queue, at attach */
	struct kernfs_node *state_node; /* sysfs's rblk/state, from disk_added until detach */

	struct work_struct refresh_work;      /* the target said that the volume changed */
	u32 event_seen;                       /* number of the last event; queue 0's CQ handlers */
	u32 event_told;                       /* that a KEEPALIVE has named; queue 0's probe_work (V9) */

	spinlock_t waiting_lock;              /* waiting.c; a leaf */
	struct list_head waiting;             /* struct rblk_io on no queue; waiting_lock */
	bool waiting_armed;                   /* the work will run; waiting_lock */
	unsigned long waiting_next;           /* jiffies: then; waiting_lock */
	struct delayed_work waiting_work;

	atomic64_t losses, retries;
};

/* The first portal's, which names the device in messages. */
static inline const char *rblk_device_peer(const struct rblk_device *device)
{
	return device->options.portals[0].text;
}

/* attach.c. Both sleep. text (RBLK_TEXT_BYTES) gets one line: the device's name, or what failed and why. */
int rblk_device_attach(const struct rblk_options *options, char *text);
int rblk_device_detach(const char *name, bool force, char *text);
void rblk_device_detach_all(void); /* module unload: nothing is open any more */

/* -- between attach.c and device.c; all sleep ------------------------------------------------------------ */

/* A new one, not connected. The caller's reference is the registry's. */
struct rblk_device *rblk_device_alloc(const struct rblk_options *options);
void rblk_device_get(struct rblk_device *device);
void rblk_device_put(struct rblk_device *device);
/* Into the registry. It cannot be detached before it has a disk. */
void rblk_device_register(struct rblk_device *device);
/* A referenced device by its number, or any; NULL if there is none. */
struct rblk_device *rblk_device_find(int index);
struct rblk_device *rblk_device_find_any(void);
/*
 * The end of everything but the struct, and of the registry's reference. No I/O is left or comes.
 */
void rblk_device_dismantle(struct rblk_device *device);

/* May the session's own commands be sent? (Their connection may still be lost right after.) */
static inline bool rblk_device_live(const struct rblk_device *device)
{
	return READ_ONCE(device->core.state) == CORE_SESSION_LIVE;
}

/* Why a connection was lost, or none is made, as one line; false: all are up. Any context. */
bool rblk_device_say_reason(struct rblk_device *device, char *text);

/* The target sent an event; softirq. */
void rblk_device_event(struct rblk_device *device, u16 event, u32 handle);

/* A queue is on this RDMA device now; NULL: on none. */
void rblk_device_note_ibdev(struct rblk_device *device, unsigned int queue,
			    const struct ib_device *ibdev);
/* An RDMA device goes away: no connection of ours is left there on return. Sleeps. */
void rblk_device_ib_removed(struct ib_device *ibdev);

/* F7: whoever has the volume open knows that writes may be lost. False: none are. */
bool rblk_device_acknowledge(struct rblk_device *device);

/* The disk's open and release. */
int rblk_device_open(struct rblk_device *device);
void rblk_device_release(struct rblk_device *device);

#endif
