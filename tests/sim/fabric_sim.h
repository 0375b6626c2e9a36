/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The simulated RC fabric (FAB_SIM). fabric_sim.c owns contexts, memory and polling; fabric_cm.c
 * connects, fabric_end.c ends connections; fabric_post.c takes work requests, fabric_wire.c carries them out. Messages
 * take time, may be sent again (and then read their memory again), responses may come late; what RC
 * promises holds: order per connection, one execution, FENCE, keys and bounds. Whatever a device
 * would refuse is a failure of the code under test, and ends the seed.
 */
#ifndef RBLK_TESTS_SIM_FABRIC_SIM_H
#define RBLK_TESTS_SIM_FABRIC_SIM_H

#include <sys/queue.h>
#include "proto/fabric/fabric_impl.h"
#include "proto/wire/wire.h"
#include "tests/sim/actor.h"
#include "tests/sim/clock.h"

/* Descriptors that are none: a fabric's are from here on. */
#define SIM_FD_FIRST (1 << 20)
#define SIM_SGE_MAX 16
#define SIM_LISTENERS_MAX 16
/* What the rules about credits (rules.c) count: shared receives of a target, tags of a queue. */
#define SIM_SHARED_RECEIVES 4096u
#define SIM_TAGS 256u

struct sim_conn;

/* How the network and its devices are in this world; parts are of a million, per message. */
struct sim_net {
	struct fab_limits limits;
	uint32_t inline_bytes;
	uint64_t latency_min_ns, latency_max_ns;
	uint32_t lose;		/* a message: sent again, its memory read again */
	uint32_t lose_ack;	/* its acknowledgement: sent again, though it was carried out */
	uint32_t lose_response; /* of a READ: it is carried out again */
	uint64_t resend_ns;	/* at most, until it is sent again */
	uint64_t stray_ns;	/* at most: what a connection has sent arrives after its end */
	unsigned int resends;	/* then the connection is given up */
	uint32_t refuse;	/* of what a device or machine is asked for: it is short of it */
	uint32_t twice;		/* of requests to connect: it comes again, when its sender is gone */
	uint16_t batch_max;	/* a target takes so many commands in a message; 0: as many as ours */
	bool again;		/* numbers and keys are used again as soon as they are free */
	uint64_t linger_ns;	/* a queue pair in ERR takes at most so long to drain; 0: mostly little */
	bool calm;		/* faults have stopped */
};
extern struct sim_net sim_net;

enum sim_wqe_state {
	SIM_WQE_POSTED,
	SIM_WQE_FLYING,	  /* the payload was read; it has not been carried out */
	SIM_WQE_EXECUTED, /* the peer has carried it out and we do not know */
	SIM_WQE_ACKED,
};

/* A send-side work request. Its connection's. */
struct sim_wqe {
	TAILQ_ENTRY(sim_wqe) link;
	struct ibv_send_wr wr;
	struct ibv_sge sge[SIM_SGE_MAX];
	enum sim_wqe_state state;
	uint64_t due_ns; /* FLYING: arrival; EXECUTED: acknowledgement */
	uint64_t response_ns;
	uint32_t bytes;
	bool responded; /* READ: the data is here */
	bool resend;	/* it, or its acknowledgement, was lost: read the memory again when due */
	unsigned int repeats;
	uint8_t data[] __attribute__((aligned(16))); /* payload, or what a READ has read: structs of the protocol, too */
};
TAILQ_HEAD(sim_wqe_list, sim_wqe);

struct sim_receive {
	uint64_t wr_id;
	struct ibv_sge sge;
};

/* Those that are posted: a ring of `room`, which is there from the first on. */
struct sim_receives {
	struct sim_receive *of;
	uint32_t room, first, count;
};

static inline struct sim_receive *sim_receive_at(const struct sim_receives *receives, uint32_t i)
{
	return &receives->of[(receives->first + i) % receives->room];
}

struct sim_cqe {
	TAILQ_ENTRY(sim_cqe) link;
	struct ibv_wc wc;
	struct sim_conn *conn;
	unsigned int frees; /* entries of the send queue */
	bool receive, srq;
};

/* An event to be told, or a step of connecting that must run within fab_poll_event(). */
struct sim_note {
	TAILQ_ENTRY(sim_note) link;
	bool resolved; /* a step: the address is resolved */
	struct fab_event event;
	uint8_t data[RBLK_PRIVATE_DATA_MAX];
};

