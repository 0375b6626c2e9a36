/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A device as one fab uses it: its context, protection domain, completion queue and channel, shared
 * receive queue, limits, and asynchronous events. fabric_verbs_cm.c asks for a device when a
 * connection first needs it. A device that is removed is given back to the kernel as soon as the
 * last of its connections has been destroyed and no fab_mr_work() uses it; the struct stays until
 * its owner has released it, and another device needs the slot. A driver that cannot take a device
 * from its users (Soft-RoCE) also waits for librdmacm's own context of the device, see
 * verbs_devices_sync().
 */
#include "proto/fabric/fabric_verbs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/*
 * A closed connection adds two completions of its own (the markers of its drain). This many may
 * drain at the same time while the caller's own completions fill the rest of the queue.
 */
#define VERBS_CQ_MARKERS (2 * 128)

/* Acknowledging takes a lock; it must only be done before the CQ is destroyed. */
#define VERBS_ACK_BATCH 64

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int fd_set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

/* -- limits ----------------------------------------------------------------------------------- */

/* The longest message that every port takes. */
static uint64_t verbs_device_max_msg(struct ibv_context *context, uint8_t ports)
{
	uint64_t bytes = UINT32_MAX;

	for (unsigned int port = 1; port <= ports; port++) {
		struct ibv_port_attr attr;

		if (ibv_query_port(context, (uint8_t)port, &attr) == 0 && attr.max_msg_sz > 0 &&
		    attr.max_msg_sz < bytes)
			bytes = attr.max_msg_sz;
	}
	return bytes;
}

static int verbs_device_query(struct verbs_device *device, uint32_t *max_cqe)
{
	struct fab_limits *limits = &device->head.limits;
	struct ibv_device_attr attr;
	int err = ibv_query_device(device->context, &attr);

	if (err)
		return -err;
	device->iwarp = device->context->device->transport_type == IBV_TRANSPORT_IWARP;
	limits->max_sge = (uint32_t)attr.max_sge;
	/* Drivers that make no difference between READ and the rest report 0. */
	limits->max_read_sge = attr.max_sge_rd > 0 ? (uint32_t)attr.max_sge_rd : limits->max_sge;
	/* One of each queue is kept for the marker of the drain. */
	limits->max_send_wr = (uint32_t)attr.max_qp_wr - 1;
	limits->max_recv_wr = (uint32_t)attr.max_qp_wr - 1;
	limits->max_srq_wr = (uint32_t)attr.max_srq_wr;
	limits->max_read_in = min_u32((uint32_t)attr.max_qp_rd_atom, VERBS_READ_DEPTH_MAX);
	limits->max_read_out = min_u32((uint32_t)attr.max_qp_init_rd_atom, VERBS_READ_DEPTH_MAX);
	limits->read_bytes = VERBS_READ_BYTES;
	limits->max_msg_bytes = verbs_device_max_msg(device->context, attr.phys_port_cnt);
	limits->immediate = !device->iwarp;
	limits->acknowledged = !device->iwarp;
	limits->late_flush = !device->iwarp;
	limits->invalidate = attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS;
	limits->invalidate_inline = limits->invalidate && !device->iwarp;
	*max_cqe = (uint32_t)attr.max_cqe;
	return 0;
}

/* -- making and releasing --------------------------------------------------------------------- */

static int verbs_device_create_cq(struct verbs_device *device, uint32_t max_cqe)
{
	uint32_t depth = device->head.fab->options.cq_depth;
	int err, vectors, vector;

	if (depth > max_cqe)
		return fab_fail(device->head.fab, -EINVAL,
				"%s: %u completions wanted, the device has %u", device->head.name,
				depth, max_cqe);
	depth = min_u32(depth + VERBS_CQ_MARKERS, max_cqe);
	device->channel = ibv_create_comp_channel(device->context);
	if (!device->channel)
		return fab_fail(device->head.fab, -errno, "%s: completion channel: %s",
				device->head.name, strerror(errno));
	err = fd_set_nonblocking(device->channel->fd);
	if (err)
		return fab_fail(device->head.fab, err, "%s: completion channel: %s",
				device->head.name, strerror(-err));
	vectors = device->context->num_comp_vectors > 0 ? device->context->num_comp_vectors : 1;
	vector = (int)(device->head.fab->options.vector % (uint32_t)vectors);
	device->receives.cq = ibv_create_cq(device->context, (int)depth, NULL, device->channel, vector);
	if (device->receives.cq && device->head.fab->options.apart)
		device->sends.cq = ibv_create_cq(device->context, (int)depth, NULL, device->channel,
						 vector);
	if (!device->receives.cq || (device->head.fab->options.apart && !device->sends.cq))
		return fab_fail(device->head.fab, -errno, "%s: completion queue of %u: %s",
				device->head.name, depth, strerror(errno));
	return 0;
}

