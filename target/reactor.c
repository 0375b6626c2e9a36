/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reactor: one turn polls the fabrics, reaps the ring, takes mail, lets those go on who wait
 * for memory, and then posts everything that came of it: receives, replies, READs, disk I/O. The
 * thread around it polls while it pays and sleeps on the ring otherwise.
 */
#include "target/reactor.h"
#include "target/reactor_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "target/error.h"
#include "target/handle.h"
#include "target/queue.h"
#include "target/transfer.h"

/* Work of one kind in one turn: bounded, so that no source keeps the others waiting. */
#define POLL_BATCH 64u
#define EVENT_BATCH 16u
#define REAP_BUDGET 256u
#define RESUME_BATCH 16u
#define RING_DEPTH 1024u
/* Slack of the timers: they are looked at this often at most. */
#define TIMER_NS 10000000ull
/* destroy: longest wait for the connections to drain and the stores to end. */
#define DESTROY_NS 30000000000ull

enum mail_kind { MAIL_LOGIN, MAIL_VOLUME_REMOVED, MAIL_VOLUME_CHANGED, MAIL_LIST_CHANGED, MAIL_DRAIN };

/* Made by the sender, freed by the reactor. */
struct reactor_mail {
	struct tgt_mail head; /* first */
	enum mail_kind kind;
	struct tgt_volume *volume; /* REMOVED, CHANGED: a reference */
	struct fab_request *request;
	struct tgt_lease *lease;
	size_t bytes;
	struct rblk_wire_login login;
};

/* -- creating ---------------------------------------------------------------------------------- */

/* One for the process: what an initiator takes for "the same target as before". */
static void instance_of_process(uint8_t instance[16])
{
	static uint8_t drawn[16];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool there;

	pthread_mutex_lock(&lock);
	if (!there)
		env_random(drawn, sizeof(drawn));
	there = true;
	memcpy(instance, drawn, sizeof(drawn));
	pthread_mutex_unlock(&lock);
}

static bool listens_on(const struct tgt_config *config, enum fab_kind kind)
{
	const char *scheme = kind == FAB_TCP ? "tcp://" : kind == FAB_VERBS ? "rdma://" : "sim://";

	for (unsigned int i = 0; i < config->listen_count; i++)
		if (!strncmp(config->listen[i], scheme, strlen(scheme)))
			return true;
	return false;
}

static int reactor_open_fabric(struct tgt_reactor *reactor, enum fab_kind kind, char *error)
{
	struct tgt_fabric *fabric = &reactor->fabrics[reactor->fabric_count];
	uint32_t receives = reactor->config.receive_buffers;
	/*
	 * Completions: of every receive, of two sends for each (TGT_SENDS_PER_TAG: flushed ones all
	 * complete), and those of the measuring connections.
	 */
	struct fab_options options = {
		.cq_depth = receives * (1 + TGT_SENDS_PER_TAG) + TGT_SCRATCH_QUEUES_MAX * 128,
		.srq_depth = receives,
		.recv_sge = 1,
	};

	fabric->fab = fab_open(kind, &options, error);
	if (!fabric->fab)
		return -errno;
	reactor->fabric_count++;
	if (fab_mr_register(fabric->fab, reactor->region.base, reactor->region.bytes,
			    IBV_ACCESS_LOCAL_WRITE, &fabric->mr))
		return tgt_error(error, -ENOMEM,
				 "reactor %u: cannot register %zu bytes of buffers: %s (raise the "
				 "memlock limit: ulimit -l, or LimitMEMLOCK= in the unit)",
				 reactor->index, reactor->region.bytes, fab_error(fabric->fab));
	return 0;
}

static int reactor_open_fabrics(struct tgt_reactor *reactor, char *error)
{
	static const enum fab_kind kinds[] = { FAB_VERBS, FAB_TCP, FAB_SIM };

	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int err;

		if (!listens_on(&reactor->config, kinds[i]))
			continue;
		if (reactor->fabric_count == TGT_FABRICS_MAX)
			return tgt_error(error, -EINVAL, "too many kinds of fabric");
		err = reactor_open_fabric(reactor, kinds[i], error);
		if (err)
			return err;
	}
	return 0;
}

