// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * rblk.ko: remote volumes as /dev/rblkN. Loading and unloading; the order of both.
 */
#define CREATE_TRACE_POINTS
#include "kmod/trace.h"

#include <linux/debugfs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

#include "kmod/disk.h"
#include "kmod/key.h"
#include "kmod/module.h"

struct workqueue_struct *rblk_workqueue;

static int __init rblk_init(void)
{
	int error;

	rblk_workqueue = alloc_workqueue("rblk", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!rblk_workqueue)
		return -ENOMEM;
	error = rblk_keyring_init();
	if (error)
		goto err_destroy_workqueue;
	rblk_debugfs = debugfs_create_dir("rblk", NULL);
	error = misc_register(&rblk_control_device);
	if (error)
		goto err_debugfs_fini;
	return 0;

err_debugfs_fini:
	debugfs_remove(rblk_debugfs);
	rblk_keyring_fini();
err_destroy_workqueue:
	destroy_workqueue(rblk_workqueue);
	return error;
}

static void __exit rblk_exit(void)
{
	misc_deregister(&rblk_control_device); /* no attach or detach comes any more */
	rblk_disk_detach_all();
	debugfs_remove(rblk_debugfs);
	rblk_keyring_fini(); /* no session is left that proves anything */
	destroy_workqueue(rblk_workqueue);
}

module_init(rblk_init);
module_exit(rblk_exit);

MODULE_DESCRIPTION("Block storage over RDMA: initiator");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION(RBLK_VERSION);
