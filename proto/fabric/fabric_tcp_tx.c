/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sending half of fabric_tcp: work requests, answers to READs, acks and NAKs become frames,
 * and as many frames as there are become one sendmsg(). Headers and small payloads are staged next
 * to each other, large payloads are gathered from where they are registered. Called in turns by
 * fabric_tcp.c and, while the fab is armed, at once by a post.
 */
#include "proto/fabric/fabric_tcp_tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/fabric/fabric_tcp_stream.h"

#define TX_FRAMES 64 /* per system call */
#define TX_IOVECS 128
#define TX_STAGE_BYTES 8192
#define ACK_TURNS 2 /* what arrived is answered in the next one at the earliest */
/*
 * The bytes of one connection in a turn; then it is the turn of others. A peer that takes data as
 * fast as it is sent would otherwise keep the loop until all that is posted has gone: 128 MiB, for
 * 128 reads of 1 MiB.
 */
#define TX_BYTES_PER_TURN (1u << 20)
#define TX_SMALL_BYTES 256 /* cheaper to copy than to have as an iovec of its own */

struct tx_frame {
	enum tcp_frame_kind kind;
	uint32_t header; /* its offset in stage */
	uint64_t bytes;	 /* in this system call */
};

/*
 * One system call under construction. It changes nothing in the connection: how far the frames
 * in it reach is kept here and becomes true only as far as the socket took them.
 */
struct tx_batch {
	struct tcp_conn *conn;
	uint32_t send;	    /* as sq.send, with the frames of this batch */
	uint32_t sequence;  /* as sq.sequence */
	uint32_t reads_out; /* as sq.reads_out */
	uint32_t response;  /* as tx.response_head */
	bool control;	    /* an ACK or NAK is in it */
	uint8_t error;	    /* enum ibv_wc_status: the next request cannot be sent for this */
	uint32_t frames_used;
	uint32_t iovs_used;
	uint32_t stage_used;
	uint64_t bytes;
	struct tx_frame frames[TX_FRAMES];
	struct iovec iovs[TX_IOVECS];
	unsigned char stage[TX_STAGE_BYTES];
};

/* -- filling a batch -------------------------------------------------------------------------- */

static inline void batch_append_iov(struct tx_batch *batch, void *data, size_t bytes)
{
	batch->bytes += bytes;
	batch->iovs[batch->iovs_used++] = (struct iovec){data, bytes};
}

/* Staged bytes: what was staged last may be right before them. */
static inline void batch_add_iov(struct tx_batch *batch, void *data, size_t bytes)
{
	struct iovec *last = batch->iovs_used ? &batch->iovs[batch->iovs_used - 1] : NULL;

	if (last && (char *)last->iov_base + last->iov_len == (char *)data) {
		batch->bytes += bytes;
		last->iov_len += bytes;
	} else {
		batch_append_iov(batch, data, bytes);
	}
}

static inline __attribute__((always_inline)) void batch_stage(struct tx_batch *batch, const void *data, size_t bytes)
{
	unsigned char *at = batch->stage + batch->stage_used;

	memcpy(at, data, bytes);
	batch->stage_used += (uint32_t)bytes;
	batch_add_iov(batch, at, bytes);
}

/* Whether a frame of so many segments fits; its payload may be staged. */
static bool batch_has_room(const struct tx_batch *batch, uint32_t segments)
{
	return batch->frames_used < TX_FRAMES && batch->iovs_used + segments + 2 <= TX_IOVECS &&
	       batch->stage_used + sizeof(struct fab_tcp_frame) + TX_SMALL_BYTES <= TX_STAGE_BYTES;
}

static inline __attribute__((always_inline)) struct tx_frame *
batch_begin_frame(struct tx_batch *batch, enum tcp_frame_kind kind, const struct fab_tcp_frame *header)
{
	struct tx_frame *frame = &batch->frames[batch->frames_used++];

	frame->kind = kind;
	frame->header = batch->stage_used;
	frame->bytes = batch->bytes;
	batch_stage(batch, header, sizeof(*header));
	return frame;
}

static void batch_end_frame(struct tx_batch *batch, struct tx_frame *frame)
{
	frame->bytes = batch->bytes - frame->bytes;
}

