/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection's queue pair: made, moved from state to state, destroyed. fabric_verbs_conn.c has the
 * connection's own states, and says when.
 *
 * The driver takes up to milliseconds to make or to destroy one. A fab with `helper` has that done by
 * another thread, for connections that are accepted, and for the end of all. While that has the queue
 * pair, conn->qp is NULL, so nobody here touches it.
 */
#include "proto/fabric/fabric_verbs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/*
 * How long a sender waits after its message found no receive: 0.64 ms, encoded as in the IB
 * specification. rdma_cm's own choice, 0, means 655 ms.
 */
#define VERBS_RNR_TIMER 12

/* Reserved: bits of the kernel's own that rdma_cm lets through and no driver accepts. */
#define VERBS_QP_MASK_KERNEL (7u << 21)

/* Move to `state` with the attributes that the cm has for it. Any thread. */
static int verbs_qp_modify(const struct verbs_conn *conn, struct rdma_cm_id *id, struct ibv_qp *qp,
			   enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;
	int err;

	if (rdma_init_qp_attr(id, &attr, &mask))
		return -errno;
	mask &= ~(int)VERBS_QP_MASK_KERNEL;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		attr.min_rnr_timer = VERBS_RNR_TIMER;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = conn->read_in;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = conn->head.read_out;
	err = ibv_modify_qp(qp, &attr, mask);
	return -err;
}

/* A failure is not reported: a device that cannot do even this is being removed. */
void verbs_conn_flush(struct verbs_conn *conn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (conn->qp)
		ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);
}

/* Any thread. */
static int verbs_qp_start(const struct verbs_conn *conn, struct ibv_qp *qp)
{
	int err;

	/* iWARP: the kernel moves the queue pair with the handshake. */
	if (verbs_device(conn->head.device)->iwarp)
		return 0;
	/* INIT again: the cm knows only now which accesses the peer gets. */
	err = verbs_qp_modify(conn, conn->id, qp, IBV_QPS_INIT);
	if (!err)
		err = verbs_qp_modify(conn, conn->id, qp, IBV_QPS_RTR);
	if (!err)
		err = verbs_qp_modify(conn, conn->id, qp, IBV_QPS_RTS);
	return err;
}

int verbs_conn_start_qp(struct verbs_conn *conn)
{
	return verbs_qp_start(conn, conn->qp);
}

