/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * OPEN: waits for the ends of connections, for orphaned writes, for the end of another handle in its slot and for the volume's
 * preparation, serves a device that has grown in its new size, and reports the volume.
 */
#include "target/serve/session_command.h"

#include <stdlib.h>
#include "proto/wire/wire_check.h"
#include "target/base/log.h"
#include "target/base/unserved.h"
#include "target/serve/authorize.h"
#include "target/serve/barrier.h"
#include "target/serve/handle.h"

/* An OPEN that waits. Made when it is held, freed when it goes on or is dropped. */
struct tgt_open {
	struct tgt_pending pending; /* first */
	struct tgt_session *session;
	struct tgt_request *request;
	struct tgt_volume *volume; /* a reference */
	uint32_t handle;
	uint32_t flags;		   /* enum rblk_open_flag */
	bool restricted;	   /* RBLK_OPEN_READ_ONLY is the rules' */
	struct tgt_barrier *barrier; /* at connections that have ended; NULL: over, or not needed */
	uint64_t since_ns;	     /* when its wait for what follows the barrier began */
	uint64_t orphans;	   /* of the volume, that were there then */
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

/* Takes over the reference to `volume`. */
static enum rblk_status open_volume(struct tgt_session *session, struct tgt_request *request,
				    struct tgt_volume *volume, uint32_t id, uint32_t flags, bool restricted)
{
	struct rblk_wire_volume *report = (void *)request->data;
	struct tgt_handle *handle;
	enum rblk_status status;
	enum tgt_right right;

	/* Once more, because it may have waited. */
	right = tgt_authorize_open(session, request, volume->config.name);
	if (right < TGT_RIGHT_READ) {
		tgt_volume_put(volume);
		return RBLK_E_DENIED;
	}
	restricted |= open_restrict(&flags, right);
	open_size(session->reactor, volume);
	status = tgt_handle_open(session, volume, id, flags, restricted, &handle);
	if (status)
		return status;
	/* The rules may have changed while it waited: it stays for reading, as it has not waited for what a writer waits for. */
	tgt_authorize_check(handle, right);
	tgt_volume_describe(handle->access.channel->volume, request->io_queue->loop->max_io_bytes,
			    TGT_CAPSULE_BYTES, report);
	report->handle = rblk_to_le32(id);
	if (request->io_queue->features & RBLK_FEATURE_FENCE_DOMAIN)
		tgt_volume_fence_domain(handle->access.channel->volume, report->fence_domain);
	if (handle->access.read_only)
		report->flags |= rblk_to_le32(RBLK_VOLUME_READ_ONLY);
	return RBLK_OK;
}

/*
 * F5: writes that an ended connection has left with the store must not land after those of the initiator that
 * opens the volume now. First all reactors see which connections have ended, then their writes end. False: not yet.
 */
static bool open_is_alone(struct tgt_open *open, uint64_t now_ns)
{
	struct tgt_orphans *orphans = &open->volume->orphans;

	if (open->barrier) {
		if (!tgt_barrier_is_over(open->barrier))
			return false;
		tgt_barrier_end(open->barrier);
		open->barrier = NULL;
		open->since_ns = now_ns;
		open->orphans = tgt_orphans_now(orphans);
	}
	open->orphans = tgt_orphans_left(orphans, open->orphans);
	return !open->orphans;
}

/*
 * A device pins every page of a memory volume when it is registered. Pages that are not there yet
 * have to be found and zeroed for that, which takes seconds for gigabytes: not on this thread.
 */
static bool open_pages(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	const struct tgt_store_ops *ops = volume->store->ops;

	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		if (ops->prepare && fab_kind_of(reactor->fabrics[i].fab) == FAB_VERBS)
			return ops->prepare(volume->store);
	return true;
}

/* Nothing has to be waited for but orphans. */
static bool open_prepared(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	const struct tgt_channel *channel = reactor->channels[volume->slot];

	if (!volume->store->info.direct)
		return true;
	return open_pages(reactor, volume) && channel && channel->state == TGT_CHANNEL_READY;
}

/* Continues the preparation. RBLK_E_BUSY: it has to be waited for. */
static enum rblk_status open_prepare(struct tgt_reactor *reactor, struct tgt_open *open)
{
	if (!open->volume->store->info.direct)
		return RBLK_OK;
	if (!open_pages(reactor, open->volume))
		return RBLK_E_BUSY;
	if (!open->channel)
		open->channel = tgt_handle_channel_get(reactor, tgt_volume_ref(open->volume));
	if (!open->channel || open->channel->state == TGT_CHANNEL_FAILED)
		return RBLK_E_NO_RESOURCES;
	return open->channel->state == TGT_CHANNEL_OPENING ? RBLK_E_BUSY : RBLK_OK;
}

static void open_free(struct tgt_open *open)
{
	struct tgt_reactor *reactor = open->session->reactor;

	TAILQ_REMOVE(&reactor->pending, &open->pending, link);
	if (open->barrier)
		tgt_barrier_end(open->barrier);
	if (open->channel)
		tgt_handle_channel_put(reactor, open->channel);
	tgt_volume_put(open->volume);
	free(open);
}

static bool open_leave(struct tgt_request *request)
{
	open_free(request->held);
	return true;
}

/* Continues it if it can, refuses it if it has waited too long. */
static void open_go_on(struct tgt_reactor *reactor, struct tgt_pending *pending)
{
	struct tgt_open *open = (struct tgt_open *)pending;
	struct tgt_request *request = open->request;
	struct tgt_volume *volume = open->volume;
	enum rblk_status status = RBLK_OK;

	if (reactor->loop.draining)
		status = RBLK_E_DRAINING;
	else if (atomic_load(&volume->removed))
		status = RBLK_E_NO_VOLUME;
	else if (!open_is_alone(open, reactor->loop.now_ns) || !tgt_handle_vacate(open->session, open->handle))
		status = RBLK_E_BUSY;
	else
		status = open_prepare(reactor, open);
	/*
	 * A barrier ends after so many turns of each reactor, however long they take. With a limit in time, reactors with
	 * long turns would refuse every OPEN that comes again, and each would begin its barrier anew.
	 */
	if (status == RBLK_E_BUSY &&
	    (open->barrier || reactor->loop.now_ns - open->since_ns < TGT_OPEN_WAIT_NS))
		return;
	if (status == RBLK_OK)
		status = open_volume(open->session, request, tgt_volume_ref(volume), open->handle, open->flags,
				     open->restricted);
	tgt_command_answer(request, status);
	open_free(open);
}

void tgt_open_drop(struct tgt_session *session, uint32_t handle)
{
	struct tgt_pending *pending, *following;

	for (pending = TAILQ_FIRST(&session->reactor->pending); pending; pending = following) {
		struct tgt_open *open = (struct tgt_open *)pending;

		following = TAILQ_NEXT(pending, link);
		if (pending->go_on != open_go_on || open->session != session ||
		    RBLK_HANDLE_SLOT(open->handle) != RBLK_HANDLE_SLOT(handle))
			continue;
		tgt_request_complete(open->request, RBLK_E_ABORTED);
		open_free(open);
	}
}

/* Takes over the reference to `volume`. */
static enum rblk_status open_hold(struct tgt_session *session, struct tgt_request *request,
				  struct tgt_volume *volume, uint32_t id, uint32_t flags, bool restricted)
{
	bool writes = !(flags & RBLK_OPEN_READ_ONLY);
	struct tgt_open *open = calloc(1, sizeof(*open));

