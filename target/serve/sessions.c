/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions: from the login of a queue 0 until all queues and handles have ended and the time
 * without queues is over.
 */
#include "target/serve/sessions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/wire/wire_names.h"
#include "target/serve/fence.h"
#include "target/serve/handle.h"
#include "target/serve/host.h"
#include "target/serve/lease.h"
#include "target/serve/queue.h"

struct tgt_session *tgt_session_create(struct tgt_reactor *reactor,
				       const struct rblk_wire_login *login,
				       struct tgt_lease *lease, struct tgt_host *host)
{
	struct tgt_session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->reactor = reactor;
	session->host = host;
	tgt_host_ref(host);
	tgt_share_init(&session->share, &reactor->turn, &host->share);
	memcpy(session->id, login->session_id, sizeof(session->id));
	session->epoch = rblk_le64(login->session_epoch);
	session->queue_count = rblk_le16(login->queue_count);
	session->number = ++reactor->session_number * reactor->config.reactors + reactor->index;
	session->lease = lease;
	tgt_lease_share(lease);
	strcpy(session->initiator, "unnamed");
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		TAILQ_INIT(&session->places[i].fences);
	/* Handles of a forgotten session must not name volumes of this one. */
	env_random(&session->handle_generation, sizeof(session->handle_generation));
	session->idle_since_ns = reactor->turn.now_ns;
	TAILQ_INSERT_TAIL(&reactor->sessions, session, link);
	reactor->session_count++;
	host->sessions++;
	return session;
}

struct tgt_session *tgt_session_find(struct tgt_reactor *reactor, const uint8_t id[16])
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link)
		if (!memcmp(session->id, id, sizeof(session->id)))
			return session;
	return NULL;
}

/* One line with the session's totals. Peers can trigger it. */
static void session_log_totals(struct tgt_session *session)
{
	uint64_t messages = session->messages_in + session->out.sends + session->out.writes +
			    session->out.write_imms + session->out.reads;

	tgt_log_limited(&session->reactor->totals_limit, TGT_LOG_INFO,
			"session %u [%s] %s: ended: %" PRIu64 " commands, %" PRIu64 " bytes read, %" PRIu64
			" written, %" PRIu64 ".%02" PRIu64 " messages a command (in %" PRIu64
			", sends %" PRIu64 ", writes %" PRIu64 ", immediates %" PRIu64 ", reads %" PRIu64
			", doorbells %" PRIu64 "), %" PRIu64 " us queued, %" PRIu64 " us stored",
			session->number, session->peer, session->initiator, session->commands,
			session->bytes_read, session->bytes_written,
			session->commands ? messages / session->commands : 0,
			session->commands ? messages * 100 / session->commands % 100 : 0,
			session->messages_in, session->out.sends, session->out.writes,
			session->out.write_imms, session->out.reads, session->out.doorbells,
			session->queued_us, session->stored_us);
}

static uint64_t session_keep_ns(const struct tgt_reactor *reactor)
{
	return reactor->keepalive_ns ? 2 * reactor->keepalive_ns : TGT_SESSION_KEEP_NS;
}

/* Everything has ended: no queue, so no request, so no user of a handle is left. */
static void session_free(struct tgt_session *session)
{
	struct tgt_reactor *reactor = session->reactor;

	if (session->peer[0])
		session_log_totals(session);
	tgt_handle_close_all(session);
	TAILQ_REMOVE(&reactor->sessions, session, link);
	reactor->session_count--;
	session->host->sessions--;
	reactor->rejudge = true;
	tgt_lease_put(session->lease);
	tgt_host_put(reactor, session->host);
	free(session);
}

void tgt_session_end(struct tgt_session *session, const char *reason)
{
	session->ending = true;
	if (!session->queues_here) {
		session_free(session);
		return;
	}
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (session->places[i].queue)
			tgt_queue_close(session->places[i].queue, reason);
}

static void counters_add(struct fab_counters *total, const struct fab_counters *one)
{
	total->sends += one->sends;
	total->writes += one->writes;
	total->write_imms += one->write_imms;
	total->reads += one->reads;
	total->others += one->others;
	total->doorbells += one->doorbells;
}

static void session_add_totals(struct tgt_session *session, const struct tgt_lane *lane)
{
	struct fab_counters counters;

	session->commands += lane->commands;
	session->messages_in += lane->messages_in;
	session->bytes_read += lane->bytes_read;
	session->bytes_written += lane->bytes_written;
	session->queued_us += lane->queued_us;
	session->stored_us += lane->stored_us;
	fab_conn_counters(lane->conn, &counters);
	counters_add(&session->out, &counters);
}

/* A queue has ended. May free its session. */
static void session_queue_ended(struct tgt_queue *queue)
{
	struct tgt_session *session = queue->session;
	struct tgt_reactor *reactor = session->reactor;
	struct tgt_place *place = &session->places[queue->lane.index];

	session_add_totals(session, &queue->lane);
	place->queue = NULL;
	tgt_queue_destroy(queue);
	tgt_fence_done(place);
	reactor->rejudge = true;
	if (--session->queues_here)
		return;
	session->idle_since_ns = reactor->turn.now_ns;
	tgt_turn_timer(&reactor->turn, session->idle_since_ns + session_keep_ns(reactor));
	/* No volume is open, so there is nothing to keep: a new session serves as well as a
	   reconnection. */
	if (session->ending || !session->handles_open)
		session_free(session);
}

unsigned int tgt_session_bury(struct tgt_reactor *reactor)
{
	struct tgt_queue *queue;
	unsigned int count = 0;

	while ((queue = TAILQ_FIRST(&reactor->ended))) {
		session_queue_ended(queue);
		count++;
	}
	return count;
}

uint64_t tgt_session_expire(struct tgt_reactor *reactor, const struct tgt_host *need)
{
	uint64_t keep_ns = session_keep_ns(reactor);
	uint64_t next_ns = UINT64_MAX;
	bool of_any = need && need->sessions <= reactor->sessions_max / 8;
	struct tgt_session *session, *following, *oldest = NULL;

	for (session = TAILQ_FIRST(&reactor->sessions); session; session = following) {
		following = TAILQ_NEXT(session, link);
		if (session->queues_here)
			continue;
		if (reactor->turn.now_ns - session->idle_since_ns >= keep_ns) {
			session_free(session);
			continue;
		}
		if (session->idle_since_ns + keep_ns < next_ns)
			next_ns = session->idle_since_ns + keep_ns;
		if (!of_any && session->host != need)
			continue;
		if (!oldest || session->idle_since_ns < oldest->idle_since_ns)
			oldest = session;
	}
	if (oldest && !tgt_host_may_take(need->sessions, reactor->session_count, reactor->sessions_max))
		session_free(oldest);
	return next_ns;
}
