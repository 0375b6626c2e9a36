/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The steps of a RESERVE: it is decided on a copy, written to disk by a thread if it is to persist,
 * put in force, seen by every reactor, and answered when the writes that it stops have ended. Where the store keeps it
 * for all of its targets, that writes it, and has the same done at the others; if one of them was quicker, it is
 * BUSY, and decided anew when it comes again.
 */
#include "target/serve/session_command.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "target/serve/calls.h"
#include "target/serve/handle.h"
#include "target/serve/host.h"
#include "target/serve/peers.h"
#include "target/serve/queue.h"
#include "target/serve/rights.h"
#include "target/serve/sessions.h"
#include "target/store/reservation_file.h"
#include "target/store/worker.h"

static_assert(sizeof(struct tgt_host_key) == TGT_REGISTRANT_HOST_BYTES, "a host's address fits");

enum change_state {
	CHANGE_KEEPING, /* the registry's keeper has it, or the store */
	CHANGE_TELLING, /* in force; not every reactor has seen it */
	CHANGE_WAITING, /* waits for writes that it stopped */
};

/* A RESERVE that waits. Allocated when it is held; freed after its answer. */
struct tgt_reserve_change {
	struct tgt_pending pending; /* first */
	struct tgt_job job;	    /* KEEPING: the keeper's */
	enum change_state state;
	bool waits; /* for what it stops */
	bool replaced;	    /* it could not be saved for sure, and a restart finds it: it is in force */
	enum rblk_status status; /* when it is in force */
	uint64_t number;
	uint64_t orphans;
	int keep_status;
	char keep_error[TGT_ERROR_BYTES];
	struct tgt_reservation_by by;
	struct tgt_reservation next;
};

/* Lives until the store has ended it. */
struct store_change {
	struct tgt_message message; /* first */
	struct tgt_store_change change;
	struct tgt_reserve_change *of;
	int error;
};

/* -- the end ----------------------------------------------------------------------------------- */

static void change_answer(struct tgt_reserve_change *change, enum rblk_status status)
{
	if (change->pending.request)
		tgt_request_complete(change->pending.request, status);
	tgt_pending_end(&change->pending);
}

/* -- in force, seen, waited for ---------------------------------------------------------------- */

static bool change_tell(void *owner, void *context)
{
	return tgt_reactor_call(owner, tgt_rights_changed, tgt_volume_ref(context));
}

/* Goes on as far as it can. May free it. */
static void change_go_on(struct tgt_pending *pending)
{
	struct tgt_reserve_change *change = (struct tgt_reserve_change *)pending;
	struct tgt_reservations *reservations = &change->pending.volume->reservations;

	if (change->state == CHANGE_TELLING) {
		if (!tgt_reservations_tell(reservations, change->number, change_tell,
					   change->pending.volume))
			return;
		tgt_reservations_end(reservations);
		change->state = CHANGE_WAITING;
		change->orphans = change->waits ? tgt_orphans_now(&change->pending.volume->orphans) : 0;
	}
	if (change->state != CHANGE_WAITING)
		return;
	change->orphans = tgt_orphans_left(&change->pending.volume->orphans, change->orphans);
	if (!change->orphans || !change->pending.request)
		change_answer(change, change->status);
}

/* A change with this number is in force. */
static void change_tell_all(struct tgt_reserve_change *change, uint64_t number)
{
	change->number = number;
	change->state = CHANGE_TELLING;
	tgt_rights_changed(change->pending.reactor, change->pending.volume);
	change_go_on(&change->pending);
}

static void change_commit(struct tgt_reserve_change *change)
{
	change_tell_all(change,
			tgt_reservations_commit(&change->pending.volume->reservations, &change->next, &change->by));
}

static bool reserve_leave(struct tgt_request *request)
{
	struct tgt_reserve_change *change = request->held;

	change->pending.request = NULL;
	return true;
}

/* -- on disk ----------------------------------------------------------------------------------- */

static struct tgt_reserve_change *keep_change(void *job)
{
	return (struct tgt_reserve_change *)((char *)job - offsetof(struct tgt_reserve_change, job));
}

/* The keeper's thread. */
static int keep_run(struct tgt_job *job)
{
	struct tgt_reserve_change *change = keep_change(job);
	const struct tgt_reservations *reservations = &change->pending.volume->reservations;

	return tgt_reservation_save(reservations->folder, reservations->uuid, &change->next,
				    &change->replaced, change->keep_error);
}

static void keep_failed(struct tgt_reserve_change *change, enum rblk_status status)
{
	tgt_reservations_end(&change->pending.volume->reservations);
	change_answer(change, status);
}

