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
		.untorn_min_bytes = rblk_le32(wire->untorn_min_bytes),
		.untorn_max_bytes = rblk_le32(wire->untorn_max_bytes),
	};
	info->max_compare_bytes = info->can_compare_and_write ? info->max_io_bytes / 2 : 0;
	if (wire->max_compare_blocks && rblk_le16(wire->max_compare_blocks) * block_bytes < info->max_compare_bytes)
		info->max_compare_bytes = rblk_le16(wire->max_compare_blocks) * block_bytes;
	static_assert(sizeof(info->name) == RBLK_NAME_BYTES, "a name fits");
	memcpy(info->name, wire->name, sizeof(info->name));
	memcpy(info->uuid, wire->uuid, sizeof(info->uuid));
	memcpy(info->cache_epoch, wire->cache_epoch, sizeof(info->cache_epoch));
}

/* -- opening ----------------------------------------------------------------------------------- */

/* An outstanding OPEN, of a new volume or to refresh an open one, or a CLOSE. */
struct ini_change {
	struct ini_again again;
	struct rblk_volume *volume;
	char name[RBLK_NAME_BYTES]; /* OPEN's, as the next */
	u64 epoch;  /* that it was sent in */
	const void *report; /* where it arrives: ini_volume_take() copies it */
	bool numbered;	    /* it has another handle than it began with */
	bool lost;	    /* an answer, which may have been that it is open */
	int error;	    /* of an OPEN that waits, or whose volume is closed for it; else 0 */
	rblk_volume_callback done;
	void *arg;
};

void ini_volume_number(struct rblk_volume *volume)
{
	volume->handle = ++volume->session->handles * RBLK_HANDLES_MAX + RBLK_HANDLE_SLOT(volume->handle);
}

void ini_volume_free(struct rblk_volume *volume)
{
	struct rblk_session *session = volume->session;
	struct rblk_volume **link = &session->volumes;

	while (*link != volume)
		link = &(*link)->next;
	*link = volume->next;
	session->handle_slots[RBLK_HANDLE_SLOT(volume->handle)] = false;
	ini_publish_close(volume->counted);
	if (volume->reopen)
		*volume->reopen = NULL; /* it is called back later */
	ini_durable_leave(session->durables, volume->durable, &volume->open, volume->loss_heard,
			  volume->info.can_flush);
	free(volume);
}

/* F10: the predecessor's commands were begun there. */
static void volume_restore(struct core_domain *domain, const struct rblk_kept_session *kept)
{
	memcpy(domain->instance, kept->instance, sizeof(domain->instance));
	memcpy(domain->domain, kept->fence_domain, sizeof(domain->domain));
	domain->known = kept->opened;
}

/*
 * Before the first command. A domain that is not zero never changes, and without one the instance does not, so a
 * successor that finds half of it finds enough.
 */
static void volume_keep(const struct core_domain *domain, struct rblk_kept_session *kept)
{
	memcpy(kept->instance, domain->instance, sizeof(kept->instance));
	memcpy(kept->fence_domain, domain->domain, sizeof(kept->fence_domain));
	__atomic_store_n(&kept->opened, 1, __ATOMIC_RELEASE);
}

/* It is the session's, and `changing`. NULL: no memory, or no slot. */
static struct rblk_volume *volume_alloc(struct rblk_session *session, u32 open_flags)
{
	const struct rblk_kept_session *kept = session->options.kept_session;
	struct rblk_volume *volume = calloc(1, sizeof(*volume));
	u32 slot = 1; /* with it no number is 0 */

	while (slot < RBLK_HANDLES_MAX && session->handle_slots[slot])
		slot++;
	if (volume && slot < RBLK_HANDLES_MAX)
		volume->durable = ini_durable_alloc();
	if (!volume || !volume->durable) {
		free(volume);
		return NULL;
	}
	session->handle_slots[slot] = true;
	volume->session = session;
	volume->handle = slot;
	ini_volume_number(volume);
	volume->open_flags = open_flags;
	volume->changing = true;
	if (kept)
		volume_restore(&volume->domain, kept);
	volume->next = session->volumes;
	session->volumes = volume;
	return volume;
}

/* Calls back, with the volume if there is one. */
static void change_finish(struct ini_change *change, struct rblk_volume *volume, int error)
{
	struct ini_change end = *change;

	free(change);
	end.volume->session->events.told++;
	if (!volume)
		ini_volume_free(end.volume);
	end.done(end.arg, volume, error);
}

static void open_finish(struct ini_change *open, int error)
{
	struct rblk_volume *volume = open->volume;

	if (volume->changing && !error)
		volume->counted = ini_publish_open(volume->session->publish, volume->info.name);
	volume->info.changed |= error != 0; /* it was not read */
	if (volume->changing && error)
		volume = NULL;
	else
		volume->changing = volume->refreshing = false;
	change_finish(open, volume, error);
}

int rblk_acknowledge(struct rblk_volume *volume)
{
	return ini_durable_acknowledge(volume->durable, &volume->open);
}

