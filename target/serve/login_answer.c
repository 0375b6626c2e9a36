/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a login is answered: rejected, with a reason and a line in the log, or accepted, with the
 * terms of its queue: credits, memory, features. login.c has decided that it may be.
 */
#include "target/serve/login.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "proto/core/login.h"
#include "proto/wire/wire_names.h"
#include "target/base/daemon_event.h"
#include "target/serve/device.h"
#include "target/serve/event.h"
#include "target/serve/keepalive.h"
#include "target/serve/queue.h"
#include "target/serve/sessions.h"

/* -- answers ----------------------------------------------------------------------------------- */

/* Each reason as it is counted, and its word in the log. */
static const struct {
	enum tgt_login_result result;
	const char *word;
} rejects[] = {
	[RBLK_REJECT_MALFORMED] = {TGT_LOGIN_MALFORMED, "malformed"},
	[RBLK_REJECT_VERSION] = {TGT_LOGIN_MALFORMED, "malformed"},
	[RBLK_REJECT_FEATURES] = {TGT_LOGIN_MALFORMED, "malformed"},
	[RBLK_REJECT_QUEUE_COUNT] = {TGT_LOGIN_FULL, "full"},
	[RBLK_REJECT_NO_SESSION] = {TGT_LOGIN_RETURNED, "returned"},
	[RBLK_REJECT_STALE_EPOCH] = {TGT_LOGIN_STALE, "stale"},
	[RBLK_REJECT_STALE_INCARNATION] = {TGT_LOGIN_STALE, "stale"},
	[RBLK_REJECT_NO_CREDITS] = {TGT_LOGIN_FULL, "full"},
	[RBLK_REJECT_NO_RESOURCES] = {TGT_LOGIN_FULL, "full"},
	[RBLK_REJECT_DRAINING] = {TGT_LOGIN_DRAINING, "draining"},
	[RBLK_REJECT_DENIED] = {TGT_LOGIN_DENIED, "denied"},
};
static_assert(sizeof(rejects) / sizeof(rejects[0]) == RBLK_REJECT_MAX, "every reason is counted");

/* Initiators that come back after a restart, those that come while it lasts, and their own older logins: nothing is wrong. */
static bool login_is_routine(enum tgt_login_result result)
{
	return result == TGT_LOGIN_RETURNED || result == TGT_LOGIN_DRAINING || result == TGT_LOGIN_STALE;
}

/* Says it in the log; what the initiator is told is in `reject`. */
static void reject_fill(struct rblk_wire_reject *reject, const char *peer, struct tgt_log_limit *limit,
			enum rblk_reject_reason reason, uint32_t detail, const char *why)
{
	if (!why)
		why = rblk_reject_text((uint16_t)reason);
	if (login_is_routine(rejects[reason].result))
		tgt_log_limited(limit, TGT_LOG_INFO, "login from %s: %s: %s", peer, rejects[reason].word, why);
	else
		tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = rejects[reason].result == TGT_LOGIN_FULL ?
										TGT_DAEMON_EVENT_FULL :
										TGT_DAEMON_EVENT_REFUSED,
								  .address = peer},
				 limit, TGT_LOG_WARNING, "login from %s: %s: %s", peer, rejects[reason].word, why);
	*reject = (struct rblk_wire_reject){
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.reason = rblk_to_le16((uint16_t)reason),
		.detail = rblk_to_le32(detail),
	};
}

static void login_refuse(struct fab_request *request, struct tgt_log_limit *limit, enum rblk_reject_reason reason,
			 uint32_t detail, const char *why)
{
	struct rblk_wire_reject reject;
	char peer[80];

	fab_format_address(fab_request_peer(request), peer, sizeof(peer));
	reject_fill(&reject, peer, limit, reason, detail, why);
	fab_reject(request, &reject, sizeof(reject));
}

void tgt_login_reject_early(struct fab_request *request, struct tgt_log_limit *limit)
{
	login_refuse(request, limit, RBLK_REJECT_NO_RESOURCES, 0, "out of memory");
}

