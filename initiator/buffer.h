/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registered memory of a session: an array of regions in order of their addresses, and the last
 * one found, because programs use the same buffer again and again.
 */
#ifndef RBLK_INITIATOR_BUFFER_H
#define RBLK_INITIATOR_BUFFER_H

#include "initiator/fabrics.h"
#include "proto/wire/types.h"

/*
 * Made by rblk_buffer_alloc() or _register(), freed by their inverses or with the session. The
 * session's thread owns it.
 */
struct ini_buffer {
	u8 *memory;
	size_t bytes;
	size_t mapped_bytes; /* of our own mapping; 0: the caller's memory */
	bool read_only;	     /* no device may write it */
	struct ini_mr mr;
	const struct fab_device *device; /* the device of the keys; NULL: not looked up yet */
	u32 lkey, rkey;
	u32 users; /* commands that use it: do not unregister (F4) */
};

#define INI_BUFFERS_MAX 65536

struct ini_buffers {
	struct ini_buffer **sorted;
	u32 count, room;
	struct ini_buffer *last; /* hit */
};

/* The buffer that contains [memory, memory + bytes); NULL if there is none. */
struct ini_buffer *ini_buffer_at(struct ini_buffers *buffers, const void *memory, size_t bytes);
/* The same, with keys for `device`. */
struct ini_buffer *ini_buffer_find(struct ini_buffers *buffers, const struct fab_device *device,
				   const void *memory, size_t bytes);

/* The device is released: none of its keys is used any more. */
void ini_buffers_forget(struct ini_buffers *buffers, const struct fab_device *device);

/* Deregister and free all; when no command is left. */
void ini_buffers_fini(struct ini_buffers *buffers);

/*
 * Take in registered memory. mapped_bytes: of ini_pages_alloc(), or 0: the caller's memory. On
 * success the registration belongs to the buffer. -EEXIST: it overlaps another; -ENOSPC: there are
 * INI_BUFFERS_MAX; -ENOMEM.
 */
int ini_buffer_insert(struct ini_buffers *buffers, void *memory, size_t bytes, size_t mapped_bytes,
		      bool read_only, const struct ini_mr *mr);
/* own: of ini_pages_alloc(). -ENOENT: no buffer begins there; -EBUSY: commands use it. */
int ini_buffer_remove(struct ini_buffers *buffers, const void *memory, bool own);

/* Zeroed pages of our own, huge ones if the length suits and there are some. NULL: -ENOMEM. */
void *ini_pages_alloc(size_t bytes, size_t *mapped_bytes);
void ini_pages_free(void *memory, size_t mapped_bytes);

#endif