/*
 * The reserve: a reply ring of at least a page for each queue (two completions of 32 bytes for each
 * receive buffer, rounded up to a power of two), and a few of the longest reports.
 */
static size_t reserve_bytes(const struct tgt_reactor *reactor)
{
	size_t bytes = (size_t)reactor->queues_max * TGT_POOL_PAGE;

	bytes += (size_t)reactor->config.receive_buffers * 2 * 2 *
		 sizeof(struct rblk_wire_completion);
	bytes += 32 * RBLK_LIST_MAX * sizeof(struct rblk_wire_volume);
	return (bytes + TGT_POOL_PAGE - 1) & ~(size_t)(TGT_POOL_PAGE - 1);
}

static int reactor_create_memory(struct tgt_reactor *reactor, char *error)
{
	const struct tgt_config *config = &reactor->config;
	size_t pool = (config->pool_bytes + TGT_POOL_PAGE - 1) & ~(size_t)(TGT_POOL_PAGE - 1);
	size_t reserve = reserve_bytes(reactor);
	int err = tgt_region_map(&reactor->region, pool + reserve, config->memory_lock,
				 reactor->ring);

	if (err)
		return tgt_error(error, err, "reactor %u: cannot map %zu bytes of buffers: %s",
				 reactor->index, pool + reserve, strerror(-err));
	if (reactor->ring && reactor->region.buffer_first < 0)
		tgt_log(TGT_LOG_WARNING,
			"reactor %u: no fixed buffers with the ring, disks will be slower: %s "
			"(memlock limit?)",
			reactor->index, strerror(-reactor->region.buffer_first));
	reactor->pool = tgt_pool_create(reactor->region.base, pool, config->max_io_bytes);
	reactor->reserve = tgt_pool_create(reactor->region.base + pool, reserve,
					   RBLK_LIST_MAX * sizeof(struct rblk_wire_volume) * 4);
	if (!reactor->pool || !reactor->reserve)
		return tgt_error(error, -ENOMEM, "reactor %u: out of memory", reactor->index);
	/* The data of one command has to fit one block of the pool. */
	reactor->max_io_bytes = config->max_io_bytes;
	if (reactor->max_io_bytes > tgt_pool_largest(reactor->pool))
		reactor->max_io_bytes = (uint32_t)tgt_pool_largest(reactor->pool);
	return 0;
}

static void reactor_init(struct tgt_reactor *reactor, const struct tgt_config *config,
			 unsigned int index)
{
	unsigned int count = config->reactors ? config->reactors : 1;

	reactor->config = *config;
	reactor->config.volumes = NULL;
	reactor->config.volume_count = 0;
	reactor->config.reactors = count;
	reactor->index = index;
	reactor->keepalive_ns = (uint64_t)config->keepalive_ms * 1000000;
	/* An equal share each; the listener spreads sessions evenly. */
	reactor->sessions_max = (config->sessions_max + count - 1) / count;
	reactor->queues_max = (config->queues_total_max + count - 1) / count;
	instance_of_process(reactor->instance);
	TAILQ_INIT(&reactor->sessions);
	TAILQ_INIT(&reactor->alive);
	TAILQ_INIT(&reactor->dirty);
	TAILQ_INIT(&reactor->starving);
	TAILQ_INIT(&reactor->ended);
	TAILQ_INIT(&reactor->resumed);
	TAILQ_INIT(&reactor->logins);
	reactor->mailbox.fd = -1;
	core_spin_init(&reactor->spin, config->polling == TGT_POLL_ALWAYS ? UINT64_MAX :
				       config->polling == TGT_POLL_NEVER ? 0 :
				       (uint64_t)config->poll_us_max * 1000);
	reactor->now_ns = env_now_ns();
}

