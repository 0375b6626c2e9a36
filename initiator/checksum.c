/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns CHECKSUM. A target computes one for as long as its storage takes, and each command has a limit of time: a long
 * range is asked for in pieces, one after the other, whose CRC32Cs give that of the whole.
 */
#include <stdlib.h>
#include "initiator/io.h"
#include "initiator/session.h"
#include "proto/digest/combine.h"
#include "proto/wire/wire_names.h"

/* Storage that reads a few MiB a second is in time, and one message for so much costs nothing. */
#define PIECE_BYTES (64ull << 20)

/* A range that is longer. Belongs to the session's thread; ends with its callback. */
struct ini_checksum {
	struct rblk_volume *volume;
	u64 offset, left;   /* of what no piece was started for */
	u64 piece_bytes;    /* of the one that is outstanding */
	bool stopped;       /* by rblk_abort(): no further piece is started */
	struct rblk_result result;
	rblk_callback done;
	void *arg;
};

static void piece_done(void *arg, const struct rblk_result *result);

/* The first needs a credit now; the others wait for one. */
static int piece_start(struct ini_checksum *sum, bool first)
{
	int err;

	sum->piece_bytes = sum->left < PIECE_BYTES ? sum->left : PIECE_BYTES;
	err = ini_io_start(sum->volume, &(struct ini_io){.opcode = RBLK_OP_CHECKSUM,
							 .bytes = sum->piece_bytes,
							 .offset = sum->offset,
							 .piece = true,
							 .waits = !first,
							 .done = piece_done,
							 .arg = sum});
	if (err)
		return err;
	sum->offset += sum->piece_bytes;
	sum->left -= sum->piece_bytes;
	return 0;
}

/* The times are the slowest piece's. */
static void piece_add(struct ini_checksum *sum, const struct rblk_result *result)
{
	struct rblk_result *all = &sum->result;

	all->error = result->error;
	all->status = result->status;
	all->value = result->error ? 0 : rblk_digest_combine((u32)all->value, (u32)result->value, sum->piece_bytes);
	if (result->queued_us > all->queued_us)
		all->queued_us = result->queued_us;
	if (result->stored_us > all->stored_us)
		all->stored_us = result->stored_us;
}

static void piece_done(void *arg, const struct rblk_result *result)
{
	struct ini_checksum *sum = arg;
	struct rblk_result all;

	piece_add(sum, result);
	if (!sum->result.error && sum->left) {
		sum->result.error = sum->stopped ? -ECANCELED : piece_start(sum, false);
		if (!sum->result.error)
			return;
	}
	all = sum->result;
	sum->volume->session->events.told++;
	sum->done(sum->arg, &all);
	free(sum);
}

bool ini_checksum_stops(rblk_callback done, void *arg, const struct ini_origin *origin)
{
	struct ini_checksum *sum = arg;

	if (done != piece_done || sum->done != origin->done || sum->arg != origin->arg)
		return false;
	sum->stopped = true;
	return true;
}

static int start_long(struct rblk_volume *volume, u64 bytes, u64 offset, rblk_callback done, void *arg)
{
	struct ini_checksum *sum = malloc(sizeof(*sum));
	int err;

	if (!sum)
		return -ENOMEM;
	*sum = (struct ini_checksum){.volume = volume, .offset = offset, .left = bytes, .done = done, .arg = arg};
	err = piece_start(sum, true);
	if (err)
		free(sum);
	return err;
}

int rblk_checksum(struct rblk_volume *volume, uint64_t bytes, uint64_t offset, rblk_callback done, void *arg)
{
	const struct ini_ask ask = {.able = volume->info.can_checksum, .done = done};
	const char *what = rblk_opcode_name(RBLK_OP_CHECKSUM);
	int err = ini_io_check(volume, what, &ask);

	if (!err)
		err = ini_io_check_range(volume, what, bytes, offset, UINT64_MAX);
	if (err)
		return err;
	if (bytes > PIECE_BYTES)
		return start_long(volume, bytes, offset, done, arg);
	return ini_io_start(volume, &(struct ini_io){.opcode = RBLK_OP_CHECKSUM,
						     .bytes = bytes,
						     .offset = offset,
						     .done = done,
						     .arg = arg});
}
