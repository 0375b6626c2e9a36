/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns events of a session: those of the fabric (established, refused, lost, drained) and of the
 * target, and how the program is told of them. The state machine (proto/core/session.h) and drive.c
 * decide and do what follows.
 */
#include "initiator/session.h"

#include "initiator/volume.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

/* -- connecting -------------------------------------------------------------------------------- */

void ini_event_accepted(struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;
	struct core_session *core = &session->core;
	u16 at = core->queue[queue->index].portal;

	session->portals.of[at].error = 0;
	session->portals.of[at].first = queue->address;
	if (core_session_accepted(core, queue->index, queue->target_instance, queue->keepalive_ms,
				  queue->features, session->now_ns))
		return;
	ini_session_note(session, "%s: queue %u: a different target answers there than on the other queues",
			 fab_conn_peer(queue->conn), queue->index);
	session->portals.of[at].error = -EREMCHG;
	memcpy(session->portals.of[at].words, session->failure.words, sizeof(session->failure.words));
}

static void on_established(struct ini_queue *queue, const struct fab_event *event)
{
	const struct rblk_wire_accept *accept = event->private_data;
	int err;

	if (queue->state != INI_QUEUE_CONNECTING)
		return;
	err = ini_queue_established(queue, accept, event->private_bytes);
	if (err) {
		ini_queue_unreached(queue, err);
		return;
	}
	if (queue->session->secrets)
		ini_authenticate(queue);
	else
		ini_event_accepted(queue);
}

static void on_rejected(struct ini_queue *queue, const struct fab_event *event)
{
	struct rblk_session *session = queue->session;
	struct ini_refusal refusal;
	int err = ini_queue_rejected(queue, event->private_data, event->private_bytes, &refusal);

	if (queue->state != INI_QUEUE_CONNECTING)
		return;
	if (!refusal.reason) {
		ini_queue_unreached(queue, err);
		return;
	}
	session->failure.last = err;
	ini_portal_failed(queue, err);
	core_session_rejected(&session->core, queue->index, refusal.reason, refusal.detail,
			      session->now_ns);
}

static void on_failed(struct ini_queue *queue, const struct fab *fab, const struct fab_event *event)
{
	struct rblk_session *session = queue->session;
	int err = event->status ? event->status : -ECONNREFUSED;

	/* An error of `prepare` is nearer to the cause. */
	if (err != -EOPNOTSUPP || !session->failure.words[0])
		ini_session_note(session, "%s", fab_error(fab));
	/* The target does not take the key. One that did before may be someone who wants this to end. */
	if (err == -EKEYREJECTED && !session->ready) {
		session->failure.last = -EACCES;
		ini_portal_failed(queue, -EACCES);
		core_session_rejected(&session->core, queue->index, RBLK_REJECT_DENIED, RBLK_DENIED_PROOF,
				      session->now_ns);
		return;
	}
	ini_queue_unreached(queue, err);
}

/* -- losing ------------------------------------------------------------------------------------ */

const char *ini_event_cause(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return "no acknowledgement from the target's device (transport retries exhausted): its "
		       "machine or a link is down";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return "the target had no receive buffer (receiver not ready)";
	case IBV_WC_REM_ACCESS_ERR:
		return "the target refused the access (remote access error)";
	case IBV_WC_REM_INV_REQ_ERR:
		return "the target's device refused the request (remote invalid request)";
	case IBV_WC_REM_OP_ERR:
		return "the target's device failed the operation";
	case IBV_WC_LOC_PROT_ERR:
		return "memory that is not registered was used (local protection error)";
	case IBV_WC_LOC_LEN_ERR:
		return "a message longer than was agreed (local length error)";
	default:
		return ibv_wc_status_str(status);
	}
}

static void on_disconnected(struct ini_queue *queue, const struct fab_event *event)
{
	struct rblk_session *session = queue->session;
	const char *cause = "the target closed it";

	if (session->events.draining)
		cause = "the target shut down";
	else if (event->status && event->status != -ECONNRESET)
		cause = fab_lost_text(event->status);
	else if (event->status)
		cause = "reset by the target: it ended, or it rejected what was sent (see its log)";
	ini_queue_lose(queue, -ECONNRESET, "connection lost: %s", cause);
}

