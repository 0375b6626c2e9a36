/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A disk's servers come and go (keeper.h); this stays: a file below /run/rblk/ublk, N.kept, which they map. So what a
 * server has stored there outlives it, however it ends. Its lock is the sign that a keeper or a server of the disk
 * lives: they share the file's description by fork(). Only root may read it: it names sessions. Called by keeper.c,
 * disk.c and the command's verbs.
 */
#ifndef RBLK_UBLK_KEPT_H
#define RBLK_UBLK_KEPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "initiator/rblk.h"

#define UBLK_QUEUES_MAX 16u
#define UBLK_RECORD_FOLDER "/run/rblk/ublk"
#define UBLK_KEPT_VERSION 1u /* another layout has another: a server of another version cannot go on with it */

enum ublk_kept_stage {
	UBLK_KEPT_NONE = 0, /* the kernel has no device */
	UBLK_KEPT_ADDED,    /* the device has not started */
	UBLK_KEPT_STARTED,  /* it has started; the kernel gives it to a next server */
	/*
	 * A server is taking it. A kernel (6.12) whose new server dies here gives it to no other, and would crash if it
	 * were asked.
	 */
	UBLK_KEPT_HANDED,
};

struct ublk_kept {
	uint32_t version, bytes; /* of this struct */
	uint32_t id;             /* N of /dev/ublkbN */
	_Atomic uint32_t stage;  /* enum ublk_kept_stage */
	uint64_t attachment;
	_Atomic int32_t keeper, server; /* processes; 0: there is none now */
	_Atomic uint8_t served;         /* the server of now has served the disk */
	_Atomic uint8_t failed;         /* the disk has failed: no other server starts */
	uint8_t kernel_flushes;         /* the kernel was told of a volatile cache */
	uint8_t reserved[5];
	struct rblk_kept_volume volume;
	struct rblk_kept_session sessions[UBLK_QUEUES_MAX];
};

/* Creates one, locked and not linked yet. A descriptor, which holds the lock, and *kept; or -errno. */
int ublk_kept_create(const char *root, struct ublk_kept **kept);
/* Links it as that of disk kept->id: other processes find it. 0 or -errno. */
int ublk_kept_link(const char *root, const struct ublk_kept *kept);
/* Removes one that was not linked. */
void ublk_kept_discard(const char *root, const struct ublk_kept *kept);
/* Opens that of a disk, without the lock. As above; -ESTALE: it is another version's. */
int ublk_kept_open(const char *root, uint32_t id, struct ublk_kept **kept);
/* 0; -EAGAIN: another process has the lock; -ENODEV: the disk was detached. */
int ublk_kept_lock(int fd);
/* Does a process have the lock? True also if the file cannot be read. */
bool ublk_kept_locked(const char *root, uint32_t id);
void ublk_kept_remove(const char *root, uint32_t id);
void ublk_kept_close(int fd, struct ublk_kept *kept);

#endif
