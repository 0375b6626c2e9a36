/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receiving half of an NVMe host's queue: PDUs of a peer that may be hostile become commands, and the data of
 * READs. The bytes are fabric_tcp_rx.c's, which calls these. The data of a write in its capsule goes straight into the
 * receive that the reactor has posted, in front of the command's descriptor; other data goes where its command has room
 * for it. Whatever is wrong with a PDU ends the connection; whatever is wrong with a command is its status. The digest
 * of a header is checked here, and so is that of data of this room's own; the digest of data to be written goes on to
 * io/, which stores nothing that does not match.
 */
#include "target/nvme/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/digest/combine.h"
#include "proto/digest/digest.h"

static const struct nvme_pdu *pdu_of(const struct nvme_queue *queue)
{
	return (const void *)queue->tcp->conn->rx.header_data;
}

/* The PDU is done with: the next. */
static void pdu_end(struct nvme_queue *queue)
{
	struct tcp_rx *rx = &queue->tcp->conn->rx;

	queue->tcp->slot = NULL;
	queue->tcp->sink = NVME_SINK_NONE;
	rx->header_bytes = 0;
	rx->header_size = sizeof(struct nvme_pdu);
	rx->stage = TCP_RX_HEADER;
}

static int pdu_wrong(struct nvme_queue *queue, enum nvme_fatal fatal, uint32_t field)
{
	nvme_term(queue, fatal, field);
	return RX_GO_ON;
}

/* -- the header ---------------------------------------------------------------------------------- */

static uint32_t header_bytes_of(uint8_t type)
{
	switch (type) {
	case NVME_PDU_COMMAND:
		return sizeof(struct nvme_pdu) + sizeof(struct nvme_command);
	case NVME_PDU_H2C_DATA:
		return sizeof(struct nvme_pdu_data);
	case NVME_PDU_H2C_TERM:
		return sizeof(struct nvme_pdu_term);
	default:
		return 0;
	}
}

/* All PDUs begin with these fields. The rest of the header follows, with what stands between it and the data. */
static int begin_common(struct nvme_queue *queue)
{
	const struct nvme_pdu *pdu = pdu_of(queue);
	uint32_t head = header_bytes_of(pdu->type), bytes = rblk_le32(pdu->bytes);
	uint32_t digest = nvme_header_digest_bytes(&queue->hello), behind = 0;
	struct tcp_rx *rx = &queue->tcp->conn->rx;
	uint8_t flags = 0;

	if (!head)
		return pdu_wrong(queue, NVME_FATAL_SEQUENCE, 0);
	if (pdu->type == NVME_PDU_H2C_TERM) /* why it ends is the host's to know */
		return -EPROTO;
	if (pdu->header_bytes != head)
		return pdu_wrong(queue, NVME_FATAL_HEADER, 2);
	head += digest;
	if (bytes > head)
		behind = nvme_data_digest_bytes(&queue->hello);
	flags = (digest ? NVME_PDU_HEADER_DIGEST : 0) | (behind ? NVME_PDU_DATA_DIGEST : 0);
	if ((pdu->flags & ~(pdu->type == NVME_PDU_H2C_DATA ? NVME_PDU_LAST : 0u)) != flags)
		return pdu_wrong(queue, NVME_FATAL_HEADER, 1);
	if (bytes > head) {
		if (pdu->data_offset < head || pdu->data_offset % 4 || pdu->data_offset > TCP_HEADER_MAX ||
		    pdu->data_offset >= bytes)
			return pdu_wrong(queue, NVME_FATAL_HEADER, 3);
		head = pdu->data_offset + behind;
	} else if (pdu->data_offset > head) {
		return pdu_wrong(queue, NVME_FATAL_HEADER, 3);
	}
	if (bytes < head || (bytes == head && (behind || pdu->type == NVME_PDU_H2C_DATA)))
		return pdu_wrong(queue, NVME_FATAL_HEADER, 4);
	if (bytes - head > (pdu->type == NVME_PDU_COMMAND ? NVME_CAPSULE_BYTES : NVME_DATA_BYTES))
		return pdu_wrong(queue, NVME_FATAL_LIMIT, 4);
	queue->tcp->bytes = bytes - head;
	rx->length = queue->tcp->bytes + behind;
	rx->placed = 0;
	rx->header_size = head - behind;
	rx->stage = TCP_RX_HEADER;
	return RX_GO_ON;
}

