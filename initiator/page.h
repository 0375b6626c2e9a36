/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session's page of statistics: a small file in which a program that uses librblk counts what it does, for
 * `rblk top` to read. publish.c makes and writes it; cmd/top_pages.c reads it, and trusts nothing in
 * it. Both are of this machine, and of one version: anything else is not read.
 *
 * One thread writes; its stores of 64 bits are seen whole. A reader sees each count as it was at some
 * moment, not all of them as of one moment.
 */
#ifndef RBLK_INITIATOR_PAGE_H
#define RBLK_INITIATOR_PAGE_H

#include "initiator/rblk.h"
#include "proto/core/buckets.h"
#include "proto/wire/payload.h"

/* The variable of the environment that asks for pages; options.statistics is in rblk.h. */
#define INI_PAGE_VARIABLE "RBLK_STATISTICS"
/* Where "yes" has them: below XDG_RUNTIME_DIR if that is set, else in the other. */
#define INI_PAGE_RUNTIME_FOLDER "rblk"
#define INI_RUN_FOLDER "/run/rblk"
#define INI_PAGE_FOLDER INI_RUN_FOLDER "/sessions"
/* The file's name, then ".PID.NUMBER". */
#define INI_PAGE_PREFIX "librblk"
#define INI_PAGES_MAX 1024u /* of a process, in one folder */

#define INI_PAGE_MAGIC "rblkpage"
#define INI_PAGE_VERSION 1u
#define INI_PAGE_VOLUMES 16u /* those that are open beyond it are not counted */

struct ini_page_volume {
	u64 use;		    /* odd: a volume has it; grows when one takes it, and when it leaves */
	char name[RBLK_NAME_BYTES]; /* fixed while it has */
	u64 outstanding;	    /* commands that are not called back yet */
	u64 reads, writes, others;  /* answered commands; COMPARE_AND_WRITE is a write */
	u64 errors;		    /* called back with an error, answered or not */
	u64 read_bytes, written_bytes; /* without an error */
	u64 us;			    /* sum of the times of answered commands: from the first SEND on the connection
				       that answered it to its callback */
	u64 buckets[CORE_BUCKETS];  /* of these times */
};

struct ini_page {
	char magic[8];
	u32 version, bytes; /* of this struct */
	u64 pid;
	u64 state; /* enum rblk_session_state */
	char program[32];
	char initiator[RBLK_NAME_BYTES];
	char uri[RBLK_URI_BYTES];
	struct ini_page_volume volumes[INI_PAGE_VOLUMES];
};

#endif