/* The last frame, which was begun, cannot be completed. */
static void batch_take_back(struct tx_batch *batch, const struct tx_frame *frame)
{
	batch->frames_used--;
	batch->stage_used = frame->header;
	while (batch->bytes > frame->bytes) {
		struct iovec *last = &batch->iovs[batch->iovs_used - 1];
		uint64_t excess = batch->bytes - frame->bytes;
		size_t bytes = last->iov_len < excess ? last->iov_len : excess;

		batch->bytes -= bytes;
		last->iov_len -= bytes;
		if (!last->iov_len)
			batch->iovs_used--;
	}
}

static inline void batch_add_data(struct tx_batch *batch, void *data, size_t bytes)
{
	if (bytes <= TX_SMALL_BYTES && batch->stage_used + bytes <= TX_STAGE_BYTES)
		batch_stage(batch, data, bytes);
	else
		batch_append_iov(batch, data, bytes);
}

/* The payload of a work request behind its first `skip` bytes. False: a local key is wrong. */
static inline __attribute__((always_inline)) bool batch_add_request_data(struct tx_batch *batch, uint32_t index,
									  uint64_t skip)
{
	struct tcp_conn *conn = batch->conn;
	const struct tcp_send_wr *wr = tcp_sq_wr(&conn->sq, index);
	unsigned char *data = tcp_sq_data(&conn->sq, index);
	const struct ibv_sge *sges = (const struct ibv_sge *)data;

	if (wr->flags & TCP_SEND_INLINE) {
		if (skip < wr->length)
			batch_add_data(batch, data + skip, wr->length - skip);
		return true;
	}
	for (uint32_t i = 0; i < wr->sges; i++) {
		char *memory;

		if (skip >= sges[i].length) {
			skip -= sges[i].length;
			continue;
		}
		memory = tcp_conn_local(conn, &sges[i], 0);
		if (!memory)
			return false;
		batch_add_data(batch, memory + skip, sges[i].length - skip);
		skip = 0;
	}
	return true;
}

static bool batch_add_response_data(struct tx_batch *batch, uint32_t index, uint64_t skip)
{
	struct tcp_conn *conn = batch->conn;
	const struct tcp_response *response = &conn->tx.responses[index & conn->tx.response_mask];
	char *memory;

	if (response->length == 0)
		return true;
	memory = tcp_conn_remote(conn, response->key, response->address, response->length,
				 IBV_ACCESS_REMOTE_READ);
	if (!memory)
		return false;
	if (skip < response->length)
		batch_add_data(batch, memory + skip, response->length - skip);
	return true;
}

static struct fab_tcp_frame frame_init(const struct tcp_conn *conn, uint8_t opcode)
{
	/* The number of the last executed one is one less than the expected one. */
	return (struct fab_tcp_frame){
		.opcode = opcode,
		.ack = rblk_to_le32(conn->rx.sequence - 1),
	};
}

/* READs first in, first out: the peer's memory waits for them. */
static bool batch_add_response(struct tx_batch *batch)
{
	struct tcp_conn *conn = batch->conn;
	const struct tcp_response *response;
	struct fab_tcp_frame header;
	struct tx_frame *frame;

	if (batch->response == conn->tx.response_tail || !batch_has_room(batch, 1))
		return false;
	response = &conn->tx.responses[batch->response & conn->tx.response_mask];
	header = frame_init(conn, FAB_TCP_READ_DATA);
	header.length = rblk_to_le32(response->length);
	header.sequence = rblk_to_le32(response->sequence);
	/* The key may have died since the request was checked. */
	if (response->length && !tcp_conn_remote(conn, response->key, response->address,
						 response->length, IBV_ACCESS_REMOTE_READ)) {
		tcp_tx_nak(conn, FAB_TCP_NAK_ACCESS, response->sequence);
		conn->tx.response_tail = batch->response; /* nor anything behind it */
		return false;
	}
	frame = batch_begin_frame(batch, TCP_FRAME_RESPONSE, &header);
	batch_add_response_data(batch, batch->response, 0);
	batch_end_frame(batch, frame);
	batch->response++;
	return true;
}

static bool request_may_start(const struct tx_batch *batch, const struct tcp_send_wr *wr)
{
	if ((wr->flags & TCP_SEND_FENCE) && batch->reads_out > 0)
		return false;
	return wr->opcode != FAB_TCP_READ || batch->reads_out < batch->conn->head.read_out;
}

