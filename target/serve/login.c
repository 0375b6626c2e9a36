/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Logins: carries out what core/login decides. A login that an older incarnation or epoch blocks
 * waits here, unanswered, until that has ended with all its storage I/O (F5).
 */
#include "target/serve/login.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/login.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "target/serve/admin.h"
#include "target/serve/device.h"
#include "target/serve/event.h"
#include "target/serve/host.h"
#include "target/serve/keepalive.h"
#include "target/serve/measure.h"
#include "target/serve/placed.h"
#include "target/serve/queue.h"
#include "target/serve/sessions.h"

/* One per login that is not answered yet; freed when it is. Owns request and lease, uses host. */
struct tgt_login {
	TAILQ_ENTRY(tgt_login) link; /* reactor->logins */
	struct fab_request *request;
	struct tgt_lease *lease;
	struct tgt_host *host;
	struct rblk_wire_login wire;
	uint64_t begun_ns;
	char peer[80];
};

static struct tgt_fabric *login_fabric(struct tgt_reactor *reactor, struct fab_request *request)
{
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		if (fab_kind_of(reactor->fabrics[i].fab) == fab_request_kind(request))
			return &reactor->fabrics[i];
	return NULL;
}

/* -- answers ----------------------------------------------------------------------------------- */

static void reject_fill(struct rblk_wire_reject *reject, enum rblk_reject_reason reason,
			uint32_t detail)
{
	memset(reject, 0, sizeof(*reject));
	reject->magic = rblk_to_le32(RBLK_MAGIC);
	reject->version = rblk_to_le16(RBLK_PROTOCOL_VERSION);
	reject->reason = rblk_to_le16((uint16_t)reason);
	reject->detail = rblk_to_le32(detail);
}

static void login_reject(struct tgt_reactor *reactor, struct fab_request *request,
			 enum rblk_reject_reason reason, uint32_t detail, const char *why)
{
	struct rblk_wire_reject reject;
	char peer[80];

	fab_format_address(fab_request_peer(request), peer, sizeof(peer));
	tgt_log_limited(&reactor->turn.log_limit, TGT_LOG_WARNING, "login from %s: refused: %s", peer,
			why ? why : rblk_reject_text((uint16_t)reason));
	reject_fill(&reject, reason, detail);
	if (reason == RBLK_REJECT_NO_CREDITS || reason == RBLK_REJECT_NO_RESOURCES)
		tgt_keepalive_press(reactor);
	fab_reject(request, &reject, sizeof(reject));
}

/* The option's name says which resource is exhausted. */
static void login_reject_full(const struct tgt_login *login, struct tgt_reactor *reactor, bool full,
			      unsigned int most, const char *of_what)
{
	char why[128];

	snprintf(why, sizeof(why),
		 full ? "all %u %s of reactor %u are in use (its share of --%s)"
		      : "the last of %u %s of reactor %u (its share of --%s) are for other hosts",
		 most, of_what, reactor->index, of_what);
	login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, why);
}

/* failed: the fabric with the error; NULL: it has been logged already. */
static void login_reject_device(const struct tgt_login *login, struct tgt_reactor *reactor,
				const struct tgt_fabric *failed)
{
	char why[64 + FAB_ERROR_BYTES];

	snprintf(why, sizeof(why), "its device cannot be used%s%s", failed ? ": " : "",
		 failed ? fab_error(failed->fab) : "");
	login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, why);
}

static void login_accept_fill(const struct tgt_queue *queue, struct rblk_wire_accept *accept)
{
	const struct tgt_reactor *reactor = queue->session->reactor;

	memset(accept, 0, sizeof(*accept));
	accept->magic = rblk_to_le32(RBLK_MAGIC);
	accept->version = rblk_to_le16(RBLK_PROTOCOL_VERSION);
	accept->credits = rblk_to_le16(queue->lane.credits);
	accept->incarnation = rblk_to_le32(queue->incarnation);
	accept->features = rblk_to_le32(queue->lane.features);
	memcpy(accept->target_instance, tgt_registry_instance(reactor->registry),
	       sizeof(accept->target_instance));
	accept->session_epoch = rblk_to_le64(queue->session->epoch);
	accept->command_bytes = rblk_to_le32(queue->lane.command_bytes);
	accept->max_io_bytes = rblk_to_le32(reactor->turn.max_io_bytes);
	accept->keepalive_ms = rblk_to_le32(reactor->config.keepalive_ms);
	accept->max_batch = rblk_to_le16(RBLK_BATCH_MAX);
}

