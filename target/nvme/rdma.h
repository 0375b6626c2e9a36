/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NVMe over RDMA: a queue of an NVMe host as a connection of the fabric below, which is fabric_verbs (in tests another
 * one). Its work requests go there almost as the reactor posts them: READs and WRITEs get the host's address and key, a
 * SEND of a completion becomes one of NVMe's. Receives have two segments, so that the data of a capsule is where the
 * reactor wants it, and the command behind all of it.
 *
 * Connect is the first message on a connection, so there is a queue pair before anybody knows whose session it joins:
 * the lobby. The listener's fab chooses the reactor, whose fab accepts the connection. What Connect says then goes back
 * to the listener as a request, like that of any other login, but only this one fab can accept it.
 *
 *   rdma.c          the table of the fabric; completions and events, receives
 *   rdma_greet.c    the lobby
 *   rdma_receive.c  capsules
 *   rdma_send.c     work requests, and answers of this room's own
 *   rdma_verbs.c    what it needs of fabric_verbs beside its table
 *
 * A fab's thread, but for requests, which are the listener's, a reactor's or this fab's.
 */
#ifndef RBLK_TARGET_NVME_RDMA_H
#define RBLK_TARGET_NVME_RDMA_H

#include "proto/fabric/fabric_impl.h"
#include "target/nvme/queue.h"

/* Bits of wr_ids below: a receive, by number; a work request of this room's own. Others are the reactor's sends. */
#define NVME_RDMA_RECEIVE (1ull << 63)
#define NVME_RDMA_OWN (1ull << 62)

#define NVME_RDMA_CAPSULE_BYTES (sizeof(struct nvme_command) + NVME_CAPSULE_BYTES)
/* Receives of this room's own, for each device: as long as a connection is in the lobby, one for each of them. */
#define NVME_RDMA_OWN_RECEIVES 16u
/* Receives of the reactor's that are not posted, for messages that no capsule has brought. A queue has two at most that
 * its reserved tags do not stand for: so it holds back no credit. */
#define NVME_RDMA_SPARES 64u
/* Answers of this room's own, and fetches, of a queue at a time, and the data of one piece. */
#define NVME_RDMA_PLACES 4u
#define NVME_RDMA_PLACE_BYTES NVME_CAPSULE_BYTES
#define NVME_RDMA_PLACE_WRS 2u
static_assert(NVME_COMPARE_BYTES <= NVME_RDMA_PLACE_BYTES, "what is fetched fits");
/* Completions that wait for the reactor: a batch, and what may come of it. */
#define NVME_RDMA_BATCH 64u
#define NVME_RDMA_DONE (4u * NVME_RDMA_BATCH)
/* The lobby, of all fabs: so many, each for so long. */
#define NVME_RDMA_LOBBY_MAX 256u
#define NVME_RDMA_LOBBY_EACH 64u
#define NVME_RDMA_LOBBY_MS 10000u

/* -- what the connection manager carries --------------------------------------------------------- */

struct nvme_rdma_ask {
	__le16 format; /* 0 */
	__le16 queue;
	__le16 receives; /* of the host's */
	__le16 commands; /* outstanding, 0's based */
	__u8 reserved[24];
};
RBLK_ASSERT_SIZE(struct nvme_rdma_ask, 32);

struct nvme_rdma_accept {
	__le16 format;
	__le16 receives;
	__u8 reserved[28];
};
RBLK_ASSERT_SIZE(struct nvme_rdma_accept, 32);

struct nvme_rdma_reject {
	__le16 format;
	__le16 status; /* enum nvme_rdma_status */
};
RBLK_ASSERT_SIZE(struct nvme_rdma_reject, 4);

enum nvme_rdma_status {
	NVME_RDMA_BAD_LENGTH = 1,
	NVME_RDMA_BAD_FORMAT = 2,
	NVME_RDMA_BAD_QUEUE = 3,
	NVME_RDMA_BAD_COMMANDS = 4,
	NVME_RDMA_BAD_RECEIVES = 5,
	NVME_RDMA_NO_RESOURCES = 6,
};

