/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * OPEN: waits for the ends of connections, for orphaned writes, also at other gateways, for the end of another handle
 * in its slot and for the volume's preparation, serves a device that has grown in its new size, and reports the
 * volume.
 */
#include "target/serve/session_command.h"

#include <stdlib.h>
#include "proto/wire/wire_check.h"
#include "target/base/log.h"
#include "target/base/registrant.h"
#include "target/base/unserved.h"
#include "target/serve/authorize.h"
#include "target/serve/barrier.h"
#include "target/serve/gateways.h"
#include "target/serve/handle.h"
#include "target/serve/queue.h"

/* An OPEN, which waits at least for the end of the turn. */
struct tgt_open {
	struct tgt_pending pending; /* first */
	uint32_t handle;
	uint32_t flags;		   /* enum rblk_open_flag */
	bool restricted;	   /* RBLK_OPEN_READ_ONLY is the rules' */
	uint64_t since_ns;	     /* when its wait for what follows the barrier began */
	uint64_t orphans;	   /* of the volume, that were there then */
	struct tgt_gateways_fence *fence; /* at other gateways of the volume; NULL: not needed, or over */
	struct tgt_channel *channel; /* that is being opened for it; NULL: not yet, or not needed */
};

/* -- the size ------------------------------------------------------------------------------------ */

/* From now on all of a grown device is served, and sessions that have it open are told. */
static void open_size(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	const struct tgt_peers *peers = reactor->peers;
	char words[TGT_VOLUME_SIZE_BYTES];

	if (!tgt_volume_grow(volume))
		return;
	tgt_log(TGT_LOG_INFO, "volume %s: has grown: now %s", volume->config.name, tgt_volume_size_words(volume, words));
	tgt_handle_volume_changed(reactor, volume);
	for (unsigned int i = 0; reactor->is_peer && i < atomic_load(&peers->count); i++)
		if (peers->reactors[i] != reactor) /* without memory, initiators there learn the size when they open it next */
			tgt_reactor_call(peers->reactors[i], tgt_handle_volume_changed, tgt_volume_ref(volume));
}

/* -- opening ------------------------------------------------------------------------------------- */

/* Whoever may only read gets no more. True: that makes a difference. */
static bool open_restrict(uint32_t *flags, enum tgt_right right)
{
	bool restricts = right < TGT_RIGHT_WRITE && !(*flags & RBLK_OPEN_READ_ONLY);

	if (restricts)
		*flags |= RBLK_OPEN_READ_ONLY;
	return restricts;
}

/* Who does not know of the limit would exceed it: it is not told of COMPARE_AND_WRITE. An NVMe host's front knows. */
static void open_compare_limit(const struct tgt_request *request, const struct tgt_volume *volume,
			       struct rblk_wire_volume *report)
{
	uint32_t blocks = volume->store->info.compare_bytes / volume->block_bytes;

	if (request->io_queue->features & RBLK_FEATURE_COMPARE_LIMIT)
		report->max_compare_blocks = rblk_to_le16(blocks < UINT16_MAX ? (uint16_t)blocks : UINT16_MAX);
	else if (blocks)
		report->flags &= ~rblk_to_le32(RBLK_VOLUME_COMPARE_AND_WRITE);
}

static enum rblk_status open_volume(struct tgt_open *open)
{
	struct tgt_request *request = open->pending.request;
	struct tgt_session *session = tgt_session_of(request);
	struct tgt_volume *volume = open->pending.volume;
	struct rblk_wire_volume *report = (void *)request->data;
	struct tgt_handle *handle;
	enum rblk_status status;
	enum tgt_right right;

	/* Once more, because it may have waited. */
	right = tgt_authorize_open(session, request, volume->config.name);
	if (right < TGT_RIGHT_READ)
		return RBLK_E_DENIED;
	open->restricted |= open_restrict(&open->flags, right);
	open_size(session->reactor, volume);
	status = tgt_handle_open(session, tgt_volume_ref(volume), open->handle, open->flags, open->restricted, &handle);
	if (status)
		return status;
	/* The rules may have changed while it waited: it stays for reading, as it has not waited for what a writer waits for. */
	tgt_authorize_check(handle, right);
	tgt_volume_describe(handle->access.channel->volume, request->io_queue->features,
			    request->io_queue->loop->max_io_bytes, TGT_CAPSULE_BYTES, report);
	report->handle = rblk_to_le32(open->handle);
	if (request->io_queue->features & RBLK_FEATURE_FENCE_DOMAIN)
		tgt_volume_fence_domain(handle->access.channel->volume, report->fence_domain);
	if (handle->access.read_only)
		report->flags |= rblk_to_le32(RBLK_VOLUME_READ_ONLY);
	open_compare_limit(request, handle->access.channel->volume, report);
	return RBLK_OK;
}