int ini_volume_take(struct rblk_volume *volume, const char name[RBLK_NAME_BYTES], const void *arrived)
{
	struct rblk_session *session = volume->session;
	struct rblk_kept_volume *kept = session->options.kept_volume;
	struct rblk_wire_volume report;
	enum rblk_wire_error broken;
	bool changed;

	memcpy(&report, arrived, sizeof(report));
	broken = rblk_check_volume(&report, sizeof(report), session->queues[0].features);
	if (!broken && (rblk_le32(report.handle) != volume->handle || memcmp(report.name, name, RBLK_NAME_BYTES)))
		broken = RBLK_WIRE_VOLUME;
	if (broken) {
		ini_session_note(session, "%s: volume \"%s\": the target's report is wrong: %s",
				 ini_session_peer(session), name,
				 rblk_wire_error_text(broken));
		return -EPROTO;
	}
	if ((volume->epoch && memcmp(report.uuid, volume->info.uuid, sizeof(report.uuid))) ||
	    (kept && kept->known && memcmp(report.uuid, kept->uuid, sizeof(report.uuid)))) {
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
	if (session->options.kept_session)
		volume_keep(&volume->domain, session->options.kept_session);
	changed = volume->info.changed;
	ini_volume_info(session, &report, &volume->info);
	volume->info.changed = changed;
	/* It is one of the session's from then on: its open may be told. */
	if (!volume->open.learnt)
		volume->durable = ini_durable_join(session->durables, volume->durable, report.uuid, &volume->open,
						   kept);
	ini_durable_learn(session->durables, volume->durable, &volume->open, report.cache_epoch);
	volume->block_shift = (u32)__builtin_ctz(volume->info.block_bytes);
	volume->epoch = session->core.epoch;
	volume->gone = false;
	volume->late_ns = 0;
	volume->denied = 0;
	core_durable_adopt(&volume->open, volume->info.volatile_cache);
	return 0;
}

static void close_send(struct ini_again *again);
static void open_send(struct ini_again *again);

int ini_volume_send_close(struct rblk_volume *volume, rblk_callback done, void *arg)
{
	const struct rblk_wire_command command = {.opcode = RBLK_OP_CLOSE, .volume = rblk_to_le32(volume->handle)};

	return ini_control_start(volume->session, &command, NULL, 0, 0, done, arg, NULL);
}

/* A first OPEN that is answered so may succeed at another target, as where one of several gateways has the volume. */
static bool is_refused(const struct ini_change *open, const struct rblk_result *result)
{
	return (result->status == RBLK_E_NO_VOLUME || result->status == RBLK_E_DRAINING) && open->volume->changing &&
	       open->volume->session->core.options.portals > 1;
}

/* Is there something to wait for before refused OPENs are called back? `found`: a volume that is, or was, open. */
static bool is_asking(const struct rblk_session *session, bool *found)
{
	bool asks = false;

	*found = false;
	for (const struct rblk_volume *volume = session->volumes; volume; volume = volume->next) {
		*found |= volume->epoch != 0;
		asks |= !volume->refused;
	}
	return asks && !*found;
}

static struct ini_change *take_refused(struct rblk_session *session)
{
	struct rblk_volume *volume = session->volumes;
	struct ini_change *open;

	while (volume && !volume->refused)
		volume = volume->next;
	if (!volume)
		return NULL;
	open = volume->refused;
	volume->refused = NULL;
	return open;
}

/* They are sent again where the session is LIVE next. */
static void send_refused(struct rblk_session *session)
{
	const struct rblk_result lost = {.error = -ECONNRESET};
	struct ini_change *open;

	while ((open = take_refused(session)))
		if (!ini_control_again(session, &open->again, &lost))
			open_finish(open, open->error);
}

/*
 * An OPEN or CLOSE has ended. If the target has refused all that the session wants to open, and it has nothing else
 * here, it asks the next one, each once (core_session_search()); if not, that was the answer.
 */
static void settle_refused(struct rblk_session *session)
{
	struct ini_change *open;
	bool found, none;

	if (is_asking(session, &found))
		return;
	none = !found && session->volumes && !core_session_over(&session->core);
	if (none && core_session_elsewhere(&session->core)) {
		ini_portal_failed(&session->queues[0], -EXDEV);
		core_session_misled(&session->core, session->now_ns);
		send_refused(session);
		return;
	}
	if (none)
		ini_session_note_others(session);
	while ((open = take_refused(session)))
		open_finish(open, open->error);
}

static void open_done(void *arg, const struct rblk_result *result)
{
	const struct rblk_result lost = {.error = -ECONNRESET};
	struct ini_change *open = arg;
	struct rblk_volume *volume = open->volume;
	struct rblk_session *session = volume->session;
	int err = result->error;

	/* In another epoch it is not open any more. */
	if (ini_control_again(session, &open->again, open->epoch == session->core.epoch ? result : &lost)) {
		open->lost = true;
		/* It may be answered by another target. */
		send_refused(session);
		return;
	}
	if (result->status == RBLK_E_GONE && !open->numbered) {
		open->numbered = true;
		ini_volume_number(volume);
		open_send(&open->again);
		return;
	}
	if (err && result->status)
		ini_session_note(session, "%s: volume \"%s\": %s", ini_session_peer(session),
				 open->name, rblk_refusal_text(result->status, result->value));
	if (is_refused(open, result)) {
		open->error = err;
		volume->refused = open;
		settle_refused(session);
		return;
	}
	if (!err)
		err = ini_volume_take(volume, open->name, open->report);
	if (err && volume->changing && (open->lost || !result->error)) {
		open->error = err;
		open->again.run = close_send;
		close_send(&open->again);
		return;
	}
	open_finish(open, err);
	settle_refused(session);
}

int ini_volume_send_open(struct rblk_volume *volume, const char name[RBLK_NAME_BYTES], rblk_callback done, void *arg,
			 const void **report)
{
	const struct rblk_wire_command command = {.opcode = RBLK_OP_OPEN, .volume = rblk_to_le32(volume->handle)};
	struct rblk_wire_open payload;
	int err;

	memset(&payload, 0, sizeof(payload));
	memcpy(payload.name, name, sizeof(payload.name));
	payload.flags = rblk_to_le32(volume->open_flags);
	err = ini_control_start(volume->session, &command, &payload, sizeof(payload),
				sizeof(struct rblk_wire_volume), done, arg, report);
	/* From here on it is what the answer may not know of. */
	volume->info.changed &= err != 0;
	return err;
}

static int open_start(struct ini_change *open)
{
	open->epoch = open->volume->session->core.epoch;
	return ini_volume_send_open(open->volume, open->name, open_done, open, &open->report);
}

static void open_send(struct ini_again *again)
{
	struct ini_change *open = (struct ini_change *)again; /* its first member */
	struct rblk_session *session = open->volume->session;
	const struct rblk_result lost = {.error = -ECONNRESET};

	if (open_start(open) && !ini_control_again(session, again, &lost)) {
		open_finish(open, session->failure.final);
		settle_refused(session);
	}
}

static struct ini_change *change_alloc(struct rblk_volume *volume, void (*run)(struct ini_again *again),
				       rblk_volume_callback done, void *arg)
{
	struct ini_change *change = calloc(1, sizeof(*change));

	if (change)
		*change = (struct ini_change){.again.run = run, .volume = volume, .done = done, .arg = arg};
	return change;
}

static int volume_open(struct rblk_volume *volume, const char name[RBLK_NAME_BYTES], rblk_volume_callback done,
		       void *arg)
{
	struct ini_change *open = change_alloc(volume, open_send, done, arg);
	int err;

	if (!open)
		return -ENOMEM;
	memcpy(open->name, name, sizeof(open->name));
	err = open_start(open);
	if (err)
		free(open);
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
	if (!session->volumes)
		core_session_search(&session->core);
	volume = volume_alloc(session, wire_open_flags(flags));
	if (!volume)
		return -ENOMEM;
	err = volume_open(volume, wire_name, done, arg);
	if (err)
		ini_volume_free(volume);
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
	int err = done ? 0 : -EINVAL;

	if (!err && (volume->changing || volume->refreshing))
		err = -EBUSY;
	if (!err)
		err = ini_control_ready(volume->session);
	if (!err && volume->late_ns)
		err = -EAGAIN; /* it is being opened (reopen_volumes.c) */
	if (err)
		return err;
	if (volume->gone)
		ini_volume_number(volume);
	err = volume_open(volume, volume->info.name, done, arg);
	volume->refreshing = !err;
	return err;
}

/* -- closing ----------------------------------------------------------------------------------- */

static void close_done(void *arg, const struct rblk_result *result)
{
	struct ini_change *close = arg;
	struct rblk_session *session = close->volume->session;

	if (ini_control_again(session, &close->again, result))
		return;
	change_finish(close, NULL, close->error ? close->error : result->error);
	settle_refused(session);
}

static int close_start(struct ini_change *close)
{
	return ini_volume_send_close(close->volume, close_done, close);
}

static void close_send(struct ini_again *again)
{
	struct ini_change *close = (struct ini_change *)again; /* its first member */
	struct rblk_session *session = close->volume->session;
	const struct rblk_result lost = {.error = -ECONNRESET};

	if (close_start(close) && !ini_control_again(session, again, &lost)) {
		change_finish(close, NULL, close->error ? close->error : session->failure.final);
		settle_refused(session);
	}
}

int rblk_volume_close_start(struct rblk_volume *volume, rblk_volume_callback done, void *arg)
{
	int err = done ? volume_idle(volume) : -EINVAL;
	struct ini_change *close;

	if (err)
		return err;
	close = change_alloc(volume, close_send, done, arg);
	if (!close)
		return -ENOMEM;
	err = close_start(close);
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