/* -- the fabric below ---------------------------------------------------------------------------- */

struct nvme_rdma_below {
	const struct fab_ops *ops;
	int (*wake)(struct fab *fab); /* an eventfd that ends the fab's sleep, the caller's; or negative errno */
	void (*local)(const struct fab_conn *conn, struct sockaddr_storage *address);
	struct fab_device *(*device)(struct fab *fab, const char *name); /* NULL: words in fab_error() */
};
extern const struct nvme_rdma_below nvme_rdma_verbs;
/* nvme_rdma_verbs; fixed before a fab is opened. */
extern const struct nvme_rdma_below *nvme_rdma_below;

/* -- fabs ---------------------------------------------------------------------------------------- */

/* One that the reactor has posted. */
struct nvme_rdma_receive {
	uint64_t wr_id;
	uint64_t address;
	uint32_t bytes;
	uint32_t lkey;
};

struct nvme_rdma_device {
	struct fab_device *device; /* NULL: it is not in use */
	bool invalidates;
	struct nvme_rdma_receive *receives; /* by number: `entries` of the fab's options, */
	uint32_t *free_numbers, free_count;
	uint32_t spares[NVME_RDMA_SPARES], spare_count;
	/* Numbers behind those are this room's own. */
	char *own; /* NVME_RDMA_OWN_RECEIVES capsules, and as many completions */
	struct fab_mr *own_mr;
	uint32_t own_free[NVME_RDMA_OWN_RECEIVES], own_count;
	uint32_t answers; /* of completions there: used in turn */
	uint32_t lobby, queues; /* connections */
	uint32_t guests; /* those that are not the reactor's, until they are destroyed */
	bool gone; /* the reactor is to hear it when there are none */
};

TAILQ_HEAD(nvme_rdma_list, nvme_rdma);
TAILQ_HEAD(nvme_rdma_requests, nvme_rdma_request);

/* fab->above. Made by fab_open(), freed by fab_close(). */
struct nvme_rdma_fab {
	struct fab *fab;
	TAILQ_ENTRY(nvme_rdma_fab) link; /* of the process's, under the lobby's lock */
	struct nvme_rdma_requests inbox; /* likewise: for this thread */
	_Atomic bool has_mail;
	_Atomic unsigned int load; /* connections */
	int eventfd;
	uint32_t entries; /* of a device's receives that are the reactor's; 0: the listener's fab */
	struct nvme_rdma_device devices[FAB_DEVICES_MAX];
	unsigned int gone; /* devices that are */
	struct nvme_rdma_list all, failed; /* failed: of which DISCONNECTED is to be told */
	struct nvme_rdma_list woken, starved; /* that have something to do; and that wait for a spare receive */
	struct ibv_wc done[NVME_RDMA_DONE];
	uint32_t done_head, done_tail; /* run freely */
	unsigned int news, skips;
	uint64_t due_ns; /* of the first timer */
	struct rblk_wire_login login; /* of the request that is being told */
};

/* From the host's request until it is accepted or over. `raw`, or what has become of it. */
struct nvme_rdma_request {
	struct fab_request head; /* first; its fab: the one that has the connection; NULL: none any more */
	TAILQ_ENTRY(nvme_rdma_request) link; /* of an inbox */
	TAILQ_ENTRY(nvme_rdma_request) lobby_link;
	struct fab_request *raw; /* NULL: accepted below */
	struct nvme_rdma *conn;  /* NULL: not yet, or it has ended */
	uint16_t queue, entries; /* as the host has asked for */
	uint16_t refused;	 /* the status of Connect */
	bool asks;		 /* it has been sent to the listener */
	struct rblk_wire_login login;
	char device[64];
};

/* -- connections --------------------------------------------------------------------------------- */

