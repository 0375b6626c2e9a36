/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Volume handles and the outlets behind them. A handle's number is its place and a generation, so
 * that one from a closed life leads nowhere.
 */
#include "target/serve/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "target/serve/queue.h"
#include "target/io/request.h"
#include "target/store/submit.h"

#define INDEX_BITS 10
#define HANDLE_SLOTS_FIRST 4
static_assert(RBLK_HANDLES_MAX == 1u << INDEX_BITS, "a handle's index fits its bits");

/* -- outlets ----------------------------------------------------------------------------------- */

static void outlet_destroy(struct tgt_reactor *reactor, struct tgt_outlet *outlet)
{
	struct tgt_volume *volume = outlet->volume;

	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		fab_mr_deregister(outlet->mr[i]);
	reactor->outlets[volume->slot] = NULL;
	tgt_volume_detach(volume, outlet->port);
	free(outlet);
	/* May be the last reference, and then closes the store here: rare, and no I/O is lost by
	 * it. */
	tgt_volume_put(volume);
}

/* Memory of the store itself is registered for local access only: nobody else may touch it. */
static int outlet_register(struct tgt_reactor *reactor, struct tgt_outlet *outlet)
{
	const struct tgt_store_info *info = &outlet->volume->store->info;

	if (!info->direct)
		return 0;
	for (unsigned int i = 0; i < reactor->fabric_count; i++) {
		int err = fab_mr_register(reactor->fabrics[i].fab, info->direct, info->bytes,
					  IBV_ACCESS_LOCAL_WRITE, &outlet->mr[i]);

		if (err) {
			tgt_log(TGT_LOG_ERROR,
				"volume %s: cannot register its memory: %s (memlock "
				"limit? ulimit -l, LimitMEMLOCK=)",
				outlet->volume->config.name, fab_error(reactor->fabrics[i].fab));
			return err;
		}
	}
	return 0;
}

/* Consumes the reference. NULL: logged. */
static struct tgt_outlet *outlet_get(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	struct tgt_outlet *outlet = reactor->outlets[volume->slot];
	int err;

	if (outlet) {
		tgt_volume_put(volume);
		return outlet;
	}
	outlet = calloc(1, sizeof(*outlet));
	if (!outlet)
		goto err_put;
	outlet->volume = volume;
	err = tgt_volume_attach(volume, reactor->ring, &outlet->port);
	if (err) {
		tgt_log(TGT_LOG_ERROR, "volume %s: reactor %u cannot use its store: %s",
			volume->config.name, reactor->index, strerror(-err));
		goto err_free;
	}
	reactor->outlets[volume->slot] = outlet;
	if (outlet_register(reactor, outlet)) {
		outlet_destroy(reactor, outlet);
		return NULL;
	}
	return outlet;

err_free:
	free(outlet);
err_put:
	tgt_volume_put(volume);
	return NULL;
}

static void outlet_put(struct tgt_reactor *reactor, struct tgt_outlet *outlet)
{
	if (--outlet->handles == 0)
		outlet_destroy(reactor, outlet);
}

uint32_t tgt_outlet_lkey(const struct tgt_outlet *outlet, const struct tgt_queue *queue)
{
	return fab_mr_lkey(outlet->mr[queue->fabric - queue->reactor->fabrics],
			   fab_conn_device(queue->conn));
}

/* -- handles ----------------------------------------------------------------------------------- */

struct tgt_handle *tgt_handle_find(const struct tgt_session *session, uint32_t id)
{
	uint32_t index = id & (RBLK_HANDLES_MAX - 1);
	struct tgt_handle *handle;

	if (index >= session->handle_slots)
		return NULL;
	handle = session->handles[index];
	return handle && handle->id == id && !handle->closing ? handle : NULL;
}

/* An index that is free, or -ENOMEM, -ENFILE. */
static int handle_slot(struct tgt_session *session)
{
	uint32_t slots = session->handle_slots;
	struct tgt_handle **handles;

	for (uint32_t i = 0; i < slots; i++)
		if (!session->handles[i])
			return (int)i;
	if (slots == RBLK_HANDLES_MAX)
		return -ENFILE;
	slots = slots ? slots * 2 : HANDLE_SLOTS_FIRST;
	handles = realloc(session->handles, slots * sizeof(*handles));
	if (!handles)
		return -ENOMEM;
	memset(handles + session->handle_slots, 0,
	       (slots - session->handle_slots) * sizeof(*handles));
	session->handles = handles;
	session->handle_slots = slots;
	return (int)(slots == HANDLE_SLOTS_FIRST ? 0 : slots / 2);
}

