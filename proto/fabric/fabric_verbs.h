/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The files of fabric_verbs share this: the structs behind fabric.h's opaque ones, and who does
 * what.
 *   fabric_verbs.c         a fab: open, close, arm, poll, post; delivering events
 *   fabric_verbs_device.c  a device: its context, CQ, SRQ, limits, asynchronous events
 *   fabric_verbs_sync.c    librdmacm's own contexts of devices
 *   fabric_verbs_mr.c      registered memory
 *   fabric_verbs_conn.c    a connection: states, drain, destroy
 *   fabric_verbs_qp.c      its queue pair
 *   fabric_verbs_listen.c  listeners
 *   fabric_verbs_address.c which addresses are RDMA devices'
 *   fabric_verbs_cm.c      rdma_cm: request, connect, accept, and its events
 *
 * Each fab opens a device's context for itself instead of using the one that rdma_cm opens: that
 * one is shared by all threads of the process, its asynchronous events with it, and it is closed
 * with the last cm id. So queue pairs are made and moved here, and rdma_cm is only told their
 * numbers.
 *
 * All of a fab belongs to one thread, but for what verbs_mr_work() does with the memory that it is
 * given and the devices that this holds (mr_jobs), and what a verbs_job does with its queue pair.
 * A cm event is copied and acknowledged before it
 * is acted upon: rdma_migrate_id() and rdma_destroy_id() wait for events not yet acknowledged.
 */
#ifndef RBLK_FABRIC_VERBS_H
#define RBLK_FABRIC_VERBS_H

#include "proto/fabric/fabric_impl.h"
#include "proto/wire/login.h"

#include <rdma/rdma_cma.h>
#include <sys/queue.h>

#define VERBS_PRIVATE_MAX 256 /* of any cm message; the length is a byte */

/* READs a connection may have in either direction; 255 has another meaning to rdma_cm. */
#define VERBS_READ_DEPTH_MAX 128
/* 20 us at 100 Gbit/s: a round trip and a turn of the reactor take less. */
#define VERBS_READ_BYTES (256u << 10)

struct verbs_conn;
TAILQ_HEAD(verbs_conn_list, verbs_conn);
TAILQ_HEAD(verbs_mr_list, verbs_mr);
TAILQ_HEAD(verbs_listener_list, verbs_listener);

/* A completion queue. All of a device share its channel. */
struct verbs_cq {
	struct ibv_cq *cq;    /* NULL: there is none */
	bool armed;	      /* a notification was asked for and its event not yet read */
	bool seen;	      /* completions were polled since */
	unsigned int unacked; /* events, acknowledged in bulk */
};

/*
 * A device as one fab uses it. Made when a connection first needs it; freed by fab_close(), or, once it was
 * removed and released, when another needs its slot.
 */
struct verbs_device {
	struct fab_device head;
	struct ibv_context *context; /* NULL once released after removal, as all below */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct verbs_cq receives; /* of all the fab's connections here; sends, too, if those have none: */
	struct verbs_cq sends;
	struct ibv_srq *srq; /* NULL if the fab has none */
	bool iwarp;
	bool channel_ready;  /* the completion channel has an event */
	struct ibv_wc stash;  /* what fab_arm() found when it looked */
	bool stashed;
	uint64_t empties;   /* times that the CQs were polled empty */
	unsigned int conns; /* that have a queue pair here */
	bool async_ready;
	bool gone;	   /* removed or failed; nothing new is begun here */
	bool gone_pending; /* DEVICE_GONE not yet delivered */
	bool released;	   /* the fab's owner has released it: another device may get its slot */
	unsigned int mr_jobs; /* fab_mr_work() that use it */
	int ibv_index;	   /* the kernel's number: one that comes back has the name, and another number */
	enum { VERBS_LAST_WQE_UNKNOWN, VERBS_LAST_WQE_RAISED, VERBS_LAST_WQE_NEVER } last_wqe;
};