	if (open && writes)
		open->barrier = tgt_barrier_begin(session->reactor);
	if (!open || (writes && !open->barrier)) {
		free(open);
		tgt_volume_put(volume);
		return RBLK_E_NO_RESOURCES;
	}
	if (!tgt_request_hold(request, open_leave, open)) {
		if (open->barrier)
			tgt_barrier_end(open->barrier);
		tgt_volume_put(volume);
		free(open);
		return TGT_UNANSWERED;
	}
	open->pending.go_on = open_go_on;
	open->session = session;
	open->request = request;
	open->volume = volume;
	open->handle = id;
	open->flags = flags;
	open->restricted = restricted;
	open->since_ns = request->received_ns;
	TAILQ_INSERT_TAIL(&session->reactor->pending, &open->pending, link);
	return TGT_UNANSWERED;
}

/* Its disk may be a little late, as after a start of the machine: for so long the initiator does not lose the volume. */
static bool open_awaited(struct tgt_reactor *reactor, const char *name)
{
	return tgt_unserved_awaited(reactor->peers->unserved, TGT_UNSERVED_VOLUME, name, TGT_OPEN_AWAITED_MS);
}

enum rblk_status tgt_open_begin(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	const struct rblk_wire_open *open = (const void *)arguments->capsule;
	struct tgt_session *session = tgt_session_of(request);
	struct tgt_volume *volume;
	enum tgt_right right;
	bool restricted;
	uint32_t flags;

	if (request->io_queue->loop->draining)
		return RBLK_E_DRAINING;
	if (rblk_check_open(arguments->capsule, arguments->capsule_bytes))
		return RBLK_E_INVALID;
	if (!tgt_request_report_alloc(request, sizeof(struct rblk_wire_volume)))
		return RBLK_E_BUSY;
	flags = rblk_le32(open->flags);
	/* Before it is looked for: whether it exists is for those who may use it. */
	right = tgt_authorize_open(session, request, open->name);
	if (right < TGT_RIGHT_READ)
		return RBLK_E_DENIED;
	restricted = open_restrict(&flags, right);
	volume = tgt_volume_get(session->reactor->registry, open->name);
	if (!volume)
		return open_awaited(session->reactor, open->name) ? RBLK_E_BUSY : RBLK_E_NO_VOLUME;
	if (!(flags & RBLK_OPEN_READ_ONLY) || !tgt_handle_vacate(session, arguments->volume) ||
	    !open_prepared(session->reactor, volume))
		return open_hold(session, request, volume, arguments->volume, flags, restricted);
	return open_volume(session, request, volume, arguments->volume, flags, restricted);
}
