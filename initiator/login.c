/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns a queue's login: what it asks for, and the target's acceptance or refusal, which is checked and put into words. */
#include "initiator/queue.h"

#include <stdio.h>
#include "initiator/session.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

static u32 wanted_features(const struct rblk_session *session)
{
	u32 features = RBLK_FEATURE_EVENTS | RBLK_FEATURE_EXTENTS | RBLK_FEATURE_FENCE_DOMAIN | RBLK_FEATURE_PRIORITY |
		       RBLK_FEATURE_UNTORN | RBLK_FEATURE_COMPARE_LIMIT;

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

void ini_login_fill(struct ini_queue *queue)
{
	const struct rblk_session *session = queue->session;
	struct rblk_wire_login *login = &queue->login;

	memset(login, 0, sizeof(*login));
	login->magic = rblk_to_le32(RBLK_MAGIC);
	login->version = rblk_to_le16(RBLK_PROTOCOL_VERSION);
	login->queue_index = rblk_to_le16(queue->index);
	login->incarnation = rblk_to_le32(queue->incarnation);
	login->features = rblk_to_le32(wanted_features(session));
	memcpy(login->session_id, session->identity.session_id, sizeof(login->session_id));
	login->session_epoch = rblk_to_le64(session->core.epoch);
	login->queue_count = rblk_to_le16(session->core.queues);
	login->fence_incarnation = rblk_to_le32(queue->fence_incarnation);
	login->credits = rblk_to_le16((u16)session->options.credits);
	login->reply_bytes = rblk_to_le32(INI_REPLY_BYTES);
}

/* -- acceptance -------------------------------------------------------------------------------- */

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
	core_clock_init(&queue->clock);
	queue->urgent = false;
	core_tags_init(&queue->tags, queue->tag_array, rblk_le16(accept->credits));
	queue->inline_bytes = fab_conn_inline(queue->conn);
	queue->last_send_ns = session->now_ns;
	queue->check_ns = session->now_ns;
	return ini_queue_set_state(queue, INI_QUEUE_LIVE) ? 0 : -EPROTO;
}

/* -- refusal ----------------------------------------------------------------------------------- */

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
