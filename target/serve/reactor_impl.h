/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The inside of a reactor, for the files of this room. Everything here belongs to the reactor's
 * thread unless it is marked; reactor.h is for other rooms, and the loop is for io/.
 */
#ifndef RBLK_TARGET_REACTOR_IMPL_H
#define RBLK_TARGET_REACTOR_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include "proto/core/spin.h"
#include "proto/fabric/fabric.h"
#include "proto/wire/login.h"
#include "target/base/log.h"
#include "target/base/quota.h"
#include "target/base/settings.h"
#include "target/io/loop.h"
#include "target/serve/stats_table.h"
#include "target/store/ring.h"
#include "target/store/store.h"
#include "target/store/worker.h"

/* An OPEN waits this long for the writes of connections that have ended. */
#define TGT_OPEN_WAIT_NS 5000000000ull
/* An OPEN of a volume that is missing is answered BUSY for so long. It is less than initiators wait for a target. */
#define TGT_OPEN_AWAITED_MS 30000u
/* Logins that wait for an older incarnation or epoch to end: so many, one for each queue of a
 * session, and so long. When the list is full, those of the host with the most are refused. */
#define TGT_LOGINS_WAITING_MAX 256u
#define TGT_LOGIN_WAIT_NS 30000000000ull
/* The keep-alive time while logins find no room, if none is set. */
#define TGT_PRESSED_NS 5000000000ull

struct tgt_session;
struct tgt_queue;
struct tgt_login;
struct tgt_barrier;
struct tgt_device;
struct tgt_host;
struct tgt_peers;
struct tgt_reactor;

TAILQ_HEAD(tgt_session_list, tgt_session);
TAILQ_HEAD(tgt_queue_list, tgt_queue);
TAILQ_HEAD(tgt_login_list, tgt_login);
TAILQ_HEAD(tgt_pending_list, tgt_pending);
TAILQ_HEAD(tgt_host_list, tgt_host);

/*
 * An OPEN, a FENCE of a volume or a RESERVE that waits for what may end on any reactor: first in its struct, if it has
 * one of its own. Each turn tries it, in the order in which they came; that may answer and end it. pending.c makes and
 * ends it.
 */
struct tgt_pending {
	TAILQ_ENTRY(tgt_pending) link; /* reactor->pending */
	void (*go_on)(struct tgt_pending *pending);
	struct tgt_reactor *reactor;
	struct tgt_request *request; /* NULL: its connection has ended, or it has none */
	struct tgt_volume *volume;   /* a reference */
	struct tgt_barrier *barrier; /* at connections that have ended; NULL: over, or not needed */
};

struct tgt_fabric {
	struct fab *fab;
	unsigned int index; /* among the reactor's */
	struct fab_mr *mr;  /* of the reactor's memory */
	struct tgt_device *devices[FAB_DEVICES_MAX];
};

struct tgt_reactor {
	/* Fixed after creation. */
	struct tgt_config config; /* its volumes are not kept */
	unsigned int index;
	struct tgt_registry *registry; /* the process's volumes; outlives the reactor */
	struct tgt_peers *peers;       /* the process's reactors; outlives this one */
	uint64_t keepalive_ns;
	uint64_t begun_ns;
	struct tgt_quota session_quota, queue_quota; /* this reactor's share, by host */

	struct tgt_fabric fabrics[TGT_FABRICS_MAX];
	unsigned int fabric_count;
	struct tgt_ring *ring;
	struct tgt_worker qp_helper; /* its helper thread, see qp_helper.h */
	unsigned int qp_helper_jobs; /* that it has */
	uint64_t qp_helper_since_ns; /* when the oldest of them became the oldest */
	struct tgt_dma_memory memory; /* the turn's pools and the reserve */
	size_t pool_bytes;	  /* of the turn's pool, when nothing is in use */
	struct tgt_pool *reserve; /* memory for queues' replies, which nothing else can take */

	struct tgt_loop loop;

	/* Connections here and on their way here. Other reactors read it to choose where to
	 * place a queue. */
	_Atomic unsigned int load;

	struct tgt_host_list hosts; /* of the sessions and logins */
	struct tgt_session_list sessions;
	unsigned int session_count, queue_count;
	unsigned int session_number;	/* of the last, for log lines */
	struct tgt_queue_list ended;	/* to be destroyed at the end of this turn */
	struct tgt_pending_list pending;
	struct tgt_login_list logins;	/* wait for an older incarnation or epoch to end */
	unsigned int login_count;
	bool rejudge; /* a queue has ended: check the waiting logins */
	bool retire;  /* a device was removed: release it when its queues have ended */
	struct tgt_channel *channels[RBLK_VOLUMES_MAX]; /* by volume->slot */

	/* Counted for snapshot.c. */
	uint64_t fences;
	_Atomic uint64_t busy_ns; /* in turns that found work, until: */
	uint64_t turn_began_ns; /* the last one */
	bool was_busy;		/* and whether it found work */
	struct tgt_stats_table stats_table;

	struct core_spin spin;
	uint64_t pressed_until_ns; /* silent queues are probed although keepalive_ns is 0 */
	struct tgt_log_limit totals_limit;

	uint64_t drain_until_ns;
	unsigned int polled;  /* what its connections had, in this turn */
	struct fab *sender;   /* the ring sends so many bytes for it; NULL: for none */
	int sender_bytes;
	bool is_peer;	      /* it has a thread (peers.h): control thread, before that begins */
	bool is_empty;	      /* draining, and without a session */
	_Atomic bool drained; /* any thread reads */

	pthread_t thread; /* control thread */
	bool started;	  /* control thread */
};

/* Is this one of its fabs? Any thread: they are fixed after creation. */
static inline bool tgt_reactor_has_fab(const struct tgt_reactor *reactor, const struct fab *fab)
{
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		if (reactor->fabrics[i].fab == fab)
			return true;
	return false;
}

#endif
