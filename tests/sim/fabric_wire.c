/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Work requests of the simulated fabric. One passes: posted, its payload read and on its way,
 * carried out by the peer, acknowledged, completed; each in order per connection. A READ besides
 * has its response, which can come late, or in part and then again, while what was posted behind
 * it (without FENCE) is carried out already.
 */
#include "tests/sim/fabric_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/digest.h"
#include "tests/sim/coverage.h"
#include "tests/sim/guard.h"
#include "tests/sim/random.h"
#include "tests/sim/rules.h"
#include "tests/sim/trace.h"

#define PACKET_BYTES 512u
#define REPORTS_MAX 4096u /* a WRITE that is longer is of data, which has a digest */
#define FLIPS 200000	   /* of a million */
#define FLIPS_APART 20	   /* transfers */

static const char *opcode_name(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
		return "SEND";
	case IBV_WR_SEND_WITH_INV:
		return "SEND_INV";
	case IBV_WR_RDMA_WRITE:
		return "WRITE";
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "WRITE_IMM";
	case IBV_WR_RDMA_READ:
		return "READ";
	default:
		return "?";
	}
}

/* -- memory -------------------------------------------------------------------------------- */

/* What a device checks before it touches memory. */
static uint8_t *memory_at(const struct sim_conn *conn, uint64_t address, size_t bytes, uint32_t key,
			  int access)
{
	const struct sim_mr *mr = sim_mr_find(key);
	uint8_t *memory = (uint8_t *)(uintptr_t)address;
	const char *reason = NULL;

	if (!mr)
		reason = "that is not registered (any more)";
	else if (mr->invalid)
		reason = "whose key was invalidated";
	else if (mr->fab != conn->fab)
		reason = "of another protection domain";
	else if (memory < mr->base || bytes > mr->bytes ||
		 (size_t)(memory - mr->base) > mr->bytes - bytes)
		reason = "beyond its registration";
	else if ((mr->access & access) != access)
		reason = "that is not registered for it";
	if (reason)
		sim_fail("%s: qp %u: access to memory %s", conn->fab->actor->name,
			 conn->head.qp_num, reason);
	sim_guard_check(memory, bytes, access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	return memory;
}

/* Read the payload from the poster's memory; again, if it is sent again. */
static void wqe_gather(struct sim_conn *conn, struct sim_wqe *wqe)
{
	uint8_t *to = wqe->data;

	if (sim_wqe_is_read(wqe) || wqe->wr.send_flags & IBV_SEND_INLINE)
		return;
	for (int i = 0; i < wqe->wr.num_sge; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];

		memcpy(to, memory_at(conn, sge->addr, sge->length, sge->lkey, 0), sge->length);
		to += sge->length;
	}
}

/* The first `bytes` of a READ's response. */
static void wqe_scatter(struct sim_conn *conn, struct sim_wqe *wqe, uint32_t bytes)
{
	const uint8_t *from = wqe->data;

	for (int i = 0; i < wqe->wr.num_sge && bytes; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		uint32_t part = sge->length < bytes ? sge->length : bytes;

		memcpy(memory_at(conn, sge->addr, part, sge->lkey, IBV_ACCESS_LOCAL_WRITE), from,
		       part);
		from += part;
		bytes -= part;
	}
}

/* -- completing ---------------------------------------------------------------------------- */

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	default:
		return IBV_WC_SEND;
	}
}

static void wqe_free(struct sim_conn *conn, struct sim_wqe *wqe)
{
	TAILQ_REMOVE(&conn->sq, wqe, link);
	free(wqe);
}

static void wqe_complete(struct sim_conn *conn, struct sim_wqe *wqe, enum ibv_wc_status status)
{
	struct ibv_wc wc = {
		.wr_id = wqe->wr.wr_id, .status = status, .opcode = wc_opcode(wqe->wr.opcode)};

	conn->sq_silent++;
	if (status != IBV_WC_SUCCESS || wqe->wr.send_flags & IBV_SEND_SIGNALED) {
		sim_fab_complete(conn, &wc, conn->sq_silent, false, false);
		conn->sq_silent = 0;
	}
}

static void complete_in_order(struct sim_conn *conn)
{
	struct sim_wqe *wqe;

	while ((wqe = TAILQ_FIRST(&conn->sq)) && wqe->state == SIM_WQE_ACKED) {
		wqe_complete(conn, wqe, IBV_WC_SUCCESS);
		wqe_free(conn, wqe);
	}
}

