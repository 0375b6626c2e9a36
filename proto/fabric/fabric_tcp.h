/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Software RC over TCP: the structs that proto/fabric/fabric_tcp*.c share. Private to them.
 *
 *   fabric_tcp.c         the context: readiness, turns, timers, events, completion queue
 *   fabric_tcp_listen.c  listeners, connection requests until they are answered
 *   fabric_tcp_cm.c      connecting and accepting: sockets, hellos, both handshakes
 *   fabric_tcp_conn.c    a connection: states, making, failure, close, drain
 *   fabric_tcp_linger.c  closed connections' sockets that wait for the peer's end
 *   fabric_tcp_queue.c   its work queues: posting, completing in order, flushing
 *   fabric_tcp_tx.c      work requests, READ responses and acks become bytes
 *   fabric_tcp_rx.c      bytes become receives, memory writes, READ requests and acks
 *   fabric_tcp_mr.c      keys
 *
 * How a turn works. Each socket is in the fab's epoll once, edge-triggered for both directions, so
 * that an idle connection costs nothing. An edge, a post, a completion that found no room set a
 * work bit on the object (struct tcp_source), which puts it on the fab's active list. fab_poll()
 * with an empty completion queue sends what was posted since the last turn, asks epoll, receives,
 * and hands out completions; what the caller posts in answer, and acks, goes out together in the
 * next turn or in fab_arm(), in one system call per connection. While armed, posts go at once.
 *
 * Keys are looked up whenever bytes are about to move, also in the middle of a message, so that
 * nothing here holds a pointer into memory that has been deregistered or invalidated meanwhile.
 */
#ifndef RBLK_FABRIC_TCP_H
#define RBLK_FABRIC_TCP_H

#include <sys/queue.h>
#include <sys/uio.h>

#include "proto/fabric/fabric_impl.h"
#include "proto/fabric/fabric_tcp_wire.h"

#define TCP_SGE_MAX 16u         /* of any work request */
#define TCP_INLINE_MAX 256u
#define TCP_SEND_WR_MAX 16384u
#define TCP_RECV_WR_MAX 16384u
#define TCP_SRQ_WR_MAX 65536u
#define TCP_READS_MAX 128u
#define TCP_CQ_DEPTH_DEFAULT 1024u
#define TCP_CQ_DEPTH_MAX (1u << 20)
#define TCP_SCRATCH_BYTES 32768u /* read-ahead of one fab: headers and small payloads */

#define TCP_HANDSHAKE_MS 5000u       /* for a peer that connects and says nothing */
#define TCP_HANDSHAKES_MAX 256u      /* per listener; beyond, the oldest is dropped */
#define TCP_CONNECT_MS_DEFAULT 5000u
#define TCP_LINGER_MS 1000u
#define TCP_LINGERS_MAX 256u

/* -- what epoll and the active list know ------------------------------------------------------ */

enum tcp_source_kind {
	TCP_SOURCE_WAKE,     /* the fab's eventfd */
	TCP_SOURCE_LISTENER,
	TCP_SOURCE_REQUEST,  /* a socket that has not said all of its hello */
	TCP_SOURCE_CONN,
	TCP_SOURCE_LINGER,   /* a closed connection's socket that waits for the peer's end */
};

enum tcp_work {
	TCP_WORK_RX = 1 << 0,       /* the socket may be readable, or a held frame may go on */
	TCP_WORK_TX = 1 << 1,       /* there may be something to send */
	TCP_WORK_COMPLETE = 1 << 2, /* completions or flushes found no room in the queue */
	TCP_WORK_PREPARE = 1 << 3,  /* connected: fab_poll_event() calls prepare() */
	TCP_WORK_TIMEOUT = 1 << 4,
};

/* Embedded first in what it stands for; the owner of that owns it. */
struct tcp_source {
	TAILQ_ENTRY(tcp_source) link; /* active list, while work != 0 */
	TAILQ_ENTRY(tcp_source) timer_link; /* timer list, while deadline_ns != 0 */
	uint64_t deadline_ns;
	int fd; /* -1: none */
	uint8_t kind;
	uint8_t work;
};
TAILQ_HEAD(tcp_sources, tcp_source);

