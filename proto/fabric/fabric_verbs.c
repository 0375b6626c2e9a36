/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verbs fabric: a fab's own life, the data path, the one readiness descriptor, and the
 * delivery of events. Devices, connections and rdma_cm have files of their own (fabric_verbs.h).
 *
 * The descriptor is an epoll set over the cm channel and, per device, the completion channel and
 * the asynchronous events. Polling for completions reads user memory alone. The other descriptors
 * are checked, with one system call for all, by the first fab_poll_event() after a fab_arm() unless there
 * are completions, and otherwise every VERBS_LOOK_NS: so a caller that polls without ever sleeping learns of a
 * disconnection within that time, at the price of a clock reading every VERBS_LOOK_SKIPS calls.
 */
#include "proto/fabric/fabric_verbs.h"
#include "proto/core/env.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NS_PER_MS 1000000ull
#define VERBS_LOOK_NS 100000u
#define VERBS_LOOK_SKIPS 8

/* Events of the cm or of devices that one fab_poll_event() goes through to find one to deliver. */
#define VERBS_EVENT_BUDGET 64

/* -- context ---------------------------------------------------------------------------------- */

/* tag: the device whose asynchronous events these are, the fab for cm events, or NULL. */
int verbs_fd_watch(struct verbs_fab *fab, int fd, void *tag)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

	return epoll_ctl(fab->head.fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void verbs_open_words(int err, char *error)
{
	const char *cause = strerror(err);

	if (err == ENODEV || err == ENOENT || err == ENOSYS)
		cause = "the connection manager is not available; load its modules "
			"(modprobe -a rdma_ucm ib_uverbs) and, without RDMA hardware, add "
			"Soft-RoCE: "
			"rdma link add rxe0 type rxe netdev <dev>";
	else if (err == EACCES || err == EPERM)
		cause = "no permission to use /dev/infiniband";
	snprintf(error, FAB_ERROR_BYTES, "RDMA: %s", cause);
	errno = err;
}

int verbs_channel_open(struct verbs_fab *fab)
{
	int flags, err = 0;

	if (fab->channel)
		return 0;
	errno = 0;
	fab->channel = rdma_create_event_channel();
	if (!fab->channel)
		return errno ? -errno : -ENODEV;
	flags = fcntl(fab->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(fab->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		err = -errno;
	if (!err)
		err = verbs_fd_watch(fab, fab->channel->fd, fab);
	if (!err)
		return 0;
	rdma_destroy_event_channel(fab->channel);
	fab->channel = NULL;
	return err;
}

static int verbs_fab_init(struct verbs_fab *fab)
{
	int err;

	fab->head.fd = epoll_create1(EPOLL_CLOEXEC);
	if (fab->head.fd < 0)
		return -errno;
	err = verbs_channel_open(fab);
	return fab->head.options.later ? 0 : err;
}

static void verbs_close(struct fab *head)
{
	struct verbs_fab *fab = verbs_fab(head);

	assert(TAILQ_EMPTY(&fab->conns) && TAILQ_EMPTY(&fab->mrs) && TAILQ_EMPTY(&fab->listeners));
	/* Nothing else refuses a request that was never delivered. */
	if (fab->request)
		verbs_reject(&fab->request->head, NULL, 0);
	for (unsigned int i = 0; i < fab->device_count; i++)
		verbs_device_destroy(fab->devices[i]);
	if (fab->channel)
		rdma_destroy_event_channel(fab->channel);
	if (fab->head.fd >= 0)
		close(fab->head.fd);
	free((char *)fab->head.options.device);
	free(fab);
}

static struct fab *verbs_open(const struct fab_options *options, char *error)
{
	struct verbs_fab *fab = calloc(1, sizeof(*fab));
	int err;

	if (!fab) {
		verbs_open_words(ENOMEM, error);
		return NULL;
	}
	TAILQ_INIT(&fab->conns);
	TAILQ_INIT(&fab->ready);
	TAILQ_INIT(&fab->timed);
	TAILQ_INIT(&fab->mrs);
	TAILQ_INIT(&fab->listeners);
	fab->head.ops = &fab_verbs_ops;
	fab->head.options = *options;
	fab->head.fd = -1;
	fab->look = true;
	if (options->device) {
		fab->head.options.device = strdup(options->device);
		if (!fab->head.options.device) {
			free(fab);
			verbs_open_words(ENOMEM, error);
			return NULL;
		}
	}
	err = verbs_fab_init(fab);
	if (err) {
		verbs_close(&fab->head);
		verbs_open_words(-err, error);
		return NULL;
	}
	return &fab->head;
}

/* -- the data path ---------------------------------------------------------------------------- */

/* Remove our markers, process failures. Returns how many completions are left. */
static int verbs_sift(struct verbs_fab *fab, struct ibv_wc *wc, int count)
{
	int kept = 0;

	for (int i = 0; i < count; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			struct fab_conn *conn = fab_conn_find(&fab->head, wc[i].qp_num);

			if (wc[i].wr_id == FAB_WR_ID_RESERVED) {
				if (conn)
					verbs_conn_marker(verbs_conn(conn));
				continue;
			}
			if (conn)
				verbs_conn_error(verbs_conn(conn), &wc[i]);
		}
		if (kept != i)
			wc[kept] = wc[i];
		kept++;
	}
	return kept;
}

static int verbs_poll_cq(struct verbs_device *device, struct verbs_cq *cq, struct ibv_wc *wc, int count)
{
	int n = cq->cq && count ? ibv_poll_cq(cq->cq, count, wc) : 0;

	if (n < 0) {
		verbs_device_lost(device, -EIO, "its completion queue cannot be polled");
		return 0;
	}
	cq->seen |= n > 0;
	return n;
}

/* Sends first: an answer that finds its command's SEND completed ends the command at once. */
static int verbs_poll_device(struct verbs_device *device, struct ibv_wc *wc, int count)
{
	int got = 0;

	if (!device->receives.cq)
		return 0;
	if (device->stashed)
		wc[got++] = device->stash;
	device->stashed = false;
	got += verbs_poll_cq(device, &device->sends, wc + got, count - got);
	got += verbs_poll_cq(device, &device->receives, wc + got, count - got);
	for (int i = 0; i < got; i++)
		wc[i].qp_num = verbs_qp_num(device, wc[i].qp_num);
	if (got < count)
		device->empties++;
	return got;
}

/* Connections whose drain waited for the CQ to be polled empty. */
static void verbs_polled(struct verbs_fab *fab)
{
	struct verbs_conn *conn;

	TAILQ_FOREACH(conn, &fab->conns, all_entry)
		if (conn->polls_wanted)
			verbs_conn_drain(conn);
}

static int verbs_poll(struct fab *head, struct ibv_wc *wc, int count)
{
	struct verbs_fab *fab = verbs_fab(head);
	int got = 0;

	for (unsigned int i = 0; i < fab->device_count && got < count; i++) {
		struct verbs_device *device = fab->devices[fab->next_device];
		int n;

		if (++fab->next_device >= fab->device_count)
			fab->next_device = 0;
		n = verbs_poll_device(device, wc + got, count - got);
		if (n > 0)
			got += verbs_sift(fab, wc + got, n);
	}
	if (fab->polls_wanted > 0)
		verbs_polled(fab);
	/* This has woken the caller. Another descriptor that is readable, too, does so again. */
	fab->look &= !got;
	return got;
}

/* Providers return errno, and some (Soft-iWARP's) its negative. */
static int verbs_posted(int err)
{
	return err > 0 ? -err : err;
}

/*
 * Soft-iWARP completes what was posted behind an RDMA READ before the READ. The callers, and verbs,
 * have the completions of a queue in the order of posting: so nothing overtakes a READ there. And
 * its library takes the key that a SEND invalidates from the member that RDMA operations use.
 */
static void verbs_adapt_iwarp(struct ibv_send_wr *wr)
{
	for (; wr; wr = wr->next) {
		if (wr->opcode != IBV_WR_RDMA_READ)
			wr->send_flags |= IBV_SEND_FENCE;
		if (wr->opcode == IBV_WR_SEND_WITH_INV)
			wr->wr.rdma.rkey = wr->invalidate_rkey;
	}
}

static int verbs_post_send(struct fab_conn *head, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct verbs_conn *conn = verbs_conn(head);
	int err;

	if (!conn->postable) {
		*bad = wr;
		return -ENOTCONN;
	}
	if (verbs_device(head->device)->iwarp)
		verbs_adapt_iwarp(wr);
	err = ibv_post_send(conn->qp, wr, bad);
	/* Soft-iWARP fails to ring its doorbell while the queue pair goes to ERR: all is queued. */
	return err && !*bad ? 0 : verbs_posted(err);
}

static int verbs_post_recv(struct fab_conn *head, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct verbs_conn *conn = verbs_conn(head);
	int err;

	if (!conn->postable) {
		*bad = wr;
		return -ENOTCONN;
	}
	err = ibv_post_recv(conn->qp, wr, bad);
	if (conn->state == VERBS_CONN_BROKEN)
		verbs_conn_flush(conn);
	return verbs_posted(err);
}

static int verbs_post_srq_recv(struct fab_device *head, struct ibv_recv_wr *wr,
			       struct ibv_recv_wr **bad)
{
	struct verbs_device *device = verbs_device(head);

	if (!device->srq) {
		*bad = wr;
		return device->gone ? -ENODEV : -EINVAL;
	}
	return verbs_posted(ibv_post_srq_recv(device->srq, wr, bad));
}

/* -- sleeping --------------------------------------------------------------------------------- */

static bool verbs_pending(const struct verbs_fab *fab)
{
	return !TAILQ_EMPTY(&fab->ready) || fab->polls_wanted > 0 || fab->request;
}

static int verbs_arm_devices(struct verbs_fab *fab, bool receives_only)
{
	int some = verbs_pending(fab);

	fab->look = true;
	for (unsigned int i = 0; i < fab->device_count; i++) {
		int n = verbs_device_arm(fab->devices[i], receives_only);

		if (n < 0)
			return n;
		if (n > 0 || fab->devices[i]->gone_pending)
			some = 1;
	}
	return some;
}

static int verbs_arm(struct fab *head)
{
	return verbs_arm_devices(verbs_fab(head), false);
}

static int verbs_arm_receives(struct fab *head)
{
	struct verbs_fab *fab = verbs_fab(head);
	const struct verbs_conn *conn;

	/* The end of a connection is told by completions of either kind. */
	TAILQ_FOREACH(conn, &fab->conns, all_entry)
		if (conn->state != VERBS_CONN_ESTABLISHED)
			break;
	return verbs_arm_devices(fab, !conn);
}

static int verbs_timeout_ms(const struct fab *head)
{
	const struct verbs_fab *fab = verbs_fab(head);
	const struct verbs_conn *conn;
	uint64_t first = UINT64_MAX;
	uint64_t now;

	if (verbs_pending(fab))
		return 0;
	if (TAILQ_EMPTY(&fab->timed))
		return -1;
	TAILQ_FOREACH(conn, &fab->timed, timed_entry)
		if (conn->deadline_ns < first)
			first = conn->deadline_ns;
	now = env_now_ns();
	/* Rounded up: a caller that wakes early would find nothing to do and sleep for 0 ms. */
	return first <= now ? 0 : (int)((first - now + NS_PER_MS - 1) / NS_PER_MS);
}

/* -- events ----------------------------------------------------------------------------------- */

/* Timers, then the descriptors. Returns false where it is too early to look again. */
static bool verbs_look(struct verbs_fab *fab)
{
	struct epoll_event ready[1 + 2 * FAB_DEVICES_MAX];
	struct verbs_conn *conn, *next;
	uint64_t now;
	int n;

	if (!fab->look && ++fab->skips < VERBS_LOOK_SKIPS)
		return false;
	fab->skips = 0;
	now = env_now_ns();
	if (!fab->look && now - fab->looked_ns < VERBS_LOOK_NS)
		return false;
	fab->look = false;
	fab->looked_ns = now;
	for (conn = TAILQ_FIRST(&fab->timed); conn; conn = next) {
		next = TAILQ_NEXT(conn, timed_entry);
		if (conn->deadline_ns <= now)
			verbs_conn_expire(conn);
	}
	n = epoll_wait(fab->head.fd, ready, sizeof(ready) / sizeof(ready[0]), 0);
	for (int i = 0; i < n; i++) {
		if (ready[i].data.ptr == fab)
			fab->cm_ready = true;
		for (unsigned int j = 0; j < fab->device_count; j++) {
			struct verbs_device *device = fab->devices[j];

			device->async_ready |= ready[i].data.ptr == device;
			device->channel_ready |= ready[i].data.ptr == &device->channel_ready;
		}
	}
	return true;
}

static bool verbs_deliver_conn(struct verbs_fab *fab, struct fab_event *event)
{
	struct verbs_conn *conn = TAILQ_FIRST(&fab->ready);
	enum fab_event_type type;

	if (!conn)
		return false;
	/* In the order of their numbers: established, failed or disconnected, drained. */
	type = (enum fab_event_type)__builtin_ctz(conn->events);
	conn->events &= ~(1u << type);
	TAILQ_REMOVE(&fab->ready, conn, ready_entry);
	conn->ready = false;
	if (conn->events)
		verbs_conn_raise(conn, (enum fab_event_type)__builtin_ctz(conn->events));
	event->type = type;
	event->conn = &conn->head;
	event->device = conn->head.device;
	if (type == FAB_EVENT_ESTABLISHED || type == FAB_EVENT_REJECTED) {
		event->private_data = fab->private_data;
		event->private_bytes = fab->private_bytes;
	}
	if (type == FAB_EVENT_REJECTED || type == FAB_EVENT_FAILED ||
	    type == FAB_EVENT_DISCONNECTED)
		event->status = fab_fail(&fab->head, conn->status, "%s", conn->reason);
	return true;
}

static bool verbs_deliver(struct verbs_fab *fab, struct fab_event *event)
{
	memset(event, 0, sizeof(*event));
	if (fab->request) {
		event->type = FAB_EVENT_REQUEST;
		event->request = &fab->request->head;
		event->private_data = fab->private_data;
		event->private_bytes = fab->private_bytes;
		fab->request = NULL;
		return true;
	}
	if (verbs_deliver_conn(fab, event))
		return true;
	for (unsigned int i = 0; i < fab->device_count; i++) {
		struct verbs_device *device = fab->devices[i];

		if (!device->gone_pending)
			continue;
		device->gone_pending = false;
		event->type = FAB_EVENT_DEVICE_GONE;
		event->status = -ENODEV;
		event->device = &device->head;
		verbs_device_settle(device);
		return true;
	}
	if (fab->listener_gone) {
		fab->listener_gone = false;
		event->type = FAB_EVENT_DEVICE_GONE;
		event->status = fab_fail(&fab->head, -ENODEV,
					 "listen: the device of a listener's address was removed");
		return true;
	}
	return false;
}

/* Act on one event of the cm or of a device; false when none is known. */
static bool verbs_advance(struct verbs_fab *fab)
{
	if (fab->cm_ready) {
		verbs_cm_event(fab);
		return true;
	}
	for (unsigned int i = 0; i < fab->device_count; i++) {
		struct verbs_device *device = fab->devices[i];

		if (device->async_ready && device->context) {
			verbs_device_async(device);
			return true;
		}
	}
	return false;
}

/*
 * A cm event is fetched only when all that came of earlier ones has been delivered: so one buffer
 * is enough for the private data of the event being delivered.
 */
static int verbs_poll_event(struct fab *head, struct fab_event *event)
{
	struct verbs_fab *fab = verbs_fab(head);
	bool looked = false;

	for (int i = 0; i < VERBS_EVENT_BUDGET; i++) {
		if (verbs_deliver(fab, event))
			return 1;
		if (verbs_advance(fab))
			continue;
		if (looked || !verbs_look(fab))
			return 0;
		looked = true;
	}
	return 0;
}

const struct fab_ops fab_verbs_ops = {
	.kind = FAB_VERBS,
	.open = verbs_open,
	.close = verbs_close,
	.arm = verbs_arm,
	.arm_receives = verbs_arm_receives,
	.poll = verbs_poll,
	.poll_event = verbs_poll_event,
	.timeout_ms = verbs_timeout_ms,
	.listen = verbs_listen,
	.listener_destroy = verbs_listener_destroy,
	.listener_address = verbs_listener_address,
	.accept = verbs_accept,
	.reject = verbs_reject,
	.request_device = verbs_request_device,
	.device_release = verbs_device_release,
	.devices_check = verbs_devices_check,
	.connect = verbs_connect,
	.conn_establish = verbs_conn_establish,
	.conn_refuse = verbs_conn_refuse,
	.conn_close = verbs_conn_close,
	.conn_destroy = verbs_conn_destroy,
	.mr_register = verbs_mr_register,
	.mr_deregister = verbs_mr_deregister,
	.mr_begin = verbs_mr_begin,
	.mr_retire = verbs_mr_retire,
	.mr_work = verbs_mr_work,
	.mr_end = verbs_mr_end,
	.post_send = verbs_post_send,
	.post_recv = verbs_post_recv,
	.post_srq_recv = verbs_post_srq_recv,
};
