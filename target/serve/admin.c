/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Session commands. Their reports come from a pool of their own, so that I/O that has taken all
 * data memory cannot keep a session from OPEN, CLOSE, FENCE or KEEPALIVE.
 */
#include "target/serve/admin.h"

#include <string.h>
#include "proto/core/env.h"
#include "proto/wire/wire_check.h"
#include "target/base/daemon_event.h"
#include "target/io/request.h"
#include "target/serve/admit.h"
#include "target/serve/authenticate.h"
#include "target/serve/event.h"
#include "target/serve/fence.h"
#include "target/serve/handle.h"
#include "target/serve/open.h"
#include "target/serve/queue.h"
#include "target/serve/remote_queue.h"
#include "target/serve/reserve.h"
#include "target/serve/rights.h"

/* A command's payload and the handle that it names. */
struct admin_arguments {
	const char *capsule; /* NULL: none */
	uint32_t capsule_bytes;
	uint32_t volume;
};

static struct tgt_session *admin_session(const struct tgt_request *request)
{
	return tgt_queue_of(request->io_queue)->session;
}

/* -- the commands ------------------------------------------------------------------------------ */

static void admin_identify(struct tgt_request *request, const struct admin_arguments *arguments)
{
	const struct rblk_wire_identify *identify = (const void *)arguments->capsule;
	struct tgt_session *session = admin_session(request);

	if (rblk_check_identify(arguments->capsule, arguments->capsule_bytes)) {
		tgt_request_complete(request, RBLK_E_INVALID);
		return;
	}
	if (session->named &&
	    !memcmp(session->initiator, identify->initiator, sizeof(session->initiator))) {
		tgt_request_complete(request, RBLK_OK);
		return;
	}
	if (!tgt_admit_name(session, request, identify->initiator))
		return;
	/* Each new name needs a look-up for every open volume, on every reactor: one per turn is
	 * enough. */
	if (session->named_ns == request->io_queue->loop->now_ns) {
		tgt_request_complete(request, RBLK_E_BUSY);
		return;
	}
	if (!tgt_remotes_name(session, identify->initiator, tgt_rights_name)) {
		tgt_request_complete(request, RBLK_E_NO_RESOURCES);
		return;
	}
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
	tgt_admit_again(session);
}

static void admin_authenticate(struct tgt_request *request, const struct admin_arguments *arguments)
{
	tgt_authenticate_begin(request, arguments->capsule, arguments->capsule_bytes);
}

static void admin_list(struct tgt_request *request, const struct admin_arguments *arguments)
{
	uint32_t max = request->length / (uint32_t)sizeof(struct rblk_wire_volume);
	struct tgt_reactor *reactor = admin_session(request)->reactor;
	struct tgt_volume *volumes[RBLK_LIST_MAX];
	struct rblk_wire_volume *report;
	unsigned int count, total;

	/* Each looks at all volumes. */
	if (admin_session(request)->listed_ns == request->io_queue->loop->now_ns) {
		tgt_request_complete(request, RBLK_E_BUSY);
		return;
	}
	admin_session(request)->listed_ns = request->io_queue->loop->now_ns;
	if (max > RBLK_LIST_MAX)
		max = RBLK_LIST_MAX;
	/* The longest report: the list is only read with this memory in hand. */
	report = tgt_request_report_alloc(request, max * (uint32_t)sizeof(*report));
	if (!report)
		return;
	count = tgt_admit_list(admin_session(request), (unsigned int)request->lba, volumes, max,
			       &total);
	for (unsigned int i = 0; i < count; i++) {
		tgt_volume_describe(volumes[i], reactor->loop.max_io_bytes, TGT_CAPSULE_BYTES,
				    &report[i]);
		tgt_volume_put(volumes[i]);
	}
	request->result = (uint64_t)total << 32 | count;
	if (count)
		tgt_request_report(request);
	else
		tgt_request_complete(request, RBLK_OK);
}

static void admin_open(struct tgt_request *request, const struct admin_arguments *arguments)
{
	tgt_open_begin(admin_session(request), request, arguments->capsule,
		       arguments->capsule_bytes);
}

/* The handle closes all the same. */
static bool close_leave(struct tgt_request *request)
{
	struct tgt_handle *handle = request->held;

	handle->closer = NULL;
	return true;
}

