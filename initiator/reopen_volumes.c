/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns how a session is named in a new epoch, and its volumes are opened again, see reopen_volumes.h. Called by drive.c and timer.c. */
#include "initiator/reopen_volumes.h"

#include <stdio.h>
#include <stdlib.h>
#include "initiator/session.h"
#include "proto/wire/wire_names.h"

#define MS_NS 1000000ull
/* Between OPENs of a late volume: the first pause, and how often it doubles. */
#define LATE_NS (100 * MS_NS)
#define LATE_DOUBLINGS_MAX 4

/* OPENs at a time: KEEPALIVE needs a reserved tag, and the program's session commands do. */
#define OPENS_MAX 2u

/* An outstanding OPEN. */
struct ini_reopen {
	struct rblk_volume *volume; /* NULL: it was freed, with its session over */
	const void *report;
	u64 epoch;
};

/* Time, or the target's operator, may resolve these errors. */
static bool may_pass(u16 status)
{
	return status == RBLK_E_BUSY || status == RBLK_E_NO_RESOURCES || status == RBLK_E_DRAINING || status == RBLK_E_GONE;
}

/* With a single portal a refusal is the end of the volume, but for F10: an address may move to and fro. */
static bool may_be_elsewhere(const struct rblk_volume *volume, int err, u16 status)
{
	const struct core_session *core = &volume->session->core;

	return err == -EXDEV || core_session_may_be_elsewhere(core, volume->domain.instance, status);
}

/* -- late volumes ------------------------------------------------------------------------------ */

static void volume_gone(struct rblk_volume *volume)
{
	volume->gone = true;
	volume->late_ns = 0;
	volume->events |= 1u << RBLK_SESSION_EVENT_VOLUME_REMOVED;
}

static void volume_late(struct rblk_volume *volume)
{
	volume->again_ns = volume->session->now_ns + (LATE_NS << volume->tries);
	if (volume->tries < LATE_DOUBLINGS_MAX)
		volume->tries++;
}

static u64 limit_ns(const struct rblk_volume *volume, u32 limit_ms)
{
	return limit_ms ? volume->late_ns + limit_ms * MS_NS : UINT64_MAX;
}

static bool is_given_up(const struct rblk_volume *volume)
{
	return volume->session->now_ns >= limit_ns(volume, volume->session->options.give_up_ms);
}

int ini_reopen_ready(const struct rblk_volume *volume)
{
	const struct rblk_session *session = volume->session;

	if (volume->gone)
		return -ENODEV;
	if (!volume->late_ns)
		return 0;
	return session->now_ns >= limit_ns(volume, session->options.fail_fast_ms) ? -EIO : -EBUSY;
}

/* -- opening again ----------------------------------------------------------------------------- */

/* Applies the answer to the volume. -EXDEV: it is not at this target. */
static int reopen_answered(struct rblk_volume *volume, const void *report, const struct rblk_result *result)
{
	u64 bytes = volume->info.bytes;
	char name[RBLK_NAME_BYTES];
	int err = result->error;

	memcpy(name, volume->info.name, sizeof(name));
	if (result->status == RBLK_E_DENIED)
		volume->denied = (u32)result->value;
	if (result->status)
		ini_session_note(volume->session, "%s: volume \"%s\": %s", ini_session_peer(volume->session), name,
				 rblk_refusal_text(result->status, result->value));
	if (!err)
		err = ini_volume_take(volume, name, report);
	if (!err) {
		/* The target's event ended with the old epoch. */
		if (volume->info.bytes != bytes)
			volume->events |= 1u << RBLK_SESSION_EVENT_VOLUME_CHANGED;
		return 0;
	}
	/* It was opened before this connection, and another has its name by now. */
	if (result->status == RBLK_E_GONE)
		ini_volume_number(volume);
	if (may_pass(result->status)) {
		volume_late(volume);
		return 0;
	}
	if (may_be_elsewhere(volume, err, result->status) && !is_given_up(volume)) {
		volume->denied = 0;
		return -EXDEV;
	}
	volume_gone(volume);
	return 0;
}

static void go_on(struct rblk_session *session);

static void reopen_done(void *arg, const struct rblk_result *result)
{
	struct ini_reopen reopen = *(struct ini_reopen *)arg;
	struct rblk_volume *volume = reopen.volume;
	struct rblk_session *session;

	free(arg);
	if (!volume)
		return;
	session = volume->session;
	volume->reopen = NULL;
	/* The connection is lost, or left by what another answer said: the next one begins again. */
	if ((result->error && !result->status) || reopen.epoch != session->core.epoch)
		return;
	if (reopen_answered(volume, reopen.report, result)) {
		ini_portal_failed(&session->queues[0], -EXDEV);
		core_session_misled(&session->core, session->now_ns);
	} else {
		go_on(session);
	}
}

bool ini_reopen_is(rblk_callback done)
{
	return done == reopen_done;
}

