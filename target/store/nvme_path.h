/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An NVMe namespace as the nvme store finds it: both of its devices opened and locked (F6), asked what they are, and one
 * command tried. Blocks; configuring thread. nvme.c does the I/O.
 */
#ifndef RBLK_TARGET_STORE_NVME_PATH_H
#define RBLK_TARGET_STORE_NVME_PATH_H

#include "target/store/nvme_namespace.h"
#include "target/store/path.h"

struct tgt_nvme_path {
	struct tgt_namespace namespace;
	/* Claimed, so that this machine cannot mount it; asked for its size. No I/O goes through it. */
	struct tgt_path block;
	int fd; /* of the generic device */
	uint32_t nsid;
	unsigned int block_shift;
	uint32_t transfer_bytes; /* the most of one READ or WRITE, of one WRITE ZEROES, of one range of a discard */
	uint32_t zeroes_bytes;
	uint64_t discard_bytes;
	bool deallocates; /* WRITE ZEROES may give the space back */
	bool fixed;	  /* the kernel takes fixed buffers */
};

/* Is it to be served by passthrough whatever its store is called? */
bool tgt_nvme_is_generic(const char *path);
/*
 * Opens the namespace of config->path and fills *path and *info. error: TGT_ERROR_BYTES, "path: reason". -EOPNOTSUPP: this
 * kernel, or this process's rights, allow no passthrough; path->namespace.block could be served instead.
 */
int tgt_nvme_open(const struct tgt_volume_config *config, struct tgt_nvme_path *path, struct tgt_store_info *info,
		  char *error);
void tgt_nvme_close(struct tgt_nvme_path *path);
/* Its size now, in bytes. -ESTALE: it was formatted to blocks of another size. Any thread. */
int tgt_nvme_size(const struct tgt_nvme_path *path, uint64_t *bytes);

#endif
