/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the receiving side: completions of the fabric become answers of commands, answers become
 * callbacks. Receives are posted again before any callback runs, so that a command started there
 * finds its credit covered. Every message of the target is checked before it is used; an answer that does
 * not match what was sent ends the session.
 */
#include "initiator/queue.h"

#include <arpa/inet.h>
#include <assert.h>
#include <limits.h>
#include "initiator/durable.h"
#include "initiator/retry.h"
#include "initiator/publish.h"
#include "initiator/reopen_volumes.h"
#include "initiator/session.h"
#include "initiator/volume.h"
#include "proto/core/digest.h"
#include "proto/core/trace.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

#define POLL_BATCH 32
/* Back-off after BUSY: this, doubled with every further BUSY up to the other. */
#define BUSY_DELAY_NS 100000ull
#define BUSY_DOUBLINGS_MAX 8

static void violation(struct ini_queue *queue, const char *what)
{
	queue->distrusted = true;
	ini_session_fail(queue->session, -EPROTO,
			 "%s: queue %u: the target broke the protocol: %s",
			 ini_session_peer(queue->session), queue->index, what);
}

/* -- answers ----------------------------------------------------------------------------------- */

/* Repeated BUSY is bounded by the command's timeout, like no answer; DRAINING like no connection. */
static bool slot_expired(const struct ini_slot *slot, u64 now_ns)
{
	const struct rblk_options *options = &slot->queue->session->options;
	u32 limit_ms = slot->result.status == RBLK_E_BUSY ? options->command_timeout_ms : options->give_up_ms;

	return now_ns - slot->first_ns >= limit_ms * 1000000ull;
}

/* Send it again after a delay, with another sequence. */
static void slot_again(struct ini_slot *slot, u64 delay_ns)
{
	struct ini_queue *queue = slot->queue;

	/* If the connection is lost now, there is no answer. */
	memset(&slot->result, 0, sizeof(slot->result));
	core_tags_retake(&queue->tags, slot->tag);
	slot->retry_ns = queue->session->now_ns + delay_ns;
	ini_list_append(&queue->retry, slot, INI_PLACE_RETRY);
}

/* A FENCE, or a volume's OPEN in a new epoch, may be refused for long: it holds no tag meanwhile. */
static bool repeats_itself(const struct ini_slot *slot)
{
	return slot->result.status == RBLK_E_BUSY &&
	       (slot->command.opcode == RBLK_OP_FENCE || ini_reopen_is(slot->done));
}

/* BUSY, or DRAINING before a restart: not begun. Sent again after a growing delay, until its time is over. */
static void slot_busy(struct ini_slot *slot)
{
	struct rblk_session *session = slot->queue->session;

	if (repeats_itself(slot) || slot_expired(slot, session->now_ns)) {
		slot->answered = true;
		ini_slot_release(slot);
		return;
	}
	if (slot->result.status == RBLK_E_BUSY)
		session->stats.busy_retries++;
	slot_again(slot, BUSY_DELAY_NS << slot->tries);
	if (slot->tries < BUSY_DOUBLINGS_MAX)
		slot->tries++;
}

/* Data that did not match its digest: nothing was stored, or nothing that was read counts. */
static bool slot_digest_retried(struct ini_slot *slot)
{
	if (slot->digests == CORE_DIGEST_RETRIES)
		return false;
	slot->digests++;
	slot->queue->session->stats.digest_retries++;
	slot_again(slot, 0);
	return true;
}

u64 ini_queue_retry(struct ini_queue *queue, u64 now_ns)
{
	struct ini_list retry = queue->retry;
	struct ini_slot *slot;
	u64 next_ns = 0;

	queue->retry = (struct ini_list){ NULL, NULL };
	while ((slot = ini_list_pop(&retry))) {
		if (slot->retry_ns <= now_ns) {
			ini_slot_start(slot);
			continue;
		}
		if (!next_ns || slot->retry_ns < next_ns)
			next_ns = slot->retry_ns;
		ini_list_append(&queue->retry, slot, INI_PLACE_RETRY);
	}
	return next_ns;
}

