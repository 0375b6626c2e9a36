/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes each family of metrics: its help and type, then a line for each series. A volume's series
 * are those of all who have used it, and stay; so do an initiator's; a session's end with it.
 */
#include "target/watch/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "target/watch/metrics_process.h"
#include "target/watch/names.h"

/* -- lines ------------------------------------------------------------------------------------- */

static void family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value, within its quotes. */
static void escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', out);
		fputc(*text < ' ' || *text > '~' ? '?' : *text, out);
	}
}

static void label(FILE *out, const char *before, const char *name, const char *value)
{
	fprintf(out, "%s%s=\"", before, name);
	escaped(out, value);
	fputc('"', out);
}

static void value_u64(FILE *out, uint64_t value)
{
	fprintf(out, "} %" PRIu64 "\n", value);
}

static void value_seconds(FILE *out, double seconds)
{
	fprintf(out, "} %.9g\n", seconds);
}

static void plain(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	family(out, name, type, help);
	fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/* -- the daemon -------------------------------------------------------------------------------- */

static void metrics_daemon(FILE *out, const struct tgt_methods *methods,
			   const struct tgt_view *view)
{
	family(out, "rblk_build_info", "gauge", "Always 1; the version of rblkd is a label.");
	fprintf(out, "rblk_build_info{version=\"%s\"} 1\n", RBLK_VERSION);
	family(out, "rblk_start_time_seconds", "gauge",
	       "When the daemon was started, since the epoch.");
	fprintf(out, "rblk_start_time_seconds %.3f\n", methods->started_s);
	plain(out, "rblk_draining", "gauge", "1 while the daemon refuses new commands and ends.",
	      atomic_load(&methods->draining));
	plain(out, "rblk_sessions", "gauge", "Sessions, with those that may come back.",
	      view->session_count);
	plain(out, "rblk_connections", "gauge", "Connections of all sessions.",
	      view->totals.connections);
	plain(out, "rblk_reactors_silent", "gauge", "Reactors that did not answer within a second.",
	      view->missing);
}

/* Each kind, so that a rule sees the end, too. */
static void metrics_problems(FILE *out, const struct tgt_methods *methods, const struct tgt_view *view)
{
	struct tgt_health health;

	if (tgt_methods_health(methods, view, &health))
		return;
	family(out, "rblk_problems", "gauge", "What is wrong, by its kind: what the first line of rblkctl status says.");
	for (unsigned int kind = 0; kind < TGT_PROBLEMS; kind++)
		fprintf(out, "rblk_problems{problem=\"%s\"} %u\n", tgt_problem_name(kind), health.counts[kind]);
	tgt_health_fini(&health);
}

/* 0 for volumes that are served, so that a rule sees the end, too. */
static void metrics_missing(FILE *out, const struct tgt_view *view)
{
	family(out, "rblk_volume_missing", "gauge",
	       "1 while the volume is configured, but cannot be served.");
	for (unsigned int i = 0; i < view->volume_count; i++) {
		label(out, "rblk_volume_missing{", "volume", view->volumes[i].name);
		value_u64(out, 0);
	}
	for (unsigned int i = 0; i < view->unserved_counts[TGT_UNSERVED_VOLUME]; i++) {
		label(out, "rblk_volume_missing{", "volume", view->unserved[TGT_UNSERVED_VOLUME][i].name);
		value_u64(out, 1);
	}
	family(out, "rblk_address_missing", "gauge",
	       "1 while the address is configured, but cannot be listened on.");
	for (unsigned int i = 0; i < view->unserved_counts[TGT_UNSERVED_ADDRESS]; i++) {
		label(out, "rblk_address_missing{", "address", view->unserved[TGT_UNSERVED_ADDRESS][i].name);
		value_u64(out, 1);
	}
}

static void metrics_events(FILE *out, const struct tgt_view *view)
{
	const struct tgt_view_totals *totals = &view->totals;

	family(out, "rblk_logins_total", "counter",
	       "Logins of connections, by result. Names, proofs and OPENs that the rules deny are denied, too.");
	for (unsigned int result = 0; result < TGT_LOGIN_RESULTS; result++)
		fprintf(out, "rblk_logins_total{result=\"%s\"} %" PRIu64 "\n", tgt_name_login(result),
			totals->logins[result]);
	plain(out, "rblk_fences_total", "counter", "FENCE commands.", totals->fences);
	family(out, "rblk_connection_ends_total", "counter",
	       "Connections that have ended, by why.");
	for (unsigned int end = 0; end < TGT_ENDS; end++)
		fprintf(out, "rblk_connection_ends_total{reason=\"%s\"} %" PRIu64 "\n",
			tgt_name_end(end), totals->ends[end]);
	family(out, "rblk_refused_commands_total", "counter",
	       "Commands of no open volume that were refused, by error.");
	for (unsigned int error = 1; error < RBLK_E_MAX; error++)
		fprintf(out, "rblk_refused_commands_total{error=\"%s\"} %" PRIu64 "\n",
			tgt_name_error(error), totals->refused[error]);
}

static void metrics_failures(FILE *out, const struct tgt_methods *methods, const struct tgt_view *view)
{
	uint64_t digests = view->totals.refused[RBLK_E_DIGEST];

	for (unsigned int i = 0; i < view->volume_count; i++)
		digests += view->volumes[i].counts.errors[RBLK_E_DIGEST];
	plain(out, "rblk_digest_failures_total", "counter", "Commands whose data was not what its digest says.", digests);
	plain(out, "rblk_tls_failures_total", "counter", "Connections that ended in the TLS handshake.",
	      methods->source.tls_failures ? atomic_load(methods->source.tls_failures) : 0);
}

static void reactor_line(FILE *out, const char *name, const struct tgt_snapshot *snapshot, double value)
{
	fprintf(out, "%s{reactor=\"%u\"} %.9g\n", name, snapshot->reactor, value);
}

static double reactor_busy(const struct tgt_snapshot *snapshot)
{
	return (double)snapshot->busy_ns / 1e9;
}

static double reactor_pool(const struct tgt_snapshot *snapshot)
{
	return (double)snapshot->pool_bytes;
}

static double reactor_pool_used(const struct tgt_snapshot *snapshot)
{
	return (double)snapshot->pool_used_bytes;
}

static double reactor_connections(const struct tgt_snapshot *snapshot)
{
	return snapshot->connections;
}

static double reactor_logins(const struct tgt_snapshot *snapshot)
{
	return snapshot->logins_waiting;
}

static const struct reactor_metric {
	const char *name, *type, *help;
	double (*value)(const struct tgt_snapshot *snapshot);
} reactor_metrics[] = {
	{"rblk_reactor_busy_seconds_total", "counter", "Time in turns that found work.",
	 reactor_busy},
	{"rblk_reactor_pool_bytes", "gauge", "Memory for data.", reactor_pool},
	{"rblk_reactor_pool_used_bytes", "gauge", "Memory for data in use.", reactor_pool_used},
	{"rblk_reactor_connections", "gauge", "Connections of the reactor.", reactor_connections},
	{"rblk_reactor_logins_waiting", "gauge", "Logins that wait for a fence.", reactor_logins},
};

static void metrics_reactors(FILE *out, const struct tgt_view *view)
{
	for (size_t i = 0; i < sizeof(reactor_metrics) / sizeof(reactor_metrics[0]); i++) {
		const struct reactor_metric *metric = &reactor_metrics[i];

		family(out, metric->name, metric->type, metric->help);
		for (unsigned int j = 0; j < view->reactor_count; j++)
			if (view->snapshots[j])
				reactor_line(out, metric->name, view->snapshots[j],
					     metric->value(view->snapshots[j]));
	}
}

/* -- volumes ----------------------------------------------------------------------------------- */

static void volume_begin(FILE *out, const char *name, const void *whose)
{
	const struct tgt_view_volume *volume = whose;

	fputs(name, out);
	label(out, "{", "volume", volume->name);
}

#define EACH_VOLUME(view, volume)                                    \
	for (const struct tgt_view_volume *volume = (view)->volumes; \
	     volume < (view)->volumes + (view)->volume_count; volume++)

static uint64_t volume_bytes(const struct tgt_view_volume *volume)
{
	return volume->bytes;
}

static uint64_t volume_opens(const struct tgt_view_volume *volume)
{
	return volume->opens;
}

static uint64_t volume_flush_failed(const struct tgt_view_volume *volume)
{
	return volume->flush_failed_ns != 0;
}

static uint64_t volume_outstanding(const struct tgt_view_volume *volume)
{
	return volume->outstanding;
}

static uint64_t volume_read(const struct tgt_view_volume *volume)
{
	return volume->counts.bytes_read;
}

static uint64_t volume_written(const struct tgt_view_volume *volume)
{
	return volume->counts.bytes_written;
}

static uint64_t volume_limited(const struct tgt_view_volume *volume)
{
	return volume->counts.limited_commands;
}

static const struct volume_metric {
	const char *name, *type, *help;
	uint64_t (*value)(const struct tgt_view_volume *volume);
} volume_metrics[] = {
	{"rblk_volume_size_bytes", "gauge", "Size of the volume.", volume_bytes},
	{"rblk_volume_opens", "gauge", "Sessions that have the volume open.", volume_opens},
	{"rblk_volume_flush_failed", "gauge",
	 "1 while a failed flush keeps the volume's flushes failing.", volume_flush_failed},
	{"rblk_volume_outstanding_commands", "gauge", "Commands that are not answered yet.",
	 volume_outstanding},
	{"rblk_volume_read_bytes_total", "counter", "Bytes that initiators have read.",
	 volume_read},
	{"rblk_volume_written_bytes_total", "counter", "Bytes that initiators have written.",
	 volume_written},
	{"rblk_volume_limited_commands_total", "counter",
	 "Commands that had to wait for a limit of the volume or of their initiator.",
	 volume_limited},
};

static void metrics_volumes(FILE *out, const struct tgt_view *view)
{
	for (size_t i = 0; i < sizeof(volume_metrics) / sizeof(volume_metrics[0]); i++) {
		const struct volume_metric *metric = &volume_metrics[i];

		family(out, metric->name, metric->type, metric->help);
		EACH_VOLUME(view, volume)
		{
			volume_begin(out, metric->name, volume);
			value_u64(out, metric->value(volume));
		}
	}
	family(out, "rblk_volume_limited_seconds_total", "counter",
	       "Time that all commands together have waited for a limit of the volume or of their initiator.");
	EACH_VOLUME(view, volume)
	{
		volume_begin(out, "rblk_volume_limited_seconds_total", volume);
		value_seconds(out, (double)volume->counts.limited_ns / 1e9);
	}
}

static void metrics_volume_counts(FILE *out, const struct tgt_view *view)
{
	family(out, "rblk_volume_operations_total", "counter",
	       "Commands answered, with those that failed.");
	EACH_VOLUME(view, volume)
	{
		for (unsigned int i = 0; i < TGT_COUNT_OPCODES; i++) {
			if (!tgt_name_opcode(i))
				continue;
			volume_begin(out, "rblk_volume_operations_total", volume);
			label(out, ",", "operation", tgt_name_opcode(i));
			value_u64(out, volume->counts.operations[i]);
		}
	}
	family(out, "rblk_volume_errors_total", "counter", "Commands that failed, by error.");
	EACH_VOLUME(view, volume)
	{
		for (unsigned int i = 1; i < RBLK_E_MAX; i++) {
			volume_begin(out, "rblk_volume_errors_total", volume);
			label(out, ",", "error", tgt_name_error(i));
			value_u64(out, volume->counts.errors[i]);
		}
	}
}

/* -- latencies --------------------------------------------------------------------------------- */

/* A volume or an initiator: the name of its family, and how its labels are written. */
struct latency_of {
	const char *family;
	void (*begin)(FILE *out, const char *name, const void *whose);
	const void *whose;
	const struct tgt_counts *counts;
	enum tgt_histograms histograms;
};

static void latency_begin(FILE *out, const char *suffix, const struct latency_of *of,
			  enum tgt_count_kind kind, enum tgt_count_stage stage)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", of->family, suffix);
	of->begin(out, name, of->whose);
	label(out, ",", "kind", tgt_name_kind(kind));
	label(out, ",", "stage", tgt_name_stage(stage));
}

