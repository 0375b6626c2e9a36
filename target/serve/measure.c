/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Measuring connections. Everything that their device may touch lies in one arena: the reply ring,
 * pages for reports, the page that is exposed, the receives.
 */
#include "target/serve/measure.h"

#include <errno.h>
#include <stdlib.h>
#include "proto/core/login.h"
#include "target/io/request.h"
#include "target/serve/admin.h"

/* Enough for pings, and small. */
#define MEASURE_CREDITS 16u
/* Messages: PING, SCRATCH, KEEPALIVE, IDENTIFY. */
#define MEASURE_COMMAND_BYTES 1024u
#define MEASURE_REPORTS 4u
#define MEASURE_REPORTS_BYTES (MEASURE_REPORTS * TGT_POOL_PAGE)
static_assert(RBLK_SCRATCH_BYTES <= TGT_POOL_PAGE, "the exposed memory is one page");

struct tgt_measure {
	struct tgt_queue queue; /* first, so that a queue leads back here */
	struct tgt_region arena;
	struct fab_mr *arena_mr, *page_mr;
	struct tgt_receives receives;
	struct tgt_pool *reports;
	char *page; /* exposed by SCRATCH */
};

static void measure_page(struct tgt_request *request)
{
	struct tgt_measure *measure = (struct tgt_measure *)request->lane;
	struct rblk_wire_scratch *report;

	if (!measure->page_mr &&
	    fab_mr_register_private(request->lane->conn, measure->page, RBLK_SCRATCH_BYTES,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					    IBV_ACCESS_REMOTE_WRITE,
				    &measure->page_mr)) {
		tgt_request_complete(request, RBLK_E_NO_RESOURCES);
		return;
	}
	report = tgt_request_report_alloc(request, sizeof(*report));
	if (!report)
		return;
	report->address = rblk_to_le64((uintptr_t)measure->page);
	report->rkey = rblk_to_le32(
		fab_mr_rkey(measure->page_mr, fab_conn_device(request->lane->conn)));
	report->length = rblk_to_le32(RBLK_SCRATCH_BYTES);
	tgt_request_report(request);
}

static void measure_begin(struct tgt_request *request, const char *capsule, uint32_t capsule_bytes,
			  uint32_t volume)
{
	switch (request->opcode) {
	case RBLK_OP_SCRATCH:
		if (request->lane->index)
			tgt_request_complete(request, RBLK_E_INVALID);
		else
			measure_page(request);
		break;
	case RBLK_OP_PING:
	case RBLK_OP_KEEPALIVE:
	case RBLK_OP_IDENTIFY:
	case RBLK_OP_AUTHENTICATE:
		tgt_admin_begin(request, capsule, capsule_bytes, volume);
		break;
	default:
		tgt_request_complete(request, RBLK_E_UNSUPPORTED);
	}
}

static struct tgt_access *measure_find(struct tgt_lane *lane, uint32_t handle,
				       enum rblk_status *status)
{
	*status = RBLK_E_UNSUPPORTED;
	return NULL;
}

static void measure_event(struct tgt_lane *lane, struct rblk_wire_completion *event)
{
	tgt_admin_lane_ops.event(lane, event);
}

static const struct tgt_lane_ops measure_lane_ops = {
	.begin = measure_begin,
	.find = measure_find,
	.event = measure_event,
	.close = tgt_queue_lane_close,
	.over = tgt_queue_lane_over,
};

void tgt_measure_terms(const struct tgt_reactor *reactor, uint16_t wanted,
		       struct tgt_queue_terms *terms)
{
	terms->ops = terms->proven_ops = &measure_lane_ops;
	terms->lane.command_bytes = MEASURE_COMMAND_BYTES;
	terms->lane.credits = 0;
	if (reactor->measure_count < TGT_MEASURE_QUEUES_MAX)
		terms->lane.credits = wanted < MEASURE_CREDITS ? wanted : MEASURE_CREDITS;
}

