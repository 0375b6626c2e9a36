/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The two devices of an NVMe namespace: the generic one (/dev/ngXnY), a character device that takes the namespace's own
 * commands, and the block device (/dev/nvmeXnY). Either leads to the other by sysfs. Any thread; opens nothing.
 */
#ifndef RBLK_TARGET_STORE_NVME_NAMESPACE_H
#define RBLK_TARGET_STORE_NVME_NAMESPACE_H

#include <stdbool.h>
#include <sys/types.h>

struct tgt_namespace {
	char generic[48], block[48]; /* their usual names */
	dev_t generic_device, block_device;
	bool has_generic; /* a kernel before 5.13 makes none */
	bool shared;	  /* the kernel chooses among several paths to it (native multipath) */
};

/* Is it the generic device of a namespace? */
bool tgt_namespace_is_generic(const char *path);
/* The namespace of a generic or block device, by whatever name. 0, or negative errno and error (TGT_ERROR_BYTES):
 * "path: reason". */
int tgt_namespace_find(const char *path, struct tgt_namespace *namespace, char *error);

#endif