static int verbs_device_create_srq(struct verbs_device *device)
{
	const struct fab_options *options = &device->head.fab->options;
	struct ibv_srq_init_attr init = {
		.attr = {.max_wr = options->srq_depth, .max_sge = options->recv_sge},
	};

	if (options->srq_depth == 0)
		return 0;
	if (options->srq_depth > device->head.limits.max_srq_wr)
		return fab_fail(device->head.fab, -EINVAL,
				"%s: shared receive queue of %u wanted, the device has %u",
				device->head.name, options->srq_depth,
				device->head.limits.max_srq_wr);
	device->srq = ibv_create_srq(device->pd, &init);
	if (!device->srq)
		return fab_fail(device->head.fab, -errno, "%s: shared receive queue of %u: %s",
				device->head.name, options->srq_depth, strerror(errno));
	return 0;
}

static void verbs_cq_destroy(struct verbs_cq *cq)
{
	if (cq->cq) {
		ibv_ack_cq_events(cq->cq, cq->unacked);
		ibv_destroy_cq(cq->cq);
	}
	memset(cq, 0, sizeof(*cq));
}

/* Everything but the struct. Idempotent; also undoes a device half made. */
static void verbs_device_clear(struct verbs_device *device)
{
	struct verbs_mr *mr;

	/* Cleared, because another device may get this index, with keys of its own. */
	if (!device->context)
		return;
	TAILQ_FOREACH(mr, &verbs_fab(device->head.fab)->mrs, entry)
		verbs_mr_remove(mr, device->head.index);
	if (device->srq)
		ibv_destroy_srq(device->srq);
	verbs_cq_destroy(&device->receives);
	verbs_cq_destroy(&device->sends);
	if (device->channel)
		ibv_destroy_comp_channel(device->channel);
	if (device->pd)
		ibv_dealloc_pd(device->pd);
	/* Closing a descriptor takes it off the epoll set: nobody else has duplicates of these. */
	ibv_close_device(device->context);
	device->srq = NULL;
	device->channel = NULL;
	device->pd = NULL;
	device->context = NULL;
	device->stashed = false;
	device->channel_ready = false;
	device->async_ready = false;
}

void verbs_device_destroy(struct verbs_device *device)
{
	assert(device->conns == 0 && device->mr_jobs == 0);
	verbs_device_clear(device);
	free(device);
}

static int verbs_device_init(struct verbs_device *device, struct ibv_device *ibdev)
{
	struct fab *head = device->head.fab;
	struct verbs_fab *fab = verbs_fab(head);
	struct verbs_mr *mr;
	uint32_t max_cqe;
	int err;

	device->context = ibv_open_device(ibdev);
	if (!device->context)
		return fab_fail(head, -errno, "%s: cannot be opened: %s", device->head.name,
				strerror(errno));
	err = verbs_device_query(device, &max_cqe);
	if (err)
		return fab_fail(head, err, "%s: limits: %s", device->head.name, strerror(-err));
	device->pd = ibv_alloc_pd(device->context);
	if (!device->pd)
		return fab_fail(head, -errno, "%s: protection domain: %s", device->head.name,
				strerror(errno));
	err = verbs_device_create_cq(device, max_cqe);
	if (!err)
		err = verbs_device_create_srq(device);
	/* Without the caller's memory there is no I/O: better no device than one without keys. */
	TAILQ_FOREACH(mr, &fab->mrs, entry) {
		if (err)
			break;
		err = verbs_mr_add(mr, device);
	}
	if (err)
		return err;
	err = fd_set_nonblocking(device->context->async_fd);
	if (!err)
		err = verbs_fd_watch(fab, device->context->async_fd, device);
	if (!err)
		err = verbs_fd_watch(fab, device->channel->fd, &device->channel_ready);
	if (err)
		return fab_fail(head, err, "%s: readiness: %s", device->head.name, strerror(-err));
	return 0;
}

/* The one that is in use under this name, if it still is the kernel's device; else NULL. */
static struct verbs_device *verbs_device_find(struct verbs_fab *fab, struct ibv_device *ibdev)
{
	const char *name = ibv_get_device_name(ibdev);
	int ibv_index = ibv_get_device_index(ibdev);

	for (unsigned int i = 0; i < fab->device_count; i++) {
		struct verbs_device *device = fab->devices[i];

		if (device->gone || strcmp(device->head.name, name) != 0)
			continue;
		if (device->ibv_index == ibv_index)
			return device;
		/* Removed in between: a fab without connections on it is not notified. */
		verbs_device_lost(device, -ENODEV, "the device was removed");
	}
	return NULL;
}

