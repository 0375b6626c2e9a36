/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's verbs and connection manager as kmod/ uses them, over the simulated fabric. rdma.c, mr.c.
 */
#ifndef RBLK_TESTS_SIM_KERNEL_RDMA_H
#define RBLK_TESTS_SIM_KERNEL_RDMA_H

#include "tests/sim/kernel/block.h"

struct fab_mr;

/* -- devices, memory -------------------------------------------------------------------------------- */

enum dma_data_direction { DMA_BIDIRECTIONAL, DMA_TO_DEVICE, DMA_FROM_DEVICE };
#define rq_dma_dir(rq) (rq_data_dir(rq) == WRITE ? DMA_TO_DEVICE : DMA_FROM_DEVICE)

#define IB_DEVICE_MEM_MGT_EXTENSIONS 1u
struct ib_device_attr {
	u64 device_cap_flags;
	u32 max_send_sge, max_fast_reg_page_list_len, max_qp_wr;
	int max_qp_rd_atom;
};
struct device { size_t mapping; }; /* what one segment may have */
struct ib_device {
	struct ib_device_attr attrs;
	char name[16];
	int num_comp_vectors;
	struct device *dma_device;
};
#define dma_max_mapping_size(device) ((device)->mapping)
#define round_down(x, y) ((x) / (y) * (y))
struct ib_pd {
	u32 local_dma_lkey;
	const void *queue; /* whose queue pairs it has had; NULL: none */
};

#define IB_ACCESS_LOCAL_WRITE 1
#define IB_ACCESS_REMOTE_WRITE 2
#define IB_ACCESS_REMOTE_READ 4

enum sim_key { SIM_KEY_NONE, SIM_KEY_MAPPED, SIM_KEY_VALID, SIM_KEY_ENDING };
struct ib_mr {
	u32 rkey, page_size;
	u64 iova;
	enum sim_key state;
	bool used, renewed; /* it has had a valid key; the next one is another */
	struct fab_mr *fab;
	struct ib_pd *pd;
};
#define IB_MR_TYPE_MEM_REG 0

#define ibdev_to_node(ibdev) ((void)(ibdev), 0)
#define ib_dma_map_page(ibdev, page, offset, bytes, direction) \
	((void)(direction), (u64)(uintptr_t)page_address(page) + (offset))
#define ib_dma_mapping_error(ibdev, dma) ((void)(dma), false)
#define ib_dma_unmap_page(ibdev, dma, bytes, direction) ((void)(dma))
/* 0: there is nothing to map with just now. */
int ib_dma_map_sg(struct ib_device *ibdev, struct scatterlist *sgl, int count, enum dma_data_direction direction);
#define ib_dma_unmap_sg(ibdev, sgl, count, direction) ((void)(count), sim_mr_unmapped(sgl))
/* From here on the memory is another's. */
void sim_mr_unmapped(const struct scatterlist *sgl);
#define ib_dma_sync_single_for_device(ibdev, dma, bytes, direction) ((void)(dma))
#define ib_dma_sync_single_for_cpu(ibdev, dma, bytes, direction) ((void)(dma))
struct ib_mr *ib_alloc_mr(struct ib_pd *pd, int type, u32 pages);
/* The memory has a key from here on; it is valid once the work request that says so is posted. */
int ib_map_mr_sg(struct ib_mr *mr, struct scatterlist *sgl, int count, unsigned int *offset,
		 unsigned int page);
void ib_dereg_mr(struct ib_mr *mr);
#define ib_inc_rkey(key) (key)
/* ib_map_mr_sg() gives the new key; this one only notes that it was asked for. */
#define ib_update_fast_reg_key(mr, key) ((void)(key), (mr)->renewed = true)

/* -- work requests, completions ----------------------------------------------------------------------- */

enum ib_wc_status {
	IB_WC_SUCCESS,
	IB_WC_LOC_LEN_ERR,
	IB_WC_WR_FLUSH_ERR = 5,
	IB_WC_RETRY_EXC_ERR = 12,
};
enum ib_wc_opcode { IB_WC_SEND, IB_WC_RECV = 128, IB_WC_RECV_RDMA_WITH_IMM };
#define IB_WC_WITH_IMM 1u
#define IB_WC_WITH_INVALIDATE 2u

struct ib_cq;
struct ib_wc;
struct ib_cqe { void (*done)(struct ib_cq *cq, struct ib_wc *wc); };
struct ib_wc {
	struct ib_cqe *wr_cqe;
	enum ib_wc_status status;
	enum ib_wc_opcode opcode;
	u32 byte_len;
	unsigned int wc_flags;
	union { u32 imm_data, invalidate_rkey; } ex;
};

struct ib_sge { u64 addr; u32 length, lkey; };
enum ib_wr_opcode { IB_WR_SEND, IB_WR_REG_MR, IB_WR_LOCAL_INV };
#define IB_SEND_SIGNALED 1
struct ib_send_wr {
	struct ib_send_wr *next;
	struct ib_cqe *wr_cqe;
	struct ib_sge *sg_list;
	int num_sge;
	enum ib_wr_opcode opcode;
	int send_flags;
	union { u32 invalidate_rkey; } ex;
};
struct ib_reg_wr {
	struct ib_send_wr wr; /* first */
	struct ib_mr *mr;
	u32 key;
	int access;
};
struct ib_recv_wr {
	struct ib_recv_wr *next;
	struct ib_cqe *wr_cqe;
	struct ib_sge *sg_list;
	int num_sge;
};

