/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * EXTENTS: which parts of a range hold data, as its store knows, or all of it where the store does not. The
 * list is made in a block of the pool, translated to the wire in place, and goes out as data.
 */
#include "target/io/command.h"

#include <string.h>
#include "target/base/quota.h"
#include "target/io/request.h"
#include "target/io/share.h"

static_assert(sizeof(struct tgt_extent) == sizeof(struct rblk_wire_extent),
	      "one is written where the other was");

/* EXTENTS that one session may have with stores at a time; further ones are BUSY. */
static const struct tgt_quota extents_quota = {.each = 4};

void tgt_extents_begin(struct tgt_request *request)
{
	uint32_t room = request->length / (uint32_t)sizeof(struct rblk_wire_extent);

	if (room > RBLK_EXTENTS_MAX)
		room = RBLK_EXTENTS_MAX;
	tgt_request_get_memory(request, room * (uint32_t)sizeof(struct rblk_wire_extent));
}

static struct rblk_wire_extent extents_wire(struct tgt_extent extent, uint32_t block_bytes)
{
	return (struct rblk_wire_extent){
		.blocks = rblk_to_le64(extent.bytes / block_bytes),
		.flags = rblk_to_le32(extent.hole ? RBLK_EXTENT_HOLE | RBLK_EXTENT_ZERO : 0),
	};
}

static bool extents_leave(struct tgt_request *request)
{
	bool left = tgt_request_withdraw(request);

	request->io_queue->share->extents -= left;
	return left;
}

void tgt_extents_with_memory(struct tgt_request *request)
{
	const struct tgt_volume *volume = tgt_request_volume(request);
	struct tgt_share *share = request->io_queue->share;
	struct tgt_io *io = &request->io;

	/* Data of another command in the block must not go out with the report. */
	memset(request->data, 0, request->data_bytes);
	if (!volume->store->info.can_extents) {
		if (!tgt_request_begin_storing(request))
			return;
		((struct rblk_wire_extent *)request->data)->blocks = rblk_to_le64(request->blocks);
		request->result = 1;
		tgt_request_report(request);
		return;
	}
	if (!tgt_quota_allows(&extents_quota, 0, share->extents)) {
		tgt_request_complete(request, RBLK_E_BUSY);
		return;
	}
	if (!tgt_request_begin_storing(request))
		return;
	io->kind = TGT_IO_EXTENTS;
	io->flags = 0;
	io->offset = tgt_request_offset(request);
	io->bytes = tgt_request_bytes(request);
	io->extent_room = request->data_bytes / (uint32_t)sizeof(struct tgt_extent);
	io->extent_unit = volume->block_bytes;
	share->extents++;
	tgt_request_submit(request, request->data, extents_leave);
}

void tgt_extents_stored(struct tgt_request *request, int error)
{
	uint32_t room = request->data_bytes / (uint32_t)sizeof(struct tgt_extent);

	request->io_queue->share->extents--;
	if (error || !request->io_queue->open) {
		tgt_request_ended(request, error);
		return;
	}
	for (request->result = 0; request->result < room; request->result++) {
		char *place = request->data + request->result * sizeof(struct tgt_extent);
		struct rblk_wire_extent wire;
		struct tgt_extent extent;

		memcpy(&extent, place, sizeof(extent));
		if (!extent.bytes)
			break;
		wire = extents_wire(extent, tgt_request_volume(request)->block_bytes);
		memcpy(place, &wire, sizeof(wire));
	}
	tgt_request_report(request);
}
