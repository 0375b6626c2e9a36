/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of block commands, and the commands that are one operation of their store: READ, WRITE, FLUSH, DISCARD,
 * WRITE_ZEROES. checksum.c has CHECKSUM, extents.c EXTENTS, compare.c COMPARE_AND_WRITE.
 */
#include "target/io/command.h"

#include <string.h>
#include "proto/digest/digest.h"
#include "target/io/request.h"
#include "target/io/share.h"

/* -- READ -------------------------------------------------------------------------------------- */

/* Its data lies in the store's own memory, as the I/O queue's device knows it. */
static void command_use_direct(struct tgt_request *request, char *direct)
{
	request->home = TGT_HOME_DIRECT;
	request->data = direct + tgt_request_offset(request);
	request->data_bytes = request->length;
	request->lkey = tgt_channel_lkey(request->access->channel, request->io_queue->fabric,
					 fab_conn_device(request->io_queue->conn));
}

static void read_begin(struct tgt_request *request)
{
	char *direct = tgt_request_volume(request)->store->info.direct;

	request->io_queue->beside_ns = request->received_ns;
	if (direct && tgt_share_over_budget(request->io_queue->share, request->length)) {
		tgt_request_put_off(request);
		return;
	}
	/* In the store's own memory a write may come between the digest and the transfer. */
	if (!direct || request->flags & RBLK_CMD_DIGEST) {
		tgt_request_get_memory(request, request->length);
		return;
	}
	command_use_direct(request, direct);
	tgt_request_complete(request, RBLK_OK);
}

static void read_with_memory(struct tgt_request *request)
{
	tgt_request_store(request, TGT_IO_READ);
}

static void read_stored(struct tgt_request *request, int error)
{
	if (request->flags & RBLK_CMD_DIGEST && !error)
		request->digest = rblk_digest(0, request->data, request->length);
	tgt_request_ended(request, error);
}

/* -- WRITE ------------------------------------------------------------------------------------- */

/*
 * The data goes directly into the store's own memory, without the store. That is not possible while
 * the volume has a range lock, which might have to block it. It is in flight from now on.
 */
static bool write_begin_direct(struct tgt_request *request)
{
	return tgt_write_begin_now(&request->access->channel->range_locks, &request->io.write,
				   tgt_request_offset(request), request->length);
}

static void write_begin_capsule(struct tgt_request *request)
{
	const struct tgt_store_info *info = &tgt_request_volume(request)->store->info;

	request->io_queue->beside_ns = request->received_ns;
	if (!tgt_request_digest_matches(request)) {
		tgt_request_complete(request, RBLK_E_DIGEST);
		return;
	}
	if (info->direct && !tgt_range_locks_any(&request->access->channel->range_locks)) {
		memcpy((char *)info->direct + tgt_request_offset(request), request->data, request->length);
		tgt_request_complete(request, RBLK_OK);
		return;
	}
	tgt_request_hold_capsule(request);
	if (info->alignment > 1 && (uintptr_t)request->data % info->alignment) {
		tgt_request_get_memory(request, request->length);
		return;
	}
	request->home = TGT_HOME_CAPSULE;
	request->data_bytes = request->length;
	tgt_request_store(request, TGT_IO_WRITE);
}

static void write_begin(struct tgt_request *request)
{
	char *direct = tgt_request_volume(request)->store->info.direct;

	if (request->data) {
		write_begin_capsule(request);
		return;
	}
	/* A digest is checked before anything is stored, so not in the store's own memory; and there a transfer that
	 * ends with its connection would tear. */
	if (!direct || request->flags & (RBLK_CMD_DIGEST | RBLK_CMD_UNTORN) || !write_begin_direct(request)) {
		tgt_request_get_memory(request, request->length);
		return;
	}
	command_use_direct(request, direct);
	tgt_request_fetch(request);
}

static void write_data_in(struct tgt_request *request)
{
	tgt_request_store(request, TGT_IO_WRITE);
}

