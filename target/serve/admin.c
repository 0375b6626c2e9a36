/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Session commands. Their reports come from a pool of their own, so that I/O that has taken all
 * data memory cannot keep a session from OPEN, CLOSE, FENCE or KEEPALIVE.
 */
#include "target/serve/session_command.h"

#include <string.h>
#include "proto/core/env.h"
#include "proto/wire/wire_check.h"
#include "target/base/daemon_event.h"
#include "target/serve/authorize.h"
#include "target/serve/event.h"
#include "target/serve/handle.h"
#include "target/serve/queue.h"
#include "target/serve/remote_queue.h"
#include "target/serve/rights.h"
#include "target/serve/sessions.h"

/* -- the commands ------------------------------------------------------------------------------ */

static enum rblk_status admin_identify(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	const struct rblk_wire_identify *identify = (const void *)arguments->capsule;
	struct tgt_session *session = tgt_session_of(request);

	if (rblk_check_identify(arguments->capsule, arguments->capsule_bytes))
		return RBLK_E_INVALID;
	if (session->named && !memcmp(session->initiator, identify->initiator, sizeof(session->initiator)))
		return RBLK_OK;
	if (!tgt_authorize_name(session, request, identify->initiator))
		return RBLK_E_DENIED;
	/* Each new name needs a look-up for every open volume, on every reactor: one per turn is
	 * enough. */
	if (session->named_ns == request->io_queue->loop->now_ns)
		return RBLK_E_BUSY;
	if (!tgt_remotes_name(session, identify->initiator))
		return RBLK_E_NO_RESOURCES;
	/* The validator has found the terminating zero. */
	tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_SESSION_NAMED,
							  .initiator = identify->initiator,
							  .address = session->peer},
			 &request->io_queue->loop->chat_limit, TGT_LOG_INFO,
			 "session %u [%s]: initiator %s, %.63s", session->number, session->peer,
			 identify->initiator, identify->software);
	tgt_request_complete(request, RBLK_OK);
	session->named_ns = request->io_queue->loop->now_ns;
	/* Last: these may close this queue. */
	tgt_rights_name(session, identify->initiator);
	tgt_authorize_again(session);
	return TGT_UNANSWERED;
}

static enum rblk_status admin_list(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	uint32_t max = request->length / (uint32_t)sizeof(struct rblk_wire_volume);
	struct tgt_session *session = tgt_session_of(request);
	struct tgt_volume *volumes[RBLK_LIST_MAX];
	struct rblk_wire_volume *report;
	unsigned int count, total;

	/* Each looks at all volumes. */
	if (session->listed_ns == request->io_queue->loop->now_ns)
		return RBLK_E_BUSY;
	session->listed_ns = request->io_queue->loop->now_ns;
	if (max > RBLK_LIST_MAX)
		max = RBLK_LIST_MAX;
	/* The longest report: the list is only read with this memory in hand. */
	report = tgt_request_report_alloc(request, max * (uint32_t)sizeof(*report));
	if (!report)
		return RBLK_E_BUSY;
	count = tgt_authorize_list(session, (unsigned int)request->lba, volumes, max, &total);
	for (unsigned int i = 0; i < count; i++) {
		tgt_volume_describe(volumes[i], request->io_queue->features, request->io_queue->loop->max_io_bytes,
				    TGT_CAPSULE_BYTES, &report[i]);
		tgt_volume_put(volumes[i]);
	}
	request->result = (uint64_t)total << 32 | count;
	if (!count)
		tgt_request_free_data(request);
	return RBLK_OK;
}

/* The handle closes all the same. */
static bool close_leave(struct tgt_request *request)
{
	struct tgt_handle *handle = request->held;

	handle->closer = NULL;
	return true;
}

/*
 * Closes the handle that is in the slot, and is answered when the last command that uses it has ended; so is one that is
 * sent again, since the connection of the first was lost.
 */
static enum rblk_status admin_close(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	struct tgt_handle *handle = tgt_handle_at(tgt_session_of(request), arguments->volume);
	enum rblk_status status = !handle ? RBLK_OK : handle->closing ? RBLK_E_BUSY : tgt_handle_close(handle);

	tgt_open_drop(tgt_session_of(request), arguments->volume);
	if (status != RBLK_E_BUSY || handle->closer)
		return status;
	if (tgt_request_hold(request, close_leave, handle))
		handle->closer = request;
	return TGT_UNANSWERED;
}