struct verbs_fab {
	struct fab head;
	struct rdma_event_channel *channel;
	struct verbs_device *devices[FAB_DEVICES_MAX];
	unsigned int device_count;
	unsigned int next_device; /* where polling begins */
	struct verbs_conn_list conns;
	struct verbs_conn_list ready; /* with events to deliver, oldest first */
	struct verbs_conn_list timed; /* with a deadline */
	struct verbs_mr_list mrs;
	struct verbs_listener_list listeners;
	bool listener_gone;	       /* DEVICE_GONE of a listener not yet delivered */
	bool listener_lost;	       /* a listener's device has gone: see verbs_devices_sync() */
	struct verbs_request *request; /* to be delivered */
	unsigned int polls_wanted;     /* connections that wait for their CQ to be polled empty */
	bool look; /* fab_arm() was called since the descriptors were looked at */
	bool cm_ready;
	unsigned int skips;
	uint64_t looked_ns;
	uint8_t private_data[VERBS_PRIVATE_MAX]; /* of the event being delivered */
	uint8_t private_bytes;
};

struct verbs_listener {
	struct fab_listener head;
	struct rdma_cm_id *id;	/* NULL once its device was removed */
	struct rdma_cm_id *id4; /* of [::]: IPv4's */
	TAILQ_ENTRY(verbs_listener) entry;
};

/* Made by a listener's fab; freed by the call that consumes it. Owns the id. */
struct verbs_request {
	struct fab_request head;
	struct rdma_cm_id *id;
};

enum verbs_conn_state {
	VERBS_CONN_RESOLVING,	 /* address, then route; no queue pair yet */
	VERBS_CONN_CONNECTING,	 /* request sent; queue pair in INIT with the caller's receives */
	VERBS_CONN_ACCEPTED,	 /* fab_accept() done; queue pair in INIT, nothing answered */
	VERBS_CONN_ESTABLISHING, /* acceptance sent; queue pair in RTS, messages may come already */
	VERBS_CONN_ESTABLISHED,
	VERBS_CONN_BROKEN,   /* refused, failed or disconnected: waits for fab_conn_close() */
	VERBS_CONN_DRAINING, /* closed by the caller; queue pair in ERR, then destroyed */
	VERBS_CONN_DRAINED,  /* the fabric uses nothing of the caller's any more */
	VERBS_CONN_STATES
};

/* A draining connection waits for these, in this order. */
enum verbs_drain {
	VERBS_DRAIN_MADE,      /* a queue pair that another thread is making */
	VERBS_DRAIN_MARKERS,   /* the last work request of each queue */
	VERBS_DRAIN_LAST_WQE,  /* SRQ: the device's word that it takes no more from there */
	VERBS_DRAIN_EMPTY,     /* what completed before that has been polled */
	VERBS_DRAIN_DESTROYING, /* another thread destroys the queue pair */
	VERBS_DRAIN_DESTROYED, /* the queue pair is destroyed: polled empty once more */
};

/* A new queue pair, and what came of making it. */
struct verbs_made {
	struct ibv_qp *qp; /* NULL: see err */
	uint32_t inline_bytes;
	int err;
	const char *step; /* of err */
};

/* Makes or destroys the queue pair of a connection; `made` is the other thread's in between. */
struct verbs_job {
	struct fab_job head; /* first */
	struct verbs_conn *conn;
	bool active; /* the fab's thread: begun and not ended */
	struct verbs_made made;
};

/* Created by fab_connect() or fab_accept(), freed by fab_conn_destroy(). */
struct verbs_conn {
	struct fab_conn head;
	enum verbs_conn_state state;
	struct fab_conn_options options; /* private_data points into the array below */
	uint8_t private_data[RBLK_PRIVATE_DATA_MAX];
	fab_prepare_fn prepare;		 /* connecting only */
	struct rdma_cm_id *id;		 /* its context is this connection */
	struct ibv_qp *qp;		 /* NULL until it is made, and while another thread has it */
	struct verbs_job job;
	bool postable;			 /* the queue pair exists and has not been closed */
	bool unanswered;		 /* accepting: the peer waits for an answer */
	bool timed, ready, polls_wanted; /* on the fab's list; counted there */
	uint8_t read_in; /* IRD to offer */
	uint64_t deadline_ns;
	unsigned int events; /* to be delivered: 1 << enum fab_event_type */
	int status;	     /* of FAILED or DISCONNECTED, with its words: */
	char reason[FAB_ERROR_BYTES];
	enum verbs_drain drain;
	unsigned int markers; /* still out */
	bool last_wqe;
	uint64_t empties; /* of the device when the present wait began */
	TAILQ_ENTRY(verbs_conn) all_entry, ready_entry, timed_entry;
};