static int reactor_create_ring(struct tgt_reactor *reactor, char *error)
{
	int err;

	/* In the simulator there is none: its stores and its loop need none. */
	if (listens_on(&reactor->config, FAB_SIM))
		return 0;
	err = tgt_ring_create(RING_DEPTH, RBLK_VOLUMES_MAX, &reactor->ring);
	if (err)
		return tgt_error(error, err, "reactor %u: io_uring: %s", reactor->index,
				 strerror(-err));
	return tgt_ring_watch(reactor->ring, reactor->mailbox.fd);
}

int tgt_reactor_create(const struct tgt_config *config, unsigned int index,
		       struct tgt_reactor **out, char *error)
{
	struct tgt_reactor *reactor = calloc(1, sizeof(*reactor));
	int err;

	if (!reactor)
		return tgt_error(error, -ENOMEM, "reactor %u: out of memory", index);
	reactor_init(reactor, config, index);
	err = tgt_mailbox_init(&reactor->mailbox);
	if (err)
		tgt_error(error, err, "reactor %u: eventfd: %s", index, strerror(-err));
	if (!err)
		err = reactor_create_ring(reactor, error);
	if (!err)
		err = reactor_create_memory(reactor, error);
	if (!err)
		err = reactor_open_fabrics(reactor, error);
	for (unsigned int i = 0; !err && reactor->ring && i < reactor->fabric_count; i++)
		err = tgt_ring_watch(reactor->ring, fab_fd(reactor->fabrics[i].fab));
	if (err) {
		tgt_reactor_destroy(reactor);
		return err;
	}
	*out = reactor;
	return 0;
}

/* -- devices, memory --------------------------------------------------------------------------- */

uint32_t tgt_reactor_features(const struct tgt_reactor *reactor, const struct fab_device *device)
{
	const struct fab_limits *limits = fab_device_limits(device);

	return RBLK_FEATURE_DIGEST | RBLK_FEATURE_EVENTS |
	       (limits->immediate ? RBLK_FEATURE_IMMEDIATE : 0) |
	       (limits->invalidate ? RBLK_FEATURE_INVALIDATE : 0) |
	       (reactor->config.allow_scratch ? RBLK_FEATURE_SCRATCH : 0);
}

static void device_free(struct tgt_device *device)
{
	if (!device)
		return;
	fab_mr_deregister(device->mr);
	tgt_inbox_fini(&device->inbox);
	tgt_region_unmap(&device->region);
	free(device);
}

static int device_fill(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
		       struct tgt_device *device)
{
	uint32_t count = reactor->config.receive_buffers;
	uint32_t most = fab_device_limits(device->device)->max_srq_wr;
	size_t bytes;
	int err;

	if (count > most)
		count = most;
	bytes = (size_t)count * TGT_COMMAND_BYTES;
	err = tgt_region_map(&device->region, bytes, reactor->config.memory_lock, reactor->ring);
	if (err)
		return err;
	err = fab_mr_register(fabric->fab, device->region.base, bytes, IBV_ACCESS_LOCAL_WRITE,
			      &device->mr);
	if (err)
		return err;
	err = tgt_inbox_init(&device->inbox, device->region.base, TGT_COMMAND_BYTES, count,
			     fab_mr_lkey(device->mr, device->device));
	if (err)
		return err;
	device->inbox.device = device->device;
	return tgt_inbox_post(&device->inbox);
}

struct tgt_device *tgt_reactor_device(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
				      struct fab_device *fab_device)
{
	struct tgt_device *device = fabric->devices[fab_device_index(fab_device)];
	int err;

	if (device)
		return device;
	device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	device->device = fab_device;
	err = device_fill(reactor, fabric, device);
	if (err) {
		tgt_log(TGT_LOG_ERROR,
			"device %s: reactor %u has no receive buffers: %s (memlock limit? ulimit "
			"-l, LimitMEMLOCK=)",
			fab_device_name(fab_device), reactor->index, strerror(-err));
		device_free(device);
		return NULL;
	}
	fabric->devices[fab_device_index(fab_device)] = device;
	return device;
}

