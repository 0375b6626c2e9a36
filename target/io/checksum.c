/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine of CHECKSUM. Each piece is one turn's work, so that a checksum of a whole volume does
 * not delay other sessions.
 */
#include "target/io/checksum.h"

#include "target/io/digest.h"
#include "target/io/lane.h"
#include "target/io/share.h"

static const struct tgt_volume *checksum_volume(const struct tgt_request *request)
{
	return request->access->port->volume;
}

static uint64_t checksum_bytes(const struct tgt_request *request)
{
	return (uint64_t)request->blocks * checksum_volume(request)->block_bytes;
}

void tgt_checksum_begin(struct tgt_request *request)
{
	uint64_t total = checksum_bytes(request);
	uint32_t most = request->lane->turn->max_io_bytes;

	if (most > TGT_DIGEST_PIECE)
		most = TGT_DIGEST_PIECE;
	if (!checksum_volume(request)->store->info.direct) {
		tgt_request_get_memory(request, total < most ? (uint32_t)total : most);
		return;
	}
	request->home = TGT_HOME_DIRECT;
	tgt_checksum_next(request);
}

void tgt_checksum_next(struct tgt_request *request)
{
	const struct tgt_volume *volume = checksum_volume(request);
	uint64_t left = checksum_bytes(request) - request->done_bytes;
	uint64_t bytes = left < TGT_DIGEST_PIECE ? left : TGT_DIGEST_PIECE;
	struct tgt_io *io = &request->io;

	if (!left) {
		tgt_request_complete(request, RBLK_OK);
		return;
	}
	if (request->home == TGT_HOME_DIRECT &&
	    tgt_share_over_budget(request->lane->share, bytes)) {
		tgt_request_put_off(request);
		return;
	}
	if (request->state != TGT_REQUEST_STORING && !tgt_request_begin_storing(request))
		return;
	io->kind = TGT_IO_READ;
	io->flags = 0;
	io->offset = request->lba * volume->block_bytes + request->done_bytes;
	io->bytes = bytes;
	if (request->home == TGT_HOME_DIRECT) {
		request->data = (char *)volume->store->info.direct + io->offset;
		tgt_checksum_stored(request);
		return;
	}
	if (io->bytes > request->data_bytes)
		io->bytes = request->data_bytes;
	tgt_request_submit(request, request->data);
}

void tgt_checksum_stored(struct tgt_request *request)
{
	request->result = tgt_digest((uint32_t)request->result, request->data, request->io.bytes);
	request->done_bytes += request->io.bytes;
	tgt_request_put_off(request);
}
