/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rights of open volumes. revoke.c handles outstanding commands that lose their right.
 */
#include "target/serve/rights.h"

#include <string.h>
#include "target/io/revoke.h"
#include "target/serve/queue.h"

/* Which rights it lost: a mask of tgt_refused. *removed: it was a registrant, and no longer is. */
static uint8_t rights_look(struct tgt_handle *handle, bool *removed)
{
	const char *name = handle->session->named ? handle->session->initiator : NULL;
	struct tgt_access *access = &handle->access;
	uint8_t before = access->refused;
	bool registered;

	access->refused =
		tgt_reservations_refused(&access->port->volume->reservations, name, &registered);
	*removed = access->registered && !registered;
	access->registered = registered;
	return access->refused & ~before;
}

void tgt_rights_opened(struct tgt_handle *handle)
{
	bool removed;

	rights_look(handle, &removed);
}

static void rights_revoke(struct tgt_handle *handle, bool aborts)
{
	struct tgt_session *session = handle->session;

	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++) {
		struct tgt_queue *queue = session->places[i].queue;

		/* A victim that does not serve the READs of its data would delay the RESERVE
		 * that waits.
		 */
		if (queue && tgt_lane_revoke(&queue->lane, &handle->access, aborts) && aborts)
			tgt_queue_close(queue, "its initiator was preempted");
	}
}

/* Looks the rights up again, and stops what is no longer allowed. */
static void rights_update(struct tgt_handle *handle, bool aborts)
{
	bool removed;

	if (rights_look(handle, &removed) || removed)
		rights_revoke(handle, removed && aborts);
}

void tgt_rights_changed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	struct tgt_port *port = reactor->ports[volume->slot];
	struct tgt_session *session;
	uint64_t change;
	bool aborts;

	if (!port || port->volume != volume)
		return;
	change = tgt_reservations_now(&volume->reservations, &aborts);
	TAILQ_FOREACH(session, &reactor->sessions, link) {
		for (uint32_t i = 0; i < session->handle_slots; i++) {
			struct tgt_handle *handle = session->handles[i];

			if (handle && handle->access.port == port)
				rights_update(handle, aborts);
		}
	}
	tgt_reservations_saw(&volume->reservations, &port->seat, change);
}

/* The port of the session's n-th handle, or NULL. */
static struct tgt_port *port_of(const struct tgt_session *session, uint32_t n)
{
	return session->handles[n] ? session->handles[n]->access.port : NULL;
}

/*
 * Rights that the old name lost are applied before the session has the new name; otherwise a
 * PREEMPT that waits for its writes would miss them. Then commands that the new name may not send
 * end here.
 */
void tgt_rights_name(struct tgt_session *session, const char initiator[RBLK_NAME_BYTES])
{
	for (uint32_t i = 0; i < session->handle_slots; i++) {
		struct tgt_port *port = port_of(session, i);

		if (port && !tgt_reservations_seen(&port->volume->reservations, &port->seat))
			tgt_rights_changed(session->reactor, port->volume);
	}
	/* The parts read it, too. */
	pthread_mutex_lock(&session->lock);
	memcpy(session->initiator, initiator, sizeof(session->initiator));
	session->named = true;
	pthread_mutex_unlock(&session->lock);
	for (uint32_t i = 0; i < session->handle_slots; i++)
		if (port_of(session, i))
			rights_update(session->handles[i], false);
}
