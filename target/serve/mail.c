/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages to a reactor: what other threads send, and what the reactor does with it at its turn.
 */
#include "target/serve/mail.h"

#include <stdlib.h>
#include <string.h>
#include "target/serve/admit.h"
#include "target/serve/aside.h"
#include "target/serve/census.h"
#include "target/serve/event.h"
#include "target/serve/handle.h"
#include "target/serve/lease.h"
#include "target/serve/letter.h"
#include "target/serve/limits.h"
#include "target/serve/login.h"
#include "target/serve/queue.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/rights.h"
#include "target/serve/session.h"
#include "target/serve/sessions.h"
#include "target/serve/status.h"

/* Read in one turn: a flood of logins leaves room for I/O. */
#define MAIL_BATCH 32u

enum mail_kind {
	MAIL_LOGIN,
	MAIL_VOLUME_REMOVED,
	MAIL_VOLUME_CHANGED,
	MAIL_RIGHTS_CHANGED,
	MAIL_LIST_CHANGED,
	MAIL_RULES_CHANGED,
	MAIL_CUT,
	MAIL_FORGET,
	MAIL_KICK,
	MAIL_CHECK_DEVICES,
	MAIL_STATUS,
	MAIL_CENSUS,
	MAIL_ASK,
	MAIL_DRAIN
};

/* Made by the sender, freed by the reactor. */
struct reactor_mail {
	struct tgt_letter head; /* first; not counted as a letter of a reactor */
	enum mail_kind kind;
	struct tgt_volume *volume; /* VOLUME_, RIGHTS_: a reference; CUT, FORGET: likewise, or NULL */
	struct tgt_census_ask *ask; /* CENSUS */
	unsigned int session;	    /* KICK: its number */
	struct fab_request *request;
	struct tgt_lease *lease;
	struct tgt_origin origin;
	size_t bytes;
	struct rblk_wire_login login;
};

static void reactor_list_changed(struct tgt_reactor *reactor)
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link) {
		if (session->home)
			continue;
		session->events.list_changed = true;
		tgt_event_kick(session);
	}
}

/* Ends sessions' connections, or their state, too, as the fault says. */
static void reactor_fault(struct tgt_reactor *reactor, const struct reactor_mail *mail)
{
	struct tgt_session *session, *following;

	for (session = TAILQ_FIRST(&reactor->sessions); session; session = following) {
		following = TAILQ_NEXT(session, link);
		/* The home ends its parts; it may still place queues there. */
		if (session->ending || (session->home && mail->kind == MAIL_FORGET) ||
		    (mail->volume && !tgt_handle_session_uses(session, mail->volume)))
			continue;
		if (mail->kind == MAIL_FORGET) {
			tgt_session_end(session, "a fault was asked for");
			continue;
		}
		for (uint16_t i = 0; i < session->queue_count; i++)
			if (session->places[i].queue)
				tgt_queue_close(session->places[i].queue, "a fault was asked for");
	}
	if (mail->volume)
		tgt_volume_put(mail->volume);
}

/* Its parts end with it. */
static void reactor_kick(struct tgt_reactor *reactor, unsigned int number)
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link) {
		if (session->home || session->number != number || session->ending)
			continue;
		tgt_session_end(session, "kicked by rblkctl");
		return;
	}
}

void tgt_mail_begin_drain(struct tgt_reactor *reactor)
{
	struct tgt_session *session;

	if (reactor->turn.draining)
		return;
	reactor->turn.draining = true;
	reactor->drain_until_ns = reactor->turn.now_ns + (uint64_t)reactor->config.drain_ms * 1000000;
	tgt_login_refuse_all(reactor);
	TAILQ_FOREACH(session, &reactor->sessions, link) {
		if (session->home)
			continue;
		session->events.draining = true;
		tgt_event_kick(session);
	}
}

static void reactor_read_mail(struct tgt_reactor *reactor, struct tgt_letter *letter)
{
	struct reactor_mail *mail = (struct reactor_mail *)letter;

	switch (mail->kind) {
	case MAIL_LOGIN:
		tgt_login_begin(reactor, mail->request, &mail->origin, &mail->login, mail->bytes,
				mail->lease);
		break;
	case MAIL_VOLUME_REMOVED:
		tgt_handle_volume_removed(reactor, mail->volume);
		tgt_volume_put(mail->volume);
		break;
	case MAIL_VOLUME_CHANGED:
		tgt_handle_volume_changed(reactor, mail->volume);
		tgt_volume_put(mail->volume);
		break;
	case MAIL_RIGHTS_CHANGED:
		tgt_rights_changed(reactor, mail->volume);
		tgt_volume_put(mail->volume);
		break;
	case MAIL_CUT:
	case MAIL_FORGET:
		reactor_fault(reactor, mail);
		break;
	case MAIL_KICK:
		reactor_kick(reactor, mail->session);
		break;
	case MAIL_LIST_CHANGED:
		reactor_list_changed(reactor);
		break;
	case MAIL_RULES_CHANGED:
		tgt_admit_changed(reactor);
		tgt_limits_changed(reactor);
		reactor_list_changed(reactor);
		break;
	case MAIL_CHECK_DEVICES:
		tgt_aside_check(reactor);
		for (unsigned int i = 0; i < reactor->fabric_count; i++)
			fab_devices_check(reactor->fabrics[i].fab);
		break;
	case MAIL_STATUS:
		tgt_status_log(reactor);
		break;
	case MAIL_CENSUS:
		mail->ask->answer(mail->ask, reactor->index, tgt_census_take(reactor));
		break;
	case MAIL_ASK:
		atomic_fetch_add_explicit(&reactor->answered, 1, memory_order_relaxed);
		break;
	case MAIL_DRAIN:
		tgt_mail_begin_drain(reactor);
		break;
	}
	free(mail);
}

