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
#include "target/base/notice.h"
#include "target/io/request.h"
#include "target/serve/device.h"
#include "target/serve/host.h"

/* -- creating ---------------------------------------------------------------------------------- */

static int queue_init(struct tgt_queue *queue, struct tgt_session *session, struct tgt_fabric *fabric,
		      struct tgt_device *device, const struct tgt_queue_terms *terms, void *ring)
{
	queue->session = session;
	queue->fabric = fabric;
	queue->device = device;
	queue->incarnation = terms->incarnation;
	queue->proven_ops = terms->proven_ops;
	queue->lane.fabric = fabric->index;
	queue->lane.session_number = session->number;
	queue->lane.owner = tgt_window_owner(session->number, session->weight);
	queue->lane.answers = session->home ? &session->home->answers : &session->answers;
	return tgt_lane_init(&queue->lane, &session->reactor->turn, &session->share, terms->ops,
			     &terms->lane, ring);
}

static int queue_accept(struct tgt_queue *queue, struct fab_request *request)
{
	struct fab_conn_options options = {
		.send_depth = queue->lane.send_depth,
		.recv_depth = queue->lane.tags,
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
	err = fab_accept(queue->fabric->fab, request, &options, &queue->lane.conn);
	if (!err)
		queue->lane.max_msg_bytes =
			fab_device_limits(fab_conn_device(queue->lane.conn))->max_msg_bytes;
	return err;
}

/* Puts it in its place in the session; it takes commands from then on. */
static void queue_join(struct tgt_queue *queue)
{
	struct tgt_session *session = queue->session;
	struct tgt_reactor *reactor = session->reactor;
	struct tgt_place *place = &session->places[queue->lane.index];

	place->queue = queue;
	place->incarnation = queue->incarnation;
	session->queues_here++;
	reactor->queue_count++;
	atomic_fetch_add(&reactor->load, 1);
	session->queues++;
	session->host->queues++;
	reactor->logins_accepted++;
	queue->device->queues++;
	tgt_lane_open(&queue->lane);
	if (reactor->keepalive_ns)
		tgt_turn_timer(&reactor->turn, queue->lane.heard_ns + reactor->keepalive_ns);
}

/* So many receive buffers are promised to it from now on, or held by its commands. */
static void queue_promise(struct tgt_queue *queue, uint32_t buffers)
{
	uint32_t more = buffers - queue->promised;

	queue->promised = buffers;
	queue->lane.receives->promised += more;
	queue->lane.share->credits += more;
	queue->lane.share->host->credits += more;
}

static void queue_free(struct tgt_queue *queue)
{
	fab_conn_destroy(queue->lane.conn);
	queue_promise(queue, 0);
	tgt_pool_free(queue->session->reactor->reserve, queue->lane.replies,
		      tgt_lane_ring_bytes(queue->lane.credits));
	free(queue);
}

int tgt_queue_create(struct tgt_session *session, struct tgt_fabric *fabric,
		     struct tgt_device *device, struct fab_request *request,
		     const struct tgt_queue_terms *terms, struct tgt_queue **out)
{
	void *ring = tgt_pool_alloc(session->reactor->reserve,
				    tgt_lane_ring_bytes(terms->lane.credits));
	struct tgt_queue *queue = calloc(1, sizeof(*queue));
	int err = -ENOMEM;

	*out = NULL;
	if (!queue || !ring)
		goto err_free;
	err = queue_init(queue, session, fabric, device, terms, ring);
	if (err)
		goto err_free;
	err = queue_accept(queue, request);
	if (err)
		goto err_fini;
	queue->lane.receives = &device->receives;
	queue_promise(queue, queue->lane.tags);
	queue->lane.lkey = fab_mr_lkey(fabric->mr, fab_conn_device(queue->lane.conn));
	queue_join(queue);
	*out = queue;
	return 0;

err_fini:
	tgt_lane_fini(&queue->lane);
err_free:
	free(queue);
	if (ring)
		tgt_pool_free(session->reactor->reserve, ring,
			      tgt_lane_ring_bytes(terms->lane.credits));
	return err;
}

/* -- the end ----------------------------------------------------------------------------------- */

static bool queue_may_linger(const struct tgt_queue *queue)
{
	const struct tgt_place *place = &queue->session->places[queue->lane.index];
	const struct tgt_lingering *one;
	unsigned int count = 0;

	TAILQ_FOREACH(one, &place->lingering, link)
		count += one->reactor == queue->session->reactor;
	return !queue->lingers && count < TGT_LINGERING_MAX;
}

void tgt_queue_check_end(struct tgt_queue *queue)
{
	if (queue->lane.open || !queue->drained || queue->is_ended || (queue->lane.active && !queue_may_linger(queue)))
		return;
	queue->is_ended = true;
	TAILQ_INSERT_TAIL(&queue->session->reactor->ended, queue, ended_link);
}

/* That a peer goes, or is let go, is no event. */
static void queue_log_close(const struct tgt_queue *queue, const char *reason)
{
	const char *peer = fab_conn_peer(queue->lane.conn);

	if (queue->lane.end == TGT_END_LOST || queue->lane.end == TGT_END_SILENT)
		tgt_notice(&(struct tgt_notice_about){.kind = TGT_NOTICE_CONNECTION_LOST,
						      .initiator = queue->session->initiator,
						      .address = peer},
			   &queue->lane.turn->chat_limit, TGT_LOG_INFO,
			   "session %u queue %u [%s]: closed: %s", queue->session->number,
			   queue->lane.index, peer, reason);
	else
		tgt_log_limited(&queue->lane.turn->chat_limit, TGT_LOG_INFO,
				"session %u queue %u [%s]: closed: %s", queue->session->number,
				queue->lane.index, peer, reason);
}

void tgt_queue_close(struct tgt_queue *queue, const char *reason)
{
	if (!queue->lane.open)
		return;
	rblk_trace_queue_close(queue, reason);
	if (reason)
		queue_log_close(queue, reason);
	queue->lane.turn->ends[queue->lane.end]++;
	tgt_lane_close(&queue->lane);
}

void tgt_queue_lane_close(struct tgt_lane *lane, const char *reason)
{
	tgt_queue_close(tgt_queue_of(lane), reason);
}

void tgt_queue_lane_over(struct tgt_lane *lane)
{
	tgt_queue_check_end(tgt_queue_of(lane));
}

void tgt_queue_drained(struct tgt_queue *queue)
{
	tgt_queue_close(queue, NULL);
	queue->drained = true;
	tgt_lane_drained(&queue->lane);
	tgt_queue_check_end(queue);
}

void tgt_queue_linger(struct tgt_queue *queue)
{
	struct tgt_session *session = queue->session;
	struct tgt_place *place = &session->places[queue->lane.index];

	queue->is_ended = false;
	queue->lingers = true;
	queue->lingering.incarnation = queue->incarnation;
	queue->lingering.reactor = session->reactor;
	TAILQ_INSERT_TAIL(&place->lingering, &queue->lingering, link);
	place->queue = NULL;
	session->queues_here--;
	session->lingering++;
	/* Its successor may have the rest. */
	if (queue->promised)
		queue_promise(queue, queue->lane.active);
}

unsigned int tgt_queue_lingering_active(const struct tgt_session *session, unsigned int index)
{
	const struct tgt_lingering *one;
	unsigned int active = 0;

	TAILQ_FOREACH(one, &session->places[index].lingering, link)
		if (one->reactor == session->reactor)
			active += ((const struct tgt_queue *)((const char *)one - offsetof(struct tgt_queue, lingering)))
					  ->lane.active;
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

	assert(queue->drained && !queue->lane.active);
	reactor->queue_count--;
	atomic_fetch_sub(&reactor->load, 1);
	queue->session->queues--;
	queue->session->host->queues--;
	tgt_lane_fini(&queue->lane);
	queue_free(queue);
	device->queues--;
}