/* Memory of a fab (on its list, registered with every device) or of one connection. */
struct verbs_mr {
	struct fab_mr head;
	struct ibv_mr *mrs[FAB_DEVICES_MAX];
	void *addr;
	size_t bytes;
	int access;
	TAILQ_ENTRY(verbs_mr) entry;
	/* From fab_mr_begin() or fab_mr_retire() to fab_mr_end(), when it is not on the fab's list:
	 * the devices that it works with, which are kept open, and what came of it. */
	struct verbs_device *devices[FAB_DEVICES_MAX];
	int work_errnos[FAB_DEVICES_MAX]; /* 0: no failure */
};

static inline struct verbs_fab *verbs_fab(const struct fab *fab)
{
	return (struct verbs_fab *)fab;
}

static inline struct verbs_conn *verbs_conn(const struct fab_conn *conn)
{
	return (struct verbs_conn *)conn;
}

static inline struct verbs_device *verbs_device(const struct fab_device *device)
{
	return (struct verbs_device *)device;
}

static inline struct verbs_fab *verbs_conn_fab(const struct verbs_conn *conn)
{
	return verbs_fab(conn->head.fab);
}

/*
 * Each device numbers its queue pairs itself, in 24 bits, so two devices use the same numbers: above
 * them, the device's index makes a number unique in the fab.
 */
static inline uint32_t verbs_qp_num(const struct verbs_device *device, uint32_t qp_num)
{
	return qp_num | device->head.index << 24;
}

/* -- fabric_verbs.c -- */
int verbs_fd_watch(struct verbs_fab *fab, int fd, void *tag);
/* Opens the connection manager, if that has not been done. */
int verbs_channel_open(struct verbs_fab *fab);
/* Why it cannot be opened; error: FAB_ERROR_BYTES. */
void verbs_open_words(int err, char *error);

/* -- fabric_verbs_device.c -- */
/* The fab's own view of a device of rdma_cm's; opened if need be. */
int verbs_device_get(struct verbs_fab *fab, struct ibv_device *ibdev, struct verbs_device **device);
/* Likewise, by its name. NULL: there is none, with words in fab_error(). */
struct fab_device *verbs_device_named(struct fab *fab, const char *name);
void verbs_device_destroy(struct verbs_device *device);
void verbs_device_release(struct fab_device *device);
void verbs_devices_check(struct fab *fab);
int verbs_device_arm(struct verbs_device *device, bool receives_only);
void verbs_device_async(struct verbs_device *device);
/* Its connections are disconnected, DEVICE_GONE follows. Idempotent. */
void verbs_device_lost(struct verbs_device *device, int status, const char *why);
/* Give a removed device back to the kernel once nothing of ours is on it. */
void verbs_device_settle(struct verbs_device *device);

/* -- fabric_verbs_sync.c -- */
/* Let librdmacm close its contexts of devices that do not exist any more. */
void verbs_devices_sync(void);
/* It was called: librdmacm has contexts of all devices, and is to be asked again whenever one may have gone. */
bool verbs_devices_all_open(void);

/* -- fabric_verbs_mr.c -- */
/* With one device: 0, or negative errno with words in fab_error(). Undone by verbs_mr_remove(). */
int verbs_mr_add(struct verbs_mr *mr, struct verbs_device *device);
/* No effect if it is not registered there. */
void verbs_mr_remove(struct verbs_mr *mr, unsigned int device_index);
int verbs_mr_begin(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr);
void verbs_mr_retire(struct fab_mr *mr);
void verbs_mr_work(struct fab_mr *mr);
int verbs_mr_end(struct fab_mr *mr);
int verbs_mr_register(struct fab *fab, void *addr, size_t bytes, int access, struct fab_mr **mr);
void verbs_mr_deregister(struct fab_mr *mr);

/* -- fabric_verbs_conn.c -- */
struct verbs_conn *verbs_conn_alloc(struct verbs_fab *fab, const struct fab_conn_options *options,
				    enum verbs_conn_state state);
