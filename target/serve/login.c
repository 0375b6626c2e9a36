/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Logins: carries out what core/login decides, here or on another reactor. A login that an older
 * incarnation or epoch blocks waits here, unanswered, until that has ended (F5). login_answer.c answers.
 */
#include "target/serve/login.h"

#include <stdlib.h>
#include "proto/core/login.h"
#include "proto/core/trace.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "target/serve/authorize.h"
#include "target/serve/device.h"
#include "target/serve/handle.h"
#include "target/serve/host.h"
#include "target/serve/queue.h"
#include "target/serve/remote_queue.h"
#include "target/serve/sessions.h"

static struct tgt_fabric *login_fabric(struct tgt_reactor *reactor, struct fab_request *request)
{
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		if (fab_kind_of(reactor->fabrics[i].fab) == fab_request_kind(request))
			return &reactor->fabrics[i];
	return NULL;
}

/* False: no memory. */
static bool login_prepare(struct tgt_reactor *reactor, struct tgt_login *login)
{
	login->host = tgt_host_get(reactor, fab_request_peer(login->request));
	login->begun_ns = reactor->loop.now_ns;
	fab_format_address(fab_request_peer(login->request), login->peer, sizeof(login->peer));
	return login->host;
}

static void login_free(struct tgt_reactor *reactor, struct tgt_login *login)
{
	tgt_lease_put(login->lease);
	if (login->host)
		tgt_host_put(reactor, login->host);
	free(login);
}

/* -- on another reactor ------------------------------------------------------------------------ */

/* The reactor with the fewest connections, this one if it is one of them, or the only one that can; a session's queue 0
 * stays here. */
static struct tgt_reactor *login_choose(struct tgt_reactor *reactor, const struct tgt_login *login)
{
	struct tgt_peers *peers = reactor->peers;
	unsigned int count = peers ? atomic_load(&peers->count) : 0;
	const struct fab *only = fab_request_fab(login->request);
	struct tgt_reactor *best = reactor;

	if (rblk_le16(login->wire.queue_index) == 0 || (only && tgt_reactor_has_fab(reactor, only)))
		return reactor;
	for (unsigned int i = 0; only && i < count; i++)
		if (tgt_reactor_has_fab(peers->reactors[i], only))
			return peers->reactors[i];
	for (unsigned int i = 0; i < count; i++)
		if (atomic_load(&peers->reactors[i]->load) < atomic_load(&best->load))
			best = peers->reactors[i];
	return best;
}

/* Finds this reactor's structs of its fabric and its device. False: refused. */
static bool login_device(struct tgt_reactor *reactor, struct tgt_login *login)
{
	struct fab_device *fab_device = NULL;

	login->fabric = login_fabric(reactor, login->request);
	if (login->fabric)
		fab_device = fab_request_device(login->fabric->fab, login->request);
	login->device = fab_device ? tgt_device_get(reactor, login->fabric, fab_device) : NULL;
	if (!login->device)
		tgt_login_reject_device(login, reactor, fab_device ? NULL : login->fabric);
	return login->device;
}

/* Runs on the other reactor. Answers the request in every case. */
static void login_arrive(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_remote_queue *remote_queue = (struct tgt_remote_queue *)message;
	struct tgt_login *login = &remote_queue->login;
	struct tgt_session *remote = NULL;

	/* Before it is answered, so that the initiator's next login counts it exactly once. */
	atomic_fetch_sub(&reactor->load, 1);
	if (reactor->loop.draining) {
		tgt_login_reject(reactor, login->request, RBLK_REJECT_DRAINING, 0, NULL);
	} else if (!login_prepare(reactor, login)) {
		tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
	} else if (login_device(reactor, login)) {
		remote = tgt_session_remote(reactor, remote_queue, login->host);
		if (remote)
			tgt_login_accept(login, remote, false);
		else
			tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
	}
	if (login->host) {
		tgt_host_put(reactor, login->host);
		login->host = NULL;
	}
	if (remote && remote->slots[remote_queue->index].queue) {
		remote_queue->accepted = true;
		remote->slots[remote_queue->index].queue->remote_queue = remote_queue;
	} else {
		tgt_session_remote_ended(remote, remote_queue);
	}
}

