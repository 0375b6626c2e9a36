/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Administrative commands. Their reports come from a pool of their own, so that I/O that has taken
 * all data memory cannot keep a session from opening, closing, fencing or living on.
 */
#include "target/serve/admin.h"

#include <errno.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/wire/wire_check.h"
#include "target/serve/handle.h"
#include "target/serve/queue.h"

bool tgt_admin_is(uint8_t opcode)
{
	return opcode >= RBLK_OP_IDENTIFY && opcode < RBLK_OP_MAX;
}

/* Memory for a report of `bytes`, zeroed. NULL: there is none; the request has been answered. */
static void *admin_report(struct tgt_request *request, uint32_t bytes)
{
	struct tgt_queue *queue = request->queue;

	if (queue->session->scratch) {
		/* The one report of a measuring session is always the same: it may be sent twice.
		 */
		request->data = queue->arena.base + queue->reply_bytes;
		request->home = TGT_HOME_ARENA;
	} else {
		request->data = queue->reports < TGT_REPORTS_PER_QUEUE
					? tgt_pool_alloc(queue->reactor->reports, bytes)
					: NULL;
		request->home = request->data ? TGT_HOME_REPORT : TGT_HOME_NONE;
		queue->reports += request->data != NULL;
	}
	if (!request->data) {
		tgt_request_complete(request, RBLK_E_BUSY);
		return NULL;
	}
	memset(request->data, 0, bytes);
	request->data_bytes = bytes;
	request->lkey = queue->lkey;
	return request->data;
}

static void admin_identify(struct tgt_request *request, const char *capsule, uint32_t bytes)
{
	const struct rblk_wire_identify *identify = (const void *)capsule;
	struct tgt_session *session = request->queue->session;

	if (rblk_check_identify(capsule, bytes)) {
		tgt_request_complete(request, RBLK_E_INVALID);
		return;
	}
	/* The validator has found the terminating zero. */
	memcpy(session->initiator, identify->initiator, sizeof(session->initiator));
	tgt_log_limited(&request->queue->reactor->chat_limit, TGT_LOG_INFO,
			"session %u [%s]: initiator %s, %.63s", session->number, session->peer,
			session->initiator, identify->software);
	tgt_request_complete(request, RBLK_OK);
}

static void admin_list(struct tgt_request *request)
{
	uint32_t max = request->length / (uint32_t)sizeof(struct rblk_wire_volume);
	struct tgt_volume *volumes[RBLK_LIST_MAX];
	struct rblk_wire_volume *report;
	unsigned int count, total;

	if (max > RBLK_LIST_MAX)
		max = RBLK_LIST_MAX;
	/* The longest report: whether the list is empty is known only with it in hand. */
	report = admin_report(request, max * (uint32_t)sizeof(*report));
	if (!report)
		return;
	count = tgt_volume_list(request->queue->reactor->registry, (unsigned int)request->lba,
				volumes, max, &total);
	for (unsigned int i = 0; i < count; i++) {
		tgt_volume_describe(volumes[i], request->queue->reactor->max_io_bytes,
				    TGT_CAPSULE_BYTES, &report[i]);
		tgt_volume_put(volumes[i]);
	}
	request->result = (uint64_t)total << 32 | count;
	if (count)
		tgt_request_report(request);
	else
		tgt_request_complete(request, RBLK_OK);
}

/* Takes over the reference to `volume`. request->argument has been made the open's flags. */
static void admin_open_volume(struct tgt_request *request, struct tgt_volume *volume)
{
	struct tgt_session *session = request->queue->session;
	struct rblk_wire_volume *report = (void *)request->data;
	enum rblk_status status;
	struct tgt_handle *handle;

	status = tgt_handle_open(session, volume, (uint32_t)request->argument, &handle);
	if (status) {
		tgt_request_complete(request, status);
		return;
	}
	tgt_volume_describe(handle->outlet->volume, request->queue->reactor->max_io_bytes,
			    TGT_CAPSULE_BYTES, report);
	report->handle = rblk_to_le32(handle->id);
	request->result = handle->id;
	if (handle->read_only)
		report->flags |= rblk_to_le32(RBLK_VOLUME_READ_ONLY);
	tgt_request_report(request);
}

/* F5: what an ended connection has left with the store must not land behind the writes of who opens
 * the volume now. */