/* Accounts for a successful I/O: durability (F7), and how its data came. */
static void account(struct ini_slot *slot)
{
	struct rblk_session *session = slot->queue->session;
	u8 opcode = slot->command.opcode;
	bool has_data = opcode == RBLK_OP_WRITE || opcode == RBLK_OP_COMPARE_AND_WRITE;

	/* Another session may have learnt by now that writes are lost. */
	if (slot->owes && !ini_durable_done(session->durables, slot->volume->durable, opcode, slot->owes, slot->flush)) {
		slot->result.error = -EIO;
		ini_tell_loss(slot->volume);
	}
	if (has_data && slot->data_bytes)
		slot->queue->session->stats.target_reads++;
}

/* This status of an I/O says that this attempt did nothing. It says nothing about an earlier attempt
 * that was lost. */
static bool not_begun(u16 status)
{
	return status == RBLK_E_BUSY || status == RBLK_E_DRAINING || status == RBLK_E_GONE ||
	       status == RBLK_E_FENCED || status == RBLK_E_ABORTED || status == RBLK_E_NO_VOLUME ||
	       status == RBLK_E_RESERVED || status == RBLK_E_DIGEST;
}

/* Nothing was done, and the target will end the connection: the command is kept, and sent on the
 * next one. */
static bool waits_for_restart(const struct ini_slot *slot)
{
	return slot->result.status == RBLK_E_DRAINING &&
	       !slot->queue->session->options.no_reconnect;
}

static void slot_answer(struct ini_slot *slot, u16 status, u64 value, u32 queued_us, u32 stored_us)
{
	/* This turn's doorbell sends what waits. */
	core_clock_answered(&slot->queue->clock, slot->message);
	/* Nothing was done, and the command is not sent again. */
	if (slot->canceled && (status == RBLK_E_BUSY || status == RBLK_E_DRAINING ||
			       status == RBLK_E_DIGEST))
		status = RBLK_E_ABORTED;
	slot->result.status = status;
	slot->result.error = rblk_status_errno(status);
	if (status == RBLK_E_ABORTED && slot->abort_sent && !slot->canceled)
		slot->result.error = -ETIMEDOUT;
	slot->result.value = value;
	slot->result.queued_us = queued_us;
	slot->result.stored_us = stored_us;
	if (status == RBLK_E_BUSY || waits_for_restart(slot)) {
		slot_busy(slot);
		return;
	}
	if (status == RBLK_E_DIGEST && slot_digest_retried(slot))
		return;
	slot->answered = true;
	if (slot->volume && slot->command.flags & RBLK_CMD_RETRY && not_begun(status))
		slot->result.status = RBLK_OK;
	if (status == RBLK_OK && slot->volume)
		account(slot);
	ini_slot_release(slot);
}

/* A wrong answer, but an answer: called back with the rest after the drain. */
static void slot_wrong(struct ini_slot *slot, const char *what)
{
	slot->result.error = -EPROTO;
	slot->answered = true;
	ini_slot_release(slot);
	violation(slot->queue, what);
}

/* V9: one event at a time, on queue 0 alone: there is one receive for it. */
static bool reply_event(struct ini_queue *queue, const struct rblk_wire_completion *event)
{
	const struct rblk_session *session = queue->session;

	/* V9. An event that was confirmed is not sent again, either. */
	if (queue->index || session->events.seen != session->events.confirmed ||
	    (uint32_t)(rblk_le64(event->result) >> 32) == session->events.confirmed) {
		violation(queue, queue->index ? "an event on another queue than the first" :
						"an event before the last one was confirmed");
		return false;
	}
	ini_tell_received(queue->session, event);
	return true;
}

static bool reply_completion(struct ini_queue *queue, const struct rblk_wire_completion *completion)
{
	u16 tag = rblk_le16(completion->tag), status = rblk_le16(completion->status);
	enum core_tags_error error;
	struct ini_slot *slot;
	const char *fault;

	if (completion->flags & RBLK_CPL_EVENT)
		return reply_event(queue, completion);
	error = core_tags_answer(&queue->tags, tag, rblk_le32(completion->sequence));
	if (error) {
		violation(queue, core_tags_error_text(error));
		return false;
	}
	rblk_trace_answered(queue, tag, status);
	slot = &queue->slots[tag];
	/* Data came by an RDMA WRITE of its own; that by immediate is counted as such. */
	if (rblk_opcode_direction(slot->command.opcode) == RBLK_DATA_TO_INITIATOR && !status)
		queue->session->stats.target_writes++;
	fault = core_digest_fault(&slot->command, completion);
	if (fault) {
		slot_wrong(slot, fault);
		return false;
	}
	if (!ini_digest_matches(slot, completion))
		status = RBLK_E_DIGEST;
	slot_answer(slot, status, rblk_le64(completion->result), rblk_le32(completion->queued_us),
		    rblk_le32(completion->stored_us));
	return true;
}

