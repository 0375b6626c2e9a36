/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns RESERVE and RESERVATIONS: session commands on queue 0 that are sent again when their
 * connection is lost. RESERVE has an operation number (F8), which it shares with COMPARE_AND_WRITE.
 */
#include <stdlib.h>
#include "initiator/session.h"
#include "initiator/volume.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

/* Version 0.1's: no version has shorter ones. */
#define REQUEST_BYTES_MIN sizeof(struct rblk_pr_request)
#define STATE_BYTES_MIN sizeof(struct rblk_pr_state)

static_assert(sizeof(struct rblk_wire_reservation_report) +
			      RBLK_REGISTRANTS_MAX * sizeof(struct rblk_wire_registrant) <=
		      INI_REPORT_BYTES,
	      "a whole report fits");
static_assert((int)RBLK_PR_EXCLUSIVE_ACCESS_ALL == RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL &&
		      (int)RBLK_PR_CLEAR == RBLK_RESERVE_CLEAR &&
		      (int)RBLK_PR_VOLATILE == RBLK_RESERVE_VOLATILE &&
		      RBLK_PR_REGISTRANTS_MAX == RBLK_REGISTRANTS_MAX,
	      "the API's numbers are the wire's");

/* One outstanding command of either kind. The session's thread owns it. */
struct ini_reserving {
	struct ini_again again; /* first */
	struct rblk_volume *volume;
	struct rblk_wire_reservation payload;
	u64 number; /* of the operation; 0: RESERVATIONS */
	u8 flags;   /* RBLK_CMD_RETRY, once it was sent */
	const void *report;
	struct rblk_pr_state *state; /* the caller's, as are the registrants */
	size_t state_bytes;
	struct rblk_pr_registrant *registrants;
	unsigned int max;
	rblk_volume_callback done;
	void *arg;
};

static void reserving_finish(struct ini_reserving *reserving, int error)
{
	struct rblk_volume *volume = reserving->volume;
	struct rblk_session *session = volume->session;
	rblk_volume_callback done = reserving->done;
	void *arg = reserving->arg;

	if (reserving->number)
		session->calls.operations[reserving->number % RBLK_OPERATIONS_MAX].volume = NULL;
	volume->inflight--;
	free(reserving);
	session->events.told++;
	done(arg, volume, error);
}

/* -- the report -------------------------------------------------------------------------------- */

static int report_take(const struct ini_reserving *reserving)
{
	struct {
		struct rblk_wire_reservation_report head;
		struct rblk_wire_registrant list[RBLK_REGISTRANTS_MAX];
	} copy;
	const struct rblk_wire_reservation_report *report = &copy.head;
	const struct rblk_wire_registrant *list = copy.list;
	struct rblk_pr_state state = {.size = sizeof(state)};
	u32 count;

	memcpy(&copy, reserving->report, sizeof(copy));
	if (rblk_check_reservation_report(report, sizeof(copy)))
		return -EPROTO;
	count = rblk_le32(report->registrants);
	state.generation = rblk_le32(report->generation);
	state.type = (enum rblk_pr_type)report->type;
	state.persists = report->persists;
	state.total = rblk_le32(report->total);
	state.count = count < reserving->max ? count : reserving->max;
	if (state.size > reserving->state_bytes)
		state.size = reserving->state_bytes;
	memcpy(reserving->state, &state, state.size);
	for (u32 i = 0; i < state.count; i++) {
		struct rblk_pr_registrant *registrant = &reserving->registrants[i];

		registrant->key = rblk_le64(list[i].key);
		memcpy(registrant->initiator, list[i].initiator, sizeof(registrant->initiator));
		registrant->holder = list[i].holder;
	}
	return 0;
}

/* -- sending, and sending again ---------------------------------------------------------------- */

static void reserving_answered(void *arg, const struct rblk_result *result)
{
	struct ini_reserving *reserving = arg;
	struct rblk_session *session = reserving->volume->session;
	const char *what = reserving->number ? "RESERVE" : "RESERVATIONS";
	int error = result->error;

	reserving->flags = RBLK_CMD_RETRY;
	if (ini_control_again(session, &reserving->again, result))
		return;
	if (error && result->status)
		ini_session_note(session, "%s: volume \"%s\": %s: %s", ini_session_peer(session),
				 reserving->volume->info.name, what,
				 rblk_refusal_text(result->status, result->value));
	if (!error && !reserving->number) {
		error = report_take(reserving);
		if (error)
			ini_session_note(session,
					 "%s: volume \"%s\": the target's report of "
					 "reservations is malformed",
					 ini_session_peer(session), reserving->volume->info.name);
	}
	reserving_finish(reserving, error);
}

