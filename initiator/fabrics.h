/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fabs of a session: one for each kind of fabric that its URI's hosts are of, which is one for
 * nearly all sessions. Any queue may be connected through any of them, so all memory is registered
 * with all of them, and a command takes the keys of the device that it is sent through.
 */
#ifndef RBLK_INITIATOR_FABRICS_H
#define RBLK_INITIATOR_FABRICS_H

#include "proto/fabric/fabric.h"
#include "proto/wire/types.h"

#define INI_FABS_MAX 2

/* Belongs to the session, and to its thread. Fixed once ini_fabs_join() has succeeded, but for what is gone. */
struct ini_fabs {
	struct fab *list[INI_FABS_MAX];
	enum fab_kind kinds[INI_FABS_MAX];
	u16 count;
	bool joined;	  /* fd is of fab_join() */
	int fd;		  /* readable when one of them is */
	struct fab *last; /* of the last failure: ini_fabs_error() */
	/* Removed, and not released yet (connect.c). */
	struct fab_device *gone[INI_FABS_MAX * FAB_DEVICES_MAX];
	u32 gone_count;
};

/* The fab of this kind, opened if there is none yet. NULL: errno and `error` (FAB_ERROR_BYTES). */
struct fab *ini_fabs_get(struct ini_fabs *fabs, enum fab_kind kind,
			 const struct fab_options *options, char *error);
/* All are open. 0 or negative errno. */
int ini_fabs_join(struct ini_fabs *fabs);
/* The counterpart of both. */
void ini_fabs_close(struct ini_fabs *fabs);

/* Which of them the device is of. */
u16 ini_fabs_place(const struct ini_fabs *fabs, const struct fab_device *device);

/* As fab_arm(), or fab_arm_receives(): 1 if something may be there already in one of them. */
int ini_fabs_arm(struct ini_fabs *fabs, bool receives_only);
/* As fab_timeout_ms(), fab_activity(), of all. */
int ini_fabs_timeout_ms(const struct ini_fabs *fabs);
static inline u64 ini_fabs_activity(const struct ini_fabs *fabs)
{
	u64 activity = fab_activity(fabs->list[0]);

	for (u16 i = 1; i < fabs->count; i++)
		activity += fab_activity(fabs->list[i]);
	return activity;
}
/* Words of the last call here that failed; "" if it has none. */
const char *ini_fabs_error(const struct ini_fabs *fabs);

/* Memory that is registered with each fab. */
struct ini_mr {
	struct fab_mr *of[INI_FABS_MAX]; /* in the order of the fabs; NULL: there is no such one */
};

/* 0 or negative errno; then it is registered with none. */
int ini_mr_register(struct ini_fabs *fabs, void *addr, size_t bytes, int access, struct ini_mr *mr);
void ini_mr_deregister(struct ini_mr *mr);
/* 0 if registration with that device failed. */
u32 ini_mr_lkey(const struct ini_mr *mr, const struct fab_device *device);
u32 ini_mr_rkey(const struct ini_mr *mr, const struct fab_device *device);

#endif
