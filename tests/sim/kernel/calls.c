/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OPEN and CLOSE of the module; see calls.h. */
#include "tests/sim/kernel/calls.h"

#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/queue.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"

/*
 * Some CLOSEs are answered BUSY, as if another one waited for the handle's last commands, which this target does not do to
 * a module that sends one at a time. It gets a PING in their place. By the time of day: no other history changes.
 */
static rblk_left_fn close_left;

static void close_is_busy(struct rblk_session *session, const struct rblk_call *call, void *arg)
{
	struct rblk_call answer = *call;

	answer.command.status = RBLK_E_BUSY;
	sim_reached("module", "a CLOSE is answered BUSY", NULL);
	close_left(session, &answer, arg);
}

static void close_perhaps_busy(struct rblk_session_command *sc)
{
	if (sim_net.calm || sim_now_ns() / 1000 % 4)
		return;
	close_left = sc->left;
	*sc = (struct rblk_session_command){.opcode = RBLK_OP_PING, .left = close_is_busy, .left_arg = sc->left_arg};
}

/* The last handle of each slot whose OPEN, of a volume that is not in use, was answered GONE: the next is another. */
static struct gone_handle {
	u8 session[16];
	u32 handle;
} gone_handles[RBLK_HANDLES_MAX];
static rblk_left_fn open_left;

static void open_answered(struct rblk_session *session, const struct rblk_call *call, void *arg)
{
	u32 handle = rblk_le32(call->command.wire.volume);
	struct gone_handle *gone = &gone_handles[RBLK_HANDLE_SLOT(handle)];
	const struct rblk_disk *disk;

	list_for_each_entry(disk, &session->disks, peer)
		if (disk->opening.handle == handle && !disk->opening.looks && !call->command.error &&
		    call->command.status == RBLK_E_GONE) {
			gone->handle = handle;
			memcpy(gone->session, session->session_id, sizeof(gone->session));
			sim_reached("module", "an OPEN is answered GONE", NULL);
		}
	open_left(session, call, arg);
}

static void open_is_new(const struct rblk_session *session, struct rblk_session_command *sc)
{
	const struct gone_handle *gone = &gone_handles[RBLK_HANDLE_SLOT(sc->volume)];

	if (gone->handle == sc->volume && !memcmp(gone->session, session->session_id, sizeof(gone->session)))
		sim_fail("the kernel: handle %u is gone, and opened again", sc->volume);
	open_left = sc->left;
	sc->left = open_answered;
}

/* Until the last command of the disk's old handle is answered, its volume is not opened again (volume.c). */
static void open_is_last(const struct rblk_session *session, u32 handle)
{
	const struct rblk_disk *disk;

	list_for_each_entry(disk, &session->disks, peer)
		for (unsigned int i = 0; disk->handle == handle && disk->opened && !disk->ready && i < session->queue_count; i++)
			if (rblk_queue_serves(session->queues[i], disk))
				sim_fail("the kernel: rblk%d: its volume is opened again before its last commands are answered",
					 disk->index);
}

void sim_calls_send(struct rblk_session *session, struct rblk_session_command *sc)
{
	if (sc->opcode == RBLK_OP_CLOSE)
		close_perhaps_busy(sc);
	if (sc->opcode != RBLK_OP_OPEN)
		return;
	open_is_last(session, sc->volume);
	open_is_new(session, sc);
}
