/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verbs and the connection manager of rdma.h over the simulated fabric: one device, one fabric for the
 * machine's session. Completions and events come in softirqs, which the agenda runs. mr.c has registered memory.
 */
#include "tests/sim/kernel/mr.h"

#include "proto/wire/wire.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/kernel/module_kernel.h"
#include "tests/sim/random.h"
#include "tests/sim/world.h"

#define POLL_BATCH 8
#define SEND_SGE_MAX 16
/* Longer than anyone waits. */
#define CONNECT_MS 60000u

struct net {
	unsigned int refs, ids, pds;
	struct fab *fab;      /* as long as there is a session */
	struct fab_mr *pages; /* all of them: what the kernel's own SENDs and receives use */
};

static struct net net;
static struct sim_nsproxy nsproxy = { &net };
struct sim_task sim_task = { .nsproxy = &nsproxy };
static struct ib_device device;
static struct device dma_device;
static struct list_head cqs;

static void poll_all(void);

static void *make(size_t bytes)
{
	void *made = calloc(1, bytes);

	if (!made)
		sim_fail("out of memory");
	return made;
}

/* -- the device ------------------------------------------------------------------------------------ */

void sim_rdma_start(void)
{
	memset(&net, 0, sizeof(net));
	sim_mrs_start();
	INIT_LIST_HEAD(&cqs);
	dma_device.mapping = sim_chance(500000) ? SIZE_MAX : (size_t)sim_between(4, 40) * PAGE_SIZE;
	device = (struct ib_device){
		.attrs = {
			.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS,
			.max_send_sge = sim_net.limits.max_sge,
			.max_fast_reg_page_list_len = (u32)sim_between(5, 40),
			.max_qp_wr = sim_net.limits.max_send_wr,
			.max_qp_rd_atom = (int)sim_net.limits.max_read_in,
		},
		.name = "sim0",
		.num_comp_vectors = 1,
		.dma_device = &dma_device,
	};
}

void sim_rdma_stop(void)
{
	sim_mrs_stop();
	if (!list_empty(&cqs) || net.ids || net.pds || net.refs)
		sim_fail("the kernel: not freed: %s%u ids, %u protection domains, %u references to the network",
			 list_empty(&cqs) ? "" : "completion queues, ", net.ids, net.pds, net.refs);
}

struct net *get_net(struct net *of)
{
	of->refs++;
	return of;
}

void put_net(struct net *of)
{
	if (--of->refs || !of->fab)
		return;
	fab_mr_deregister(of->pages);
	fab_close(of->fab);
	of->fab = NULL;
}

uint32_t sim_rdma_session(void)
{
	return net.fab ? ((const struct sim_fab *)net.fab)->serial : 0;
}

void sim_rdma_renew(void)
{
	if (net.fab)
		sim_session_renew((struct sim_fab *)net.fab);
}

struct fab *sim_rdma_fab(void)
{
	return net.fab;
}

const struct fab_device *sim_rdma_side(void)
{
	return &((const struct sim_fab *)net.fab)->device;
}

static void net_open(void)
{
	const struct fab_options options = { .cq_depth = 65536, .recv_sge = 1 };
	char error[FAB_ERROR_BYTES];
	size_t bytes;
	void *pages = sim_kernel_pages(&bytes);

	if (net.fab)
		return;
	net.fab = fab_open(FAB_SIM, &options, error);
	if (!net.fab || fab_mr_register(net.fab, pages, bytes, IBV_ACCESS_LOCAL_WRITE, &net.pages))
		sim_fail("out of memory");
	/* Nothing can be there yet: from now on it interrupts. */
	fab_arm(net.fab);
}

/* -- memory ------------------------------------------------------------------------------------------ */

struct ib_pd *ib_alloc_pd(struct ib_device *ibdev, unsigned int flags)
{
	struct ib_pd *pd = make(sizeof(*pd));

	(void)ibdev;
	(void)flags;
	net.pds++;
	pd->local_dma_lkey = fab_mr_lkey(net.pages, sim_rdma_side());
	return pd;
}

/* What a connection leaves is for the queue's next one, until its session ends. */
void sim_rdma_freed(const void *queue, const char *what)
{
	if (queue && !sim_queue_is_over(queue))
		sim_fail("the kernel: %s: freed, although its device and its session stay", what);
}

void ib_dealloc_pd(struct ib_pd *pd)
{
	sim_rdma_freed(pd->queue, "a protection domain");
	net.pds--;
	free(pd);
}

/* -- completion queues --------------------------------------------------------------------------------- */