static enum rblk_status open_check(const struct tgt_volume *volume, uint32_t flags)
{
	const struct tgt_store_info *info = &volume->store->info;

	if ((flags & RBLK_OPEN_NEED_FLUSH && !info->can_flush) ||
	    (flags & RBLK_OPEN_NEED_FUA && !info->can_fua))
		return RBLK_E_UNSUPPORTED;
	return RBLK_OK;
}

enum rblk_status tgt_handle_open(struct tgt_session *session, struct tgt_volume *volume,
				 uint32_t flags, struct tgt_handle **out)
{
	enum rblk_status status = open_check(volume, flags);
	struct tgt_handle *handle;
	int index;

	if (status) {
		tgt_volume_put(volume);
		return status;
	}
	index = handle_slot(session);
	handle = index < 0 ? NULL : calloc(1, sizeof(*handle));
	if (!handle) {
		tgt_volume_put(volume);
		return RBLK_E_NO_RESOURCES;
	}
	handle->session = session;
	/* No error to open for writing what cannot be written: the report's flag tells. */
	handle->read_only = flags & RBLK_OPEN_READ_ONLY || volume->config.read_only ||
			    volume->store->info.read_only;
	handle->outlet = outlet_get(session->reactor, volume);
	if (!handle->outlet) {
		free(handle);
		return RBLK_E_NO_RESOURCES;
	}
	handle->outlet->handles++;
	/* Generation 0 with index 0 would be the handle 0, which means none. */
	do {
		handle->id = session->handle_generation++ << INDEX_BITS | (uint32_t)index;
	} while (handle->id == 0);
	session->handles[index] = handle;
	session->handles_open++;
	*out = handle;
	return RBLK_OK;
}

static void handle_release_outlet(struct tgt_handle *handle)
{
	struct tgt_outlet *outlet = handle->outlet;

	if (!outlet)
		return;
	handle->outlet = NULL;
	outlet_put(handle->session->reactor, outlet);
}

static void handle_free(struct tgt_handle *handle)
{
	struct tgt_session *session = handle->session;
	struct tgt_request *closer = handle->closer;

	if (handle->event_changed || handle->event_removed)
		session->events.handle_events--;
	session->handles[handle->id & (RBLK_HANDLES_MAX - 1)] = NULL;
	handle_release_outlet(handle);
	free(handle);
	session->handles_open--;
	if (closer) {
		closer->handle = NULL;
		tgt_request_complete(closer, RBLK_OK);
	}
}

void tgt_handle_idle(struct tgt_handle *handle)
{
	if (handle->closing)
		handle_free(handle);
	else if (handle->outlet && atomic_load(&handle->outlet->volume->removed))
		handle_release_outlet(handle);
}

bool tgt_handle_close(struct tgt_handle *handle, struct tgt_request *closer)
{
	handle->closing = true;
	if (!handle->users) {
		handle_free(handle);
		return true;
	}
	handle->closer = closer;
	return false;
}

void tgt_handle_close_all(struct tgt_session *session)
{
	for (uint32_t i = 0; i < session->handle_slots; i++)
		if (session->handles[i])
			handle_free(session->handles[i]);
	free(session->handles);
	session->handles = NULL;
	session->handle_slots = 0;
}

/* -- reload ------------------------------------------------------------------------------------ */

void tgt_handle_note(struct tgt_handle *handle, bool removed)
{
	struct tgt_session *session = handle->session;

	if (!handle->event_changed && !handle->event_removed)
		session->events.handle_events++;
	if (removed)
		handle->event_removed = true;
	else
		handle->event_changed = true;
	tgt_session_event_kick(session);
}

static void handle_volume_event(struct tgt_reactor *reactor, struct tgt_volume *volume,
				bool removed)
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link)
	{
		for (uint32_t i = 0; i < session->handle_slots; i++) {
			struct tgt_handle *handle = session->handles[i];

			if (!handle || !handle->outlet || handle->outlet->volume != volume)
				continue;
			tgt_handle_note(handle, removed);
			/* What is in flight finishes first: tgt_handle_idle() then lets go. */
			if (removed && !handle->users)
				handle_release_outlet(handle);
		}
	}
}

void tgt_handle_volume_removed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	handle_volume_event(reactor, volume, true);
}

void tgt_handle_volume_changed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	handle_volume_event(reactor, volume, false);
}