static void measure_free(struct tgt_queue *queue)
{
	struct tgt_measure *measure = (struct tgt_measure *)queue;

	fab_mr_deregister(measure->page_mr);
	fab_mr_deregister(measure->arena_mr);
	fab_conn_destroy(queue->lane.conn);
	queue->session->reactor->measure_count--;
	if (measure->receives.number)
		queue->fabric->receives[measure->receives.number] = NULL;
	tgt_receives_fini(&measure->receives);
	tgt_pool_destroy(measure->reports);
	tgt_region_unmap(&measure->arena);
	free(measure);
}

/* The rest of the arena needs the connection's protection domain. */
static int measure_register(struct tgt_measure *measure)
{
	struct tgt_queue *queue = &measure->queue;
	struct tgt_lane *lane = &queue->lane;
	char *receives = measure->page + TGT_POOL_PAGE;
	int err = fab_mr_register_private(lane->conn, measure->arena.base, measure->arena.bytes,
					  IBV_ACCESS_LOCAL_WRITE, &measure->arena_mr);

	if (err)
		return err;
	lane->lkey = fab_mr_lkey(measure->arena_mr, fab_conn_device(lane->conn));
	err = tgt_receives_init(&measure->receives, &lane->turn->idle, MEASURE_COMMAND_BYTES,
				lane->tags);
	if (err)
		return err;
	tgt_receives_add(&measure->receives,
			 &(struct tgt_receives_chunk){.base = receives, .lkey = lane->lkey},
			 lane->tags);
	measure->receives.conn = lane->conn;
	measure->receives.promised = lane->tags;
	/* There is a free number: these connections are no more than numbers. */
	for (uint32_t i = FAB_DEVICES_MAX; i < TGT_RECEIVES_MAX; i++)
		if (!queue->fabric->receives[i])
			measure->receives.number = i;
	queue->fabric->receives[measure->receives.number] = &measure->receives;
	return tgt_receives_post(&measure->receives);
}

static int measure_arena(struct tgt_measure *measure, const struct tgt_queue_terms *terms)
{
	size_t ring = tgt_lane_ring_bytes(terms->lane.credits);
	size_t receives = (size_t)(terms->lane.credits + RBLK_RESERVED_TAGS) * MEASURE_COMMAND_BYTES;
	int err = tgt_region_map(&measure->arena,
				 ring + MEASURE_REPORTS_BYTES + TGT_POOL_PAGE + receives, false,
				 NULL);

	if (err)
		return err;
	measure->page = measure->arena.base + ring + MEASURE_REPORTS_BYTES;
	measure->reports = tgt_pool_create(measure->arena.base + ring, MEASURE_REPORTS_BYTES,
					   TGT_POOL_PAGE);
	return measure->reports ? 0 : -ENOMEM;
}

int tgt_measure_create(struct tgt_session *session, struct tgt_fabric *fabric,
		       struct tgt_device *device, struct fab_request *request,
		       const struct tgt_queue_terms *terms, struct tgt_queue **out)
{
	struct tgt_measure *measure = calloc(1, sizeof(*measure));
	struct tgt_queue *queue = &measure->queue;
	int err;

	*out = NULL;
	if (!measure)
		return -ENOMEM;
	err = measure_arena(measure, terms);
	if (err)
		goto err_arena;
	err = tgt_queue_init(queue, session, fabric, device, terms, measure->arena.base);
	if (err)
		goto err_arena;
	queue->free = measure_free;
	queue->lane.reports = measure->reports;
	queue->lane.reports_max = MEASURE_REPORTS;
	queue->lane.receives = &measure->receives;
	err = tgt_queue_accept(queue, request, true);
	if (err)
		goto err_queue;
	session->reactor->measure_count++;
	tgt_queue_join(queue);
	*out = queue;
	return measure_register(measure);

err_queue:
	tgt_lane_fini(&queue->lane);
err_arena:
	tgt_pool_destroy(measure->reports);
	if (measure->arena.base)
		tgt_region_unmap(&measure->arena);
	free(measure);
	return err;
}
