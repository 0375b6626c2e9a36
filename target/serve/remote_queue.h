/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue of a session on another reactor. A session has a home, the reactor of its lease: there are
 * its queue 0, its incarnations, fences, handles and events, and there its logins are judged. A
 * login of another queue may be placed on any reactor, which then has a remote session of it: the
 * queue, and handles that are opened there when a command first names them. A remote session lives as long
 * as it has queues. I/O of the queue needs nothing of the home.
 *
 * One struct tgt_remote_queue goes to the other reactor with the login, and comes back home when the
 * queue has ended entirely (F5) or was not accepted. A queue that lingers says so before.
 */
#ifndef RBLK_TARGET_REMOTE_QUEUE_H
#define RBLK_TARGET_REMOTE_QUEUE_H

#include "target/serve/queue.h"
#include "target/serve/session_message.h"

struct tgt_remote_queue {
	struct tgt_message message; /* first */
	struct tgt_message left;    /* before it: the queue leaves its slot, and lingers */
	struct tgt_lingering lingering;
	void (*back)(struct tgt_reactor *home, struct tgt_message *message); /* run at home */
	struct tgt_session *session; /* which exists as long as the queue is away, or lingers there */
	struct tgt_reactor *home, *reactor;
	uint32_t incarnation, before; /* its own, and that of its slot before it */
	uint16_t index;

	struct tgt_login login; /* which the other reactor answers */
	char initiator[RBLK_NAME_BYTES]; /* the session's name as it was then */
	bool named, proven;

	/* The home sends this once, to have the queue closed. */
	struct tgt_closing *closing;

	/* The result. */
	bool accepted;
	struct tgt_totals totals;
};

/* NULL: no memory. On the home's thread. The request stays the caller's until it is sent. */
struct tgt_remote_queue *tgt_remote_queue_create(struct tgt_session *session, struct tgt_reactor *reactor,
						 const struct tgt_login *login);
/* Sends it to the other reactor; from now on its slot counts as away. */
void tgt_remote_queue_send(struct tgt_remote_queue *remote_queue);
/* The other reactor's thread: sends it back to the home. */
void tgt_remote_queue_return(struct tgt_remote_queue *remote_queue);
/* At the home: the queue has no connection any more, and lingers there; its slot is empty. */
void tgt_remote_queue_leave(struct tgt_remote_queue *remote_queue);
/* Back at the home: it leaves its slot, and is freed. */
void tgt_remote_queue_end(struct tgt_remote_queue *remote_queue);

/* The home's thread: begin to close the slot's queue, wherever it is. reason: a constant, or NULL. */
void tgt_queue_slot_close(struct tgt_queue_slot *slot, const char *reason);
static inline bool tgt_queue_slot_empty(const struct tgt_queue_slot *slot)
{
	return !slot->queue && !slot->away;
}
/* F5, the home's thread: is anything left of its incarnations up to this one? */
bool tgt_queue_slot_has(const struct tgt_queue_slot *slot, uint32_t incarnation);

/* A message of so many bytes, addressed, to each reactor that has a remote session of it, or had one a moment ago.
 * Returns how many there are, for the caller to send or to free; -1: no memory. */
int tgt_remotes_messages(const struct tgt_session *session, size_t bytes, tgt_session_run *run,
			 struct tgt_session_message *messages[TGT_REACTORS_MAX]);
/* The home's thread: its remote sessions get the new name (rights.h). False: no memory, and nothing has happened. */
bool tgt_remotes_name(struct tgt_session *session, const char initiator[RBLK_NAME_BYTES]);

#endif
