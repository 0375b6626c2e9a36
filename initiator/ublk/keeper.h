/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A disk's keeper: a process that has nothing but the attach's options and the disk's kept memory (kept.h), and starts
 * the server (disk.h), and the next one when that is killed. It is a parent, so that it knows of the end at once and of
 * no other; it forks without exec, so that nothing has to be read from a disk then, which may be this one. It needs no
 * service manager. Called by the command (cmd/attach_ublk.c).
 */
#ifndef RBLK_UBLK_KEEPER_H
#define RBLK_UBLK_KEEPER_H

#include "initiator/ublk/disk.h"
#include "initiator/ublk/kept.h"

#define UBLK_DISK_NEW UINT32_MAX
/*
 * Starts the keeper and the server of a new disk (UBLK_DISK_NEW), or replaces those of disk `id` by this program's,
 * with the options that it was attached with; waits until the disk is served. The caller has no threads and no sessions. The
 * keeper becomes a child of init, without a terminal. 0, or -1 and the reason in started->words.
 */
int ublk_keeper_start(const struct ublk_disk_options *options, uint32_t id, struct ublk_disk_started *started);
/*
 * Keeper and server are killed. 0: neither lives; -ETIMEDOUT: after 30 s one still does; -ESTALE: they are another
 * version's.
 */
int ublk_keeper_kill(uint32_t id);

/* A keeper has seen this of its servers. Zero at first. */
struct ublk_keeper_history {
	unsigned int early;  /* consecutive servers that were killed soon after their start */
	uint64_t without_ms; /* nobody has served the disk since */
};
#define UBLK_KEEPER_STOP UINT32_MAX
/*
 * How long to wait before the next server is started; UBLK_KEEPER_STOP: the disk fails. The last one was started at
 * start_ms and has ended at now_ms. served: it has served the disk; unreached: it has ended with UBLK_SERVER_UNREACHED.
 * limit_ms: how long I/O may wait. Pure.
 */
uint32_t ublk_keeper_pause_ms(struct ublk_keeper_history *history, uint64_t start_ms, uint64_t now_ms, bool served,
			      bool unreached, uint64_t limit_ms);

#endif
