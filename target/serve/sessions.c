/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions: from the login of a queue 0 until all queues and handles have ended and the time
 * without connections is over.
 */
#include "target/serve/sessions.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/wire/wire_names.h"
#include "proto/words/units.h"
#include "target/base/text.h"
#include "target/base/daemon_event.h"
#include "target/serve/handle.h"
#include "target/serve/host.h"
#include "target/serve/lease.h"
#include "target/serve/queue.h"
#include "target/serve/remote_queue.h"
#include "target/serve/session_command.h"

/* Makes what a session and a remote session have in common. NULL: no memory. */
static struct tgt_session *session_alloc(struct tgt_reactor *reactor,
					 const struct rblk_wire_login *login, struct tgt_host *host)
{
	struct tgt_session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	pthread_mutex_init(&session->lock, NULL);
	tgt_replay_init(&session->answers);
	session->reactor = reactor;
	session->host = host;
	tgt_host_ref(host);
	tgt_share_init(&session->share, &reactor->loop, &host->share);
	memcpy(session->id, login->session_id, sizeof(session->id));
	session->epoch = rblk_le64(login->session_epoch);
	session->queue_count = rblk_le16(login->queue_count);
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++) {
		TAILQ_INIT(&session->slots[i].asks);
		TAILQ_INIT(&session->slots[i].lingering);
	}
	session->begun_ns = session->idle_since_ns = reactor->loop.now_ns;
	TAILQ_INSERT_TAIL(&reactor->sessions, session, link);
	return session;
}

struct tgt_session *tgt_session_create(struct tgt_reactor *reactor,
				       const struct rblk_wire_login *login,
				       struct tgt_lease *lease, struct tgt_host *host)
{
	struct tgt_session *session = session_alloc(reactor, login, host);

	if (!session)
		return NULL;
	session->number = ++reactor->session_number * reactor->config.reactors + reactor->index;
	session->lease = lease;
	tgt_lease_share(lease);
	strcpy(session->initiator, RBLK_NAME_UNNAMED);
	reactor->session_count++;
	host->sessions++;
	return session;
}

/* Its accounts go to another host. The caller's reference to that is the session's from now on. */
static void session_move(struct tgt_session *session, struct tgt_host *host)
{
	struct tgt_host *before = session->host;
	struct tgt_share *share = &session->share;

	before->queues -= session->queues;
	host->queues += session->queues;
	before->share.data_bytes -= share->data_bytes;
	host->share.data_bytes += share->data_bytes;
	before->share.report_bytes -= share->report_bytes;
	host->share.report_bytes += share->report_bytes;
	before->share.credits -= share->credits;
	host->share.credits += share->credits;
	if (!session->home) {
		before->sessions--;
		host->sessions++;
	}
	share->host = &host->share;
	session->host = host;
	tgt_host_put(session->reactor, before);
}

int tgt_session_prove(struct tgt_session *session, const char name[RBLK_NAME_BYTES])
{
	struct tgt_reactor *reactor = session->reactor;
	struct tgt_host *host = tgt_host_get_named(reactor, name);

	if (!host)
		return -ENOMEM;
	/* It has a place already: as if it were asked for now. */
	if (!session->home && !tgt_quota_allows(&reactor->session_quota, reactor->session_count - 1, host->sessions)) {
		tgt_host_put(reactor, host);
		return -EBUSY;
	}
	session_move(session, host);
	return 0;
}

struct tgt_session *tgt_session_remote(struct tgt_reactor *reactor, const struct tgt_remote_queue *remote_queue,
				       struct tgt_host *host)
{
	const struct rblk_wire_login *login = &remote_queue->login.wire;
	struct tgt_session *remote = tgt_session_at(reactor, login->session_id,
						    rblk_le64(login->session_epoch), true);

	if (remote) {
		if (remote_queue->proven && !remote->proven && tgt_session_prove(remote, remote_queue->initiator))
			return NULL;
		remote->proven |= remote_queue->proven;
		return remote;
	}
	if (remote_queue->proven)
		host = tgt_host_get_named(reactor, remote_queue->initiator);
	remote = host ? session_alloc(reactor, login, host) : NULL;
	if (remote_queue->proven && host)
		tgt_host_put(reactor, host); /* the remote session has its own reference */
	if (!remote)
		return NULL;
	remote->home = remote_queue->session;
	remote->number = remote_queue->session->number;
	memcpy(remote->initiator, remote_queue->initiator, sizeof(remote->initiator));
	remote->named = remote_queue->named;
	remote->proven = remote_queue->proven;
	return remote;
}

