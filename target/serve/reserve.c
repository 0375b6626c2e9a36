/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The steps of a RESERVE: it is decided on a copy, written to disk by a thread if it is to persist,
 * put in force, seen by every reactor, and answered when the writes that it stops have ended.
 */
#include "target/serve/reserve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/wire/wire_check.h"
#include "target/io/request.h"
#include "target/serve/handle.h"
#include "target/serve/host.h"
#include "target/serve/peers.h"
#include "target/serve/rights.h"
#include "target/store/reservation_file.h"
#include "target/store/worker.h"

static_assert(sizeof(struct tgt_host_key) == TGT_REGISTRANT_HOST_BYTES, "a host's address fits");

enum change_state {
	CHANGE_KEEPING, /* the registry's keeper has it */
	CHANGE_TELLING, /* in force; not every reactor has seen it */
	CHANGE_WAITING, /* waits for writes that it stopped */
};

/* A RESERVE that waits. Allocated when it is held; freed after its answer. */
struct tgt_reserve_change {
	struct tgt_job job;	      /* first; KEEPING: the keeper's */
	TAILQ_ENTRY(tgt_reserve_change) link; /* reactor->changes */
	struct tgt_reactor *reactor;
	struct tgt_request *request; /* NULL: its connection has ended */
	struct tgt_volume *volume;   /* a reference */
	enum change_state state;
	bool waits, aborts; /* for what it stops; which is also dropped */
	bool replaced;	    /* it could not be saved for sure, and a restart finds it: it is in force */
	uint64_t number;
	uint64_t orphans;
	int keep_status;
	char keep_error[TGT_ERROR_BYTES];
	struct tgt_reservation next;
};

/* -- the end ----------------------------------------------------------------------------------- */

static void change_free(struct tgt_reserve_change *change)
{
	TAILQ_REMOVE(&change->reactor->changes, change, link);
	tgt_volume_put(change->volume);
	free(change);
}

static void change_answer(struct tgt_reserve_change *change, enum rblk_status status)
{
	struct tgt_request *request = change->request;

	if (request)
		tgt_request_complete(request, status);
	change_free(change);
}

/* -- in force, seen, waited for ---------------------------------------------------------------- */

static bool change_tell(void *owner, void *context)
{
	return tgt_reactor_call(owner, tgt_rights_changed, tgt_volume_ref(context));
}

/* Goes on as far as it can. May free it. */
static void change_go_on(struct tgt_reserve_change *change)
{
	struct tgt_reservations *reservations = &change->volume->reservations;

	if (change->state == CHANGE_TELLING) {
		if (!tgt_reservations_tell(reservations, change->number, change_tell,
					   change->volume))
			return;
		tgt_reservations_end(reservations);
		change->state = CHANGE_WAITING;
		change->orphans = change->waits ? tgt_orphans_now(&change->volume->orphans) : 0;
	}
	if (change->state != CHANGE_WAITING)
		return;
	change->orphans = tgt_orphans_left(&change->volume->orphans, change->orphans);
	if (!change->orphans || !change->request)
		change_answer(change, change->replaced ? RBLK_E_IO : RBLK_OK);
}

static void change_commit(struct tgt_reserve_change *change)
{
	change->number = tgt_reservations_commit(&change->volume->reservations, &change->next,
						 change->aborts);
	change->state = CHANGE_TELLING;
	tgt_rights_changed(change->reactor, change->volume);
	change_go_on(change);
}

void tgt_reserve_retry(struct tgt_reactor *reactor)
{
	struct tgt_reserve_change *change, *following;

	for (change = TAILQ_FIRST(&reactor->changes); change; change = following) {
		following = TAILQ_NEXT(change, link);
		change_go_on(change);
	}
}

static bool reserve_leave(struct tgt_request *request)
{
	struct tgt_reserve_change *change = request->held;

	change->request = NULL;
	return true;
}

/* -- on disk ----------------------------------------------------------------------------------- */

