/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a session's open volumes: OPEN and CLOSE, and what the target reports, checked and converted
 * for the API. Nothing here waits; sync.c has the calls that do.
 */
#include "initiator/volume.h"

#include <stdlib.h>
#include "initiator/durable.h"
#include "initiator/publish.h"
#include "initiator/session.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

void ini_volume_info(const struct rblk_session *session, const struct rblk_wire_volume *wire,
		     struct rblk_volume_info *info)
{
	u32 flags = rblk_le32(wire->flags);
	u32 block_bytes = rblk_le32(wire->block_bytes);

	*info = (struct rblk_volume_info){
		.size = sizeof(*info),
		.bytes = rblk_le64(wire->blocks) * block_bytes,
		.block_bytes = block_bytes,
		.physical_bytes = rblk_le32(wire->physical_bytes),
		.optimal_bytes = rblk_le32(wire->optimal_bytes),
		.max_io_bytes = rblk_le32(wire->max_io_bytes),
		.max_capsule_bytes = rblk_le32(wire->max_capsule_bytes),
		.discard_granularity_bytes = rblk_le32(wire->discard_granularity_bytes),
		.max_discard_bytes = (u64)rblk_le32(wire->max_discard_blocks) * block_bytes,
		.read_only = flags & RBLK_VOLUME_READ_ONLY,
		.can_flush = flags & RBLK_VOLUME_FLUSH,
		.can_fua = flags & RBLK_VOLUME_FUA,
		.can_discard = flags & RBLK_VOLUME_DISCARD,
		.can_write_zeroes = flags & RBLK_VOLUME_WRITE_ZEROES,
		.can_checksum = flags & RBLK_VOLUME_CHECKSUM,
		.volatile_cache = flags & RBLK_VOLUME_VOLATILE_CACHE,
		.rotational = flags & RBLK_VOLUME_ROTATIONAL,
		.can_compare_and_write = flags & RBLK_VOLUME_COMPARE_AND_WRITE,
		.can_extents = session->queues[0].features & RBLK_FEATURE_EXTENTS,
	};
	static_assert(sizeof(info->name) == RBLK_NAME_BYTES, "a name fits");
	memcpy(info->name, wire->name, sizeof(info->name));
	memcpy(info->uuid, wire->uuid, sizeof(info->uuid));
	memcpy(info->cache_epoch, wire->cache_epoch, sizeof(info->cache_epoch));
}

/* -- opening ----------------------------------------------------------------------------------- */

/*
 * An outstanding OPEN, for a new volume or to refresh an open one. Then CLOSE follows: of the old
 * handle, or of the new one if commands with the old one are outstanding.
 */
struct ini_open {
	struct ini_again again;
	struct rblk_volume *volume;
	char name[RBLK_NAME_BYTES];
	bool fresh; /* not among the session's yet */
	u64 epoch;  /* that it was sent in */
	const void *report; /* where it arrives: ini_volume_take() copies it */
	u32 handle;	    /* that it says */
	rblk_volume_callback done;
	void *arg;
};

static void volume_free(struct rblk_volume *volume)
{
	ini_durable_leave(volume->session->durables, volume->durable, &volume->open, volume->loss_heard,
			  volume->info.can_flush);
	free(volume);
}

static struct rblk_volume *volume_alloc(struct rblk_session *session, u32 open_flags)
{
	struct rblk_volume *volume = calloc(1, sizeof(*volume));

	if (!volume)
		return NULL;
	volume->session = session;
	volume->open_flags = open_flags;
	volume->durable = ini_durable_alloc();
	if (volume->durable)
		return volume;
	free(volume);
	return NULL;
}

static void open_finish(struct ini_open *open, int error)
{
	struct rblk_volume *volume = open->volume;
	struct rblk_session *session = volume->session;
	rblk_volume_callback done = open->done;
	void *arg = open->arg;

	if (open->fresh)
		volume->changing = false;
	else
		volume->refreshing = false;
	if (open->fresh && error) {
		volume_free(volume);
		volume = NULL;
	} else if (open->fresh) {
		volume->next = session->volumes;
		session->volumes = volume;
		volume->counted = ini_publish_open(session->publish, volume->info.name);
	}
	free(open);
	session->events.told++;
	done(arg, volume, error);
}

/* The superfluous handle is closed, or is lost with the session. */
static void open_closed(void *arg, const struct rblk_result *result)
{
	/* An OPEN that is lost with its connection may leave a handle at the target, which ends
	 * with the session. */
	open_finish(arg, result->status ? result->error : 0);
}

