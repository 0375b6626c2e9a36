/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the module owes whoever has several paths: the requests of lost queues are spread over all others, a queue that is to
 * move does so, and what a target has answered is no error of a path. Called by disks.c.
 */
#include "tests/sim/kernel/module_kernel.h"

#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/queue.h"
#include "proto/core/session_impl.h"
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

/* A queue that is to move to another portal does so, whatever storage holds up. */
void sim_paths_check_leaving(const struct rblk_session *session)
{
	static struct { u32 incarnation; unsigned long since; } leaving[RBLK_QUEUES_MAX];

	for (unsigned int i = 0; i < session->queue_count; i++) {
		const struct core_queue *queue = &session->core.queue[i];
		bool leaves = queue->state == CORE_QUEUE_LIVE && queue->leaving;

		if (!leaves || leaving[i].incarnation != queue->incarnation || jiffies < leaving[i].since)
			leaving[i].since = jiffies;
		leaving[i].incarnation = leaves ? queue->incarnation : 0;
		if (jiffies - leaving[i].since > session->options.command_ms + SIM_LATE_MS)
			sim_fail("the kernel: queue %u is to move to another portal for %lu ms", i,
				 jiffies - leaving[i].since);
	}
}

void sim_disk_move(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;
	struct core_queue *queue = &session->core.queue[session->queue_count - 1];

	if (session->queue_count == 1 || queue->state != CORE_QUEUE_LIVE || queue->leaving)
		return;
	sim_reached("module", "has a queue move to another portal",
		    rblk_queue_idle(session->queues[session->queue_count - 1]) ? NULL : "that has commands");
	spin_lock(&session->core_lock);
	queue->leaving = true;
	queue->todo |= QUEUE_LEAVE;
	session->core.acts = true;
	rblk_drive_follow(session);
	spin_unlock(&session->core_lock);
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
