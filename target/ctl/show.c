/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The verbs that ask once, and those that direct. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "target/ctl/ctl.h"

#define CELLS(...) ((const char *const[]){__VA_ARGS__})

/* -- status ------------------------------------------------------------------------------------ */

static void status_reactors(const json_t *result)
{
	struct screen_table *table = screen_table_create(6);
	uint64_t uptime_ns = ctl_integer(result, "uptime_ns");
	const json_t *reactor;
	size_t i;

	screen_table_row(table, CELLS(">REACTOR", ">SESSIONS", ">CONNECTIONS", ">WAITING", ">BUSY",
				   ">MEMORY USED"));
	json_array_foreach(json_object_get(result, "reactors"), i, reactor) {
		char number[16], sessions[16], connections[16], waiting[16], busy[16], memory[64],
			used[CTL_TEXT_BYTES], bytes[CTL_TEXT_BYTES];

		snprintf(number, sizeof(number), "%" PRIu64, ctl_integer(reactor, "reactor"));
		snprintf(sessions, sizeof(sessions), "%" PRIu64, ctl_integer(reactor, "sessions"));
		snprintf(connections, sizeof(connections), "%" PRIu64,
			 ctl_integer(reactor, "connections"));
		snprintf(waiting, sizeof(waiting), "%" PRIu64,
			 ctl_integer(reactor, "logins_waiting"));
		snprintf(busy, sizeof(busy), "%.1f%%",
			 uptime_ns ? 100.0 * (double)ctl_integer(reactor, "busy_ns") /
					     (double)uptime_ns
				   : 0.0);
		snprintf(memory, sizeof(memory), "%s of %s",
			 units_format_bytes(ctl_integer(reactor, "pool_used_bytes"), used),
			 units_format_bytes(ctl_integer(reactor, "pool_bytes"), bytes));
		screen_table_row(table, CELLS(number, sessions, connections, waiting, busy, memory));
	}
	screen_table_list(table, "no reactor answers");
	screen_table_destroy(table);
}

/* "logins: 5 accepted, 0 returned, ..." */
static void status_counts(const char *of_what, json_t *counts)
{
	const char *key, *between = "";
	json_t *value;

	printf("%s: ", of_what);
	json_object_foreach(counts, key, value) {
		printf("%s%" JSON_INTEGER_FORMAT " %s", between, json_integer_value(value), key);
		between = ", ";
	}
	printf("\n");
}

static void status_print(const json_t *result)
{
	char age[CTL_TEXT_BYTES];
	const json_t *address;
	size_t i;

	/* Names may be peers', and never move the cursor. */
	ctl_print_clean(ctl_string(result, "health"));
	printf("\nrblkd %s (process %" PRIu64 "): %s for %s\n", ctl_string(result, "version"),
	       ctl_integer(result, "pid"), ctl_string(result, "state"),
	       units_format_span(ctl_integer(result, "uptime_ns"), age));
	json_array_foreach(json_object_get(result, "addresses"), i, address)
		printf("%s%s", i ? ", " : "addresses: ", json_string_value(address));
	printf("%s\nvolumes: %" PRIu64 "; sessions: %" PRIu64 "; connections: %" PRIu64 "; log level: %s\n",
	       i ? "" : "addresses: none", ctl_integer(result, "volumes"), ctl_integer(result, "sessions"),
	       ctl_integer(result, "connections"), ctl_string(result, "log_level"));
	status_counts("logins", json_object_get(result, "logins"));
	status_counts("connections ended", json_object_get(result, "connection_ends"));
	printf("\n");
	status_reactors(result);
	if (ctl_integer(result, "reactors_silent"))
		printf("%" PRIu64 " reactor%s did not answer in time\n", ctl_integer(result, "reactors_silent"),
		       ctl_integer(result, "reactors_silent") == 1 ? "" : "s");
	ctl_unsaved_print(result);
}

int ctl_status(const struct ctl_values *values, char **operands, int count)
{
	json_t *result = ctl_ask(values, "status", NULL);
	bool problems = json_array_size(json_object_get(result, "problems"));
	int status;

	(void)operands;
	(void)count;
	status = ctl_show(values, result, status_print);
	return status == CTL_OK && problems ? CTL_PROBLEMS : status;
}

/* -- sessions ---------------------------------------------------------------------------------- */

/* "a, b" */
static void names_join(const json_t *names, char *text, size_t bytes)
{
	size_t used = 0, i;
	const json_t *name;

	snprintf(text, bytes, "-");
	json_array_foreach(names, i, name)
		if (used < bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "",
						 json_string_value(name));
}