/* A bucket for each power of two: half of those that are counted; of few, one for each power of eight. The first two, of 0
 * and 1 us, are one. */
static void metrics_latency(FILE *out, const struct latency_of *of, enum tgt_count_kind kind,
			    enum tgt_count_stage stage)
{
	const uint64_t *buckets = of->counts->latency[kind][stage];
	static const unsigned int steps[] = {
		[TGT_HISTOGRAMS_FULL] = 2, [TGT_HISTOGRAMS_FEW] = 6, [TGT_HISTOGRAMS_NONE] = CORE_BUCKETS};
	unsigned int step = steps[of->histograms];
	uint64_t sum = 0;

	for (unsigned int i = 0; i < CORE_BUCKETS; i++) {
		sum += buckets[i];
		if (i % step != step - 1 || i == CORE_BUCKETS - 1)
			continue;
		latency_begin(out, "_bucket", of, kind, stage);
		fprintf(out, ",le=\"%.9g\"", (double)core_bucket_end(i) / 1e6);
		value_u64(out, sum);
	}
	latency_begin(out, "_bucket", of, kind, stage);
	fprintf(out, ",le=\"+Inf\"");
	value_u64(out, sum);
	latency_begin(out, "_sum", of, kind, stage);
	value_seconds(out, (double)of->counts->us[kind][stage] / 1e6);
	latency_begin(out, "_count", of, kind, stage);
	value_u64(out, sum);
}

