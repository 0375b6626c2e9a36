/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the question of which parts of a volume hold data: EXTENTS, whose report lands in one of a
 * few places of the session's registered memory, is copied, checked and handed to the caller in
 * bytes.
 */
#include "initiator/io.h"
#include "initiator/session.h"
#include "initiator/volume.h"
#include "proto/wire/wire_check.h"

static_assert((int)RBLK_EXTENT_IS_HOLE == (int)RBLK_EXTENT_HOLE &&
		      (int)RBLK_EXTENT_IS_ZERO == (int)RBLK_EXTENT_ZERO,
	      "the API's flags are the protocol's");

/* Merge neighbours of the same kind. Returns how many there are then. */
static unsigned int extents_convert(const struct ini_extents *query, const struct rblk_wire_extent *wire,
				    u64 count)
{
	u64 offset = query->offset;
	unsigned int used = 0;

	for (u64 i = 0; i < count; i++) {
		u64 bytes = rblk_le64(wire[i].blocks) << query->volume->block_shift;
		u32 flags = rblk_le32(wire[i].flags);

		if (used && query->extents[used - 1].flags == flags)
			query->extents[used - 1].bytes += bytes;
		else
			query->extents[used++] = (struct rblk_extent){
				.offset = offset,
				.bytes = bytes,
				.flags = flags,
			};
		offset += bytes;
	}
	return used;
}

static void extents_done(void *arg, const struct rblk_result *answer)
{
	struct ini_extents *query = arg;
	struct rblk_session *session = query->volume->session;
	struct rblk_wire_extent report[RBLK_EXTENTS_MAX];
	struct rblk_result result = *answer;

	memcpy(report, query->report, query->report_bytes);
	if (!result.error &&
	    rblk_check_extents(report, query->report_bytes, result.value, query->blocks)) {
		ini_session_note(session,
				 "%s: volume \"%s\": the target's list of extents is malformed",
				 ini_session_peer(session), query->volume->info.name);
		result.error = -EPROTO;
	}
	result.value = result.error ? 0 : extents_convert(query, report, result.value);
	/* Free before the callback, which may ask for the next range. */
	query->volume = NULL;
	query->done(query->arg, &result);
}

bool ini_extents_is(rblk_callback done, const void *arg, const struct ini_origin *origin)
{
	const struct ini_extents *query = arg;

	return done == extents_done && query->done == origin->done && query->arg == origin->arg;
}

static struct ini_extents *extents_take(struct rblk_session *session)
{
	for (u32 i = 0; i < INI_EXTENTS_QUERIES; i++) {
		struct ini_extents *query = &session->calls.extents[i];

		if (query->volume)
			continue;
		query->report = session->control.memory->extents[i];
		return query;
	}
	return NULL;
}

int rblk_extents(struct rblk_volume *volume, uint64_t bytes, uint64_t offset,
		 struct rblk_extent *extents, unsigned int max, rblk_callback done, void *arg)
{
	const struct ini_ask ask = {.able = volume->info.can_extents,
				    .done = done};
	struct ini_extents *query;
	int err = ini_io_check(volume, "EXTENTS", &ask);

	if (!err && (!extents || !max))
		err = ini_io_refuse(volume, -EINVAL, "EXTENTS", "there is no room for one");
	if (!err)
		err = ini_io_check_range(volume, "EXTENTS", bytes, offset,
					 ini_io_blocks_max(volume));
	if (err)
		return err;
	query = extents_take(volume->session);
	if (!query)
		return -EAGAIN;
	*query = (struct ini_extents){
		.volume = volume,
		.report = query->report,
		.report_bytes = (max < RBLK_EXTENTS_MAX ? max : RBLK_EXTENTS_MAX) *
				(u32)sizeof(struct rblk_wire_extent),
		.blocks = (u32)(bytes >> volume->block_shift),
		.offset = offset,
		.extents = extents,
		.done = done,
		.arg = arg,
	};
	err = ini_io_start(volume, &(struct ini_io){.opcode = RBLK_OP_EXTENTS,
						    .report = query->report,
						    .report_bytes = query->report_bytes,
						    .bytes = bytes,
						    .offset = offset,
						    .done = extents_done,
						    .arg = query});
	if (err)
		query->volume = NULL;
	return err;
}
