/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An implementation of the fabric gives these: the table of its operations, and the common heads of
 * the objects that fabric.h keeps opaque. fabric_calls.c calls through the table; fabric_verbs.c,
 * fabric_tcp.c and the simulator embed the heads in their own structs. Nobody else includes this.
 */
#ifndef RBLK_FABRIC_IMPL_H
#define RBLK_FABRIC_IMPL_H

#include "proto/fabric/fabric.h"

struct fab_ops {
	enum fab_kind kind;
	struct fab *(*open)(const struct fab_options *options, char *error);
	void (*close)(struct fab *fab);
	int (*arm)(struct fab *fab);
	int (*arm_receives)(struct fab *fab); /* NULL: arm */
	int (*arm_to_send)(struct fab *fab, struct fab_send *send); /* NULL: arm, which leaves none */
	void (*sent)(struct fab *fab, int sent);		    /* of what arm_to_send has left */
	int (*poll)(struct fab *fab, struct ibv_wc *wc, int count);
	int (*poll_event)(struct fab *fab, struct fab_event *event);
	int (*timeout_ms)(const struct fab *fab);

	int (*listen)(struct fab *fab, const struct sockaddr *addr, int backlog,
		      struct fab_listener **listener);
	void (*listener_destroy)(struct fab_listener *listener);
	int (*listener_address)(const struct fab_listener *listener, struct sockaddr_storage *addr);
	int (*accept)(struct fab *fab, struct fab_request *request,
		      const struct fab_conn_options *options, struct fab_conn **conn);
	void (*reject)(struct fab_request *request, const void *private_data, uint8_t bytes);
	struct fab_device *(*request_device)(struct fab *fab, struct fab_request *request);
	void (*device_release)(struct fab_device *device); /* NULL: its devices are never removed */
	void (*devices_check)(struct fab *fab);		   /* the same */

	int (*connect)(struct fab *fab, const struct sockaddr *addr,
		       const struct fab_conn_options *options, fab_prepare_fn prepare,
		       struct fab_conn **conn);
	int (*conn_establish)(struct fab_conn *conn, const void *private_data, uint8_t bytes);
	void (*conn_refuse)(struct fab_conn *conn, const void *private_data, uint8_t bytes);
	void (*conn_close)(struct fab_conn *conn);
	void (*conn_destroy)(struct fab_conn *conn);
	void (*conn_host_id)(const struct fab_conn *conn, uint8_t id[FAB_HOST_ID_BYTES]); /* NULL: peers say none */

	int (*mr_register)(struct fab *fab, void *addr, size_t bytes, int access,
			   struct fab_mr **mr);
	void (*mr_deregister)(struct fab_mr *mr);
	/* NULL, all four: registering takes no time here. */
	int (*mr_begin)(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr);
	void (*mr_retire)(struct fab_mr *mr);
	void (*mr_work)(struct fab_mr *mr);
	int (*mr_end)(struct fab_mr *mr);

	int (*post_send)(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	int (*post_recv)(struct fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	int (*post_srq_recv)(struct fab_device *device, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad);
};

/* Heads: the implementation's struct begins with one of these. Fixed after creation unless said. */

struct fab_conn_table; /* qp_num -> conn, in fabric_impl.c */

struct fab {
	const struct fab_ops *ops;
	struct fab_options options;
	int fd;
	struct fab_conn_table *conns;
	uint64_t activity; /* of software fabrics: transfers of data, whole or in part */
	void *above; /* of a fabric that is made of this one (target/nvme/rdma.c) */
	char error[FAB_ERROR_BYTES]; /* of the last failure */
};

struct fab_device {
	struct fab *fab;
	unsigned int index;
	char name[64];
	struct fab_limits limits; /* immediate and invalidate included */
};

struct fab_listener {
	struct fab *fab;
};

struct fab_request {
	const struct fab_ops *ops;
	struct fab *fab; /* the only one that can accept it; NULL: any */
	struct sockaddr_storage peer;
	uint8_t read_in, read_out; /* what the peer offers */
	struct rblk_tls *tls; /* NULL: without */
};

struct fab_conn {
	struct fab *fab;
	struct fab_device *device; /* NULL until the address is resolved */
	void *user, *above;    /* as the fab's */
	struct rblk_tls *tls;  /* NULL: without */
	uint32_t qp_num;       /* unique in the fab; 0 until the queue pair exists */
	uint32_t inline_bytes; /* what there is */
	uint8_t read_out;      /* negotiated; valid when established */
	int lost;	       /* of a software fabric: the status of DISCONNECTED */
	char peer[80];	       /* and: fab_conn_set_peer() */
	uint8_t network[FAB_NETWORK_BYTES];
	struct fab_counters counters; /* kept by fab_post_send() */
};

struct fab_mr {
	struct fab *fab;
	uint32_t lkey[FAB_DEVICES_MAX];
	uint32_t rkey[FAB_DEVICES_MAX];
	bool retired; /* fab_mr_retire() */
};

extern const struct fab_ops fab_verbs_ops;
extern const struct fab_ops fab_tcp_ops;

/* The target's tables for NVMe hosts, and the simulator's, which only tests set; NULL elsewhere. */
extern const struct fab_ops *fab_nvme_ops, *fab_nvme_rdma_ops, *fab_sim_ops;

void fab_conn_set_peer(struct fab_conn *conn, const struct sockaddr *peer);

/* Keep fab_conn_find() right. insert: 0 or -ENOMEM, -EEXIST. */
int fab_conn_table_insert(struct fab *fab, struct fab_conn *conn);
void fab_conn_table_remove(struct fab *fab, struct fab_conn *conn);

/* Format fab->error: object first, reason last. Returns `error` (negative) for `return`. */
int fab_fail(struct fab *fab, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
