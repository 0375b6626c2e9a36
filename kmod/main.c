// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * rblk.ko: remote volumes as /dev/rblkN. Loading and unloading; the order of both.
 */
#define CREATE_TRACE_POINTS
#include "kmod/trace.h"

#include <linux/module.h>
#include <rdma/ib_verbs.h>

#include "kmod/disk.h"
#include "kmod/key.h"
#include "kmod/module.h"

struct workqueue_struct *rblk_workqueue;

/* Nothing is kept per RDMA device; this only notifies us before one is removed. */
static int rblk_ib_add(struct ib_device *ibdev)
{
	return 0;
}

static void rblk_ib_remove(struct ib_device *ibdev, void *data)
{
	rblk_session_ib_removed(ibdev);
}

static struct ib_client rblk_ib_client = {
	.name = "rblk",
	.add = rblk_ib_add,
	.remove = rblk_ib_remove,
};

static int __init rblk_init(void)
{
	int error;

	rblk_workqueue = alloc_workqueue("rblk", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!rblk_workqueue)
		return -ENOMEM;
	error = rblk_keyring_init();
	if (error)
		goto err_destroy_workqueue;
	error = ib_register_client(&rblk_ib_client);
	if (error)
		goto err_keyring_fini;
	rblk_debugfs_init();
	error = rblk_control_init();
	if (error)
		goto err_debugfs_fini;
	return 0;

err_debugfs_fini:
	rblk_debugfs_fini();
	ib_unregister_client(&rblk_ib_client);
err_keyring_fini:
	rblk_keyring_fini();
err_destroy_workqueue:
	destroy_workqueue(rblk_workqueue);
	return error;
}

static void __exit rblk_exit(void)
{
	rblk_control_fini(); /* no attach or detach comes any more */
	rblk_disk_detach_all();
	rblk_debugfs_fini();
	ib_unregister_client(&rblk_ib_client);
	rblk_keyring_fini(); /* no session is left that proves anything */
	destroy_workqueue(rblk_workqueue);
}

module_init(rblk_init);
module_exit(rblk_exit);

MODULE_DESCRIPTION("Block storage over RDMA: initiator");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION(RBLK_VERSION);