int rblk_acknowledge(struct rblk_volume *volume)
{
	return ini_durable_acknowledge(volume->durable, &volume->open);
}

int ini_volume_take(struct rblk_volume *volume, const char name[RBLK_NAME_BYTES], const void *arrived, bool fresh,
		    u32 *handle)
{
	struct rblk_session *session = volume->session;
	struct rblk_wire_volume report;
	enum rblk_wire_error broken;

	memcpy(&report, arrived, sizeof(report));
	broken = rblk_check_volume(&report, sizeof(report), session->queues[0].features);
	if (!broken && (!report.handle || memcmp(report.name, name, RBLK_NAME_BYTES)))
		broken = RBLK_WIRE_VOLUME;
	if (broken) {
		ini_session_note(session, "%s: volume \"%s\": the target's report is wrong: %s",
				 ini_session_peer(session), name,
				 rblk_wire_error_text(broken));
		return -EPROTO;
	}
	if (!fresh && memcmp(report.uuid, volume->info.uuid, sizeof(report.uuid))) {
		ini_session_note(session, "%s: volume \"%s\" is another one now",
				 ini_session_peer(session), name);
		return -ENODEV;
	}
	if (volume->inflight && rblk_le32(report.block_bytes) != volume->info.block_bytes) {
		ini_session_note(session, "%s: volume \"%s\" has blocks of another size now",
				 ini_session_peer(session), name);
		return -ENODEV;
	}
	if (!core_domain_admits(&volume->domain, session->core.instance, report.fence_domain)) {
		ini_session_note(session, "%s: volume \"%s\": " CORE_DOMAIN_TEXT,
				 ini_session_peer(session), name);
		return -EXDEV;
	}
	core_domain_opened(&volume->domain, session->core.instance, report.fence_domain);
	*handle = rblk_le32(report.handle);
	ini_volume_info(session, &report, &volume->info);
	/* It is one of the session's from then on: its open may be told. */
	if (!volume->open.learnt)
		volume->durable = ini_durable_join(session->durables, volume->durable, report.uuid, &volume->open);
	ini_durable_learn(session->durables, volume->durable, &volume->open, report.cache_epoch);
	volume->block_shift = (u32)__builtin_ctz(volume->info.block_bytes);
	return 0;
}

void ini_volume_adopt(struct rblk_volume *volume, u32 handle)
{
	volume->handle = handle;
	volume->epoch = volume->session->core.epoch;
	volume->gone = false;
	volume->late_ns = 0;
	volume->denied = 0;
	core_durable_adopt(&volume->open, volume->info.volatile_cache);
	ini_tell_opened(volume);
}

/*
 * A refreshed volume has two handles. Outstanding commands, on any queue, keep the old one; the
 * target checks them against the new size. Returns the one to be closed, 0: none.
 */
static u32 choose_handle(struct rblk_volume *volume, u32 fresh)
{
	u32 old = volume->gone ? 0 : volume->handle;

	if (old && old != fresh && volume->inflight)
		return fresh;
	ini_volume_adopt(volume, fresh);
	return old == fresh ? 0 : old;
}

static int close_handle(struct rblk_session *session, u32 handle, rblk_callback done, void *arg)
{
	const struct rblk_wire_command command = {.opcode = RBLK_OP_CLOSE,
						  .volume = rblk_to_le32(handle)};

	return ini_control_start(session, &command, NULL, 0, 0, done, arg, NULL);
}

int ini_volume_send_close(struct rblk_volume *volume, rblk_callback done, void *arg)
{
	return close_handle(volume->session, volume->handle, done, arg);
}

static void open_done(void *arg, const struct rblk_result *result)
{
	const struct rblk_result lost = {.error = -ECONNRESET};
	struct ini_open *open = arg;
	struct rblk_volume *volume = open->volume;
	struct rblk_session *session = volume->session;
	bool read_only = volume->info.read_only;
	int err = result->error;
	u32 handle;

	/* In another epoch, its handle may be another volume's. */
	if (ini_control_again(session, &open->again, open->epoch == session->core.epoch ? result : &lost))
		return;
	if (err && result->status)
		ini_session_note(session, "%s: volume \"%s\": %s", ini_session_peer(session),
				 open->name, rblk_refusal_text(result->status, result->value));
	if (!err)
		err = ini_volume_take(volume, open->name, open->report, open->fresh, &open->handle);
	/* The answered command's tag is free again, so there is one for this. */
	handle = err ? 0 : choose_handle(volume, open->handle);
	/* The old handle stays, which has no new rights: a refresh without outstanding commands gets them. */
	if (handle && handle == open->handle)
		volume->info.read_only |= read_only;
	if (handle) {
		err = close_handle(session, handle, open_closed, open);
		if (!err)
			return;
		/* The connection is lost by now: the handle ends with the session. */
		if (!core_session_over(&session->core))
			err = 0;
	}
	open_finish(open, err);
}