enum nvme_rdma_state {
	NVME_RDMA_LOBBY,    /* Connect has not come */
	NVME_RDMA_READS,    /* its data is being fetched */
	NVME_RDMA_ASKS,	    /* the request is the listener's or a reactor's */
	NVME_RDMA_REFUSED,  /* it ends when that has been sent */
	NVME_RDMA_ENDS,	    /* it is being closed, and destroyed when it has drained */
	NVME_RDMA_ACCEPTED, /* it is the reactor's: it closes and destroys it */
};

/* An answer that waits for a place. */
struct nvme_rdma_answer {
	struct nvme_completion completion;
	uint64_t address; /* of the data, with the host */
	uint32_t key;
	bool invalidates; /* the key */
	uint8_t *data;	  /* owned; NULL: none */
	uint32_t bytes, done;
};

/* A place: of a piece of data, and a completion. */
struct nvme_rdma_place {
	bool used;
	struct nvme_slot *slot; /* of a fetch; NULL: of an answer */
};

/* conn->above. Made in the lobby, freed with the connection. */
struct nvme_rdma {
	struct fab_conn *conn;
	struct nvme_rdma_fab *fab;
	struct nvme_rdma_device *device;
	TAILQ_ENTRY(nvme_rdma) link, failed_link, work_link; /* work: woken or starved */
	enum nvme_rdma_state state;
	struct nvme_rdma_request *request; /* until it is accepted */
	struct nvme_command connect;	   /* in the lobby */
	struct nvme_hello *hello;	   /* until there is a queue */
	uint64_t due_ns;		   /* its timer; 0: none */
	uint32_t send_depth;

	struct nvme_queue *queue; /* NULL: not established */
	bool closed;
	bool failed, told; /* no capsule is taken any more; it is in `failed` */
	int status;
	bool woken, starved;
	bool finishes; /* it ends behind what has been answered here */
	struct nvme_slots parked; /* commands that wait for room */
	struct nvme_slots fetches; /* that wait for a place */
	struct nvme_rdma_answer *answers; /* a ring of as many as answer_mask says, plus one */
	uint32_t answer_mask, answer_head, answer_tail;
	struct nvme_rdma_place places[NVME_RDMA_PLACES];
	char *memory; /* of the places: data, and then completions */
	struct fab_mr *mr;
	uint32_t lkey;
	struct ibv_send_wr *reply; /* the reactor's SEND that the next answer takes; NULL: none */
	const struct nvme_rdma_receive *offered; /* the receive of the capsule at hand; NULL: it is used */
};

static inline struct nvme_rdma_fab *nvme_rdma_fab(const struct fab *fab)
{
	return fab->above;
}

static inline struct nvme_rdma *nvme_rdma(const struct fab_conn *conn)
{
	return conn->above;
}

static inline uint32_t nvme_command_key(const struct nvme_command *command)
{
	return rblk_le32(command->length) >> 24 | (uint32_t)command->key[0] << 8 | (uint32_t)command->key[1] << 16 |
	       (uint32_t)command->key[2] << 24;
}

/* -- rdma.c -------------------------------------------------------------------------------------- */

void nvme_rdma_init(void);
/* The fab's own view of it; NULL: no memory. */
struct nvme_rdma_device *nvme_rdma_device(struct nvme_rdma_fab *fab, struct fab_device *device);
/* A receive of this room's own for each that is in the lobby, as far as there are. */
void nvme_rdma_own_post(struct nvme_rdma_device *device);
/* Posts one of the reactor's again, or keeps it. */
void nvme_rdma_receive_again(struct nvme_rdma_device *device, const struct nvme_rdma_receive *receive);
/* A completion for the reactor. There has to be room. */
struct ibv_wc *nvme_rdma_done(struct nvme_rdma_fab *fab, uint64_t wr_id, uint32_t qp_num);
bool nvme_rdma_done_room(const struct nvme_rdma_fab *fab);
void nvme_rdma_timer(struct nvme_rdma *rdma, uint64_t due_ns);