static void login_count(struct tgt_reactor *reactor, enum rblk_reject_reason reason)
{
	reactor->loop.logins[rejects[reason].result]++;
	/* Connections of hosts that are gone may hold what is missing. */
	if (reason == RBLK_REJECT_NO_CREDITS || reason == RBLK_REJECT_NO_RESOURCES)
		tgt_keepalive_press(reactor);
}

void tgt_login_reject(struct tgt_reactor *reactor, struct fab_request *request,
		      enum rblk_reject_reason reason, uint32_t detail, const char *why)
{
	login_count(reactor, reason);
	login_refuse(request, &reactor->loop.log_limit, reason, detail, why);
}

/* The option's name says which resource is exhausted. */
static void login_reject_full(const struct tgt_login *login, struct tgt_reactor *reactor, unsigned int used,
			      const struct tgt_quota *quota, const char *of_what)
{
	char why[128];

	snprintf(why, sizeof(why),
		 used >= quota->most
		      ? "all %u %s of reactor %u are in use (its share of --%s)"
		      : "the last of %u %s of reactor %u (its share of --%s) are for other hosts",
		 quota->most, of_what, reactor->index, of_what);
	tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, why);
}

void tgt_login_reject_device(const struct tgt_login *login, struct tgt_reactor *reactor,
			     const struct tgt_fabric *failed)
{
	char why[64 + FAB_ERROR_BYTES];

	snprintf(why, sizeof(why), "its device cannot be used%s%s", failed ? ": " : "",
		 failed ? fab_error(failed->fab) : "");
	tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, why);
}

static void login_accept_fill(const struct tgt_queue *queue, struct rblk_wire_accept *accept)
{
	const struct tgt_reactor *reactor = queue->session->reactor;

	memset(accept, 0, sizeof(*accept));
	accept->magic = rblk_to_le32(RBLK_MAGIC);
	accept->version = rblk_to_le16(RBLK_PROTOCOL_VERSION);
	accept->credits = rblk_to_le16(queue->io_queue.credits);
	accept->incarnation = rblk_to_le32(queue->incarnation);
	accept->features = rblk_to_le32(queue->io_queue.features);
	memcpy(accept->target_instance, tgt_registry_instance(reactor->registry),
	       sizeof(accept->target_instance));
	accept->session_epoch = rblk_to_le64(queue->session->epoch);
	accept->command_bytes = rblk_to_le32(queue->io_queue.command_bytes);
	accept->max_io_bytes = rblk_to_le32(reactor->loop.max_io_bytes);
	accept->keepalive_ms = rblk_to_le32(reactor->config.keepalive_ms);
	accept->max_batch = rblk_to_le16(RBLK_BATCH_MAX);
}

void tgt_login_failed(struct tgt_queue *queue, const char *why)
{
	struct tgt_reactor *reactor = queue->session->reactor;
	struct rblk_wire_reject reject;

	login_count(reactor, RBLK_REJECT_NO_RESOURCES);
	reject_fill(&reject, fab_conn_peer(queue->io_queue.conn), &reactor->loop.log_limit, RBLK_REJECT_NO_RESOURCES, 0,
		    why);
	fab_conn_refuse(queue->io_queue.conn, &reject, sizeof(reject));
	tgt_queue_lost(queue, TGT_END_LOST, NULL);
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
		if (!session->home && !session->ending && !session->slots[0].queue)
			return true;
	return false;
}