void verbs_conn_free(struct verbs_conn *conn);
/* False: there is no such transition. The connection is ended then. */
bool verbs_conn_set_state(struct verbs_conn *conn, enum verbs_conn_state state);
void verbs_conn_set_deadline(struct verbs_conn *conn, uint64_t deadline_ns); /* 0: none */
void verbs_conn_raise(struct verbs_conn *conn, enum fab_event_type type);
/* The connection has ended: queue pair to ERR, event `type` with this text. */
void verbs_conn_break(struct verbs_conn *conn, enum fab_event_type type, int status,
		      const char *format, ...) __attribute__((format(printf, 4, 5)));
void verbs_conn_error(struct verbs_conn *conn, const struct ibv_wc *wc);
void verbs_conn_marker(struct verbs_conn *conn);
void verbs_conn_drain(struct verbs_conn *conn);
void verbs_conn_expire(struct verbs_conn *conn);
/* From verbs_job: the queue pair exists, or err says why not; it is destroyed. */
void verbs_conn_qp_made(struct verbs_conn *conn, int err);
void verbs_conn_qp_destroyed(struct verbs_conn *conn);
void verbs_conn_close(struct fab_conn *conn);
void verbs_conn_destroy(struct fab_conn *conn);

/* -- fabric_verbs_qp.c -- */
/*
 * The connection is this device's from now on: checks its limits, counts it, and makes a queue pair in INIT, unless
 * another thread is to make it (verbs_qp_begin_make()).
 */
int verbs_conn_create_qp(struct verbs_conn *conn, struct rdma_cm_id *id,
			 struct verbs_device *device);
/* All that verbs_conn_create_qp() made; a queue pair already destroyed by the drain is none. */
void verbs_conn_destroy_qp(struct verbs_conn *conn);
/* Aside if possible: make it and move it to RTS; destroy it. verbs_conn_qp_made() or verbs_conn_qp_destroyed() follow,
 * perhaps before these return. */
void verbs_qp_begin_make(struct verbs_conn *conn);
void verbs_qp_begin_destroy(struct verbs_conn *conn);
/* INIT to RTS with what the cm negotiated. */
int verbs_conn_start_qp(struct verbs_conn *conn);
/* To ERR: all that is posted comes back flushed. Software devices flush what is posted in ERR only when told again. */
void verbs_conn_flush(struct verbs_conn *conn);
/* It takes its receives from the device's SRQ. */
bool verbs_conn_has_srq(const struct verbs_conn *conn);

/* -- fabric_verbs_listen.c -- */
int verbs_listen(struct fab *fab, const struct sockaddr *addr, int backlog,
		 struct fab_listener **listener);
void verbs_listener_destroy(struct fab_listener *listener);
int verbs_listener_address(const struct fab_listener *listener, struct sockaddr_storage *addr);
/*
 * The device of the address of this id's listener is being removed, and the kernel waits for the id's
 * destruction.
 */
void verbs_listener_lost(struct verbs_fab *fab, const struct rdma_cm_id *id);

/* -- fabric_verbs_address.c -- */
/*
 * Where the routes lead to `peer` by another device: *source is this one's address to reach it from, without a port.
 * False: they lead there by this one, or it has no such address.
 */
bool verbs_source_find(const char *device, const struct sockaddr *peer, struct sockaddr_storage *source);

/* -- fabric_verbs_cm.c -- */
/* One event of the channel; clears cm_ready when there is none. */
void verbs_cm_event(struct verbs_fab *fab);
int verbs_accept(struct fab *fab, struct fab_request *request,
		 const struct fab_conn_options *options, struct fab_conn **conn);
void verbs_reject(struct fab_request *request, const void *private_data, uint8_t bytes);
struct fab_device *verbs_request_device(struct fab *fab, struct fab_request *request);
int verbs_connect(struct fab *fab, const struct sockaddr *addr,
		  const struct fab_conn_options *options, fab_prepare_fn prepare,
		  struct fab_conn **conn);
int verbs_conn_establish(struct fab_conn *conn, const void *private_data, uint8_t bytes);
/* The queue pair is in RTS: send the acceptance that verbs_conn_establish() has kept. */
void verbs_conn_answer(struct verbs_conn *conn);
void verbs_conn_refuse(struct fab_conn *conn, const void *private_data, uint8_t bytes);

#endif