/* Most of many volumes and initiators have no commands of some kinds. */
static void metrics_latencies_of(FILE *out, const struct latency_of *of)
{
	for (unsigned int kind = 0; kind < TGT_COUNT_KINDS; kind++)
		for (unsigned int stage = 0;
		     stage < TGT_STAGES && tgt_counts_of_kind(of->counts, kind); stage++)
			metrics_latency(out, of, kind, stage);
}

static void metrics_latencies(FILE *out, const struct tgt_view *view, enum tgt_histograms histograms)
{
	family(out, "rblk_volume_latency_seconds", "histogram",
	       "Time of a command in the target: until the store got it, in the store, and both.");
	EACH_VOLUME(view, volume)
	{
		const struct latency_of of = {"rblk_volume_latency_seconds", volume_begin, volume,
					      &volume->counts, histograms};

		metrics_latencies_of(out, &of);
	}
}

/* -- initiators -------------------------------------------------------------------------------- */

/* No initiator can have the name of the others. */
static void initiator_begin(FILE *out, const char *name, const void *whose)
{
	const struct tgt_view_initiator *initiator = whose;

	fputs(name, out);
	label(out, "{", "initiator", initiator->name[0] ? initiator->name : "(others)");
	label(out, ",", "proven", initiator->proven ? "yes" : "no");
}

