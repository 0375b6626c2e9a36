/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns what goes wrong, in words: of a call, of a portal, of a connection, and of a session for good. The state machine
 * (proto/core/session.h) is told here, and decides what follows: nothing else is called, so all other files may call this one.
 */
#include "initiator/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void set_words(struct rblk_session *session, const char *format, va_list args)
{
	char words[RBLK_ERROR_BYTES];

	/* Via a copy: the new message may quote the old one. */
	vsnprintf(words, sizeof(words), format, args);
	memcpy(session->failure.words, words, sizeof(words));
}

void ini_session_note(struct rblk_session *session, const char *format, ...)
{
	va_list args;

	/* Keep the first words: later failures follow from that one. */
	if (core_session_over(&session->core))
		return;
	va_start(args, format);
	set_words(session, format, args);
	va_end(args);
}

const char *ini_session_peer(const struct rblk_session *session)
{
	const struct fab_conn *conn = session->queues[0].conn;

	return conn ? fab_conn_peer(conn) : session->portals.of[session->core.queue[0].home].where;
}

void ini_session_fail(struct rblk_session *session, int error, const char *format, ...)
{
	va_list args;

	if (core_session_over(&session->core))
		return;
	va_start(args, format);
	set_words(session, format, args);
	va_end(args);
	session->failure.final = error;
	core_session_abandon(&session->core, session->now_ns);
}

const char *rblk_session_error(const struct rblk_session *session)
{
	return session->failure.words;
}

void ini_portal_failed(struct ini_queue *queue, int error)
{
	struct ini_portal *portal = ini_portal_of(queue);

	portal->error = error;
	memcpy(portal->words, queue->session->failure.words, sizeof(portal->words));
}

void ini_session_note_others(struct rblk_session *session)
{
	char *words = session->failure.words;

	for (u16 i = 0; i < session->portals.count; i++) {
		const struct ini_portal *portal = &session->portals.of[i];
		size_t length = strlen(words);

		if (portal->error && !strstr(words, portal->words))
			snprintf(words + length, RBLK_ERROR_BYTES - length, "%s%s", length ? "; " : "", portal->words);
	}
}

void ini_queue_lose(struct ini_queue *queue, int error, const char *format, ...)
{
	struct rblk_session *session = queue->session;
	char reason[RBLK_ERROR_BYTES - 100];
	va_list args;

	if (queue->state != INI_QUEUE_LIVE && queue->state != INI_QUEUE_CONNECTING)
		return;
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	ini_session_note(session, "%s: queue %u: %s",
			 queue->conn ? fab_conn_peer(queue->conn) : ini_session_peer(session),
			 queue->index, reason);
	session->failure.last = error;
	ini_portal_failed(queue, error);
	core_session_lost(&session->core, queue->index, session->now_ns);
}