static void write_with_memory(struct tgt_request *request)
{
	/* The digest of data in a capsule was checked before. */
	if (tgt_request_move_capsule(request))
		write_data_in(request);
	else
		tgt_request_fetch(request);
}

/* -- FLUSH, DISCARD, WRITE_ZEROES -------------------------------------------------------------- */

/* The whole volume: what was acknowledged before is durable when this succeeds. */
static void flush_begin(struct tgt_request *request)
{
	request->lba = 0;
	tgt_request_store(request, TGT_IO_FLUSH);
}

static void discard_begin(struct tgt_request *request)
{
	tgt_request_store(request, TGT_IO_DISCARD);
}

static void zeroes_begin(struct tgt_request *request)
{
	/* The store zeroes its own memory during the call. */
	if (tgt_request_volume(request)->store->info.direct &&
	    tgt_share_over_budget(request->io_queue->share, tgt_request_bytes(request)))
		tgt_request_put_off(request);
	else
		tgt_request_store(request, TGT_IO_WRITE_ZEROES);
}

static uint64_t zeroes_bytes(const struct tgt_request *request)
{
	return tgt_request_volume(request)->store->info.writes_zeroes ? tgt_request_bytes(request) : 0;
}

/* -- the table --------------------------------------------------------------------------------- */

const struct tgt_command tgt_commands[RBLK_OP_IDENTIFY] = {
	[RBLK_OP_READ] = {
		.name = "read", .begin = read_begin, .with_memory = read_with_memory, .stored = read_stored,
		.resume = read_begin, .bytes = tgt_request_bytes, .data = 1, .refused = TGT_REFUSED_READ,
	},
	[RBLK_OP_WRITE] = {
		.name = "write", .begin = write_begin, .with_memory = write_with_memory, .data_in = write_data_in,
		.stored = tgt_request_ended, .bytes = tgt_request_bytes, .data = 1, .refused = TGT_REFUSED_WRITE,
		.writes = true,
	},
	[RBLK_OP_FLUSH] = {
		.name = "flush", .begin = flush_begin, .stored = tgt_request_ended, .refused = TGT_REFUSED_WRITE,
		.needs = offsetof(struct tgt_store_info, can_flush), .whole = true,
	},
	[RBLK_OP_DISCARD] = {
		.name = "discard", .begin = discard_begin, .stored = tgt_request_ended, .refused = TGT_REFUSED_WRITE,
		.needs = offsetof(struct tgt_store_info, can_discard), .writes = true, .discards = true,
	},
	[RBLK_OP_WRITE_ZEROES] = {
		.name = "write_zeroes", .begin = zeroes_begin, .stored = tgt_request_ended, .resume = zeroes_begin,
		.bytes = zeroes_bytes, .refused = TGT_REFUSED_WRITE,
		.needs = offsetof(struct tgt_store_info, can_write_zeroes), .writes = true, .discards = true,
	},
	[RBLK_OP_COMPARE_AND_WRITE] = {
		.name = "compare_and_write", .begin = tgt_compare_begin, .with_memory = tgt_compare_with_memory,
		.data_in = tgt_compare_data_in, .stored = tgt_compare_stored, .may_abort = tgt_compare_may_abort,
		.bytes = tgt_request_bytes, .data = 2 /* the expected data, and then the new data */,
		.refused = TGT_REFUSED_WRITE, .needs = offsetof(struct tgt_store_info, can_compare), .writes = true,
		.numbered = true,
	},
	[RBLK_OP_CHECKSUM] = {
		.name = "checksum", .begin = tgt_checksum_begin, .with_memory = tgt_checksum_next,
		.stored = tgt_checksum_stored, .resume = tgt_checksum_next, .may_abort = tgt_checksum_may_abort,
		.bytes = tgt_checksum_piece, .refused = TGT_REFUSED_READ,
	},
	[RBLK_OP_EXTENTS] = {
		.name = "extents", .begin = tgt_extents_begin, .with_memory = tgt_extents_with_memory,
		.stored = tgt_extents_stored, .refused = TGT_REFUSED_READ,
	},
};
