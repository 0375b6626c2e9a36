/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a queue's life: memory, connecting, checking the target's acceptance or refusal, closing.
 * command.c and complete.c have its messages.
 */
#include "initiator/queue.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include "initiator/session.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

static const u8 next_states[INI_QUEUE_STATES] = {
	[INI_QUEUE_CLOSED] = 1u << INI_QUEUE_CONNECTING,
	[INI_QUEUE_CONNECTING] = 1u << INI_QUEUE_LIVE | 1u << INI_QUEUE_DRAINING,
	[INI_QUEUE_LIVE] = 1u << INI_QUEUE_DRAINING,
	[INI_QUEUE_DRAINING] = 1u << INI_QUEUE_CLOSED,
};

const char *ini_queue_state_name(enum ini_queue_state state)
{
	static const char *const names[INI_QUEUE_STATES] = { "closed", "connecting", "live",
							     "draining" };

	return state < INI_QUEUE_STATES ? names[state] : "unknown";
}

static bool queue_set_state(struct ini_queue *queue, enum ini_queue_state state)
{
	if (!(next_states[queue->state] & 1u << state)) {
		ini_session_fail(queue->session, -EPROTO, "%s: queue %u: from state %s to %s",
				 ini_session_peer(queue->session), queue->index,
				 ini_queue_state_name(queue->state), ini_queue_state_name(state));
		return false;
	}
	queue->state = state;
	return true;
}

/* -- memory ------------------------------------------------------------------------------------ */

static u32 power_of_two_above(u32 value)
{
	u32 power = 1;

	while (power < value)
		power *= 2;
	return power;
}

/*
 * Every command may need a message of its own, and those of commands that were answered may still
 * wait for a signalled SEND behind them: a quarter of the depth at most, see message_flags(). A
 * power of two, because message numbers wrap.
 */
u32 ini_queue_send_depth(u16 credits)
{
	u32 slots = core_tags_count(credits);

	return power_of_two_above(slots + slots / 2);
}

static int queue_alloc(struct ini_queue *queue)
{
	size_t receives = (size_t)queue->receive_count * INI_REPLY_BYTES;

	queue->tag_array = calloc(queue->slot_count, sizeof(*queue->tag_array));
	queue->slots = calloc(queue->slot_count, sizeof(*queue->slots));
	queue->receive_wr = calloc(queue->receive_count, sizeof(*queue->receive_wr));
	queue->receive_sge = calloc(queue->receive_count, sizeof(*queue->receive_sge));
	queue->message_end = calloc(queue->send_depth, sizeof(*queue->message_end));
	queue->block = ini_pages_alloc(receives + queue->ring_size * sizeof(*queue->ring),
				       &queue->block_bytes);
	if (!queue->tag_array || !queue->slots || !queue->receive_wr || !queue->receive_sge ||
	    !queue->message_end || !queue->block)
		return -ENOMEM;
	queue->ring = (void *)(queue->block + receives);
	return 0;
}

int ini_queue_init(struct ini_queue *queue, struct rblk_session *session, u16 index)
{
	u16 credits = (u16)session->options.credits;
	int err;

	queue->session = session;
	queue->index = index;
	queue->conn_id = UINT64_MAX;
	queue->slot_count = core_tags_count(credits);
	/* One for each possible answer, and one for an event. */
	queue->receive_count = queue->slot_count + RBLK_EVENT_RECEIVES;
	queue->send_depth = ini_queue_send_depth(credits);
	/* Likewise in descriptors, and what is left over where a message did not fit at the end. */
	queue->ring_size = power_of_two_above(2 * queue->slot_count + RBLK_BATCH_MAX);
	err = queue_alloc(queue);
	if (err)
		return err;
	for (u32 i = 0; i < queue->slot_count; i++) {
		queue->slots[i].queue = queue;
		queue->slots[i].tag = (u16)i;
	}
	core_tags_init(&queue->tags, queue->tag_array, credits);
	/* No key of these buffers is given out: the target fills them by SEND. */
	return ini_mr_register(&session->fabs, queue->block, queue->block_bytes,
			       IBV_ACCESS_LOCAL_WRITE, &queue->mr);
}

void ini_queue_fini(struct ini_queue *queue)
{
	ini_mr_deregister(&queue->mr);
	ini_pages_free(queue->block, queue->block_bytes);
	free(queue->message_end);
	free(queue->receive_sge);
	free(queue->receive_wr);
	free(queue->slots);
	free(queue->tag_array);
	memset(queue, 0, sizeof(*queue));
}

/* -- connecting -------------------------------------------------------------------------------- */

