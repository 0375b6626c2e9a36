/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A store keeps a volume's blocks. Each kind is one small table of operations in a file of its own
 * (uring.c, nvme.c, memory.c, null.c, fault.c; rbd.c loads one). A store is opened once by the configuring
 * thread (volume.h) and shared; each reactor that serves it has a channel of its own (struct tgt_channel).
 *
 * Nothing is faked: a kind that cannot flush durably does not set can_flush.
 */
#ifndef RBLK_TARGET_STORE_H
#define RBLK_TARGET_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/store/inflight.h"
#include "target/store/pace.h"
#include "target/store/range_lock.h"
#include "target/store/reservation_image.h"
#include "target/store/reservations.h"
#include "target/store/ring.h"

struct tgt_volume_config; /* settings.h */
struct tgt_volume;	  /* volume.h */
struct tgt_volume_trouble; /* likewise */
struct fab_mr;		  /* proto/fabric/fabric.h */
struct tgt_worker;	  /* worker.h */

enum tgt_io_kind {
	TGT_IO_READ,
	TGT_IO_WRITE,
	TGT_IO_FLUSH,
	TGT_IO_DISCARD,
	TGT_IO_WRITE_ZEROES,
	TGT_IO_EXTENTS, /* where data is; only of a store with can_extents */
};
#define TGT_IO_KINDS (TGT_IO_EXTENTS + 1)

enum tgt_io_flag {
	TGT_IO_FUA = 1u << 0,
	TGT_IO_NO_UNMAP = 1u << 1,
	TGT_IO_UNTORN = TGT_IO_NO_UNMAP, /* of a WRITE: within info.untorn_*, and whole or absent whatever happens */
	TGT_IO_LOCKED = 1u << 2, /* a WRITE within a range lock that its owner holds (range_lock.h) */
	/*
	 * A WRITE of a store with compare_bytes: of the second `bytes` in the buffer, if the first are there.
	 * Succeeds also if not; then `progress` is the offset of the first difference, else it is `bytes`.
	 */
	TGT_IO_COMPARE = 1u << 3,
};

/* A piece of a range that is data, or a hole that reads as zeroes. */
struct tgt_extent {
	uint64_t bytes; /* 0: there is none */
	bool hole;
};

/*
 * One operation on a store. Embedded in its request, which owns it; the store may use it from
 * submit to completion. Offsets and lengths are bytes, already checked against the volume's size
 * and block size. A READ or WRITE that completes with 0 was done completely: the store continues
 * short ones.
 */
struct tgt_io {
	struct tgt_ring_op ring_op; /* the store's; first, so that it leads back here */
	enum tgt_io_kind kind;
	uint32_t flags;             /* enum tgt_io_flag */
	uint64_t offset;
	uint64_t bytes;
	void *buffer;               /* READ, WRITE: page aligned unless in-capsule (512) */
	/* EXTENTS: the buffer is zeroed and has room for so many struct tgt_extent; each is to be whole
	 * units of so many bytes. A range's end, and one that is not filled, end the list. */
	uint32_t extent_room, extent_unit;
	int buffer_index;           /* of the ring's fixed buffers, or -1 */
	unsigned int retries;	    /* the store's */
	struct tgt_channel *channel; /* the store's, set by submit */
	uint64_t progress;	     /* the store's: bytes done so far */
	void (*done)(struct tgt_io *io, int error); /* 0 or negative errno; reactor's thread */
	/* Fields of an operation that passes submit.h: */
	struct tgt_volume *volume;                  /* set there */
	uint64_t epoch;                             /* F9: the volume's failure when it came */
	uint64_t begun_ns;			    /* if it is paced: when the store got it */
	uint64_t others;                            /* sync.c's: syncs that it waits for, or 0 */
	uint8_t sync;                               /* sync.c's: its number among them, or 0 */
	bool paced; /* set there: if it is a READ or WRITE, the window of its kind counts it */
	int error;                                  /* likewise, while it waits to be told */
	void (*ended)(struct tgt_io *io, int error); /* the owner's callback instead of `done` */
	struct tgt_waiter waiter;		     /* waiter.owner is the caller's to set */
	struct tgt_write write;			     /* set there, while it changes the volume */
};

