/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Creates and destroys a reactor: ring, memory, fabrics, devices. reactor.c has its turns. */
#include "target/serve/reactor.h"
#include "target/serve/reactor_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/words/units.h"
#include "target/base/error.h"
#include "target/io/io_queue.h"
#include "target/io/work.h"
#include "target/serve/calls.h"
#include "target/serve/device.h"
#include "target/serve/gateways.h"
#include "target/serve/peers.h"
#include "target/serve/qp_helper.h"
#include "target/serve/stats.h"

#define RING_DEPTH 1024u
/* destroy: longest wait for the connections to drain and the stores to end. */
#define DESTROY_NS 30000000000ull
/* No I/O is in flight then: nothing but messages. */
#define REAP_LATE 64u

/* -- creating ---------------------------------------------------------------------------------- */

static bool listens_on(const struct tgt_config *config, enum fab_kind kind)
{
	for (unsigned int i = 0; i < config->listen_count; i++)
		if (config->listen[i].kind == kind)
			return true;
	return false;
}

/*
 * Drivers spread a device's completion vectors over the CPUs, beginning with CPU 0, where nobody has set them otherwise: the
 * interrupt then comes where the reactor runs.
 */
static uint32_t reactor_vector(const struct tgt_reactor *reactor)
{
	const struct tgt_cpus *cpus = &reactor->config.cpus;

	return cpus->count ? cpus->cpu[reactor->index % cpus->count] : reactor->index;
}

static int reactor_open_fabric(struct tgt_reactor *reactor, enum fab_kind kind, char *error)
{
	struct tgt_fabric *fabric = &reactor->fabrics[reactor->fabric_count];
	uint32_t receives = reactor->config.receive_buffers;
	/*
	 * Completions: of every receive, of two sends for each (TGT_SENDS_PER_TAG: flushed ones all
	 * complete).
	 */
	struct fab_options options = {
		.cq_depth = receives * (1 + TGT_SENDS_PER_TAG),
		.srq_depth = receives,
		.recv_sge = 1,
		.later = true,
		.vector = reactor_vector(reactor),
		.helper = tgt_qp_helper_take,
		.helper_user = reactor,
	};

	fabric->fab = fab_open(kind, &options, error);
	if (!fabric->fab)
		return -errno;
	fabric->index = reactor->fabric_count++;
	if (fab_mr_register(fabric->fab, reactor->memory.base, reactor->memory.bytes,
			    IBV_ACCESS_LOCAL_WRITE, &fabric->mr))
		return tgt_error(error, -ENOMEM,
				 "reactor %u: cannot register %zu bytes of buffers: %s (raise the "
				 "memlock limit: ulimit -l, or LimitMEMLOCK= in the unit)",
				 reactor->index, reactor->memory.bytes, fab_error(fabric->fab));
	return 0;
}

