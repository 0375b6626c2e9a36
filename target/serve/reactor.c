/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reactor: one turn polls the fabrics, reaps the ring, takes mail, lets those go on who wait
 * for memory, and then posts everything that came of it: receives, replies, READs, disk I/O. The
 * thread around it polls while it pays and sleeps on the ring otherwise.
 */
#include "target/serve/reactor.h"
#include "target/serve/reactor_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "target/serve/admin.h"
#include "target/serve/queue.h"
#include "target/io/transfer.h"

/* Work of one kind in one turn: bounded, so that no source keeps the others waiting. */
#define POLL_BATCH 64u
#define EVENT_BATCH 16u
#define REAP_BUDGET 256u
#define RESUME_BATCH 16u
/* Slack of the timers: they are looked at this often at most. */
#define TIMER_NS 10000000ull

/* -- completions and events of a fabric -------------------------------------------------------- */

static void reactor_received(struct tgt_fabric *fabric, const struct ibv_wc *wc,
			     struct tgt_queue *queue)
{
	uint32_t index = (uint32_t)wc->wr_id;
	struct tgt_device *device = fabric->devices[(wc->wr_id >> 32) & (FAB_DEVICES_MAX - 1)];
	struct tgt_inbox *inbox = queue && !queue->device ? &queue->inbox : &device->inbox;

	/* Held while it is read: commands that need it longer take holds of their own. */
	tgt_inbox_hold(inbox, index);
	if (wc->status == IBV_WC_LOC_LEN_ERR && queue)
		tgt_queue_violation(queue, "a message longer than it may be");
	if (wc->status == IBV_WC_REM_INV_REQ_ERR && queue)
		tgt_queue_violation(queue, "an invalidation of what is not the peer's");
	if (wc->status == IBV_WC_SUCCESS && queue) {
		if (wc->opcode != IBV_WC_RECV || wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))
			tgt_queue_violation(queue, "a message that is not a plain SEND");
		if (queue->state == TGT_QUEUE_OPEN)
			tgt_queue_receive(queue, inbox, index, wc->byte_len);
	}
	tgt_inbox_release(inbox, index);
}

static void reactor_sent(const struct ibv_wc *wc, struct tgt_queue *queue)
{
	/* Of a closing queue: all that is posted is given back when it has drained. */
	if (!queue || queue->state != TGT_QUEUE_OPEN)
		return;
	if (wc->status == IBV_WC_SUCCESS) {
		tgt_transfer_completed(queue, wc->wr_id);
		return;
	}
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		tgt_queue_close(queue, "the connection was lost");
		return;
	}
	tgt_log_limited(&queue->reactor->log_limit, TGT_LOG_WARNING,
			"session %u queue %u [%s]: closed: %s%s", queue->session->number,
			queue->index, fab_conn_peer(queue->conn), ibv_wc_status_str(wc->status),
			wc->status == IBV_WC_RETRY_EXC_ERR
				? " (the peer does not answer: is it down, or the link?)"
			: wc->status == IBV_WC_REM_ACCESS_ERR
				? " (the peer does not expose the memory that it named)"
				: "");
	tgt_queue_close(queue, NULL);
}

static unsigned int reactor_poll_fabric(struct tgt_fabric *fabric)
{
	struct ibv_wc wc[POLL_BATCH];
	uint64_t before = fab_activity(fabric->fab);
	int count = fab_poll(fabric->fab, wc, POLL_BATCH);
	struct tgt_queue *queue = NULL;
	uint32_t qp_num = 0;

	for (int i = 0; i < count; i++) {
		/* Completions of one queue come in runs. */
		if (!queue || wc[i].qp_num != qp_num) {
			struct fab_conn *conn = fab_conn_find(fabric->fab, wc[i].qp_num);

			queue = conn ? fab_conn_user(conn) : NULL;
			qp_num = wc[i].qp_num;
		}
		if (wc[i].wr_id & TGT_WR_RECEIVE)
			reactor_received(fabric, &wc[i], queue);
		else
			reactor_sent(&wc[i], queue);
	}
	return (count > 0 ? (unsigned int)count : 0) +
	       (unsigned int)(fab_activity(fabric->fab) - before);
}

static void reactor_device_gone(struct tgt_reactor *reactor, struct fab_device *device)
{
	struct tgt_queue *queue, *following;

	/* Of a listener's address: there is none here. */
	if (!device)
		return;
	tgt_log(TGT_LOG_WARNING, "device %s: removed", fab_device_name(device));
	for (queue = TAILQ_FIRST(&reactor->alive); queue; queue = following) {
		following = TAILQ_NEXT(queue, alive_link);
		if (fab_conn_device(queue->conn) == device)
			tgt_queue_close(queue, "its device was removed");
	}
}