/* A slot never used, or whose device was removed and released. FAB_DEVICES_MAX: none. */
static unsigned int verbs_device_slot(struct verbs_fab *fab)
{
	for (unsigned int i = 0; i < fab->device_count; i++) {
		struct verbs_device *device = fab->devices[i];

		if (device->gone && device->released && !device->context && device->conns == 0)
			return i;
	}
	return fab->device_count;
}

int verbs_device_get(struct verbs_fab *fab, struct ibv_device *ibdev, struct verbs_device **out)
{
	struct verbs_device *device = verbs_device_find(fab, ibdev);
	const char *name = ibv_get_device_name(ibdev);
	unsigned int slot;
	int err;

	*out = device;
	if (device)
		return 0;
	if (fab->head.options.device && strcmp(fab->head.options.device, name) != 0)
		return fab_fail(&fab->head, -ENODEV, "%s: not the device to be used, which is %s",
				name, fab->head.options.device);
	slot = verbs_device_slot(fab);
	if (slot == FAB_DEVICES_MAX)
		return fab_fail(&fab->head, -ENOSPC, "%s: %u devices are in use", name,
				FAB_DEVICES_MAX);
	device = calloc(1, sizeof(*device));
	if (!device)
		return fab_fail(&fab->head, -ENOMEM, "%s: out of memory", name);
	device->head.fab = &fab->head;
	device->head.index = slot;
	device->ibv_index = ibv_get_device_index(ibdev);
	strncpy(device->head.name, name, sizeof(device->head.name) - 1);
	err = verbs_device_init(device, ibdev);
	if (err) {
		verbs_device_destroy(device);
		return err;
	}
	if (slot < fab->device_count)
		verbs_device_destroy(fab->devices[slot]);
	else
		fab->device_count++;
	fab->devices[slot] = device;
	*out = device;
	return 0;
}

struct fab_device *verbs_device_named(struct fab *fab, const char *name)
{
	struct verbs_device *device = NULL;
	struct ibv_device **list;
	int count = 0, err = -ENODEV;

