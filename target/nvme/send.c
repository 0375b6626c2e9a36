/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sending half of an NVMe host's queue: what the reactor posts becomes PDUs. A READ becomes an R2T, a WRITE data, a
 * SEND of rblk's completions one response for each. What answers admin commands goes the same way. A work request
 * completes when the socket has taken its bytes; a READ when the host's data is here (receive.c).
 */
#include "target/nvme/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "proto/digest/digest.h"
#include "proto/fabric/fabric_tcp_stream.h"

#define CALLS_PER_TURN 4 /* then it is the turn of others */
/* A SEND of 64 completions, each of which may be that of a pair, needs so many segments, reports among them two each,
 * that of an authentication two, and its own end one more. */
#define ROOM (2 * RBLK_REPLY_BATCH_MAX / (NVME_SEGMENT_BYTES / 28) + 2 * NVME_REPORTS_MAX + 4)

static struct nvme_segment *segment_of(struct nvme_send *send, uint32_t index)
{
	return &send->segments[index & (NVME_SEGMENTS - 1)];
}

static uint32_t send_room(const struct nvme_send *send)
{
	return NVME_SEGMENTS - (send->tail - send->head);
}

/* Twice: for a command's answer, and so that admin commands do not take all of what the reactor needs. */
bool nvme_send_has_room(const struct nvme_queue *queue)
{
	return send_room(&queue->tcp->send) >= 2 * ROOM && queue->tcp->send.held_bytes <= NVME_HELD_BYTES;
}

static struct nvme_segment *segment_add(struct nvme_queue *queue)
{
	struct nvme_segment *segment = segment_of(&queue->tcp->send, queue->tcp->send.tail++);

	segment->head_bytes = segment->data_bytes = segment->digest_bytes = 0;
	segment->data = NULL;
	segment->owned = NULL;
	segment->completes = false;
	return segment;
}

/* -- PDUs ---------------------------------------------------------------------------------------- */

static void put_digest(void *to, const void *data, uint32_t bytes)
{
	__le32 digest = rblk_to_le32(rblk_digest(0, data, bytes));

	memcpy(to, &digest, sizeof(digest));
}

/* Adds the header `pdu`, of header_bytes, with its digest. Behind that and zeroes up to data_offset come `bytes` of
 * data and theirs. */
static void pdu_add(const struct nvme_queue *queue, struct nvme_segment *segment, struct nvme_pdu *pdu, uint32_t bytes)
{
	uint32_t digest = nvme_header_digest_bytes(&queue->hello), head = pdu->header_bytes;
	uint8_t *to = segment->head + segment->head_bytes;
	uint32_t offset = bytes ? pdu->data_offset : head + digest;

	if (bytes)
		segment->digest_bytes = nvme_data_digest_bytes(&queue->hello);
	pdu->flags |= (digest ? NVME_PDU_HEADER_DIGEST : 0) | (segment->digest_bytes ? NVME_PDU_DATA_DIGEST : 0);
	pdu->bytes = rblk_to_le32(offset + bytes + segment->digest_bytes);
	memset(to, 0, offset);
	memcpy(to, pdu, head);
	if (digest)
		put_digest(to + head, pdu, head);
	segment->head_bytes += offset;
}

/* To the last segment if it has room and nothing but responses. */
static void response_add(struct nvme_queue *queue, const struct nvme_completion *completion)
{
	struct nvme_send *send = &queue->tcp->send;
	struct nvme_segment *segment = send->tail == send->head ? NULL : segment_of(send, send->tail - 1);
	struct nvme_response response = {
		.pdu = {.type = NVME_PDU_RESPONSE, .header_bytes = sizeof(response)},
		.completion = *completion,
	};

	if (!segment || segment->data || segment->completes ||
	    segment->head_bytes + sizeof(response) + NVME_DIGEST_BYTES > NVME_SEGMENT_BYTES)
		segment = segment_add(queue);
	pdu_add(queue, segment, &response.pdu, 0);
}

