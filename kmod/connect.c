// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Connects a queue, step by step, and takes it down: drain, release. Called by the queue's work,
 * which never waits for an answer: that has it run again, for the next step. The connection
 * manager's events arrive on its own thread, and do that, or report the loss; they never free
 * anything. What a login says, and what its answer means, is login.c's.
 */
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "kmod/queue.h"
#include "kmod/call.h"
#include "kmod/session.h"
#include "kmod/drive.h"
#include "kmod/memory.h"
#include "kmod/module.h"
#include "kmod/waiting.h"

/* -- connection manager ------------------------------------------------------------------------ */

const char *rblk_queue_peer(const struct rblk_queue *queue)
{
	return queue->session->options.portals[queue->portal].text;
}

static int rblk_connect_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rblk_queue *queue = id->context;
	char text[RBLK_TEXT_SHORT] = "";

	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		WRITE_ONCE(queue->device_goes, true);
		queue_work(rblk_workqueue, &queue->work);
	}
	if (id == READ_ONCE(queue->device_id))
		return 0; /* of a connection that is closed */
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rblk_queue_connect_next(queue, event->event);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (rblk_login_accepted(queue, &event->param.conn, text))
			rblk_queue_lost(queue, "%s", text);
		else
			rblk_queue_connect_next(queue, event->event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		rblk_queue_lost(queue, "no RDMA device reaches this address");
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		rblk_queue_lost(queue, "no route");
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		rblk_queue_lost(queue, "no answer");
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		rblk_queue_lost(queue, "the handshake failed");
		break;
	case RDMA_CM_EVENT_REJECTED:
		rblk_login_rejected(queue, event);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* A removal waits until every id of the device is destroyed. */
		rblk_queue_lost(queue, "connection ended by the %s",
				event->event == RDMA_CM_EVENT_DISCONNECTED ? "target"
									    : "local device");
		break;
	default:
		break;
	}
	return 0;
}

/* For each command that may be outstanding; at worst it is in a message of its own. */
static u32 rblk_connect_tags(const struct rblk_queue *queue)
{
	return queue->wanted + RBLK_RESERVED_TAGS;
}

/* Per tag a SEND, a registration, an invalidation; the slots' registrations; ib_drain_qp()'s. */
static u32 rblk_connect_send_depth(const struct rblk_queue *queue)
{
	u32 tags = rblk_connect_tags(queue);

	return 3 * tags + rblk_memory_slot_registrations(queue->ibdev, queue->session->slot_bytes,
							 tags) + 1;
}

/* A reply for each command that may be outstanding, and the events; and the spare one. */
static u32 rblk_connect_receive_depth(const struct rblk_queue *queue)
{
	return rblk_connect_tags(queue) + RBLK_EVENT_RECEIVES + 1;
}

/* -- what stays while connections go over the same RDMA device -- */

