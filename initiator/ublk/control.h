/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * /dev/ublk-control: one ublk device from its making to its end. Every call sends one command by an io_uring of its own
 * and waits for the answer; 0 or negative errno. One thread at a time. Called by disk.c, and by the command's verbs.
 */
#ifndef RBLK_UBLK_CONTROL_H
#define RBLK_UBLK_CONTROL_H

#include <liburing.h>
#include <stdint.h>
#include <sys/types.h>
#include "initiator/ublk/kernel.h"

/* The caller's memory, between open and close. */
struct ublk_control {
	struct io_uring ring;
	int fd;
	uint64_t features; /* UBLK_F_... that this kernel has */
};

/* -ENOENT: this kernel has no ublk, or its module is not loaded; -EOPNOTSUPP: it is older than 6.5. */
int ublk_control_open(struct ublk_control *control);
void ublk_control_close(struct ublk_control *control);

/*
 * Adds a device of this shape; info->dev_id is its number, and the kernel may give it fewer queues than were asked for.
 * Then its node /dev/ublkcN exists.
 */
int ublk_control_add(struct ublk_control *control, struct ublksrv_ctrl_dev_info *info);
/* The device of this number; -ENODEV: there is none. */
int ublk_control_info(struct ublk_control *control, uint32_t id, struct ublksrv_ctrl_dev_info *info);
int ublk_control_set_parameters(struct ublk_control *control, uint32_t id, struct ublk_params *parameters);
/* /dev/ublkbN exists then. The kernel reads its partitions meanwhile: its queues have to be served already. */
int ublk_control_start(struct ublk_control *control, uint32_t id, pid_t server);
/*
 * The kernel is done with the last server. -EBUSY: it has not yet taken back what that one had. Linux up to 6.15 takes
 * a dead server's commands back by ublk_quiesce_work_fn(), once for each queue that has noticed. It lets another server
 * begin, and then ends all commands that it finds. If it comes late they are the new server's: delayed on purpose, it
 * ended all of them and stopped a live disk. A command that it has ended and the driver uses again is completed twice,
 * by which a ring can be freed under a request: probably the oops in io_fallback_tw() that we met once, when such a
 * server ended. (SPDK's issue 3384 is another.) No call waits for that work; this one gives it time.
 */
int ublk_control_settle(struct ublk_control *control, uint32_t id);
/*
 * This process begins to take over the disk of a server that has ended, after ublk_control_settle(): then it can open
 * /dev/ublkcN. -EBUSY: the kernel has not yet taken back what the last server had.
 */
int ublk_control_start_recovery(struct ublk_control *control, uint32_t id);
/* The queues are served: I/O goes on, beginning with the requests that the last server had not answered. */
int ublk_control_end_recovery(struct ublk_control *control, uint32_t id, pid_t server);
/*
 * Sets the disk's io_timeout. The kernel notices by a tag that it holds that a server has ended. If the server held all
 * tags of a queue, Linux up to 6.15 notices it only by a request that takes longer than this; it has no other effect.
 */
int ublk_control_notice(uint32_t id, unsigned int ms);
/* Switches the I/O scheduler of a new disk off: the target schedules for its disks. */
int ublk_control_no_scheduler(uint32_t id);
/* Resizes a started disk. -EOPNOTSUPP: the kernel is older than 6.16. */
int ublk_control_resize(struct ublk_control *control, uint32_t id, uint64_t bytes);
/* Writes dirty data, waits for all I/O, and removes /dev/ublkbN; the commands of its queues end. */
int ublk_control_stop(struct ublk_control *control, uint32_t id);
/* Removes the device as soon as nobody has it open; does not wait for that. */
int ublk_control_delete(struct ublk_control *control, uint32_t id);

#endif
