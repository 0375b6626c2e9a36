/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a target is reached: a line and a JSON object for each host of its URI, or for each address
 * of an attached disk. A session only reports hosts that one of its queues has tried, so the verbs
 * that print paths open it with a queue for each host.
 */
#include "initiator/cmd/paths.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "initiator/uri.h"

unsigned int cmd_paths_hosts(const char *uri)
{
	char error[RBLK_ERROR_BYTES];
	struct ini_uri parsed;

	return ini_uri_parse(uri, &parsed, error) ? 1 : parsed.host_count;
}

void cmd_paths_read(const struct rblk_session *session, struct cmd_paths *paths)
{
	int count =
		rblk_session_paths(session, paths->list, sizeof(paths->list[0]), RBLK_PATHS_MAX);

	paths->count = count < 0 ? 0 : (unsigned int)count;
}

unsigned int cmd_paths_down(const struct cmd_paths *paths)
{
	unsigned int down = 0;

	for (unsigned int i = 0; i < paths->count; i++)
		down += !paths->list[i].connections;
	return down;
}

unsigned int cmd_paths_credits(const struct rblk_session *session, const struct cmd_paths *paths)
{
	unsigned int connections = 0;

	for (unsigned int i = 0; i < paths->count; i++)
		connections += paths->list[i].connections;
	return rblk_session_credits(session) / (connections ? connections : 1);
}

void cmd_paths_print(const struct cmd_paths *paths, const char *before, int width)
{
	for (unsigned int i = 0; i < paths->count && paths->count > 1; i++) {
		const struct rblk_path_info *path = &paths->list[i];

		printf("%s%-*s %s: ", before, width, "path", path->host);
		if (path->connections)
			printf("up, %u connection%s%s%s%s\n", path->connections,
			       path->connections == 1 ? "" : "s",
			       path->device[0] ? " through " : "", path->device,
			       path->tls ? ", encrypted" : "");
		else
			printf("down%s%s\n", path->words[0] ? ": " : "", path->words);
	}
}

json_t *cmd_paths_json(const struct cmd_paths *paths)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < paths->count; i++) {
		const struct rblk_path_info *path = &paths->list[i];

		json_array_append_new(
			list,
			json_pack("{s:o s:s s:I s:o s:o s:b s:o}", "host", cmd_json_text(path->host),
				  "path_state", path->connections ? "up" : "down", "connections",
				  (json_int_t)path->connections, "peer", cmd_json_words(path->peer),
				  "fabric_device", cmd_json_words(path->device), "tls", path->tls, "error",
				  cmd_json_words(path->connections ? "" : path->words)));
	}
	return list;
}
