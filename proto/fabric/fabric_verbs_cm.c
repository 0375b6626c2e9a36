/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connecting and being connected to, by rdma_cm: requests, both handshakes, and the events that drive
 * them. fabric_verbs_listen.c has the listeners, fabric_verbs_conn.c the connection's states and its end.
 *
 * The context of a cm id says where its events belong: a connection's id has the connection, the
 * ids of listeners and of requests not yet accepted have the fab. A request that another fab
 * accepts leaves the listener's channel by rdma_migrate_id() first and changes its context after,
 * when the listener's thread can no longer be looking at it.
 */
#include "proto/fabric/fabric_verbs.h"
#include "proto/core/env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000ull

/* The session above gives up, not the cm: it decides when to connect again. */
#define VERBS_RETRY_COUNT 7
#define VERBS_RNR_RETRY_COUNT 7 /* forever */

#define VERBS_NO_DEVICE                                                         \
	"no RDMA device reaches this address; if this machine has none, add Soft-RoCE: " \
	"rdma link add rxe0 type rxe netdev <dev>"

/* Reasons of the IB communication manager's REJ message (IB specification 12.6.7.2). */
enum verbs_reject {
	VERBS_REJECT_NO_QP = 1,
	VERBS_REJECT_NO_RESOURCES = 3,
	VERBS_REJECT_TIMEOUT = 4,
	VERBS_REJECT_NO_SERVICE = 8,
	VERBS_REJECT_STALE = 10,
	VERBS_REJECT_CONSUMER = 28, /* by the program at the other end */
};

static uint8_t min_depth(uint32_t a, uint32_t b)
{
	return (uint8_t)(a < b ? a : b);
}

static const struct fab_limits *verbs_conn_limits(const struct verbs_conn *conn)
{
	return &conn->head.device->limits;
}

/* -- requests --------------------------------------------------------------------------------- */

static void verbs_cm_request(struct verbs_fab *fab, const struct rdma_cm_event *event)
{
	struct verbs_request *request = calloc(1, sizeof(*request));
	const struct sockaddr *peer = rdma_get_peer_addr(event->id);

	if (!request) {
		/* The peer gets no reason, but it gets the rejection now. */
		rdma_reject(event->id, NULL, 0);
		rdma_destroy_id(event->id);
		return;
	}
	request->head.ops = fab->head.ops;
	request->id = event->id;
	/* As seen from here: initiator_depth is how many READs we may send it, and so on. */
	request->head.read_in = event->param.conn.initiator_depth;
	request->head.read_out = event->param.conn.responder_resources;
	memcpy(&request->head.peer, peer,
	       peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
	fab->request = request;
}

void verbs_reject(struct fab_request *head, const void *private_data, uint8_t bytes)
{
	struct verbs_request *request = (struct verbs_request *)head;

	rdma_reject(request->id, private_data, bytes);
	rdma_destroy_id(request->id);
	free(request);
}

struct fab_device *verbs_request_device(struct fab *head, struct fab_request *request)
{
	struct verbs_device *device;

	if (verbs_device_get(verbs_fab(head), ((struct verbs_request *)request)->id->verbs->device,
			     &device))
		return NULL;
	return &device->head;
}

/* On failure the request is unchanged; the caller rejects it with a reason. */
int verbs_accept(struct fab *head, struct fab_request *request_head,
		 const struct fab_conn_options *options, struct fab_conn **out)
{
	struct verbs_request *request = (struct verbs_request *)request_head;
	struct verbs_fab *fab = verbs_fab(head);
	struct verbs_device *device;
	struct verbs_conn *conn;
	int err = verbs_channel_open(fab);

	if (err)
		return fab_fail(head, err, "accept: %s", strerror(-err));
	err = verbs_device_get(fab, request->id->verbs->device, &device);
	if (err)
		return err;
	conn = verbs_conn_alloc(fab, options, VERBS_CONN_ACCEPTED);
	if (!conn)
		return fab_fail(head, -ENOMEM, "accept: out of memory");
	fab_conn_set_peer(&conn->head, fab_request_peer(request_head));
	conn->read_in = min_depth(options->read_in, device->head.limits.max_read_in);
	conn->read_in = min_depth(conn->read_in, request_head->read_out);
	conn->head.read_out = min_depth(options->read_out, device->head.limits.max_read_out);
	conn->head.read_out = min_depth(conn->head.read_out, request_head->read_in);
	err = verbs_conn_create_qp(conn, request->id, device);
	if (err)
		goto err_free;
	/* Waits until the listener's thread has acknowledged what it may be looking at. */
	if (request->id->channel != fab->channel && rdma_migrate_id(request->id, fab->channel)) {
		err = fab_fail(head, -errno, "%s: cannot be moved to the accepting thread: %s",
			       conn->head.peer, strerror(errno));
		goto err_destroy_qp;
	}
	conn->id = request->id;
	conn->id->context = conn;
	conn->unanswered = true;
	free(request);
	*out = &conn->head;
	return 0;

err_destroy_qp:
	verbs_conn_destroy_qp(conn);
	verbs_device_settle(device);
err_free:
	verbs_conn_free(conn);
	return err;
}

static int verbs_conn_accept(struct verbs_conn *conn, const void *private_data, uint8_t bytes)
{
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = bytes,
		.responder_resources = conn->read_in,
		.initiator_depth = conn->head.read_out,
		.rnr_retry_count = VERBS_RNR_RETRY_COUNT,
		.srq = conn->qp->srq != NULL,
		.qp_num = conn->qp->qp_num,
	};

	if (rdma_accept(conn->id, &param))
		return fab_fail(conn->head.fab, -errno, "accept %s: %s", conn->head.peer,
				errno == EINVAL || errno == ECONNRESET ? "the peer has given up"
								       : strerror(errno));
	conn->unanswered = false;
	return verbs_conn_set_state(conn, VERBS_CONN_ESTABLISHING) ? 0 : -EPROTO;
}

