/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receiving half of fabric_tcp: bytes of a peer that may be hostile become receives, memory
 * writes, READ requests, READ data and acks. Every field is checked here before anything is done
 * with it; what is wrong with a request is answered as a device would (NAK, then ERR), what is
 * wrong with the framing ends the connection. Called in turns by fabric_tcp.c.
 *
 * A system call reads the rest of the payload at hand straight into its place, and behind it some
 * of what follows into the fab's scratch buffer, out of which headers are parsed and small
 * payloads copied: for 4 KiB a copy is cheaper than a system call of its own. Where payloads are
 * large, little is read ahead, so that hardly any of them is copied.
 */
#include "proto/fabric/fabric_tcp_rx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/fabric/fabric_tcp_stream.h"
#include "proto/fabric/fabric_tcp_tx.h"

#define RX_CALLS_PER_TURN 8 /* then it is the turn of other connections */
#define RX_LARGE_BYTES 16384u
#define RX_AHEAD_OF_LARGE 256u

/* -- destinations ----------------------------------------------------------------------------- */

/* Makes the vector for a message into the segments of a receive or a READ, behind the first `skip` bytes. */
static int rx_iov_sges(struct tcp_conn *conn, const struct ibv_sge *sges, uint32_t count,
		       uint32_t skip, uint32_t bytes, struct iovec *iovs)
{
	int used = 0;

	for (uint32_t i = 0; i < count && bytes > 0; i++) {
		uint32_t part;
		char *memory;

		if (skip >= sges[i].length) {
			skip -= sges[i].length;
			continue;
		}
		memory = tcp_conn_local(conn, &sges[i], IBV_ACCESS_LOCAL_WRITE);
		if (!memory)
			return -EFAULT;
		part = sges[i].length - skip < bytes ? sges[i].length - skip : bytes;
		iovs[used++] = (struct iovec){memory + skip, part};
		bytes -= part;
		skip = 0;
	}
	return used;
}

static uint32_t rx_left(const struct tcp_rx *rx)
{
	return rx->length - rx->placed;
}

/* Where the rest of the payload belongs. Keys are looked up anew: they may have died meanwhile. */
int tcp_rx_iov(struct tcp_conn *conn, struct iovec *iovs)
{
	struct tcp_rx *rx = &conn->rx;
	struct tcp_sq *sq = &conn->sq;
	char *memory;

	switch (rx->header.opcode) {
	case FAB_TCP_SEND:
	case FAB_TCP_SEND_IMM:
	case FAB_TCP_SEND_INV:
		return rx_iov_sges(conn, rx->recv_sges, rx->recv.sges, rx->placed, rx_left(rx),
				   iovs);
	case FAB_TCP_READ_DATA:
		return rx_iov_sges(conn, tcp_sq_data(sq, sq->read), tcp_sq_wr(sq, sq->read)->sges,
				   rx->placed, rx_left(rx), iovs);
	default: /* WRITE, WRITE_IMM */
		memory = tcp_conn_remote(conn, rblk_le32(rx->header.key),
					 rblk_le64(rx->header.address), rx->length,
					 IBV_ACCESS_REMOTE_WRITE);
		if (!memory)
			return -EFAULT;
		iovs[0] = (struct iovec){memory + rx->placed, rx_left(rx)};
		return 1;
	}
}

/* -- failures --------------------------------------------------------------------------------- */

static int rx_nak(struct tcp_conn *conn, enum fab_tcp_nak nak)
{
	tcp_tx_nak(conn, nak, rblk_le32(conn->rx.header.sequence));
	return RX_GO_ON;
}

/* The destination memory of a payload does not exist, or not any more. */
int tcp_rx_no_memory(struct tcp_conn *conn)
{
	switch (conn->rx.header.opcode) {
	case FAB_TCP_WRITE:
	case FAB_TCP_WRITE_IMM:
		return rx_nak(conn, FAB_TCP_NAK_ACCESS);
	case FAB_TCP_READ_DATA:
		tcp_sq_wr(&conn->sq, conn->sq.read)->status = IBV_WC_LOC_PROT_ERR;
		conn->sq.stalled = true;
		conn->rx.stage = TCP_RX_DISCARD;
		tcp_conn_complete(conn);
		return RX_GO_ON;
	default:
		conn->rx.recv_status = IBV_WC_LOC_PROT_ERR;
		return rx_nak(conn, FAB_TCP_NAK_OPERATION);
	}
}

/* -- beginning a frame ------------------------------------------------------------------------ */