static struct nvme_segment *data_add(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t offset,
				     const void *data, uint32_t bytes)
{
	uint32_t alignment = queue->hello.alignment,
		 head = sizeof(struct nvme_pdu_data) + nvme_header_digest_bytes(&queue->hello);
	struct nvme_segment *segment = segment_add(queue);
	struct nvme_pdu_data pdu = {
		.pdu =
			{
				.type = NVME_PDU_C2H_DATA,
				.flags = offset + bytes == slot->bytes ? NVME_PDU_LAST : 0,
				.header_bytes = sizeof(pdu),
				.data_offset = (__u8)((head + alignment - 1) / alignment * alignment),
			},
		.command = slot->command.id,
		.offset = rblk_to_le32(offset),
		.length = rblk_to_le32(bytes),
	};

	pdu_add(queue, segment, &pdu.pdu, bytes);
	slot->segment = pdu.pdu.flags & NVME_PDU_LAST ? queue->tcp->send.tail : 0;
	segment->data = data;
	segment->data_bytes = bytes;
	if (segment->digest_bytes)
		put_digest(segment->digest, data, bytes);
	return segment;
}

static void r2t_add(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t transfer, uint32_t offset,
		    uint32_t bytes)
{
	struct nvme_pdu_data pdu = {
		.pdu = {.type = NVME_PDU_R2T, .header_bytes = sizeof(pdu)},
		.command = slot->command.id,
		.transfer = rblk_to_le16(transfer),
		.offset = rblk_to_le32(offset),
		.length = rblk_to_le32(bytes),
	};

	slot->moved = slot->digest = 0;
	pdu_add(queue, segment_add(queue), &pdu.pdu, 0);
}

void nvme_send_r2t(struct nvme_queue *queue, struct nvme_slot *slot)
{
	r2t_add(queue, slot, (uint16_t)(NVME_TRANSFER_OWNED | slot->number), 0, slot->bytes);
}

/* Its data says that the command has succeeded, if that is all, and no byte of it may have gone out. */
static bool success_tell(struct nvme_queue *queue, const struct nvme_slot *slot,
			 const struct nvme_completion *completion)
{
	struct nvme_send *send = &queue->tcp->send;
	uint32_t ahead = slot ? slot->segment - 1 - send->head : 0;
	struct nvme_pdu *pdu;

	if (!queue->hello.no_head || !slot || !slot->segment || completion->status || completion->result ||
	    queue->tcp->conn->tx.blocked || ahead >= send->tail - send->head || (!ahead && send->sent))
		return false;
	pdu = (struct nvme_pdu *)segment_of(send, slot->segment - 1)->head;
	pdu->flags |= NVME_PDU_SUCCESS;
	if (nvme_header_digest_bytes(&queue->hello))
		put_digest((uint8_t *)pdu + pdu->header_bytes, pdu, pdu->header_bytes);
	return true;
}

void nvme_send_response(struct nvme_queue *queue, struct nvme_slot *slot, const struct nvme_completion *completion,
			void *data, uint32_t bytes)
{
	if (data) {
		data_add(queue, slot, 0, data, bytes)->owned = data;
		queue->tcp->send.held_bytes += bytes;
	}
	if (!success_tell(queue, slot, completion))
		response_add(queue, completion);
}

void nvme_term(struct nvme_queue *queue, enum nvme_fatal fatal, uint32_t field)
{
	struct nvme_pdu_term pdu = nvme_term_pdu(fatal, field);
	struct nvme_segment *segment;

	queue->tcp->send.last = true;
	queue->tcp->conn->rx.stage = TCP_RX_DISCARD;
	tcp_conn_mark(queue->tcp->conn, TCP_WORK_TX);
	/* Without room it is only closed. */
	if (!send_room(&queue->tcp->send))
		return;
	segment = segment_add(queue);
	memcpy(segment->head, &pdu, sizeof(pdu));
	segment->head_bytes = sizeof(pdu);
}