static int reopen_start(struct rblk_volume *volume)
{
	struct ini_reopen *reopen = malloc(sizeof(*reopen));
	int err;

	/* If it does not start, it is not refused: the pause does not grow. */
	volume->again_ns = volume->session->now_ns + LATE_NS;
	if (!reopen)
		return -ENOMEM;
	*reopen = (struct ini_reopen){.volume = volume, .epoch = volume->session->core.epoch};
	err = ini_volume_send_open(volume, volume->info.name, reopen_done, reopen, &reopen->report);
	if (err)
		free(reopen);
	else
		volume->reopen = &reopen->volume;
	return err;
}

/* -- in turn ----------------------------------------------------------------------------------- */

/* It waits for another OPEN. One that is being refreshed is opened by that. */
static bool is_waiting(const struct rblk_volume *volume)
{
	return volume->late_ns && !volume->reopen && !volume->changing && !volume->refreshing;
}

/* One more OPEN leaves a tag for KEEPALIVE. */
static bool may_open(const struct rblk_session *session)
{
	u32 count = 0;

	for (const struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		count += volume->reopen != NULL;
	return count < OPENS_MAX && session->queues[0].tags.taken_reserved < RBLK_RESERVED_TAGS - 1;
}

/* The one that is due first; NULL: none waits. */
static struct rblk_volume *first_waiting(const struct rblk_session *session)
{
	struct rblk_volume *first = NULL;

	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		if (is_waiting(volume) && (!first || volume->again_ns < first->again_ns))
			first = volume;
	return first;
}

static int open_due(struct rblk_session *session)
{
	struct rblk_volume *volume;
	int err = 0;

	while (!err && may_open(session) && (volume = first_waiting(session)) && volume->again_ns <= session->now_ns)
		err = reopen_start(volume);
	return err;
}

/* The first of them that is open says that the session's volumes are at this target (F10); or no answer is to come. */
static bool is_known(const struct rblk_session *session)
{
	bool unanswered = false;

	for (const struct rblk_volume *volume = session->volumes; volume; volume = volume->next) {
		if (!volume->gone && volume->epoch == session->core.epoch)
			return true;
		unanswered |= (is_waiting(volume) || volume->reopen) && !volume->tries;
	}
	return !unanswered;
}

/* After an answer: the next ones are asked for. */
static void go_on(struct rblk_session *session)
{
	int err = open_due(session);

	if (!session->core.named && (err || is_known(session)))
		core_session_named(&session->core, !err, session->now_ns);
}

static void reopen_all(struct rblk_session *session)
{
	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next) {
		/* In this epoch some may be open: the connection was lost before the session was named. */
		if (volume->epoch == session->core.epoch)
			continue;
		if (volume->gone || volume->changing)
			continue;
		if (!volume->late_ns)
			volume->late_ns = session->now_ns;
		volume->again_ns = session->now_ns;
		volume->tries = 0;
	}
	go_on(session);
}

/* -- IDENTIFY ---------------------------------------------------------------------------------- */

static void identify_done(void *arg, const struct rblk_result *result)
{
	struct rblk_session *session = arg;

	if (session->core.named || (result->error && !result->status))
		return; /* too late, or the connection is lost: the next one sends IDENTIFY */
	if (result->error)
		ini_session_fail(session, result->error, "%s: login as \"%s\" refused: %s",
				 ini_session_peer(session), session->identity.name,
				 rblk_refusal_text(result->status, result->value));
	else
		reopen_all(session);
}

int ini_reopen(struct rblk_session *session)
{
	struct rblk_wire_command command = { .opcode = RBLK_OP_IDENTIFY };
	struct rblk_wire_identify identify;

	memset(&identify, 0, sizeof(identify));
	memcpy(identify.initiator, session->identity.name, sizeof(identify.initiator));
	snprintf(identify.software, sizeof(identify.software), "librblk %s", RBLK_VERSION);
	return ini_control_start(session, &command, &identify, sizeof(identify), 0, identify_done,
				 session, NULL);
}

/* -- in time ----------------------------------------------------------------------------------- */

void ini_reopen_run(struct rblk_session *session)
{
	if (session->core.state != CORE_SESSION_LIVE)
		return;
	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		if (is_waiting(volume) && volume->tries && is_given_up(volume))
			volume_gone(volume); /* the words are why it was refused last */
	open_due(session);
}

u64 ini_reopen_due_ns(const struct rblk_session *session)
{
	const struct rblk_volume *first = may_open(session) ? first_waiting(session) : NULL;
	u64 due_ns = first ? first->again_ns : UINT64_MAX;

	if (session->core.state != CORE_SESSION_LIVE)
		return UINT64_MAX;
	for (const struct rblk_volume *volume = session->volumes; volume; volume = volume->next) {
		u64 fail_ns = limit_ns(volume, session->options.fail_fast_ms);
		u64 end_ns = limit_ns(volume, session->options.give_up_ms);

		if (volume->late_ns && fail_ns < due_ns && fail_ns > session->now_ns)
			due_ns = fail_ns;
		if (is_waiting(volume) && volume->tries && end_ns < due_ns)
			due_ns = end_ns;
	}
	return due_ns;
}