/* Checks the required limits, with a message: a failed QP creation only returns a number. */
static int rblk_connect_check_device(struct rblk_queue *queue)
{
	const struct ib_device *ibdev = queue->ibdev;
	const struct ib_device_attr *attrs = &ibdev->attrs;
	u32 pages = rblk_memory_pages_needed(queue->session->slot_bytes);
	const char *lacks = NULL;

	if (!(attrs->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		lacks = "no fast registration";
	else if (attrs->max_send_sge < RBLK_MESSAGE_SGE_MIN)
		lacks = "its SENDs have one segment, two are needed";
	else if (attrs->max_fast_reg_page_list_len < pages)
		lacks = "a fast registration has too few pages for a slot";
	else if (rblk_connect_send_depth(queue) > attrs->max_qp_wr)
		lacks = "a queue pair has too few work requests for so many credits";
	if (!lacks)
		return 0;
	rblk_queue_lost(queue, "RDMA device %s: %s", ibdev->name, lacks);
	return -EOPNOTSUPP;
}

static int rblk_connect_make_cq(struct rblk_queue *queue)
{
	u32 depth = rblk_connect_send_depth(queue) + rblk_connect_receive_depth(queue);
	const struct rblk_session *session = queue->session;
	/* In turn, so that not every session's first queue has the first vector. */
	int vector = (session->number * session->queue_count + queue->index) %
		     queue->ibdev->num_comp_vectors;
	struct ib_cq *cq;

	queue->pd = ib_alloc_pd(queue->ibdev, 0);
	if (IS_ERR(queue->pd)) {
		int error = PTR_ERR(queue->pd);

		queue->pd = NULL;
		return error;
	}
	cq = ib_alloc_cq(queue->ibdev, queue, depth, vector,
			 queue->polled ? IB_POLL_DIRECT : IB_POLL_SOFTIRQ);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	queue->cq = cq;
	return 0;
}

static int rblk_connect_make_hardware(struct rblk_queue *queue)
{
	int error;

	if (queue->pd)
		return 0;
	error = rblk_connect_make_cq(queue) ?:
		rblk_memory_create(queue) ?:
		rblk_ring_create(&queue->descriptors, queue->ibdev, rblk_connect_tags(queue),
				 RBLK_DESCRIPTORS_PER_MESSAGE * sizeof(struct rblk_wire_command),
				 DMA_TO_DEVICE) ?:
		rblk_ring_create(&queue->replies, queue->ibdev, rblk_connect_receive_depth(queue),
				 RBLK_REPLY_BYTES, DMA_FROM_DEVICE);
	if (error)
		rblk_queue_release_hardware(queue);
	return error;
}

/* -- what each connection has for itself -- */

static void rblk_connect_qp_event(struct ib_event *event, void *context)
{
	struct rblk_queue *queue = context;

	if (event->event == IB_EVENT_QP_FATAL || event->event == IB_EVENT_QP_REQ_ERR ||
	    event->event == IB_EVENT_QP_ACCESS_ERR)
		rblk_queue_lost(queue, "%s", ib_event_msg(event->event));
}

static int rblk_connect_make_qp(struct rblk_queue *queue)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.event_handler = rblk_connect_qp_event,
		.qp_context = queue,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap.max_send_wr = rblk_connect_send_depth(queue),
		.cap.max_recv_wr = rblk_connect_receive_depth(queue),
		.cap.max_recv_sge = 1,
		.send_cq = queue->cq,
		.recv_cq = queue->cq,
	};
	int error;

	queue->message_sge =
		min_t(unsigned int, RBLK_MESSAGE_SGE, queue->ibdev->attrs.max_send_sge);
	attr.cap.max_send_sge = queue->message_sge;
	error = rdma_create_qp(queue->cm_id, queue->pd, &attr);
	if (error)
		return error;
	queue->qp = queue->cm_id->qp;
	return 0;
}

/* All messages are free, and all receives are posted but the spare one. */
static int rblk_connect_fill(struct rblk_queue *queue)
{
	unsigned int i, receives = rblk_connect_receive_depth(queue);
	int error = 0;

	for (i = 0; i < rblk_connect_tags(queue); i++) {
		struct rblk_message *m = &queue->messages[i];

		m->cqe.done = rblk_queue_send_done;
		m->queue = queue;
		m->descriptors = rblk_ring_entry(&queue->descriptors, i, &m->descriptors_dma);
		list_add_tail(&m->free, &queue->free_messages);
	}
	for (i = 0; i < receives && !error; i++) {
		struct rblk_receive *r = &queue->receives[i];

		r->cqe.done = rblk_queue_receive_done;
		r->queue = queue;
		r->data = rblk_ring_entry(&queue->replies, i, &r->dma);
		if (i < receives - 1)
			error = rblk_queue_post_receive(queue, r);
	}
	queue->spare = &queue->receives[receives - 1];
	return error;
}

/* -- the steps -- */

static void rblk_connect_release_device_id(struct rblk_queue *queue)
{
	if (queue->device_id)
		rdma_destroy_id(queue->device_id); /* no event handler runs any more */
	queue->device_id = NULL;
}

static int rblk_connect_resolve_address(struct rblk_queue *queue)
{
	struct rblk_session_options *o = &queue->session->options;
	struct rblk_portal *portal = &o->portals[queue->portal];
	struct sockaddr *source = NULL; /* as the routes say */
	int error = 0;

	queue->cm_id = rdma_create_id(queue->session->net, rblk_connect_event, queue, RDMA_PS_TCP,
				      IB_QPT_RC);
	if (IS_ERR(queue->cm_id)) {
		error = PTR_ERR(queue->cm_id);
		queue->cm_id = NULL;
		return error;
	}
	if (o->tos)
		rdma_set_service_type(queue->cm_id, o->tos);
	if (o->ack_timeout)
		error = rdma_set_ack_timeout(queue->cm_id, o->ack_timeout);
	if (error)
		return error;
	if (portal->source.ss_family)
		source = (struct sockaddr *)&portal->source;
	return rdma_resolve_addr(queue->cm_id, source, (struct sockaddr *)&portal->address,
				 queue->attempt_ms);
}

static int rblk_connect_resolve_route(struct rblk_queue *queue)
{
	return rdma_resolve_route(queue->cm_id, queue->attempt_ms);
}

