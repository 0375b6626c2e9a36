/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One hardware queue of a disk: a thread, a session of librblk that belongs to it, and a buffer for each tag, which the kernel
 * copies from and to and which the session has registered. Nothing of a request's way takes a lock or allocates.
 * Called by disk.c.
 */
#ifndef RBLK_UBLK_QUEUE_H
#define RBLK_UBLK_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "initiator/rblk.h"

enum ublk_go {
	UBLK_GO_WAIT = 0, /* the volume's properties are not known yet */
	UBLK_GO_PREPARE,
	UBLK_GO_SERVE,
	UBLK_GO_END,      /* the disk will not start */
};

struct ublk_kept;

/* The queues of a disk share this. It is the disk's, and outlives them. */
struct ublk_shared {
	const char *uri;
	const struct rblk_options *options;
	uint32_t open_flags; /* enum rblk_volume_open_flag */
	struct ublk_kept *kept;
	int wake_fd;         /* eventfd: a queue's view has changed */
	int leave_fd;        /* eventfd: when readable, queues answer what they have begun, and take nothing more */
	/* Fixed before `go` is UBLK_GO_PREPARE: */
	uint32_t depth;      /* tags of each queue */
	uint32_t io_bytes;   /* of each tag's buffer */
	bool kernel_flushes; /* the kernel was told of a volatile cache */
	/* Fixed before `go` is UBLK_GO_SERVE: */
	int device_fd;       /* /dev/ublkcN */
	atomic_int go;       /* enum ublk_go; the disk's thread writes it */
	/* The user knows of all losses up to the one that comes with this count (F7); the disk's thread counts. */
	atomic_uint acknowledged;
	/* A session has given up, so the disk has: it cannot work on some processors and not on others. */
	atomic_bool failed;
};

enum ublk_queue_phase {
	UBLK_QUEUE_CONNECTING,
	UBLK_QUEUE_CONNECTED, /* the volume is open; it waits for `go` */
	UBLK_QUEUE_PREPARED,  /* it has all its memory */
	UBLK_QUEUE_SERVING,   /* the kernel has all its tags */
	UBLK_QUEUE_LEFT,      /* nothing is begun any more; the thread waits for the process's end */
	UBLK_QUEUE_ENDED,     /* its session is closed, the kernel has taken all tags back; words: why it did not start */
};

/* Others may know this of a queue. */
struct ublk_queue_view {
	enum ublk_queue_phase phase;
	enum rblk_session_state session;
	bool writes_lost;             /* F7: flushes fail from now on */
	unsigned int credits;
	struct rblk_volume_info info; /* as the target has told last */
	char peer[288];
	char words[RBLK_ERROR_BYTES]; /* why it is not connected, or did not start; "": it is */
	uint64_t losses;              /* of all its connections */
	struct rblk_stats stats;      /* a second old at most */
	/* Also a second old at most. connected_ms: when it connected, by ublk_record_now_ms(); 0: it has not. */
	struct rblk_path_info paths[RBLK_PATHS_MAX];
	unsigned int path_count;
};

struct ublk_queue;

/* Its thread connects at once. NULL: errno. */
struct ublk_queue *ublk_queue_create(struct ublk_shared *shared, unsigned int index);
void ublk_queue_look(struct ublk_queue *queue, struct ublk_queue_view *view);
/* Waits until it has ended, and frees it. NULL: nothing. */
void ublk_queue_destroy(struct ublk_queue *queue);

#endif
