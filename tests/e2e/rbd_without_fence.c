/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loaded before rblkd (LD_PRELOAD): its calls that shut a gateway out of the cluster do nothing and succeed. The
 * control of rbd_fence.sh, which has to fail with it.
 */
#include <stdint.h>
#include <rados/librados.h>

__attribute__((visibility("default"))) int rados_blocklist_add(rados_t cluster, char *address, uint32_t seconds)
{
	(void)cluster;
	(void)address;
	(void)seconds;
	return 0;
}