/* -- completion queue ------------------------------------------------------------------------- */

struct tcp_conn;

struct tcp_cqe {
	struct ibv_wc wc;
	struct tcp_conn *conn; /* lives until its last completion was polled */
};

/* A ring; head and tail run freely. Never overrun: producers wait for room. */
struct tcp_cq {
	struct tcp_cqe *cqes;
	uint32_t mask;
	uint32_t head; /* oldest */
	uint32_t tail; /* next free */
};

/* -- work queues ------------------------------------------------------------------------------ */

struct tcp_recv_wr {
	uint64_t wr_id;
	uint32_t sges;
};

/* Receives in posting order, of a connection or shared. */
struct tcp_rq {
	struct tcp_recv_wr *wrs;
	struct ibv_sge *sges; /* sge_max per entry */
	uint32_t mask;
	uint32_t depth; /* what may be posted; the ring is a power of two */
	uint32_t sge_max;
	uint32_t head; /* next to be consumed */
	uint32_t tail;
};

enum tcp_send_flags {
	TCP_SEND_SIGNALED = 1 << 0,
	TCP_SEND_FENCE = 1 << 1,
	TCP_SEND_INLINE = 1 << 2,
	TCP_SEND_ANSWERED = 1 << 3, /* READ: its data has arrived */
};

#define TCP_LOCAL_INV 0 /* tcp_send_wr.opcode of a work request that never meets the wire */

struct tcp_send_wr {
	uint64_t wr_id;
	uint64_t address;
	uint32_t key;       /* remote, or to be invalidated */
	__u8 immediate[4];
	uint32_t length;
	uint32_t sequence;  /* once started */
	uint8_t opcode;     /* enum fab_tcp_opcode or TCP_LOCAL_INV */
	uint8_t flags;      /* enum tcp_send_flags */
	uint8_t sges;
	uint8_t status;     /* enum ibv_wc_status; not 0: failed, ends the connection when reached */
};

/*
 * Send queue: a ring in which done <= send <= post (running freely). [done, send) is started and
 * not completed, [send, post) waits. Payload of an entry, segments or inline bytes, lies at
 * data + (index & mask) * stride.
 */
struct tcp_sq {
	struct tcp_send_wr *wrs;
	unsigned char *data;
	size_t stride;
	uint32_t mask;
	uint32_t depth;
	uint32_t sge_max;
	uint32_t done;
	uint32_t send;
	uint32_t post;
	uint32_t read;      /* at or before the oldest READ that is not answered */
	uint32_t reads_out; /* READs started and not answered */
	uint32_t sequence;  /* of the next request to start */
	uint32_t acked;     /* highest that the peer has executed */
	bool stalled;       /* a work request failed here: nothing behind it starts */
};

/* A READ of the peer that waits to be answered. */
struct tcp_response {
	uint64_t address;
	uint32_t key;
	uint32_t length;
	uint32_t sequence;
};

/* -- directions ------------------------------------------------------------------------------- */

enum tcp_frame_kind {
	TCP_FRAME_NONE,
	TCP_FRAME_REQUEST,  /* sq.wrs[index] */
	TCP_FRAME_RESPONSE, /* responses[index] */
	TCP_FRAME_CONTROL,  /* header only: ACK, NAK */
};

struct tcp_tx {
	/* The frame of which only `sent` bytes have left; its header must not change any more. */
	struct fab_tcp_frame header;
	enum tcp_frame_kind kind;
	uint32_t index;
	uint64_t sent;

	struct tcp_response *responses; /* ring of read_in entries, a power of two */
	uint32_t response_mask;
	uint32_t response_head;
	uint32_t response_tail;

	bool ack_wanted;   /* the peer waits for one */
	bool blocked;      /* the socket took no more: wait for its edge */
	uint8_t nak;       /* enum fab_tcp_nak to send behind the responses; then the end */
	uint32_t nak_sequence;
};