int verbs_conn_establish(struct fab_conn *head, const void *private_data, uint8_t bytes)
{
	struct verbs_conn *conn = verbs_conn(head);
	int err;

	if (conn->state != VERBS_CONN_ACCEPTED)
		return fab_fail(head->fab, -ENOTCONN, "accept %s: %s", head->peer,
				conn->reason[0] ? conn->reason : "closed");
	if (!conn->qp) {
		if (bytes > sizeof(conn->private_data))
			return fab_fail(head->fab, -EINVAL, "accept %s: %u bytes of private data, %zu fit",
					head->peer, bytes, sizeof(conn->private_data));
		if (bytes > 0)
			memcpy(conn->private_data, private_data, bytes);
		conn->options.private_bytes = bytes;
		verbs_qp_begin_make(conn);
		return 0;
	}
	err = verbs_conn_start_qp(conn);
	if (err)
		return fab_fail(head->fab, err, "accept %s: queue pair: %s", head->peer,
				strerror(-err));
	return verbs_conn_accept(conn, private_data, bytes);
}

void verbs_conn_answer(struct verbs_conn *conn)
{
	int err = verbs_conn_accept(conn, conn->private_data, conn->options.private_bytes);

	if (err)
		verbs_conn_break(conn, FAB_EVENT_FAILED, err, "%s", conn->head.fab->error);
}

void verbs_conn_refuse(struct fab_conn *head, const void *private_data, uint8_t bytes)
{
	struct verbs_conn *conn = verbs_conn(head);

	if (conn->unanswered)
		rdma_reject(conn->id, private_data, bytes);
	conn->unanswered = false;
}

/* -- connecting ------------------------------------------------------------------------------- */

static const char *verbs_connect_cause(int err)
{
	switch (err) {
	case ENODEV:
		return VERBS_NO_DEVICE;
	case ENETUNREACH:
	case EHOSTUNREACH:
		return "no route to it";
	case ECONNREFUSED: /* iWARP: by TCP, before rdma_cm has anything to reject */
		return "refused: nobody listens on that port";
	case ENOSYS:
		return "this kernel cannot set ack_timeout";
	case EADDRNOTAVAIL:
		return "the source address is not this machine's";
	case ETIMEDOUT:
		return "no answer: the host is down or its address does not answer ARP";
	default:
		return strerror(err);
	}
}