static void keep_done(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_reserve_change *change = keep_change(message); /* the job's first member */
	int result = change->job.result;

	if (result)
		tgt_log(TGT_LOG_ERROR, "volume %s: a reservation cannot be saved, so %s: %s",
			change->pending.volume->config.name,
			change->replaced ? "its change may not outlive a crash of this machine"
					 : "it is not changed",
			change->keep_error);
	if (result && !change->replaced) {
		keep_failed(change, RBLK_E_IO);
		return;
	}
	/* The state in force is what a restart finds. The answer says that nobody knows of a crash. */
	change->status = result ? RBLK_E_IO : RBLK_OK;
	tgt_reservations_kept(&change->pending.volume->reservations, result != 0);
	change_commit(change);
}

static void change_keep(struct tgt_reserve_change *change)
{
	struct tgt_reactor *reactor = change->pending.reactor;
	struct tgt_worker *keeper = tgt_registry_keeper(reactor->registry);

	change->state = CHANGE_KEEPING;
	change->job.work = keep_run;
	change->job.message.run = keep_done;
	if (tgt_worker_submit(keeper, reactor->ring, &change->job))
		keep_failed(change, RBLK_E_BUSY);
}

/* -- with all targets of the store --------------------------------------------------------------- */

static void store_ended(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct store_change *store = (struct store_change *)message;
	struct tgt_reserve_change *change = store->of;
	struct tgt_volume *volume = change->pending.volume;
	const char *fault = NULL;
	uint64_t number;
	int error = store->error;

	if (error == -EAGAIN && !change->pending.request)
		tgt_log(TGT_LOG_WARNING, "volume %s: its reservation is not changed: another gateway was quicker",
			volume->config.name);
	/* It is what another target has made of it, which then tells all: nothing has changed by this one. */
	if (error == -EAGAIN)
		fault = tgt_reservations_commit_note(&volume->reservations, &store->change.note, &number);
	/* Serial numbers only grow: a gateway that has a higher one in force would not take a change of this. */
	if (error == -EAGAIN && !fault && rblk_le64(store->change.note.serial) <= rblk_le64(store->change.before))
		fault = "it was deleted, or put back as it was before";
	if (fault)
		tgt_log_limited(&reactor->loop.log_limit, TGT_LOG_ERROR,
				"volume %s: its reservation stays as it is until all its gateways have ended: %s",
				volume->config.name, fault);
	/* Not answered: its initiator asks for it again when the volume has been opened again. */
	if (error && change->pending.request && tgt_volume_why_lost(volume))
		tgt_session_volume_lost(tgt_session_of(change->pending.request));
	change->status = !error ? RBLK_OK : error == -EAGAIN && !fault ? RBLK_E_BUSY : RBLK_E_IO;
	if (error != -EAGAIN && (!error || store->change.kept))
		change_commit(change);
	else if (change->status == RBLK_E_BUSY)
		change_tell_all(change, number);
	else
		keep_failed(change, RBLK_E_IO);
	free(store);
}

/* A thread of the store. */
static void store_done(struct tgt_store_change *store_change, int error)
{
	struct store_change *store =
		(struct store_change *)((char *)store_change - offsetof(struct store_change, change));

	store->error = error;
	tgt_ring_post(store->of->pending.reactor->ring, &store->message);
}