static struct fab_tcp_frame request_header(const struct tx_batch *batch,
					   const struct tcp_send_wr *wr)
{
	const struct tcp_sq *sq = &batch->conn->sq;
	struct fab_tcp_frame header = frame_init(batch->conn, wr->opcode);

	header.length = rblk_to_le32(wr->length);
	header.sequence = rblk_to_le32(batch->sequence);
	header.key = rblk_to_le32(wr->key);
	memcpy(header.immediate, wr->immediate, sizeof(header.immediate));
	header.address = rblk_to_le64(wr->address);
	/* Entries of unsignalled requests must come free too: twice per turn of the ring. */
	if ((wr->flags & TCP_SEND_SIGNALED) || (batch->send & (sq->mask >> 1)) == 0)
		header.flags = FAB_TCP_ACK_WANTED;
	return header;
}

static bool batch_add_request(struct tx_batch *batch)
{
	struct tcp_conn *conn = batch->conn;
	const struct tcp_send_wr *wr = tcp_sq_wr(&conn->sq, batch->send);
	struct fab_tcp_frame header;
	struct tx_frame *frame;

	/* Local invalidation has nothing to send: tx_local_inv(), when it is the next. */
	if (batch->send == conn->sq.post || wr->opcode == TCP_LOCAL_INV ||
	    !request_may_start(batch, wr) || !batch_has_room(batch, wr->sges))
		return false;
	header = request_header(batch, wr);
	frame = batch_begin_frame(batch, TCP_FRAME_REQUEST, &header);
	if (wr->opcode == FAB_TCP_READ) {
		batch->reads_out++;
	} else if (!batch_add_request_data(batch, batch->send, 0)) {
		batch_take_back(batch, frame);
		batch->error = IBV_WC_LOC_PROT_ERR;
		return false;
	}
	batch_end_frame(batch, frame);
	batch->send++;
	batch->sequence++;
	return true;
}

/*
 * The owner's answer to what has just arrived is often only a turn away, and carries the number. An
 * ACK of its own is sent two turns later, or as soon as the owner goes to sleep or closes.
 */
static bool ack_may_wait(const struct tcp_conn *conn)
{
	const struct tcp_loop *loop = &tcp_conn_fab(conn)->loop;

	return loop->turning && loop->turn - conn->tx.ack_turn < ACK_TURNS;
}

/* An ACK only where no other frame carries the number; a NAK behind all responses. */
static void batch_add_control(struct tx_batch *batch)
{
	struct tcp_conn *conn = batch->conn;
	struct fab_tcp_frame header;

	if (!batch_has_room(batch, 0))
		return;
	if (conn->tx.nak && batch->response == conn->tx.response_tail) {
		header = frame_init(conn, FAB_TCP_NAK);
		header.status = conn->tx.nak;
		header.sequence = rblk_to_le32(conn->tx.nak_sequence);
	} else if (conn->tx.ack_wanted && batch->frames_used == 0 && !ack_may_wait(conn)) {
		header = frame_init(conn, FAB_TCP_ACK);
	} else {
		return;
	}
	batch_end_frame(batch, batch_begin_frame(batch, TCP_FRAME_CONTROL, &header));
	batch->control = true;
}

/* The rest of the frame that the socket took in part. False: its memory does not exist any more. */
static bool batch_add_partial(struct tx_batch *batch)
{
	struct tcp_tx *tx = &batch->conn->tx;
	struct tx_frame *frame = &batch->frames[batch->frames_used++];
	uint64_t skip = 0;

	frame->kind = tx->kind;
	frame->header = 0; /* kept in tx->header */
	frame->bytes = 0;
	if (tx->sent < sizeof(tx->header))
		batch_add_iov(batch, (char *)&tx->header + tx->sent, sizeof(tx->header) - tx->sent);
	else
		skip = tx->sent - sizeof(tx->header);
	if (tx->kind == TCP_FRAME_REQUEST && tx->header.opcode != FAB_TCP_READ &&
	    !batch_add_request_data(batch, tx->index, skip))
		return false;
	if (tx->kind == TCP_FRAME_RESPONSE && !batch_add_response_data(batch, tx->index, skip))
		return false;
	batch_end_frame(batch, frame);
	return true;
}

