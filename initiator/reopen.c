/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns how a session's volumes are opened again in a new epoch, see reopen.h. Called by drive.c, control.c and timer.c. */
#include "initiator/reopen.h"

#include <stdlib.h>
#include "initiator/session.h"
#include "proto/wire/wire_names.h"

#define MS_NS 1000000ull
/* Between OPENs of a late volume: the first pause, and how often it doubles. */
#define LATE_NS (100 * MS_NS)
#define LATE_DOUBLINGS_MAX 4

/* An OPEN, of all volumes one after the other, or of a late one. */
struct ini_reopen {
	struct rblk_volume *volume; /* NULL: it was freed, with its session over */
	const void *report;
	bool late;
};

static void reopen_next(struct rblk_session *session, struct rblk_volume *volume);

/* Time, or the target's operator, may resolve these errors. */
static bool may_pass(u16 status)
{
	return status == RBLK_E_BUSY || status == RBLK_E_NO_RESOURCES || status == RBLK_E_DRAINING;
}

/*
 * The volume was open at another target, which its portal may lead to again: what this one says of it is not the end of
 * the volume. With a single portal it is, but for F10: an address may move to and fro.
 */
static bool may_be_elsewhere(const struct rblk_volume *volume, int err)
{
	const struct rblk_session *session = volume->session;

	return err == -EXDEV ||
	       (session->core.options.portals > 1 &&
		memcmp(volume->domain.instance, session->core.instance, sizeof(volume->domain.instance)));
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
	u64 now_ns = volume->session->now_ns;

	if (!volume->late_ns) {
		volume->late_ns = now_ns;
		volume->tries = 0;
	}
	volume->again_ns = now_ns + (LATE_NS << volume->tries);
	if (volume->tries < LATE_DOUBLINGS_MAX)
		volume->tries++;
}

static u64 limit_ns(const struct rblk_volume *volume, u32 limit_ms)
{
	return limit_ms ? volume->late_ns + limit_ms * MS_NS : UINT64_MAX;
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

static int reopen_start(struct rblk_volume *volume, bool late);

/* It waits for another OPEN. */
static bool is_waiting(const struct rblk_volume *volume)
{
	return volume->late_ns && !volume->reopen && !volume->changing;
}

void ini_reopen_run(struct rblk_session *session)
{
	if (session->core.state != CORE_SESSION_LIVE)
		return;
	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next) {
		if (!is_waiting(volume))
			continue;
		if (session->now_ns >= limit_ns(volume, session->options.give_up_ms))
			volume_gone(volume); /* the words are why it was refused last */
		else if (session->now_ns >= volume->again_ns && reopen_start(volume, true))
			volume_late(volume); /* no tag is free */
	}
}

u64 ini_reopen_due_ns(const struct rblk_session *session)
{
	u64 due_ns = UINT64_MAX;

	if (session->core.state != CORE_SESSION_LIVE)
		return due_ns;
	for (const struct rblk_volume *volume = session->volumes; volume; volume = volume->next) {
		u64 fail_ns = limit_ns(volume, session->options.fail_fast_ms);

		if (is_waiting(volume) && volume->again_ns < due_ns)
			due_ns = volume->again_ns;
		if (is_waiting(volume) && fail_ns < due_ns && fail_ns > session->now_ns)
			due_ns = fail_ns;
	}
	return due_ns;
}

/* -- opening again ----------------------------------------------------------------------------- */

/* Applies the answer to the volume. -EXDEV: it is not at this target. */
static int reopen_answered(struct rblk_volume *volume, const void *report, const struct rblk_result *result)
{
	u64 bytes = volume->info.bytes;
	char name[RBLK_NAME_BYTES];
	int err = result->error;
	u32 handle = 0;

	volume->handle = 0; /* the old one went with its epoch, and its number may be another volume's by now */
	memcpy(name, volume->info.name, sizeof(name));
	if (result->status == RBLK_E_DENIED)
		volume->denied = (u32)result->value;
	if (result->status)
		ini_session_note(volume->session, "%s: volume \"%s\": %s", ini_session_peer(volume->session), name,
				 rblk_refusal_text(result->status, result->value));
	if (!err)
		err = ini_volume_take(volume, name, report, false, &handle);
	if (!err) {
		ini_volume_adopt(volume, handle);
		/* The target's event ended with the old handle. */
		if (volume->info.bytes != bytes)
			volume->events |= 1u << RBLK_SESSION_EVENT_VOLUME_CHANGED;
		return 0;
	}
	if (may_pass(result->status)) {
		volume_late(volume);
		return 0;
	}
	if (may_be_elsewhere(volume, err)) {
		volume->denied = 0;
		return -EXDEV;
	}
	volume_gone(volume);
	return 0;
}

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
	if (result->error && !result->status)
		return; /* the connection is lost: the next one begins again */
	if (reopen_answered(volume, reopen.report, result)) {
		ini_portal_failed(&session->queues[0], -EXDEV);
		core_session_misled(&session->core, session->now_ns);
	} else if (!reopen.late) {
		reopen_next(session, volume->next);
	}
}

bool ini_reopen_is(rblk_callback done)
{
	return done == reopen_done;
}

static int reopen_start(struct rblk_volume *volume, bool late)
{
	struct ini_reopen *reopen = malloc(sizeof(*reopen));
	int err;

	if (!reopen)
		return -ENOMEM;
	*reopen = (struct ini_reopen){.volume = volume, .late = late};
	err = ini_volume_send_open(volume, volume->info.name, reopen_done, reopen, &reopen->report);
	if (err)
		free(reopen);
	else
		volume->reopen = &reopen->volume;
	return err;
}

static void reopen_next(struct rblk_session *session, struct rblk_volume *volume)
{
	/* In this epoch some may be open: the connection was lost before all were. */
	while (volume && (volume->gone || volume->changing || volume->epoch == session->core.epoch))
		volume = volume->next;
	if (!volume)
		core_session_named(&session->core, true, session->now_ns);
	else if (reopen_start(volume, false))
		core_session_named(&session->core, false, session->now_ns);
}

void ini_reopen(struct rblk_session *session)
{
	reopen_next(session, session->volumes);
}
