/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection of fabric_tcp: its states, its queue pair, its completions and events, its end. The
 * struct holds the state of both directions, too; struct tcp_tx is fabric_tcp_tx.c's, struct tcp_rx
 * fabric_tcp_rx.c's, and what comes before READY is fabric_tcp_cm.c's.
 */
#ifndef RBLK_FABRIC_TCP_CONN_H
#define RBLK_FABRIC_TCP_CONN_H

#include <sys/epoll.h>
#include "proto/fabric/fabric_tcp_fab.h"

/* -- directions ------------------------------------------------------------------------------- */

/* A READ of the peer that waits to be answered. */
struct tcp_response {
	uint64_t address;
	uint32_t key;
	uint32_t length;
	uint32_t sequence;
};

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
	uint32_t ack_turn; /* the turn in which it began to */
	bool blocked;      /* the socket took no more: wait for its edge */
	uint8_t nak;       /* enum fab_tcp_nak to send behind the responses; then the end */
	uint32_t nak_sequence;
};

enum tcp_rx_stage {
	TCP_RX_HEADER,  /* header_bytes of it are here */
	TCP_RX_BEGIN,   /* header complete: check, find the destination (may have to wait) */
	TCP_RX_PAYLOAD, /* `placed` of `length` bytes are where they belong */
	TCP_RX_FINISH,  /* payload complete: complete the receive (may have to wait) */
	TCP_RX_DISCARD, /* a NAK is being sent: whatever arrives is discarded */
};

#define TCP_HEADER_MAX 128u

struct tcp_rx {
	union {
		struct fab_tcp_frame header;
		unsigned char header_data[TCP_HEADER_MAX]; /* of any framing */
	};
	uint32_t header_size; /* that it has to have until the framing's `begin` */
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
	TCP_CONN_SECURING,   /* connected, TLS handshake under way, or prepare() not yet called */
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
	uint32_t cq_count; /* completions in the fab's queue */
	uint8_t read_in;  /* READs that the peer may have outstanding */
	struct tcp_sq sq;
	struct tcp_rq own_rq;
	struct tcp_rq *rq; /* own_rq or the fab's SRQ */
	struct tcp_tx tx;
	struct tcp_rx rx;
	void *state_of_framing;
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

static inline struct tcp_conn *tcp_conn_of(const struct fab_conn *conn)
{
	return tcp_container(conn, struct tcp_conn, head);
}

static inline struct tcp_fab *tcp_conn_fab(const struct tcp_conn *conn)
{
	return tcp_fab_of(conn->head.fab);
}

static inline const struct tcp_framing *tcp_conn_framing(const struct tcp_conn *conn)
{
	return tcp_conn_fab(conn)->framing;
}

/* The events of a connection; and of the fab's sole one. While that is asked itself, epoll's descriptor has to fall
 * silent when all is read, which it does not for a socket that is writable. */
#define TCP_CONN_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP)
#define TCP_SOLE_EVENTS (EPOLLIN | EPOLLRDHUP)

/* There is work of this kind: the next turn does it. */
static inline void tcp_conn_mark(struct tcp_conn *conn, uint8_t work)
{
	tcp_source_mark(&tcp_conn_fab(conn)->loop, &conn->source, work);
}

/* The keys that it may use: as of fabric_tcp_mr.h. */
static inline void *tcp_conn_local(const struct tcp_conn *conn, const struct ibv_sge *sge,
				   int access)
{
	return tcp_mr_local(&tcp_conn_fab(conn)->mrs, sge, access);
}

static inline void *tcp_conn_remote(const struct tcp_conn *conn, uint32_t key, uint64_t address,
				    uint32_t length, int access)
{
	return tcp_mr_remote(&tcp_conn_fab(conn)->mrs, key, address, length, access);
}

static inline bool tcp_conn_invalidate(const struct tcp_conn *conn, uint32_t key)
{
	return tcp_mr_invalidate(&tcp_conn_fab(conn)->mrs, key);
}

/* False: there is no such transition. The connection is ended then. */
bool tcp_conn_set_state(struct tcp_conn *conn, enum tcp_state state);
int tcp_conn_check_options(struct fab *fab, const struct fab_conn_options *options);
/* The smaller one, and no more than the fabric has. */
uint8_t tcp_reads_min(unsigned int a, unsigned int b);
/* Takes the descriptor when it succeeds. */
int tcp_conn_create(struct fab *fab, int fd, const struct sockaddr *peer,
		    const struct fab_conn_options *options, uint8_t read_in, enum tcp_state state,
		    struct tcp_conn **out);
/* The sole one, or NULL: none is. It is in the epoll. */
void tcp_fab_set_sole(struct tcp_fab *fab, struct tcp_conn *conn);
/* Its socket takes no more: it sends again when epoll says that it does. */
void tcp_conn_block(struct tcp_conn *conn);
/* To ERROR or CLOSING: the socket is closed, all is flushed. */
void tcp_conn_end(struct tcp_conn *conn, enum tcp_state state);
/* The connection is lost: all is flushed, DISCONNECTED follows. Idempotent. */
void tcp_conn_fail(struct tcp_conn *conn, int status);
/* Not connected, and the attempt has failed: FAILED follows. Idempotent. */
void tcp_conn_fail_connecting(struct tcp_conn *conn, int error, const char *what);
/* To CLOSING. DRAINED follows when the last completion has been polled. Idempotent. */
void tcp_conn_close(struct tcp_conn *conn);
/* A completion has been polled or flushed: was it the last of a closed connection? */
void tcp_conn_check_drained(struct tcp_conn *conn);
void tcp_conn_destroy(struct fab_conn *conn); /* of struct fab_ops */

void tcp_conn_raise(struct tcp_conn *conn, enum fab_event_type type, int status);
/* A free completion, zeroed but for qp_num and wr_id. Only with tcp_cq_room(). */
struct ibv_wc *tcp_conn_push_wc(struct tcp_conn *conn, uint64_t wr_id);
/* Complete, in order, what has been acknowledged or answered; a failed one ends the connection. */
void tcp_conn_complete(struct tcp_conn *conn);
/* In ERROR and behind: everything posted comes back as flushed, as far as there is room. */
void tcp_conn_flush(struct tcp_conn *conn);

#endif
