/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A view of the daemon and its counts, at one time: the snapshots of all reactors, added up by
 * volume, by session and by initiator. Reports (report.c) and metrics are made of it. The thread of
 * the room's services.
 */
#ifndef RBLK_TARGET_WATCH_VIEW_H
#define RBLK_TARGET_WATCH_VIEW_H

#include "target/base/settings.h"
#include "target/base/unserved.h"
#include "target/serve/snapshot.h"
#include "target/store/volume.h"

struct tgt_rulebook;

/* The objects to look at; all of them outlive the services. */
struct tgt_watch_source {
	struct tgt_registry *registry;
	struct tgt_reactor *const *reactors;
	unsigned int reactor_count;
	struct tgt_unserved *unserved; /* NULL: nothing is missing */
	const struct tgt_config *config; /* what of it needs a restart to change; NULL: not known */
	struct tgt_rulebook *rules;	 /* NULL: nothing is limited */
	const _Atomic uint64_t *tls_failures; /* NULL: not counted */
};

/* Without a reference: a view must not keep a store open. */
struct tgt_view_volume {
	char name[RBLK_NAME_BYTES];
	char store[16];
	char *path; /* "": none */
	uint64_t bytes;
	uint32_t block_bytes;
	bool read_only, buffered;
	bool deleted;		  /* its file has no name any more, or its image was moved to Ceph's trash */
	bool replaced;		  /* deleted, and another file is at its path */
	bool trashed;		  /* deleted, and it is an image */
	uint64_t short_bytes;	  /* so much of `bytes` is not there any more: it was truncated */
	uint64_t flush_failed_ns; /* F9: when, CLOCK_REALTIME; 0: none has */
	uint64_t failures[TGT_IO_KINDS];  /* of its store; */
	uint64_t first_error_time_ns, error_time_ns; /* of the first and the last of them, */
	int error;			  /* whose errno this is */
	unsigned int window; /* limit = auto: READs and WRITEs that its store may have at once; 0: there is none */
	uint64_t mean_ns, mean_quiet_ns; /* likewise (pace.h) */
	unsigned int opens, outstanding;
	struct tgt_counts counts;
};

/* The counts of an initiator since the daemon began, in all its sessions. */
struct tgt_view_initiator {
	char name[RBLK_NAME_BYTES]; /* "": all that are not told apart (serve/stats_table.h) */
	bool proven;
	struct tgt_counts counts;
};

/* Sums over the reactors that have answered. */
struct tgt_view_totals {
	uint64_t connections, fences;
	uint64_t refused[RBLK_E_MAX], ends[TGT_ENDS], logins[TGT_LOGIN_RESULTS];
};

struct tgt_view {
	uint64_t taken_ns;
	struct tgt_snapshot *snapshots[TGT_REACTORS_MAX]; /* NULL: that reactor has not answered */
	unsigned int reactor_count, missing;
	struct tgt_view_totals totals;
	struct tgt_snapshot_session *sessions; /* by number */
	unsigned int session_count;
	struct tgt_snapshot_use *uses; /* by session, then volume */
	unsigned int use_count;
	struct tgt_view_volume *volumes; /* by name */
	unsigned int volume_count;
	struct tgt_unserved_one *unserved[TGT_UNSERVED_KINDS]; /* what is missing, by kind; NULL: nothing */
	unsigned int unserved_counts[TGT_UNSERVED_KINDS];
	struct tgt_view_initiator *initiators; /* in the order in which they came, the others last */
	unsigned int initiator_count;
};

/* 0 or -ENOMEM. Waits for the reactors, but not for long. */
int tgt_view_take(const struct tgt_watch_source *source, struct tgt_view *view);
void tgt_view_free(struct tgt_view *view);

/* The session of that number; NULL: it has just begun or ended. */
const struct tgt_snapshot_session *tgt_view_session(const struct tgt_view *view, unsigned int number);

#endif