void tgt_reactor_memory_free(struct tgt_reactor *reactor, void *block, size_t bytes)
{
	tgt_pool_free(tgt_pool_owns(reactor->pool, block) ? reactor->pool : reactor->reserve, block,
		      bytes);
}

/* -- completions and events of a fabric -------------------------------------------------------- */

static void reactor_received(struct tgt_fabric *fabric, const struct ibv_wc *wc,
			     struct tgt_queue *queue)
{
	uint32_t index = (uint32_t)wc->wr_id;
	struct tgt_device *device = fabric->devices[(wc->wr_id >> 32) & (FAB_DEVICES_MAX - 1)];
	struct tgt_inbox *inbox = queue && !queue->device ? &queue->inbox : &device->inbox;

	/* Held while it is read: commands that need it longer take holds of their own. */
	tgt_inbox_hold(inbox, index);
	if (wc->status == IBV_WC_LOC_LEN_ERR && queue)
		tgt_queue_violation(queue, "a message longer than it may be");
	if (wc->status == IBV_WC_SUCCESS && queue) {
		if (wc->opcode != IBV_WC_RECV || wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))
			tgt_queue_violation(queue, "a message that is not a plain SEND");
		if (queue->state == TGT_QUEUE_OPEN)
			tgt_queue_receive(queue, inbox, index, wc->byte_len);
	}
	tgt_inbox_release(inbox, index);
}

static void reactor_sent(const struct ibv_wc *wc, struct tgt_queue *queue)
{
	/* Of a closing queue: all that is posted is given back when it has drained. */
	if (!queue || queue->state != TGT_QUEUE_OPEN)
		return;
	if (wc->status == IBV_WC_SUCCESS) {
		tgt_transfer_completed(queue, wc->wr_id);
		return;
	}
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		tgt_queue_close(queue, "the connection was lost");
		return;
	}
	tgt_log_limited(&queue->reactor->log_limit, TGT_LOG_WARNING,
			"session %u queue %u [%s]: closed: %s%s", queue->session->number,
			queue->index, fab_conn_peer(queue->conn), ibv_wc_status_str(wc->status),
			wc->status == IBV_WC_RETRY_EXC_ERR ?
				" (the peer does not answer: is it down, or the link?)" :
			wc->status == IBV_WC_REM_ACCESS_ERR ?
				" (the peer does not expose the memory that it named)" :
				"");
	tgt_queue_close(queue, NULL);
}

static unsigned int reactor_poll_fabric(struct tgt_fabric *fabric)
{
	struct ibv_wc wc[POLL_BATCH];
	int count = fab_poll(fabric->fab, wc, POLL_BATCH);
	struct tgt_queue *queue = NULL;
	uint32_t qp_num = 0;

	for (int i = 0; i < count; i++) {
		/* Completions of one queue come in runs. */
		if (!queue || wc[i].qp_num != qp_num) {
			struct fab_conn *conn = fab_conn_find(fabric->fab, wc[i].qp_num);

			queue = conn ? fab_conn_user(conn) : NULL;
			qp_num = wc[i].qp_num;
		}
		if (wc[i].wr_id & TGT_WR_RECEIVE)
			reactor_received(fabric, &wc[i], queue);
		else
			reactor_sent(&wc[i], queue);
	}
	return count > 0 ? (unsigned int)count : 0;
}

static void reactor_device_gone(struct tgt_reactor *reactor, struct fab_device *device)
{
	struct tgt_queue *queue, *following;

	tgt_log(TGT_LOG_WARNING, "device %s: removed", fab_device_name(device));
	for (queue = TAILQ_FIRST(&reactor->alive); queue; queue = following) {
		following = TAILQ_NEXT(queue, alive_link);
		if (fab_conn_device(queue->conn) == device)
			tgt_queue_close(queue, "its device was removed");
	}
}

