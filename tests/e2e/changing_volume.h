/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A volume that changes while it is open: one rblkd that serves the volume "disk" as its configuration file says, and a
 * program that has it open. In the session's event the program refreshes the volume, and meanwhile it keeps reads in
 * flight. The test changes the file or the configuration. The test's thread calls all.
 */
#ifndef RBLK_TESTS_E2E_CHANGING_VOLUME_H
#define RBLK_TESTS_E2E_CHANGING_VOLUME_H

#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"

#define BLOCK 4096u
#define DEPTH 16u /* reads in flight, at the most */

struct changing_volume {
	struct e2e_daemon server;
	struct e2e_file file; /* 1 MiB at the start */
	char config[64];      /* the configuration file's path */
	struct rblk_session *session;
	struct rblk_volume *volume;	  /* from changing_volume_open() on */
	uint8_t *data;			  /* DEPTH blocks */
	unsigned int outstanding, errors; /* of the reads */
	unsigned int changed, refreshed;  /* events, and refreshes that ended well */
};

/* Starts rblkd with the configuration of changing_volume_configure(), and opens a session. options: NULL for none. */
void changing_volume_start(struct changing_volume *v, const char *more, const struct rblk_options *options);
/* Returns what e2e_daemon_stop() returns. */
int changing_volume_stop(struct changing_volume *v);
/* Writes the configuration: the volume, and after its lines `more`. rblkd reads it at SIGHUP. */
void changing_volume_configure(const struct changing_volume *v, const char *more);

/* The program opens the volume, with the flags of rblk_volume_open(). */
void changing_volume_open(struct changing_volume *v, uint32_t flags);
/* Keeps `depth` reads in flight, and waits for one event. */
void changing_volume_turn(struct changing_volume *v, unsigned int depth);
/* Until no read is in flight. */
void changing_volume_settle(struct changing_volume *v);
/* The target has one handle of the volume: the program's earlier ones are closed. */
void changing_volume_assert_one_handle(const struct changing_volume *v);

#endif
