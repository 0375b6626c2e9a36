// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A queue's login: what it says to the target, and what the answer means. Both are private data of
 * the connection manager. Called by connect.c, for the answer on the connection manager's thread.
 */
#include "kmod/queue.h"
#include "kmod/drive.h"
#include "kmod/session.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

/* iWARP has no immediate data (proto/README.md, 2). */
static u32 rblk_login_features(const struct rblk_queue *queue)
{
	const struct rdma_cm_id *id = queue->cm_id;

	return (rdma_protocol_iwarp(id->device, id->port_num) ? 0 : RBLK_FEATURE_IMMEDIATE) |
	       RBLK_FEATURE_INVALIDATE | RBLK_FEATURE_EVENTS | RBLK_FEATURE_FENCE_DOMAIN |
	       RBLK_FEATURE_VOLUME_FENCE | RBLK_FEATURE_PRIORITY | RBLK_FEATURE_UNTORN |
	       (queue->session->options.digest ? RBLK_FEATURE_DIGEST : 0);
}

int rblk_login_send(struct rblk_queue *queue)
{
	struct rblk_session *session = queue->session;
	struct rblk_wire_login *login = &queue->login;
	struct rdma_conn_param param = {
		.private_data = login,
		.private_data_len = sizeof(*login),
		.responder_resources = min_t(int, U8_MAX, queue->ibdev->attrs.max_qp_rd_atom),
		.initiator_depth = 0, /* only the target READs */
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	*login = (struct rblk_wire_login){
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.queue_index = rblk_to_le16(queue->index),
		.incarnation = rblk_to_le32(queue->incarnation),
		.features = rblk_to_le32(rblk_login_features(queue)),
		.session_epoch = rblk_to_le64(queue->epoch),
		.fence_incarnation = rblk_to_le32(queue->fence_incarnation),
		.queue_count = rblk_to_le16(queue->session_queues),
		.credits = rblk_to_le16(queue->wanted),
		.reply_bytes = rblk_to_le32(RBLK_REPLY_BYTES),
	};
	memcpy(login->session_id, session->session_id, sizeof(login->session_id));
	return rdma_connect(queue->cm_id, &param);
}

/*
 * Private data as a struct of at most `bytes`: it lies in the connection manager's message, at any
 * address, which a struct with 64-bit fields must not. Returns how many bytes there are of it.
 */
static size_t rblk_login_private(void *to, size_t bytes, const void *data, size_t data_bytes)
{
	bytes = data ? min(bytes, data_bytes) : 0;
	if (bytes)
		memcpy(to, data, bytes);
	return bytes;
}

/*
 * Over iWARP the status does not say who refused: Soft-iWARP has ECONNRESET for a refusal by the
 * target, and for a connection that ended. Only a target sends data.
 */
static const void *rblk_login_reject_data(struct rblk_queue *queue, struct rdma_cm_event *event,
					  u8 *bytes)
{
	struct rdma_cm_id *id = queue->cm_id;

	if (!rdma_protocol_iwarp(id->device, id->port_num))
		return rdma_consumer_reject_data(id, event, bytes);
	*bytes = event->param.conn.private_data_len;
	return event->param.conn.private_data;
}

void rblk_login_rejected(struct rblk_queue *queue, struct rdma_cm_event *event)
{
	u8 bytes = 0;
	const void *data = rblk_login_reject_data(queue, event, &bytes);
	struct rblk_wire_reject reject, *r = &reject;
	u16 reason;
	u32 detail;

	if (rblk_check_reject(r, rblk_login_private(r, sizeof(*r), data, bytes)) != RBLK_WIRE_OK) {
		rblk_queue_lost(queue, "nobody listens there (%s)",
				rdma_reject_msg(queue->cm_id, event->status));
		return;
	}
	reason = rblk_le16(r->reason);
	detail = rblk_le32(r->detail);
	if (reason == RBLK_REJECT_VERSION)
		rblk_queue_rejected(queue, reason, detail,
				    "login refused: protocol %u, this target speaks %u",
				    RBLK_PROTOCOL_VERSION, detail);
	else if (reason == RBLK_REJECT_DENIED && detail)
		rblk_queue_rejected(queue, reason, detail, "login refused: %s",
				    rblk_denied_text(detail));
	else
		rblk_queue_rejected(queue, reason, detail, "login refused: %s (%u)",
				    rblk_reject_text(reason), detail);
}

int rblk_login_accepted(struct rblk_queue *queue, const struct rdma_conn_param *param, char *text)
{
	struct rblk_wire_accept accept, *a = &accept;
	size_t bytes = rblk_login_private(a, sizeof(*a), param->private_data,
					  param->private_data_len);
	enum rblk_wire_error error = rblk_check_accept(a, bytes);
	struct core_batch_limits limits;

	if (error) {
		strscpy(text, rblk_wire_error_text(error), RBLK_TEXT_SHORT);
		return -EPROTO;
	}
	if (rblk_le16(a->credits) > queue->wanted ||
	    rblk_le32(a->features) & ~rblk_login_features(queue) ||
	    rblk_le32(a->incarnation) != queue->incarnation ||
	    rblk_le64(a->session_epoch) != queue->epoch) {
		strscpy(text, "the target accepted another login than was sent", RBLK_TEXT_SHORT);
		return -EPROTO;
	}
	if (queue->session->options.digest && !(rblk_le32(a->features) & RBLK_FEATURE_DIGEST)) {
		strscpy(text, "the target cannot do digests", RBLK_TEXT_SHORT);
		return -EOPNOTSUPP;
	}
	queue->accept = accept;
	queue->credits = rblk_le16(a->credits);
	queue->features = rblk_le32(a->features);
	queue->command_bytes = rblk_le32(a->command_bytes);
	queue->max_io_bytes = rblk_le32(a->max_io_bytes);
	queue->keepalive_ms = rblk_le32(a->keepalive_ms);
	queue->max_batch = rblk_le16(a->max_batch);
	limits = rblk_queue_limits(queue);
	queue->capsule_bytes = min_t(u32, RBLK_CAPSULE_DATA_MAX, core_batch_capsule_max(&limits));
	return 0;
}
