/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CHECKSUM: the CRC32C of a range, read piece by piece through one block of the pool, or directly in the
 * store's own memory. Each piece is one turn's work, so that a checksum of a whole volume does not delay other
 * sessions; and costs the limits what a READ of it would.
 */
#include "target/io/command.h"

#include "proto/digest/digest.h"
#include "target/io/throttle.h"
#include "target/io/request.h"
#include "target/io/share.h"

/* The most that one turn of a reactor digests of one command. */
#define DIGEST_PIECE (256u << 10)

static bool checksum_is_direct(const struct tgt_request *request)
{
	return tgt_request_volume(request)->store->info.direct != NULL;
}

uint64_t tgt_checksum_piece(const struct tgt_request *request)
{
	uint64_t left = tgt_request_bytes(request) - request->done_bytes, most = DIGEST_PIECE;

	if (!checksum_is_direct(request) && most > request->io_queue->loop->max_io_bytes)
		most = request->io_queue->loop->max_io_bytes;
	return left < most ? left : most;
}

/* A piece is in memory: the digest goes on, and another turn does the next piece. */
static void checksum_add(struct tgt_request *request)
{
	request->result = rblk_digest((uint32_t)request->result, request->data, request->io.bytes);
	request->done_bytes += request->io.bytes;
	if (!request->aborted && request->access->limited && tgt_checksum_piece(request) && !tgt_throttle_pass(request, false))
		return;
	tgt_request_put_off(request);
}

void tgt_checksum_begin(struct tgt_request *request)
{
	if (!checksum_is_direct(request)) {
		tgt_request_get_memory(request, (uint32_t)tgt_checksum_piece(request));
		return;
	}
	request->home = TGT_HOME_DIRECT;
	tgt_checksum_next(request);
}

void tgt_checksum_next(struct tgt_request *request)
{
	uint64_t bytes = tgt_checksum_piece(request);
	struct tgt_io *io = &request->io;

	if (!bytes) {
		tgt_request_complete(request, RBLK_OK);
		return;
	}
	if (request->home == TGT_HOME_DIRECT &&
	    tgt_share_over_budget(request->io_queue->share, bytes)) {
		tgt_request_put_off(request);
		return;
	}
	if (request->state != TGT_REQUEST_STORING && !tgt_request_begin_storing(request))
		return;
	io->kind = TGT_IO_READ;
	io->flags = 0;
	io->offset = tgt_request_offset(request) + request->done_bytes;
	io->bytes = bytes;
	if (request->home == TGT_HOME_DIRECT) {
		request->data = (char *)tgt_request_volume(request)->store->info.direct + io->offset;
		checksum_add(request);
		return;
	}
	tgt_request_submit(request, request->data, tgt_request_withdraw);
}

void tgt_checksum_stored(struct tgt_request *request, int error)
{
	if (error || !request->io_queue->open)
		tgt_request_ended(request, error);
	else
		checksum_add(request);
}

bool tgt_checksum_may_abort(const struct tgt_request *request)
{
	return true;
}
