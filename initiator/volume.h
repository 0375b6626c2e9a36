/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An open volume: what the target reported of it, and its handle. volume.c opens and closes, list.c
 * lists, io.c reads and writes.
 */
#ifndef RBLK_INITIATOR_VOLUME_H
#define RBLK_INITIATOR_VOLUME_H

#include "initiator/rblk.h"
#include "proto/core/domain.h"
#include "proto/core/durable.h"
#include "proto/wire/wire.h"

struct ini_change;
struct ini_durable;
struct ini_page_volume;

/* Created by rblk_volume_open(), freed by rblk_volume_close() or with its session. */
struct rblk_volume {
	struct rblk_session *session;
	struct rblk_volume *next; /* of the session */
	struct rblk_volume_info info;
	u32 handle; /* its own, open or not */
	u64 epoch; /* of the session, in which it was opened last; 0: never */
	u32 open_flags; /* enum rblk_open_flag */
	u32 block_shift;
	u32 inflight;   /* commands started and not called back */
	bool changing;  /* its first OPEN or its CLOSE is outstanding: no I/O is started */
	struct ini_change *refused; /* its first OPEN, refused by a target; it may be sent to another one */
	bool refreshing; /* OPEN is outstanding to read its size; I/O goes on */
	bool gone;      /* the target no longer serves it, or serves another in its place */
	u32 parked;     /* commands of inflight that wait for a connection, or for the volume (parking.h) */
	/* reopen_volumes.c; late_ns, 0: it is open, or gone */
	struct rblk_volume **reopen; /* names this one in the OPEN of a new epoch that is outstanding; NULL: none */
	u64 late_ns;  /* since then it is to be opened again: its commands wait */
	u64 again_ns; /* late: OPEN is sent again */
	u32 tries;    /* late: OPENs that were refused in this epoch */
	u32 denied;     /* enum rblk_denied: why it could not be opened again; 0: that was not it */
	struct core_domain domain;   /* F10: where it was opened last */
	struct ini_durable *durable; /* F7: shared by all opens of the volume in the process, once it is open */
	struct core_durable_open open; /* its part there */
	u32 loss_told;  /* the last loss that an event is for, told or among the next: */
	u32 loss_heard; /* the last one that its users have heard of: by an event, or a FLUSH that failed */
	u32 events;     /* of enum rblk_session_event_type, a bit each: not told yet */
	u32 told;       /* likewise: told in this rblk_poll() */
	struct ini_page_volume *counted; /* publish.c; NULL: it is not */
};

/* A validated report, converted for the API. */
void ini_volume_info(const struct rblk_session *session, const struct rblk_wire_volume *wire,
		     struct rblk_volume_info *info);
/* An OPEN, whose report will be at *report. As ini_control_start(). */
int ini_volume_send_open(struct rblk_volume *volume, const char name[RBLK_NAME_BYTES], rblk_callback done, void *arg,
			 const void **report);
/* CLOSE, for a session that ends: whatever the answer is, the volume stays. As ini_control_start(). */
int ini_volume_send_close(struct rblk_volume *volume, rblk_callback done, void *arg);
/*
 * The report of an OPEN that succeeded: the volume is open in the present epoch. Or negative errno, with a message;
 * -EXDEV: this target may not take the volume over (F10).
 */
int ini_volume_take(struct rblk_volume *volume, const char name[RBLK_NAME_BYTES], const void *arrived);
/* Its next OPEN is of another volume: it has another handle from now on, in the same slot. */
void ini_volume_number(struct rblk_volume *volume);
/* One of the session's, closed or not. */
void ini_volume_free(struct rblk_volume *volume);
void ini_volumes_fini(struct rblk_session *session);

#endif
