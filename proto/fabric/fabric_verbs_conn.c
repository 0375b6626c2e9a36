/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection: its states, its queue pair, and its end. fabric_verbs_cm.c creates it and tells it
 * what the peer did; polling tells it of failed work requests; the caller closes and destroys it.
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

/*
 * How long a sender waits after its message found no receive: 0.64 ms, encoded as in the IB
 * specification. rdma_cm's own choice, 0, means 655 ms.
 */
#define VERBS_RNR_TIMER 12

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

/* -- the queue pair --------------------------------------------------------------------------- */

/* Reserved: bits of the kernel's own that rdma_cm lets through and no driver accepts. */
#define VERBS_QP_MASK_KERNEL (7u << 21)

/* Move to `state` with the attributes that the cm has for it. */
static int verbs_qp_modify(struct verbs_conn *conn, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;
	int err;

	if (rdma_init_qp_attr(conn->id, &attr, &mask))
		return -errno;
	mask &= ~(int)VERBS_QP_MASK_KERNEL;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		attr.min_rnr_timer = VERBS_RNR_TIMER;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = conn->read_in;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = conn->head.read_out;
	err = ibv_modify_qp(conn->qp, &attr, mask);
	return -err;
}

/* A failure is not reported: a device that cannot do even this is being removed. */
static void verbs_qp_set_plain_state(struct verbs_conn *conn, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	if (conn->qp)
		ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);
}

/* A software device flushes receives only when told: from ERR to ERR is always allowed. */
void verbs_conn_flush(struct verbs_conn *conn)
{
	verbs_qp_set_plain_state(conn, IBV_QPS_ERR);
}

int verbs_conn_start_qp(struct verbs_conn *conn)
{
	int err;

	/* iWARP: the kernel moves the queue pair with the handshake. */
	if (verbs_device(conn->head.device)->iwarp)
		return 0;
	/* INIT again: the cm knows only now which accesses the peer gets. */
	err = verbs_qp_modify(conn, IBV_QPS_INIT);
	if (!err)
		err = verbs_qp_modify(conn, IBV_QPS_RTR);
	if (!err)
		err = verbs_qp_modify(conn, IBV_QPS_RTS);
	return err;
}

static bool verbs_conn_has_srq(const struct verbs_conn *conn)
{
	return verbs_device(conn->head.device)->srq && !conn->pd;
}

static int verbs_conn_check_options(struct verbs_conn *conn, const struct verbs_device *device)
{
	const struct fab_limits *limits = &device->head.limits;
	const struct fab_conn_options *options = &conn->options;
	struct fab *fab = conn->head.fab;

	if (options->send_depth > limits->max_send_wr)
		return fab_fail(fab, -EINVAL, "%s: %u sends wanted, a queue pair of %s has %u",
				conn->head.peer, options->send_depth, device->head.name,
				limits->max_send_wr);
	if (options->recv_depth > limits->max_recv_wr)
		return fab_fail(fab, -EINVAL, "%s: %u receives wanted, a queue pair of %s has %u",
				conn->head.peer, options->recv_depth, device->head.name,
				limits->max_recv_wr);
	/* send_sge is bounded to what the device has: a connecting caller cannot know it before. */
	if (fab->options.recv_sge > limits->max_sge)
		return fab_fail(fab, -EINVAL, "%s: receives of %u segments wanted, %s has %u",
				conn->head.peer, fab->options.recv_sge, device->head.name,
				limits->max_sge);
	return 0;
}

static uint32_t verbs_conn_send_sge(const struct verbs_conn *conn,
				    const struct verbs_device *device)
{
	uint32_t wanted = conn->options.send_sge ? conn->options.send_sge : 1;
	uint32_t most = device->head.limits.max_sge;

	return wanted < most ? wanted : most;
}

static struct ibv_qp *verbs_qp_create(struct verbs_conn *conn, struct verbs_device *device)
{
	bool srq = verbs_conn_has_srq(conn);
	struct ibv_qp_init_attr init = {
		.qp_context = conn,
		.send_cq = device->cq,
		.recv_cq = device->cq,
		.srq = srq ? device->srq : NULL,
		.cap =
			{
				/* What the caller posts and one marker. */
				.max_send_wr = conn->options.send_depth + 1,
				.max_recv_wr = srq ? 0 : conn->options.recv_depth + 1,
				.max_send_sge = verbs_conn_send_sge(conn, device),
				.max_recv_sge = srq ? 0 : conn->head.fab->options.recv_sge,
				.max_inline_data = conn->options.inline_bytes,
			},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;

