/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Volume handles and the channels behind them. A slot has the handle of one number at a time, so
 * that a stale one is not found.
 */
#include "target/serve/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "target/io/throttle.h"
#include "target/io/request.h"
#include "target/serve/event.h"
#include "target/serve/limits.h"
#include "target/serve/remote_queue.h"
#include "target/serve/rights.h"
#include "target/serve/stats.h"

#define HANDLE_SLOTS_FIRST 4
#define USERS_LOGGED_MAX 16u

/* -- channels ---------------------------------------------------------------------------------- */

static void channel_end(struct tgt_reactor *reactor, struct tgt_channel *channel)
{
	reactor->channels[channel->volume->slot] = NULL;
	tgt_reservations_leave(&channel->volume->reservations, &channel->subscriber);
	channel->drained = reactor->loop.draining;
	tgt_channel_close(channel);
}

/* The OPENs that waited may have ended; open.c continues the others at the end of this turn. */
static void channel_opened(struct tgt_channel *channel, void *context)
{
	if (!channel->handles)
		channel_end(context, channel);
}

struct tgt_channel *tgt_handle_channel_get(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	const struct tgt_channel_owner owner = {
		.opened = channel_opened, .context = reactor, .log_limit = &reactor->loop.log_limit};
	struct tgt_channel *channel = reactor->channels[volume->slot];
	struct fab *fabs[TGT_FABRICS_MAX];

	if (channel) {
		tgt_volume_put(volume);
		channel->handles++;
		return channel;
	}
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		fabs[i] = reactor->fabrics[i].fab;
	if (tgt_channel_open(volume, reactor->ring, fabs, reactor->fabric_count, &owner, &channel))
		return NULL;
	reactor->channels[volume->slot] = channel;
	channel->handles = 1;
	tgt_reservations_join(&volume->reservations, &channel->subscriber, reactor);
	return channel;
}

void tgt_handle_channel_put(struct tgt_reactor *reactor, struct tgt_channel *channel)
{
	if (!--channel->handles && channel->state != TGT_CHANNEL_OPENING)
		channel_end(reactor, channel);
}

/* -- portions ---------------------------------------------------------------------------------- */

/* The account of the session's memory for the volume, which all its handles of it share. NULL: no memory. */
static struct tgt_portion *portion_get(struct tgt_session *session, const struct tgt_channel *channel)
{
	const struct tgt_handle *handle;
	struct tgt_portion *portion;

	tgt_session_each_handle(handle, session)
		if (handle->access.channel == channel) {
			handle->access.portion->handles++;
			return handle->access.portion;
		}
	portion = malloc(sizeof(*portion));
	if (portion) {
		tgt_portion_init(portion, &session->share);
		portion->handles = 1;
	}
	return portion;
}

/* No command of the handle is left. */
static void portion_put(struct tgt_portion *portion)
{
	if (!--portion->handles)
		free(portion);
}

/* -- handles ----------------------------------------------------------------------------------- */

struct tgt_handle *tgt_handle_at(const struct tgt_session *session, uint32_t id)
{
	uint32_t slot = RBLK_HANDLE_SLOT(id);

	return slot < session->handle_slots ? session->handles[slot] : NULL;
}

struct tgt_handle *tgt_handle_find(const struct tgt_session *session, uint32_t id)
{
	struct tgt_handle *handle = tgt_handle_at(session, id);

	return handle && handle->id == id && !handle->closing ? handle : NULL;
}

static void handle_release_channel(struct tgt_handle *handle)
{
	struct tgt_channel *channel = handle->access.channel;

	if (!channel)
		return;
	tgt_stats_close(handle);
	tgt_limits_closed(handle);
	portion_put(handle->access.portion);
	handle->access.portion = NULL;
	pthread_mutex_lock(&handle->session->lock);
	handle->access.channel = NULL;
	pthread_mutex_unlock(&handle->session->lock);
	tgt_handle_channel_put(handle->session->reactor, channel);
}

/* Tells a remote session that a handle is closed; comes back when it has ended there. */
struct handle_told {
	struct tgt_session_message head; /* first */
	uint32_t handle;
};

static void told_back(struct tgt_reactor *reactor, struct tgt_session *session, struct tgt_session_message *message);

