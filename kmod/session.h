/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session with one target: its addresses, its queues with their connections and memory, the tags
 * that its disks share, and the state machine that drives them (drive.c). Disks (disk.h) are
 * volumes of the target that are attached over it.
 *
 * Lifetime: the attach that finds no session to share makes one (rblk_session_join()). Each disk
 * over it, and each attach under way, is a user. The last user that leaves (rblk_session_leave())
 * ends it: no attach finds it any more, its connections are closed, its works end. References
 * (refs) keep only the struct: the users together have one, each disk and each caller that found it
 * another.
 *
 * Locks, in order: rblk_sessions_lock (registry), session->lifecycle (a disk joins or leaves
 * `disks`; sleeps). session->waiting_lock, which may be held around
 * session->core_lock, and queue->lock (spinlocks) are leaves. A disk's locks: disk.h.
 */
#ifndef RBLK_KMOD_SESSION_H
#define RBLK_KMOD_SESSION_H

#include <linux/blk-mq.h>
#include <linux/inet.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/socket.h>
#include <linux/workqueue.h>

#include "kmod/attach_limits.h"
#include "proto/core/session.h"
#include "proto/wire/wire.h"

struct rblk_prover;
struct rblk_queue;
struct net;

#define RBLK_TEXT_BYTES 256

#define RBLK_NO_ROUTE 0xff

/* An address at which the target is reached. */
struct rblk_portal {
	struct sockaddr_storage address; /* port included */
	struct sockaddr_storage source;  /* to connect from; family 0: as the routes say */
	char text[64];                   /* for messages: "10.9.0.1:4430" */
	u8 group;                        /* of its target's addresses: 0, 1, ... */
};

/*
 * The words of an attach that are the session's. Attaches for which all of them are equal, byte by
 * byte, share a session: zeroed before it is filled.
 */
struct rblk_session_options {
	struct rblk_portal portals[CORE_PORTALS_MAX];
	unsigned int portal_count;
	char initiator[RBLK_NAME_BYTES];
	/* that proves it; empty: none, and the target is not asked either */
	char key[RBLK_KEY_NAME_BYTES];
	unsigned int queues;        /* wanted; 0: min(cores, 8, what poll_queues leave) */
	unsigned int poll_queues;   /* as many more, for I/O whose submitter polls */
	unsigned int credits;       /* wanted per queue */
	unsigned int connect_ms;    /* address, route, handshake and login of one queue */
	unsigned int command_ms;    /* an unanswered command fails the connection */
	unsigned int reconnect_ms;  /* the longest pause between two attempts to connect */
	/* without a connection for so long: REQ_FAILFAST fails; 0: never */
	unsigned int fail_fast_ms;
	unsigned int give_up_ms; /* without a connection for so long: everything fails, for good */
	bool digest;                /* all data has a CRC32C */
	unsigned int tos;           /* of IP packets to the target; 0: the system's */
	/* a packet is repeated after 4.096 us * 2^this; 0: the device's */
	unsigned int ack_timeout;
};

/* The fate of a request that no queue takes; the higher the worse. */
enum rblk_gate {
	RBLK_GATE_HOLD,      /* it waits */
	RBLK_GATE_FAIL_FAST, /* it waits, unless it is to fail fast */
	RBLK_GATE_FAIL,      /* it fails */
};

/* Something that drive_work is to do, from a time on (drive.h). */
struct rblk_due {
	bool set;
	unsigned long at; /* jiffies */
};

/* IDENTIFY, in a new epoch; core_lock */
struct rblk_naming {
	struct rblk_due due; /* it is to be sent */
	unsigned long by; /* jiffies: until then it is sent again to a target that is BUSY */
	unsigned int tries;
};

struct rblk_session {
	struct kref refs;
	struct list_head entry; /* registry; rblk_sessions_lock */
	unsigned int users;     /* rblk_sessions_lock */
	bool no_joins;          /* no attach joins it any more; rblk_sessions_lock */
	int number;             /* names it in messages and sysfs; no secret */
	struct rblk_session_options wanted;  /* as asked for; fixed */
	struct rblk_session_options options; /* poll_queues: as many as there are */
	bool own;               /* of one disk alone; fixed */
	struct net *net;        /* of the attaching process; referenced */

	struct mutex lifecycle; /* see above */
	struct list_head disks; /* lifecycle and core_lock to change it, either to walk it */