static u32 wanted_features(const struct rblk_session *session)
{
	u32 features = RBLK_FEATURE_EVENTS | RBLK_FEATURE_EXTENTS | RBLK_FEATURE_FENCE_DOMAIN;

	/*
	 * Commands that have failed fast hold those of all volumes until their whole fence (core_session.held). A session that
	 * waits for that with a connection would wait for ever; one that gets no connection fails fast, and gives up.
	 */
	if (!session->options.fail_fast_ms)
		features |= RBLK_FEATURE_VOLUME_FENCE;
	if (!session->options.no_immediate)
		features |= RBLK_FEATURE_IMMEDIATE;
	if (session->options.digest)
		features |= RBLK_FEATURE_DIGEST;
	return features;
}

static void queue_login(const struct ini_queue *queue, struct rblk_wire_login *login)
{
	const struct rblk_session *session = queue->session;

	memset(login, 0, sizeof(*login));
	login->magic = rblk_to_le32(RBLK_MAGIC);
	login->version = rblk_to_le16(RBLK_PROTOCOL_VERSION);
	login->queue_index = rblk_to_le16(queue->index);
	login->incarnation = rblk_to_le32(queue->incarnation);
	login->features = rblk_to_le32(wanted_features(session));
	memcpy(login->session_id, session->session_id, sizeof(login->session_id));
	login->session_epoch = rblk_to_le64(session->core.epoch);
	login->queue_count = rblk_to_le16(session->core.queues);
	login->fence_incarnation = rblk_to_le32(queue->fence_incarnation);
	login->credits = rblk_to_le16((u16)session->options.credits);
	login->reply_bytes = rblk_to_le32(INI_REPLY_BYTES);
}

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
	return session->options.tls == RBLK_TLS_AUTO && is_loopback(addr) ? NULL : session->tls;
}

int ini_queue_connect(struct ini_queue *queue, const struct ini_portal *portal, const struct sockaddr *addr,
		      u32 timeout_ms)
{
	const struct rblk_options *wanted = &queue->session->options;
	struct rblk_wire_login *login = &queue->login;
	struct fab_conn_options options = {
		.send_depth = queue->send_depth,
		.recv_depth = queue->receive_count,
		.send_sge = INI_SEGMENTS_MAX,
		.inline_bytes = sizeof(struct rblk_wire_command),
		.read_in = 16, /* the target READs what is to be written; this end READs nothing */
		.private_data = login,
		.private_bytes = sizeof(*login),
		.timeout_ms = timeout_ms,
		.tls = queue_tls(queue->session, portal->fab, addr),
		.source = portal->source,
		.tos = (u8)wanted->tos,
		.ack_timeout = (u8)wanted->ack_timeout,
		.user = queue,
	};
	int err;

	queue_login(queue, login);
	queue->ring_head = queue->ring_tail = 0;
	queue->messages_sent = queue->messages_done = queue->messages_signalled = 0;
	queue->repost_head = queue->repost_tail = NULL;
	queue->distrusted = queue->proven = false;
	err = fab_connect(portal->fab, addr, &options, queue_prepare, &queue->conn);
	if (err) {
		queue->conn = NULL;
		return err;
	}
	queue_set_state(queue, INI_QUEUE_CONNECTING);
	return 0;
}

/* -- acceptance, refusal ----------------------------------------------------------------------- */

/* Private data may be unaligned in its packet; copy it before reading fields. */
static const void *private_copy(void *copy, size_t copy_bytes, const void *data, size_t bytes)
{
	memset(copy, 0, copy_bytes);
	if (bytes)
		memcpy(copy, data, bytes < copy_bytes ? bytes : copy_bytes);
	return copy;
}

/* A well-formed acceptance must also answer this login. */
static const char *accept_fault(const struct ini_queue *queue,
				const struct rblk_wire_accept *accept)
{
	const struct rblk_session *session = queue->session;

	if (rblk_le32(accept->incarnation) != queue->incarnation)
		return "it is for another incarnation";
	if (rblk_le64(accept->session_epoch) != session->core.epoch)
		return "it is for another session epoch";
	if (rblk_le16(accept->credits) > session->options.credits)
		return "it grants more credits than were asked for";
	if (rblk_le32(accept->features) & ~wanted_features(session))
		return "it agrees to features that were not asked for";
	return NULL;
}

