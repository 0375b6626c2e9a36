/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection: its states and its end. fabric_verbs_cm.c creates it and tells it what the peer did;
 * polling tells it of failed work requests; the caller closes and destroys it. fabric_verbs_qp.c has
 * its queue pair.
 *
 * The drain is what F4 and F5 rest on: when DRAINED is delivered, the device reads and writes no
 * memory for this queue pair any more, and the caller has had every completion of it. It takes:
 *  1. the queue pair in ERR, so that the device flushes what is posted;
 *  2. a marker as the last work request of each queue: its completion comes behind all others;
 *  3. with an SRQ, where no marker can say so, the device's LAST_WQE_REACHED event;
 *  4. the CQ polled empty, so that the caller has seen what completed before;
 *  5. the queue pair destroyed, which a driver does not return from before its own work on it has
 *     stopped, and the CQ polled empty once more. (RESET would promise the same; Soft-RoCE's races
 *     with a peer on the same host that still sends, and corrupts its reference counts.)
 */
#include "proto/fabric/fabric_verbs.h"
#include "proto/core/env.h"
#include "proto/words/units.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000ull

/* A device that flushes does it within milliseconds; one that died never does. */
#define VERBS_DRAIN_MARKERS_MS 2000

/*
 * LAST_WQE_REACHED comes at once where it comes. Soft-RoCE before Linux 6.4 never raises it:
 * the first such wait tells, and later drains on that device do without.
 */
#define VERBS_DRAIN_LAST_WQE_MS 20

/* -- states ----------------------------------------------------------------------------------- */

#define TO(state) (1u << VERBS_CONN_##state)

/* Where each state may lead. */
static const unsigned int verbs_conn_next[VERBS_CONN_STATES] = {
	[VERBS_CONN_RESOLVING] = TO(CONNECTING) | TO(BROKEN) | TO(DRAINING),
	[VERBS_CONN_CONNECTING] = TO(ESTABLISHED) | TO(BROKEN) | TO(DRAINING),
	[VERBS_CONN_ACCEPTED] = TO(ESTABLISHING) | TO(BROKEN) | TO(DRAINING),
	[VERBS_CONN_ESTABLISHING] = TO(ESTABLISHED) | TO(BROKEN) | TO(DRAINING),
	[VERBS_CONN_ESTABLISHED] = TO(BROKEN) | TO(DRAINING),
	[VERBS_CONN_BROKEN] = TO(DRAINING),
	[VERBS_CONN_DRAINING] = TO(DRAINED),
	[VERBS_CONN_DRAINED] = 0,
};

#undef TO

static const char *const verbs_conn_state_names[VERBS_CONN_STATES] = {
	[VERBS_CONN_RESOLVING] = "resolving",	  [VERBS_CONN_CONNECTING] = "connecting",
	[VERBS_CONN_ACCEPTED] = "accepted",	  [VERBS_CONN_ESTABLISHING] = "establishing",
	[VERBS_CONN_ESTABLISHED] = "established", [VERBS_CONN_BROKEN] = "broken",
	[VERBS_CONN_DRAINING] = "draining",	  [VERBS_CONN_DRAINED] = "drained",
};

/* A connection that has ended already continues its teardown. */
bool verbs_conn_set_state(struct verbs_conn *conn, enum verbs_conn_state state)
{
	enum verbs_conn_state from = conn->state;

	if (verbs_conn_next[from] & (1u << state)) {
		conn->state = state;
		return true;
	}
	fab_fail(conn->head.fab, -EPROTO, "connection to %s: from %s to %s: no such transition",
		 conn->head.peer, verbs_conn_state_names[from], verbs_conn_state_names[state]);
	if (from < VERBS_CONN_BROKEN)
		verbs_conn_break(conn,
				 from < VERBS_CONN_ACCEPTED ? FAB_EVENT_FAILED
							    : FAB_EVENT_DISCONNECTED,
				 -EPROTO, "%s", conn->head.fab->error);
	return false;
}

