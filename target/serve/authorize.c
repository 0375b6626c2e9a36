/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rules applied to sessions. A session may do what each of its connections may do, so that a
 * connection from elsewhere that joins it by its id gains nothing.
 */
#include "target/serve/authorize.h"

#include <errno.h>
#include <string.h>
#include "proto/wire/wire_names.h"
#include "target/base/daemon_event.h"
#include "target/base/log.h"
#include "target/io/request.h"
#include "target/serve/event.h"
#include "target/serve/queue.h"
#include "target/serve/remote_queue.h"
#include "target/serve/sessions.h"

#define LOST_RIGHT "the access rules do not allow it any more"

/* All its connections come from where one may, by tgt_rules_let_in() or tgt_rules_let_prove(). */
static bool admit_all(const struct tgt_session *session, const struct tgt_rules *rules,
		      bool (*let)(const struct tgt_rules *rules, const struct tgt_origin *origin, uint32_t *why))
{
	uint32_t why;

	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (!tgt_queue_slot_empty(&session->slots[i]) && !let(rules, &session->slots[i].origin, &why))
			return false;
	return true;
}

/* The session has proven all that its name needs by these rules. */
static bool admit_proven(const struct tgt_session *session, const struct tgt_rules *rules)
{
	const struct rblk_secrets *secrets =
		session->named ? tgt_rules_secrets(rules, session->initiator) : NULL;

	if (!rules)
		return true;
	if (!session->proven)
		return !secrets;
	return rblk_secrets_has(secrets, session->secret_id) && admit_all(session, rules, tgt_rules_let_prove);
}

static enum tgt_right handle_need(const struct tgt_handle *handle)
{
	return handle->access.read_only ? TGT_RIGHT_READ : TGT_RIGHT_WRITE;
}

/* -- what a session may do --------------------------------------------------------------------- */

/* Does the slot count? While the session has no connection, those count that it had. */
static bool slot_counts(const struct tgt_session *session, const struct tgt_queue_slot *slot)
{
	if (tgt_session_is_connected(session))
		return !tgt_queue_slot_empty(slot);
	return slot->incarnation != 0;
}

/* The rules as they are for a session: for each place that its connections come from, found once for all volumes. */
struct admission {
	unsigned int count;
	struct tgt_ruling rulings[RBLK_QUEUES_MAX];
};

static bool is_known(const struct tgt_session *session, unsigned int slot)
{
	for (unsigned int i = 0; i < slot; i++)
		if (slot_counts(session, &session->slots[i]) &&
		    !memcmp(&session->slots[i].origin, &session->slots[slot].origin, sizeof(struct tgt_origin)))
			return true;
	return false;
}

/* From there; NULL: from where its connections are. */
static void admission_begin(struct admission *admission, const struct tgt_session *session,
			    const struct tgt_rules *rules, const struct tgt_origin *origin)
{
	const struct tgt_who who = tgt_session_who(session);

	admission->count = 0;
	if (origin) {
		tgt_rules_judge(rules, origin, &who, &admission->rulings[admission->count++]);
		return;
	}
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (slot_counts(session, &session->slots[i]) && !is_known(session, i))
			tgt_rules_judge(rules, &session->slots[i].origin, &who,
					&admission->rulings[admission->count++]);
}

/* *why: as for tgt_ruling_right(). */
static enum tgt_right admission_right(const struct admission *admission, const char *volume, uint32_t *why)
{
	enum tgt_right least = TGT_RIGHT_WRITE, right;
	uint32_t one;

	for (unsigned int i = 0; i < admission->count; i++) {
		right = tgt_ruling_right(&admission->rulings[i], volume, &one);
		if (right >= least)
			continue;
		least = right;
		*why = one;
	}
	return least;
}

/* An open volume that the session may not use from there (NULL: from where its connections are);
 * NULL: there is none. */
static const struct tgt_volume *admit_lost(const struct tgt_session *session,
					   const struct tgt_rules *rules,
					   const struct tgt_origin *origin)
{
	const struct tgt_handle *handle;
	struct admission admission;
	uint32_t why;

	admission_begin(&admission, session, rules, origin);
	tgt_session_each_handle(handle, session) {
		const struct tgt_volume *volume = tgt_handle_volume(handle);

		if (!volume)
			continue;
		if (admission_right(&admission, volume->config.name, &why) < handle_need(handle))
			return volume;
	}
	return NULL;
}

bool tgt_authorize_login(const struct tgt_origin *origin, const struct tgt_reactor *reactor,
		     const struct tgt_session *session, uint32_t *why)
{
	struct tgt_rules *rules = tgt_reactor_rules(reactor);
	bool may = tgt_rules_let_in(rules, origin, why);

	if (may && session && session->proven)
		may = tgt_rules_let_prove(rules, origin, why);
	if (may && session && admit_lost(session, rules, origin)) {
		*why = RBLK_DENIED_RULES;
		may = false;
	}
	tgt_rules_put(rules);
	return may;
}