struct ib_cq *ib_alloc_cq(struct ib_device *ibdev, void *context, int entries, int vector,
			  enum ib_poll_context poll)
{
	struct ib_cq *cq = make(sizeof(*cq));

	(void)ibdev;
	(void)vector;
	*cq = (struct ib_cq){ .cq_context = context, .cqe = entries, .context = poll };
	INIT_LIST_HEAD(&cq->come);
	list_add_tail(&cq->link, &cqs);
	return cq;
}

void ib_free_cq(struct ib_cq *cq)
{
	if (!list_empty(&cq->come))
		sim_fail("the kernel: a completion queue is freed with completions in it");
	sim_rdma_freed(cq->cq_context, "a completion queue");
	list_del(&cq->link);
	free(cq);
}

static int cq_process(struct ib_cq *cq, int budget)
{
	int found = 0;

	while (found < budget && !list_empty(&cq->come)) {
		struct sim_wc *come = list_first_entry(&cq->come, struct sim_wc, entry);
		struct ib_wc wc = come->wc;

		list_del(&come->entry);
		free(come);
		wc.wr_cqe->done(cq, &wc);
		found++;
	}
	return found;
}

int ib_process_cq_direct(struct ib_cq *cq, int budget)
{
	poll_all();
	return cq_process(cq, budget);
}

static void cq_add(struct ib_cq *cq, const struct ib_wc *wc)
{
	struct sim_wc *come = make(sizeof(*come));

	come->wc = *wc;
	list_add_tail(&come->entry, &cq->come);
}

const char *ib_wc_status_msg(enum ib_wc_status status)
{
	return ibv_wc_status_str((enum ibv_wc_status)status);
}

static void take_completion(const struct ibv_wc *from)
{
	struct fab_conn *conn = fab_conn_find(net.fab, from->qp_num);
	const struct rdma_cm_id *id = fab_conn_user(conn);
	struct ib_wc wc = {
		.wr_cqe = (struct ib_cqe *)(uintptr_t)from->wr_id,
		.status = (enum ib_wc_status)from->status,
		.opcode = from->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? IB_WC_RECV_RDMA_WITH_IMM
			  : from->opcode == IBV_WC_RECV		    ? IB_WC_RECV : IB_WC_SEND,
		.byte_len = from->byte_len,
	};

	if (from->wc_flags & IBV_WC_WITH_IMM) {
		wc.wc_flags |= IB_WC_WITH_IMM;
		wc.ex.imm_data = from->imm_data;
	} else if (from->wc_flags & IBV_WC_WITH_INV) {
		wc.wc_flags |= IB_WC_WITH_INVALIDATE;
		wc.ex.invalidate_rkey = from->invalidated_rkey;
	}
	cq_add(id->qp->cq, &wc);
}

/* -- posting ------------------------------------------------------------------------------------------- */

/* An invalidation of ours, behind which its key is dead. */
struct local {
	struct list_head entry; /* qp->local */
	struct sim_event event;
	struct ib_qp *qp;
	struct ib_mr *mr;
	struct ib_cqe *cqe;
	bool signalled;
};

static void local_end(struct local *local, enum ib_wc_status status)
{
	const struct ib_wc wc = { .wr_cqe = local->cqe, .status = status };

	sim_event_cancel(&local->event);
	list_del(&local->entry);
	if (status == IB_WC_SUCCESS)
		sim_mr_end(local->mr);
	if (local->signalled || status != IB_WC_SUCCESS)
		cq_add(local->qp->cq, &wc);
	free(local);
}

static void on_local(void *arg)
{
	struct local *local = arg, *first;
	struct ib_qp *qp = local->qp;
	bool last;

	/* In ERR it comes back flushed, when the queue pair is drained. */
	if (sim_conn_of(local->qp->id->conn)->state != SIM_CONN_UP)
		return;
	/* They are done in order. */
	do {
		first = list_first_entry(&qp->local, struct local, entry);
		last = first == local;
		local_end(first, IB_WC_SUCCESS);
	} while (!last);
	sim_rdma_interrupt();
}

static void invalidate(struct ib_qp *qp, const struct ib_send_wr *wr)
{
	struct local *local = make(sizeof(*local));

	local->mr = sim_mr_ending(wr->ex.invalidate_rkey);
	local->qp = qp;
	local->cqe = wr->wr_cqe;
	local->signalled = wr->send_flags & IB_SEND_SIGNALED;
	local->event = (struct sim_event){.run = on_local, .arg = local};
	list_add_tail(&local->entry, &qp->local);
	sim_event_in(&local->event, sim_below(sim_chance(900000) ? 10 * SIM_US : SIM_MS));
	sim_reached("module", "a key is ended by the initiator", NULL);
}