/* -- work requests ------------------------------------------------------------------------------- */

/* Its bytes; NULL: they are not registered. */
static const uint8_t *request_data(struct tcp_conn *conn, uint32_t index)
{
	const struct tcp_send_wr *wr = tcp_sq_wr(&conn->sq, index);
	const void *data = tcp_sq_data(&conn->sq, index);

	if (wr->flags & TCP_SEND_INLINE || !wr->sges)
		return data;
	return tcp_conn_local(conn, data, 0);
}

static bool request_send(struct nvme_queue *queue, const struct tcp_send_wr *wr, const uint8_t *data)
{
	for (uint32_t done = 0; done + sizeof(struct rblk_wire_completion) <= wr->length;
	     done += sizeof(struct rblk_wire_completion)) {
		struct rblk_wire_completion completion;

		memcpy(&completion, data + done, sizeof(completion));
		nvme_completed(queue, &completion);
	}
	segment_add(queue);
	return true;
}

static bool request_write(struct nvme_queue *queue, const struct tcp_send_wr *wr, const uint8_t *data)
{
	struct nvme_slot *slot = NULL;
	bool well = true;

	if (wr->length) /* else a probe: the host's kernel answers those of TCP */
		well = nvme_io_written(queue, wr->key, wr->address, data, wr->length, &slot);
	if (slot)
		data_add(queue, slot, (uint32_t)wr->address, data, wr->length);
	else
		segment_add(queue);
	return well;
}

static bool request_read(struct nvme_queue *queue, const struct tcp_send_wr *wr, uint32_t index)
{
	struct nvme_slot *slot = nvme_slot_of_key(queue, wr->key);

	if (slot)
		r2t_add(queue, slot, (uint16_t)(index & queue->tcp->conn->sq.mask), (uint32_t)wr->address, wr->length);
	return slot;
}

/* The next work request. False: it has to wait, or there is none. */
static bool request_add(struct nvme_queue *queue)
{
	struct tcp_conn *conn = queue->tcp->conn;
	struct tcp_sq *sq = &conn->sq;
	uint32_t index = sq->send;
	struct tcp_send_wr *wr = tcp_sq_wr(sq, index);
	struct nvme_segment *segment;
	const uint8_t *data;
	bool well = false;

	if (index == sq->post || sq->stalled || queue->tcp->send.last || send_room(&queue->tcp->send) < ROOM)
		return false;
	if ((wr->flags & TCP_SEND_FENCE && sq->reads_out) ||
	    (wr->opcode == FAB_TCP_READ && sq->reads_out >= conn->head.read_out))
		return false;
	data = wr->opcode == FAB_TCP_READ ? NULL : request_data(conn, index);
	/* Before the answers that it has: those may take what comes after it. */
	wr->sequence = sq->sequence++;
	sq->send++;
	if (wr->opcode == FAB_TCP_READ)
		well = request_read(queue, wr, index);
	else if (data && wr->opcode == FAB_TCP_WRITE)
		well = request_write(queue, wr, data);
	else if (data && wr->opcode == FAB_TCP_SEND)
		well = request_send(queue, wr, data);
	if (!well || conn->state != TCP_CONN_READY) {
		tcp_conn_fail(conn, -EFAULT);
		return false;
	}
	if (wr->opcode == FAB_TCP_READ) {
		sq->reads_out++;
		return true;
	}
	segment = segment_of(&queue->tcp->send, queue->tcp->send.tail - 1);
	segment->completes = true;
	segment->sequence = wr->sequence;
	return true;
}

/* -- the socket ---------------------------------------------------------------------------------- */

static void segment_done(struct nvme_queue *queue, struct nvme_segment *segment)
{
	if (segment->owned) {
		queue->tcp->send.held_bytes -= segment->data_bytes;
		free(segment->owned);
		segment->owned = NULL;
	}
	if (segment->completes)
		queue->tcp->conn->sq.acked = segment->sequence;
}

