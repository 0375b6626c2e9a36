/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session's share of the reactor's memory for data and for reports (C6). All sessions of a host
 * together may take blocks as long as they then hold no more than TGT_SHARE_OF_FREE times what
 * stays free, and each session as long as it then holds no more than so many times what its host
 * may still take. A host or session that holds nothing may take a block, if there is one; a session
 * only within its host's share. So one host alone can have three quarters of a pool and one session
 * alone nine sixteenths, several hosts get equal parts however many sessions they have, and there
 * is always something left for the next host and for the next session of a host. serve/host.h says
 * which sessions are of one host.
 *
 * Likewise the commands of one session for one volume together (a portion) hold no more than TGT_SHARE_OF_FREE times what the
 * session may still take: a volume whose disk does not answer leaves memory to the session's other volumes, whose commands
 * pass those that wait for its bound.
 *
 * Commands for which there is no memory wait; sessions are served in turn, and in each session its
 * volumes. serve/ embeds one in each session. The reactor's thread only.
 */
#ifndef RBLK_TARGET_SHARE_H
#define RBLK_TARGET_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include "target/io/io_queue.h"
#include "target/store/pool.h"

#define TGT_SHARE_OF_FREE 3u
/* Memory is gathered for at most so long in each period: no other session gets any meanwhile. */
#define TGT_GATHER_NS 1000000000ull
#define TGT_GATHER_PERIOD_NS TGT_MEMORY_WAIT_NS

/* The memory that all sessions of a host hold together. */
struct tgt_host_share {
	uint64_t number; /* fixed: the same on all reactors; another host's only by chance */
	uint64_t data_bytes, report_bytes; /* as below */
	uint32_t credits;		   /* as below: grants shrink with what the host holds */
	uint64_t direct_ns;	   /* the turn in which one last worked in a store's own memory */
	unsigned int direct_extra; /* those of that turn beyond its budget */
};

struct tgt_share {
	struct tgt_loop *loop;	       /* fixed */
	struct tgt_host_share *host;   /* this session included; serve/ moves all that it holds when it changes */
	TAILQ_ENTRY(tgt_share) link;	   /* loop->starving, while it has: */
	struct tgt_portion_list starving; /* volumes with commands that wait, in turn */
	uint64_t data_bytes;   /* of loop->pool, that its commands and transfers hold */
	uint64_t report_bytes; /* of the pools for reports */
	uint64_t direct_ns;    /* the turn in which it last worked in a store's own memory */
	uint32_t credits;      /* receive buffers that are promised to its queues */
	unsigned int extents;  /* EXTENTS that the stores have, of its queues on this reactor */
	unsigned int compares; /* COMPARE_AND_WRITEs from their range lock on */
	uint8_t passed; /* commands with priority that got memory while others waited for it, since one of these did */
	/* throttle.c's: commands that wait for a limit, by io.waiter, in the order they came; with priority apart. */
	struct tgt_waiter_list limited, limited_priority;
	bool limited_moved;	/* places of the former have another order: until none of them waits */
	uint8_t limited_passed; /* of the latter, that went before the former, since one of these did */
};

/*
 * The memory that the commands of a session for one volume hold, from its first handle to its last
 * (serve/handle.c).
 */
struct tgt_portion {
	TAILQ_ENTRY(tgt_portion) link; /* share->starving or loop->bounded, while commands wait */
	struct tgt_request_list waiting, waiting_priority; /* in the order they came */
	bool bounded;			 /* for this volume's share; else in turn */
	struct tgt_share *share;	 /* fixed: the session's */
	uint64_t data_bytes;		 /* of loop->pool, until it is on its way to the initiator */
	unsigned int handles;		 /* serve/'s */
};

/* `host` outlives it. */
void tgt_share_init(struct tgt_share *share, struct tgt_loop *loop, struct tgt_host_share *host);

/* A block of loop->pool, or of the I/O queue's pool for reports. NULL: none is free, or the portion, the session or
 * its host has its share. */
void *tgt_share_alloc(struct tgt_io_queue *io_queue, struct tgt_portion *portion, uint32_t bytes);
void *tgt_share_alloc_report(struct tgt_io_queue *io_queue, uint32_t bytes);
void tgt_share_free(struct tgt_io_queue *io_queue, void *block, uint32_t bytes, bool report);

/* A block of so many bytes counts for the portion no more: it is freed, or the transport has it. */
static inline void tgt_portion_give(struct tgt_portion *portion, uint32_t bytes)
{
	portion->data_bytes -= tgt_pool_block_bytes(bytes);
	portion->share->loop->memory_freed |=
		!TAILQ_EMPTY(&portion->waiting) || !TAILQ_EMPTY(&portion->waiting_priority);
}
/* The session may take so many bytes more, but not for this volume, which has its share. */
bool tgt_portion_is_full(const struct tgt_portion *portion, uint32_t bytes);
/* The session may take so many bytes more for this volume, or holds none for it. */
bool tgt_portion_has_room(const struct tgt_portion *portion, uint32_t bytes);
void tgt_portion_init(struct tgt_portion *portion, struct tgt_share *share);

/*
 * Has the turn done enough in stores' own memory? If not, so many bytes are counted. A session may
 * still do one command in a turn, because the backlog is not its own; but not each of very many
 * sessions of one host.
 */
bool tgt_share_over_budget(struct tgt_share *share, uint64_t bytes);

/* The next that gets memory: one with priority, or after TGT_PRIORITY_MOST of these one without. NULL: none waits. */
struct tgt_request *tgt_portion_first(const struct tgt_portion *portion);
/* A command waits for memory of request->data_bytes, behind others for its volume; and waits no more. */
void tgt_portion_wait(struct tgt_request *request);
void tgt_portion_leave(struct tgt_request *request);
/* Its commands wait on, behind the session's other volumes; or for the volume's share, if the first one has to. */
void tgt_portion_again(struct tgt_portion *portion);

/* Is memory to be gathered for this session, which waits for so much: it holds nothing, and what it
 * lacks is memory, not only its share of it? */
bool tgt_share_lacks_memory(const struct tgt_share *share, uint32_t bytes);
/* Sets loop->short_of_memory: is memory gathered, if that is wanted and its time is not over? */
void tgt_share_gather(struct tgt_loop *loop, bool wanted);

#endif