/* The operation that waits. */
static inline struct tgt_io *tgt_io_of(struct tgt_waiter *waiter)
{
	return (struct tgt_io *)((char *)waiter - offsetof(struct tgt_io, waiter));
}

/* Which file or block device it is, by whatever name; all zero: none. */
struct tgt_store_id {
	uint64_t device, inode; /* of the file; of a block device its own number, and 0 */
	bool is_device;
	uint8_t disk[16]; /* hash of a block device's own name (device_name.h); all zero: it has
			     none */
};

/* By the same device node; an empty one equals no other. */
static inline bool tgt_store_id_same(const struct tgt_store_id *a, const struct tgt_store_id *b)
{
	return (a->device || a->inode) && a->device == b->device && a->inode == b->inode &&
	       a->is_device == b->is_device;
}

/* The same, or two paths to one disk. */
static inline bool tgt_store_id_shared(const struct tgt_store_id *a, const struct tgt_store_id *b)
{
	static const uint8_t none[sizeof(a->disk)];

	return tgt_store_id_same(a, b) ||
	       (memcmp(a->disk, none, sizeof(none)) && !memcmp(a->disk, b->disk, sizeof(none)));
}

/*
 * How many operations of a kind a store takes at once: each of them may block a thread of the kernel's (io-wq) if its disk does
 * not answer, so a ring has threads for all that its files take (ring.h). 0: it does not say, and blocks none; submit.c has a
 * number for it.
 */
struct tgt_depths {
	uint32_t transfers; /* READ and WRITE, of all channels together */
	uint32_t ranges;    /* DISCARD and WRITE_ZEROES, of each channel */
	uint32_t lookups;   /* EXTENTS, likewise */
};
/* FLUSH, of each channel: those that come meanwhile are done together. */
#define TGT_FLUSHES_MAX 1u

/* A store's abilities and its size; filled by open, renewed by refresh. */
struct tgt_store_info {
	uint64_t bytes;
	uint32_t block_bytes;        /* smallest unit that it can read and write: 512 .. 4096 */
	uint32_t physical_bytes;     /* a power of two */
	uint32_t optimal_bytes;
	struct tgt_depths depths;
	uint32_t alignment;          /* of buffer addresses: 1 .. 4096 */
	/* Powers of two: a WRITE of such a length, aligned to it, is never torn if it asks for that. 0: none. */
	uint32_t untorn_min_bytes, untorn_max_bytes;
	uint32_t discard_granularity;
	uint64_t max_discard_bytes;  /* of one DISCARD or WRITE_ZEROES */
	bool read_only;
	bool can_flush, can_fua, can_discard, can_write_zeroes;
	bool can_extents; /* else all of it is data */
	bool can_compare; /* data can be read back: COMPARE_AND_WRITE */
	uint32_t compare_bytes; /* the store does that itself (TGT_IO_COMPARE), of so many at most; 0: compare.c does */
	/* WRITE_ZEROES writes its range, as there is no command for it. Devices may find that out late: any thread. */
	_Atomic bool writes_zeroes;
	bool volatile_cache;         /* has a cache, so flushes are needed */
	/* F9: the error of a durable write is its own, and not that of a flush, which loses what others have written. */
	bool fua_alone;
	bool buffered;               /* through this machine's page cache, or it may be */
	struct tgt_store_id id;
	uint64_t born_s, born_ns; /* of a file whose file system knows: tells it from a later one
				     with its number */
	bool rotational;
	uint8_t uuid[16];	     /* what it is, at whatever target; all zero: identity.h finds that out */
	uint8_t cache_epoch[16];     /* F7: of the machine's boot and the disk; random for memory */
	bool cache_kept; /* what the kernel knows of failed writes is what it knew when the last process served it */
	/*
	 * F10: of another instance with the same one nothing is under way here any more, nor will be. It names machine
	 * and disk (domain.h), because F6 makes sure of it there; a store that fences by other means has its own.
	 */
	uint8_t fence_domain[16];
	bool machine_is_nobody; /* nothing identifies it over a reboot: domain.h */
	bool shared; /* targets on other machines serve it at the same time: `fence` */
	/*
	 * It keeps the reservation, for all of its targets (`change`), and has noted this when it was opened. NULL:
	 * it does not.
	 */
	const struct tgt_reservation_note *noted;
	/*
	 * Memory of the store itself, for RDMA straight into and out of it (F2); NULL for disks.
	 * Page aligned, `bytes` long.
	 */
	void *direct;
};