enum tcp_rx_stage {
	TCP_RX_HEADER,  /* header_bytes of it are here */
	TCP_RX_BEGIN,   /* header complete: check, find the destination (may have to wait) */
	TCP_RX_PAYLOAD, /* `placed` of `length` bytes are where they belong */
	TCP_RX_FINISH,  /* payload complete: complete the receive (may have to wait) */
	TCP_RX_DISCARD, /* a NAK is under way: whatever comes is thrown away */
};

struct tcp_rx {
	struct fab_tcp_frame header;
	enum tcp_rx_stage stage;
	uint32_t header_bytes;
	uint32_t length;
	uint32_t placed;
	uint32_t sequence; /* that the next request must have; one behind the last executed */
	bool hangup;       /* read until the end: a short read does not mean empty */
	bool large;        /* the last payload was: read ahead little, so that little is copied */
	bool starved;      /* waits for a receive to be posted */
	bool receiving;    /* recv and recv_sges hold a consumed receive */
	uint8_t recv_status; /* enum ibv_wc_status that it comes back with when flushed; 0: flushed */
	struct tcp_recv_wr recv;
	struct ibv_sge recv_sges[TCP_SGE_MAX];
	/* Bytes that were read ahead behind a frame that had to wait. */
	unsigned char *spill;
	uint32_t spill_head;
	uint32_t spill_bytes;
	TAILQ_ENTRY(tcp_conn) starved_link; /* fab->starved, while starved by the SRQ */
};

/* -- connections ------------------------------------------------------------------------------ */

enum tcp_state {
	TCP_CONN_CONNECTING, /* connect() under way, or prepare() not yet called */
	TCP_CONN_GREETING,   /* hello sent, answer awaited */
	TCP_CONN_ACCEPTED,   /* fab_accept() done, nothing answered */
	TCP_CONN_READY,      /* both work queues run */
	TCP_CONN_ERROR,      /* failed, rejected or disconnected: what is posted is flushed */
	TCP_CONN_CLOSING,    /* fab_conn_close() called: as ERROR, until all has been polled */
	TCP_CONN_DRAINED,    /* FAB_EVENT_DRAINED is due or was given: destroy may follow */
	TCP_CONN_STATES
};

/*
 * Created by fab_connect() or fab_accept(), freed by fab_conn_destroy(). All fields belong to the
 * fab's thread. Queues are allocated once, here, for the connection's life.
 */
struct tcp_conn {
	struct tcp_source source; /* first: epoll and the active list lead here */
	struct fab_conn head;
	enum tcp_state state;
	uint32_t domain; /* of keys: 0 is the fab's; else private, the queue pair's number */
	uint32_t cq_count; /* completions in the fab's queue */
	uint8_t read_in;  /* READs that the peer may have outstanding */
	struct tcp_sq sq;
	struct tcp_rq own_rq;
	struct tcp_rq *rq; /* own_rq or the fab's SRQ */
	struct tcp_tx tx;
	struct tcp_rx rx;
	TAILQ_ENTRY(tcp_conn) link; /* fab->all */

	fab_prepare_fn prepare; /* until called */
	struct fab_tcp_hello hello; /* ours until sent, then the peer's answer */
	uint32_t hello_bytes; /* of the peer's that are here */

	uint8_t events; /* 1 << enum fab_event_type that are due */
	int event_status;
	char reason[FAB_ERROR_BYTES]; /* words of FAILED or DISCONNECTED */
	size_t event_private_bytes; /* of hello.private_data */
	TAILQ_ENTRY(tcp_conn) event_link; /* fab->events, while events != 0 */
};
TAILQ_HEAD(tcp_conns, tcp_conn);

/*
 * A socket from accept4() until fab_accept() or fab_reject(). While it is a source it belongs to
 * its listener; once delivered, to whoever has the request, on any thread.
 */