static unsigned int reactor_poll_events(struct tgt_reactor *reactor, struct tgt_fabric *fabric)
{
	struct fab_event event;
	unsigned int count = 0;

	while (count < EVENT_BATCH && fab_poll_event(fabric->fab, &event) > 0) {
		struct tgt_queue *queue = event.conn ? fab_conn_user(event.conn) : NULL;

		count++;
		switch (event.type) {
		case FAB_EVENT_DISCONNECTED:
			tgt_queue_close(queue, event.status ? strerror(-event.status) :
							      "the peer has disconnected");
			break;
		case FAB_EVENT_FAILED:
			tgt_queue_close(queue, fab_error(fabric->fab));
			break;
		case FAB_EVENT_DRAINED:
			tgt_queue_drained(queue);
			break;
		case FAB_EVENT_DEVICE_GONE:
			reactor_device_gone(reactor, event.device);
			break;
		default: /* ESTABLISHED: a message may have said so before */
			break;
		}
	}
	return count;
}

/* -- mail -------------------------------------------------------------------------------------- */

static void reactor_list_changed(struct tgt_reactor *reactor)
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link) {
		session->events.list_changed = true;
		tgt_session_event_kick(session);
	}
}

static void reactor_begin_drain(struct tgt_reactor *reactor)
{
	struct tgt_session *session;

	if (reactor->draining)
		return;
	reactor->draining = true;
	reactor->drain_until_ns = reactor->now_ns + (uint64_t)reactor->config.drain_ms * 1000000;
	tgt_login_refuse_all(reactor);
	TAILQ_FOREACH(session, &reactor->sessions, link) {
		session->events.draining = true;
		tgt_session_event_kick(session);
	}
}

static void reactor_read_mail(struct tgt_reactor *reactor, struct reactor_mail *mail)
{
	switch (mail->kind) {
	case MAIL_LOGIN:
		tgt_login_begin(reactor, mail->request, &mail->login, mail->bytes, mail->lease);
		break;
	case MAIL_VOLUME_REMOVED:
		tgt_handle_volume_removed(reactor, mail->volume);
		tgt_volume_put(mail->volume);
		break;
	case MAIL_VOLUME_CHANGED:
		tgt_handle_volume_changed(reactor, mail->volume);
		tgt_volume_put(mail->volume);
		break;
	case MAIL_LIST_CHANGED:
		reactor_list_changed(reactor);
		break;
	case MAIL_DRAIN:
		reactor_begin_drain(reactor);
		break;
	}
	free(mail);
}

static unsigned int reactor_take_mail(struct tgt_reactor *reactor)
{
	struct tgt_mail *mail = tgt_mailbox_take(&reactor->mailbox);
	unsigned int count = 0;

	while (mail) {
		struct tgt_mail *next = mail->next;

		reactor_read_mail(reactor, (struct reactor_mail *)mail);
		mail = next;
		count++;
	}
	return count;
}

static bool reactor_send(struct tgt_reactor *reactor, struct reactor_mail letter)
{
	struct reactor_mail *mail = malloc(sizeof(*mail));

	if (!mail)
		return false;
	*mail = letter;
	tgt_mailbox_send(&reactor->mailbox, &mail->head);
	return true;
}

void tgt_reactor_login(struct tgt_reactor *reactor, struct fab_request *request,
		       const void *private_data, size_t private_bytes, struct tgt_lease *lease)
{
	struct reactor_mail mail = { .kind = MAIL_LOGIN, .request = request, .lease = lease };

	/* Connection managers pad with zeroes: what is beyond the login is not looked at. */
	mail.bytes = private_bytes < sizeof(mail.login) ? private_bytes : sizeof(mail.login);
	memcpy(&mail.login, private_data, mail.bytes);
	if (!reactor_send(reactor, mail)) {
		fab_reject(request, NULL, 0);
		tgt_lease_put(lease);
	}
}

