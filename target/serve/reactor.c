/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reactor: one turn polls the fabrics, reaps the ring and runs the messages there, continues commands that wait
 * for memory, and then posts the results: receives, replies, READs, disk I/O. The thread around it
 * polls while it pays and sleeps on the ring otherwise.
 */
#include "target/base/daemon_event.h"
#include "target/serve/reactor.h"
#include "target/serve/reactor_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "target/io/request.h"
#include "target/io/transfer.h"
#include "target/io/throttle.h"
#include "target/io/work.h"
#include "target/serve/device.h"
#include "target/serve/gateways.h"
#include "target/serve/keepalive.h"
#include "target/serve/login.h"
#include "target/serve/peers.h"
#include "target/serve/queue.h"
#include "target/serve/sessions.h"

/* Work of one kind in one turn: bounded, so that no source delays the others. */
#define POLL_BATCH 64u
#define EVENT_BATCH 16u
#define REAP_BUDGET 256u
/* Slack of the timers: they are checked this often at most. */
#define TIMER_NS 10000000ull
/* An hour: a deadline in milliseconds is an int. */
#define SLEEP_NS_MAX 3600000000000ull

/* -- completions and events of a fabric -------------------------------------------------------- */

static void reactor_received(struct tgt_fabric *fabric, const struct ibv_wc *wc,
			     struct tgt_queue *queue)
{
	uint32_t index = (uint32_t)wc->wr_id;
	struct tgt_receives *receives = &fabric->devices[(wc->wr_id & ~TGT_WR_RECEIVE) >> 32]->receives;
	struct tgt_io_queue *io_queue = queue ? &queue->io_queue : NULL;

	/* Held while it is read: commands that need it longer take holds of their own. */
	tgt_receives_hold(receives, index);
	if (wc->status == IBV_WC_LOC_LEN_ERR && io_queue)
		tgt_io_queue_violation(io_queue, "a message that is too long");
	if (wc->status == IBV_WC_REM_INV_REQ_ERR && io_queue)
		tgt_io_queue_violation(io_queue, "an invalidation of a key that is not the peer's");
	if (wc->status == IBV_WC_SUCCESS && io_queue) {
		if (wc->opcode != IBV_WC_RECV || wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))
			tgt_io_queue_violation(io_queue, "a message that is not a plain SEND");
		if (io_queue->open)
			tgt_message_receive(io_queue, receives, index, wc->byte_len);
	}
	tgt_receives_release(receives, index);
}

static void reactor_sent(const struct ibv_wc *wc, struct tgt_queue *queue)
{
	char why[160];

	/* A closing queue waits: all that is posted is given back when it has drained. */
	if (!queue || !queue->io_queue.open)
		return;
	if (wc->status == IBV_WC_SUCCESS) {
		if (wc->wc_flags & FAB_WC_DIGEST)
			tgt_transfer_digest(&queue->io_queue, wc->wr_id, wc->imm_data);
		tgt_transfer_completed(&queue->io_queue, wc->wr_id);
		return;
	}
	snprintf(why, sizeof(why), "%s%s", ibv_wc_status_str(wc->status),
		 wc->status == IBV_WC_RETRY_EXC_ERR    ? " (the peer does not answer: is it down, or the link?)"
		 : wc->status == IBV_WC_REM_ACCESS_ERR ? " (the peer does not expose the memory that it named)"
						       : "");
	tgt_queue_lost(queue, TGT_END_LOST,
		       wc->status == IBV_WC_WR_FLUSH_ERR ? fab_lost_text(fab_conn_lost(queue->io_queue.conn)) : why);
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

static void reactor_device_gone(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
				struct fab_device *device)
{
	struct tgt_io_queue *io_queue, *following;

	/* From a listener's address: there is none here. */
	if (!device)
		return;
	tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_DEVICE_REMOVED}, NULL,
			 TGT_LOG_WARNING, "reactor %u: device %s was removed: its connections end",
			 reactor->index, fab_device_name(device));
	TAILQ_FOREACH_SAFE(io_queue, &reactor->loop.alive, alive_link, following)
		if (fab_conn_device(io_queue->conn) == device)
			tgt_queue_close(tgt_queue_of(io_queue), "its device was removed");
	tgt_device_removed(reactor, fabric, device);
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
			tgt_queue_lost(queue, event.status ? TGT_END_LOST : TGT_END_DISCONNECTED,
				       event.status ? fab_lost_text(event.status)
						    : "the peer has disconnected");
			break;
		case FAB_EVENT_FAILED:
			tgt_login_failed(queue, fab_error(fabric->fab));
			break;
		case FAB_EVENT_DRAINED:
			tgt_queue_drained(queue);
			break;
		case FAB_EVENT_DEVICE_GONE:
			reactor_device_gone(reactor, fabric, event.device);
			break;
		default:
			break;
		}
	}
	return count;
}

/* -- one turn ---------------------------------------------------------------------------------- */