int ini_queue_established(struct ini_queue *queue, const void *data, size_t bytes)
{
	struct rblk_session *session = queue->session;
	struct rblk_wire_accept copy;
	const struct rblk_wire_accept *accept = private_copy(&copy, sizeof(copy), data, bytes);
	enum rblk_wire_error broken =
		rblk_check_accept(accept, bytes < sizeof(copy) ? bytes : sizeof(copy));
	const char *fault = broken ? rblk_wire_error_text(broken) : accept_fault(queue, accept);

	if (fault) {
		ini_session_note(session, "%s: queue %u: the target's acceptance is wrong: %s",
				 ini_session_peer(session), queue->index, fault);
		return -EPROTO;
	}
	if (session->options.digest && !(rblk_le32(accept->features) & RBLK_FEATURE_DIGEST)) {
		ini_session_note(session, "%s: queue %u: the target cannot do digests",
				 ini_session_peer(session), queue->index);
		return -EOPNOTSUPP;
	}
	queue->accept = *accept;
	memcpy(queue->target_instance, accept->target_instance, sizeof(queue->target_instance));
	if (!queue->index)
		session->events.seen = session->events.confirmed = 0; /* numbered in each incarnation */
	queue->features = rblk_le32(accept->features);
	queue->keepalive_ms = rblk_le32(accept->keepalive_ms);
	queue->max_io_bytes = rblk_le32(accept->max_io_bytes);
	queue->limits.message_bytes = rblk_le32(accept->command_bytes);
	queue->limits.commands = rblk_le16(accept->max_batch);
	queue->capsule_max = core_batch_capsule_max(&queue->limits);
	core_tags_init(&queue->tags, queue->tag_array, rblk_le16(accept->credits));
	queue->inline_bytes = fab_conn_inline(queue->conn);
	queue->last_send_ns = session->now_ns;
	queue->check_ns = session->now_ns;
	return queue_set_state(queue, INI_QUEUE_LIVE) ? 0 : -EPROTO;
}

/* The names of the requested bits that are lacking, or nothing. */
static void feature_list(u32 features, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (u32 bit = 1; bit && bit <= RBLK_FEATURES_ALL; bit <<= 1)
		if (features & bit && used < bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%s%s",
						 used ? ", " : "", rblk_feature_name(bit));
}

static int reject_errno(u16 reason)
{
	switch (reason) {
	case RBLK_REJECT_VERSION:
	case RBLK_REJECT_FEATURES:
	case RBLK_REJECT_QUEUE_COUNT:
		return -EOPNOTSUPP;
	case RBLK_REJECT_NO_CREDITS:
	case RBLK_REJECT_NO_RESOURCES:
		return -EAGAIN;
	case RBLK_REJECT_DENIED:
		return -EACCES;
	case RBLK_REJECT_DRAINING:
		return -ESHUTDOWN;
	case RBLK_REJECT_NO_SESSION:
	case RBLK_REJECT_STALE_EPOCH:
	case RBLK_REJECT_STALE_INCARNATION:
		return -ESTALE;
	default:
		return -EPROTO;
	}
}

int ini_queue_rejected(struct ini_queue *queue, const void *data, size_t bytes,
		       struct ini_refusal *refusal)
{
	struct rblk_session *session = queue->session;
	const char *peer = ini_session_peer(session);
	struct rblk_wire_reject copy;
	const struct rblk_wire_reject *reject = private_copy(&copy, sizeof(copy), data, bytes);
	enum rblk_wire_error broken =
		rblk_check_reject(reject, bytes < sizeof(copy) ? bytes : sizeof(copy));
	char names[80];
	u16 reason;
	u32 detail;

	*refusal = (struct ini_refusal){0};
	if (broken) {
		ini_session_note(session, "%s: login refused without a reason (%s): is it rblkd?",
				 peer, bytes ? rblk_wire_error_text(broken) : "no private data");
		return -ECONNREFUSED;
	}
	reason = rblk_le16(reject->reason);
	detail = rblk_le32(reject->detail);
	*refusal = (struct ini_refusal){.reason = reason, .detail = detail};
	if (reason == RBLK_REJECT_VERSION) {
		ini_session_note(session, "%s: login refused: protocol %u, this target speaks %u", peer,
				 RBLK_PROTOCOL_VERSION, rblk_le16(reject->version));
	} else if (reason == RBLK_REJECT_FEATURES) {
		feature_list(detail, names, sizeof(names));
		ini_session_note(session, "%s: login refused: %s (%s)", peer,
				 rblk_reject_text(reason), names);
	} else if (reason == RBLK_REJECT_QUEUE_COUNT) {
		ini_session_note(session, "%s: login refused: %s (%u asked for, %u allowed)", peer,
				 rblk_reject_text(reason), session->core.queues, detail);
	} else if (reason == RBLK_REJECT_DENIED && detail) {
		ini_session_note(session, "%s: login refused: %s", peer, rblk_denied_text(detail));
	} else {
		ini_session_note(session, "%s: login refused: %s", peer, rblk_reject_text(reason));
	}
	return reject_errno(reason);
}

/* -- closing ----------------------------------------------------------------------------------- */

void ini_queue_close(struct ini_queue *queue)
{
	if (queue->state != INI_QUEUE_CONNECTING && queue->state != INI_QUEUE_LIVE)
		return;
	queue_set_state(queue, INI_QUEUE_DRAINING);
	fab_conn_close(queue->conn);
}

void ini_queue_drained(struct ini_queue *queue)
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
	queue_set_state(queue, INI_QUEUE_CLOSED);
}