static bool batch_fill(struct tx_batch *batch, struct tcp_conn *conn)
{
	batch->conn = conn;
	batch->send = conn->sq.send;
	batch->sequence = conn->sq.sequence;
	batch->reads_out = conn->sq.reads_out;
	batch->response = conn->tx.response_head;
	batch->control = false;
	batch->error = 0;
	batch->frames_used = 0;
	batch->iovs_used = 0;
	batch->stage_used = 0;
	batch->bytes = 0;
	if (conn->tx.kind != TCP_FRAME_NONE && !batch_add_partial(batch))
		return false;
	while (batch_add_response(batch))
		;
	if (!conn->tx.nak && !conn->sq.stalled)
		while (batch_add_request(batch))
			;
	batch_add_control(batch);
	return true;
}

/* -- what the socket took --------------------------------------------------------------------- */

/* Part of this frame has been sent: it is not only planned any more. */
static void frame_commit(struct tcp_conn *conn, const struct tx_frame *frame)
{
	struct tcp_sq *sq = &conn->sq;
	struct tcp_send_wr *wr;

	switch (frame->kind) {
	case TCP_FRAME_REQUEST:
		conn->tx.index = sq->send;
		wr = tcp_sq_wr(sq, sq->send++);
		wr->sequence = sq->sequence++;
		if (wr->opcode == FAB_TCP_READ)
			sq->reads_out++;
		break;
	case TCP_FRAME_RESPONSE:
		conn->tx.index = conn->tx.response_head++;
		break;
	case TCP_FRAME_CONTROL:
	case TCP_FRAME_NONE:
		break;
	}
}

/* Walk the frames that `sent` bytes cover; remember the one that is only partly sent. */
static void batch_sent(struct tx_batch *batch, uint64_t sent)
{
	struct tcp_conn *conn = batch->conn;
	struct tcp_tx *tx = &conn->tx;
	uint32_t i = 0;

	/* Where all of it went, this end has nothing more to do about it. */
	if (sent > 0 && sent < batch->bytes)
		tcp_conn_fab(conn)->head.activity++;
	if (tx->kind != TCP_FRAME_NONE) {
		if (sent < batch->frames[0].bytes) {
			tx->sent += sent;
			return;
		}
		sent -= batch->frames[0].bytes;
		tx->kind = TCP_FRAME_NONE;
		i = 1;
	}
	for (; i < batch->frames_used && sent > 0; i++) {
		const struct tx_frame *frame = &batch->frames[i];

		frame_commit(conn, frame);
		tx->ack_wanted = false; /* each frame carries the number */
		if (sent < frame->bytes) {
			tx->kind = frame->kind;
			tx->sent = sent;
			memcpy(&tx->header, batch->stage + frame->header, sizeof(tx->header));
			return;
		}
		sent -= frame->bytes;
	}
}

/* Send no more than so many bytes of it: frames are cut where they are, as by a full socket. */
static uint64_t batch_cut(struct tx_batch *batch, uint64_t bytes)
{
	uint64_t left = bytes;
	uint32_t i;

	if (batch->bytes <= bytes)
		return batch->bytes;
	for (i = 0; left > batch->iovs[i].iov_len; i++)
		left -= batch->iovs[i].iov_len;
	batch->iovs[i].iov_len = left;
	batch->iovs_used = i + 1;
	return bytes;
}

enum tx_sent {
	TX_ALL,
	TX_PART, /* that the budget admits */
	TX_FULL, /* less: the socket is full */
};

/* Sends, and subtracts the bytes that went from *budget. enum tx_sent, or negative errno. */
static int batch_send(struct tx_batch *batch, uint64_t *budget)
{
	struct tcp_conn *conn = batch->conn;
	uint64_t offered = batch_cut(batch, *budget);
	struct msghdr message = {.msg_iov = batch->iovs, .msg_iovlen = batch->iovs_used};
	ssize_t sent;

	do
		sent = tcp_stream_send(conn->source.fd, conn->head.tls, &message);
	while (sent < 0 && errno == EINTR);
	if (sent < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return -errno;
		sent = 0;
	}
	batch_sent(batch, (uint64_t)sent);
	*budget -= (uint64_t)sent;
	if ((uint64_t)sent < offered)
		return TX_FULL;
	return offered < batch->bytes ? TX_PART : TX_ALL;
}

/* -- running ---------------------------------------------------------------------------------- */

/* The next work request cannot start: those before it complete, then the connection ends. */
static void tx_stall(struct tcp_conn *conn, uint8_t status)
{
	tcp_sq_wr(&conn->sq, conn->sq.send++)->status = status;
	conn->sq.stalled = true;
}