#define OVER_BYTES 64

/*
 * The kind of its connections: "TLS", "RDMA", "TCP"; "TLS 1, TCP 3" if they differ. Without any: "ending", or how long its
 * client has to come back.
 */
static void over_words(const json_t *session, char text[OVER_BYTES])
{
	uint64_t all = ctl_integer(session, "connections");
	uint64_t of[] = {ctl_integer(session, "rdma_connections"), ctl_integer(session, "encrypted_connections"), 0};
	static const char *const names[] = {"RDMA", "TLS", "TCP"};
	char left[CTL_TEXT_BYTES];
	size_t length = 0;

	of[2] = all > of[0] + of[1] ? all - of[0] - of[1] : 0;
	snprintf(text, OVER_BYTES, json_is_true(json_object_get(session, "ending")) ? "ending" : "-");
	if (json_is_integer(json_object_get(session, "waits_ns")))
		snprintf(text, OVER_BYTES, "waiting for its client, %s left",
			 units_format_span(ctl_integer(session, "waits_ns"), left));
	for (size_t i = 0; i < 3; i++) {
		if (of[i] && of[i] == all)
			snprintf(text, OVER_BYTES, "%s", names[i]);
		else if (of[i] && length < OVER_BYTES)
			length += (size_t)snprintf(text + length, OVER_BYTES - length, "%s%s %" PRIu64,
						   length ? ", " : "", names[i], of[i]);
	}
}

/* Does a digest protect the data on all of its connections? */
static const char *digest_word(const json_t *session)
{
	uint64_t digests = ctl_integer(session, "digest_connections");

	return !digests ? "no" : digests == ctl_integer(session, "connections") ? "yes" : "some";
}

static void sessions_print(const json_t *result)
{
	struct screen_table *table = screen_table_create(12);
	const json_t *session;
	size_t i;

	screen_table_row(table, CELLS(">SESSION", "INITIATOR", "PROVEN", "ADDRESS", ">CONNECTIONS", "OVER", "DIGEST",
				   ">AGE", ">OUTSTANDING", ">COMMANDS", ">MEMORY", "VOLUMES"));
	json_array_foreach(json_object_get(result, "sessions"), i, session) {
		char number[16], connections[16], outstanding[16], commands[CTL_TEXT_BYTES],
			memory[CTL_TEXT_BYTES], over[OVER_BYTES], age[CTL_TEXT_BYTES], volumes[512];

		over_words(session, over);
		snprintf(number, sizeof(number), "%" PRIu64, ctl_integer(session, "session"));
		snprintf(connections, sizeof(connections), "%" PRIu64,
			 ctl_integer(session, "connections"));
		snprintf(outstanding, sizeof(outstanding), "%" PRIu64,
			 ctl_integer(session, "outstanding"));
		names_join(json_object_get(session, "volumes"), volumes, sizeof(volumes));
		screen_table_row(table,
			      CELLS(number, ctl_string(session, "initiator"),
				    json_is_true(json_object_get(session, "proven")) ? "yes" : "no",
				    ctl_string(session, "peer"), connections, over, digest_word(session),
				    units_format_span(ctl_integer(session, "age_ns"), age), outstanding,
				    units_format_count((double)ctl_integer(session, "commands"), commands),
				    units_format_bytes(ctl_integer(session, "data_bytes"), memory),
				    volumes));
	}
	screen_table_list(table, "no sessions");
	screen_table_destroy(table);
}

int ctl_sessions(const struct ctl_values *values, char **operands, int count)
{
	(void)operands;
	(void)count;
	return ctl_show(values, ctl_ask(values, "sessions", NULL), sessions_print);
}

/* -- volumes ----------------------------------------------------------------------------------- */

/* "32 at once, in 160us (quiet: 85us)": how many its store may have, and how long they take. */
static void volume_window(const json_t *window, char *text, size_t bytes)
{
	char mean[CTL_TEXT_BYTES], quiet[CTL_TEXT_BYTES];

	snprintf(text, bytes, "%" PRIu64 " at once, in %s (quiet: %s)", ctl_integer(window, "commands"),
		 units_format_us((double)ctl_integer(window, "mean_ns") / 1e3, mean),
		 units_format_us((double)ctl_integer(window, "quiet_ns") / 1e3, quiet));
}