/* The keeper's thread. */
static int keep_run(struct tgt_job *job)
{
	struct tgt_reserve_change *change = (struct tgt_reserve_change *)job;
	const struct tgt_reservations *reservations = &change->volume->reservations;

	return tgt_reservation_save(reservations->folder, reservations->uuid, &change->next,
				    &change->replaced, change->keep_error);
}

static void keep_failed(struct tgt_reserve_change *change, enum rblk_status status)
{
	tgt_reservations_end(&change->volume->reservations);
	change_answer(change, status);
}

static void keep_done(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_reserve_change *change = (struct tgt_reserve_change *)message; /* through its first members */
	int result = change->job.result;

	if (result)
		tgt_log(TGT_LOG_ERROR, "volume %s: a reservation cannot be saved, so %s: %s",
			change->volume->config.name,
			change->replaced ? "its change may not outlive a crash of this machine"
					 : "it is not changed",
			change->keep_error);
	if (result && !change->replaced) {
		keep_failed(change, RBLK_E_IO);
		return;
	}
	/* The state in force is what a restart finds. The answer says that nobody knows of a crash. */
	change->replaced = result != 0;
	tgt_reservations_kept(&change->volume->reservations, result != 0);
	change_commit(change);
}

static void change_keep(struct tgt_reserve_change *change)
{
	struct tgt_reactor *reactor = change->reactor;
	struct tgt_worker *keeper = tgt_registry_keeper(reactor->registry);

	change->state = CHANGE_KEEPING;
	change->job.work = keep_run;
	change->job.message.run = keep_done;
	if (tgt_worker_submit(keeper, reactor->ring, &change->job))
		keep_failed(change, RBLK_E_BUSY);
}

/* -- the beginning ----------------------------------------------------------------------------- */

static const char *const action_names[] = {
	[RBLK_RESERVE_REGISTER] = "registers", [RBLK_RESERVE_ACQUIRE] = "reserves",
	[RBLK_RESERVE_RELEASE] = "releases",   [RBLK_RESERVE_PREEMPT] = "preempts",
	[RBLK_RESERVE_CLEAR] = "clears",
};

/* Logged, because the actions of fencing agents must be traceable. */
static void reserve_log(const struct tgt_session *session, const struct tgt_volume *volume,
			const struct tgt_reserve *reserve)
{
	tgt_log_limited(
		&session->reactor->loop.chat_limit, TGT_LOG_INFO,
		"volume %s: session %u [%s] %s %s (type %u, flags 0x%x, key 0x%llx, other key "
		"0x%llx)",
		volume->config.name, session->number, session->peer, session->initiator,
		action_names[reserve->action], reserve->type, reserve->flags,
		(unsigned long long)reserve->key, (unsigned long long)reserve->other_key);
}

/* NULL: answered. */
static struct tgt_handle *reserve_handle(struct tgt_session *session, struct tgt_request *request, uint32_t id)
{
	enum rblk_status status;
	struct tgt_handle *handle = tgt_handle_use(session, id, &status);

	if (!handle)
		tgt_request_complete(request, status);
	return handle;
}

/* The handle's volume; counts as its user. NULL: answered. */
static struct tgt_volume *reserve_volume(struct tgt_request *request, struct tgt_handle *handle)
{
	if (request->io_queue->loop->draining) {
		tgt_request_complete(request, RBLK_E_DRAINING);
		return NULL;
	}
	if (!handle->access.channel || atomic_load(&handle->access.channel->volume->removed)) {
		tgt_request_complete(request, RBLK_E_GONE);
		return NULL;
	}
	request->access = &handle->access;
	tgt_access_get(request->access);
	return handle->access.channel->volume;
}

/* Holds the request until its change is done. NULL: answered, or its queue is closed. */
static struct tgt_reserve_change *change_create(struct tgt_session *session, struct tgt_request *request,
					struct tgt_volume *volume)
{
	struct tgt_reserve_change *change = calloc(1, sizeof(*change));

