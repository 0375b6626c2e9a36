/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The process's record of what is durable, volume by volume (F7, core/durable.h): all sessions, on
 * whatever threads, and all opens of a volume share it, because a FLUSH promises that all writes
 * called back before are durable, whoever started them. Called by volume.c, io.c, complete.c and
 * retry.c, on the session's thread.
 *
 * Locks: a registry's, and within it a volume's. Neither is held while anything else of the library
 * is called.
 */
#ifndef RBLK_INITIATOR_DURABLE_H
#define RBLK_INITIATOR_DURABLE_H

#include <pthread.h>
#include "initiator/rblk.h"
#include "proto/core/durable.h"

/* Closed volumes with writes that no FLUSH has covered: so many are remembered, and then the oldest
 * is forgotten. */
#define INI_DURABLES_CLOSED_MAX 1024u

/* One volume, of this uuid. `lock` owns `core`; the registry's lock the rest. Freed with its last
 * open, if nothing is owed. */
struct ini_durable {
	struct ini_durable *next;
	u8 uuid[16];
	u32 opens;
	pthread_mutex_t lock;
	struct core_durable core;
	struct rblk_kept_volume *kept; /* for a successor of the process; NULL: for none */
};

struct ini_durables {
	pthread_mutex_t lock;
	struct ini_durable *list; /* the one that was closed last is the first */
	u32 losses;		  /* times that somebody has to be told of one; atomic */
};

/* The process's, for its life. The simulator's processes have their own: session->durables. */
struct ini_durables *ini_durables(void);
void ini_durables_init(struct ini_durables *durables);
/* Nobody has a volume open. */
void ini_durables_fini(struct ini_durables *durables);

/* For a volume that is about to be opened: nobody else has it. NULL: no memory. */
struct ini_durable *ini_durable_alloc(void);
/*
 * The volume has this uuid. Returns its record, which `open` has joined: `own` if it is the first, else the one that is
 * there, and `own` is freed. kept: of this volume; NULL: none. The first that joins takes over what is there.
 */
struct ini_durable *ini_durable_join(struct ini_durables *durables, struct ini_durable *own,
				     const u8 uuid[16], struct core_durable_open *open, struct rblk_kept_volume *kept);
/* The volume is closed, or could not be opened. heard: as in core/durable.h. remember: what no FLUSH
 * has covered is owed to its next open, and a loss that was not told. */
void ini_durable_leave(struct ini_durables *durables, struct ini_durable *durable,
		       struct core_durable_open *open, u32 heard, bool remember);

/* As in core/durable.h, with the lock. */
void ini_durable_learn(struct ini_durables *durables, struct ini_durable *durable,
		       struct core_durable_open *open, const u8 epoch[16]);
u64 ini_durable_flush(struct ini_durable *durable);
bool ini_durable_may_flush(struct ini_durable *durable, u64 number);
/* A command with this opcode that owes has succeeded. False: it is a FLUSH, and fails with EIO all
 * the same. */
bool ini_durable_done(struct ini_durables *durables, struct ini_durable *durable, u8 opcode,
		      u32 generation, u64 number);
bool ini_durable_acknowledge(struct ini_durable *durable, struct core_durable_open *open);
/* The last loss that the open's users have not acknowledged, of core_durable.losses; 0: none. */
u32 ini_durable_loss(struct ini_durable *durable, const struct core_durable_open *open);

#endif