static unsigned int reactor_poll_events(struct tgt_reactor *reactor, struct tgt_fabric *fabric)
{
	struct fab_event event;
	unsigned int count = 0;

	while (count < EVENT_BATCH && fab_poll_event(fabric->fab, &event) > 0) {
		struct tgt_queue *queue = event.conn ? fab_conn_user(event.conn) : NULL;

		count++;
		switch (event.type) {
		case FAB_EVENT_ESTABLISHED: /* a message may have said so before */
			queue->established = true;
			break;
		case FAB_EVENT_DISCONNECTED:
			tgt_queue_close(queue, event.status ? strerror(-event.status)
							    : "the peer has disconnected");
			break;
		case FAB_EVENT_FAILED:
			tgt_queue_close(queue, fab_error(fabric->fab));
			break;
		case FAB_EVENT_DRAINED:
			tgt_queue_drained(queue);
			break;
		case FAB_EVENT_DEVICE_GONE:
			reactor_device_gone(reactor, event.device);
			break;
		default:
			break;
		}
	}
	return count;
}

/* -- one turn ---------------------------------------------------------------------------------- */

/* Memory goes to the queues in turn, to each the oldest of its commands. */
static void reactor_feed(struct tgt_reactor *reactor)
{
	struct tgt_queue *queue;

	while ((queue = TAILQ_FIRST(&reactor->starving))) {
		struct tgt_request *request = TAILQ_FIRST(&queue->waiting);

		if (request && !tgt_request_retry_memory(request))
			return;
		TAILQ_REMOVE(&reactor->starving, queue, starving_link);
		queue->is_starving = !TAILQ_EMPTY(&queue->waiting);
		if (queue->is_starving)
			TAILQ_INSERT_TAIL(&reactor->starving, queue, starving_link);
	}
}

/* Who has waited too long is told so, rather than left to wonder. */
static void reactor_expire_waiting(struct tgt_reactor *reactor)
{
	struct tgt_request *request;
	struct tgt_queue *queue;

	TAILQ_FOREACH(queue, &reactor->starving, starving_link)
	{
		while ((request = TAILQ_FIRST(&queue->waiting)) &&
		       reactor->now_ns - request->received_ns >= TGT_MEMORY_WAIT_NS) {
			TAILQ_REMOVE(&queue->waiting, request, link);
			tgt_request_complete(request, RBLK_E_BUSY);
		}
	}
}

static unsigned int reactor_resume(struct tgt_reactor *reactor)
{
	/* Those that put themselves back are the next turn's. */
	struct tgt_request *last = TAILQ_LAST(&reactor->resumed, tgt_request_list);
	unsigned int count = 0;
	bool more = last != NULL;

	while (more && count < RESUME_BATCH) {
		struct tgt_request *request = TAILQ_FIRST(&reactor->resumed);

		more = request != last;
		tgt_request_resume(request);
		count++;
	}
	return count;
}

static bool reactor_is_idle(const struct tgt_reactor *reactor)
{
	const struct tgt_queue *queue;

	TAILQ_FOREACH(queue, &reactor->alive, alive_link)
	if (queue->active || queue->sent_head != queue->sent_tail)
		return false;
	return true;
}

/* Draining: when nothing is in flight, or the time is up, everything is closed. */
static void reactor_step_drain(struct tgt_reactor *reactor)
{
	struct tgt_session *session, *following;

	if (TAILQ_EMPTY(&reactor->sessions)) {
		atomic_store_explicit(&reactor->drained, true, memory_order_release);
		return;
	}
	if (reactor->now_ns < reactor->drain_until_ns && !reactor_is_idle(reactor))
		return;
	for (session = TAILQ_FIRST(&reactor->sessions); session; session = following) {
		following = TAILQ_NEXT(session, link);
		if (!session->ending)
			tgt_session_end(session, "the target is shutting down");
	}
}

static void reactor_timers(struct tgt_reactor *reactor)
{
	uint64_t alive_ns, session_ns;

	if (reactor->now_ns < reactor->timer_ns)
		return;
	alive_ns = tgt_queue_check_alive(reactor);
	session_ns = tgt_session_expire(reactor, false);
	reactor_expire_waiting(reactor);
	reactor->timer_ns = alive_ns < session_ns ? alive_ns : session_ns;
	if (!TAILQ_EMPTY(&reactor->starving) && reactor->timer_ns > reactor->now_ns + 10 * TIMER_NS)
		reactor->timer_ns = reactor->now_ns + 10 * TIMER_NS;
	if (reactor->timer_ns < reactor->now_ns + TIMER_NS)
		reactor->timer_ns = reactor->now_ns + TIMER_NS;
}

/* Receives first: a reply gives the initiator a credit, and behind a credit there is a receive. */
static void reactor_post(struct tgt_reactor *reactor)
{
	struct tgt_queue *queue;

	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		for (unsigned int j = 0; j < FAB_DEVICES_MAX; j++)
			if (reactor->fabrics[i].devices[j])
				tgt_inbox_post(&reactor->fabrics[i].devices[j]->inbox);
	while ((queue = TAILQ_FIRST(&reactor->dirty))) {
		TAILQ_REMOVE(&reactor->dirty, queue, dirty_link);
		queue->is_dirty = false;
		if (queue->state != TGT_QUEUE_OPEN)
			continue;
		if (!queue->device)
			tgt_inbox_post(&queue->inbox);
		tgt_transfer_flush(queue);
	}
}

