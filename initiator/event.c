/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the fabric's events of a session's connections: established, refused, lost, drained. The state machine
 * (proto/core/session.h) and drive.c decide and do what follows; tell.c has the program's events.
 */
#include "initiator/session.h"

/* -- connecting -------------------------------------------------------------------------------- */

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
	if (queue->session->identity.secrets)
		ini_authenticate(queue);
	else
		ini_queue_accepted(queue);
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

static void on_device_gone(struct rblk_session *session, struct fab_device *device)
{
	for (u16 i = 0; i < session->queue_count; i++)
		if (session->queues[i].conn && session->queues[i].device == device)
			ini_queue_lose(&session->queues[i], -ENODEV, "the RDMA device %s was removed",
				       fab_device_name(device));
	if (session->fabs.gone_count < INI_FABS_MAX * FAB_DEVICES_MAX)
		session->fabs.gone[session->fabs.gone_count++] = device;
	ini_devices_release(session);
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