/* Those that no connection is on any more; another device may get their place, and their address. */
void ini_event_release_devices(struct rblk_session *session)
{
	for (u32 i = 0; i < session->gone_count;) {
		struct fab_device *device = session->gone[i];
		bool used = false;

		for (u16 q = 0; q < session->queue_count; q++)
			used |= session->queues[q].device == device;
		if (used) {
			i++;
			continue;
		}
		ini_buffers_forget(&session->buffers, device);
		fab_device_release(device);
		session->gone[i] = session->gone[--session->gone_count];
	}
}

static void on_device_gone(struct rblk_session *session, struct fab_device *device)
{
	for (u16 i = 0; i < session->queue_count; i++)
		if (session->queues[i].conn && session->queues[i].device == device)
			ini_queue_lose(&session->queues[i], -ENODEV, "the RDMA device %s was removed",
				       fab_device_name(device));
	if (session->gone_count < INI_FABS_MAX * FAB_DEVICES_MAX)
		session->gone[session->gone_count++] = device;
	ini_event_release_devices(session);
}

static void poll_fab(struct rblk_session *session, struct fab *fab)
{
	struct fab_event event;

	while (fab_poll_event(fab, &event) == 1) {
		struct ini_queue *queue = event.conn ? fab_conn_user(event.conn) : NULL;

		session->activity++;
		switch (event.type) {
		case FAB_EVENT_ESTABLISHED:
			on_established(queue, &event);
			break;
		case FAB_EVENT_REJECTED:
			on_rejected(queue, &event);
			break;
		case FAB_EVENT_FAILED:
			on_failed(queue, fab, &event);
			break;
		case FAB_EVENT_DISCONNECTED:
			on_disconnected(queue, &event);
			break;
		case FAB_EVENT_DRAINED:
			ini_queue_ended(queue);
			break;
		case FAB_EVENT_DEVICE_GONE:
			on_device_gone(session, event.device);
			break;
		case FAB_EVENT_REQUEST: /* of listeners */
		case FAB_EVENT_NONE:
			break;
		}
	}
}

void ini_event_poll(struct rblk_session *session)
{
	for (u16 i = 0; i < session->fabs.count; i++)
		poll_fab(session, session->fabs.list[i]);
}

/* -- the target's events ----------------------------------------------------------------------- */

static void volume_note(struct rblk_volume *volume, u32 events)
{
	volume->info.changed = true;
	volume->events |= events;
}

static void volume_event(struct rblk_session *session, u32 handle,
			 enum rblk_session_event_type type)
{
	bool found = !handle;

	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next) {
		if (handle && volume->handle != handle)
			continue;
		volume_note(volume, 1u << type);
		found = true;
	}
	if (found)
		return;
	session->events.early[session->events.early_next].handle = handle;
	session->events.early[session->events.early_next].events = 1u << type;
	session->events.early_next = (session->events.early_next + 1) % RBLK_RESERVED_TAGS;
}

void ini_event_opened(struct rblk_volume *volume)
{
	struct rblk_session *session = volume->session;

	for (u32 i = 0; i < RBLK_RESERVED_TAGS; i++) {
		if (!session->events.early[i].events || session->events.early[i].handle != volume->handle)
			continue;
		volume_note(volume, session->events.early[i].events);
		session->events.early[i].events = 0;
	}
}