enum rblk_status tgt_authorize_deny(struct tgt_request *request, const char *what, const char *volume,
				    const char *initiator, uint32_t why)
{
	const struct tgt_queue *queue = tgt_queue_of(request->io_queue);
	const char *peer = fab_conn_peer(request->io_queue->conn);

	tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_REFUSED,
							  .volume = volume,
							  .initiator = initiator,
							  .address = peer,
							  .error = EACCES},
			 &request->io_queue->loop->log_limit, TGT_LOG_WARNING,
			 "session %u queue %u [%s] %s: %s \"%.63s\" denied: %s", queue->session->number,
			 request->io_queue->index, peer, queue->session->initiator, what, volume ? volume : initiator,
			 rblk_denied_text(why));
	request->io_queue->loop->logins[TGT_LOGIN_DENIED]++;
	request->result = why;
	return RBLK_E_DENIED;
}

enum tgt_right tgt_authorize_open(const struct tgt_session *session, struct tgt_request *request,
			      const char *volume)
{
	struct tgt_rules *rules = tgt_reactor_rules(session->reactor);
	uint32_t why = RBLK_DENIED_UNSAID;
	struct admission admission;
	enum tgt_right right;

	admission_begin(&admission, session, rules, NULL);
	right = admission_right(&admission, volume, &why);
	tgt_rules_put(rules);
	if (right >= TGT_RIGHT_READ)
		return right;
	tgt_authorize_deny(request, "OPEN of volume", volume, session->initiator, why);
	return TGT_RIGHT_NONE;
}

unsigned int tgt_authorize_list(const struct tgt_session *session, unsigned int first,
			    struct tgt_volume **list, unsigned int max, unsigned int *total)
{
	struct tgt_rules *rules = tgt_reactor_rules(session->reactor);
	struct tgt_volume *page[RBLK_LIST_MAX];
	unsigned int index = 0, found = 0, count, all;
	struct admission admission;
	uint32_t why;

	*total = 0;
	admission_begin(&admission, session, rules, NULL);
	do {
		count = tgt_volume_list(session->reactor->registry, index, page, RBLK_LIST_MAX, &all);
		for (unsigned int i = 0; i < count; i++) {
			bool shown = admission_right(&admission, page[i]->config.name, &why) >= TGT_RIGHT_SEE;

			if (shown && (*total)++ >= first && found < max)
				list[found++] = page[i];
			else
				tgt_volume_put(page[i]);
		}
		index += count;
	} while (count == RBLK_LIST_MAX);
	tgt_rules_put(rules);
	return found;
}

bool tgt_authorize_name(const struct tgt_session *session, struct tgt_request *request,
		    const char name[RBLK_NAME_BYTES])
{
	struct tgt_rules *rules = tgt_reactor_rules(session->reactor);
	const struct fab_channel *channel;
	uint32_t why = RBLK_DENIED_UNSAID;
	struct fab_channel room;

	channel = fab_conn_channel(request->io_queue->conn, &room);
	if (session->proven || (channel && strcmp(channel->initiator, name) != 0))
		why = RBLK_DENIED_NAME;
	else if (tgt_rules_secrets(rules, name))
		why = RBLK_DENIED_UNPROVEN;
	tgt_rules_put(rules);
	if (why)
		tgt_authorize_deny(request, "the name", NULL, name, why);
	return !why;
}

static void admit_end(struct tgt_session *session, const struct tgt_volume *volume)
{
	tgt_log_limited(&session->reactor->loop.log_limit, TGT_LOG_WARNING,
			"session %u [%s] %s: ended: %s: %s%s", session->number, session->peer,
			session->initiator, LOST_RIGHT,
			volume ? "volume " : "its address or secret, or that it came without TLS",
			volume ? volume->config.name : "");
	/* Ended whole, so that the initiator has to open what it may still use. */
	tgt_session_end(session, LOST_RIGHT);
}

void tgt_authorize_again(struct tgt_session *session)
{
	struct tgt_rules *rules = tgt_reactor_rules(session->reactor);
	const struct tgt_volume *volume = admit_lost(session, rules, NULL);

	tgt_rules_put(rules);
	if (volume && !session->ending)
		admit_end(session, volume);
}

void tgt_authorize_check(struct tgt_handle *handle, enum tgt_right right)
{
	bool unrestricted = handle->restricted && right >= TGT_RIGHT_WRITE;

	/* Once: whoever does not open it again is not told with each reload. */
	if (unrestricted && !handle->unrestricted)
		tgt_event_volume(handle, false);
	handle->unrestricted = unrestricted;
}

static void admit_check_all(struct tgt_session *session, const struct tgt_rules *rules)
{
	struct admission admission;
	struct tgt_handle *handle;
	uint32_t why;

	admission_begin(&admission, session, rules, NULL);
	tgt_session_each_handle(handle, session)
		if (handle->restricted && handle->access.channel && !handle->closing)
			tgt_authorize_check(handle,
					    admission_right(&admission, tgt_handle_volume(handle)->config.name, &why));
}

void tgt_authorize_changed(struct tgt_reactor *reactor)
{
	struct tgt_rules *rules = tgt_reactor_rules(reactor);
	struct tgt_session *session, *following;

	TAILQ_FOREACH_SAFE(session, &reactor->sessions, link, following) {
		const struct tgt_volume *volume;

		/* A remote session ends with its home. */
		if (session->home || session->ending)
			continue;
		volume = admit_lost(session, rules, NULL);
		if (volume || !admit_all(session, rules, tgt_rules_let_in) || !admit_proven(session, rules))
			admit_end(session, volume);
		else
			admit_check_all(session, rules);
	}
	tgt_rules_put(rules);
}