/* The header is complete. False: its digest says that it is not what the host has sent. */
static bool header_matches(struct nvme_queue *queue)
{
	const uint8_t *header = queue->tcp->conn->rx.header_data;
	uint32_t bytes = pdu_of(queue)->header_bytes;
	__le32 digest;

	if (!nvme_header_digest_bytes(&queue->hello))
		return true;
	memcpy(&digest, header + bytes, sizeof(digest));
	if (rblk_digest(0, header, bytes) == rblk_le32(digest))
		return true;
	nvme_term(queue, NVME_FATAL_DIGEST, rblk_le32(digest));
	return false;
}

/* The data of this PDU, which nobody below looks at. */
static bool owned_matches(const struct nvme_queue *queue)
{
	const struct nvme_tcp *tcp = queue->tcp;

	return !tcp->bytes || !nvme_data_digest_bytes(&queue->hello) ||
	       rblk_digest(0, tcp->slot->data + tcp->offset, tcp->bytes) == rblk_le32(tcp->digest);
}

/* -- commands ------------------------------------------------------------------------------------ */

static bool take_receive(struct nvme_queue *queue, uint32_t bytes)
{
	struct tcp_conn *conn = queue->tcp->conn;
	struct tcp_rx *rx = &conn->rx;

	if (!rx->receiving)
		rx->receiving = tcp_rq_take(conn->rq, &rx->recv, rx->recv_sges);
	return rx->receiving && rx->recv.sges && rx->recv_sges[0].length >= bytes + sizeof(struct rblk_wire_command);
}

static int begin_command(struct nvme_queue *queue)
{
	struct tcp_rx *rx = &queue->tcp->conn->rx;
	struct nvme_slot *slot;
	bool placed;

	/* For the first of a pair that has no second. */
	if (queue->first && !nvme_send_has_room(queue)) {
		tcp_conn_mark(queue->tcp->conn, TCP_WORK_TX);
		return RX_WAIT;
	}
	slot = nvme_slot_get(queue, (const void *)(rx->header_data + sizeof(struct nvme_pdu)));
	if (!slot)
		return pdu_wrong(queue, NVME_FATAL_SEQUENCE, 0);
	queue->tcp->slot = slot;
	rx->stage = TCP_RX_PAYLOAD;
	placed = nvme_slot_begin(queue, slot, queue->tcp->bytes, &queue->tcp->refused);
	if (!queue->tcp->bytes)
		return RX_GO_ON;
	if (placed && take_receive(queue, queue->tcp->bytes)) {
		queue->tcp->sink = NVME_SINK_POSTED;
		return RX_GO_ON;
	}
	free(slot->data);
	slot->data = malloc(queue->tcp->bytes);
	queue->tcp->sink = NVME_SINK_OWNED;
	queue->tcp->offset = 0;
	return slot->data ? RX_GO_ON : -ENOMEM;
}

/* Its data is in the receive. */
static int finish_posted(struct nvme_queue *queue, struct nvme_slot *slot)
{
	struct tcp_conn *conn = queue->tcp->conn;
	struct tcp_rx *rx = &conn->rx;
	char *memory;

	if (!tcp_cq_room(&tcp_conn_fab(conn)->cq)) {
		tcp_conn_mark(conn, TCP_WORK_RX);
		return RX_WAIT;
	}
	memory = tcp_conn_local(conn, &rx->recv_sges[0], IBV_ACCESS_LOCAL_WRITE);
	if (!memory)
		return -EFAULT;
	pdu_end(queue);
	rx->receiving = false;
	queue->transport->push(queue, rx->recv.wr_id, nvme_slot_place(queue, slot, memory));
	return RX_GO_ON;
}

