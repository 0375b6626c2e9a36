/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk top: what attached disks and the sessions of programs have done since the last look.
 *
 *	top.c         the verb
 *	top_rows.c    two looks become rows; pure
 *	top_disks.c   attached disks, from sysfs
 *	top_pages.c   sessions of librblk, from their pages (initiator/page.h)
 */
#ifndef RBLK_CMD_TOP_H
#define RBLK_CMD_TOP_H

#include "initiator/page.h"

/* The counts of one disk, or of one volume of a session, so far. Texts are as others wrote them. */
struct top_use {
	char key[96]; /* recognises it in another look */
	char user[48]; /* "rblk0", "fio[4711]" */
	bool attached; /* a disk, else a session */
	char device[24]; /* "/dev/rblk0"; "" */
	char program[32]; /* of a session */
	uint64_t pid;
	char volume[RBLK_NAME_BYTES], state[16];
	char uri[RBLK_URI_BYTES]; /* "" of a disk without */
	char peer[80];		  /* of a disk */
	bool counted; /* the counts are true: the block layer's may be switched off */
	uint64_t reads, writes, others;
	bool spread; /* failed and buckets are true, too: the block layer has none for disks */
	uint64_t failed;
	uint64_t read_bytes, written_bytes;
	uint64_t ns; /* sum of the times of all operations */
	uint64_t outstanding;
	uint64_t buckets[CORE_BUCKETS]; /* of these times */
};

/* All of them, at one time. */
struct top_look {
	uint64_t taken_ns;
	struct top_use *uses;
	size_t count;
	size_t most; /* count may not grow beyond it; 0: TOP_USES_MAX */
	bool cut; /* there were more */
};
#define TOP_USES_MAX 4096u
/* The most of one user, for root: a user who has very many leaves room for others. */
#define TOP_USES_OF_USER_MAX 512u
/* One more, zeroed; NULL: there is no room. */
struct top_use *top_look_add(struct top_look *look);
void top_look_free(struct top_look *look);

/* -- top_disks.c ------------------------------------------------------------------------------- */

/* root as in attach.h. 0 or -errno. */
int top_disks_look(const char *root, struct top_look *look);

/* -- top_pages.c ------------------------------------------------------------------------------- */

/*
 * The pages of one folder; those that programs left when they were killed are removed if this user may. 0 or -errno: a
 * folder that is missing is empty.
 */
int top_pages_look(const char *folder, struct top_look *look);
/* The usual folders: this user's, the system's, and for root those of all users. root as above. */
int top_pages_look_usual(const char *root, struct top_look *look);

/* -- top_rows.c -------------------------------------------------------------------------------- */

/* Where a use has its volume: a disk's address, a session's URI. */
const char *top_target(const struct top_use *use);

/* The counts of one use from one look to the next. */
struct top_row {
	const struct top_use *use; /* of the later look */
	uint64_t reads, writes, others, failed, read_bytes, written_bytes;
	double mean_us;	       /* 0 if nothing was done */
	double p50_us, p99_us; /* 0 if nothing was done */
	double bytes_share;    /* of all, 0 to 1 */
};

struct top_rows {
	struct top_row *rows;
	size_t count;
	struct top_row all; /* without a use, also of those that the filter leaves out */
	double seconds;
};

#define TOP_SORTS "iops bytes latency depth volume user"
/* Rows that have `filter` in their user, volume or target (NULL: all), sorted. False: no memory. */
bool top_rows_make(const struct top_look *before, const struct top_look *after, const char *filter,
		   const char *sort, struct top_rows *rows);
void top_rows_free(struct top_rows *rows);

#endif