/* -- rdma_greet.c -------------------------------------------------------------------------------- */

void nvme_rdma_lobby_join(struct nvme_rdma_fab *fab);
void nvme_rdma_lobby_leave(struct nvme_rdma_fab *fab);
/* From now on no host gets a connection: the reactors wait for the ends of those that are being made. */
void nvme_rdma_drain(void);
/* A host's request, at the listener. */
void nvme_rdma_greet(struct nvme_rdma_fab *fab, const struct fab_event *event);
/* Takes what others have sent to this fab. True: *event is a login's. */
bool nvme_rdma_mail(struct nvme_rdma_fab *fab, struct fab_event *event);
/* A connection that is not accepted: its first message, the data that this has elsewhere, its events, its end. */
void nvme_rdma_first(struct nvme_rdma *rdma, const struct nvme_command *command, const void *data, uint32_t bytes);
void nvme_rdma_first_read(struct nvme_rdma *rdma, const void *data);
void nvme_rdma_lobby_event(struct nvme_rdma *rdma, enum fab_event_type type);
void nvme_rdma_lobby_end(struct nvme_rdma *rdma);
int nvme_rdma_accept(struct fab *fab, struct fab_request *request, const struct fab_conn_options *options,
		     struct fab_conn **conn);
void nvme_rdma_reject(struct fab_request *request, const void *private_data, uint8_t bytes);
struct fab_device *nvme_rdma_request_device(struct fab *fab, struct fab_request *request);
int nvme_rdma_establish(struct fab_conn *conn, const void *private_data, uint8_t bytes);
void nvme_rdma_refuse(struct fab_conn *conn, const void *private_data, uint8_t bytes);

/* -- rdma_receive.c ------------------------------------------------------------------------------ */

extern const struct nvme_transport nvme_rdma_transport;
/* A capsule. receive: the reactor's that it has come in; NULL: one of this room's own. */
void nvme_rdma_capsule(struct nvme_rdma *rdma, const struct nvme_rdma_receive *receive,
		       const struct nvme_command *command, const char *data, uint32_t bytes);
void nvme_rdma_fail(struct nvme_rdma *rdma, int status);
/* Queues that were woken, and that have waited for a spare receive that is there now. */
void nvme_rdma_work(struct nvme_rdma_fab *fab);
bool nvme_rdma_has_work(const struct nvme_rdma_fab *fab);
void nvme_rdma_idle(struct nvme_rdma *rdma); /* it is in none of these lists any more */

/* -- rdma_send.c --------------------------------------------------------------------------------- */

/* A queue's memory and places. False: no memory. */
bool nvme_rdma_send_init(struct nvme_rdma *rdma);
/* Gets so much data of Connect, in the lobby; nvme_rdma_first_read() follows. False: it cannot be had. */
bool nvme_rdma_fetch_first(struct nvme_rdma *rdma, uint32_t bytes);
void nvme_rdma_send_fini(struct nvme_rdma *rdma);
int nvme_rdma_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* A work request of this room's own has completed. */
void nvme_rdma_own_sent(struct nvme_rdma *rdma, uint64_t wr_id, bool well);
/* All that waits and can go on. */
void nvme_rdma_send_go_on(struct nvme_rdma *rdma);
/* For struct nvme_transport. */
bool nvme_rdma_has_room(const struct nvme_queue *queue);
void nvme_rdma_respond(struct nvme_queue *queue, struct nvme_slot *slot, const struct nvme_completion *completion,
		       void *data, uint32_t bytes);
void nvme_rdma_fetch(struct nvme_queue *queue, struct nvme_slot *slot);
/* Connect's answer, in the lobby. False: it cannot be sent. */
bool nvme_rdma_respond_first(struct nvme_rdma *rdma, uint16_t status);

#endif