/*
 * The id has a device now. From here on the device's removal ends us. What the last connection has
 * left is this one's, if it is on the same device: the last one's id has kept that until now.
 */
static int rblk_connect_take_device(struct rblk_queue *queue)
{
	if (queue->ibdev != queue->cm_id->device)
		rblk_queue_release_hardware(queue);
	rblk_connect_release_device_id(queue);
	queue->ibdev = queue->cm_id->device;
	return rblk_connect_check_device(queue);
}

static int rblk_connect_make_all(struct rblk_queue *queue)
{
	return rblk_connect_make_hardware(queue) ?: rblk_memory_make_keys(queue) ?:
	       rblk_connect_make_qp(queue) ?: rblk_connect_fill(queue);
}

/* As new, but for what is fixed, what it has counted, and the login that it is to send. */
static int rblk_connect_reset(struct rblk_queue *queue)
{
	unsigned long flags;

	if (!queue->index) {
		queue->session->event_seen = 0;
		queue->session->event_told = 0;
	}
	spin_lock_irqsave(&queue->lock, flags);
	INIT_LIST_HEAD(&queue->pending);
	INIT_LIST_HEAD(&queue->free_messages);
	queue->next_sequence = 0;
	queue->reserved_used = 0;
	bitmap_zero(queue->borrowed, RBLK_BORROW_MAX);
	spin_unlock_irqrestore(&queue->lock, flags);
	return 0;
}

/* From here on commands may be posted, and a polled queue's completions be looked at. */
static int rblk_connect_open(struct rblk_queue *queue)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	core_clock_init(&queue->clock);
	WRITE_ONCE(queue->down, false);
	queue->proven = !queue->session->prover;
	spin_unlock_irqrestore(&queue->lock, flags);
	spin_lock(&queue->poll_lock);
	queue->poll_ended = false;
	spin_unlock(&queue->poll_lock);
	return 0;
}

/* In this order. A step that fails leaves the cleanup to the queue's close. */
static const struct {
	const char *what;
	int (*run)(struct rblk_queue *queue);
	int awaits; /* what ends it, if run() does not: an event of the connection manager's */
	bool keyed; /* only of a session with a key */
} rblk_connect_steps[] = {
	{ "beginning", rblk_connect_reset, RBLK_CONNECT_NOTHING, false },
	{ "resolving the address", rblk_connect_resolve_address, RDMA_CM_EVENT_ADDR_RESOLVED,
	  false },
	{ "resolving the route", rblk_connect_resolve_route, RDMA_CM_EVENT_ROUTE_RESOLVED, false },
	{ "checking the RDMA device", rblk_connect_take_device, RBLK_CONNECT_NOTHING, false },
	{ "creating the queue pair", rblk_connect_make_all, RBLK_CONNECT_NOTHING, false },
	{ "login", rblk_login_send, RDMA_CM_EVENT_ESTABLISHED, false },
	{ "registering the slots", rblk_memory_register, RBLK_CONNECT_NOTHING, false },
	{ "opening", rblk_connect_open, RBLK_CONNECT_NOTHING, false },
	{ "authentication", rblk_authenticate_begin, RBLK_CONNECT_ANSWER, true },
	{ "authentication", rblk_authenticate_prove, RBLK_CONNECT_ANSWER, true },
	{ "authentication", rblk_authenticate_end, RBLK_CONNECT_NOTHING, true },
	{ "acceptance", rblk_works_accepted, RBLK_CONNECT_NOTHING, false },
};

const char *rblk_queue_connect_step(const struct rblk_queue *queue)
{
	unsigned int step = READ_ONCE(queue->step);

	return rblk_connect_steps[min(step, (unsigned int)ARRAY_SIZE(rblk_connect_steps) - 1)].what;
}

void rblk_queue_connect_next(struct rblk_queue *queue, int what)
{
	unsigned int step = READ_ONCE(queue->step);

	/* Each comes once, but for a peer that is hostile. */
	if (step == ARRAY_SIZE(rblk_connect_steps) || rblk_connect_steps[step].awaits != what)
		return;
	smp_store_release(&queue->step, step + 1);
	queue_work(rblk_workqueue, &queue->work);
}