/* "ok", or what rblkctl status says of it, without its name. */
static void volume_state(const json_t *volume, char *text, size_t bytes)
{
	const json_t *problem, *list = json_object_get(volume, "problems"), *window = json_object_get(volume, "window");
	char object[300];
	size_t i, length = 0;

	snprintf(object, sizeof(object), "volume %s: ", ctl_string(volume, "volume"));
	if (json_is_object(window))
		volume_window(window, text, bytes);
	else
		snprintf(text, bytes, "%s", json_is_true(json_object_get(volume, "read_only")) ? "read-only" : "ok");
	json_array_foreach(list, i, problem) {
		const char *message = ctl_string(problem, "message");

		if (!strncmp(message, object, strlen(object)))
			message += strlen(object);
		if (length < bytes)
			length += (size_t)snprintf(text + length, bytes - length, "%s%s", i ? "; " : "", message);
	}
}

static void volumes_print(const json_t *result)
{
	struct screen_table *table = screen_table_create(11);
	const json_t *volume;
	size_t i;

	screen_table_row(table, CELLS("VOLUME", ">SIZE", "STORE", ">OPENS", ">OPERATIONS", ">READ",
				   ">WRITTEN", ">ERRORS", ">LIMITED", ">WAITED", "STATE"));
	json_array_foreach(json_object_get(result, "volumes"), i, volume) {
		char size[CTL_TEXT_BYTES], opens[16], operations[CTL_TEXT_BYTES],
			read[CTL_TEXT_BYTES], written[CTL_TEXT_BYTES], errors[CTL_TEXT_BYTES],
			limited[CTL_TEXT_BYTES], waited[CTL_TEXT_BYTES], state[4096];

		volume_state(volume, state, sizeof(state));
		snprintf(opens, sizeof(opens), "%" PRIu64, ctl_integer(volume, "opens"));
		screen_table_row(
			table,
			CELLS(ctl_string(volume, "volume"),
			      units_format_bytes(ctl_integer(volume, "bytes"), size),
			      ctl_string(volume, "store"), opens,
			      units_format_count((double)ctl_operations(volume), operations),
			      units_format_bytes(ctl_integer(volume, "read_bytes"), read),
			      units_format_bytes(ctl_integer(volume, "written_bytes"), written),
			      units_format_count((double)ctl_errors_of(volume), errors),
			      units_format_count((double)ctl_integer(volume, "limited_commands"), limited),
			      units_format_us((double)ctl_integer(volume, "limited_ns") / 1e3, waited),
			      state));
	}
	json_array_foreach(json_object_get(result, "missing"), i, volume)
	{
		char state[4096];

		volume_state(volume, state, sizeof(state));
		screen_table_row(table, CELLS(ctl_string(volume, "volume"), "-", "-", "-", "-", "-", "-", "-", "-",
					      "-", state));
	}
	screen_table_list(table, "no volumes");
	screen_table_destroy(table);
}

int ctl_volumes(const struct ctl_values *values, char **operands, int count)
{
	(void)operands;
	(void)count;
	return ctl_show(values, ctl_ask(values, "volumes", NULL), volumes_print);
}

/* -- what directs ------------------------------------------------------------------------------ */

static void level_print(const json_t *result)
{
	printf("%s\n", ctl_string(result, "log_level"));
}

int ctl_log_level(const struct ctl_values *values, char **operands, int count)
{
	json_t *params = count ? json_pack("{s:s}", "level", operands[0]) : NULL;

	return ctl_show(values, ctl_ask(values, "log-level", params), level_print);
}

/* At once: what follows may take as long as that. */
static void drain_print(const json_t *result)
{
	uint64_t sessions = ctl_integer(result, "sessions");
	char most[CTL_TEXT_BYTES];

	printf("draining: %" PRIu64 " session%s told that the target is shutting down, up to %s for commands in flight\n", sessions,
	       sessions == 1 ? " is" : "s are", units_text(UNITS_TIME_MS, ctl_integer(result, "drain_ns") / 1000000, most));
	fflush(stdout);
}

int ctl_drain(const struct ctl_values *values, char **operands, int count)
{
	struct ctl_connection *connection = ctl_connect(values->socket);
	json_t *result;

	(void)operands;
	(void)count;
	if (!connection)
		return CTL_FAILED;
	result = ctl_call(connection, "drain", NULL);
	if (result && !values->json)
		drain_print(result);
	if (result)
		ctl_wait_end(connection);
	ctl_disconnect(connection);
	if (!result)
		return CTL_FAILED;
	json_object_set_new(result, "state", json_string("stopped"));
	if (values->json)
		return ctl_json_print(result);
	json_decref(result);
	printf("stopped: all volumes are closed\n");
	return CTL_OK;
}
