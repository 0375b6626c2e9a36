/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ends sessions: each by a message to the reactors, of which its home does it. */
#include "target/watch/kick.h"

#include <string.h>
#include "target/base/log.h"
#include "target/serve/calls.h"

/* False: no memory. */
static bool session_kick(const struct tgt_watch_source *source, unsigned int number)
{
	bool sent = true;

	for (unsigned int i = 0; i < source->reactor_count; i++)
		sent &= tgt_reactor_kick(source->reactors[i], number);
	return sent;
}

static bool session_meant(const struct tgt_snapshot_session *session, const json_t *number,
			  const char *name)
{
	if (number)
		return json_integer_value(number) == (json_int_t)session->number;
	return !session->ending && !strcmp(session->initiator, name);
}

json_t *tgt_kick(struct tgt_rpc_call *call, const struct tgt_watch_source *source,
		 const struct tgt_view *view)
{
	const json_t *number = json_object_get(call->params, "session");
	const char *name = json_string_value(json_object_get(call->params, "initiator"));
	json_t *kicked;

	if (number ? !json_is_integer(number) || name : !name)
		return tgt_rpc_fail(call, TGT_RPC_PARAMS,
				    "either session, a number, or initiator, a name, is needed");
	kicked = json_array();
	for (unsigned int i = 0; i < view->session_count; i++) {
		const struct tgt_snapshot_session *session = &view->sessions[i];

		if (!session_meant(session, number, name) ||
		    !session_kick(source, session->number))
			continue;
		tgt_log(TGT_LOG_WARNING,
			"control: session %u [%s] %s kicked, as user %u (process %d) asked",
			session->number, session->peer, session->initiator,
			(unsigned int)call->caller->uid, (int)call->caller->pid);
		json_array_append_new(kicked,
				      json_pack("{s:i, s:o, s:o}", "session", (int)session->number,
						"initiator", tgt_rpc_text(session->initiator), "peer",
						tgt_rpc_text(session->peer)));
	}
	if (json_array_size(kicked))
		return json_pack("{s:o}", "sessions", kicked);
	json_decref(kicked);
	if (number)
		return tgt_rpc_fail(call, TGT_RPC_FAILED, "there is no session %lld",
				    (long long)json_integer_value(number));
	for (unsigned int i = 0; i < view->session_count; i++)
		if (!strcmp(view->sessions[i].initiator, name))
			return tgt_rpc_fail(call, TGT_RPC_FAILED, "the sessions of initiator \"%.63s\" are ending", name);
	return tgt_rpc_fail(call, TGT_RPC_FAILED, "initiator \"%.63s\" has no session here", name);
}