#define EACH_INITIATOR(view, initiator)                                       \
	for (const struct tgt_view_initiator *initiator = (view)->initiators; \
	     initiator < (view)->initiators + (view)->initiator_count; initiator++)

/* Values of 0 are left out: there may be many names. */
static void metrics_initiators(FILE *out, const struct tgt_view *view)
{
	family(out, "rblk_initiator_operations_total", "counter",
	       "Commands of all sessions of the initiator, with those that failed.");
	EACH_INITIATOR(view, initiator)
	for (unsigned int i = 0; i < TGT_COUNT_OPCODES; i++)
		if (tgt_name_opcode(i) && initiator->counts.operations[i]) {
			initiator_begin(out, "rblk_initiator_operations_total", initiator);
			label(out, ",", "operation", tgt_name_opcode(i));
			value_u64(out, initiator->counts.operations[i]);
		}
	family(out, "rblk_initiator_errors_total", "counter",
	       "Those of them that failed, by error.");
	EACH_INITIATOR(view, initiator)
	for (unsigned int i = 1; i < RBLK_E_MAX; i++)
		if (initiator->counts.errors[i]) {
			initiator_begin(out, "rblk_initiator_errors_total", initiator);
			label(out, ",", "error", tgt_name_error(i));
			value_u64(out, initiator->counts.errors[i]);
		}
	family(out, "rblk_initiator_read_bytes_total", "counter",
	       "Bytes that the initiator has read.");
	EACH_INITIATOR(view, initiator)
	{
		initiator_begin(out, "rblk_initiator_read_bytes_total", initiator);
		value_u64(out, initiator->counts.bytes_read);
	}
	family(out, "rblk_initiator_written_bytes_total", "counter",
	       "Bytes that the initiator has written.");
	EACH_INITIATOR(view, initiator)
	{
		initiator_begin(out, "rblk_initiator_written_bytes_total", initiator);
		value_u64(out, initiator->counts.bytes_written);
	}
}

