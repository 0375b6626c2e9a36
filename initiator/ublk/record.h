/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A server tells of its disk in a file below /run/rblk/ublk: for `rblk list --attached`, `rblk detach`, and a program
 * that takes the disk over. A record whose disk nobody keeps (kept.h) was left behind. Readers trust nothing in it.
 * Called by disk.c, keeper.c, and the command's verbs.
 */
#ifndef RBLK_UBLK_RECORD_H
#define RBLK_UBLK_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "initiator/rblk.h"
#include "initiator/ublk/kept.h"

#define UBLK_RECORDS_MAX 4096 /* more disks than a kernel has */

struct ublk_record {
	uint32_t id; /* N of /dev/ublkbN */
	pid_t server;
	bool alive; /* of ublk_record_read(): it, or its keeper, lives */
	uint64_t attachment; /* unique to this attach until the next reboot; the kernel's device has it, too */
	char uri[RBLK_URI_BYTES], volume[64], peer[288], key[192];
	char state[16], words[RBLK_ERROR_BYTES];
	uint64_t bytes, block_bytes, queues, credits;
	uint64_t connect_ms, command_ms, give_up_ms;
	bool read_only, digest, priority, writes_lost;
	char name[64]; /* in rblktab; "": none */
	uint64_t losses;
	struct rblk_stats stats;
	struct rblk_path_info paths[RBLK_PATHS_MAX]; /* of all queues; connected_ms as in struct ublk_queue_view */
	unsigned int path_count;
	uint64_t volume_bytes; /* the volume's size; the disk keeps another one if the kernel cannot resize it */
	uint8_t uuid[16];
	/* How it was attached, besides: */
	char initiator[64], source[512]; /* an address for each host */
	uint64_t tos, ack_timeout;
	bool accept_volatile;
};

/* CLOCK_BOOTTIME: it advances while the machine sleeps, and is the same for all processes. */
uint64_t ublk_record_now_ms(void);
/* For `attachment` of a new disk. */
uint64_t ublk_record_attachment(void);

/* Replaces the last one at once: readers see the one or the other. 0 or -errno. */
int ublk_record_write(const char *root, const struct ublk_record *record);
/* Writes what udev's rule reads; to be called whenever the disk's state has changed. 0 or -errno. */
int ublk_record_write_udev(const char *root, const struct ublk_record *record);
int ublk_record_read(const char *root, uint32_t id, struct ublk_record *record);
/* Also removes udev's file and the kept memory. */
void ublk_record_remove(const char *root, uint32_t id);
/* The numbers of all records, sorted. A count with *ids to be freed, or -errno. */
int ublk_record_list(const char *root, uint32_t **ids);

#endif
