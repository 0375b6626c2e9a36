/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Daemon events to systemd's journal, by its own protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): one
 * datagram with fields for each. Not by libsystemd's sd_journal_send(), which waits if the journal
 * does. The thread of watch.c.
 */
#ifndef RBLK_TARGET_WATCH_JOURNAL_H
#define RBLK_TARGET_WATCH_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

struct tgt_journal {
	struct sockaddr_un address;
	int fd;	       /* -1: there is none */
	uint64_t sent; /* the number of the last daemon event that needs no sending */
};

/* "none": they go nowhere. False: the path is too long. */
bool tgt_journal_init(struct tgt_journal *journal, const char *path);
/* Sends what has happened since. False: the journal takes no more now, so that it should be called again. */
bool tgt_journal_step(struct tgt_journal *journal);
void tgt_journal_fini(struct tgt_journal *journal);

#endif
