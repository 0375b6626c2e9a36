/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queues: what a login allocates, and the phases of the end.
 */
#include "target/serve/queue.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include "proto/core/trace.h"
#include "target/base/daemon_event.h"
#include "target/io/request.h"
#include "target/serve/device.h"
#include "target/serve/host.h"
#include "target/serve/session_command.h"

/* -- creating ---------------------------------------------------------------------------------- */

static int queue_init(struct tgt_queue *queue, struct tgt_session *session, const struct tgt_login *login,
		      uint16_t credits, void *ring)
{
	struct tgt_io_queue *io_queue = &queue->io_queue;

	queue->session = session;
	queue->fabric = login->fabric;
	queue->device = login->device;
	queue->login = login->wire;
	queue->incarnation = rblk_le32(login->wire.incarnation);
	queue->proven = !session->proven;
	io_queue->ops = &tgt_admin_io_ops;
	io_queue->loop = &session->reactor->loop;
	io_queue->share = &session->share;
	io_queue->answers = session->home ? &session->home->answers : &session->answers;
	io_queue->fabric = login->fabric->index;
	io_queue->session_number = session->number;
	io_queue->owner = tgt_inflight_owner(session->number, session->weight);
	io_queue->index = rblk_le16(login->wire.queue_index);
	io_queue->credits = credits;
	io_queue->features = login->features;
	io_queue->command_bytes = TGT_COMMAND_BYTES;
	return tgt_io_queue_init(io_queue, rblk_le32(login->wire.reply_bytes), ring);
}

static int queue_accept(struct tgt_queue *queue, struct fab_request *request)
{
	struct fab_conn_options options = {
		.send_depth = queue->io_queue.send_depth,
		.recv_depth = queue->io_queue.tags,
		.send_sge = 1,
		.inline_bytes = 4 * sizeof(struct rblk_wire_completion),
		.user = queue,
	};
	uint8_t in, out;
	int err;

	/* The fabric lowers these to what device and peer can do. */
	fab_request_read_depth(request, &in, &out);
	options.read_in = out;
	options.read_out = in;
	err = fab_accept(queue->fabric->fab, request, &options, &queue->io_queue.conn);
	if (err)
		return err;
	queue->io_queue.max_msg_bytes = fab_device_limits(fab_conn_device(queue->io_queue.conn))->max_msg_bytes;
	queue->io_queue.read_bytes = fab_device_limits(fab_conn_device(queue->io_queue.conn))->read_bytes;
	/* The same on each queue of a session. */
	queue->session->has_host_id = fab_conn_host_id(queue->io_queue.conn, queue->session->host_id);
	return 0;
}

/* Puts it in its slot in the session; it takes commands from then on. */
static void queue_join(struct tgt_queue *queue)
{
	struct tgt_session *session = queue->session;
	struct tgt_reactor *reactor = session->reactor;
	struct tgt_queue_slot *slot = &session->slots[queue->io_queue.index];

	queue->begun_ns = reactor->loop.now_ns;
	slot->queue = queue;
	slot->incarnation = queue->incarnation;
	session->queues_here++;
	reactor->queue_count++;
	atomic_fetch_add(&reactor->load, 1);
	session->queues++;
	session->host->queues++;
	reactor->loop.logins[TGT_LOGIN_ACCEPTED]++;
	queue->device->queues++;
	tgt_io_queue_open(&queue->io_queue);
	if (reactor->keepalive_ns)
		tgt_loop_timer(&reactor->loop, queue->io_queue.heard_ns + reactor->keepalive_ns);
}

/* So many receive buffers are promised to it from now on, or held by its commands. */
static void queue_promise(struct tgt_queue *queue, uint32_t buffers)
{
	uint32_t more = buffers - queue->promised;

	queue->promised = buffers;
	queue->io_queue.receives->promised += more;
	queue->io_queue.share->credits += more;
	queue->io_queue.share->host->credits += more;
}

static void queue_free(struct tgt_queue *queue)
{
	fab_conn_destroy(queue->io_queue.conn);
	queue_promise(queue, 0);
	tgt_pool_free(queue->session->reactor->reserve, queue->io_queue.replies,
		      tgt_io_queue_ring_bytes(queue->io_queue.credits));
	free(queue);
}

int tgt_queue_create(struct tgt_session *session, const struct tgt_login *login, uint16_t credits,
		     struct tgt_queue **out)
{
	void *ring = tgt_pool_alloc(session->reactor->reserve, tgt_io_queue_ring_bytes(credits));
	struct tgt_queue *queue = calloc(1, sizeof(*queue));
	int err = -ENOMEM;

