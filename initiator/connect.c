/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a queue's connection: an attempt at the addresses of its portal, one after the other, and its end, closed and drained. drive.c
 * begins and ends it as the state machine wants; event.c reports what the fabric says of it.
 */
#include "initiator/queue.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include "initiator/retry.h"
#include "initiator/session.h"

/* -- one connection ---------------------------------------------------------------------------- */

/* The queue pair exists: post every receive that the login promises before it is sent. */
static int queue_prepare(struct fab_conn *conn, void *user)
{
	struct ini_queue *queue = user;
	const struct fab_limits *limits;
	struct ibv_recv_wr *bad;

	queue->device = fab_conn_device(conn);
	queue->conn_id = ini_conn_id(ini_fabs_place(&queue->session->fabs, queue->device),
				     fab_conn_qp_num(conn));
	queue->lkey = ini_mr_lkey(&queue->mr, queue->device);
	limits = fab_device_limits(queue->device);
	if (limits->max_sge < 2) {
		ini_session_note(queue->session,
				 "%s: a SEND gathers only %u segment, 2 are needed at least",
				 fab_device_name(queue->device), limits->max_sge);
		return -EOPNOTSUPP;
	}
	queue->limits.segments =
		(u16)(limits->max_sge < INI_SEGMENTS_MAX ? limits->max_sge : INI_SEGMENTS_MAX);
	for (u32 i = 0; i < queue->receive_count; i++) {
		queue->receive_sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)(queue->block + (size_t)i * INI_REPLY_BYTES),
			.length = INI_REPLY_BYTES,
			.lkey = queue->lkey,
		};
		queue->receive_wr[i] = (struct ibv_recv_wr){
			.wr_id = ini_wr_id(INI_WR_RECEIVE, queue->index, i),
			.next = i + 1 < queue->receive_count ? &queue->receive_wr[i + 1] : NULL,
			.sg_list = &queue->receive_sge[i],
			.num_sge = 1,
		};
	}
	return fab_post_recv(conn, queue->receive_wr, &bad);
}