int ini_volume_send_open(struct rblk_volume *volume, const char name[RBLK_NAME_BYTES], rblk_callback done, void *arg,
			 const void **report)
{
	const struct rblk_wire_command command = {.opcode = RBLK_OP_OPEN};
	struct rblk_wire_open payload;

	memset(&payload, 0, sizeof(payload));
	memcpy(payload.name, name, sizeof(payload.name));
	payload.flags = rblk_to_le32(volume->open_flags);
	return ini_control_start(volume->session, &command, &payload, sizeof(payload),
				 sizeof(struct rblk_wire_volume), done, arg, report);
}

static int open_send(struct ini_open *open)
{
	open->epoch = open->volume->session->core.epoch;
	return ini_volume_send_open(open->volume, open->name, open_done, open, &open->report);
}

/* Its answer is unknown: it may leave a handle at the target, which ends with the session. */
static void open_again(struct ini_again *again)
{
	struct ini_open *open = (struct ini_open *)again; /* its first member */
	struct rblk_session *session = open->volume->session;
	const struct rblk_result lost = {.error = -ECONNRESET};
	int err = open_send(open);

	if (err && !ini_control_again(session, again, &lost))
		open_finish(open, session->failure.final);
}

static int open_start(struct rblk_volume *volume, const char name[RBLK_NAME_BYTES], bool fresh,
		      rblk_volume_callback done, void *arg)
{
	struct ini_open *open = calloc(1, sizeof(*open));
	int err;

	if (!open)
		return -ENOMEM;
	*open = (struct ini_open){.again.run = open_again,
				  .volume = volume,
				  .fresh = fresh,
				  .done = done,
				  .arg = arg};
	memcpy(open->name, name, sizeof(open->name));
	err = open_send(open);
	if (err)
		free(open);
	else if (fresh)
		volume->changing = true;
	else
		volume->refreshing = true;
	return err;
}

/* The URI's name where none is given; zero filled, as the wire wants it. */
static int volume_name(struct rblk_session *session, const char *given, char name[RBLK_NAME_BYTES])
{
	memset(name, 0, RBLK_NAME_BYTES);
	if (!given)
		given = session->uri.volume;
	if (!*given) {
		ini_session_note(session, "%s: no volume is named", ini_session_peer(session));
		return -EINVAL;
	}
	if (strlen(given) < RBLK_NAME_BYTES)
		memcpy(name, given, strlen(given));
	if (!rblk_name_valid(name)) {
		ini_session_note(session, "%s: \"%.80s\" is not a volume's name",
				 ini_session_peer(session), given);
		return -EINVAL;
	}
	return 0;
}

#define OPEN_FLAGS (RBLK_VOLUME_OPEN_READ_ONLY | RBLK_VOLUME_OPEN_NEED_FLUSH | RBLK_VOLUME_OPEN_NEED_FUA)

static u32 wire_open_flags(u32 flags)
{
	u32 wire = 0;

	if (flags & RBLK_VOLUME_OPEN_READ_ONLY)
		wire |= RBLK_OPEN_READ_ONLY;
	if (flags & RBLK_VOLUME_OPEN_NEED_FLUSH)
		wire |= RBLK_OPEN_NEED_FLUSH;
	if (flags & RBLK_VOLUME_OPEN_NEED_FUA)
		wire |= RBLK_OPEN_NEED_FUA;
	return wire;
}