static bool admin_open_waits(const struct tgt_request *request, const struct tgt_volume *volume)
{
	return !(request->argument & RBLK_OPEN_READ_ONLY) && atomic_load(&volume->orphans);
}

static void admin_open(struct tgt_request *request, const char *capsule, uint32_t bytes)
{
	const struct rblk_wire_open *open = (const void *)capsule;
	struct tgt_reactor *reactor = request->queue->reactor;
	struct tgt_volume *volume;

	if (rblk_check_open(capsule, bytes)) {
		tgt_request_complete(request, RBLK_E_INVALID);
		return;
	}
	if (!admin_report(request, sizeof(struct rblk_wire_volume)))
		return;
	volume = tgt_volume_get(reactor->registry, open->name);
	request->argument = rblk_le32(open->flags);
	if (!volume) {
		tgt_request_complete(request, RBLK_E_NO_VOLUME);
	} else if (admin_open_waits(request, volume)) {
		if (!tgt_request_hold(request)) {
			tgt_volume_put(volume);
			return;
		}
		request->opening = volume;
		TAILQ_INSERT_TAIL(&reactor->opening, request, link);
	} else {
		admin_open_volume(request, volume);
	}
}

void tgt_admin_retry_opens(struct tgt_reactor *reactor)
{
	struct tgt_request *request, *following;

	for (request = TAILQ_FIRST(&reactor->opening); request; request = following) {
		struct tgt_volume *volume = request->opening;
		enum rblk_status status = RBLK_OK;

		following = TAILQ_NEXT(request, link);
		if (reactor->draining)
			status = RBLK_E_DRAINING;
		else if (atomic_load(&volume->removed))
			status = RBLK_E_NO_VOLUME;
		else if (!admin_open_waits(request, volume))
			status = RBLK_OK;
		else if (reactor->now_ns - request->received_ns >= TGT_OPEN_WAIT_NS)
			status = RBLK_E_BUSY;
		else
			continue;
		TAILQ_REMOVE(&reactor->opening, request, link);
		request->opening = NULL;
		if (status == RBLK_OK) {
			admin_open_volume(request, volume);
			continue;
		}
		tgt_volume_put(volume);
		tgt_request_complete(request, status);
	}
}

/* Answered when the last command that uses the handle is over, so that nothing is left of it. */
static void admin_close(struct tgt_request *request, uint32_t volume)
{
	struct tgt_handle *handle = tgt_handle_find(request->queue->session, volume);

	if (!handle) {
		tgt_request_complete(request, RBLK_E_NO_VOLUME);
		return;
	}
	if (tgt_handle_close(handle, request)) {
		tgt_request_complete(request, RBLK_OK);
		return;
	}
	if (tgt_request_hold(request))
		request->handle = handle;
}

static void admin_fence(struct tgt_request *request)
{
	struct tgt_session *session = request->queue->session;
	uint32_t incarnation = (uint32_t)request->argument;
	struct tgt_place *place = &session->places[request->lba]; /* checked: < RBLK_QUEUES_MAX */

	if (place->queue == request->queue && incarnation >= request->queue->incarnation) {
		tgt_request_complete(request, RBLK_E_INVALID);
		return;
	}
	/* F5: from now on a login of what is fenced is stale, whether it was ever here or not. */
	if (incarnation > place->incarnation)
		place->incarnation = incarnation;
	if (!place->queue || place->queue->incarnation > incarnation) {
		tgt_request_complete(request, RBLK_OK);
		return;
	}
	if (!tgt_request_hold(request))
		return;
	TAILQ_INSERT_TAIL(&place->fences, request, link);
	tgt_queue_close(place->queue, "fenced by another queue");
}

void tgt_admin_fenced(struct tgt_session *session, uint16_t index)
{
	struct tgt_place *place = &session->places[index];
	struct tgt_request *request;

	while ((request = TAILQ_FIRST(&place->fences))) {
		TAILQ_REMOVE(&place->fences, request, link);
		tgt_request_complete(request, RBLK_OK);
	}
}

/* lba: the sequence number of the command. result: 1 if it will be answered ABORTED. */
static void admin_abort(struct tgt_request *request)
{
	struct tgt_queue *queue = request->queue;

	for (uint16_t tag = 0; tag < queue->tags; tag++) {
		struct tgt_request *victim = &queue->requests[tag];

		if (victim != request && victim->state != TGT_REQUEST_FREE &&
		    victim->sequence == (uint32_t)request->lba) {
			request->result = tgt_request_abort(victim);
			break;
		}
	}
	tgt_request_complete(request, RBLK_OK);
}