void verbs_conn_set_deadline(struct verbs_conn *conn, uint64_t deadline_ns)
{
	struct verbs_fab *fab = verbs_conn_fab(conn);

	if (deadline_ns && !conn->timed)
		TAILQ_INSERT_TAIL(&fab->timed, conn, timed_entry);
	else if (!deadline_ns && conn->timed)
		TAILQ_REMOVE(&fab->timed, conn, timed_entry);
	conn->timed = deadline_ns != 0;
	conn->deadline_ns = deadline_ns;
}

static void verbs_conn_clear_events(struct verbs_conn *conn)
{
	if (conn->ready)
		TAILQ_REMOVE(&verbs_conn_fab(conn)->ready, conn, ready_entry);
	conn->ready = false;
	conn->events = 0;
}

void verbs_conn_raise(struct verbs_conn *conn, enum fab_event_type type)
{
	conn->events |= 1u << type;
	if (!conn->ready)
		TAILQ_INSERT_TAIL(&verbs_conn_fab(conn)->ready, conn, ready_entry);
	conn->ready = true;
}

struct verbs_conn *verbs_conn_alloc(struct verbs_fab *fab, const struct fab_conn_options *options,
				    enum verbs_conn_state state)
{
	struct verbs_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->head.fab = &fab->head;
	conn->head.user = options->user;
	conn->options = *options;
	conn->options.private_data = conn->private_data;
	conn->options.source = NULL; /* the caller's */
	conn->state = state;
	TAILQ_INSERT_TAIL(&fab->conns, conn, all_entry);
	return conn;
}

/* The queue pair and the id are destroyed already. */
void verbs_conn_free(struct verbs_conn *conn)
{
	struct verbs_fab *fab = verbs_conn_fab(conn);

	verbs_conn_clear_events(conn);
	verbs_conn_set_deadline(conn, 0);
	TAILQ_REMOVE(&fab->conns, conn, all_entry);
	free(conn);
}

/* -- failing ---------------------------------------------------------------------------------- */

void verbs_conn_break(struct verbs_conn *conn, enum fab_event_type type, int status,
		      const char *format, ...)
{
	va_list args;

	/* From every state that has not ended, so this fails where there is nothing to break. */
	if (!verbs_conn_set_state(conn, VERBS_CONN_BROKEN))
		return;
	va_start(args, format);
	vsnprintf(conn->reason, sizeof(conn->reason), format, args);
	va_end(args);
	conn->status = status;
	verbs_conn_set_deadline(conn, 0);
	verbs_conn_flush(conn);
	verbs_conn_raise(conn, type);
}

static const char *verbs_wc_cause(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return ": the peer or its link is down, or packets are lost "
		       "(path MTU, flow control)";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return ": the peer posted no receive for a message in time";
	case IBV_WC_REM_ACCESS_ERR:
		return ": the peer does not expose that memory";
	case IBV_WC_WR_FLUSH_ERR:
		return ": the queue pair went into error";
	default:
		return "";
	}
}

/* A work request failed, not one of ours: the queue pair is in ERR. */
void verbs_conn_error(struct verbs_conn *conn, const struct ibv_wc *wc)
{
	if (conn->state < VERBS_CONN_CONNECTING || conn->state >= VERBS_CONN_BROKEN)
		return;
	/* iWARP's queue pair goes to ERR with the peer's rejection: its event says why. */
	if (conn->state == VERBS_CONN_CONNECTING && wc->status == IBV_WC_WR_FLUSH_ERR &&
	    verbs_device(conn->head.device)->iwarp)
		return;
	verbs_conn_break(conn,
			 conn->state == VERBS_CONN_CONNECTING ? FAB_EVENT_FAILED
							      : FAB_EVENT_DISCONNECTED,
			 wc->status == IBV_WC_RETRY_EXC_ERR ? -ETIMEDOUT : -ECONNABORTED,
			 "connection to %s: %s%s", conn->head.peer, ibv_wc_status_str(wc->status),
			 verbs_wc_cause(wc->status));
}

