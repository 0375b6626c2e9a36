/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The paths to a target, for the verbs that print them (info, doctor, ping, list --attached).
 */
#ifndef RBLK_CMD_PATHS_H
#define RBLK_CMD_PATHS_H

#include "initiator/cmd/cmd.h"

struct cmd_paths {
	struct rblk_path_info list[RBLK_PATHS_MAX];
	unsigned int count;
};

/* How many hosts the URI names; the URI was checked before. */
unsigned int cmd_paths_hosts(const char *uri);
void cmd_paths_read(const struct rblk_session *session, struct cmd_paths *paths);
/* How many have no connection. */
unsigned int cmd_paths_down(const struct cmd_paths *paths);
/* The credits of one of the session's connections. */
unsigned int cmd_paths_credits(const struct rblk_session *session, const struct cmd_paths *paths);
/* A line for each, if there are several: `before`, "path" padded to `width`, and the path's
 * state. */
void cmd_paths_print(const struct cmd_paths *paths, const char *before, int width);
json_t *cmd_paths_json(const struct cmd_paths *paths);

#endif
