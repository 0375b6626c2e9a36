/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes each family of metrics: its help and type, then a line for each series. A volume's series
 * are those of all who have used it, and stay; so do an initiator's; a session's end with it.
 */
#include "target/watch/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "target/watch/metrics_line.h"
#include "target/watch/metrics_process.h"
#include "target/watch/metrics_sessions.h"
#include "target/watch/names.h"

static void plain(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	tgt_metrics_family(out, name, type, help);
	fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/* -- the daemon -------------------------------------------------------------------------------- */

static void metrics_daemon(FILE *out, const struct tgt_methods *methods,
			   const struct tgt_view *view)
{
	tgt_metrics_family(out, "rblk_build_info", "gauge", "Always 1; the version of rblkd is a label.");
	fprintf(out, "rblk_build_info{version=\"%s\"} 1\n", RBLK_VERSION);
	tgt_metrics_family(out, "rblk_start_time_seconds", "gauge",
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
	tgt_metrics_family(out, "rblk_problems", "gauge", "What is wrong, by its kind: what the first line of rblkctl status says.");
	for (unsigned int kind = 0; kind < TGT_PROBLEMS; kind++)
		fprintf(out, "rblk_problems{problem=\"%s\"} %u\n", tgt_problem_name(kind), health.counts[kind]);
	tgt_health_fini(&health);
}

/* 0 for volumes that are served, so that a rule sees the end, too. */
static void metrics_missing(FILE *out, const struct tgt_view *view)
{
	tgt_metrics_family(out, "rblk_volume_missing", "gauge",
	       "1 while the volume is configured, but cannot be served.");
	for (unsigned int i = 0; i < view->volume_count; i++) {
		tgt_metrics_label(out, "rblk_volume_missing{", "volume", view->volumes[i].name);
		tgt_metrics_u64(out, 0);
	}
	for (unsigned int i = 0; i < view->unserved_counts[TGT_UNSERVED_VOLUME]; i++) {
		tgt_metrics_label(out, "rblk_volume_missing{", "volume", view->unserved[TGT_UNSERVED_VOLUME][i].name);
		tgt_metrics_u64(out, 1);
	}
	tgt_metrics_family(out, "rblk_address_missing", "gauge",
	       "1 while the address is configured, but cannot be listened on.");
	for (unsigned int i = 0; i < view->unserved_counts[TGT_UNSERVED_ADDRESS]; i++) {
		tgt_metrics_label(out, "rblk_address_missing{", "address", view->unserved[TGT_UNSERVED_ADDRESS][i].name);
		tgt_metrics_u64(out, 1);
	}
}

static void metrics_events(FILE *out, const struct tgt_view *view)
{
	const struct tgt_view_totals *totals = &view->totals;

	tgt_metrics_family(out, "rblk_logins_total", "counter",
	       "Logins of connections, by result. Names, proofs and OPENs that the rules deny are denied, too.");
	for (unsigned int result = 0; result < TGT_LOGIN_RESULTS; result++)
		fprintf(out, "rblk_logins_total{result=\"%s\"} %" PRIu64 "\n", tgt_name_login(result),
			totals->logins[result]);
	plain(out, "rblk_fences_total", "counter", "FENCE commands.", totals->fences);
	tgt_metrics_family(out, "rblk_connection_ends_total", "counter",
	       "Connections that have ended, by why.");
	for (unsigned int end = 0; end < TGT_ENDS; end++)
		fprintf(out, "rblk_connection_ends_total{reason=\"%s\"} %" PRIu64 "\n",
			tgt_name_end(end), totals->ends[end]);
	tgt_metrics_family(out, "rblk_refused_commands_total", "counter",
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

		tgt_metrics_family(out, metric->name, metric->type, metric->help);
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
	tgt_metrics_label(out, "{", "volume", volume->name);
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

static uint64_t volume_window(const struct tgt_view_volume *volume)
{
	return volume->window;
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
	{"rblk_volume_window_commands", "gauge", 
	 "With limit = auto: READs and WRITEs that its store may have at once; 0: without.", volume_window},
};

static void metrics_volumes(FILE *out, const struct tgt_view *view)
{
	for (size_t i = 0; i < sizeof(volume_metrics) / sizeof(volume_metrics[0]); i++) {
		const struct volume_metric *metric = &volume_metrics[i];

		tgt_metrics_family(out, metric->name, metric->type, metric->help);
		EACH_VOLUME(view, volume)
		{
			volume_begin(out, metric->name, volume);
			tgt_metrics_u64(out, metric->value(volume));
		}
	}
	tgt_metrics_family(out, "rblk_volume_limited_seconds_total", "counter",
	       "Time that all commands together have waited for a limit of the volume or of their initiator.");
	EACH_VOLUME(view, volume)
	{
		volume_begin(out, "rblk_volume_limited_seconds_total", volume);
		tgt_metrics_seconds(out, (double)volume->counts.limited_ns / 1e9);
	}
}

static void metrics_windows(FILE *out, const struct tgt_view *view)
{
	static const char name[] = "rblk_volume_window_seconds";

	tgt_metrics_family(out, name, "gauge",
			   "With limit = auto: what READs and WRITEs take in the store, and in the quiet store.");
	for (int quiet = 0; quiet < 2; quiet++)
		EACH_VOLUME(view, volume)
		{
			if (!volume->window)
				continue;
			volume_begin(out, name, volume);
			tgt_metrics_label(out, ",", "store", quiet ? "quiet" : "used");
			tgt_metrics_seconds(out, (double)(quiet ? volume->mean_quiet_ns : volume->mean_ns) / 1e9);
		}
}

static void metrics_volume_counts(FILE *out, const struct tgt_view *view)
{
	tgt_metrics_family(out, "rblk_volume_operations_total", "counter",
	       "Commands answered, with those that failed.");
	EACH_VOLUME(view, volume)
	{
		for (unsigned int i = 0; i < TGT_COUNT_OPCODES; i++) {
			if (!tgt_name_opcode(i))
				continue;
			volume_begin(out, "rblk_volume_operations_total", volume);
			tgt_metrics_label(out, ",", "operation", tgt_name_opcode(i));
			tgt_metrics_u64(out, volume->counts.operations[i]);
		}
	}
	tgt_metrics_family(out, "rblk_volume_errors_total", "counter", "Commands that failed, by error.");
	EACH_VOLUME(view, volume)
	{
		for (unsigned int i = 1; i < RBLK_E_MAX; i++) {
			volume_begin(out, "rblk_volume_errors_total", volume);
			tgt_metrics_label(out, ",", "error", tgt_name_error(i));
			tgt_metrics_u64(out, volume->counts.errors[i]);
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
	tgt_metrics_label(out, ",", "kind", tgt_name_kind(kind));
	tgt_metrics_label(out, ",", "stage", tgt_name_stage(stage));
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
		tgt_metrics_u64(out, sum);
	}
	latency_begin(out, "_bucket", of, kind, stage);
	fprintf(out, ",le=\"+Inf\"");
	tgt_metrics_u64(out, sum);
	latency_begin(out, "_sum", of, kind, stage);
	tgt_metrics_seconds(out, (double)of->counts->us[kind][stage] / 1e6);
	latency_begin(out, "_count", of, kind, stage);
	tgt_metrics_u64(out, sum);
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
	tgt_metrics_family(out, "rblk_volume_latency_seconds", "histogram",
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
	tgt_metrics_label(out, "{", "initiator", initiator->name[0] ? initiator->name : "(others)");
	tgt_metrics_label(out, ",", "proven", initiator->proven ? "yes" : "no");
}

#define EACH_INITIATOR(view, initiator)                                       \
	for (const struct tgt_view_initiator *initiator = (view)->initiators; \
	     initiator < (view)->initiators + (view)->initiator_count; initiator++)

/* Values of 0 are left out: there may be many names. */
static void metrics_initiators(FILE *out, const struct tgt_view *view)
{
	tgt_metrics_family(out, "rblk_initiator_operations_total", "counter",
	       "Commands of all sessions of the initiator, with those that failed.");
	EACH_INITIATOR(view, initiator)
	for (unsigned int i = 0; i < TGT_COUNT_OPCODES; i++)
		if (tgt_name_opcode(i) && initiator->counts.operations[i]) {
			initiator_begin(out, "rblk_initiator_operations_total", initiator);
			tgt_metrics_label(out, ",", "operation", tgt_name_opcode(i));
			tgt_metrics_u64(out, initiator->counts.operations[i]);
		}
	tgt_metrics_family(out, "rblk_initiator_errors_total", "counter",
	       "Those of them that failed, by error.");
	EACH_INITIATOR(view, initiator)
	for (unsigned int i = 1; i < RBLK_E_MAX; i++)
		if (initiator->counts.errors[i]) {
			initiator_begin(out, "rblk_initiator_errors_total", initiator);
			tgt_metrics_label(out, ",", "error", tgt_name_error(i));
			tgt_metrics_u64(out, initiator->counts.errors[i]);
		}
	tgt_metrics_family(out, "rblk_initiator_read_bytes_total", "counter",
	       "Bytes that the initiator has read.");
	EACH_INITIATOR(view, initiator)
	{
		initiator_begin(out, "rblk_initiator_read_bytes_total", initiator);
		tgt_metrics_u64(out, initiator->counts.bytes_read);
	}
	tgt_metrics_family(out, "rblk_initiator_written_bytes_total", "counter",
	       "Bytes that the initiator has written.");
	EACH_INITIATOR(view, initiator)
	{
		initiator_begin(out, "rblk_initiator_written_bytes_total", initiator);
		tgt_metrics_u64(out, initiator->counts.bytes_written);
	}
}

static void metrics_initiator_latencies(FILE *out, const struct tgt_view *view, enum tgt_histograms histograms)
{
	tgt_metrics_family(out, "rblk_initiator_latency_seconds", "histogram",
	       "Time of the initiator's commands in the target, by stage.");
	EACH_INITIATOR(view, initiator)
	{
		const struct latency_of of = {"rblk_initiator_latency_seconds", initiator_begin,
					      initiator, &initiator->counts, histograms};

		metrics_latencies_of(out, &of);
	}
}

/* -- all --------------------------------------------------------------------------------------- */

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
	metrics_windows(out, view);
	metrics_volume_counts(out, view);
	metrics_latencies(out, view, histograms);
	metrics_initiators(out, view);
	metrics_initiator_latencies(out, view, histograms);
	tgt_metrics_sessions(out, view);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
