/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes JSON of views. */
#include "target/watch/report.h"

#include <stdio.h>
#include "target/watch/health.h"
#include "target/watch/names.h"
#include "target/watch/rpc.h"

static json_int_t integer(uint64_t value)
{
	return (json_int_t)value;
}

/* {"read": 5, ...}: what is not zero. */
static json_t *report_errors(const uint64_t errors[RBLK_E_MAX])
{
	json_t *object = json_object();

	for (unsigned int i = 0; i < RBLK_E_MAX; i++)
		if (errors[i])
			json_object_set_new(object, tgt_name_error(i),
					    json_integer(integer(errors[i])));
	return object;
}

static json_t *report_operations(const struct tgt_counts *counts)
{
	json_t *object = json_object();

	for (unsigned int i = 0; i < TGT_COUNT_OPCODES; i++)
		if (tgt_name_opcode(i))
			json_object_set_new(object, tgt_name_opcode(i),
					    json_integer(integer(counts->operations[i])));
	return object;
}

static void report_add_counts(json_t *object, const struct tgt_counts *counts)
{
	json_object_set_new(object, "operations", report_operations(counts));
	json_object_set_new(object, "read_bytes", json_integer(integer(counts->bytes_read)));
	json_object_set_new(object, "written_bytes", json_integer(integer(counts->bytes_written)));
	json_object_set_new(object, "errors", report_errors(counts->errors));
	json_object_set_new(object, "limited_commands", json_integer(integer(counts->limited_commands)));
	json_object_set_new(object, "limited_ns", json_integer(integer(counts->limited_ns)));
}

/* -- sessions ---------------------------------------------------------------------------------- */

static json_t *report_opened(const struct tgt_view *view, unsigned int session)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < view->use_count; i++)
		if (view->uses[i].session == session)
			json_array_append_new(array, json_string(view->uses[i].volume));
	return array;
}

static json_t *report_paths(const struct tgt_snapshot_session *session)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++) {
		const struct tgt_snapshot_path *path = &session->paths[i];

		if (path->peer[0])
			json_array_append_new(array, json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:I}", "queue", (int)i, "peer",
							       tgt_rpc_text(path->peer), "rdma", path->rdma,
							       "encrypted", path->encrypted, "digest", path->digest,
							       "proven", path->proven, "age_ns", integer(path->age_ns)));
	}
	return array;
}

json_t *tgt_report_sessions(const struct tgt_view *view, bool paths)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < view->session_count; i++) {
		const struct tgt_snapshot_session *session = &view->sessions[i];

		json_array_append_new(
			array,
			json_pack("{s:i, s:o, s:o, s:b, s:b, s:o, s:i, s:i, s:i, s:i, s:I, s:i, s:i, s:i, s:I, s:I, s:o}", "session",
				  (int)session->number, "initiator",
				  tgt_rpc_text(session->initiator), "peer",
				  tgt_rpc_text(session->peer), "proven", session->proven, "ending",
				  session->ending, "waits_ns",
				  session->awaits_ns ? json_integer(integer(session->awaits_ns)) : json_null(), "connections",
				  (int)session->connections, "encrypted_connections",
				  (int)session->encrypted, "rdma_connections", (int)session->rdma,
				  "digest_connections", (int)session->digests, "age_ns", integer(session->age_ns), "outstanding",
				  (int)session->outstanding, "opens", (int)session->handles,
				  "credits", (int)session->credits, "data_bytes",
				  integer(session->data_bytes), "commands",
				  integer(session->commands), "volumes",
				  report_opened(view, session->number)));
		if (paths)
			json_object_set_new(json_array_get(array, i), "paths", report_paths(session));
	}
	return array;
}

/* -- volumes ----------------------------------------------------------------------------------- */

/* null: without `limit = auto`, or nobody has it open. */
static json_t *report_window(const struct tgt_view_volume *volume)
{
	if (!volume->window)
		return json_null();
	return json_pack("{s:i, s:I, s:I}", "commands", (int)volume->window, "mean_ns", integer(volume->mean_ns),
			 "quiet_ns", integer(volume->mean_quiet_ns));
}

json_t *tgt_report_volumes(const struct tgt_view *view, bool problems)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < view->volume_count; i++) {
		const struct tgt_view_volume *entry = &view->volumes[i];
		json_t *object = json_pack(
			"{s:s, s:s, s:o, s:I, s:i, s:b, s:b, s:b, s:i, s:i}", "volume", entry->name,
			"store", entry->store, "path",
			entry->path && entry->path[0] ? tgt_rpc_text(entry->path) : json_null(),
			"bytes", integer(entry->bytes), "block_bytes", (int)entry->block_bytes,
			"read_only", entry->read_only, "buffered", entry->buffered,
			"flush_failed", entry->flush_failed_ns != 0, "opens", (int)entry->opens,
			"outstanding", (int)entry->outstanding);

		if (!object)
			continue;
		report_add_counts(object, &entry->counts);
		json_object_set_new(object, "window", report_window(entry));
		if (problems)
			json_object_set_new(object, "problems", tgt_health_volume_report(entry, true));
		json_array_append_new(array, object);
	}
	return array;
}