struct tgt_session *tgt_session_find(struct tgt_reactor *reactor, const uint8_t id[16])
{
	struct tgt_session *session, *newest = NULL;

	TAILQ_FOREACH(session, &reactor->sessions, link)
		if (!session->home && !memcmp(session->id, id, sizeof(session->id)) &&
		    (!newest || session->epoch > newest->epoch))
			newest = session;
	return newest;
}

bool tgt_session_may_follow(const struct tgt_session *session)
{
	const struct tgt_session *other;
	unsigned int count = 0;

	TAILQ_FOREACH(other, &session->reactor->sessions, link)
		count += !other->home && !memcmp(session->id, other->id, sizeof(other->id));
	return tgt_session_only_lingers(session) && count <= TGT_LINGERING_MAX;
}

#define HOW_BYTES 160
#define SAID_BYTES 512

/* "logged out", "ended: the target is shutting down" */
static const char *session_how(const struct tgt_session *session, char how[HOW_BYTES])
{
	snprintf(how, HOW_BYTES, "%s%s%s",
		 session->ending || session->handles_open || session->first_end != TGT_END_DISCONNECTED ? "ended"
													: "logged out",
		 session->end_reason ? ": " : "", session->end_reason ? session->end_reason : "");
	return how;
}

/*
 * "web1 logged out: wrote 128 MiB, read 256 MiB in 4 s (session 3, 192.0.2.10:48390)"; who was refused, or only asked:
 * "web1 logged out, and has opened no volume (session 3, 192.0.2.10:48390)"
 */
static const char *session_said(const struct tgt_session *session, const char *how, char said[SAID_BYTES])
{
	char written[UNITS_TEXT_BYTES], read[UNITS_TEXT_BYTES], age[UNITS_TEXT_BYTES];
	const char *name = session->initiator[0] ? session->initiator : "(no name)";

	if (!session->opened) {
		snprintf(said, SAID_BYTES, "%s %s, and has opened no volume (session %u, %s)", name, how, session->number,
			 session->peer);
		return said;
	}
	snprintf(said, SAID_BYTES, "%s %s: wrote %s, read %s in %s (session %u, %s)", name, how,
		 units_format_bytes(session->totals.bytes_written, written),
		 units_format_bytes(session->totals.bytes_read, read),
		 units_format_span(session->reactor->loop.now_ns - session->begun_ns, age), session->number, session->peer);
	return said;
}

/* One line with the session's totals. Peers can trigger it. */
static void session_log_totals(struct tgt_session *session)
{
	char said[SAID_BYTES], how[HOW_BYTES], read[UNITS_TEXT_BYTES], written[UNITS_TEXT_BYTES], queued[UNITS_TEXT_BYTES],
		stored[UNITS_TEXT_BYTES];
	const struct tgt_totals *totals = &session->totals;
	uint64_t messages = totals->messages_in + totals->out.sends + totals->out.writes +
			    totals->out.write_imms + totals->out.reads;

	tgt_daemon_event_said(
		session_said(session, session_how(session, how), said),
		&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_SESSION_ENDED,
						 .initiator = session->initiator,
						 .address = session->peer},
		&session->reactor->totals_limit, TGT_LOG_INFO,
		"session %u [%s] %s: %s: %" PRIu64 " commands, %s read, %s written, %" PRIu64 ".%02" PRIu64 " messages a command (in %" PRIu64
		", sends %" PRIu64 ", writes %" PRIu64 ", immediates %" PRIu64 ", reads %" PRIu64
		", doorbells %" PRIu64 "), %s queued, %s stored",
		session->number, session->peer, session->initiator, how, totals->commands,
		units_format_bytes(totals->bytes_read, read), units_format_bytes(totals->bytes_written, written),
		totals->commands ? messages / totals->commands : 0,
		totals->commands ? messages * 100 / totals->commands % 100 : 0, totals->messages_in,
		totals->out.sends, totals->out.writes, totals->out.write_imms, totals->out.reads,
		totals->out.doorbells, units_format_us((double)totals->queued_us, queued),
		units_format_us((double)totals->stored_us, stored));
}

static uint64_t session_keep_ns(const struct tgt_reactor *reactor)
{
	return reactor->config.session_ms * 1000000ull;
}