static int rx_wait(struct tcp_conn *conn)
{
	tcp_conn_mark(conn, TCP_WORK_RX);
	return RX_WAIT;
}

/* Receiver not ready: the frame is held, and the socket not read, until one is posted. */
static int rx_take_receive(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;

	if (!rx->receiving)
		rx->receiving = tcp_rq_take(conn->rq, &rx->recv, rx->recv_sges);
	if (rx->receiving)
		return RX_GO_ON;
	rx->starved = true;
	if (conn->rq != &conn->own_rq)
		TAILQ_INSERT_TAIL(&tcp_conn_fab(conn)->starved, conn, rx.starved_link);
	/* Do not wait for a peer that has closed in the meantime: its edge came before this. */
	return rx->hangup ? rx_wait(conn) : RX_WAIT;
}

static int rx_begin_send(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;
	uint64_t room = 0;

	if (rx_take_receive(conn) == RX_WAIT)
		return RX_WAIT;
	for (uint32_t i = 0; i < rx->recv.sges; i++)
		room += rx->recv_sges[i].length;
	if (rx->length > room) {
		rx->recv_status = IBV_WC_LOC_LEN_ERR;
		return rx_nak(conn, FAB_TCP_NAK_INVALID);
	}
	rx->stage = TCP_RX_PAYLOAD;
	return RX_GO_ON;
}

static int rx_begin_write(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;

	/* Without data there is nothing to protect: verbs do not look at the key either. */
	if (rx->length > 0 &&
	    !tcp_conn_remote(conn, rblk_le32(rx->header.key), rblk_le64(rx->header.address),
			     rx->length, IBV_ACCESS_REMOTE_WRITE))
		return rx_nak(conn, FAB_TCP_NAK_ACCESS);
	if (rx->header.opcode == FAB_TCP_WRITE_IMM && rx_take_receive(conn) == RX_WAIT)
		return RX_WAIT;
	rx->stage = TCP_RX_PAYLOAD;
	return RX_GO_ON;
}

/* The request at hand is executed, and may be acknowledged from now on. */
static void rx_executed(struct tcp_conn *conn)
{
	conn->rx.sequence++;
	conn->rx.stage = TCP_RX_HEADER;
	if (!(conn->rx.header.flags & FAB_TCP_ACK_WANTED))
		return;
	if (!conn->tx.ack_wanted)
		conn->tx.ack_turn = tcp_conn_fab(conn)->loop.turn;
	conn->tx.ack_wanted = true;
	tcp_conn_mark(conn, TCP_WORK_TX);
}

/* In the sense of acks a READ is executed when its answer is due, which has its own order. */
static int rx_begin_read(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;
	struct tcp_tx *tx = &conn->tx;
	struct tcp_response *response;

	/* The response being sent has left the queue, but its entry is still needed. */
	if (tx->response_tail - tx->response_head + (tx->kind == TCP_FRAME_RESPONSE) >=
	    conn->read_in)
		return rx_nak(conn, FAB_TCP_NAK_INVALID);
	if (rx->length > 0 &&
	    !tcp_conn_remote(conn, rblk_le32(rx->header.key), rblk_le64(rx->header.address),
			     rx->length, IBV_ACCESS_REMOTE_READ))
		return rx_nak(conn, FAB_TCP_NAK_ACCESS);
	response = &tx->responses[tx->response_tail++ & tx->response_mask];
	response->address = rblk_le64(rx->header.address);
	response->key = rblk_le32(rx->header.key);
	response->length = rx->length;
	response->sequence = rblk_le32(rx->header.sequence);
	rx_executed(conn);
	tcp_conn_mark(conn, TCP_WORK_TX);
	return RX_GO_ON;
}

static int rx_begin_request(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;

	if (rblk_le32(rx->header.sequence) != rx->sequence)
		return -EPROTO;
	switch (rx->header.opcode) {
	case FAB_TCP_WRITE:
	case FAB_TCP_WRITE_IMM:
		return rx_begin_write(conn);
	case FAB_TCP_READ:
		return rx_begin_read(conn);
	default:
		return rx_begin_send(conn);
	}
}