	*out = NULL;
	if (!queue || !ring)
		goto err_free;
	err = queue_init(queue, session, login, credits, ring);
	if (err)
		goto err_free;
	err = queue_accept(queue, login->request);
	if (err)
		goto err_fini;
	queue->io_queue.receives = &queue->device->receives;
	queue_promise(queue, queue->io_queue.tags);
	queue->io_queue.lkey = fab_mr_lkey(queue->fabric->mr, fab_conn_device(queue->io_queue.conn));
	queue_join(queue);
	*out = queue;
	return 0;

err_fini:
	tgt_io_queue_fini(&queue->io_queue);
err_free:
	free(queue);
	if (ring)
		tgt_pool_free(session->reactor->reserve, ring, tgt_io_queue_ring_bytes(credits));
	return err;
}

/* -- the end ----------------------------------------------------------------------------------- */

static bool queue_may_linger(const struct tgt_queue *queue)
{
	const struct tgt_queue_slot *slot = &queue->session->slots[queue->io_queue.index];
	const struct tgt_lingering *one;
	unsigned int count = 0;

	TAILQ_FOREACH(one, &slot->lingering, link)
		count += one->reactor == queue->session->reactor;
	return !queue->lingers && count < TGT_LINGERING_MAX;
}

void tgt_queue_check_end(struct tgt_queue *queue)
{
	if (queue->io_queue.open || !queue->drained || queue->is_ended ||
	    (queue->io_queue.active && !queue_may_linger(queue)))
		return;
	queue->is_ended = true;
	TAILQ_INSERT_TAIL(&queue->session->reactor->ended, queue, ended_link);
}

/* That a peer goes, or is let go, is no event: its session tells how it ends (sessions.c). */
static void queue_log_close(const struct tgt_queue *queue, const char *reason)
{
	const char *peer = fab_conn_peer(queue->io_queue.conn);

	if (queue->io_queue.end == TGT_END_LOST || queue->io_queue.end == TGT_END_SILENT)
		tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_CONNECTION_LOST,
								  .initiator = queue->session->initiator,
								  .address = peer},
				 &queue->io_queue.loop->chat_limit, TGT_LOG_WARNING,
				 "session %u queue %u [%s] %s: closed: %s", queue->session->number,
				 queue->io_queue.index, peer, queue->session->initiator, reason);
	else
		tgt_log_limited(&queue->io_queue.loop->chat_limit,
				queue->io_queue.end == TGT_END_DISCONNECTED ? TGT_LOG_DEBUG : TGT_LOG_INFO,
				"session %u queue %u [%s]: closed: %s", queue->session->number,
				queue->io_queue.index, peer, reason);
}

void tgt_queue_close(struct tgt_queue *queue, const char *reason)
{
	if (!queue->io_queue.open)
		return;
	rblk_trace_queue_close(queue, reason);
	if (reason)
		queue_log_close(queue, reason);
	queue->io_queue.loop->ends[queue->io_queue.end]++;
	tgt_io_queue_close(&queue->io_queue);
}

void tgt_queue_io_close(struct tgt_io_queue *io_queue, const char *reason)
{
	tgt_queue_close(tgt_queue_of(io_queue), reason);
}

void tgt_queue_io_over(struct tgt_io_queue *io_queue)
{
	tgt_queue_check_end(tgt_queue_of(io_queue));
}

void tgt_queue_drained(struct tgt_queue *queue)
{
	tgt_queue_close(queue, NULL);
	queue->drained = true;
	tgt_io_queue_drained(&queue->io_queue);
	tgt_queue_check_end(queue);
}

void tgt_queue_linger(struct tgt_queue *queue)
{
	struct tgt_session *session = queue->session;
	struct tgt_queue_slot *slot = &session->slots[queue->io_queue.index];

	queue->is_ended = false;
	queue->lingers = true;
	queue->lingering.incarnation = queue->incarnation;
	queue->lingering.reactor = session->reactor;
	TAILQ_INSERT_TAIL(&slot->lingering, &queue->lingering, link);
	slot->queue = NULL;
	session->queues_here--;
	session->lingering++;
	/* Its successor may have the rest. */
	if (queue->promised)
		queue_promise(queue, queue->io_queue.active);
}

unsigned int tgt_queue_lingering_active(const struct tgt_session *session, unsigned int index)
{
	const struct tgt_lingering *one;
	unsigned int active = 0;

	TAILQ_FOREACH(one, &session->slots[index].lingering, link)
		if (one->reactor == session->reactor)
			active += ((const struct tgt_queue *)((const char *)one - offsetof(struct tgt_queue, lingering)))
					  ->io_queue.active;
	return active;
}

/*
 * Nothing points here any more: the fabric has drained, every slot is free, so no store, list or
 * send entry has a request of it; the reactor's lists are left here. Destroying the connection may
 * take the fabric a while; this reactor serves no other session meanwhile.
 */
void tgt_queue_destroy(struct tgt_queue *queue)
{
	struct tgt_reactor *reactor = queue->session->reactor;
	struct tgt_device *device = queue->device;

	assert(queue->drained && !queue->io_queue.active);
	reactor->queue_count--;
	atomic_fetch_sub(&reactor->load, 1);
	queue->session->queues--;
	queue->session->host->queues--;
	tgt_io_queue_fini(&queue->io_queue);
	queue_free(queue);
	device->queues--;
}