/* -- issuing ------------------------------------------------------------------------------- */

unsigned int sim_reads_outstanding(const struct sim_conn *conn, const struct sim_wqe *end)
{
	const struct sim_wqe *wqe;
	unsigned int reads = 0;

	for (wqe = TAILQ_FIRST(&conn->sq); wqe != end; wqe = TAILQ_NEXT(wqe, link))
		reads += sim_wqe_is_read(wqe) && !wqe->responded;
	return reads;
}

/* FENCE waits for every READ before it; a READ waits for one that is outstanding beyond the depth.
 */
static bool may_issue(const struct sim_conn *conn, const struct sim_wqe *wqe)
{
	unsigned int reads = sim_reads_outstanding(conn, wqe);

	if (wqe->wr.send_flags & IBV_SEND_FENCE && reads)
		return false;
	return !sim_wqe_is_read(wqe) || reads < conn->head.read_out;
}

static void on_issue(void *arg)
{
	struct sim_conn *conn = arg;
	struct sim_wqe *wqe;

	if (conn->state != SIM_CONN_UP)
		return;
	TAILQ_FOREACH(wqe, &conn->sq, link)
		if (wqe->state == SIM_WQE_POSTED)
			break;
	if (!wqe || !may_issue(conn, wqe))
		return;
	wqe_gather(conn, wqe);
	wqe->state = SIM_WQE_FLYING;
	wqe->due_ns = sim_now_ns() + sim_latency_ns();
	if (wqe->due_ns < conn->arrival_ns)
		wqe->due_ns = conn->arrival_ns;
	conn->arrival_ns = wqe->due_ns;
	sim_event_by(&conn->arrive, wqe->due_ns);
	sim_event_in(&conn->issue, sim_below(SIM_ISSUE_NS_MAX));
}

/* -- carrying out, at the peer ------------------------------------------------------------- */

static struct sim_receive receive_first(struct sim_receives *receives)
{
	struct sim_receive receive = *sim_receive_at(receives, 0);

	receives->first = (receives->first + 1) % receives->room;
	receives->count--;
	return receive;
}

static struct sim_receive receive_take(struct sim_conn *conn, bool *srq)
{
	struct sim_receives *receives;

	*srq = conn->server && conn->fab->head.options.srq_depth;
	receives = *srq ? &conn->fab->srq : &conn->rq;
	if (!receives->count)
		sim_fail("%s: qp %u: a message finds no receive: a credit was not covered (C4, C5)",
			 conn->fab->actor->name, conn->head.qp_num);
	return receive_first(receives);
}

/* A reply arrives: how many of its commands have failed? */
static void count_failures(struct sim_fab *fab, const struct sim_wqe *wqe)
{
	const struct rblk_wire_completion *completions = (const void *)wqe->data;

	for (size_t i = 0; i < wqe->bytes / sizeof(*completions); i++)
		fab->failures += !(completions[i].flags & RBLK_CPL_EVENT) &&
				 rblk_le16(completions[i].status) == RBLK_E_IO;
}

/* A SEND, or the immediate of a WRITE, arrives at `conn`. */
static void execute_receive(struct sim_conn *conn, const struct sim_wqe *wqe)
{
	bool srq, immediate = wqe->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct sim_receive receive = receive_take(conn, &srq);
	struct ibv_wc wc = {.wr_id = receive.wr_id,
			    .opcode = immediate ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
			    .byte_len = wqe->bytes};

	if (immediate) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = wqe->wr.imm_data;
	} else if (wqe->bytes > receive.sge.length) {
		sim_fail("%s: qp %u: a message longer than its receive (C7)",
			 conn->fab->actor->name, conn->head.qp_num);
	} else if (wqe->bytes) {
		memcpy(memory_at(conn, receive.sge.addr, wqe->bytes, receive.sge.lkey,
				 IBV_ACCESS_LOCAL_WRITE),
		       wqe->data, wqe->bytes);
	}
	if (wqe->wr.opcode == IBV_WR_SEND_WITH_INV) {
		struct sim_mr *mr = sim_mr_find(wqe->wr.invalidate_rkey);

		if (!mr || mr->invalid || mr->fab != conn->fab)
			sim_fail("%s: qp %u: invalidation of a key that is none",
				 conn->fab->actor->name, conn->head.qp_num);
		mr->invalid = true;
		wc.wc_flags = IBV_WC_WITH_INV;
		wc.invalidated_rkey = wqe->wr.invalidate_rkey;
	}
	if (!conn->server && !immediate)
		count_failures(conn->fab, wqe);
	if (srq)
		sim_rules_received(conn, receive.wr_id, wqe->data, wqe->bytes);
	sim_fab_complete(conn, &wc, 0, true, srq);
}

