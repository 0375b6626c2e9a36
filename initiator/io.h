/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How I/O begins: what the public calls (io.c, extents.c) ask for, in one struct, and the function
 * that checks the session, takes a credit and fills the descriptor.
 */
#ifndef RBLK_INITIATOR_IO_H
#define RBLK_INITIATOR_IO_H

#include "initiator/parking.h"
#include "initiator/rblk.h"
#include "initiator/volume.h"

/* enum rblk_command_flag of data that is written or read, by enum rblk_io_flag. */
static inline u8 ini_io_flags(u32 flags)
{
	return (flags & RBLK_IO_FUA ? RBLK_CMD_FUA : 0) | (flags & RBLK_IO_PRIORITY ? RBLK_CMD_PRIORITY : 0) |
	       (flags & RBLK_IO_UNTORN ? RBLK_CMD_UNTORN : 0);
}

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
/* A READ needs a buffer that devices may write. 0, or -EFAULT with words. */
int ini_io_check_buffer(const struct rblk_volume *volume, u8 opcode, const struct ini_buffer *buffer);
int ini_io_check_range(const struct rblk_volume *volume, const char *what, u64 bytes, u64 offset,
		       u64 max_bytes);
/*
 * flags: enum rblk_io_flag. 0, or if an untorn write is not one that the volume has, -EINVAL or -EOPNOTSUPP with a
 * message.
 */
int ini_io_check_untorn(const struct rblk_volume *volume, const char *what, u64 bytes, u64 offset, u32 flags);
/* vector.c: the session's, when no command is left. */
void ini_vectors_fini(struct rblk_session *session);

/* A command's origin identifies it to the program that started it (rblk_abort()). */
struct ini_origin {
	const struct rblk_volume *volume;
	rblk_callback done;
	void *arg;
};
/*
 * Does the callback of an outstanding command stand for a call of the program with this origin? A
 * vector or long CHECKSUM then starts no further command.
 */
bool ini_vector_stops(rblk_callback done, void *arg, const struct ini_origin *origin);
bool ini_checksum_stops(rblk_callback done, void *arg, const struct ini_origin *origin);
bool ini_compare_is(rblk_callback done, const void *arg, const struct ini_origin *origin);
bool ini_extents_is(rblk_callback done, const void *arg, const struct ini_origin *origin);

/* Where no data moves, the descriptor's count of blocks is the only bound. */
static inline u64 ini_io_blocks_max(const struct rblk_volume *volume)
{
	return (u64)UINT32_MAX << volume->block_shift;
}

/* For memory that the command sends or receives. */
static inline u64 ini_io_data_bytes(const struct ini_io *io)
{
	/* The expected data, then the new data. */
	return io->opcode == RBLK_OP_COMPARE_AND_WRITE ? 2 * io->bytes : io->bytes;
}

/* Start what is parked and READY, as far as queues take it. */
void ini_io_resume(struct rblk_session *session);
/* 0: started, done will be called. -ENOTCONN, -EAGAIN, -EFAULT, ...: it was not started. */
int ini_io_start(struct rblk_volume *volume, const struct ini_io *io);

#endif
