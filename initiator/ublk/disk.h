/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A volume as a disk of this machine by ublk, /dev/ublkbN, in a process of its own: its server. Every hardware queue is a
 * thread with a session (queue.c); the process is one, so that librblk's registry of what is durable makes one FLUSH speak for the
 * writes of all queues (F7). Called by the command (cmd/attach_ublk.c).
 */
#ifndef RBLK_UBLK_DISK_H
#define RBLK_UBLK_DISK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "initiator/rblk.h"

#define UBLK_QUEUES_MAX 16u
#define UBLK_QUEUES 4u   /* at most, unless said: one per processor up to so many */
#define UBLK_CREDITS 64u /* unless said: commands outstanding per queue */
#define UBLK_WORDS_BYTES (RBLK_ERROR_BYTES + 320)

struct ublk_disk_options {
	const char *uri, *name; /* name: in rblktab; NULL or "": none */
	struct rblk_options session; /* of each queue */
	unsigned int queues;         /* 0: as above */
	bool read_only;
	bool accept_volatile;        /* also a volume that cannot be flushed and is lost with its target */
};

/* The server tells this once, to the process that has started it. */
struct ublk_disk_started {
	bool works;
	uint32_t id;                  /* of /dev/ublkbN */
	char words[UBLK_WORDS_BYTES]; /* why not */
};

/*
 * Starts the server and waits until the disk is there. The caller has no threads and no sessions. The server is a child of init
 * then, without a terminal. 0, or -1 and why in started->words.
 */
int ublk_disk_attach(const struct ublk_disk_options *options, struct ublk_disk_started *started);

#define UBLK_SIGNAL_ACKNOWLEDGE SIGUSR2 /* to a server: the user knows that writes may be lost (F7) */

/* Who has the disk open, other than this process: "mounted" and the like is for the caller to find. */
enum ublk_disk_use {
	UBLK_DISK_UNUSED = 0,
	UBLK_DISK_CLAIMED, /* a file system, swap, a device mapped over it; of a partition, too */
	UBLK_DISK_OPEN,    /* *user has it open */
};
/*
 * Claims the disk, so that nobody mounts it from now on, and looks who has it open. *fd is to be closed; -1 if it could not
 * be opened. -errno, or enum ublk_disk_use.
 */
int ublk_disk_claim(uint32_t id, int *fd, pid_t *user);

#endif