/* Draining: when nothing is in flight, or the time is up, everything is closed. */
static void reactor_step_drain(struct tgt_reactor *reactor)
{
	struct tgt_session *session, *following;

	if (TAILQ_EMPTY(&reactor->sessions)) {
		/* A channel may still be closing: its memory is deregistered by a thread, whose message is to come. A
		 * queue pair may be that of a connection that no session has. */
		if ((reactor->ring && tgt_ring_inflight(reactor->ring)) || !TAILQ_EMPTY(&reactor->pending) ||
		    reactor->qp_helper_jobs)
			return;
		tgt_peers_empty(reactor);
		if (!tgt_peers_ended(reactor))
			return;
		atomic_store_explicit(&reactor->drained, true, memory_order_release);
		return;
	}
	if (reactor->loop.now_ns < reactor->drain_until_ns && !tgt_work_is_idle(&reactor->loop))
		return;
	TAILQ_FOREACH_SAFE(session, &reactor->sessions, link, following)
		if (!session->ending)
			tgt_session_drain(session, "the target is shutting down");
}

static void reactor_timers(struct tgt_reactor *reactor)
{
	struct tgt_loop *loop = &reactor->loop;

	if (loop->now_ns < loop->timer_ns)
		return;
	/* Each sets its next deadline. */
	loop->timer_ns = UINT64_MAX;
	tgt_keepalive_check(reactor);
	tgt_work_check_taken(loop);
	tgt_session_expire(reactor, NULL);
	tgt_login_expire(reactor);
	tgt_work_expire(loop);
	if (!TAILQ_EMPTY(&loop->starving) || !TAILQ_EMPTY(&loop->bounded))
		tgt_loop_timer(loop, loop->now_ns + 10 * TIMER_NS);
	if (loop->timer_ns < loop->now_ns + TIMER_NS)
		loop->timer_ns = loop->now_ns + TIMER_NS;
}

static void reactor_go_on(struct tgt_reactor *reactor)
{
	struct tgt_pending *pending, *following;

	TAILQ_FOREACH_SAFE(pending, &reactor->pending, link, following)
		pending->go_on(pending);
}

/* All but submitting to the ring: a reactor that sleeps does that by the call that waits. */
static unsigned int reactor_turn(struct tgt_reactor *reactor)
{
	unsigned int work = 0;

	reactor->loop.now_ns = env_now_ns();
	for (unsigned int i = 0; i < reactor->fabric_count; i++) {
		work += reactor_poll_fabric(&reactor->fabrics[i]);
		work += reactor_poll_events(reactor, &reactor->fabrics[i]);
	}
	reactor->polled = work;
	if (reactor->ring)
		work += tgt_ring_reap(reactor->ring, REAP_BUDGET);
	work += tgt_work_resume(&reactor->loop);
	work += tgt_throttle_resume(&reactor->loop);
	tgt_work_feed(&reactor->loop);
	reactor_timers(reactor);
	work += tgt_session_bury(reactor);
	if (reactor->retire)
		tgt_device_retire_all(reactor);
	if (reactor->rejudge)
		tgt_login_retry(reactor);
	reactor_go_on(reactor);
	tgt_work_post(&reactor->loop);
	if (reactor->loop.draining)
		reactor_step_drain(reactor);
	return work;
}

unsigned int tgt_reactor_step(struct tgt_reactor *reactor)
{
	unsigned int work = reactor_turn(reactor);

	if (reactor->ring)
		tgt_ring_submit(reactor->ring);
	return work;
}

