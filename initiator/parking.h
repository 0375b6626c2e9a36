/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A place for commands without a queue: those of lost connections, and new ones while no queue
 * takes any. It has room for as many as the session's queues can have outstanding. These are only
 * the lists; retry.c fills and empties them. The session's thread owns it.
 */
#ifndef RBLK_INITIATOR_PARKING_H
#define RBLK_INITIATOR_PARKING_H

#include "initiator/rblk.h"
#include "proto/wire/types.h"

struct ini_buffer;
struct ini_gather;

/* A command on a volume, its range checked. */
struct ini_io {
	u8 opcode;
	u8 flags;         /* enum rblk_command_flag */
	const void *data; /* the caller's, in a buffer of the session; NULL: none */
	struct ini_gather *gather; /* or in-capsule data in several pieces; NULL: none */
	bool piece;       /* of a vector: its callback is not the program's */
	bool waits;	  /* for a credit: it has the place of one that has just ended, however many there are */
	void *report;     /* or within the session's control memory, report_bytes; NULL: none */
	u32 report_bytes;
	u64 bytes;        /* 0: FLUSH, no range at all */
	u64 offset;
	u64 operation;    /* COMPARE_AND_WRITE: its number (F8) */
	u64 flush;        /* FLUSH: its number (core/durable.h) */
	rblk_callback done;
	void *arg;
};

enum ini_parked_state {
	INI_PARKED_FREE,
	INI_PARKED_LOST,  /* of `queue`, whose fence is not acknowledged yet */
	INI_PARKED_READY, /* may be sent */
	INI_PARKED_DONE,  /* waits for its callback */
};

struct ini_parked {
	struct ini_parked *next;
	struct rblk_volume *volume; /* counts it as in flight */
	u32 *counted; /* how many of them are LOST or READY: the volume's */
	struct ini_io io;
	struct ini_buffer *buffer; /* held; NULL: none */
	struct rblk_result result; /* DONE */
	u16 queue;		   /* LOST */
	u8 state;		   /* enum ini_parked_state */
	int end;		   /* it is not sent again, but ends with this error when it is fenced; 0: it is */
};

struct ini_parking {
	struct ini_parked *all;
	struct ini_parked *free;
	struct ini_parked *waiting, **waiting_end; /* LOST and READY, the oldest first */
	struct ini_parked *done, **done_end;
	u32 capacity, used, ready;
};

/* 0 or -ENOMEM. */
int ini_parking_init(struct ini_parking *parking, u32 capacity);
void ini_parking_fini(struct ini_parking *parking);
/* A zeroed one; NULL: all are taken. */
struct ini_parked *ini_parking_take(struct ini_parking *parking);
/* LOST or READY, after all others. */
void ini_parking_wait(struct ini_parking *parking, struct ini_parked *parked,
		      enum ini_parked_state state);
/* Removes one from those that wait; `link` points to it there. */
struct ini_parked *ini_parking_unlink(struct ini_parking *parking, struct ini_parked **link);
/* DONE, with this result: its callback is next. */
void ini_parking_finish(struct ini_parking *parking, struct ini_parked *parked, int error);
/* Takes the next DONE one off its list; NULL: there is none. */
struct ini_parked *ini_parking_done(struct ini_parking *parking);
void ini_parking_free(struct ini_parking *parking, struct ini_parked *parked);

#endif