/* The credits of a queue. 0: there are none. */
static uint16_t login_credits(struct tgt_reactor *reactor, const struct tgt_session *session,
			      const struct tgt_login *login)
{
	const struct tgt_receives *receives = &login->device->receives;
	struct core_login_room room = {
		.total = receives->most,
		.free = receives->most - receives->promised,
		.held = session->share.host->credits,
		.places = reactor->queue_quota.most - reactor->queue_count,
		.most = reactor->config.credits,
	};
	uint16_t wanted = rblk_le16(login->wire.credits), credits;
	uint32_t whole; /* with what goes with them */

	/* C5: this queue's own place, or the one that it leaves to a queue 0. */
	if (login_leaves_room(reactor, login))
		room.kept = RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS;
	credits = core_login_credits(wanted, &room);
	if (!credits)
		return 0;
	/* Memory may be short of what the limit allows. */
	whole = credits + RBLK_RESERVED_TAGS + room.kept;
	room.free = tgt_device_remaining(reactor, login->fabric, login->device, whole);
	if (room.free < whole)
		credits = core_login_credits(wanted, &room);
	return tgt_io_queue_ring_credits(reactor->reserve, credits, room.places - 1);
}

/* The queue exists: answer the request. */
static void login_establish(struct tgt_login *login, struct tgt_queue *queue)
{
	struct tgt_session *session = queue->session;

	login_accept_fill(queue, &queue->accept);
	if (fab_conn_establish(queue->io_queue.conn, &queue->accept, sizeof(queue->accept))) {
		tgt_login_failed(queue, fab_error(queue->fabric->fab));
		return;
	}
	if (queue->io_queue.index == 0) {
		memcpy(session->peer, login->peer, sizeof(session->peer));
		tgt_event_restart(session);
	}
	tgt_log_limited(&session->reactor->loop.chat_limit, TGT_LOG_DEBUG,
			"session %u queue %u [%s]: incarnation %u, %u credits on reactor %u",
			session->number, queue->io_queue.index, login->peer, queue->incarnation,
			queue->io_queue.credits, session->reactor->index);
}

void tgt_login_accept(struct tgt_login *login, struct tgt_session *session, bool begins)
{
	struct tgt_reactor *reactor = session->reactor;
	uint16_t index = rblk_le16(login->wire.queue_index), credits;
	struct tgt_queue_slot *slot = &session->slots[index];
	unsigned int used = reactor->queue_count + login_leaves_room(reactor, login);
	struct tgt_queue *queue;
	int err;

	/* A queue 0 that connects again takes the place that was kept for it; while older ones linger it takes one more. */
	if (used >= reactor->queue_quota.most ||
	    ((begins || index || !TAILQ_EMPTY(&slot->lingering)) &&
	     !tgt_quota_allows(&reactor->queue_quota, used, session->host->queues))) {
		login_reject_full(login, reactor, used, &reactor->queue_quota, "connections");
		return;
	}
	credits = login_credits(reactor, session, login);
	if (!credits) {
		tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_CREDITS, 0, NULL);
		return;
	}
	err = tgt_queue_create(session, login, credits, &queue);
	if (!err) {
		slot->origin = login->origin;
		login_establish(login, queue);
	} else if (queue) {
		tgt_login_failed(queue, fab_error(login->fabric->fab));
	} else {
		tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0,
				 err == -ENOMEM ? "out of memory for a connection"
						: fab_error(login->fabric->fab));
	}
}

static bool login_session_fits(const struct tgt_login *login, const struct tgt_reactor *reactor)
{
	return tgt_quota_allows(&reactor->session_quota, reactor->session_count, login->host->sessions);
}

void tgt_login_begin_session(struct tgt_login *login, struct tgt_reactor *reactor)
{
	struct tgt_session *session;

	if (!login_session_fits(login, reactor))
		tgt_session_expire(reactor, login->host);
	if (!login_session_fits(login, reactor)) {
		login_reject_full(login, reactor, reactor->session_count, &reactor->session_quota, "sessions");
		return;
	}
	session = tgt_session_create(reactor, &login->wire, login->lease, login->host);
	if (!session) {
		tgt_login_reject(reactor, login->request, RBLK_REJECT_NO_RESOURCES, 0, NULL);
		return;
	}
	session->final = fab_device_limits(login->device->device)->final;
	tgt_login_accept(login, session, true);
	if (!session->queues_here)
		tgt_session_end(session, NULL);
}