static uint64_t sooner(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

uint64_t tgt_reactor_deadline_ns(const struct tgt_reactor *reactor)
{
	const struct tgt_loop *loop = &reactor->loop;
	uint64_t deadline_ns = loop->timer_ns;

	if (tgt_work_has_more(loop) || reactor->rejudge)
		return loop->now_ns;
	if (!TAILQ_EMPTY(&loop->limited))
		deadline_ns = sooner(deadline_ns, loop->limited_ns);
	/* Their waits may end on another reactor, which does not know of them. */
	if (!TAILQ_EMPTY(&reactor->pending) || loop->draining)
		deadline_ns = sooner(deadline_ns, loop->now_ns + TIMER_NS);
	if (!TAILQ_EMPTY(&loop->starving))
		deadline_ns = sooner(deadline_ns, loop->now_ns + 10 * TIMER_NS);
	for (unsigned int i = 0; i < reactor->fabric_count; i++) {
		int timeout_ms = fab_timeout_ms(reactor->fabrics[i].fab);

		if (timeout_ms >= 0)
			deadline_ns = sooner(deadline_ns, loop->now_ns + (uint64_t)timeout_ms * 1000000);
	}
	return deadline_ns;
}

bool tgt_reactor_drained(const struct tgt_reactor *reactor)
{
	return atomic_load_explicit(&reactor->drained, memory_order_acquire);
}

/* -- the thread -------------------------------------------------------------------------------- */

/* The ring sends it by the call in which the reactor sleeps, for one fab at a time; other fabs send by themselves. */
static void reactor_send(struct tgt_reactor *reactor, struct fab *fab, const struct fab_send *send)
{
	if (reactor->sender || !tgt_ring_sendmsg(reactor->ring, send->fd, send->message)) {
		fab_sent(fab, FAB_UNSENT);
		return;
	}
	reactor->sender = fab;
	reactor->sender_bytes = send->bytes;
}

/* The ring was submitted. To be called before anything else is done with the fab. */
static void reactor_send_done(struct tgt_reactor *reactor)
{
	if (reactor->sender)
		fab_sent(reactor->sender, tgt_ring_sent(reactor->ring, reactor->sender_bytes));
	reactor->sender = NULL;
}

/* Arms every source to wake the ring. False: something is there already. */
static bool reactor_arm(struct tgt_reactor *reactor)
{
	for (unsigned int i = 0; i < reactor->fabric_count; i++) {
		struct fab *fab = reactor->fabrics[i].fab;
		struct fab_send send;

		if (fab_arm_to_send(fab, &send) != 0)
			return false;
		if (send.message)
			reactor_send(reactor, fab, &send);
	}
	return true;
}

/* Only this thread writes, so that no turn has to lock the bus. */
static void reactor_add_busy(struct tgt_reactor *reactor, uint64_t ns)
{
	atomic_store_explicit(&reactor->busy_ns, atomic_load_explicit(&reactor->busy_ns, memory_order_relaxed) + ns,
			      memory_order_relaxed);
}

/* False: there is something to do. */
static bool reactor_sleep(struct tgt_reactor *reactor)
{
	uint64_t deadline_ns = tgt_reactor_deadline_ns(reactor);
	uint64_t now_ns = env_now_ns();
	int timeout_ms = -1, err;

	if (deadline_ns <= now_ns || !reactor_arm(reactor))
		return false;
	/* Rounded up: a millisecond too early would be a turn for nothing. */
	if (deadline_ns != UINT64_MAX)
		timeout_ms = (int)((sooner(deadline_ns - now_ns, SLEEP_NS_MAX) + 999999) / 1000000);
	if (reactor->was_busy)
		reactor_add_busy(reactor, env_now_ns() - reactor->turn_began_ns);
	reactor->was_busy = false;
	err = tgt_ring_wait(reactor->ring, timeout_ms);
	if (err)
		tgt_log_limited(&reactor->loop.log_limit, TGT_LOG_ERROR, "reactor %u: io_uring: %s",
				reactor->index, strerror(-err));
	return true;
}

/*
 * May the reactor sleep right after a turn that did so much? Yes, if all of it was completions of the fabrics and the
 * next turn has nothing to do but send: arming sends, and what has arrived since wakes the ring. Where the ring
 * has more than one operation, others are likely to come before the turn that finds none, and each would be a wake-up.
 */
static bool reactor_may_sleep(const struct tgt_reactor *reactor, unsigned int work)
{
	const struct tgt_loop *loop = &reactor->loop;

	return work == reactor->polled && tgt_ring_inflight(reactor->ring) <= 1 &&
	       core_spin_sleeps(&reactor->spin, loop->now_ns) && TAILQ_EMPTY(&reactor->ended) &&
	       TAILQ_EMPTY(&reactor->pending) && TAILQ_EMPTY(&loop->starving) && TAILQ_EMPTY(&loop->bounded) &&
	       TAILQ_EMPTY(&loop->limited) && !reactor->retire && !loop->draining;
}

uint64_t tgt_reactor_busy_ns(const struct tgt_reactor *reactor)
{
	return atomic_load_explicit(&reactor->busy_ns, memory_order_relaxed);
}

static void *reactor_thread(void *argument)
{
	struct tgt_reactor *reactor = argument;

	while (!tgt_reactor_drained(reactor)) {
		unsigned int work = reactor_turn(reactor);
		bool slept = false;

		/* A turn is as long as until the next one, or until the sleep that follows. */
		if (reactor->was_busy)
			reactor_add_busy(reactor, reactor->loop.now_ns - reactor->turn_began_ns);
		reactor->turn_began_ns = reactor->loop.now_ns;
		reactor->was_busy = work;
		if (core_spin_turn(&reactor->spin, reactor->loop.now_ns, work) ||
		    (reactor_may_sleep(reactor, work) && core_spin_turn(&reactor->spin, reactor->loop.now_ns, 0)))
			slept = reactor_sleep(reactor);
		else if (!work)
			env_yield();
		if (!slept)
			tgt_ring_submit(reactor->ring);
		reactor_send_done(reactor);
	}
	return NULL;
}

int tgt_reactor_start(struct tgt_reactor *reactor)
{
	char name[16];
	int err;

	tgt_peers_join(reactor);
	err = pthread_create(&reactor->thread, NULL, reactor_thread, reactor);
	if (err) {
		tgt_peers_leave(reactor);
		return -err;
	}
	reactor->started = true;
	tgt_gateways_begin(reactor);
	snprintf(name, sizeof(name), "reactor-%u", reactor->index);
	pthread_setname_np(reactor->thread, name);
	return 0;
}