/* Local invalidations at the head of what waits. They take effect when all before has started. */
static void tx_local_inv(struct tcp_conn *conn)
{
	struct tcp_sq *sq = &conn->sq;
	bool any = false;

	while (sq->send != sq->post && !sq->stalled && !conn->tx.nak) {
		const struct tcp_send_wr *wr = tcp_sq_wr(sq, sq->send);

		if (wr->opcode != TCP_LOCAL_INV ||
		    ((wr->flags & TCP_SEND_FENCE) && sq->reads_out > 0))
			break;
		if (tcp_conn_invalidate(conn, wr->key))
			sq->send++;
		else
			tx_stall(conn, IBV_WC_MW_BIND_ERR);
		any = true;
	}
	if (any)
		tcp_conn_complete(conn);
}

void tcp_tx_run(struct tcp_conn *conn)
{
	uint64_t budget = TX_BYTES_PER_TURN;
	struct tx_batch batch;
	int sent;

	while (conn->state == TCP_CONN_READY && !conn->tx.blocked) {
		if (!budget) {
			tcp_conn_mark(conn, TCP_WORK_TX);
			return;
		}
		tx_local_inv(conn);
		if (conn->state != TCP_CONN_READY)
			return;
		if (!batch_fill(&batch, conn)) {
			tcp_conn_fail(conn, -EFAULT);
			return;
		}
		if (batch.iovs_used == 0) {
			if (!batch.error) {
				if (conn->tx.ack_wanted)
					tcp_conn_mark(conn, TCP_WORK_TX);
				return;
			}
			tx_stall(conn, batch.error);
			tcp_conn_complete(conn);
			continue;
		}
		sent = batch_send(&batch, &budget);
		if ((sent == -ENOBUFS || sent == -ENOMEM) && !conn->head.tls) {
			/* The kernel is short of memory, and no edge will tell when it has some. TLS
			 * does not survive it. */
			tcp_conn_mark(conn, TCP_WORK_TX);
			return;
		}
		if (sent < 0)
			tcp_conn_fail(conn, sent);
		else if (sent == TX_FULL)
			tcp_conn_block(conn);
		else if (sent == TX_ALL && batch.control && conn->tx.nak)
			tcp_conn_fail(conn, -EIO);
	}
}

/* -- left to the caller ------------------------------------------------------------------------ */

struct tcp_left {
	struct tx_batch batch;
	struct msghdr message;
};

/* Is it all that the connection has to send, and no more than a turn sends? */
static bool batch_is_all(const struct tx_batch *batch)
{
	const struct tcp_conn *conn = batch->conn;

	return batch->frames_used && !batch->error && !conn->tx.nak && batch->send == conn->sq.post &&
	       batch->response == conn->tx.response_tail && batch->bytes <= TX_BYTES_PER_TURN;
}

bool tcp_tx_leave(struct tcp_conn *conn, struct fab_send *send)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	struct tcp_left *left = fab->left;

	if (conn->state != TCP_CONN_READY || conn->tx.blocked || conn->tx.kind != TCP_FRAME_NONE || conn->head.tls)
		return false;
	if (!left)
		left = fab->left = malloc(sizeof(*left));
	if (!left || !batch_fill(&left->batch, conn) || !batch_is_all(&left->batch))
		return false;
	left->message = (struct msghdr){.msg_iov = left->batch.iovs, .msg_iovlen = left->batch.iovs_used};
	*send = (struct fab_send){.fd = conn->source.fd, .message = &left->message, .bytes = (int)left->batch.bytes};
	return true;
}

void tcp_tx_sent(struct tcp_fab *fab, int sent)
{
	struct tx_batch *batch = &fab->left->batch;

	if (sent < 0 && sent != FAB_UNSENT && sent != -EINTR && sent != -ENOBUFS && sent != -ENOMEM) {
		tcp_conn_fail(batch->conn, sent);
		return;
	}
	batch_sent(batch, sent > 0 ? (uint64_t)sent : 0);
	if (sent < 0 || (uint64_t)sent < batch->bytes)
		tcp_tx_run(batch->conn); /* which finds out what hinders it */
}

void tcp_tx_nak(struct tcp_conn *conn, enum fab_tcp_nak nak, uint32_t sequence)
{
	conn->tx.nak = (uint8_t)nak;
	conn->tx.nak_sequence = sequence;
	conn->rx.stage = TCP_RX_DISCARD;
	tcp_conn_mark(conn, TCP_WORK_TX | TCP_WORK_RX);
}
