/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions and volumes as the verbs open them: the options that they share, the messages when that fails, and the paths by
 * which a target is reached. librblk's messages begin with the object, so they are printed unchanged.
 */
#include "initiator/cmd/cmd.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "initiator/uri.h"
#include "proto/wire/wire_check.h"
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

#define KEY_FILE "/etc/rblk/key"

const char *cmd_key_file(const char *given)
{
	const char *path = given ? given : getenv("RBLK_KEY");

	/* Root's file is no other user's: without it they are who they were before. */
	if (!path)
		return access(KEY_FILE, R_OK) == 0 ? KEY_FILE : NULL;
	return *path && strcmp(path, "none") != 0 ? path : NULL;
}

static void session_told(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	const struct cmd_connect *connect = arg;
	char text[UNITS_TEXT_BYTES];
	struct cmd_paths paths;

	if (event->type == RBLK_SESSION_EVENT_RECOVERING)
		cmd_note("%s; waits for the target, for %s at most", rblk_session_error(session),
			 units_text(UNITS_TIME_MS, connect->give_up_ms, text));
	if (event->type != RBLK_SESSION_EVENT_RECOVERED)
		return;
	cmd_paths_read(session, &paths);
	for (unsigned int i = 0; i < paths.count; i++)
		if (paths.list[i].connections)
			cmd_note("%s: the target is back", paths.list[i].host);
}

static bool name_valid(const char *text)
{
	char name[RBLK_NAME_BYTES] = "";

	if (strlen(text) < sizeof(name))
		strcpy(name, text);
	return rblk_name_valid(name);
}

struct rblk_session *cmd_session_open(const char *uri, const struct cmd_connect *connect,
				      struct rblk_options *options)
{
	char error[RBLK_ERROR_BYTES] = "", hint[CMD_HINT_BYTES];
	struct rblk_session *session;

	/* librblk's words would be about options of its own. */
	if (connect->name && !name_valid(connect->name)) {
		cmd_error("--name: \"%.64s\" is not a name: 1 to %d letters, digits and . _ : + -", connect->name,
			  RBLK_NAME_BYTES - 1);
		return NULL;
	}
	if (connect->tls == RBLK_TLS_ALWAYS && !cmd_key_file(connect->key) && strncasecmp(uri, "rblk://", 7)) {
		cmd_error("--tls: always needs --key: TLS is by the secret of a key file");
		return NULL;
	}
	options->size = sizeof(*options);
	options->connect_timeout_ms = (uint32_t)connect->timeout_ms;
	options->give_up_ms = (uint32_t)connect->give_up_ms;
	options->device = connect->device;
	options->source = connect->source;
	options->tos = (uint32_t)connect->tos;
	options->ack_timeout = (uint32_t)connect->ack_timeout;
	options->initiator_name = connect->name;
	options->key_file = cmd_key_file(connect->key);
	options->tls = connect->tls;
	options->digest = connect->digest;
	options->interruptible = true; /* where a verb has handlers */
	session = rblk_session_open(uri, options, error);
	if (session) {
		rblk_session_on_event(session, session_told, (void *)connect);
		return session;
	}
	cmd_error("%s", error);
	if (cmd_key_hint(error, options->key_file, hint))
		cmd_note("%s", hint);
	return NULL;
}

struct rblk_volume *cmd_volume_open(struct rblk_session *session, uint32_t flags)
{
	struct rblk_volume *volume = rblk_volume_open(session, NULL, flags);

	if (!volume)
		cmd_error("%s", rblk_session_error(session));
	return volume;
}

/* -- paths ------------------------------------------------------------------------------------- */

/*
 * A line and a JSON object for each host of a target's URI, or for each address of an attached disk. A session only
 * reports hosts that one of its queues has tried, so the verbs that print paths open it with a queue for each host.
 */

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

/* UINT64_MAX: it has no connection. */
static uint64_t path_age_ms(const struct rblk_path_info *path)
{
	return path->connections ? path->connected_ms : UINT64_MAX;
}

static uint64_t paths_age_ms(const struct cmd_paths *paths)
{
	uint64_t oldest = UINT64_MAX;

	for (unsigned int i = 0; i < paths->count; i++) {
		uint64_t age = path_age_ms(&paths->list[i]);

		if (age != UINT64_MAX && (oldest == UINT64_MAX || age > oldest))
			oldest = age;
	}
	return oldest;
}

static json_t *paths_json_age(uint64_t ms)
{
	return ms == UINT64_MAX ? json_null() : json_integer((json_int_t)(ms * 1000000));
}

const char *cmd_paths_format_age(const struct cmd_paths *paths, char *text)
{
	uint64_t ms = paths_age_ms(paths);

	return ms == UINT64_MAX ? "-" : units_format_span(ms * 1000000, text);
}

json_t *cmd_paths_json_age(const struct cmd_paths *paths)
{
	return paths_json_age(paths_age_ms(paths));
}

/* The kernel's connections, whose device is not told, are over RDMA. */
static bool path_is_rdma(const struct rblk_path_info *path)
{
	return strcmp(path->device, "tcp") != 0;
}

static const char *path_over(const struct rblk_path_info *path)
{
	return path->tls ? "TLS" : path_is_rdma(path) ? "RDMA" : "TCP";
}

const char *cmd_paths_over(const struct cmd_paths *paths)
{
	const char *over = "-";

	for (unsigned int i = 0; i < paths->count; i++) {
		if (!paths->list[i].connections)
			continue;
		if (over[0] != '-' && strcmp(over, path_over(&paths->list[i])) != 0)
			return "mixed";
		over = path_over(&paths->list[i]);
	}
	return over;
}

void cmd_paths_print(const struct cmd_paths *paths, const char *before, int width)
{
	for (unsigned int i = 0; i < paths->count && paths->count > 1; i++) {
		const struct rblk_path_info *path = &paths->list[i];
		bool rdma = path_is_rdma(path);
		char age[CMD_TEXT_BYTES];

		printf("%s%-*s %s: ", before, width, "path", path->host);
		if (path->connections)
			printf("up, %u connection%s over %s%s%s, %s, %s, for %s\n", path->connections,
			       path->connections == 1 ? "" : "s", path_over(path),
			       rdma && path->device[0] ? " through " : "", rdma ? path->device : "",
			       path->proven ? "proven" : "not proven", path->digest ? "digest" : "no digest",
			       units_format_span(path->connected_ms * 1000000, age));
		else
			printf("down%s%s\n", path->words[0] ? ": " : "", path->words);
	}
}

/* A path without a connection has none of them. */
static json_t *path_json_of(const struct rblk_path_info *path, bool value)
{
	return path->connections ? json_boolean(value) : json_null();
}

json_t *cmd_paths_json(const struct cmd_paths *paths)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < paths->count; i++) {
		const struct rblk_path_info *path = &paths->list[i];

		json_array_append_new(
			list,
			json_pack("{s:o s:s s:I s:o s:o s:o s:o s:o s:o s:o s:o}", "host", cmd_json_text(path->host),
				  "path_state", path->connections ? "up" : "down", "connections",
				  (json_int_t)path->connections, "peer", cmd_json_words(path->peer),
				  "fabric_device", cmd_json_words(path->device), "rdma",
				  path_json_of(path, path_is_rdma(path)), "tls", path_json_of(path, path->tls),
				  "proven", path_json_of(path, path->proven), "digest",
				  path_json_of(path, path->digest), "age_ns",
				  paths_json_age(path_age_ms(path)), "error",
				  cmd_json_words(path->connections ? "" : path->words)));
	}
	return list;
}
