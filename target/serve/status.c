/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Logs what a reactor is doing: a line of the reactor, one of each session. */
#include "target/serve/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include "target/base/text.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/session.h"
#include "target/serve/snapshot.h"
#include "target/store/pool.h"

/* The most lines of one reactor. */
#define SESSIONS_SHOWN 64u
#define VOLUMES_BYTES 512

/* "a, b"; cut where there are too many. */
static void session_volumes(const struct tgt_session *session, char words[VOLUMES_BYTES])
{
	const struct tgt_handle *handle;
	size_t length = 0;

	snprintf(words, VOLUMES_BYTES, "none");
	tgt_session_each_handle(handle, session)
		if (handle->access.channel && length < VOLUMES_BYTES)
			length += (size_t)snprintf(words + length, VOLUMES_BYTES - length, "%s%s", length ? ", " : "",
						   tgt_handle_volume(handle)->config.name);
}

static void session_log(const struct tgt_session *session)
{
	struct tgt_snapshot_session now;
	char volumes[VOLUMES_BYTES];

	tgt_snapshot_session(session, &now);
	session_volumes(session, volumes);
	tgt_log(TGT_LOG_INFO,
		"status: session %u [%s] %s: %u connection%s on reactor %u, %u command%s "
		"outstanding, %" PRIu64 " in all, open: %s",
		session->number, session->home ? "remote" : session->peer, session->initiator,
		now.connections, TGT_S(now.connections), session->reactor->index, now.outstanding,
		TGT_S(now.outstanding), now.commands, volumes);
}

void tgt_status_log(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	size_t used = reactor->pool_bytes - tgt_pool_free_bytes(reactor->loop.pool);
	const struct tgt_session *session;
	unsigned int shown = 0;

	tgt_log(TGT_LOG_INFO,
		"status: reactor %u: %u session%s, %u connection%s, %u login%s waiting, %zu of %zu "
		"KiB "
		"of data memory in use",
		reactor->index, reactor->session_count, TGT_S(reactor->session_count),
		reactor->queue_count, TGT_S(reactor->queue_count), reactor->login_count,
		TGT_S(reactor->login_count), used / 1024, reactor->pool_bytes / 1024);
	TAILQ_FOREACH(session, &reactor->sessions, link)
		if (shown++ < SESSIONS_SHOWN)
			session_log(session);
	if (shown > SESSIONS_SHOWN)
		tgt_log(TGT_LOG_INFO, "status: reactor %u: %u more sessions", reactor->index,
			shown - SESSIONS_SHOWN);
}
