/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls of fabric.h, above all kinds of fabric: each goes through the table of the kind that
 * was opened, or is answered from the heads of fabric_impl.h. Counts work requests.
 */
#include "proto/fabric/fabric.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "proto/fabric/fabric_impl.h"
#include "proto/tls/tls.h"

const struct fab_ops *fab_nvme_ops, *fab_nvme_rdma_ops, *fab_sim_ops;

/* -- context ---------------------------------------------------------------------------------- */

static const struct fab_ops *fab_ops_of(enum fab_kind kind)
{
	switch (kind) {
	case FAB_VERBS:
		return &fab_verbs_ops;
	case FAB_TCP:
		return &fab_tcp_ops;
	case FAB_NVME:
		return fab_nvme_ops;
	case FAB_NVME_RDMA:
		return fab_nvme_rdma_ops;
	case FAB_SIM:
	case FAB_SIM2:
		return fab_sim_ops;
	}
	return NULL;
}

struct fab *fab_open(enum fab_kind kind, const struct fab_options *options, char *error)
{
	const struct fab_ops *ops = fab_ops_of(kind);

	if (!ops) {
		snprintf(error, FAB_ERROR_BYTES, "fabric kind %d: not in this program", (int)kind);
		errno = EPROTONOSUPPORT;
		return NULL;
	}
	return ops->open(options, error);
}

void fab_close(struct fab *fab)
{
	if (!fab)
		return;
	assert((!fab->conns || fab->above) && "fab_close() before the last fab_conn_destroy()");
	fab->ops->close(fab);
}

const char *fab_error(const struct fab *fab)
{
	return fab->error;
}

enum fab_kind fab_kind_of(const struct fab *fab)
{
	return fab->ops->kind;
}

int fab_fd(const struct fab *fab)
{
	return fab->fd;
}

int fab_arm(struct fab *fab)
{
	return fab->ops->arm(fab);
}

int fab_arm_to_send(struct fab *fab, struct fab_send *send)
{
	send->message = NULL;
	return fab->ops->arm_to_send ? fab->ops->arm_to_send(fab, send) : fab->ops->arm(fab);
}

void fab_sent(struct fab *fab, int sent)
{
	fab->ops->sent(fab, sent);
}

int fab_arm_receives(struct fab *fab)
{
	return fab->ops->arm_receives ? fab->ops->arm_receives(fab) : fab->ops->arm(fab);
}

int fab_poll(struct fab *fab, struct ibv_wc *wc, int count)
{
	return fab->ops->poll(fab, wc, count);
}

int fab_poll_event(struct fab *fab, struct fab_event *event)
{
	return fab->ops->poll_event(fab, event);
}

uint64_t fab_activity(const struct fab *fab)
{
	return fab->activity;
}

int fab_timeout_ms(const struct fab *fab)
{
	return fab->ops->timeout_ms(fab);
}

/* -- listening, connecting -------------------------------------------------------------------- */

int fab_listen(struct fab *fab, const struct sockaddr *addr, int backlog,
	       struct fab_listener **listener)
{
	return fab->ops->listen(fab, addr, backlog, listener);
}

void fab_listener_destroy(struct fab_listener *listener)
{
	if (listener)
		listener->fab->ops->listener_destroy(listener);
}

int fab_listener_address(const struct fab_listener *listener, struct sockaddr_storage *addr)
{
	return listener->fab->ops->listener_address(listener, addr);
}

int fab_accept(struct fab *fab, struct fab_request *request, const struct fab_conn_options *options,
	       struct fab_conn **conn)
{
	assert(request->ops == fab->ops);
	return fab->ops->accept(fab, request, options, conn);
}

void fab_reject(struct fab_request *request, const void *private_data, uint8_t bytes)
{
	request->ops->reject(request, private_data, bytes);
}

struct fab_device *fab_request_device(struct fab *fab, struct fab_request *request)
{
	assert(request->ops == fab->ops);
	return fab->ops->request_device(fab, request);
}

void fab_request_read_depth(const struct fab_request *request, uint8_t *in, uint8_t *out)
{
	*in = request->read_in;
	*out = request->read_out;
}

const struct sockaddr *fab_request_peer(const struct fab_request *request)
{
	return (const struct sockaddr *)&request->peer;
}

enum fab_kind fab_request_kind(const struct fab_request *request)
{
	return request->ops->kind;
}

struct fab *fab_request_fab(const struct fab_request *request)
{
	return request->fab;
}

static const struct fab_channel *channel_fill(struct fab_channel *channel, const struct rblk_tls *tls)
{
	if (!tls)
		return NULL;
	channel->initiator = rblk_tls_name(tls);
	channel->binding = rblk_tls_channel(tls);
	return channel;
}

const struct fab_channel *fab_request_channel(const struct fab_request *request, struct fab_channel *channel)
{
	return channel_fill(channel, request->tls);
}

const struct fab_channel *fab_conn_channel(const struct fab_conn *conn, struct fab_channel *channel)
{
	return channel_fill(channel, conn->tls);
}

int fab_connect(struct fab *fab, const struct sockaddr *addr,
		const struct fab_conn_options *options, fab_prepare_fn prepare,
		struct fab_conn **conn)
{
	if (options->source && options->source->sa_family != addr->sa_family) {
		char peer[80];

		fab_format_address(addr, peer, sizeof(peer));
		return fab_fail(fab, -EAFNOSUPPORT, "connect to %s: the source address is of another family", peer);
	}
	return fab->ops->connect(fab, addr, options, prepare, conn);
}