struct tgt_store {
	const struct tgt_store_ops *ops;
	struct tgt_store_info info; /* fixed after open but for bytes (refresh) */
	struct tgt_store *inner;    /* it stands in front of that one; NULL: of none */
	struct tgt_volume *_Atomic volume; /* volume.c's: whose it is, from when it is open until it is closed */
	const char *_Atomic lost;	   /* volume.h's: why nothing of it can be had any more; NULL: it can */
};

/* -- a store that several machines serve (F5, F10) ---------------------------------------------- */

/*
 * The epochs of a session before `epoch`. Or, with `host`, all that an NVMe host has at another target: `session` is
 * the digest of the host's name then, and `epoch` its rank (registrant.h). Such a host uses several targets at once.
 */
struct tgt_past {
	uint8_t session[16];
	uint64_t epoch;
	bool host;
	uint8_t reserved[7];
};

/* All other targets of a store end the I/O of `past`. The owner's memory; the store uses it from `fence` to `done`. */
struct tgt_store_fence {
	struct tgt_store_fence *next; /* the store's */
	struct tgt_past past;
	bool held; /* set with error 0: another target serves this NVMe host, and goes on with it */
	void (*done)(struct tgt_store_fence *fence, int error); /* any thread; 0 or negative errno */
};

/* A change of the volume's reservation. The owner's memory; the store uses it from `change` to `done`. */
struct tgt_store_change {
	__le64 before;			  /* the serial of what it was */
	struct tgt_reservation_note note; /* what it is to be; with -EAGAIN what it is */
	bool kept;			  /* with an error: it may be, for all that is known */
	void (*done)(struct tgt_store_change *change, int error); /* any thread; 0 or negative errno */
};

/*
 * A store asks one of three things of this target's sessions. Another target fences `pasts`: these are ended here.
 * Another target has changed the reservation: `note` is put in force here. The store does not reach its data: sessions
 * that know another target are to `leave`. The store's memory; `answer`, called once on any thread, gives it back.
 */
struct tgt_store_ask {
	const struct tgt_past *pasts;
	unsigned int count;
	uint64_t held; /* set before the answer: bit i if this target serves the NVMe host of pasts[i], and goes on */
	const struct tgt_reservation_note *note; /* NULL: the reservation has not changed */
	enum tgt_ask_leave {
		TGT_ASK_NONE,
		TGT_ASK_LEAVE, /* sessions are told to go to another target */
		TGT_ASK_CUT,   /* the connections of those that have not gone are closed: their commands do not end */
	} leave;
	/*
	 * quiet: no write is under way, or will begin, of `pasts`, of connections that had ended when the store asked,
	 * or of sessions that the reservation refuses. Must not block.
	 */
	void (*answer)(struct tgt_store_ask *ask, bool quiet);
};

/* Kinds of fabric that one reactor serves at most. */
#define TGT_FABRICS_MAX 4u

enum tgt_channel_state {
	TGT_CHANNEL_READY,
	TGT_CHANNEL_OPENING, /* a thread registers the store's memory; not to be closed */
	TGT_CHANNEL_FAILED,  /* that was refused; to be closed */
	TGT_CHANNEL_CLOSING, /* a thread deregisters; channel.c's alone */
};