static void receive_reply(struct ini_queue *queue, u32 buffer, u32 bytes)
{
	const void *data = queue->block + (size_t)buffer * INI_REPLY_BYTES;
	const struct rblk_wire_completion *completions;
	enum rblk_wire_error broken;
	u16 count;

	queue->session->stats.replies++;
	broken = rblk_check_reply(data, bytes, queue->features,
				  core_tags_count(queue->tags.credits), &completions, &count);
	if (broken) {
		violation(queue, rblk_wire_error_text(broken));
		return;
	}
	for (u16 i = 0; i < count; i++)
		if (!reply_completion(queue, &completions[i]))
			return;
}

/* F1: the data's RDMA WRITE is this completion's own, so it is in memory. */
static void receive_immediate(struct ini_queue *queue, u32 immediate)
{
	u16 tag = (u16)(immediate >> 16);
	enum core_tags_error error;
	struct ini_slot *slot;

	queue->session->stats.immediates++;
	error = core_tags_answer_immediate(&queue->tags, tag);
	if (error) {
		violation(queue, core_tags_error_text(error));
		return;
	}
	slot = &queue->slots[tag];
	if (!(slot->command.flags & RBLK_CMD_IMMEDIATE)) {
		slot_wrong(slot, "an immediate for a command that did not allow it");
		return;
	}
	slot_answer(slot, RBLK_OK, 0, rblk_time_decode((u8)(immediate >> 8)),
		    rblk_time_decode((u8)immediate));
}

/* NULL: it is what was agreed: a plain SEND, or an RDMA WRITE WITH IMMEDIATE. */
static const char *receive_fault(const struct ibv_wc *wc)
{
	/* V8: the feature is never asked for, and the key is a buffer's that stays registered. */
	if (wc->wc_flags & IBV_WC_WITH_INV)
		return "an invalidation that was not negotiated";
	if (wc->opcode == IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
		return "a reply that is not a plain SEND";
	return NULL;
}

static void receive_one(struct ini_queue *queue, u32 buffer, const struct ibv_wc *wc)
{
	const char *fault = receive_fault(wc);

	if (queue->distrusted)
		return;
	core_session_heard(&queue->session->core, queue->index, queue->session->now_ns);
	if (queue->state == INI_QUEUE_CONNECTING)
		violation(queue, "a message before the login was accepted");
	else if (fault)
		violation(queue, fault);
	else if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		receive_immediate(queue, ntohl(wc->imm_data));
	else
		receive_reply(queue, buffer, wc->byte_len);
}

/* -- completions ------------------------------------------------------------------------------- */

static void repost_later(struct ini_queue *queue, u32 buffer)
{
	struct ibv_recv_wr *wr = &queue->receive_wr[buffer];

	wr->next = NULL;
	if (queue->repost_tail)
		queue->repost_tail->next = wr;
	else
		queue->repost_head = wr;
	queue->repost_tail = wr;
}

int ini_queue_repost(struct ini_queue *queue)
{
	struct ibv_recv_wr *head = queue->repost_head, *bad;
	int err;

	queue->repost_head = queue->repost_tail = NULL;
	if (!head || queue->state != INI_QUEUE_LIVE)
		return 0;
	err = fab_post_recv(queue->conn, head, &bad);
	if (err)
		ini_queue_lose(queue, err, "post receives: %s", strerror(-err));
	return err;
}

/* As text that tells what to do. */
static const char *cause_of(enum ibv_wc_status status)
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

static void complete_error(struct ini_queue *queue, const struct ibv_wc *wc)
{
	bool receive = wc->wr_id >> 48 == INI_WR_RECEIVE;

	/* Flushes follow a failure that is reported elsewhere; they are not logged. */
	if (wc->status == IBV_WC_WR_FLUSH_ERR || queue->distrusted)
		return;
	/* An error that the device finds in a message is the target's fault, too. */
	if (receive && wc->status == IBV_WC_LOC_LEN_ERR) {
		violation(queue, "a reply longer than its receive");
		return;
	}
	if (receive && wc->status == IBV_WC_REM_INV_REQ_ERR) {
		violation(queue, "an invalidation of an unknown key");
		return;
	}
	ini_queue_lose(queue, wc->status == IBV_WC_RETRY_EXC_ERR ? -ETIMEDOUT : -EIO,
		       "connection lost: %s", cause_of(wc->status));
}

static void complete_one(struct rblk_session *session, u16 fab, const struct ibv_wc *wc)
{
	u32 number = (u32)wc->wr_id, kind = (u32)(wc->wr_id >> 48);
	struct ini_queue *queue = &session->queues[(u16)(wc->wr_id >> 32)];

	/* A fabric may deliver the acceptance and the first message together. */
	if (queue->state == INI_QUEUE_CONNECTING && wc->status == IBV_WC_SUCCESS)
		ini_event_poll(session);
	/* From an earlier connection. */
	if (queue->conn_id != ini_conn_id(fab, wc->qp_num))
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		complete_error(queue, wc);
		return;
	}
	if (kind == INI_WR_RECEIVE) {
		receive_one(queue, number, wc);
		repost_later(queue, number);
	} else {
		core_clock_completed(&queue->clock, kind - INI_WR_SEND);
		ini_queue_sent(queue, number);
	}
}