enum ib_poll_context { IB_POLL_DIRECT, IB_POLL_SOFTIRQ };
struct sim_wc { struct list_head entry; struct ib_wc wc; };
struct ib_cq {
	void *cq_context;
	int cqe;
	enum ib_poll_context context;
	struct list_head come; /* struct sim_wc */
	struct list_head link; /* of all that there are */
};

struct rdma_cm_id;
struct ib_qp {
	struct rdma_cm_id *id;
	struct ib_cq *cq;
	unsigned int receives, send_depth, send_sge;
	struct list_head early; /* receives, before it is connected */
	struct list_head local; /* invalidations that have not completed */
};
enum ib_qp_type { IB_QPT_RC };
enum ib_sig_type { IB_SIGNAL_REQ_WR };
enum ib_event_type { IB_EVENT_QP_FATAL, IB_EVENT_QP_REQ_ERR, IB_EVENT_QP_ACCESS_ERR };
struct ib_event { enum ib_event_type event; };
struct ib_qp_init_attr {
	enum ib_qp_type qp_type;
	void (*event_handler)(struct ib_event *event, void *context);
	void *qp_context;
	enum ib_sig_type sq_sig_type;
	struct { u32 max_send_wr, max_recv_wr, max_recv_sge, max_send_sge; } cap;
	struct ib_cq *send_cq, *recv_cq;
};

struct ib_pd *ib_alloc_pd(struct ib_device *ibdev, unsigned int flags);
void ib_dealloc_pd(struct ib_pd *pd);
struct ib_cq *ib_alloc_cq(struct ib_device *ibdev, void *context, int entries, int vector,
			  enum ib_poll_context poll);
void ib_free_cq(struct ib_cq *cq);
int ib_process_cq_direct(struct ib_cq *cq, int budget);
int ib_post_send(struct ib_qp *qp, struct ib_send_wr *wr, const struct ib_send_wr **bad);
int ib_post_recv(struct ib_qp *qp, struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
void ib_drain_qp(struct ib_qp *qp);
#define ib_drain_rq(qp) ((void)(qp)) /* nothing is left behind ib_drain_qp() */
const char *ib_wc_status_msg(enum ib_wc_status status);
#define ib_event_msg(event) "an event of the queue pair"

/* -- the connection manager ------------------------------------------------------------------------------ */

enum rdma_cm_event_type {
	RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_RESOLVED,
	RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_CONNECT_ERROR,
	RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED,
	RDMA_CM_EVENT_ADDR_CHANGE, RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_DEVICE_REMOVAL,
};
struct rdma_conn_param {
	const void *private_data;
	u8 private_data_len;
	int responder_resources, initiator_depth;
	u8 flow_control, retry_count, rnr_retry_count;
};
struct rdma_cm_event {
	enum rdma_cm_event_type event;
	int status;
	union { struct rdma_conn_param conn; } param;
};
typedef int (*rdma_cm_event_handler)(struct rdma_cm_id *id, struct rdma_cm_event *event);
struct fab_conn;
struct rdma_cm_id {
	struct ib_device *device; /* once its address is resolved */
	void *context;
	rdma_cm_event_handler handler;
	struct ib_qp *qp;
	struct sockaddr_storage address;
	struct fab_conn *conn;
	bool drained;
	bool asks; /* its login has no answer yet */
	struct sim_event resolved;
	enum rdma_cm_event_type resolves;
};
#define RDMA_PS_TCP 0
/* librdmacm, which the fabric links, has some of these names, too. */
#define rdma_create_id sim_rdma_create_id
#define rdma_destroy_id sim_rdma_destroy_id
#define rdma_resolve_addr sim_rdma_resolve_addr
#define rdma_resolve_route sim_rdma_resolve_route
#define rdma_create_qp sim_rdma_create_qp
#define rdma_destroy_qp sim_rdma_destroy_qp
#define rdma_connect sim_rdma_connect
struct rdma_cm_id *rdma_create_id(struct net *net, rdma_cm_event_handler handler, void *context,
				  int space, enum ib_qp_type type);
void rdma_destroy_id(struct rdma_cm_id *id);
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms);
int rdma_resolve_route(struct rdma_cm_id *id, int ms);
int rdma_create_qp(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_qp_init_attr *attr);
void rdma_destroy_qp(struct rdma_cm_id *id);
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
void rdma_lock_handler(struct rdma_cm_id *id);
#define rdma_unlock_handler(id) ((void)(id))
#define rdma_set_service_type(id, tos) ((void)(id), (void)(tos))
#define rdma_set_ack_timeout(id, timeout) ((void)(id), (void)(timeout), 0)
#define rdma_disconnect(id) ((void)(id)) /* ib_drain_qp() hangs up */
const void *rdma_consumer_reject_data(struct rdma_cm_id *id, struct rdma_cm_event *event, u8 *bytes);
#define rdma_protocol_iwarp(ibdev, port) ((void)(ibdev), false)
#define rdma_reject_msg(id, status) "refused"
#define rdma_event_msg(event) "an event of the connection"

#endif