/*
 * A volume as one reactor serves it: made by the reactor's first handle to it, ended with the last
 * one (channel.c). A store's kind may embed it in a struct of its own, first. The reactor's thread
 * only.
 */
struct tgt_channel {
	/* The store's, set by attach. */
	struct tgt_store *store;
	struct tgt_ring *ring;
	/* channel.c's. NULL below the fault store. */
	struct tgt_volume *volume;		  /* a reference */
	struct fab_mr *mr[TGT_FABRICS_MAX]; /* of store->info.direct; valid while READY */
	enum tgt_channel_state state;
	unsigned int handles; /* serve/'s: those that use it or wait for it */
	bool drained; /* likewise: it ends with its reactor, no session has closed the volume */
	struct tgt_reservations_subscriber subscriber; /* likewise: of the volume's reservations */
	/* submit.c's: */
	struct tgt_log_limit log_limit; /* of errors */
	struct tgt_inflight transfers;	/* READ and WRITE: its part of the store's */
	unsigned int part;		/* that part */
	unsigned int sharers;		/* channels of the volume, when it was cut */
	bool paced; /* `limit = auto`: READs are in `reads`, and of each kind there are no more than its window */
	struct tgt_inflight reads;
	struct tgt_pace pace[2];	/* of WRITE, READ */
	unsigned int window_told;	/* of them, in volume->pace.window */
	struct tgt_inflight ranges;	/* DISCARD and WRITE_ZEROES */
	struct tgt_inflight lookups;	/* EXTENTS */
	struct tgt_io *flushing;             /* the FLUSH that the store has, or NULL */
	struct tgt_waiter_list flushed;      /* FLUSHes that end with it */
	struct tgt_waiter_list unflushed;    /* came while it was under way: the next one's */
	struct tgt_range_locks_channel range_locks; /* range_lock.c's */
	/* sync.c's: */
	struct tgt_volume_trouble *trouble;  /* the volume's */
	void (*over)(struct tgt_io *io);
	struct tgt_waiter_list kept;         /* succeeded, beside others that are under way */
	struct tgt_message look;	     /* to this channel's ring, when one of those has ended */
	struct tgt_channel *next_waiting;    /* in trouble->waiting */
	bool looking;                        /* is there, or `look` has been posted */
};

/* A store's file, as the kernel knows it by now. */
struct tgt_store_file {
	bool deleted; /* it has no name any more: its data ends with the store, or is in the cluster's trash */
	uint64_t bytes;
};

struct tgt_store_ops {
	const char *kind; /* its name, in configurations and reports */
	bool on_path;	  /* keeps its data at config->path, which has its size; else in itself, of config->bytes */
	bool elsewhere;	  /* config->path names something on other machines (an image of Ceph), and no file */
	bool forgets;	  /* its data ends with it */
	/* Has this process, for seconds, not reached the machines with its data? Any thread; must not block. NULL:
	 * never. */
	bool (*silent)(void);
	bool wraps;	  /* stands in front of the kind that is configured: struct tgt_store_faults */
	/* May the path be an NVMe namespace, by its generic node? NULL: no. */
	bool (*is_namespace)(const struct tgt_volume_config *config);

	/* Configuring thread; does not wait. Begins what open() waits for, beside others'. NULL: it does all itself. */
	void (*open_ahead)(const struct tgt_volume_config *config);
	/* Configuring thread; may block. error: TGT_ERROR_BYTES, "path: reason". F6: takes the lock. */
	int (*open)(const struct tgt_volume_config *config, struct tgt_store **store, char *error);
	/*
	 * No channel is left. Makes durable what was written, and returns 0, or negative errno if some of it may be lost.
	 * May block; the thread that closes. NULL: there is nothing to make durable.
	 */
	int (*sync)(struct tgt_store *store);
	/* Likewise. May block; volume.h says on which thread. */
	void (*close)(struct tgt_store *store);
	/* Configuring thread. Read its size again: sets info.bytes. NULL: its size is fixed. */
	int (*refresh)(struct tgt_store *store);

