/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The half of the fabric that all kinds share: the calls of fabric.h go through the table of the
 * kind that was opened, what the heads of fabric_impl.h hold is answered here. Owns the table that
 * leads from a queue pair's number to its connection, the counters of work requests, and the
 * wording of errors. Knows nothing of any kind; the tables are the kinds' own.
 */
#include "proto/fabric/fabric.h"
#include "proto/fabric/fabric_impl.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct fab_ops *fab_sim_ops;

/* -- connections by queue pair number ----------------------------------------------------------
 *
 * Open addressing, linear probing, at most half full, so that a lookup is one or two loads. Created
 * with the first connection and freed with the last, so that implementations have nothing to do
 * for it. Removal closes the gap by moving later entries back: there are no tombstones, and
 * a table that has seen a million reconnections is as fast as a new one.
 */

struct fab_conn_slot {
	uint32_t qp_num;
	struct fab_conn *conn; /* NULL: free */
};

struct fab_conn_table {
	uint32_t mask; /* slots - 1; slots is a power of two */
	uint32_t used;
	struct fab_conn_slot slots[];
};

#define FAB_CONN_SLOTS_MIN 16

static uint32_t conn_table_home(const struct fab_conn_table *table, uint32_t qp_num)
{
	/* Numbers come in runs, or differ in high bits only: multiply, take the middle bits. */
	return (uint32_t)(((uint64_t)qp_num * 0x9e3779b1u) >> 16) & table->mask;
}

static struct fab_conn_table *conn_table_alloc(uint32_t slots)
{
	struct fab_conn_table *table =
		calloc(1, sizeof(*table) + slots * sizeof(struct fab_conn_slot));

	if (table)
		table->mask = slots - 1;
	return table;
}

static void conn_table_put(struct fab_conn_table *table, struct fab_conn *conn)
{
	uint32_t i = conn_table_home(table, conn->qp_num);

	while (table->slots[i].conn)
		i = (i + 1) & table->mask;
	table->slots[i].qp_num = conn->qp_num;
	table->slots[i].conn = conn;
	table->used++;
}

/* Room for one more at no more than half full. */
static int conn_table_reserve(struct fab *fab)
{
	struct fab_conn_table *old = fab->conns;
	struct fab_conn_table *table;
	uint32_t slots = old ? old->mask + 1 : 0;

	if (old && (old->used + 1) * 2 <= slots)
		return 0;
	table = conn_table_alloc(old ? slots * 2 : FAB_CONN_SLOTS_MIN);
	if (!table)
		return -ENOMEM;
	for (uint32_t i = 0; i < slots; i++)
		if (old->slots[i].conn)
			conn_table_put(table, old->slots[i].conn);
	free(old);
	fab->conns = table;
	return 0;
}

int fab_conn_table_insert(struct fab *fab, struct fab_conn *conn)
{
	int err;

	if (fab_conn_find(fab, conn->qp_num))
		return -EEXIST;
	err = conn_table_reserve(fab);
	if (err)
		return err;
	conn_table_put(fab->conns, conn);
	return 0;
}

/* Entries behind the gap move into it unless they would land before their home. */
static void conn_table_close_gap(struct fab_conn_table *table, uint32_t gap)
{
	uint32_t i = gap;

	for (;;) {
		uint32_t home;

		i = (i + 1) & table->mask;
		if (!table->slots[i].conn)
			break;
		home = conn_table_home(table, table->slots[i].qp_num);
		if (((i - home) & table->mask) < ((i - gap) & table->mask))
			continue;
		table->slots[gap] = table->slots[i];
		gap = i;
	}
	table->slots[gap].conn = NULL;
}

void fab_conn_table_remove(struct fab *fab, struct fab_conn *conn)
{
	struct fab_conn_table *table = fab->conns;
	uint32_t i;

	if (!table)
		return;
	for (i = conn_table_home(table, conn->qp_num); table->slots[i].conn != conn;
	     i = (i + 1) & table->mask)
		if (!table->slots[i].conn)
			return;
	conn_table_close_gap(table, i);
	if (--table->used == 0) {
		free(table);
		fab->conns = NULL;
	}
}

struct fab_conn *fab_conn_find(struct fab *fab, uint32_t qp_num)
{
	const struct fab_conn_table *table = fab->conns;

	if (!table)
		return NULL;
	for (uint32_t i = conn_table_home(table, qp_num); table->slots[i].conn;
	     i = (i + 1) & table->mask)
		if (table->slots[i].qp_num == qp_num)
			return table->slots[i].conn;
	return NULL;
}

/* -- errors ----------------------------------------------------------------------------------- */

int fab_fail(struct fab *fab, int error, const char *format, ...)
{
	char text[FAB_ERROR_BYTES];
	va_list args;

	/* Via a copy: the new text may quote the old one. */
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(fab->error, text, sizeof(text));
	return error;
}

void fab_format_address(const struct sockaddr *addr, char *text, size_t bytes)
{
	char host[INET6_ADDRSTRLEN];

	if (bytes == 0)
		return;
	if (addr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(text, bytes, "%s:%u", host, ntohs(in->sin_port));
	} else if (addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(text, bytes, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		snprintf(text, bytes, "(address family %d)", addr->sa_family);
	}
}

/* -- context ---------------------------------------------------------------------------------- */

static const struct fab_ops *fab_ops_of(enum fab_kind kind)
{
	switch (kind) {
	case FAB_VERBS:
		return &fab_verbs_ops;
	case FAB_TCP:
		return &fab_tcp_ops;
	case FAB_SIM:
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
	assert(!fab->conns && "fab_close() before the last fab_conn_destroy()");
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

int fab_connect(struct fab *fab, const struct sockaddr *addr,
		const struct fab_conn_options *options, fab_prepare_fn prepare,
		struct fab_conn **conn)
{
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

void fab_conn_set_user(struct fab_conn *conn, void *user)
{
	conn->user = user;
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

const char *fab_conn_peer(const struct fab_conn *conn)
{
	return conn->peer;
}

/* -- devices ---------------------------------------------------------------------------------- */

const char *fab_device_name(const struct fab_device *device)
{
	return device->name;
}

const struct fab_limits *fab_device_limits(const struct fab_device *device)
{
	return &device->limits;
}

void *fab_device_user(const struct fab_device *device)
{
	return device->user;
}

void fab_device_set_user(struct fab_device *device, void *user)
{
	device->user = user;
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

int fab_mr_register(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr)
{
	return fab->ops->mr_register(fab, addr, bytes, access, mr);
}

int fab_mr_register_private(struct fab_conn *conn, void *addr, size_t bytes, int access,
			    struct fab_mr **mr)
{
	return conn->fab->ops->mr_register_private(conn, addr, bytes, access, mr);
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
	/* Work requests are the caller's again once posted, and still in its cache. */
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