static void handle_free(struct tgt_handle *handle)
{
	struct tgt_session *session = handle->session;
	struct tgt_request *closer = handle->closer;

	pthread_mutex_lock(&session->lock);
	session->handles[RBLK_HANDLE_SLOT(handle->id)] = NULL;
	pthread_mutex_unlock(&session->lock);
	tgt_event_forget(handle);
	if (handle->told)
		tgt_session_answer(handle->told, told_back);
	handle_release_channel(handle);
	free(handle);
	session->handles_open--;
	if (closer)
		tgt_request_complete(closer, RBLK_OK);
}

/* Closed here, and no reactor uses it any more. */
static bool handle_check_end(struct tgt_handle *handle)
{
	if (handle->access.users || handle->remotes)
		return false;
	handle_free(handle);
	return true;
}

/* The last user has ended. */
static void handle_idle(struct tgt_access *access)
{
	struct tgt_handle *handle = (struct tgt_handle *)access;

	if (handle->closing || tgt_session_only_lingers(handle->session))
		handle_check_end(handle);
	else if (access->channel && atomic_load(&access->channel->volume->removed))
		handle_release_channel(handle);
}

/* For the number's slot. False: no memory. */
static bool handle_room(struct tgt_session *session, uint32_t id)
{
	uint32_t slots = HANDLE_SLOTS_FIRST;
	struct tgt_handle **handles;

	while (slots <= RBLK_HANDLE_SLOT(id))
		slots *= 2;
	if (slots <= session->handle_slots)
		return true;
	pthread_mutex_lock(&session->lock);
	handles = realloc(session->handles, slots * sizeof(*handles));
	if (handles) {
		memset(handles + session->handle_slots, 0,
		       (slots - session->handle_slots) * sizeof(*handles));
		session->handles = handles;
		session->handle_slots = slots;
	}
	pthread_mutex_unlock(&session->lock);
	return handles;
}

static enum rblk_status open_check(const struct tgt_volume *volume, uint32_t flags)
{
	const struct tgt_store_info *info = &volume->store->info;

	if ((flags & RBLK_OPEN_NEED_FLUSH && !info->can_flush) ||
	    (flags & RBLK_OPEN_NEED_FUA && !info->can_fua))
		return RBLK_E_UNSUPPORTED;
	return RBLK_OK;
}

/* The volume of one that is new, by a channel of this reactor. Takes over the reference. False: no memory. */
static bool handle_attach(struct tgt_handle *handle, struct tgt_volume *volume)
{
	struct tgt_reactor *reactor = handle->session->reactor;
	struct tgt_access *access = &handle->access;

	access->channel = tgt_handle_channel_get(reactor, volume);
	if (!access->channel)
		return false;
	access->portion = portion_get(handle->session, access->channel);
	if (access->portion)
		return true;
	tgt_handle_channel_put(reactor, access->channel);
	return false;
}

/*
 * As `new` says. Takes over the reference to `volume`; NULL: it was removed. Returns NULL without memory, or if its
 * store cannot be used.
 */
static struct tgt_handle *handle_create(const struct tgt_handle *new, struct tgt_volume *volume)
{
	struct tgt_session *session = new->session;
	struct tgt_handle *handle = handle_room(session, new->id) ? malloc(sizeof(*handle)) : NULL;

	if (!handle) {
		if (volume)
			tgt_volume_put(volume);
		return NULL;
	}
	*handle = *new;
	if (volume && !handle_attach(handle, volume)) {
		free(handle);
		return NULL;
	}
	if (volume)
		tgt_stats_open(handle);
	pthread_mutex_lock(&session->lock);
	session->handles[RBLK_HANDLE_SLOT(handle->id)] = handle;
	pthread_mutex_unlock(&session->lock);
	session->handles_open++;
	session->opened = true;
	if (volume) {
		tgt_rights_opened(handle);
		tgt_limits_opened(handle);
	}
	return handle;
}

bool tgt_handle_vacate(struct tgt_session *session, uint32_t id)
{
	struct tgt_handle *handle = tgt_handle_at(session, id);

	if (!handle || handle->id == id)
		return !handle || !handle->closing;
	return !handle->closing && tgt_handle_close(handle) == RBLK_OK;
}

/*
 * It is open: what it may do grows, but for one that was opened for reading: remote sessions ask again only for those that
 * the rules restrict.
 */
static enum rblk_status handle_again(struct tgt_handle *handle, struct tgt_volume *volume, bool read_only,
				     bool restricted)
{
	bool same = tgt_handle_volume(handle) == volume;

	tgt_volume_put(volume);
	if (!same)
		return RBLK_E_GONE;
	pthread_mutex_lock(&handle->session->lock);
	if (handle->restricted) {
		handle->access.read_only &= read_only;
		handle->restricted = restricted;
	}
	pthread_mutex_unlock(&handle->session->lock);
	return RBLK_OK;
}