uint64_t tgt_session_awaits_ns(const struct tgt_session *session, uint64_t *gone_ns)
{
	uint64_t keep_ns = session_keep_ns(session->reactor);

	*gone_ns = 0;
	if (session->ending || session->home || tgt_session_is_connected(session) || !tgt_handles_kept(session))
		return 0;
	*gone_ns = session->reactor->loop.now_ns - session->idle_since_ns;
	return *gone_ns < keep_ns ? keep_ns - *gone_ns : 0;
}

static bool session_has_queues(const struct tgt_session *session)
{
	return tgt_session_is_connected(session) || session->lingering;
}

/* Everything has ended: no queue, so no request, so no user of a handle is left. */
static void session_free(struct tgt_session *session)
{
	struct tgt_reactor *reactor = session->reactor;

	if (session->peer[0])
		session_log_totals(session);
	tgt_handle_close_all(session);
	TAILQ_REMOVE(&reactor->sessions, session, link);
	if (!session->home) {
		reactor->session_count--;
		session->host->sessions--;
		reactor->rejudge = true;
	}
	tgt_lease_put(session->lease);
	tgt_host_put(reactor, session->host);
	tgt_replay_fini(&session->answers);
	pthread_mutex_destroy(&session->lock);
	free(session);
}

/* away: also its queues on other reactors. */
static void session_end(struct tgt_session *session, const char *reason, bool away)
{
	session->ending = true;
	session->end_reason = reason;
	if (!session_has_queues(session)) {
		session_free(session);
		return;
	}
	tgt_handle_close_idle(session);
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (away)
			tgt_queue_slot_close(&session->slots[i], reason);
		else if (session->slots[i].queue)
			tgt_queue_close(session->slots[i].queue, reason);
}

void tgt_session_end(struct tgt_session *session, const char *reason)
{
	session_end(session, reason, true);
}

void tgt_session_drain(struct tgt_session *session, const char *reason)
{
	session_end(session, reason, false);
}

void tgt_session_volume_lost(struct tgt_session *session)
{
	static const char reason[] = "its volume is lost, and will be opened again";

	if (!session->home && !session->ending)
		tgt_session_end(session, reason);
	for (unsigned int i = 0; session->home && i < RBLK_QUEUES_MAX; i++)
		if (session->slots[i].queue)
			tgt_queue_close(session->slots[i].queue, reason);
}

/* A program that ends closes its volumes first (librblk, rblk.ko: when the last disk is detached). */
static void session_log_lost(struct tgt_session *session, unsigned int volumes)
{
	char awaited[UNITS_TEXT_BYTES];

	units_format_span(session->reactor->config.session_ms * 1000000ull, awaited);
	tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_CONNECTION_LOST,
							  .initiator = session->initiator,
							  .address = session->peer},
			 &session->reactor->loop.chat_limit, TGT_LOG_WARNING,
			 "session %u [%s] %s: has lost its client, with %u volume%s open%s%s%s", session->number,
			 session->peer, session->initiator, volumes, TGT_S(volumes), session->final ? "" : ": waits ",
			 session->final ? "" : awaited, session->final ? "" : " for it");
}

/* At the home: a connection has ended. */
static void session_connection_ended(struct tgt_session *session)
{
	struct tgt_reactor *reactor = session->reactor;
	unsigned int kept;

	reactor->rejudge = true;
	if (tgt_session_is_connected(session))
		return;
	session->idle_since_ns = reactor->loop.now_ns;
	tgt_loop_timer(&reactor->loop, session->idle_since_ns + session_keep_ns(reactor));
	kept = tgt_handles_kept(session);
	if (kept && !session->ending && session->first_end != TGT_END_TARGET)
		session_log_lost(session, kept);
	tgt_handle_close_idle(session);
}

/*
 * Is there anything to keep? An open volume, for a reconnection; and where none comes, a volume whose FLUSH fails (F9): its
 * last close lets FLUSH succeed, and the session that takes this one's place is yet to come.
 */
static bool session_is_over(const struct tgt_session *session)
{
	return !session_has_queues(session) &&
	       (session->ending || !session->handles_open || (session->final && !tgt_handles_troubled(session)));
}

/* A queue of a slot has ended, on any reactor. lingered: its connection had before. May free the session. */
static void session_slot_ended(struct tgt_session *session, struct tgt_queue_slot *slot, bool lingered)
{
	tgt_fence_done(slot);
	if (lingered)
		session->reactor->rejudge = true;
	else
		session_connection_ended(session);
	if (session_is_over(session))
		session_free(session);
}