/* False: the queue is to be accepted here. Otherwise the request is answered, now or there. */
static bool login_place(struct tgt_login *login, struct tgt_session *session)
{
	struct tgt_reactor *reactor = login_choose(session->reactor, login);
	struct tgt_remote_queue *remote_queue;

	if (reactor == session->reactor)
		return false;
	remote_queue = tgt_remote_queue_create(session, reactor, login);
	if (!remote_queue) {
		tgt_login_reject(session->reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
		return true;
	}
	session->slots[remote_queue->index].origin = login->origin;
	remote_queue->message.run = login_arrive;
	remote_queue->back = tgt_session_queue_back;
	tgt_remote_queue_send(remote_queue);
	return true;
}

/* -- deciding ---------------------------------------------------------------------------------- */

/* The features that this target grants on that device. */
static uint32_t login_features(const struct fab_device *device)
{
	const struct fab_limits *limits = fab_device_limits(device);

	return RBLK_FEATURE_DIGEST | RBLK_FEATURE_EVENTS | RBLK_FEATURE_EXTENTS | RBLK_FEATURE_FENCE_DOMAIN |
	       RBLK_FEATURE_VOLUME_FENCE | RBLK_FEATURE_PRIORITY | RBLK_FEATURE_UNTORN | RBLK_FEATURE_COMPARE_LIMIT |
	       (limits->immediate ? RBLK_FEATURE_IMMEDIATE : 0) |
	       (limits->invalidate ? RBLK_FEATURE_INVALIDATE : 0);
}

/*
 * Was the session sent to another target with a volume that this one gives away, or has given away? Then its login is
 * answered as by a target that ends, so that the initiator asks all its targets until one serves the volume.
 * *returned: this target has given the volume away and serves it again. The session's handles are of the former one, so
 * the session has to end.
 */
static bool session_is_sent_away(struct tgt_session *session, bool *returned)
{
	struct tgt_volume *volume;
	bool away, gone;

	*returned = false;
	if (!session || !session->sent_away[0] || tgt_session_is_connected(session))
		return false;
	volume = tgt_volume_get(session->reactor->registry, session->sent_away);
	gone = tgt_handles_gone(session);
	/* A session without a volume that is gone has stayed, and closed it since. */
	away = volume ? atomic_load(&volume->leaves) : gone;
	if (volume) {
		*returned = !away && gone && !tgt_handle_session_uses(session, volume);
		tgt_volume_put(volume);
	}
	if (!away)
		session->sent_away[0] = 0;
	return away;
}

static struct core_login_verdict login_judge(const struct tgt_login *login,
					     struct tgt_reactor *reactor,
					     const struct tgt_session *session, bool away)
{
	uint16_t index = rblk_le16(login->wire.queue_index);
	struct core_login_session view = {.exists = session != NULL};
	struct core_login_limits limits = {
		.draining = reactor->loop.draining || away,
		.queues_max = (u16)reactor->config.queues_max,
		.features = login_features(login->device->device),
	};
	struct core_login_verdict verdict;

	if (session) {
		view.epoch = session->epoch;
		view.queue_count = session->queue_count;
		view.incarnation = session->slots[index].incarnation;
		view.queue_here = !tgt_queue_slot_empty(&session->slots[index]);
		view.lingers = !TAILQ_EMPTY(&session->slots[index].lingering);
		view.ending = session->ending;
		view.may_follow = tgt_session_may_follow(session);
	}
	verdict = core_login_judge(&login->wire, &view, &limits);
	rblk_trace_login(&login->wire, &verdict);
	return verdict;
}

/* True: the access rules do not let it in, and it is answered. */
static bool login_denied(struct tgt_reactor *reactor, const struct tgt_login *login,
			 const struct tgt_session *session)
{
	bool joins = session && !session->ending &&
		     session->epoch == rblk_le64(login->wire.session_epoch);
	uint32_t why;

	if (reactor->loop.draining ||
	    tgt_authorize_login(&login->origin, reactor, joins ? session : NULL, &why))
		return false;
	tgt_login_reject(reactor, login->request, RBLK_REJECT_DENIED, why, rblk_denied_text(why));
	return true;
}

/* A volume that needs no other machines is served. */
static bool serves_own_disks(struct tgt_reactor *reactor)
{
	struct tgt_volume *volume;
	unsigned int total;
	bool own = false;

	for (unsigned int i = 0; !own && tgt_volume_list(reactor->registry, i, &volume, 1, &total); i++) {
		own = !tgt_store_find(volume->config.store)->elsewhere;
		tgt_volume_put(volume);
	}
	return own;
}

/*
 * An initiator whose session is unknown here comes from another target, or from an earlier process of this one.
 * NO_SESSION would make it begin anew here, and give up what it has there. While the cluster of this target's volumes
 * does not answer it could not open them here, so it must not: it is to ask again, there and here. Soon after a start,
 * however, most initiators were here before, and their volumes may be on this machine's own disks.
 */
static bool login_is_too_early(struct tgt_reactor *reactor, const struct tgt_login *login,
			       const struct tgt_session *session, const struct core_login_verdict *verdict)
{
	bool young = reactor->loop.now_ns - reactor->begun_ns < reactor->config.session_ms * 1000000ull;

	return !session && verdict->action == CORE_LOGIN_REJECT && verdict->reason == RBLK_REJECT_NO_SESSION &&
	       !rblk_le16(login->wire.queue_index) && tgt_store_silent() && !(young && serves_own_disks(reactor));
}

/* True: answered. False: an older incarnation or epoch has to end first; that has begun. */
static bool login_try(struct tgt_reactor *reactor, struct tgt_login *login)
{
	struct tgt_session *session = tgt_session_find(reactor, login->wire.session_id);
	struct core_login_verdict verdict;
	bool away, returned;

	if (!login_device(reactor, login) || login_denied(reactor, login, session))
		return true;
	away = session_is_sent_away(session, &returned);
	if (returned) {
		tgt_session_end(session, "its volume was given away, and is here again");
		session = tgt_session_find(reactor, login->wire.session_id);
	}
	verdict = login_judge(login, reactor, session, away);
	if (login_is_too_early(reactor, login, session, &verdict)) {
		tgt_login_reject(reactor, login->request, RBLK_REJECT_DRAINING, 0,
				 "it comes from another target, and the cluster of this one's volumes does not answer");
		return true;
	}
	login->features = verdict.features;
	switch (verdict.action) {
	case CORE_LOGIN_ACCEPT:
		if (!login_place(login, session))
			tgt_login_accept(login, session, false);
		return true;
	case CORE_LOGIN_CREATE:
		tgt_login_begin_session(login, reactor);
		return true;
	case CORE_LOGIN_REJECT:
		tgt_login_reject(reactor, login->request, verdict.reason, verdict.detail,
				 away ? "its volume is given away to another target" : NULL);
		return true;
	case CORE_LOGIN_FENCE:
		tgt_queue_slot_close(&session->slots[rblk_le16(login->wire.queue_index)],
				     "replaced by a newer incarnation");
		return false;
	case CORE_LOGIN_FORGET:
		if (session->ending)
			return false;
		tgt_session_end(session, "the initiator restarted the session");
		/* One without connections has ended at once, or may be followed. */
		reactor->rejudge = true;
		return false;
	case CORE_LOGIN_WAIT:
		break;
	}
	return false;
}

/* -- waiting ----------------------------------------------------------------------------------- */

static void login_remove(struct tgt_reactor *reactor, struct tgt_login *login)
{
	TAILQ_REMOVE(&reactor->logins, login, link);
	reactor->login_count--;
	login->host->logins--;
	login_free(reactor, login);
}

/* Only the newest login of a queue waits: its initiator has given up the others. False: it is one
 * that waits already, and this one is answered. */
static bool login_supersede(struct tgt_reactor *reactor, const struct tgt_login *newer)
{
	struct tgt_login *login, *following;
	struct core_login_verdict verdict;

	TAILQ_FOREACH_SAFE(login, &reactor->logins, link, following) {
		if (memcmp(login->wire.session_id, newer->wire.session_id,
			   sizeof(login->wire.session_id)) ||
		    login->wire.queue_index != newer->wire.queue_index)
			continue;
		verdict = core_login_supersede(&newer->wire, &login->wire);
		if (verdict.action != CORE_LOGIN_REJECT) {
			verdict = core_login_supersede(&login->wire, &newer->wire);
			tgt_login_reject(reactor, newer->request, verdict.reason, verdict.detail,
					 "a newer login of the same queue waits");
			return false;
		}
		tgt_login_reject(reactor, login->request, verdict.reason, verdict.detail,
			     "a newer login of the same queue has arrived");
		login_remove(reactor, login);
	}
	return true;
}

/* The list is full: refuse the last login of the host with the most, unless `newer` is that host's
 * own. */
static bool login_make_room(struct tgt_reactor *reactor, const struct tgt_login *newer)
{
	struct tgt_host *host, *most = newer->host;
	struct tgt_login *victim;

	TAILQ_FOREACH(host, &reactor->hosts, link)
		if (host->logins > most->logins)
			most = host;
	if (most == newer->host)
		return false;
	TAILQ_FOREACH_REVERSE(victim, &reactor->logins, tgt_login_list, link)
		if (victim->host == most)
			break;
	tgt_login_reject(reactor, victim->request, RBLK_REJECT_NO_RESOURCES, 0,
		     "too many logins of this host wait for older connections to end");
	login_remove(reactor, victim);
	return true;
}

/* False: it is answered. */
static bool login_wait(struct tgt_reactor *reactor, struct tgt_login *login)
{
	if (reactor->login_count >= TGT_LOGINS_WAITING_MAX && !login_make_room(reactor, login)) {
		tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0,
			     "too many logins of this host wait for older connections to end");
		return false;
	}
	TAILQ_INSERT_TAIL(&reactor->logins, login, link);
	reactor->login_count++;
	login->host->logins++;
	tgt_loop_timer(&reactor->loop, login->begun_ns + TGT_LOGIN_WAIT_NS);
	return true;
}