/* Out of memory: the news is lost, and the volume stays open until its handles are closed. */
static void reactor_send_volume(struct tgt_reactor *reactor, enum mail_kind kind,
				struct tgt_volume *volume)
{
	struct reactor_mail mail = { .kind = kind, .volume = volume };

	if (!reactor_send(reactor, mail))
		tgt_volume_put(volume);
}

void tgt_reactor_volume_removed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	reactor_send_volume(reactor, MAIL_VOLUME_REMOVED, volume);
}

void tgt_reactor_volume_changed(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	reactor_send_volume(reactor, MAIL_VOLUME_CHANGED, volume);
}

void tgt_reactor_list_changed(struct tgt_reactor *reactor)
{
	reactor_send(reactor, (struct reactor_mail){ .kind = MAIL_LIST_CHANGED });
}

void tgt_reactor_drain(struct tgt_reactor *reactor)
{
	reactor_send(reactor, (struct reactor_mail){ .kind = MAIL_DRAIN });
}

bool tgt_reactor_drained(const struct tgt_reactor *reactor)
{
	return atomic_load_explicit(&reactor->drained, memory_order_acquire);
}

/* -- one turn ---------------------------------------------------------------------------------- */

/* Memory goes to the queues in turn, to each the oldest of its commands. */
static void reactor_feed(struct tgt_reactor *reactor)
{
	struct tgt_queue *queue;

	while ((queue = TAILQ_FIRST(&reactor->starving))) {
		struct tgt_request *request = TAILQ_FIRST(&queue->waiting);

		if (request && !tgt_request_retry_memory(request))
			return;
		TAILQ_REMOVE(&reactor->starving, queue, starving_link);
		queue->is_starving = !TAILQ_EMPTY(&queue->waiting);
		if (queue->is_starving)
			TAILQ_INSERT_TAIL(&reactor->starving, queue, starving_link);
	}
}

/* Who has waited too long is told so, rather than left to wonder. */
static void reactor_expire_waiting(struct tgt_reactor *reactor)
{
	struct tgt_request *request;
	struct tgt_queue *queue;

	TAILQ_FOREACH(queue, &reactor->starving, starving_link) {
		while ((request = TAILQ_FIRST(&queue->waiting)) &&
		       reactor->now_ns - request->received_ns >= TGT_MEMORY_WAIT_NS) {
			TAILQ_REMOVE(&queue->waiting, request, link);
			tgt_request_complete(request, RBLK_E_BUSY);
		}
	}
}

static unsigned int reactor_resume(struct tgt_reactor *reactor)
{
	/* Those that put themselves back are the next turn's. */
	struct tgt_request *last = TAILQ_LAST(&reactor->resumed, tgt_request_list);
	unsigned int count = 0;
	bool more = last != NULL;

	while (more && count < RESUME_BATCH) {
		struct tgt_request *request = TAILQ_FIRST(&reactor->resumed);

		more = request != last;
		tgt_request_resume(request);
		count++;
	}
	return count;
}

static bool reactor_is_idle(const struct tgt_reactor *reactor)
{
	const struct tgt_queue *queue;

	TAILQ_FOREACH(queue, &reactor->alive, alive_link)
		if (queue->active || queue->sent_head != queue->sent_tail)
			return false;
	return true;
}

/* Draining: when nothing is in flight, or the time is up, everything is closed. */
static void reactor_step_drain(struct tgt_reactor *reactor)
{
	struct tgt_session *session, *following;

	if (TAILQ_EMPTY(&reactor->sessions)) {
		atomic_store_explicit(&reactor->drained, true, memory_order_release);
		return;
	}
	if (reactor->now_ns < reactor->drain_until_ns && !reactor_is_idle(reactor))
		return;
	for (session = TAILQ_FIRST(&reactor->sessions); session; session = following) {
		following = TAILQ_NEXT(session, link);
		if (!session->ending)
			tgt_session_end(session, "the target is shutting down");
	}
}