/* KEEPALIVE confirms it to the target (timer.c); then the next may come. */
void ini_event_received(struct rblk_session *session, const struct rblk_wire_completion *event)
{
	u64 result = rblk_le64(event->result);

	session->events.seen = (u32)(result >> 32);
	switch ((enum rblk_event)rblk_le16(event->status)) {
	case RBLK_EVENT_VOLUME_CHANGED:
		volume_event(session, (u32)result, RBLK_SESSION_EVENT_VOLUME_CHANGED);
		break;
	case RBLK_EVENT_VOLUME_REMOVED:
		volume_event(session, (u32)result, RBLK_SESSION_EVENT_VOLUME_REMOVED);
		break;
	case RBLK_EVENT_DRAINING:
		session->events.draining = true;
		core_session_leaves(&session->core);
		session->events.untold |= 1u << RBLK_SESSION_EVENT_DRAINING;
		break;
	case RBLK_EVENT_LIST_CHANGED:
		session->events.untold |= 1u << RBLK_SESSION_EVENT_LIST_CHANGED;
		break;
	case RBLK_EVENT_NONE:
	case RBLK_EVENT_MAX:
		break;
	}
}

/* -- the program's ----------------------------------------------------------------------------- */

static unsigned int tell(struct rblk_session *session, u32 *events,
			 enum rblk_session_event_type type, struct rblk_volume *volume)
{
	const struct rblk_session_event event = {
		.type = type,
		.volume = volume,
		.error = type == RBLK_SESSION_EVENT_FAILED	   ? session->failure.final :
			 type == RBLK_SESSION_EVENT_RECOVERING ? session->failure.last :
								 0,
	};

	if (!(*events & 1u << type) || !session->events.callback)
		return 0;
	*events &= ~(1u << type);
	if (type == RBLK_SESSION_EVENT_WRITES_LOST)
		ini_volume_hear(volume);
	session->events.callback(session->events.arg, session, &event);
	return 1;
}

static bool tell_once(struct rblk_session *session, struct rblk_volume *volume,
		      enum rblk_session_event_type type)
{
	if (!(volume->events & ~volume->told & 1u << type))
		return false;
	volume->told |= 1u << type;
	return tell(session, &volume->events, type, volume);
}

/*
 * One event of one volume. The callback may close volumes, so the list is begun again behind it.
 * Only the answer to its CLOSE frees a volume, and no event's callback delivers that.
 */
static bool tell_of_volume(struct rblk_session *session)
{
	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		if (tell_once(session, volume, RBLK_SESSION_EVENT_VOLUME_CHANGED) ||
		    tell_once(session, volume, RBLK_SESSION_EVENT_VOLUME_REMOVED) ||
		    tell_once(session, volume, RBLK_SESSION_EVENT_WRITES_LOST))
			return true;
	return false;
}

/* Each volume's once: what comes while the callbacks run is told the next time, however much. */
static unsigned int tell_of_volumes(struct rblk_session *session)
{
	unsigned int count = 0;

	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		volume->told = 0;
	while (tell_of_volume(session))
		count++;
	return count;
}

static bool is_more_to_tell(const struct rblk_session *session)
{
	const struct rblk_volume *volume = session->volumes;

	while (volume && !volume->events)
		volume = volume->next;
	return volume || session->done.head || session->parking.done;
}

unsigned int ini_event_deliver(struct rblk_session *session)
{
	unsigned int count = 0;

	/* A callback that waits for something polls: events are told one behind the other. */
	if (!session->events.callback || session->events.telling)
		return 0;
	session->events.telling = true;
	/* These bytes were counted already. */
	tell(session, &session->events.untold, RBLK_SESSION_EVENT_READY, NULL);
	tell(session, &session->events.untold, RBLK_SESSION_EVENT_RECOVERING, NULL);
	tell(session, &session->events.untold, RBLK_SESSION_EVENT_RECOVERED, NULL);
	count += tell_of_volumes(session);
	count += tell(session, &session->events.untold, RBLK_SESSION_EVENT_LIST_CHANGED, NULL);
	count += tell(session, &session->events.untold, RBLK_SESSION_EVENT_DRAINING, NULL);
	/* The last event: rblk_poll() returns the error instead of a count. */
	if (!is_more_to_tell(session))
		tell(session, &session->events.untold, RBLK_SESSION_EVENT_FAILED, NULL);
	session->events.telling = false;
	return count;
}

void rblk_session_on_event(struct rblk_session *session, rblk_event_callback callback, void *arg)
{
	session->events.callback = callback;
	session->events.arg = arg;
}