struct sim_fab {
	struct fab head;
	struct fab_device device;
	struct sim_actor *actor;
	TAILQ_ENTRY(sim_fab) link; /* all there are */
	bool refuses;		   /* its owner has begun its work: sim_net.refuse holds */
	bool dead;		   /* its process has been killed: nothing of it has effects */
	bool armed;		   /* the next completion or event makes its descriptor readable: */
	bool receives_only;	   /* of completions, those of receives */
	bool readable;
	uint32_t serial;
	TAILQ_HEAD(, sim_conn) conns;
	TAILQ_HEAD(, sim_cqe) cq;
	uint32_t cq_count;
	unsigned int failures; /* completions with RBLK_E_IO that have come here */
	TAILQ_HEAD(sim_note_list, sim_note) notes;
	uint8_t private_data[RBLK_PRIVATE_DATA_MAX]; /* of the last event */
	struct sim_receives srq;
	uint32_t srq_count; /* posted, or of completions that were not polled */
	/* Of the last command message, and of that which each shared receive has brought; 0: posted. */
	uint32_t message_serial, receive_serials[SIM_SHARED_RECEIVES];
	unsigned int mrs;
};

struct sim_mr {
	struct fab_mr head;
	struct sim_fab *fab;
	uint8_t *base;
	size_t bytes;
	int access;
	uint32_t key;
	bool invalid; /* by SEND WITH INVALIDATE */
};

enum sim_conn_state {
	SIM_CONN_RESOLVING,
	SIM_CONN_REQUESTED, /* the request is on its way, or not yet answered */
	SIM_CONN_ACCEPTED,  /* the server's, before the client is known to be there */
	SIM_CONN_UP,
	SIM_CONN_ERR, /* nothing is sent or received any more */
};

struct sim_request {
	struct fab_request head;
	struct sim_conn *client;      /* NULL: it has given up */
	struct sim_fab *listener_fab; /* that has been asked; outlives the request */
};

/* Which message, and receive, an unanswered command has come by; serial 0: none. */
struct sim_brought {
	uint32_t serial;
	uint64_t wr_id;
	uint8_t opcode;
	uint16_t lba;	   /* FENCE: of which queue */
	uint32_t argument; /* and up to which incarnation */
};

struct sim_conn {
	struct fab_conn head;
	struct sim_fab *fab;
	TAILQ_ENTRY(sim_conn) link;  /* fab->conns */
	struct sim_conn *peer;	     /* NULL: never was, or destroyed */
	struct sim_request *request; /* the client's, not answered */
	enum sim_conn_state state;
	bool server, closed, flushed, drained_told;
	bool silent;	   /* its end is told to nobody */
	uint64_t ended_number; /* the model's, when it was closed, or its end had come here; 0: not yet */
	uint64_t death_ns; /* in ERR: until then the device may still carry out what arrives */
	enum ibv_wc_status error; /* of the first work request to fail; then flushes */
	struct fab_conn_options options;
	uint8_t private_data[RBLK_PRIVATE_DATA_MAX];
	struct sockaddr_storage address;
	fab_prepare_fn prepare;
	uint32_t session; /* of its initiator: sim_session_of() */
	uint8_t read_in;  /* READs that we answer at a time */
	uint32_t promised; /* the server's: receives behind its credits (C5) */
	uint16_t batch_max; /* the server's: commands in a message to it (C7) */
	struct sim_brought brought[SIM_TAGS]; /* the server's: by tag */

	struct sim_wqe_list sq;
	uint32_t sq_used;   /* posted and not known to be complete by a polled completion */
	uint32_t sq_silent; /* complete, unsignalled, behind the last signalled one */
	struct sim_receives rq;
	uint32_t rq_count;
	unsigned int cqes;			  /* of it in the completion queue */
	uint64_t arrival_ns, ack_ns, response_ns; /* of the last: the next are not earlier */
	struct sim_wqe_list strays;		  /* of its peer, which has ended: on their way */
	struct sim_event issue, arrive, ack, respond, flush, cm, timeout, hangup, stray;
};

static inline struct sim_conn *sim_conn_of(struct fab_conn *conn)
{
	return (struct sim_conn *)conn;
}

/* -- fabric_sim.c -------------------------------------------------------------------------- */

/* Before a seed: no fabric is there. */
void sim_fabric_reset(void);
extern const struct fab_ops sim_fabric_ops;
/* All open ones: connections, registrations. */
unsigned int sim_fabric_count(void);
/* One after the other, from NULL to NULL. */
const struct sim_fab *sim_fabric_next(const struct sim_fab *fab);
/* The process of `actor` is killed. */
void sim_fabric_kill(struct sim_actor *actor, bool power_lost);
/* The device that `actor` uses is removed, and is there again at once. */
void sim_fabric_unplug(const struct sim_actor *actor);
/* Bring the random connection number `n` of all that are up to an end; false: there is none. */
bool sim_fabric_break(uint64_t n);

/* Of a fabric, or of a eventfd (thread.c): readable? If not, and nobody has armed it although there
 * is something already: its waiter would sleep over that. */
bool sim_fd_ready(int fd);
void sim_fab_note(struct sim_fab *fab, struct sim_conn *conn, enum fab_event_type type, int status,
		  const void *data, size_t bytes);
void sim_fab_complete(struct sim_conn *conn, const struct ibv_wc *wc, unsigned int frees,
		      bool receive, bool srq);