static void reactor_timers(struct tgt_reactor *reactor)
{
	uint64_t alive_ns, session_ns;

	if (reactor->now_ns < reactor->timer_ns)
		return;
	alive_ns = tgt_queue_check_alive(reactor);
	session_ns = tgt_session_expire(reactor, false);
	reactor_expire_waiting(reactor);
	reactor->timer_ns = alive_ns < session_ns ? alive_ns : session_ns;
	if (!TAILQ_EMPTY(&reactor->starving) &&
	    reactor->timer_ns > reactor->now_ns + 10 * TIMER_NS)
		reactor->timer_ns = reactor->now_ns + 10 * TIMER_NS;
	if (reactor->timer_ns < reactor->now_ns + TIMER_NS)
		reactor->timer_ns = reactor->now_ns + TIMER_NS;
}

/* Receives first: a reply gives the initiator a credit, and behind a credit there is a receive. */
static void reactor_post(struct tgt_reactor *reactor)
{
	struct tgt_queue *queue;

	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		for (unsigned int j = 0; j < FAB_DEVICES_MAX; j++)
			if (reactor->fabrics[i].devices[j])
				tgt_inbox_post(&reactor->fabrics[i].devices[j]->inbox);
	while ((queue = TAILQ_FIRST(&reactor->dirty))) {
		TAILQ_REMOVE(&reactor->dirty, queue, dirty_link);
		queue->is_dirty = false;
		if (queue->state != TGT_QUEUE_OPEN)
			continue;
		if (!queue->device)
			tgt_inbox_post(&queue->inbox);
		tgt_transfer_flush(queue);
	}
}

static unsigned int reactor_bury(struct tgt_reactor *reactor)
{
	struct tgt_queue *queue;
	unsigned int count = 0;

	while ((queue = TAILQ_FIRST(&reactor->ended))) {
		tgt_queue_destroy(queue);
		count++;
	}
	if (reactor->rejudge)
		tgt_login_retry(reactor);
	return count;
}

unsigned int tgt_reactor_step(struct tgt_reactor *reactor)
{
	unsigned int work = 0;

	reactor->now_ns = env_now_ns();
	for (unsigned int i = 0; i < reactor->fabric_count; i++) {
		work += reactor_poll_fabric(&reactor->fabrics[i]);
		work += reactor_poll_events(reactor, &reactor->fabrics[i]);
	}
	if (reactor->ring)
		work += tgt_ring_reap(reactor->ring, REAP_BUDGET);
	work += reactor_take_mail(reactor);
	work += reactor_resume(reactor);
	reactor_feed(reactor);
	reactor_timers(reactor);
	work += reactor_bury(reactor);
	reactor_post(reactor);
	if (reactor->draining)
		reactor_step_drain(reactor);
	if (reactor->ring)
		tgt_ring_submit(reactor->ring);
	return work;
}

uint64_t tgt_reactor_deadline_ns(const struct tgt_reactor *reactor)
{
	uint64_t deadline_ns = reactor->timer_ns;

	if (!TAILQ_EMPTY(&reactor->resumed) || !TAILQ_EMPTY(&reactor->dirty))
		return reactor->now_ns;
	if (!TAILQ_EMPTY(&reactor->starving) && deadline_ns > reactor->now_ns + 10 * TIMER_NS)
		deadline_ns = reactor->now_ns + 10 * TIMER_NS;
	if (reactor->draining && deadline_ns > reactor->now_ns + TIMER_NS)
		deadline_ns = reactor->now_ns + TIMER_NS;
	for (unsigned int i = 0; i < reactor->fabric_count; i++) {
		int timeout_ms = fab_timeout_ms(reactor->fabrics[i].fab);

		if (timeout_ms >= 0 &&
		    deadline_ns > reactor->now_ns + (uint64_t)timeout_ms * 1000000)
			deadline_ns = reactor->now_ns + (uint64_t)timeout_ms * 1000000;
	}
	return deadline_ns;
}

