/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The RC fabric as user space sees it: connect, listen, register, post, poll, one readiness fd.
 * Work requests, segments and completions are verbs' own structs, so that fabric_verbs adds
 * nothing on the data path. Implementations: fabric_verbs (rdma-core), fabric_tcp (software RC),
 * and the simulator's. Callers never know which one they have.
 *
 * Threading: a struct fab and all that hangs from it belong to one thread at a time; nothing here
 * takes a lock on the data path. The only things that cross threads are a struct fab_request
 * (made by a listener's fab, consumed by any fab of the same kind by fab_accept()).
 *
 * Errors: 0 or negative errno unless stated. fab_error() words the last failure of a fab with the
 * object first and the reason last.
 */
#ifndef RBLK_FABRIC_H
#define RBLK_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <infiniband/verbs.h>

struct fab;          /* a context: one thread's devices, completion queues and protection domain */
struct fab_device;   /* one RDMA device (or the software one) as this fab uses it */
struct fab_listener;
struct fab_request;  /* a connection request not yet answered */
struct fab_conn;     /* one RC connection: one queue pair */
struct fab_mr;       /* registered memory, on every device of the fab */
struct rblk_tls_context; /* proto/tls/tls.h */

#define FAB_ERROR_BYTES 256

/* Reserved wr_id: completions with it never leave the fabric. */
#define FAB_WR_ID_RESERVED UINT64_MAX

/* In ibv_wc.wc_flags of an RDMA READ: its data came with a CRC32C, which imm_data has. Nobody has compared them. */
#define FAB_WC_DIGEST (1u << 31)

enum fab_kind {
	FAB_VERBS, /* "rblk://host[:port]" */
	FAB_TCP,   /* "rblk+tcp://host[:port]" */
	FAB_NVME,  /* "nvme+tcp://host[:port]": listened on only, and only by the target */
	FAB_NVME_RDMA, /* "nvme+rdma://host[:port]": likewise */
	/* Tests only; one implementation, and a session may have both. */
	FAB_SIM,
	FAB_SIM2,
};

/*
 * Making or destroying a queue pair, which can take a driver milliseconds. The job belongs to its taker
 * from fab_helper_fn until `end`.
 */
struct fab_job {
	void (*run)(struct fab_job *job); /* on any thread */
	void (*end)(struct fab_job *job); /* afterwards, on the fab's thread */
};

/* Takes a job, and soon calls both. False: it cannot, and the fabric does both at once. On the fab's thread. */
typedef bool (*fab_helper_fn)(struct fab_job *job, void *user);

struct fab_options {
	uint32_t cq_depth;   /* completions that may be outstanding over all connections */
	uint32_t srq_depth;  /* shared receive queue entries per device; 0: each connection its own */
	uint32_t recv_sge;   /* segments of a receive, usually 1 */
	const char *device;  /* use only this device, from an address of its own; NULL: whatever the address leads to */
	bool later; /* FAB_VERBS: open it even if this machine has no RDMA yet: fab_listen() and fab_accept() look again */
	uint32_t vector;     /* which of a device's completion vectors interrupts, modulo their number */
	bool apart; /* FAB_VERBS: receives complete in a queue of their own: see fab_arm_receives() */
	/* FAB_TCP: listeners take connections that begin with TLS, too. Outlives the fab; NULL: they do not. */
	struct rblk_tls_context *tls;
	/*
	 * FAB_VERBS: takes the making of the queue pairs of accepted connections that use the SRQ, and the
	 * destroying of all. NULL: this thread does it. Jobs end in the order in which they were taken.
	 */
	fab_helper_fn helper;
	void *helper_user;
};

/* Limits of a device that callers must respect; queried, never assumed. */
struct fab_limits {
	uint32_t max_sge;         /* of a send-side work request */
	uint32_t max_read_sge;    /* of an RDMA READ */
	uint32_t max_send_wr;     /* per connection */
	uint32_t max_recv_wr;
	uint32_t max_srq_wr;
	uint32_t max_read_in;     /* READs a connection can answer at a time (IRD) */
	uint32_t max_read_out;    /* READs a connection can have outstanding (ORD) */
	uint64_t max_msg_bytes;   /* one work request */
	/*
	 * READs of so much outstanding, two at least, keep a connection busy. More would only delay what is posted
	 * behind them: a peer may answer in the order of the requests. 0: they do not.
	 */
	uint32_t read_bytes;
	bool immediate;           /* RDMA WRITE WITH IMMEDIATE (no iWARP) */
	/*
	 * SEND WITH INVALIDATE can be sent. It may name memory registered by a work
	 * request (the kernel's FRWR) or a window: a device refuses it for a struct fab_mr, and
	 * that ends the connection. So user space never asks its peer to invalidate one.
	 */
	bool invalidate;
	bool invalidate_inline; /* such a SEND may be inline (Soft-iWARP's may not) */
	/*
	 * The peer acknowledges each message: one that finds no receive waits for it, and what the
	 * peer refuses fails at the sender. Without acknowledgements (iWARP), a SEND or WRITE
	 * completes when the network has it, and either mistake ends the connection.
	 */
	bool acknowledged;
	/*
	 * Work requests that are posted to a queue pair in ERR come back flushed. Otherwise (iWARP:
	 * Soft-iWARP forgets it) only DRAINED says that it is over.
	 */
	bool late_flush;
	bool final; /* a peer that has lost its connections never logs in to its session again */
};

struct fab_conn_options {
	uint32_t send_depth;   /* work requests outstanding on the send queue */
	uint32_t recv_depth;   /* own receives; ignored where the fab has an SRQ */
	uint32_t send_sge;     /* wanted; no more than the device's max_sge are given */
	uint32_t inline_bytes; /* wanted; fab_conn_inline() tells what there is */
	uint8_t read_in;       /* IRD wanted: what we let the peer READ at a time */
	uint8_t read_out;      /* ORD wanted */
	const void *private_data; /* connecting only; copied */
	uint8_t private_bytes;    /* at most RBLK_PRIVATE_DATA_MAX */
	uint32_t timeout_ms;   /* connecting only: address, route, handshake together */
	struct rblk_tls_context *tls; /* connecting, FAB_TCP: by TLS; outlives that. NULL: without */
	const struct sockaddr *source; /* connecting only: from this address, read during the call. NULL: as the routes say */
	uint8_t tos;           /* connecting only: IP's TOS or traffic class; 0: the system's */
	uint8_t ack_timeout;   /* connecting only, FAB_VERBS: 4.096 us * 2^this, at most 31, until a packet is repeated; 0: the
				  device's */
	void *user;            /* fab_conn_user() */
};

enum fab_event_type {
	FAB_EVENT_NONE,
	FAB_EVENT_REQUEST,      /* listener: .request, .private_data */
	FAB_EVENT_ESTABLISHED,  /* both sides; initiator: .private_data is the acceptance */
	FAB_EVENT_REJECTED,     /* initiator: .private_data is the rejection, may be empty */
	FAB_EVENT_FAILED,       /* could not be connected: .status, words in fab_error(). -EKEYREJECTED:
				   there is no TLS with this peer. Of an accepted connection:
				   fab_conn_refuse() may still tell the peer why. Without .conn: a listener cannot accept,
				   for now or this peer; it recovers by itself */
	FAB_EVENT_DISCONNECTED, /* was established; .status why. The QP is in ERR from now on */
	FAB_EVENT_DRAINED,      /* after fab_conn_close(): no completion of it will come any more */
	FAB_EVENT_DEVICE_GONE,  /* .device is being removed; its connections are disconnected too.
				   NULL: the device of a listener's address, which gets no more
				   requests */
};

/* private_data is valid until the next fab_poll_event() of this fab. */
struct fab_event {
	enum fab_event_type type;
	int status; /* negative errno or 0 */
	struct fab_conn *conn;
	struct fab_request *request;
	struct fab_device *device;
	const void *private_data;
	size_t private_bytes;
};

/* -- context ------------------------------------------------------------------------------- */

/* *error (FAB_ERROR_BYTES) is filled where NULL is returned; errno is set. */
struct fab *fab_open(enum fab_kind kind, const struct fab_options *options, char *error);

/* All connections must have been destroyed, all memory deregistered, all requests consumed. */
void fab_close(struct fab *fab);

const char *fab_error(const struct fab *fab);
/* The meaning of the status of a FAB_EVENT_DISCONNECTED; 0: why is unknown. */
const char *fab_lost_text(int status);
enum fab_kind fab_kind_of(const struct fab *fab);

/* RDMA, whose devices pin the memory that they reach. */
static inline bool fab_kind_is_rdma(enum fab_kind kind)
{
	return kind == FAB_VERBS || kind == FAB_NVME_RDMA;
}

/*
 * Readable when there may be completions or events, if armed. Never changes during the fab's life;
 * fit for poll, epoll and io_uring. Do not read from it.
 */
int fab_fd(const struct fab *fab);

/*
 * Ask that fab_fd() becomes readable with the next completion or event. Returns 1 if something may
 * be there already (poll again before sleeping), 0 if armed, negative errno.
 */
int fab_arm(struct fab *fab);

/* One sendmsg() with MSG_DONTWAIT and MSG_NOSIGNAL that the fab leaves to its caller. The memory is the fab's. */
struct fab_send {
	int fd;
	const struct msghdr *message; /* NULL: there is none */
	int bytes;
};

/*
 * As fab_arm(), for a caller that can send by the system call in which it sleeps: armed, the fab may leave one send to
 * it. Before any other call to the fab, the caller tells fab_sent() how many bytes went, or negative errno. FAB_UNSENT:
 * none went, and the fab sends them itself.
 */
int fab_arm_to_send(struct fab *fab, struct fab_send *send);
#define FAB_UNSENT (-EAGAIN)
void fab_sent(struct fab *fab, int sent);

/*
 * As fab_arm(), for a caller that only receives have to wake while all connections are in good order. Other completions
 * may wake it, too: a fabric that does not tell them apart, or was not opened for it, does fab_arm().
 */
int fab_arm_receives(struct fab *fab);

/*
 * Up to `count` completions, of all connections. Returns how many. wc->qp_num leads to the
 * connection by fab_conn_find(). Makes progress in software fabrics. Error completions have valid
 * wr_id, status, qp_num and vendor_err only, as in verbs. Devices differ in which error they report
 * for the same mistake; that it is one, and that all behind it is flushed, holds for all.
 */
int fab_poll(struct fab *fab, struct ibv_wc *wc, int count);

/*
 * Grows whenever fab_poll() has received data, or sent a part of what there is to be sent, completions or not: a
 * software fabric needs many turns for a long message, and none of them is idle. Stays 0 where a device does the work.
 */
uint64_t fab_activity(const struct fab *fab);

/* One event, or 0 when there is none, 1 when *event was filled. */
int fab_poll_event(struct fab *fab, struct fab_event *event);

/*
 * Milliseconds until the fab needs fab_poll_event() for its own timers (connecting, draining);
 * -1: never. A caller that sleeps sleeps no longer than this.
 */
int fab_timeout_ms(const struct fab *fab);

/*
 * A descriptor that is readable when fab_fd() of one of these is; also for poll, epoll and
 * io_uring. Negative errno: none. It ends before the fabs are closed.
 */
int fab_join(struct fab *const *fabs, unsigned int count);
void fab_join_end(int fd);

/* -- listening, connecting ------------------------------------------------------------------- */

/* addr as of getaddrinfo(), port included; [::] takes IPv4, too. -EADDRINUSE, -ENODEV (no RDMA device), ... */
int fab_listen(struct fab *fab, const struct sockaddr *addr, int backlog,
	       struct fab_listener **listener);
void fab_listener_destroy(struct fab_listener *listener);
/* The bound address, e.g. to learn an ephemeral port. */
int fab_listener_address(const struct fab_listener *listener, struct sockaddr_storage *addr);

/*
 * A request is consumed by exactly one of these; fab may be another thread's than the listener's.
 * fab_accept() that fails has consumed nothing: reject the request with a reason.
 */
int fab_accept(struct fab *fab, struct fab_request *request,
	       const struct fab_conn_options *options, struct fab_conn **conn);
void fab_reject(struct fab_request *request, const void *private_data, uint8_t bytes);
/* The device that the request came in on, as `fab` (the one that will accept) uses it. */
struct fab_device *fab_request_device(struct fab *fab, struct fab_request *request);
/* READ depths that the peer offers: how many it can answer, how many it will have outstanding. */
void fab_request_read_depth(const struct fab_request *request, uint8_t *in, uint8_t *out);
const struct sockaddr *fab_request_peer(const struct fab_request *request);
enum fab_kind fab_request_kind(const struct fab_request *request); /* of the fab that accepts it */
/* The only fab that can accept it; NULL: any. */
struct fab *fab_request_fab(const struct fab_request *request);
/* Is this address of this machine an RDMA device's? It may take as long as a system call. Any thread. */
bool fab_rdma_address(const struct sockaddr *addr);

/* The identity that TLS has proven, for the life of the request or connection. */
struct fab_channel {
	const char *initiator;	/* its name */
	const uint8_t *binding; /* 32 bytes that only this connection has, the same at both ends */
};
/* NULL: it is without TLS. *channel is filled otherwise. */
const struct fab_channel *fab_request_channel(const struct fab_request *request, struct fab_channel *channel);
const struct fab_channel *fab_conn_channel(const struct fab_conn *conn, struct fab_channel *channel);

/*
 * Whom an address stands for where strangers share something: of IPv4 the address, of IPv6 its /64, because a host may
 * have as many addresses of that as it likes. To be compared with others.
 */
#define FAB_NETWORK_BYTES 16
void fab_network_of(const struct sockaddr *addr, uint8_t network[FAB_NETWORK_BYTES]);
/* Are both of one address? Whatever their ports. */
bool fab_same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* "10.0.0.2:4430", "[::1]:4430". Always terminated. */
void fab_format_address(const struct sockaddr *addr, char *text, size_t bytes);

/*
 * Begin to connect; ESTABLISHED, REJECTED or FAILED follows as an event. `prepare` is called once,
 * within fab_poll_event(), when the device is known and the queue pair exists but the request has
 * not been sent: the place to register memory and post the first receives. A
 * negative return fails the connection with that errno.
 */
typedef int (*fab_prepare_fn)(struct fab_conn *conn, void *user);
int fab_connect(struct fab *fab, const struct sockaddr *addr,
		const struct fab_conn_options *options, fab_prepare_fn prepare,
		struct fab_conn **conn);

/*
 * After fab_accept() the queue pair exists and takes receives, unless it is made by the user's helper (fab_options):
 * then that begins here. Nothing has been answered yet. This sends the acceptance with its private
 * data; ESTABLISHED (or FAILED, or DISCONNECTED) follows as an event. To refuse after all:
 * fab_conn_refuse(), then close and destroy as usual.
 */
int fab_conn_establish(struct fab_conn *conn, const void *private_data, uint8_t bytes);
void fab_conn_refuse(struct fab_conn *conn, const void *private_data, uint8_t bytes);


/*
 * Move the queue pair to ERR and begin draining: all that is posted comes back as flushed
 * completions, then FAB_EVENT_DRAINED. The peer sees DISCONNECTED. Idempotent. Also required after
 * REJECTED, FAILED and DISCONNECTED, before fab_conn_destroy(). Nothing can be posted any more
 * (-ENOTCONN), and of this connection's events only DRAINED still comes. DRAINED needs fab_poll()
 * to be called as well as fab_poll_event(). Destroying may take the driver milliseconds.
 */
void fab_conn_close(struct fab_conn *conn);
void fab_conn_destroy(struct fab_conn *conn); /* after DRAINED */

void *fab_conn_user(const struct fab_conn *conn);
struct fab_device *fab_conn_device(const struct fab_conn *conn);
uint32_t fab_conn_inline(const struct fab_conn *conn);    /* bytes a SEND or WRITE may inline */
uint8_t fab_conn_read_out(const struct fab_conn *conn);   /* negotiated ORD, when established */
/* As in completions: unique among the fab's connections, of all devices. 0: no queue pair yet. */
uint32_t fab_conn_qp_num(const struct fab_conn *conn);
/* "10.0.0.2:4430"; static storage of the conn. */
const char *fab_conn_peer(const struct fab_conn *conn);
/* The peer says what identifies its host, beside any name. False: it does not, and id is zeroes. After fab_accept(). */
#define FAB_HOST_ID_BYTES 16
bool fab_conn_host_id(const struct fab_conn *conn, uint8_t id[FAB_HOST_ID_BYTES]);
/* The status of FAB_EVENT_DISCONNECTED, once completions may tell of it; 0 if that is not known. */
int fab_conn_lost(const struct fab_conn *conn);
/* NULL for a queue pair that does not exist any more (a late receive of an SRQ). */
struct fab_conn *fab_conn_find(struct fab *fab, uint32_t qp_num);

/* -- devices --------------------------------------------------------------------------------- */

const char *fab_device_name(const struct fab_device *device);
struct fab *fab_device_fab(const struct fab_device *device);
const struct fab_limits *fab_device_limits(const struct fab_device *device);
/* Small, dense, stable index of the device within its fab: 0, 1, ... */
unsigned int fab_device_index(const struct fab_device *device);
#define FAB_DEVICES_MAX 16
/*
 * After DEVICE_GONE, when the last connection on the device is destroyed and its owner does not use
 * it any more: it is freed, and another device may get its index. A device that is not released
 * keeps its index for the fab's life.
 */
void fab_device_release(struct fab_device *device);
/*
 * Check whether the devices still exist: a driver may not notify a fab that has no connection on a
 * device, and yet wait for that fab. DEVICE_GONE follows for the devices that do not exist any
 * more. It reads the list of devices if there is such a device: call it now and then.
 */
void fab_devices_check(struct fab *fab);

/* -- memory ---------------------------------------------------------------------------------- */

/*
 * Register `bytes` at `addr` with every device of the fab, now and when another one comes into
 * use. access: IBV_ACCESS_*. The memory stays the caller's and must outlive the fab_mr.
 */
int fab_mr_register(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr);
void fab_mr_deregister(struct fab_mr *mr);
/*
 * The same for memory so large that it would stop the fab's thread: begun and ended on that thread,
 * and carried out by fab_mr_work() on any one thread in between, while the fab's thread goes on.
 * There are no keys before the end of what was begun, and none from fab_mr_retire() on. A fab is
 * not closed meanwhile.
 */
int fab_mr_begin(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr);
void fab_mr_retire(struct fab_mr *mr);
void fab_mr_work(struct fab_mr *mr);
/*
 * Ends a registration that was begun: 0, or negative errno and the mr is freed; or one that was
 * retired: 0, and it is freed.
 */
int fab_mr_end(struct fab_mr *mr);
/* Keys as this connection's device knows them. 0 if registration there failed (logged). */
uint32_t fab_mr_lkey(const struct fab_mr *mr, const struct fab_device *device);
uint32_t fab_mr_rkey(const struct fab_mr *mr, const struct fab_device *device);
struct fab *fab_mr_fab(const struct fab_mr *mr);

/* -- the data path ----------------------------------------------------------------------------- */

/*
 * As ibv_post_send()/ibv_post_recv()/ibv_post_srq_recv(): a chain, rung once; *bad is the first
 * that was not posted. Return 0 or negative errno (-ENOMEM: queue full, a caller's bug). Posting
 * to a connection in ERR succeeds and comes back flushed (see limits.late_flush). Software fabrics
 * copy inline data at once; other memory must stay untouched until completion, as with hardware.
 */
int fab_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fab_post_recv(struct fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fab_post_srq_recv(struct fab_device *device, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* Work requests posted, for counting messages: of a connection since its creation. */
struct fab_counters {
	uint64_t sends;       /* SEND, with and without invalidate or immediate */
	uint64_t writes;      /* RDMA WRITE */
	uint64_t write_imms;  /* RDMA WRITE WITH IMMEDIATE */
	uint64_t reads;       /* RDMA READ */
	uint64_t others;      /* local invalidate, ... */
	uint64_t doorbells;   /* calls of fab_post_send() */
};
void fab_conn_counters(const struct fab_conn *conn, struct fab_counters *counters);

#endif