static unsigned int reactor_bury(struct tgt_reactor *reactor)
{
	struct tgt_queue *queue;
	unsigned int count = 0;

	while ((queue = TAILQ_FIRST(&reactor->ended))) {
		tgt_queue_destroy(queue);
		count++;
	}
	if (reactor->rejudge)
		tgt_login_retry(reactor);
	return count;
}

unsigned int tgt_reactor_step(struct tgt_reactor *reactor)
{
	unsigned int work = 0;

	reactor->now_ns = env_now_ns();
	for (unsigned int i = 0; i < reactor->fabric_count; i++) {
		work += reactor_poll_fabric(&reactor->fabrics[i]);
		work += reactor_poll_events(reactor, &reactor->fabrics[i]);
	}
	if (reactor->ring)
		work += tgt_ring_reap(reactor->ring, REAP_BUDGET);
	work += tgt_reactor_take_mail(reactor);
	work += reactor_resume(reactor);
	reactor_feed(reactor);
	reactor_timers(reactor);
	work += reactor_bury(reactor);
	if (!TAILQ_EMPTY(&reactor->opening))
		tgt_admin_retry_opens(reactor);
	reactor_post(reactor);
	if (reactor->draining)
		reactor_step_drain(reactor);
	if (reactor->ring)
		tgt_ring_submit(reactor->ring);
	return work;
}

uint64_t tgt_reactor_deadline_ns(const struct tgt_reactor *reactor)
{
	uint64_t deadline_ns = reactor->timer_ns;

	if (!TAILQ_EMPTY(&reactor->resumed) || !TAILQ_EMPTY(&reactor->dirty) || reactor->rejudge)
		return reactor->now_ns;
	/* Orphans may be another reactor's, which does not know who waits for them. */
	if (!TAILQ_EMPTY(&reactor->opening) && deadline_ns > reactor->now_ns + TIMER_NS)
		deadline_ns = reactor->now_ns + TIMER_NS;
	if (!TAILQ_EMPTY(&reactor->starving) && deadline_ns > reactor->now_ns + 10 * TIMER_NS)
		deadline_ns = reactor->now_ns + 10 * TIMER_NS;
	if (reactor->draining && deadline_ns > reactor->now_ns + TIMER_NS)
		deadline_ns = reactor->now_ns + TIMER_NS;
	for (unsigned int i = 0; i < reactor->fabric_count; i++) {
		int timeout_ms = fab_timeout_ms(reactor->fabrics[i].fab);

		if (timeout_ms >= 0 &&
		    deadline_ns > reactor->now_ns + (uint64_t)timeout_ms * 1000000)
			deadline_ns = reactor->now_ns + (uint64_t)timeout_ms * 1000000;
	}
	return deadline_ns;
}

/* -- the thread -------------------------------------------------------------------------------- */

/* Asks every source to wake the ring. False: something is there already. */
static bool reactor_arm(struct tgt_reactor *reactor)
{
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		if (fab_arm(reactor->fabrics[i].fab) != 0)
			return false;
	return tgt_mailbox_settle(&reactor->mailbox);
}

static void reactor_sleep(struct tgt_reactor *reactor)
{
	uint64_t deadline_ns = tgt_reactor_deadline_ns(reactor);
	uint64_t now_ns = env_now_ns();
	int timeout_ms = -1;
	int err;

	if (deadline_ns != UINT64_MAX) {
		if (deadline_ns <= now_ns)
			return;
		/* Up, not down: a millisecond too early would be a turn for nothing. */
		if (deadline_ns - now_ns < 3600000000000ull)
			timeout_ms = (int)((deadline_ns - now_ns + 999999) / 1000000);
		else
			timeout_ms = 3600000;
	}
	if (!reactor_arm(reactor))
		return;
	err = tgt_ring_wait(reactor->ring, timeout_ms);
	if (err)
		tgt_log_limited(&reactor->log_limit, TGT_LOG_ERROR, "reactor %u: io_uring: %s",
				reactor->index, strerror(-err));
}

static void *reactor_thread(void *argument)
{
	struct tgt_reactor *reactor = argument;

	while (!tgt_reactor_drained(reactor)) {
		unsigned int work = tgt_reactor_step(reactor);

		if (core_spin_turn(&reactor->spin, reactor->now_ns, work))
			reactor_sleep(reactor);
		else if (!work)
			env_yield();
	}
	return NULL;
}

int tgt_reactor_start(struct tgt_reactor *reactor)
{
	char name[16];
	int err = pthread_create(&reactor->thread, NULL, reactor_thread, reactor);

	if (err)
		return -err;
	reactor->started = true;
	snprintf(name, sizeof(name), "reactor-%u", reactor->index);
	pthread_setname_np(reactor->thread, name);
	return 0;
}
