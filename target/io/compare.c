/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * COMPARE_AND_WRITE. It gets all of its data from the initiator first, then locks its range
 * (store/range_lock.h), reads in pieces, compares, and writes. The range lock makes that one step: no other writing
 * command of the volume runs on that range meanwhile, of any session, on any reactor. A store that other targets serve,
 * too, does it as one step among all of theirs (TGT_IO_COMPARE).
 */
#include "target/io/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/quota.h"
#include "target/io/request.h"
#include "target/io/share.h"
#include "target/store/pool.h"
#include "target/store/range_lock.h"
#include "target/store/submit.h"

/* How much is read and compared at a time. If the session, which holds the data, may have no
 * second block of the pool, this memory is used: in a pool with only one block the command would
 * be BUSY for ever. */
#define PIECE_BYTES 65536u
#define SPARE_BYTES TGT_POOL_PAGE

/* Exists from the data's arrival to the answer. Each has its own allocation: there are few (F8
 * bounds them per session), and other requests need not carry these fields. */
struct tgt_compare {
	struct tgt_range_lock range_lock; /* first: leads back here */
	struct tgt_request *request;
	char *piece; /* of the session's memory; NULL: the store's own memory is compared */
	uint32_t piece_bytes;
	bool spare; /* memory outside of the pool; bounded by compares_quota */
	uint32_t compared; /* bytes found to be as expected so far */
	bool writing;	   /* handed to the store: it runs on */
};

/* -- the end ----------------------------------------------------------------------------------- */

void tgt_compare_release(struct tgt_request *request)
{
	struct tgt_compare *compare = request->compare;

	request->compare = NULL;
	if (compare->range_lock.channel)
		tgt_range_lock_end(&compare->range_lock);
	if (compare->spare) {
		free(compare->piece);
	} else if (compare->piece) {
		tgt_portion_give(request->access->portion, compare->piece_bytes);
		tgt_share_free(request->io_queue, compare->piece, compare->piece_bytes, false);
	}
	request->io_queue->share->compares--;
	free(compare);
}

static void compare_finish(struct tgt_request *request, enum rblk_status status)
{
	tgt_compare_release(request);
	if (request->io_queue->open) {
		tgt_request_complete(request, status);
		return;
	}
	/* F8: the retry is told what this one did. */
	tgt_request_end_operation(request, status);
	tgt_request_drop(request);
}

/* -- data in ----------------------------------------------------------------------------------- */

void tgt_compare_begin(struct tgt_request *request)
{
	if (request->data)
		tgt_request_hold_capsule(request);
	tgt_request_get_memory(request, request->length);
}

void tgt_compare_with_memory(struct tgt_request *request)
{
	if (tgt_request_move_capsule(request))
		tgt_request_data_in(request);
	else
		tgt_request_fetch(request);
}

static void compare_granted(struct tgt_range_lock *range_lock);

/* The store does it in one step. */
static bool compare_is_stores(const struct tgt_request *request)
{
	return tgt_request_volume(request)->store->info.compare_bytes;
}

/*
 * Each session may have so many, from their range lock on; one more is answered BUSY. So one session cannot take all
 * range locks of a volume.
 */
static const struct tgt_quota compares_quota = {.each = 16};

/* Allocates what it needs from now on. NULL: it was answered. */
static struct tgt_compare *compare_create(struct tgt_request *request)
{
	struct tgt_share *share = request->io_queue->share;
	uint32_t bytes = (uint32_t)tgt_request_bytes(request);
	bool allowed = tgt_quota_allows(&compares_quota, 0, share->compares);
	struct tgt_compare *compare = allowed ? calloc(1, sizeof(*compare)) : NULL;

	if (!compare) {
		tgt_request_complete(request, allowed ? RBLK_E_NO_RESOURCES : RBLK_E_BUSY);
		return NULL;
	}
	share->compares++;
	request->compare = compare;
	compare->request = request;
	compare->range_lock.grant = compare_granted;
	if (tgt_request_volume(request)->store->info.direct || compare_is_stores(request))
		return compare;
	compare->piece_bytes = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
	compare->piece = tgt_share_alloc(request->io_queue, request->access->portion, compare->piece_bytes);
	if (compare->piece)
		return compare;
	compare->piece_bytes = SPARE_BYTES;
	compare->piece = aligned_alloc(TGT_POOL_PAGE, SPARE_BYTES);
	compare->spare = true;
	if (compare->piece)
		return compare;
	compare_finish(request, RBLK_E_NO_RESOURCES);
	return NULL;
}

/* -- one step ---------------------------------------------------------------------------------- */