static void admin_scratch(struct tgt_request *request)
{
	struct tgt_queue *queue = request->queue;
	struct fab_device *device = fab_conn_device(queue->conn);
	struct rblk_wire_scratch *report;
	char *page;

	if (!queue->session->scratch) {
		tgt_request_complete(request, RBLK_E_UNSUPPORTED);
		return;
	}
	page = queue->arena.base + queue->reply_bytes + TGT_POOL_PAGE;
	if (!queue->scratch_mr &&
	    fab_mr_register_private(queue->conn, page, RBLK_SCRATCH_BYTES,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					    IBV_ACCESS_REMOTE_WRITE,
				    &queue->scratch_mr)) {
		tgt_request_complete(request, RBLK_E_NO_RESOURCES);
		return;
	}
	report = admin_report(request, sizeof(*report));
	if (!report)
		return;
	report->address = rblk_to_le64((uintptr_t)page);
	report->rkey = rblk_to_le32(fab_mr_rkey(queue->scratch_mr, device));
	report->length = rblk_to_le32(RBLK_SCRATCH_BYTES);
	tgt_request_report(request);
}

/* Two PINGs tell an initiator what its measurement cost this end: one thread serves its session. */
static void admin_ping(struct tgt_request *request)
{
	request->result = env_thread_cpu_ns();
	tgt_request_complete(request, RBLK_OK);
}

/* What concerns the session as a whole travels on its queue 0. */
static bool admin_for_queue_0(uint8_t opcode)
{
	return opcode == RBLK_OP_IDENTIFY || opcode == RBLK_OP_AUTHENTICATE ||
	       opcode == RBLK_OP_LIST || opcode == RBLK_OP_OPEN || opcode == RBLK_OP_CLOSE ||
	       opcode == RBLK_OP_SCRATCH;
}

static bool admin_for_scratch(uint8_t opcode)
{
	return opcode == RBLK_OP_PING || opcode == RBLK_OP_SCRATCH || opcode == RBLK_OP_KEEPALIVE ||
	       opcode == RBLK_OP_IDENTIFY;
}

void tgt_admin_begin(struct tgt_request *request, const char *capsule, uint32_t capsule_bytes,
		     uint32_t volume)
{
	if (request->queue->index != 0 && admin_for_queue_0(request->opcode)) {
		tgt_request_complete(request, RBLK_E_INVALID);
		return;
	}
	if (request->queue->session->scratch && !admin_for_scratch(request->opcode)) {
		tgt_request_complete(request, RBLK_E_UNSUPPORTED);
		return;
	}
	switch (request->opcode) {
	case RBLK_OP_IDENTIFY:
		admin_identify(request, capsule, capsule_bytes);
		break;
	case RBLK_OP_LIST:
		admin_list(request);
		break;
	case RBLK_OP_OPEN:
		if (request->queue->reactor->draining)
			tgt_request_complete(request, RBLK_E_DRAINING);
		else
			admin_open(request, capsule, capsule_bytes);
		break;
	case RBLK_OP_CLOSE:
		admin_close(request, volume);
		break;
	case RBLK_OP_FENCE:
		admin_fence(request);
		break;
	case RBLK_OP_ABORT:
		admin_abort(request);
		break;
	case RBLK_OP_KEEPALIVE:
		tgt_session_event_seen(request->queue->session, (uint32_t)request->argument);
		tgt_request_complete(request, RBLK_OK);
		break;
	case RBLK_OP_PING:
		admin_ping(request);
		break;
	case RBLK_OP_SCRATCH:
		admin_scratch(request);
		break;
	default:
		tgt_request_complete(request, RBLK_E_UNSUPPORTED);
	}
}

void tgt_admin_drop(struct tgt_request *request)
{
	struct tgt_session *session = request->queue->session;

	if (request->opcode == RBLK_OP_FENCE) {
		TAILQ_REMOVE(&session->places[request->lba].fences, request, link);
	} else if (request->opening) {
		TAILQ_REMOVE(&request->queue->reactor->opening, request, link);
		tgt_volume_put(request->opening);
		request->opening = NULL;
	} else if (request->handle) {
		/* The handle closes all the same. */
		request->handle->closer = NULL;
		request->handle = NULL;
	}
}