/* -- draining --------------------------------------------------------------------------------- */

static void verbs_conn_want_poll(struct verbs_conn *conn, bool wanted)
{
	struct verbs_fab *fab = verbs_conn_fab(conn);

	if (wanted && !conn->polls_wanted)
		fab->polls_wanted++;
	else if (!wanted && conn->polls_wanted)
		fab->polls_wanted--;
	conn->polls_wanted = wanted;
	if (wanted)
		conn->empties = verbs_device(conn->head.device)->empties;
}

static void verbs_conn_drained(struct verbs_conn *conn)
{
	verbs_conn_set_deadline(conn, 0);
	if (verbs_conn_set_state(conn, VERBS_CONN_DRAINED))
		verbs_conn_raise(conn, FAB_EVENT_DRAINED);
}

static bool verbs_conn_await_last_wqe(const struct verbs_conn *conn)
{
	const struct verbs_device *device = verbs_device(conn->head.device);

	return verbs_conn_has_srq(conn) && !conn->last_wqe && !device->gone && !device->iwarp &&
	       device->last_wqe != VERBS_LAST_WQE_NEVER;
}

/* Continue the drain from its present step, as far as possible. */
void verbs_conn_drain(struct verbs_conn *conn)
{
	const struct verbs_device *device = verbs_device(conn->head.device);

	switch (conn->drain) {
	case VERBS_DRAIN_MADE:
	case VERBS_DRAIN_DESTROYING:
		return;
	case VERBS_DRAIN_MARKERS:
		/* A removed device flushes nothing: destroying the queue pair has to suffice. */
		if (conn->markers > 0 && !device->gone)
			return;
		conn->drain = VERBS_DRAIN_LAST_WQE;
		verbs_conn_set_deadline(conn, env_now_ns() + VERBS_DRAIN_LAST_WQE_MS * NS_PER_MS);
		/* fallthrough */
	case VERBS_DRAIN_LAST_WQE:
		if (verbs_conn_await_last_wqe(conn))
			return;
		verbs_conn_set_deadline(conn, 0);
		conn->drain = VERBS_DRAIN_EMPTY;
		verbs_conn_want_poll(conn, true);
		return;
	case VERBS_DRAIN_EMPTY:
		if (conn->empties == device->empties)
			return;
		verbs_conn_want_poll(conn, false);
		conn->drain = VERBS_DRAIN_DESTROYING;
		verbs_qp_begin_destroy(conn);
		return;
	case VERBS_DRAIN_DESTROYED:
		if (conn->empties == device->empties)
			return;
		verbs_conn_want_poll(conn, false);
		verbs_conn_drained(conn);
		return;
	}
}

void verbs_conn_qp_destroyed(struct verbs_conn *conn)
{
	conn->drain = VERBS_DRAIN_DESTROYED;
	verbs_conn_want_poll(conn, true);
}

void verbs_conn_marker(struct verbs_conn *conn)
{
	if (conn->state != VERBS_CONN_DRAINING || conn->markers == 0)
		return;
	conn->markers--;
	if (conn->drain == VERBS_DRAIN_MARKERS)
		verbs_conn_drain(conn);
}

