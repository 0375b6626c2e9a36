/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's words and librblk's for the same thing: a volume's properties, one request, one result. Pure functions,
 * but for the number of processors. Called by disk.c and queue.c.
 */
#ifndef RBLK_UBLK_PARAMETERS_H
#define RBLK_UBLK_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>
#include "initiator/rblk.h"
#include "initiator/ublk/kernel.h"

/* The most data of one request. A tag has a locked buffer of this size. */
#define UBLK_IO_BYTES (256u * 1024)

/* The hardware queues of a new disk. asked: 0, or as many. The kernel has no use for more of them than processors. */
unsigned int ublk_parameters_queues(unsigned int asked);
/* The most that one request of this volume has, in whole blocks and pages; 0: the volume takes less than a page. */
uint32_t ublk_parameters_io_bytes(const struct rblk_volume_info *info, uint32_t page_bytes);
/*
 * The kernel is told this at the start. io_bytes: as above. 0, or -EOPNOTSUPP: the kernel cannot have such a disk, its
 * blocks are larger than a page.
 */
int ublk_parameters_make(const struct rblk_volume_info *info, bool read_only, uint32_t io_bytes, uint32_t page_bytes,
			 struct ublk_params *parameters);
/* The kernel sends FLUSH, and FUA if the volume has it, only to a disk with a volatile cache. */
static inline bool ublk_parameters_flushes(const struct ublk_params *parameters)
{
	return parameters->basic.attrs & UBLK_ATTR_VOLATILE_CACHE;
}

enum ublk_operation {
	UBLK_READ,
	UBLK_WRITE,
	UBLK_FLUSH,
	UBLK_DISCARD,
	UBLK_ZERO,
};

/* One request in librblk's words. */
struct ublk_request {
	enum ublk_operation operation;
	uint32_t flags; /* enum rblk_io_flag */
	uint64_t offset, bytes;
	uint64_t late_ms; /* when it first ended with -ETIMEDOUT; 0: never */
};
/* 0, or -EOPNOTSUPP: no operation of ours. */
int ublk_request_read(const struct ublksrv_io_desc *descriptor, struct ublk_request *request);
/*
 * F7: the volume has got a volatile cache since the kernel was told that it has none, so that no FLUSH will come, and
 * FUA was taken off what should have it: then every write has FUA.
 */
uint32_t ublk_request_flags(const struct ublk_request *request, bool kernel_flushes, const struct rblk_volume_info *info);

/*
 * It has ended with -ETIMEDOUT: nothing of it is under way any more, and it may not have been done. A disk sends it again, as the
 * kernel module does, for give_up_ms. False: it has failed.
 */
bool ublk_request_again(struct ublk_request *request, uint64_t now_ms, uint64_t give_up_ms);

/*
 * The answer for the kernel. error and status: of struct rblk_result, or the error of the call that did not start it and
 * status 0. The bytes that were moved; or a negative errno, of those that the kernel tells apart: dm-multipath
 * sends what failed with ENOLINK, ETIMEDOUT or EIO on another path, and what has a definite answer on none.
 */
int ublk_request_answer(const struct ublk_request *request, int error, uint16_t status);

#endif
