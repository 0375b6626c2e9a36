/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which fences the target has acknowledged to the module (F5): of all volumes, as its session's machine knows, and of one,
 * by the answers; and what a request was lost with.
 */
#include "tests/sim/kernel/module_kernel.h"

#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/queue.h"
#include "tests/sim/coverage.h"
#include "tests/sim/seen.h"

/* FENCEs of volumes, or of all of them, that were answered with success, the last ones. */
#define FENCES 64u
static struct fenced {
	struct sim_disk_lost lost;
	bool whole; /* of all volumes, also of those that have no disk now */
	u8 uuid[16];
} fences[FENCES];
static unsigned int fence_count;

void sim_fences_reset(void)
{
	memset(fences, 0, sizeof(fences));
	fence_count = 0;
}

void sim_seen_fence_answered(const struct rblk_command *command)
{
	const struct rblk_session *session = command->queue->session;
	u32 volume = rblk_le32(command->wire.volume);
	u64 epoch = command->queue->epoch;
	struct sim_disk_lost lost = { .lost = true, .queue = (unsigned int)rblk_le64(command->wire.lba), .epoch = epoch,
				      .incarnation = (u32)rblk_le64(command->wire.argument) };
	const struct rblk_disk *disk;

	sim_reached("point", "fence_answered", NULL);
	if (command->status != RBLK_OK)
		return;
	memcpy(lost.session_id, session->session_id, sizeof(lost.session_id));
	if (!volume) {
		fences[fence_count++ % FENCES] = (struct fenced){ .lost = lost, .whole = true };
		return;
	}
	list_for_each_entry(disk, &session->disks, peer) {
		if (disk->handle != volume || disk->epoch != epoch)
			continue;
		fences[fence_count % FENCES] = (struct fenced){ .lost = lost };
		memcpy(fences[fence_count++ % FENCES].uuid, disk->uuid, sizeof(disk->uuid));
	}
}

bool sim_volume_is_fenced(const struct rblk_disk *disk, const struct sim_disk_lost *lost)
{
	for (unsigned int i = 0; i < FENCES; i++)
		if (fences[i].lost.queue == lost->queue && fences[i].lost.incarnation >= lost->incarnation &&
		    fences[i].lost.epoch == lost->epoch &&
		    (fences[i].whole || !memcmp(fences[i].uuid, disk->uuid, sizeof(disk->uuid))) &&
		    !memcmp(fences[i].lost.session_id, lost->session_id, sizeof(lost->session_id)))
			return true;
	return false;
}

bool sim_disk_owes_fence(const struct rblk_disk *disk, const struct sim_disk_lost *lost)
{
	const struct core_session *core = &disk->session->core;
	const struct core_lost *owed = &core->queue[lost->queue].lost;

	/* A machine's next session counts its epochs and incarnations anew. */
	return lost->lost &&
	       !memcmp(disk->session->session_id, lost->session_id, sizeof(lost->session_id)) &&
	       core->epoch == lost->epoch && owed->waits && !owed->fenced &&
	       owed->incarnation == lost->incarnation && !sim_volume_is_fenced(disk, lost);
}

/*
 * A request that ends with this error has waited, or could not. The acceptance of this epoch has fenced what was lost
 * in an older one, and nothing can be sent before it. The queue may have been lost again since: `incarnation` is the
 * one by which the request was sent.
 */
struct sim_disk_lost sim_lost_with(const struct rblk_io *io, u32 incarnation)
{
	const struct rblk_session *session = io->command.queue->session;
	const struct core_session *core = &session->core;
	struct sim_disk_lost lost = {};

	if (io->command.error != -ENOLINK || io->wait != RBLK_WAIT_LOST ||
	    core->queue[io->lost_queue].lost.renewed)
		return lost;
	lost = (struct sim_disk_lost){ .lost = true, .queue = io->lost_queue, .epoch = core->epoch,
				       .incarnation = incarnation };
	memcpy(lost.session_id, session->session_id, sizeof(lost.session_id));
	return lost;
}