	/* Any thread; does not wait. How many bytes it has now; negative errno: this cannot
	 * tell. NULL: never. */
	int (*device_bytes)(struct tgt_store *store, uint64_t *bytes);
	/* Any thread; does not wait. False: it is of no file, or nothing is known. NULL: never. */
	bool (*file_look)(struct tgt_store *store, struct tgt_store_file *file);

	/*
	 * Any reactor's thread. Begins to prepare the store's memory for quick registration with a
	 * device; true: it is ready. Called again until then. NULL: nothing to do.
	 */
	bool (*prepare)(struct tgt_store *store);
	/* Whose thread registers the store's memory with devices. NULL: has no memory for them. */
	struct tgt_worker *(*worker)(struct tgt_store *store);

	/* Reactor's thread. ring may be NULL (simulator, tests) where the kind needs none. */
	int (*attach)(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel);
	void (*detach)(struct tgt_channel *channel); /* nothing in flight */

	/*
	 * A store whose info has `shared` has it. Reactor's thread; does not wait. When it is done with 0, no other target
	 * has a write under way, nor will have, of the session's epochs before, or of a connection that had ended;
	 * and what is submitted from then on comes behind their writes.
	 */
	void (*fence)(struct tgt_store *store, struct tgt_store_fence *fence);

	/*
	 * A store whose info has `noted` has it. Reactor's thread; does not wait. When it is done with 0 it is noted,
	 * and in force at all other targets, and none has a write under way, nor will have, of who may not write any
	 * more; what is submitted from then on comes behind such writes. -EAGAIN: another one has changed it; nothing
	 * was done.
	 */
	void (*change)(struct tgt_store *store, struct tgt_store_change *change);

	/*
	 * Start *io. Returns 0: io->done() will be called later, from the ring's reap; 1: done at
	 * once and successfully, io->done() is NOT called; negative errno: failed at once, io->done()
	 * is NOT called; -EBUSY: nothing was begun, there is no room for it now. Never blocks.
	 */
	int (*submit)(struct tgt_channel *channel, struct tgt_io *io);
};

/*
 * The kinds that there are: a new one is a file with its table, and a word here. uring makes an nvme store of an NVMe generic
 * device.
 */
#define TGT_STORE_KINDS(KIND) KIND(uring) KIND(nvme) KIND(rbd) KIND(memory) KIND(null)
#define TGT_STORE_DECLARE(name) extern const struct tgt_store_ops tgt_store_##name;
TGT_STORE_KINDS(TGT_STORE_DECLARE)

/* NULL if there is no such kind. */
const struct tgt_store_ops *tgt_store_find(const char *kind);
/* Some kind is silent. Any thread; does not wait. */
bool tgt_store_silent(void);
/* The path of the file or device that a volume is, or is to be; NULL: it is none. */
const char *tgt_store_file(const struct tgt_volume_config *config);
/* "uring, nvme, ...". */
const char *tgt_store_names(char *text, size_t bytes);

/*
 * The injected faults of a room above (fault/fault.h): a store in front of the kind that config->store names, where
 * config->fault is set.
 */
struct tgt_store_faults {
	const struct tgt_store_ops *ops;
	/* Is it a plan, the text of the `fault` key? 0, or -EINVAL and why (bytes). */
	int (*check)(const char *plan, char *why, size_t bytes);
	/* Control thread: another plan for operations that begin from now on. 0, or negative errno and error (TGT_ERROR_BYTES). */
	int (*change)(struct tgt_store *store, const char *plan, char *error);
};
/* Set by main() before anything else; NULL: this program was built without (RBLK_FAULTS). */
extern const struct tgt_store_faults *tgt_store_faults;
#define TGT_STORE_NO_FAULTS "this rblkd was built without faults (RBLK_FAULTS)"

#endif
