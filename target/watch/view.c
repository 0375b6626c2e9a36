/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Adds up the snapshots of all reactors. */
#include "target/watch/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/serve/stats_table.h"
#include "target/watch/ask.h"

/* A reactor answers in its next turn; one that is late is left out. */
#define ANSWER_MS 1000u

/* -- sessions ---------------------------------------------------------------------------------- */

/* Remote sessions behind their session. */
static int session_order(const void *a, const void *b)
{
	const struct tgt_snapshot_session *one = a, *two = b;

	if (one->number != two->number)
		return one->number < two->number ? -1 : 1;
	return one->remote - two->remote;
}

static void session_add(struct tgt_snapshot_session *to, const struct tgt_snapshot_session *remote)
{
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (remote->paths[i].peer[0])
			to->paths[i] = remote->paths[i];
	to->connections += remote->connections;
	to->encrypted += remote->encrypted;
	to->rdma += remote->rdma;
	to->digests += remote->digests;
	to->outstanding += remote->outstanding;
	to->credits += remote->credits;
	to->data_bytes += remote->data_bytes;
	to->commands += remote->commands;
}

static int view_sessions(struct tgt_view *view)
{
	struct tgt_snapshot_session *all;
	unsigned int count = 0, kept = 0;

	for (unsigned int i = 0; i < view->reactor_count; i++)
		count += view->snapshots[i] ? view->snapshots[i]->session_count : 0;
	all = calloc(count + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	view->sessions = all;
	count = 0;
	for (unsigned int i = 0; i < view->reactor_count; i++) {
		const struct tgt_snapshot *snapshot = view->snapshots[i];

		for (unsigned int j = 0; snapshot && j < snapshot->session_count; j++)
			all[count++] = snapshot->sessions[j];
	}
	qsort(all, count, sizeof(*all), session_order);
	for (unsigned int i = 0; i < count; i++) {
		if (kept && all[kept - 1].number == all[i].number)
			session_add(&all[kept - 1], &all[i]);
		else if (!all[i].remote)
			all[kept++] = all[i];
	}
	view->session_count = kept;
	return 0;
}

static int session_number_order(const void *number, const void *session)
{
	unsigned int one = *(const unsigned int *)number;
	unsigned int two = ((const struct tgt_snapshot_session *)session)->number;

	return one == two ? 0 : one < two ? -1 : 1;
}

const struct tgt_snapshot_session *tgt_view_session(const struct tgt_view *view, unsigned int number)
{
	return bsearch(&number, view->sessions, view->session_count, sizeof(*view->sessions),
		       session_number_order);
}

/* -- uses -------------------------------------------------------------------------------------- */

static int use_order(const void *a, const void *b)
{
	const struct tgt_snapshot_use *one = a, *two = b;

	if (one->session != two->session)
		return one->session < two->session ? -1 : 1;
	return strcmp(one->volume, two->volume);
}

static int view_uses(struct tgt_view *view)
{
	struct tgt_snapshot_use *all;
	unsigned int count = 0, kept = 0;

	for (unsigned int i = 0; i < view->reactor_count; i++)
		count += view->snapshots[i] ? view->snapshots[i]->use_count : 0;
	all = calloc(count + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	view->uses = all;
	count = 0;
	for (unsigned int i = 0; i < view->reactor_count; i++) {
		const struct tgt_snapshot *snapshot = view->snapshots[i];

		for (unsigned int j = 0; snapshot && j < snapshot->use_count; j++)
			all[count++] = snapshot->uses[j];
	}
	qsort(all, count, sizeof(*all), use_order);
	for (unsigned int i = 0; i < count; i++) {
		if (!kept || use_order(&all[kept - 1], &all[i])) {
			all[kept++] = all[i];
			continue;
		}
		all[kept - 1].outstanding += all[i].outstanding;
		all[kept - 1].read_only = all[kept - 1].read_only && all[i].read_only;
		tgt_counts_sum(&all[kept - 1].counts, &all[i].counts, sizeof(struct tgt_counts));
	}
	view->use_count = kept;
	return 0;
}

/* -- volumes ----------------------------------------------------------------------------------- */

static int volume_name_order(const void *name, const void *volume)
{
	return strcmp(name, ((const struct tgt_view_volume *)volume)->name);
}

/* NULL: it is not served any more. */
static struct tgt_view_volume *view_volume(struct tgt_view *view, const char *name)
{
	return bsearch(name, view->volumes, view->volume_count, sizeof(*view->volumes),
		       volume_name_order);
}

static void view_volume_counts(struct tgt_view *view)
{
	struct tgt_view_volume *volume;

	for (unsigned int i = 0; i < view->use_count; i++) {
		volume = view_volume(view, view->uses[i].volume);
		if (!volume)
			continue;
		volume->opens++;
		volume->outstanding += view->uses[i].outstanding;
		tgt_counts_sum(&volume->counts, &view->uses[i].counts, sizeof(struct tgt_counts));
	}
	for (unsigned int i = 0; i < view->reactor_count; i++) {
		const struct tgt_snapshot *snapshot = view->snapshots[i];

		for (unsigned int j = 0; snapshot && j < snapshot->volume_count; j++) {
			volume = view_volume(view, snapshot->volumes[j].name);
			if (volume)
				tgt_counts_sum(&volume->counts, &snapshot->volumes[j].counts, sizeof(struct tgt_counts));
		}
	}
}

static void view_volume_fill(struct tgt_view_volume *entry, struct tgt_volume *volume)
{
	const struct tgt_store_ops *ops = volume->store->ops;
	struct tgt_store_file file;

	memcpy(entry->name, volume->config.name, sizeof(entry->name));
	/* Which one it has become: uring and nvme can stand for each other. What faults are in front of is not known here. */
	snprintf(entry->store, sizeof(entry->store), "%s",
		 ops->wraps ? volume->config.store : ops->kind);
	entry->path = strdup(volume->config.path);
	entry->bytes = atomic_load(&volume->blocks) * volume->block_bytes;
	entry->block_bytes = volume->block_bytes;
	entry->read_only = volume->config.read_only || volume->store->info.read_only;
	entry->buffered = volume->store->info.buffered;
	if (ops->file_look && ops->file_look(volume->store, &file))
		entry->deleted = file.deleted;
	else if (!ops->device_bytes || ops->device_bytes(volume->store, &file.bytes) < 0)
		file.bytes = entry->bytes;
	entry->short_bytes = file.bytes < entry->bytes ? entry->bytes - file.bytes : 0;
	/* Only then: the file that is there is another one, and a file server that does not answer has not said so much. */
	entry->trashed = entry->deleted && tgt_store_find(volume->config.store)->elsewhere;
	entry->replaced = entry->deleted && !entry->trashed && access(volume->config.path, F_OK) == 0;
	entry->flush_failed_ns = atomic_load(&volume->trouble.lost_ns);
	for (unsigned int kind = 0; kind < TGT_IO_KINDS; kind++)
		entry->failures[kind] = atomic_load(&volume->trouble.errors[kind]);
	entry->first_error_time_ns = atomic_load(&volume->trouble.first_error_time_ns);
	entry->error_time_ns = atomic_load(&volume->trouble.error_time_ns);
	entry->error = atomic_load(&volume->trouble.error);
	entry->window = atomic_load(&volume->pace.window);
	entry->mean_ns = atomic_load(&volume->pace.mean_ns);
	entry->mean_quiet_ns = atomic_load(&volume->pace.mean_quiet_ns);
}

static int view_volumes(struct tgt_view *view, struct tgt_registry *registry)
{
	struct tgt_volume **list = calloc(RBLK_VOLUMES_MAX, sizeof(struct tgt_volume *));
	unsigned int total, count;

	if (!list)
		return -ENOMEM;
	count = tgt_volume_list(registry, 0, list, RBLK_VOLUMES_MAX, &total);
	view->volumes = calloc(count + 1, sizeof(*view->volumes));
	for (unsigned int i = 0; i < count; i++) {
		if (view->volumes)
			view_volume_fill(&view->volumes[view->volume_count++], list[i]);
		tgt_volume_put(list[i]);
	}
	free(list);
	if (!view->volumes)
		return -ENOMEM;
	view_volume_counts(view);
	return 0;
}

/* -- initiators -------------------------------------------------------------------------------- */

/* All have the places of their numbers here. */
static void view_initiators_add(struct tgt_view_initiator *all, bool *there,
				const struct tgt_snapshot *snapshot)
{
	for (unsigned int i = 0; i < snapshot->initiator_count; i++) {
		const struct tgt_initiator_stats *one = &snapshot->initiators[i];

		there[one->number] = true;
		memcpy(all[one->number].name, one->name, sizeof(one->name));
		all[one->number].proven = one->proven;
		tgt_counts_sum(&all[one->number].counts, &one->counts, sizeof(struct tgt_counts));
	}
	for (unsigned int i = 0; i < snapshot->use_count; i++)
		tgt_counts_sum(&all[snapshot->uses[i].initiator].counts, &snapshot->uses[i].counts, sizeof(struct tgt_counts));
}

static int view_initiators(struct tgt_view *view)
{
	bool there[TGT_NAMES_MAX + 1] = {false};
	struct tgt_view_initiator *all = calloc(TGT_NAMES_MAX + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	view->initiators = all;
	for (unsigned int i = 0; i < view->reactor_count; i++)
		if (view->snapshots[i])
			view_initiators_add(all, there, view->snapshots[i]);
	for (unsigned int i = 0; i <= TGT_NAMES_MAX; i++)
		if (there[i])
			all[view->initiator_count++] = all[i];
	return 0;
}

/* -- totals ------------------------------------------------------------------------------------ */

static void view_totals(struct tgt_view *view)
{
	struct tgt_view_totals *totals = &view->totals;

	for (unsigned int i = 0; i < view->reactor_count; i++) {
		const struct tgt_snapshot *snapshot = view->snapshots[i];

		if (!snapshot) {
			view->missing++;
			continue;
		}
		totals->connections += snapshot->connections;
		totals->fences += snapshot->fences;
		for (unsigned int error = 0; error < RBLK_E_MAX; error++)
			totals->refused[error] += snapshot->refused[error];
		for (unsigned int end = 0; end < TGT_ENDS; end++)
			totals->ends[end] += snapshot->ends[end];
		for (unsigned int result = 0; result < TGT_LOGIN_RESULTS; result++)
			totals->logins[result] += snapshot->logins[result];
	}
}

/* -- all --------------------------------------------------------------------------------------- */

int tgt_view_take(const struct tgt_watch_source *source, struct tgt_view *view)
{
	int status;

	memset(view, 0, sizeof(*view));
	view->taken_ns = env_now_ns();
	view->reactor_count = source->reactor_count;
	status = tgt_snapshot_ask(source->reactors, source->reactor_count, ANSWER_MS, view->snapshots);
	if (!status)
		status = view_sessions(view);
	if (!status)
		status = view_uses(view);
	if (!status)
		status = view_volumes(view, source->registry);
	if (!status)
		status = view_initiators(view);
	if (status) {
		tgt_view_free(view);
		return status;
	}
	for (unsigned int kind = 0; kind < TGT_UNSERVED_KINDS; kind++)
		view->unserved[kind] = tgt_unserved_list(source->unserved, kind, &view->unserved_counts[kind]);
	view_totals(view);
	return 0;
}

void tgt_view_free(struct tgt_view *view)
{
	for (unsigned int i = 0; i < view->volume_count; i++)
		free(view->volumes[i].path);
	for (unsigned int i = 0; i < TGT_REACTORS_MAX; i++)
		free(view->snapshots[i]);
	for (unsigned int kind = 0; kind < TGT_UNSERVED_KINDS; kind++)
		free(view->unserved[kind]);
	free(view->sessions);
	free(view->uses);
	free(view->volumes);
	free(view->initiators);
	memset(view, 0, sizeof(*view));
}