/*
 * F5: writes that an ended connection has left with the store must not land after those of the initiator that
 * opens the volume now. First all reactors see which connections have ended, then their writes end. False: not yet.
 */
static bool open_is_alone(struct tgt_open *open, uint64_t now_ns)
{
	struct tgt_orphans *orphans = &open->pending.volume->orphans;

	if (open->pending.barrier) {
		if (!tgt_barrier_is_over(open->pending.barrier))
			return false;
		tgt_barrier_end(open->pending.barrier);
		open->pending.barrier = NULL;
		open->since_ns = now_ns;
		open->orphans = tgt_orphans_now(orphans);
	}
	open->orphans = tgt_orphans_left(orphans, open->orphans);
	return !open->orphans;
}

/*
 * The same at other gateways of the volume. False: not yet; one that has failed is begun anew by an OPEN that comes
 * again.
 */
static bool open_is_fenced(struct tgt_open *open)
{
	if (open->fence && tgt_gateways_fence_is_done(open->fence)) {
		tgt_gateways_fence_end(open->fence);
		open->fence = NULL;
	}
	return !open->fence;
}

/*
 * A device pins every page of a memory volume when it is registered. Pages that are not there yet
 * have to be found and zeroed for that, which takes seconds for gigabytes: not on this thread.
 */
static bool open_pages(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	const struct tgt_store_ops *ops = volume->store->ops;

	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		if (ops->prepare && fab_kind_is_rdma(fab_kind_of(reactor->fabrics[i].fab)))
			return ops->prepare(volume->store);
	return true;
}

/* Continues the preparation. RBLK_E_BUSY: it has to be waited for. */
static enum rblk_status open_prepare(struct tgt_reactor *reactor, struct tgt_open *open)
{
	if (!open->pending.volume->store->info.direct)
		return RBLK_OK;
	if (!open_pages(reactor, open->pending.volume))
		return RBLK_E_BUSY;
	if (!open->channel)
		open->channel = tgt_handle_channel_get(reactor, tgt_volume_ref(open->pending.volume));
	if (!open->channel || open->channel->state == TGT_CHANNEL_FAILED)
		return RBLK_E_NO_RESOURCES;
	return open->channel->state == TGT_CHANNEL_OPENING ? RBLK_E_BUSY : RBLK_OK;
}

static void open_free(struct tgt_open *open)
{
	if (open->fence)
		tgt_gateways_fence_end(open->fence);
	if (open->channel)
		tgt_handle_channel_put(open->pending.reactor, open->channel);
	tgt_pending_end(&open->pending);
}

static bool open_leave(struct tgt_request *request)
{
	open_free(request->held);
	return true;
}

/* Continues it if it can, refuses it if it has waited too long. */
static void open_go_on(struct tgt_pending *pending)
{
	struct tgt_open *open = (struct tgt_open *)pending;
	struct tgt_reactor *reactor = pending->reactor;
	bool lost = tgt_volume_why_lost(pending->volume);
	enum rblk_status status = RBLK_OK;

	if (reactor->loop.draining)
		status = RBLK_E_DRAINING;
	else if (lost)
		status = RBLK_E_BUSY;
	else if (atomic_load(&pending->volume->removed))
		status = RBLK_E_NO_VOLUME;
	else if (open->fence && tgt_gateways_fence_is_held(open->fence))
		status = RBLK_E_FENCED;
	else if (!open_is_alone(open, reactor->loop.now_ns) || !open_is_fenced(open) ||
		 !tgt_handle_vacate(tgt_session_of(pending->request), open->handle))
		status = RBLK_E_BUSY;
	else
		status = open_prepare(reactor, open);
	/*
	 * A barrier ends after so many turns of each reactor, however long they take. With a limit in time, reactors with
	 * long turns would refuse every OPEN that comes again, and each would begin its barrier anew.
	 */
	if (status == RBLK_E_BUSY && !lost &&
	    (open->pending.barrier || reactor->loop.now_ns - open->since_ns < TGT_OPEN_WAIT_NS))
		return;
	/* Another target may reach what the others are asked by. */
	if (status == RBLK_E_BUSY && open->fence && !tgt_gateways_fence_is_done(open->fence) && tgt_store_silent())
		status = RBLK_E_DRAINING;
	if (status == RBLK_OK)
		status = open_volume(open);
	tgt_command_answer(pending->request, status);
	open_free(open);
}