/* -ENODEV: the volume is gone. -EAGAIN: no tag is free, or the volume is late (reopen_volumes.h). */
static int reserving_send(struct ini_reserving *reserving)
{
	const struct rblk_wire_command command = {
		.opcode = reserving->number ? RBLK_OP_RESERVE : RBLK_OP_RESERVATIONS,
		.flags = reserving->flags,
		.volume = rblk_to_le32(reserving->volume->handle),
		.argument = rblk_to_le64(reserving->number),
	};

	if (reserving->volume->gone)
		return -ENODEV;
	/* It may last as long as storage: one tag is left for KEEPALIVE. */
	if (reserving->volume->late_ns ||
	    reserving->volume->session->queues[0].tags.taken_reserved >= RBLK_RESERVED_TAGS - 1)
		return -EAGAIN;
	if (reserving->number)
		return ini_control_start(reserving->volume->session, &command, &reserving->payload,
					 sizeof(reserving->payload), 0, reserving_answered,
					 reserving, NULL);
	return ini_control_start(reserving->volume->session, &command, NULL, 0, INI_REPORT_BYTES,
				 reserving_answered, reserving, &reserving->report);
}

static void reserving_again(struct ini_again *again)
{
	struct ini_reserving *reserving = (struct ini_reserving *)again;
	struct rblk_session *session = reserving->volume->session;
	const struct rblk_result lost = {.error = -ECONNRESET};
	int err = reserving_send(reserving);

	if (err == -ENODEV)
		reserving_finish(reserving, err);
	else if (err && !ini_control_again(session, again, &lost))
		reserving_finish(reserving, session->failure.final);
}

/* Takes a copy of what the caller has filled in. 0: `done` will be called. */
static int reserving_start(struct rblk_volume *volume, const struct ini_reserving *wanted)
{
	struct ini_reserving *reserving;
	int err;

	if (volume->changing || volume->refreshing)
		return -EBUSY;
	err = ini_control_ready(volume->session);
	if (err)
		return err;
	reserving = malloc(sizeof(*reserving));
	if (!reserving)
		return -ENOMEM;
	*reserving = *wanted;
	reserving->again.run = reserving_again;
	reserving->volume = volume;
	err = reserving_send(reserving);
	if (err)
		free(reserving);
	else
		volume->inflight++;
	return err;
}

/* -- the API ----------------------------------------------------------------------------------- */

int rblk_reserve_start(struct rblk_volume *volume, const struct rblk_pr_request *request,
		       rblk_volume_callback done, void *arg)
{
	struct rblk_session *session = volume->session;
	struct ini_operation *operation =
		&session->calls.operations[(session->calls.operation + 1) % RBLK_OPERATIONS_MAX];
	struct ini_reserving wanted = {.done = done, .arg = arg, .number = session->calls.operation + 1};
	int err;

	if (!done || !request || request->size < REQUEST_BYTES_MIN)
		return -EINVAL;
	if (request->size > sizeof(*request))
		return -E2BIG;
	wanted.payload.key = rblk_to_le64(request->key);
	wanted.payload.new_key = rblk_to_le64(request->new_key);
	wanted.payload.other_key = rblk_to_le64(request->other_key);
	wanted.payload.action = (u8)request->action;
	wanted.payload.type = (u8)request->type;
	wanted.payload.flags = (u8)request->flags;
	if ((u32)request->action > UINT8_MAX || (u32)request->type > UINT8_MAX ||
	    request->flags > UINT8_MAX ||
	    rblk_check_reservation(&wanted.payload, sizeof(wanted.payload)))
		return -EINVAL;
	if (operation->volume)
		return -EAGAIN;
	err = reserving_start(volume, &wanted);
	if (err)
		return err;
	operation->volume = volume;
	session->calls.operation = wanted.number;
	return 0;
}

int rblk_reservations_start(struct rblk_volume *volume, struct rblk_pr_state *state,
			    size_t state_bytes, struct rblk_pr_registrant *registrants,
			    unsigned int max, rblk_volume_callback done, void *arg)
{
	const struct ini_reserving wanted = {.done = done,
					     .arg = arg,
					     .state = state,
					     .state_bytes = state_bytes,
					     .registrants = registrants,
					     .max = max};

	if (!done || !state || state_bytes < STATE_BYTES_MIN || (max && !registrants))
		return -EINVAL;
	return reserving_start(volume, &wanted);
}