/* The oldest READ that waits for data; it must be this one. */
static int rx_begin_read_data(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;
	struct tcp_sq *sq = &conn->sq;
	const struct tcp_send_wr *wr;

	if (sq->reads_out == 0)
		return -EPROTO;
	if ((int32_t)(sq->read - sq->done) < 0)
		sq->read = sq->done;
	for (wr = tcp_sq_wr(sq, sq->read);
	     wr->opcode != FAB_TCP_READ || (wr->flags & TCP_SEND_ANSWERED);
	     wr = tcp_sq_wr(sq, sq->read))
		sq->read++;
	if (rblk_le32(rx->header.sequence) != wr->sequence || rx->length != wr->length)
		return -EPROTO;
	/* It cannot have been executed before it was wholly sent, nor answered before executed. */
	if ((int32_t)(sq->acked - wr->sequence) < 0)
		return -EPROTO;
	rx->stage = TCP_RX_PAYLOAD;
	return RX_GO_ON;
}

static int rx_begin_nak(struct tcp_conn *conn)
{
	static const uint8_t statuses[FAB_TCP_NAK_MAX] = {
		[FAB_TCP_NAK_INVALID] = IBV_WC_REM_INV_REQ_ERR,
		[FAB_TCP_NAK_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[FAB_TCP_NAK_OPERATION] = IBV_WC_REM_OP_ERR,
	};
	const struct fab_tcp_frame *header = &conn->rx.header;
	struct tcp_sq *sq = &conn->sq;
	uint32_t i;

	if (header->status == FAB_TCP_NAK_NONE || header->status >= FAB_TCP_NAK_MAX)
		return -EPROTO;
	for (i = sq->done; i != sq->send; i++) {
		const struct tcp_send_wr *wr = tcp_sq_wr(sq, i);

		if (wr->opcode != TCP_LOCAL_INV && wr->sequence == rblk_le32(header->sequence))
			break;
		/* A NAK says that all before it was executed and answered. */
		if (!tcp_send_finished(sq, wr))
			return -EPROTO;
	}
	if (i == sq->send)
		return -EPROTO;
	tcp_sq_wr(sq, i)->status = statuses[header->status];
	sq->stalled = true;
	conn->rx.stage = TCP_RX_DISCARD;
	tcp_conn_complete(conn);
	return RX_GO_ON;
}

/* Every frame says how far the peer has executed ours: not beyond what it has been sent whole. */
static int rx_ack(struct tcp_conn *conn)
{
	struct tcp_sq *sq = &conn->sq;
	uint32_t ack = rblk_le32(conn->rx.header.ack);
	uint32_t whole = sq->sequence - 1 - (conn->tx.kind == TCP_FRAME_REQUEST);

	if (ack == sq->acked)
		return 0;
	if (ack - sq->acked > whole - sq->acked)
		return -EPROTO;
	sq->acked = ack;
	tcp_conn_complete(conn);
	return 0;
}

static int rx_check_header(const struct fab_tcp_frame *header)
{
	if (header->opcode == 0 || header->opcode >= FAB_TCP_OPCODE_MAX)
		return -EPROTO;
	if ((header->flags & ~FAB_TCP_ACK_WANTED) || header->reserved)
		return -EPROTO;
	if (header->status && header->opcode != FAB_TCP_NAK)
		return -EPROTO;
	if (rblk_le32(header->length) > FAB_TCP_MESSAGE_MAX)
		return -EPROTO;
	if (header->opcode >= FAB_TCP_ACK && header->length)
		return -EPROTO;
	return 0;
}

int tcp_rx_begin(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;
	int err = rx_check_header(&rx->header);

	if (err)
		return err;
	rx->length = rblk_le32(rx->header.length);
	rx->placed = 0;
	err = rx_ack(conn);
	if (err || conn->state != TCP_CONN_READY)
		return err;
	rx->header_bytes = 0;
	switch (rx->header.opcode) {
	case FAB_TCP_ACK:
		rx->stage = TCP_RX_HEADER;
		return RX_GO_ON;
	case FAB_TCP_NAK:
		return rx_begin_nak(conn);
	case FAB_TCP_READ_DATA:
		return rx_begin_read_data(conn);
	default:
		return rx_begin_request(conn);
	}
}

/* -- finishing a frame ------------------------------------------------------------------------ */

static int rx_finish_read(struct tcp_conn *conn)
{
	struct tcp_sq *sq = &conn->sq;

	tcp_sq_wr(sq, sq->read++)->flags |= TCP_SEND_ANSWERED;
	sq->reads_out--;
	conn->rx.stage = TCP_RX_HEADER;
	tcp_conn_complete(conn);
	/* Fenced work requests and further READs may have waited for this. */
	if (conn->state == TCP_CONN_READY && sq->send != sq->post)
		tcp_conn_mark(conn, TCP_WORK_TX);
	return RX_GO_ON;
}

static int rx_complete_receive(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;
	struct ibv_wc *wc;

	if (tcp_cq_room(&tcp_conn_fab(conn)->cq) == 0)
		return rx_wait(conn);
	if (rx->header.opcode == FAB_TCP_SEND_INV &&
	    !tcp_conn_invalidate(conn, rblk_le32(rx->header.key))) {
		rx->recv_status = IBV_WC_REM_INV_REQ_ERR;
		return rx_nak(conn, FAB_TCP_NAK_INVALID);
	}
	wc = tcp_conn_push_wc(conn, rx->recv.wr_id);
	wc->opcode = IBV_WC_RECV;
	wc->byte_len = rx->length;
	if (rx->header.opcode == FAB_TCP_SEND_INV) {
		wc->wc_flags = IBV_WC_WITH_INV;
		wc->invalidated_rkey = rblk_le32(rx->header.key);
	} else if (rx->header.opcode != FAB_TCP_SEND) {
		wc->wc_flags = IBV_WC_WITH_IMM;
		memcpy(&wc->imm_data, rx->header.immediate, sizeof(wc->imm_data));
		if (rx->header.opcode == FAB_TCP_WRITE_IMM)
			wc->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	}
	rx->receiving = false;
	return RX_GO_ON;
}

int tcp_rx_finish(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;
	int step;

	if (rx->header.opcode == FAB_TCP_READ_DATA)
		return rx_finish_read(conn);
	if (rx->receiving) {
		step = rx_complete_receive(conn);
		if (step != RX_GO_ON || rx->stage == TCP_RX_DISCARD)
			return step;
	}
	rx_executed(conn);
	return RX_GO_ON;
}

/* -- bytes ------------------------------------------------------------------------------------ */

/* Does what can be done without further bytes. */
static inline int rx_advance(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;
	int step = RX_GO_ON;

	if (rx->stage == TCP_RX_HEADER && rx->header_bytes == rx->header_size)
		rx->stage = TCP_RX_BEGIN;
	if (rx->stage == TCP_RX_BEGIN)
		step = tcp_conn_framing(conn)->begin(conn);
	if (step == RX_GO_ON && rx->stage == TCP_RX_PAYLOAD && rx_left(rx) == 0)
		rx->stage = TCP_RX_FINISH;
	if (step == RX_GO_ON && rx->stage == TCP_RX_FINISH)
		step = tcp_conn_framing(conn)->finish(conn);
	return step;
}

static size_t rx_parse_header(struct tcp_rx *rx, const unsigned char *data, size_t bytes)
{
	size_t part = rx->header_size - rx->header_bytes;

	if (part > bytes)
		part = bytes;
	memcpy(rx->header_data + rx->header_bytes, data, part);
	rx->header_bytes += (uint32_t)part;
	return part;
}

/* Copies from what was read ahead. Returns how much; 0 if the memory was deregistered. */
static size_t rx_parse_payload(struct tcp_conn *conn, const unsigned char *data, size_t bytes)
{
	struct iovec iovs[TCP_SGE_MAX];
	struct tcp_rx *rx = &conn->rx;
	int count = tcp_conn_framing(conn)->iov(conn, iovs);
	size_t copied = 0;

	if (count < 0) {
		tcp_conn_framing(conn)->no_memory(conn);
		return 0;
	}
	rx->large = rx->length >= RX_LARGE_BYTES;
	for (int i = 0; i < count && copied < bytes; i++) {
		size_t part = bytes - copied < iovs[i].iov_len ? bytes - copied : iovs[i].iov_len;

		memcpy(iovs[i].iov_base, data + copied, part);
		copied += part;
	}
	rx->placed += (uint32_t)copied;
	return copied;
}

/* Returns RX_GO_ON when all was consumed; else *consumed tells what was. */
static int rx_parse(struct tcp_conn *conn, const unsigned char *data, size_t bytes,
		    size_t *consumed)
{
	struct tcp_rx *rx = &conn->rx;
	int step = RX_GO_ON;

	*consumed = 0;
	while (*consumed < bytes && step == RX_GO_ON && conn->state == TCP_CONN_READY) {
		if (rx->stage == TCP_RX_HEADER)
			*consumed += rx_parse_header(rx, data + *consumed, bytes - *consumed);
		else if (rx->stage == TCP_RX_PAYLOAD)
			*consumed += rx_parse_payload(conn, data + *consumed, bytes - *consumed);
		else
			*consumed = bytes; /* TCP_RX_DISCARD */
		step = rx_advance(conn);
	}
	return step;
}

/* Takes bytes that were read ahead behind a frame that has to wait. Only a starved connection has this. */
static int rx_spill(struct tcp_conn *conn, const unsigned char *data, size_t bytes)
{
	unsigned char *spill;

	if (bytes == 0)
		return 0;
	spill = malloc(bytes);
	if (!spill)
		return -ENOMEM;
	memcpy(spill, data, bytes);
	conn->rx.spill = spill;
	conn->rx.spill_head = 0;
	conn->rx.spill_bytes = (uint32_t)bytes;
	return 0;
}

static int rx_parse_spill(struct tcp_conn *conn)
{
	struct tcp_rx *rx = &conn->rx;
	size_t consumed;
	int step;

	if (!rx->spill)
		return RX_GO_ON;
	step = rx_parse(conn, rx->spill + rx->spill_head, rx->spill_bytes - rx->spill_head,
			&consumed);
	rx->spill_head += (uint32_t)consumed;
	if (rx->spill_head == rx->spill_bytes) {
		free(rx->spill);
		rx->spill = NULL;
	}
	return step;
}

/* Places `got` bytes of a system call: first the payload's, which are there already. */
static int rx_account(struct tcp_conn *conn, size_t got, size_t direct)
{
	unsigned char *scratch = tcp_conn_fab(conn)->scratch;
	struct tcp_rx *rx = &conn->rx;
	size_t consumed;
	int step, err;

	if (direct > got)
		direct = got;
	if (direct > 0) {
		rx->placed += (uint32_t)direct;
		rx->large = rx->length >= RX_LARGE_BYTES;
		got -= direct;
	}
	step = rx_advance(conn);
	consumed = 0;
	if (step == RX_GO_ON && got > 0)
		step = rx_parse(conn, scratch, got, &consumed);
	if (step == RX_WAIT) {
		err = rx_spill(conn, scratch + consumed, got - consumed);
		if (err)
			return err;
	}
	return step;
}

/* One system call. RX_WAIT also when the socket is empty. */
static int rx_call(struct tcp_conn *conn)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	struct tcp_rx *rx = &conn->rx;
	struct iovec iovs[TCP_SGE_MAX + 1];
	struct msghdr message = {.msg_iov = iovs};
	size_t direct = 0, ahead = TCP_SCRATCH_BYTES;
	ssize_t got;
	int count = 0, step;

	if (rx->stage == TCP_RX_PAYLOAD) {
		count = tcp_conn_framing(conn)->iov(conn, iovs);
		if (count < 0)
			return tcp_conn_framing(conn)->no_memory(conn);
		direct = rx_left(rx);
	}
	if (rx->large && rx->stage != TCP_RX_DISCARD)
		ahead = RX_AHEAD_OF_LARGE;
	iovs[count] = (struct iovec){fab->scratch, ahead};
	message.msg_iovlen = (size_t)count + 1;
	got = tcp_stream_recv(conn->source.fd, conn->head.tls, &message);
	if (got < 0)
		return errno == EINTR				 ? RX_GO_ON
		       : errno == EAGAIN || errno == EWOULDBLOCK ? RX_WAIT
								 : -errno;
	if (got == 0) {
		tcp_conn_fail(conn, 0);
		return RX_WAIT;
	}
	fab->head.activity++;
	step = rx_account(conn, (size_t)got, direct);
	/* A short read has emptied the socket; the next byte is a new edge. */
	if (step == RX_GO_ON && (size_t)got < direct + ahead && !rx->hangup &&
	    !tcp_stream_more(conn->head.tls))
		return RX_WAIT;
	return step;
}

void tcp_rx_run(struct tcp_conn *conn)
{
	int step;

	if (conn->rx.starved) {
		/* The peer has closed: it does not wait for the answer to what it sent. */
		if (conn->rx.hangup)
			tcp_conn_fail(conn, 0);
		return;
	}
	step = rx_advance(conn);
	if (step == RX_GO_ON)
		step = rx_parse_spill(conn);
	for (int i = 0; i < RX_CALLS_PER_TURN; i++) {
		if (step != RX_GO_ON || conn->state != TCP_CONN_READY)
			break;
		step = rx_call(conn);
	}
	if (step < 0)
		tcp_conn_fail(conn, step);
	else if (step == RX_GO_ON && conn->state == TCP_CONN_READY)
		tcp_conn_mark(conn, TCP_WORK_RX);
}