/* The connection exists, but the answer could not be sent. */
static void login_failed(const struct tgt_login *login, struct tgt_queue *queue)
{
	tgt_log_limited(&queue->lane.turn->log_limit, TGT_LOG_WARNING, "login from %s: failed: %s",
			login->peer, fab_error(queue->fabric->fab));
	tgt_queue_close(queue, NULL);
}

/* The result owns request and lease from now on. NULL: no memory. */
static struct tgt_login *login_create(struct tgt_reactor *reactor, struct fab_request *request,
				      const struct rblk_wire_login *wire, struct tgt_lease *lease)
{
	struct tgt_login *login = calloc(1, sizeof(*login));

	if (!login)
		return NULL;
	login->host = tgt_host_get(reactor, fab_request_peer(request));
	if (!login->host) {
		free(login);
		return NULL;
	}
	login->request = request;
	login->lease = lease;
	login->wire = *wire;
	login->begun_ns = reactor->turn.now_ns;
	fab_format_address(fab_request_peer(request), login->peer, sizeof(login->peer));
	return login;
}

static void login_free(struct tgt_reactor *reactor, struct tgt_login *login)
{
	tgt_lease_put(login->lease);
	tgt_host_put(reactor, login->host);
	free(login);
}

/* -- accepting --------------------------------------------------------------------------------- */

/*
 * C5: a login of another queue leaves room for one queue 0 while a session is without its own. Else
 * two sessions could hold all there is by other queues, and refuse each other's queue 0 forever.
 */
static bool login_leaves_room(const struct tgt_reactor *reactor, const struct tgt_login *login)
{
	const struct tgt_session *session;

	if (rblk_le16(login->wire.queue_index) == 0)
		return false;
	TAILQ_FOREACH(session, &reactor->sessions, link)
		if (!session->home && !session->places[0].queue)
			return true;
	return false;
}

/* The terms of an ordinary queue. Credits 0: there are none. */
static void login_terms(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
			struct tgt_device *device, const struct tgt_session *session,
			const struct tgt_login *login, struct tgt_queue_terms *terms)
{
	const struct tgt_receives *receives = &device->receives;
	struct core_login_room room = {
		.total = receives->most,
		.free = receives->most - receives->promised,
		.held = session->share.host->credits,
		.places = reactor->queues_max - reactor->queue_count,
		.most = reactor->config.credits,
	};
	uint16_t wanted = rblk_le16(login->wire.credits);

	/* C5: this queue's own place, or the one that it leaves to a queue 0. */
	if (login_leaves_room(reactor, login))
		room.kept = RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS;
	terms->ops = &tgt_admin_lane_ops;
	terms->lane.command_bytes = TGT_COMMAND_BYTES;
	terms->lane.credits = core_login_credits(wanted, &room);
	if (!terms->lane.credits)
		return;
	/* Memory may be short of what the limit allows. */
	room.free = tgt_device_remaining(reactor, fabric, device,
					 terms->lane.credits + RBLK_RESERVED_TAGS + room.kept);
	if (room.free < terms->lane.credits + RBLK_RESERVED_TAGS + room.kept)
		terms->lane.credits = core_login_credits(wanted, &room);
	terms->lane.credits =
		tgt_lane_ring_credits(reactor->reserve, terms->lane.credits, room.places - 1);
}

/* The queue exists: answer the request. */
static void login_establish(struct tgt_login *login, struct tgt_queue *queue)
{
	struct tgt_session *session = queue->session;
	struct rblk_wire_accept accept;

	login_accept_fill(queue, &accept);
	if (fab_conn_establish(queue->lane.conn, &accept, sizeof(accept))) {
		login_failed(login, queue);
		return;
	}
	if (queue->lane.index == 0) {
		memcpy(session->peer, login->peer, sizeof(session->peer));
		tgt_event_restart(session);
	}
	tgt_log_limited(&session->reactor->turn.chat_limit, TGT_LOG_DEBUG,
			"session %u queue %u [%s]: incarnation %u, %u credits on reactor %u",
			session->number, queue->lane.index, login->peer, queue->incarnation,
			queue->lane.credits, session->reactor->index);
}