static void metrics_initiator_latencies(FILE *out, const struct tgt_view *view, enum tgt_histograms histograms)
{
	family(out, "rblk_initiator_latency_seconds", "histogram",
	       "Time of the initiator's commands in the target, by stage.");
	EACH_INITIATOR(view, initiator)
	{
		const struct latency_of of = {"rblk_initiator_latency_seconds", initiator_begin,
					      initiator, &initiator->counts, histograms};

		metrics_latencies_of(out, &of);
	}
}

/* -- sessions ---------------------------------------------------------------------------------- */

static void session_begin(FILE *out, const char *name, const struct tgt_snapshot_session *session)
{
	fprintf(out, "%s{session=\"%u\"", name, session->number);
	label(out, ",", "initiator", session->initiator);
}

/* False: the session has just ended. */
static bool use_begin(FILE *out, const struct tgt_view *view, const struct tgt_snapshot_use *use,
		      const char *name)
{
	const struct tgt_snapshot_session *session = tgt_view_session(view, use->session);

	if (!session)
		return false;
	session_begin(out, name, session);
	label(out, ",", "volume", use->volume);
	return true;
}

/* A session's lines for a volume that it has open; what is 0 is left out: there are many sessions.
 */
static void use_value(FILE *out, const struct tgt_view *view, const struct tgt_snapshot_use *use,
		      const char *name, const char *key, const char *word, uint64_t value)
{
	if (!value || !use_begin(out, view, use, name))
		return;
	if (key)
		label(out, ",", key, word);
	value_u64(out, value);
}

#define EACH_USE(view, use)                                     \
	for (const struct tgt_snapshot_use *use = (view)->uses; \
	     use < (view)->uses + (view)->use_count; use++)

static void metrics_uses(FILE *out, const struct tgt_view *view)
{
	family(out, "rblk_session_operations_total", "counter",
	       "Commands of the session to a volume that it has open, with those that failed.");
	EACH_USE(view, use)
	for (unsigned int i = 0; i < TGT_COUNT_OPCODES; i++)
		if (tgt_name_opcode(i))
			use_value(out, view, use, "rblk_session_operations_total", "operation",
				  tgt_name_opcode(i), use->counts.operations[i]);
	family(out, "rblk_session_errors_total", "counter", "Those of them that failed, by error.");
	EACH_USE(view, use)
	for (unsigned int i = 1; i < RBLK_E_MAX; i++)
		use_value(out, view, use, "rblk_session_errors_total", "error", tgt_name_error(i),
			  use->counts.errors[i]);
	family(out, "rblk_session_read_bytes_total", "counter", "Bytes that the session has read.");
	EACH_USE(view, use)
	use_value(out, view, use, "rblk_session_read_bytes_total", NULL, NULL,
		  use->counts.bytes_read);
	family(out, "rblk_session_written_bytes_total", "counter",
	       "Bytes that the session has written.");
	EACH_USE(view, use)
	use_value(out, view, use, "rblk_session_written_bytes_total", NULL, NULL,
		  use->counts.bytes_written);
}

static void metrics_use_limits(FILE *out, const struct tgt_view *view)
{
	family(out, "rblk_session_limited_commands_total", "counter",
	       "Commands of the session that had to wait for a limit of the volume or of its initiator.");
	EACH_USE(view, use)
	use_value(out, view, use, "rblk_session_limited_commands_total", NULL, NULL,
		  use->counts.limited_commands);
	family(out, "rblk_session_limited_seconds_total", "counter",
	       "Time that all of these have waited for a limit of the volume or of the session's initiator.");
	EACH_USE(view, use)
	if (use->counts.limited_ns && use_begin(out, view, use, "rblk_session_limited_seconds_total"))
		value_seconds(out, (double)use->counts.limited_ns / 1e9);
}

static void use_latency(FILE *out, const struct tgt_view *view, const struct tgt_snapshot_use *use,
			enum tgt_count_kind kind, enum tgt_count_stage stage)
{
	const struct tgt_snapshot_session *session = tgt_view_session(view, use->session);
	uint64_t count = tgt_counts_of_kind(&use->counts, kind);