struct tcp_request {
	struct tcp_source source;
	struct fab_request head;
	struct tcp_listener *listener; /* until delivered */
	TAILQ_ENTRY(tcp_request) link; /* listener->pending, then fab->requests */
	struct fab_tcp_hello hello;
	uint32_t hello_bytes;
};
TAILQ_HEAD(tcp_requests, tcp_request);

struct tcp_listener {
	struct tcp_source source;
	struct fab_listener head;
	struct tcp_requests pending; /* oldest first */
	uint32_t pending_count;
	bool exhausted; /* could not accept the last time; said once, until it can again */
	TAILQ_ENTRY(tcp_listener) link; /* fab->listeners */
};

struct tcp_linger {
	struct tcp_source source;
	TAILQ_ENTRY(tcp_linger) link; /* fab->lingers, oldest first */
};

struct tcp_mr {
	struct fab_mr head;
	char *addr;
	size_t bytes;
	int access;
	uint32_t key;
	uint32_t domain;
	bool invalidated; /* the key is dead for the peer */
};

/* Keys to memory: open addressing, at most half full. */
struct tcp_mr_table {
	struct tcp_mr **slots;
	uint32_t mask; /* slots - 1; 0: no slots yet */
	uint32_t used;
};

/* Created by fab_open(), freed by fab_close(); one thread's at a time. */
struct tcp_fab {
	struct fab head; /* first */
	struct fab_device device;
	struct tcp_source wake;
	struct tcp_sources active;
	uint32_t active_count;
	struct tcp_sources timers;
	uint64_t next_deadline_ns; /* no timer is due before it; may be too early */
	bool armed;      /* fab_fd() must turn readable when something comes up outside a turn */
	bool progressed; /* fab_poll() has asked epoll since the last fab_poll_event() */
	struct tcp_cq cq;
	struct tcp_rq srq;
	struct tcp_mr_table mrs;
	struct tcp_conns all;
	struct tcp_conns starved;
	struct tcp_conns events;
	struct tcp_requests requests; /* complete, not yet given out */
	TAILQ_HEAD(, tcp_listener) listeners;
	TAILQ_HEAD(, tcp_linger) lingers;
	uint32_t linger_count;
	int accept_error; /* negative errno of a listener, an event to be given out; 0: none */
	struct fab_tcp_hello event_hello; /* the private data of the last event */
	unsigned char scratch[TCP_SCRATCH_BYTES];
};

#define tcp_container(pointer, type, member)                                                       \
	((type *)((char *)(pointer) - offsetof(type, member)))

static inline struct tcp_fab *tcp_fab_of(const struct fab *fab)
{
	return (struct tcp_fab *)fab;
}

static inline struct tcp_conn *tcp_conn_of(const struct fab_conn *conn)
{
	return tcp_container(conn, struct tcp_conn, head);
}

static inline struct tcp_fab *tcp_conn_fab(const struct tcp_conn *conn)
{
	return tcp_fab_of(conn->head.fab);
}

static inline uint32_t tcp_cq_room(const struct tcp_fab *fab)
{
	return fab->cq.mask + 1 - (fab->cq.tail - fab->cq.head);
}

static inline bool tcp_cq_empty(const struct tcp_fab *fab)
{
	return fab->cq.tail == fab->cq.head;
}

/* The smallest power of two that holds `count`; count <= 2^31. */
static inline uint32_t tcp_ring_size(uint32_t count)
{
	uint32_t size = 1;

	while (size < count)
		size *= 2;
	return size;
}

/* -- fabric_tcp.c ----------------------------------------------------------------------------- */

void tcp_source_init(struct tcp_source *source, enum tcp_source_kind kind, int fd);
/* Put a socket into the fab's epoll. */
int tcp_source_watch(struct tcp_fab *fab, struct tcp_source *source, uint32_t epoll_events);
/* Off every list; the descriptor stays the caller's. */
void tcp_source_fini(struct tcp_fab *fab, struct tcp_source *source);
/*
 * Out of epoll, and closed. Closing alone takes a socket out of epoll only with its last
 * descriptor: a child of a fork has another, and events would go on naming what was freed.
 */
