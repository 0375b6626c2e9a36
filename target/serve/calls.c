/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Carries out the calls of a reactor by other threads. */
#include "target/serve/calls.h"

#include <stdlib.h>
#include <string.h>
#include "target/serve/authorize.h"
#include "target/serve/event.h"
#include "target/serve/handle.h"
#include "target/serve/limits.h"
#include "target/serve/login.h"
#include "target/serve/peers.h"
#include "target/serve/qp_helper.h"
#include "target/serve/queue.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/session.h"
#include "target/serve/sessions.h"

void tgt_reactor_list_changed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link) {
		if (session->home)
			continue;
		session->events.list_changed = true;
		tgt_event_kick(session);
	}
}

void tgt_reactor_rules_changed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	tgt_authorize_changed(reactor);
	tgt_limits_changed(reactor);
	tgt_reactor_list_changed(reactor, NULL);
}

void tgt_reactor_check_devices(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	tgt_qp_helper_check(reactor);
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		fab_devices_check(reactor->fabrics[i].fab);
}

static void session_send_away(struct tgt_session *session)
{
	session->events.draining = true;
	tgt_event_kick(session);
}

void tgt_reactor_send_away(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link) {
		if (session->home || session->ending || !tgt_handle_session_uses(session, volume))
			continue;
		memcpy(session->sent_away, volume->config.name, sizeof(session->sent_away));
		session_send_away(session);
	}
}

void tgt_reactor_drain(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	struct tgt_session *session;

	if (reactor->loop.draining)
		return;
	reactor->loop.draining = true;
	reactor->drain_until_ns = reactor->loop.now_ns + (uint64_t)reactor->config.drain_ms * 1000000;
	tgt_login_refuse_all(reactor);
	TAILQ_FOREACH(session, &reactor->sessions, link)
		if (!session->home)
			session_send_away(session);
}

/* The home ends its remote sessions; it may still place queues there. */
void tgt_reactor_volume_lost(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	struct tgt_session *session, *following;

	TAILQ_FOREACH_SAFE(session, &reactor->sessions, link, following)
		if (!session->home && tgt_handle_session_uses(session, volume))
			tgt_session_volume_lost(session);
}

/* -- faults ------------------------------------------------------------------------------------ */

static void session_cut(struct tgt_session *session)
{
	for (uint16_t i = 0; i < session->queue_count; i++)
		if (session->slots[i].queue)
			tgt_queue_close(session->slots[i].queue, "a fault was asked for");
}

/* Ends the connections of sessions that have the volume open, or all, or their state, too. */
static void fault(struct tgt_reactor *reactor, struct tgt_volume *volume, bool forgets)
{
	struct tgt_session *session, *following;

	TAILQ_FOREACH_SAFE(session, &reactor->sessions, link, following) {
		/* The home ends its remote sessions; it may still place queues there. */
		if (session->ending || (session->home && forgets) ||
		    (volume && !tgt_handle_session_uses(session, volume)))
			continue;
		if (forgets)
			tgt_session_end(session, "a fault was asked for");
		else
			session_cut(session);
	}
}

void tgt_reactor_cut(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	fault(reactor, volume, false);
}

void tgt_reactor_forget(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	fault(reactor, volume, true);
}

/* -- of one session ---------------------------------------------------------------------------- */

struct kick_call {
	struct tgt_message message; /* first */
	unsigned int session;	    /* its number */
};

/* Its remote sessions end with it. */
static void kick_run(struct tgt_reactor *reactor, struct tgt_message *message)
{
	unsigned int number = ((struct kick_call *)message)->session;
	struct tgt_session *session;

	free(message);
	TAILQ_FOREACH(session, &reactor->sessions, link) {
		if (session->home || session->number != number || session->ending)
			continue;
		tgt_session_end(session, "kicked by rblkctl");
		return;
	}
}

bool tgt_reactor_kick(struct tgt_reactor *reactor, unsigned int session)
{
	struct kick_call *call = malloc(sizeof(*call));

	if (!call)
		return false;
	*call = (struct kick_call){.message.run = kick_run, .session = session};
	tgt_reactor_send(reactor, &call->message);
	return true;
}

/* -- logins ----------------------------------------------------------------------------------- */

bool tgt_reactor_login(struct tgt_reactor *reactor, struct fab_request *request,
		       const struct tgt_origin *origin, const void *private_data, size_t private_bytes, struct tgt_lease *lease)
{
	struct tgt_login *login = calloc(1, sizeof(*login));

	if (!login) {
		tgt_lease_put(lease);
		return false;
	}
	login->message.run = tgt_login_begin;
	login->request = request;
	login->origin = *origin;
	login->lease = lease;
	/* Connection managers pad with zeroes: bytes beyond the login are ignored. */
	login->bytes = private_bytes < sizeof(login->wire) ? private_bytes : sizeof(login->wire);
	if (login->bytes)
		memcpy(&login->wire, private_data, login->bytes);
	tgt_reactor_send(reactor, &login->message);
	return true;
}

void tgt_reactor_login_denied(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	reactor->loop.logins[TGT_LOGIN_DENIED]++;
}

void tgt_reactor_login_malformed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	reactor->loop.logins[TGT_LOGIN_MALFORMED]++;
}