int fab_conn_establish(struct fab_conn *conn, const void *private_data, uint8_t bytes)
{
	return conn->fab->ops->conn_establish(conn, private_data, bytes);
}

void fab_conn_refuse(struct fab_conn *conn, const void *private_data, uint8_t bytes)
{
	conn->fab->ops->conn_refuse(conn, private_data, bytes);
}

void fab_conn_close(struct fab_conn *conn)
{
	conn->fab->ops->conn_close(conn);
}

void fab_conn_destroy(struct fab_conn *conn)
{
	if (conn)
		conn->fab->ops->conn_destroy(conn);
}

void *fab_conn_user(const struct fab_conn *conn)
{
	return conn->user;
}

struct fab_device *fab_conn_device(const struct fab_conn *conn)
{
	return conn->device;
}

uint32_t fab_conn_inline(const struct fab_conn *conn)
{
	return conn->inline_bytes;
}

uint8_t fab_conn_read_out(const struct fab_conn *conn)
{
	return conn->read_out;
}

uint32_t fab_conn_qp_num(const struct fab_conn *conn)
{
	return conn->qp_num;
}

int fab_conn_lost(const struct fab_conn *conn)
{
	return conn->lost;
}

const char *fab_conn_peer(const struct fab_conn *conn)
{
	return conn->peer;
}

bool fab_conn_host_id(const struct fab_conn *conn, uint8_t id[FAB_HOST_ID_BYTES])
{
	memset(id, 0, FAB_HOST_ID_BYTES);
	if (conn->fab->ops->conn_host_id)
		conn->fab->ops->conn_host_id(conn, id);
	return conn->fab->ops->conn_host_id != NULL;
}

/* -- devices ---------------------------------------------------------------------------------- */

const char *fab_device_name(const struct fab_device *device)
{
	return device->name;
}

struct fab *fab_device_fab(const struct fab_device *device)
{
	return device->fab;
}

const struct fab_limits *fab_device_limits(const struct fab_device *device)
{
	return &device->limits;
}

unsigned int fab_device_index(const struct fab_device *device)
{
	return device->index;
}

void fab_device_release(struct fab_device *device)
{
	if (device->fab->ops->device_release)
		device->fab->ops->device_release(device);
}

void fab_devices_check(struct fab *fab)
{
	if (fab->ops->devices_check)
		fab->ops->devices_check(fab);
}

/* -- memory ----------------------------------------------------------------------------------- */

struct fab *fab_mr_fab(const struct fab_mr *mr)
{
	return mr->fab;
}

int fab_mr_begin(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr)
{
	if (!fab->ops->mr_begin)
		return fab->ops->mr_register(fab, addr, bytes, access, mr);
	return fab->ops->mr_begin(fab, addr, bytes, access, mr);
}

void fab_mr_retire(struct fab_mr *mr)
{
	mr->retired = true;
	if (mr->fab->ops->mr_retire)
		mr->fab->ops->mr_retire(mr);
}

void fab_mr_work(struct fab_mr *mr)
{
	if (mr->fab->ops->mr_work)
		mr->fab->ops->mr_work(mr);
}

int fab_mr_end(struct fab_mr *mr)
{
	if (mr->fab->ops->mr_end)
		return mr->fab->ops->mr_end(mr);
	if (mr->retired)
		mr->fab->ops->mr_deregister(mr);
	return 0;
}

int fab_mr_register(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr)
{
	return fab->ops->mr_register(fab, addr, bytes, access, mr);
}

void fab_mr_deregister(struct fab_mr *mr)
{
	if (mr)
		mr->fab->ops->mr_deregister(mr);
}

uint32_t fab_mr_lkey(const struct fab_mr *mr, const struct fab_device *device)
{
	return mr->lkey[device->index];
}

uint32_t fab_mr_rkey(const struct fab_mr *mr, const struct fab_device *device)
{
	return mr->rkey[device->index];
}

/* -- the data path ---------------------------------------------------------------------------- */

static void fab_counters_add(struct fab_counters *counters, enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		counters->sends++;
		break;
	case IBV_WR_RDMA_WRITE:
		counters->writes++;
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		counters->write_imms++;
		break;
	case IBV_WR_RDMA_READ:
		counters->reads++;
		break;
	default:
		counters->others++;
		break;
	}
}

int fab_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *first = wr;
	struct ibv_send_wr *end = NULL; /* behind the last that was posted */
	int err = conn->fab->ops->post_send(conn, wr, bad);

	conn->counters.doorbells++;
	if (err)
		end = *bad;
	/* Work requests belong to the caller again once posted, and are still in its cache. */
	for (; first != end; first = first->next)
		fab_counters_add(&conn->counters, first->opcode);
	return err;
}

int fab_post_recv(struct fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return conn->fab->ops->post_recv(conn, wr, bad);
}

int fab_post_srq_recv(struct fab_device *device, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return device->fab->ops->post_srq_recv(device, wr, bad);
}

void fab_conn_counters(const struct fab_conn *conn, struct fab_counters *counters)
{
	*counters = conn->counters;
}