/* One bit of an initiator's data, now and then, and less often than one command is tried: it would fail. */
static void flip(const struct sim_conn *initiator, struct sim_wqe *wqe)
{
	struct sim_actor *actor = initiator->fab->actor;
	uint8_t *byte;

	if (!actor->digests || sim_net.calm)
		return;
	if (actor->spared) {
		actor->spared--;
		return;
	}
	if (actor->flips == CORE_DIGEST_RETRIES || !sim_chance(FLIPS))
		return;
	actor->flips++;
	actor->spared = FLIPS_APART;
	sim_reached("fabric", "a bit of the data changes", opcode_name(wqe->wr.opcode));
	sim_trace(actor->name, "a bit of %u bytes changes", wqe->bytes);
	byte = &wqe->data[sim_below(wqe->bytes)];
	*byte ^= (uint8_t)(1u << sim_below(8));
}

static void execute_read(struct sim_conn *peer, struct sim_wqe *wqe)
{
	memcpy(wqe->data,
	       memory_at(peer, wqe->wr.wr.rdma.remote_addr, wqe->bytes, wqe->wr.wr.rdma.rkey,
			 IBV_ACCESS_REMOTE_READ),
	       wqe->bytes);
	flip(peer, wqe);
}

static void execute(struct sim_conn *peer, struct sim_wqe *wqe)
{
	sim_conn_established(peer);
	sim_trace(peer->fab->actor->name, "qp %u: %s of %u bytes arrives", peer->head.qp_num,
		  opcode_name(wqe->wr.opcode), wqe->bytes);
	switch (wqe->wr.opcode) {
	case IBV_WR_RDMA_READ:
		execute_read(peer, wqe);
		return;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		if (wqe->bytes > REPORTS_MAX)
			flip(peer, wqe);
		if (wqe->bytes)
			memcpy(memory_at(peer, wqe->wr.wr.rdma.remote_addr, wqe->bytes,
					 wqe->wr.wr.rdma.rkey, IBV_ACCESS_REMOTE_WRITE),
			       wqe->data, wqe->bytes);
		if (wqe->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			execute_receive(peer, wqe);
		return;
	default:
		execute_receive(peer, wqe);
	}
}

/* Does the device at this end still carry out what arrives? */
static bool conn_takes(const struct sim_conn *peer, const struct sim_wqe *wqe)
{
	if (peer->state == SIM_CONN_UP || peer->state == SIM_CONN_ACCEPTED)
		return true;
	/* Dying: no receive is consumed any more, but memory is still accessed. */
	return peer->state == SIM_CONN_ERR && sim_now_ns() < peer->death_ns && !peer->flushed &&
	       (wqe->wr.opcode == IBV_WR_RDMA_WRITE || sim_wqe_is_read(wqe));
}

static bool peer_takes(const struct sim_conn *conn, const struct sim_wqe *wqe)
{
	const struct sim_conn *peer = conn->peer;

	return peer && !peer->fab->dead && sim_link_up(conn) && conn_takes(peer, wqe);
}

/* No answer from the peer: once more, or not. True: given up. */
static bool wqe_repeat(struct sim_conn *conn, struct sim_wqe *wqe)
{
	if (++wqe->repeats <= sim_net.resends)
		return false;
	sim_conn_lose(conn, IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT);
	return true;
}

static void arrive_next(struct sim_conn *conn)
{
	struct sim_wqe *wqe;

	TAILQ_FOREACH(wqe, &conn->sq, link) {
		if (wqe->state != SIM_WQE_FLYING)
			continue;
		sim_event_at(&conn->arrive, wqe->due_ns);
		return;
	}
}

static void wqe_executed(struct sim_conn *conn, struct sim_wqe *wqe)
{
	uint64_t now_ns = sim_now_ns();

	wqe->state = SIM_WQE_EXECUTED;
	wqe->due_ns = now_ns + sim_latency_ns();
	if (sim_wqe_is_read(wqe)) {
		if (wqe->due_ns < conn->response_ns)
			wqe->due_ns = conn->response_ns;
		conn->response_ns = wqe->due_ns;
		sim_event_by(&conn->respond, wqe->due_ns);
		return;
	}
	wqe->resend = !sim_net.calm && sim_chance(sim_net.lose_ack);
	if (wqe->resend)
		wqe->due_ns += sim_below(sim_net.resend_ns);
	if (wqe->due_ns < conn->ack_ns)
		wqe->due_ns = conn->ack_ns;
	conn->ack_ns = wqe->due_ns;
	sim_event_by(&conn->ack, wqe->due_ns);
}

static void on_arrive(void *arg)
{
	struct sim_conn *conn = arg;
	struct sim_wqe *wqe;

	TAILQ_FOREACH(wqe, &conn->sq, link)
		if (wqe->state == SIM_WQE_FLYING)
			break;
	if (!wqe)
		return;
	if (conn->state == SIM_CONN_ERR)
		return; /* what goes on from here is decided when it is flushed */
	if (wqe->resend) {
		/* Sent again only now, from memory that must still be what it was. */
		wqe_gather(conn, wqe);
		wqe->resend = false;
		wqe->due_ns = sim_now_ns() + sim_latency_ns();
		sim_event_at(&conn->arrive, wqe->due_ns);
		return;
	}
	if (!peer_takes(conn, wqe) || (!sim_net.calm && sim_chance(sim_net.lose))) {
		if (wqe_repeat(conn, wqe))
			return;
		wqe->resend = true;
		wqe->due_ns = sim_now_ns() + sim_between(SIM_US, sim_net.resend_ns);
		sim_event_at(&conn->arrive, wqe->due_ns);
		return;
	}
	execute(conn->peer, wqe);
	wqe_executed(conn, wqe);
	arrive_next(conn);
}

/* -- acknowledgements and responses -------------------------------------------------------- */

static void on_ack(void *arg)
{
	struct sim_conn *conn = arg;
	struct sim_wqe *wqe;

	if (conn->state == SIM_CONN_ERR)
		return;
	TAILQ_FOREACH(wqe, &conn->sq, link) {
		if (wqe->state != SIM_WQE_EXECUTED || sim_wqe_is_read(wqe))
			continue;
		if (wqe->due_ns > sim_now_ns()) {
			sim_event_at(&conn->ack, wqe->due_ns);
			break;
		}
		if (wqe->resend || !sim_link_back(conn)) {
			/* The peer will drop it as done, but our device reads the memory again. */
			if (wqe_repeat(conn, wqe))
				return;
			wqe_gather(conn, wqe);
			wqe->resend = false;
			wqe->due_ns = sim_now_ns() + sim_latency_ns() +
				      (sim_link_back(conn) ? 0 : sim_net.resend_ns);
			sim_event_at(&conn->ack, wqe->due_ns);
			break;
		}
		wqe->state = SIM_WQE_ACKED;
	}
	complete_in_order(conn);
}

static void on_respond(void *arg)
{
	struct sim_conn *conn = arg;
	struct sim_wqe *wqe;

	if (conn->state == SIM_CONN_ERR && sim_now_ns() >= conn->death_ns)
		return;
	TAILQ_FOREACH(wqe, &conn->sq, link)
		if (sim_wqe_is_read(wqe) && wqe->state == SIM_WQE_EXECUTED)
			break;
	if (!wqe)
		return;
	if (wqe->due_ns > sim_now_ns()) {
		sim_event_at(&conn->respond, wqe->due_ns);
		return;
	}
	if (!sim_link_back(conn) || (!sim_net.calm && sim_chance(sim_net.lose_response))) {
		/*
		 * A part of it came, in packets of whole sectors; the whole is asked for again, and
		 * read again.
		 */
		wqe_scatter(conn, wqe,
			    (uint32_t)sim_below(wqe->bytes) / PACKET_BYTES * PACKET_BYTES);
		if (conn->state == SIM_CONN_ERR || wqe_repeat(conn, wqe))
			return;
		wqe->state = SIM_WQE_FLYING;
		wqe->due_ns = sim_now_ns() + sim_between(SIM_US, sim_net.resend_ns);
		sim_event_at(&conn->arrive, wqe->due_ns);
		return;
	}
	wqe_scatter(conn, wqe, wqe->bytes);
	wqe->responded = true;
	wqe->state = SIM_WQE_ACKED;
	sim_event_by(&conn->respond, sim_now_ns());
	complete_in_order(conn);
	if (conn->state == SIM_CONN_UP)
		sim_event_by(&conn->issue, sim_now_ns());
}

/* -- the end ------------------------------------------------------------------------------- */

static void on_stray(void *arg);

void sim_wire_init(struct sim_conn *conn)
{
	TAILQ_INIT(&conn->sq);
	conn->issue = (struct sim_event){.run = on_issue, .arg = conn};
	conn->arrive = (struct sim_event){.run = on_arrive, .arg = conn};
	conn->ack = (struct sim_event){.run = on_ack, .arg = conn};
	conn->respond = (struct sim_event){.run = on_respond, .arg = conn};
	conn->stray = (struct sim_event){.run = on_stray, .arg = conn};
	TAILQ_INIT(&conn->strays);
}

static void on_stray(void *arg)
{
	struct sim_conn *conn = arg;
	struct sim_wqe *wqe = TAILQ_FIRST(&conn->strays);

	TAILQ_REMOVE(&conn->strays, wqe, link);
	if (!sim_wqe_is_read(wqe) && !conn->fab->dead && conn_takes(conn, wqe)) {
		sim_reached("fabric", "a message after its sender's end", NULL);
		sim_trace(conn->fab->actor->name, "qp %u: its peer has ended, and:",
			  conn->head.qp_num);
		execute(conn, wqe);
	}
	free(wqe);
	if ((wqe = TAILQ_FIRST(&conn->strays)))
		sim_event_at(&conn->stray, wqe->due_ns);
}

/* It is the network's now. Our device has read its memory, at any time until this moment. */
static void wqe_stray(struct sim_conn *conn, struct sim_wqe *wqe)
{
	struct sim_conn *peer = conn->peer;
	const struct sim_wqe *last = TAILQ_LAST(&peer->strays, sim_wqe_list);

	if (sim_chance(500000))
		wqe_gather(conn, wqe);
	TAILQ_REMOVE(&conn->sq, wqe, link);
	wqe->due_ns += sim_below(sim_net.stray_ns);
	if (last && wqe->due_ns < last->due_ns)
		wqe->due_ns = last->due_ns;
	TAILQ_INSERT_TAIL(&peer->strays, wqe, link);
	sim_event_by(&peer->stray, wqe->due_ns);
}

/*
 * Everything that is posted comes back. A message that was on its way may still arrive, up to any point:
 * a requester cannot know.
 */
void sim_wire_flush(struct sim_conn *conn)
{
	bool arrives = !conn->fab->dead && conn->peer && sim_link_up(conn);
	struct sim_wqe *wqe;

	while ((wqe = TAILQ_FIRST(&conn->sq))) {
		wqe_complete(conn, wqe, conn->error);
		conn->error = IBV_WC_WR_FLUSH_ERR;
		arrives = arrives && sim_chance(700000);
		if (arrives && wqe->state == SIM_WQE_FLYING)
			wqe_stray(conn, wqe);
		else
			wqe_free(conn, wqe);
	}
	while (conn->rq.count) {
		struct ibv_wc wc = {.wr_id = receive_first(&conn->rq).wr_id, .status = IBV_WC_WR_FLUSH_ERR};

		sim_fab_complete(conn, &wc, 0, true, false);
	}
}

void sim_wire_fini(struct sim_conn *conn)
{
	struct sim_wqe *wqe;

	sim_event_cancel(&conn->issue);
	sim_event_cancel(&conn->arrive);
	sim_event_cancel(&conn->ack);
	sim_event_cancel(&conn->respond);
	sim_event_cancel(&conn->stray);
	while ((wqe = TAILQ_FIRST(&conn->sq)))
		wqe_free(conn, wqe);
	while ((wqe = TAILQ_FIRST(&conn->strays))) {
		TAILQ_REMOVE(&conn->strays, wqe, link);
			free(wqe);
	}
	free(conn->rq.of);
}