/* Connects the queue in its session, which may begin with it. Answers the request in every case. */
static void login_accept(struct tgt_login *login, struct tgt_session *session, bool begins,
			 struct tgt_fabric *fabric, struct tgt_device *device, uint32_t features)
{
	struct tgt_reactor *reactor = session->reactor;
	struct tgt_queue_terms terms = {
		.lane.index = rblk_le16(login->wire.queue_index),
		.lane.features = features,
		.lane.reply_bytes = rblk_le32(login->wire.reply_bytes),
		.incarnation = rblk_le32(login->wire.incarnation),
	};
	struct rblk_wire_reject reject;
	struct tgt_queue *queue = NULL;
	unsigned int used;
	int err;

	used = reactor->queue_count + login_leaves_room(reactor, login);
	/* A queue 0 that connects again takes the place that was kept for it. */
	if (used >= reactor->queues_max ||
	    ((begins || terms.lane.index) &&
	     !tgt_host_may_take(session->host->queues, used, reactor->queues_max))) {
		login_reject_full(login, reactor, used >= reactor->queues_max, reactor->queues_max,
				  "connections");
		return;
	}
	if (session->measuring)
		tgt_measure_terms(reactor, rblk_le16(login->wire.credits), &terms);
	else
		login_terms(reactor, fabric, device, session, login, &terms);
	if (!terms.lane.credits) {
		login_reject(reactor, login->request, RBLK_REJECT_NO_CREDITS, 0, NULL);
		return;
	}
	if (session->measuring)
		err = tgt_measure_create(session, fabric, device, login->request, &terms, &queue);
	else
		err = tgt_queue_create(session, fabric, device, login->request, &terms, &queue);
	if (!err) {
		login_establish(login, queue);
	} else if (queue) {
		reject_fill(&reject, RBLK_REJECT_NO_RESOURCES, 0);
		fab_conn_refuse(queue->lane.conn, &reject, sizeof(reject));
		login_failed(login, queue);
	} else {
		login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0,
			     err == -ENOMEM ? "out of memory for a connection"
					    : fab_error(fabric->fab));
	}
}

static bool login_session_fits(const struct tgt_login *login, const struct tgt_reactor *reactor)
{
	return tgt_host_may_take(login->host->sessions, reactor->session_count,
				 reactor->sessions_max);
}

/* A login's first queue of a session that is not here. Answers the request in every case. */
static void login_begin_session(struct tgt_login *login, struct tgt_reactor *reactor,
				struct tgt_fabric *fabric, struct tgt_device *device,
				uint32_t features)
{
	struct tgt_session *session;

	if (!login_session_fits(login, reactor))
		tgt_session_expire(reactor, login->host);
	if (!login_session_fits(login, reactor)) {
		login_reject_full(login, reactor, reactor->session_count >= reactor->sessions_max,
				  reactor->sessions_max, "sessions");
		return;
	}
	session = tgt_session_create(reactor, &login->wire, login->lease, login->host);
	if (!session) {
		login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
		return;
	}
	session->measuring = features & RBLK_FEATURE_SCRATCH;
	login_accept(login, session, true, fabric, device, features);
	if (!session->queues_here)
		tgt_session_end(session, NULL);
}

/* -- on another reactor ------------------------------------------------------------------------ */

/* The reactor with the fewest connections, this one if it is one of them; a session's queue 0, and
 * queues that measure, stay here. */
static struct tgt_reactor *login_choose(struct tgt_reactor *reactor, const struct tgt_login *login,
					const struct tgt_session *session)
{
	struct tgt_peers *peers = reactor->peers;
	unsigned int count = peers ? atomic_load(&peers->count) : 0;
	struct tgt_reactor *best = reactor;

	if (rblk_le16(login->wire.queue_index) == 0 || session->measuring)
		return reactor;
	for (unsigned int i = 0; i < count; i++)
		if (atomic_load(&peers->reactors[i]->load) < atomic_load(&best->load))
			best = peers->reactors[i];
	return best;
}

/* This reactor's struct for the device, and the fabric. NULL: refused. */
static struct tgt_device *login_device(struct tgt_reactor *reactor, const struct tgt_login *login,
				       struct tgt_fabric **fabric)
{
	struct fab_device *fab_device = NULL;
	struct tgt_device *device = NULL;

	*fabric = login_fabric(reactor, login->request);
	if (*fabric)
		fab_device = fab_request_device((*fabric)->fab, login->request);
	if (fab_device)
		device = tgt_device_get(reactor, *fabric, fab_device);
	if (!device)
		login_reject_device(login, reactor, *fabric && !fab_device ? *fabric : NULL);
	return device;
}

