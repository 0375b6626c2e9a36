/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Moves a queue to another reactor and back, and sends to the remote sessions that are there. */
#include "target/serve/remote_queue.h"

#include <stdlib.h>
#include <string.h>
#include "target/serve/rights.h"

/* Close that queue. It is allocated with the remote queue, so that closing cannot fail. */
struct tgt_closing {
	struct tgt_session_message head; /* first */
	uint32_t incarnation;
	uint16_t index;
	const char *reason;
};

/* Its queue may have ended meanwhile. */
static void closing_arrived(struct tgt_reactor *reactor, struct tgt_session *remote, struct tgt_session_message *message)
{
	struct tgt_closing *closing = (struct tgt_closing *)message;
	struct tgt_queue *queue = remote ? remote->slots[closing->index].queue : NULL;

	if (queue && queue->incarnation == closing->incarnation)
		tgt_queue_close(queue, closing->reason);
	free(closing);
}

struct tgt_remote_queue *tgt_remote_queue_create(struct tgt_session *session, struct tgt_reactor *reactor,
						 const struct tgt_login *login)
{
	struct tgt_remote_queue *remote_queue = calloc(1, sizeof(*remote_queue));
	struct tgt_closing *closing = calloc(1, sizeof(*closing));

	if (!remote_queue || !closing) {
		free(remote_queue);
		free(closing);
		return NULL;
	}
	remote_queue->session = session;
	remote_queue->home = session->reactor;
	remote_queue->reactor = reactor;
	remote_queue->login = (struct tgt_login){
		.request = login->request, .wire = login->wire, .features = login->features};
	remote_queue->incarnation = rblk_le32(login->wire.incarnation);
	remote_queue->index = rblk_le16(login->wire.queue_index);
	memcpy(remote_queue->initiator, session->initiator, sizeof(remote_queue->initiator));
	remote_queue->named = session->named;
	remote_queue->proven = session->proven;
	remote_queue->closing = closing;
	tgt_session_address(&closing->head, session, reactor, closing_arrived);
	closing->incarnation = remote_queue->incarnation;
	closing->index = remote_queue->index;
	return remote_queue;
}

void tgt_remote_queue_send(struct tgt_remote_queue *remote_queue)
{
	struct tgt_session *session = remote_queue->session;
	struct tgt_queue_slot *slot = &session->slots[remote_queue->index];

	remote_queue->before = slot->incarnation;
	slot->incarnation = remote_queue->incarnation;
	slot->away = remote_queue;
	session->queues_away++;
	atomic_fetch_add(&remote_queue->reactor->load, 1);
	tgt_reactor_send(remote_queue->reactor, &remote_queue->message);
}

void tgt_remote_queue_leave(struct tgt_remote_queue *remote_queue)
{
	struct tgt_session *session = remote_queue->session;
	struct tgt_queue_slot *slot = &session->slots[remote_queue->index];

	slot->away = NULL;
	session->queues_away--;
	session->lingering++;
	remote_queue->lingering.incarnation = remote_queue->incarnation;
	remote_queue->lingering.reactor = remote_queue->reactor;
	TAILQ_INSERT_TAIL(&slot->lingering, &remote_queue->lingering, link);
}

void tgt_remote_queue_return(struct tgt_remote_queue *remote_queue)
{
	remote_queue->message.run = remote_queue->back;
	tgt_reactor_send(remote_queue->home, &remote_queue->message);
}

void tgt_remote_queue_end(struct tgt_remote_queue *remote_queue)
{
	struct tgt_session *session = remote_queue->session;
	struct tgt_queue_slot *slot = &session->slots[remote_queue->index];

	/* A refused login may come again, unless it was fenced meanwhile. */
	if (!remote_queue->accepted && remote_queue->closing && slot->incarnation == remote_queue->incarnation)
		slot->incarnation = remote_queue->before;
	if (remote_queue->lingering.reactor) {
		TAILQ_REMOVE(&slot->lingering, &remote_queue->lingering, link);
		session->lingering--;
	} else {
		slot->away = NULL;
		session->queues_away--;
	}
	free(remote_queue->closing);
	free(remote_queue);
}

void tgt_queue_slot_close(struct tgt_queue_slot *slot, const char *reason)
{
	struct tgt_remote_queue *remote_queue = slot->away;
	struct tgt_closing *closing;

	if (slot->queue)
		tgt_queue_close(slot->queue, reason);
	if (!remote_queue || !remote_queue->closing)
		return;
	closing = remote_queue->closing;
	remote_queue->closing = NULL;
	closing->reason = reason;
	tgt_session_send(&closing->head);
}

bool tgt_queue_slot_has(const struct tgt_queue_slot *slot, uint32_t incarnation)
{
	const struct tgt_lingering *one;

	if ((slot->queue && slot->queue->incarnation <= incarnation) ||
	    (slot->away && slot->away->incarnation <= incarnation))
		return true;
	TAILQ_FOREACH(one, &slot->lingering, link)
		if (one->incarnation <= incarnation)
			return true;
	return false;
}

/* -- to all remote sessions -------------------------------------------------------------------- */

static bool slot_is_at(const struct tgt_queue_slot *slot, const struct tgt_reactor *reactor)
{
	const struct tgt_lingering *one;

	if (slot->away && slot->away->reactor == reactor)
		return true;
	TAILQ_FOREACH(one, &slot->lingering, link)
		if (one->reactor == reactor)
			return true;
	return false;
}

static bool session_is_at(const struct tgt_session *session, const struct tgt_reactor *reactor)
{
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (slot_is_at(&session->slots[i], reactor))
			return true;
	return false;
}

int tgt_remotes_messages(const struct tgt_session *session, size_t bytes, tgt_session_run *run,
			 struct tgt_session_message *messages[TGT_REACTORS_MAX])
{
	struct tgt_peers *peers = session->reactor->peers;
	int count = 0;

	for (unsigned int i = 0; peers && i < atomic_load(&peers->count); i++) {
		/* Those that linger here are no remote session's. */
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

struct remote_name {
	struct tgt_session_message head; /* first */
	char initiator[RBLK_NAME_BYTES];
};

static void name_arrived(struct tgt_reactor *reactor, struct tgt_session *remote, struct tgt_session_message *message)
{
	struct remote_name *name = (struct remote_name *)message;

	if (remote)
		tgt_rights_name(remote, name->initiator);
	free(name);
}

bool tgt_remotes_name(struct tgt_session *session, const char initiator[RBLK_NAME_BYTES])
{
	struct tgt_session_message *messages[TGT_REACTORS_MAX];
	int count = tgt_remotes_messages(session, sizeof(struct remote_name), name_arrived, messages);

	for (int i = 0; i < count; i++) {
		memcpy(((struct remote_name *)messages[i])->initiator, initiator, RBLK_NAME_BYTES);
		tgt_session_send(messages[i]);
	}
	return count >= 0;
}