json_t *tgt_report_missing(const struct tgt_view *view, enum tgt_unserved_kind kind, bool problems)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < view->unserved_counts[kind]; i++) {
		const struct tgt_unserved_one *one = &view->unserved[kind][i];
		json_t *object = json_pack("{s:o, s:o}", kind == TGT_UNSERVED_VOLUME ? "volume" : "address",
					   tgt_rpc_text(one->name), "reason", tgt_rpc_text(one->reason));

		if (problems)
			json_object_set_new(object, "problems", tgt_health_missing_report(one, kind));
		json_array_append_new(array, object);
	}
	return array;
}

/* -- reactors ---------------------------------------------------------------------------------- */

json_t *tgt_report_reactors(const struct tgt_view *view)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < view->reactor_count; i++) {
		const struct tgt_snapshot *snapshot = view->snapshots[i];

		if (!snapshot)
			continue;
		json_array_append_new(
			array, json_pack("{s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I}", "reactor",
					 (int)snapshot->reactor, "sessions",
					 (int)snapshot->sessions_here, "connections",
					 (int)snapshot->connections, "logins_waiting",
					 (int)snapshot->logins_waiting, "busy_ns",
					 integer(snapshot->busy_ns), "taken_ns",
					 integer(snapshot->taken_ns), "pool_bytes",
					 integer(snapshot->pool_bytes), "pool_used_bytes",
					 integer(snapshot->pool_used_bytes)));
	}
	return array;
}

json_t *tgt_report_ends(const struct tgt_view *view)
{
	json_t *object = json_object();

	for (unsigned int end = 0; end < TGT_ENDS; end++)
		json_object_set_new(object, tgt_name_end(end),
				    json_integer(integer(view->totals.ends[end])));
	return object;
}

json_t *tgt_report_logins(const struct tgt_view *view)
{
	json_t *object = json_object();

	for (unsigned int result = 0; result < TGT_LOGIN_RESULTS; result++)
		json_object_set_new(object, tgt_name_login(result), json_integer(integer(view->totals.logins[result])));
	return object;
}

/* -- counts ------------------------------------------------------------------------------------ */

/* Without the zeroes at its end. */
static json_t *report_buckets(const uint64_t buckets[CORE_BUCKETS])
{
	unsigned int count = CORE_BUCKETS;
	json_t *array = json_array();

	while (count && !buckets[count - 1])
		count--;
	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(array, json_integer(integer(buckets[i])));
	return array;
}

static json_t *report_latency(const struct tgt_counts *counts)
{
	json_t *object = json_object();

	for (unsigned int kind = 0; kind < TGT_COUNT_KINDS; kind++) {
		json_t *stages = json_object();

		for (unsigned int stage = 0; stage < TGT_STAGES; stage++)
			json_object_set_new(
				stages, tgt_name_stage(stage),
				json_pack("{s:I, s:o}", "sum_ns",
					  integer(counts->us[kind][stage] * 1000), "buckets",
					  report_buckets(counts->latency[kind][stage])));
		json_object_set_new(object, tgt_name_kind(kind), stages);
	}
	return object;
}

/* Where each bucket ends, but for the last one. */
static json_t *report_bucket_ends(void)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i + 1 < CORE_BUCKETS; i++)
		json_array_append_new(array,
				      json_integer(integer(core_bucket_end(i) * 1000)));
	return array;
}

static json_t *report_use(const struct tgt_view *view, const struct tgt_snapshot_use *use)
{
	const struct tgt_snapshot_session *session = tgt_view_session(view, use->session);
	json_t *object = json_pack("{s:i, s:s, s:o, s:o, s:b, s:i, s:o}", "session",
				   (int)use->session, "volume", use->volume, "initiator",
				   tgt_rpc_text(session ? session->initiator : ""), "peer",
				   tgt_rpc_text(session ? session->peer : ""), "read_only",
				   use->read_only, "outstanding", (int)use->outstanding, "latency",
				   report_latency(&use->counts));

	if (object)
		report_add_counts(object, &use->counts);
	return object;
}

json_t *tgt_report_counts(const struct tgt_view *view)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < view->use_count; i++)
		json_array_append_new(array, report_use(view, &view->uses[i]));
	return json_pack("{s:I, s:o, s:o, s:o}", "taken_ns", integer(view->taken_ns),
			 "bucket_ends_ns", report_bucket_ends(), "uses", array, "reactors",
			 tgt_report_reactors(view));
}