static unsigned int poll_fab(struct rblk_session *session, u16 fab)
{
	struct ibv_wc wc[POLL_BATCH];
	unsigned int total = 0;
	int count;

	/* Bounded: what is outstanding is bounded by the credits, none of which is renewed here. */
	do {
		count = fab_poll(session->fabs.list[fab], wc, POLL_BATCH);
		if (count < 0) {
			ini_session_fail(session, count, "%s: poll: %s", ini_session_peer(session),
					 fab_error(session->fabs.list[fab]));
			break;
		}
		for (int i = 0; i < count; i++)
			complete_one(session, fab, &wc[i]);
		total += (unsigned int)count;
		for (u16 q = 0; q < session->queue_count && count; q++)
			if (session->queues[q].repost_head)
				ini_queue_repost(&session->queues[q]);
	} while (count == POLL_BATCH);
	return total;
}

unsigned int ini_complete_poll(struct rblk_session *session)
{
	unsigned int total = 0;

	for (u16 fab = 0; fab < session->fabs.count; fab++)
		total += poll_fab(session, fab);
	session->activity += total;
	return total;
}

/* -- callbacks --------------------------------------------------------------------------------- */

/* The tag is free before the callback runs: it may start the next command with it. */
static bool deliver_one(struct rblk_session *session, struct ini_slot *slot)
{
	struct rblk_result result = slot->result;
	struct rblk_volume *volume = slot->volume;
	bool told = volume && !slot->piece;
	rblk_callback done = slot->done;
	void *arg = slot->arg;

	if (slot->buffer)
		slot->buffer->users--;
	if (volume) {
		volume->inflight--;
		if (slot->answered) {
			session->stats.commands++;
			session->stats.queued_us_total += result.queued_us;
			session->stats.stored_us_total += result.stored_us;
		}
	}
	core_tags_put(&slot->queue->tags, slot->tag);
	done(arg, &result);
	return told;
}

static void publish_one(const struct ini_slot *slot, u64 now_ns)
{
	const struct rblk_volume *volume = slot->volume;
	struct ini_publish_command command = {
		.opcode = slot->command.opcode,
		.answered = slot->answered,
		.error = slot->result.error,
	};

	if (!volume || !volume->counted)
		return;
	command.bytes = (u64)rblk_le32(slot->command.blocks) << volume->block_shift;
	if (slot->first_ns && now_ns > slot->first_ns)
		command.ns = now_ns - slot->first_ns;
	ini_publish_count(volume->counted, &command);
}

/* The same for a session with a page: a loop of its own, so that I/O without one costs nothing more. */
static unsigned int deliver_published(struct rblk_session *session, unsigned int most)
{
	u64 now_ns = env_now_ns();
	unsigned int count = 0;
	struct ini_slot *slot;

	while (count < most && (slot = ini_list_pop(&session->done))) {
		publish_one(slot, now_ns);
		count += deliver_one(session, slot);
	}
	return count;
}

unsigned int ini_complete_deliver(struct rblk_session *session, unsigned int max)
{
	unsigned int count = 0, most = max ? max : UINT_MAX;
	struct ini_slot *slot;

	if (session->publish)
		count = deliver_published(session, most);
	while (count < most && (slot = ini_list_pop(&session->done)))
		count += deliver_one(session, slot);
	if (session->parking.done)
		count += ini_parked_deliver(session, max);
	return count;
}