unsigned int tgt_mail_take(struct tgt_reactor *reactor)
{
	struct tgt_mail *mail = tgt_mailbox_take(&reactor->mailbox, MAIL_BATCH);
	unsigned int count = 0;

	while (mail) {
		struct tgt_mail *next = mail->next;

		struct tgt_letter *letter = (struct tgt_letter *)mail;

		if (letter->read == reactor_read_mail)
			reactor_read_mail(reactor, letter);
		else
			tgt_letter_read(reactor, letter);
		mail = next;
		count++;
	}
	return count;
}

static bool reactor_send(struct tgt_reactor *reactor, struct reactor_mail letter)
{
	struct reactor_mail *mail = malloc(sizeof(*mail));

	if (!mail)
		return false;
	*mail = letter;
	mail->head.read = reactor_read_mail;
	tgt_mailbox_send(&reactor->mailbox, &mail->head.mail);
	return true;
}

bool tgt_reactor_login(struct tgt_reactor *reactor, struct fab_request *request,
		       const struct tgt_origin *origin, const void *private_data, size_t private_bytes, struct tgt_lease *lease)
{
	struct reactor_mail mail = {
		.kind = MAIL_LOGIN, .request = request, .origin = *origin, .lease = lease};

	/* Connection managers pad with zeroes: bytes beyond the login are ignored. */
	mail.bytes = private_bytes < sizeof(mail.login) ? private_bytes : sizeof(mail.login);
	if (mail.bytes)
		memcpy(&mail.login, private_data, mail.bytes);
	if (reactor_send(reactor, mail))
		return true;
	tgt_lease_put(lease);
	return false;
}

/* Out of memory: the message is lost, and the volume stays open until its handles are closed. */
static void reactor_send_volume(struct tgt_reactor *reactor, enum mail_kind kind,
				struct tgt_volume *volume)
{
	struct reactor_mail mail = {.kind = kind, .volume = volume};

	if (!reactor_send(reactor, mail) && volume)
		tgt_volume_put(volume);
}

void tgt_reactor_volume_removed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	reactor_send_volume(reactor, MAIL_VOLUME_REMOVED, volume);
}

void tgt_reactor_volume_changed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	reactor_send_volume(reactor, MAIL_VOLUME_CHANGED, volume);
}

bool tgt_reactor_rights_changed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	struct reactor_mail mail = {.kind = MAIL_RIGHTS_CHANGED, .volume = tgt_volume_ref(volume)};

	if (reactor_send(reactor, mail))
		return true;
	tgt_volume_put(volume);
	return false;
}

void tgt_reactor_cut(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	reactor_send_volume(reactor, MAIL_CUT, volume);
}

void tgt_reactor_forget(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	reactor_send_volume(reactor, MAIL_FORGET, volume);
}

bool tgt_reactor_kick(struct tgt_reactor *reactor, unsigned int session)
{
	return reactor_send(reactor, (struct reactor_mail){.kind = MAIL_KICK, .session = session});
}

void tgt_reactor_list_changed(struct tgt_reactor *reactor)
{
	reactor_send(reactor, (struct reactor_mail){.kind = MAIL_LIST_CHANGED});
}

bool tgt_reactor_rules_changed(struct tgt_reactor *reactor)
{
	return reactor_send(reactor, (struct reactor_mail){.kind = MAIL_RULES_CHANGED});
}

void tgt_reactor_check_devices(struct tgt_reactor *reactor)
{
	reactor_send(reactor, (struct reactor_mail){.kind = MAIL_CHECK_DEVICES});
}

void tgt_reactor_log_status(struct tgt_reactor *reactor)
{
	reactor_send(reactor, (struct reactor_mail){.kind = MAIL_STATUS});
}

bool tgt_reactor_census(struct tgt_reactor *reactor, struct tgt_census_ask *ask)
{
	return reactor_send(reactor, (struct reactor_mail){.kind = MAIL_CENSUS, .ask = ask});
}

void tgt_reactor_ask(struct tgt_reactor *reactor)
{
	/* Without memory for the question it is not asked: the reactor is not at fault. */
	if (reactor_send(reactor, (struct reactor_mail){.kind = MAIL_ASK}))
		reactor->asked++;
}

bool tgt_reactor_answered(const struct tgt_reactor *reactor)
{
	return atomic_load_explicit(&reactor->answered, memory_order_relaxed) == reactor->asked;
}

void tgt_reactor_drain(struct tgt_reactor *reactor)
{
	reactor_send(reactor, (struct reactor_mail){.kind = MAIL_DRAIN});
}
