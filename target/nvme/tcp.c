/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection of NVMe/TCP becomes a queue when its login has been accepted, and ends; what queue.c needs of it.
 */
#include "target/nvme/tcp.h"

#include <errno.h>
#include <stdlib.h>

/* -- for queue.c --------------------------------------------------------------------------------- */

static void tcp_wake(struct nvme_queue *queue)
{
	tcp_conn_mark(queue->tcp->conn, TCP_WORK_TX);
}

static char *tcp_take(struct nvme_queue *queue, uint32_t bytes, uint64_t *wr_id)
{
	struct tcp_conn *conn = queue->tcp->conn;
	struct ibv_sge sges[TCP_SGE_MAX];
	struct tcp_recv_wr wr;
	char *memory;

	/* The next turn tries again. */
	if (!tcp_cq_room(&tcp_conn_fab(conn)->cq) || !tcp_rq_take(conn->rq, &wr, sges)) {
		tcp_wake(queue);
		return NULL;
	}
	memory = wr.sges && sges[0].length >= bytes ? tcp_conn_local(conn, &sges[0], IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!memory)
		tcp_conn_fail(conn, -EFAULT);
	*wr_id = wr.wr_id;
	return memory;
}

static void tcp_push(struct nvme_queue *queue, uint64_t wr_id, uint32_t bytes)
{
	struct ibv_wc *wc = tcp_conn_push_wc(queue->tcp->conn, wr_id);

	wc->opcode = IBV_WC_RECV;
	wc->byte_len = bytes;
}

static void tcp_tick(struct nvme_queue *queue, uint32_t ms)
{
	struct tcp_conn *conn = queue->tcp->conn;

	tcp_source_set_timer(&tcp_conn_fab(conn)->loop, &conn->source, ms);
}

static void tcp_fail(struct nvme_queue *queue, int status)
{
	tcp_conn_fail(queue->tcp->conn, status);
}

static void tcp_finish(struct nvme_queue *queue)
{
	queue->tcp->send.last = true;
}

static void tcp_local(const struct nvme_queue *queue, struct sockaddr_storage *address)
{
	socklen_t bytes = sizeof(*address);

	getsockname(queue->tcp->conn->source.fd, (struct sockaddr *)address, &bytes);
}

static const struct nvme_transport transport = {
	.kind = 3,
	.respond = nvme_send_response,
	.finish = tcp_finish,
	.fetch = nvme_send_r2t,
	.take = tcp_take,
	.push = tcp_push,
	.wake = tcp_wake,
	.tick = tcp_tick,
	.fail = tcp_fail,
	.has_room = nvme_send_has_room,
	.local = tcp_local,
};

/* -- for the framing ----------------------------------------------------------------------------- */

int nvme_answer(struct tcp_conn *conn, bool accepts, const void *private_data, uint8_t bytes)
{
	struct nvme_hello *hello = conn->state_of_framing;
	struct nvme_queue *queue;
	struct nvme_tcp *tcp;

	if (!accepts) {
		nvme_refuse(conn->source.fd, conn->head.tls, hello, private_data, bytes);
		return 0;
	}
	tcp = calloc(1, sizeof(*tcp));
	queue = tcp ? nvme_queue_create(hello, private_data, bytes, &transport, &conn->head) : NULL;
	if (!queue) {
		free(tcp);
		return -ENOMEM;
	}
	tcp->conn = conn;
	queue->tcp = tcp;
	nvme_forget_hello(hello);
	conn->state_of_framing = queue;
	nvme_queue_begin(queue);
	return 0;
}

void nvme_forget(struct tcp_conn *conn)
{
	struct nvme_hello *hello = conn->state_of_framing;
	struct nvme_tcp *tcp;

	if (!hello->is_queue) {
		nvme_forget_hello(hello);
		return;
	}
	tcp = nvme_queue_of(conn)->tcp;
	for (struct nvme_send *send = &tcp->send; send->head != send->tail; send->head++)
		free(send->segments[send->head & (NVME_SEGMENTS - 1)].owned);
	nvme_queue_free(nvme_queue_of(conn));
	free(tcp);
}

void nvme_check_conn(struct tcp_conn *conn)
{
	if (nvme_queue_of(conn)->hello.is_queue)
		nvme_check_end(nvme_queue_of(conn));
}

void nvme_timeout(struct tcp_conn *conn)
{
	nvme_tick(nvme_queue_of(conn));
}