static int finish_command(struct nvme_queue *queue)
{
	struct nvme_slot *slot = queue->tcp->slot;

	/* Sending goes on, and then calls again. */
	if (!nvme_send_has_room(queue)) {
		tcp_conn_mark(queue->tcp->conn, TCP_WORK_TX);
		return RX_WAIT;
	}
	if (!queue->tcp->refused && slot->wire.flags & RBLK_CMD_CAPSULE)
		slot->wire.digest = queue->tcp->digest;
	else if (!queue->tcp->refused && !owned_matches(queue))
		queue->tcp->refused = NVME_TRANSPORT;
	if (queue->tcp->sink == NVME_SINK_POSTED)
		return finish_posted(queue, slot);
	pdu_end(queue);
	nvme_slot_run(queue, slot, queue->tcp->refused);
	tcp_conn_mark(queue->tcp->conn, TCP_WORK_TX);
	return RX_GO_ON;
}

/* -- data ---------------------------------------------------------------------------------------- */

/* The READ that has this tag and waits for data. */
static struct tcp_send_wr *read_find(struct nvme_queue *queue, uint16_t transfer, uint32_t *index)
{
	struct tcp_sq *sq = &queue->tcp->conn->sq;
	struct tcp_send_wr *wr;

	if (transfer > sq->mask)
		return NULL;
	*index = sq->done + ((transfer - sq->done) & sq->mask);
	if (*index - sq->done >= sq->send - sq->done)
		return NULL;
	wr = tcp_sq_wr(sq, *index);
	return wr->opcode == FAB_TCP_READ && !(wr->flags & TCP_SEND_ANSWERED) ? wr : NULL;
}

static int begin_data(struct nvme_queue *queue)
{
	const struct nvme_pdu_data *pdu = (const void *)pdu_of(queue);
	uint16_t transfer = rblk_le16(pdu->transfer);
	uint32_t offset = rblk_le32(pdu->offset), start = 0, wanted;
	struct tcp_rx *rx = &queue->tcp->conn->rx;
	struct nvme_slot *slot = NULL;
	const struct tcp_send_wr *wr;

	if (rblk_le32(pdu->length) != queue->tcp->bytes)
		return pdu_wrong(queue, NVME_FATAL_HEADER, offsetof(struct nvme_pdu_data, length));
	if (transfer & NVME_TRANSFER_OWNED) {
		uint32_t number = transfer & ~NVME_TRANSFER_OWNED;

		if (number < queue->hello.entries && queue->slots[number].fetches)
			slot = &queue->slots[number];
		wanted = slot ? slot->bytes : 0;
		queue->tcp->sink = NVME_SINK_OWNED;
	} else {
		wr = read_find(queue, transfer, &queue->tcp->read);
		if (wr)
			slot = &queue->slots[wr->key - 1];
		start = wr ? (uint32_t)wr->address : 0;
		wanted = wr ? wr->length : 0;
		queue->tcp->sink = NVME_SINK_READ;
	}
	if (!slot || slot->command.id != pdu->command)
		return pdu_wrong(queue, NVME_FATAL_HEADER, offsetof(struct nvme_pdu_data, transfer));
	/* In order, and no more than was asked for. */
	if (offset != start + slot->moved || queue->tcp->bytes > wanted - slot->moved)
		return pdu_wrong(queue, NVME_FATAL_RANGE, offsetof(struct nvme_pdu_data, offset));
	if ((queue->tcp->bytes == wanted - slot->moved) != !!(pdu->pdu.flags & NVME_PDU_LAST))
		return pdu_wrong(queue, NVME_FATAL_HEADER, 1);
	queue->tcp->slot = slot;
	queue->tcp->offset = slot->moved;
	rx->stage = TCP_RX_PAYLOAD;
	return RX_GO_ON;
}

