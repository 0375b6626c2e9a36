/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Volume handles and the ports behind them. A handle's number is its place and a generation, so
 * that a stale one is not found.
 */
#include "target/serve/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "target/io/request.h"
#include "target/serve/event.h"
#include "target/serve/rights.h"

#define INDEX_BITS 10
#define HANDLE_SLOTS_FIRST 4
#define USERS_LOGGED_MAX 16u
static_assert(RBLK_HANDLES_MAX == 1u << INDEX_BITS, "a handle's index fits its bits");

/* -- ports ------------------------------------------------------------------------------------- */

static void port_end(struct tgt_reactor *reactor, struct tgt_port *port)
{
	reactor->ports[port->volume->slot] = NULL;
	tgt_reservations_leave(&port->volume->reservations, &port->seat);
	tgt_port_close(port);
}

/* The OPENs that waited may have ended; open.c continues the others at the end of this turn. */
static void port_opened(struct tgt_port *port, void *context)
{
	struct tgt_reactor *reactor = context;

	if (port->handles)
		return;
	port_end(reactor, port);
}

struct tgt_port *tgt_handle_port_get(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	const struct tgt_port_owner owner = {.opened = port_opened, .context = reactor};
	struct tgt_port *port = reactor->ports[volume->slot];
	struct fab *fabs[TGT_FABRICS_MAX];

	if (port) {
		tgt_volume_put(volume);
		port->handles++;
		return port;
	}
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		fabs[i] = reactor->fabrics[i].fab;
	if (tgt_port_open(volume, reactor->ring, fabs, reactor->fabric_count, &owner, &port))
		return NULL;
	reactor->ports[volume->slot] = port;
	port->handles = 1;
	tgt_reservations_join(&volume->reservations, &port->seat, reactor);
	return port;
}

void tgt_handle_port_put(struct tgt_reactor *reactor, struct tgt_port *port)
{
	if (--port->handles || port->state == TGT_PORT_OPENING)
		return;
	port_end(reactor, port);
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

static void handle_release_port(struct tgt_handle *handle)
{
	struct tgt_port *port = handle->access.port;

	if (!port)
		return;
	handle->access.port = NULL;
	tgt_handle_port_put(handle->session->reactor, port);
}

static void handle_free(struct tgt_handle *handle)
{
	struct tgt_session *session = handle->session;
	struct tgt_request *closer = handle->closer;

	session->handles[handle->id & (RBLK_HANDLES_MAX - 1)] = NULL;
	tgt_event_forget(handle);
	handle_release_port(handle);
	free(handle);
	session->handles_open--;
	if (closer)
		tgt_request_complete(closer, RBLK_OK);
}

/* The last user has ended. */
static void handle_idle(struct tgt_access *access)
{
	struct tgt_handle *handle = (struct tgt_handle *)access;

	if (handle->closing)
		handle_free(handle);
	else if (access->port && atomic_load(&access->port->volume->removed))
		handle_release_port(handle);
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
	/* Opening a read-only volume for writing is not an error: a flag of the report tells. */
	handle->access.read_only = flags & RBLK_OPEN_READ_ONLY || volume->config.read_only ||
			    volume->store->info.read_only;
	handle->access.idle = handle_idle;
	handle->access.port = tgt_handle_port_get(session->reactor, volume);
	if (!handle->access.port) {
		free(handle);
		return RBLK_E_NO_RESOURCES;
	}
	/* open.c has waited for one that is OPENING. */
	if (handle->access.port->state != TGT_PORT_READY) {
		tgt_handle_port_put(session->reactor, handle->access.port);
		free(handle);
		return RBLK_E_NO_RESOURCES;
	}
	/* Generation 0 with index 0 would be handle 0, which means none. */
	do {
		handle->id = session->handle_generation++ << INDEX_BITS | (uint32_t)index;
	} while (handle->id == 0);
	session->handles[index] = handle;
	session->handles_open++;
	tgt_rights_opened(handle);
	*out = handle;
	return RBLK_OK;
}

bool tgt_handle_close(struct tgt_handle *handle, struct tgt_request *closer)
{
	handle->closing = true;
	if (!handle->access.users) {
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

bool tgt_handle_session_uses(const struct tgt_session *session, const struct tgt_volume *volume)
{
	for (uint32_t i = 0; i < session->handle_slots; i++) {
		const struct tgt_handle *handle = session->handles[i];

		if (handle && handle->access.port && handle->access.port->volume == volume)
			return true;
	}
	return false;
}

/* Who had the volume open: one line a session, up to a limit. */
static void users_log(struct tgt_reactor *reactor, const struct tgt_volume *volume)
{
	const struct tgt_session *session;
	unsigned int count = 0;

	TAILQ_FOREACH(session, &reactor->sessions, link) {
		if (!tgt_handle_session_uses(session, volume) || count++ >= USERS_LOGGED_MAX)
			continue;
		tgt_log(TGT_LOG_WARNING, "volume %s: session %u [%s] %s had it open",
			volume->config.name, session->number, session->peer, session->initiator);
	}
	if (count > USERS_LOGGED_MAX)
		tgt_log(TGT_LOG_WARNING, "volume %s: %u more sessions of reactor %u had it open",
			volume->config.name, count - USERS_LOGGED_MAX, reactor->index);
}

static void handle_volume_event(struct tgt_reactor *reactor, struct tgt_volume *volume,
				bool removed)
{
	struct tgt_session *session;

	if (removed)
		users_log(reactor, volume);
	TAILQ_FOREACH(session, &reactor->sessions, link) {
		for (uint32_t i = 0; i < session->handle_slots; i++) {
			struct tgt_handle *handle = session->handles[i];

			if (!handle || !handle->access.port ||
			    handle->access.port->volume != volume)
				continue;
			tgt_event_volume(handle, removed);
			/* What is in flight finishes first: then handle_idle() releases it. */
			if (removed && !handle->access.users)
				handle_release_port(handle);
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
