/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the module owes whoever has several paths: the requests of lost queues are spread over all others, and what a target has
 * answered is no error of a path. Called by disks.c.
 */
#include "tests/sim/kernel/module_kernel.h"

#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/queue.h"
#include "tests/sim/coverage.h"
#include "tests/sim/kernel/block.h"

void sim_paths_check_spread(const struct rblk_session *session)
{
	unsigned int count = session->queue_count, between;

	for (unsigned int home = 0; home < count; home++) {
		if (session->route[home] == RBLK_NO_ROUTE || session->route[home] == home)
			continue;
		for (between = (home + 1) % count; between != session->route[home]; between = (between + 1) % count)
			if (session->route[between] == between && !session->queues[between]->polled)
				sim_fail("the kernel: queue %u's requests pass by queue %u, which is up", home, between);
		sim_reached("module", "another queue has a lost one's requests", NULL);
	}
}

/* dm-multipath sends a request with an error of its path again on the next one, and in the end for ever. */
void sim_paths_check_end(const struct rblk_command *command, blk_status_t status)
{
	if (command->error)
		return;
	switch (command->status) {
	case RBLK_E_IO:
	case RBLK_E_MEDIUM:
	case RBLK_E_RANGE:
	case RBLK_E_READ_ONLY:
	case RBLK_E_INVALID:
		if (status == BLK_STS_IOERR || status == BLK_STS_TRANSPORT)
			sim_fail("the kernel: the target's answer %u is told as an error of the path", command->status);
		sim_reached("module", "an answer of the target fails a request", NULL);
	}
}