static int post_message(struct ib_qp *qp, const struct ib_send_wr *from)
{
	struct ibv_sge sge[SEND_SGE_MAX];
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)from->wr_cqe,
		.sg_list = sge,
		.num_sge = from->num_sge,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	/* The descriptors are the last segment. */
	sim_totals.module_sends++;
	sim_totals.module_commands += from->sg_list[from->num_sge - 1].length / sizeof(struct rblk_wire_command);
	for (int i = 0; i < from->num_sge; i++)
		sge[i] = (struct ibv_sge){ .addr = from->sg_list[i].addr,
					   .length = from->sg_list[i].length,
					   .lkey = from->sg_list[i].lkey };
	return fab_post_send(qp->id->conn, &wr, &bad);
}

int ib_post_send(struct ib_qp *qp, struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	int error = 0;

	(void)bad;
	for (; wr && !error; wr = wr->next) {
		if (wr->opcode == IB_WR_REG_MR)
			sim_mr_begins((const struct ib_reg_wr *)wr);
		else if (wr->opcode == IB_WR_LOCAL_INV)
			invalidate(qp, wr);
		else
			error = post_message(qp, wr);
	}
	return error;
}

/* Of a queue pair that is not connected yet. */
struct early {
	struct list_head entry;
	struct ibv_sge sge;
	uint64_t wr_id;
};

static int receive_post(struct fab_conn *conn, const struct ibv_sge *sge, uint64_t wr_id)
{
	struct ibv_sge copy = *sge;
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &copy, .num_sge = 1 }, *bad;

	return fab_post_recv(conn, &wr, &bad);
}

int ib_post_recv(struct ib_qp *qp, struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct ibv_sge sge = { .addr = wr->sg_list[0].addr, .length = wr->sg_list[0].length,
			       .lkey = wr->sg_list[0].lkey };
	struct early *early;

	(void)bad;
	if (qp->id->conn)
		return receive_post(qp->id->conn, &sge, (uintptr_t)wr->wr_cqe);
	early = make(sizeof(*early));
	early->sge = sge;
	early->wr_id = (uintptr_t)wr->wr_cqe;
	list_add_tail(&early->entry, &qp->early);
	return 0;
}

static int early_end(struct ib_qp *qp, struct fab_conn *conn)
{
	int error = 0;

	while (!list_empty(&qp->early)) {
		struct early *early = list_first_entry(&qp->early, struct early, entry);

		if (conn && !error)
			error = receive_post(conn, &early->sge, early->wr_id);
		list_del(&early->entry);
		free(early);
	}
	return error;
}

/* -- the connection manager ------------------------------------------------------------------------------ */

static void tell(struct rdma_cm_id *id, enum rdma_cm_event_type type, const struct fab_event *from)
{
	struct rdma_cm_event event = { .event = type };

	if (type != RDMA_CM_EVENT_DISCONNECTED)
		id->asks = false;
	if (from) {
		event.status = from->status;
		event.param.conn.private_data = from->private_bytes ? from->private_data : NULL;
		event.param.conn.private_data_len = (u8)from->private_bytes;
	}
	id->handler(id, &event);
}

static void take_event(const struct fab_event *event)
{
	struct rdma_cm_id *id = event->conn ? fab_conn_user(event->conn) : NULL;

	if (!id)
		return;
	switch (event->type) {
	case FAB_EVENT_ESTABLISHED:
		tell(id, RDMA_CM_EVENT_ESTABLISHED, event);
		break;
	case FAB_EVENT_REJECTED:
		tell(id, RDMA_CM_EVENT_REJECTED, event);
		break;
	case FAB_EVENT_FAILED:
		tell(id, RDMA_CM_EVENT_UNREACHABLE, event);
		break;
	case FAB_EVENT_DISCONNECTED:
		tell(id, RDMA_CM_EVENT_DISCONNECTED, event);
		break;
	case FAB_EVENT_DRAINED:
		id->drained = true;
		sim_wake(&id->drained);
		break;
	default:
		break;
	}
}

static void poll_all(void)
{
	struct ibv_wc wc[POLL_BATCH];
	int count;

	while (net.fab && (count = fab_poll(net.fab, wc, POLL_BATCH)) > 0)
		for (int i = 0; i < count; i++)
			take_completion(&wc[i]);
}