	list = ibv_get_device_list(&count);
	for (int i = 0; i < count; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			err = verbs_device_get(verbs_fab(fab), list[i], &device);
	if (list)
		ibv_free_device_list(list);
	if (err == -ENODEV)
		fab_fail(fab, err, "%s: there is no such device", name);
	return err ? NULL : &device->head;
}

/* -- notification ----------------------------------------------------------------------------- */

/*
 * One event per asking at most, so reading one per call keeps the channel from staying readable. A
 * device may raise the event a little after the completion can be polled: an event that comes later
 * wakes the caller once for nothing, and is read then.
 */
static void verbs_device_read_channel(struct verbs_device *device)
{
	struct verbs_cq *cq;
	struct ibv_cq *fired;
	void *context;

	device->channel_ready = false;
	if (ibv_get_cq_event(device->channel, &fired, &context))
		return;
	cq = fired == device->sends.cq ? &device->sends : &device->receives;
	cq->armed = false;
	if (++cq->unacked == VERBS_ACK_BATCH) {
		ibv_ack_cq_events(fired, cq->unacked);
		cq->unacked = 0;
	}
}

/* Others go on. */
static int verbs_device_unarmed(struct verbs_device *device, const char *why)
{
	device->receives.armed = device->sends.armed = false;
	if (device->gone)
		return 0; /* no completion will come */
	verbs_device_lost(device, -EIO, why);
	return 1;
}

/*
 * 1: there is a completion, or an event; 0: armed. One that is armed, and of which nothing was
 * seen since, is left as it is.
 */
static int verbs_cq_arm(struct verbs_device *device, struct verbs_cq *cq)
{
	int n;

	if (!cq->armed || cq->seen) {
		if (ibv_req_notify_cq(cq->cq, 0))
			return verbs_device_unarmed(device, "its completion queue cannot be armed");
		cq->armed = true;
		cq->seen = false;
	}
	/* Work that completed before the CQ was armed raises no event. */
	n = ibv_poll_cq(cq->cq, 1, &device->stash);
	if (n < 0)
		return verbs_device_unarmed(device, "its completion queue cannot be polled");
	device->stashed = n > 0;
	cq->seen |= n > 0;
	return n;
}

int verbs_device_arm(struct verbs_device *device, bool receives_only)
{
	int n;

	if (!device->receives.cq)
		return 0;
	if (device->stashed)
		return 1;
	/* A completion of an armed CQ has raised an event. */
	if (device->channel_ready || (device->receives.armed && device->receives.seen) ||
	    (device->sends.armed && device->sends.seen))
		verbs_device_read_channel(device);
	n = verbs_cq_arm(device, &device->receives);
	if (!n && !receives_only && device->sends.cq && !device->gone)
		n = verbs_cq_arm(device, &device->sends);
	return n;
}

/* -- asynchronous events, removal ------------------------------------------------------------- */

void verbs_device_lost(struct verbs_device *device, int status, const char *why)
{
	struct verbs_fab *fab = verbs_fab(device->head.fab);
	struct verbs_conn *conn;

	if (device->gone)
		return;
	device->gone = true;
	device->gone_pending = true;
	TAILQ_FOREACH(conn, &fab->conns, all_entry) {
		if (conn->head.device != &device->head)
			continue;
		if (conn->state < VERBS_CONN_ACCEPTED)
			verbs_conn_break(conn, FAB_EVENT_FAILED, status, "connect to %s: %s: %s",
					 conn->head.peer, device->head.name, why);
		else if (conn->state < VERBS_CONN_BROKEN)
			verbs_conn_break(conn, FAB_EVENT_DISCONNECTED, status,
					 "connection to %s: %s: %s", conn->head.peer,
					 device->head.name, why);
		else if (conn->state == VERBS_CONN_DRAINING)
			verbs_conn_drain(conn);
	}
}

void verbs_device_settle(struct verbs_device *device)
{
	if (!device->gone || device->gone_pending || device->conns > 0 || device->mr_jobs > 0 ||
	    !device->context)
		return;
	verbs_device_clear(device);
	verbs_devices_sync();
}

void verbs_device_release(struct fab_device *head)
{
	verbs_device(head)->released = true;
}

static bool verbs_device_listed(const struct verbs_device *device, struct ibv_device **list,
				int count)
{
	for (int i = 0; i < count; i++)
		if (ibv_get_device_index(list[i]) == device->ibv_index)
			return true;
	return false;
}

/* Open, and without a connection whose id would tell of the device's removal. */
static bool verbs_device_idle(const struct verbs_device *device)
{
	return device->context && !device->gone && device->conns == 0;
}

void verbs_devices_check(struct fab *head)
{
	struct verbs_fab *fab = verbs_fab(head);
	struct ibv_device **list;
	unsigned int idle = 0;
	int count = 0;

	if (verbs_devices_all_open())
		verbs_devices_sync();
	for (unsigned int i = 0; i < fab->device_count; i++)
		idle += verbs_device_idle(fab->devices[i]);
	if (!idle)
		return;
	list = ibv_get_device_list(&count);
	if (!list)
		return;
	for (unsigned int i = 0; i < fab->device_count; i++)
		if (!verbs_device_listed(fab->devices[i], list, count))
			verbs_device_lost(fab->devices[i], -ENODEV, "the device was removed");
	ibv_free_device_list(list);
}

static void verbs_device_qp_event(struct ibv_async_event *event)
{
	struct verbs_conn *conn = event->element.qp->qp_context;

	switch (event->event_type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		verbs_device(conn->head.device)->last_wqe = VERBS_LAST_WQE_RAISED;
		conn->last_wqe = true;
		if (conn->state == VERBS_CONN_DRAINING)
			verbs_conn_drain(conn);
		break;
	case IBV_EVENT_COMM_EST:
		/* A message overtook the end of the handshake: it is established. */
		rdma_notify(conn->id, IBV_EVENT_COMM_EST);
		break;
	default:
		if (conn->state >= VERBS_CONN_ACCEPTED && conn->state < VERBS_CONN_BROKEN)
			verbs_conn_break(conn, FAB_EVENT_DISCONNECTED, -ECONNABORTED,
					 "connection to %s: %s", conn->head.peer,
					 ibv_event_type_str(event->event_type));
		break;
	}
}

/*
 * Reads all there is. Acknowledged at once: ibv_destroy_qp() waits for that, and no event of a
 * destroyed queue pair is ever read, for the kernel takes them back with it.
 */
void verbs_device_async(struct verbs_device *device)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(device->context, &event) == 0) {
		switch (event.event_type) {
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_QP_LAST_WQE_REACHED:
		case IBV_EVENT_COMM_EST:
			verbs_device_qp_event(&event);
			break;
		case IBV_EVENT_DEVICE_FATAL:
			verbs_device_lost(device, -ENODEV, "the device failed or was removed");
			break;
		case IBV_EVENT_CQ_ERR:
		case IBV_EVENT_SRQ_ERR:
			/* Completions may be lost: nothing here can be trusted any more. */
			verbs_device_lost(device, -EIO, ibv_event_type_str(event.event_type));
			break;
		default:
			/* Ports, LIDs, GIDs: a change that matters breaks the connections. */
			break;
		}
		ibv_ack_async_event(&event);
	}
	device->async_ready = false;
}