static bool is_loopback(const struct sockaddr *addr)
{
	static const u8 mapped[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;

	if (addr->sa_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ||
	       memcmp(&in6->sin6_addr, mapped, sizeof(mapped)) == 0;
}

/* By TLS there? NULL: without. */
static struct rblk_tls_context *queue_tls(const struct rblk_session *session, const struct fab *fab,
					  const struct sockaddr *addr)
{
	if (fab_kind_of(fab) != FAB_TCP)
		return NULL;
	return session->options.tls == RBLK_TLS_AUTO && is_loopback(addr) ? NULL : session->identity.tls;
}

/* CLOSED -> CONNECTING. Negative errno: still CLOSED, message in fab_error(). */
static int queue_connect(struct ini_queue *queue, const struct ini_portal *portal, const struct sockaddr *addr,
			 u32 timeout_ms)
{
	const struct rblk_options *wanted = &queue->session->options;
	struct fab_conn_options options = {
		.send_depth = queue->send_depth,
		.recv_depth = queue->receive_count,
		.send_sge = INI_SEGMENTS_MAX,
		.inline_bytes = sizeof(struct rblk_wire_command),
		.read_in = 16, /* the target READs what is to be written; this end READs nothing */
		.private_data = &queue->login,
		.private_bytes = sizeof(queue->login),
		.timeout_ms = timeout_ms,
		.tls = queue_tls(queue->session, portal->fab, addr),
		.source = portal->source,
		.tos = (u8)wanted->tos,
		.ack_timeout = (u8)wanted->ack_timeout,
		.user = queue,
	};
	int err;

	ini_login_fill(queue);
	queue->ring_head = queue->ring_tail = 0;
	queue->messages_sent = queue->messages_done = queue->messages_signalled = 0;
	queue->repost_head = queue->repost_tail = NULL;
	queue->distrusted = queue->proven = false;
	err = fab_connect(portal->fab, addr, &options, queue_prepare, &queue->conn);
	if (err) {
		queue->conn = NULL;
		return err;
	}
	ini_queue_set_state(queue, INI_QUEUE_CONNECTING);
	return 0;
}

/* -- an attempt -------------------------------------------------------------------------------- */

/* The time limit for one address: an equal part of the attempt's for each. */
static u32 connect_ms(const struct ini_queue *queue)
{
	const struct rblk_session *session = queue->session;
	u64 by_ns = session->core.queue[queue->index].by_ns;
	u64 left_ms = by_ns > session->now_ns ? (by_ns - session->now_ns) / 1000000 + 1 : 1;

	return (u32)left_ms / (queue->addresses_left + 1u) + 1;
}

/* The portal's next address: each is tried once in an attempt, whatever other queues do there. */
static void connect_next(struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;
	struct ini_portal *portal = ini_portal_of(queue);
	int err = -EHOSTUNREACH;

	if (!portal->addresses.count)
		ini_session_note(session, "%.180s: %s", portal->host->name,
				 gai_strerror(portal->name_error));
	while (queue->addresses_left) {
		queue->addresses_left--;
		queue->address = (u16)((queue->address + 1) % portal->addresses.count);
		err = queue_connect(queue, portal, (const struct sockaddr *)&portal->addresses.of[queue->address],
				    connect_ms(queue));
		if (!err)
			return;
		ini_session_note(session, "%s", fab_error(portal->fab));
	}
	session->failure.last = err;
	ini_portal_failed(queue, err);
	core_session_unreached(&session->core, queue->index, session->now_ns);
}

/* The address that worked stays the first, if the name still has it. */
static void portal_renew(struct ini_portal *portal, const struct ini_addresses *found)
{
	struct sockaddr_storage worked = portal->addresses.of[portal->first];

	portal->addresses = *found;
	portal->first = 0;
	for (u16 i = 0; i < found->count; i++)
		if (!memcmp(&found->of[i], &worked, sizeof(worked)))
			portal->first = i;
}

/*
 * The last attempt or connection there has failed: a target may have moved, and a name may be known by now. The answer
 * is for a later attempt, so nobody waits for it.
 */
static void portal_look_up(struct ini_portal *portal)
{
	struct ini_addresses found;

	if (portal->lookup && ini_lookup_answered(portal->lookup, &found, &portal->name_error)) {
		portal->lookup = NULL;
		if (!portal->name_error)
			portal_renew(portal, &found);
	}
	if (!portal->lookup && portal->error && !portal->numeric)
		portal->lookup = ini_lookup_start(portal->host->name, portal->host->port);
}

void ini_connect(struct ini_queue *queue, const struct core_action *action)
{
	struct ini_portal *portal = &queue->session->portals.of[action->portal];

	portal_look_up(portal);
	queue->incarnation = action->incarnation;
	queue->fence_incarnation = action->fence;
	queue->again = false;
	queue->addresses_left = portal->addresses.count;
	queue->address = (u16)(portal->first + portal->addresses.count - 1);
	connect_next(queue);
}

/* -- its result -------------------------------------------------------------------------------- */

void ini_queue_accepted(struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;
	struct ini_portal *portal = ini_portal_of(queue);

	portal->error = 0;
	portal->first = queue->address;
	if (core_session_accepted(&session->core, queue->index, queue->target_instance, queue->keepalive_ms,
				  queue->features, session->now_ns))
		return;
	ini_session_note(session, "%s: queue %u: a different target answers there than on the other queues",
			 fab_conn_peer(queue->conn), queue->index);
	portal->error = -EREMCHG;
	memcpy(portal->words, session->failure.words, sizeof(portal->words));
}

void ini_queue_unreached(struct ini_queue *queue, int error)
{
	struct rblk_session *session = queue->session;

	session->failure.last = error;
	ini_portal_failed(queue, error);
	if (queue->addresses_left) {
		/*
		 * The host has more addresses: the attempt continues with the next one when this
		 * connection is drained.
		 */
		queue->again = true;
		ini_queue_close(queue);
		return;
	}
	core_session_unreached(&session->core, queue->index, session->now_ns);
}

/* -- its end ----------------------------------------------------------------------------------- */

void ini_queue_close(struct ini_queue *queue)
{
	if (queue->state != INI_QUEUE_CONNECTING && queue->state != INI_QUEUE_LIVE)
		return;
	ini_queue_set_state(queue, INI_QUEUE_DRAINING);
	fab_conn_close(queue->conn);
}

/* DRAINING -> CLOSED: the connection is destroyed; commands keep their places. */
static void queue_drained(struct ini_queue *queue)
{
	struct fab_counters last;

	if (queue->state != INI_QUEUE_DRAINING)
		return;
	fab_conn_counters(queue->conn, &last);
	queue->counters.sends += last.sends;
	queue->counters.writes += last.writes;
	queue->counters.reads += last.reads;
	queue->counters.doorbells += last.doorbells;
	fab_conn_destroy(queue->conn);
	queue->conn = NULL;
	queue->device = NULL;
	queue->conn_id = UINT64_MAX;
	queue->proven = false;
	/* F4: no SEND reads any memory any more. */
	queue->messages_done = queue->messages_sent;
	queue->ring_tail = queue->ring_head;
	ini_queue_set_state(queue, INI_QUEUE_CLOSED);
}

/* Those that no connection is on any more; another device may get their place, and their address. */
void ini_devices_release(struct rblk_session *session)
{
	for (u32 i = 0; i < session->fabs.gone_count;) {
		struct fab_device *device = session->fabs.gone[i];
		bool used = false;

		for (u16 q = 0; q < session->queue_count; q++)
			used |= session->queues[q].device == device;
		if (used) {
			i++;
			continue;
		}
		ini_buffers_forget(&session->buffers, device);
		fab_device_release(device);
		session->fabs.gone[i] = session->fabs.gone[--session->fabs.gone_count];
	}
}

void ini_queue_ended(struct ini_queue *queue)
{
	queue_drained(queue);
	ini_devices_release(queue->session);
	if (queue->again) {
		queue->again = false;
		connect_next(queue);
		return;
	}
	ini_park_queue(queue);
	queue->drained = queue->session->unsettled = true; /* drive.c tells the state machine */
}