	u32 handles; /* so many numbers were used; core_lock */
	/* close.c; core_lock: slots whose handles are to be closed */
	DECLARE_BITMAP(close_slots, RBLK_HANDLES_MAX);
	bool close_sent;	/* a CLOSE is under way */
	u32 close_slot;		/* the slot that its answer is for; 0: none */
	struct rblk_due close_due;

	/*
	 * The state machine. core_lock owns these, for writing; `core.state`, `route` and `gate`
	 * are read without it where stale is harmless.
	 */
	spinlock_t core_lock;
	struct core_session core;
	u8 route[RBLK_QUEUES_MAX]; /* by hardware context: the queue that takes its requests */
	u8 gate;                   /* enum rblk_gate */
	u64 epoch;                 /* that `route` and the disks know of */
	bool endures;              /* it comes back when it is lost: an attach has succeeded */

	/* tell.c: what the log, sysfs and attach say of it */
	char reason[RBLK_TEXT_BYTES];  /* why a connection was lost; empty: all are up; core_lock */
	/* why the last attempt to connect came to nothing; core_lock */
	char attempt[RBLK_TEXT_BYTES];
	bool reason_untold;            /* it has not been logged; core_lock */
	u8 told_state;                 /* that was logged; drive_work */
	atomic64_t losses;             /* of connections that were up */

	bool ended; /* FAILED or ENDED, no queue is connected, nothing waits; drive_work sets it */
	/* session or disk has changed, or one of the session's own commands ended */
	wait_queue_head_t wait;
	struct delayed_work drive_work;
	unsigned long drive_wait; /* jiffies: it runs again after so many; drive_work */
	struct rblk_naming naming;
	unsigned long leaving; /* bitmap: queues that are to move to another portal; drive_work */

	u8 session_id[16]; /* a secret */
	struct rblk_prover *prover; /* NULL: nothing is proven; fixed */
	struct rblk_queue **queues; /* queue_count, as long as the session; polled ones are last */
	unsigned int queue_count;
	unsigned int hw_queues; /* that blk-mq has: as many as the target allowed at attach */
	u32 slot_bytes; /* rblk_memory_slot_bytes(), when it was made */

	/* reservation.c; core_lock */
	unsigned long reserving; /* bitmap: the queues that carry RESERVE or RESERVATIONS */
	u64 operation;           /* F8: the last number */
	/*
	 * F8, bitmaps: places of numbers that are not answered yet, and of those the ones that were
	 * lost and are not sent again: they are free when nothing is unfenced
	 */
	u64 operations, operations_lost;

	/* blk_mq.c: shared by all disks. Made by the first one, under lifecycle. */
	struct blk_mq_tag_set tag_set;
	bool tag_set_ready;
	struct request_queue *placeholder; /* blk_mq.c */
	bool tags_shared; /* between several disks: no single one has all; lifecycle, for writing */
	unsigned int credits; /* the fewest of a queue, when tag_set was made */
	u32 disk_bytes; /* the longest command that blk-mq was told of, over all disks; core_lock */

	u32 event_seen; /* number of the last event; queue 0's CQ handlers */
	u32 event_told; /* that a KEEPALIVE has named; drive_work (V9) */

	spinlock_t waiting_lock;              /* waiting.c; outside of core_lock alone */
	struct list_head waiting;             /* struct rblk_io on no queue; waiting_lock */
	/*
	 * bitmap: queues whose LOST commands have ended with errors, or that have lost a RESERVE,
	 * until they are fenced for all; waiting_lock and core_lock own it for writing, either for
	 * reading
	 */
	unsigned long unfenced;
	struct rblk_due waiting_due;          /* of the first of them; waiting_lock */

	atomic64_t retries;
};

/* The first portal's, which names the target in messages. */
static inline const char *rblk_session_peer(const struct rblk_session *session)
{
	return session->options.portals[0].text;
}

/*
 * Sleeps. A session to these options' target, of which the caller is a user now: one that other
 * disks are on, unless `own`; else a new one, which it begins to connect. It may be lost, or over,
 * at any time.
 */
struct rblk_session *rblk_session_join(const struct rblk_session_options *options, bool own);
/* Sleeps. No disk and no request of the caller's is left. The last one ends the session. */
void rblk_session_leave(struct rblk_session *session);
/* If the caller is its only user, nobody else becomes one any more. False: it is not. */
bool rblk_session_close(struct rblk_session *session);
void rblk_session_put(struct rblk_session *session);

/* The target sent an event; softirq. */
void rblk_session_event(struct rblk_session *session, u16 event, u32 handle);

#endif
