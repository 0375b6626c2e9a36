/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The inside of a reactor, for the files of the data path (reactor, login, session, handle, queue,
 * request, transfer, reply, admin). Everything here belongs to the reactor's thread unless it is
 * marked; reactor.h is what others see.
 */
#ifndef RBLK_TARGET_REACTOR_IMPL_H
#define RBLK_TARGET_REACTOR_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include "proto/core/login.h"
#include "proto/core/spin.h"
#include "proto/fabric/fabric.h"
#include "target/io/inbox.h"
#include "target/base/log.h"
#include "target/serve/lease.h"
#include "target/serve/mailbox.h"
#include "target/store/pool.h"
#include "target/serve/reactor.h"
#include "target/store/region.h"
#include "target/store/ring.h"
#include "target/io/trace.h"

/* In-capsule data of one message, and the longest message: four pages and 64 descriptors. */
#define TGT_CAPSULE_BYTES 16384u
#define TGT_COMMAND_BYTES (TGT_CAPSULE_BYTES + 4096u)
/* Send-side work requests per tag: a READ or WRITE of data, and the reply. Splits wait for room. */
#define TGT_SENDS_PER_TAG 2u
/* Connections with protection domains of their own (measuring), per reactor. */
#define TGT_SCRATCH_QUEUES_MAX 4u
/* A command waits this long for data memory, then it is answered BUSY. */
#define TGT_MEMORY_WAIT_NS 5000000000ull
/* So long an OPEN for the writes of connections that have ended. */
#define TGT_OPEN_WAIT_NS 5000000000ull
/* A session without queues is remembered for twice the keep-alive time, or this where there is
 * none: so long can a login of an older incarnation or epoch be told from a new one. */
#define TGT_SESSION_KEEP_NS 30000000000ull
/* Logins that wait for an older life to end. */
#define TGT_LOGINS_WAITING_MAX 256u
/* Where there is no keep-alive time, this is it while logins find no room. */
#define TGT_PRESSED_NS 5000000000ull
/* Reports of one queue on their way: an initiator that takes none cannot have them all. */
#define TGT_REPORTS_PER_QUEUE (2u * RBLK_RESERVED_TAGS)
#define TGT_FABRICS_MAX 2u
/* Work requests of one chain. */
#define TGT_CHAIN_MAX 64u

struct tgt_session;
struct tgt_queue;
struct tgt_request;
struct tgt_login;

TAILQ_HEAD(tgt_session_list, tgt_session);
TAILQ_HEAD(tgt_queue_list, tgt_queue);
TAILQ_HEAD(tgt_request_list, tgt_request);
TAILQ_HEAD(tgt_login_list, tgt_login);

/*
 * One fabric device as this reactor uses it: its shared receive queue's buffers. Made with the
 * first connection that comes in on the device, freed with the reactor.
 */
struct tgt_device {
	struct fab_device *device;
	struct tgt_region region; /* the receive buffers */
	struct fab_mr *mr;
	struct tgt_inbox inbox;
	uint32_t promised; /* receive buffers that stand behind credits and reserved tags */
};

struct tgt_fabric {
	struct fab *fab;
	struct fab_mr *mr; /* of the reactor's region */
	struct tgt_device *devices[FAB_DEVICES_MAX];
};

/* A volume as this reactor serves it. Made by its first handle, ends with its last. */
struct tgt_outlet {
	struct tgt_volume *volume; /* a reference */
	struct tgt_port *port;
	struct fab_mr *mr[TGT_FABRICS_MAX]; /* of store->info.direct, per fabric */
	unsigned int handles;
};

/* Work requests gathered for one queue in one turn; the only one there is, reused. */
struct tgt_chain {
	struct ibv_send_wr wr[TGT_CHAIN_MAX];
	struct ibv_sge sge[TGT_CHAIN_MAX];
	unsigned int count;
	bool failed; /* a post was refused: nothing more is posted, the queue is closed at the end
		      */
};

