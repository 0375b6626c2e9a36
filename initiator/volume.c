/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns volumes as a session has them open: OPEN, CLOSE, LIST, and what the target reports, checked
 * and in the terms of the API.
 */
#include "initiator/volume.h"

#include <stdlib.h>
#include "initiator/session.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

/* Version 0.1's: nobody has a shorter struct; and no version's will be as long as the other. */
#define INFO_BYTES_MIN (offsetof(struct rblk_volume_info, changed) + sizeof(bool))
#define INFO_BYTES_MAX 4096

/* A validated report in the terms of the API. */
static void volume_info(const struct rblk_session *session, const struct rblk_wire_volume *wire,
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
		.can_extents = session->queues[0].features & RBLK_FEATURE_EXTENTS,
	};
	static_assert(sizeof(info->name) == RBLK_NAME_BYTES, "a name fits");
	memcpy(info->name, wire->name, sizeof(info->name));
	memcpy(info->uuid, wire->uuid, sizeof(info->uuid));
	memcpy(info->cache_epoch, wire->cache_epoch, sizeof(info->cache_epoch));
}

/* -- opening ----------------------------------------------------------------------------------- */

/* OPEN `volume` by `name` and take over what is reported. */
static int volume_open(struct rblk_volume *volume, const char name[RBLK_NAME_BYTES])
{
	struct rblk_session *session = volume->session;
	const struct rblk_wire_command command = { .opcode = RBLK_OP_OPEN };
	struct rblk_wire_volume report;
	struct rblk_wire_open open;
	enum rblk_wire_error broken;
	struct ini_wait wait;
	int err;

	memset(&open, 0, sizeof(open));
	memcpy(open.name, name, sizeof(open.name));
	open.flags = rblk_to_le32(volume->open_flags);
	err = ini_sync_control(session, &command, &open, sizeof(open), sizeof(report), &wait);
	if (err) {
		if (wait.finished && wait.result.status)
			ini_session_note(session, "%s: volume \"%s\": %s", ini_session_peer(session),
					 name, rblk_status_text(wait.result.status));
		return err;
	}
	memcpy(&report, wait.report, sizeof(report));
	broken = rblk_check_volume(&report, sizeof(report));
	if (!broken && (!report.handle || memcmp(report.name, open.name, sizeof(open.name))))
		broken = RBLK_WIRE_VOLUME;
	if (broken) {
		ini_session_note(session, "%s: volume \"%s\": the target's report is wrong: %s",
				 ini_session_peer(session), name, rblk_wire_error_text(broken));
		return -EPROTO;
	}
	volume_info(session, &report, &volume->info);
	volume->handle = rblk_le32(report.handle);
	volume->block_shift = (u32)__builtin_ctz(volume->info.block_bytes);
	return 0;
}

static int volume_close_handle(struct rblk_session *session, u32 handle)
{
	const struct rblk_wire_command command = { .opcode = RBLK_OP_CLOSE,
						   .volume = rblk_to_le32(handle) };
	struct ini_wait wait;

	return ini_sync_control(session, &command, NULL, 0, 0, &wait);
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

struct rblk_volume *rblk_volume_open(struct rblk_session *session, const char *name, u32 flags)
{
	char wire_name[RBLK_NAME_BYTES];
	struct rblk_volume *volume;
	int err = volume_name(session, name, wire_name);

	if (err) {
		errno = -err;
		return NULL;
	}
	volume = calloc(1, sizeof(*volume));
	if (!volume)
		return NULL;
	volume->session = session;
	volume->open_flags = wire_open_flags(flags);
	err = volume_open(volume, wire_name);
	if (err) {
		free(volume);
		errno = -err;
		return NULL;
	}
	volume->next = session->volumes;
	session->volumes = volume;
	return volume;
}

int rblk_volume_refresh(struct rblk_volume *volume)
{
	u32 old = volume->handle;
	char name[RBLK_NAME_BYTES];
	int err;

	if (volume->inflight)
		return -EBUSY;
	memcpy(name, volume->info.name, sizeof(name));
	err = volume_open(volume, name);
	if (err)
		return err;
	return old == volume->handle ? 0 : volume_close_handle(volume->session, old);
}

static void volume_unlink(struct rblk_volume *volume)
{
	struct rblk_volume **link = &volume->session->volumes;

	while (*link != volume)
		link = &(*link)->next;
	*link = volume->next;
}

int rblk_volume_close(struct rblk_volume *volume)
{
	struct rblk_session *session = volume->session;
	int err = 0;

	if (volume->inflight)
		return -EBUSY;
	if (session->state == INI_SESSION_READY)
		err = volume_close_handle(session, volume->handle);
	volume_unlink(volume);
	free(volume);
	return err;
}

void ini_volumes_fini(struct rblk_session *session)
{
	while (session->volumes) {
		struct rblk_volume *volume = session->volumes;

		session->volumes = volume->next;
		free(volume);
	}
}

const struct rblk_volume_info *rblk_volume_info(const struct rblk_volume *volume)
{
	return &volume->info;
}

struct rblk_session *rblk_volume_session(const struct rblk_volume *volume)
{
	return volume->session;
}

/* -- listing ----------------------------------------------------------------------------------- */

/* One LIST from index `first`: to `list`, at most RBLK_LIST_MAX elements. Returns how many. */
static int list_part(struct rblk_session *session, u32 first, u8 *list, size_t info_bytes,
		     u32 *total)
{
	const struct rblk_wire_command command = { .opcode = RBLK_OP_LIST,
						   .lba = rblk_to_le64(first) };
	const struct rblk_wire_volume *report;
	struct rblk_volume_info info;
	struct ini_wait wait;
	u32 count;
	int err = ini_sync_control(session, &command, NULL, 0, INI_REPORT_BYTES, &wait);

	if (err)
		return err;
	*total = (u32)(wait.result.value >> 32);
	count = (u32)wait.result.value;
	report = wait.report;
	if (count > RBLK_LIST_MAX || *total > RBLK_VOLUMES_MAX)
		return -EPROTO;
	for (u32 i = 0; i < count; i++) {
		if (rblk_check_volume(&report[i], sizeof(report[i])))
			return -EPROTO;
		volume_info(session, &report[i], &info);
		/* A program of another version has another step; what it has more stays zero. */
		if (info.size > info_bytes)
			info.size = info_bytes;
		memcpy(list + i * info_bytes, &info, info.size);
	}
	return (int)count;
}

int rblk_list(struct rblk_session *session, struct rblk_volume_info **list, size_t info_bytes)
{
	u32 count = 0, total = 0;
	u8 *infos;
	int part;

	if (info_bytes < INFO_BYTES_MIN || info_bytes > INFO_BYTES_MAX)
		return -EINVAL;
	infos = calloc(RBLK_VOLUMES_MAX + RBLK_LIST_MAX, info_bytes);
	if (!infos)
		return -ENOMEM;
	do {
		part = list_part(session, count, infos + count * info_bytes, info_bytes,
				 &total);
		if (part == -EPROTO)
			ini_session_note(session, "%s: the target's list of volumes is malformed",
					 ini_session_peer(session));
		if (part < 0) {
			free(infos);
			return part;
		}
		count += (u32)part;
		/* A list that shrinks while it is read ends with an empty part. */
	} while (part && count < total && count <= RBLK_VOLUMES_MAX);
	*list = (struct rblk_volume_info *)infos;
	return (int)count;
}