void tgt_session_remote_ended(struct tgt_session *remote, struct tgt_remote_queue *remote_queue)
{
	if (remote && !session_has_queues(remote))
		session_free(remote);
	else if (remote)
		tgt_handle_close_idle(remote);
	tgt_remote_queue_return(remote_queue);
}

static void remote_queue_left(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_remote_queue *remote_queue =
		(struct tgt_remote_queue *)((char *)message - offsetof(struct tgt_remote_queue, left));

	tgt_remote_queue_leave(remote_queue);
	session_connection_ended(remote_queue->session);
}

static void session_first_ended(const struct tgt_queue *queue)
{
	if (!queue->io_queue.index)
		queue->session->first_end = queue->io_queue.end;
}

/* Its connection has ended, its storage I/O has not: a login of its slot may be accepted beside it. */
static void session_queue_lingers(struct tgt_queue *queue)
{
	tgt_queue_linger(queue);
	if (!queue->remote_queue) {
		session_first_ended(queue);
		session_connection_ended(queue->session);
		return;
	}
	tgt_handle_close_idle(queue->session);
	queue->remote_queue->left.run = remote_queue_left;
	tgt_reactor_send(queue->remote_queue->home, &queue->remote_queue->left);
}

static void session_queue_ended(struct tgt_queue *queue)
{
	struct tgt_session *session = queue->session;
	struct tgt_queue_slot *slot = &session->slots[queue->io_queue.index];
	struct tgt_remote_queue *remote_queue = queue->remote_queue;
	struct tgt_totals totals = queue->io_queue.totals;
	bool lingered = queue->lingers;

	fab_conn_counters(queue->io_queue.conn, &totals.out);
	if (lingered) {
		TAILQ_REMOVE(&slot->lingering, &queue->lingering, link);
		session->lingering--;
	} else {
		slot->queue = NULL;
		session->queues_here--;
		session_first_ended(queue);
	}
	tgt_queue_destroy(queue);
	/* The one that is there may linger in the slot of this one. */
	if (slot->queue)
		tgt_queue_check_end(slot->queue);
	if (remote_queue) {
		remote_queue->totals = totals;
		tgt_session_remote_ended(session, remote_queue);
		return;
	}
	tgt_counts_sum(&session->totals, &totals, sizeof(totals));
	session_slot_ended(session, slot, lingered);
}

void tgt_session_queue_back(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_remote_queue *remote_queue = (struct tgt_remote_queue *)message;
	struct tgt_session *session = remote_queue->session;
	struct tgt_queue_slot *slot = &session->slots[remote_queue->index];
	bool lingered = remote_queue->lingering.reactor;

	tgt_counts_sum(&session->totals, &remote_queue->totals, sizeof(remote_queue->totals));
	tgt_remote_queue_end(remote_queue);
	session_slot_ended(session, slot, lingered);
}

unsigned int tgt_session_bury(struct tgt_reactor *reactor)
{
	struct tgt_queue *queue;
	unsigned int count = 0;

	while ((queue = TAILQ_FIRST(&reactor->ended))) {
		TAILQ_REMOVE(&reactor->ended, queue, ended_link);
		if (queue->io_queue.active)
			session_queue_lingers(queue);
		else
			session_queue_ended(queue);
		count++;
	}
	return count;
}

void tgt_session_expire(struct tgt_reactor *reactor, const struct tgt_host *need)
{
	bool of_any = need && need->sessions <= reactor->session_quota.kept;
	struct tgt_session *session, *following, *oldest = NULL;

	TAILQ_FOREACH_SAFE(session, &reactor->sessions, link, following) {
		if (session->ending || session->home || tgt_session_is_connected(session))
			continue;
		/* Its last handle has ended after its last queue. */
		if (session_is_over(session)) {
			session_free(session);
			continue;
		}
		if (reactor->loop.now_ns - session->idle_since_ns >= session_keep_ns(reactor)) {
			tgt_session_end(session, "its client did not come back");
			continue;
		}
		tgt_loop_timer(&reactor->loop, session->idle_since_ns + session_keep_ns(reactor));
		if (session->lingering || (!of_any && session->host != need))
			continue;
		if (!oldest || session->idle_since_ns < oldest->idle_since_ns)
			oldest = session;
	}
	if (oldest && !tgt_quota_allows(&reactor->session_quota, reactor->session_count, need->sessions))
		tgt_session_end(oldest, "its place was needed, and its client did not come back");
}
