/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How I/O begins: what the public calls (io.c, extents.c) ask for, in one struct, and the function
 * that checks the session, takes a credit and fills the descriptor.
 */
#ifndef RBLK_INITIATOR_IO_H
#define RBLK_INITIATOR_IO_H

#include "initiator/rblk.h"
#include "proto/wire/types.h"

/* A command on a volume, its range checked. */
struct ini_io {
	u8 opcode;
	u8 flags;         /* enum rblk_command_flag */
	const void *data; /* the caller's, in a buffer of the session; NULL: none */
	void *report;     /* or within the session's control memory, report_bytes; NULL: none */
	u32 report_bytes;
	u64 bytes;        /* 0: FLUSH, no range at all */
	u64 offset;
	rblk_callback done;
	void *arg;
};

/* Whole blocks within the volume, at most max_bytes. 0, -EINVAL or -ERANGE. */
int ini_io_check_range(const struct rblk_volume *volume, u64 bytes, u64 offset, u64 max_bytes);
/* 0: started, done is going to be called. -ENOTCONN, -EAGAIN, -EFAULT, ...: it is not. */
int ini_io_start(struct rblk_volume *volume, const struct ini_io *io);

#endif
