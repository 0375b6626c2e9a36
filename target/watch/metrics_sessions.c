/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The metrics of sessions, and of the volumes that each has open; they end with it. See metrics_sessions.h. */
#include "target/watch/metrics_sessions.h"

#include "target/watch/metrics_line.h"
#include "target/watch/names.h"

static void session_begin(FILE *out, const char *name, const struct tgt_snapshot_session *session)
{
	fprintf(out, "%s{session=\"%u\"", name, session->number);
	tgt_metrics_label(out, ",", "initiator", session->initiator);
}

/* False: the session has just ended. */
static bool use_begin(FILE *out, const struct tgt_view *view, const struct tgt_snapshot_use *use,
		      const char *name)
{
	const struct tgt_snapshot_session *session = tgt_view_session(view, use->session);

	if (!session)
		return false;
	session_begin(out, name, session);
	tgt_metrics_label(out, ",", "volume", use->volume);
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
		tgt_metrics_label(out, ",", key, word);
	tgt_metrics_u64(out, value);
}

#define EACH_USE(view, use)                                     \
	for (const struct tgt_snapshot_use *use = (view)->uses; \
	     use < (view)->uses + (view)->use_count; use++)

static void metrics_uses(FILE *out, const struct tgt_view *view)
{
	tgt_metrics_family(out, "rblk_session_operations_total", "counter",
	       "Commands of the session to a volume that it has open, with those that failed.");
	EACH_USE(view, use)
	for (unsigned int i = 0; i < TGT_COUNT_OPCODES; i++)
		if (tgt_name_opcode(i))
			use_value(out, view, use, "rblk_session_operations_total", "operation",
				  tgt_name_opcode(i), use->counts.operations[i]);
	tgt_metrics_family(out, "rblk_session_errors_total", "counter", "Those of them that failed, by error.");
	EACH_USE(view, use)
	for (unsigned int i = 1; i < RBLK_E_MAX; i++)
		use_value(out, view, use, "rblk_session_errors_total", "error", tgt_name_error(i),
			  use->counts.errors[i]);
	tgt_metrics_family(out, "rblk_session_read_bytes_total", "counter", "Bytes that the session has read.");
	EACH_USE(view, use)
	use_value(out, view, use, "rblk_session_read_bytes_total", NULL, NULL,
		  use->counts.bytes_read);
	tgt_metrics_family(out, "rblk_session_written_bytes_total", "counter",
	       "Bytes that the session has written.");
	EACH_USE(view, use)
	use_value(out, view, use, "rblk_session_written_bytes_total", NULL, NULL,
		  use->counts.bytes_written);
}

static void metrics_use_limits(FILE *out, const struct tgt_view *view)
{
	tgt_metrics_family(out, "rblk_session_limited_commands_total", "counter",
	       "Commands of the session that had to wait for a limit of the volume or of its initiator.");
	EACH_USE(view, use)
	use_value(out, view, use, "rblk_session_limited_commands_total", NULL, NULL,
		  use->counts.limited_commands);
	tgt_metrics_family(out, "rblk_session_limited_seconds_total", "counter",
	       "Time that all of these have waited for a limit of the volume or of the session's initiator.");
	EACH_USE(view, use)
	if (use->counts.limited_ns && use_begin(out, view, use, "rblk_session_limited_seconds_total"))
		tgt_metrics_seconds(out, (double)use->counts.limited_ns / 1e9);
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
		tgt_metrics_label(out, ",", "volume", use->volume);
		tgt_metrics_label(out, ",", "kind", tgt_name_kind(kind));
		tgt_metrics_label(out, ",", "stage", tgt_name_stage(stage));
		if (i)
			tgt_metrics_u64(out, count);
		else
			tgt_metrics_seconds(out, (double)use->counts.us[kind][stage] / 1e6);
	}
}

static void metrics_use_latencies(FILE *out, const struct tgt_view *view)
{
	tgt_metrics_family(out, "rblk_session_latency_seconds", "summary",
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

static void metrics_gauges(FILE *out, const struct tgt_view *view)
{
	for (size_t i = 0; i < sizeof(session_metrics) / sizeof(session_metrics[0]); i++) {
		tgt_metrics_family(out, session_metrics[i].name, "gauge", session_metrics[i].help);
		for (unsigned int j = 0; j < view->session_count; j++) {
			session_begin(out, session_metrics[i].name, &view->sessions[j]);
			tgt_metrics_seconds(out, session_metrics[i].value(&view->sessions[j]));
		}
	}
}

void tgt_metrics_sessions(FILE *out, const struct tgt_view *view)
{
	metrics_gauges(out, view);
	metrics_uses(out, view);
	metrics_use_limits(out, view);
	metrics_use_latencies(out, view);
}
