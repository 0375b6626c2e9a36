/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Volume handles of a session, and the outlets behind them: a volume's store as one reactor uses
 * it. A handle counts the commands and transfers that use it; it ends when it is closed and the
 * last of them is over. Its reactor's thread only.
 */
#ifndef RBLK_TARGET_HANDLE_H
#define RBLK_TARGET_HANDLE_H

#include "target/serve/session.h"

struct tgt_handle {
	struct tgt_session *session;
	uint32_t id;		   /* generation << 10 | index: never 0 */
	struct tgt_outlet *outlet; /* NULL: the volume was removed and what used it is over */
	bool read_only;		   /* opened so, or the volume is */
	bool closing;		   /* CLOSE waits, or the session ends: found no more */
	bool event_changed, event_removed;
	uint32_t users; /* commands in flight, and transfers to or from the store's memory */
	struct tgt_request *closer; /* the CLOSE that waits, or NULL */
};

/* The handle's, or NULL: never opened, or closed. */
struct tgt_handle *tgt_handle_find(const struct tgt_session *session, uint32_t id);

/* RBLK_OK and *handle, or why not. Takes over the reference to `volume` in every case. */
enum rblk_status tgt_handle_open(struct tgt_session *session, struct tgt_volume *volume,
				 uint32_t flags, struct tgt_handle **handle);
/* Found no more; freed now or with its last user. True: it is gone already. */
bool tgt_handle_close(struct tgt_handle *handle, struct tgt_request *closer);
/* All of a session that has no queue any more. */
void tgt_handle_close_all(struct tgt_session *session);

static inline void tgt_handle_get(struct tgt_handle *handle)
{
	handle->users++;
}
void tgt_handle_idle(struct tgt_handle *handle); /* its last user has gone */
static inline void tgt_handle_put(struct tgt_handle *handle)
{
	if (--handle->users == 0)
		tgt_handle_idle(handle);
}

/* The store's memory as the queue's device knows it. */
uint32_t tgt_outlet_lkey(const struct tgt_outlet *outlet, const struct tgt_queue *queue);

/* An event is due for it. */
void tgt_handle_note(struct tgt_handle *handle, bool removed);

/* A reload removed or changed the volume: note events, let go of what is idle. */
void tgt_handle_volume_removed(struct tgt_reactor *reactor, struct tgt_volume *volume);
void tgt_handle_volume_changed(struct tgt_reactor *reactor, struct tgt_volume *volume);

#endif