static void read_answered(struct nvme_queue *queue, const struct nvme_slot *slot)
{
	struct tcp_send_wr *wr = tcp_sq_wr(&queue->tcp->conn->sq, queue->tcp->read);

	wr->flags |= TCP_SEND_ANSWERED;
	if (!nvme_data_digest_bytes(&queue->hello))
		return;
	/* io/ compares: it gets each of them. */
	wr->flags |= TCP_SEND_SIGNALED | TCP_SEND_DIGEST;
	memcpy(wr->immediate, &slot->digest, sizeof(wr->immediate));
}

static int finish_data(struct nvme_queue *queue)
{
	struct tcp_conn *conn = queue->tcp->conn;
	bool last = pdu_of(queue)->flags & NVME_PDU_LAST, owned = queue->tcp->sink == NVME_SINK_OWNED;
	struct nvme_slot *slot = queue->tcp->slot;

	if (owned && last && !nvme_send_has_room(queue)) {
		tcp_conn_mark(conn, TCP_WORK_TX);
		return RX_WAIT;
	}
	slot->moved += queue->tcp->bytes;
	if (owned)
		slot->damaged |= !owned_matches(queue);
	else if (nvme_data_digest_bytes(&queue->hello))
		slot->digest = rblk_digest_combine(slot->digest, rblk_le32(queue->tcp->digest), queue->tcp->bytes);
	pdu_end(queue);
	if (!last)
		return RX_GO_ON;
	if (owned) {
		nvme_fetched(queue, slot);
	} else {
		read_answered(queue, slot);
		conn->sq.reads_out--;
		tcp_conn_complete(conn);
	}
	/* Others may have waited for this. */
	if (conn->state == TCP_CONN_READY)
		tcp_conn_mark(conn, TCP_WORK_TX);
	return RX_GO_ON;
}

/* -- for the table ------------------------------------------------------------------------------- */

int nvme_begin(struct tcp_conn *conn)
{
	struct nvme_queue *queue = nvme_queue_of(conn);

	if (conn->rx.header_size == sizeof(struct nvme_pdu)) {
		if (nvme_is_admin(queue))
			queue->heard_ns = env_now_ns();
		return begin_common(queue);
	}
	if (!header_matches(queue))
		return RX_GO_ON;
	return pdu_of(queue)->type == NVME_PDU_COMMAND ? begin_command(queue) : begin_data(queue);
}

int nvme_finish(struct tcp_conn *conn)
{
	struct nvme_queue *queue = nvme_queue_of(conn);

	return pdu_of(queue)->type == NVME_PDU_COMMAND ? finish_command(queue) : finish_data(queue);
}

int nvme_iov(struct tcp_conn *conn, struct iovec *iovs)
{
	struct nvme_queue *queue = nvme_queue_of(conn);
	const struct tcp_rx *rx = &conn->rx;
	uint32_t done = rx->placed > queue->tcp->bytes ? rx->placed - queue->tcp->bytes : 0;
	int count = 0;
	char *memory;

	switch (queue->tcp->sink) {
	case NVME_SINK_POSTED:
		memory = tcp_conn_local(conn, &rx->recv_sges[0], IBV_ACCESS_LOCAL_WRITE);
		break;
	case NVME_SINK_READ:
		memory = tcp_conn_local(conn, tcp_sq_data(&conn->sq, queue->tcp->read), IBV_ACCESS_LOCAL_WRITE);
		if (memory)
			memory += queue->tcp->offset;
		break;
	default:
		memory = (char *)queue->tcp->slot->data + queue->tcp->offset;
	}
	if (!memory)
		return -EFAULT;
	if (rx->placed < queue->tcp->bytes)
		iovs[count++] = (struct iovec){memory + rx->placed, queue->tcp->bytes - rx->placed};
	if (rx->length > queue->tcp->bytes)
		iovs[count++] = (struct iovec){(char *)&queue->tcp->digest + done,
					       rx->length - queue->tcp->bytes - done};
	return count;
}

/* Memory of the reactor that it has taken back: a mistake of this end. */
int nvme_no_memory(struct tcp_conn *conn)
{
	tcp_conn_fail(conn, -EFAULT);
	return RX_GO_ON;
}