	for (unsigned int i = 0; session && count && i < 2; i++) {
		session_begin(out,
			      i ? "rblk_session_latency_seconds_count"
				: "rblk_session_latency_seconds_sum",
			      session);
		label(out, ",", "volume", use->volume);
		label(out, ",", "kind", tgt_name_kind(kind));
		label(out, ",", "stage", tgt_name_stage(stage));
		if (i)
			value_u64(out, count);
		else
			value_seconds(out, (double)use->counts.us[kind][stage] / 1e6);
	}
}

static void metrics_use_latencies(FILE *out, const struct tgt_view *view)
{
	family(out, "rblk_session_latency_seconds", "summary",
	       "Time of the session's commands in the target, by stage.");
	EACH_USE(view, use)
	for (unsigned int kind = 0; kind < TGT_COUNT_KINDS; kind++)
		for (unsigned int stage = 0; stage < TGT_STAGES; stage++)
			use_latency(out, view, use, kind, stage);
}

static double session_connections(const struct tgt_snapshot_session *session)
{
	return session->connections;
}

static double session_encrypted(const struct tgt_snapshot_session *session)
{
	return session->encrypted;
}

static double session_rdma(const struct tgt_snapshot_session *session)
{
	return session->rdma;
}

static double session_digests(const struct tgt_snapshot_session *session)
{
	return session->digests;
}

static double session_proven(const struct tgt_snapshot_session *session)
{
	return session->proven;
}

static double session_age(const struct tgt_snapshot_session *session)
{
	return (double)session->age_ns / 1e9;
}

static double session_credits(const struct tgt_snapshot_session *session)
{
	return session->credits;
}

static double session_data_bytes(const struct tgt_snapshot_session *session)
{
	return (double)session->data_bytes;
}

static const struct session_metric {
	const char *name, *help;
	double (*value)(const struct tgt_snapshot_session *session);
} session_metrics[] = {
	{"rblk_session_connections", "Connections of the session; 0: it may come back.", session_connections},
	{"rblk_session_encrypted_connections", "Those of them that TLS encrypts.", session_encrypted},
	{"rblk_session_rdma_connections", "Those of them over RDMA.", session_rdma},
	{"rblk_session_digest_connections", "Those of them on which a digest protects the data.", session_digests},
	{"rblk_session_proven", "1 if a secret proves its initiator's name.", session_proven},
	{"rblk_session_age_seconds", "How long ago the session was begun.", session_age},
	{"rblk_session_credits", "Receive buffers that are promised to the session.", session_credits},
	{"rblk_session_data_bytes", "Memory for data that the session holds.", session_data_bytes},
};

static void metrics_sessions(FILE *out, const struct tgt_view *view)
{
	for (size_t i = 0; i < sizeof(session_metrics) / sizeof(session_metrics[0]); i++) {
		family(out, session_metrics[i].name, "gauge", session_metrics[i].help);
		for (unsigned int j = 0; j < view->session_count; j++) {
			session_begin(out, session_metrics[i].name, &view->sessions[j]);
			value_seconds(out, session_metrics[i].value(&view->sessions[j]));
		}
	}
}

char *tgt_metrics_text(const struct tgt_methods *methods, const struct tgt_view *view,
		       size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);
	const struct tgt_config *config = methods->source.config;
	enum tgt_histograms histograms = config ? config->histograms : TGT_HISTOGRAMS_FULL;

	if (!out)
		return NULL;
	metrics_daemon(out, methods, view);
	tgt_metrics_process(out, methods);
	tgt_metrics_limits(out, methods, view);
	metrics_problems(out, methods, view);
	metrics_missing(out, view);
	metrics_events(out, view);
	metrics_failures(out, methods, view);
	metrics_reactors(out, view);
	metrics_volumes(out, view);
	metrics_volume_counts(out, view);
	metrics_latencies(out, view, histograms);
	metrics_initiators(out, view);
	metrics_initiator_latencies(out, view, histograms);
	metrics_sessions(out, view);
	metrics_uses(out, view);
	metrics_use_limits(out, view);
	metrics_use_latencies(out, view);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