int rblk_volume_open_start(struct rblk_session *session, const char *name, u32 flags,
			   rblk_volume_callback done, void *arg)
{
	char wire_name[RBLK_NAME_BYTES];
	struct rblk_volume *volume;
	int err = done ? ini_control_ready(session) : -EINVAL;

	if (!err && flags & ~OPEN_FLAGS) {
		ini_session_note(session, "%s: OPEN: unknown flags 0x%x", ini_session_peer(session),
				 flags & ~OPEN_FLAGS);
		err = -EINVAL;
	}
	if (!err)
		err = volume_name(session, name, wire_name);
	if (err)
		return err;
	volume = volume_alloc(session, wire_open_flags(flags));
	if (!volume)
		return -ENOMEM;
	err = open_start(volume, wire_name, true, done, arg);
	if (err)
		volume_free(volume);
	return err;
}

/* 0: no command uses it, and a session command may be started. */
static int volume_idle(const struct rblk_volume *volume)
{
	int err = ini_control_ready(volume->session);

	if (volume->inflight || volume->changing || volume->refreshing)
		return -EBUSY;
	return err || !volume->reopen ? err : -EAGAIN;
}

int rblk_volume_refresh_start(struct rblk_volume *volume, rblk_volume_callback done, void *arg)
{
	char name[RBLK_NAME_BYTES];
	int err = done ? 0 : -EINVAL;

	if (!err && (volume->changing || volume->refreshing))
		err = -EBUSY;
	if (!err)
		err = ini_control_ready(volume->session);
	if (!err && volume->late_ns)
		err = -EAGAIN; /* it is being opened (reopen.c) */
	if (err)
		return err;
	memcpy(name, volume->info.name, sizeof(name));
	return open_start(volume, name, false, done, arg);
}

/* -- closing ----------------------------------------------------------------------------------- */

void ini_volume_free(struct rblk_volume *volume)
{
	struct rblk_volume **link = &volume->session->volumes;

	while (*link != volume)
		link = &(*link)->next;
	*link = volume->next;
	ini_publish_close(volume->counted);
	if (volume->reopen)
		*volume->reopen = NULL; /* it is called back later */
	volume_free(volume);
}

/* An outstanding CLOSE. */
struct ini_close {
	struct ini_again again;
	struct rblk_volume *volume;
	u64 epoch; /* that the handle is of */
	rblk_volume_callback done;
	void *arg;
};

static void close_finish(struct ini_close *close, int error)
{
	struct ini_close end = *close;

	free(close);
	end.volume->session->events.told++;
	ini_volume_free(end.volume);
	end.done(end.arg, NULL, error);
}

static void close_done(void *arg, const struct rblk_result *result)
{
	struct ini_close *close = arg;

	if (ini_control_again(close->volume->session, &close->again, result))
		return;
	/* It was sent again, so it may have been done before. */
	close_finish(close, result->status == RBLK_E_NO_VOLUME ? 0 : result->error);
}

static void close_again(struct ini_again *again)
{
	struct ini_close *close = (struct ini_close *)again; /* its first member */
	struct rblk_volume *volume = close->volume;
	struct rblk_session *session = volume->session;
	const struct rblk_result lost = {.error = -ECONNRESET};
	int err;

	if (!volume->handle || session->core.epoch != close->epoch) {
		close_finish(close, 0); /* it went with its epoch */
		return;
	}
	err = close_handle(session, volume->handle, close_done, close);
	if (err && !ini_control_again(session, again, &lost))
		close_finish(close, session->failure.final);
}

int rblk_volume_close_start(struct rblk_volume *volume, rblk_volume_callback done, void *arg)
{
	const struct rblk_result later = {.error = -ECONNRESET};
	struct ini_close *close;
	int err = done ? volume_idle(volume) : -EINVAL;

	if (err)
		return err;
	close = malloc(sizeof(*close));
	if (!close)
		return -ENOMEM;
	*close = (struct ini_close){.again.run = close_again,
				    .volume = volume,
				    .epoch = volume->session->core.epoch,
				    .done = done,
				    .arg = arg};
	/* Nothing is to be closed at the target: `done` is called with the next turn. */
	if (!volume->handle)
		err = ini_control_again(volume->session, &close->again, &later) ? 0 : -ENOTCONN;
	else
		err = close_handle(volume->session, volume->handle, close_done, close);
	if (err)
		free(close);
	else
		volume->changing = true;
	return err;
}

void ini_volumes_fini(struct rblk_session *session)
{
	while (session->volumes)
		ini_volume_free(session->volumes);
}

const struct rblk_volume_info *rblk_volume_info(const struct rblk_volume *volume)
{
	return &volume->info;
}

struct rblk_session *rblk_volume_session(const struct rblk_volume *volume)
{
	return volume->session;
}
