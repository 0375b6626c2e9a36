/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How I/O begins: what the public calls (io.c, extents.c) ask for, in one struct, and the function
 * that checks the session, takes a credit and fills the descriptor.
 */
#ifndef RBLK_INITIATOR_IO_H
#define RBLK_INITIATOR_IO_H

#include "initiator/rblk.h"
#include "initiator/volume.h"

/* A command on a volume, its range checked. */
struct ini_io {
	u8 opcode;
	u8 flags;         /* enum rblk_command_flag */
	const void *data; /* the caller's, in a buffer of the session; NULL: none */
	struct ini_gather *gather; /* or in-capsule data in several pieces; NULL: none */
	bool piece;       /* of a vector: its callback is not the program's */
	bool waits;       /* for a credit: nobody asks again for it */
	void *report;     /* or within the session's control memory, report_bytes; NULL: none */
	u32 report_bytes;
	u64 bytes;        /* 0: FLUSH, no range at all */
	u64 offset;
	u64 flush;        /* FLUSH: its number, 0: none yet (core/durable.h) */
	rblk_callback done;
	void *arg;
};

/* The arguments of a call. */
struct ini_ask {
	bool able;   /* the volume can do it */
	bool writes; /* not for read-only volumes */
	u32 flags, flags_allowed; /* enum rblk_io_flag */
	rblk_callback done;
};

/* Returns `error`, after noting what was wrong and of which volume. */
int ini_io_refuse(const struct rblk_volume *volume, int error, const char *what, const char *format,
		  ...) __attribute__((format(printf, 4, 5)));
/* `what`: the command's name, for the message. 0, -EINVAL, -EROFS or -EOPNOTSUPP. */
int ini_io_check(const struct rblk_volume *volume, const char *what, const struct ini_ask *ask);
/* Whole blocks within the volume, at most max_bytes. 0, -EINVAL or -ERANGE, with a message. */
int ini_io_check_range(const struct rblk_volume *volume, const char *what, u64 bytes, u64 offset,
		       u64 max_bytes);
/* vector.c: the session's, when no command is left. */
void ini_vectors_fini(struct rblk_session *session);

/* Where no data moves, the descriptor's count of blocks is the only bound. */
static inline u64 ini_io_blocks_max(const struct rblk_volume *volume)
{
	return (u64)UINT32_MAX << volume->block_shift;
}

/*
 * Once more, without judging it again; it was counted, and its buffer held, when it came. -EAGAIN: no
 * queue takes it now.
 */
int ini_io_restart(struct rblk_volume *volume, const struct ini_io *io);
/* 0: started, done is going to be called. -ENOTCONN, -EAGAIN, -EFAULT, ...: it is not. */
int ini_io_start(struct rblk_volume *volume, const struct ini_io *io);

#endif