	/* No limit is published for inline data: ask for less until the device agrees. */
	while (!(qp = ibv_create_qp(conn->pd ? conn->pd : device->pd, &init))) {
		if (init.cap.max_inline_data == 0 || (errno != EINVAL && errno != ENOMEM))
			return NULL;
		init.cap.max_inline_data /= 2;
	}
	conn->head.inline_bytes = init.cap.max_inline_data;
	return qp;
}

static int verbs_conn_fail_qp(struct verbs_conn *conn, int err, const char *what)
{
	return fab_fail(conn->head.fab, err, "%s: %s: %s", conn->head.peer, what, strerror(-err));
}

/*
 * A drained connection keeps its number until it is destroyed, for completions that were polled
 * and not yet looked at; the device may have given the number to this one meanwhile.
 */
static int verbs_conn_enter(struct verbs_conn *conn)
{
	struct fab *fab = conn->head.fab;
	struct fab_conn *old = fab_conn_find(fab, conn->head.qp_num);

	if (old && !verbs_conn(old)->qp)
		fab_conn_table_remove(fab, old);
	return fab_conn_table_insert(fab, &conn->head);
}

/* The id becomes the connection's only when all has succeeded. */
int verbs_conn_create_qp(struct verbs_conn *conn, struct rdma_cm_id *id,
			 struct verbs_device *device)
{
	struct rdma_cm_id *own_id = conn->id;
	int err = verbs_conn_check_options(conn, device);

	if (err)
		return err;
	conn->head.device = &device->head;
	device->conns++;
	if (conn->options.private_domain) {
		conn->pd = ibv_alloc_pd(device->context);
		if (!conn->pd) {
			err = verbs_conn_fail_qp(conn, -errno, "protection domain");
			goto err_device;
		}
	}
	conn->qp = verbs_qp_create(conn, device);
	if (!conn->qp) {
		err = verbs_conn_fail_qp(conn, -errno, "queue pair");
		goto err_dealloc_pd;
	}
	conn->head.qp_num = verbs_qp_num(device, conn->qp->qp_num);
	conn->id = id;
	err = verbs_qp_modify(conn, IBV_QPS_INIT);
	conn->id = own_id;
	if (err) {
		err = verbs_conn_fail_qp(conn, err, "queue pair to INIT");
		goto err_destroy_qp;
	}
	err = verbs_conn_enter(conn);
	if (err) {
		err = verbs_conn_fail_qp(conn, err, "connection table");
		goto err_destroy_qp;
	}
	conn->postable = true;
	return 0;

err_destroy_qp:
	ibv_destroy_qp(conn->qp);
	conn->qp = NULL;
	conn->head.qp_num = 0;
err_dealloc_pd:
	if (conn->pd)
		ibv_dealloc_pd(conn->pd);
	conn->pd = NULL;
err_device:
	device->conns--;
	conn->head.device = NULL;
	return err;
}

/* Waits for the driver. */
static void verbs_qp_destroy(struct verbs_conn *conn)
{
	if (conn->qp)
		ibv_destroy_qp(conn->qp);
	conn->qp = NULL;
}

/* What verbs_conn_create_qp() made; a queue pair already destroyed by the drain is none. */
void verbs_conn_destroy_qp(struct verbs_conn *conn)
{
	struct verbs_device *device = conn->head.device ? verbs_device(conn->head.device) : NULL;

	if (!device)
		return;
	assert(conn->private_mrs == 0 && "fab_mr_deregister() comes before fab_conn_destroy()");
	fab_conn_table_remove(conn->head.fab, &conn->head);
	verbs_qp_destroy(conn);
	if (conn->pd)
		ibv_dealloc_pd(conn->pd);
	conn->pd = NULL;
	conn->head.device = NULL;
	device->conns--;
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
	verbs_qp_set_plain_state(conn, IBV_QPS_ERR);
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
		verbs_qp_destroy(conn);
		conn->drain = VERBS_DRAIN_DESTROYED;
		verbs_conn_want_poll(conn, true);
		return;
	case VERBS_DRAIN_DESTROYED:
		if (conn->empties == device->empties)
			return;
		verbs_conn_want_poll(conn, false);
		verbs_conn_drained(conn);
		return;
	}
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
	if (!conn->qp) {
		verbs_conn_drained(conn);
		return;
	}
	verbs_qp_set_plain_state(conn, IBV_QPS_ERR);
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

/* The deadline of the present state has passed. */
void verbs_conn_expire(struct verbs_conn *conn)
{
	verbs_conn_set_deadline(conn, 0);
	if (conn->state == VERBS_CONN_RESOLVING || conn->state == VERBS_CONN_CONNECTING) {
		verbs_conn_break(conn, FAB_EVENT_FAILED, -ETIMEDOUT,
				 "connect to %s: no answer within %u ms%s", conn->head.peer,
				 conn->options.timeout_ms,
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