static int reactor_open_fabrics(struct tgt_reactor *reactor, char *error)
{
	static const enum fab_kind kinds[] = {FAB_VERBS, FAB_TCP, FAB_NVME, FAB_NVME_RDMA, FAB_SIM};

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

/* The longest reply ring: two completions for each tag, rounded up to a power of two. */
#define RING_BYTES_MAX \
	(4 * (RBLK_CREDITS_MAX + RBLK_RESERVED_TAGS) * sizeof(struct rblk_wire_completion))
#define REPORT_BYTES_MAX (RBLK_LIST_MAX * sizeof(struct rblk_wire_volume))
/* A few of the longest, each in a block of a power of two. */
#define REPORTS_BYTES (32 * 4 * TGT_POOL_PAGE)
static_assert(REPORT_BYTES_MAX <= 4 * TGT_POOL_PAGE, "a report fits its block");

/*
 * The reserve: a reply ring of at least a page for each queue (two completions of 32 bytes for each
 * receive buffer of one device, rounded up to a power of two). Where several devices have queues
 * with many credits, later ones get fewer: tgt_io_queue_ring_credits().
 */
static size_t reserve_bytes(const struct tgt_reactor *reactor)
{
	size_t bytes = (size_t)reactor->queue_quota.most * TGT_POOL_PAGE;

	bytes += (size_t)reactor->config.receive_buffers * 2 * 2 *
		 sizeof(struct rblk_wire_completion);
	return (bytes + TGT_POOL_PAGE - 1) & ~(size_t)(TGT_POOL_PAGE - 1);
}

static int reactor_create_memory(struct tgt_reactor *reactor, char *error)
{
	const struct tgt_config *config = &reactor->config;
	struct tgt_loop *loop = &reactor->loop;
	size_t pool = (config->pool_bytes + TGT_POOL_PAGE - 1) & ~(size_t)(TGT_POOL_PAGE - 1);
	size_t reserve = reserve_bytes(reactor);
	size_t bytes = pool + reserve + REPORTS_BYTES;
	int err = tgt_dma_memory_map(&reactor->memory, bytes, config->memory_lock,
				 reactor->ring);

	if (err)
		return tgt_error(error, err, "reactor %u: cannot map %zu bytes of buffers: %s",
				 reactor->index, bytes, strerror(-err));
	if (reactor->ring && reactor->memory.buffer_first < 0)
		tgt_log(TGT_LOG_WARNING,
			"reactor %u: serves without fixed buffers, disks are a little slower: %s (raise the memlock limit: ulimit "
			"-l, or LimitMEMLOCK= in the unit)",
			reactor->index, strerror(-reactor->memory.buffer_first));
	loop->memory = &reactor->memory;
	loop->pool = tgt_pool_create(reactor->memory.base, pool, config->max_io_bytes);
	reactor->reserve =
		tgt_pool_create(reactor->memory.base + pool, reserve, RING_BYTES_MAX);
	loop->reports = tgt_pool_create(reactor->memory.base + pool + reserve, REPORTS_BYTES,
					REPORT_BYTES_MAX);
	if (!loop->pool || !reactor->reserve || !loop->reports)
		return tgt_error(error, -ENOMEM, "reactor %u: out of memory", reactor->index);
	reactor->pool_bytes = tgt_pool_free_bytes(loop->pool);
	/* The data of one command has to fit one block of the pool. */
	loop->max_io_bytes = config->max_io_bytes;
	if (loop->max_io_bytes > tgt_pool_largest(loop->pool))
		loop->max_io_bytes = (uint32_t)tgt_pool_largest(loop->pool);
	return 0;
}

/* poll_time = auto: the longest poll is at least this, however fast wake-ups are here. */
#define SPIN_LEAST_NS 50000ull

static uint64_t reactor_spin_max_ns(const struct tgt_config *config, unsigned int index)
{
	char most[UNITS_TEXT_BYTES], wake[UNITS_TEXT_BYTES];
	uint64_t wake_ns, max_ns;

	switch (config->polling) {
	case TGT_POLL_ALWAYS:
		return UINT64_MAX;
	case TGT_POLL_NEVER:
		return 0;
	case TGT_POLL_ADAPTIVE:
		break;
	}
	if (config->poll_us_max != TGT_POLL_TIME_AUTO)
		return (uint64_t)config->poll_us_max * 1000;
	wake_ns = env_wake_ns();
	max_ns = core_spin_max_ns(wake_ns, SPIN_LEAST_NS);
	tgt_log(TGT_LOG_DEBUG, "reactor %u: polls for up to %s: a wake-up takes %s", index,
		units_format_us((double)max_ns / 1e3, most), units_format_us((double)wake_ns / 1e3, wake));
	return max_ns;
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
	reactor->session_quota = tgt_quota_places((config->sessions_max + count - 1) / count);
	reactor->queue_quota = tgt_quota_places((config->queues_total_max + count - 1) / count);
	tgt_work_init(&reactor->loop);
	TAILQ_INIT(&reactor->hosts);
	TAILQ_INIT(&reactor->sessions);
	TAILQ_INIT(&reactor->ended);
	TAILQ_INIT(&reactor->pending);
	TAILQ_INIT(&reactor->logins);
	tgt_stats_table_init(&reactor->stats_table);
	core_spin_init(&reactor->spin, reactor_spin_max_ns(config, index));
	reactor->loop.now_ns = env_now_ns();
}

/* The ring's memory counts as locked memory for an unprivileged user; its table has its size. */
static const char *ring_advice(int err)
{
	if (err == -EMFILE)
		return " (" TGT_RAISE_DESCRIPTORS "; at least 2048, and one for each connection)";
	if (err == -ENOMEM)
		return " (raise the memlock limit: ulimit -l, or LimitMEMLOCK= in the unit)";
	if (err == -EPERM || err == -EACCES || err == -ENOSYS)
		return " (it is forbidden here: in a container give it a seccomp profile that allows io_uring, "
		       "such as /usr/share/rblk/seccomp.json, see CONTAINERS in rblkd(8); on the machine "
		       "sysctl kernel.io_uring_disabled=0)";
	return "";
}

static int reactor_create_ring(struct tgt_reactor *reactor, char *error)
{
	int err;

	err = tgt_ring_create(RING_DEPTH, RBLK_VOLUMES_MAX, &reactor->ring);
	if (err)
		return tgt_error(error, err, "reactor %u: io_uring: %s%s", reactor->index,
				 strerror(-err), ring_advice(err));
	tgt_ring_own(reactor->ring, reactor, reactor->peers ? &reactor->peers->messages : NULL);
	return 0;
}

int tgt_reactor_check_ring(char *error)
{
	struct tgt_ring *ring;
	int err = tgt_ring_create(RING_DEPTH, RBLK_VOLUMES_MAX, &ring);

	if (err)
		return tgt_error(error, err, "io_uring: %s%s", strerror(-err), ring_advice(err));
	tgt_ring_destroy(ring);
	return 0;
}

int tgt_reactor_create(const struct tgt_config *config, unsigned int index,
		       struct tgt_registry *registry, struct tgt_peers *peers,
		       struct tgt_reactor **out, char *error)
{
	struct tgt_reactor *reactor = calloc(1, sizeof(*reactor));
	int err;

	if (!reactor || tgt_worker_init(&reactor->qp_helper, "queue-pairs")) {
		free(reactor);
		return tgt_error(error, -ENOMEM, "reactor %u: out of memory", index);
	}
	reactor_init(reactor, config, index);
	reactor->registry = registry;
	reactor->peers = peers;
	reactor->begun_ns = env_now_ns();
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

/* -- the end ----------------------------------------------------------------------------------- */

/* True: everything has ended, so nothing points into what is freed next. */
static bool reactor_finish(struct tgt_reactor *reactor)
{
	uint64_t until_ns = env_now_ns() + DESTROY_NS;

	if (reactor->started) {
		pthread_join(reactor->thread, NULL);
		return true;
	}
	reactor->loop.now_ns = env_now_ns();
	tgt_reactor_drain(reactor, NULL);
	reactor->drain_until_ns = 0;
	while (!tgt_reactor_drained(reactor) && env_now_ns() < until_ns)
		tgt_reactor_step(reactor);
	return tgt_reactor_drained(reactor);
}

static void reactor_close_fabric(struct tgt_fabric *fabric)
{
	for (unsigned int i = 0; i < FAB_DEVICES_MAX; i++)
		tgt_device_free(fabric->devices[i]);
	fab_mr_deregister(fabric->mr);
	fab_close(fabric->fab);
}

void tgt_reactor_destroy(struct tgt_reactor *reactor)
{
	if (!reactor)
		return;
	if (reactor->started)
		tgt_gateways_end(reactor);
	if (!reactor_finish(reactor)) {
		tgt_log(TGT_LOG_ERROR,
			"reactor %u: a connection did not end in time, its memory is not freed",
			reactor->index);
		return;
	}
	/* Messages that came too late for the thread: logins are refused, references released. */
	while (reactor->ring && tgt_ring_reap(reactor->ring, REAP_LATE))
		;
	/* Every connection has drained, and a job of its is over before that: there is none. */
	tgt_worker_fini(&reactor->qp_helper);
	tgt_ring_destroy(reactor->ring);
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		reactor_close_fabric(&reactor->fabrics[i]);
	tgt_pool_destroy(reactor->loop.pool);
	tgt_pool_destroy(reactor->reserve);
	tgt_pool_destroy(reactor->loop.reports);
	tgt_dma_memory_unmap(&reactor->memory);
	tgt_stats_table_fini(&reactor->stats_table);
	free(reactor);
}
