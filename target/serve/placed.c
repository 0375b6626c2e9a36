/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Moves a queue to another reactor and back. */
#include "target/serve/placed.h"

#include <stdlib.h>
#include <string.h>
#include "target/serve/queue.h"

/* A letter: close that queue. It is allocated with the placed queue, so that closing cannot
 * fail. */
struct tgt_closing {
	struct tgt_letter letter; /* first */
	uint8_t id[16];
	uint64_t epoch;
	uint32_t incarnation;
	uint16_t index;
	const char *reason;
};

struct tgt_session *tgt_session_at(struct tgt_reactor *reactor, const uint8_t id[16],
				   uint64_t epoch, bool part)
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link)
		if (!session->home == !part && session->epoch == epoch &&
		    !memcmp(session->id, id, sizeof(session->id)))
			return session;
	return NULL;
}

/* Its queue may have ended meanwhile. */
static void closing_read(struct tgt_reactor *reactor, struct tgt_letter *letter)
{
	struct tgt_closing *closing = (struct tgt_closing *)letter;
	struct tgt_session *part = tgt_session_at(reactor, closing->id, closing->epoch, true);
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
	closing->letter.read = closing_read;
	memcpy(closing->id, session->id, sizeof(closing->id));
	closing->epoch = session->epoch;
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
	tgt_letter_send(placed->reactor, &placed->letter);
}

void tgt_placed_return(struct tgt_placed *placed)
{
	placed->letter.read = placed->back;
	tgt_letter_send(placed->home, &placed->letter);
}

void tgt_placed_end(struct tgt_placed *placed)
{
	struct tgt_session *session = placed->session;
	struct tgt_place *place = &session->places[placed->index];

	/* A refused login may come again, unless it was fenced meanwhile. */
	if (!placed->accepted && placed->closing && place->incarnation == placed->incarnation)
		place->incarnation = placed->before;
	place->away = NULL;
	session->queues_away--;
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
	tgt_letter_send(placed->reactor, &closing->letter);
}

bool tgt_session_is_at(const struct tgt_session *session, const struct tgt_reactor *reactor)
{
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (session->places[i].away && session->places[i].away->reactor == reactor)
			return true;
	return false;
}

/* -- the name ---------------------------------------------------------------------------------- */

struct part_name {
	struct tgt_letter letter; /* first */
	uint8_t id[16];
	uint64_t epoch;
	char initiator[RBLK_NAME_BYTES];
	void (*name)(struct tgt_session *part, const char initiator[RBLK_NAME_BYTES]);
};

static void name_read(struct tgt_reactor *reactor, struct tgt_letter *letter)
{
	struct part_name *name = (struct part_name *)letter;
	struct tgt_session *part = tgt_session_at(reactor, name->id, name->epoch, true);

	if (part)
		name->name(part, name->initiator);
	free(name);
}

bool tgt_parts_name(struct tgt_session *session, const char initiator[RBLK_NAME_BYTES],
		    void (*name)(struct tgt_session *part, const char initiator[RBLK_NAME_BYTES]))
{
	struct tgt_peers *peers = session->reactor->peers;
	struct part_name *names[TGT_REACTORS_MAX] = {NULL};
	unsigned int count = session->queues_away ? atomic_load(&peers->count) : 0;
	bool done = true;

	for (unsigned int i = 0; i < count; i++) {
		if (!tgt_session_is_at(session, peers->reactors[i]))
			continue;
		names[i] = calloc(1, sizeof(*names[i]));
		done = done && names[i];
	}
	for (unsigned int i = 0; i < count; i++) {
		if (!names[i])
			continue;
		if (!done) {
			free(names[i]);
			continue;
		}
		names[i]->letter.read = name_read;
		memcpy(names[i]->id, session->id, sizeof(names[i]->id));
		names[i]->epoch = session->epoch;
		memcpy(names[i]->initiator, initiator, RBLK_NAME_BYTES);
		names[i]->name = name;
		tgt_letter_send(peers->reactors[i], &names[i]->letter);
	}
	return done;
}