void tgt_open_drop(struct tgt_session *session, uint32_t handle)
{
	struct tgt_pending *pending, *following;

	TAILQ_FOREACH_SAFE(pending, &session->reactor->pending, link, following) {
		struct tgt_open *open = (struct tgt_open *)pending;

		if (pending->go_on != open_go_on || tgt_session_of(pending->request) != session ||
		    RBLK_HANDLE_SLOT(open->handle) != RBLK_HANDLE_SLOT(handle))
			continue;
		tgt_request_complete(pending->request, RBLK_E_ABORTED);
		open_free(open);
	}
}

/* Its disk may be a little late, as after a start of the machine: for so long the initiator does not lose the volume. */
static bool open_awaited(struct tgt_reactor *reactor, const char *name)
{
	return tgt_unserved_awaited(reactor->peers->unserved, TGT_UNSERVED_VOLUME, name, TGT_OPEN_AWAITED_MS);
}

/*
 * An NVMe host sends what it has lost on one path again on another one, and asks nobody first. So its controllers'
 * first OPEN asks nothing, as they have no I/O yet; another one puts one in charge (target/nvme/path.c), and that one
 * asks.
 */
static bool open_needs_fence(struct tgt_session *session, const struct tgt_arguments *arguments,
			     const struct tgt_volume *volume, uint32_t flags)
{
	const struct tgt_handle *handle;
	enum rblk_status status;

	if (!volume->store->info.shared || flags & RBLK_OPEN_READ_ONLY)
		return false;
	handle = tgt_handle_use(session, arguments->volume, &status);
	/* One in charge that could only read has not asked. */
	return !session->has_host_id ||
	       (handle && (handle->access.read_only || !tgt_paths->in_charge(session->id)));
}

enum rblk_status tgt_open_begin(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	const struct rblk_wire_open *wire = (const void *)arguments->capsule;
	struct tgt_session *session = tgt_session_of(request);
	struct tgt_volume *volume;
	struct tgt_open *open;
	enum rblk_status status = RBLK_OK;
	enum tgt_right right;
	bool restricted, fences;
	uint32_t flags;

	if (request->io_queue->loop->draining)
		return RBLK_E_DRAINING;
	if (rblk_check_open(arguments->capsule, arguments->capsule_bytes))
		return RBLK_E_INVALID;
	if (!tgt_request_report_alloc(request, sizeof(struct rblk_wire_volume)))
		return RBLK_E_BUSY;
	flags = rblk_le32(wire->flags);
	/* Before it is looked for: whether it exists is for those who may use it. */
	right = tgt_authorize_open(session, request, wire->name);
	if (right < TGT_RIGHT_READ)
		return RBLK_E_DENIED;
	restricted = open_restrict(&flags, right);
	volume = tgt_volume_get(session->reactor->registry, wire->name);
	if (!volume)
		return open_awaited(session->reactor, wire->name) ? RBLK_E_BUSY : RBLK_E_NO_VOLUME;
	if (atomic_load(&volume->leaves) || tgt_volume_why_lost(volume)) {
		tgt_volume_put(volume);
		return RBLK_E_BUSY;
	}
	fences = open_needs_fence(session, arguments, volume, flags);
	if (!tgt_request_hold(request, open_leave, NULL)) {
		tgt_volume_put(volume);
		return TGT_UNANSWERED;
	}
	open = (struct tgt_open *)tgt_pending_create(session->reactor, sizeof(*open), request, volume,
						     !(flags & RBLK_OPEN_READ_ONLY));
	if (!open)
		return RBLK_E_NO_RESOURCES;
	if (fences)
		status = tgt_gateways_fence_begin(session, volume, &open->fence);
	if (status) {
		tgt_pending_end(&open->pending);
		return status;
	}
	open->pending.go_on = open_go_on;
	open->handle = arguments->volume;
	open->flags = flags;
	open->restricted = restricted;
	open->since_ns = request->received_ns;
	return TGT_UNANSWERED;
}