bool verbs_conn_has_srq(const struct verbs_conn *conn)
{
	return verbs_device(conn->head.device)->srq;
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

/* -- making ----------------------------------------------------------------------------------- */

static struct ibv_qp *verbs_qp_create(struct verbs_conn *conn, uint32_t *inline_bytes)
{
	const struct verbs_device *device = verbs_device(conn->head.device);
	bool srq = verbs_conn_has_srq(conn);
	struct ibv_qp_init_attr init = {
		.qp_context = conn,
		.send_cq = device->sends.cq ? device->sends.cq : device->receives.cq,
		.recv_cq = device->receives.cq,
		.srq = srq ? device->srq : NULL,
		.cap =
			{
				/* Room for all that the caller posts, and one marker. */
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
	while (!(qp = ibv_create_qp(device->pd, &init))) {
		if (init.cap.max_inline_data == 0 || (errno != EINVAL && errno != ENOMEM))
			return NULL;
		init.cap.max_inline_data /= 2;
	}
	*inline_bytes = init.cap.max_inline_data;
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

/* One in INIT. Any thread. */
static void verbs_qp_make(struct verbs_conn *conn, struct rdma_cm_id *id, struct verbs_made *made)
{
	made->err = 0;
	made->step = "queue pair";
	made->qp = verbs_qp_create(conn, &made->inline_bytes);
	if (!made->qp) {
		made->err = errno ? -errno : -EIO;
		return;
	}
	made->step = "queue pair to INIT";
	made->err = verbs_qp_modify(conn, id, made->qp, IBV_QPS_INIT);
}

/* The connection has what was made, or err says why not. */
static int verbs_conn_adopt(struct verbs_conn *conn, const struct verbs_made *made)
{
	struct verbs_device *device = verbs_device(conn->head.device);
	const char *step = made->step;
	int err = made->err;

	if (!err) {
		conn->head.qp_num = verbs_qp_num(device, made->qp->qp_num);
		step = "connection table";
		err = verbs_conn_enter(conn);
	}
	if (err) {
		if (made->qp)
			ibv_destroy_qp(made->qp);
		conn->head.qp_num = 0;
		return verbs_conn_fail_qp(conn, err, step);
	}
	conn->qp = made->qp;
	conn->head.inline_bytes = made->inline_bytes;
	conn->postable = conn->state < VERBS_CONN_DRAINING;
	return 0;
}

static void verbs_conn_leave_device(struct verbs_conn *conn)
{
	verbs_device(conn->head.device)->conns--;
	conn->head.device = NULL;
}

/* The id becomes the connection's only when all has succeeded. */
int verbs_conn_create_qp(struct verbs_conn *conn, struct rdma_cm_id *id,
			 struct verbs_device *device)
{
	struct verbs_made made;
	int err = verbs_conn_check_options(conn, device);

	if (err)
		return err;
	conn->head.device = &device->head;
	device->conns++;
	if (!(conn->state == VERBS_CONN_ACCEPTED && conn->head.fab->options.helper && verbs_conn_has_srq(conn))) {
		verbs_qp_make(conn, id, &made);
		err = verbs_conn_adopt(conn, &made);
	}
	if (err)
		verbs_conn_leave_device(conn);
	return err;
}

/* -- destroying ------------------------------------------------------------------------------- */

void verbs_conn_destroy_qp(struct verbs_conn *conn)
{
	if (!conn->head.device)
		return;
	assert(!conn->job.active);
	fab_conn_table_remove(conn->head.fab, &conn->head);
	if (conn->qp)
		ibv_destroy_qp(conn->qp);
	conn->qp = NULL;
	verbs_conn_leave_device(conn);
}

/* -- on the user's helper ------------------------------------------------------------------ */

static struct verbs_job *verbs_job(struct fab_job *head)
{
	return (struct verbs_job *)head;
}

static void verbs_job_begin(struct verbs_conn *conn, void (*run)(struct fab_job *job),
			    void (*end)(struct fab_job *job))
{
	const struct fab_options *options = &conn->head.fab->options;
	struct verbs_job *job = &conn->job;

	assert(!job->active);
	job->head = (struct fab_job){.run = run, .end = end};
	job->conn = conn;
	job->active = true;
	if (options->helper && options->helper(&job->head, options->helper_user))
		return;
	run(&job->head);
	end(&job->head);
}

static void verbs_make_run(struct fab_job *head)
{
	struct verbs_conn *conn = verbs_job(head)->conn;
	struct verbs_made *made = &verbs_job(head)->made;

	verbs_qp_make(conn, conn->id, made);
	if (made->err)
		return;
	made->step = "queue pair to RTS";
	made->err = verbs_qp_start(conn, made->qp);
}

static void verbs_make_end(struct fab_job *head)
{
	struct verbs_job *job = verbs_job(head);

	job->active = false;
	verbs_conn_qp_made(job->conn, verbs_conn_adopt(job->conn, &job->made));
}

void verbs_qp_begin_make(struct verbs_conn *conn)
{
	verbs_job_begin(conn, verbs_make_run, verbs_make_end);
}

static void verbs_destroy_run(struct fab_job *head)
{
	ibv_destroy_qp(verbs_job(head)->made.qp);
}

static void verbs_destroy_end(struct fab_job *head)
{
	struct verbs_job *job = verbs_job(head);

	job->active = false;
	verbs_conn_qp_destroyed(job->conn);
}

void verbs_qp_begin_destroy(struct verbs_conn *conn)
{
	conn->job.made.qp = conn->qp;
	conn->qp = NULL;
	verbs_job_begin(conn, verbs_destroy_run, verbs_destroy_end);
}