/* Runs on the other reactor. Answers the request in every case. */
static void login_arrive(struct tgt_reactor *reactor, struct tgt_letter *letter)
{
	struct tgt_placed *placed = (struct tgt_placed *)letter;
	struct tgt_login *login = login_create(reactor, placed->request, &placed->wire, NULL);
	struct tgt_session *part = NULL;
	struct tgt_device *device;
	struct tgt_fabric *fabric;

	/* Before it is answered, so that the initiator's next login counts it exactly once. */
	atomic_fetch_sub(&reactor->load, 1);
	if (!login) {
		login_reject(reactor, placed->request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
	} else if (reactor->turn.draining) {
		login_reject(reactor, placed->request, RBLK_REJECT_DRAINING, 0, NULL);
	} else if ((device = login_device(reactor, login, &fabric))) {
		part = tgt_session_part(reactor, placed, login->host);
		if (part)
			login_accept(login, part, false, fabric, device, placed->features);
		else
			login_reject(reactor, placed->request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
	}
	if (login)
		login_free(reactor, login);
	if (part && part->places[placed->index].queue) {
		placed->accepted = true;
		part->places[placed->index].queue->placed = placed;
	} else {
		tgt_session_part_ended(part, placed);
	}
}

/* False: the queue is to be accepted here. Otherwise the request is answered, now or there. */
static bool login_place(struct tgt_login *login, struct tgt_session *session, uint32_t features)
{
	struct tgt_reactor *reactor = login_choose(session->reactor, login, session);
	struct tgt_placed *placed;

	if (reactor == session->reactor)
		return false;
	placed = tgt_placed_create(session, reactor, login->request, &login->wire);
	if (!placed) {
		login_reject(session->reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
		return true;
	}
	placed->features = features;
	placed->letter.read = login_arrive;
	placed->back = tgt_session_queue_back;
	tgt_placed_send(placed);
	return true;
}

/* -- deciding ---------------------------------------------------------------------------------- */

/* What this target grants on that device. */
static uint32_t login_features(const struct tgt_reactor *reactor, const struct fab_device *device)
{
	const struct fab_limits *limits = fab_device_limits(device);

	return RBLK_FEATURE_DIGEST | RBLK_FEATURE_EVENTS | RBLK_FEATURE_EXTENTS |
	       (limits->immediate ? RBLK_FEATURE_IMMEDIATE : 0) |
	       (limits->invalidate ? RBLK_FEATURE_INVALIDATE : 0) |
	       (reactor->config.allow_scratch ? RBLK_FEATURE_SCRATCH : 0);
}

static struct core_login_verdict login_judge(const struct tgt_login *login,
					     struct tgt_reactor *reactor,
					     const struct fab_device *device,
					     const struct tgt_session *session)
{
	uint16_t index = rblk_le16(login->wire.queue_index);
	struct core_login_session view = {.exists = session != NULL};
	struct core_login_limits limits = {
		.draining = reactor->turn.draining,
		.queues_max = (u16)reactor->config.queues_max,
		.features = login_features(reactor, device),
	};

	if (session) {
		view.epoch = session->epoch;
		view.queue_count = session->queue_count;
		view.measuring = session->measuring;
		view.incarnation = session->places[index].incarnation;
		view.queue_here = !tgt_place_empty(&session->places[index]);
	}
	return core_login_judge(&login->wire, &view, &limits);
}

/* True: answered. False: an older incarnation or epoch has to end first; that has begun. */
static bool login_try(struct tgt_reactor *reactor, struct tgt_login *login)
{
	struct tgt_session *session = tgt_session_find(reactor, login->wire.session_id);
	struct core_login_verdict verdict;
	struct tgt_fabric *fabric;
	struct tgt_device *device = login_device(reactor, login, &fabric);

	if (!device)
		return true;
	if (session && session->ending)
		return false;
	verdict = login_judge(login, reactor, device->device, session);
	switch (verdict.action) {
	case CORE_LOGIN_ACCEPT:
		if (!login_place(login, session, verdict.features))
			login_accept(login, session, false, fabric, device, verdict.features);
		return true;
	case CORE_LOGIN_CREATE:
		login_begin_session(login, reactor, fabric, device, verdict.features);
		return true;
	case CORE_LOGIN_REJECT:
		login_reject(reactor, login->request, verdict.reason, verdict.detail, NULL);
		return true;
	case CORE_LOGIN_FENCE:
		tgt_place_close(&session->places[rblk_le16(login->wire.queue_index)],
				"replaced by a newer incarnation");
		return false;
	case CORE_LOGIN_FORGET:
		tgt_session_end(session, "the initiator restarted the session");
		/* One without queues has ended at once. */
		reactor->rejudge = true;
		return false;
	case CORE_LOGIN_WAIT:
		break;
	}
	return false;
}

static enum rblk_reject_reason login_malformed(enum rblk_wire_error error, uint32_t *detail)
{
	*detail = 0;
	if (error != RBLK_WIRE_VERSION)
		return RBLK_REJECT_MALFORMED;
	*detail = RBLK_PROTOCOL_VERSION;
	return RBLK_REJECT_VERSION;
}

/* -- waiting ----------------------------------------------------------------------------------- */

static void login_remove(struct tgt_reactor *reactor, struct tgt_login *login)
{
	TAILQ_REMOVE(&reactor->logins, login, link);
	reactor->login_count--;
	login->host->logins--;
	login_free(reactor, login);
}

/* Only the newest login of a queue waits: its initiator has given up the others. */
static void login_supersede(struct tgt_reactor *reactor, const struct tgt_login *newer)
{
	struct tgt_login *login, *following;
	struct core_login_verdict verdict;

	for (login = TAILQ_FIRST(&reactor->logins); login; login = following) {
		following = TAILQ_NEXT(login, link);
		if (memcmp(login->wire.session_id, newer->wire.session_id,
			   sizeof(login->wire.session_id)) ||
		    login->wire.queue_index != newer->wire.queue_index)
			continue;
		verdict = core_login_supersede(&newer->wire, &login->wire);
		if (verdict.action != CORE_LOGIN_REJECT)
			continue;
		login_reject(reactor, login->request, verdict.reason, verdict.detail,
			     "a newer login of the same queue has arrived");
		login_remove(reactor, login);
	}
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
	login_reject(reactor, victim->request, RBLK_REJECT_NO_RESOURCES, 0,
		     "too many logins of this host wait for older connections to end");
	login_remove(reactor, victim);
	return true;
}

void tgt_login_begin(struct tgt_reactor *reactor, struct fab_request *request,
		     const struct rblk_wire_login *wire, size_t bytes, struct tgt_lease *lease)
{
	enum rblk_wire_error error = rblk_check_login(wire, bytes);
	struct tgt_login *login;
	uint32_t detail;

	if (error) {
		enum rblk_reject_reason reason = login_malformed(error, &detail);

		login_reject(reactor, request, reason, detail, rblk_wire_error_text(error));
		tgt_lease_put(lease);
		return;
	}
	login = login_create(reactor, request, wire, lease);
	if (!login) {
		login_reject(reactor, request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
		tgt_lease_put(lease);
		return;
	}
	login_supersede(reactor, login);
	if (login_try(reactor, login)) {
		login_free(reactor, login);
		return;
	}
	if (reactor->login_count >= TGT_LOGINS_WAITING_MAX && !login_make_room(reactor, login)) {
		login_reject(reactor, request, RBLK_REJECT_NO_RESOURCES, 0,
			     "too many logins of this host wait for older connections to end");
		login_free(reactor, login);
		return;
	}
	TAILQ_INSERT_TAIL(&reactor->logins, login, link);
	reactor->login_count++;
	login->host->logins++;
	tgt_turn_timer(&reactor->turn, login->begun_ns + TGT_LOGIN_WAIT_NS);
}

void tgt_login_retry(struct tgt_reactor *reactor)
{
	struct tgt_login *login, *following;

	reactor->rejudge = false;
	for (login = TAILQ_FIRST(&reactor->logins); login; login = following) {
		following = TAILQ_NEXT(login, link);
		if (login_try(reactor, login))
			login_remove(reactor, login);
	}
}

uint64_t tgt_login_expire(struct tgt_reactor *reactor)
{
	struct tgt_login *login;

	/* The oldest is the first. */
	while ((login = TAILQ_FIRST(&reactor->logins))) {
		if (reactor->turn.now_ns - login->begun_ns < TGT_LOGIN_WAIT_NS)
			return login->begun_ns + TGT_LOGIN_WAIT_NS;
		login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0,
			     "an older connection of its session has not ended in time (is its "
			     "disk stuck?)");
		login_remove(reactor, login);
	}
	return UINT64_MAX;
}

void tgt_login_refuse_all(struct tgt_reactor *reactor)
{
	struct tgt_login *login;

	while ((login = TAILQ_FIRST(&reactor->logins))) {
		login_reject(reactor, login->request, RBLK_REJECT_DRAINING, 0, NULL);
		login_remove(reactor, login);
	}
}