void sim_rdma_interrupt(void)
{
	struct fab_event event;
	struct ib_cq *cq;

	do {
		poll_all();
		list_for_each_entry(cq, &cqs, link)
			if (cq->context == IB_POLL_SOFTIRQ)
				cq_process(cq, INT_MAX);
		while (net.fab && fab_poll_event(net.fab, &event) > 0)
			take_event(&event);
	} while (net.fab && fab_arm(net.fab));
	list_for_each_entry(cq, &cqs, link)
		sim_wake(cq);
}

static void on_resolved(void *arg)
{
	struct rdma_cm_id *id = arg;

	id->device = &device;
	tell(id, id->resolves, NULL);
}

struct rdma_cm_id *rdma_create_id(struct net *of, rdma_cm_event_handler handler, void *context,
				  int space, enum ib_qp_type type)
{
	struct rdma_cm_id *id = make(sizeof(*id));

	(void)of;
	(void)space;
	(void)type;
	net.ids++;
	id->handler = handler;
	id->context = context;
	id->resolved = (struct sim_event){.run = on_resolved, .arg = id};
	net_open();
	return id;
}

/*
 * Waits until its handler has ended, and that begins as late as it can: a queue whose login has no answer is refused
 * while the module takes it down.
 */
void rdma_lock_handler(struct rdma_cm_id *id)
{
	if (!id->asks)
		return;
	sim_reached("module", "a login is refused while its connection is taken down", NULL);
	tell(id, RDMA_CM_EVENT_REJECTED, NULL);
}

const void *rdma_consumer_reject_data(struct rdma_cm_id *id, struct rdma_cm_event *event, u8 *bytes)
{
	if (!id)
		sim_fail("the kernel: a refusal is looked at without its id");
	*bytes = event->param.conn.private_data_len;
	return event->param.conn.private_data;
}

void rdma_destroy_id(struct rdma_cm_id *id)
{
	if (id->qp)
		sim_fail("the kernel: an id is destroyed that has a queue pair");
	sim_event_cancel(&id->resolved);
	net.ids--;
	free(id);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	(void)from;
	(void)ms;
	memcpy(&id->address, to, sizeof(id->address));
	id->resolves = RDMA_CM_EVENT_ADDR_RESOLVED;
	sim_event_in(&id->resolved, sim_below(20 * SIM_US));
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	(void)ms;
	id->resolves = RDMA_CM_EVENT_ROUTE_RESOLVED;
	sim_event_in(&id->resolved, sim_below(20 * SIM_US));
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_qp_init_attr *attr)
{
	struct ib_qp *qp = make(sizeof(*qp));

	if (!list_empty(&attr->send_cq->come))
		sim_fail("the kernel: a completion queue has completions of another connection");
	sim_mrs_connected(pd);
	pd->queue = attr->qp_context;
	*qp = (struct ib_qp){ .id = id, .cq = attr->send_cq, .receives = attr->cap.max_recv_wr,
			      .send_depth = attr->cap.max_send_wr, .send_sge = attr->cap.max_send_sge };
	INIT_LIST_HEAD(&qp->early);
	INIT_LIST_HEAD(&qp->local);
	id->qp = qp;
	return 0;
}

static int on_prepare(struct fab_conn *conn, void *user)
{
	struct rdma_cm_id *id = user;

	return early_end(id->qp, conn);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	const struct fab_conn_options options = {
		.send_depth = id->qp->send_depth,
		.recv_depth = id->qp->receives,
		.send_sge = id->qp->send_sge,
		.read_in = (u8)param->responder_resources,
		.read_out = 1,
		.private_data = param->private_data,
		.private_bytes = param->private_data_len,
		.timeout_ms = CONNECT_MS,
		.user = id,
	};

	int error = fab_connect(net.fab, (const struct sockaddr *)&id->address, &options, on_prepare,
				&id->conn);

	id->asks = !error;
	return error;
}

/* Sleeps: into ERR, until everything has come back and its handlers have run. */
void ib_drain_qp(struct ib_qp *qp)
{
	struct rdma_cm_id *id = qp->id;

	sim_might_sleep(__func__);
	if (!id->conn)
		return;
	fab_conn_close(id->conn);
	while (!list_empty(&qp->local))
		local_end(list_first_entry(&qp->local, struct local, entry), IB_WC_WR_FLUSH_ERR);
	for (;;) {
		poll_all();
		cq_process(qp->cq, INT_MAX);
		if (id->drained && list_empty(&qp->cq->come))
			break;
		sim_sleep_on(qp->cq, sim_now_ns() + SIM_MS);
	}
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	sim_queue_goes(id->context);
	early_end(id->qp, NULL);
	if (id->conn)
		fab_conn_destroy(id->conn);
	free(id->qp);
	id->qp = NULL;
}
