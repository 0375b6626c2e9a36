/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A volume as a disk of this machine by ublk, /dev/ublkbN, in a process of its own: its server. Every hardware queue is a
 * thread with a session (queue.c); the process is one, so that librblk's registry of what is durable makes one FLUSH speak for the
 * writes of all queues (F7). Called by the disk's keeper (keeper.c).
 */
#ifndef RBLK_UBLK_DISK_H
#define RBLK_UBLK_DISK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "initiator/rblk.h"
#include "initiator/ublk/options.h"

#define UBLK_WORDS_BYTES (RBLK_ERROR_BYTES + 320)

/* A server tells this once, to the command that has started it. */
struct ublk_disk_started {
	bool works;
	uint32_t id;                  /* of /dev/ublkbN */
	char words[UBLK_WORDS_BYTES]; /* why not */
};

#define UBLK_SIGNAL_LEAVE SIGUSR1 /* to a keeper, which passes it to its server: another program takes the disk over */

/* How a server's process exits; a keeper reads it. */
enum ublk_server_end {
	UBLK_SERVER_ENDED = 0, /* the disk is detached, or another program's */
	UBLK_SERVER_FAILED,    /* there was no disk; nothing is left */
	UBLK_SERVER_UNREACHED, /* the disk is there, and this server could not take it over */
};

struct ublk_kept;

/*
 * Serves a new disk, or the one that kept->id names, until it ends; the process is its own. It writes struct
 * ublk_disk_started to fd, and closes it; -1: nobody waits for that. Returns enum ublk_server_end.
 */
int ublk_disk_serve(const struct ublk_disk_options *options, struct ublk_kept *kept, int fd);
/* words: "WHAT: the error's text". Returns err. */
int ublk_disk_fail(char words[UBLK_WORDS_BYTES], const char *what, int err);
/* Writes it to fd; also for a keeper without a server. False: the reader has gone. */
bool ublk_disk_tell(int fd, const struct ublk_disk_started *started);

#define UBLK_SIGNAL_ACKNOWLEDGE SIGUSR2 /* to a server: the user knows that writes may be lost (F7) */

/* Who else has the disk open. The caller finds out whether it is mounted. */
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