/* Answered when the last command that uses the handle has ended. */
static void admin_close(struct tgt_request *request, const struct admin_arguments *arguments)
{
	struct tgt_handle *handle = tgt_handle_find(admin_session(request), arguments->volume);
	enum rblk_status status;

	if (!handle) {
		tgt_request_complete(request, RBLK_E_NO_VOLUME);
		return;
	}
	status = tgt_handle_close(handle);
	if (status != RBLK_E_BUSY)
		tgt_request_complete(request, status);
	else if (tgt_request_hold(request, close_leave, handle))
		handle->closer = request;
}

static void admin_fence(struct tgt_request *request, const struct admin_arguments *arguments)
{
	tgt_fence_begin(admin_session(request), request, arguments->volume);
}

/* lba: the sequence number of the command. */
static void admin_abort(struct tgt_request *request, const struct admin_arguments *arguments)
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
	tgt_request_complete(request, RBLK_OK);
}

static void admin_keepalive(struct tgt_request *request, const struct admin_arguments *arguments)
{
	/* On another queue it may name an event of queue 0's former incarnation. */
	if (request->io_queue->index == 0)
		tgt_event_seen(admin_session(request), (uint32_t)request->argument);
	tgt_request_complete(request, RBLK_OK);
}

static void admin_reserve(struct tgt_request *request, const struct admin_arguments *arguments)
{
	tgt_reserve_begin(admin_session(request), request, arguments->capsule,
			  arguments->capsule_bytes, arguments->volume);
}

static void admin_reservations(struct tgt_request *request, const struct admin_arguments *arguments)
{
	tgt_reserve_report(admin_session(request), request, arguments->volume);
}

/* The difference of two PINGs is a measurement's cost here: one thread serves a session. */
static void admin_ping(struct tgt_request *request, const struct admin_arguments *arguments)
{
	request->result = env_thread_cpu_ns();
	tgt_request_complete(request, RBLK_OK);
}

/* -- which is which ---------------------------------------------------------------------------- */

static const struct admin_command {
	void (*begin)(struct tgt_request *request, const struct admin_arguments *arguments);
	bool queue_0; /* it concerns the session as a whole: on queue 0 only */
} commands[RBLK_OP_MAX] = {
	[RBLK_OP_IDENTIFY] = {admin_identify, true},
	[RBLK_OP_AUTHENTICATE] = {admin_authenticate, false},
	[RBLK_OP_LIST] = {admin_list, true},
	[RBLK_OP_OPEN] = {admin_open, true},
	[RBLK_OP_CLOSE] = {admin_close, true},
	[RBLK_OP_FENCE] = {admin_fence, false},
	[RBLK_OP_ABORT] = {admin_abort, false},
	[RBLK_OP_KEEPALIVE] = {admin_keepalive, false},
	[RBLK_OP_PING] = {admin_ping, false},
	[RBLK_OP_RESERVE] = {admin_reserve, false},
	[RBLK_OP_RESERVATIONS] = {admin_reservations, false},
};

void tgt_admin_begin(struct tgt_request *request, const char *capsule, uint32_t capsule_bytes,
		     uint32_t volume)
{
	const struct admin_arguments arguments = {capsule, capsule_bytes, volume};
	const struct admin_command *command;

	if (request->opcode >= RBLK_OP_MAX) {
		tgt_request_complete(request, RBLK_E_UNSUPPORTED);
		return;
	}
	command = &commands[request->opcode];
	if (command->queue_0 && request->io_queue->index != 0)
		tgt_request_complete(request, RBLK_E_INVALID);
	else if (!command->begin)
		tgt_request_complete(request, RBLK_E_UNSUPPORTED);
	else
		command->begin(request, &arguments);
}

static struct tgt_access *admin_find(struct tgt_io_queue *io_queue, uint32_t id, enum rblk_status *status)
{
	struct tgt_handle *handle = tgt_handle_use(tgt_queue_of(io_queue)->session, id, status);

	return handle ? &handle->access : NULL;
}

static void admin_event(struct tgt_io_queue *io_queue, struct rblk_wire_completion *event)
{
	tgt_event_next(tgt_queue_of(io_queue)->session, event);
}

const struct tgt_io_queue_ops tgt_admin_io_ops = {
	.begin = tgt_admin_begin,
	.find = admin_find,
	.event = admin_event,
	.close = tgt_queue_io_close,
	.over = tgt_queue_io_over,
};