enum rblk_status tgt_handle_open(struct tgt_session *session, struct tgt_volume *volume, uint32_t id,
				 uint32_t flags, bool restricted, struct tgt_handle **out)
{
	/* Opening a read-only volume for writing is not an error: a flag of the report tells. */
	bool read_only = flags & RBLK_OPEN_READ_ONLY || volume->config.read_only || volume->store->info.read_only;
	const struct tgt_handle new = {.session = session, .id = id, .restricted = restricted,
				       .access = {.read_only = read_only, .idle = handle_idle}};
	enum rblk_status status = open_check(volume, flags);

	if (status) {
		tgt_volume_put(volume);
		return status;
	}
	*out = tgt_handle_at(session, id);
	if (*out)
		return handle_again(*out, volume, read_only, restricted);
	*out = handle_create(&new, volume);
	return *out ? RBLK_OK : RBLK_E_NO_RESOURCES;
}

/* -- remote sessions --------------------------------------------------------------------------- */

/* At the home. The session may have ended meanwhile. */
static void told_back(struct tgt_reactor *reactor, struct tgt_session *session, struct tgt_session_message *message)
{
	uint32_t id = ((struct handle_told *)message)->handle;
	struct tgt_handle *handle = session ? tgt_handle_at(session, id) : NULL;

	free(message);
	if (!handle || handle->id != id || !handle->remotes)
		return;
	handle->remotes--;
	/* All its queues may have ended before: then its session is over. */
	if (handle_check_end(handle))
		tgt_loop_timer(&reactor->loop, reactor->loop.now_ns);
}

static void told_arrived(struct tgt_reactor *reactor, struct tgt_session *remote, struct tgt_session_message *message)
{
	uint32_t id = ((struct handle_told *)message)->handle;
	struct tgt_handle *handle = remote ? tgt_handle_find(remote, id) : NULL;

	if (!handle) {
		tgt_session_answer(message, told_back);
		return;
	}
	handle->closing = true;
	handle->told = message;
	handle_check_end(handle);
}

enum rblk_status tgt_handle_close(struct tgt_handle *handle)
{
	struct tgt_session_message *messages[TGT_REACTORS_MAX];
	int count = tgt_remotes_messages(handle->session, sizeof(struct handle_told), told_arrived, messages);

	if (count < 0)
		return RBLK_E_NO_RESOURCES;
	/* From here on no remote session opens it. */
	pthread_mutex_lock(&handle->session->lock);
	handle->closing = true;
	pthread_mutex_unlock(&handle->session->lock);
	handle->remotes = (unsigned int)count;
	for (int i = 0; i < count; i++) {
		((struct handle_told *)messages[i])->handle = handle->id;
		tgt_session_send(messages[i]);
	}
	return handle_check_end(handle) ? RBLK_OK : RBLK_E_BUSY;
}

/*
 * Does the session have this handle open? Then `to` gets what it may do. *volume: a reference; NULL: the volume
 * was removed. A remote session that does not know its session's name yet learns it here: IDENTIFY comes before OPEN, but
 * its message may arrive after the first command that names the handle.
 */
static bool home_find(struct tgt_session *remote, struct tgt_handle *to, struct tgt_volume **volume)
{
	struct tgt_session *home = remote->home;
	struct tgt_handle *handle;

	*volume = NULL;
	pthread_mutex_lock(&home->lock);
	handle = tgt_handle_find(home, to->id);
	if (handle && tgt_handle_volume(handle) && !atomic_load(&tgt_handle_volume(handle)->removed))
		*volume = tgt_volume_ref(tgt_handle_volume(handle));
	if (handle) {
		to->access.read_only = handle->access.read_only;
		to->restricted = handle->restricted;
	}
	if (home->named && !remote->named) {
		memcpy(remote->initiator, home->initiator, sizeof(remote->initiator));
		remote->named = true;
	}
	pthread_mutex_unlock(&home->lock);
	return handle;
}

/* The first command that names it on this reactor. */
static struct tgt_handle *remote_open(struct tgt_session *remote, uint32_t id,
				      enum rblk_status *status)
{
	struct tgt_handle found = {.session = remote, .id = id, .access.idle = handle_idle}, *handle;
	struct tgt_volume *volume;