struct tgt_reactor {
	/* Fixed after creation. */
	struct tgt_config config; /* its volumes are not kept */
	unsigned int index;
	struct tgt_registry *registry; /* the process's volumes; outlives the reactor */
	uint32_t max_io_bytes;
	uint64_t keepalive_ns;
	unsigned int sessions_max, queues_max; /* this reactor's share */

	struct tgt_fabric fabrics[TGT_FABRICS_MAX];
	unsigned int fabric_count;
	struct tgt_ring *ring;
	struct tgt_region region;
	struct tgt_pool *pool;	  /* data */
	struct tgt_pool *reserve; /* replies of a queue: what nothing else can take */
	struct tgt_pool *reports; /* what I/O must not be able to take; so much to each queue */

	struct tgt_mailbox mailbox; /* any thread sends */

	struct tgt_session_list sessions;
	unsigned int session_count, queue_count, scratch_count;
	unsigned int session_number;	 /* of the last, for log lines */
	struct tgt_queue_list alive;	 /* least recently heard first */
	struct tgt_queue_list dirty;	 /* has something to post in this turn */
	struct tgt_queue_list starving;	 /* has commands that wait for memory, in turn */
	struct tgt_queue_list ended;	 /* to be destroyed at the end of this turn */
	struct tgt_request_list resumed; /* checksums: their next piece is due in the next turn */
	struct tgt_request_list opening; /* OPENs that wait for a volume's orphans (F5) */
	struct tgt_login_list logins;	 /* wait for an older life to end */
	unsigned int login_count;
	bool rejudge; /* a queue has ended: look at the waiting logins */
	struct tgt_outlet *outlets[RBLK_VOLUMES_MAX]; /* by volume->slot */

	uint64_t now_ns;   /* read once a turn */
	uint64_t timer_ns; /* when to look at the timers again; see tgt_reactor_timer() */
	struct core_spin spin;
	struct tgt_chain chain;
	uint64_t pressed_until_ns; /* silent queues are looked into although keepalive_ns is 0 */
	/* For what a peer can trigger; comings and goings must not hide what is wrong. */
	struct tgt_log_limit log_limit, chat_limit, totals_limit;

	bool draining;
	uint64_t drain_until_ns;
	_Atomic bool drained; /* any thread reads */

	pthread_t thread; /* control thread */
	bool started;	  /* control thread */
};

/* Something is due at due_ns: the timers are looked at by then. Whoever begins what will have to
 * end by time says so; each look finds the next by itself. */
static inline void tgt_reactor_timer(struct tgt_reactor *reactor, uint64_t due_ns)
{
	if (reactor->timer_ns > due_ns)
		reactor->timer_ns = due_ns;
}

/* Data memory has been given back: whoever waits may go on. Looked at once a turn. */
void tgt_reactor_memory_free(struct tgt_reactor *reactor, void *block, size_t bytes);

/* What the reactor grants in logins. */
uint32_t tgt_reactor_features(const struct tgt_reactor *reactor, const struct fab_device *device);

/* The device's receive buffers, made at its first use. NULL: no memory (logged). */
struct tgt_device *tgt_reactor_device(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
				      struct fab_device *device);

/* -- reactor_mail.c --------------------------------------------------------------------------- */

/* Carry out what has been sent. Returns how many messages there were. */
unsigned int tgt_reactor_take_mail(struct tgt_reactor *reactor);
void tgt_reactor_begin_drain(struct tgt_reactor *reactor);

/* -- login.c ---------------------------------------------------------------------------------- */

/* Judge a login; carried out now, or when the older life that stands in its way has ended. Takes
 * over request and lease. */
void tgt_login_begin(struct tgt_reactor *reactor, struct fab_request *request,
		     const struct rblk_wire_login *wire, size_t bytes, struct tgt_lease *lease);
/* A queue has ended: judge those that wait again. */
void tgt_login_retry(struct tgt_reactor *reactor);
/* Refuse all that wait (the target is shutting down). */
void tgt_login_refuse_all(struct tgt_reactor *reactor);

#endif
