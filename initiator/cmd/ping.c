/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk ping: round trips without any volume, and what share of a processor each end spent on them: of the plain command to a
 * target, and, between two of these processes, of the fabric alone in the four classic ways (ping.h).
 */
#include "initiator/cmd/ping.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define PING_COUNT_MAX 10000000

static struct ping_values {
	struct cmd_connect connect;
	const char *kind;
	uint64_t count, bytes;
	bool json, peer, serve;
} values = { .connect = CMD_CONNECT_DEFAULTS, .count = 1000, .bytes = 64 };

/* That of --peer or --serve. */
static struct ini_uri_host host;

static const struct cmd_option options[] = {
	{ "count", 'c', CMD_OPTION_NUMBER, offsetof(struct ping_values, count), 1, PING_COUNT_MAX,
	  "COUNT", "round trips of each kind (default: 1000)" },
	{ "size", 's', CMD_OPTION_SIZE, offsetof(struct ping_values, bytes), 1, PING_BYTES_MAX,
	  "BYTES", "with --peer: length of one RDMA READ or WRITE (default: 64)" },
	{ "kind", 'k', CMD_OPTION_TEXT, offsetof(struct ping_values, kind), 0, 0, "KIND",
	  "send-polled, send-events; with --peer rdma-signalled, rdma-unsignalled, too (default: all)" },
	{ "peer", 'p', CMD_OPTION_FLAG, offsetof(struct ping_values, peer), 0, 0, NULL,
	  "TARGET is another rblk ping, with --serve: measure the fabric alone" },
	{ "serve", 0, CMD_OPTION_FLAG, offsetof(struct ping_values, serve), 0, 0, NULL,
	  "answer those with --peer at TARGET, an address of this machine" },
	CMD_OPTION_JSON(struct ping_values),
	CMD_CONNECT_OPTIONS(struct ping_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static const struct ping_kind_text {
	const char *name, *what;
} kinds[PING_KINDS] = {
	[PING_SEND_POLLED] = { "send-polled", "SEND and RECV, polled" },
	[PING_SEND_EVENTS] = { "send-events", "SEND and RECV, waiting for events" },
	[PING_RDMA_SIGNALLED] = { "rdma-signalled", "RDMA READ, then RDMA WRITE, each signalled" },
	[PING_RDMA_UNSIGNALLED] = { "rdma-unsignalled", "RDMA WRITE unsignalled, RDMA READ behind" },
};
/* A target answers messages, and gives nobody its memory. */
#define TARGET_KINDS (PING_SEND_EVENTS + 1)

static int latency_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* The smallest sample that at least `percent` percent of all do not exceed. */
static uint64_t latency_percentile(const uint64_t *sorted, size_t count, unsigned int percent)
{
	size_t rank = (count * percent + 99) / 100;

	return sorted[rank ? rank - 1 : 0];
}

void latency_summarize(uint64_t *samples_ns, size_t count, struct latency_summary *summary)
{
	double sum = 0;
	size_t i;

	qsort(samples_ns, count, sizeof(*samples_ns), latency_compare);
	for (i = 0; i < count; i++)
		sum += (double)samples_ns[i];
	summary->min_ns = samples_ns[0];
	summary->max_ns = samples_ns[count - 1];
	summary->average_ns = sum / (double)count;
	summary->p50_ns = latency_percentile(samples_ns, count, 50);
	summary->p99_ns = latency_percentile(samples_ns, count, 99);
}

struct ping_outcome {
	struct latency_summary latency;
	double elapsed_ns, own_cpu_ns, target_cpu_ns;
};

/* A session with a target, or a connection to another `rblk ping`; the other is NULL. */
struct ping_link {
	struct rblk_session *session;
	struct ping_fabric *fabric;
};

static uint64_t ping_own_cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
}

/* One round trip: 0 or negative errno. */
static int ping_round(const struct ping_link *link, uint64_t *ns)
{
	uint64_t start_ns, cpu_ns;
	int result;

	if (link->fabric)
		return ping_fabric_round(link->fabric, ns);
	start_ns = progress_now_ns();
	result = rblk_ping(link->session, &cpu_ns);
	*ns = progress_now_ns() - start_ns;
	return result;
}

static int ping_target_cpu(const struct ping_link *link, uint64_t *cpu_ns)
{
	return link->fabric ? ping_fabric_cpu(link->fabric, cpu_ns) : rblk_ping(link->session, cpu_ns);
}

/* A tenth of the round trips, at most 100, only to warm up caches and pollers. */
static int ping_warm_up(const struct ping_link *link)
{
	uint64_t count = values.count / 10 < 100 ? values.count / 10 : 100;
	uint64_t i, ns;
	int result = 0;

	for (i = 0; i < count && !result; i++)
		result = ping_round(link, &ns);
	return result;
}

static int ping_measure(const struct ping_link *link, uint64_t *samples_ns, struct ping_outcome *outcome)
{
	uint64_t start_ns, own_ns, target_before_ns, target_after_ns, i;
	double elapsed_ns;
	int result;

	result = ping_warm_up(link);
	if (!result)
		result = ping_target_cpu(link, &target_before_ns);
	start_ns = progress_now_ns();
	own_ns = ping_own_cpu_ns();
	for (i = 0; i < values.count && !result; i++)
		result = ping_round(link, &samples_ns[i]);
	own_ns = ping_own_cpu_ns() - own_ns;
	elapsed_ns = (double)(progress_now_ns() - start_ns);
	if (!result)
		result = ping_target_cpu(link, &target_after_ns);
	if (result)
		return result;
	latency_summarize(samples_ns, (size_t)values.count, &outcome->latency);
	outcome->elapsed_ns = elapsed_ns;
	outcome->own_cpu_ns = (double)own_ns;
	outcome->target_cpu_ns = (double)(target_after_ns - target_before_ns);
	return 0;
}

static int ping_link_open(const char *uri, enum ping_kind kind, struct ping_link *link)
{
	struct rblk_options session_options = {
		.no_reconnect = true,
		.polling = kind == PING_SEND_EVENTS ? RBLK_POLL_NEVER : RBLK_POLL_ALWAYS,
	};

	*link = (struct ping_link){ 0 };
	if (values.peer)
		link->fabric = ping_fabric_open(&host, &values.connect, kind, values.bytes);
	else
		link->session = cmd_session_open(uri, &values.connect, &session_options);
	return link->fabric || link->session ? CMD_OK : CMD_FAILED;
}

/* A connection for each kind. */
static int ping_run_kind(const char *uri, enum ping_kind kind, uint64_t *samples_ns, struct ping_outcome *outcome)
{
	struct ping_link link;
	int result;

	if (ping_link_open(uri, kind, &link))
		return CMD_FAILED;
	result = ping_measure(&link, samples_ns, outcome);
	if (result && link.fabric)
		cmd_error("%s: %s", kinds[kind].name, ping_fabric_error(link.fabric));
	else if (result)
		cmd_error("%s: %s", kinds[kind].name,
			  rblk_session_state(link.session) == RBLK_SESSION_FAILED ?
				  rblk_session_error(link.session) :
				  cmd_reason(result));
	if (link.fabric)
		ping_fabric_close(link.fabric);
	else
		rblk_session_close(link.session);
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

static void ping_row(struct cmd_table *table, const struct ping_kind_text *kind,
		     const struct ping_outcome *outcome)
{
	const struct latency_summary *latency = &outcome->latency;
	char cell[7][CMD_TEXT_BYTES];

	cmd_table_row(
		table, kind->name, ping_us((double)latency->min_ns, cell[0]),
		ping_us(latency->average_ns, cell[1]), ping_us((double)latency->p50_ns, cell[2]),
		ping_us((double)latency->p99_ns, cell[3]),
		ping_us((double)latency->max_ns, cell[4]), ping_share(outcome->own_cpu_ns / outcome->elapsed_ns, cell[5]),
		ping_share(outcome->target_cpu_ns / outcome->elapsed_ns, cell[6]), kind->what);
}

static json_t *ping_json(const struct ping_kind_text *kind, const struct ping_outcome *outcome)
{
	const struct latency_summary *latency = &outcome->latency;

	return json_pack("{s:s s:I s:I s:I s:I s:I s:I s:I s:I}", "kind", kind->name, "min_ns",
			 (json_int_t)latency->min_ns, "average_ns", (json_int_t)latency->average_ns, "p50_ns",
			 (json_int_t)latency->p50_ns, "p99_ns", (json_int_t)latency->p99_ns, "max_ns",
			 (json_int_t)latency->max_ns, "elapsed_ns", (json_int_t)outcome->elapsed_ns,
			 "initiator_cpu_ns", (json_int_t)outcome->own_cpu_ns, "target_cpu_ns",
			 (json_int_t)outcome->target_cpu_ns);
}

static int ping_kinds(const char *uri, uint64_t *samples_ns, struct cmd_table *table, json_t *list)
{
	for (unsigned int i = 0; i < (values.peer ? PING_KINDS : TARGET_KINDS); i++) {
		struct ping_outcome outcome;

		if (values.kind && strcmp(values.kind, kinds[i].name))
			continue;
		if (ping_run_kind(uri, (enum ping_kind)i, samples_ns, &outcome))
			return CMD_FAILED;
		ping_row(table, &kinds[i], &outcome);
		json_array_append_new(list, ping_json(&kinds[i], &outcome));
	}
	return CMD_OK;
}

const char *cmd_ping_kind_name(size_t index)
{
	return index < PING_KINDS ? kinds[index].name : NULL;
}

/* CMD_OK, or CMD_USAGE after an error message. */
static int ping_kind_check(const char *name)
{
	for (unsigned int i = 0; i < PING_KINDS; i++) {
		if (strcmp(name, kinds[i].name))
			continue;
		if (i < TARGET_KINDS || values.peer)
			return CMD_OK;
		cmd_error("--kind: %s is between two rblk ping: see --serve and --peer", name);
		return CMD_USAGE;
	}
	cmd_error("--kind: unknown kind \"%s\"; see rblk ping --help", name);
	return CMD_USAGE;
}

/* CMD_OK, or CMD_USAGE after an error message. */
static int ping_options_check(void)
{
	if (values.serve && !values.peer)
		return CMD_OPTIONS_ONLY("with --serve", "serve", "device", "timeout");
	if (values.peer && !values.serve)
		return CMD_OPTIONS_ONLY("with --peer", "peer", "count", "size", "kind", "json", "device", "source", "tos",
					"ack-timeout", "timeout");
	return values.peer ? CMD_OK : cmd_options_not("without --peer", "size");
}

/*
 * The host of --peer or --serve: CMD_OK, or CMD_USAGE after an error message. Nothing proves who the other end is, or hides what
 * is sent.
 */
static int ping_host_take(const char *text)
{
	char error[RBLK_ERROR_BYTES];
	struct ini_uri uri;

	if (ini_uri_parse(text, &uri, error))
		cmd_error("%s", error);
	else if (uri.host_count != 1 || uri.volume[0])
		cmd_error("%s: between two rblk ping, TARGET is one host without a volume", text);
	else if (values.peer && values.serve)
		cmd_error("--peer and --serve are two ends: one of them");
	else {
		host = uri.hosts[0];
		return CMD_OK;
	}
	return CMD_USAGE;
}

/* Which of the hosts answer. It uses its own session, because more queues would change the
 * measurement. */
static int ping_paths(const char *uri, struct cmd_paths *paths)
{
	struct rblk_options session_options = { .no_reconnect = true,
						.queues = cmd_paths_hosts(uri) };
	struct rblk_session *session;

	paths->count = 0;
	if (values.peer)
		return CMD_OK;
	session = cmd_session_open(uri, &values.connect, &session_options);
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

	if (ping_options_check() || (values.kind && ping_kind_check(values.kind)) || cmd_uri_check(operands[0], false))
		return CMD_USAGE;
	if ((values.peer || values.serve) && ping_host_take(operands[0]))
		return CMD_USAGE;
	if (values.serve)
		return ping_serve(&host, &values.connect);
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
		cmd_table_print(table, NULL);
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
	.summary = "measure the round trip of the network",
	.options = options,
	.values = &values,
	.connects = true,
	.operands_least = 1,
	.operands_most = 1,
	.run = ping_run,
};
