/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk ping: the round trip of the fabric itself, without any volume, in the four classic ways, and
 * what share of a processor each end spent on it. The one-sided ways need the target's permission.
 */
#include "initiator/cmd/paths.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "initiator/cmd/latency.h"
#include "initiator/cmd/progress.h"

#define PING_COUNT_MAX 10000000
#define PING_BYTES_MAX 4096

static struct ping_values {
	struct cmd_connect connect;
	const char *kind;
	uint64_t count, bytes;
	bool json;
} values = { .connect = CMD_CONNECT_DEFAULTS, .count = 1000, .bytes = 64 };

static const struct cmd_option options[] = {
	{ "count", 'c', CMD_OPTION_NUMBER, offsetof(struct ping_values, count), 1, PING_COUNT_MAX,
	  "COUNT", "round trips of each kind (default: 1000)" },
	{ "size", 's', CMD_OPTION_SIZE, offsetof(struct ping_values, bytes), 1, PING_BYTES_MAX,
	  "BYTES", "length of one RDMA READ or WRITE (default: 64)" },
	{ "kind", 'k', CMD_OPTION_TEXT, offsetof(struct ping_values, kind), 0, 0, "KIND",
	  "send-polled, send-events, rdma-signalled or rdma-unsignalled (default: all)" },
	CMD_OPTION_JSON(struct ping_values),
	CMD_CONNECT_OPTIONS(struct ping_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static const struct ping_kind {
	enum rblk_ping_kind kind;
	const char *name, *what;
	bool one_sided;
} kinds[] = {
	{ RBLK_PING_SEND_POLLED, "send-polled", "SEND and RECV, polled", false },
	{ RBLK_PING_SEND_EVENTS, "send-events", "SEND and RECV, waiting for events", false },
	{ RBLK_PING_RDMA_SIGNALLED, "rdma-signalled", "RDMA READ, then RDMA WRITE, each signalled",
	  true },
	{ RBLK_PING_RDMA_UNSIGNALLED, "rdma-unsignalled",
	  "RDMA WRITE unsignalled, RDMA READ behind", true },
};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

/* One kind's result. skipped: the reason why it was not measured. */
struct ping_outcome {
	const char *skipped;
	struct latency_summary latency;
	double elapsed_ns, own_cpu_ns, target_cpu_ns;
};

static uint64_t ping_own_cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
}

/* A tenth of the round trips, at most 100, only to warm up caches and pollers. */
static int ping_warm_up(struct rblk_session *session, enum rblk_ping_kind kind)
{
	uint64_t count = values.count / 10 < 100 ? values.count / 10 : 100;
	uint64_t i, ns;
	int result = 0;

	for (i = 0; i < count && !result; i++)
		result = rblk_ping(session, kind, values.bytes, &ns);
	return result;
}

static int ping_measure(struct rblk_session *session, enum rblk_ping_kind kind,
			uint64_t *samples_ns, struct ping_outcome *outcome)
{
	uint64_t start_ns, own_ns, target_before_ns, target_after_ns, i;
	double elapsed_ns;
	int result;

	result = ping_warm_up(session, kind);
	if (!result)
		result = rblk_ping_target_cpu(session, &target_before_ns);
	start_ns = progress_now_ns();
	own_ns = ping_own_cpu_ns();
	for (i = 0; i < values.count && !result; i++)
		result = rblk_ping(session, kind, values.bytes, &samples_ns[i]);
	own_ns = ping_own_cpu_ns() - own_ns;
	elapsed_ns = (double)(progress_now_ns() - start_ns);
	if (!result)
		result = rblk_ping_target_cpu(session, &target_after_ns);
	if (result)
		return result;
	latency_summarize(samples_ns, (size_t)values.count, &outcome->latency);
	outcome->elapsed_ns = elapsed_ns;
	outcome->own_cpu_ns = (double)own_ns;
	outcome->target_cpu_ns = (double)(target_after_ns - target_before_ns);
	return 0;
}

/* A session for each kind: a plain one for the two-sided, a measuring one for the one-sided. */
static int ping_run_kind(const char *uri, const struct ping_kind *kind, uint64_t *samples_ns,
			 struct ping_outcome *outcome)
{
	struct rblk_options session_options = {
		.no_reconnect = true,
		.measuring = kind->one_sided,
		.polling = kind->kind == RBLK_PING_SEND_EVENTS ? RBLK_POLL_NEVER : RBLK_POLL_ALWAYS,
	};
	struct rblk_session *session;
	int result;

	session = cmd_session_open(uri, &values.connect, &session_options);
	if (!session)
		return CMD_FAILED;
	result = ping_measure(session, kind->kind, samples_ns, outcome);
	if (result == -EOPNOTSUPP && kind->one_sided) {
		outcome->skipped = "not allowed by the target";
		result = 0;
	} else if (result) {
		cmd_error("%s: %s", kind->name,
			  rblk_session_state(session) == RBLK_SESSION_FAILED
				  ? rblk_session_error(session)
				  : cmd_reason(result));
	}
	rblk_session_close(session);
	return result ? CMD_FAILED : CMD_OK;
}

/* -- output ------------------------------------------------------------------------------------ */

static const char *ping_us(double ns, char *text)
{
	snprintf(text, CMD_TEXT_BYTES, "%.1f", ns / 1000);
	return text;
}

static const char *ping_share(double share, char *text)
{
	snprintf(text, CMD_TEXT_BYTES, "%.0f%%", share * 100);
	return text;
}

static void ping_row(struct cmd_table *table, const struct ping_kind *kind,
		     const struct ping_outcome *outcome)
{
	const struct latency_summary *latency = &outcome->latency;
	char cell[7][CMD_TEXT_BYTES];

	if (outcome->skipped) {
		cmd_table_row(table, kind->name, "-", "-", "-", "-", "-", "-", "-",
			      outcome->skipped);
		return;
	}
	cmd_table_row(
		table, kind->name, ping_us((double)latency->min_ns, cell[0]),
		ping_us(latency->average_ns, cell[1]), ping_us((double)latency->p50_ns, cell[2]),
		ping_us((double)latency->p99_ns, cell[3]),
		ping_us((double)latency->max_ns, cell[4]), ping_share(outcome->own_cpu_ns / outcome->elapsed_ns, cell[5]),
		ping_share(outcome->target_cpu_ns / outcome->elapsed_ns, cell[6]), kind->what);
}

/* null for what was not measured. */
static json_t *ping_ns(const struct ping_outcome *outcome, double ns)
{
	return outcome->skipped ? json_null() : json_integer((json_int_t)ns);
}

static json_t *ping_json(const struct ping_kind *kind, const struct ping_outcome *outcome)
{
	const struct latency_summary *latency = &outcome->latency;

	return json_pack("{s:s s:o s:o s:o s:o s:o s:o s:o s:o s:o}", "kind", kind->name, "error",
			 cmd_json_words(outcome->skipped), "min_ns",
			 ping_ns(outcome, (double)latency->min_ns), "average_ns",
			 ping_ns(outcome, latency->average_ns), "p50_ns",
			 ping_ns(outcome, (double)latency->p50_ns), "p99_ns",
			 ping_ns(outcome, (double)latency->p99_ns), "max_ns",
			 ping_ns(outcome, (double)latency->max_ns), "elapsed_ns",
			 ping_ns(outcome, outcome->elapsed_ns), "initiator_cpu_ns",
			 ping_ns(outcome, outcome->own_cpu_ns), "target_cpu_ns",
			 ping_ns(outcome, outcome->target_cpu_ns));
}

static int ping_kinds(const char *uri, uint64_t *samples_ns, struct cmd_table *table, json_t *list)
{
	size_t i;

	for (i = 0; i < KIND_COUNT; i++) {
		struct ping_outcome outcome = { 0 };

		if (values.kind && strcmp(values.kind, kinds[i].name))
			continue;
		if (ping_run_kind(uri, &kinds[i], samples_ns, &outcome))
			return CMD_FAILED;
		ping_row(table, &kinds[i], &outcome);
		json_array_append_new(list, ping_json(&kinds[i], &outcome));
	}
	return CMD_OK;
}

const char *cmd_ping_kind_name(size_t index)
{
	return index < KIND_COUNT ? kinds[index].name : NULL;
}

static bool ping_kind_known(const char *name)
{
	size_t i;

	for (i = 0; i < KIND_COUNT; i++)
		if (!strcmp(name, kinds[i].name))
			return true;
	return false;
}

/* Which of the hosts answer. It uses its own session, because more queues would change the
 * measurement. */
static int ping_paths(const char *uri, struct cmd_paths *paths)
{
	struct rblk_options session_options = { .no_reconnect = true,
						.queues = cmd_paths_hosts(uri) };
	struct rblk_session *session = cmd_session_open(uri, &values.connect, &session_options);

	if (!session)
		return CMD_FAILED;
	cmd_paths_read(session, paths);
	rblk_session_close(session);
	return CMD_OK;
}

static int ping_run(char **operands, int count)
{
	struct cmd_paths paths;
	struct cmd_table *table;
	uint64_t *samples_ns;
	json_t *list;
	int status;

	if (values.kind && !ping_kind_known(values.kind)) {
		cmd_error("--kind: unknown kind \"%s\"; see rblk ping --help", values.kind);
		return CMD_USAGE;
	}
	if (cmd_uri_check(operands[0], false))
		return CMD_USAGE;
	samples_ns = calloc((size_t)values.count, sizeof(*samples_ns));
	if (!samples_ns)
		return cmd_error("out of memory");
	table = cmd_table_create(9);
	list = json_array();
	cmd_table_row(table, "KIND", ">MIN us", ">AVG us", ">P50 us", ">P99 us", ">MAX us",
		      ">CPU HERE", ">CPU THERE", "");
	status = ping_paths(operands[0], &paths);
	if (!status)
		status = ping_kinds(operands[0], samples_ns, table, list);
	if (!status && values.json) {
		status = cmd_json_print(json_pack("{s:s s:I s:I s:O s:o}", "uri", operands[0],
						  "round_trips", (json_int_t)values.count,
						  "transfer_bytes", (json_int_t)values.bytes,
						  "kinds", list, "paths", cmd_paths_json(&paths)));
	} else if (!status) {
		cmd_table_print(table);
		cmd_paths_print(&paths, "", 4);
	}
	json_decref(list);
	cmd_table_destroy(table);
	free(samples_ns);
	return status;
}

const struct cmd_verb cmd_verb_ping = {
	.name = "ping",
	.operands = "TARGET",
	.summary = "measure the round trip of the network in four ways",
	.options = options,
	.values = &values,
	.connects = true,
	.operands_least = 1,
	.operands_most = 1,
	.run = ping_run,
};