/* lba: the sequence number of the command. */
static enum rblk_status admin_abort(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	struct tgt_io_queue *io_queue = request->io_queue;

	request->result = RBLK_ABORT_UNKNOWN;
	for (uint16_t tag = 0; tag < io_queue->tags; tag++) {
		struct tgt_request *victim = &io_queue->requests[tag];

		if (victim != request && victim->state != TGT_REQUEST_FREE &&
		    victim->sequence == (uint32_t)request->lba) {
			request->result = tgt_request_end_early(victim, RBLK_E_ABORTED) ? RBLK_ABORT_DROPPED : RBLK_ABORT_RUNS;
			break;
		}
	}
	return RBLK_OK;
}

static enum rblk_status admin_keepalive(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	/* On another queue it may name an event of queue 0's former incarnation. */
	if (request->io_queue->index == 0)
		tgt_event_seen(tgt_session_of(request), (uint32_t)request->argument);
	return RBLK_OK;
}

/* The difference of two PINGs is a measurement's cost here: one thread serves a session. */
static enum rblk_status admin_ping(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	request->result = env_thread_cpu_ns();
	return RBLK_OK;
}

/* -- which is which ---------------------------------------------------------------------------- */

static const struct admin_command {
	tgt_session_command *begin;
	bool queue_0;  /* it concerns the session as a whole: on queue 0 only */
	bool unproven; /* also before the queue has proven its session's name */
} commands[RBLK_OP_MAX] = {
	[RBLK_OP_IDENTIFY] = {.begin = admin_identify, .queue_0 = true},
	[RBLK_OP_AUTHENTICATE] = {.begin = tgt_authenticate_begin, .unproven = true},
	[RBLK_OP_LIST] = {.begin = admin_list, .queue_0 = true},
	[RBLK_OP_OPEN] = {.begin = tgt_open_begin, .queue_0 = true},
	[RBLK_OP_CLOSE] = {.begin = admin_close, .queue_0 = true},
	[RBLK_OP_FENCE] = {.begin = tgt_fence_begin},
	[RBLK_OP_ABORT] = {.begin = admin_abort},
	[RBLK_OP_KEEPALIVE] = {.begin = admin_keepalive, .unproven = true},
	[RBLK_OP_PING] = {.begin = admin_ping, .unproven = true},
	[RBLK_OP_RESERVE] = {.begin = tgt_reserve_begin},
	[RBLK_OP_RESERVATIONS] = {.begin = tgt_reserve_report},
};

static void admin_begin(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	static const struct admin_command none;
	const struct admin_command *command = request->opcode < RBLK_OP_MAX ? &commands[request->opcode] : &none;
	enum rblk_status status = RBLK_E_UNSUPPORTED;

	if (!tgt_queue_of(request->io_queue)->proven && !command->unproven) {
		request->result = RBLK_DENIED_UNPROVEN;
		status = RBLK_E_DENIED;
	} else if (command->queue_0 && request->io_queue->index != 0) {
		status = RBLK_E_INVALID;
	} else if (command->begin) {
		status = command->begin(request, arguments);
	}
	tgt_command_answer(request, status);
}

static struct tgt_access *admin_find(struct tgt_io_queue *io_queue, uint32_t id, enum rblk_status *status)
{
	const struct tgt_queue *queue = tgt_queue_of(io_queue);
	struct tgt_handle *handle = NULL;

	*status = RBLK_E_DENIED;
	if (queue->proven)
		handle = tgt_handle_use(queue->session, id, status);
	return handle ? &handle->access : NULL;
}

static void admin_event(struct tgt_io_queue *io_queue, struct rblk_wire_completion *event)
{
	tgt_event_next(tgt_queue_of(io_queue)->session, event);
}

static void admin_lost(struct tgt_io_queue *io_queue)
{
	tgt_session_volume_lost(tgt_queue_of(io_queue)->session);
}

const struct tgt_io_queue_ops tgt_admin_io_ops = {
	.begin = admin_begin,
	.find = admin_find,
	.event = admin_event,
	.close = tgt_queue_io_close,
	.lost = admin_lost,
	.over = tgt_queue_io_over,
};
