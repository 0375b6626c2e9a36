/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rights of open volumes. request_end.c handles outstanding commands that lose their right.
 */
#include "target/serve/rights.h"

#include <string.h>
#include "target/base/registrant.h"
#include "target/io/request.h"
#include "target/serve/limits.h"
#include "target/serve/queue.h"

bool tgt_rights_registrant(const struct tgt_session *session, char registrant[RBLK_NAME_BYTES])
{
	memset(registrant, 0, RBLK_NAME_BYTES);
	if (!session->named)
		return false;
	if (session->has_host_id) {
		tgt_registrant_name(session->host_id, session->initiator, registrant);
		return true;
	}
	memcpy(registrant, session->initiator, RBLK_NAME_BYTES);
	return strcmp(registrant, RBLK_NAME_UNNAMED) != 0 &&
	       strncmp(registrant, TGT_REGISTRANT_HOST, strlen(TGT_REGISTRANT_HOST)) != 0;
}

/* The commands that the reservation of a channel's volume refuses to a session: the same for all its handles. */
struct rights {
	uint8_t refused; /* a mask of tgt_refused */
	bool registered;
};

static struct rights rights_of(const struct tgt_session *session, const struct tgt_channel *channel)
{
	char registrant[RBLK_NAME_BYTES];
	bool known = tgt_rights_registrant(session, registrant);
	struct rights rights;

	rights.refused = tgt_reservations_refused(&channel->volume->reservations, known ? registrant : NULL,
						  &rights.registered);
	return rights;
}

static void rights_revoke(struct tgt_handle *handle, bool aborts)
{
	struct tgt_session *session = handle->session;

	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++) {
		struct tgt_queue *queue = session->slots[i].queue;

		/* A victim that does not serve the READs of its data would delay the RESERVE
		 * that waits.
		 */
		if (queue && tgt_io_queue_revoke(&queue->io_queue, &handle->access, aborts) && aborts)
			tgt_queue_close(queue, "its initiator was preempted");
	}
}

/* Puts them in force, and stops what is no longer allowed. */
static void rights_update(struct tgt_handle *handle, const struct rights *rights, bool aborts)
{
	struct tgt_access *access = &handle->access;
	bool lost = rights->refused & ~access->refused;
	bool removed = access->registered && !rights->registered;

	access->refused = rights->refused;
	access->registered = rights->registered;
	if (lost || removed)
		rights_revoke(handle, removed && aborts);
}

void tgt_rights_opened(struct tgt_handle *handle)
{
	const struct rights rights = rights_of(handle->session, handle->access.channel);

	rights_update(handle, &rights, false);
}

/* Looks the rights up once: a session may have the volume open a thousand times. */
static void rights_update_session(struct tgt_session *session, struct tgt_channel *channel, bool aborts)
{
	struct tgt_handle *handle;
	struct rights rights;
	bool known = false;

	tgt_session_each_handle(handle, session) {
		if (handle->access.channel != channel)
			continue;
		if (!known)
			rights = rights_of(session, channel);
		known = true;
		rights_update(handle, &rights, aborts);
	}
}

void tgt_rights_changed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	struct tgt_channel *channel = reactor->channels[volume->slot];
	struct tgt_session *session;
	uint64_t change;
	bool aborts;

	if (!channel || channel->volume != volume)
		return;
	change = tgt_reservations_now(&volume->reservations, &aborts);
	TAILQ_FOREACH(session, &reactor->sessions, link)
		rights_update_session(session, channel, aborts);
	tgt_reservations_saw(&volume->reservations, &channel->subscriber, change);
}

/*
 * Rights that the old name lost are applied before the session has the new name; otherwise a
 * PREEMPT that waits for its writes would miss them. Then commands that the new name may not send
 * end here.
 */
void tgt_rights_name(struct tgt_session *session, const char initiator[RBLK_NAME_BYTES])
{
	struct tgt_channel *channel;
	struct tgt_handle *handle;

	tgt_session_each_handle(handle, session) {
		channel = handle->access.channel;
		if (channel && !tgt_reservations_seen(&channel->volume->reservations, &channel->subscriber))
			tgt_rights_changed(session->reactor, channel->volume);
	}
	/* The remote sessions read it, too. */
	pthread_mutex_lock(&session->lock);
	memcpy(session->initiator, initiator, sizeof(session->initiator));
	session->named = true;
	pthread_mutex_unlock(&session->lock);
	tgt_session_each_handle(handle, session)
		if (handle->access.channel) {
			const struct rights rights = rights_of(session, handle->access.channel);

			rights_update(handle, &rights, false);
		}
	tgt_limits_named(session);
}
