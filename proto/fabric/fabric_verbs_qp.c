/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection's queue pair: made, moved from state to state, destroyed. fabric_verbs_conn.c has the
 * connection's own states, and says when.
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
void verbs_conn_flush(struct verbs_conn *conn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (conn->qp)
		ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);
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

bool verbs_conn_has_srq(const struct verbs_conn *conn)
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

void verbs_qp_destroy(struct verbs_conn *conn)
{
	if (conn->qp)
		ibv_destroy_qp(conn->qp);
	conn->qp = NULL;
}

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