static void compare_submit(struct tgt_request *request, enum tgt_io_kind kind, uint32_t flags,
			   uint32_t done, uint32_t bytes, char *buffer)
{
	struct tgt_io *io = &request->io;

	io->kind = kind;
	io->flags = flags;
	io->offset = tgt_request_offset(request) + done;
	io->bytes = bytes;
	tgt_request_submit(request, buffer, tgt_request_withdraw);
}

static void compare_write(struct tgt_request *request)
{
	uint32_t flags = TGT_IO_LOCKED | (request->flags & RBLK_CMD_FUA ? TGT_IO_FUA : 0);
	uint32_t alignment = tgt_request_volume(request)->store->info.alignment;
	uint32_t bytes = (uint32_t)tgt_request_bytes(request);
	char *data = request->data + bytes;

	/* The expected data is no longer needed. Some devices need memory aligned to more than a
	 * block. */
	if (alignment && (uintptr_t)data % alignment)
		data = memmove(request->data, data, bytes);
	request->compare->writing = true;
	compare_submit(request, TGT_IO_WRITE, flags, 0, bytes, data);
}

/* The next bytes of the volume were read. False: they differ, and it has been answered. */
static bool compare_piece(struct tgt_request *request, const char *found, uint32_t bytes)
{
	struct tgt_compare *compare = request->compare;
	const char *expected = request->data + compare->compared;
	uint32_t same = 0;

	if (!memcmp(found, expected, bytes)) {
		compare->compared += bytes;
		return true;
	}
	while (found[same] == expected[same])
		same++;
	request->result = compare->compared + same;
	compare_finish(request, RBLK_E_COMPARE);
	return false;
}

static void compare_next(struct tgt_request *request)
{
	const char *direct = tgt_request_volume(request)->store->info.direct;
	struct tgt_compare *compare = request->compare;
	uint32_t left = (uint32_t)tgt_request_bytes(request) - compare->compared;

	if (direct && !compare_piece(request, direct + tgt_request_offset(request), left))
		return;
	if (direct || !left) {
		compare_write(request);
		return;
	}
	if (left > compare->piece_bytes)
		left = compare->piece_bytes;
	compare_submit(request, TGT_IO_READ, 0, compare->compared, left, compare->piece);
}

static void compare_at_store(struct tgt_request *request)
{
	uint32_t flags = TGT_IO_COMPARE | (request->flags & RBLK_CMD_FUA ? TGT_IO_FUA : 0);

	request->compare->writing = true;
	compare_submit(request, TGT_IO_WRITE, flags, 0, (uint32_t)tgt_request_bytes(request), request->data);
}

static void compare_granted(struct tgt_range_lock *range_lock)
{
	compare_next(((struct tgt_compare *)range_lock)->request);
}

/* It waits for its range lock, which ends when the request is answered or released. */
static bool range_lock_leave(struct tgt_request *request)
{
	return true;
}

void tgt_compare_data_in(struct tgt_request *request)
{
	struct tgt_compare *compare = compare_create(request);
	int held;

	if (!compare || !tgt_request_begin_storing(request))
		return;
	if (compare_is_stores(request)) {
		compare_at_store(request);
		return;
	}
	request->leave = range_lock_leave;
	held = tgt_range_lock_begin(&request->access->channel->range_locks, &compare->range_lock,
				    request->io_queue->share->host->number, tgt_request_offset(request),
				    (uint32_t)tgt_request_bytes(request));
	if (held < 0)
		compare_finish(request, RBLK_E_BUSY);
	else if (held)
		compare_next(request);
}

void tgt_compare_stored(struct tgt_request *request, int error)
{
	struct tgt_compare *compare = request->compare;

	if (!error && compare_is_stores(request) && request->io.progress < request->io.bytes) {
		request->result = request->io.progress;
		compare_finish(request, RBLK_E_COMPARE);
		return;
	}
	/* One that has begun to write was done in part, whatever its error says. */
	if (compare->writing)
		compare_finish(request, error == -ENOMEM ? RBLK_E_IO : tgt_status_of_errno(error));
	else if (request->aborted || !request->io_queue->open)
		compare_finish(request, RBLK_E_ABORTED); /* as ABORT asked, whatever its read returned */
	else if (error)
		compare_finish(request, tgt_status_of_errno(error));
	else if (compare_piece(request, compare->piece, (uint32_t)request->io.bytes))
		compare_next(request);
}

/* -- ending it early --------------------------------------------------------------------------- */

/* Can it still end without having written? */
bool tgt_compare_may_abort(const struct tgt_request *request)
{
	return !request->compare->writing;
}