void tcp_source_close(struct tcp_fab *fab, struct tcp_source *source);
/* There is work of this kind: the next turn does it. */
void tcp_source_mark(struct tcp_fab *fab, struct tcp_source *source, uint8_t work);
void tcp_source_set_timer(struct tcp_fab *fab, struct tcp_source *source, uint32_t ms);
void tcp_source_stop_timer(struct tcp_fab *fab, struct tcp_source *source);
/* A free completion, zeroed but for qp_num and wr_id. Only with tcp_cq_room(). */
struct ibv_wc *tcp_cq_push(struct tcp_conn *conn, uint64_t wr_id);
void tcp_conn_raise(struct tcp_conn *conn, enum fab_event_type type, int status);
/* A request is complete: give it out as an event. */
void tcp_request_raise(struct tcp_fab *fab, struct tcp_request *request);
void tcp_accept_failed(struct tcp_fab *fab, int error);

/* -- fabric_tcp_listen.c ---------------------------------------------------------------------- */

int tcp_listen(struct fab *fab, const struct sockaddr *addr, int backlog,
	       struct fab_listener **listener);
void tcp_listener_destroy(struct fab_listener *listener);
int tcp_listener_address(const struct fab_listener *listener, struct sockaddr_storage *addr);
void tcp_listener_run(struct tcp_fab *fab, struct tcp_listener *listener);
void tcp_request_run(struct tcp_fab *fab, struct tcp_request *request, uint8_t work);
void tcp_request_free(struct tcp_request *request); /* closes its socket */
void tcp_reject(struct fab_request *request, const void *private_data, uint8_t bytes);
struct fab_device *tcp_request_device(struct fab *fab, struct fab_request *request);

/* -- fabric_tcp_cm.c -------------------------------------------------------------------------- */

socklen_t tcp_address_bytes(const struct sockaddr *addr);
int tcp_socket_tune(int fd);
/* -EPROTO, -EPROTONOSUPPORT or 0. `kinds`: bits 1 << enum fab_tcp_hello_kind. */
int tcp_hello_check(const struct fab_tcp_hello *hello, unsigned int kinds);
void tcp_hello_init(struct fab_tcp_hello *hello, enum fab_tcp_hello_kind kind,
		    const void *private_data, uint8_t bytes);
/* Receive what is missing. 1: complete, 0: not yet, negative errno. */
int tcp_hello_receive(int fd, struct fab_tcp_hello *hello, uint32_t *bytes);
int tcp_accept(struct fab *fab, struct fab_request *request,
	       const struct fab_conn_options *options, struct fab_conn **conn);
int tcp_connect(struct fab *fab, const struct sockaddr *addr,
		const struct fab_conn_options *options, fab_prepare_fn prepare,
		struct fab_conn **conn);
int tcp_conn_establish(struct fab_conn *conn, const void *private_data, uint8_t bytes);
void tcp_conn_refuse(struct fab_conn *conn, const void *private_data, uint8_t bytes);
/* Before READY. */
void tcp_cm_run(struct tcp_conn *conn, uint8_t work);

/* -- fabric_tcp_conn.c ------------------------------------------------------------------------ */

/* False: there is no such transition. The connection has ended then, if it had not before. */
bool tcp_conn_set_state(struct tcp_conn *conn, enum tcp_state state);
int tcp_conn_check_options(struct fab *fab, const struct fab_conn_options *options);
/* The lesser, and no more than the fabric has. */
uint8_t tcp_reads_min(unsigned int a, unsigned int b);
/* Takes the descriptor when it succeeds. */
int tcp_conn_create(struct fab *fab, int fd, const struct sockaddr *peer,
		    const struct fab_conn_options *options, uint8_t read_in, enum tcp_state state,
		    struct tcp_conn **out);
