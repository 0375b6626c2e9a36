/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The registry knows whether anybody has a volume open, and a view knows who. */
#include "target/watch/users.h"

#include <stdio.h>
#include <string.h>
#include "target/base/error.h"
#include "proto/words/units.h"

static bool is_open(struct tgt_registry *registry, const char *name)
{
	struct tgt_volume *volume = tgt_volume_get(registry, name);
	bool open;

	if (!volume)
		return false;
	open = tgt_volume_is_open(volume);
	tgt_volume_put(volume);
	return open;
}

static bool is_connected(const struct tgt_view *view, unsigned int number)
{
	const struct tgt_snapshot_session *session = tgt_view_session(view, number);

	return session && session->connections;
}

unsigned int tgt_watch_users(const struct tgt_watch_source *source, const char *volume, bool connected, char *words)
{
	unsigned int count = 0, first = 0;
	const struct tgt_snapshot_session *session;
	char left[UNITS_TEXT_BYTES];
	struct tgt_view view;

	if (!is_open(source->registry, volume))
		return 0;
	snprintf(words, TGT_ERROR_BYTES, "a session has it open");
	if (tgt_view_take(source, &view))
		return 1;
	for (unsigned int i = 0; i < view.use_count; i++)
		if (!strcmp(view.uses[i].volume, volume) && (!connected || is_connected(&view, view.uses[i].session)) &&
		    !count++)
			first = view.uses[i].session;
	session = tgt_view_session(&view, first);
	if (count && session && session->awaits_ns)
		snprintf(words, TGT_ERROR_BYTES, "session %u [%s] %s has it open, and waits for its client, %s left",
			 session->number, session->peer, session->initiator, units_format_span(session->awaits_ns, left));
	else if (count && session)
		snprintf(words, TGT_ERROR_BYTES, "session %u [%s] %s has it open", session->number,
			 session->peer, session->initiator);
	if (count > 1 && session)
		snprintf(words, TGT_ERROR_BYTES, "session %u [%s] %s and %u more have it open",
			 session->number, session->peer, session->initiator, count - 1);
	tgt_view_free(&view);
	return count || connected ? count : 1;
}