struct sim_mr *sim_mr_find(uint32_t key);
/* Of the next queue pair. */
uint32_t sim_qp_number(void);
void sim_qp_number_free(uint32_t number);
/* Something fails now because its device, or its machine, is short of it. */
bool sim_refuses(const struct sim_fab *fab);
/* The number of the fabric that the actor has open, the first of them: for an initiator, of its session. */
uint32_t sim_session_of(const struct sim_actor *actor);
/* Another session of it begins on the same fabric. */
void sim_session_renew(struct sim_fab *fab);

/* A machine's ways out and in: cut, messages are lost. Both, or one of them. */
#define SIM_LINK_OUT 1u
#define SIM_LINK_IN 2u
void sim_link_cut(unsigned int machine, unsigned int ways);
/* The same of one of a target's addresses: 10.0.PORTAL.(MACHINE + 1). */
#define SIM_PORTALS_MAX 3u
void sim_portal_cut(unsigned int machine, unsigned int portal, unsigned int ways);
/* Of an address; from SIM_PORTALS_MAX on: of a portal that never answers. */
unsigned int sim_portal_of(const struct sockaddr_storage *address);
/* From its end to its peer, and back. */
bool sim_link_up(const struct sim_conn *conn);
bool sim_link_back(const struct sim_conn *conn);
/* From a machine to another, by a target's address; in: to the target. */
bool sim_way_up(unsigned int from, unsigned int to, unsigned int target, unsigned int portal, bool in);
uint64_t sim_latency_ns(void);

/* -- fabric_cm.c --------------------------------------------------------------------------- */

int sim_listen(struct fab *fab, const struct sockaddr *addr, int backlog,
	       struct fab_listener **listener);
void sim_listener_destroy(struct fab_listener *listener);
int sim_listener_address(const struct fab_listener *listener, struct sockaddr_storage *addr);
int sim_accept(struct fab *fab, struct fab_request *request, const struct fab_conn_options *options,
	       struct fab_conn **conn);
void sim_reject(struct fab_request *request, const void *private_data, uint8_t bytes);
struct fab_device *sim_request_device(struct fab *fab, struct fab_request *request);
int sim_connect(struct fab *fab, const struct sockaddr *addr,
		const struct fab_conn_options *options, fab_prepare_fn prepare,
		struct fab_conn **conn);
int sim_establish(struct fab_conn *conn, const void *private_data, uint8_t bytes);
void sim_refuse(struct fab_conn *conn, const void *private_data, uint8_t bytes);
/* The step that a `resolved` note stands for: true if `event` is to be told. */
bool sim_resolved(struct sim_conn *conn, struct fab_event *event);
/* Nobody will answer it. */
void sim_request_free(struct sim_request *request);
void sim_listeners_kill(struct sim_actor *actor);
/* The server learns that the client is there: by its word, or by a first message. */
void sim_conn_established(struct sim_conn *conn);

/* -- fabric_end.c -------------------------------------------------------------------------- */

void sim_close(struct fab_conn *conn);
void sim_destroy(struct fab_conn *conn);
/* Of a new connection. */
void sim_end_init(struct sim_conn *conn);
/* Into ERR: the work that it has posted ends with `status`, after a while. */
void sim_conn_die(struct sim_conn *conn, enum ibv_wc_status status);
/* The connection is lost on this side: into ERR, DISCONNECTED is told. */
void sim_conn_lose(struct sim_conn *conn, enum ibv_wc_status status, int error);
/* It breaks, if it is up. */
void sim_conn_break(struct fab_conn *conn);
/* Its peer will have to find out by itself that it has ended. */
void sim_conn_silence(struct fab_conn *conn);
/* It has ended, for whoever asks its process from now on: once. */
void sim_conn_ended(struct sim_conn *conn);
/* Its process is dead: what is left of it is over at once. */
void sim_conn_kill(struct sim_conn *conn);
/* Everything of a closed connection has been polled. */
void sim_conn_check_drained(struct sim_conn *conn);

/* -- fabric_post.c ------------------------------------------------------------------------- */

int sim_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int sim_post_recv(struct fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int sim_post_srq_recv(struct fab_device *device, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* -- fabric_wire.c ------------------------------------------------------------------------- */

/* Between two work requests that a device takes from a queue. */
#define SIM_ISSUE_NS_MAX 300

static inline bool sim_wqe_is_read(const struct sim_wqe *wqe)
{
	return wqe->wr.opcode == IBV_WR_RDMA_READ;
}

/* Posted before `end` (NULL: at all), and without a response yet. */
unsigned int sim_reads_outstanding(const struct sim_conn *conn, const struct sim_wqe *end);
void sim_wire_init(struct sim_conn *conn);
/* In ERR: complete everything that is posted, with error. */
void sim_wire_flush(struct sim_conn *conn);
void sim_wire_fini(struct sim_conn *conn);

#endif
