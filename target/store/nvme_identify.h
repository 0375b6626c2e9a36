/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A namespace's and its controller's own description (Identify), as far as the nvme store has to know it. */
#ifndef RBLK_TARGET_STORE_NVME_IDENTIFY_H
#define RBLK_TARGET_STORE_NVME_IDENTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct tgt_nvme_identity {
	uint32_t nsid;
	uint32_t block_bytes; /* a power of two */
	uint64_t blocks;
	uint32_t max_bytes;  /* of one command's data; 0: no limit */
	bool volatile_cache; /* acknowledged writes may be in it: VWC */
	bool deallocates;    /* WRITE ZEROES may give the space back, and it reads as zeroes then */
};

/*
 * `fd`: the generic device. Configuring thread; waits for the device. error (TGT_ERROR_BYTES): "path: reason". -EINVAL: a
 * namespace that the nvme store does not serve. -EOPNOTSUPP: the kernel does not let this process ask.
 */
int tgt_nvme_identify(int fd, const char *path, struct tgt_nvme_identity *identity, char *error);

#endif