static void send_account(struct nvme_queue *queue, uint64_t sent)
{
	struct nvme_send *send = &queue->tcp->send;

	send->sent += sent;
	while (send->head != send->tail) {
		struct nvme_segment *segment = segment_of(send, send->head);
		uint64_t bytes = (uint64_t)segment->head_bytes + segment->data_bytes + segment->digest_bytes;

		if (send->sent < bytes)
			break;
		send->sent -= bytes;
		send->head++;
		segment_done(queue, segment);
	}
	tcp_conn_complete(queue->tcp->conn);
}

static int send_fill(const struct nvme_queue *queue, struct iovec *iovs, uint64_t *bytes)
{
	const struct nvme_send *send = &queue->tcp->send;
	uint64_t skip = send->sent;
	int count = 0;

	*bytes = 0;
	for (uint32_t i = send->head; i != send->tail; i++) {
		const struct nvme_segment *segment = &send->segments[i & (NVME_SEGMENTS - 1)];
		const struct iovec parts[] = {{(void *)segment->head, segment->head_bytes},
					      {(void *)segment->data, segment->data_bytes},
					      {(void *)segment->digest, segment->digest_bytes}};

		for (int part = 0; part < 3; part++) {
			size_t length = parts[part].iov_len;

			if (skip >= length) {
				skip -= length;
				continue;
			}
			iovs[count++] = (struct iovec){(char *)parts[part].iov_base + skip, length - skip};
			*bytes += length - skip;
			skip = 0;
		}
	}
	return count;
}

/* One call. False: the socket is full, nothing is left, or the connection has ended. */
static bool send_call(struct nvme_queue *queue)
{
	struct tcp_conn *conn = queue->tcp->conn;
	struct iovec iovs[3 * NVME_SEGMENTS];
	struct msghdr message = {.msg_iov = iovs};
	uint64_t bytes;
	ssize_t sent = 0;

	message.msg_iovlen = (size_t)send_fill(queue, iovs, &bytes);
	if (message.msg_iovlen) {
		do
			sent = tcp_stream_send(conn->source.fd, conn->head.tls, &message);
		while (sent < 0 && errno == EINTR);
		if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ENOMEM) {
			tcp_conn_fail(conn, -errno);
			return false;
		}
		if (sent < 0 && (errno == ENOBUFS || errno == ENOMEM)) {
			tcp_conn_mark(conn, TCP_WORK_TX);
			return false;
		}
		if (sent < 0)
			sent = 0;
		tcp_conn_fab(conn)->head.activity++;
	}
	send_account(queue, (uint64_t)sent);
	if ((uint64_t)sent < bytes)
		tcp_conn_block(conn);
	return conn->state == TCP_CONN_READY && (uint64_t)sent == bytes;
}

void nvme_send_run(struct tcp_conn *conn)
{
	struct nvme_queue *queue = nvme_queue_of(conn);

	if (conn->tx.blocked)
		return;
	for (int i = 0; i < CALLS_PER_TURN; i++) {
		nvme_hand_over(queue);
		while (conn->state == TCP_CONN_READY && request_add(queue))
			;
		if (conn->state != TCP_CONN_READY || queue->tcp->send.head == queue->tcp->send.tail ||
		    !send_call(queue))
			break;
	}
	if (conn->state != TCP_CONN_READY)
		return;
	nvme_hand_over(queue);
	if (queue->tcp->send.last && queue->tcp->send.head == queue->tcp->send.tail)
		tcp_conn_fail(conn, -EPROTO);
	else if (queue->tcp->send.head != queue->tcp->send.tail && !conn->tx.blocked)
		tcp_conn_mark(conn, TCP_WORK_TX);
	/* An admin command may have waited for room. */
	if (conn->rx.stage == TCP_RX_BEGIN || conn->rx.stage == TCP_RX_FINISH)
		tcp_conn_mark(conn, TCP_WORK_RX);
}