void tcp_conn_destroy(struct fab_conn *conn);
/* To ERROR or CLOSING: the socket goes, all is flushed. */
void tcp_conn_end(struct tcp_conn *conn, enum tcp_state state);
/* Was connected, is no longer: all is flushed, DISCONNECTED follows. Idempotent. */
void tcp_conn_fail(struct tcp_conn *conn, int status);
/* Is not connected and will not be: FAILED follows. Idempotent. */
void tcp_conn_fail_connecting(struct tcp_conn *conn, int error, const char *what);
void tcp_conn_close(struct fab_conn *conn);
/* After fab_conn_close(), when the last completion has been polled. */
void tcp_conn_check_drained(struct tcp_conn *conn);
void tcp_conn_run(struct tcp_conn *conn, uint8_t work);

/* -- fabric_tcp_linger.c ---------------------------------------------------------------------- */

/* Takes the descriptor: ends our direction, waits a while for the peer's end, closes. */
void tcp_linger_start(struct tcp_fab *fab, int fd);
void tcp_linger_run(struct tcp_fab *fab, struct tcp_linger *linger, uint8_t work);
void tcp_linger_stop(struct tcp_fab *fab, struct tcp_linger *linger);

/* -- fabric_tcp_queue.c ----------------------------------------------------------------------- */

int tcp_sq_init(struct tcp_sq *sq, uint32_t depth, uint32_t sge_max, uint32_t inline_bytes);
void tcp_sq_fini(struct tcp_sq *sq);
int tcp_rq_init(struct tcp_rq *rq, uint32_t depth, uint32_t sge_max);
void tcp_rq_fini(struct tcp_rq *rq);
int tcp_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int tcp_post_recv(struct fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int tcp_post_srq_recv(struct fab_device *device, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Started, and acknowledged or answered; so it can complete when those before it have. */
bool tcp_send_finished(const struct tcp_sq *sq, const struct tcp_send_wr *wr);
/* Complete, in order, what has been acknowledged or answered; a failed one ends the connection. */
void tcp_sq_complete(struct tcp_conn *conn);
/* In ERROR and behind: everything posted comes back as flushed, as far as there is room. */
void tcp_conn_flush(struct tcp_conn *conn);
bool tcp_conn_flushed(const struct tcp_conn *conn);
/* The next receive, consumed into conn->rx. False: none is posted. */
bool tcp_rq_take(struct tcp_conn *conn);

static inline struct tcp_send_wr *tcp_sq_wr(const struct tcp_sq *sq, uint32_t index)
{
	return &sq->wrs[index & sq->mask];
}

static inline void *tcp_sq_data(const struct tcp_sq *sq, uint32_t index)
{
	return sq->data + (index & sq->mask) * sq->stride;
}

/* -- fabric_tcp_tx.c, fabric_tcp_rx.c --------------------------------------------------------- */

/* Send what may be sent, until nothing is left or the socket is full. */
void tcp_tx_run(struct tcp_conn *conn);
/* The request being received has failed: NAK it behind the responses due, then end. */
void tcp_tx_nak(struct tcp_conn *conn, enum fab_tcp_nak nak, uint32_t sequence);
/* Receive and execute, within a budget per turn. */
void tcp_rx_run(struct tcp_conn *conn);

/* -- fabric_tcp_mr.c -------------------------------------------------------------------------- */

int tcp_mr_register(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr);
int tcp_mr_register_private(struct fab_conn *conn, void *addr, size_t bytes, int access,
			    struct fab_mr **mr);
void tcp_mr_deregister(struct fab_mr *mr);
/* Memory of [address, address + length) under this key, or NULL. access: all of these rights. */
void *tcp_mr_local(const struct tcp_conn *conn, const struct ibv_sge *sge, int access);
void *tcp_mr_remote(const struct tcp_conn *conn, uint32_t key, uint64_t address, uint32_t length,
		    int access);
/* The key is dead for the peer from now on. False: there is no such live key. */
bool tcp_mr_invalidate(const struct tcp_conn *conn, uint32_t key);

#endif