static void verbs_conn_fail(struct verbs_conn *conn, int err, const char *words)
{
	verbs_conn_break(conn, FAB_EVENT_FAILED, -err, "connect to %s: %s", conn->head.peer, words);
}

/* Before the address is resolved. 0 or a positive errno. */
static int verbs_connect_set(struct rdma_cm_id *id, const struct fab_conn_options *options)
{
	uint8_t tos = options->tos, ack_timeout = options->ack_timeout;

	if (tos && rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
		return errno;
	if (ack_timeout && rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
					   sizeof(ack_timeout)))
		return errno;
	return 0;
}

/* As was asked for, or of the device that was. NULL: as the routes say; that they lead to another one is told later. */
static struct sockaddr *verbs_connect_source(const struct fab *fab, const struct sockaddr *addr,
					     const struct fab_conn_options *options, struct sockaddr_storage *source)
{
	memset(source, 0, sizeof(*source));
	if (options->source)
		memcpy(source, options->source,
		       addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	else if (!fab->options.device || !verbs_source_find(fab->options.device, addr, source))
		return NULL;
	return (struct sockaddr *)source;
}

int verbs_connect(struct fab *head, const struct sockaddr *addr,
		  const struct fab_conn_options *options, fab_prepare_fn prepare,
		  struct fab_conn **out)
{
	struct verbs_fab *fab = verbs_fab(head);
	struct sockaddr_storage peer = {0}, source;
	struct verbs_conn *conn;
	char text[80];
	int err;

	fab_format_address(addr, text, sizeof(text));
	if (options->private_bytes > RBLK_PRIVATE_DATA_MAX)
		return fab_fail(head, -EINVAL, "connect to %s: %u bytes of private data, %u fit",
				text, options->private_bytes, RBLK_PRIVATE_DATA_MAX);
	conn = verbs_conn_alloc(fab, options, VERBS_CONN_RESOLVING);
	if (!conn)
		return fab_fail(head, -ENOMEM, "connect to %s: out of memory", text);
	memcpy(conn->head.peer, text, sizeof(text));
	memcpy(&peer, addr,
	       addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
	conn->prepare = prepare;
	if (options->private_bytes > 0)
		memcpy(conn->private_data, options->private_data, options->private_bytes);
	if (conn->options.timeout_ms > INT_MAX)
		conn->options.timeout_ms = INT_MAX; /* all that rdma_cm and poll() can be told */
	if (rdma_create_id(fab->channel, &conn->id, conn, RDMA_PS_TCP)) {
		err = errno;
		goto err_free;
	}
	err = verbs_connect_set(conn->id, options);
	if (err)
		goto err_destroy_id;
	if (rdma_resolve_addr(conn->id, verbs_connect_source(head, addr, options, &source), (struct sockaddr *)&peer,
			      (int)conn->options.timeout_ms)) {
		err = errno;
		if (err != EINVAL)
			goto err_destroy_id;
		/* With Soft-iWARP no device reaches the address; others report that as an event. */
		verbs_conn_fail(conn, ENODEV, VERBS_NO_DEVICE);
		*out = &conn->head;
		return 0;
	}
	verbs_conn_set_deadline(conn, env_now_ns() + conn->options.timeout_ms * NS_PER_MS);
	*out = &conn->head;
	return 0;

err_destroy_id:
	rdma_destroy_id(conn->id);
err_free:
	verbs_conn_free(conn);
	return fab_fail(head, -err, "connect to %s: %s", text, verbs_connect_cause(err));
}

static void verbs_cm_addr_resolved(struct verbs_conn *conn)
{
	uint64_t now = env_now_ns();
	uint64_t left_ms = conn->deadline_ns > now ? (conn->deadline_ns - now) / NS_PER_MS : 0;

	if (rdma_resolve_route(conn->id, (int)left_ms + 1))
		verbs_conn_fail(conn, errno, verbs_connect_cause(errno));
}

/* The device is known: make the queue pair, let the caller prepare, send the request. */
static void verbs_cm_route_resolved(struct verbs_conn *conn)
{
	struct fab *fab = conn->head.fab;
	struct rdma_conn_param param = {0};
	struct verbs_device *device;
	int err = verbs_device_get(verbs_fab(fab), conn->id->verbs->device, &device);

	if (!err)
		err = verbs_conn_create_qp(conn, conn->id, device);
	if (err) {
		verbs_conn_fail(conn, -err, fab->error);
		return;
	}
	conn->read_in = min_depth(conn->options.read_in, verbs_conn_limits(conn)->max_read_in);
	conn->head.read_out =
		min_depth(conn->options.read_out, verbs_conn_limits(conn)->max_read_out);
	err = conn->prepare ? conn->prepare(&conn->head, conn->head.user) : 0;
	/* prepare() may have closed it, or its device may have been removed meanwhile. */
	if (conn->state != VERBS_CONN_RESOLVING)
		return;
	if (err) {
		verbs_conn_fail(conn, -err, strerror(-err));
		return;
	}
	param.private_data = conn->private_data;
	param.private_data_len = conn->options.private_bytes;
	param.responder_resources = conn->read_in;
	param.initiator_depth = conn->head.read_out;
	param.retry_count = VERBS_RETRY_COUNT;
	param.rnr_retry_count = VERBS_RNR_RETRY_COUNT;
	param.srq = conn->qp->srq != NULL;
	param.qp_num = conn->qp->qp_num;
	if (rdma_connect(conn->id, &param)) {
		verbs_conn_fail(conn, errno, verbs_connect_cause(errno));
		return;
	}
	verbs_conn_set_state(conn, VERBS_CONN_CONNECTING);
}

static void verbs_cm_keep_private(struct verbs_fab *fab, const struct rdma_cm_event *event)
{
	fab->private_bytes = event->param.conn.private_data_len;
	if (fab->private_bytes > 0)
		memcpy(fab->private_data, event->param.conn.private_data, fab->private_bytes);
}

/* IB, RoCE: the acceptance is here; the queue pair goes to RTS and the peer is told so. */
static void verbs_cm_answered(struct verbs_conn *conn, const struct rdma_cm_event *event)
{
	int err;

	/* initiator_depth: what the peer can answer. */
	conn->head.read_out = min_depth(conn->head.read_out, event->param.conn.initiator_depth);
	err = verbs_conn_start_qp(conn);
	if (!err && event->event == RDMA_CM_EVENT_CONNECT_RESPONSE && rdma_establish(conn->id))
		err = -errno;
	if (err) {
		verbs_conn_fail(conn, -err, strerror(-err));
		return;
	}
	verbs_conn_set_deadline(conn, 0);
	if (verbs_conn_set_state(conn, VERBS_CONN_ESTABLISHED))
		verbs_conn_raise(conn, FAB_EVENT_ESTABLISHED);
}

static void verbs_cm_established(struct verbs_conn *conn, const struct rdma_cm_event *event)
{
	if (conn->state == VERBS_CONN_CONNECTING) {
		verbs_cm_answered(conn, event);
	} else if (conn->state == VERBS_CONN_ESTABLISHING) {
		if (verbs_conn_set_state(conn, VERBS_CONN_ESTABLISHED))
			verbs_conn_raise(conn, FAB_EVENT_ESTABLISHED);
	}
}

static const char *verbs_reject_words(int status)
{
	switch (status) {
	case VERBS_REJECT_NO_SERVICE:
	case -ECONNREFUSED:
		return "refused: nobody listens on that port";
	case VERBS_REJECT_NO_QP:
	case VERBS_REJECT_NO_RESOURCES:
		return "refused: the peer has no resources for it";
	case VERBS_REJECT_TIMEOUT:
		return "the peer has given up waiting for us";
	case VERBS_REJECT_STALE:
		return "refused: the peer still has an older connection; try again";
	default:
		return "refused by the peer's connection manager";
	}
}

static void verbs_cm_rejected(struct verbs_conn *conn, const struct rdma_cm_event *event)
{
	bool by_program =
		event->status == VERBS_REJECT_CONSUMER ||
		(verbs_device(conn->head.device)->iwarp && event->param.conn.private_data_len > 0);

	if (by_program)
		verbs_conn_break(conn, FAB_EVENT_REJECTED, -ECONNREFUSED, "connect to %s: refused",
				 conn->head.peer);
	else
		verbs_conn_fail(conn, ECONNREFUSED, verbs_reject_words(event->status));
}

/* -- events ----------------------------------------------------------------------------------- */

/* The handshake or the connection ended, by the peer or by the network. */
static void verbs_cm_over(struct verbs_conn *conn, const struct rdma_cm_event *event)
{
	int err = event->status < 0 ? -event->status : ECONNRESET;

	if (conn->state >= VERBS_CONN_BROKEN)
		return;
	if (event->event == RDMA_CM_EVENT_REJECTED && conn->state == VERBS_CONN_CONNECTING)
		verbs_cm_rejected(conn, event);
	else if (conn->state <= VERBS_CONN_CONNECTING)
		verbs_conn_fail(conn, err, verbs_connect_cause(err));
	else if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		verbs_conn_break(conn, FAB_EVENT_DISCONNECTED, -ECONNRESET,
				 "connection to %s: closed by the peer", conn->head.peer);
	else
		verbs_conn_break(conn, FAB_EVENT_DISCONNECTED, -err,
				 "connection to %s: the peer did not complete the handshake",
				 conn->head.peer);
}

static void verbs_cm_moved(struct verbs_conn *conn)
{
	static const char cause[] = "the hardware address of the local device has changed";

	if (conn->state <= VERBS_CONN_CONNECTING)
		verbs_conn_fail(conn, ECONNRESET, cause);
	else if (conn->state < VERBS_CONN_BROKEN)
		verbs_conn_break(conn, FAB_EVENT_DISCONNECTED, -ECONNRESET, "connection to %s: %s",
				 conn->head.peer, cause);
}

static void verbs_cm_conn_event(struct verbs_conn *conn, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (conn->state == VERBS_CONN_RESOLVING)
			verbs_cm_addr_resolved(conn);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (conn->state == VERBS_CONN_RESOLVING)
			verbs_cm_route_resolved(conn);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (conn->state == VERBS_CONN_CONNECTING)
			verbs_cm_answered(conn, event);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		verbs_cm_established(conn, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
		verbs_cm_over(conn, event);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		if (conn->head.device)
			verbs_device_lost(verbs_device(conn->head.device), -ENODEV,
					  "the device was removed");
		else if (conn->state == VERBS_CONN_RESOLVING)
			verbs_conn_fail(conn, ENODEV, "the device was removed");
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		/* A bond uses another port: the peer goes on sending to the hardware address of the last one. */
		verbs_cm_moved(conn);
		break;
	default:
		/* The end of TIMEWAIT needs no action. */
		break;
	}
}

void verbs_cm_event(struct verbs_fab *fab)
{
	struct rdma_cm_event *raw;
	struct rdma_cm_event event;
	void *context;

	if (rdma_get_cm_event(fab->channel, &raw)) {
		/* Other errors concern one event that could not be taken: look for the next. */
		if (errno == EAGAIN)
			fab->cm_ready = false;
		return;
	}
	event = *raw;
	/*
	 * Read before it is acknowledged: the thread that accepts or rejects a request has only waited for that,
	 * and may change or free the id.
	 */
	context = event.id->context;
	verbs_cm_keep_private(fab, &event);
	event.param.conn.private_data = fab->private_data;
	rdma_ack_cm_event(raw);

	if (context != fab)
		verbs_cm_conn_event(context, &event);
	else if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		verbs_cm_request(fab, &event);
	else if (event.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		verbs_listener_lost(fab, event.id);
	/* Else the peer of a request gave up: accepting it will fail. */
}
