/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions and volumes as the verbs open them: the options that they share, and the words where it
 * does not work. librblk's words begin with the object, so they are printed as they are.
 */
#include "initiator/cmd/cmd.h"

#include <string.h>

bool cmd_is_uri(const char *text)
{
	return !strncmp(text, "rblk://", 7) || !strncmp(text, "rblk+tcp://", 11);
}

struct rblk_session *cmd_session_open(const char *uri, const struct cmd_connect *connect,
				      struct rblk_options *options)
{
	char error[RBLK_ERROR_BYTES] = "";
	struct rblk_session *session;

	options->size = sizeof(*options);
	options->connect_timeout_ms = (uint32_t)connect->timeout_s * 1000;
	options->device = connect->device;
	options->initiator_name = connect->name;
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
