/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Moves a queue to another reactor and back, and sends to the parts that are there. */
#include "target/serve/placed.h"

#include <stdlib.h>
#include <string.h>
#include "target/serve/queue.h"

/* Close that queue. It is allocated with the placed queue, so that closing cannot fail. */
struct tgt_closing {
	struct tgt_session_message head; /* first */
	uint32_t incarnation;
	uint16_t index;
	const char *reason;
};

/* Its queue may have ended meanwhile. */
static void closing_arrived(struct tgt_reactor *reactor, struct tgt_session *part, struct tgt_session_message *message)
{
	struct tgt_closing *closing = (struct tgt_closing *)message;
	struct tgt_queue *queue = part ? part->places[closing->index].queue : NULL;

	if (queue && queue->incarnation == closing->incarnation)
		tgt_queue_close(queue, closing->reason);
	free(closing);
}

struct tgt_placed *tgt_placed_create(struct tgt_session *session, struct tgt_reactor *reactor,
				     struct fab_request *request,
				     const struct rblk_wire_login *wire)
{
	struct tgt_placed *placed = calloc(1, sizeof(*placed));
	struct tgt_closing *closing = calloc(1, sizeof(*closing));

	if (!placed || !closing) {
		free(placed);
		free(closing);
		return NULL;
	}
	placed->session = session;
	placed->home = session->reactor;
	placed->reactor = reactor;
	placed->request = request;
	placed->wire = *wire;
	placed->incarnation = rblk_le32(wire->incarnation);
	placed->index = rblk_le16(wire->queue_index);
	memcpy(placed->initiator, session->initiator, sizeof(placed->initiator));
	placed->named = session->named;
	placed->proven = session->proven;
	placed->closing = closing;
	tgt_session_address(&closing->head, session, reactor, closing_arrived);
	closing->incarnation = placed->incarnation;
	closing->index = placed->index;
	return placed;
}

void tgt_placed_send(struct tgt_placed *placed)
{
	struct tgt_session *session = placed->session;
	struct tgt_place *place = &session->places[placed->index];

	placed->before = place->incarnation;
	place->incarnation = placed->incarnation;
	place->away = placed;
	session->queues_away++;
	atomic_fetch_add(&placed->reactor->load, 1);
	tgt_reactor_send(placed->reactor, &placed->message);
}

void tgt_placed_leave(struct tgt_placed *placed)
{
	struct tgt_session *session = placed->session;
	struct tgt_place *place = &session->places[placed->index];

	place->away = NULL;
	session->queues_away--;
	session->lingering++;
	placed->lingering.incarnation = placed->incarnation;
	placed->lingering.reactor = placed->reactor;
	TAILQ_INSERT_TAIL(&place->lingering, &placed->lingering, link);
}

void tgt_placed_return(struct tgt_placed *placed)
{
	placed->message.run = placed->back;
	tgt_reactor_send(placed->home, &placed->message);
}

void tgt_placed_end(struct tgt_placed *placed)
{
	struct tgt_session *session = placed->session;
	struct tgt_place *place = &session->places[placed->index];

	/* A refused login may come again, unless it was fenced meanwhile. */
	if (!placed->accepted && placed->closing && place->incarnation == placed->incarnation)
		place->incarnation = placed->before;
	if (placed->lingering.reactor) {
		TAILQ_REMOVE(&place->lingering, &placed->lingering, link);
		session->lingering--;
	} else {
		place->away = NULL;
		session->queues_away--;
	}
	free(placed->closing);
	free(placed);
}

void tgt_place_close(struct tgt_place *place, const char *reason)
{
	struct tgt_placed *placed = place->away;
	struct tgt_closing *closing;

	if (place->queue)
		tgt_queue_close(place->queue, reason);
	if (!placed || !placed->closing)
		return;
	closing = placed->closing;
	placed->closing = NULL;
	closing->reason = reason;
	tgt_session_send(&closing->head);
}

bool tgt_place_has(const struct tgt_place *place, uint32_t incarnation)
{
	const struct tgt_lingering *one;

	if ((place->queue && place->queue->incarnation <= incarnation) ||
	    (place->away && place->away->incarnation <= incarnation))
		return true;
	TAILQ_FOREACH(one, &place->lingering, link)
		if (one->incarnation <= incarnation)
			return true;
	return false;
}

/* -- to all parts ------------------------------------------------------------------------------ */

static bool place_is_at(const struct tgt_place *place, const struct tgt_reactor *reactor)
{
	const struct tgt_lingering *one;

	if (place->away && place->away->reactor == reactor)
		return true;
	TAILQ_FOREACH(one, &place->lingering, link)
		if (one->reactor == reactor)
			return true;
	return false;
}

static bool session_is_at(const struct tgt_session *session, const struct tgt_reactor *reactor)
{
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (place_is_at(&session->places[i], reactor))
			return true;
	return false;
}

int tgt_parts_messages(const struct tgt_session *session, size_t bytes, tgt_session_run *run,
		       struct tgt_session_message *messages[TGT_REACTORS_MAX])
{
	struct tgt_peers *peers = session->reactor->peers;
	int count = 0;

	for (unsigned int i = 0; peers && i < atomic_load(&peers->count); i++) {
		/* Those that linger here are no part's. */
		if (peers->reactors[i] == session->reactor || !session_is_at(session, peers->reactors[i]))
			continue;
		messages[count] = calloc(1, bytes);
		if (!messages[count]) {
			while (count)
				free(messages[--count]);
			return -1;
		}
		tgt_session_address(messages[count++], session, peers->reactors[i], run);
	}
	return count;
}

/* -- the name ---------------------------------------------------------------------------------- */

struct part_name {
	struct tgt_session_message head; /* first */
	char initiator[RBLK_NAME_BYTES];
	void (*name)(struct tgt_session *part, const char initiator[RBLK_NAME_BYTES]);
};

static void name_arrived(struct tgt_reactor *reactor, struct tgt_session *part, struct tgt_session_message *message)
{
	struct part_name *name = (struct part_name *)message;

	if (part)
		name->name(part, name->initiator);
	free(name);
}

bool tgt_parts_name(struct tgt_session *session, const char initiator[RBLK_NAME_BYTES],
		    void (*name)(struct tgt_session *part, const char initiator[RBLK_NAME_BYTES]))
{
	struct tgt_session_message *messages[TGT_REACTORS_MAX];
	int count = tgt_parts_messages(session, sizeof(struct part_name), name_arrived, messages);

	for (int i = 0; i < count; i++) {
		struct part_name *one = (struct part_name *)messages[i];

		memcpy(one->initiator, initiator, RBLK_NAME_BYTES);
		one->name = name;
		tgt_session_send(messages[i]);
	}
	return count >= 0;
}