void tgt_login_begin(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_login *login = (struct tgt_login *)message;
	enum rblk_wire_error error = rblk_check_login(&login->wire, login->bytes);

	if (error == RBLK_WIRE_VERSION)
		tgt_login_reject(reactor, login->request, RBLK_REJECT_VERSION, RBLK_PROTOCOL_VERSION,
				 rblk_wire_error_text(error));
	else if (error)
		tgt_login_reject(reactor, login->request, RBLK_REJECT_MALFORMED, 0, rblk_wire_error_text(error));
	else if (!login_prepare(reactor, login))
		tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
	else if (login_supersede(reactor, login) && !login_try(reactor, login) && login_wait(reactor, login))
		return;
	login_free(reactor, login);
}

void tgt_login_retry(struct tgt_reactor *reactor)
{
	struct tgt_login *login, *following;

	reactor->rejudge = false;
	TAILQ_FOREACH_SAFE(login, &reactor->logins, link, following)
		if (login_try(reactor, login))
			login_remove(reactor, login);
}

void tgt_login_expire(struct tgt_reactor *reactor)
{
	struct tgt_login *login;

	/* The oldest is the first. */
	while ((login = TAILQ_FIRST(&reactor->logins))) {
		if (reactor->loop.now_ns - login->begun_ns < TGT_LOGIN_WAIT_NS) {
			tgt_loop_timer(&reactor->loop, login->begun_ns + TGT_LOGIN_WAIT_NS);
			return;
		}
		tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0,
			     "an older connection of its session has not ended in time (is its "
			     "disk stuck?)");
		login_remove(reactor, login);
	}
}

void tgt_login_refuse_all(struct tgt_reactor *reactor)
{
	struct tgt_login *login;

	while ((login = TAILQ_FIRST(&reactor->logins))) {
		tgt_login_reject(reactor, login->request, RBLK_REJECT_DRAINING, 0, NULL);
		login_remove(reactor, login);
	}
}