	*status = RBLK_E_NO_VOLUME;
	if (!home_find(remote, &found, &volume))
		return NULL;
	/* Its slot may still have an older handle, whose last commands have not ended. */
	if (tgt_handle_at(remote, id)) {
		if (volume)
			tgt_volume_put(volume);
		*status = RBLK_E_BUSY;
		return NULL;
	}
	handle = handle_create(&found, volume);
	*status = handle ? RBLK_OK : RBLK_E_NO_RESOURCES;
	return handle;
}

/* The home's may have been opened again, and write now. */
static void remote_look(struct tgt_session *remote, struct tgt_handle *handle)
{
	struct tgt_volume *volume;

	if (home_find(remote, handle, &volume) && volume)
		tgt_volume_put(volume);
}

/* As tgt_handle_use(), in a remote session; `handle` is what it has found there. */
static __attribute__((noinline)) struct tgt_handle *remote_use(struct tgt_session *session, uint32_t id,
								struct tgt_handle *handle, enum rblk_status *status)
{
	if (!handle)
		handle = remote_open(session, id, status);
	else if (handle->restricted)
		remote_look(session, handle);
	if (!handle || !handle->access.channel)
		return handle;
	/* Large memory is registered with this reactor's devices by a thread. */
	if (handle->access.channel->state == TGT_CHANNEL_OPENING)
		*status = RBLK_E_BUSY;
	else if (handle->access.channel->state == TGT_CHANNEL_FAILED)
		*status = RBLK_E_NO_RESOURCES;
	return *status == RBLK_OK ? handle : NULL;
}

struct tgt_handle *tgt_handle_use(struct tgt_session *session, uint32_t id,
				  enum rblk_status *status)
{
	struct tgt_handle *handle = tgt_handle_find(session, id);

	*status = handle ? RBLK_OK : RBLK_E_NO_VOLUME;
	return session->home ? remote_use(session, id, handle, status) : handle;
}

bool tgt_handles_troubled(const struct tgt_session *session)
{
	const struct tgt_handle *handle;

	tgt_session_each_handle(handle, session)
		if (tgt_handle_volume(handle) && atomic_load(&tgt_handle_volume(handle)->trouble.lost_ns))
			return true;
	return false;
}

bool tgt_handles_gone(const struct tgt_session *session)
{
	const struct tgt_handle *handle;

	tgt_session_each_handle(handle, session)
		if (!tgt_handle_volume(handle) || atomic_load(&tgt_handle_volume(handle)->removed))
			return true;
	return false;
}

unsigned int tgt_handles_kept(const struct tgt_session *session)
{
	const struct tgt_handle *handle;
	unsigned int count = 0;

	tgt_session_each_handle(handle, session)
		count += !handle->closing;
	return count;
}

void tgt_handle_close_idle(struct tgt_session *session)
{
	struct tgt_handle *handle;

	if (!tgt_session_only_lingers(session))
		return;
	tgt_session_each_handle(handle, session)
		handle_check_end(handle);
}

void tgt_handle_close_all(struct tgt_session *session)
{
	struct tgt_handle *handle;

	tgt_session_each_handle(handle, session)
		handle_free(handle);
	free(session->handles);
	session->handles = NULL;
	session->handle_slots = 0;
}

/* -- reload ------------------------------------------------------------------------------------ */

bool tgt_handle_session_uses(const struct tgt_session *session, const struct tgt_volume *volume)
{
	const struct tgt_handle *handle;

	tgt_session_each_handle(handle, session)
		if (tgt_handle_volume(handle) == volume)
			return true;
	return false;
}

/* Who had the volume open: one line a session, up to a limit. */
static void users_log(struct tgt_reactor *reactor, const struct tgt_volume *volume)
{
	const struct tgt_session *session;
	unsigned int count = 0;

	TAILQ_FOREACH(session, &reactor->sessions, link) {
		if (session->home || !tgt_handle_session_uses(session, volume) || count++ >= USERS_LOGGED_MAX)
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
	struct tgt_handle *handle;

	if (removed)
		users_log(reactor, volume);
	TAILQ_FOREACH(session, &reactor->sessions, link) {
		tgt_session_each_handle(handle, session) {
			if (tgt_handle_volume(handle) != volume)
				continue;
			if (!session->home)
				tgt_event_volume(handle, removed);
			/* Commands in flight finish first: then handle_idle() releases it. */
			if (removed && !handle->access.users)
				handle_release_channel(handle);
		}
	}
}

void tgt_handle_volume_removed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	handle_volume_event(reactor, volume, true);
	tgt_throttle_again(&reactor->loop);
}

void tgt_handle_volume_changed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	handle_volume_event(reactor, volume, false);
}