static void verbs_conn_post_markers(struct verbs_conn *conn)
{
	struct ibv_send_wr send = {
		.wr_id = FAB_WR_ID_RESERVED,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_recv_wr recv = {.wr_id = FAB_WR_ID_RESERVED};
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv;

	/* A queue that the caller overfilled takes no marker: then its destruction alone is the
	 * barrier. */
	if (ibv_post_send(conn->qp, &send, &bad_send) == 0)
		conn->markers++;
	if (!verbs_conn_has_srq(conn) && ibv_post_recv(conn->qp, &recv, &bad_recv) == 0)
		conn->markers++;
}

/* Closed by the caller, and no other thread has the queue pair. */
static void verbs_conn_begin_drain(struct verbs_conn *conn, bool connected)
{
	if (!conn->qp) {
		verbs_conn_drained(conn);
		return;
	}
	verbs_conn_flush(conn);
	/* Fails if the peer has disconnected or was never connected: no message is needed then. */
	if (connected)
		rdma_disconnect(conn->id);
	/*
	 * Markers posted now would not come back without it. There, polling until the completion
	 * queue is empty and destroying the queue pair have to do.
	 */
	if (conn->head.device->limits.late_flush) {
		verbs_conn_post_markers(conn);
		verbs_conn_flush(
			conn); /* the marker was not there when the queue pair went to ERR */
	}
	conn->drain = VERBS_DRAIN_MARKERS;
	verbs_conn_set_deadline(conn, env_now_ns() + VERBS_DRAIN_MARKERS_MS * NS_PER_MS);
	verbs_conn_drain(conn);
}

void verbs_conn_close(struct fab_conn *head)
{
	struct verbs_conn *conn = verbs_conn(head);
	bool connected = conn->state == VERBS_CONN_ESTABLISHING ||
			 conn->state == VERBS_CONN_ESTABLISHED || conn->state == VERBS_CONN_BROKEN;

	if (conn->state >= VERBS_CONN_DRAINING)
		return;
	/* The caller has closed it: of all events it still gets only DRAINED. */
	verbs_conn_clear_events(conn);
	if (!verbs_conn_set_state(conn, VERBS_CONN_DRAINING))
		return;
	conn->postable = false;
	conn->drain = VERBS_DRAIN_MADE;
	if (!conn->job.active)
		verbs_conn_begin_drain(conn, connected);
}

/* An event that came to the connection meanwhile goes first. */
void verbs_conn_qp_made(struct verbs_conn *conn, int err)
{
	if (conn->state == VERBS_CONN_DRAINING)
		verbs_conn_begin_drain(conn, false);
	else if (conn->state == VERBS_CONN_BROKEN)
		verbs_conn_flush(conn);
	else if (err)
		verbs_conn_break(conn, FAB_EVENT_FAILED, err, "accept %s", conn->head.fab->error);
	else
		verbs_conn_answer(conn);
}

/* The deadline of the present state has passed. */
void verbs_conn_expire(struct verbs_conn *conn)
{
	char text[UNITS_TEXT_BYTES];

	verbs_conn_set_deadline(conn, 0);
	if (conn->state == VERBS_CONN_RESOLVING || conn->state == VERBS_CONN_CONNECTING) {
		verbs_conn_break(conn, FAB_EVENT_FAILED, -ETIMEDOUT,
				 "connect to %s: no answer within %s%s", conn->head.peer,
				 units_text(UNITS_TIME_MS, conn->options.timeout_ms, text),
				 conn->state == VERBS_CONN_RESOLVING
					 ? ": the address or the route to it was not resolved"
					 : "");
	} else if (conn->state == VERBS_CONN_DRAINING && conn->drain == VERBS_DRAIN_MARKERS) {
		conn->markers = 0;
		verbs_conn_drain(conn);
	} else if (conn->state == VERBS_CONN_DRAINING && conn->drain == VERBS_DRAIN_LAST_WQE) {
		struct verbs_device *device = verbs_device(conn->head.device);

		if (device->last_wqe == VERBS_LAST_WQE_UNKNOWN)
			device->last_wqe = VERBS_LAST_WQE_NEVER;
		conn->last_wqe = true;
		verbs_conn_drain(conn);
	}
}

void verbs_conn_destroy(struct fab_conn *head)
{
	struct verbs_conn *conn = verbs_conn(head);

	struct fab_device *device = head->device;

	assert(conn->state == VERBS_CONN_DRAINED);
	verbs_conn_destroy_qp(conn);
	if (conn->id)
		rdma_destroy_id(conn->id);
	verbs_conn_free(conn);
	if (device)
		verbs_device_settle(verbs_device(device));
}