	if (!change) {
		tgt_request_complete(request, RBLK_E_NO_RESOURCES);
		return NULL;
	}
	if (!tgt_request_hold(request, reserve_leave, change)) {
		free(change);
		return NULL;
	}
	change->reactor = session->reactor;
	change->request = request;
	change->volume = tgt_volume_ref(volume);
	TAILQ_INSERT_TAIL(&session->reactor->changes, change, link);
	return change;
}

static void reserve_change(struct tgt_session *session, struct tgt_request *request,
			   struct tgt_volume *volume, const struct tgt_reserve *reserve)
{
	struct tgt_reserve_change *change = change_create(session, request, volume);
	enum rblk_status status;
	bool changed;

	if (!change)
		return;
	change->waits = reserve->action == RBLK_RESERVE_ACQUIRE ||
			reserve->action == RBLK_RESERVE_PREEMPT ||
			reserve->action == RBLK_RESERVE_CLEAR;
	change->aborts = reserve->flags & RBLK_RESERVE_ABORT;
	status = tgt_reservations_begin(&volume->reservations, reserve, &change->next, &changed);
	if (status) {
		change_answer(change, status);
		return;
	}
	if (changed) {
		reserve_log(session, volume, reserve);
		if (tgt_reservations_keeps(&volume->reservations, &change->next))
			change_keep(change);
		else
			change_commit(change);
		return;
	}
	/* A retry: writes that it stopped the first time may still be in flight. */
	change->orphans = change->waits ? tgt_orphans_now(&volume->orphans) : 0;
	change->state = CHANGE_WAITING;
	change_go_on(change);
}

void tgt_reserve_begin(struct tgt_session *session, struct tgt_request *request,
		       const char *capsule, uint32_t bytes, uint32_t id)
{
	const struct rblk_wire_reservation *wire = (const void *)capsule;
	struct tgt_handle *handle;
	struct tgt_volume *volume;
	struct tgt_reserve reserve;

	if (rblk_check_reservation(capsule, bytes)) {
		tgt_request_complete(request, RBLK_E_INVALID);
		return;
	}
	handle = reserve_handle(session, request, id);
	if (!handle)
		return;
	/* After the handle was looked up, which tells a remote session the name. */
	if (!session->named || !strcmp(session->initiator, RBLK_NAME_UNNAMED)) {
		request->result = RBLK_DENIED_UNNAMED;
		tgt_request_complete(request, RBLK_E_DENIED);
		return;
	}
	/* F8: as for block commands, behind what the connection may name, before what else may refuse it. */
	if (!tgt_request_begin_operation(request))
		return;
	volume = reserve_volume(request, handle);
	if (!volume)
		return;
	reserve = (struct tgt_reserve){
		.initiator = session->initiator,
		.host = (const uint8_t *)&session->host->key,
		.key = rblk_le64(wire->key),
		.new_key = rblk_le64(wire->new_key),
		.other_key = rblk_le64(wire->other_key),
		.action = wire->action,
		.type = wire->type,
		.flags = wire->flags,
		.retry = request->flags & RBLK_CMD_RETRY,
	};
	reserve_change(session, request, volume, &reserve);
}

void tgt_reserve_report(struct tgt_session *session, struct tgt_request *request, uint32_t id)
{
	struct tgt_handle *handle = reserve_handle(session, request, id);
	struct tgt_volume *volume = handle ? reserve_volume(request, handle) : NULL;
	struct rblk_wire_reservation_report *report;
	uint32_t max;

	if (!volume)
		return;
	max = (uint32_t)((request->length - sizeof(*report)) / sizeof(struct rblk_wire_registrant));
	if (max > RBLK_REGISTRANTS_MAX)
		max = RBLK_REGISTRANTS_MAX;
	report = tgt_request_report_alloc(
		request, (uint32_t)(sizeof(*report) + max * sizeof(struct rblk_wire_registrant)));
	if (!report)
		return;
	request->result = tgt_reservations_report(&volume->reservations, report, max);
	tgt_request_report(request);
}