static void change_share(struct tgt_reserve_change *change)
{
	struct tgt_volume *volume = change->pending.volume;
	struct store_change *store = calloc(1, sizeof(*store));

	change->state = CHANGE_KEEPING;
	if (!store) {
		keep_failed(change, RBLK_E_NO_RESOURCES);
		return;
	}
	store->message.run = store_ended;
	store->of = change;
	store->change.done = store_done;
	store->change.before = rblk_to_le64(change->next.serial - 1);
	tgt_reservation_note_encode(&change->next, &change->by, &store->change.note);
	tgt_ring_expect(change->pending.reactor->ring);
	volume->store->ops->change(volume->store, &store->change);
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

/* The request counts as a user of the handle's volume, if that is RBLK_OK. */
static enum rblk_status reserve_use(struct tgt_request *request, struct tgt_handle *handle)
{
	if (request->io_queue->loop->draining)
		return RBLK_E_DRAINING;
	if (!handle->access.channel || atomic_load(&handle->access.channel->volume->removed))
		return RBLK_E_GONE;
	request->access = &handle->access;
	tgt_access_get(request->access);
	return RBLK_OK;
}

/* request: HELD, or NULL. Returns NULL without memory. */
static struct tgt_reserve_change *change_create(struct tgt_reactor *reactor, struct tgt_request *request,
						struct tgt_volume *volume)
{
	struct tgt_pending *change =
		tgt_pending_create(reactor, sizeof(struct tgt_reserve_change), request, tgt_volume_ref(volume), false);

	if (change)
		change->go_on = change_go_on;
	return (struct tgt_reserve_change *)change;
}

/* Holds the change that has begun. */
static void change_run(struct tgt_reserve_change *change)
{
	if (change->pending.volume->reservations.shared)
		change_share(change);
	else if (tgt_reservations_keeps(&change->pending.volume->reservations, &change->next))
		change_keep(change);
	else
		change_commit(change);
}

void tgt_reserve_clear(struct tgt_reactor *reactor, struct tgt_volume *volume)
{
	struct tgt_reserve_change *change = change_create(reactor, NULL, volume);
	enum rblk_status status = RBLK_E_NO_RESOURCES;
	struct tgt_registrant first;
	struct tgt_reserve reserve = {.initiator = first.initiator, .host = first.host, .action = RBLK_RESERVE_CLEAR};
	bool changed = false;

	if (change && tgt_reservations_first(&volume->reservations, &first)) {
		change->by.action = RBLK_RESERVE_CLEAR;
		reserve.key = first.key;
		status = tgt_reservations_begin(&volume->reservations, &reserve, &change->next, &changed);
	}
	tgt_log(TGT_LOG_WARNING, "volume %s: its reservation and registrations %s by rblkctl%s%s", volume->config.name,
		changed ? "are cleared" : "are not cleared", status ? ": " : "", status ? rblk_status_text(status) : "");
	if (changed)
		change_run(change);
	else if (change)
		tgt_pending_end(&change->pending);
}

static enum rblk_status reserve_change(struct tgt_request *request, const struct tgt_reserve *reserve)
{
	struct tgt_volume *volume = request->access->channel->volume;
	struct tgt_reserve_change *change;
	enum rblk_status status;
	bool changed;

	if (!tgt_request_hold(request, reserve_leave, NULL))
		return TGT_UNANSWERED;
	change = change_create(tgt_session_of(request)->reactor, request, volume);
	if (!change)
		return RBLK_E_NO_RESOURCES;
	change->waits = reserve->action == RBLK_RESERVE_ACQUIRE ||
			reserve->action == RBLK_RESERVE_PREEMPT ||
			reserve->action == RBLK_RESERVE_CLEAR;
	change->by.aborts = reserve->flags & RBLK_RESERVE_ABORT;
	status = tgt_reservations_begin(&volume->reservations, reserve, &change->next, &changed);
	if (status) {
		change_answer(change, status);
		return TGT_UNANSWERED;
	}
	if (changed) {
		change->by.action = reserve->action;
		memcpy(change->by.initiator, reserve->initiator, sizeof(change->by.initiator));
		reserve_log(tgt_session_of(request), volume, reserve);
		change_run(change);
		return TGT_UNANSWERED;
	}
	/* A retry: writes that it stopped the first time may still be in flight. */
	change->orphans = change->waits ? tgt_orphans_now(&volume->orphans) : 0;
	change->state = CHANGE_WAITING;
	change_go_on(&change->pending);
	return TGT_UNANSWERED;
}

enum rblk_status tgt_reserve_begin(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	const struct rblk_wire_reservation *wire = (const void *)arguments->capsule;
	struct tgt_session *session = tgt_session_of(request);
	char registrant[RBLK_NAME_BYTES];
	struct tgt_handle *handle;
	struct tgt_reserve reserve;
	enum rblk_status status;

	if (rblk_check_reservation(arguments->capsule, arguments->capsule_bytes))
		return RBLK_E_INVALID;
	handle = tgt_handle_use(session, arguments->volume, &status);
	if (!handle)
		return status;
	/* After the handle was looked up, which tells a remote session the name. */
	if (!tgt_rights_registrant(session, registrant)) {
		request->result = RBLK_DENIED_UNNAMED;
		return RBLK_E_DENIED;
	}
	/* F8: as for block commands, behind what the connection may name, before what else may refuse it. */
	if (!tgt_request_begin_operation(request))
		return TGT_UNANSWERED;
	status = reserve_use(request, handle);
	if (status)
		return status;
	reserve = (struct tgt_reserve){
		.initiator = registrant,
		.host = (const uint8_t *)&session->host->key,
		.key = rblk_le64(wire->key),
		.new_key = rblk_le64(wire->new_key),
		.other_key = rblk_le64(wire->other_key),
		.action = wire->action,
		.type = wire->type,
		.flags = wire->flags,
		.retry = request->flags & RBLK_CMD_RETRY,
	};
	return reserve_change(request, &reserve);
}

enum rblk_status tgt_reserve_report(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	enum rblk_status status;
	struct tgt_handle *handle = tgt_handle_use(tgt_session_of(request), arguments->volume, &status);
	struct rblk_wire_reservation_report *report;
	uint32_t max;

	if (handle)
		status = reserve_use(request, handle);
	if (status)
		return status;
	max = (uint32_t)((request->length - sizeof(*report)) / sizeof(struct rblk_wire_registrant));
	if (max > RBLK_REGISTRANTS_MAX)
		max = RBLK_REGISTRANTS_MAX;
	report = tgt_request_report_alloc(
		request, (uint32_t)(sizeof(*report) + max * sizeof(struct rblk_wire_registrant)));
	if (!report)
		return RBLK_E_BUSY;
	request->result = tgt_reservations_report(&handle->access.channel->volume->reservations, report, max);
	return RBLK_OK;
}
