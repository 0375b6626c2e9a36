/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions and volumes as the verbs open them: the options that they share, and the messages when
 * that fails. librblk's messages begin with the object, so they are printed unchanged.
 */
#include "initiator/cmd/cmd.h"

#include <string.h>
#include "initiator/uri.h"
#include "proto/wire/wire_names.h"

bool cmd_is_uri(const char *text)
{
	return !strncasecmp(text, "rblk://", 7) || !strncasecmp(text, "rblk+tcp://", 11);
}

bool cmd_uri_needs_rdma(const char *text)
{
	char error[RBLK_ERROR_BYTES];
	struct ini_uri uri;

	if (ini_uri_parse(text, &uri, error))
		return true;
	for (unsigned int i = 0; i < uri.host_count; i++)
		if (uri.hosts[i].kind == FAB_VERBS)
			return true;
	return false;
}

int cmd_uri_check(const char *text, bool volume)
{
	char error[RBLK_ERROR_BYTES];
	struct ini_uri uri;

	if (ini_uri_parse(text, &uri, error)) {
		cmd_error("%s", error);
		return CMD_USAGE;
	}
	if (volume && !uri.volume[0]) {
		cmd_error("%s: names no volume, as rblk://HOST/VOLUME does", text);
		return CMD_USAGE;
	}
	return CMD_OK;
}

/* Only errno values that come from nothing but a target's answer. */
const char *cmd_reason(int error)
{
	static const enum rblk_status told[] = {
		RBLK_E_DRAINING, RBLK_E_FENCED, RBLK_E_RESERVED,
		RBLK_E_MEDIUM,	 RBLK_E_DIGEST, RBLK_E_GONE,
	};
	size_t i;

	for (i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		if (rblk_status_errno(told[i]) == error)
			return rblk_status_text(told[i]);
	return strerror(-error);
}

struct rblk_session *cmd_session_open(const char *uri, const struct cmd_connect *connect,
				      struct rblk_options *options)
{
	char error[RBLK_ERROR_BYTES] = "";
	struct rblk_session *session;

	options->size = sizeof(*options);
	options->connect_timeout_ms = (uint32_t)connect->timeout_ms;
	options->give_up_ms = (uint32_t)connect->give_up_ms;
	options->device = connect->device;
	options->source = connect->source;
	options->tos = (uint32_t)connect->tos;
	options->ack_timeout = (uint32_t)connect->ack_timeout;
	options->initiator_name = connect->name;
	options->key_file = connect->key;
	options->tls = connect->tls;
	options->digest = connect->digest;
	options->interruptible = true; /* where a verb has handlers */
	session = rblk_session_open(uri, options, error);
	if (!session)
		cmd_error("%s", error);
	return session;
}

struct rblk_volume *cmd_volume_open(struct rblk_session *session, uint32_t flags)
{
	struct rblk_volume *volume = rblk_volume_open(session, NULL, flags);

	if (!volume)
		cmd_error("%s", rblk_session_error(session));
	return volume;
}
