/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A link: one NBD connection's access to an rblk volume. It owns a session of librblk, the volume
 * opened in it, registered buffers that are reused for every request, and one thread that serves
 * the session between calls. Any number of threads may use a link at the same time; each call
 * blocks until its own request is done. Nothing here knows about nbdkit.
 *
 * Results: 0 or negative errno. While the session has no connection, calls wait. Once it has
 * failed, every call returns -EIO, and nbd_link_error() says why.
 */
#ifndef RBLK_NBDKIT_LINK_H
#define RBLK_NBDKIT_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include "initiator/rblk.h"

struct nbd_link;

struct nbd_link_options {
	const char *uri;
	const char *volume; /* NULL: the URI's */
	const char *name, *key_file, *device, *source; /* these as of struct rblk_options */
	uint32_t tos, ack_timeout;
	enum rblk_tls_use tls;
	bool digest;
	uint32_t queues;     /* 0: the library's default */
	uint32_t give_up_ms; /* so long without a connection, the link fails; 0: the default */
	bool polling;       /* the thread never sleeps */
	bool read_only;
};

/* NULL on failure: errno, and the message in error (RBLK_ERROR_BYTES). */
struct nbd_link *nbd_link_open(const struct nbd_link_options *options, char *error);
/* Only while no call is in progress. */
void nbd_link_close(struct nbd_link *link);

/* As the volume was when the link was opened; fixed until it is closed. */
const struct rblk_volume_info *nbd_link_info(const struct nbd_link *link);
/* Why the session failed; copied to error (RBLK_ERROR_BYTES), empty while it has not. */
void nbd_link_error(struct nbd_link *link, char *error);

/* Any length; offset and bytes are multiples of the volume's blocks. flags: enum rblk_io_flag. */
int nbd_link_read(struct nbd_link *link, void *data, uint32_t bytes, uint64_t offset);
int nbd_link_write(struct nbd_link *link, const void *data, uint32_t bytes, uint64_t offset,
		   uint32_t flags);
/*
 * On success, all writes answered on any link to the volume before this call are durable, also on one that is closed by
 * now. If such writes may be lost, it fails with -EIO until all links that were open then are closed.
 */
int nbd_link_flush(struct nbd_link *link);
/* Whole blocks of any range: what is left of it at the ends stays as it is. */
int nbd_link_discard(struct nbd_link *link, uint32_t bytes, uint64_t offset);
int nbd_link_zero(struct nbd_link *link, uint32_t bytes, uint64_t offset, uint32_t flags);

/* The extents of a range: how many (1 to max); they may end before the range does. */
int nbd_link_extents(struct nbd_link *link, uint32_t bytes, uint64_t offset,
		     struct rblk_extent *extents, unsigned int max);

#endif