void rblk_queue_connect(struct rblk_queue *queue)
{
	unsigned int step;
	bool skip;
	int error;

	while ((step = smp_load_acquire(&queue->step)) < ARRAY_SIZE(rblk_connect_steps)) {
		/* It is run once, and its end comes. */
		if (step < queue->next_step)
			return;
		queue->next_step = step + 1;
		skip = rblk_connect_steps[step].keyed && !queue->session->prover;
		error = skip ? 0 : rblk_connect_steps[step].run(queue);
		if (error) {
			/* Where a step has said why, this comes too late. */
			rblk_queue_lost(queue, "%s: error %d", rblk_connect_steps[step].what,
					error);
			return;
		}
		if (skip || rblk_connect_steps[step].awaits == RBLK_CONNECT_NOTHING)
			WRITE_ONCE(queue->step, step + 1);
	}
}

struct rblk_queue *rblk_queue_alloc(struct rblk_session *session, unsigned int index)
{
	struct rblk_queue *queue = kzalloc(sizeof(*queue), GFP_KERNEL);
	u32 tags;

	if (!queue)
		return NULL;
	queue->session = session;
	queue->index = index;
	queue->down = true;
	queue->poll_ended = true;
	queue->wanted = session->options.credits;
	queue->polled = index >= session->queue_count - session->options.poll_queues;
	INIT_WORK(&queue->work, rblk_works_run);
	INIT_DELAYED_WORK(&queue->late_work, rblk_overdue_send);
	spin_lock_init(&queue->lock);
	spin_lock_init(&queue->poll_lock);
	INIT_LIST_HEAD(&queue->pending);
	INIT_LIST_HEAD(&queue->free_messages);
	tags = rblk_connect_tags(queue);
	queue->commands = kcalloc(tags, sizeof(*queue->commands), GFP_KERNEL);
	queue->owners = kcalloc(tags, sizeof(*queue->owners), GFP_KERNEL);
	queue->reserved = kcalloc(RBLK_RESERVED_TAGS, sizeof(*queue->reserved), GFP_KERNEL);
	queue->messages = kvcalloc(tags, sizeof(*queue->messages), GFP_KERNEL);
	queue->receives =
		kvcalloc(rblk_connect_receive_depth(queue), sizeof(*queue->receives), GFP_KERNEL);
	if (queue->commands && queue->owners && queue->reserved && queue->messages &&
	    queue->receives)
		return queue;
	rblk_queue_free(queue);
	return NULL;
}

void rblk_queue_stop(struct rblk_queue *queue)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	WRITE_ONCE(queue->down, true);
	spin_unlock_irqrestore(&queue->lock, flags);
	/* From here on the drain alone looks at a polled queue's completions. */
	spin_lock(&queue->poll_lock);
	queue->poll_ended = true;
	spin_unlock(&queue->poll_lock);
	if (queue->qp) {
		rdma_disconnect(queue->cm_id);
		/*
		 * F4: moves the QP to ERR and returns when every work request has come back. From
		 * here on no handler of this queue runs and nothing more is posted.
		 */
		ib_drain_qp(queue->qp);
		/*
		 * The last reply's handler may have posted a receive behind the drain's own. The CQ
		 * stays: what it had later would be the next connection's.
		 */
		ib_drain_rq(queue->qp);
	}
	rblk_call_fail_all(queue);
}

void rblk_queue_release_keys(struct rblk_queue *queue)
{
	if (queue->qp)
		rdma_destroy_qp(queue->cm_id);
	queue->qp = NULL;
	rblk_memory_end_keys(queue);
}

void rblk_queue_release_id(struct rblk_queue *queue)
{
	struct rdma_cm_id *id = queue->cm_id;

	if (queue->ibdev && !queue->device_id) {
		/* From here on its handler sees it as what it is now. */
		rdma_lock_handler(id);
		WRITE_ONCE(queue->device_id, id);
		rdma_unlock_handler(id);
	} else if (id) {
		rdma_destroy_id(id); /* no event handler runs any more */
	}
	/* Not before: an answer to the login that comes meanwhile has its handler look at it. */
	queue->cm_id = NULL;
}

void rblk_queue_release_hardware(struct rblk_queue *queue)
{
	rblk_memory_destroy(queue);
	rblk_ring_release(&queue->replies, queue->ibdev);
	rblk_ring_release(&queue->descriptors, queue->ibdev);
	if (queue->cq)
		ib_free_cq(queue->cq);
	queue->cq = NULL;
	if (queue->pd)
		ib_dealloc_pd(queue->pd);
	queue->pd = NULL;
	queue->ibdev = NULL;
	rblk_connect_release_device_id(queue);
}

void rblk_queue_free(struct rblk_queue *queue)
{
	kvfree(queue->receives);
	kvfree(queue->messages);
	kfree(queue->reserved);
	kfree(queue->owners);
	kfree(queue->commands);
	kfree(queue);
}