/* -- the thread -------------------------------------------------------------------------------- */

/* Asks every source to wake the ring. False: something is there already. */
static bool reactor_arm(struct tgt_reactor *reactor)
{
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		if (fab_arm(reactor->fabrics[i].fab) != 0)
			return false;
	return tgt_mailbox_settle(&reactor->mailbox);
}

static void reactor_sleep(struct tgt_reactor *reactor)
{
	uint64_t deadline_ns = tgt_reactor_deadline_ns(reactor);
	uint64_t now_ns = env_now_ns();
	int timeout_ms = -1;
	int err;

	if (deadline_ns != UINT64_MAX) {
		if (deadline_ns <= now_ns)
			return;
		/* Up, not down: a millisecond too early would be a turn for nothing. */
		if (deadline_ns - now_ns < 3600000000000ull)
			timeout_ms = (int)((deadline_ns - now_ns + 999999) / 1000000);
		else
			timeout_ms = 3600000;
	}
	if (!reactor_arm(reactor))
		return;
	err = tgt_ring_wait(reactor->ring, timeout_ms);
	if (err)
		tgt_log_limited(&reactor->log_limit, TGT_LOG_ERROR, "reactor %u: io_uring: %s",
				reactor->index, strerror(-err));
}

static void *reactor_thread(void *argument)
{
	struct tgt_reactor *reactor = argument;

	while (!tgt_reactor_drained(reactor)) {
		unsigned int work = tgt_reactor_step(reactor);

		if (core_spin_turn(&reactor->spin, reactor->now_ns, work))
			reactor_sleep(reactor);
	}
	return NULL;
}

int tgt_reactor_start(struct tgt_reactor *reactor)
{
	char name[16];
	int err = pthread_create(&reactor->thread, NULL, reactor_thread, reactor);

	if (err)
		return -err;
	reactor->started = true;
	snprintf(name, sizeof(name), "reactor-%u", reactor->index);
	pthread_setname_np(reactor->thread, name);
	return 0;
}

/* -- the end ----------------------------------------------------------------------------------- */

/* True: everything has ended, so nothing points into what is freed next. */
static bool reactor_finish(struct tgt_reactor *reactor)
{
	uint64_t until_ns = env_now_ns() + DESTROY_NS;

	if (reactor->started) {
		pthread_join(reactor->thread, NULL);
		return true;
	}
	reactor->now_ns = env_now_ns();
	reactor_begin_drain(reactor);
	reactor->drain_until_ns = 0;
	while (!tgt_reactor_drained(reactor) && env_now_ns() < until_ns)
		tgt_reactor_step(reactor);
	return tgt_reactor_drained(reactor);
}

static void reactor_close_fabric(struct tgt_fabric *fabric)
{
	for (unsigned int i = 0; i < FAB_DEVICES_MAX; i++)
		device_free(fabric->devices[i]);
	fab_mr_deregister(fabric->mr);
	fab_close(fabric->fab);
}

void tgt_reactor_destroy(struct tgt_reactor *reactor)
{
	if (!reactor)
		return;
	if (!reactor_finish(reactor)) {
		tgt_log(TGT_LOG_ERROR, "reactor %u: a connection does not end, its memory is left",
			reactor->index);
		return;
	}
	/* Mail that came too late for the thread: logins are refused, references given back. */
	if (reactor->mailbox.fd >= 0) {
		reactor_take_mail(reactor);
		tgt_mailbox_fini(&reactor->mailbox);
	}
	tgt_ring_destroy(reactor->ring);
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		reactor_close_fabric(&reactor->fabrics[i]);
	tgt_pool_destroy(reactor->pool);
	tgt_pool_destroy(reactor->reserve);
	tgt_region_unmap(&reactor->region);
	free(reactor);
}
